"""Histograms to tell apart: of 500 draws from a Gaussian (class 1) or from another distribution (class 0)."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Batch", "Random", "batch", "gaussian", "other"]

DRAWS, BINS = 500, 16
GRID = np.linspace(0.0, 1.0, DRAWS)

Batch: TypeAlias = "npt.NDArray[np.floating]"
Random: TypeAlias = np.random.Generator


def histograms(draws: Batch) -> Batch:
    """Count each row's draws in 16 equal bins from its least to its largest; return the fractions."""
    low, high = draws.min(axis=1, keepdims=True), draws.max(axis=1, keepdims=True)
    bins = np.minimum(((draws - low) * (BINS / (high - low))).astype(int), BINS - 1)
    rows = BINS * np.arange(len(draws))[:, None]
    counts = np.bincount((rows + bins).ravel(), minlength=BINS * len(draws))
    return counts.reshape(-1, BINS).astype(np.float32) / DRAWS


def gaussian(random: Random, count: int) -> Batch:
    """Draw histograms of class 1."""
    return histograms(random.standard_normal((count, DRAWS)))


def other(random: Random, count: int) -> Batch:
    """Draw histograms of class 0: of a cubic (four in seven), a uniform sample, an exponential or a sine."""
    a, b, c = random.integers(1, 5, (3, count, 1))
    speed = random.random((count, 1))
    kinds = (
        a * GRID**3 - b * GRID**2 + c * GRID,
        random.random((count, DRAWS)),
        np.exp((1 + 2 * speed) * GRID),
        np.sin((0.1 + speed) * GRID),
    )
    return histograms(np.choose(random.choice([0, 0, 0, 0, 1, 2, 3], (count, 1)), kinds))


def batch(random: Random, of_each: int) -> tuple[Batch, Batch]:
    """Draw examples of both classes and their targets."""
    targets = np.repeat(np.array([1.0, 0.0], np.float32), of_each)
    return np.concatenate([gaussian(random, of_each), other(random, of_each)]), targets
