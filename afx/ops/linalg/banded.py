"""Banded systems: matrices in LAPACK's diagonal storage, with leading axes as batches."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval, broadcast_shapes
from afx.core.primitive import Params, Primitive, Value, define
from afx.core.tracing.tracer import bind_single, to_lower_level
from afx.errors import ArgumentError, MissingExtraError, ShapeError
from afx.ops._kinds.batching import batch_along_axes
from afx.ops._kinds.matrix import matrices, promote_pair
from afx.ops.manipulation.join import concat, stack
from afx.ops.manipulation.shape import broadcast_to, reshape
from afx.ops.reductions.sums import sum as sum_

__all__ = ["solve_banded"]


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
    lower, upper = l_and_u
    if lower < 0 or upper < 0:
        raise ArgumentError(f"solve_banded: numbers of diagonals are 0 or more: got {l_and_u}; count them")
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


def _abstract(ab: Aval, b: Aval, *, lower: int, upper: int) -> Aval:
    matrices(b, "solve_banded")
    return b


def _impl(ab: Any, b: Any, *, lower: int, upper: int) -> Any:
    try:
        module: Any = importlib.import_module("scipy.linalg")
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
    kept = x[(..., slice(max(by, 0), size + min(by, 0)), *[slice(None)] * (-1 - axis))] if count < size else x[..., :0]
    if count == size:
        return broadcast_to(zeros, x.shape)
    return concat([kept, zeros] if by > 0 else [zeros, kept], axis=axis) if by else x


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


def _push(tangents: tuple[Value | None, ...], z: Value, xs: tuple[Value, ...], params: Params) -> Value:
    t, tb = tangents
    total = tb
    if t is not None:
        moved = _times(t, z, params["upper"])
        total = -moved if tb is None else tb - moved
    return to_lower_level(bind_single(solve_banded_p, xs[0], total, **params))


def _pull(
    ct: Value, z: Value, xs: tuple[Value, ...], params: Params, avals: tuple[Aval | None, ...]
) -> list[Value | None]:
    lower, upper = params["lower"], params["upper"]
    y = bind_single(solve_banded_p, _transpose_storage(xs[0], upper), ct, lower=upper, upper=lower)
    if avals[0] is None:
        return [None, to_lower_level(y)]
    rows = [-sum_(_shift_rows(y, k - upper, -2) * z, axis=-1) for k in range(lower + upper + 1)]
    return [to_lower_level(stack(rows, axis=-2)), to_lower_level(y) if avals[1] is not None else None]


solve_banded_p: Primitive = define(
    name="solve_banded",
    kind="custom",
    impl=_impl,
    abstract_eval=_abstract,
    vjp_all=_pull,
    reads=(3, 2),
    jvp=_push,
    batch=batch_along_axes("solve_banded"),
    calls_lapack=True,
)
