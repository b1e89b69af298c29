"""Posteriors of posteriordb, written by hand as log densities: models, data and where their reference stands.

Data and reference are facts from stan-dev/posteriordb 1.0 (Magnusson et al.): ``data.json`` has the observations, and
``reference.json`` mean and standard deviation of each quantity over its 10,000 reference draws.
"""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import numpy as np

import afx
from afx import sample, stats
from afx.special import gammaln

HERE = Path(__file__).parent
DATA: dict[str, dict[str, Any]] = {
    name: {key: np.asarray(values, np.float64) for key, values in columns.items()}
    for name, columns in json.loads((HERE / "data.json").read_text(encoding="utf-8")).items()
}
REFERENCE: dict[str, dict[str, tuple[float, float]]] = json.loads((HERE / "reference.json").read_text(encoding="utf-8"))

POSITIVE = sample.Positive()


def flatten(p: Any) -> Any:
    """Return all parameters as one vector, in the order of their keys."""
    return afx.concat([afx.reshape(p[key], (-1,)) for key in p])


@attrs.frozen
class Posterior:
    """A model with its data.

    Attributes:
        log_density: of the parameters, a dict.
        constraints: of these.
        start: parameters.
        quantities: the parameters to the quantities of the reference, a vector in its order.
        reference: the name under which it stands there.
        options: for `afx.sample.draw`.
    """

    log_density: Callable[[Any], Any]
    constraints: Any
    start: dict[str, Any]
    reference: str
    quantities: Callable[[Any], Any] = flatten
    options: dict[str, Any] = attrs.field(factory=dict)


def normal(x: Any, mean: Any = 0.0, sd: Any = 1.0) -> Any:
    """Return the summed logarithms of normal densities."""
    return afx.sum(stats.norm.logpdf(x, mean, sd))


def regression(columns: list[Any], y: Any, prior: Callable[[Any, Any], Any] | None, reference: str) -> Posterior:
    """Return a linear regression with normal errors; without a prior that is flat."""
    x = np.stack([np.broadcast_to(column, y.shape) for column in columns], axis=-1).astype(np.float64)

    def log_density(p: Any) -> Any:
        return normal(y, x @ p["beta"], p["sigma"]) + (0.0 if prior is None else prior(p["beta"], p["sigma"]))

    beta: Any = np.linalg.lstsq(x, y, rcond=None)[0]
    start = {"beta": beta, "sigma": np.std(y - x @ beta)}
    # coefficients of columns that are not centered depend on each other
    return Posterior(log_density, {"sigma": POSITIVE}, start, reference, options={"mass": "dense", "spread": 0.1})


def half_cauchy(_: Any, sigma: Any) -> Any:
    """Return the prior of the regressions of children's scores."""
    return stats.cauchy.logpdf(sigma, 0.0, 2.5)


def wide_normal(beta: Any, sigma: Any) -> Any:
    """Return the prior of the regressions of simulated data."""
    return normal(beta, 0.0, 10.0) + normal(sigma, 0.0, 10.0)


def kidscore(kind: str) -> Posterior:
    """Return a regression of children's test scores (Gelman & Hill 2007, chapter 3)."""
    d = DATA["kidiq"]
    y, school, iq, work = d["kid_score"], d["mom_hs"], d["mom_iq"], d["mom_work"]
    columns = {
        "kidiq-kidscore_momhs": [1, school],
        "kidiq-kidscore_momiq": [1, iq],
        "kidiq-kidscore_momhsiq": [1, school, iq],
        "kidiq-kidscore_interaction": [1, school, iq, school * iq],
        "kidiq_with_mom_work-kidscore_mom_work": [1, work == 2, work == 3, work == 4],
    }
    return regression(columns[kind], y, None if kind.endswith("mom_work") else half_cauchy, kind)


def mesquite(kind: str) -> Posterior:
    """Return a regression of the weight of mesquite bushes (Gelman & Hill 2007, chapter 4)."""
    d = DATA["mesquite"]
    log = {name: np.log(values) for name, values in d.items() if name != "group"}
    area = log["diam1"] + log["diam2"]
    volume, shape = area + log["canopy_height"], log["diam1"] - log["diam2"]
    names = ["diam1", "diam2", "canopy_height", "total_height", "density"]
    columns = {
        "mesquite": [1, *[d[name] for name in names], d["group"]],
        "logmesquite": [1, *[log[name] for name in names], d["group"]],
        "logmesquite_logva": [1, volume, area, d["group"]],
        "logmesquite_logvas": [1, volume, area, shape, log["total_height"], log["density"], d["group"]],
        "logmesquite_logvash": [1, volume, area, shape, log["total_height"], d["group"]],
        "logmesquite_logvolume": [1, volume],
    }
    return regression(columns[kind], d["weight"] if kind == "mesquite" else log["weight"], None, f"mesquite-{kind}")


def earnings() -> Posterior:
    """Return a regression of the logarithm of earnings on height and sex."""
    d = DATA["earnings"]
    return regression([1, d["height"], d["male"]], np.log(d["earn"]), None, "earnings-logearn_height_male")


def election() -> Posterior:
    """Return a regression of party identification in the election study of 2000."""
    d = DATA["nes2000"]
    ages = [d["age_discrete"] == k for k in (2, 3, 4)]
    columns = [1, d["real_ideo"], d["race_adj"], *ages, d["educ1"], d["gender"], d["income"]]
    return regression(columns, d["partyid7"], None, "nes2000-nes")


def simulated(name: str) -> Posterior:
    """Return a regression with independent or correlated columns."""
    d = DATA[name]
    return regression(list(d["X"].T), d["y"], wide_normal, f"{name}-blr")


def eight_schools(is_centered: bool) -> Posterior:
    """Return the effects of coaching in eight schools (Rubin 1981), with effects or their standardized values."""
    d = DATA["eight_schools"]

    def log_density(p: Any) -> Any:
        prior = normal(p["mu"], 0.0, 5.0) + stats.cauchy.logpdf(p["tau"], 0.0, 5.0)
        if is_centered:
            return normal(d["y"], p["theta"], d["sigma"]) + normal(p["theta"], p["mu"], p["tau"]) + prior
        return normal(d["y"], p["mu"] + p["tau"] * p["theta"], d["sigma"]) + normal(p["theta"]) + prior

    def quantities(p: Any) -> Any:
        theta = p["theta"] if is_centered else p["mu"] + p["tau"] * p["theta"]
        return afx.concat([theta, p["mu"][None], p["tau"][None]])

    start = {"theta": np.zeros(8), "mu": np.float64(0.0), "tau": np.float64(1.0)}
    options = {"target": 0.99, "draws": 4000} if is_centered else {"target": 0.9, "draws": 2000}
    name = "eight_schools-eight_schools_noncentered"
    return Posterior(log_density, {"tau": POSITIVE}, start, name, quantities, options)


def autoregression() -> Posterior:
    """Return an autoregression of order five."""
    y, k = DATA["arK"]["y"], 5
    past = np.stack([y[k - lag : -lag] for lag in range(1, k + 1)], axis=-1)

    def log_density(p: Any) -> Any:
        prior = normal(p["alpha"], 0.0, 10.0) + normal(p["beta"], 0.0, 10.0) + half_cauchy(None, p["sigma"])
        return normal(y[k:], p["alpha"] + past @ p["beta"], p["sigma"]) + prior

    start = {"alpha": np.float64(0.0), "beta": np.zeros(k), "sigma": np.float64(1.0)}
    return Posterior(log_density, {"sigma": POSITIVE}, start, "arK-arK")


def moving_average() -> Posterior:
    """Return an autoregression with a moving average, by a scan."""
    y = DATA["arma"]["y"]

    def log_density(p: Any) -> Any:
        def step(error: Any, pair: Any) -> tuple[Any, Any]:
            now, last = pair
            new = now - (p["mu"] + p["phi"] * last + p["theta"] * error)
            return new, new

        first = y[0] - (p["mu"] + p["phi"] * p["mu"])
        _, errors = afx.scan(step, first, (y[1:], y[:-1]))
        prior = normal(p["mu"], 0.0, 10.0) + normal(p["phi"], 0.0, 2.0) + normal(p["theta"], 0.0, 2.0)
        return normal(first, 0.0, p["sigma"]) + normal(errors, 0.0, p["sigma"]) + prior + half_cauchy(None, p["sigma"])

    start = {name: np.float64(value) for name, value in (("mu", 0.0), ("phi", 0.5), ("theta", 0.0), ("sigma", 1.0))}
    return Posterior(log_density, {"sigma": POSITIVE}, start, "arma-arma11")


def volatility() -> Posterior:
    """Return a GARCH(1, 1) model; the share of the last variance is bounded by what the last error leaves."""
    y = DATA["garch"]["y"]

    def shares(p: Any) -> tuple[Any, Any]:
        return p["alpha1"], (1 - p["alpha1"]) * p["rest"]

    def log_density(p: Any) -> Any:
        error, last = shares(p)

        def step(variance: Any, before: Any) -> tuple[Any, Any]:
            new = p["alpha0"] + error * (before - p["mu"]) ** 2 + last * variance
            return new, new

        _, variances = afx.scan(step, 0.25 + 0.0 * p["mu"], y[:-1])
        return normal(y[0], p["mu"], 0.5) + normal(y[1:], p["mu"], afx.sqrt(variances)) + afx.log(1 - p["alpha1"])

    def quantities(p: Any) -> Any:
        return afx.stack([p["mu"], p["alpha0"], *shares(p)])

    start = {"mu": np.float64(5.0), "alpha0": np.float64(1.0), "alpha1": np.float64(0.5), "rest": np.float64(0.5)}
    constraints = {"alpha0": POSITIVE, "alpha1": sample.Interval(), "rest": sample.Interval()}
    options = {"draws": 2000}
    return Posterior(log_density, constraints, start, "garch-garch11", quantities, options)


def covariance(x: Any, alpha: Any, rho: Any) -> Any:
    """Return the covariances of a Gaussian process."""
    return alpha**2 * afx.exp(-0.5 * ((x[:, None] - x) / rho) ** 2)


def process_prior(p: Any) -> Any:
    """Return the priors of length and height."""
    return (
        24.0 * afx.log(p["rho"]) - 4.0 * p["rho"] + normal(p["alpha"], 0.0, 2.0)
    )  # a gamma law of shape 25 and rate 4


def process() -> Posterior:
    """Return a Gaussian process with normal noise."""
    d = DATA["gp_pois_regr"]
    n = d["x"].shape[0]

    def log_density(p: Any) -> Any:
        noisy = covariance(d["x"], p["alpha"], p["rho"]) + p["sigma"] * np.eye(n)
        factor = afx.linalg.cholesky(noisy)
        white = afx.linalg.solve_triangular(factor, d["y"], lower=True)
        likelihood = normal(white) - afx.sum(afx.log(afx.linalg.diagonal(factor)))
        return likelihood + process_prior(p) + normal(p["sigma"])

    start = {"rho": np.float64(6.0), "alpha": np.float64(1.0), "sigma": np.float64(1.0)}
    return Posterior(log_density, dict.fromkeys(start, POSITIVE), start, "gp_pois_regr-gp_regr")


def counts() -> Posterior:
    """Return counts whose logarithmic rate is a Gaussian process."""
    d = DATA["gp_pois_regr"]
    n = d["x"].shape[0]

    def rates(p: Any) -> Any:
        return afx.linalg.cholesky(covariance(d["x"], p["alpha"], p["rho"]) + 1e-10 * np.eye(n)) @ p["white"]

    def log_density(p: Any) -> Any:
        f = rates(p)
        return afx.sum(d["k"] * f - afx.exp(f) - gammaln(d["k"] + 1)) + process_prior(p) + normal(p["white"])

    def quantities(p: Any) -> Any:
        return afx.concat([p["rho"][None], p["alpha"][None], rates(p)])

    start = {"rho": np.float64(6.0), "alpha": np.float64(1.0), "white": np.zeros(n)}
    constraints = {"rho": POSITIVE, "alpha": POSITIVE}
    return Posterior(log_density, constraints, start, "gp_pois_regr-gp_pois_regr", quantities, {"target": 0.9})


def hidden_states() -> Posterior:
    """Return a hidden Markov model of two states, by the forward algorithm."""
    y = DATA["hmm_example"]["y"]

    def log_density(p: Any) -> Any:
        rows = afx.log(afx.stack([p["theta1"], p["theta2"]]))
        seen = -0.5 * (y[:, None] - p["mu"]) ** 2 - 0.5 * math.log(2 * math.pi)

        def step(forward: Any, now: Any) -> tuple[Any, None]:
            return afx.logsumexp(forward[:, None] + rows, axis=0) + now, None

        forward, _ = afx.scan(step, seen[0], seen[1:])
        return afx.logsumexp(forward) + normal(p["mu"], np.array([3.0, 10.0]))

    start = {"theta1": np.full(2, 0.5), "theta2": np.full(2, 0.5), "mu": np.array([3.0, 10.0])}
    constraints = {"theta1": sample.Simplex(), "theta2": sample.Simplex(), "mu": sample.Ordered()}
    return Posterior(log_density, constraints, start, "hmm_example-hmm_example")


def kilpisjarvi() -> Posterior:
    """Return a regression of summer temperatures in Kilpisjärvi on the year."""
    d = DATA["kilpisjarvi"]

    def prior(beta: Any, _: Any) -> Any:
        return normal(beta, np.array([9.31290322580645, 0.0]), np.array([100.0, 0.0333333333333333]))

    return regression([1, d["x"]], d["y"], prior, "kilpisjarvi_mod-kilpisjarvi")


def mixture() -> Posterior:
    """Return a mixture of two normal laws."""
    y = DATA["low_dim_gauss_mix"]["y"]

    def log_density(p: Any) -> Any:
        logs = [stats.norm.logpdf(y, p["mu"][k], p["sigma"][k]) for k in (0, 1)]
        likelihood = afx.logaddexp(afx.log(p["theta"]) + logs[0], afx.log1p(-p["theta"]) + logs[1])
        prior = normal(p["mu"], 0.0, 2.0) + normal(p["sigma"], 0.0, 2.0)
        return afx.sum(likelihood) + prior + 4.0 * afx.log(p["theta"] * (1 - p["theta"]))  # a beta law, 5 and 5

    start = {"mu": np.array([-2.0, 2.0]), "sigma": np.ones(2), "theta": np.float64(0.5)}
    constraints = {"mu": sample.Ordered(), "sigma": POSITIVE, "theta": sample.Interval()}
    return Posterior(log_density, constraints, start, "low_dim_gauss_mix-low_dim_gauss_mix")


POSTERIORS: dict[str, Callable[[], Posterior]] = {
    "eight_schools_noncentered": lambda: eight_schools(False),
    "eight_schools_centered": lambda: eight_schools(True),
    "arK": autoregression,
    "arma11": moving_average,
    "garch11": volatility,
    "gp_regr": process,
    "gp_pois_regr": counts,
    "hmm_example": hidden_states,
    "kilpisjarvi": kilpisjarvi,
    "low_dim_gauss_mix": mixture,
    "nes2000": election,
    "logearn_height_male": earnings,
    "sblri": lambda: simulated("sblri"),
    "sblrc": lambda: simulated("sblrc"),
    **{
        name.partition("-")[2]: (lambda name=name: kidscore(name))
        for name in (
            "kidiq-kidscore_momhs",
            "kidiq-kidscore_momiq",
            "kidiq-kidscore_momhsiq",
            "kidiq-kidscore_interaction",
            "kidiq_with_mom_work-kidscore_mom_work",
        )
    },
    **{
        name: (lambda name=name: mesquite(name))
        for name in (
            "mesquite",
            "logmesquite",
            "logmesquite_logva",
            "logmesquite_logvas",
            "logmesquite_logvash",
            "logmesquite_logvolume",
        )
    },
}
