"""Differentiate a fixed point, and the solution of a differential equation by its parameters."""

import autograd
import autograd.numpy as np
from autograd.builtins import tuple
from autograd.misc.fixed_points import fixed_point
from autograd.misc.optimizers import sgd
from autograd.scipy.integrate import odeint


def sqrt(a, guess=10.0):
    def step(a):
        return lambda x: x - 0.05 * (x**2 - a)

    return fixed_point(step, a, guess, lambda x, y: np.abs(x - y), 1e-4)


print(sqrt(2.0), autograd.grad(sqrt)(2.0), autograd.grad(autograd.grad(sqrt))(2.0))

t = np.linspace(0.0, 2.0, 3)
true_y = np.stack([np.exp(-t) * np.cos(2.0 * t), -np.exp(-t) * np.sin(2.0 * t)], axis=1)


def func(y, t, a, b):
    return np.stack([-a * y[0] + b * y[1], -b * y[0] - a * y[1]])


def loss(params, i):
    solution = odeint(func, true_y[0], t, tuple((params[0], params[1])), rtol=1e-9, atol=1e-10)
    return np.mean((solution - true_y) ** 2)


def show(params, i, g):
    if i == 1:
        print(i, "%.6f" % loss(params, i))


params = sgd(autograd.grad(loss), np.array([0.5, 1.5]), show, num_iters=2, step_size=0.5)
print(np.round(params, 6))
