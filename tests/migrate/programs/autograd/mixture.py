"""Fit a mixture by SciPy, whose objective has shape (1,), with draws from np.random."""

from scipy.optimize import minimize

import autograd.numpy as np
import autograd.scipy.stats.norm as norm
from autograd import value_and_grad
from autograd.misc import flatten
from autograd.scipy.special import expit as sigmoid
from autograd.scipy.special import logsumexp

np.random.seed(3)
data = np.concatenate([np.random.randn(30) - 2.0, np.random.normal(2.0, 0.5, size=20)])
np.random.shuffle(data)


def unpack(params):
    return sigmoid(params["share"]), params["means"], np.exp(params["scales"])


def log_likelihood(params):
    share, means, scales = unpack(params)
    parts = np.stack([np.log(w) + norm.logpdf(data, m, s) for w, m, s in zip((share, 1.0 - share), means, scales)])
    return np.sum(logsumexp(parts, axis=0)).reshape(1)


start = {"share": np.zeros(()), "means": np.array([-1.0, 1.0]), "scales": np.zeros(2)}
flat, unflatten = flatten(start)
result = minimize(value_and_grad(lambda x: -log_likelihood(unflatten(x))), flat, jac=True, method="BFGS")
share, means, scales = unpack(unflatten(result.x))
print("%.5f" % result.fun)
print(np.round(share, 4), np.round(means, 4), np.round(scales, 4))
