"""Filters: Gaussians and their derivatives, means and differences, along one axis and several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from afx.core import Array, ArrayLike, DTypeLike, float64, integer, is_traced, normalize_axis
from afx.errors import ArgumentError
from afx.ndimage.correlation import (
    Axes,
    Mode,
    Modes,
    choose_dtypes,
    correlate_axes,
    correlate_settled,
    each,
    find_axes,
    number,
    settle,
)
from afx.ops import astype, exp, flip, sqrt, sum as sum_
from afx.ops.creation.creation import Nested, as_array, asarray

__all__ = [
    "gaussian_filter",
    "gaussian_filter1d",
    "gaussian_gradient_magnitude",
    "gaussian_laplace",
    "laplace",
    "prewitt",
    "sobel",
    "uniform_filter",
    "uniform_filter1d",
]


def gaussian_filter1d(
    input: Nested,
    sigma: ArrayLike,
    axis: int = -1,
    order: int = 0,
    output: DTypeLike | None = None,
    mode: Mode = "reflect",
    cval: ArrayLike = 0.0,
    truncate: float = 4.0,
    *,
    radius: int | None = None,
) -> Array:
    """Return the input blurred along an axis; arguments are those of `gaussian_filter`.

    >>> gaussian_filter1d(np.array([0.0, 1.0, 0.0]), 0.4, order=1).round(3)
    Array([ 0.252,  0.   , -0.252], dtype=float64)
    """
    who = "gaussian_filter1d"
    weights = _gaussian_weights(sigma, order, truncate, radius, who)
    place = normalize_axis(axis, as_array(input).ndim, who)
    return correlate_settled(input, weights, (place,), output, mode, cval, 0, who)


def _gaussian_weights(sigma: ArrayLike, order: Any, truncate: float, radius: Any, who: str) -> Array:
    """Return the weights of a Gaussian's derivative: a polynomial times the density on whole numbers, whose sum is 1."""
    order = integer(order, who, "order")
    if radius is None and is_traced(sigma):
        raise ArgumentError(f"{who}: how far a traced sigma reaches is not known: got sigma={sigma!r}; give radius=")
    reach = int(truncate * number(sigma, who, "sigma") + 0.5) if radius is None else integer(radius, who, "radius")
    if order < 0 or reach < 0:
        raise ArgumentError(f"{who}: order and radius are 0 or more: got {order} and {reach}; give others")
    x, variance = np.arange(-reach, reach + 1.0), asarray(sigma, float64) ** 2
    density = exp(-0.5 / variance * x**2)
    density = density / sum_(density)
    factors: list[Any] = [1.0]
    for _ in range(order):  # the derivative of q(x) p(x), where p'(x) = -x / sigma² p(x)
        slopes = [*[k * q for k, q in enumerate(factors)][1:], 0.0, 0.0]
        shifted = [0.0, *[-q / variance for q in factors]]
        factors = [a + b for a, b in zip(slopes, shifted, strict=True)]
    polynomial = sum([q * x**k for k, q in enumerate(factors)])
    return flip(density * polynomial)


def gaussian_filter(
    input: Nested,
    sigma: ArrayLike | Sequence[ArrayLike],
    order: int | Sequence[int] = 0,
    output: DTypeLike | None = None,
    mode: Modes = "reflect",
    cval: ArrayLike = 0.0,
    truncate: float = 4.0,
    *,
    radius: int | Sequence[int] | None = None,
    axes: Axes = None,
) -> Array:
    """Return the input blurred by a Gaussian along several axes, or its derivatives.

    Args:
        input: any shape.
        sigma: the standard deviation in elements, one for all axes or one each; 0 leaves an axis alone.
        order: of the derivative along each axis.
        output: the dtype of the result, that of the input by default.
        mode: how the input continues, along all axes or each.
        cval: what it continues with where ``mode`` is ``constant``.
        truncate: so many standard deviations away the Gaussian ends.
        radius: so many elements away it ends; to be given for a sigma that is traced.
        axes: the axes, all by default.

    Raises:
        ArgumentError: no such mode, a negative order, or a traced sigma without a radius.

    >>> gaussian_filter(np.eye(3), (0.5, 0.0)).round(3)
    Array([[0.893, 0.107, 0.   ],
           [0.107, 0.787, 0.107],
           [0.   , 0.107, 0.893]], dtype=float64)
    """
    who = "gaussian_filter"
    given = as_array(input)
    places = find_axes(axes, given.ndim, who)
    columns = [
        each(v, len(places), who, name)
        for v, name in ((sigma, "sigma"), (order, "order"), (mode, "mode"), (radius, "radius"))
    ]
    z = _start(given, output, who)
    for axis, s, k, m, r in zip(places, *columns, strict=True):
        if is_traced(s) or number(s, who, "sigma") > 1e-15:  # as SciPy
            z = correlate_settled(z, _gaussian_weights(s, k, truncate, r, who), (axis,), None, m, cval, 0, who)
    return z


def _start(x: Array, output: Any, who: str) -> Array:
    """Return the input in the dtype of the result, which SciPy's filters keep from axis to axis."""
    return x if output is None else astype(x, choose_dtypes(x, output, who)[1])


def uniform_filter1d(
    input: Nested,
    size: int,
    axis: int = -1,
    output: DTypeLike | None = None,
    mode: Mode = "reflect",
    cval: ArrayLike = 0.0,
    origin: int = 0,
) -> Array:
    """Return the mean of ``size`` elements around each one; other arguments and errors are those of `correlate1d`.

    >>> uniform_filter1d(np.array([1.0, 2.0, 6.0]), 3).round(3)
    Array([1.333, 3.   , 4.667], dtype=float64)
    """
    who = "uniform_filter1d"
    given, count = as_array(input), integer(size, who, "size")
    working, result = choose_dtypes(given, output, who)
    place, ones = normalize_axis(axis, given.ndim, who), np.ones(max(count, 0), working)
    z = correlate_axes(astype(given, working), as_array(ones), (place,), mode, cval, [origin], who)
    return settle(z / count, result)


def uniform_filter(
    input: Nested,
    size: int | Sequence[int] = 3,
    output: DTypeLike | None = None,
    mode: Modes = "reflect",
    cval: ArrayLike = 0.0,
    origin: int | Sequence[int] = 0,
    *,
    axes: Axes = None,
) -> Array:
    """Return the mean of a box of elements around each one; sizes, modes and origins are one for all axes or one each.

    >>> uniform_filter(np.diag([9.0, 0.0, 0.0]), mode="constant")
    Array([[1., 1., 0.],
           [1., 1., 0.],
           [0., 0., 0.]], dtype=float64)
    """
    who = "uniform_filter"
    z = as_array(input)
    places = find_axes(axes, z.ndim, who)
    columns = [each(v, len(places), who, name) for v, name in ((size, "size"), (mode, "mode"), (origin, "origin"))]
    z = _start(z, output, who)
    for axis, n, m, o in zip(places, *columns, strict=True):
        z = uniform_filter1d(z, n, axis, None, m, cval, o) if integer(n, who, "size") > 1 else z
    return z


def sobel(
    input: Nested, axis: int = -1, output: DTypeLike | None = None, mode: Modes = "reflect", cval: ArrayLike = 0.0
) -> Array:
    """Return the difference of neighbours along an axis, summed with weights 1, 2, 1 along the others.

    >>> sobel(np.array([[1.0, 2.0, 4.0]]))
    Array([[ 4., 12.,  8.]], dtype=float64)
    """
    return _differ(input, axis, output, mode, cval, 2.0, "sobel")


def prewitt(
    input: Nested, axis: int = -1, output: DTypeLike | None = None, mode: Modes = "reflect", cval: ArrayLike = 0.0
) -> Array:
    """Return the difference of neighbours along an axis, summed with weights 1, 1, 1 along the others.

    >>> prewitt(np.array([[1.0, 2.0, 4.0]]))
    Array([[3., 9., 6.]], dtype=float64)
    """
    return _differ(input, axis, output, mode, cval, 1.0, "prewitt")


def _differ(x: Nested, axis: int, output: Any, mode: Any, cval: ArrayLike, middle: float, who: str) -> Array:
    given = as_array(x)
    place, modes = normalize_axis(axis, given.ndim, who), each(mode, given.ndim, who, "mode")
    z = correlate_settled(given, [-1.0, 0.0, 1.0], (place,), output, modes[place], cval, 0, who)
    for other in [a for a in range(given.ndim) if a != place]:
        z = correlate_settled(z, [1.0, middle, 1.0], (other,), None, modes[other], cval, 0, who)
    return z


def _sum_over_axes(
    x: Nested, axes: Axes, output: Any, mode: Any, who: str, derivative: Callable[[Array, int, str], Array]
) -> Array:
    """Return the sum of a function of each axis."""
    given = as_array(x)
    places = find_axes(axes, given.ndim, who)
    z = _start(given, output, who)
    parts = [derivative(z, a, m) for a, m in zip(places, each(mode, len(places), who, "mode"), strict=True)]
    return sum(parts[1:], parts[0]) if parts else z


def laplace(
    input: Nested, output: DTypeLike | None = None, mode: Modes = "reflect", cval: ArrayLike = 0.0, *, axes: Axes = None
) -> Array:
    """Return the sum over axes, all by default, of second differences.

    >>> laplace(np.array([0.0, 1.0, 4.0, 9.0]))
    Array([ 1.,  2.,  2., -5.], dtype=float64)
    """
    second = [1.0, -2.0, 1.0]
    return _sum_over_axes(
        input,
        axes,
        output,
        mode,
        "laplace",
        lambda z, a, m: correlate_settled(z, second, (a,), None, m, cval, 0, "laplace"),
    )


def gaussian_laplace(
    input: Nested,
    sigma: ArrayLike | Sequence[ArrayLike],
    output: DTypeLike | None = None,
    mode: Modes = "reflect",
    cval: ArrayLike = 0.0,
    *,
    axes: Axes = None,
    truncate: float = 4.0,
    radius: int | Sequence[int] | None = None,
) -> Array:
    """Return the sum over axes of second derivatives of a Gaussian; arguments are those of `gaussian_filter`.

    >>> gaussian_laplace(np.array([0.0, 1.0, 0.0]), 0.5).round(3)
    Array([ 1.293, -3.146,  1.293], dtype=float64)
    """
    second = _derivative_of_gaussian(2, as_array(input).ndim, sigma, cval, axes, truncate, radius, "gaussian_laplace")
    return _sum_over_axes(input, axes, output, mode, "gaussian_laplace", second)


def gaussian_gradient_magnitude(
    input: Nested,
    sigma: ArrayLike | Sequence[ArrayLike],
    output: DTypeLike | None = None,
    mode: Modes = "reflect",
    cval: ArrayLike = 0.0,
    *,
    axes: Axes = None,
    truncate: float = 4.0,
    radius: int | Sequence[int] | None = None,
) -> Array:
    """Return the length of the gradient by derivatives of a Gaussian; arguments are those of `gaussian_filter`.

    >>> gaussian_gradient_magnitude(np.array([0.0, 1.0, 0.0]), 0.4).round(3)
    Array([0.252, 0.   , 0.252], dtype=float64)
    """
    who = "gaussian_gradient_magnitude"
    first = _derivative_of_gaussian(1, as_array(input).ndim, sigma, cval, axes, truncate, radius, who)

    def square(z: Array, axis: int, mode: str) -> Array:
        slope = first(z, axis, mode)
        return slope * slope

    z = _sum_over_axes(input, axes, output, mode, who, square)
    return astype(sqrt(z), z.dtype)


def _derivative_of_gaussian(
    order: int, ndim: int, sigma: Any, cval: ArrayLike, axes: Axes, truncate: float, radius: Any, who: str
) -> Callable[[Array, int, str], Array]:
    """Return the function of an array that differentiates along one axis and blurs along the others."""
    places = find_axes(axes, ndim, who)
    sigmas, reaches = each(sigma, len(places), who, "sigma"), each(radius, len(places), who, "radius")

    def derivative(z: Array, axis: int, mode: Any) -> Array:
        orders = [order if a == axis else 0 for a in places]
        return gaussian_filter(z, sigmas, orders, None, mode, cval, truncate, radius=reaches, axes=places)

    return derivative
