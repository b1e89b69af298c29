"""Truncated conjugate gradients: the minimizer of a quadratic model, inside a ball if there is one."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import numpy as np

from afx.control.while_loop import while_loop
from afx.core.array.array import Array
from afx.ops.creation.creation import asarray, zeros
from afx.ops.elementwise.arithmetic import sqrt
from afx.ops.elementwise.comparison import isfinite
from afx.ops.elementwise.where import maximum, where
from afx.ops.linalg.products import vecdot
from afx.ops.reductions.moments import vector_norm

__all__ = ["truncated_cg"]


@attrs.frozen
class Iterate:
    """The state of conjugate gradients: the step, the residual, the direction, and whether it has ended."""

    step: Array
    residual: Array
    direction: Array
    square: Array
    ended: Array
    count: Array


def truncated_cg(
    product: Callable[[Array], Array], gradient: Array, tolerance: Array, radius: Array | None = None
) -> tuple[Array, Array]:
    """Return a step that lowers the model ``gradient·p + p·H·p/2``, and the number of products with H.

    Steihaug 1983, "The conjugate gradient method and trust regions in large scale optimization": ends at the boundary
    of the ball, at negative curvature (on the boundary; without a ball where it stands, or with steepest descent), at
    the tolerance, or after twice as many products as there are unknowns.

    Args:
        product: a vector to the Hessian's product with it.
        gradient: of the model.
        tolerance: of the norm of the model's gradient.
        radius: of the ball.
    """
    n = gradient.shape[0]

    def going(it: Iterate) -> Array:
        return ~it.ended & (it.count < 2 * n) & (sqrt(it.square) > tolerance)

    def advance(it: Iterate) -> Iterate:
        hd = product(it.direction)
        curve = vecdot(it.direction, hd)
        bent = ~(curve > np.finfo(curve.dtype).eps * vecdot(it.direction, it.direction))
        alpha = it.square / where(bent, 1.0, curve)
        step = it.step + alpha * it.direction
        if radius is None:
            first = it.count == 0
            ended = bent
            step = where(bent, where(first, -gradient, it.step), step)
        else:
            ended = bent | (vector_norm(step) >= radius)
            step = where(ended, it.step + _to_boundary(it.step, it.direction, radius) * it.direction, step)
        residual = it.residual + alpha * hd
        square = vecdot(residual, residual)
        direction = -residual + square / maximum(it.square, np.finfo(square.dtype).smallest_normal) * it.direction
        return Iterate(step, residual, direction, square, ended | ~isfinite(square), it.count + 1)

    begin = Iterate(
        zeros(n, gradient.dtype), gradient, -gradient, vecdot(gradient, gradient), asarray(False), asarray(0)
    )
    end = while_loop(going, advance, begin)
    return end.step, end.count


def _to_boundary(step: Array, direction: Array, radius: Array) -> Array:
    """Return how far a direction leads from a step inside of a ball to its boundary."""
    a = vecdot(direction, direction)
    b = vecdot(step, direction)
    c = maximum(radius * radius - vecdot(step, step), 0.0)
    root = sqrt(b * b + a * c)
    # the form without cancellation
    return where(b > 0, c / maximum(b + root, np.finfo(a.dtype).smallest_normal), (root - b) / where(a > 0, a, 1.0))
