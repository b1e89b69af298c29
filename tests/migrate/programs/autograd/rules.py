"""Give a function rules of its own, and check them."""

import autograd.numpy as np
import autograd.numpy.random as npr
from autograd import grad, hessian_vector_product
from autograd.extend import defvjp, primitive
from autograd.test_util import check_grads


@primitive
def logsumexp(x):
    """Numerically stable log(sum(exp(x)))"""
    largest = np.max(x)
    shifted = np.empty(len(x))
    shifted[:] = x - largest
    return largest + np.log(np.sum(np.exp(shifted)))


def logsumexp_vjp(ans, x):
    shape = x.shape
    return lambda g: np.full(shape, g) * np.exp(x - np.full(shape, ans))


defvjp(logsumexp, logsumexp_vjp)


@primitive
def scaled(x, name, y):
    return x * y if name == "product" else x


defvjp(scaled, lambda ans, x, name, y: lambda g: g * y, lambda ans, x, name, y: lambda g: g * x, argnums=(0, 2))

npr.seed(0)
x = npr.randn(5)
v = npr.randn(5)


def example(y):
    return np.sum(logsumexp(scaled(y, "product", y)))


print(grad(example)(x))
print(hessian_vector_product(example)(x, v))
check_grads(example, modes=["rev"], order=2)(x)
print(grad(lambda y: scaled(2.0, "product", y))(3.0))
