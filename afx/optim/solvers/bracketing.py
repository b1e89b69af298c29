"""Bracketing: roots between two points of opposite signs, by inverse quadratic interpolation where that is safe.

Source: Chandrupatla 1997, "A new hybrid quadratic/bisection algorithm for finding the zero of a nonlinear function
without using derivatives", as in Scherer 2010, section 6.1.7.3.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
import numpy as np

from afx.control.solving.report import Status, choose_status
from afx.control.solving.vectors import iterate
from afx.core.array.array import Array
from afx.ops.creation.creation import asarray
from afx.ops.elementwise.arithmetic import abs as abs_
from afx.ops.elementwise.arithmetic import sign
from afx.ops.elementwise.comparison import isfinite
from afx.ops.elementwise.where import clip, maximum, minimum, where
from afx.ops.reductions.boolean import all as all_

__all__ = ["Bracket", "narrow"]

FEW = 2  # ulps, below which a bracket is rounding


Ends = tuple[Array, Array, Array, Array, Array, Array]  # near, far, last, and the function at each


@attrs.frozen
class Bracket:
    """The state: for each element both ends of the bracket, the newest first, the end before, values, and the next place.

    Attributes:
        near: the newest end.
        far: the other end.
        last: the end that was given up.
        at_near: the function at the newest end.
        at_far: the function at the other end.
        at_last: the function at the end that was given up.
        share: where between the ends it is tried next.
        x: the end with the smaller value.
        residual: the function there.
        iterations: so far.
        evaluations: so far.
        status: a `Status`.
    """

    near: Array
    far: Array
    last: Array
    at_near: Array
    at_far: Array
    at_last: Array
    share: Array
    x: Array
    residual: Array
    iterations: Array
    evaluations: Array
    status: Array


def narrow(residual: Callable[[Array], Array], lower: Array, upper: Array, limit: int) -> Bracket:
    """Return the last brackets: they narrow until they are as small as rounding, or hit a root."""
    eps, tiny = float(np.finfo(lower.dtype).eps), float(np.finfo(lower.dtype).tiny)

    def state(ends: Ends, share: Array, iterations: Array, evaluations: Array) -> Bracket:
        near, far, _, at_near, at_far, _ = ends
        first = abs_(at_near) < abs_(at_far)
        x, value = where(first, near, far), where(first, at_near, at_far)
        width = abs_(far - near)
        least = (FEW * eps * abs_(x) + tiny) / where(width > 0, width, 1.0)
        done = (width == 0) | (least > 0.5) | (value == 0)
        status = choose_status(all_(done), Status.CONVERGED, Status.RUNNING)
        status = where(all_(isfinite(at_near)), status, int(Status.NONFINITE))
        share = where(done, 0.0, clip(share, minimum(least, 0.5), maximum(1 - least, 0.5)))
        return Bracket(*ends, share, x, value, iterations, evaluations, status)

    def advance(s: Bracket) -> Bracket:
        x = s.near + s.share * (s.far - s.near)
        value = residual(x)
        same = sign(value) == sign(s.at_near)
        last, at_last = where(same, s.near, s.far), where(same, s.at_near, s.at_far)
        far, at_far = where(same, s.far, s.near), where(same, s.at_far, s.at_near)
        ends = (x, far, last, value, at_far, at_last)
        return state(ends, _next_share(*ends), s.iterations + 1, s.evaluations + 1)

    at_lower, at_upper = residual(lower), residual(upper)
    half = asarray(0.5, lower.dtype) + 0.0 * lower
    begin = state((upper, lower, lower, at_upper, at_lower, at_lower), half, asarray(0), asarray(2))
    opposite = all_(sign(at_lower) * sign(at_upper) <= 0)
    status = where(opposite, begin.status, int(Status.NO_BRACKET))
    return iterate(attrs.evolve(begin, status=status), advance, limit)


def _next_share(near: Array, far: Array, last: Array, at_near: Array, at_far: Array, at_last: Array) -> Array:
    """Return where between the ends a parabola through three points is 0; the middle where it is no guide."""

    def over(a: Array, b: Array) -> Array:
        return a / where(b == 0, 1.0, b)

    place, height = over(near - far, last - far), over(at_near - at_far, at_last - at_far)
    safe = (height**2 < place) & ((1 - height) ** 2 < 1 - place) & (at_last != at_far) & (at_last != at_near)
    turn = over(last - near, far - near)
    first = over(at_near, at_far - at_near) * over(at_last, at_far - at_last)
    second = turn * over(at_near, at_last - at_near) * over(at_far, at_last - at_far)
    return where(safe, first + second, 0.5)
