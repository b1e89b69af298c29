"""Regression by a Gaussian process, with SciPy's factorizations."""
import jax.numpy as jnp
import jax.scipy as jsp
import numpy as np
from jax import config, grad, jit, vmap

config.update("jax_enable_x64", True)
x = jnp.linspace(0.0, 5.0, 20)
y = jnp.sin(x) + 0.1 * jnp.asarray(np.cos(np.arange(20) * 5.0))


def kernel(a, b, theta):
    return jnp.exp(theta[0]) * jnp.exp(-0.5 * ((a - b) / jnp.exp(theta[1])) ** 2)


def gram(a, b, theta):
    return vmap(lambda s: vmap(lambda t: kernel(s, t, theta))(b))(a)


def loss(theta):
    K = gram(x, x, theta) + jnp.exp(theta[2]) * jnp.eye(len(x))
    U = jsp.linalg.cholesky(K)
    alpha = jsp.linalg.solve_triangular(U, y, trans=1)
    return 0.5 * jnp.sum(alpha**2) + jnp.sum(jnp.log(jnp.diagonal(U))) + 0.5 * len(x) * jnp.log(2 * jnp.pi)


theta = jnp.array([0.1, -0.2, -2.0])
step = jit(lambda t: t - 0.02 * grad(loss)(t))
for k in range(30):
    theta = step(theta)
print(theta, loss(theta))
L = jsp.linalg.cholesky(gram(x, x, theta) + jnp.exp(theta[2]) * jnp.eye(20), lower=True)
print(jnp.abs(jnp.triu(L, 1)).max(), L[3, :4])
Q, R = jsp.linalg.qr(gram(x, x[:3], theta))
print(Q.shape, R.shape, jsp.special.softmax(jnp.ones((2, 2))))
