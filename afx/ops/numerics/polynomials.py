"""Polynomials: vectors of coefficients, highest power first, their products, zeros and fits."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np

from afx.core import (
    Array,
    Aval,
    aval_of,
    broadcast_avals,
    common_dtype,
    epsilon,
    floating_dtype,
    integer,
    register_function,
)
from afx.core.primitive import is_weak, numbers_beside
from afx.errors import ArgumentError, ConcreteValueError, ShapeError
from afx.ops._basic import sum_dtype
from afx.ops.creation.creation import Nested, as_array, asarray, ones, promote_operands, zeros
from afx.ops.elementwise.arithmetic import sqrt
from afx.ops.elementwise.comparison import not_equal
from afx.ops.elementwise.complex import real
from afx.ops.indexing.index import is_sequence
from afx.ops.linalg.norms import lstsq
from afx.ops.linalg.solve import inv
from afx.ops.linalg.spectra import eigvals
from afx.ops.manipulation.join import concat, stack
from afx.ops.manipulation.shape import astype, broadcast_to, reshape
from afx.ops.nn.convolution import convolve
from afx.ops.reductions.sums import sum

# --- Polynomials: vectors of coefficients, highest power first, as in NumPy


def coefficients_of(p: Nested, who: str) -> Array:
    """Return the coefficients of a polynomial as a vector."""
    given = as_array(p)
    if given.ndim > 1:
        raise ShapeError(f"{who}: a polynomial is a vector of coefficients: got {given.aval}; use vmap for several")
    return reshape(given, (-1,))


@register_function
def polyval(p: Nested, x: Nested) -> Array:
    """Return the values of a polynomial at x by Horner's rule; differentiable in both.

    Args:
        p: float[degree + 1], the coefficients, that of the highest power first; further axes broadcast with x.
        x: any shape.

    >>> polyval(np.array([1.0, 0.0, 2.0]), 3.0)
    Array(11., dtype=float64)
    """
    coefficients = promote_operands(p, x)[0]
    at: Any = promote_operands(x, p)[0] if is_sequence(x) else x  # a number takes the dtype of what it meets
    coefficients = coefficients if coefficients.ndim else reshape(coefficients, (1,))
    point = aval_of(at, "polyval")
    shape = broadcast_avals("polyval", [point, Aval(coefficients.shape[1:], coefficients.dtype)])
    if not (point.weak or is_weak(coefficients)):
        coefficients = astype(coefficients, common_dtype([aval_of(coefficients), point]))
    if not coefficients.shape[0]:
        return zeros(shape, coefficients.dtype)
    z: Array = broadcast_to(coefficients[0], shape)
    for k in range(1, coefficients.shape[0]):
        z = z * at + coefficients[k]
    return z


def _align_coefficients(p: Nested, q: Nested, who: str) -> tuple[Array, Array]:
    """Return coefficients with zeros in front, so that both are of one length."""
    a, b = (coefficients_of(v, who) for v in promote_operands(p, q))
    n = max(a.shape[0], b.shape[0])
    parts = [concat([zeros(n - v.shape[0], v.dtype), v]) if v.shape[0] < n else v for v in (a, b)]
    return parts[0], parts[1]


@register_function
def polyadd(p: Nested, q: Nested) -> Array:
    """Return the sum of two polynomials.

    >>> polyadd(np.array([1.0, 2.0]), np.array([3.0]))
    Array([1., 5.], dtype=float64)
    """
    a, b = _align_coefficients(p, q, "polyadd")
    return a + b


@register_function
def polysub(p: Nested, q: Nested) -> Array:
    """Return the difference of two polynomials.

    >>> polysub(np.array([1.0, 2.0]), np.array([3.0]))
    Array([ 1., -1.], dtype=float64)
    """
    a, b = _align_coefficients(p, q, "polysub")
    return a - b


@register_function
def polymul(p: Nested, q: Nested) -> Array:
    """Return the product of two polynomials.

    >>> polymul(np.array([1.0, 2.0]), np.array([1.0, -2.0]))
    Array([ 1.,  0., -4.], dtype=float64)
    """
    a, b = (coefficients_of(v, "polymul") for v in promote_operands(p, q))
    return convolve(a, b)


@register_function
def polydiv(u: Nested, v: Nested) -> tuple[Array, Array]:
    """Return quotient and remainder of two polynomials.

    The remainder has one coefficient less than the divisor, also where its first ones are 0, which NumPy leaves out.

    Args:
        u: float[m], the dividend.
        v: float[n], the divisor; its first coefficient is not 0.

    >>> polydiv(np.array([1.0, 0.0, -4.0]), np.array([1.0, -2.0]))
    (Array([1., 2.], dtype=float64), Array([0.], dtype=float64))
    """
    a, b = (coefficients_of(w, "polydiv") for w in promote_operands(u, v))
    dtype = floating_dtype(a.dtype, b.dtype)
    rest, b = astype(a, dtype), astype(b, dtype)
    n = b.shape[0]
    if not n:
        raise ArgumentError("polydiv: the divisor has no coefficients: got an empty vector; give one")
    if rest.shape[0] < n:
        return zeros(1, dtype), rest
    quotient: list[Array] = []
    while rest.shape[0] >= n:
        quotient.append(rest[0] / b[0])
        rest = concat([rest[1:n] - quotient[-1] * b[1:], rest[n:]])
    return stack(quotient), rest if n > 1 else zeros(1, dtype)


def _widen(x: Array) -> Array:
    """Return whole numbers in the dtype of their sums and products."""
    return x if is_weak(x) else astype(x, sum_dtype(x.dtype))


@register_function
def polyder(p: Nested, m: int = 1) -> Array:
    """Return the m-th derivative of a polynomial; booleans and small integers are multiplied as int64.

    Raises:
        ArgumentError: a negative m.

    >>> polyder(np.array([1.0, 2.0, 3.0]))
    Array([2., 2.], dtype=float64)
    """
    m = integer(m, "polyder", "m")
    if m < 0:
        raise ArgumentError(f"polyder: derivatives are of order 0 or more: got m={m}; use polyint")
    z = _widen(coefficients_of(p, "polyder"))
    for _ in range(m):
        z = z[:-1] * numbers_beside(np.arange(max(z.shape[0] - 1, 0), 0, -1), z)
    return z


@register_function
def polyint(p: Nested, m: int = 1, k: Nested | None = None) -> Array:
    """Return the m-th antiderivative of a polynomial.

    Args:
        p: float[degree + 1].
        m: how often it is integrated.
        k: the constants, that of the first integration first; 0 unless given.

    Raises:
        ArgumentError: a negative m, or not as many constants.

    >>> polyint(np.array([2.0, 2.0]))
    Array([1., 2., 0.], dtype=float64)
    """
    m = integer(m, "polyint", "m")
    if m < 0:
        raise ArgumentError(f"polyint: integrals are of order 0 or more: got m={m}; use polyder")
    z = coefficients_of(p, "polyint")
    if not is_weak(z):
        z = astype(z, floating_dtype(z.dtype))
    constants = numbers_beside(np.zeros(m), z) if k is None else reshape(asarray(k, z.dtype), (-1,))
    if constants.shape[0] != m:
        if constants.shape[0] != 1:
            raise ArgumentError(
                f"polyint: takes a constant for each integration: got {constants.aval} and m={m}; give m of them"
            )
        constants = concat([constants] * m)
    for i in range(m):
        z = concat([z / numbers_beside(np.arange(z.shape[0], 0, -1), z), constants[i : i + 1]])
    return z


@register_function
def vander(x: Nested, N: int | None = None, increasing: bool = False) -> Array:
    """Return the matrix of powers of the elements of a vector, the highest first.

    Args:
        x: float[m]; powers of booleans and small integers are int64.
        N: the number of powers, as many as elements unless given.
        increasing: whether the lowest come first.

    Raises:
        ShapeError: no vector.
        ArgumentError: a negative N.

    >>> vander(np.array([1.0, 2.0]), 3)
    Array([[1., 1., 1.],
           [4., 2., 1.]], dtype=float64)
    """
    y = _widen(as_array(x))
    if y.ndim != 1:
        raise ShapeError(f"vander: takes a vector: got {y.aval}; reshape it")
    count = y.shape[0] if N is None else integer(N, "vander", "N")
    if count < 0:
        raise ArgumentError(f"vander: the number of powers is 0 or more: got N={N}; give another")
    if not count:
        return zeros((y.shape[0], 0), y.dtype)
    powers = [numbers_beside(np.ones(y.shape), y)]
    for _ in range(count - 1):
        powers.append(powers[-1] * y)
    return stack(powers if increasing else powers[::-1], axis=1)


# --- Polynomial fits: coefficients from points or zeros, and zeros from coefficients


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
    z = numbers_beside([1.0], places) if weak else ones(1, floating_dtype(places.dtype))
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
    z = astype(z, floating_dtype(z.dtype))
    try:
        alive = np.flatnonzero(not_equal(z, 0).concrete("roots"))
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
    cut = n * epsilon(left.dtype) if rcond is None else rcond
    solution = lstsq(left / scale, right, cut)
    z = (solution.x.T / scale).T
    if full:
        return z, solution.residuals, solution.rank, solution.singular_values, asarray(cut, left.dtype)
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
    dtype = floating_dtype(*[v.dtype for v in given])
    places, values = given[0], given[1]
    fits = places.ndim == 1 and values.ndim in (1, 2) and values.shape[0] == places.shape[0]
    if not fits or (w is not None and given[2].shape != places.shape):
        got = ", ".join(str(v.aval) for v in given)
        raise ShapeError(f"polyfit: coordinates, values and weights do not fit: got {got}; give as many of each")
    return astype(places, dtype), astype(values, dtype), None if w is None else astype(given[2], dtype)
