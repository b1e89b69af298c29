"""Moments and norms: variance, standard deviation, Euclid's norm."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import DTypeLike

from afx.core import Array, ArrayLike, Function, Primitive, bind_single, floating_dtype, is_weak, register_function
from afx.core.aval import Aval, Shape, aval_of, common_dtype, normalize_axes, shape_of
from afx.core.dtypes import float16, float32, float64, real_dtype
from afx.errors import ArgumentError, DtypeError, ShapeError
from afx.ops._basic import in_floats, numpy_of, reduced, xp
from afx.ops._kinds.elementwise import reduction
from afx.ops.creation.creation import SEQUENCES, Nested, as_array, asarray, operand_of, promote_operands, stop_gradient
from afx.ops.elementwise.arithmetic import abs as abs_, divide, multiply, sqrt, subtract
from afx.ops.elementwise.comparison import clip, maximum, minimum, where
from afx.ops.manipulation.shape import astype, broadcast_to, permute_dims, reshape
from afx.ops.reductions.sums import (
    Axis,
    accumulation_dtype,
    count_nonzero,
    fill_where,
    max,
    mean,
    min,
    reduce_over,
    sum,
)

if TYPE_CHECKING:
    from afx.compiler.native_backend.lowering.recorder import Recorder


def _spread(
    x: ArrayLike, axis: Axis, correction: float, middle: ArrayLike | None, among: ArrayLike | None, few: float, who: str
) -> tuple[Array, Shape, Any]:
    """Return the deviations from the mean, the axes, and the number that the sum of their squares is divided by."""
    shape = shape_of(x, who)
    axes = normalize_axes(axis, len(shape), who)
    center = mean(x, axes, keepdims=True, where=among) if middle is None else middle
    d = subtract(x, center)
    if among is None:
        rest = math.prod([shape[a] for a in axes]) - correction
        return d, axes, maximum(rest, 0) if isinstance(rest, Array) else builtins.max(rest, 0)
    counted = broadcast_to(astype(among, bool), shape)
    count = sum(where(counted, 1.0, 0.0) if is_weak(d) else counted, axes, keepdims=True) - correction
    number = count if is_weak(count) else astype(count, real_dtype(d.dtype))
    return as_array(fill_where(d, among, 0)), axes, where(count > 0, number, few)


def moment(
    finish: Callable[[Array, Shape, bool, Any], Array],
    x: ArrayLike,
    axis: Axis,
    dtype: DTypeLike | None,
    corrections: tuple[float, float],
    keepdims: bool,
    middle: ArrayLike | None,
    among: ArrayLike | None,
    who: str,
    few: float = 0,
) -> Array:
    """Return what a function makes of deviations from the mean, their axes, whether these stay, and their number.

    Arguments are those of `var`: ``middle`` its mean, ``among`` its where. Of too few elements the number is ``few``: 0 or
    nan. Sums are taken in a wide dtype unless one is given.
    """
    wide, natural, converts = accumulation_dtype(x, who)
    converts = converts and dtype is None
    dtype = wide if converts else dtype
    y = x if dtype is None else astype(x, dtype)
    d, axes, count = _spread(y, axis, resolve_ddof(*corrections, who), middle, among, few, who)
    if isinstance(count, Array) and not keepdims:
        count = reshape(count, reduced(count.shape, axes))
    z = finish(d, axes, keepdims, count)
    return astype(z, natural) if converts else z


def mean_square(d: Array, axes: Shape, keepdims: bool, number: Any) -> Array:
    """Return the sum of squares along axes over a number."""
    square = abs_(d) ** 2 if d.dtype.kind == "c" else d * d
    return divide(sum(square, axes, keepdims=keepdims), number)


def root_mean_square(d: Array, axes: Shape, keepdims: bool, number: Any) -> Array:
    """Return the root of the sum of squares over a number; its derivative at 0 is 0."""
    if not is_weak(d) or (isinstance(number, Array) and not is_weak(number)):
        number = astype(number, real_dtype(d.dtype))
    return vector_norm(d, axes, keepdims=keepdims) / sqrt(number)


def resolve_ddof(correction: float, ddof: float, who: str) -> float:
    """Return the correction by either of its names, or raise."""
    for value in (correction, ddof):
        if aval_of(value, who).ndim:
            raise ArgumentError(f"{who}: a correction is a number: got {value!r}; give one, such as 1")
    if isinstance(correction, Array) or isinstance(ddof, Array):
        return correction + ddof
    if correction and ddof:
        raise ArgumentError(
            f"{who}: ddof is another name of the correction: got ddof={ddof} and correction={correction}; give one"
        )
    return correction or ddof


@register_function
def var(
    x: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float = 0,
) -> Array:
    """Return the variance along axes: the mean square of the deviations from the mean, in two passes.

    Args:
        x: any shape.
        axis: one axis, several, or all (None).
        dtype: converts x first.
        out: None: results are not written into arrays.
        correction: subtracted from the number of elements that the sum is divided by; 1 gives the unbiased estimate.
        ddof: NumPy's name of the correction.
        keepdims: keeps the axes, with length 1.
        mean: the mean, its axes kept, where it has been computed before.
        where: bool, broadcasting to x: which elements count.

    >>> var(np.array([1.0, 2.0, 3.0, 6.0]))
    Array(3.5, dtype=float64)
    """
    x = operand_of(x, out, "var")
    return moment(mean_square, x, axis, dtype, (correction, ddof), keepdims, mean, where, "var")


@register_function
def std(
    x: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float = 0,
) -> Array:
    """Return the standard deviation along axes; its derivative at equal elements is 0.

    Arguments are those of `var`.

    >>> std(np.array([1.0, 2.0, 3.0, 6.0])).round(4)
    Array(1.8708, dtype=float64)
    """
    x = operand_of(x, out, "std")
    return moment(root_mean_square, x, axis, dtype, (correction, ddof), keepdims, mean, where, "std")


@register_function
def vector_norm(x: ArrayLike, axis: Axis = None, *, keepdims: bool = False, ord: float = 2) -> Array:
    """Return the norm of the elements along axes as one vector; the 2-norm does not overflow and has derivative 0 at 0.

    Args:
        x: any shape; integers in the default dtype.
        axis: one axis, several, or all (None).
        keepdims: keeps the axes, with length 1.
        ord: 2 (Euclid), 1, inf, -inf, 0 (the number of elements that are not zero), or another power.

    Raises:
        ArgumentError: ord is no number.

    >>> vector_norm(broadcast_to(3.0, (4,)))
    Array(6., dtype=float32)
    """
    if x.__class__ in SEQUENCES:
        x = asarray(x)
    if not isinstance(ord, (int, float, np.integer, np.floating)):  # pyright: ignore[reportUnnecessaryIsInstance]  # users' mistakes
        raise ArgumentError(f"vector_norm: ord is a number: got {ord!r}; use 1, 2, math.inf or another power")
    if getattr(x, "dtype", None) not in (float32, float64):
        x = in_floats(x, "vector_norm")
    if ord == 2:
        return reduce_over(vector_norm_p, x, axis, keepdims, "vector_norm")
    size = abs_(x)
    if ord in (math.inf, -math.inf):
        if ord > 0 and 0 in size.shape:
            return max(size, axis, keepdims=keepdims, initial=0)
        return (max if ord > 0 else min)(size, axis, keepdims=keepdims)
    if ord == 0:
        return astype(count_nonzero(size, axis, keepdims=keepdims), floating_dtype(size.dtype))
    return sum(size, axis, keepdims=keepdims) if ord == 1 else _power_norm(size, axis, keepdims, ord)


def _power_norm(size: Array, axis: Axis, keepdims: bool, ord: float) -> Array:
    """Return ``sum(size**ord) ** (1 / ord)``, scaled so that no power overflows; an element at 0 has derivative 0."""
    axes = normalize_axes(axis, size.ndim, "vector_norm")
    if 0 in size.shape:
        return sum(size**ord, axes, keepdims=keepdims) ** (1 / ord)
    largest = max(size, axes, keepdims=True)
    top = stop_gradient(largest)
    scale = where((top == 0) | (top == math.inf), 1, top)
    power = where(size == 0, 0.0 if ord > 0 else math.inf, (size / scale) ** ord)
    total = sum(power, axes, keepdims=True)
    norm = where(total == 0, 0, total ** (1 / ord)) * scale
    if ord > 0:
        norm = where(top == math.inf, largest, norm)
    return norm if keepdims else reshape(norm, reduced(size.shape, axes))


def _floating(x: Any, who: str) -> None:
    if x.dtype.kind not in "fc":
        raise DtypeError(f"{who}: needs floating elements: got {x.dtype}; use astype")


_vdot: Function = np.vdot
NORM_DOT_MAX_ELEMENTS = 1024  # up to which a plain sum of squares is as exact as pairwise ones, in one BLAS thread
NORM_DOT_MIN = {"f": 1e-24, "d": 1e-280}  # sums of squares above lose nothing to squares that underflow


def _norm_run(x: Any, *, axis: Shape) -> Any:
    x = numpy_of(x)
    if len(axis) == x.ndim and x.size <= NORM_DOT_MAX_ELEMENTS and x.dtype.char in "fd":
        flat = x if x.ndim == 1 else x.reshape(-1)
        square = _vdot(flat, flat)  # the sum of `dot`, which would warn where it overflows
        if NORM_DOT_MIN[x.dtype.char] < square < math.inf:
            return np.sqrt(square)
    _floating(x, "vector_norm")
    return _norm_by_scale(x, axis=axis)


def _norm_by_scale(x: Any, *, axis: Shape) -> Any:
    size = xp.abs(x)
    if not x.size:
        return xp.zeros(reduced(x.shape, axis), size.dtype)
    top = size.max(axis=axis, keepdims=True)
    scale = xp.where((top > 0) & xp.isfinite(top), top, xp.ones((), size.dtype))
    wide = np.float32 if x.dtype == np.float16 else size.dtype  # which holds the number of elements
    root = xp.sqrt(xp.sum(xp.square(size / scale), axis=axis, dtype=wide))
    return (root * scale.reshape(root.shape)).astype(size.dtype)


def _norm_native(xp: Recorder, out: Any, x: Any, *, axis: Shape) -> None:
    """Take the root of a product where that neither overflows nor loses digits, else of a sum of scaled squares."""
    xp.check_floats(out, x)
    x = xp.ordered(x)
    size = np.abs(x)
    top = xp.extreme("maximum", size, axis)
    scale = np.where(np.logical_and(top > 0, np.isfinite(top)), top, np.ones((), x.dtype))
    root = np.sqrt(np.add.reduce(np.square(size / scale), axis, keepdims=True))
    norm = (root * scale).reshape(out.shape)
    if 0 < len(axis) == x.ndim and x.size <= NORM_DOT_MAX_ELEMENTS:
        square = xp.square(x)
        is_exact = np.logical_and(square > NORM_DOT_MIN[x.dtype.char], square < math.inf)
        with np.errstate(invalid="ignore"):
            norm = np.where(is_exact, np.sqrt(square), norm)
    xp.give(out, norm)


def _norm_abstract(x: Aval, *, axis: Shape) -> Aval:
    _floating(x, "vector_norm")
    return Aval(reduced(x.shape, axis), real_dtype(x.dtype))


def _unit(z: Array, x: Array, *, axis: Shape) -> Array:
    if x.dtype.kind == "c":
        return x.conj() / where(z == 0, math.inf, z)
    largest = float(np.finfo(x.dtype).max)  # stands for infinity, whose quotients are nan
    # the quotient by infinity is 0 at the origin, and so are all of its derivatives
    return clip(x, -largest, largest) / where(z == 0, math.inf, minimum(z, largest))


def _norm_of_parts(x: tuple[Any, Any], **params: Any) -> Array:
    return bind_single(vector_norm_p, xp.hypot(*x), **params)


vector_norm_p: Primitive = reduction(
    "vector_norm", _norm_run, _norm_abstract, _unit, native=_norm_native, formula=_norm_by_scale, parts=_norm_of_parts
)


@overload
def average(
    x: ArrayLike,
    axis: Axis = None,
    weights: Nested | None = None,
    returned: Literal[False] = False,
    *,
    keepdims: bool = False,
) -> Array: ...
@overload
def average(
    x: ArrayLike, axis: Axis = None, weights: Nested | None = None, *, returned: Literal[True], keepdims: bool = False
) -> tuple[Array, Array]: ...
@register_function
def average(
    x: ArrayLike, axis: Axis = None, weights: Nested | None = None, returned: bool = False, *, keepdims: bool = False
) -> Array | tuple[Array, Array]:
    """Return the mean along axes, weighted where weights are given.

    Args:
        x: any shape.
        axis: one axis, several, or all (None).
        weights: of x's shape, or of that of the axes alone; differentiable too.
        returned: whether to return the sums of the weights, too.
        keepdims: keeps the axes, with length 1.

    Raises:
        ShapeError: weights of another shape.

    >>> average(broadcast_to(2.0, (3,)))
    Array(2., dtype=float32)
    """
    if x.__class__ in SEQUENCES:
        x = asarray(x)
    shape = shape_of(x, "average")
    axes = normalize_axes(axis, len(shape), "average")
    if weights is not None:
        weights = promote_operands(weights, x)[0]
        avals = [aval_of(x, "average"), weights.aval]
        natural = common_dtype(avals, floating=True)
        # products and sums of which may be too large
        if any(a.dtype.kind in "iu" for a in avals) or natural == float16:
            wide = float32 if natural == float16 else float64
            u, v = (astype(y, np.result_type(a.dtype, wide)) for y, a in zip((x, weights), avals, strict=True))
            mean_and_total = average(u, axis, v, returned=True, keepdims=keepdims)
            z, total = (astype(v, natural) for v in mean_and_total)
            return (z, total) if returned else z
        weights = astype(weights, natural if weights.dtype.kind == "c" else real_dtype(natural))
    w = _spread_weights(1 if weights is None else weights, shape, axes, axis)
    total = sum(w, axes, keepdims=keepdims)
    z = mean(x, axes, keepdims=keepdims) if weights is None else sum(multiply(x, w), axes, keepdims=keepdims) / total
    return (z, broadcast_to(astype(total, z.dtype), z.shape)) if returned else z


def _spread_weights(w: Array | int, shape: Shape, axes: Shape, given: Axis) -> Array:
    """Return weights in the shape of x."""
    have = aval_of(w, "average")
    named = [a % len(shape) for a in given] if isinstance(given, Sequence) else axes
    if have.shape == tuple([shape[a] for a in named]) and have.shape != shape:
        w = permute_dims(w, np.argsort(named).tolist())  # they lie along the axes in the order of their names
        w = reshape(w, tuple([n if a in axes else 1 for a, n in enumerate(shape)]))
    elif have.shape not in (shape, ()):
        raise ShapeError(f"average: weights have the shape of x or of its axes: got {have} for {shape}; reshape them")
    return broadcast_to(w, shape)
