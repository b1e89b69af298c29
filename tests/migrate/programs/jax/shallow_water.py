"""A finite volume scheme, with slices of XLA's."""
import jax
import jax.numpy as jnp
from jax import lax

jax.config.update("jax_enable_x64", True)
n, dx, dt = 64, 1.0 / 64, 0.002
x = (jnp.arange(n) + 0.5) * dx
h = 1.0 + 0.2 * jnp.exp(-100.0 * (x - 0.5) ** 2)
state = jnp.stack([h, jnp.zeros(n)])


def flux(u):
    height, momentum = u
    return jnp.stack([momentum, lax.add(lax.div(lax.mul(momentum, momentum), height), 0.5 * 9.81 * lax.square(height))])


def step(i, u):
    left, right = jnp.roll(u, 1, axis=1), jnp.roll(u, -1, axis=1)
    return 0.5 * (left + right) - dt / (2 * dx) * (flux(right) - flux(left))


@jax.jit
def run(u):
    return lax.fori_loop(0, 50, step, init_val=u)


final = run(state)
print(final[0, ::16], final.sum(axis=1) * dx)
print(lax.dynamic_slice(final, (0, 60), (2, 8))[0, :3], lax.dynamic_slice_in_dim(final, 5, 2, axis=1)[1])
print(lax.dynamic_update_slice(jnp.zeros((2, 4)), jnp.ones((1, 2)), (1, 9)), lax.cumsum(final[0, :4]))
print(jnp.diagonal(jnp.arange(24.0).reshape(2, 3, 4)).shape)
print(jax.jacobian(lambda s: run(state * s)[0, 0])(1.0))
