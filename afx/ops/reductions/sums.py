"""Reductions: sums, means, products, extremes and truth along axes, by the fastest call for each layout."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from afx.core import Array, ArrayLike, DTypeLike, Function, bind, bind_single, floating_dtype, register_function
from afx.core.aval import Aval, Shape, aval_of, common_dtype, normalize_axes, shape_of
from afx.core.constants import DOT_SUM_MAX_ELEMENTS, DOT_SUM_MAX_LENGTH, DOT_SUM_MIN_LENGTH, reduce_in_transpose
from afx.core.dtypes import DType, bool_, float16, float32, float64, get_default_dtype, narrow_default, real_dtype
from afx.core.primitive import Primitive, is_weak
from afx.errors import ArgumentError, DtypeError, ShapeError
from afx.ops._basic import numpy_of, record_reduction, reduced, sum_aval, sum_p
from afx.ops._kinds.elementwise import nondifferentiable, reduction
from afx.ops._kinds.linear import batch_along_axes
from afx.ops.creation.creation import SEQUENCES, operand_of
from afx.ops.elementwise.comparison import maximum, minimum, where as where_
from afx.ops.manipulation.shape import astype, broadcast_to, permute_dims, reshape

# --- NumPy reductions: the fastest call for each layout, and accumulation dtypes


def reduced_by(ufunc: np.ufunc, x: Any, axis: Shape) -> Any:
    """Return NumPy's reduction, which begins anew with each row: extremes of short ones are taken in the transpose."""
    if reduce_in_transpose(ufunc, x.shape, axis):
        last = x.ndim - 1
        return ufunc.reduce(x.transpose((last, *range(last))).copy(), axis=0)
    return ufunc.reduce(x, axis=axis)


def largest(x: Any, axis: Shape) -> Any:
    """Return the largest elements along axes, which stay; -inf of none."""
    shape = [1 if a in axis else n for a, n in enumerate(x.shape)]
    return reduced_by(np.maximum, x, axis).reshape(shape) if x.size else np.full(shape, -np.inf, x.dtype)


def sum_keepdims(x: Any, axis: Shape) -> Any:
    """Return the sums along axes, which stay: those of rows in BLAS, three times as fast; float16 gives float32."""
    if axis != (x.ndim - 1,) or not DOT_SUM_MIN_LENGTH <= x.shape[-1] <= DOT_SUM_MAX_LENGTH or x.dtype.char not in "fd":
        wide = np.float32 if x.dtype == np.float16 else x.dtype  # which holds the sum of many
        return np.add.reduce(x, axis=axis, keepdims=True, dtype=wide)
    ones = _ones(x.shape[-1], x.dtype)
    if x.ndim == 2 and len(x) > 1 and x.size <= DOT_SUM_MAX_ELEMENTS:
        return x.dot(ones).reshape(-1, 1)
    return np.vecdot(x, ones)[..., None]


@lru_cache(maxsize=64)
def _ones(size: int, dtype: DType) -> Any:
    return np.ones(size, dtype)


def accumulation_dtype(x: ArrayLike, who: str) -> tuple[DType, DType, bool]:
    """Return the dtype in which numbers are added up for an average, that of the average, and whether to convert to it.

    Integers of more than two bytes are converted even where the average has that dtype too: sums of them overflow. So are
    all where averages of few bytes have another dtype, since sums of them have eight.
    """
    known: Any = getattr(x, "dtype", None)
    if known is float32 or known is float64:
        return known, known, False
    aval = aval_of(x, who)
    natural = common_dtype((aval,), floating=True)
    overflows = aval.dtype.kind in "biu" and (aval.dtype.itemsize > 2 or natural != get_default_dtype())
    wide = float64 if overflows else float32 if natural == float16 else natural
    return wide, natural, overflows or wide != natural


def beside(x: ArrayLike, initial: ArrayLike | None) -> ArrayLike:
    """Return a number in the dtype of the value that a reduction begins with: by itself it takes the default dtype."""
    if initial is None or isinstance(x, (Array, np.ndarray)):
        return x
    return astype(x, common_dtype([aval_of(x), aval_of(initial)]))


# --- Reductions

Axis = int | Sequence[int] | None


def with_axes(z: Array, shape: Shape, axis: Shape, keepdims: bool) -> Array:
    """Return a reduction's result with its axes put back as axes of length 1 where that is asked for."""
    return reshape(z, tuple([1 if a in axis else n for a, n in enumerate(shape)])) if keepdims else z


def fill_where(x: ArrayLike, where: ArrayLike | None, other: ArrayLike) -> ArrayLike:
    """Return x with another number where a reduction leaves elements out."""
    return x if where is None else where_(where, x, other)


@register_function
def sum(
    x: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Return the sum of the elements along axes.

    Args:
        x: any shape; booleans and small integers are summed as int64.
        axis: one axis, several, or all (None).
        dtype: converts x and ``initial`` first, and is the result's.
        out: None: results are not written into arrays.
        keepdims: keeps the summed axes, with length 1.
        initial: added to the sum.
        where: bool, broadcasting to x: which elements are summed.

    >>> sum(broadcast_to(1.0, (2, 3)), axis=0)
    Array([2., 2., 2.], dtype=float32)
    """
    if x.__class__ in SEQUENCES or out is not None:
        x = operand_of(x, out, "sum")
    if dtype is not None:
        initial = initial if initial is None else astype(initial, dtype)
        return astype(sum(astype(x, dtype), axis, keepdims=keepdims, initial=initial, where=where), dtype)
    if where is not None or initial is not None:
        z = sum(fill_where(beside(x, initial), where, 0), axis, keepdims=keepdims)
        return z if initial is None else z + initial
    shape = shape_of(x, "sum")
    axes = normalize_axes(axis, len(shape), "sum")
    z = bind(sum_p, x, axis=axes)
    return with_axes(z, shape, axes, keepdims) if keepdims else z


def _narrow(total: Array, size: int, dtype: DType) -> Array:
    """Return sums of so many elements in all as means of another dtype, into which each is rounded first."""
    count = size // (math.prod(total.shape) or 1)
    average: Array = astype(total, dtype) * dtype.type(1 / count if count else math.nan)
    return average


@register_function
def mean(
    x: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
) -> Array:
    """Return the arithmetic mean of the elements along axes; of none it is nan.

    Args:
        x: any shape; integers are averaged in float64 and given in the default dtype, float16 by way of float32: these
            hold the sums.
        axis: one axis, several, or all (None).
        dtype: converts x first.
        out: None: results are not written into arrays.
        keepdims: keeps the averaged axes, with length 1.
        where: bool, broadcasting to x: which elements are averaged.

    >>> mean(np.array([1.0, 2.0, 6.0]))
    Array(3., dtype=float64)
    """
    if x.__class__ in SEQUENCES or out is not None:
        x = operand_of(x, out, "mean")
    if dtype is not None:
        x = astype(x, dtype)
    else:
        wide, natural, converts = accumulation_dtype(x, "mean")
        if (converts or natural == float32) and narrow_default and where is None:  # as XLA rounds
            return _narrow(sum(astype(x, wide), axis, keepdims=keepdims), math.prod(shape_of(x, "mean")), natural)
        if converts:
            return astype(mean(x, axis, dtype=wide, keepdims=keepdims, where=where), natural)
    shape = shape_of(x, "mean")
    axes = normalize_axes(axis, len(shape), "mean")
    if where is not None:
        return _average_some(x, axes, keepdims, where)
    return sum(x, axes, keepdims=keepdims) / math.prod([shape[a] for a in axes])


def _average_some(x: ArrayLike, axes: tuple[int, ...], keepdims: bool, where: ArrayLike) -> Array:
    """Return the mean of elements where a mask says so, nan of none."""
    total = sum(x, axes, keepdims=keepdims, where=where)
    counted = broadcast_to(astype(where, bool_), shape_of(x, "mean"))
    if is_weak(total):
        number = count = sum(where_(counted, 1.0, 0.0), axes, keepdims=keepdims)
    else:
        count = sum(counted, axes, keepdims=keepdims)
        number = astype(count, real_dtype(floating_dtype(total.dtype)))
    return total / where_(count > 0, number, math.nan)


# -- extremes --
def reduce_over(p: Primitive, x: ArrayLike, axis: Axis, keepdims: bool, who: str) -> Array:
    """Bind a reduction over axes, which are kept with length 1 where that is asked for."""
    shape = shape_of(x, who)
    axes = normalize_axes(axis, len(shape), who)
    z = bind_single(p, x, axis=axes)
    return with_axes(z, shape, axes, keepdims) if keepdims else z


def reducing(ufunc: np.ufunc, *, ordered: bool = False) -> Function:
    """Return the implementation of a reduction from the ufunc that it repeats."""

    def run(x: Any, *, axis: Shape) -> Any:
        y = numpy_of(x)
        if ordered and y.dtype.kind == "c":
            raise DtypeError(
                f"{ufunc.__name__}: complex numbers have no order: got {aval_of(x)}; take the abs or a part"
            )
        return reduced_by(ufunc, y, axis)

    return run


def extreme_abstract(name: str) -> Callable[..., Aval]:
    """Return the abstract rule of an extreme, which an axis without elements has not."""

    def abstract(x: Aval, *, axis: Shape) -> Aval:
        if math.prod([x.shape[a] for a in axis]) == 0:
            raise ShapeError(
                f"{name}: reduction over an empty axis has no identity: got {x} along axis {axis}; give initial="
            )
        if x.dtype.kind == "c":
            raise DtypeError(f"{name}: complex numbers have no order: got {x}; take the abs or a part")
        return Aval(reduced(x.shape, axis), x.dtype)

    return abstract


def tie_weights(z: Array, x: Array, *, axis: Shape) -> Array:
    """Return 1 over the number of elements that are the extreme where x is it, 0 elsewhere."""
    tied = x == z
    return tied / maximum(tied.astype(x.dtype).sum(axis=axis, keepdims=True), 1)  # none is tied with a nan


def reduce_with_initial(
    reduce: Callable[..., Array],
    choose: Callable[[ArrayLike, ArrayLike], Array],
    x: ArrayLike,
    axis: Axis,
    keepdims: bool,
    initial: ArrayLike | None,
    where: ArrayLike | None,
) -> Array:
    """Return the extreme of a first value and of those elements that count."""
    name = reduce.__name__
    if initial is None:
        raise ArgumentError(f"{name}: reduction has no identity: got where= without initial=; give initial=")
    shape = shape_of(x, name)
    axes = normalize_axes(axis, len(shape), name)
    if 0 in shape:
        start = astype(initial, aval_of(x).dtype)
        return with_axes(broadcast_to(start, reduced(shape, axes)), shape, axes, keepdims)
    return choose(reduce(fill_where(beside(x, initial), where, initial), axes, keepdims=keepdims), initial)


@register_function
def max(
    x: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Return the largest element along axes, nan where one is; tied elements share the derivative evenly.

    Args:
        x: any shape of real numbers.
        axis: one axis, several, or all (None).
        out: None: results are not written into arrays.
        keepdims: keeps the axes, with length 1.
        initial: compared with the elements; stands for them where there are none.
        where: bool, broadcasting to x: which elements are compared; ``initial`` must then be given.

    Raises:
        ShapeError: there are no elements to compare.
        ArgumentError: ``where`` without ``initial``.

    >>> max(broadcast_to(2.0, (3,)))
    Array(2., dtype=float32)
    """
    if x.__class__ in SEQUENCES or out is not None:
        x = operand_of(x, out, "max")
    if where is not None or initial is not None:
        return reduce_with_initial(max, maximum, x, axis, keepdims, initial, where)
    return reduce_over(max_p, x, axis, keepdims, "max")


max_p: Primitive = reduction(
    "max",
    reducing(np.maximum, ordered=True),
    extreme_abstract("max"),
    tie_weights,
    reduce_ufunc=np.maximum,
    selects=True,
)


@register_function
def min(
    x: ArrayLike,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Return the smallest element along axes, nan where one is; tied elements share the derivative evenly.

    Args:
        x: any shape of real numbers.
        axis: one axis, several, or all (None).
        out: None: results are not written into arrays.
        keepdims: keeps the axes, with length 1.
        initial: compared with the elements; stands for them where there are none.
        where: bool, broadcasting to x: which elements are compared; ``initial`` must then be given.

    Raises:
        ShapeError: there are no elements to compare.
        ArgumentError: ``where`` without ``initial``.

    >>> min(broadcast_to(2.0, (3,)))
    Array(2., dtype=float32)
    """
    if x.__class__ in SEQUENCES or out is not None:
        x = operand_of(x, out, "min")
    if where is not None or initial is not None:
        return reduce_with_initial(min, minimum, x, axis, keepdims, initial, where)
    return reduce_over(min_p, x, axis, keepdims, "min")


min_p: Primitive = reduction(
    "min",
    reducing(np.minimum, ordered=True),
    extreme_abstract("min"),
    tie_weights,
    reduce_ufunc=np.minimum,
    selects=True,
)

amax = max
amin = min


@register_function
def ptp(x: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False) -> Array:
    """Return the largest minus the smallest element along axes.

    >>> ptp(np.array([1.0, 4.0, 2.0]))
    Array(3., dtype=float64)
    """
    if x.__class__ in SEQUENCES or out is not None:
        x = operand_of(x, out, "ptp")
    return max(x, axis, keepdims=keepdims) - min(x, axis, keepdims=keepdims)


# -- products --
@register_function
def prod(
    x: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Array:
    """Return the product of the elements along axes; its derivative is the product of the others, also with zeros.

    Arguments are those of `sum`; the product is multiplied by ``initial``.

    >>> prod(broadcast_to(2.0, (3,)))
    Array(8., dtype=float32)
    """
    if x.__class__ in SEQUENCES or out is not None:
        x = operand_of(x, out, "prod")
    if dtype is not None:
        initial = initial if initial is None else astype(initial, dtype)
        return astype(prod(astype(x, dtype), axis, keepdims=keepdims, initial=initial, where=where), dtype)
    if where is not None or initial is not None:
        z = prod(fill_where(beside(x, initial), where, 1), axis, keepdims=keepdims)
        return z if initial is None else z * initial
    return reduce_over(prod_p, x, axis, keepdims, "prod")


def _multiply_others(_z: Array, x: Array, *, axis: Shape) -> Array:
    """Return the product of the other elements: of those before and those after, without a division."""
    rest = [a for a in range(x.ndim) if a not in axis]
    lengths = [x.shape[a] for a in rest]
    rows = permute_dims(x, (*rest, *axis)).reshape((*lengths, math.prod([x.shape[a] for a in axis])))
    products = products_of_others(rows)
    back = reshape(products, (*lengths, *[x.shape[a] for a in axis]))
    order = (*rest, *axis)
    return permute_dims(back, tuple(map(order.index, range(x.ndim))))


def products_of_others(x: Array) -> Array:
    """Return, along the last axis, the product of all other elements, in logarithmically many steps.

    Halves are combined from the root down: what the elements of one half miss is the product of the other half.
    """
    n = x.shape[-1]
    if n < 2:
        return astype(broadcast_to(1, x.shape), x.dtype)
    half = n // 2
    left, right = x[..., :half], x[..., half:]
    with_left = products_of_others(left) * prod(right, -1, keepdims=True)
    with_right = products_of_others(right) * prod(left, -1, keepdims=True)
    join: Any = np.concatenate  # of Arrays, so afx's own
    z: Array = join([with_left, with_right], axis=-1)
    return z


prod_p: Primitive = reduction(
    "prod", reducing(np.multiply), sum_aval, _multiply_others, native=record_reduction(np.multiply), takes_empty=True
)


@register_function
def count_nonzero(x: ArrayLike, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """Return the number of elements along axes that are not zero.

    >>> count_nonzero(broadcast_to(2.0, (3,)))
    Array(3, dtype=int64)
    """
    return sum(astype(x, bool_), axis, keepdims=keepdims)


# --- Boolean reductions: whether all elements along axes are true, or any


def _truth(name: str, ufunc: np.ufunc, fn: Callable[..., Array]) -> Primitive:
    def abstract(x: Aval, *, axis: Shape) -> Aval:
        return Aval(reduced(x.shape, axis), bool_)

    role = "reduce_or" if ufunc is np.logical_or else ""
    return nondifferentiable(
        name,
        reducing(ufunc),
        abstract,
        batch=batch_along_axes(name),
        canonical=role,
        native=record_reduction(ufunc),
        takes_empty=True,
    )


@register_function
def all(
    x: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False, *, where: ArrayLike | None = None
) -> Array:
    """Tell whether all elements along axes are true (not zero), among those where ``where`` holds.

    >>> all(np.array([[True, True], [False, True]]), axis=1)
    Array([ True, False], dtype=bool)
    """
    if x.__class__ in SEQUENCES or out is not None:
        x = operand_of(x, out, "all")
    x = x if where is None else fill_where(astype(x, bool_), where, True)
    return reduce_over(all_p, x, axis, keepdims, "all")


all_p: Primitive = _truth("all", np.logical_and, all)


@register_function
def any(
    x: ArrayLike, axis: Axis = None, out: None = None, keepdims: bool = False, *, where: ArrayLike | None = None
) -> Array:
    """Tell whether any element along axes is true (not zero), among those where ``where`` holds.

    >>> any(np.array([[False, True], [False, False]]), axis=1)
    Array([ True, False], dtype=bool)
    """
    if x.__class__ in SEQUENCES or out is not None:
        x = operand_of(x, out, "any")
    x = x if where is None else fill_where(astype(x, bool_), where, False)
    return reduce_over(any_p, x, axis, keepdims, "any")


any_p: Primitive = _truth("any", np.logical_or, any)
