"""Derivatives of a function."""
import jax
import jax.numpy as jnp
from jax import grad, jit, vmap


def selu(x, alpha=1.67, lmbda=1.05):
    return lmbda * jnp.where(x > 0, x, alpha * jnp.exp(x) - alpha)


x = jnp.arange(5.0)
print(jit(selu)(x))


def sum_logistic(x):
    return jnp.sum(1.0 / (1.0 + jnp.exp(-x)))


print("%.5f" % grad(grad(jit(grad(lambda x: jnp.tanh(x)))))(1.0))
print(jnp.round(grad(sum_logistic)(jnp.arange(3.0)), 4))
print(jnp.round(jax.jacfwd(lambda x: jnp.stack([x[0] * x[1], x[1] ** 2]))(jnp.array([2.0, 3.0])), 4))
print(vmap(lambda v: jnp.dot(v, v))(jnp.ones((3, 2))))
