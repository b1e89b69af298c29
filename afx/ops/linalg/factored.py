"""Kept factorizations: one serves several right-hand sides, as in SciPy."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.tracing.tracer import bind
from afx.errors import ShapeError
from afx.ops._kinds.matrix import choice, floating, promote_pair, right_sides, square
from afx.ops.creation.creation import asarray
from afx.ops.indexing.getitem import take_along_axis
from afx.ops.linalg.cholesky import cholesky
from afx.ops.linalg.lu import lu_p
from afx.ops.linalg.triangular import solve_triangular
from afx.ops.manipulation.shape import broadcast_to, reshape
from afx.ops.sorting.sort import argsort

__all__ = ["LUFactorResult", "cho_factor", "cho_solve", "lu_factor", "lu_solve"]


class LUFactorResult(NamedTuple):
    """L and U in one matrix, L without its ones, and the order of rows: ``a[piv] = L @ U``."""

    lu: Array
    piv: Array


def lu_factor(a: ArrayLike) -> LUFactorResult:
    """Return the LU factorisation of square matrices, for `lu_solve`; derivatives are `lu`'s.

    ``piv`` is the order of the rows, where SciPy has LAPACK's list of exchanges.

    Args:
        a: float[..., n, n], real or complex.

    Raises:
        ShapeError: not square.

    >>> lu_factor(np.array([[1.0, 2.0], [2.0, 2.0]])).piv
    Array([1, 0], dtype=int64)
    """
    x = floating(a, "lu_factor")
    square(x.aval, "lu_factor")
    order, packed = bind(lu_p, x)
    return LUFactorResult(packed, order)


def lu_solve(lu_and_piv: tuple[ArrayLike, ArrayLike], b: ArrayLike, trans: Literal[0, 1, 2] = 0) -> Array:
    """Return x with ``a @ x = b`` from `lu_factor`'s result, differentiable by both.

    Args:
        lu_and_piv: what `lu_factor` returned.
        b: float[..., n, k], or a vector float[n].
        trans: 0 solves with a, 1 with its transpose, 2 with its conjugate transpose.

    Raises:
        ShapeError: the shapes do not fit.
        ArgumentError: trans is none of these.
        numpy.linalg.LinAlgError: a singular matrix.

    >>> lu_solve(lu_factor(np.array([[1.0, 2.0], [2.0, 2.0]])), np.array([5.0, 6.0]))
    Array([1., 2.], dtype=float64)
    """
    choice("lu_solve", "trans", trans, (0, 1, 2))
    packed, y = promote_pair(lu_and_piv[0], b, "lu_solve")
    order = asarray(lu_and_piv[1])
    square(packed.aval, "lu_solve")
    sides = right_sides(packed, y, "lu_solve")
    if sides.shape[-2] != packed.shape[-1]:
        raise ShapeError(f"lu_solve: b has as many rows as lu: got lu {packed.aval} and b {y.aval}; reshape b")
    if trans == 0:
        z = solve_triangular(packed, _rows(sides, order), lower=True, unit_diagonal=True)
        z = solve_triangular(packed, z)
    else:
        z = solve_triangular(packed, sides, trans=trans)
        z = solve_triangular(packed, z, trans=trans, lower=True, unit_diagonal=True)
        z = _rows(z, argsort(order, axis=-1))
    return z[..., 0] if y.ndim == 1 else z


def _rows(x: Array, order: Array) -> Array:
    """Return rows in an order; one order serves all batches."""
    lead = np.broadcast_shapes(x.shape[:-2], order.shape[:-1])
    places = broadcast_to(reshape(order, (*order.shape, 1)), (*lead, *x.shape[-2:]))
    return take_along_axis(broadcast_to(x, (*lead, *x.shape[-2:])), places, axis=-2)


def cho_factor(a: ArrayLike, lower: bool = False) -> tuple[Array, bool]:
    """Return Cholesky's factor and whether it is the lower one, for `cho_solve`; derivatives are `cholesky`'s.

    The other triangle holds zeros, where SciPy leaves what was there.

    Args:
        a: float[..., n, n], symmetric (Hermitian) and positive definite.
        lower: whether the lower triangle is read and returned; the upper one where not.

    Raises:
        ShapeError: not square.
        numpy.linalg.LinAlgError: not positive definite.

    >>> cho_factor(np.array([[4.0]]))
    (Array([[2.]], dtype=float64), False)
    """
    return cholesky(a, upper=not lower), lower


def cho_solve(c_and_lower: tuple[ArrayLike, bool], b: ArrayLike) -> Array:
    """Return x with ``a @ x = b`` from `cho_factor`'s result, differentiable by both.

    Args:
        c_and_lower: what `cho_factor` returned.
        b: float[..., n, k], or a vector float[n].

    Raises:
        ShapeError: the shapes do not fit.
        numpy.linalg.LinAlgError: a singular matrix.

    >>> cho_solve(cho_factor(np.array([[4.0]])), np.array([8.0]))
    Array([2.], dtype=float64)
    """
    c, lower = c_and_lower
    if lower:
        return solve_triangular(c, solve_triangular(c, b, lower=True), trans=2, lower=True)
    return solve_triangular(c, solve_triangular(c, b, trans=2))
