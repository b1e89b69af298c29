"""Cosine and sine transforms: types 1 to 4 of both, along one axis and several, from Fourier transforms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from afx.core import Array, ArrayLike, DType, aval_of, floating_dtype, normalize_axis
from afx.errors import ArgumentError, ShapeError
from afx.ops.creation.creation import as_array, zeros
from afx.ops.elementwise.complex import imag, real
from afx.ops.fft import INVERSE, Norm, fft, irfft, normed, resized, rfft, steps_of_axes
from afx.ops.indexing.gather import gather
from afx.ops.manipulation.join import concat, moveaxis
from afx.ops.manipulation.pad import flip
from afx.ops.manipulation.shape import astype

# With N points, type 1 is the Fourier transform of a signal with mirror images in its ends, type 2 that of N points in
# the order 0, 2, 4 … 5, 3, 1 (Makhoul 1980), type 3 is type 2 backwards, and type 4 is one of 2N points. The sine
# transforms 2 to 4 are cosine transforms of elements in reverse or with alternating signs.

Type: TypeAlias = Literal[1, 2, 3, 4]
BACK = {1: 1, 2: 3, 3: 2, 4: 4}  # the type that undoes another


def dct(
    x: ArrayLike,
    type: Type = 2,
    n: int | None = None,
    axis: int = -1,
    norm: Norm = None,
    *,
    orthogonalize: bool | None = None,
) -> Array:
    """Return a cosine transform along an axis; of type 2, element k is ``2 Σⱼ x[j] cos(πk(2j + 1) / 2n)``.

    Args:
        x: real or complex, any shape of one axis or more.
        type: 1 to 4, as `scipy.fft.dct` defines them.
        n: the number of points; x is cut to it, or padded with zeros at its end.
        axis: the axis that is transformed.
        norm: ``backward`` scales the inverse transform alone, ``forward`` this one alone, ``ortho`` both alike.
        orthogonalize: whether the ends are weighted so that ``ortho`` is an orthogonal matrix; with ``ortho`` by default.

    Raises:
        ArgumentError: no such type or norm, or n is less than 1.
        ShapeError: no such axis, an empty one, or one point for type 1.

    >>> dct(np.array([1.0, 2.0, 3.0]), norm="ortho").round(4)
    Array([ 3.4641, -1.4142,  0.    ], dtype=float64)
    """
    return _transform("dct", x, type, n, axis, norm, orthogonalize)


def idct(
    x: ArrayLike,
    type: Type = 2,
    n: int | None = None,
    axis: int = -1,
    norm: Norm = None,
    *,
    orthogonalize: bool | None = None,
) -> Array:
    """Return the inverse of `dct` of the same type; arguments and errors are those of `dct`.

    >>> idct(dct(np.array([1.0, 2.0, 3.0]))).round(6)
    Array([1., 2., 3.], dtype=float64)
    """
    return _transform("idct", x, type, n, axis, norm, orthogonalize)


def dst(
    x: ArrayLike,
    type: Type = 2,
    n: int | None = None,
    axis: int = -1,
    norm: Norm = None,
    *,
    orthogonalize: bool | None = None,
) -> Array:
    """Return a sine transform along an axis; of type 2, element k is ``2 Σⱼ x[j] sin(π(k + 1)(2j + 1) / 2n)``.

    Arguments and errors are those of `dct`; type 1 takes one point too.

    >>> dst(np.array([1.0, 2.0]), type=1).round(4)
    Array([ 5.1962, -1.7321], dtype=float64)
    """
    return _transform("dst", x, type, n, axis, norm, orthogonalize)


def idst(
    x: ArrayLike,
    type: Type = 2,
    n: int | None = None,
    axis: int = -1,
    norm: Norm = None,
    *,
    orthogonalize: bool | None = None,
) -> Array:
    """Return the inverse of `dst` of the same type; arguments and errors are those of `dst`.

    >>> idst(dst(np.array([1.0, 2.0, 3.0]))).round(6)
    Array([1., 2., 3.], dtype=float64)
    """
    return _transform("idst", x, type, n, axis, norm, orthogonalize)


def dctn(
    x: ArrayLike,
    type: Type = 2,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = None,
    *,
    orthogonalize: bool | None = None,
) -> Array:
    """Return `dct` along several axes, all by default; ``s`` and ``axes`` are those of `afx.fft.fftn`.

    >>> dctn(np.ones((2, 2))).round(6)
    Array([[16.,  0.],
           [ 0.,  0.]], dtype=float64)
    """
    return _transform_axes("dct", x, type, s, axes, norm, orthogonalize)


def idctn(
    x: ArrayLike,
    type: Type = 2,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = None,
    *,
    orthogonalize: bool | None = None,
) -> Array:
    """Return the inverse of `dctn`.

    >>> idctn(np.array([[16.0, 0.0], [0.0, 0.0]])).round(6)
    Array([[1., 1.],
           [1., 1.]], dtype=float64)
    """
    return _transform_axes("idct", x, type, s, axes, norm, orthogonalize)


def dstn(
    x: ArrayLike,
    type: Type = 2,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = None,
    *,
    orthogonalize: bool | None = None,
) -> Array:
    """Return `dst` along several axes, all by default; ``s`` and ``axes`` are those of `afx.fft.fftn`.

    >>> dstn(np.ones((1, 1)))
    Array([[4.]], dtype=float64)
    """
    return _transform_axes("dst", x, type, s, axes, norm, orthogonalize)


def idstn(
    x: ArrayLike,
    type: Type = 2,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = None,
    *,
    orthogonalize: bool | None = None,
) -> Array:
    """Return the inverse of `dstn`.

    >>> idstn(np.array([[4.0]])).round(6)
    Array([[1.]], dtype=float64)
    """
    return _transform_axes("idst", x, type, s, axes, norm, orthogonalize)


def _transform_axes(
    who: str, x: ArrayLike, kind: int, s: Any, axes: Any, norm: Norm, orthogonalize: bool | None
) -> Array:
    z = as_array(x)
    for n, axis in steps_of_axes(z, s, axes, who + "n"):
        z = _transform(who, z, kind, n, axis, norm, orthogonalize)
    return z


def _transform(
    who: str, x: ArrayLike, kind: int, n: int | None, axis: int, norm: Norm, orthogonalize: bool | None
) -> Array:
    """Return a transform, scaled, along an axis."""
    if kind not in BACK:
        raise ArgumentError(f"{who}: a transform has type 1, 2, 3 or 4: got type={kind!r}; choose one of them")
    z = as_array(x)
    place = normalize_axis(axis, z.ndim, who)
    z = moveaxis(astype(resized(z, n, place, who), _choose_dtype(z.dtype)), place, -1)
    points, is_sine = z.shape[-1], "s" in who[:-1]
    if points < (2 if kind == 1 and not is_sine else 1):
        raise ShapeError(f"{who}: too few points along axis {axis}: got {aval_of(x)}; give n= or another axis")
    inverse, scaled = who[0] == "i", normed(norm, who)
    scaled = INVERSE[scaled] if inverse else scaled
    weighs_ends = norm == "ortho" if orthogonalize is None else orthogonalize
    parts = [real(z), imag(z)] if z.dtype.kind == "c" else [z]
    results = [(_sines if is_sine else _cosines)(part, BACK[kind] if inverse else kind, weighs_ends) for part in parts]
    z = results[0] if len(results) == 1 else results[0] + 1j * results[1]
    length = 2 * (points + (0 if kind > 1 else 1 if is_sine else -1))
    factor = {"backward": 1.0, "ortho": 1 / math.sqrt(length), "forward": 1 / length}[scaled]
    return moveaxis(z if factor == 1 else z * factor, -1, place)


def _choose_dtype(dtype: DType) -> DType:
    """Return the dtype in which it is computed: integers in the default dtype, half precision in single."""
    return np.result_type(floating_dtype(dtype), np.float32)


def _weigh(z: Array, first: float, last: float = 1.0) -> Array:
    """Return z with the elements at the ends of its last axis multiplied by numbers."""
    weights = np.ones(z.shape[-1], z.dtype)
    weights[0] *= first
    weights[-1] *= last
    return z * weights


def _turns(n: int, step: float, dtype: DType, first: float = 0.0) -> Any:
    """Return the complex numbers of n angles that grow by ``step``."""
    return np.exp(1j * (first + step * np.arange(n))).astype(np.result_type(dtype, np.complex64))


def _cosines(x: Array, kind: int, weighs_ends: bool) -> Array:
    """Return the cosine transform, without a factor, of real numbers along the last axis."""
    n, root = x.shape[-1], math.sqrt(2.0)
    if kind == 1:
        x = _weigh(x, root, root) if weighs_ends else x
        z = real(rfft(concat([x, flip(x[..., 1:-1], -1)], -1)))
        return _weigh(z, 1 / root, 1 / root) if weighs_ends else z
    if kind == 4:
        turned = x * _turns(n, -math.pi / (2 * n), x.dtype)
        z = fft(turned, 2 * n)[..., :n] * _turns(n, -math.pi / (2 * n), x.dtype, -math.pi / (4 * n))
        return 2 * real(z)
    order = np.concatenate([np.arange(0, n, 2), np.arange(1, n, 2)[::-1]])
    half = n // 2 + 1
    turns = _turns(half, -math.pi / (2 * n), x.dtype)
    if kind == 2:
        z = rfft(gather(x, order, axis=x.ndim - 1)) * turns
        z = 2 * concat([real(z), flip(-imag(z)[..., 1 : (n + 1) // 2], -1)], -1)
        return _weigh(z, 1 / root) if weighs_ends else z
    x = _weigh(x, root) if weighs_ends else x
    ahead = concat([zeros((*x.shape[:-1], 1), x.dtype), flip(x[..., n - half + 1 :], -1)], -1)
    z = irfft((x[..., :half] - 1j * ahead) * turns.conj(), n) * n
    return gather(z, np.argsort(order), axis=x.ndim - 1)


def _sines(x: Array, kind: int, weighs_ends: bool) -> Array:
    """Return the sine transform, without a factor, of real numbers along the last axis."""
    n = x.shape[-1]
    if kind == 1:
        gap = zeros((*x.shape[:-1], 1), x.dtype)
        return -imag(rfft(concat([gap, x, gap, flip(-x, -1)], -1)))[..., 1 : n + 1]
    signs = np.resize(np.array([1, -1], x.dtype), n)
    if kind == 2:
        return flip(_cosines(x * signs, 2, weighs_ends), -1)
    return _cosines(flip(x, -1), kind, weighs_ends) * signs
