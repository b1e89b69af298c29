"""Cumulative ops: running sums, products, extremes and log-sums, differences, and the log of a sum of exponentials."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from afx.compiler.schedule.arrays import Arrays
from afx.core import Array, ArrayLike, DType, DTypeLike, Function, lookup, promote, refuse_out, register_function
from afx.core.aval import Aval, Shape, aval_of, integer, normalize_axis
from afx.core.primitive import (
    Derivative,
    Lowering,
    Params,
    Primitive,
    Tangents,
    Value,
    Values,
    define,
    is_weak,
    record,
    register,
)
from afx.core.tracing.tracer import bind2, bind_single, to_array, to_lower_level
from afx.errors import ArgumentError, DtypeError, ShapeError
from afx.ops._basic import in_floats, numpy_of, reduced, sum_dtype
from afx.ops._kinds.elementwise import binary
from afx.ops._kinds.linear import batch_along_axes, in_each_part, linear
from afx.ops.creation.creation import (
    SEQUENCES,
    as_array,
    asarray,
    full,
    ones,
    ones_like,
    promote_operands,
    stop_gradient,
    zeros,
)
from afx.ops.elementwise.comparison import equal, isinf, isnan, maximum, minimum, where
from afx.ops.elementwise.exponentials import exp, expm1, log, log1p, logaddexp
from afx.ops.manipulation.join import concat
from afx.ops.manipulation.pad import flip
from afx.ops.manipulation.shape import astype, broadcast_to, reshape
from afx.ops.reductions.sums import Axis, largest, max, reduce_over, sum, sum_keepdims

if TYPE_CHECKING:
    from afx.compiler.native_backend.lowering.recorder import Recorder


# --- Cumulative ops


def _axis(x: ArrayLike, axis: int | None, who: str) -> tuple[ArrayLike, int]:
    """Return the operand and the axis to run along: all elements as one axis where none is named."""
    aval = aval_of(x, who)
    if axis is None:
        return (x, 0) if aval.ndim == 1 else (reshape(x, (-1,)), 0)
    return x, normalize_axis(axis, aval.ndim, who)


@register_function
def cumulative_sum(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    include_initial: bool = False,
) -> Array:
    """Return the running sum along an axis.

    Args:
        x: any shape; booleans and small integers are summed as 64-bit integers.
        axis: the axis to run along; it may be left out for a vector.
        dtype: converts x first, and is the result's.
        out: None: results are not written into arrays.
        include_initial: puts a 0 in front, so that the axis grows by one.

    Raises:
        ArgumentError: no axis is named for an array of several.

    >>> cumulative_sum(np.array([1.0, 2.0, 3.0]))
    Array([1., 3., 6.], dtype=float64)
    """
    if out is not None:
        refuse_out(out, "cumulative_sum")
    _require_axis(x, axis, "cumulative_sum")
    y, place = _axis(x if dtype is None else astype(x, dtype), axis, "cumulative_sum")
    z = _convert(bind_single(cumulative_sum_p, y, axis=place, reverse=False), dtype)
    return _prepend_initial(zeros, z, place) if include_initial else z


def _require_axis(x: ArrayLike, axis: int | None, who: str) -> None:
    if axis is None and aval_of(x, who).ndim != 1:
        raise ArgumentError(f"{who}: which axis is not clear: got {aval_of(x)}; name it with axis=")


def _convert(z: Array, dtype: DTypeLike | None) -> Array:
    return z if dtype is None else astype(z, dtype)


def _prepend_initial(make: Any, z: Array, axis: int) -> Array:
    first = make(tuple([1 if a == axis else n for a, n in enumerate(z.shape)]), z.dtype)
    return concat([first, z], axis=axis)


def _sum_run(x: Any, *, axis: int, reverse: bool) -> Any:
    y = numpy_of(x)
    return np.flip(np.cumsum(np.flip(y, axis), axis), axis) if reverse else np.cumsum(y, axis)


def _sum_native(xp: Arrays, out: Any, x: Any, *, axis: int, reverse: bool) -> None:
    y, z = [np.flip(v, axis) if reverse else v for v in (xp.cast(x, out.dtype), out)]
    np.add.accumulate(y, axis, out=z)


def _sum_abstract(x: Aval, *, axis: int, reverse: bool) -> Aval:
    if not x.ndim:
        raise ShapeError(f"cumulative_sum: a 0-d array has no axis to run along: got {x}; reshape it")
    return Aval(x.shape, sum_dtype(x.dtype))


def _sum_transpose(ct: Array, x: Aval, *, axis: int, reverse: bool) -> Array:
    return bind_single(cumulative_sum_p, ct, axis=axis, reverse=not reverse)


cumulative_sum_p: Primitive = linear(
    "cumulative_sum",
    _sum_run,
    _sum_abstract,
    _sum_transpose,
    batch=batch_along_axes("cumulative_sum"),
    nonnegative_linear=True,
    native=_sum_native,
    parts=in_each_part("cumulative_sum"),
)


@register_function
def cumsum(x: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None) -> Array:
    """Return the running sum along an axis, of all elements in row-major order where none is named.

    >>> cumsum(np.array([[1.0, 2.0], [3.0, 4.0]]))
    Array([ 1.,  3.,  6., 10.], dtype=float64)
    """
    if out is not None:
        refuse_out(out, "cumsum")
    y, place = _axis(x if dtype is None else astype(x, dtype), axis, "cumsum")
    return _convert(bind_single(cumulative_sum_p, y, axis=place, reverse=False), dtype)


def _run_doubling(fn: Callable[[Array, Array], Array], z: Array, axis: int) -> Array:
    """Return the running results of an associative function, over spans that double."""
    span = 1
    while span < z.shape[axis]:
        first, later, earlier = _parts(z, axis, span)
        z = concat([first, fn(earlier, later)], axis=axis)
        span *= 2
    return z


def _parts(z: Array, axis: int, span: int) -> tuple[Array, Array, Array]:
    """Return the first elements along an axis, all others, and for each of these the one ``span`` elements before."""
    lead = (slice(None),) * axis
    return z[(*lead, slice(0, span))], z[(*lead, slice(span, None))], z[(*lead, slice(0, -span))]


@register_function
def cumulative_prod(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    out: None = None,
    include_initial: bool = False,
) -> Array:
    """Return the running product along an axis; its derivatives are right with zeros too.

    Derivatives are running sums of products over spans that double (Hillis & Steele 1986): nothing is ever divided by an
    element. Arguments and errors are those of `cumulative_sum`.

    >>> cumulative_prod(np.array([1.0, 2.0, 3.0]))
    Array([1., 2., 6.], dtype=float64)
    """
    if out is not None:
        refuse_out(out, "cumulative_prod")
    _require_axis(x, axis, "cumulative_prod")
    y, place = _axis(x if dtype is None else astype(x, dtype), axis, "cumulative_prod")
    z = _convert(_products(y, place), dtype)
    return _prepend_initial(ones, z, place) if include_initial else z


def _products(x: ArrayLike, axis: int) -> Array:
    y = as_array(x) if is_weak(x) else astype(x, sum_dtype(aval_of(x).dtype))
    return bind_single(cumulative_prod_p, y, axis=axis)


def _product_pull(ct: Value, z: Value, xs: Values, params: Params, shape: Shape, dtype: DType) -> Value:
    axis, (ct, z, x) = params["axis"], map(to_array, (ct, z, xs[0]))
    total = _run_affine(_shifted(flip(x, axis=axis), axis), flip(ct, axis=axis), axis)
    return to_lower_level(_shifted(z, axis) * flip(total, axis=axis))


def _product_push(ts: Tangents, z: Value, xs: Values, params: Params) -> Value:
    axis = params["axis"]
    return to_lower_level(_run_affine(to_array(xs[0]), to_array(ts[0]) * _shifted(to_array(z), axis), axis))


def _shifted(z: Array, axis: int) -> Array:
    """Return the elements one place further along an axis, behind a 1."""
    first, _, earlier = _parts(z, axis, 1)
    return concat([ones_like(first), earlier], axis=axis)


def _run_affine(rates: Array, v: Array, axis: int) -> Array:
    """Return running values, each the rate times the one before plus its own term."""
    span = 1
    while span < v.shape[axis]:
        first, later, earlier = _parts(v, axis, span)
        kept, rate, before = _parts(rates, axis, span)
        v = concat([first, later + rate * earlier], axis=axis)
        rates = concat([kept, rate * before], axis=axis)
        span *= 2
    return v


def _product_of_parts(x: tuple[Array, Array], *, axis: int) -> tuple[Array, Array]:
    """Return running products of complex numbers by their parts."""
    span, multiply = 1, lookup("multiply").lowering.parts
    assert multiply is not None
    while span < x[0].shape[axis]:
        firsts, later, earlier = zip(*[_parts(part, axis, span) for part in x], strict=True)
        re, im = [concat(pair, axis=axis) for pair in zip(firsts, multiply(earlier, later), strict=True)]
        x, span = (re, im), 2 * span
    return x


def _running(
    name: str, ufunc: np.ufunc, abstract: Callable[..., Aval], derivative: Derivative, parts: Function | None = None
) -> Primitive:
    """Return the primitive of running results of a ufunc."""

    def run(x: Any, *, axis: int) -> Any:
        y = numpy_of(x)
        abstract(aval_of(y), axis=axis)
        return ufunc.accumulate(y, axis, y.dtype)

    return register(
        Primitive(
            name=name,
            kind="custom",
            impl=run,
            abstract_eval=abstract,
            batch=batch_along_axes(name),
            derivative=derivative,
            lowering=Lowering(native=record(ufunc.accumulate), formula=partial(_run_doubling, ufunc), parts=parts),
        )
    )


def _like(x: Aval, *, axis: int) -> Aval:
    return Aval(x.shape, x.dtype)


cumulative_prod_p: Primitive = _running(
    "cumulative_prod",
    np.multiply,
    _like,
    Derivative(vjps=(_product_pull,), reads=(3,), jvp=_product_push),
    _product_of_parts,
)


@register_function
def cumprod(x: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: None = None) -> Array:
    """Return the running product along an axis, of all elements in row-major order where none is named.

    >>> cumprod(np.array([[1.0, 2.0], [3.0, 4.0]]))
    Array([ 1.,  2.,  6., 24.], dtype=float64)
    """
    if out is not None:
        refuse_out(out, "cumprod")
    y, place = _axis(x if dtype is None else astype(x, dtype), axis, "cumprod")
    return _convert(_products(y, place), dtype)


@register_function
def cumlogsumexp(x: ArrayLike, axis: int | None = None) -> Array:
    """Return ``log(cumsum(exp(x)))`` along an axis without overflow, of all elements where none is named.

    Derivatives are those of `logaddexp`, also at infinite values.

    >>> cumlogsumexp(np.array([1000.0, -np.inf]))
    Array([1000., 1000.], dtype=float64)
    """
    y, place = _axis(in_floats(x, "cumlogsumexp"), axis, "cumlogsumexp")
    return _run_doubling(logaddexp, as_array(y), place)


@register_function
def diff(
    x: ArrayLike, n: int = 1, axis: int = -1, prepend: ArrayLike | None = None, append: ArrayLike | None = None
) -> Array:
    """Return the differences of neighbours along an axis, taken ``n`` times.

    Args:
        x: any shape with an axis; of booleans the difference tells whether they differ.
        n: how often.
        axis: the axis.
        prepend: put in front of x along the axis first; a number, or an array of x's other axes.
        append: put behind x in the same way.

    >>> diff(np.array([1.0, 4.0, 9.0]))
    Array([3., 5.], dtype=float64)
    """
    n = integer(n, "diff", "n")
    if n < 0:
        raise ArgumentError(f"diff: differences are taken 0 times or more: got n={n}; give n >= 0")
    aval = aval_of(x, "diff")
    place = normalize_axis(axis, aval.ndim, "diff")
    if n == 0:
        return as_array(x)
    edge = tuple([1 if a == place else length for a, length in enumerate(aval.shape)])
    parts = promote_operands(*[v for v in (prepend, x, append) if v is not None])
    z = concat([v if v.shape else broadcast_to(v, edge) for v in parts], axis=place)
    for _ in range(n):
        _, later, earlier = _parts(z, place, 1)
        z = later != earlier if z.dtype.kind == "b" else later - earlier
    return z


# -- extremes --
@register_function
def cummax(x: ArrayLike, axis: int | None = None) -> Array:
    """Return the largest element so far along an axis, nan from the first nan on; of all elements where none is named.

    The elements that are the largest so far share the derivative evenly, as those of `max` do.

    >>> cummax(np.array([1.0, 3.0, 2.0]))
    Array([1., 3., 3.], dtype=float64)
    """
    y, place = _axis(x, axis, "cummax")
    return bind_single(cummax_p, y, axis=place)


def _extreme(name: str, ufunc: np.ufunc) -> Primitive:
    """Return the primitive of a running minimum or maximum."""

    def abstract(x: Aval, *, axis: int) -> Aval:
        if x.dtype.kind == "c":
            raise DtypeError(f"{name}: complex numbers have no order: got {x}; take the abs or a part")
        return Aval(x.shape, x.dtype)

    derivative = Derivative(vjps=(_extreme_pull,), reads=(3,), jvp=_extreme_push)
    return _running(name, ufunc, abstract, derivative)


def _extreme_pull(ct: Value, z: Value, xs: Values, params: Params, shape: Shape, dtype: DType) -> Value:
    axis = params["axis"]
    attains, begins, count = _holders(z, xs[0], axis)
    # walked backwards, a group begins where the next one began forwards
    ends = concat([_parts(begins, axis, 1)[1], ones_like(_parts(begins, axis, 1)[0])], axis=axis)
    total = flip(_grouped_sum(flip(ct / count, axis=axis), flip(ends, axis=axis), axis), axis=axis)
    return to_lower_level(total * attains)


def _extreme_push(ts: Tangents, z: Value, xs: Values, params: Params) -> Value:
    attains, begins, count = _holders(z, xs[0], params["axis"])
    return to_lower_level(_grouped_sum(to_array(ts[0]) * attains, begins, params["axis"]) / count)


def _holders(z: Value, x: Value, axis: int) -> tuple[Array, Array, Array]:
    """Return where elements are the extreme so far, where the extreme changes, and how many have been it since."""
    z, x = to_array(z), to_array(x)
    first, later, earlier = _parts(z, axis, 1)
    begins = concat([ones_like(first, bool), later != earlier], axis=axis)
    attains = equal(x, z).astype(x.dtype)
    return attains, begins, maximum(_grouped_sum(attains, begins, axis), 1)  # a nan is not equal to itself


def _grouped_sum(v: Array, begins: Array, axis: int) -> Array:
    """Return running sums that begin anew where ``begins`` is true: no differences of sums, which would lose digits."""
    span = 1
    while span < v.shape[axis]:
        first, later, earlier = _parts(v, axis, span)
        begun, begin, began = _parts(begins, axis, span)
        v = concat([first, where(begin, later, earlier + later)], axis=axis)
        begins = concat([begun, begin | began], axis=axis)
        span *= 2
    return v


cummax_p: Primitive = _extreme("cummax", np.maximum)


@register_function
def cummin(x: ArrayLike, axis: int | None = None) -> Array:
    """Return the smallest element so far along an axis; conventions are those of `cummax`.

    >>> cummin(np.array([2.0, 3.0, 1.0]))
    Array([2., 2., 1.], dtype=float64)
    """
    y, place = _axis(x, axis, "cummin")
    return bind_single(cummin_p, y, axis=place)


cummin_p: Primitive = _extreme("cummin", np.minimum)


# --- Log-sum-exp: the logarithm of a sum of exponentials, without overflow


def subtract_top(x: ArrayLike, top: ArrayLike) -> Array:
    """Return x less the largest element of its row, 0 where both are equal, infinite ones too."""
    return bind2(subtract_top_p, x, top)


def _subtract_top_run(x: Any, top: Any) -> Any:
    with np.errstate(invalid="ignore"):
        return np.where(x == top, 0.0, x - top)


subtract_top_p: Primitive = binary(
    "subtract_top",
    _subtract_top_run,
    (1.0, -1.0),
    kinds="f",
    finite_partials=True,
    traceable=True,
)


@register_function
def logsumexp(x: ArrayLike, axis: Axis = None, *, b: ArrayLike | None = None, keepdims: bool = False) -> Array:
    """Return ``log(sum(b * exp(x)))`` along axes without overflow; -inf of nothing.

    Elements that all are -inf, and those that are inf, share the derivative evenly, as those of `logaddexp` do.

    Args:
        x: real numbers.
        axis: one axis, several, or all.
        b: factors that broadcast with x; where one is 0 it does not matter what x is. Of a negative sum the result is nan.
        keepdims: keeps the axes, with length 1.

    >>> logsumexp(asarray([1000.0]))
    Array(1000., dtype=float32)
    """
    if x.__class__ in SEQUENCES:
        x = asarray(x)
    if b is not None:
        return _weighted_logsumexp(x, b, axis, keepdims)
    return reduce_over(logsumexp_p, in_floats(x, "logsumexp"), axis, keepdims, "logsumexp")


def logmeanexp(x: ArrayLike, axis: Axis = None, *, where: ArrayLike | None = None, keepdims: bool = False) -> Array:
    """Return ``log(mean(exp(x)))`` along axes without overflow.

    Args:
        x: real numbers.
        axis: one axis, several, or all.
        where: which elements count, broadcast with x; all unless given.
        keepdims: keeps the axes, with length 1.

    >>> logmeanexp(asarray([1000.0, 1000.0]))
    Array(1000., dtype=float32)
    """
    y = asarray(x)
    counted = broadcast_to(True if where is None else where, y.shape)
    count = sum(astype(counted, in_floats(y, "logmeanexp").dtype), axis=axis, keepdims=keepdims)
    return logsumexp(y, axis, b=None if where is None else counted, keepdims=keepdims) - log(count)


def log1mexp(x: ArrayLike) -> Array:
    """Return ``log(1 - exp(-x))`` for numbers above 0, accurate for small and large ones (Mächler 2012); -inf at 0.

    >>> log1mexp(1e-3).round(4)
    Array(-6.9083, dtype=float32)
    """
    y = in_floats(x, "log1mexp")
    small = y < math.log(2)
    most = minimum(y, 1e3)  # from where on it is 0, and so is its slope, by whatever made an infinite y
    return where(small, log(-expm1(-where(small, y, 1))), log1p(-exp(-where(small, 1, most))))


def _weighted_logsumexp(x: ArrayLike, b: ArrayLike, axis: Axis, keepdims: bool) -> Array:
    y, factors = promote_operands(x, b)
    weak = tuple([v.__class__ in (bool, int) for v in (x, b)])
    dtype = promote((y.dtype, factors.dtype), weak, floating=True)
    y, factors = astype(y, dtype), astype(factors, dtype)
    used = factors != 0
    top = max(stop_gradient(where(used, y, -math.inf)), axis=axis, keepdims=True, initial=-math.inf)
    shift = where(isinf(top), 0, top)
    most = math.log(float(np.finfo(dtype).max)) - 1  # what is multiplied by 0 must be finite
    z = exp(where(used, y - shift, minimum(where(used | isnan(y), 0, y) - shift, most)))
    total = log(sum(factors * z, axis=axis, keepdims=keepdims))
    return total + (shift if keepdims else reshape(shift, total.shape))


def _logsumexp_run(x: Any, *, axis: Shape) -> Any:
    x = numpy_of(x)
    if x.dtype.kind != "f":
        raise DtypeError(f"logsumexp: needs real numbers: got {aval_of(x)}; take a part first")
    top = largest(x, axis)
    shift = np.where(np.isfinite(top), top, np.zeros((), x.dtype))
    with np.errstate(divide="ignore"):
        logarithm = np.log(sum_keepdims(np.exp(x - shift), axis)) + shift
    return logarithm.astype(x.dtype).reshape(reduced(x.shape, axis))


def _logsumexp(x: Any, *, axis: Shape) -> Any:
    aval = _logsumexp_abstract(aval_of(x), axis=axis)
    if not x.size:
        return full(aval.shape, -math.inf, aval.dtype)
    top = max(stop_gradient(x), axis, keepdims=True)
    total = log(sum(exp(subtract_top(x, top)), axis, keepdims=True)) + top
    return reshape(total, aval.shape)


def _logsumexp_native(xp: Recorder, out: Any, x: Any, *, axis: Shape) -> None:
    xp.check_floats(out, x)
    x = xp.ordered(x)
    top = xp.extreme("maximum", x, axis)
    shift = np.where(np.isfinite(top), top, np.zeros((), x.dtype))
    total = sum_keepdims(np.exp(x - shift), axis)
    with np.errstate(divide="ignore"):
        logarithm = np.log(total)
    xp.give(out, logarithm.reshape(out.shape) + shift.reshape(out.shape))


def _logsumexp_abstract(x: Aval, *, axis: Shape) -> Aval:
    if x.dtype.kind != "f":
        raise DtypeError(f"logsumexp: needs real numbers: got {x}; take a part first")
    return Aval(reduced(x.shape, axis), x.dtype)


logsumexp_p: Primitive = define(
    "logsumexp", "reduction", _logsumexp_run, _logsumexp_abstract,
    batch=batch_along_axes("logsumexp"), through=_logsumexp, native=_logsumexp_native, formula=_logsumexp,
)  # fmt: skip
