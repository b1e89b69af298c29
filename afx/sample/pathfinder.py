"""Pathfinder: normal laws along the way to a mode, of which the nearest to the density is a place to begin."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, TypeVar

import numpy as np

from afx.control.solving import flatten_to_vector
from afx.core import Array, ArrayLike
from afx.errors import ArgumentError
from afx.ops import asarray
from afx.random.keys import fold_in, normal, split, uniform
from afx.sample.approximations import Approximation
from afx.sample.bijectors import Constraints, check_dependence, constraints_of, position_of_start, start_of
from afx.sample.diagnostics import Numbers
from afx.sample.hamiltonian import LogDensity, Sampler
from afx.transforms._arguments import whole_number
from afx.transforms.compile.jit import jit
from afx.transforms.vmap import vmap

T = TypeVar("T")

HISTORY: Final = 6  # steps of which curvature is remembered (Zhang et al. 2022, section 2)
DRAWS: Final = 25  # of each law, by which its distance is estimated
LONGEST: Final = 1000  # steps of a path
SLOPE: Final = 1e-4  # the share of a step's promise that it has to keep (Armijo)


def pathfinder(
    log_density: LogDensity[T],
    key: ArrayLike,
    start: T | None = None,
    constraints: Constraints = None,
    *,
    paths: int = 4,
    spread: float = 2.0,
) -> Approximation[T]:
    """Return the normal law nearest to a density among those along ways to its modes (Zhang, Carpenter et al. 2022).

    Each way is one of L-BFGS, whose estimate of the inverse curvature is the covariance; of all places on all ways that
    law is taken whose lower bound of the evidence is the greatest. `draw` begins at its draws where it is given as start.

    Args:
        log_density: a tree of parameters to the logarithm of their density, but for a constant; or a `Model`.
        key: a random key.
        start: parameters within the constraints; a `Model` has some.
        constraints: a tree of bijectors, None where there are none; a `Model` brings its own.
        paths: how many ways.
        spread: how far from the start they begin, in unconstrained parameters.

    Raises:
        ArgumentError: no place on any way has a law with a finite bound.

    >>> import afx
    >>> found = pathfinder(lambda x: -0.5 * afx.sum((x - 3) ** 2), afx.random.key(0), np.zeros(2))
    >>> found.params.round(3)
    Array([3., 3.], dtype=float64)
    """
    constraints = constraints_of(log_density) if constraints is None else constraints
    position = position_of_start(constraints, start_of(log_density, start, "pathfinder"), "pathfinder")
    center, unravel = flatten_to_vector(position, "pathfinder")
    dtype = center.dtype
    check_dependence(log_density, constraints, unravel(center), "pathfinder")
    sampler = Sampler(log_density, constraints)
    target, densities = jit(sampler.target(unravel)), jit(vmap(sampler.value(unravel)))
    best: tuple[float, Any, Any] = (-math.inf, None, None)
    for k, own in enumerate(split(key, whole_number("paths", paths, "pathfinder"))):
        share = 0.0 if k == 0 else spread  # the first begins at the start itself
        x: Numbers = np.asarray(center + uniform(own, center.shape, -share, share, dtype=dtype), np.float64)
        for step, (mean, factor) in enumerate(_walk(target, x, dtype)):
            bound = _bound_evidence(densities, mean, factor, normal(fold_in(own, step), (DRAWS, len(x)), dtype=dtype))
            if best[0] < bound < math.inf:
                best = (bound, mean, factor)
    bound, mean, factor = best
    if mean is None:
        raise ArgumentError(
            f"pathfinder: no normal law along {paths} ways: got densities that are not finite; begin elsewhere"
        )
    return Approximation(unravel(asarray(mean, dtype)), asarray(factor, dtype), asarray(bound, dtype), constraints)


def _bound_evidence(densities: Any, mean: Numbers, factor: Numbers, draws: Array) -> float:
    """Return a lower bound of the logarithm of the evidence: by how much the density is above a law, at its draws."""
    z = np.asarray(draws, np.float64)
    with np.errstate(all="ignore"):
        heights = np.asarray(densities(asarray(mean + z @ factor.T, draws.dtype)), np.float64)
        own = -0.5 * np.sum(z * z, axis=1) - np.sum(np.log(np.diag(factor)))
        return float(np.mean(heights - own)) + 0.5 * len(mean) * math.log(2 * math.pi)  # pyright: ignore[reportUnknownArgumentType]  # NumPy's stubs


def _walk(target: Any, x: Numbers, dtype: Any) -> list[tuple[Numbers, Numbers]]:
    """Return means and Cholesky factors of the laws along a way to a mode."""

    def look(x: Numbers) -> tuple[float, Numbers]:
        value, slope = target(asarray(x, dtype))
        return float(value), np.asarray(slope, np.float64)

    value, slope = look(x)
    pairs = list[tuple[Numbers, Numbers]]()
    laws = list[tuple[Numbers, Numbers]]()
    diagonal: Numbers = np.ones(len(x))
    for _ in range(LONGEST):
        way: Numbers = _inverse_curvature(diagonal, pairs) @ slope
        rise = float(slope @ way)
        if not 1e-12 * max(abs(value), 1.0) < rise < math.inf:
            break
        size = 1.0 if pairs else min(1.0, 1.0 / float(np.linalg.norm(slope)))
        found = _climb(look, x, size * way, value, size * rise)
        if found is None:
            break
        there, value, new_slope = found
        s: Numbers = there - x
        y: Numbers = slope - new_slope
        x, slope = there, new_slope
        if s @ y > 1e-12 * float(y @ y):  # the density is curved along the step
            diagonal = _update_diagonal(diagonal, s, y)
            pairs.append((s, y))
            del pairs[:-HISTORY]
            covariance: Numbers = _inverse_curvature(diagonal, pairs)
            try:
                factor: Any = np.linalg.cholesky(0.5 * (covariance + covariance.T))
            except np.linalg.LinAlgError:
                continue
            laws.append((x + covariance @ slope, factor))
    return laws


def _climb(
    look: Callable[[Numbers], tuple[float, Numbers]], x: Numbers, step: Numbers, value: float, rise: float
) -> tuple[Numbers, float, Numbers] | None:
    """Return a point that rises enough for the length of its step, its log density and gradient; None if there is none."""
    for halvings in range(40):
        size = 0.5**halvings
        there = x + size * step
        new_value, slope = look(there)
        if np.isfinite(slope).all() and new_value >= value + SLOPE * size * rise:
            return there, new_value, slope
    return None


def _update_diagonal(diagonal: Numbers, s: Numbers, y: Numbers) -> Numbers:
    """Return the diagonal after a step s that changes slopes by y (Zhang et al. 2022, algorithm 3)."""
    ratio: Numbers = (y @ (diagonal * y)) / (s @ y) / diagonal
    share = float(s @ (s / diagonal))
    new = (s @ y) / (ratio * (s @ y) + y * y - (y @ (diagonal * y)) * (s / diagonal) ** 2 / share)
    return np.where(np.isfinite(new) & (new > 0), new, (s @ y) / (y @ y))


def _inverse_curvature(diagonal: Numbers, pairs: list[tuple[Numbers, Numbers]]) -> Numbers:
    """Return the inverse of the negative Hessian that steps and changes of slopes tell, from a diagonal on."""
    inverse: Numbers = np.diag(diagonal)
    for s, y in pairs:
        v = np.eye(len(s)) - np.outer(y, s) / (s @ y)
        inverse = v.T @ inverse @ v + np.outer(s, s) / (s @ y)
    return inverse
