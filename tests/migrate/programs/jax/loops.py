"""Control flow."""
import jax
import jax.numpy as jnp
from jax import lax


def cumulative(carry, x):
    carry = carry + x
    return carry, carry * 2.0


print(lax.scan(cumulative, 0.0, jnp.arange(4.0)))
print(lax.while_loop(lambda s: s < 10, lambda s: s * 3, 1))
print(lax.cond(True, lambda x: x + 1.0, lambda x: x - 1.0, 2.0), lax.switch(1, [jnp.sin, jnp.negative], 3.0))
print(jax.lax.fori_loop(0, 4, lambda i, c: c + i, 0), lax.associative_scan(jnp.add, jnp.arange(4.0)))
print(jax.grad(lambda x: x * lax.stop_gradient(x))(3.0))
