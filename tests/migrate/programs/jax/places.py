"""Places that are rounded or searched: JAX reads the nearest element of an array, and leaves out updates outside of it."""

import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)

xs = jnp.linspace(0.0, 1.0, 6)
values = jnp.array([0.5, -1.25, 2.0, 3.5, -0.75, 1.0])
q = jnp.array([-0.1, 0.35, 0.99, 1.5])
print(values[jnp.searchsorted(xs, q)])


@jax.jit
def lookup(table, x):
    i = jnp.floor(x / 0.25).astype(int)
    t = x / 0.25 - i
    return (1 - t) * table[i] + t * table[i + 1]


print(jax.vmap(lookup, (None, 0))(values, jnp.linspace(0, 2.0, 5)), jax.grad(lookup, 1)(values, 1.125))


def histogram(x):
    k = (x * 4).astype(jnp.int64)
    return jnp.zeros(4).at[k].add(1.0)


print(histogram(jnp.array([0.1, 0.3, 0.3, 1.2])), jax.jit(histogram)(jnp.array([0.1, 0.3, -0.6, 1.2])))


class Grid:
    def __init__(self, n):
        self.mass = jnp.zeros((n, n))
        self.h = 1 / n

    def deposit(self, pos, m):
        cell = jnp.floor(pos / self.h).astype(int)
        return self.mass.at[cell[:, 0], cell[:, 1]].add(m)


print(Grid(3).deposit(jnp.array([[0.1, 0.5], [0.9, 1.4]]), jnp.array([1.0, 2.0])))
bins = jnp.digitize(q, xs)
print(values[bins], bins)


def bilinear(table, u):
    i = jnp.floor(u * 3).astype(int)
    i0, i1 = i, i + 1
    w = u * 3 - i0
    return table[i0] * (1 - w) + table[i1] * w


us = jnp.array([0.1, 0.5, 1.0, 2.25])
print(bilinear(values, us), jax.grad(lambda t: bilinear(t, us).sum())(values))  # what is read outside has no gradient
