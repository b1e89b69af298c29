"""LU factorization: with partial pivoting, of stacks of matrices.

The rules are Giles 2008's of a square matrix; L and U of others are made square with the columns and rows of the unit
matrix.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, overload

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval
from afx.core.primitive import Primitive
from afx.core.tracing.tracer import bind
from afx.ops._kinds.matrix import floating, matrices, matrix_op, plain, transposed
from afx.ops.creation.matrices import eye, tril, triu
from afx.ops.elementwise.comparison import equal
from afx.ops.indexing.getitem import take_along_axis
from afx.ops.linalg.triangular import right_solve_triangular, solved, substituted
from afx.ops.manipulation.join import concat
from afx.ops.manipulation.shape import astype, broadcast_to, reshape
from afx.ops.sorting.sort import argsort

__all__ = ["LUResult", "lu"]

PANEL = 64  # columns that are eliminated one by one before the others follow in one product


class LUResult(NamedTuple):
    """A permutation matrix P, a lower triangular L with ones on its diagonal, and an upper triangular U."""

    P: Array
    L: Array
    U: Array


@overload
def lu(a: ArrayLike, *, permute_l: Literal[False] = False) -> LUResult: ...


@overload
def lu(a: ArrayLike, *, permute_l: Literal[True]) -> tuple[Array, Array]: ...


def lu(a: ArrayLike, *, permute_l: bool = False) -> LUResult | tuple[Array, Array]:
    """Return P, L and U with ``P @ L @ U = a``; rows are exchanged so that no element of L is larger than 1.

    Derivatives are those while the order of the rows stays; they exist where the first min(m, n) columns of a are
    linearly independent, and for wide matrices the first m.

    Args:
        a: float[..., m, n], real or complex.
        permute_l: returns ``P @ L`` and U.

    Raises:
        ShapeError: no matrices.
        numpy.linalg.LinAlgError: where it is differentiated and U has a 0 on its diagonal.

    >>> lu(afx.asarray([[1.0, 2.0], [2.0, 2.0]])).U
    Array([[2., 2.],
           [0., 1.]], dtype=float32)
    """
    x = floating(a, "lu")
    order, packed = bind(lu_p, x)
    k = min(x.shape[-2:])
    lower = tril(packed[..., :k], k=-1) + eye(x.shape[-2], k, dtype=x.dtype)
    upper = triu(packed[..., :k, :])
    back = argsort(order, axis=-1)
    if permute_l:
        return _rows(lower, back), upper
    places = reshape(back, (*back.shape, 1))
    return LUResult(astype(equal(places, np.arange(x.shape[-2])), x.real.dtype), lower, upper)


def _rows(x: Array, order: Array) -> Array:
    """Return the rows of matrices in an order."""
    return take_along_axis(x, broadcast_to(reshape(order, (*order.shape, 1)), x.shape), axis=-2)


def _abstract(a: Aval) -> tuple[Aval, Aval]:
    matrices(a, "lu")
    return Aval(a.shape[:-1], np.dtype(np.int64)), Aval(a.shape, a.dtype)


def _run(a: Any) -> Any:
    """Eliminate panels of columns, then what stands right of each in one product."""
    m, n = a.shape[-2:]
    count = math.prod(a.shape[:-2])
    z = np.array(a).reshape((count, m, n))
    order = plain(np.zeros((count, m), np.int64) + np.arange(m))
    for start in range(0, min(m, n), PANEL):
        stop = min(start + PANEL, m, n)
        turned = _eliminate(z[:, start:, start:stop]) + start
        order[:, start:] = np.take_along_axis(order, turned, axis=-1)
        for others in (z[..., :start], z[..., stop:]):
            others[:, start:] = np.take_along_axis(others, turned[..., None], axis=-2)
        if stop < n:
            right = solved(z[:, start:stop, start:stop], z[:, start:stop, stop:], lower=True, unit=True)
            z[:, start:stop, stop:] = right
            z[:, stop:, stop:] -= z[:, stop:, start:stop] @ right
    return order.reshape(a.shape[:-1]), z.reshape(a.shape)


def _eliminate(z: Any) -> Any:
    """Factorise panels in place, and return the order in which that takes their rows; columns of zeros are left."""
    each = plain(np.arange(z.shape[0]))
    order = plain(np.zeros(z.shape[:-1], np.int64) + np.arange(z.shape[1]))
    for k in range(z.shape[-1]):
        best = k + np.argmax(np.abs(z[:, k:, k]), axis=-1)
        for x in (z, order):
            x[each, k], x[each, best] = x[each, best], x[each, k]
        pivot = z[:, k : k + 1, k]
        z[:, k + 1 :, k] /= np.where(pivot == 0, 1, pivot)
        z[:, k + 1 :, k + 1 :] -= z[:, k + 1 :, k, None] * z[:, k, None, k + 1 :]
    return order


def _squares(packed: Array) -> tuple[Array, Array]:
    """Return L and U as square matrices."""
    m, n = packed.shape[-2:]
    k, lead = min(m, n), packed.shape[:-2]
    lower = tril(packed[..., :k], k=-1)
    if m > k:
        lower = concat([lower, broadcast_to(np.zeros((), packed.dtype), (*lead, m, m - k))], axis=-1)
    upper = triu(packed[..., :k, :])
    if n > k:
        rows = np.eye(n, dtype=packed.dtype)[k:]
        upper = concat([upper, broadcast_to(rows, (*lead, *rows.shape))], axis=-2)
    return lower + eye(m, dtype=packed.dtype), upper


def _push(t: Array, z: tuple[Array, Array], a: Any) -> tuple[None, Array]:
    order, packed = z
    lower, upper = _squares(packed)
    inner = right_solve_triangular(substituted(lower, _rows(t, order), lower=True, unit=True), upper, lower=False)
    return None, lower @ tril(inner, k=-1) + triu(inner) @ upper


def _pull(ct: tuple[Any, Array], z: tuple[Array, Array], a: Any) -> Array:
    order, packed = z
    lower, upper = _squares(packed)
    inner = tril(transposed(lower) @ ct[1], k=-1) + triu(ct[1] @ transposed(upper))
    back = substituted(
        transposed(lower), right_solve_triangular(inner, transposed(upper), lower=True), lower=False, unit=True
    )
    return _rows(back, argsort(order, axis=-1))


lu_p: Primitive = matrix_op("lu", _run, _abstract, _push, _pull, reads=1, multiple_results=True)
