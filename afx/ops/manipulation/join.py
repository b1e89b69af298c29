"""Joining and splitting: axes in another order, `concat`, `stack`, `tile`, `split` and their families."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np

from afx.core import Array, ArrayLike, DType, DTypeLike, bind, promote, refuse_out, register_function, to_lower_level
from afx.core.aval import Aval, Shape, aval_of, broadcast_avals, integer, normalize_axis
from afx.core.dtypes import narrow_default
from afx.core.primitive import (
    Algebra,
    Bools,
    Derivative,
    Lowering,
    Masking,
    Params,
    Primitive,
    Tangents,
    Value,
    Values,
    record_into,
    register,
)
from afx.errors import ArgumentError, OperandError, ShapeError
from afx.ops._kinds.linear import batch_along_axes
from afx.ops.creation.creation import Nested, as_array, promote_operands
from afx.ops.indexing.gather import gather, slice_
from afx.ops.indexing.index import ints, is_sequence, shape_of, whole
from afx.ops.manipulation.shape import astype, broadcast_to, expand_dims, permute_dims, reshape

# --- Axes: exchanged, moved, added


@register_function
def matrix_transpose(x: ArrayLike, /) -> Array:
    """Return x with its last two axes exchanged.

    Raises:
        ShapeError: fewer than two axes.

    >>> matrix_transpose(afx.zeros((4, 2, 3))).shape
    (4, 3, 2)
    """
    aval = aval_of(x, "matrix_transpose")
    if aval.ndim < 2:
        raise ShapeError(f"matrix_transpose: takes two axes or more: got {aval}; use afx.expand_dims first")
    return swapaxes(x, -1, -2)


@register_function
def swapaxes(x: ArrayLike, axis1: int, axis2: int) -> Array:
    """Return x with two axes exchanged.

    Raises:
        ShapeError: an axis is out of range.

    >>> swapaxes(afx.zeros((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    ndim = aval_of(x, "swapaxes").ndim
    a, b = (normalize_axis(axis, ndim, "swapaxes") for axis in (axis1, axis2))
    order = list(range(ndim))
    order[a], order[b] = b, a
    return permute_dims(x, order)


@register_function
def moveaxis(x: ArrayLike, /, source: int | Sequence[int], destination: int | Sequence[int]) -> Array:
    """Return x with axes moved to other positions; the other axes keep their order.

    Args:
        x: any shape.
        source: the axes.
        destination: where each stands in the result.

    Raises:
        ShapeError: an axis is out of range or named twice, or the numbers of axes differ.

    >>> moveaxis(afx.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    ndim = aval_of(x, "moveaxis").ndim
    start, end = (
        [normalize_axis(a, ndim, "moveaxis") for a in ints(axes, "moveaxis", name)]
        for axes, name in ((source, "source"), (destination, "destination"))
    )
    if len(start) != len(end) or len(set(start)) != len(start) or len(set(end)) != len(end):
        raise ShapeError(f"moveaxis: each axis moves to one position: got {source} and {destination}; name each once")
    rest = iter([a for a in range(ndim) if a not in start])
    return permute_dims(x, [start[end.index(place)] if place in end else next(rest) for place in range(ndim)])


@overload
def atleast_1d(x: ArrayLike, /) -> Array: ...
@overload
def atleast_1d(x: ArrayLike, y: ArrayLike, /, *arrays: ArrayLike) -> tuple[Array, ...]: ...
@register_function
def atleast_1d(*arrays: ArrayLike) -> Array | tuple[Array, ...]:
    """Return x with one axis where it had none; a tuple of several.

    >>> atleast_1d(1.0).shape
    (1,)
    """
    return _reshape_each(arrays, "atleast_1d", lambda shape: shape or (1,))


@overload
def atleast_2d(x: ArrayLike, /) -> Array: ...
@overload
def atleast_2d(x: ArrayLike, y: ArrayLike, /, *arrays: ArrayLike) -> tuple[Array, ...]: ...
@register_function
def atleast_2d(*arrays: ArrayLike) -> Array | tuple[Array, ...]:
    """Return x with new axes in front up to two; a tuple of several.

    >>> atleast_2d(afx.zeros(3)).shape
    (1, 3)
    """
    return _reshape_each(arrays, "atleast_2d", lambda shape: (1,) * (2 - len(shape)) + shape)


@overload
def atleast_3d(x: ArrayLike, /) -> Array: ...
@overload
def atleast_3d(x: ArrayLike, y: ArrayLike, /, *arrays: ArrayLike) -> tuple[Array, ...]: ...
@register_function
def atleast_3d(*arrays: ArrayLike) -> Array | tuple[Array, ...]:
    """Return x with new axes up to three: of shape ``(1, n, 1)`` from n elements, ``(m, n, 1)`` from a matrix.

    >>> atleast_3d(afx.zeros(3)).shape
    (1, 3, 1)
    """
    return _reshape_each(
        arrays, "atleast_3d", lambda shape: ((1,) * (len(shape) < 2) + shape + (1, 1))[: max(3, len(shape))]
    )


def _reshape_each(
    arrays: tuple[ArrayLike, ...], who: str, widen: Callable[[Shape], Shape]
) -> Array | tuple[Array, ...]:
    """Return each array in another shape; one by itself, several as a tuple."""
    reshaped = tuple([reshape(x, widen(aval_of(x, who).shape)) for x in arrays])
    return reshaped[0] if len(reshaped) == 1 else reshaped


# --- Joining: `concat`, `stack`, `tile`, `repeat` and their family

Arrays = Sequence[ArrayLike] | Array | np.ndarray[Any, np.dtype[Any]]


def _list_operands(arrays: Any, who: str) -> list[Any]:
    """Return the arrays of a sequence, or the slices of one array along its first axis."""
    if not isinstance(arrays, (Array, list, tuple, np.ndarray)):
        aval_of(arrays, who)
        raise OperandError(f"{who}: takes a sequence of arrays: got one of {aval_of(arrays)}; write [x, y]")
    operands = list(arrays)  # pyright: ignore[reportUnknownArgumentType]  # a user's sequence
    if not operands:
        raise ArgumentError(f"{who}: need at least one array: got an empty sequence; give one")
    if not isinstance(arrays, Array) and any(map(is_sequence, operands)):  # lists of numbers among arrays
        others = [x for x in operands if hasattr(x, "dtype")]
        return [promote_operands(x, *others)[0] if is_sequence(x) else x for x in operands]
    return operands


# -- concat --
@register_function
def concat(arrays: Arrays, /, axis: int | None = 0, out: None = None, *, dtype: DTypeLike | None = None) -> Array:
    """Return the arrays one after another along an axis that they have.

    Args:
        arrays: of shapes that are equal but for the axis; their dtypes are promoted.
        axis: the axis; None reads each as if it were flat.
        out: None: results are not written into arrays.
        dtype: that of the result instead.

    Raises:
        ShapeError: shapes that do not fit, a 0-d array, or an axis out of range.
        ArgumentError: no arrays.

    >>> concat([afx.ones(2), afx.zeros(1)])
    Array([1., 1., 0.], dtype=float32)
    """
    if out is not None:
        refuse_out(out, "concat")
    xs = _list_operands(arrays, "concat")
    if dtype is not None:
        xs = [astype(x, dtype) for x in xs]
    if axis is None:
        xs, axis = [reshape(x, (-1,)) for x in xs], 0
    avals = [aval_of(x, "concat") for x in xs]
    if narrow_default:  # NumPy's dtype is another one
        xs = [astype(x, promote(*_dtypes(avals))) for x in xs]
    if avals[0].ndim == 0:
        got = ", ".join(map(str, avals))
        raise ShapeError(f"concat: zero-dimensional arrays cannot be concatenated: got {got}; use afx.stack")
    place = normalize_axis(axis, avals[0].ndim, "concat")
    if len(xs) == 1:
        return as_array(xs[0])
    z: Array = bind(concat_p, *xs, axis=place, sizes=tuple([a.shape[place] if place < a.ndim else 1 for a in avals]))
    return z


concatenate = concat


def _concat_into(out: Any, *xs: Any, axis: int, sizes: Shape) -> None:
    np.concatenate(xs, axis, out)


def _concat_abstract(*avals: Aval, axis: int, sizes: Shape) -> Aval:
    first = avals[0].shape
    for a in avals:
        if a.ndim != len(first) or a.shape[:axis] + a.shape[axis + 1 :] != first[:axis] + first[axis + 1 :]:
            got = ", ".join(map(str, avals))
            raise ShapeError(
                f"concat: array dimensions except for the concatenation axis must match exactly: got {got}; reshape"
            )
    dtype = promote(*_dtypes(avals))
    return Aval((*first[:axis], sum(sizes), *first[axis + 1 :]), dtype)


def _parts(x: Value, axis: int, sizes: Shape, wanted: Sequence[bool]) -> list[Value]:
    """Return the pieces of x along an axis, None for those that are not wanted."""
    pieces: list[Value] = []
    start = 0
    lead = tuple(map(whole, x.shape[:axis]))
    for size, want in zip(sizes, wanted, strict=True):
        entry = (start, start + size, 1) if size else (0, 0, 1)
        pieces.append(to_lower_level(slice_(x, (*lead, entry))) if want else None)
        start += size
    return pieces


def _concat_joint(ct: Value, z: Value, xs: Values, params: Params, avals: tuple[Aval | None, ...]) -> list[Value]:
    return _parts(ct, params["axis"], params["sizes"], [a is not None for a in avals])


def _concat_jvp(ts: Tangents, z: Value, xs: Values, params: Params) -> Value:
    zero = z.dtype.type(0)
    return to_lower_level(
        bind(
            concat_p,
            *[broadcast_to(zero, shape_of(x)) if t is None else t for t, x in zip(ts, xs, strict=True)],
            **params,
        )
    )


def _concat_run(*xs: Any, axis: int, sizes: Shape) -> Any:
    return np.concatenate(xs, axis=axis)


concat_p: Primitive = register(
    Primitive(
        name="concat",
        kind="custom",
        impl=_concat_run,
        abstract_eval=_concat_abstract,
        batch=batch_along_axes("concat"),
        derivative=Derivative(vjp_all=_concat_joint, reads=(0,), jvp=_concat_jvp),
        masking=Masking(nonnegative_linear=True),
        lowering=Lowering(impl_into=_concat_into, native=record_into(_concat_into), takes_empty=True),
        algebra=Algebra(canonical="concat"),
    )
)


# -- stack --
@register_function
def stack(arrays: Arrays, /, axis: int = 0, out: None = None, *, dtype: DTypeLike | None = None) -> Array:
    """Return the arrays side by side along a new axis.

    Args:
        arrays: of one shape; their dtypes are promoted.
        axis: the position of the new axis in the result.
        out: None: results are not written into arrays.
        dtype: that of the result instead.

    Raises:
        ShapeError: shapes that differ, or an axis out of range.
        ArgumentError: no arrays.

    >>> stack([afx.ones(2), afx.zeros(2)])
    Array([[1., 1.],
           [0., 0.]], dtype=float32)
    """
    if out is not None:
        refuse_out(out, "stack")
    xs = _list_operands(arrays, "stack")
    if dtype is not None:
        xs = [astype(x, dtype) for x in xs]
    avals = [aval_of(x, "stack") for x in xs]
    if any(a.shape != avals[0].shape for a in avals):
        got = ", ".join(map(str, avals))
        raise ShapeError(
            f"stack: all input arrays must have the same shape: got {got}; reshape or broadcast them to one shape"
        )
    z: Array = bind(stack_p, *xs, axis=normalize_axis(axis, avals[0].ndim + 1, "stack"))
    return z


def _stack_run(*xs: Any, axis: int) -> Any:
    dtype = promote(*_dtypes([aval_of(x) for x in xs]))
    return np.stack([np.asarray(x, dtype) for x in xs], axis=axis)


def _stack_into(out: Any, *xs: Any, axis: int) -> None:
    np.stack(xs, axis, out)


def _stack_abstract(*avals: Aval, axis: int) -> Aval:
    first = avals[0].shape
    return Aval((*first[:axis], len(avals), *first[axis:]), promote(*_dtypes(avals)))


def _dtypes(avals: Sequence[Aval]) -> tuple[tuple[DType, ...], Bools]:
    return tuple([a.dtype for a in avals]), tuple([a.weak for a in avals])


def _stack_joint(ct: Value, z: Value, xs: Values, params: Params, avals: tuple[Aval | None, ...]) -> list[Value]:
    lead = tuple(map(whole, ct.shape[: params["axis"]]))
    return [None if a is None else to_lower_level(slice_(ct, (*lead, k))) for k, a in enumerate(avals)]


def _stack_jvp(ts: Tangents, z: Value, xs: Values, params: Params) -> Value:
    zero = z.dtype.type(0)
    filled = [broadcast_to(zero, shape_of(x)) if t is None else t for t, x in zip(ts, xs, strict=True)]
    return to_lower_level(bind(stack_p, *filled, **params))


stack_p: Primitive = register(
    Primitive(
        name="stack",
        kind="custom",
        impl=_stack_run,
        abstract_eval=_stack_abstract,
        batch=batch_along_axes("stack"),
        derivative=Derivative(vjp_all=_stack_joint, reads=(0,), jvp=_stack_jvp),
        masking=Masking(nonnegative_linear=True),
        lowering=Lowering(impl_into=_stack_into, native=record_into(_stack_into)),
        algebra=Algebra(canonical="stack"),
    )
)


@register_function
def hstack(arrays: Arrays, /, *, dtype: DTypeLike | None = None) -> Array:
    """Return the arrays joined along their second axis, 1-d ones along their only axis.

    >>> hstack([1.0, afx.zeros(2)])
    Array([1., 0., 0.], dtype=float32)
    """
    xs = [atleast_1d(x) for x in promote_operands(*_list_operands(arrays, "hstack"))]
    return concat(xs, axis=0 if xs[0].ndim == 1 else 1, dtype=dtype)


@register_function
def vstack(arrays: Arrays, /, *, dtype: DTypeLike | None = None) -> Array:
    """Return the arrays joined along their first axis, 1-d ones as rows.

    >>> vstack([afx.ones(2), afx.zeros(2)]).shape
    (2, 2)
    """
    return concat([atleast_2d(x) for x in promote_operands(*_list_operands(arrays, "vstack"))], axis=0, dtype=dtype)


@register_function
def dstack(arrays: Arrays, /) -> Array:
    """Return the arrays joined along their third axis.

    >>> dstack([afx.ones(2), afx.zeros(2)]).shape
    (1, 2, 2)
    """
    return concat([atleast_3d(x) for x in promote_operands(*_list_operands(arrays, "dstack"))], axis=2)


@register_function
def column_stack(arrays: Arrays, /) -> Array:
    """Return the arrays joined along their second axis, 1-d ones as columns.

    >>> column_stack([afx.ones(3), afx.zeros(3)]).shape
    (3, 2)
    """
    xs = [atleast_1d(x) for x in promote_operands(*_list_operands(arrays, "column_stack"))]
    return concat([expand_dims(x, 1) if x.ndim == 1 else x for x in xs], axis=1)


# -- repetition --
@register_function
def tile(x: ArrayLike, /, reps: int | Sequence[int]) -> Array:
    """Return x laid side by side, as often along each axis as ``reps`` says.

    Args:
        x: any shape.
        reps: one number per axis, counted from the last; more of them than axes make new axes in front.

    Raises:
        ArgumentError: a negative number.

    >>> tile(afx.asarray([1.0, 2.0]), 2)
    Array([1., 2., 1., 2.], dtype=float32)
    """
    aval = aval_of(x, "tile")
    counts = list(ints(reps, "tile", "reps"))
    if min(counts, default=0) < 0:
        raise ArgumentError(f"tile: repetitions are not negative: got {tuple(counts)}; give 0 or more")
    rank = max(aval.ndim, len(counts))
    counts = [1] * (rank - len(counts)) + counts
    shape = (1,) * (rank - aval.ndim) + aval.shape
    repeated = broadcast_to(
        reshape(x, tuple([m for n in shape for m in (1, n)])),
        tuple([m for c, n in zip(counts, shape, strict=True) for m in (c, n)]),
    )
    return reshape(repeated, tuple([c * n for c, n in zip(counts, shape, strict=True)]))


@register_function
def repeat(x: ArrayLike, /, repeats: int | Sequence[int] | Array, axis: int | None = None) -> Array:
    """Return each element of x several times in a row.

    Args:
        x: any shape.
        repeats: how often: one number, or one per element of the axis; known numbers, since the shape depends on them.
        axis: the axis; without one x is read as if it were flat.

    Raises:
        ArgumentError: negative numbers.
        ShapeError: not as many numbers as elements.

    >>> repeat(afx.asarray([1.0, 2.0]), 2)
    Array([1., 1., 2., 2.], dtype=float32)
    """
    aval = aval_of(x, "repeat")
    if axis is None:
        return repeat(reshape(x, (-1,)), repeats, axis=0)
    place = normalize_axis(axis, aval.ndim, "repeat")
    counts = np.asarray(ints(repeats, "repeat", "repeats"), np.intp)
    if (counts < 0).any():
        raise ArgumentError(f"repeat: repeats are numbers from 0 on: got {repeats!r}; give an int or one per element")
    n = aval.shape[place]
    if counts.size != 1:
        if counts.size != n:
            raise ShapeError(
                f"repeat: {counts.size} repeats for {n} elements: got {aval} and axis={axis}; give one each"
            )
        return gather(x, np.repeat(np.arange(n), counts), axis=place)
    count = int(counts.reshape(()))
    shape = (*aval.shape[: place + 1], count, *aval.shape[place + 1 :])
    return reshape(
        broadcast_to(expand_dims(x, place + 1), shape), (*aval.shape[:place], n * count, *aval.shape[place + 1 :])
    )


@register_function
def broadcast_arrays(*arrays: Nested) -> tuple[Array, ...]:
    """Return the arrays broadcast to their common shape; lists of numbers among them take the dtype of the others.

    Raises:
        ShapeError: they do not broadcast.

    >>> [x.shape for x in broadcast_arrays(afx.zeros((2, 1)), afx.zeros(3))]
    [(2, 3), (2, 3)]
    """
    operands = promote_operands(*arrays) if any(map(is_sequence, arrays)) else list[Any](arrays)
    avals = [aval_of(x, "broadcast_arrays") for x in operands]
    shape = broadcast_avals("broadcast_arrays", avals) if operands else ()
    return tuple([broadcast_to(x, shape) for x in operands])


# --- Splitting: `split`, `unstack` and their family


@register_function
def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """Return the slices of x along an axis, which they no longer have.

    Raises:
        ShapeError: an axis out of range.

    >>> unstack(afx.asarray([1.0, 2.0]))
    (Array(1., dtype=float32), Array(2., dtype=float32))
    """
    aval = aval_of(x, "unstack")
    place = normalize_axis(axis, aval.ndim, "unstack")
    return bind(unstack_p, x, axis=place) if aval.shape[place] else ()


def _unstack_jvp(ts: Tangents, z: Value, xs: Values, params: Params) -> Value:
    assert ts[0] is not None
    return tuple(map(to_lower_level, unstack(ts[0], axis=params["axis"])))


def _unstack_inline(xs: Values, params: Params) -> Value:
    """Return the parts as slices, which plans know as views of one value."""
    axis = params["axis"]
    shape = xs[0].shape
    return tuple([slice_(xs[0], (*map(whole, shape[:axis]), k)) for k in range(shape[axis])])


def _unstack_run(x: Any, *, axis: int) -> tuple[Any, ...]:
    return tuple(np.moveaxis(x, axis, 0))


def _unstack_abstract(x: Aval, *, axis: int) -> tuple[Aval, ...]:
    return (Aval(x.shape[:axis] + x.shape[axis + 1 :], x.dtype),) * x.shape[axis]


unstack_p: Primitive = register(
    Primitive(
        name="unstack",
        kind="custom",
        impl=_unstack_run,
        abstract_eval=_unstack_abstract,
        batch=batch_along_axes("unstack"),
        multiple_results=True,
        decompose=_unstack_inline,
        opaque=True,
        derivative=Derivative(
            vjp_all=lambda ct, z, xs, params, avals: [to_lower_level(stack(ct, axis=params["axis"]))],
            reads=(0,),
            jvp=_unstack_jvp,
        ),
        masking=Masking(nonnegative_linear=True, selects=True),
        lowering=Lowering(may_alias=True),
    )
)


@register_function
def split(x: ArrayLike, /, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Array]:
    """Return the list of the parts of x, cut along an axis.

    Args:
        x: any shape.
        indices_or_sections: the number of equal parts, or the indices of the cuts.
        axis: the axis.

    Raises:
        ShapeError: the axis cannot be cut into equal parts, or is out of range.
        ArgumentError: a number of parts that is not positive.

    >>> [part.shape for part in split(afx.zeros(6), [1, 3])]
    [(1,), (2,), (3,)]
    """
    aval = aval_of(x, "split")
    n = aval.shape[normalize_axis(axis, aval.ndim, "split")]
    if not hasattr(indices_or_sections, "__len__"):
        indices_or_sections = integer(indices_or_sections, "split", "the number of parts")
    if isinstance(indices_or_sections, int) and indices_or_sections > 0 and n % indices_or_sections:
        raise ShapeError(
            f"split: array split does not result in an equal division: got {indices_or_sections} parts of {aval}; "
            "use array_split"
        )
    return array_split(x, indices_or_sections, axis=axis)


@register_function
def array_split(x: ArrayLike, /, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Array]:
    """Return x cut into parts along an axis, the first of them longer by one where the length asks for it.

    >>> [part.shape for part in array_split(afx.zeros(5), 3)]
    [(2,), (2,), (1,)]
    """
    aval = aval_of(x, "split")
    place = normalize_axis(axis, aval.ndim, "split")
    bounds = _bounds(aval.shape[place], indices_or_sections)
    edges = [0, *[b for _, b in bounds]]
    if [a for a, _ in bounds] == edges[:-1] and edges[-1] == aval.shape[place]:
        return list(bind(split_p, x, axis=place, sizes=tuple([b - a for a, b in bounds])))
    lead = tuple(map(whole, aval.shape[:place]))  # parts that overlap or leave gaps
    return [slice_(x, (*lead, (a, b, 1) if b > a else (0, 0, 1))) for a, b in bounds]


def _bounds(n: int, cuts: Any) -> list[tuple[int, int]]:
    """Return where each part begins and ends."""
    if hasattr(cuts, "__len__"):
        places = ints(cuts, "split", "the index of a cut")
        spans = [slice(a, b).indices(n)[:2] for a, b in zip([0, *places], [*places, None], strict=True)]
        return [(a, max(a, b)) for a, b in spans]
    parts = integer(cuts, "split", "the number of parts")
    if parts <= 0:
        raise ArgumentError(f"split: the number of parts is positive: got {parts}; give at least 1")
    short, longer = divmod(n, parts)
    edges = [k * short + min(k, longer) for k in range(parts + 1)]
    return list(itertools.pairwise(edges))


def _split_run(x: Any, *, axis: int, sizes: Shape) -> tuple[Any, ...]:
    lead = (slice(None),) * axis
    edges = [0, *itertools.accumulate(sizes)]
    return tuple([x[(*lead, slice(a, b))] for a, b in itertools.pairwise(edges)])


def _split_abstract(x: Aval, *, axis: int, sizes: Shape) -> tuple[Aval, ...]:
    return tuple([Aval((*x.shape[:axis], n, *x.shape[axis + 1 :]), x.dtype) for n in sizes])


split_p: Primitive = register(
    Primitive(
        name="split",
        kind="custom",
        impl=_split_run,
        abstract_eval=_split_abstract,
        batch=batch_along_axes("split"),
        multiple_results=True,
        derivative=Derivative(
            vjp_all=lambda ct, z, xs, params, avals: [to_lower_level(concat(ct, axis=params["axis"]))],
            reads=(0,),
            jvp=lambda ts, z, xs, params: tuple(map(to_lower_level, bind(split_p, ts[0], **params))),
        ),
        masking=Masking(nonnegative_linear=True, selects=True),
        lowering=Lowering(may_alias=True),
    )
)


@register_function
def hsplit(x: ArrayLike, /, indices_or_sections: int | Sequence[int]) -> list[Array]:
    """Return x cut along its second axis, a 1-d one along its only axis; see `split`.

    >>> [part.shape for part in hsplit(afx.zeros((2, 4)), 2)]
    [(2, 2), (2, 2)]
    """
    return split(x, indices_or_sections, axis=0 if aval_of(x, "hsplit").ndim == 1 else 1)


@register_function
def vsplit(x: ArrayLike, /, indices_or_sections: int | Sequence[int]) -> list[Array]:
    """Return x, of two axes or more, cut along its first axis; see `split`.

    >>> [part.shape for part in vsplit(afx.zeros((2, 4)), 2)]
    [(1, 4), (1, 4)]
    """
    if aval_of(x, "vsplit").ndim < 2:
        raise ShapeError(f"vsplit: takes two axes or more: got {aval_of(x)}; use afx.split")
    return split(x, indices_or_sections, axis=0)


@register_function
def dsplit(x: ArrayLike, /, indices_or_sections: int | Sequence[int]) -> list[Array]:
    """Return x, of three axes or more, cut along its third axis; see `split`.

    >>> [part.shape for part in dsplit(afx.zeros((2, 1, 4)), 2)]
    [(2, 1, 2), (2, 1, 2)]
    """
    if aval_of(x, "dsplit").ndim < 3:
        raise ShapeError(f"dsplit: takes three axes or more: got {aval_of(x)}; use afx.split")
    return split(x, indices_or_sections, axis=2)
