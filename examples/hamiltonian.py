"""Bayesian regression by Hamiltonian Monte Carlo, many chains at once by vmap."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import afx
from afx import Array, stats
from examples.report import Bars, Claim, Curve, Panel, progress, save

EXAMPLES, FEATURES, NOISE, PRIOR = 60, 4, 0.5, 2.0
STEP, LEAPS = 0.035, 20


def measure() -> tuple[Array, Array]:
    """Return features and noisy answers of a linear model."""
    random = np.random.default_rng(0)
    x = random.standard_normal((EXAMPLES, FEATURES))
    y = x @ np.array([1.0, -2.0, 0.5, 0.0]) + NOISE * random.standard_normal(EXAMPLES)
    return afx.asarray(x), afx.asarray(y)


def log_density(w: Array, x: Array, y: Array) -> Array:
    """Return the logarithm of the posterior density of the weights, but for a constant."""
    likelihood = afx.sum(stats.norm.logpdf(y, loc=x @ w, scale=NOISE))
    return likelihood + afx.sum(stats.norm.logpdf(w, scale=PRIOR))


def leap(w: Array, momentum: Array, x: Array, y: Array) -> tuple[Array, Array]:
    """Follow Hamilton's equations by leapfrog steps (Neal 2011, section 2)."""
    slope = afx.grad(log_density)

    def step(state: tuple[Array, Array], _: None) -> tuple[tuple[Array, Array], None]:
        w, p = state
        p = p + STEP / 2 * slope(w, x, y)
        w = w + STEP * p
        return (w, p + STEP / 2 * slope(w, x, y)), None

    (w, momentum), _ = afx.scan(step, (w, momentum), None, LEAPS)
    return w, momentum


def move(w: Array, key: Array, x: Array, y: Array) -> tuple[Array, Array]:
    """Propose a point with a momentum drawn anew; return the next point, and whether the chain has moved."""
    first, second = afx.random.split(key)
    p = afx.random.normal(first, w.shape, dtype=afx.float64)
    new, p_new = leap(w, p, x, y)
    gained = log_density(new, x, y) - log_density(w, x, y) + 0.5 * (afx.sum(p**2) - afx.sum(p_new**2))
    taken = afx.log(afx.random.uniform(second, (), dtype=afx.float64)) < gained
    return afx.where(taken, new, w), taken


def r_hat(chains: Array) -> Array:
    """Return for each weight how far chains float[draws, chains, weights] disagree (Gelman & Rubin 1992): 1 is agreement."""
    within = afx.mean(afx.var(chains, axis=0, ddof=1), axis=0)
    between = afx.var(afx.mean(chains, axis=0), axis=0, ddof=1)
    draws = chains.shape[0]
    return afx.sqrt(((draws - 1) / draws * within + between) / within)


def exact(x: Array, y: Array) -> tuple[Array, Array]:
    """Return mean and covariance of the posterior, which is normal."""
    covariance = afx.linalg.inv(x.T @ x / NOISE**2 + afx.eye(FEATURES, dtype=x.dtype) / PRIOR**2)
    return covariance @ x.T @ y / NOISE**2, covariance


def run(output: Path, draws: int = 600, chains: int = 32) -> list[Claim]:
    """Sample the posterior and compare with the exact one."""
    x, y = measure()
    start, walk = afx.random.split(afx.random.key(0))
    w = 3.0 * afx.random.normal(start, (chains, FEATURES), dtype=afx.float64)
    all_move = afx.jit(afx.vmap(move, in_axes=(0, 0, None, None)))
    places, moved = list[Array](), list[float]()
    for number in progress(range(draws), f"{chains} chains"):
        w, taken = all_move(w, afx.random.split(afx.random.fold_in(walk, number), chains), x, y)
        places.append(w)
        moved.append(float(afx.mean(taken.astype(afx.float64))))
    kept = afx.stack(places[draws // 4 :])
    mean, covariance = exact(x, y)
    deviation = afx.sqrt(afx.linalg.diagonal(covariance))
    error = float(afx.max(afx.abs(afx.mean(kept, axis=(0, 1)) - mean) / deviation))
    spread = float(afx.max(afx.abs(afx.std(kept, axis=(0, 1)) / deviation - 1)))
    print(f"  proposals taken: {np.mean(moved[draws // 4 :]):.1%}")
    steps, names = np.arange(draws), [f"w{k + 1}" for k in range(FEATURES)]
    traces = tuple(
        Curve(steps, np.array([float(place[k, 0]) for place in places]), form=f"C{k}-") for k in range(min(4, chains))
    )
    counts, edges = np.histogram(np.asarray(kept[..., 0]).ravel(), 40, density=True)
    middle = (edges[1:] + edges[:-1]) / 2
    law = stats.norm.pdf(afx.asarray(middle), loc=mean[0], scale=deviation[0])
    save(
        output / "hamiltonian.png",
        Panel("First weight in four chains", "step", "weight", traces),
        Panel(
            "Its distribution",
            "weight",
            "density",
            (Curve(middle, counts, "samples", "C0."), Curve(middle, law, "exact", "C1-")),
        ),
        Panel(
            "Mean of each weight",
            "weight",
            "value",
            (
                Bars(afx.mean(kept, axis=(0, 1)), "samples", names=names),
                Curve(np.arange(1, FEATURES + 1), mean, "exact", "C1D"),
            ),
        ),
    )
    return [
        Claim("largest error of a posterior mean, in standard deviations", error, 0.05, shown="{:.3f}"),
        Claim("largest error of a standard deviation, relative", spread, 0.1, shown="{:.3f}"),
        Claim("largest R-hat of the chains", float(afx.max(r_hat(kept))), 1.01, shown="{:.4f}"),
    ]
