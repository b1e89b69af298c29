"""Fit a network to a curve by Adam, from data that are filled in place."""

import autograd.numpy as np
import autograd.numpy.random as npr
from autograd import grad
from autograd.misc.flatten import flatten
from autograd.misc.optimizers import adam


def init_random_params(scale, layer_sizes, rs=npr.RandomState(0)):
    return [
        (rs.randn(m, n) * scale, rs.randn(n) * scale) for m, n in zip(layer_sizes[:-1], layer_sizes[1:])
    ]


def predict(params, inputs):
    for w, b in params:
        outputs = np.dot(inputs, w) + b
        inputs = np.tanh(outputs)
    return outputs


def build_data(n):
    npr.seed(1)
    inputs = np.zeros((n, 2))
    inputs[:, 0] += np.linspace(-2, 2, n)
    inputs[:, 1] = npr.rand(n)
    return inputs, np.cos(inputs[:, :1]) + npr.randn(n, 1) * 0.1


if __name__ == "__main__":
    inputs, targets = build_data(20)
    init_params = init_random_params(0.5, [2, 4, 1])

    def objective(params, t):
        return np.mean((predict(params, inputs) - targets) ** 2) + 1e-3 * np.dot(*[flatten(params)[0]] * 2)

    def callback(params, t, g):
        if t % 20 == 0:
            print("Iteration {} loss {:.9f} gradient {:.9f}".format(t, objective(params, t), np.linalg.norm(g[0][0])))

    params = adam(grad(objective), init_params, step_size=0.01, num_iters=60, callback=callback)
    params[0][0][0] = 0.0
    print(np.round(flatten(params)[0], 8))
