"""Products with Jacobians and Hessians."""
import jax
import jax.numpy as jnp
from jax import jvp, vjp


def f(x):
    return jnp.sin(x) * x[::-1]


x = jnp.array([0.5, 1.0, 1.5])
y, tangent = jvp(f, (x,), (jnp.ones(3),))
print(jnp.round(y, 4), jnp.round(tangent, 4))
_, pullback = vjp(f, x)
print(jnp.round(pullback(jnp.ones(3))[0], 4))
hvp = lambda v: jvp(jax.grad(lambda x: jnp.sum(f(x))), (x,), (v,))[1]
print(jnp.round(hvp(jnp.ones(3)), 4), jnp.round(jax.hessian(lambda x: jnp.sum(x**3))(x).diagonal(), 4))
