"""Sparse systems: solutions by SciPy's SuperLU, given the entries of the matrix, with leading axes as batches."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from afx.core.array.array import Array
from afx.core.aval import Aval
from afx.core.primitive import Params, Primitive, Value, define
from afx.core.tracing.tracer import bind_single, to_lower_level
from afx.errors import DtypeError, MissingExtraError, ShapeError
from afx.ops._kinds.batching import batch_along_axes
from afx.ops._kinds.matrix import matrices
from afx.ops.creation.creation import asarray
from afx.ops.indexing.gather import scatter
from afx.ops.indexing.getitem import take_along_axis
from afx.ops.manipulation.shape import broadcast_to, reshape
from afx.ops.reductions.sums import sum as sum_

__all__: list[str] = []


def solve_entries(values: Array, rows: Array, columns: Array, b: Array) -> Array:
    """Return x with ``a @ x = b`` for the square matrix of these entries; nan where it is singular.

    Args:
        values: float[..., entries]; those at one position add up.
        rows: int[..., entries].
        columns: int[..., entries].
        b: float[..., n, k].
    """
    return bind_single(sparse_solve_p, values, rows, columns, b)


def _abstract(values: Aval, rows: Aval, columns: Aval, b: Aval) -> Aval:
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


def _impl(values: Any, rows: Any, columns: Any, b: Any) -> Any:
    _abstract(*[Aval(x.shape, x.dtype) for x in (values, rows, columns, b)])
    try:
        sparse: Any = importlib.import_module("scipy.sparse")
        solvers: Any = importlib.import_module("scipy.sparse.linalg")
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


def _push(tangents: tuple[Value | None, ...], z: Value, xs: tuple[Value, ...], params: Params) -> Value:
    values, rows, columns, _ = xs
    t, tb = tangents[0], tangents[3]
    total = tb
    if t is not None:
        moved = _product(t, rows, columns, z)
        total = -moved if tb is None else tb - moved
    return to_lower_level(bind_single(sparse_solve_p, values, rows, columns, total))


def _pull(
    ct: Value, z: Value, xs: tuple[Value, ...], params: Params, avals: tuple[Aval | None, ...]
) -> list[Value | None]:
    values, rows, columns, _ = xs
    y = bind_single(sparse_solve_p, values, columns, rows, ct)  # of the transpose
    found: list[Value | None] = [None, None, None, to_lower_level(y) if avals[3] is not None else None]
    if avals[0] is not None:
        found[0] = to_lower_level(-sum_(_rows_at(y, rows) * _rows_at(z, columns), axis=-1))
    return found


sparse_solve_p: Primitive = define(
    name="sparse_solve",
    kind="custom",
    impl=_impl,
    abstract_eval=_abstract,
    vjp_all=_pull,
    reads=(15, 0, 0, 14),
    jvp=_push,
    batch=batch_along_axes("sparse_solve"),
    calls_lapack=True,
)
