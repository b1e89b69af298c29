"""Random numbers: keys as values, and draws as pure functions of them.

A draw takes a key, then the parameters that it cannot do without, then the shape and parameters that have a usual value.
The same key gives the same numbers: in a loop and under `afx.vmap`, plain and under `afx.jit`, bit for bit (vectors that
are made of sums, such as `dirichlet`, to rounding); on another machine the same bits and integers, and floats to the
last digits.

Draws of floats are differentiable in their parameters (reparameterised); draws of integers, categories and orders have
no derivative.

>>> key = afx.random.key(0)
>>> first, second = afx.random.split(key)
>>> afx.random.normal(first, (2, 3)).shape
(2, 3)
>>> afx.random.uniform(second, low=np.zeros(4), high=2.0).shape
(4,)
"""

from typing import TYPE_CHECKING

from afx.errors import refuse_names
from afx.random.continuous import (
    beta,
    cauchy,
    chisquare,
    dirichlet,
    exponential,
    f,
    gamma,
    generalized_normal,
    gumbel,
    laplace,
    loggamma,
    logistic,
    lognormal,
    maxwell,
    pareto,
    rayleigh,
    t,
    triangular,
    truncated_normal,
    wald,
    weibull,
    weibull_min,
)
from afx.random.discrete import (
    ball,
    binomial,
    categorical,
    choice,
    geometric,
    multinomial,
    multivariate_normal,
    negative_binomial,
    orthogonal,
    permutation,
    poisson,
    sphere,
)
from afx.random.keys import bernoulli, bits, fold_in, key, normal, rademacher, randint, split, uniform

__all__ = [
    "ball",
    "bernoulli",
    "beta",
    "binomial",
    "bits",
    "categorical",
    "cauchy",
    "chisquare",
    "choice",
    "dirichlet",
    "exponential",
    "f",
    "fold_in",
    "gamma",
    "generalized_normal",
    "geometric",
    "gumbel",
    "key",
    "laplace",
    "loggamma",
    "logistic",
    "lognormal",
    "maxwell",
    "multinomial",
    "multivariate_normal",
    "negative_binomial",
    "normal",
    "orthogonal",
    "pareto",
    "permutation",
    "poisson",
    "rademacher",
    "randint",
    "rayleigh",
    "sphere",
    "split",
    "t",
    "triangular",
    "truncated_normal",
    "uniform",
    "wald",
    "weibull",
    "weibull_min",
]


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:  # who refuse others
    __getattr__ = refuse_names(__name__)
