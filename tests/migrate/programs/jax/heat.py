"""The heat equation on a grid, and convolutions."""
import jax.numpy as jnp, jax
jax.config.update("jax_enable_x64", True)
from jax import lax, jit
import functools
@functools.partial(jax.jit, static_argnames=["n"])
def solve(u, n, nu=0.1):
    def body(i, u):
        lap = jnp.roll(u,1,0)+jnp.roll(u,-1,0)+jnp.roll(u,1,1)+jnp.roll(u,-1,1)-4*u
        return u + nu*lap
    return lax.fori_loop(0, n, body, u)
X, Y = jnp.meshgrid(jnp.linspace(0,1,16), jnp.linspace(0,1,16), indexing="ij")
u0 = jnp.exp(-50*((X-.5)**2+(Y-.5)**2))
u = solve(u0, n=20)
print(u.sum(), u.max())
g = jax.grad(lambda nu: (solve(u0, 20, nu)**2).sum())(0.1)
print(g)
k = jnp.ones((3,3))/9
print(jax.scipy.signal.convolve2d(u, k, mode="same")[8,8], jax.scipy.signal.convolve(jnp.arange(4.0), jnp.ones(2)))
