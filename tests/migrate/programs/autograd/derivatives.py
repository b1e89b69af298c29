"""Derivatives of many kinds, and a descent by RMSProp over a dictionary."""

import autograd.numpy as np
import autograd.numpy.random as npr
from autograd import deriv, elementwise_grad, grad, grad_named, hessian, jacobian, make_jvp, make_vjp
from autograd.misc.optimizers import rmsprop
from autograd.tracer import getval

rs = npr.RandomState(4)
A = rs.randn(3, 3)


def f(x, scale=1.0):
    return np.tanh(np.dot(A, x)) * scale


x = rs.rand(3)
vjp, value = make_vjp(f)(x, scale=2.0)
print(value, vjp(np.ones(3)))
print(make_jvp(f)(x)(np.array([1.0, 0.0, 0.0])))
print(jacobian(f)(x))
print(hessian(lambda x: np.sum(f(x) ** 2))(x))
print(grad_named(lambda x, scale: np.sum(f(x, scale)), "scale")(x, 2.0), deriv(np.sin)(0.5))
print(elementwise_grad(elementwise_grad(np.tanh))(np.array([0.1, 0.7])))
print(grad(lambda x: np.sum(x * getval(x)))(x))


def loss(params, i):
    return np.sum((f(params["x"], params["scale"]) - 0.5) ** 2)


found = rmsprop(grad(loss), {"x": x, "scale": 1.0}, None, num_iters=20, step_size=0.02)
print(np.round(found["x"], 8), np.round(found["scale"], 8), "%.9f" % loss(found, 0))
