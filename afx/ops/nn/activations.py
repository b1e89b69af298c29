"""Activations: ops at a kink or for speed, `softmax` and the cross-entropy of logits, normalization along axes."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from afx.core import Derivative, Lowering, Masking, Params, Primitive, Tangents, Value, Values, is_weak, register
from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval, Shape, aval_of, common_dtype, normalize_axes
from afx.core.dtypes import float16, float32
from afx.core.tracing.tracer import bind1, bind2, bind_single, to_lower_level
from afx.errors import ArgumentError, DtypeError
from afx.ops._basic import in_floats, xp
from afx.ops._kinds.elementwise import binary, unary
from afx.ops._kinds.linear import batch_along_axes
from afx.ops._kinds.special import alone_in_float64, scipy
from afx.ops.elementwise.arithmetic import sqrt
from afx.ops.elementwise.comparison import clip, where
from afx.ops.elementwise.exponentials import exp, sigmoid, sigmoid_slope
from afx.ops.manipulation.shape import astype
from afx.ops.reductions.sums import largest, sum_keepdims
from afx.ops.special.errors import density, ndtr

if TYPE_CHECKING:
    from afx.compiler.native_backend.lowering.recorder import Recorder


# --- Activations: ops of their own, for speed or for their derivative at a kink


def relu(x: ArrayLike) -> Array:
    """Return x where it is positive, 0 elsewhere; the derivative at 0 is 0.

    >>> relu(-1.0)
    Array(0., dtype=float32)
    """
    return bind1(relu_p, x)


relu_p: Primitive = unary(
    "relu",
    lambda x: np.maximum(x, 0),
    lambda _z, x: (x > 0).astype(x.dtype),
    kinds="iuf",
    masks_cotangent=True,
    finite_partials=True,
    traceable=True,
)


def elu(x: ArrayLike) -> Array:
    """Return x where it is positive, ``exp(x) - 1`` elsewhere.

    >>> elu(1.0)
    Array(1., dtype=float32)
    """
    return bind1(elu_p, x)


elu_p: Primitive = unary(
    "elu",
    lambda x: np.maximum(x, 0) + np.expm1(np.minimum(x, 0)),
    lambda _z, x: exp(where(x > 0, 0, x)),
    kinds="f",
    finite_partials=True,
    traceable=True,
)


# Beyond these bounds an activation is the identity or 0 to the last digit, in every dtype. Clipping there costs nothing
# in accuracy, and keeps infinity times zero (and the overflow of powers) out of the formulas.
SILU_BOUND = 1e4
GELU_BOUND = 40.0


def silu(x: ArrayLike) -> Array:
    """Return ``x · sigmoid(x)``, also called swish (Elfwing et al. 2018).

    >>> silu(1.0).round(4)
    Array(0.7311, dtype=float32)
    """
    return bind1(silu_p, x)


def _silu_run(x: Any) -> Any:
    with np.errstate(over="ignore"):  # exp = inf gives 0
        return np.maximum(x, -SILU_BOUND) / (1 + np.exp(x * -1.0))


silu_p: Primitive = unary(
    "silu",
    _silu_run,
    lambda _z, x: sigmoid(x) + clip(x, -SILU_BOUND, SILU_BOUND) * sigmoid_slope(x),
    kinds="f",
    finite_partials=True,
    traceable=True,
)


def gelu_tanh(x: ArrayLike) -> Array:
    """Return ``½x(1 + tanh(√(2/π)(x + 0.044715x³)))``, within 5e-4 of ``x · Φ(x)`` (Hendrycks & Gimpel 2016)."""
    return bind1(gelu_tanh_p, x)


RATE = 2 * math.sqrt(2 / math.pi)  # ½(1 + tanh(v)) is sigmoid(2v)
CUBE = 0.044715


def _gelu_tanh_run(x: Any) -> Any:
    u = np.clip(x * 1.0, -GELU_BOUND, GELU_BOUND)
    with np.errstate(over="ignore"):  # exp = inf gives 0
        return np.maximum(x, -GELU_BOUND) / (1 + np.exp(u * (u * u * (-RATE * CUBE) - RATE)))


def _gelu_tanh_slope(_z: Array, x: Array) -> Array:
    u = clip(x, -GELU_BOUND, GELU_BOUND)
    v = -(u * (u * u * (-RATE * CUBE) - RATE))
    return sigmoid(v) + u * sigmoid_slope(v) * (u * u * (3 * RATE * CUBE) + RATE)


gelu_tanh_p: Primitive = unary(
    "gelu_tanh", _gelu_tanh_run, _gelu_tanh_slope, kinds="f", finite_partials=True, traceable=True
)


def gelu_exact(x: ArrayLike) -> Array:
    """Return ``x · Φ(x)`` with the exact normal distribution function Φ; needs the extra ``scipy``.

    Raises:
        MissingExtraError: SciPy is not installed.
    """
    return bind1(gelu_p, x)


_ndtr = scipy("ndtr")


gelu_p: Primitive = unary(
    "gelu",
    lambda x: np.maximum(x, -GELU_BOUND) * _ndtr(x),
    lambda _z, x: ndtr(x) + clip(x, -GELU_BOUND, GELU_BOUND) * density(x),
    kinds="f",
    finite_partials=True,
    traceable=True,
)


def scale_kept(x: ArrayLike, scale: ArrayLike) -> Array:
    """Return ``x * scale``, and 0 where the scale is 0, even of infinities: no cotangent needs a mask then.

    >>> scale_kept(math.inf, 0.0)
    Array(0., dtype=float32)
    """
    return bind2(scale_kept_p, x, scale)


scale_kept_p: Primitive = binary(
    "scale_kept",
    lambda x, scale: np.where(scale != 0, x, 0) * scale,
    (lambda _z, _x, scale: scale, lambda _z, x, scale: where(scale != 0, x, 0)),
    kinds="fc",
    traceable=True,
)


# --- Softmax: `softmax`, its logarithm, and the cross-entropy of logits

Axis = int | Shape

# elements of softmax no further apart than this are shifted by the largest of all rows: no exponential gets so small that
# it loses digits, and one number is found far faster than one for each row
SOFTMAX_CLOSE = {"f": 60.0, "d": 500.0}


def softmax(x: ArrayLike, axis: Axis = -1) -> Array:
    """Return ``exp(x) / sum(exp(x))`` along an axis (or several), without overflow.

    Elements that are -inf have the share 0, even where all are; elements that are inf share equally. Other libraries
    give nan in both cases.

    Raises:
        ShapeError: there is no such axis.
        DtypeError: x holds complex numbers.

    >>> softmax(afx.asarray([0.0, 0.0]))
    Array([0.5, 0.5], dtype=float32)
    """
    return _along(softmax_p, x, axis, "softmax")


def log_softmax(x: ArrayLike, axis: Axis = -1) -> Array:
    """Return ``x - log(sum(exp(x)))`` along an axis (or several), without overflow; -inf where `softmax` is 0.

    Raises:
        ShapeError: there is no such axis.
        DtypeError: x holds complex numbers.

    >>> log_softmax(afx.asarray([0.0, 0.0]))
    Array([-0.6931472, -0.6931472], dtype=float32)
    """
    return _along(log_softmax_p, x, axis, "log_softmax")


def softmax_over_all(x: ArrayLike, axis: Axis | None = None) -> Array:
    """Return SciPy's `softmax`: of all elements, unless axes are named; `afx.nn.softmax` takes the last axis.

    >>> softmax_over_all(afx.zeros((2, 2)))
    Array([[0.25, 0.25],
           [0.25, 0.25]], dtype=float32)
    """
    return softmax(alone_in_float64("softmax", x)[0], _all_of(x, axis, "softmax"))


def log_softmax_over_all(x: ArrayLike, axis: Axis | None = None) -> Array:
    """Return SciPy's `log_softmax`: of all elements, unless axes are named; `afx.nn.log_softmax` takes the last axis.

    >>> log_softmax_over_all(afx.zeros((2, 2)))[0].round(4)
    Array([-1.3863, -1.3863], dtype=float32)
    """
    return log_softmax(alone_in_float64("log_softmax", x)[0], _all_of(x, axis, "log_softmax"))


def _all_of(x: ArrayLike, axis: Axis | None, who: str) -> Axis:
    return tuple(range(aval_of(x, who).ndim)) if axis is None else axis


def _along(p: Primitive, x: ArrayLike, axis: Axis, who: str) -> Array:
    a = aval_of(x, who)
    return bind_single(p, in_floats(x, who), axis=normalize_axes(axis, a.ndim, who))


def _abstract_softmax(x: Aval, *, axis: Shape) -> Aval:
    if x.dtype.kind != "f":
        raise DtypeError(f"softmax: needs real numbers: got {x}; take the abs or a part, or convert with astype")
    return x


def _below_top(out: Any, x: Any, axis: Shape) -> None:
    """Write x less its largest elements along the axes; of infinite ones, what `softmax` says of them."""
    top = largest(x, axis)
    with np.errstate(over="ignore"):  # the difference of huge numbers of unlike sign: exp of -inf is right
        if not np.isinf(top).any():
            np.subtract(x, top, out=out)
            return
        np.subtract(x, np.where(np.isinf(top), np.zeros((), x.dtype), top), out=out)
    np.copyto(out, np.where(x == np.inf, 0, -np.inf), where=top == np.inf, casting="unsafe")


def _softmax_into(out: Any, x: Any, *, axis: Shape) -> None:
    if _is_close(x):
        np.subtract(x, np.maximum.reduce(x, None), out=out)
        np.exp(out, out=out)
        total = sum_keepdims(out, axis)
    else:
        _below_top(out, x, axis)
        np.exp(out, out=out)
        total = _above_zero(sum_keepdims(out, axis))
    np.divide(out, total, out=out)


def _is_close(x: Any) -> bool:
    if not x.size:
        return False
    apart = float(np.maximum.reduce(x, None)) - float(np.minimum.reduce(x, None))
    return apart < SOFTMAX_CLOSE.get(x.dtype.char, 0.0)  # false where either is nan


def _above_zero(total: Any) -> Any:
    return np.where(total == 0, np.ones((), total.dtype), total)


def _log_softmax_into(out: Any, x: Any, *, axis: Shape) -> None:
    _below_top(out, x, axis)
    np.subtract(out, np.log(_above_zero(sum_keepdims(np.exp(out), axis))), out=out)


def _softmax_native(xp: Recorder, out: Any, x: Any, *, axis: Shape) -> None:
    """Shift by one number where all elements are close to each other, else by the largest of each row."""
    xp.check_floats(out, x)
    x = xp.ordered(x)
    tops, every = xp.extreme("maximum", x, axis), tuple(range(x.ndim))
    top, low = xp.extreme("maximum", tops, every), xp.extreme("minimum", xp.extreme("minimum", x, axis), every)
    with np.errstate(invalid="ignore", over="ignore"):
        apart = top.astype(np.float64) - low.astype(np.float64)
    shift = cast(Any, np.where(apart < SOFTMAX_CLOSE[x.dtype.char], top, _finite(tops)))
    with np.errstate(over="ignore"):  # the exponential of no number above 0 may share a loop with the difference
        e = np.exp(_below(x, tops, shift))
    xp.give(out, e / _above_zero(sum_keepdims(e, axis)))


def _finite(top: Any) -> Any:
    return np.where(np.isinf(top), np.zeros((), top.dtype), top)


def _below(x: Any, top: Any, shift: Any) -> Any:
    """Return x less a shift; where the largest element is infinite, what `softmax` says of it."""
    moved = x - shift  # first, so that all of it stands in one loop
    ends = np.where(x == np.inf, np.zeros((), x.dtype), np.full((), -np.inf, x.dtype))
    return np.where(top == np.inf, ends, moved)


def _log_softmax_native(xp: Recorder, out: Any, x: Any, *, axis: Shape) -> None:
    xp.check_floats(out, x)
    x = xp.ordered(x)
    top = xp.extreme("maximum", x, axis)
    with np.errstate(over="ignore"):
        below = _below(x, top, _finite(top))
        e = np.exp(below)
    xp.give(out, below - np.log(_above_zero(sum_keepdims(e, axis))))


def _softmax(x: Any, *, axis: Shape) -> Any:
    top = largest(x, axis)
    shares = xp.exp(_below(x, top, _finite(top)))
    return shares / _above_zero(xp.sum(shares, axis=axis, keepdims=True))


def _log_softmax(x: Any, *, axis: Shape) -> Any:
    top = largest(x, axis)
    below = _below(x, top, _finite(top))
    return below - xp.log(_above_zero(xp.sum(xp.exp(below), axis=axis, keepdims=True)))


def _runner(into: Callable[..., None]) -> Callable[..., Any]:
    """Return the implementation that writes into memory of its own."""

    def run(x: Any, *, axis: Shape) -> Any:
        x = np.asarray(x)
        _abstract_softmax(aval_of(x), axis=axis)
        out = np.empty_like(x, order="C")
        into(out, x, axis=axis)
        return out

    return run


def _softmax_pull(ct: Value, z: Value, xs: Values, params: Params, shape: Any, dtype: Any) -> Value:
    return to_lower_level(z * (ct - (ct * z).sum(axis=params["axis"], keepdims=True)))


def _softmax_jvp(ts: Tangents, z: Value, xs: Values, params: Params) -> Value:
    return _softmax_pull(ts[0], z, xs, params, None, None)


def _log_softmax_pull(ct: Value, z: Value, xs: Values, params: Params, shape: Any, dtype: Any) -> Value:
    return to_lower_level(ct - to_lower_level(exp(z)) * ct.sum(axis=params["axis"], keepdims=True))


def _log_softmax_jvp(ts: Tangents, z: Value, xs: Values, params: Params) -> Value:
    t = ts[0]
    return to_lower_level(t - (t * to_lower_level(exp(z))).sum(axis=params["axis"], keepdims=True))


def _make_primitive(
    name: str, into: Callable[..., None], native: Callable[..., None], formula: Callable[..., Any], pull: Any, jvp: Any
) -> Primitive:
    """Return the record of an op over axes whose rules read its output alone."""
    return register(
        Primitive(
            name=name,
            kind="custom",
            impl=_runner(into),
            abstract_eval=_abstract_softmax,
            batch=batch_along_axes(name),
            derivative=Derivative(vjps=(pull,), reads=(1,), jvp=jvp),
            masking=Masking(finite_partials=True),
            lowering=Lowering(
                flops=lambda avals, _: 5 * avals[0].size,  # largest, difference, exponential, sum, quotient
                impl_into=into,
                native=native,
                formula=formula,
                slicewise_over_axis=True,
            ),
        )
    )


softmax_p: Primitive = _make_primitive("softmax", _softmax_into, _softmax_native, _softmax, _softmax_pull, _softmax_jvp)
log_softmax_p: Primitive = _make_primitive(
    "log_softmax", _log_softmax_into, _log_softmax_native, _log_softmax, _log_softmax_pull, _log_softmax_jvp
)


def sigmoid_binary_cross_entropy(logits: ArrayLike, targets: ArrayLike) -> Array:
    """Return ``log(1 + exp(y)) - t·y`` for each logit y and target t; shapes broadcast."""
    return bind2(binary_cross_entropy_p, logits, targets)


def _binary_cross_entropy_run(y: Any, t: Any) -> Any:
    # max(y, 0) - t·y as one product is no difference of large numbers
    return _times(cast(Any, np.where(y > 0, 1.0 - t, 0.0 - t)), y) + np.log1p(np.exp(np.abs(y) * -1.0))


def _times(weight: Any, y: Any) -> Any:
    with np.errstate(invalid="ignore"):
        return np.where(weight == 0, 0.0, weight * y)  # nothing times infinity is nothing


binary_cross_entropy_p: Primitive = binary(
    "binary_cross_entropy",
    _binary_cross_entropy_run,
    (lambda _z, y, t: sigmoid(y) - t, lambda _z, y, _t: -y),
    kinds="f",
    finite_partials=True,
    traceable=True,
)


def multiply_logarithms(weights: ArrayLike, logarithms: ArrayLike) -> Array:
    """Return weights times logarithms, where 0 times -inf is 0.

    No mask comes with these zeros, which every layer before would have to carry: their derivatives are zeros by formula.
    """
    return bind2(multiply_logarithms_p, weights, logarithms)


def _multiply_logarithms_run(w: Any, y: Any) -> Any:
    with np.errstate(invalid="ignore"):
        return np.where((w == 0) & (y == -np.inf), 0.0, w * y)


multiply_logarithms_p: Primitive = binary(
    "multiply_logarithms",
    _multiply_logarithms_run,
    (lambda _z, w, y: where((w == 0) & (y == -math.inf), 0, y), lambda _z, w, _y: w),
    kinds="f",
    finite_partials=True,
    traceable=True,
)


# --- Normalization: mean 0 and variance 1 along axes


def standardize(x: ArrayLike, axis: int | Shape = -1, *, eps: float = 1e-5) -> Array:
    """Return ``(x - mean) / sqrt(variance + eps)`` along an axis (or several), as layer normalisation wants it.

    The variance is the mean square of the differences, which are taken first, so that a large mean loses no digits.
    Source: Ba, Kiros & Hinton 2016, whose scale and shift `LayerNorm` adds.

    Args:
        x: float[...].
        axis: over which mean and variance are taken.
        eps: added to the variance; 0 gives nan where all elements are equal.

    Raises:
        ShapeError: there is no such axis.
        DtypeError: x holds complex numbers.
        ArgumentError: eps is no number of 0 or more.

    >>> standardize(afx.asarray([1.0, 2.0, 3.0]), eps=0.0)
    Array([-1.2247448,  0.       ,  1.2247448], dtype=float32)
    """
    a = aval_of(x, "standardize")
    if isinstance(eps, bool) or not isinstance(eps, Real) or not 0 <= eps < math.inf:
        raise ArgumentError(f"standardize: eps is a number of 0 or more: got {eps!r}; give one such as 1e-5")
    if is_weak(x):
        return bind_single(standardize_p, x, axis=normalize_axes(axis, a.ndim, "standardize"), eps=float(eps))
    dtype = common_dtype((a,), True)
    y = astype(x, float32 if dtype == float16 else dtype)  # sums and squares of float16 would overflow
    z = bind_single(standardize_p, y, axis=normalize_axes(axis, a.ndim, "standardize"), eps=float(eps))
    return astype(z, dtype)


def _abstract_normalization(x: Aval, *, axis: Shape, eps: float) -> Aval:
    if x.dtype.kind != "f":
        raise DtypeError(f"standardize: needs real numbers: got {x}; take the abs or a part, or convert with astype")
    return x


def _count(shape: Shape, axis: Shape) -> int:
    return max(math.prod([shape[a] for a in axis]), 1)  # of no elements there is nothing to divide


def _run(x: Any, *, axis: Shape, eps: float) -> Any:
    _abstract_normalization(aval_of(x), axis=axis, eps=eps)
    n = _count(x.shape, axis)
    z = x - np.add.reduce(x, axis, keepdims=True) / n
    variance = np.add.reduce(z * z, axis, keepdims=True) / n
    return np.divide(z, np.sqrt(variance + eps), out=z if z.__class__ is np.ndarray else None)


def _parts(x: Any, axis: Shape, eps: float) -> tuple[Any, Any]:
    """Return the differences from the mean, and what they are divided by."""
    n = _count(x.shape, axis)
    centred = x - x.sum(axis=axis, keepdims=True) / n
    return centred, to_lower_level(sqrt((centred * centred).sum(axis=axis, keepdims=True) / n + eps))


def _inline(xs: Values, params: Params) -> Value:
    centred, size = _parts(xs[0], **params)
    return centred / size


def _derivative(t: Any, z: Any, x: Any, *, axis: Shape, eps: float) -> Value:
    """Return the push of a tangent, or the pull of a cotangent: the partials ``(1 - 1/n - z zᵀ/n) / size`` are symmetric."""
    n = _count(x.shape, axis)
    along = (t * z).sum(axis=axis, keepdims=True) / n
    return to_lower_level((t - t.sum(axis=axis, keepdims=True) / n - z * along) / _parts(x, axis, eps)[1])


standardize_p: Primitive = register(
    Primitive(
        name="standardize",
        kind="custom",
        impl=_run,
        abstract_eval=_abstract_normalization,
        batch=batch_along_axes("standardize"),
        decompose=_inline,
        opaque=True,
        derivative=Derivative(
            vjps=(lambda ct, z, xs, params, shape, dtype: _derivative(ct, z, xs[0], **params),),
            reads=(0b11,),
            jvp=lambda ts, z, xs, params: _derivative(ts[0], z, xs[0], **params),
        ),
    )
)
