"""Moments and norms: variance, standard deviation, Euclid's norm, the logarithm of a sum of exponentials."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from afx.core.array import Array, ArrayLike
from afx.core.aval import Aval, Shape, aval_of, normalize_axes, shape_of
from afx.core.dtypes import promote, real_dtype
from afx.core.functions import FUNCTIONS, public
from afx.errors import DtypeError
from afx.ops._kinds import reduction
from afx.ops.arithmetic import abs as abs_
from afx.ops.arithmetic import sqrt, subtract
from afx.ops.comparison import isinf
from afx.ops.exponential import exp
from afx.ops.reductions import (
    Axis,
    batch_reduction,
    count_nonzero,
    max,
    mean,
    min,
    numpy_of,
    reduce_over,
    reduced,
    shared,
    sum,
)
from afx.ops.selection import clip, minimum, where
from afx.ops.shaping import astype, broadcast_to, reshape
from afx.ops.stopping import stop_gradient

__all__ = ["average", "logsumexp", "std", "var", "vector_norm"]


def _spread(x: ArrayLike, axis: Axis, correction: float, who: str) -> tuple[Array, Shape, float]:
    """Return the deviations from the mean, the axes, and the number that the sum of their squares is divided by."""
    shape = shape_of(x, who)
    axes = normalize_axes(axis, len(shape), who)
    return subtract(x, mean(x, axes, keepdims=True)), axes, math.prod([shape[a] for a in axes]) - correction


@public
def var(x: ArrayLike, axis: Axis = None, *, correction: float = 0, ddof: float = 0, keepdims: bool = False) -> Array:
    """Return the variance along axes: the mean square of the deviations from the mean, in two passes.

    Args:
        x: any shape.
        axis: one axis, several, or all (None).
        correction: subtracted from the number of elements that the sum is divided by; 1 gives the unbiased estimate.
        ddof: NumPy's name of the correction.
        keepdims: keeps the axes, with length 1.

    >>> var(broadcast_to(2.0, (3,)))
    Array(0., dtype=float32)
    """
    d, axes, count = _spread(x, axis, correction + ddof, "var")
    square = abs_(d) ** 2 if d.dtype.kind == "c" else d * d
    return sum(square, axes, keepdims=keepdims) / count


@public
def std(x: ArrayLike, axis: Axis = None, *, correction: float = 0, ddof: float = 0, keepdims: bool = False) -> Array:
    """Return the standard deviation along axes; its derivative at equal elements is 0.

    Arguments are those of `var`.

    >>> std(broadcast_to(2.0, (3,)))
    Array(0., dtype=float32)
    """
    d, axes, count = _spread(x, axis, correction + ddof, "std")
    return vector_norm(d, axes, keepdims=keepdims) / sqrt(astype(count, real_dtype(d.dtype)))


@public
def vector_norm(x: ArrayLike, axis: Axis = None, *, keepdims: bool = False, ord: float = 2) -> Array:
    """Return the norm of the elements along axes as one vector; the 2-norm does not overflow and has derivative 0 at 0.

    Args:
        x: any shape; integers in the default dtype.
        axis: one axis, several, or all (None).
        keepdims: keeps the axes, with length 1.
        ord: 2 (Euclid), 1, inf, -inf, 0 (the number of elements that are not zero), or another power.

    >>> vector_norm(broadcast_to(3.0, (4,)))
    Array(6., dtype=float32)
    """
    if ord == 2:
        dtype = promote((aval_of(x, "vector_norm").dtype,), (False,), floating=True)
        return reduce_over(vector_norm_p, astype(x, dtype), axis, keepdims, "vector_norm")
    size = abs_(x)
    if ord in (math.inf, -math.inf):
        return (max if ord > 0 else min)(size, axis, keepdims=keepdims)
    if ord == 0:
        return astype(count_nonzero(size, axis, keepdims=keepdims), promote((size.dtype,), (False,), floating=True))
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


def _norm_run(x: Any, *, axis: Shape) -> Any:
    _floating(numpy_of(x), "vector_norm")
    x = np.abs(numpy_of(x))
    if not x.size:
        return np.zeros(reduced(x.shape, axis), x.dtype)
    top = x.max(axis=axis, keepdims=True)
    scale = np.where((top > 0) & np.isfinite(top), top, np.ones((), x.dtype))
    return np.sqrt(np.add.reduce(np.square(x / scale), axis=axis)) * scale.reshape(reduced(x.shape, axis))


def _norm_abstract(x: Aval, *, axis: Shape) -> Aval:
    _floating(x, "vector_norm")
    return Aval(reduced(x.shape, axis), real_dtype(x.dtype))


def _unit(z: Array, x: Array, *, axis: Shape) -> Array:
    if x.dtype.kind == "c":
        return FUNCTIONS.conj(x) / where(z == 0, math.inf, z)
    largest = float(np.finfo(x.dtype).max)  # stands for infinity, whose quotients are nan
    # the quotient by infinity is 0 at the origin, and so are all of its derivatives
    return clip(x, -largest, largest) / where(z == 0, math.inf, minimum(z, largest))


vector_norm_p = reduction("vector_norm", _norm_run, _norm_abstract, _unit, batch=batch_reduction(vector_norm))


@public
def average(x: ArrayLike, axis: Axis = None, weights: ArrayLike | None = None, *, keepdims: bool = False) -> Array:
    """Return the mean along axes, weighted where weights, which broadcast to x, are given.

    >>> average(broadcast_to(2.0, (3,)))
    Array(2., dtype=float32)
    """
    if weights is None:
        return mean(x, axis, keepdims=keepdims)
    shape = shape_of(x, "average")
    w = weights
    if isinstance(axis, int) and len(shape_of(weights)) == 1 and len(shape) > 1:
        w = reshape(weights, tuple([-1 if a == axis % len(shape) else 1 for a in range(len(shape))]))
    total = sum(broadcast_to(w, shape), axis, keepdims=keepdims)
    return sum(x * astype(w, aval_of(w).dtype), axis, keepdims=keepdims) / total


@public
def logsumexp(x: ArrayLike, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """Return ``log(sum(exp(x)))`` along axes without overflow; -inf of nothing.

    Elements that all are -inf, and those that are inf, share the derivative evenly, as those of `logaddexp` do.

    >>> logsumexp(broadcast_to(1000.0, (1,)))
    Array(1000., dtype=float32)
    """
    dtype = promote((aval_of(x, "logsumexp").dtype,), (False,), floating=True)
    return reduce_over(logsumexp_p, astype(x, dtype), axis, keepdims, "logsumexp")


def _logsumexp_run(x: Any, *, axis: Shape) -> Any:
    x = numpy_of(x)
    if x.dtype.kind != "f":
        raise DtypeError(f"logsumexp: needs real numbers: got {aval_of(x)}; take a part first")
    top = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(top), top, np.zeros((), x.dtype))
    with np.errstate(divide="ignore"):
        return np.log(np.add.reduce(np.exp(x - shift), axis=axis)) + shift.reshape(reduced(x.shape, axis))


def _logsumexp_abstract(x: Aval, *, axis: Shape) -> Aval:
    if x.dtype.kind != "f":
        raise DtypeError(f"logsumexp: needs real numbers: got {x}; take a part first")
    return Aval(reduced(x.shape, axis), x.dtype)


def _softmax(z: Array, x: Array, *, axis: Shape) -> Array:
    shift = where(isinf(z), 0, z)
    share = exp(where(x == math.inf, 0, x - shift))
    return where(isinf(z), shared(z, x, axis=axis), where(x == -math.inf, 0, share))


logsumexp_p = reduction(
    "logsumexp", _logsumexp_run, _logsumexp_abstract, _softmax, batch=batch_reduction(logsumexp), bounded=True
)
