"""Distributions: SciPy's names and parameters, with derivatives by every real parameter.

Each has ``pdf`` and ``logpdf`` (``pmf`` and ``logpmf``, of whole numbers), ``cdf``, ``logcdf``, ``sf``, ``logsf`` and
``ppf`` and ``isf``: functions of an argument and the parameters, which broadcast; ``mean``, ``var``, ``std``, ``median``,
``entropy`` and ``interval`` of the parameters; ``rvs`` of a key, and ``fit`` by maximum likelihood. Logarithms stay finite in
the tails as far as floating-point numbers reach, and so do their derivatives. Parameters that are not allowed give nan. Integers
and Python's numbers alone compute in float64, as in SciPy; beside an array of a floating dtype they take that. Most need
the extra ``scipy``.

>>> from afx.stats import norm
>>> norm.logpdf(np.array([0.0, 40.0]), scale=2.0).round(4)
Array([  -1.6121, -201.6121], dtype=float64)
>>> bool(afx.grad(norm.logsf)(np.float64(1e5)) < -99999)
True
"""

from afx.errors import refuse_names
from afx.stats.composite import censored, hurdle, mixture, ordered, truncated, zero_inflated
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
from afx.stats.law import Law, Observed
from afx.stats.matrices import lkj, lkj_cholesky, multinomial, wishart
from afx.stats.multivariate import dirichlet, multivariate_normal
from afx.stats.skewed import skewnorm, truncnorm, vonmises, wrapcauchy
from afx.stats.structured import (
    gaussian_random_walk,
    multivariate_normal_cholesky,
    multivariate_normal_precision,
    ordered_logistic,
)
from afx.stats.whole_numbers import bernoulli, betabinom, binom, geom, nbinom, poisson

__all__ = [
    "GaussianKde",
    "Law",
    "ModeResult",
    "Observed",
    "bernoulli",
    "beta",
    "betabinom",
    "binom",
    "cauchy",
    "censored",
    "chi2",
    "dirichlet",
    "expon",
    "f",
    "gamma",
    "gaussian_kde",
    "gaussian_random_walk",
    "gennorm",
    "geom",
    "gumbel_l",
    "gumbel_r",
    "halfcauchy",
    "halfnorm",
    "hurdle",
    "invgamma",
    "laplace",
    "lkj",
    "lkj_cholesky",
    "logistic",
    "lognorm",
    "mixture",
    "mode",
    "multinomial",
    "multivariate_normal",
    "multivariate_normal_cholesky",
    "multivariate_normal_precision",
    "nbinom",
    "norm",
    "ordered",
    "ordered_logistic",
    "pareto",
    "poisson",
    "rankdata",
    "rayleigh",
    "sem",
    "skewnorm",
    "t",
    "truncated",
    "truncnorm",
    "uniform",
    "vonmises",
    "weibull_min",
    "wishart",
    "wrapcauchy",
    "zero_inflated",
]

refuse_names(__name__)
