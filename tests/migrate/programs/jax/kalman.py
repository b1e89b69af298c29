"""A Kalman filter by a scan, and the gradient of its likelihood."""
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.linalg import cho_factor, cho_solve

jax.config.update("jax_enable_x64", True)

A = jnp.array([[1.0, 0.1], [0.0, 0.98]])
H = jnp.array([[1.0, 0.0]])
y = jnp.asarray(np.sin(np.arange(40) * 0.2) + 0.1 * np.cos(np.arange(40) * 7.0))[:, None]


def log_likelihood(params):
    Q = jnp.exp(params["q"]) * jnp.eye(2)
    R = jnp.exp(params["r"]) * jnp.eye(1)

    def step(carry, obs):
        mean, cov, total = carry
        mean, cov = A @ mean, A @ cov @ A.T + Q
        S = H @ cov @ H.T + R
        v = obs - H @ mean
        factor = cho_factor(S)
        gain = cho_solve(factor, H @ cov).T
        total = total - 0.5 * (v @ cho_solve(factor, v) + jnp.linalg.slogdet(S)[1] + jnp.log(2 * jnp.pi))
        return (mean + gain @ v, cov - gain @ H @ cov, total), mean[0]

    (mean, cov, total), path = lax.scan(f=step, init=(jnp.zeros(2), jnp.eye(2), 0.0), xs=y)
    return total, path


params = {"q": jnp.array(-3.0), "r": jnp.array(-2.0)}
(value, path), grads = jax.jit(jax.value_and_grad(log_likelihood, has_aux=True))(params)
print(value, path[::10])
print(grads["q"], grads["r"])
