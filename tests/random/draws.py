"""Every draw, as a function of its key: small enough for loops, large enough to meet every branch."""

from collections.abc import Callable
from typing import Any

import numpy as np

import afx
from afx import random

BOUNDS = np.array([-1.0, 2.0, 20.0])
HIGH = np.array([1, 7, 2**40])

DRAWS: dict[str, Callable[[Any], Any]] = {
    "bits": lambda k: random.bits(k, (3, 50)),
    "bits of 64": lambda k: random.bits(k, 40, dtype=afx.uint64),
    "split": lambda k: random.split(k, 4),
    "fold_in": lambda k: random.fold_in(k, 3),
    "uniform": lambda k: random.uniform(k, (3, 50)),
    "one uniform": random.uniform,
    "uniform between": lambda k: random.uniform(k, (3, 50), np.float64(-1), 5.0),
    "normal": lambda k: random.normal(k, (3, 50)),
    "one normal": random.normal,
    "normal in float64": lambda k: random.normal(k, (50,), 1.0, np.arange(50.0)),
    "normal in float16": lambda k: random.normal(k, 40, dtype=afx.float16),
    "randint": lambda k: random.randint(k, 0, HIGH, (40, 3)),
    "randint in int8": lambda k: random.randint(k, -100, 100, 40, dtype=afx.int8),
    "bernoulli": lambda k: random.bernoulli(k, 0.3, 100),
    "rademacher": lambda k: random.rademacher(k, 100),
    "exponential": lambda k: random.exponential(k, (3, 50), 2.0),
    "laplace": lambda k: random.laplace(k, 50, 1.0, 2.0),
    "logistic": lambda k: random.logistic(k, 50, 1.0, 2.0),
    "cauchy": lambda k: random.cauchy(k, 50, 1.0, 2.0),
    "gumbel": lambda k: random.gumbel(k, 50, 1.0, 2.0),
    "lognormal": lambda k: random.lognormal(k, 50, 1.0, 2.0),
    "rayleigh": lambda k: random.rayleigh(k, 50, 2.0),
    "weibull": lambda k: random.weibull(k, 1.5, 50, 2.0),
    "pareto": lambda k: random.pareto(k, 1.5, 50, 2.0),
    "truncated normal": lambda k: random.truncated_normal(k, BOUNDS, np.inf, (50, 3)),
    "categorical": lambda k: random.categorical(k, np.log([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]), (50, 2)),
    "permutation": lambda k: random.permutation(k, 50),
    "shuffle": lambda k: random.permutation(k, np.arange(40.0).reshape(2, 20), 1),
    "choice": lambda k: random.choice(k, 9, (5, 4)),
    "choice by probabilities": lambda k: random.choice(k, np.arange(3.0), (5, 4), p=np.array([0.2, 0.3, 0.5])),
    "choice of distinct": lambda k: random.choice(k, 40, 30, replace=False),
    "choice of distinct by probabilities": lambda k: random.choice(k, 40, 30, replace=False, p=np.arange(40.0)),
    "gamma": lambda k: random.gamma(k, np.array([0.05, 0.9, 1.0, 40.0]), (20, 4), 2.0),
    "loggamma": lambda k: random.loggamma(k, 1e-4, (3, 20)),
    "beta": lambda k: random.beta(k, 0.5, 2.0, 50),
    "chisquare": lambda k: random.chisquare(k, 3, 50),
    "t": lambda k: random.t(k, 3, 50),
    "f": lambda k: random.f(k, 3.0, 4.0, 50),
    "dirichlet": lambda k: random.dirichlet(k, np.array([0.3, 1.0, 5.0]), 20),
    "poisson": lambda k: random.poisson(k, np.array([0.0, 0.5, 9.0, 11.0, 1e6]), (30, 5)),
    "binomial": lambda k: random.binomial(k, np.array([3, 40, 40, 1000]), np.array([0.5, 0.1, 0.6, 0.4]), (30, 4)),
    "geometric": lambda k: random.geometric(k, np.array([1e-9, 0.3, 1.0]), (30, 3)),
    "negative_binomial": lambda k: random.negative_binomial(k, 2.5, 0.2, 40),
    "multinomial": lambda k: random.multinomial(k, 30, np.array([0.2, 0.3, 0.0, 0.5]), 10),
    "multivariate_normal": lambda k: random.multivariate_normal(k, np.ones(2), np.array([[2.0, 1.0], [1.0, 3.0]]), 20),
    "orthogonal": lambda k: random.orthogonal(k, 4, 2),
    "sphere": lambda k: random.sphere(k, 3, 10),
    "ball": lambda k: random.ball(k, 3, 10),
}
