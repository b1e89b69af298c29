"""Softmax: `softmax`, its logarithm, and the cross-entropy of logits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval, Shape, aval_of, normalize_axes
from afx.core.primitive import Derivative, Lowering, Masking, Params, Primitive, Value, register
from afx.core.tracing.tracer import bind2, bind_single, to_lower_level
from afx.errors import DtypeError
from afx.ops._basic import in_floats
from afx.ops._kinds.batching import batch_along_axes
from afx.ops._kinds.elementwise import binary
from afx.ops.elementwise.exponential import exp, sigmoid
from afx.ops.elementwise.where import where
from afx.ops.reductions._numpy import largest, sum_keepdims

if TYPE_CHECKING:
    from afx.compiler.native_backend.lowering.recorder import Recorder

__all__ = ["log_softmax", "multiply_logarithms", "sigmoid_binary_cross_entropy", "softmax"]

Axis = int | tuple[int, ...]

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


def _along(p: Primitive, x: ArrayLike, axis: Axis, who: str) -> Array:
    a = aval_of(x, who)
    return bind_single(p, in_floats(x, who), axis=normalize_axes(axis, a.ndim, who))


def _abstract(x: Aval, *, axis: Shape) -> Aval:
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


def _runner(into: Callable[..., None]) -> Callable[..., Any]:
    """Return the implementation that writes into memory of its own."""

    def run(x: Any, *, axis: Shape) -> Any:
        x = np.asarray(x)
        _abstract(aval_of(x), axis=axis)
        out = np.empty_like(x, order="C")
        into(out, x, axis=axis)
        return out

    return run


def _softmax_pull(ct: Value, z: Value, xs: tuple[Value, ...], params: Params, shape: Any, dtype: Any) -> Value:
    return to_lower_level(z * (ct - (ct * z).sum(axis=params["axis"], keepdims=True)))


def _softmax_jvp(ts: tuple[Value | None, ...], z: Value, xs: tuple[Value, ...], params: Params) -> Value:
    return _softmax_pull(ts[0], z, xs, params, None, None)


def _log_softmax_pull(ct: Value, z: Value, xs: tuple[Value, ...], params: Params, shape: Any, dtype: Any) -> Value:
    return to_lower_level(ct - to_lower_level(exp(z)) * ct.sum(axis=params["axis"], keepdims=True))


def _log_softmax_jvp(ts: tuple[Value | None, ...], z: Value, xs: tuple[Value, ...], params: Params) -> Value:
    t: Any = ts[0]
    return to_lower_level(t - (t * to_lower_level(exp(z))).sum(axis=params["axis"], keepdims=True))


def _make_primitive(
    name: str, into: Callable[..., None], native: Callable[..., None], pull: Any, jvp: Any
) -> Primitive:
    """Return the record of an op over axes whose rules read its output alone."""
    return register(
        Primitive(
            name=name,
            kind="custom",
            impl=_runner(into),
            abstract_eval=_abstract,
            batch=batch_along_axes(name),
            derivative=Derivative(vjps=(pull,), reads=(1,), jvp=jvp),
            masking=Masking(finite_partials=True),
            lowering=Lowering(
                flops=lambda avals, _: 5 * avals[0].size,  # largest, difference, exponential, sum, quotient
                impl_into=into,
                native=native,
                slicewise_over_axis=True,
            ),
        )
    )


softmax_p: Primitive = _make_primitive("softmax", _softmax_into, _softmax_native, _softmax_pull, _softmax_jvp)
log_softmax_p: Primitive = _make_primitive(
    "log_softmax", _log_softmax_into, _log_softmax_native, _log_softmax_pull, _log_softmax_jvp
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
    promotes_to_float=True,
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
    promotes_to_float=True,
    finite_partials=True,
    traceable=True,
)
