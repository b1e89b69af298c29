"""Matrices: identities and triangles."""

from __future__ import annotations

import numpy as np

from afx.core import Array, ArrayLike, DTypeLike, check_dtype, get_default_dtype, is_weak, register_function, wrap
from afx.core.aval import aval_of, checked_shape, integer
from afx.core.numpy_names import Order, check_device, check_memory_order
from afx.errors import ShapeError
from afx.ops._basic import select_where
from afx.ops.creation.creation import as_array


@register_function
def eye(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: DTypeLike | None = None,
    order: Order = "C",
    *,
    device: str | None = None,
) -> Array:
    """Return ones on the k-th diagonal of an N × M matrix of zeros (N × N unless M is given).

    >>> eye(2)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    check_memory_order(order, "eye")
    check_device(device, "eye")
    rows, columns = checked_shape((N, N if M is None else M), "eye")
    return wrap(
        np.eye(
            rows, columns, integer(k, "eye", "k"), get_default_dtype() if dtype is None else check_dtype(dtype, "eye")
        )
    )


@register_function
def identity(n: int, dtype: DTypeLike | None = None) -> Array:
    """Return the n × n identity matrix.

    >>> identity(1)
    Array([[1.]], dtype=float32)
    """
    return eye(n, dtype=dtype)


@register_function
def tri(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike | None = None) -> Array:
    """Return ones on and below the k-th diagonal of an N × M matrix of zeros.

    >>> tri(2)
    Array([[1., 0.],
           [1., 1.]], dtype=float32)
    """
    rows, columns = checked_shape((N, N if M is None else M), "tri")
    return wrap(
        np.tri(
            rows, columns, integer(k, "tri", "k"), get_default_dtype() if dtype is None else check_dtype(dtype, "tri")
        )
    )


def _triangle(x: ArrayLike, k: int, who: str, upper: bool) -> Array:
    shape = aval_of(x, who).shape
    if len(shape) < 2:
        raise ShapeError(f"{who}: needs matrices: got {aval_of(x)}; reshape it to two axes or more")
    k = integer(k, who, "k")
    mask = np.tri(shape[-2], shape[-1], k - 1 if upper else k, dtype=bool)
    zero = 0.0 if is_weak(x) else np.zeros((), aval_of(x).dtype)
    return select_where(wrap(~mask if upper else mask), as_array(x), zero)


@register_function
def tril(x: ArrayLike, /, k: int = 0) -> Array:
    """Return matrices with zeros above the k-th diagonal.

    >>> tril(afx.ones((2, 2)))
    Array([[1., 0.],
           [1., 1.]], dtype=float32)
    """
    return _triangle(x, k, "tril", upper=False)


@register_function
def triu(x: ArrayLike, /, k: int = 0) -> Array:
    """Return matrices with zeros below the k-th diagonal.

    >>> triu(afx.ones((2, 2)))
    Array([[1., 1.],
           [0., 1.]], dtype=float32)
    """
    return _triangle(x, k, "triu", upper=True)
