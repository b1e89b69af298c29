"""Sampling: draws from posteriors by Hamiltonian Monte Carlo, over trees of parameters with constraints.

A model is a function from parameters to the logarithm of their density. A sampler is pure functions ``init`` and
``step(state, key)``; `draw` runs several chains of it as one compiled program, warm-up included.

>>> import afx
>>> from afx import sample, stats
>>> import numpy as np
>>> heights = np.array([1.68, 1.75, 1.81, 1.66, 1.72])
>>> def log_density(p):
...     return afx.sum(stats.norm.logpdf(heights, p["mean"], p["sd"])) + stats.norm.logpdf(p["sd"], 0.0, 1.0)
>>> sampler = sample.nuts(log_density, {"sd": sample.Positive()})
>>> start = {"mean": np.float64(1.7), "sd": np.float64(0.1)}
>>> draws = sample.draw(sampler, afx.random.key(0), start, draws=20, warmup=20)
>>> draws.params["sd"].shape
(4, 20)
"""

from afx.errors import refuse_names
from afx.sample.approximations import AdviState, Approximation, advi, find_mode, laplace
from afx.sample.bijectors import (
    Bijector,
    CholeskyCorrelation,
    CholeskyCovariance,
    Correlation,
    Covariance,
    Interval,
    Joint,
    Lower,
    Ordered,
    Positive,
    PositiveOrdered,
    Simplex,
    UnitVector,
    Upper,
    constrain,
    log_det,
    unconstrain,
)
from afx.sample.diagnostics import Summary, e_bfmi, ess_bulk, ess_tail, r_hat, summary
from afx.sample.draw import Adaptation, Chains, Draws, Schedule, draw, extend
from afx.sample.hamiltonian import Info, Sampler, State, hmc, nuts
from afx.sample.model import Model, laws
from afx.sample.pathfinder import pathfinder
from afx.sample.predictive import Elpd, compare, log_likelihood, loo, predict, to_arviz, waic

__all__ = [
    "Adaptation",
    "AdviState",
    "Approximation",
    "Bijector",
    "Chains",
    "CholeskyCorrelation",
    "CholeskyCovariance",
    "Correlation",
    "Covariance",
    "Draws",
    "Elpd",
    "Info",
    "Interval",
    "Joint",
    "Lower",
    "Model",
    "Ordered",
    "Positive",
    "PositiveOrdered",
    "Sampler",
    "Schedule",
    "Simplex",
    "State",
    "Summary",
    "UnitVector",
    "Upper",
    "advi",
    "compare",
    "constrain",
    "draw",
    "e_bfmi",
    "ess_bulk",
    "ess_tail",
    "extend",
    "find_mode",
    "hmc",
    "laplace",
    "laws",
    "log_det",
    "log_likelihood",
    "loo",
    "nuts",
    "pathfinder",
    "predict",
    "r_hat",
    "summary",
    "to_arviz",
    "unconstrain",
    "waic",
]

refuse_names(__name__)
