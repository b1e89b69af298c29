"""Newton's method in a while loop, and conjugate gradients."""
import jax
import jax.numpy as jnp
from jax.scipy.sparse.linalg import cg

jax.config.update("jax_enable_x64", True)


def rosenbrock(x):
    return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


@jax.jit
def minimize(x):
    def going(carry):
        x, k = carry
        return (jnp.linalg.norm(jax.grad(rosenbrock)(x)) > 1e-9) & (k < 100)

    def step(carry):
        x, k = carry
        return x - jnp.linalg.solve(jax.hessian(rosenbrock)(x), jax.grad(rosenbrock)(x)), k + 1

    return jax.lax.while_loop(cond_fun=going, body_fun=step, init_val=(x, 0))


x, k = minimize(jnp.array([1.2, 1.1, 1.3, 1.2]))
print(jnp.round(x, 8), k)
A = jnp.diag(jnp.arange(1.0, 7.0)) + 0.1
z, info = cg(lambda v: A @ v, jnp.ones(6), tol=1e-12)
print(jnp.round(z, 8), jnp.abs(A @ z - 1).max() < 1e-8)
jax.debug.print("{v}", v=jnp.array(2.0))
print(jax.device_put(jnp.ones(2)), jax.block_until_ready(z).shape)
q, rest = jnp.polydiv(jnp.array([1.0, 2.0, 3.0]), jnp.array([1.0, 1.0]))
print(q, rest)
