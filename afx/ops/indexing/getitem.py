"""Indexing: ``x[index]`` with every index of NumPy, `take` and `take_along_axis`."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from types import EllipsisType
from typing import Any, Literal, NamedTuple, SupportsIndex, TypeAlias

import numpy as np

from afx.core import Array, ArrayLike, Tracer, refuse_out, register_function, wrap
from afx.core.aval import Aval, Shape, aval_of, broadcast_shapes, normalize_axis
from afx.errors import ArgumentError, ConcreteValueError, DtypeError, IndexRangeError, OperandError, ShapeError
from afx.ops.creation.creation import asarray
from afx.ops.elementwise.arithmetic import remainder
from afx.ops.elementwise.comparison import clip
from afx.ops.indexing.gather import gather, selection, slice_
from afx.ops.indexing.index import Basic, basic, basic_entry, expanded, is_array, is_basic, is_sequence, trimmed, whole
from afx.ops.manipulation.shape import permute_dims, reshape

Item: TypeAlias = SupportsIndex | slice | EllipsisType | ArrayLike | Sequence[Any] | None
Index: TypeAlias = Item | tuple[Item, ...]


@register_function
def getitem(x: ArrayLike, index: Index) -> Array:
    """Return ``x[index]`` for every index that NumPy takes.

    Args:
        x: any shape.
        index: ints, slices, ``...``, None, integer arrays and boolean masks, or a tuple of them. Integer arrays may be
            traced; a mask's values must be known, since the shape of the result depends on them.

    Raises:
        IndexRangeError: an index outside its axis, or more indices than axes.
        DtypeError: an index array of floats.
        ConcreteValueError: a mask under `jit`.

    >>> getitem(afx.asarray([1.0, 2.0, 3.0]), slice(None, None, -1))
    Array([3., 2., 1.], dtype=float32)
    """
    basics = is_basic(index)
    untraced: Any = x
    place: Any = index
    if untraced.__class__ is Array and (basics or _is_plain(index)):
        try:  # NumPy's own result: as a rule a view
            return wrap(untraced._value[place._value if place.__class__ is Array else place])
        except (IndexError, TypeError, ValueError):  # explained below
            pass
    if basics:
        return slice_(x, basic(index, aval_of(x, "getitem"), "getitem"))
    places = resolve_index(x, index, "getitem")
    if not places.arrays:
        return slice_(x, places.basic)
    part = slice_(x, places.basic) if places.basic else x
    if places.order is not None:
        part = permute_dims(part, places.order)
    read = selection if places.masked else gather
    return read(part, *places.arrays, axis=places.axis)


def _is_plain(index: Any) -> bool:
    """Tell whether an index is one untraced array of integers or booleans."""
    return index.__class__ in (np.ndarray, Array) and index.dtype.kind in "biu"


class Places(NamedTuple):
    """An index taken apart: first a basic one, then axes put in front, then index arrays along consecutive axes.

    Attributes:
        basic: the canonical basic index, with the axes of index arrays whole.
        order: the permutation of axes that puts those of index arrays in front, where other axes lie between them.
        arrays: index arrays.
        axis: the first axis that they name.
        masked: whether they come from boolean masks alone.
    """

    basic: Basic
    order: Shape | None
    arrays: tuple[Any, ...]
    axis: int
    masked: bool


def resolve_index(x: Any, index: Any, who: str) -> Places:
    """Take an index apart for an array of x's shape."""
    aval = aval_of(x, who)
    items = [_item(i, who) for i in (index if index.__class__ is tuple else (index,))]
    if not any(map(is_array, items)):
        return Places(basic(tuple(items), aval, who), None, (), 0, False)
    blocks = [k for k, i in enumerate(items) if is_array(i) or i.__class__ is int]
    together = blocks[-1] - blocks[0] == len(blocks) - 1  # for NumPy, … parts them even where it stands for no axis
    return _split_advanced(expanded(tuple(items), sum(map(_axes, items)), aval, who), together, aval, who)


def _item(i: Any, who: str) -> Any:
    """Return one entry of an index: an int, slice, None, ``...`` or an array of integers or booleans."""
    if i is None or i is ... or i.__class__ is slice or i.__class__ is int:
        return i
    if is_sequence(i):
        i = asarray(i, dtype=np.int64 if len(i) == 0 else None)
    elif i.__class__ in {bool, np.bool_}:
        i = np.asarray(i)
    if not hasattr(i, "dtype"):
        try:
            return operator.index(i)
        except TypeError:
            advice = "take a table's columns before: here it is its values" if isinstance(i, str) else "convert it"
            raise OperandError(
                f"{who}: an index is an int, a slice, None, … or an array of integers or booleans: "
                f"got {type(i).__name__} ({i!r}); {advice}"
            ) from None
    if i.dtype.kind not in "biu":
        raise DtypeError(f"{who}: an index array holds integers or booleans: got {aval_of(i)}; convert it with astype")
    if i.dtype.kind == "b":
        return _mask(i, who)
    return i if i.ndim or isinstance(i, Tracer) else operator.index(i)


def _mask(i: Any, who: str) -> Any:
    """Return the known values of a boolean mask."""
    if not isinstance(i, Array):
        return np.asarray(i)
    try:
        return np.asarray(i.concrete(who))
    except ConcreteValueError as error:
        raise ConcreteValueError(
            f"{error}; a boolean mask decides the shape of x[mask], so its values must be known: "
            "use afx.where(mask, x, 0), or x.at[...] with afx.where"
        ) from None


def _axes(i: Any) -> int:
    """Return the number of axes that an entry names."""
    if i is None or i is ...:
        return 0
    return i.ndim if is_array(i) and i.dtype.kind == "b" else 1


def _split_advanced(items: tuple[Any, ...], together: bool, aval: Aval, who: str) -> Places:
    """Take an index apart that holds arrays."""
    entries: list[Any] = []
    arrays: list[tuple[int, Any]] = []  # the axis after the basic index, and the index along it
    axis = 0
    masked = True
    for i in items:
        if i is None:
            entries.append(None)
            continue
        if isinstance(i, slice):
            entries.append(basic_entry(i, axis, aval, who))
            axis += 1
            continue
        masked = masked and is_array(i) and i.dtype.kind == "b" and i.ndim > 0
        for index in _along(i, axis, aval, who):
            new = is_array(i) and i.ndim == 0 and i.dtype.kind == "b"
            arrays.append((len(entries), index))
            entries.append(None if new else whole(aval.shape[axis]))
            axis += not new
    named = [k for k, _ in arrays]
    order = None
    if not together:
        order = (*named, *[k for k in range(len(entries)) if k not in named])
    first = named[0] if together else 0
    return Places(trimmed(tuple(entries), aval.shape), order, tuple([i for _, i in arrays]), first, masked)


def _along(i: Any, axis: int, aval: Aval, who: str) -> list[Any]:
    """Return the index arrays that an int or array stands for, one for each axis it names."""
    if not is_array(i):
        return [basic_entry(i, axis, aval, who)]
    if i.dtype.kind != "b":
        return [i]
    if i.ndim == 0:  # True and False select all or nothing of a new axis
        return [np.zeros(int(i), np.int64)]
    if i.shape != aval.shape[axis : axis + i.ndim]:
        raise IndexRangeError(
            f"{who}: a boolean mask has the shape of the axes it selects from: "
            f"got {aval_of(i)} for {aval} at axis {axis}; reshape or broadcast the mask"
        )
    return list(i.nonzero())


@register_function
def take(
    x: ArrayLike,
    indices: ArrayLike | Sequence[Any],
    axis: int | None = None,
    out: None = None,
    mode: Literal["raise", "wrap", "clip"] = "raise",
) -> Array:
    """Return the elements of x at indices along an axis; negative ones count from the end.

    Args:
        x: any shape.
        indices: integers of any shape, which replaces the axis.
        axis: the axis; without one x is read as if it were flat.
        out: None: results are not written into arrays.
        mode: what becomes of indices outside the axis: an error, counted around, or the nearest (which no negative one
            is but the first).

    Raises:
        IndexRangeError: an index outside the axis.
        DtypeError: indices that are not integers.
        ArgumentError: another mode.

    >>> take(afx.asarray([10.0, 20.0, 30.0]), [2, 0])
    Array([30., 10.], dtype=float32)
    """
    if out is not None:
        refuse_out(out, "take")
    aval = aval_of(x, "take")
    if axis is None:
        return take(reshape(x, (-1,)), indices, 0, mode=mode)
    place = normalize_axis(axis, aval.ndim, "take")
    chosen, n = _integers(indices, "take"), aval.shape[place]
    if mode == "wrap":
        chosen = remainder(chosen, n)
    elif mode == "clip":
        chosen = clip(chosen, 0, n - 1)
    elif mode != "raise":
        raise ArgumentError(f"take: mode is 'raise', 'wrap' or 'clip': got {mode!r}; choose one")
    return gather(x, chosen, axis=place)


def _integers(indices: Any, who: str) -> Any:
    """Return indices as an array of integers."""
    if is_sequence(indices):
        indices = asarray(indices, dtype=np.int64 if len(indices) == 0 else None)
    aval = aval_of(indices, who)
    if aval.dtype.kind not in "iu":
        raise DtypeError(f"{who}: indices are integers: got {aval}; convert them with astype, or use x[mask]")
    return indices


@register_function
def take_along_axis(x: ArrayLike, indices: ArrayLike, axis: int | None = -1) -> Array:
    """Return, for each element of ``indices``, the element of x at that index along the axis: what `argsort` asks for.

    Args:
        x: any shape.
        indices: integers; apart from the axis their shape broadcasts with that of x.
        axis: the axis; None reads x as if it were flat.

    Raises:
        ShapeError: the other axes do not fit.
        IndexRangeError: an index outside the axis.

    >>> take_along_axis(afx.asarray([[1.0, 2.0], [3.0, 4.0]]), afx.asarray([[1], [0]]))
    Array([[2.],
           [3.]], dtype=float32)
    """
    aval, places = aval_of(x, "take_along_axis"), aval_of(_integers(indices, "take_along_axis"))
    if axis is None:
        return take_along_axis(reshape(x, (-1,)), indices, 0)
    if aval.ndim != places.ndim:
        raise ShapeError(f"take_along_axis: the number of axes differs: got {aval} and indices {places}; add axes")
    along = normalize_axis(axis, aval.ndim, "take_along_axis")
    shape = list(aval.shape)
    shape[along] = 1
    common = broadcast_shapes([tuple(shape), tuple([1 if a == along else n for a, n in enumerate(places.shape)])])
    if common is None:
        raise ShapeError(f"take_along_axis: the shapes do not fit: got {aval} and indices {places}; reshape one")
    return gather(x, *along_axis(indices, aval.shape, along, common))


def along_axis(indices: ArrayLike, shape: Shape, axis: int, common: Shape | None = None) -> list[Any]:
    """Return the index arrays, one an axis, that name elements by their index along one of them."""
    lengths, ndim = common or shape, len(shape)
    return [indices if a == axis % ndim else _walk(shape[a], lengths[a], a, ndim) for a in range(ndim)]


def _walk(length: int, common: int, axis: int, ndim: int) -> np.ndarray[Any, np.dtype[Any]]:
    """Return the indices 0, 1, … of one axis, laid along it; an axis of length 1 stays at 0 however long the others."""
    steps = np.arange(length) if length == common else np.zeros(common, np.int64)
    return steps.reshape([common if a == axis else 1 for a in range(ndim)])
