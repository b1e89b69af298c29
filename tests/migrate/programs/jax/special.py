"""SciPy's functions."""
import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln, logsumexp
from jax.scipy.stats import norm

x = jnp.array([0.5, 1.5, 2.5])
print(jnp.round(gammaln(x), 4), jnp.round(logsumexp(x), 4))
print(jnp.round(norm.logpdf(x, 1.0, 2.0), 4), jnp.round(jax.grad(lambda m: norm.logpdf(x, m).sum())(1.0), 4))
print(jnp.round(jax.nn.softmax(x), 4), jax.nn.relu(x - 1.0))
