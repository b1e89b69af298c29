"""Polynomial fits: coefficients from points or zeros, and zeros from coefficients."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np

from afx.core.array.array import Array
from afx.core.aval import integer
from afx.core.dtypes import promote
from afx.core.registry import register_function
from afx.core.weakness import is_weak, numbers_beside
from afx.errors import ArgumentError, ConcreteValueError, ShapeError
from afx.ops.creation.creation import Nested, as_array, asarray, ones, zeros
from afx.ops.creation.promotion import promote_operands
from afx.ops.elementwise.arithmetic import sqrt
from afx.ops.elementwise.comparison import not_equal
from afx.ops.elementwise.complex import real
from afx.ops.linalg.eigen import eigvals
from afx.ops.linalg.lstsq import lstsq
from afx.ops.linalg.solve import inv
from afx.ops.manipulation.join import concat
from afx.ops.manipulation.shape import astype, reshape
from afx.ops.numerics.polynomials import coefficients_of, vander
from afx.ops.reductions.sums import sum

__all__ = ["poly", "polyfit", "roots"]


@register_function
def poly(roots: Nested) -> Array:
    """Return the coefficients of the polynomial with these zeros and first coefficient 1.

    Complex zeros give complex coefficients, also where they come in pairs, of which NumPy gives real ones.

    Args:
        roots: the zeros, or a square matrix, of which the characteristic polynomial is returned.

    Raises:
        ShapeError: more axes, or a matrix that is not square.

    >>> poly(np.array([1.0, 2.0]))
    Array([ 1., -3.,  2.], dtype=float64)
    """
    given = as_array(roots)
    if given.ndim == 2:
        z = poly(eigvals(given))
        return z if given.dtype.kind == "c" else real(z)
    places = coefficients_of(given, "poly")
    weak = is_weak(places)
    z = numbers_beside([1.0], places) if weak else ones(1, promote((places.dtype,), (False,), floating=True))
    for k in range(places.shape[0]):
        z = concat([z, z[:1] * 0]) - concat([z[:1] * 0, z * places[k]])
    return z


@register_function
def roots(p: Nested) -> Array:
    """Return the zeros of a polynomial, always as complex numbers; differentiable where they are apart.

    Args:
        p: float[degree + 1]; leading zeros are left out where they are known, and must not be where they are not.

    Raises:
        ShapeError: no vector.

    >>> roots(np.array([1.0, -3.0, 2.0])).real
    Array([2., 1.], dtype=float64)
    """
    z = coefficients_of(p, "roots")
    z = astype(z, promote((z.dtype,), (False,), floating=True))
    try:
        alive: Any = np.flatnonzero(not_equal(z, 0).concrete("roots"))
        z = z[int(alive[0]) :] if alive.size else z[:0]
    except ConcreteValueError:
        pass  # compiled, the first coefficient is not known
    n = z.shape[0] - 1
    if n < 1:
        return zeros(0, np.result_type(z.dtype, np.complex64))
    below = astype(np.eye(n - 1, n), z.dtype)
    return eigvals(concat([reshape(-z[1:] / z[0], (1, n)), below]))


@overload
def polyfit(
    x: Nested,
    y: Nested,
    deg: int,
    rcond: float | None = None,
    full: Literal[False] = False,
    w: Nested | None = None,
    cov: Literal[False] = False,
) -> Array: ...
@overload
def polyfit(
    x: Nested,
    y: Nested,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: Nested | None = None,
    cov: bool | Literal["unscaled"] = False,
) -> Array | tuple[Array, ...]: ...
@register_function
def polyfit(
    x: Nested,
    y: Nested,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: Nested | None = None,
    cov: bool | Literal["unscaled"] = False,
) -> Array | tuple[Array, ...]:
    """Return the coefficients of the polynomial that fits points best, by least squares; differentiable in all of them.

    Args:
        x: float[points].
        y: float[points], or float[points, sets] for several fits at once.
        deg: the degree.
        rcond: see `afx.linalg.lstsq`; points times the dtype's resolution unless given.
        full: whether to return the residuals, rank, singular values and ``rcond``, too.
        w: float[points], by which residuals are multiplied before they are squared.
        cov: whether to return the covariance of the coefficients, too; ``"unscaled"`` where ``w`` are inverse deviations.

    Raises:
        ArgumentError: a negative degree, or too few points for the covariance.
        ShapeError: x is no vector, or y or w do not fit it.

    >>> polyfit(np.array([0.0, 1.0, 2.0]), np.array([1.0, 3.0, 5.0]), 1).round(6)
    Array([2., 1.], dtype=float64)
    """
    places, values, weights = _points(x, y, w)
    deg = integer(deg, "polyfit", "deg")
    if deg < 0:
        raise ArgumentError(f"polyfit: a degree is 0 or more: got deg={deg}; give another")
    n, order = places.shape[0], deg + 1
    left, right = vander(places, order), values
    if weights is not None:
        left = left * weights[:, None]
        right = right * (weights if right.ndim == 1 else weights[:, None])
    scale = sqrt(sum(left * left, axis=0))
    cut = n * float(np.finfo(left.dtype).eps) if rcond is None else rcond
    found = lstsq(left / scale, right, cut)
    z = (found.x.T / scale).T
    if full:
        return z, found.residuals, found.rank, found.singular_values, asarray(cut, left.dtype)
    if not cov:
        return z
    base = inv(left.T @ left)
    if cov == "unscaled":
        return z, base if values.ndim == 1 else base[:, :, None]
    if n <= order:
        raise ArgumentError(f"polyfit: a covariance takes more points than coefficients: got {n} and {order}; add some")
    rest = right - left @ z
    variance = sum(rest * rest, axis=0) / (n - order)
    return z, base * variance if values.ndim == 1 else base[:, :, None] * variance


def _points(x: Nested, y: Nested, w: Nested | None) -> tuple[Array, Array, Array | None]:
    """Return coordinates, values and weights in one floating dtype."""
    given = promote_operands(x, y) if w is None else promote_operands(x, y, w)
    dtype = promote(tuple([v.dtype for v in given]), (False,) * len(given), floating=True)
    places, values = given[0], given[1]
    fits = places.ndim == 1 and values.ndim in (1, 2) and values.shape[0] == places.shape[0]
    if not fits or (w is not None and given[2].shape != places.shape):
        got = ", ".join(str(v.aval) for v in given)
        raise ShapeError(f"polyfit: coordinates, values and weights do not fit: got {got}; give as many of each")
    return astype(places, dtype), astype(values, dtype), None if w is None else astype(given[2], dtype)
