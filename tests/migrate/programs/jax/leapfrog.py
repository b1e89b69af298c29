"""Hamiltonian paths by a scan."""
import jax, jax.numpy as jnp
from jax import random, lax, grad, jit, vmap
import numpy as onp
from functools import partial
jax.config.update("jax_enable_x64", True)
def log_prob(x): return -0.5*jnp.sum(x**2) - 0.1*jnp.sum(x**4)
@partial(jit, static_argnums=(2,))
def leapfrog(x, p, steps, eps):
    def body(carry, _):
        x, p = carry
        p = p + 0.5*eps*grad(log_prob)(x)
        x = x + eps*p
        p = p + 0.5*eps*grad(log_prob)(x)
        return (x, p), x
    (x, p), path = lax.scan(body, (x, p), None, length=steps)
    return x, p, path
x, p, path = leapfrog(jnp.array([1.0,-1.0]), jnp.array([0.5,0.2]), 10, 0.1)
print(x, p, path.shape)
key = random.PRNGKey(0)
keys = random.split(key, 5)
print(vmap(lambda k: random.normal(k, (2,)))(keys).shape)
