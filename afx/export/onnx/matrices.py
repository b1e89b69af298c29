"""Small matrices: factorizations and solutions, of which ONNX has none, column by column."""

from __future__ import annotations

import attrs
import numpy as np

from afx.export.onnx.dims import Length
from afx.export.onnx.shapes import slice_axes
from afx.export.onnx.table import rule
from afx.export.onnx.value import Value, where
from afx.export.onnx.writer import OnnxWriter
from afx.export.templates.table import NoTemplateError

__all__: list[str] = []

MOST_ROWS = 32  # of a matrix: about 20 nodes each


def _rows(a: Value) -> int:
    n = a.shape[-1]
    if not isinstance(n, int) or n > MOST_ROWS:
        raise NoTemplateError(f"of matrices of more than {MOST_ROWS} rows, or of a dynamic number")
    return n


def _take_vector(x: Value, axis: int, k: int) -> Value:
    """Return one row (axis -2) or column (axis -1) of matrices, as a matrix."""
    place = len(x.shape) + axis
    shape = (*x.shape[:place], 1, *x.shape[place + 1 :])
    return attrs.evolve(slice_axes(x, {place: (k, k + 1, 1)}), shape=shape)


def _transpose(x: Value) -> Value:
    rank = len(x.shape)
    return x.transpose([*range(rank - 2), rank - 1, rank - 2])


def _numbers(x: Value, n: int) -> Value:
    """Return the number of each row, as a column."""
    return x.writer.array(np.arange(n)[:, None], "rows")


def _join(parts: list[Value], axis: int) -> Value:
    first, *rest = parts
    return first.op("Concat", *rest, axis=axis)


@rule("cholesky")
def _cholesky(w: OnnxWriter, a: Value) -> Value:
    n, columns = _rows(a), list[Value]()
    for k in range(n):
        column = _take_vector(a, -1, k)
        scaled = column / _take_vector(column, -2, k).op("Sqrt")
        columns.append(attrs.evolve(where(_numbers(a, n) >= k, scaled, 0.0), shape=column.shape))
        a = attrs.evolve(a - columns[-1] * _transpose(columns[-1]), shape=a.shape)
    return _join(columns, -1) if columns else w.full(a.shape, 0, a.dtype)


@rule("solve_triangular")
def _solve_triangular(w: OnnxWriter, a: Value, b: Value) -> Value:
    n, is_lower = _rows(a), w.params["lower"]
    rest, found = w.expand(b, w.outs[0].shape), dict[int, Value]()
    for k in range(n) if is_lower else reversed(range(n)):
        column, row = _take_vector(a, -1, k), _take_vector(rest, -2, k)
        found[k] = row if w.params["unit"] else row / _take_vector(column, -2, k)
        rest = attrs.evolve(rest - column * found[k], shape=rest.shape)
    return _join([found[k] for k in range(n)], -2) if n else rest


# -- elimination, with the largest element of each column as its pivot --
def _eliminate(x: Value, n: int, is_safe: bool) -> tuple[Value, list[Value], list[Value]]:
    """Return matrices whose first n columns became those of 1, the pivots, and whether rows were exchanged for each."""
    rows, pivots, swaps = _numbers(x, n), list[Value](), list[Value]()
    shape, w = x.shape, x.writer
    for k in range(n):
        sizes = where(rows >= k, abs(_take_vector(x, -1, k)), -1.0)
        place = sizes.op("ArgMax", dtype=np.int64, axis=-2, keepdims=1)
        swaps.append(~place.equals(k))
        order = where(rows.equals(k), place, where(rows.equals(place), k, rows))
        x = attrs.evolve(x.op("GatherElements", w.expand(order, shape), axis=-2), shape=shape)
        column, row = _take_vector(x, -1, k), _take_vector(x, -2, k)
        pivot = _take_vector(column, -2, k)
        pivots.append(pivot)
        row = row / (where(pivot.equals(0.0), 1.0, pivot) if is_safe else pivot)
        x = attrs.evolve(where(rows.equals(k), row, x - column * row), shape=shape)
    return x, pivots, swaps


def _solution(a: Value, b: Value, shape: tuple[Length, ...]) -> Value:
    n, w = _rows(a), a.writer
    if n == 0:
        return w.full(shape, 0, a.dtype)
    left = w.expand(a, (*shape[:-1], n))
    both = left.op("Concat", w.expand(b, shape), axis=-1)
    found, _, _ = _eliminate(attrs.evolve(both, shape=(*shape[:-1], n + shape[-1])), n, is_safe=False)
    return slice_axes(found, {len(shape) - 1: (n, n + shape[-1], 1)})


@rule("solve", "solve_or_nan")
def _solve(w: OnnxWriter, a: Value, b: Value) -> Value:
    return _solution(a, b, w.outs[0].shape)


@rule("inv")
def _invert(w: OnnxWriter, a: Value) -> Value:
    return _solution(a, w.array(np.eye(_rows(a), dtype=a.dtype), "identity"), a.shape)


def _pivots(w: OnnxWriter, a: Value) -> tuple[Value, Value]:
    """Return the pivots of a matrix along a last axis, and the sign of its rows' order."""
    _, pivots, swaps = _eliminate(a, _rows(a), is_safe=True)
    sign = w.full((1, 1), 1, a.dtype)
    for swap in swaps:
        sign = sign * where(swap, -1.0, w.number(1.0, a.dtype))
    return _join(pivots, -1), sign


def _drop(w: OnnxWriter, x: Value, kind: str) -> Value:
    return x.op(kind, w.ints((-2, -1)), keepdims=0)


@rule("det")
def _det(w: OnnxWriter, a: Value) -> Value:
    if _rows(a) == 0:
        return w.full(w.outs[0].shape, 1, a.dtype)
    pivots, sign = _pivots(w, a)
    return _drop(w, pivots, "ReduceProd") * _drop(w, sign, "ReduceProd")


@rule("slogdet")
def _slogdet(w: OnnxWriter, a: Value) -> list[Value]:
    shape = w.outs[0].shape
    if _rows(a) == 0:
        return [w.full(shape, 1, a.dtype), w.full(shape, 0, a.dtype)]
    pivots, sign = _pivots(w, a)
    whole = _drop(w, pivots.op("Sign"), "ReduceProd") * _drop(w, sign, "ReduceProd")
    return [whole, _drop(w, abs(pivots).op("Log"), "ReduceSum")]
