"""Radius step: the minimizer of a linear least squares model inside a ball, in units of the unknowns' scales.

Sources: Moré 1978, "The Levenberg-Marquardt algorithm: implementation and theory"; the Newton iteration for the damping is
that of section 5, with singular values in place of factorizations, as in SciPy.
"""

from __future__ import annotations

import numpy as np

from afx.control.while_loop import fori_loop
from afx.core.array.array import Array
from afx.ops.elementwise.arithmetic import sqrt
from afx.ops.elementwise.comparison import isfinite
from afx.ops.elementwise.where import clip, maximum, where
from afx.ops.linalg.qr import qr
from afx.ops.linalg.svd import svd
from afx.ops.reductions.boolean import all as all_
from afx.ops.reductions.moments import vector_norm
from afx.ops.reductions.sums import sum as sum_

__all__ = ["radius_step", "scaled_length"]

ITERATIONS = 10  # of the damping, which is as near then as it needs to be
SLACK = 1.1  # how far beyond the radius a step may end


def scaled_length(step: Array, scale: Array) -> Array:
    """Return the length of a step in units of the squared scales' roots."""
    return vector_norm(step * sqrt(scale))


def radius_step(jacobian: Array, residuals: Array, scale: Array, radius: Array) -> Array:
    """Return the step p for which ``|residuals + jacobian p|`` is least where ``|sqrt(scale) p|`` is up to the radius.

    Args:
        jacobian: float[residuals, unknowns].
        residuals: float[residuals].
        scale: float[unknowns], squared, above 0.
        radius: float.
    """
    units = sqrt(scale)
    q, triangle = qr(jacobian)
    usable = all_(isfinite(triangle))  # what is not finite has no singular values
    u, s, v = svd(where(usable, triangle / units, 0.0), full_matrices=False)
    eps = float(np.finfo(s.dtype).eps)
    kept = s > eps * jacobian.shape[1] * s[0]
    right = where(kept, s * (u.T @ (q.T @ residuals)), 0.0)
    squares = where(kept, s * s, 1.0)

    def length_at(damping: Array) -> tuple[Array, Array]:
        parts = right / (squares + damping)
        length = vector_norm(parts)
        slope = sum_(parts * parts / (squares + damping)) / where(length > 0, length, 1.0)
        return length, slope

    full, steep = length_at(0.0 * radius)
    upper = vector_norm(right) / radius
    lower = maximum(full - radius, 0.0) / where(steep > 0, steep, 1.0)

    def improve(_: Array, damping: Array) -> Array:
        length, slope = length_at(damping)
        change = (length - radius) / where(slope > 0, slope, 1.0) * (length / radius)
        return clip(damping + change, lower, upper)

    damping = fori_loop(0, ITERATIONS, improve, maximum(0.001 * upper, sqrt(lower * upper)))
    damping = where(full <= SLACK * radius, 0.0, damping)
    return -(v.T @ (right / (squares + damping))) / units
