"""Eight models of the kinds that users write, each at most fifteen lines, with data that are made up here.

Eight schools are Rubin's (1981), the lengths of dugongs those of Carlin & Gelfand (1991, 9 of 27 here); the rest is drawn.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import afx
from afx import sample, stats

RNG = np.random.default_rng(41)
DATA: dict[str, Any] = {
    "effects": np.array([28.0, 8, -3, 7, -1, 1, 18, 12]),
    "errors": np.array([15.0, 10, 16, 11, 9, 11, 10, 18]),
    "ages": np.array([1.0, 1.5, 2.5, 4.0, 5.0, 7.0, 9.5, 13.0, 22.5]),
    "lengths": np.array([1.80, 1.85, 1.97, 2.02, 2.15, 2.35, 2.47, 2.41, 2.70]),
}
DATA["iq"] = RNG.normal(100, 15, 120)
DATA["high"] = RNG.integers(0, 2, 120).astype(float)
DATA["score"] = 26 + 6 * DATA["high"] + 0.55 * DATA["iq"] + RNG.normal(0, 18, 120)
DATA["county"] = np.repeat(np.arange(12), 8)
DATA["floor"] = RNG.integers(0, 2, 96).astype(float)
DATA["radon"] = 1.4 + 0.4 * RNG.normal(size=12)[DATA["county"]] - 0.7 * DATA["floor"] + RNG.normal(0, 0.7, 96)
DATA["returns"] = np.zeros(150)
_scale = 1.0
for _t in range(1, 150):
    _scale = 0.2 + 0.3 * DATA["returns"][_t - 1] ** 2 + 0.5 * _scale
    DATA["returns"][_t] = np.sqrt(_scale) * RNG.normal()
DATA["dose"] = RNG.normal(size=150)
DATA["class"] = np.digitize(1.2 * DATA["dose"] + RNG.logistic(size=150), [-1.0, 0.5, 2.0]).astype(float)
DATA["mixed"] = np.concatenate([RNG.normal(-2, 0.8, 60), RNG.normal(1.5, 1.1, 90)])
_state = np.cumsum(RNG.uniform(size=120) < 0.15) % 2
DATA["emitted"] = np.where(_state == 1, 2.0, -1.0) + RNG.normal(size=120)
D = DATA


def schools() -> sample.Model[Any]:
    """Return eight schools, centred."""
    priors = {
        "mu": stats.norm(0.0, 5.0),
        "tau": stats.lognorm(0.7, scale=4.0),
        "theta": lambda p: stats.norm(p["mu"], p["tau"]).expand(8),
    }
    return sample.Model(priors, lambda p: stats.norm(p["theta"], D["errors"]).observe(D["effects"]))


def schools_apart() -> sample.Model[Any]:
    """Return eight schools by standardized effects."""
    priors = {"mu": stats.norm(0.0, 5.0), "tau": stats.halfcauchy(0.0, 5.0), "z": stats.norm(0.0, 1.0).expand(8)}
    return sample.Model(priors, lambda p: stats.norm(p["mu"] + p["tau"] * p["z"], D["errors"]).observe(D["effects"]))


def kidscore() -> sample.Model[Any]:
    """Return a regression of children's scores on two properties of their mothers."""
    priors = {"b": stats.norm(np.array([90.0, 0.0, 0.0]), 20.0), "sigma": stats.halfcauchy(0.0, 10.0)}
    x = np.stack([np.ones(120), D["high"], D["iq"] - 100], axis=1)
    return sample.Model(priors, lambda p: stats.norm(x @ p["b"], p["sigma"]).observe(D["score"]))


def radon() -> sample.Model[Any]:
    """Return levels of counties about a common one, and the effect of the floor."""
    priors = {
        "mu": stats.norm(0.0, 3.0),
        "tau": stats.halfnorm(0.0, 1.0),
        "z": stats.norm(0.0, 1.0).expand(12),
        "beta": stats.norm(0.0, 2.0),
        "sigma": stats.halfnorm(0.0, 1.0),
    }

    def likelihood(p: Any) -> Any:
        level = p["mu"] + p["tau"] * p["z"]
        return stats.norm(level[D["county"]] + p["beta"] * D["floor"], p["sigma"]).observe(D["radon"])

    return sample.Model(priors, likelihood)


def dugongs() -> sample.Model[Any]:
    """Return a curve of growth that flattens."""
    priors = {
        "alpha": stats.norm(0.0, 10.0),
        "beta": stats.norm(0.0, 10.0),
        "rate": stats.uniform(0.5, 0.5),
        "sigma": stats.halfnorm(0.0, 1.0),
    }

    def likelihood(p: Any) -> Any:
        return stats.norm(p["alpha"] - p["beta"] * p["rate"] ** D["ages"], p["sigma"]).observe(D["lengths"])

    return sample.Model(priors, likelihood)


def garch() -> sample.Model[Any]:
    """Return returns whose variance follows them, stationary: the bound of one share is the rest of the other."""
    priors = {
        "mu": stats.norm(0.0, 1.0),
        "a0": stats.halfnorm(0.0, 1.0),
        "a1": stats.uniform(0.0, 1.0),
        "b1": lambda p: stats.uniform(0.0, 1 - p["a1"]),
    }

    def likelihood(p: Any) -> Any:
        def step(v: Any, y: Any) -> Any:
            return p["a0"] + p["a1"] * (y - p["mu"]) ** 2 + p["b1"] * v, v

        return stats.norm(p["mu"], afx.sqrt(afx.scan(step, np.float64(1.0) + 0 * p["a0"], D["returns"])[1])).observe(
            D["returns"]
        )

    return sample.Model(priors, likelihood)


def classes() -> sample.Model[Any]:
    """Return a regression of ordered classes."""
    priors = {"beta": stats.norm(0.0, 2.0), "cuts": stats.ordered(stats.norm(0.0, 3.0).expand(3))}
    return sample.Model(priors, lambda p: stats.ordered_logistic(p["beta"] * D["dose"], p["cuts"]).observe(D["class"]))


def mixture() -> sample.Model[Any]:
    """Return a mixture of two normal laws, the lower one first."""
    priors = {
        "w": stats.dirichlet(np.array([2.0, 2.0])),
        "mu": stats.ordered(stats.norm(0.0, 3.0).expand(2)),
        "sigma": stats.lognorm(0.5).expand(2),
    }
    return sample.Model(priors, lambda p: stats.mixture(p["w"], stats.norm(p["mu"], p["sigma"])).observe(D["mixed"]))


def hmm() -> sample.Model[Any]:
    """Return a hidden Markov chain of two states, summed over by the forward algorithm."""
    priors = {
        "rows": stats.dirichlet(np.array([2.0, 2.0])).expand(2),
        "mu": stats.ordered(stats.norm(0.0, 3.0).expand(2)),
    }

    def likelihood(p: Any) -> Any:
        def step(a: Any, y: Any) -> Any:
            a = afx.logsumexp(a[:, None] + afx.log(p["rows"]), axis=0) + stats.norm.logpdf(y, p["mu"])
            return a, None

        first = np.log(0.5) + stats.norm.logpdf(D["emitted"][0], p["mu"])
        return afx.logsumexp(afx.scan(step, first, D["emitted"][1:])[0])

    return sample.Model(priors, likelihood)


MODELS: dict[str, Callable[[], sample.Model[Any]]] = {
    fn.__name__: fn for fn in (schools, schools_apart, kidscore, radon, dugongs, garch, classes, mixture, hmm)
}
