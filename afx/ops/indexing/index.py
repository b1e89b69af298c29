"""Canonical indices: the meaning of `x[index]` for an array of a known shape.

A *basic* index is a tuple with one entry per axis of the array, in order: an int (non-negative), a triple
``(start, stop, step)`` of ints in which a stop of -1 stands for "to the front", or None for a new axis of length 1.
Whole axes at its end are left out: equal selections are equal as data. It hashes, as parameters of equations must.
"""

from __future__ import annotations

import functools
import operator
from typing import Any, TypeAlias

import numpy as np

from afx.core import Array, Aval, Shape, integer
from afx.errors import IndexRangeError, OperandError, TracerError

Entry: TypeAlias = int | tuple[int, int, int] | None
Basic: TypeAlias = tuple[Entry, ...]

_BASIC_TYPES = frozenset({int, slice, type(None), type(...)})


def is_basic(index: Any) -> bool:
    """Tell whether an index holds nothing but ints, slices, None and ``...``."""
    if index.__class__ is tuple:
        return _BASIC_TYPES.issuperset([i.__class__ for i in index])
    return index.__class__ in _BASIC_TYPES


def whole(length: int) -> Entry:
    """Return the entry that selects a whole axis."""
    return (0, length, 1)


def expanded(index: tuple[Any, ...], consumed: int, aval: Aval, who: str) -> tuple[Any, ...]:
    """Return an index with ``...``, or its end, filled with slices for the axes that it does not name.

    Args:
        index: the entries as given.
        consumed: the number of axes that they name.
        aval: of the array.
        who: the operation, for errors.

    Raises:
        IndexRangeError: too many entries, or more than one ``...``.
    """
    dots = [k for k, i in enumerate(index) if i is ...]
    missing = aval.ndim - consumed
    if len(dots) > 1:
        raise IndexRangeError(
            f"{who}: an index can only have a single ellipsis ('...'): got {len(dots)}; spell the axes out with :"
        )
    if missing < 0:
        raise IndexRangeError(
            f"{who}: too many indices for array: got {consumed} for {aval}; an array has one for each axis"
        )
    k = dots[0] if dots else len(index)
    return (*index[:k], *[slice(None)] * missing, *index[k + 1 :])


def basic_entry(entry: Any, axis: int, aval: Aval, who: str) -> Entry:
    """Return the canonical entry of an int or slice along an axis.

    Raises:
        IndexRangeError: an int outside the axis.
        OperandError: a bound of a slice that is not an int.
    """
    n = aval.shape[axis]
    if entry.__class__ is slice:
        return _bounds(entry, n, who)
    i = operator.index(entry)
    if not -n <= i < n:
        raise out_of_range(i, axis, aval, who)
    return i if i >= 0 else i + n


def out_of_range(i: int, axis: int, aval: Aval, who: str) -> IndexRangeError:
    """Return the error for an index outside its axis."""
    n = aval.shape[axis]
    hint = f"use an index from {-n} to {n - 1}" if n else "an empty axis has no elements"
    return IndexRangeError(f"{who}: index {i} is out of bounds for axis {axis} with size {n}: got {aval}; {hint}")


def _bounds(entry: slice, n: int, who: str) -> Entry:
    try:
        start, stop, step = entry.indices(n)
    except TracerError as error:
        raise type(error)(
            f"{who}: the bounds of a slice must be known: {error}; "
            "for a window that moves index with start + afx.arange(n)"
        ) from error
    except (TypeError, ValueError) as error:
        raise OperandError(f"{who}: {error}: got {entry}; give ints or None, and a step other than 0") from error
    length = len(range(start, stop, step))
    if length == 0:
        return (0, 0, 1)
    if length == 1:
        return (start, start + 1, 1)
    return (start, max(start + (length - 1) * step + (1 if step > 0 else -1), -1), step)


def basic(index: Any, aval: Aval, who: str) -> Basic:
    """Return the canonical form of an index of ints, slices, None and ``...``.

    >>> import numpy as np
    >>> basic((..., -1, slice(None, None, 2)), Aval((2, 3, 4), np.dtype("f4")), "getitem")
    ((0, 2, 1), 2, (0, 3, 2))
    """
    given = index if index.__class__ is tuple else (index,)
    consumed = sum(1 for i in given if i is not None and i is not ...)
    entries: list[Entry] = []
    axis = 0
    for i in expanded(given, consumed, aval, who):
        if i is None:
            entries.append(None)
            continue
        entries.append(basic_entry(i, axis, aval, who))
        axis += 1
    return trimmed(tuple(entries), aval.shape)


def trimmed(index: Basic, shape: Shape) -> Basic:
    """Return a basic index without the whole axes at its end."""
    end, axis = len(index), len(shape)
    while end and axis and index[end - 1] == (0, shape[axis - 1], 1):
        end -= 1
        axis -= 1
    return index[:end]


@functools.lru_cache(maxsize=4096)
def native(index: Basic) -> tuple[Any, ...]:
    """Return a canonical index as NumPy takes it; the ``...`` at its end makes views of 0-d results too."""
    return (*[slice(e[0], None if e[1] < 0 else e[1], e[2]) if isinstance(e, tuple) else e for e in index], ...)


def selected_shape(shape: Shape, index: Basic) -> Shape:
    """Return the shape of ``x[index]``."""
    lengths: list[int] = []
    axis = 0
    for e in index:
        if e is None:
            lengths.append(1)
            continue
        if isinstance(e, tuple):
            lengths.append(len(range(*e)))
        axis += 1
    return (*lengths, *shape[axis:])


def fits(shape: Shape, index: Basic) -> bool:
    """Tell whether a canonical index lies inside an array of this shape: one entry at most for each axis, new axes between."""
    entries = [e for e in index if e is not None]
    return len(entries) <= len(shape) and all(map(_is_within, entries, shape))


def _is_within(entry: Any, length: int) -> bool:
    if isinstance(entry, int):
        return 0 <= entry < length
    places = range(*entry)
    if not places:  # a negative end means none, which would not be empty
        return bool(min(entry[:2]) >= 0)
    return 0 <= places[0] < length and 0 <= places[-1] < length


def is_array(x: object) -> bool:
    """Tell whether x is an Array or a NumPy array."""
    return isinstance(x, (Array, np.ndarray))


def is_sequence(x: object) -> bool:
    """Tell whether x is a list or tuple."""
    return isinstance(x, (list, tuple))


def shape_of(x: Any) -> Shape:
    """Return the shape of a value, of a Python number too."""
    return getattr(x, "shape", ())


def rank_of(x: Any) -> int:
    """Return the number of axes of a value, of a Python number too."""
    return len(shape_of(x))


SEVERAL = "an int or a sequence of ints"


def ints(given: Any, who: str, what: str) -> Shape:
    """Return an int, or a sequence of them, as a tuple.

    Args:
        given: what the caller gave.
        who: the operation, for errors.
        what: the name of the argument, for errors.

    Raises:
        TracerError: traced numbers, on which what is computed cannot depend.
        ArgumentError: anything else that is not an int.
    """
    if rank_of(given) or is_sequence(given) or isinstance(given, range):
        return tuple([integer(n, who, what, SEVERAL) for n in given])
    return (integer(given, who, what, SEVERAL),)
