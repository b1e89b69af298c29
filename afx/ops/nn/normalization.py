"""Normalization: mean 0 and variance 1 along axes."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval, Shape, aval_of, normalize_axes
from afx.core.dtypes import DType, float16, float32, promote
from afx.core.primitive import Derivative, Params, Primitive, Value, register
from afx.core.tracing.tracer import bind_single, to_lower_level
from afx.core.weakness import is_weak
from afx.errors import ArgumentError, DtypeError
from afx.ops._kinds.batching import batch_along_axes
from afx.ops.elementwise.arithmetic import sqrt
from afx.ops.manipulation.shape import astype

__all__ = ["standardize"]


def standardize(x: ArrayLike, axis: int | tuple[int, ...] = -1, *, eps: float = 1e-5) -> Array:
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
    dtype = promote((a.dtype,), (a.weak,), True)
    y = astype(x, float32 if dtype == float16 else dtype)  # sums and squares of float16 would overflow
    z = bind_single(standardize_p, y, axis=normalize_axes(axis, a.ndim, "standardize"), eps=float(eps))
    return astype(z, dtype)


def _abstract(x: Aval, *, axis: Shape, eps: float) -> Aval:
    if x.dtype.kind != "f":
        raise DtypeError(f"standardize: needs real numbers: got {x}; take the abs or a part, or convert with astype")
    return x


def _count(shape: Shape, axis: Shape) -> int:
    return max(math.prod([shape[a] for a in axis]), 1)  # of no elements there is nothing to divide


def _run(x: Any, *, axis: Shape, eps: float) -> Any:
    _abstract(aval_of(x), axis=axis, eps=eps)
    n = _count(x.shape, axis)
    z = x - np.add.reduce(x, axis, keepdims=True) / n
    variance = np.add.reduce(z * z, axis, keepdims=True) / n
    return np.divide(z, np.sqrt(variance + eps), out=z if z.__class__ is np.ndarray else None)


def _parts(x: Any, axis: Shape, eps: float) -> tuple[Any, Any]:
    """Return the differences from the mean, and what they are divided by."""
    n = _count(x.shape, axis)
    centred = x - x.sum(axis=axis, keepdims=True) / n
    return centred, to_lower_level(sqrt((centred * centred).sum(axis=axis, keepdims=True) / n + eps))


def _inline(xs: tuple[Value, ...], params: Params) -> Value:
    centred, size = _parts(xs[0], **params)
    return centred / size


def _derivative(t: Any, z: Any, x: Any, *, axis: Shape, eps: float) -> Value:
    """Return what goes either way, since the matrix of partials ``(1 - 1/n - z zᵀ/n) / size`` is symmetric."""
    n = _count(x.shape, axis)
    along = (t * z).sum(axis=axis, keepdims=True) / n
    return to_lower_level((t - t.sum(axis=axis, keepdims=True) / n - z * along) / _parts(x, axis, eps)[1])


def _pull(ct: Value, z: Value, xs: tuple[Value, ...], params: Params, shape: Shape, dtype: DType) -> Value:
    return _derivative(ct, z, xs[0], **params)


def _push(ts: tuple[Value | None, ...], z: Value, xs: tuple[Value, ...], params: Params) -> Value:
    return _derivative(ts[0], z, xs[0], **params)


standardize_p: Primitive = register(
    Primitive(
        name="standardize",
        kind="custom",
        impl=_run,
        abstract_eval=_abstract,
        batch=batch_along_axes("standardize"),
        decompose=_inline,
        opaque=True,
        derivative=Derivative(vjps=(_pull,), reads=(0b11,), jvp=_push),
    )
)
