"""Banded and sparse systems: LAPACK's diagonal storage, and compressed rows."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from afx.core import Array, ArrayLike, Aval, bind_single, broadcast_shapes, to_lower_level
from afx.core.primitive import Params, Primitive, Tangents, Value, Values, define
from afx.errors import ArgumentError, DtypeError, MissingExtraError, ShapeError
from afx.ops._kinds.linear import batch_along_axes
from afx.ops._kinds.matrix import matrices, promote_pair
from afx.ops.creation.creation import asarray
from afx.ops.indexing.gather import scatter
from afx.ops.indexing.getitem import take_along_axis
from afx.ops.indexing.index import ints
from afx.ops.manipulation.join import concat, stack
from afx.ops.manipulation.shape import broadcast_to, reshape
from afx.ops.reductions.sums import sum as sum_
from afx.runtime.control_register import run_as_caller

# --- Banded systems: matrices in LAPACK's diagonal storage, with leading axes as batches


def solve_banded(l_and_u: tuple[int, int], ab: ArrayLike, b: ArrayLike) -> Array:
    """Return x with ``a @ x = b`` for matrices with few diagonals, in time proportional to n; needs the extra ``scipy``.

    Args:
        l_and_u: how many diagonals lie below and above the main one.
        ab: float[..., l + u + 1, n]: ``ab[u + i - j, j]`` is ``a[i, j]``; what lies outside of a is not read.
        b: float[..., n, k], or a vector float[n].

    Raises:
        ShapeError: the shapes do not fit.
        ArgumentError: a number of diagonals is negative.
        numpy.linalg.LinAlgError: a singular matrix.
        MissingExtraError: SciPy is not installed.

    >>> solve_banded((0, 1), np.array([[0.0, 1.0], [2.0, 4.0]]), np.array([4.0, 8.0]))
    Array([1., 2.], dtype=float64)
    """
    counts = ints(l_and_u, "solve_banded", "l_and_u")
    if len(counts) != 2 or min(counts) < 0:
        raise ArgumentError(f"solve_banded: two numbers of diagonals, 0 or more: got {l_and_u}; count them")
    lower, upper = counts
    x, y = promote_pair(ab, b, "solve_banded")
    columns = reshape(y, (-1, 1)) if y.ndim == 1 else y
    fits = x.ndim > 1 and y.ndim > 0 and x.shape[-2] == lower + upper + 1 and columns.shape[-2] == x.shape[-1]
    lead = broadcast_shapes([x.shape[:-2], columns.shape[:-2]]) if fits else None
    if lead is None:
        raise ShapeError(
            f"solve_banded: ab has a row for each of {lower + upper + 1} diagonals, and b as many rows as ab columns: "
            f"got {x.aval} and {y.aval}; reshape them"
        )
    full = [broadcast_to(v, (*lead, *v.shape[-2:])) for v in (x, columns)]
    z = bind_single(solve_banded_p, *full, lower=lower, upper=upper)
    return z[..., 0] if y.ndim == 1 else z


def _abstract_banded(ab: Aval, b: Aval, *, lower: int, upper: int) -> Aval:
    matrices(b, "solve_banded")
    return b


def _impl_banded(ab: Any, b: Any, *, lower: int, upper: int) -> Any:
    try:
        module = run_as_caller(importlib.import_module, "scipy.linalg")
    except ImportError as error:
        raise MissingExtraError(
            "solve_banded: needs SciPy, which is not installed; pip install 'afx[scipy]'"
        ) from error
    matrices(Aval(b.shape, b.dtype), "solve_banded")
    z = np.empty(b.shape, b.dtype)
    for k in np.ndindex(b.shape[:-2]):
        z[k] = module.solve_banded((lower, upper), ab[k], b[k])
    return z


def _shift_rows(x: Array, by: int, axis: int) -> Array:
    """Return an array whose i-th row is that of i + by, 0 beyond the ends."""
    size = x.shape[axis]
    count = min(abs(by), size)
    shape = list(x.shape)
    shape[axis] = count
    zeros = np.zeros(shape, x.dtype)
    shifted = (
        x[(..., slice(max(by, 0), size + min(by, 0)), *[slice(None)] * (-1 - axis))] if count < size else x[..., :0]
    )
    if count == size:
        return broadcast_to(zeros, x.shape)
    return concat([shifted, zeros] if by > 0 else [zeros, shifted], axis=axis) if by else x


def _times(ab: Array, x: Array, upper: int) -> Array:
    """Return the product of a banded matrix and vectors."""
    total = None
    for k in range(ab.shape[-2]):  # element [k, j] stands in row j - (upper - k)
        scaled = reshape(ab[..., k, :], (*ab.shape[:-2], ab.shape[-1], 1)) * x
        moved = _shift_rows(scaled, upper - k, -2)
        total = moved if total is None else total + moved
    assert total is not None
    return total


def _transpose_storage(ab: Array, upper: int) -> Array:
    """Return the storage of the transpose."""
    rows = [_shift_rows(ab[..., k, :], upper - k, -1) for k in range(ab.shape[-2])]
    return stack(rows[::-1], axis=-2)


def _push_banded(tangents: Tangents, z: Value, xs: Values, params: Params) -> Value:
    t, tb = tangents
    total = tb
    if t is not None:
        moved = _times(t, z, params["upper"])
        total = -moved if tb is None else tb - moved
    return to_lower_level(bind_single(solve_banded_p, xs[0], total, **params))


def _pull_banded(ct: Value, z: Value, xs: Values, params: Params, avals: tuple[Aval | None, ...]) -> list[Value | None]:
    lower, upper = params["lower"], params["upper"]
    y = bind_single(solve_banded_p, _transpose_storage(xs[0], upper), ct, lower=upper, upper=lower)
    if avals[0] is None:
        return [None, to_lower_level(y)]
    rows = [-sum_(_shift_rows(y, k - upper, -2) * z, axis=-1) for k in range(lower + upper + 1)]
    return [to_lower_level(stack(rows, axis=-2)), to_lower_level(y) if avals[1] is not None else None]


solve_banded_p: Primitive = define(
    name="solve_banded",
    kind="custom",
    impl=_impl_banded,
    abstract_eval=_abstract_banded,
    vjp_all=_pull_banded,
    reads=(3, 2),
    jvp=_push_banded,
    batch=batch_along_axes("solve_banded"),
    calls_lapack=True,
)


# --- Sparse systems: solutions by SciPy's SuperLU, given the entries of the matrix, with leading axes as batches


def solve_entries(values: Array, rows: Array, columns: Array, b: Array) -> Array:
    """Return x with ``a @ x = b`` for the square matrix of these entries; nan where it is singular.

    Args:
        values: float[..., entries]; those at one position add up.
        rows: int[..., entries].
        columns: int[..., entries].
        b: float[..., n, k].
    """
    return bind_single(sparse_solve_p, values, rows, columns, b)


def _abstract_sparse(values: Aval, rows: Aval, columns: Aval, b: Aval) -> Aval:
    matrices(b, "sparse_solve")
    if not values.shape == rows.shape == columns.shape or values.shape[:-1] != b.shape[:-2] or not values.shape:
        raise ShapeError(
            f"sparse_solve: each entry has a row and a column: got {values}, {rows} and {columns} for {b}; align them"
        )
    if values.dtype != b.dtype or rows.dtype.kind not in "iu" or columns.dtype.kind not in "iu":
        raise DtypeError(
            f"sparse_solve: entries and right sides are of one dtype, positions integers: got {values}, {rows}, "
            f"{columns} and {b}; use astype"
        )
    return b


def _impl_sparse(values: Any, rows: Any, columns: Any, b: Any) -> Any:
    """Solve by SciPy's SuperLU; nan where a matrix is singular, or holds what is not finite.

    Raises:
        MissingExtraError: SciPy is not installed.
    """
    _abstract_sparse(*[Aval(x.shape, x.dtype) for x in (values, rows, columns, b)])
    try:
        sparse = run_as_caller(importlib.import_module, "scipy.sparse")
        solvers = run_as_caller(importlib.import_module, "scipy.sparse.linalg")
    except ImportError as error:
        raise MissingExtraError(
            "sparse_solve: needs SciPy, which is not installed; pip install 'afx[scipy]'"
        ) from error
    z = np.full(b.shape, np.nan, b.dtype)
    n = b.shape[-2]
    for k in np.ndindex(b.shape[:-2]):
        if not np.isfinite(values[k]).all() or not n:
            continue
        matrix = sparse.csc_array((np.array(values[k]), (np.array(rows[k]), np.array(columns[k]))), shape=(n, n))
        try:
            z[k] = solvers.splu(matrix).solve(np.ascontiguousarray(b[k]))
        except RuntimeError:  # exactly singular
            continue
    return z


def _product(values: Array, rows: Array, columns: Array, x: Array) -> Array:
    """Return the product of the matrix of these entries with columns."""
    *lead, n, k = x.shape
    terms = reshape(values, (*values.shape, 1)) * _rows_at(x, columns)
    count = int(np.prod(lead))
    offsets = np.arange(count).reshape((*lead, 1)) * n
    flat = scatter(reshape(terms, (-1, k)), reshape(rows + offsets, (-1,)), shape=(count * n, k))
    return reshape(flat, x.shape)


def _rows_at(x: Array, positions: Array) -> Array:
    """Return the rows of columns at positions."""
    index = reshape(asarray(positions), (*positions.shape, 1))
    return take_along_axis(x, broadcast_to(index, (*positions.shape, x.shape[-1])), axis=-2)


def _push_sparse(tangents: Tangents, z: Value, xs: Values, params: Params) -> Value:
    values, rows, columns, _ = xs
    t, tb = tangents[0], tangents[3]
    total = tb
    if t is not None:
        moved = _product(t, rows, columns, z)
        total = -moved if tb is None else tb - moved
    return to_lower_level(bind_single(sparse_solve_p, values, rows, columns, total))


def _pull_sparse(ct: Value, z: Value, xs: Values, params: Params, avals: tuple[Aval | None, ...]) -> list[Value | None]:
    values, rows, columns, _ = xs
    y = bind_single(sparse_solve_p, values, columns, rows, ct)  # of the transpose
    cotangents: list[Value | None] = [None, None, None, to_lower_level(y) if avals[3] is not None else None]
    if avals[0] is not None:
        cotangents[0] = to_lower_level(-sum_(_rows_at(y, rows) * _rows_at(z, columns), axis=-1))
    return cotangents


sparse_solve_p: Primitive = define(
    name="sparse_solve",
    kind="custom",
    impl=_impl_sparse,
    abstract_eval=_abstract_sparse,
    vjp_all=_pull_sparse,
    reads=(15, 0, 0, 14),
    jvp=_push_sparse,
    batch=batch_along_axes("sparse_solve"),
    calls_lapack=True,
)
