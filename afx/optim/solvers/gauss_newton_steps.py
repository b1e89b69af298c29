"""Gauss-Newton steps: how `least_squares` finds a step, and how it changes the damping after it.

Sources: Moré 1978; Madsen, Nielsen & Tingleff 2004, "Methods for non-linear least squares problems", section 3.2.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

import attrs
import numpy as np

from afx.core.array.array import Array
from afx.ops.creation.creation import asarray
from afx.ops.elementwise.comparison import isfinite
from afx.ops.elementwise.where import maximum, minimum, where
from afx.ops.linalg.lstsq import lstsq
from afx.ops.manipulation.join import concat, stack
from afx.ops.reductions.moments import vector_norm
from afx.ops.reductions.sums import max as max_
from afx.ops.reductions.sums import sum as sum_
from afx.optim.solvers.radius_step import radius_step, scaled_length
from afx.optim.solvers.truncated_cg import truncated_cg
from afx.transforms.sparse.sparse_matrix import SparseMatrix

__all__ = ["DAMPED", "GAUSS_NEWTON", "WITHIN", "Iterate", "Rule", "squared_columns", "transpose"]

FIRST_DAMPING = 1e-3  # in units of the largest squared column


@attrs.frozen
class Iterate:
    """The state of a method.

    Attributes:
        x: the point.
        residuals: there.
        jacobian: there, dense or sparse.
        gradient: of the cost.
        scale: the largest squared length that each column had (Moré 1978): the units of the unknowns.
        damping: the radius in these units; with a sparse Jacobian what is added to the squared columns, also in them; of
            ``gauss_newton`` the fraction of a step.
        growth: the factor of the damping after the next rejection.
        iterations: trials so far.
        evaluations: of the residuals so far.
        status: a `Status`.
    """

    x: Array
    residuals: Array
    jacobian: Array | SparseMatrix
    gradient: Array
    scale: Array
    damping: Array
    growth: Array
    iterations: Array
    evaluations: Array
    status: Array


def transpose(matrix: Array | SparseMatrix) -> Array | SparseMatrix:
    """Return the transpose of a dense or a sparse matrix."""
    if isinstance(matrix, SparseMatrix):
        rows, columns = matrix.shape
        return SparseMatrix(matrix.values, matrix.indices[:, ::-1], (columns, rows))
    return matrix.T


def squared_columns(matrix: Array | SparseMatrix) -> Array:
    """Return the squared lengths of the columns."""
    if isinstance(matrix, SparseMatrix):
        flipped = transpose(matrix)
        assert isinstance(flipped, SparseMatrix)
        return SparseMatrix(flipped.values**2, flipped.indices, flipped.shape) @ _ones(matrix)
    return sum_(matrix * matrix, axis=0)


def _ones(matrix: SparseMatrix) -> Array:
    return asarray(np.ones(matrix.shape[0]), matrix.values.dtype)


def _damping(s: Iterate, _: Array, good: Array, gain: Array) -> tuple[Array, Array]:
    """Return the next damping, and its growth after a rejection, by Nielsen's rule."""
    shrink = maximum(1 / 3, 1 - (2 * gain - 1) ** 3)
    return where(good, s.damping * shrink, s.damping * s.growth), where(good, 2.0, 2 * s.growth)


def _fraction(s: Iterate, _: Array, good: Array, gain: Array) -> tuple[Array, Array]:
    """Return the next fraction of a step."""
    return where(good, 1.0, 0.5 * s.damping), s.growth


def _radius(s: Iterate, step: Array, good: Array, gain: Array) -> tuple[Array, Array]:
    """Return the next radius, as in SciPy."""
    length = scaled_length(step, s.scale)
    shrinks, grows = ~good | ~(gain > 0.25), (gain > 0.75) & (length > 0.95 * s.damping)
    return where(shrinks, 0.25 * minimum(length, s.damping), where(grows, 2 * s.damping, s.damping)), s.growth


def _least_norm_step(s: Iterate) -> Array:
    """Return the step of least norm that solves the linear model, or the part of it that is tried."""
    assert not isinstance(s.jacobian, SparseMatrix)
    return s.damping * -lstsq(s.jacobian, s.residuals).x


def _weights(s: Iterate) -> Array:
    """Return the squared scales of the unknowns, above 0."""
    squares = s.scale
    floor = float(np.finfo(squares.dtype).eps) * max_(squares, initial=0.0) + float(np.finfo(squares.dtype).tiny)
    return maximum(squares, floor)


def _step_within(s: Iterate) -> Array:
    """Return the minimizer of the linear model within the radius."""
    assert not isinstance(s.jacobian, SparseMatrix)
    return radius_step(s.jacobian, s.residuals, _weights(s), s.damping)


def _damped_step(s: Iterate) -> Array:
    """Return the minimizer of the damped linear model, in which each unknown counts in units of its scale."""
    assert isinstance(s.jacobian, SparseMatrix)
    matrix, flipped, weights = s.jacobian, transpose(s.jacobian), s.damping * _weights(s)
    if find_spec("scipy"):
        return _solve_augmented(matrix, weights, s.residuals)

    def product(v: Array) -> Array:
        return flipped @ (matrix @ v) + weights * v

    return truncated_cg(product, s.gradient, 1e-8 * vector_norm(s.gradient))[0]


def _solve_augmented(matrix: SparseMatrix, weights: Array, residuals: Array) -> Array:
    """Return the same step by a sparse factorization of residuals and unknowns together, which squares no column."""
    m, n = matrix.shape
    rows, columns = matrix.indices[:, 0], matrix.indices[:, 1] + m
    ones, first, last = _ones(matrix), np.arange(m), np.arange(m, m + n)
    values = concat([ones, matrix.values, matrix.values, -weights])
    indices = stack([concat([first, rows, columns, last]), concat([first, columns, rows, last])], axis=1)
    return SparseMatrix(values, indices, (m + n, m + n)).solve(concat([-residuals, 0 * weights]))[m:]


def _one(start: Array, _: Array) -> Array:
    return asarray(1.0, start.dtype)


def _first_radius(start: Array, scale: Array) -> Array:
    length = scaled_length(start, scale)
    return where((length > 0) & isfinite(length), length, 1.0)


@attrs.frozen(eq=False)
class Rule:
    """How steps are found.

    Attributes:
        find: a state to a step.
        adapt: (state, step, whether it is good, the ratio of actual to expected decrease) to the next damping and growth.
        first: (start, scale) to the first damping.
    """

    find: Callable[[Iterate], Array]
    adapt: Callable[[Iterate, Array, Array, Array], tuple[Array, Array]]
    first: Callable[[Array, Array], Array]


GAUSS_NEWTON = Rule(_least_norm_step, _fraction, _one)
DAMPED = Rule(_damped_step, _damping, lambda start, _: asarray(FIRST_DAMPING, start.dtype))
WITHIN = Rule(_step_within, _radius, _first_radius)
