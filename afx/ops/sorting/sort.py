"""Sorting: sorted elements, and indices of the order, of extremes and of nonzero elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from afx.core import Array, ArrayLike, Aval, DType, Shape, aval_of, int64, normalize_axis, register_function, wrap
from afx.core.primitive import (
    Bools,
    Derivative,
    Lowering,
    Masking,
    Params,
    Primitive,
    Tangents,
    Value,
    Values,
    record,
    register,
)
from afx.core.tracing.tracer import bind, bind_single, to_array, to_lower_level
from afx.errors import ArgumentError, DtypeError, ShapeError
from afx.ops._basic import numpy_of
from afx.ops._kinds.elementwise import nondifferentiable
from afx.ops._kinds.linear import batch_unchanged
from afx.ops.creation.creation import SEQUENCES, asarray, ones_like, operand_of, promote_operands
from afx.ops.elementwise.arithmetic import negative
from afx.ops.elementwise.comparison import equal, maximum, not_equal, where
from afx.ops.elementwise.complex import real
from afx.ops.indexing.gather import gather, scatter
from afx.ops.indexing.getitem import along_axis, take, take_along_axis
from afx.ops.manipulation.join import concat, moveaxis, stack
from afx.ops.manipulation.pad import flip
from afx.ops.manipulation.shape import reshape
from afx.ops.reductions.cumulative import cumulative_sum_p
from afx.ops.reductions.sums import sum as sum_

if TYPE_CHECKING:
    from afx.compiler.native_backend.lowering.recorder import Recorder


DISTINCT_MIN_ELEMENTS = 1000  # of arrays that are sorted as if no elements were equal: looking costs calls of NumPy
FIRST_MAX_COUNT = 64  # of elements that are kept in order along a row: beyond, the whole row is sorted
FIRST_PART_ELEMENTS = 64  # of a row, of which only the least one is looked at first where few elements are wanted
FIRST_MIN_PARTS = 4  # for each of these
Kind = Literal["quicksort", "mergesort", "heapsort", "stable"]  # NumPy's names


def arg_reduction(name: str, run: Any, native: Any = None) -> Primitive:
    """Return the primitive of a reduction to indices along one axis."""

    def abstract(x: Aval, *, axis: int) -> Aval:
        if not x.shape[axis]:
            raise ShapeError(
                f"{name}: reduction over an empty axis has no identity: got {x} along axis {axis}; give one element at least"
            )
        if x.dtype.kind == "c":
            raise DtypeError(f"{name}: complex numbers have no order: got {x}; take the abs or a part")
        return Aval(_without(x.shape, axis), int64)

    def compute(x: Any, *, axis: int) -> Any:
        y = numpy_of(x)
        if y.dtype.kind == "c":
            raise DtypeError(f"{name}: complex numbers have no order: got {aval_of(x)}; take the abs or a part")
        return run(y, axis=axis)

    return nondifferentiable(name, compute, abstract, batch=batch_unchanged(name), native=native)


def _without(shape: Shape, axis: int) -> Shape:
    axis %= len(shape)
    return shape[:axis] + shape[axis + 1 :]


def arg_extremum(p: Primitive, x: ArrayLike, axis: int | None, keepdims: bool) -> Array:
    """Bind a search for an extreme's index, in the flat array where no axis is given."""
    aval = aval_of(x, p.name)
    if axis is None:
        z: Array = bind(p, reshape(x, (-1,)), axis=-1)
        return reshape(z, (1,) * aval.ndim) if keepdims else z
    place = normalize_axis(axis, aval.ndim, p.name)
    z = bind(p, x, axis=place - aval.ndim)
    return reshape(z, (*aval.shape[:place], 1, *aval.shape[place + 1 :])) if keepdims else z


@register_function
def argmax(x: ArrayLike, axis: int | None = None, out: None = None, *, keepdims: bool = False) -> Array:
    """Return the index of the first largest element along an axis, of all elements in row-major order without one.

    >>> argmax(np.array([1.0, 3.0, 3.0]))
    Array(1, dtype=int64)
    """
    if x.__class__ in SEQUENCES or out is not None:
        x = operand_of(x, out, "argmax")
    return arg_extremum(argmax_p, x, axis, keepdims)


argmax_p: Primitive = arg_reduction("argmax", np.argmax, record(np.argmax))


@register_function
def argmin(x: ArrayLike, axis: int | None = None, out: None = None, *, keepdims: bool = False) -> Array:
    """Return the index of the first smallest element along an axis, of all elements in row-major order without one.

    >>> argmin(np.array([1.0, 0.0, 0.0]))
    Array(1, dtype=int64)
    """
    if x.__class__ in SEQUENCES or out is not None:
        x = operand_of(x, out, "argmin")
    return arg_extremum(argmin_p, x, axis, keepdims)


argmin_p: Primitive = arg_reduction("argmin", np.argmin, record(np.argmin))


@register_function
def argsort(
    x: ArrayLike,
    axis: int | None = -1,
    kind: Kind | None = None,
    order: None = None,
    *,
    descending: bool = False,
    stable: bool | None = True,
) -> Array:
    """Return the indices that sort x along an axis; equal elements keep their order unless ``stable`` is false.

    Args:
        x: any shape with an axis.
        axis: the axis to sort along; None sorts all elements as one.
        kind: NumPy's name of a method; has no effect: ``stable`` says what matters.
        order: None: there are no fields to name.
        descending: the largest first, and nan last all the same.
        stable: whether equal elements keep their order; without that it is faster.

    >>> argsort(np.array([3.0, 1.0, 2.0]))
    Array([1, 2, 0], dtype=int64)
    """
    if kind is not None or order is not None or stable is None:
        check_kind(kind, order, "argsort")
        return argsort(x, axis, descending=descending, stable=stable is not False)
    if axis is None:
        return argsort(reshape(x, (-1,)), -1, descending=descending, stable=stable)
    aval = aval_of(x, "argsort")
    place = normalize_axis(axis, aval.ndim, "argsort") - aval.ndim
    if not descending:
        return bind_single(argsort_p, x, axis=place, stable=stable)
    if aval.dtype.kind in "fc":  # nan stands last, as in NumPy
        return bind_single(argsort_p, negative(x), axis=place, stable=stable)
    # sorting the flipped array keeps equal elements in their order
    back = bind(argsort_p, flip(x, axis=place), axis=place, stable=stable)
    return flip(aval.shape[place] - 1 - back, axis=place)


def _argsort_run(x: Any, *, axis: int, stable: bool = True, count: int | None = None) -> Any:
    """Return an order; of distinct elements there is one, which NumPy finds faster where it need not be stable."""
    if count is not None:
        return _find_first(x, axis, count)
    if stable and x.size >= DISTINCT_MIN_ELEMENTS and x.dtype.kind in "iuf" and x.dtype.itemsize >= 4:
        order = np.argsort(x, axis=axis)
        rows = np.moveaxis(np.take_along_axis(x, order, axis), axis, -1)
        if (rows[..., 1:] > rows[..., :-1]).all():
            return order
    return np.argsort(x, axis=axis, kind="stable" if stable else None)


def _find_first(x: Any, axis: int, count: int) -> Any:
    """Return where the first elements of a stable order stand along an axis."""
    rows = np.moveaxis(x, axis, -1)
    parts = rows.shape[-1] // FIRST_PART_ELEMENTS
    if rows.dtype.kind not in "iuf" or parts <= FIRST_MIN_PARTS * count:
        return np.moveaxis(_argsort_run(rows, axis=-1)[..., :count], -1, axis)
    found = [_find_first_of_row(row, count, parts) for row in rows.reshape(-1, rows.shape[-1])]
    return np.moveaxis(np.array(found, int64).reshape(*rows.shape[:-1], count), -1, axis)


def _find_first_of_row(row: Any, count: int, parts: int) -> Any:
    """Order those elements alone that lie not above the least ones of so many parts of the row, of which nan is the largest."""
    least = row[: len(row) // parts * parts].reshape(-1, parts).min(axis=0)
    bound = np.partition(least, count - 1)[count - 1]
    places = np.flatnonzero(~(row > bound))
    return places[np.argsort(row[places], kind="stable")[:count]]


def _first_of(shape: Shape, axis: int, count: int | None) -> Shape:
    """Return the shape of the first elements along an axis, or raise where there are not so many, as a forged graph may say."""
    axis = normalize_axis(axis, len(shape), "sort")
    if count is None:
        return shape
    if count.__class__ is not int or not 0 <= count <= min(shape[axis], FIRST_MAX_COUNT):
        raise ShapeError(
            f"sort: takes up to {FIRST_MAX_COUNT} first elements of a row: got {count} for {shape}; take fewer"
        )
    return (*shape[:axis], count, *shape[axis + 1 :])


def _argsort_abstract(x: Aval, *, axis: int, stable: bool = True, count: int | None = None) -> Aval:
    return Aval(_first_of(x.shape, axis, count), int64)


def _argsort_native(
    xp: Recorder, out: Any, x: Any, *, axis: int, stable: bool = True, count: int | None = None
) -> None:
    if count is None:
        xp.sort(x, out, axis, "argsort.stable" if stable else "argsort.quick")
    else:
        xp.find_first(x, out, axis, "places")


argsort_p: Primitive = nondifferentiable(
    "argsort", _argsort_run, _argsort_abstract, batch=batch_unchanged("argsort"), native=_argsort_native
)


def check_kind(kind: str | None, order: object, who: str, kinds: Sequence[str] = get_args(Kind)) -> None:
    """Raise `ArgumentError` where NumPy's names of a method of sorting, or of fields, are none that arrays have."""
    if kind is not None and kind not in kinds:
        raise ArgumentError(f"{who}: no such kind: got kind={kind!r}; leave it out, or use one of {', '.join(kinds)}")
    if order is not None:
        raise ArgumentError(f"{who}: arrays have no fields to sort by: got order={order!r}; leave it out")


@register_function
def sort(
    x: ArrayLike,
    axis: int | None = -1,
    kind: Kind | None = None,
    order: None = None,
    *,
    descending: bool = False,
    stable: bool | None = True,
    ties: Literal["share", "order"] = "share",
) -> Array:
    """Return x sorted along an axis.

    Args:
        x: any shape with an axis.
        axis: the axis to sort along; None sorts all elements as one.
        kind: NumPy's name of a method; has no effect.
        order: None: there are no fields to name.
        descending: the largest first, and nan last all the same.
        stable: has no effect: equal numbers cannot be told apart.
        ties: the derivative where elements are equal: ``"share"`` divides it evenly among them, ``"order"`` keeps them in
            the order in which they stand, which gives one vertex of the subdifferential, as a fixed permutation has it.

    Raises:
        ArgumentError: another kind, order or rule for ties.

    >>> sort(np.array([3.0, 1.0, 2.0]))
    Array([1., 2., 3.], dtype=float64)
    """
    if kind is not None or order is not None:
        check_kind(kind, order, "sort")
    if axis is None:
        return sort(reshape(x, (-1,)), -1, descending=descending, ties=ties)
    if ties != "share":
        if ties != "order":
            raise ArgumentError(f"sort: ties are 'share' or 'order': got {ties!r}; take one of them")
        return take_along_axis(x, argsort(x, axis, descending=descending), axis)
    aval = aval_of(x, "sort")
    place = normalize_axis(axis, aval.ndim, "sort") - aval.ndim
    if descending and aval.dtype.kind in "fc":  # nan stands last, as in NumPy
        return negative(bind_single(sort_p, negative(x), axis=place))
    z: Array = bind(sort_p, x, axis=place)
    return flip(z, axis=place) if descending else z


def take_first(x: ArrayLike, axis: int, count: int) -> tuple[Array, Array]:
    """Return the first elements of a stable order along an axis, counted from the last one, and where they stand."""
    if count > FIRST_MAX_COUNT:
        part = (..., slice(0, count), *(slice(None),) * (-axis - 1))
        return sort(x, axis)[part], argsort(x, axis)[part]
    return bind(sort_p, x, axis=axis, count=count), bind(argsort_p, x, axis=axis, stable=True, count=count)


def _sort_native(xp: Recorder, out: Any, x: Any, *, axis: int, count: int | None = None) -> None:
    if count is None:
        xp.sort(x, out, axis, "sort.quick")
    else:
        xp.find_first(x, out, axis, "values")


def _share_ties(v: Value, z: Value, axis: int) -> Value:
    """Return values in sorted order, each group of equal elements replaced by its mean."""
    rows, values = (moveaxis(to_array(u), axis, -1) for u in (z, v))
    if not values.size:
        return v
    begins = concat([ones_like(rows[..., :1], bool), rows[..., 1:] != rows[..., :-1]], axis=-1)
    group = reshape(begins, (-1,)).astype(np.int64)
    group = bind_single(cumulative_sum_p, group, axis=0, reverse=False) - 1
    flat = reshape(values, (-1,))
    total, count = (scatter(u, group, shape=flat.shape) for u in (flat, ones_like(flat)))
    mean = gather(total / maximum(real(count), 1), group)
    return to_lower_level(moveaxis(reshape(mean, values.shape), -1, axis))


def _has_ties(z: Value, axis: int) -> bool:
    """Tell whether sorted elements repeat, as far as that is known: where it is not, they may."""
    if z.__class__ is not np.ndarray:
        return True
    rows = np.moveaxis(z, axis, -1)
    return bool(np.any(rows[..., 1:] == rows[..., :-1]))


def _sort_pull(ct: Value, z: Value, xs: Values, params: Params, shape: Shape, dtype: DType) -> Value:
    axis, count = params["axis"], params.get("count")
    if _has_ties(z, axis):
        ct = _share_ties(ct, z, axis)
    # where elements tie, their cotangents are equal: any order of theirs brings them back
    pulled = scatter(ct, *along_axis(_places(xs[0], axis, count), shape, axis), shape=shape)
    if count:  # those that just miss being among the first have their share of the mean, too
        missed, found = (_equals_last(x, z, axis) for x in (xs[0], z))
        share = sum_(found, axis=axis, keepdims=True).astype(dtype) / maximum(sum_(missed, axis=axis, keepdims=True), 1)
        pulled = where(missed, share.astype(dtype) * _last(ct, axis), pulled)
    return to_lower_level(pulled)


def _sort_push(ts: Tangents, z: Value, xs: Values, params: Params) -> Value:
    axis, count = params["axis"], params.get("count")
    t = to_lower_level(take_along_axis(to_array(ts[0]), _places(xs[0], axis, count), axis=axis))
    pushed = _share_ties(t, z, axis) if _has_ties(z, axis) else t
    if count:
        missed, found = (_equals_last(x, z, axis) for x in (xs[0], z))
        total = sum_(where(missed, to_array(ts[0]), 0), axis=axis, keepdims=True)
        mean = total / maximum(sum_(missed, axis=axis, keepdims=True), 1)
        pushed = to_lower_level(where(found, mean.astype(total.dtype), to_array(pushed)))
    return pushed


def _places(x: Value, axis: int, count: int | None) -> Array:
    """Return an order, any one of equal elements; or where the first elements stand."""
    return argsort(x, axis, stable=False) if count is None else take_first(x, axis, count)[1]


def _last(x: Value, axis: int) -> Array:
    last: Array = to_array(x)[(..., slice(-1, None), *(slice(None),) * (-axis - 1))]
    return last


def _equals_last(x: Value, z: Value, axis: int) -> Array:
    return equal(to_array(x), _last(z, axis))


def _sort_run(x: Any, *, axis: int, count: int | None = None) -> Any:
    return np.sort(x, axis=axis) if count is None else np.take_along_axis(x, _find_first(x, axis, count), axis)


def _sort_abstract(x: Aval, *, axis: int, count: int | None = None) -> Aval:
    return Aval(_first_of(x.shape, axis, count), x.dtype)


sort_p: Primitive = register(
    Primitive(
        name="sort",
        kind="custom",
        impl=_sort_run,
        abstract_eval=_sort_abstract,
        lowering=Lowering(native=_sort_native),
        batch=batch_unchanged("sort"),
        derivative=Derivative(vjps=(_sort_pull,), reads=(3,), jvp=_sort_push),
        masking=Masking(selects=True),
    )
)


@register_function
def searchsorted(
    sorted_array: ArrayLike, values: ArrayLike | Sequence[float], side: str = "left", sorter: ArrayLike | None = None
) -> Array:
    """Return where values would be inserted into a sorted vector to keep its order.

    Args:
        sorted_array: float[n], ascending; where it is not, the places are unspecified.
        values: any shape.
        side: ``"left"`` in front of equal elements, ``"right"`` behind them.
        sorter: int[n], the indices that sort the vector, where it is not sorted itself; see `argsort`.

    Raises:
        ShapeError: the first is not a vector, or the sorter has not as many elements.
        ArgumentError: another side.

    >>> searchsorted(np.array([1.0, 2.0, 3.0]), np.array([2.0]))
    Array([1], dtype=int64)
    """
    if side not in ("left", "right"):
        raise ArgumentError(f"searchsorted: side is 'left' or 'right': got {side!r}; take one of them")
    if sorter is not None:
        order = asarray(sorter)
        a = aval_of(sorted_array, "searchsorted")
        if order.shape != a.shape:
            raise ShapeError(
                f"searchsorted: a sorter has an index for each element: got {order.aval} for {a}; use argsort"
            )
        sorted_array = take(sorted_array, order, 0)
    places = promote_operands(values, sorted_array)[0] if isinstance(values, Sequence) else values
    return bind_single(searchsorted_p, sorted_array, places, side=side)


_searchsorted: Any = np.searchsorted  # its result type is not known to checkers


def _search_run(a: Any, v: Any, *, side: Any) -> Any:
    return np.asarray(_searchsorted(a, v, side=side), int64)


def _search_abstract(a: Aval, v: Aval, *, side: Any) -> Aval:
    if a.ndim != 1:
        raise ShapeError(f"searchsorted: looks into a vector: got {a}; use vmap for several")
    return Aval(v.shape, int64)


def _search_batch(size: int, xs: Values, batched: Bools, params: Params) -> Value:
    a, v = xs
    if not batched[0]:
        return searchsorted(a, v, side=params["side"])
    if not batched[1]:
        v = v[None] if isinstance(v, Array) else np.asarray(v)[None]
    a, flat = a[:, :, None], v.reshape((v.shape[0], 1, math.prod(v.shape[1:])))
    rows = a < flat if params["side"] == "left" else a <= flat
    if flat.dtype.kind == "f":  # a nan lies behind all numbers
        rows = rows | ((flat != flat) & ((a == a) if params["side"] == "left" else True))  # noqa: PLR0124  # of traced values
    return rows.sum(axis=1).reshape((size, *v.shape[1:]))


def _search_native(xp: Recorder, out: Any, a: Any, v: Any, *, side: str) -> None:
    dtype = np.promote_types(a.dtype, v.dtype)
    xp.search(xp.cast(a, dtype), xp.cast(v, dtype), out, side == "right")


searchsorted_p: Primitive = nondifferentiable(
    "searchsorted", _search_run, _search_abstract, batch=_search_batch, native=_search_native, takes_empty=True
)


# -- elements that are not zero --
@register_function
def nonzero(x: ArrayLike) -> tuple[Array, ...]:
    """Return the indices of the elements that are not zero, one vector an axis, in row-major order.

    How many there are depends on the values, so that they must be known: it works under `grad`, not under `jit` and
    `vmap`, where `where` and sums of masks do.

    Raises:
        ShapeError: a 0-d array, which has no indices.
        ConcreteValueError: the values are not known yet.

    >>> nonzero(np.array([0.0, 2.0, 3.0]))
    (Array([1, 2], dtype=int64),)
    """
    if not aval_of(x, "nonzero").ndim:
        raise ShapeError(
            f"nonzero: calling nonzero on 0-d arrays is not allowed: got {aval_of(x)}; reshape it to a vector"
        )
    indices = not_equal(x, 0).concrete("nonzero").nonzero()
    return tuple(map(wrap, indices))


@register_function
def flatnonzero(x: ArrayLike) -> Array:
    """Return the indices of the elements that are not zero, in x read as if it were flat; errors are `nonzero`'s.

    >>> flatnonzero(np.array([[0.0, 2.0], [3.0, 0.0]]))
    Array([1, 2], dtype=int64)
    """
    return nonzero(reshape(x, (-1,)))[0]


@register_function
def argwhere(x: ArrayLike) -> Array:
    """Return the indices of the elements that are not zero, int[number, axes]; errors are `nonzero`'s.

    >>> argwhere(np.array([[0.0, 2.0], [3.0, 0.0]]))
    Array([[0, 1],
           [1, 0]], dtype=int64)
    """
    return stack(nonzero(x), axis=1)
