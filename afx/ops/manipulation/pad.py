"""Padding: `pad` in every mode of NumPy, and the permutations `flip`, `roll` and `rot90`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from afx.compiler.schedule.arrays import Arrays
from afx.core import Array, ArrayLike, Bools, Params, Primitive, Value, Values, bind, register_function
from afx.core.aval import Aval, Shape, aval_of, integer, normalize_axes, normalize_axis
from afx.errors import ArgumentError, ConcreteValueError, DtypeError, ShapeError
from afx.ops._basic import numpy_of
from afx.ops._kinds.linear import linear
from afx.ops.creation.creation import asarray
from afx.ops.elementwise.floating_point import floor, rint
from afx.ops.indexing.gather import embed, gather, slice_, slice_set
from afx.ops.indexing.index import Basic, ints, is_sequence, whole
from afx.ops.manipulation.join import concat
from afx.ops.manipulation.shape import astype, broadcast_to, permute_dims, reshape
from afx.ops.reductions.sums import max, mean, min

# --- Padding modes: ramps, statistics of the elements, mirror images and repetitions along one axis

MIRRORS = ("reflect", "symmetric")
STATISTICS = ("maximum", "mean", "median", "minimum")


class Ends(NamedTuple):
    """How many elements are added along an axis, in front and behind, and what belongs to either end."""

    axis: int
    widths: tuple[int, int]
    values: tuple[Any, Any] = (None, None)


def _first(x: Array, axis: int, k: int, count: int = 1) -> Array:
    """Return ``count`` slices along an axis, from the k-th on."""
    return x[(*(slice(None),) * axis, slice(k, k + count))]


def repeated(x: Array, ends: Ends, mode: Any) -> Array:
    """Return x with its own elements on both sides, as NumPy's mode arranges them."""
    places = np.pad(np.arange(x.shape[ends.axis]), ends.widths, mode=mode)
    return gather(x, places, axis=ends.axis)


def mirrored(x: Array, ends: Ends, mode: str) -> tuple[Array, Array]:
    """Return the mirror images of x in its ends, turned about the end's value, as odd functions continue.

    Two turns move by a whole period and by twice the difference of the ends.
    """
    axis, n = ends.axis, x.shape[ends.axis]
    first, last = _first(x, axis, 0), _first(x, axis, n - 1)
    before, after = ends.widths
    share = 0 if mode == "symmetric" else 1  # of the end's own element
    period = np.maximum(2 * (n - share), 1)
    images: list[Array] = []
    for places in (np.arange(-before, 0), np.arange(n, n + after)):
        turns, rest = np.divmod(places, period)
        turned = rest > n - 1
        inner = np.minimum(np.where(turned, period - rest - 1 + share, rest), n - 1)
        row = tuple([-1 if a == axis else 1 for a in range(x.ndim)])
        sign, low, high = (
            np.asarray(v, x.dtype).reshape(row) for v in (np.where(turned, -1, 1), -2 * turns, 2 * turns + 2 * turned)
        )
        images.append(gather(x, inner, axis=axis) * sign + first * low + last * high)
    return images[0], images[1]


def ramps(x: Array, ends: Ends) -> tuple[Array, Array]:
    """Return straight lines from given numbers outside to the elements at the ends."""
    lines: list[Array] = []
    n = x.shape[ends.axis]
    for k, (width, value) in enumerate(zip(ends.widths, ends.values, strict=True)):
        edge = _first(x, ends.axis, (n - 1) * k)
        steps = np.arange(width)[::-1] if k else np.arange(width)
        row = tuple([-1 if a == ends.axis else 1 for a in range(x.ndim)])
        dtype = x.dtype if x.dtype.kind in "fc" else np.dtype(np.float64)
        start = astype(value, dtype)
        step = (astype(edge, dtype) - start) / asarray(np.maximum(width, 1), dtype)
        line = start + step * asarray(steps.reshape(row), dtype)
        lines.append(line if x.dtype.kind in "fc" else astype(floor(line), x.dtype))
    return lines[0], lines[1]


def statistics(x: Array, ends: Ends, mode: str) -> tuple[Array, Array]:
    """Return a statistic of all elements along the axis, or of so many next to each end, as often as wanted."""
    n = x.shape[ends.axis]
    values: list[Array] = []
    for k, (width, length) in enumerate(zip(ends.widths, ends.values, strict=True)):
        count = n if length is None else int(np.minimum(length, n))
        if count < 0:
            raise ArgumentError(f"pad: a statistic is of 0 elements or more: got stat_length={length}; use 1 or more")
        if not count and mode in ("maximum", "minimum"):
            raise ArgumentError(f"pad: a {mode} needs elements: got stat_length={length}; use 1 or more")
        value = _statistic(_first(x, ends.axis, (n - count) * k, count), ends.axis, mode)
        shape = tuple([width if a == ends.axis else m for a, m in enumerate(x.shape)])
        values.append(broadcast_to(value, shape))
    return values[0], values[1]


def _statistic(part: Array, axis: int, mode: str) -> Array:
    if mode in ("maximum", "minimum"):
        return (max if mode == "maximum" else min)(part, axis, keepdims=True)
    # afx's own median, found by NumPy's name: medians sort, sorting flips
    middle: Any = np.median if mode == "median" else mean
    value: Array = middle(part, axis, keepdims=True)
    return astype(rint(value) if part.dtype.kind in "iu" else value, part.dtype)  # as NumPy, booleans: any but 0


def check_width(x: Aval, axis: int) -> None:
    """Raise where an axis has no element that could be continued."""
    if not x.shape[axis]:
        raise ArgumentError(f"pad: an empty axis has nothing to repeat: got {x}, axis {axis}; use mode='constant'")


# --- Padding

Widths = int | Sequence[int] | Sequence[Sequence[int]]
Mode = Literal[
    "constant", "edge", "empty", "linear_ramp", "maximum", "mean", "median", "minimum", "reflect", "symmetric", "wrap"
]
MODES = get_args(Mode)


def _check_words(mode: str, reflect_type: str) -> None:
    """Raise unless both are words that `pad` knows."""
    if mode not in MODES:
        raise ArgumentError(f"pad: no such mode: got {mode!r}; use one of {', '.join(MODES)}")
    if reflect_type not in ("even", "odd"):
        raise ArgumentError(f"pad: reflect_type is 'even' or 'odd': got {reflect_type!r}; choose one")


@register_function
def pad(
    x: ArrayLike,
    pad_width: Widths | dict[int, int | tuple[int, int]],
    mode: Mode = "constant",
    *,
    constant_values: ArrayLike | Sequence[ArrayLike | Sequence[ArrayLike]] = 0,
    end_values: ArrayLike | Sequence[ArrayLike | Sequence[ArrayLike]] = 0,
    stat_length: Widths | None = None,
    reflect_type: Literal["even", "odd"] = "even",
) -> Array:
    """Return x with elements added before and after each axis.

    Args:
        x: any shape.
        pad_width: how many: one number, ``(before, after)`` for all axes, one such pair for each axis, or a dict of
            numbers or pairs by axis.
        mode: ``constant``; ``edge`` repeats the last element; ``reflect`` and ``symmetric`` mirror x without and with
            its edge; ``wrap`` continues from the other end; ``linear_ramp`` goes straight to a number; ``maximum``,
            ``mean``, ``median`` and ``minimum`` of the axis; ``empty`` adds zeros.
        constant_values: the element that ``constant`` adds, or as many as ``pad_width``; they have a derivative.
        end_values: where ``linear_ramp`` ends; given in the same way.
        stat_length: of how many elements next to each end the statistic is; of all unless given.
        reflect_type: ``odd`` turns mirror images about the value at the end, as odd functions continue.

    Raises:
        ArgumentError: widths or a mode that it does not know, or an empty axis to continue.

    >>> pad(afx.asarray([1.0, 2.0]), (1, 2))
    Array([0., 1., 2., 0., 0.], dtype=float32)
    """
    aval = aval_of(x, "pad")
    widths = _widths(pad_width, aval)
    if mode in ("constant", "empty"):
        return _constant(x, aval, widths, constant_values if mode == "constant" else 0)
    _check_words(mode, reflect_type)
    given = stat_length if mode in STATISTICS else end_values if mode == "linear_ramp" else None
    values = [(None, None)] * aval.ndim if given is None else _values(given, aval.ndim)
    z = astype(x, aval.dtype)
    for axis, pair in enumerate(widths):
        if pair != (0, 0):
            check_width(aval, axis)
            z = _continue_axis(z, Ends(axis, pair, values[axis]), mode, reflect_type == "odd")
    return z


def _continue_axis(x: Array, ends: Ends, mode: Any, odd: bool) -> Array:
    """Return x with what a mode adds along one axis."""
    if mode in STATISTICS:
        before, after = statistics(x, ends, mode)
    elif mode == "linear_ramp":
        before, after = ramps(x, ends)
    elif mode in MIRRORS and odd:
        before, after = mirrored(x, ends, mode)
    else:
        return repeated(x, ends, mode)
    return concat([before, x, after], axis=ends.axis)


def _widths(given: Any, aval: Aval) -> list[tuple[int, int]]:
    """Return a pair of widths for each axis."""
    if hasattr(given, "items"):
        each = {normalize_axis(a, aval.ndim, "pad"): w for a, w in given.items()}
        given = [ints(each.get(a, 0), "pad", "pad_width") for a in range(aval.ndim)]
        given = [(w[0], w[-1]) for w in given]
    listed = given.tolist() if isinstance(given, np.ndarray) else given
    if is_sequence(listed) and any(map(is_sequence, listed)):
        listed = [ints(pair, "pad", "pad_width") for pair in listed]
    else:
        listed = ints(listed, "pad", "pad_width")
    try:
        pairs = np.broadcast_to(np.asarray(listed, np.intp), (aval.ndim, 2))
    except ValueError:
        raise ArgumentError(
            f"pad: widths are one pair for each axis: got {given} for {aval}; give ((1, 2), …)"
        ) from None
    if aval.ndim and pairs.min() < 0:
        raise ArgumentError(f"pad: widths are not negative: got {given}; cut with a slice instead")
    return [(int(a), int(b)) for a, b in pairs]


def _find_inner(shape: Shape, widths: Sequence[tuple[int, int]]) -> tuple[Shape, Basic]:
    """Return the shape after padding, and where the elements before it stand in it."""
    outer = tuple([a + n + b for n, (a, b) in zip(shape, widths, strict=True)])
    place = tuple([(a, a + n, 1) if n else (0, 0, 1) for n, (a, _) in zip(shape, widths, strict=True)])
    while place and place[-1] == whole(outer[len(place) - 1]):
        place = place[:-1]
    return outer, place


def _constant(x: Any, aval: Aval, widths: Sequence[tuple[int, int]], values: Any) -> Array:
    if isinstance(values, (int, float)) and values == 0:
        outer, place = _find_inner(aval.shape, widths)
        return embed(astype(x, aval.dtype), outer, place)
    z = astype(x, aval.dtype)
    if not is_sequence(values) and aval_of(values, "pad").ndim == 0:
        outer, place = _find_inner(aval.shape, widths)
        return slice_set(broadcast_to(_fill(values, aval), outer), z, place)
    for axis, ((before, after), pair) in enumerate(zip(widths, _values(values, aval.ndim), strict=True)):
        for width, value in (((before, 0), pair[0]), ((0, after), pair[1])):
            each = [(0, 0)] * axis + [width] + [(0, 0)] * (aval.ndim - axis - 1)
            outer, place = _find_inner(z.shape, each)
            z = slice_set(broadcast_to(_fill(value, aval), outer), z, place)
    return z


def _fill(value: Any, aval: Aval) -> Any:
    own = aval_of(value, "pad")
    if (own.dtype.kind == "c" and aval.dtype.kind != "c") or (own.dtype.kind == "f" and aval.dtype.kind in "biu"):
        raise DtypeError(f"pad: the constant does not fit: got {own} for {aval}; convert x or the constant")
    return astype(value, aval.dtype)


def _values(values: Any, ndim: int) -> list[tuple[Any, Any]]:
    """Return a pair of constants for each axis."""
    if not is_sequence(values) and aval_of(values, "pad").ndim == 0:
        return [(values, values)] * ndim
    given = list(values)
    nested = [is_sequence(v) or (hasattr(v, "ndim") and v.ndim == 1) for v in given]
    if not any(nested) and len(given) in (1, 2):
        return [(given[0], given[-1])] * ndim
    if all(nested) and len(given) in (1, ndim) and all(len(v) in (1, 2) for v in given):
        return [(v[0], v[-1]) for v in given] * (ndim if len(given) == 1 else 1)
    raise ArgumentError(f"pad: constants are one pair for each axis: got {values!r}; give ((before, after), …)")


# -- flips --
@register_function
def flip(x: ArrayLike, axis: int | Sequence[int] | None = None) -> Array:
    """Return x with the order of its elements reversed along axes, along all of them where none is named.

    Raises:
        ShapeError: an axis is out of range or named twice.

    >>> flip(afx.asarray([1.0, 2.0]))
    Array([2., 1.], dtype=float32)
    """
    aval = aval_of(x, "flip")
    axes = normalize_axes(axis, aval.ndim, "flip")
    index = [(n - 1, -1, -1) if a in axes and n > 1 else whole(n) for a, n in enumerate(aval.shape)]
    while index and index[-1] == whole(aval.shape[len(index) - 1]):
        index.pop()
    return slice_(x, tuple(index))


@register_function
def fliplr(x: ArrayLike) -> Array:
    """Return x reversed along its second axis.

    Raises:
        ShapeError: fewer than two axes.

    >>> fliplr(afx.asarray([[1.0, 2.0]]))
    Array([[2., 1.]], dtype=float32)
    """
    return flip(x, 1)


@register_function
def flipud(x: ArrayLike) -> Array:
    """Return x reversed along its first axis.

    Raises:
        ShapeError: no axes.

    >>> flipud(afx.asarray([1.0, 2.0]))
    Array([2., 1.], dtype=float32)
    """
    return flip(x, 0)


@register_function
def rot90(x: ArrayLike, k: int = 1, axes: Sequence[int] = (0, 1)) -> Array:
    """Return x turned by k quarters of a circle in the plane of two axes, from the first towards the second.

    Raises:
        ShapeError: not two different axes of x.

    >>> rot90(afx.asarray([[1.0, 2.0]]))
    Array([[2.],
           [1.]], dtype=float32)
    """
    ndim = aval_of(x, "rot90").ndim
    axes, k = ints(axes, "rot90", "axes"), integer(k, "rot90", "k")
    if len(axes) != 2:
        raise ShapeError(f"rot90: a plane has two axes: got axes={axes}; name two")
    a, b = (normalize_axis(axis, ndim, "rot90") for axis in axes)
    if a == b:
        raise ShapeError(f"rot90: a plane has two axes: got axes={axes}; name two different ones")
    if k % 4 in (0, 2):
        return flip(x, (a, b) if k % 4 else ())
    order = list(range(ndim))
    order[a], order[b] = b, a
    return permute_dims(flip(x, b), order) if k % 4 == 1 else flip(permute_dims(x, order), b)


# -- roll --
def _shifts(shift: ArrayLike | Sequence[int]) -> list[Any]:
    """Return how far to roll, as integers where they are known, and as whole numbers of arrays where they are traced."""
    try:
        return list(ints(shift, "roll", "shift"))
    except ConcreteValueError:
        traced = reshape(asarray(shift), (-1,))
    if traced.dtype.kind not in "biu":
        raise DtypeError(f"roll: shift holds integers: got {traced.aval}; convert it with astype")
    return list(traced)


@register_function
def roll(x: ArrayLike, shift: ArrayLike | Sequence[int], axis: int | Sequence[int] | None = None) -> Array:
    """Return x with its elements shifted along axes; those that leave at one end enter at the other.

    Args:
        x: any shape.
        shift: how far towards higher indices; one number, or one for each axis, known or traced.
        axis: one axis or several; without any x is rolled as if it were flat.

    Raises:
        ArgumentError: the numbers of shifts and axes differ.
        DtypeError: a traced shift that is no integer.
        ShapeError: an axis out of range.

    >>> roll(afx.asarray([1.0, 2.0, 3.0]), 1)
    Array([3., 1., 2.], dtype=float32)
    """
    aval = aval_of(x, "roll")
    if axis is None:
        return reshape(roll(reshape(x, (-1,)), shift, 0), aval.shape)
    axes, shifts = list(ints(axis, "roll", "axis")), _shifts(shift)
    if len(shifts) == 1:
        shifts *= len(axes)
    elif len(axes) == 1:
        axes *= len(shifts)
    if len(shifts) != len(axes):
        raise ArgumentError(f"roll: shifts and axes differ in number: got {shift} and {axis}; give one for each")
    total: dict[int, Any] = {}
    for s, a in zip(shifts, axes, strict=True):
        place = normalize_axis(a, aval.ndim, "roll")
        total[place] = total.get(place, 0) + s
    for a, s in total.items():
        if not isinstance(s, int):  # known when it runs: an index
            n = aval.shape[a]
            x, total[a] = gather(x, (np.arange(n) - s) % n, axis=a), 0
    known = [(a, s % n) for a, s in sorted(total.items()) if (n := aval.shape[a]) and s % n]
    z: Array = bind(roll_p, x, shifts=tuple(known))
    return z


def _roll_run(x: Any, *, shifts: tuple[tuple[int, int], ...]) -> Any:
    z = numpy_of(x)
    for axis, shift in shifts:
        z = np.concatenate(_turned(z, axis, shift), axis)
    return z


def _turned(x: Any, axis: int, shift: int) -> list[Any]:
    """Return the parts of x in the order in which they stand after a shift."""
    lead = (slice(None),) * axis
    return [x[(*lead, slice(-shift, None))], x[(*lead, slice(None, -shift))]]


def _roll_native(xp: Arrays, out: Any, x: Any, *, shifts: tuple[tuple[int, int], ...]) -> None:
    for k, (axis, shift) in enumerate(shifts):
        x = np.concatenate(_turned(x, axis, shift), axis, out if k + 1 == len(shifts) else xp.new(x.shape, x.dtype))
    if not shifts:
        np.copyto(out, x)


def _roll_abstract(x: Aval, *, shifts: tuple[tuple[int, int], ...]) -> Aval:
    return Aval(x.shape, x.dtype)


def _roll_transpose(ct: Array, x: Aval, *, shifts: tuple[tuple[int, int], ...]) -> Array:
    z: Array = bind(roll_p, ct, shifts=tuple([(a, x.shape[a] - s) for a, s in shifts]))
    return z


def _roll_batch(size: int, xs: Values, batched: Bools, params: Params) -> Value:
    return bind(roll_p, xs[0], shifts=tuple([(a + 1, s) for a, s in params["shifts"]]))


roll_p: Primitive = linear(
    "roll",
    _roll_run,
    _roll_abstract,
    _roll_transpose,
    batch=_roll_batch,
    nonnegative_linear=True,
    may_alias=True,
    native=_roll_native,
)
