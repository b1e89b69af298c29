"""Window functions: NumPy's five tapers, by which pieces of a signal fade in and out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from afx.core import Array, ArrayLike, Tracer, aval_of, check_dtype, get_default_dtype, integer, register_function, wrap
from afx.errors import ShapeError
from afx.ops.elementwise.arithmetic import sqrt
from afx.ops.elementwise.comparison import maximum
from afx.ops.manipulation.shape import astype
from afx.ops.special.bessel import i0


def _window(name: str, M: int, dtype: DTypeLike | None, *args: Any) -> Array:
    """Return NumPy's window of a name in a dtype, the default one unless given."""
    target = get_default_dtype() if dtype is None else check_dtype(dtype, name)
    return wrap(getattr(np, name)(integer(M, name, "M"), *args).astype(target))


@register_function
def bartlett(M: int, dtype: DTypeLike | None = None) -> Array:
    """Return the triangular window of M numbers, 0 at both ends; of the default dtype unless one is given.

    >>> bartlett(5)
    Array([0. , 0.5, 1. , 0.5, 0. ], dtype=float32)
    """
    return _window("bartlett", M, dtype)


@register_function
def blackman(M: int, dtype: DTypeLike | None = None) -> Array:
    """Return Blackman's window of M numbers, ``0.42 - 0.5 cos(2πk/(M-1)) + 0.08 cos(4πk/(M-1))``.

    >>> blackman(3).round(4)
    Array([-0.,  1., -0.], dtype=float32)
    """
    return _window("blackman", M, dtype)


@register_function
def hamming(M: int, dtype: DTypeLike | None = None) -> Array:
    """Return Hamming's window of M numbers, ``0.54 - 0.46 cos(2πk/(M-1))``.

    >>> hamming(3).round(4)
    Array([0.08, 1.  , 0.08], dtype=float32)
    """
    return _window("hamming", M, dtype)


@register_function
def hanning(M: int, dtype: DTypeLike | None = None) -> Array:
    """Return Hann's window of M numbers, ``0.5 - 0.5 cos(2πk/(M-1))``.

    >>> hanning(5)
    Array([0. , 0.5, 1. , 0.5, 0. ], dtype=float32)
    """
    return _window("hanning", M, dtype)


@register_function
def kaiser(M: int, beta: ArrayLike, dtype: DTypeLike | None = None) -> Array:
    """Return Kaiser's window of M numbers, ``I₀(β √(1 - x²)) / I₀(β)`` for x from -1 to 1; differentiable in β.

    Args:
        M: how many.
        beta: one number; the larger, the narrower the window. Where it is traced, the extra ``scipy`` is needed.
        dtype: the default dtype unless given.

    Raises:
        ShapeError: beta is not one number.

    >>> kaiser(3, 2.0).round(4)
    Array([0.4387, 1.    , 0.4387], dtype=float32)
    """
    if aval_of(beta, "kaiser").shape != ():
        raise ShapeError(f"kaiser: beta is one number: got {aval_of(beta)}; map over several with afx.vmap")
    if not isinstance(beta, Tracer):
        return _window("kaiser", M, dtype, np.asarray(beta, np.float64).item())
    count = integer(M, "kaiser", "M")
    x = (np.arange(count) - (count - 1) / 2) / (max(count - 1, 1) / 2)
    target = get_default_dtype() if dtype is None else check_dtype(dtype, "kaiser")
    return astype(taper(wrap(x).astype(beta.dtype), beta), target)


def taper(x: Any, beta: Any) -> Any:
    """Return Kaiser's window at places from -1 to 1."""
    return i0(beta * sqrt(maximum(1 - x**2, 0.0))) / i0(beta)
