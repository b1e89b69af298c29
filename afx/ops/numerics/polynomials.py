"""Polynomials: vectors of coefficients, highest power first, as in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from afx.core.array.array import Array
from afx.core.aval import Aval, aval_of, broadcast_avals, integer
from afx.core.dtypes import promote
from afx.core.registry import register_function
from afx.core.weakness import is_weak, numbers_beside
from afx.errors import ArgumentError, ShapeError
from afx.ops._basic import sum_dtype
from afx.ops.creation.creation import Nested, as_array, asarray, zeros
from afx.ops.creation.promotion import promote_operands
from afx.ops.indexing.index import is_sequence
from afx.ops.manipulation.join import concat, stack
from afx.ops.manipulation.shape import astype, broadcast_to, reshape
from afx.ops.nn.convolve import convolve

__all__ = ["polyadd", "polyder", "polydiv", "polyint", "polymul", "polysub", "polyval", "vander"]


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
        coefficients = astype(coefficients, promote((coefficients.dtype, point.dtype), (False, False)))
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
    dtype = promote((a.dtype, b.dtype), (False, False), floating=True)
    rest, b = astype(a, dtype), astype(b, dtype)
    n = b.shape[0]
    if not n:
        raise ArgumentError("polydiv: the divisor has no coefficients: got an empty vector; give one")
    if rest.shape[0] < n:
        return zeros(1, dtype), rest
    found: list[Array] = []
    while rest.shape[0] >= n:
        found.append(rest[0] / b[0])
        rest = concat([rest[1:n] - found[-1] * b[1:], rest[n:]])
    return stack(found), rest if n > 1 else zeros(1, dtype)


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
        z = astype(z, promote((z.dtype,), (False,), floating=True))
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
def vander(x: Nested, n: int | None = None, increasing: bool = False) -> Array:
    """Return the matrix of powers of the elements of a vector, the highest first.

    Args:
        x: float[m]; powers of booleans and small integers are int64.
        n: the number of powers, as many as elements unless given.
        increasing: whether the lowest come first.

    Raises:
        ShapeError: no vector.
        ArgumentError: a negative n.

    >>> vander(np.array([1.0, 2.0]), 3)
    Array([[1., 1., 1.],
           [4., 2., 1.]], dtype=float64)
    """
    y = _widen(as_array(x))
    if y.ndim != 1:
        raise ShapeError(f"vander: takes a vector: got {y.aval}; reshape it")
    count = y.shape[0] if n is None else integer(n, "vander", "n")
    if count < 0:
        raise ArgumentError(f"vander: the number of powers is 0 or more: got n={n}; give another")
    if not count:
        return zeros((y.shape[0], 0), y.dtype)
    powers = [numbers_beside(np.ones(y.shape), y)]
    for _ in range(count - 1):
        powers.append(powers[-1] * y)
    return stack(powers if increasing else powers[::-1], axis=1)
