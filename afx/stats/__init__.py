"""Distributions: SciPy's names and parameters, with derivatives by every real parameter.

Each has ``pdf`` and ``logpdf`` (``pmf`` and ``logpmf``, of whole numbers), ``cdf``, ``logcdf``, ``sf``, ``logsf`` and
``ppf`` and ``isf``: functions of an argument and the parameters, which broadcast; ``mean``, ``var``, ``std``, ``median``,
``entropy`` and ``interval`` of the parameters; ``rvs`` of a key, and ``fit`` by maximum likelihood. Logarithms stay finite in
the tails as far as floating-point numbers reach, and so do their derivatives. Parameters that are not allowed give nan. Most
need the extra ``scipy``.

>>> from afx.stats import norm
>>> norm.logpdf(np.array([0.0, 40.0]), scale=2.0).round(4)
Array([  -1.6121, -201.6121], dtype=float64)
>>> bool(afx.grad(norm.logsf)(np.float64(1e5)) < -99999)
True
"""

from typing import TYPE_CHECKING, NoReturn

from afx.stats.describe import ModeResult, mode, rankdata, sem
from afx.stats.elementary import (
    cauchy,
    expon,
    gumbel_l,
    gumbel_r,
    halfcauchy,
    halfnorm,
    laplace,
    logistic,
    lognorm,
    norm,
    pareto,
    rayleigh,
    uniform,
    weibull_min,
)
from afx.stats.gamma_family import beta, chi2, f, gamma, gennorm, invgamma, t
from afx.stats.kernel_density import GaussianKde, gaussian_kde
from afx.stats.matrices import lkj, multinomial, wishart
from afx.stats.multivariate import dirichlet, multivariate_normal
from afx.stats.skewed import skewnorm, truncnorm, vonmises, wrapcauchy
from afx.stats.whole_numbers import bernoulli, betabinom, binom, geom, nbinom, poisson

__all__ = [
    "GaussianKde",
    "ModeResult",
    "bernoulli",
    "beta",
    "betabinom",
    "binom",
    "cauchy",
    "chi2",
    "dirichlet",
    "expon",
    "f",
    "gamma",
    "gaussian_kde",
    "gennorm",
    "geom",
    "gumbel_l",
    "gumbel_r",
    "halfcauchy",
    "halfnorm",
    "invgamma",
    "laplace",
    "lkj",
    "logistic",
    "lognorm",
    "mode",
    "multinomial",
    "multivariate_normal",
    "nbinom",
    "norm",
    "pareto",
    "poisson",
    "rankdata",
    "rayleigh",
    "sem",
    "skewnorm",
    "t",
    "truncnorm",
    "uniform",
    "vonmises",
    "weibull_min",
    "wishart",
    "wrapcauchy",
]


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:  # who refuse others

    def __getattr__(name: str) -> NoReturn:
        from afx.other_names import missing_name

        raise missing_name(__name__, name)
