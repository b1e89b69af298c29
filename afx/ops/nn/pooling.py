"""Pooling: the largest or the mean element of windows of a given size, or of a given number."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from afx.compiler.schedule.arrays import NUMPY, SHORT_WINDOW, Arrays
from afx.core import Array, ArrayLike, Aval, DType, Shape, aval_of, bind, is_inexact, to_lower_level
from afx.core.primitive import (
    Derivative,
    Lowering,
    Masking,
    Params,
    Primitive,
    Pushforward,
    Tangents,
    Value,
    Values,
    lookup,
    record_kernel,
    register,
)
from afx.errors import DtypeError, ShapeError
from afx.ops._basic import reduced, xp
from afx.ops._kinds.elementwise import nondifferentiable
from afx.ops._kinds.linear import batch_along_axes
from afx.ops.creation.creation import asarray, ones
from afx.ops.elementwise.arithmetic import divide
from afx.ops.elementwise.comparison import where
from afx.ops.indexing.getitem import take
from afx.ops.manipulation.pad import pad
from afx.ops.manipulation.shape import astype, reshape
from afx.ops.nn.windows import Padding, each_axis, im2col, padded_by, positions
from afx.ops.reductions.sums import accumulation_dtype, reduce_over, sum

if TYPE_CHECKING:
    from afx.compiler.native_backend.lowering.recorder import Recorder


# --- Pooling: the largest or the mean element of each window


Into: TypeAlias = Callable[..., None]


def max_pool(
    x: ArrayLike, window: int | Sequence[int], *, stride: int | Sequence[int] | None = None, padding: Padding = "valid"
) -> Array:
    """Return the largest element of each window; the first one, where several are, has the derivative.

    Args:
        x: float[batch, *spatial, channels].
        window: its length, or one for each spatial axis.
        stride: from one window to the next; the window's length, where it is not given.
        padding: as `conv`'s; padding counts as -inf. Without padding the windows must cover each axis exactly
            when the stride is not given.

    Returns:
        float[batch, *positions, channels].

    Raises:
        ShapeError: the window does not divide an axis, or is longer than it.

    >>> import afx
    >>> max_pool(afx.asarray([1.0, 3.0, 2.0, 0.0]).reshape(1, 4, 1), 2)[0, :, 0]
    Array([3., 2.], dtype=float32)
    """
    cells, axis, _ = _pooling_windows(x, window, stride, padding, "max_pool", -math.inf)
    return reduce_over(max_first_p, cells, axis, keepdims=False, who="max_pool")


def avg_pool(
    x: ArrayLike, window: int | Sequence[int], *, stride: int | Sequence[int] | None = None, padding: Padding = "valid"
) -> Array:
    """Return the mean of each window; padding is not counted. Arguments and errors are those of `max_pool`.

    >>> import afx
    >>> avg_pool(afx.asarray([1.0, 3.0, 2.0, 0.0]).reshape(1, 4, 1), 2)[0, :, 0]
    Array([2., 1.], dtype=float32)
    """
    wide, natural, _ = accumulation_dtype(x, "avg_pool")
    cells, axis, counts = _pooling_windows(astype(x, wide), window, stride, padding, "avg_pool", 0.0)
    return astype(divide(sum(cells, axis=axis), counts), natural)


def _pooling_windows(
    x: ArrayLike, window: Any, stride: Any, padding: Padding, who: str, fill: float
) -> tuple[Array, Shape, Any]:
    """Return the windows' elements with the axes to reduce, and how many of them are not padded."""
    a = aval_of(x, who)
    if a.ndim < 3:
        raise ShapeError(f"{who}: x is [batch, *spatial, channels]: got {a}; reshape it")
    if not is_inexact(a.dtype):
        raise DtypeError(f"{who}: needs floating elements: got {a}; use astype")
    rank = a.ndim - 2
    sizes = each_axis(window, rank, "window", who)
    steps = sizes if stride is None else each_axis(stride, rank, "stride", who)
    pads = padded_by(padding, a.shape[1:-1], sizes, steps, (1,) * rank, who)
    if stride is None and padding == "valid" and any(n % w for n, w in zip(a.shape[1:-1], sizes, strict=True)):
        raise ShapeError(
            f"{who}: the window does not divide the axis: got {a} and window {sizes}; "
            "cut or pad x, or give stride= or padding="
        )
    places = positions(a, sizes, steps, (1,) * rank, pads, who)
    count = math.prod(sizes)
    padded = any(p != (0, 0) for p in pads)
    if steps == sizes and not padded and all(p * w == n for p, w, n in zip(places, sizes, a.shape[1:-1], strict=True)):
        split: Shape = (a.shape[0], *[n for p, w in zip(places, sizes, strict=True) for n in (p, w)], a.shape[-1])
        return reshape(x, split), tuple(range(2, 2 + 2 * rank, 2)), count
    ones_ = ones((1, *a.shape[1:-1], 1), a.dtype)
    if padded and fill:
        x = pad(asarray(x), ((0, 0), *pads, (0, 0)), constant_values=fill)
    rest = ((0, 0),) * rank if padded and fill else pads
    rows = im2col(x, sizes, steps, (1,) * rank, rest)
    cells = reshape(rows, (a.shape[0], *places, count, a.shape[-1]))
    return (
        cells,
        (rank + 1,),
        sum(im2col(ones_, sizes, steps, (1,) * rank, pads), axis=-1, keepdims=True) if padded else count,
    )


# -- the largest element, with the derivative to the first one --
def _max_run(x: Any, *, axis: Shape) -> Any:
    if math.prod(_window(x.shape, axis)) > SHORT_WINDOW:
        return np.maximum.reduce(x, axis=axis)
    z = np.empty(reduced(x.shape, axis), x.dtype)
    _max_prepare(aval_of(x), axis=axis)(z, x)
    return z


def _max_prepare(x: Aval, *, axis: Shape) -> Into:
    """Return a function that writes the largest of each window: by a reduction, or by halves along each axis if that is short."""
    if not 1 < math.prod(_window(x.shape, axis)) <= SHORT_WINDOW:

        def whole(out: Any, x: Any) -> None:
            np.maximum.reduce(x, axis=axis, out=out)

        return whole
    steps: list[list[tuple[int | slice, ...]]] = []  # the first axis first: loops along it are long, and halve the rest
    left = list(range(x.ndim))
    for a in sorted(axis, key=lambda a: (x.shape[a] > 1, a)):
        steps.append(_places((x.shape[a],), (left.index(a),), len(left)))
        left.remove(a)

    def into(out: Any, x: Any) -> None:
        for places in steps[:-1]:
            x = _largest_of_two(x, places, None)
        _largest_of_two(x, steps[-1], out)

    return into


def _largest_of_two(x: Any, places: list[tuple[int | slice, ...]], out: Any) -> Any:
    if len(places) == 1:
        return x[places[0]]
    z = np.maximum(x[places[0]], x[places[1]], out=out)  # whole slices against each other
    for place in places[2:]:
        np.maximum(z, x[place], out=z)
    return z


def _max_pull(ct: Value, z: Value, xs: Values, params: Params, shape: Shape, dtype: DType) -> Value:
    axis = params["axis"]
    return to_lower_level(bind(put_p, ct, bind(first_p, xs[0], z, axis=axis), axis=axis, window=_window(shape, axis)))


def _max_push(ts: Tangents, z: Value, xs: Values, params: Params) -> Value:
    return to_lower_level(bind(pick_p, ts[0], bind(first_p, *xs, z, **params), **params))


def _writer(prepare: Callable[..., Into]) -> Into:
    """Return a function that writes the result for operands of any number of rows."""

    def into(out: Any, *xs: Any, **params: Any) -> None:
        prepare(*map(aval_of, xs), **params)(out, *xs)

    return into


def _of_short_windows(native: Callable[..., None]) -> Callable[..., None]:
    """Return a native form for windows of which whole slices are combined."""

    def checked(xp: Recorder, out: Any, *xs: Any, axis: Shape, window: Shape | None = None) -> None:
        places = math.prod(_window(xs[0].shape, axis) if window is None else window)
        if not 0 < places <= SHORT_WINDOW or xs[0].dtype.kind not in "fiub":
            xp.refuse(f"windows of {places} elements of {xs[0].dtype}")
        native(xp, out, *xs, axis=axis, **({} if window is None else {"window": window}))

    return checked


def _max_abstract(x: Aval, *, axis: Shape) -> Aval:
    return Aval(reduced(x.shape, axis), x.dtype)


# -- formulas, for windows of many elements and for exports --
def _flat(x: Any, axis: Shape) -> Any:
    moved = xp.moveaxis(x, axis, range(x.ndim - len(axis), x.ndim))
    return moved.reshape((*moved.shape[: x.ndim - len(axis)], -1))


def _is_short(avals: Sequence[Aval], params: Params) -> bool:
    """Tell whether windows have so few elements that no axis need stand for theirs, as in formulas."""
    return math.prod(params.get("window") or _window(avals[0].shape, params["axis"])) <= SHORT_WINDOW


max_first_p: Primitive = register(
    Primitive(
        name="max_first",
        kind="reduction",
        impl=_max_run,
        abstract_eval=_max_abstract,
        batch=batch_along_axes("max_first"),
        derivative=Derivative(vjps=(_max_pull,), reads=(0b11,), jvp=_max_push),
        lowering=Lowering(
            make_kernel=_max_prepare,
            impl_into=_writer(_max_prepare),
            batch_operands=(0,),
            native=_of_short_windows(record_kernel(_max_prepare)),
            formula=xp.max,
            takes_native=_is_short,
        ),
    )
)


def _window(shape: Shape, axis: Shape) -> Shape:
    return tuple([shape[a] for a in axis])


@lru_cache(maxsize=256)
def _places(window: Shape, axis: Shape, ndim: int) -> list[tuple[int | slice, ...]]:
    """Return for each offset of a window along these axes the index of the elements that stand there."""
    offsets: list[tuple[int | slice, ...]] = []
    for place in np.ndindex(*window):
        at = dict(zip(axis, place, strict=True))
        offsets.append(tuple([at.get(a, slice(None)) for a in range(ndim)]))
    return offsets


# -- its offset in the window, and what is put there and picked from there --
def _first_run(x: Any, z: Any, *, axis: Shape) -> Any:
    k = np.empty(z.shape, _numbers(_window(x.shape, axis)))
    _first_prepare(aval_of(x), aval_of(z), axis=axis)(k, x, z)
    return k


def _numbers(window: Shape) -> DType:
    """Return the dtype of the offsets."""
    return np.dtype(np.int8 if math.prod(window) < 128 else np.int32)


def _first_prepare(x: Aval, z: Aval, *, axis: Shape) -> Into:
    """Count the offsets in front of the first largest element; where that is nan, all but the last."""
    places = _places(_window(x.shape, axis), axis, x.ndim)[:-1]
    missed, other = np.ones(z.shape, bool), np.empty(z.shape, bool)

    def into(out: Any, x: Any, z: Any) -> None:
        if not places:
            out[...] = 0
            return
        here = np.not_equal(x[places[0]], z, out=missed)
        np.copyto(out, here)
        for place in places[1:]:
            here = np.logical_and(here, np.not_equal(x[place], z, out=other), out=missed)
            np.add(out, here, out=out)

    return into


def _first_abstract(x: Aval, z: Aval, *, axis: Shape) -> Aval:
    return Aval(z.shape, _numbers(_window(x.shape, axis)))


def _first_by_hits(x: Any, z: Any, *, axis: Shape) -> Any:
    hits = _flat(x, axis) == z[..., None]
    return xp.where(xp.any(hits, axis=-1), xp.argmax(hits, axis=-1), hits.shape[-1] - 1)  # of nan the last


first_p: Primitive = nondifferentiable(
    "first_of_window",
    _first_run,
    _first_abstract,
    batch=batch_along_axes("first_of_window"),
    make_kernel=_first_prepare,
    impl_into=_writer(_first_prepare),
    batch_operands=(0, 1),
    native=_of_short_windows(record_kernel(_first_prepare)),
    formula=_first_by_hits,
    takes_native=_is_short,
)


def _put_run(ct: Any, k: Any, *, axis: Shape, window: Shape) -> Any:
    z = np.empty(_put_abstract(aval_of(ct), aval_of(k), axis=axis, window=window).shape, ct.dtype)
    _put_prepare(aval_of(ct), aval_of(k), axis=axis, window=window)(z, ct, k)
    return z


def _put_prepare(ct: Aval, k: Aval, *, axis: Shape, window: Shape, xp: Arrays = NUMPY) -> Into:
    """Return a function that puts each cotangent at the place ``k`` of its window, and zeros elsewhere."""
    places = _places(window, axis, ct.ndim + len(axis))
    without = np.logical_xor if ct.dtype.kind == "b" else np.subtract
    here, part, rest = np.empty(k.shape, bool), np.empty(k.shape, ct.dtype), np.empty(k.shape, ct.dtype)

    def parts(ct: Any, k: Any) -> Iterator[tuple[Any, Any]]:
        left = ct
        for number, place in enumerate(places[:-1]):
            is_here = np.equal(k, number, out=here)
            # into neighbouring elements: converting truths goes through a buffer
            what = np.multiply(ct, is_here, out=part)
            yield place, what
            left = without(left, what, out=rest)
        yield places[-1], left

    def into(out: Any, ct: Any, k: Any) -> None:
        xp.write_parts(out, parts(ct, k))

    return into


def _put_native(xp: Recorder, out: Any, ct: Any, k: Any, **params: Any) -> None:
    xp.check_floats(out, ct)
    _put_prepare(ct.aval, k.aval, xp=xp, **params)(out, ct, k)


def _put_abstract(ct: Aval, k: Aval, *, axis: Shape, window: Shape) -> Aval:
    sizes, rest = dict(zip(axis, window, strict=True)), iter(ct.shape)
    return Aval(tuple([sizes[a] if a in sizes else next(rest) for a in range(ct.ndim + len(axis))]), ct.dtype)


def _push(name: str) -> Pushforward:

    return lambda ts, z, xs, params: to_lower_level(bind(lookup(name), ts[0], xs[1], **params))


def _put_by_hits(ct: Any, k: Any, *, axis: Shape, window: Shape) -> Any:
    here = k[..., None] == xp.arange(math.prod(window), dtype=k.dtype)
    parts = xp.where(here, ct[..., None], xp.zeros((), ct.dtype)).reshape((*ct.shape, *window))
    return xp.moveaxis(parts, range(ct.ndim, parts.ndim), axis)


put_p: Primitive = register(
    Primitive(
        name="put_into_window",
        kind="linear",
        impl=_put_run,
        abstract_eval=_put_abstract,
        batch=batch_along_axes("put_into_window"),
        derivative=Derivative(
            vjps=(lambda u, z, xs, params, shape, dtype: to_lower_level(bind(pick_p, u, xs[1], axis=params["axis"])),),
            reads=(0b100,),
            jvp=_push("put_into_window"),
        ),
        masking=Masking(nonnegative_linear=True),
        lowering=Lowering(
            make_kernel=_put_prepare,
            impl_into=_writer(_put_prepare),
            batch_operands=(0, 1),
            native=_of_short_windows(_put_native),
            formula=_put_by_hits,
            takes_native=_is_short,
        ),
    )
)


def _pick_run(x: Any, k: Any, *, axis: Shape) -> Any:
    z = np.zeros(k.shape, x.dtype)
    for number, place in enumerate(_places(_window(x.shape, axis), axis, x.ndim)):
        np.copyto(z, x[place], where=k == number)
    return z


def _pick_native(xp: Arrays, out: Any, x: Any, k: Any, *, axis: Shape) -> None:
    picked = np.zeros((), x.dtype)
    for number, place in enumerate(_places(_window(x.shape, axis), axis, x.ndim)):
        picked = xp.where(k == number, x[place], picked)
    xp.give(out, picked)


def _pick_pull(ct: Value, z: Value, xs: Values, params: Params, shape: Shape, dtype: DType) -> Value:
    axis = params["axis"]
    return to_lower_level(bind(put_p, ct, xs[1], axis=axis, window=_window(shape, axis)))


def _pick_abstract(x: Aval, k: Aval, *, axis: Shape) -> Aval:
    return Aval(k.shape, x.dtype)


def _pick_by_hits(x: Any, k: Any, *, axis: Shape) -> Any:
    flat = _flat(x, axis)
    here = k[..., None] == xp.arange(flat.shape[-1], dtype=k.dtype)
    return xp.sum(xp.where(here, flat, xp.zeros((), x.dtype)), axis=-1)


pick_p: Primitive = register(
    Primitive(
        name="pick_from_window",
        kind="linear",
        impl=_pick_run,
        abstract_eval=_pick_abstract,
        batch=batch_along_axes("pick_from_window"),
        derivative=Derivative(vjps=(_pick_pull,), reads=(0b100,), jvp=_push("pick_from_window")),
        masking=Masking(nonnegative_linear=True),
        lowering=Lowering(native=_of_short_windows(_pick_native), formula=_pick_by_hits, takes_native=_is_short),
    )
)


# --- Adaptive pooling: windows chosen so that a given number of positions comes out


def adaptive_avg_pool(x: ArrayLike, positions: int | Sequence[int]) -> Array:
    """Return the means of windows that cut each spatial axis into a number of positions.

    Window i of m along an axis of length n begins at ``floor(i·n/m)`` and ends at ``ceil((i + 1)·n/m)``, as in torch;
    where m divides n these are the windows of `avg_pool`.

    Args:
        x: float[batch, *spatial, channels].
        positions: how many, a number or one for each spatial axis; 1 is the mean of all (global pooling).

    Returns:
        float[batch, *positions, channels].

    Raises:
        ShapeError: x has no spatial axis, or an empty one.
        ArgumentError: positions is no number of 1 or more for each spatial axis.

    >>> import afx
    >>> adaptive_avg_pool(afx.asarray([1.0, 2.0, 3.0]).reshape(1, 3, 1), 2)[0, :, 0]
    Array([1.5, 2.5], dtype=float32)
    """
    wide, natural, _ = accumulation_dtype(x, "adaptive_avg_pool")
    return astype(_pool_axes(astype(x, wide), positions, "adaptive_avg_pool", _mean), natural)


def adaptive_max_pool(x: ArrayLike, positions: int | Sequence[int]) -> Array:
    """Return the largest elements of windows that cut each spatial axis into a number of positions.

    Windows, arguments and errors are those of `adaptive_avg_pool`; ties have their derivative as in `max_pool`.

    >>> import afx
    >>> adaptive_max_pool(afx.asarray([1.0, 3.0, 2.0]).reshape(1, 3, 1), 1)[0, :, 0]
    Array([3.], dtype=float32)
    """
    return _pool_axes(x, positions, "adaptive_max_pool", _largest_of_cells)


def _pool_axes(x: ArrayLike, positions: Any, who: str, pool: Callable[[Array, int, Any], Array]) -> Array:
    """Pool one spatial axis after the other: the windows are boxes."""
    a = aval_of(x, who)
    if a.ndim < 3 or not all(a.shape[1:-1]):
        raise ShapeError(f"{who}: x is [batch, *spatial, channels] with elements to pool: got {a}; reshape it")
    if not is_inexact(a.dtype):
        raise DtypeError(f"{who}: needs floating elements: got {a}; use astype")
    z = asarray(x)
    for axis, count in enumerate(each_axis(positions, a.ndim - 2, "positions", who), 1):
        length = a.shape[axis]
        if length % count == 0:
            cells = reshape(z, (*z.shape[:axis], count, length // count, *z.shape[axis + 1 :]))
            valid = None
        else:
            index, valid = _windows(length, count)
            cells = take(z, index, axis=axis)
        z = pool(cells, axis + 1, valid)
    return z


def _windows(length: int, count: int) -> tuple[Any, Any]:
    """Return the indices of each window, the last repeated where it is short, and which are not repeated."""
    steps = np.arange(count)
    starts = steps * length // count
    ends = -(-(steps + 1) * length // count)
    index = starts[:, None] + np.arange(int((ends - starts).max()))
    return np.minimum(index, ends[:, None] - 1), index < ends[:, None]


def _mean(cells: Array, axis: int, valid: Any) -> Array:
    if valid is None:
        return sum(cells, axis=axis) / cells.shape[axis]
    lengths = [1] * (cells.ndim - axis - 1)
    cells_inside = where(valid.reshape(*valid.shape, *lengths), cells, 0)
    z: Array = sum(cells_inside, axis=axis) / valid.sum(1).reshape(-1, *lengths).astype(cells.dtype)
    return z


def _largest_of_cells(cells: Array, axis: int, valid: Any) -> Array:
    return reduce_over(max_first_p, cells, (axis,), keepdims=False, who="adaptive_max_pool")
