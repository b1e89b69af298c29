"""Running sums and products, and differences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from afx.core.array import Array, ArrayLike
from afx.core.aval import Aval, aval_of, normalize_axis
from afx.core.functions import public
from afx.core.primitive import Params, Value
from afx.core.tracer import single
from afx.errors import ArgumentError, ShapeError
from afx.ops._kinds import linear
from afx.ops.creation import ones, zeros
from afx.ops.joining import concat
from afx.ops.reductions import numpy_of, sum_dtype
from afx.ops.shaping import astype, reshape

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = ["cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "diff"]


def _axis(x: ArrayLike, axis: int | None, who: str) -> tuple[ArrayLike, int]:
    """Return the operand and the axis to run along: all elements as one axis where none is named."""
    aval = aval_of(x, who)
    if axis is None:
        return (x, 0) if aval.ndim == 1 else (reshape(x, (-1,)), 0)
    return x, normalize_axis(axis, aval.ndim, who)


@public
def cumulative_sum(
    x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
) -> Array:
    """Return the running sum along an axis.

    Args:
        x: any shape; booleans and small integers are summed as 64-bit integers.
        axis: the axis to run along; it may be left out for a vector.
        dtype: converts x first.
        include_initial: puts a 0 in front, so that the axis grows by one.

    Raises:
        ArgumentError: no axis is named for an array of several.

    >>> cumulative_sum(np.array([1.0, 2.0, 3.0]))
    Array([1., 3., 6.], dtype=float64)
    """
    _named(x, axis, "cumulative_sum")
    y, place = _axis(x if dtype is None else astype(x, dtype), axis, "cumulative_sum")
    z = single(cumulative_sum_p, y, axis=place, reverse=False)
    return _with_initial(zeros, z, place) if include_initial else z


def _named(x: ArrayLike, axis: int | None, who: str) -> None:
    if axis is None and aval_of(x, who).ndim != 1:
        raise ArgumentError(f"{who}: which axis is not clear: got {aval_of(x)}; name it with axis=")


def _with_initial(make: Any, z: Array, axis: int) -> Array:
    first = make(tuple([1 if a == axis else n for a, n in enumerate(z.shape)]), z.dtype)
    return concat([first, z], axis=axis)


def _sum_run(x: Any, *, axis: int, reverse: bool) -> Any:
    y = numpy_of(x)
    return np.flip(np.cumsum(np.flip(y, axis), axis), axis) if reverse else np.cumsum(y, axis)


def _sum_abstract(x: Aval, *, axis: int, reverse: bool) -> Aval:
    if not x.ndim:
        raise ShapeError(f"cumulative_sum: a 0-d array has no axis to run along: got {x}; reshape it")
    return Aval(x.shape, sum_dtype(x.dtype))


def _sum_transpose(ct: Array, x: Aval, *, axis: int, reverse: bool) -> Array:
    return single(cumulative_sum_p, ct, axis=axis, reverse=not reverse)


def _sum_batch(size: int, xs: tuple[Value, ...], batched: tuple[bool, ...], params: Params) -> Value:
    return single(cumulative_sum_p, xs[0], axis=params["axis"] + 1, reverse=params["reverse"])


cumulative_sum_p = linear("cumulative_sum", _sum_run, _sum_abstract, _sum_transpose, batch=_sum_batch, positive=True)


@public
def cumsum(x: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None) -> Array:
    """Return the running sum along an axis, of all elements in row-major order where none is named.

    >>> cumsum(np.array([[1.0, 2.0], [3.0, 4.0]]))
    Array([ 1.,  3.,  6., 10.], dtype=float64)
    """
    y, place = _axis(x if dtype is None else astype(x, dtype), axis, "cumsum")
    return single(cumulative_sum_p, y, axis=place, reverse=False)


@public
def cumulative_prod(
    x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
) -> Array:
    """Return the running product along an axis; its derivatives are right with zeros too.

    Products are taken over spans that double, so that nothing is ever divided by an element (Hillis & Steele 1986).
    Arguments and errors are those of `cumulative_sum`.

    >>> cumulative_prod(np.array([1.0, 2.0, 3.0]))
    Array([1., 2., 6.], dtype=float64)
    """
    _named(x, axis, "cumulative_prod")
    y, place = _axis(x if dtype is None else astype(x, dtype), axis, "cumulative_prod")
    z = _products(y, place)
    return _with_initial(ones, z, place) if include_initial else z


def _products(x: ArrayLike, axis: int) -> Array:
    aval = aval_of(x)
    z = astype(x, sum_dtype(aval.dtype))
    span = 1
    while span < aval.shape[axis]:
        lead = (slice(None),) * axis
        z = concat([z[(*lead, slice(0, span))], z[(*lead, slice(span, None))] * z[(*lead, slice(0, -span))]], axis=axis)
        span *= 2
    return z


@public
def cumprod(x: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None) -> Array:
    """Return the running product along an axis, of all elements in row-major order where none is named.

    >>> cumprod(np.array([[1.0, 2.0], [3.0, 4.0]]))
    Array([ 1.,  2.,  6., 24.], dtype=float64)
    """
    y, place = _axis(x if dtype is None else astype(x, dtype), axis, "cumprod")
    return _products(y, place)


@public
def diff(x: ArrayLike, n: int = 1, axis: int = -1) -> Array:
    """Return the differences of neighbours along an axis, taken ``n`` times.

    >>> diff(np.array([1.0, 4.0, 9.0]))
    Array([3., 5.], dtype=float64)
    """
    if n < 0:
        raise ArgumentError(f"diff: differences are taken 0 times or more: got n={n}")
    aval = aval_of(x, "diff")
    place = normalize_axis(axis, aval.ndim, "diff")
    z = astype(x, aval.dtype) if isinstance(x, Array) else reshape(x, aval.shape)
    lead = (slice(None),) * place
    for _ in range(n):
        later, earlier = z[(*lead, slice(1, None))], z[(*lead, slice(0, -1))]
        z = later != earlier if aval.dtype.kind == "b" else later - earlier
    return z
