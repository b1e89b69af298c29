"""Draws from keys."""
import jax
import jax.random as jr
from jax import random

key = random.PRNGKey(0)
key, subkey = random.split(key)
draws = random.normal(subkey, (1000,))
print(draws.shape, abs(draws.mean()) < 0.2, abs(draws.std() - 1.0) < 0.2)
numbers = jr.uniform(key, (100,), minval=2.0, maxval=3.0)
print(bool((numbers >= 2.0).all()), bool((numbers < 3.0).all()))
whole = jax.random.randint(key, (50,), 0, 5)
print(whole.shape, int(whole.max()) < 5)
