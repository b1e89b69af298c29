"""Log-sum-exp: the logarithm of a sum of exponentials, without overflow."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval, Shape, aval_of
from afx.core.dtypes import promote
from afx.core.primitive import Primitive
from afx.core.registry import register_function
from afx.errors import DtypeError
from afx.ops._basic import in_floats, numpy_of, reduced
from afx.ops._kinds.reduction import reduction
from afx.ops.creation.creation import SEQUENCES, asarray
from afx.ops.creation.promotion import promote_operands
from afx.ops.creation.stop_gradient import stop_gradient
from afx.ops.elementwise.comparison import isinf, isnan
from afx.ops.elementwise.exponential import exp, log
from afx.ops.elementwise.where import minimum, where
from afx.ops.manipulation.shape import astype, reshape
from afx.ops.reductions._numpy import largest, sum_keepdims
from afx.ops.reductions.sums import Axis, max, reduce_over, sum, tie_weights

if TYPE_CHECKING:
    from afx.compiler.native_backend.lowering.recorder import Recorder

__all__ = ["logsumexp"]


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


def _weighted_logsumexp(x: ArrayLike, b: ArrayLike, axis: Axis, keepdims: bool) -> Array:
    y, factors = promote_operands(x, b)
    dtype = promote((y.dtype, factors.dtype), (False, False), floating=True)
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
        found = np.log(sum_keepdims(np.exp(x - shift), axis)) + shift
    return found.astype(x.dtype).reshape(reduced(x.shape, axis))


def _logsumexp_native(xp: Recorder, out: Any, x: Any, *, axis: Shape) -> None:
    xp.check_floats(out, x)
    x = xp.ordered(x)
    top = xp.extreme("maximum", x, axis)
    shift = np.where(np.isfinite(top), top, np.zeros((), x.dtype))
    total = sum_keepdims(np.exp(x - shift), axis)
    with np.errstate(divide="ignore"):
        found = np.log(total)
    xp.give(out, found.reshape(out.shape) + shift.reshape(out.shape))


def _logsumexp_abstract(x: Aval, *, axis: Shape) -> Aval:
    if x.dtype.kind != "f":
        raise DtypeError(f"logsumexp: needs real numbers: got {x}; take a part first")
    return Aval(reduced(x.shape, axis), x.dtype)


def _softmax(z: Array, x: Array, *, axis: Shape) -> Array:
    shift = where(isinf(z), 0, z)
    share = exp(where(x == math.inf, 0, x - shift))
    return where(isinf(z), tie_weights(z, x, axis=axis), where(x == -math.inf, 0, share))


logsumexp_p: Primitive = reduction(
    "logsumexp", _logsumexp_run, _logsumexp_abstract, _softmax, finite_partials=True, native=_logsumexp_native
)
