"""Meshes of `quad`: intervals that were halved, and integrals near ends where a function is singular."""

from __future__ import annotations

import attrs
import numpy as np

from afx.control.cond import cond
from afx.core.array.array import Array
from afx.core.dtypes import DType
from afx.integrate.extrapolation import limit_of
from afx.ops.creation.creation import asarray
from afx.ops.creation.stop_gradient import stop_gradient
from afx.ops.elementwise.where import where
from afx.ops.reductions.sums import min as min_
from afx.ops.reductions.sums import sum as sum_

__all__ = ["Mesh", "settled", "with_ends"]


@attrs.frozen
class Mesh:
    """The intervals so far: [0, 1] in pieces; those that are not used yet are empty.

    Attributes:
        lower: float[intervals].
        upper: float[intervals].
        values: float[intervals, values], the integral over each.
        errors: float[intervals], an estimate of its error.
        iterations: the number of intervals that were halved.
        evaluations: of the integrand.
        status: a `Status`.
    """

    lower: Array
    upper: Array
    values: Array
    errors: Array
    iterations: Array
    evaluations: Array
    status: Array


def _terms(dtype: DType) -> int:
    """Return how many sums are extrapolated, an odd number: what is halved as often at an end may be singular there."""
    return 13 if np.finfo(dtype).nmant > 23 else 7


def settled(lower: Array, upper: Array) -> Array:
    """Tell of each interval whether it stands at an end and is as small as intervals there become.

    Numbers near 1 are less exact than those near 0.
    """
    digits = int(np.finfo(lower.dtype).nmant)
    left, right = digits // 2, max(digits // 2 - 8, _terms(lower.dtype))
    at_left, at_right = (lower == 0) & (upper <= 2.0**-left), (upper == 1) & (lower >= 1 - 2.0**-right)
    return (upper > lower) & (at_left | at_right)


def with_ends(mesh: Mesh, values: Array) -> tuple[Array, Array]:
    """Return the integral and its error, with that near an end by extrapolation where it was halved often."""
    found: tuple[Array, Array] = sum_(values, axis=0), sum_(mesh.errors) + 0.0 * stop_gradient(values[0])
    left = mesh.upper <= 0.5, mesh.lower == 0, mesh.lower, mesh.upper
    right = mesh.lower >= 0.5, mesh.upper == 1, 1 - mesh.upper, 1 - mesh.lower
    for side, at_end, near, far in (left, right):
        used = mesh.upper > mesh.lower
        width = min_(where(used & at_end, far, 1.0))

        def extrapolated(
            z: Array, error: Array, v: Array, s: Array = side & used, n: Array = near, w: Array = width
        ) -> tuple[Array, Array]:
            return _extrapolate_end(z, error, v, mesh.errors, s, n, w)

        def plain(z: Array, error: Array, _: Array) -> tuple[Array, Array]:
            return z, error

        deep = width * 2.0 ** (_terms(values.dtype) - 1) <= 0.5
        found = cond(deep, extrapolated, plain, *found, values)
    return found


def _extrapolate_end(
    z: Array, error: Array, values: Array, errors: Array, side: Array, near: Array, width: Array
) -> tuple[Array, Array]:
    """Return the integral with its part at one side of the range extrapolated, where that is more exact.

    Args:
        z: the integral so far.
        error: of it.
        values: of the intervals.
        errors: of the intervals.
        side: which intervals are on that side.
        near: how far each is from the end.
        width: of the interval at the end.
    """
    cuts = width * asarray(2.0 ** np.arange(_terms(values.dtype) - 1, -1, -1), values.dtype)
    beyond = side & (near >= cuts[:, None])
    limit, rest = limit_of(sum_(where(beyond[:, :, None], values, 0.0), axis=1))
    known = sum_(where(beyond[-1], 0.0, where(side, errors, 0.0)))
    small = width <= 2.0 ** -(int(np.finfo(values.dtype).nmant) // 2 - 8)
    better = small | (rest < known)
    part = sum_(where(side[:, None], values, 0.0), axis=0)
    return where(better, z - part + limit, z), where(better, error - known + rest, error)
