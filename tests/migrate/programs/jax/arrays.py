"""Immutable arrays."""
import jax.numpy as np
from jax import numpy as jnp
from jax.numpy import linalg as la

x = jnp.zeros((2, 3))
x = x.at[0, :].set(1.0).at[1, 2].add(5.0)
print(x)
print(np.concatenate([x[0], x[1]]), jnp.linalg.norm(x[0]) ** 2)
print(jnp.round(la.solve(jnp.array([[2.0, 0.0], [1.0, 3.0]]), jnp.array([2.0, 7.0])), 4))
print(jnp.where(x > 0, x, -1.0).sum(axis=0), isinstance(x, jnp.ndarray))
