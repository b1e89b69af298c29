"""Multivariate normal: the distribution function in three dimensions by Plackett's formula, in more by a lattice."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from afx.core.array.array import Array
from afx.ops.elementwise.arithmetic import sqrt
from afx.ops.elementwise.exponential import exp
from afx.ops.elementwise.trigonometry import asin, sin
from afx.ops.elementwise.where import clip, maximum, where
from afx.ops.indexing.getitem import take_along_axis
from afx.ops.linalg.cholesky import cholesky
from afx.ops.manipulation.shape import astype, expand_dims
from afx.ops.reductions.sums import mean
from afx.ops.reductions.sums import sum as sum_
from afx.ops.sorting.sort import argsort
from afx.ops.special.errors import ndtr, ndtri
from afx.stats._bivariate_normal import FAR, bivariate_cdf, density
from afx.stats._distribution import quiet
from afx.transforms.custom.custom_derivatives import custom_jvp

__all__ = ["lattice_cdf", "trivariate_cdf"]


# -- three dimensions --
def _graded_rule(edges: tuple[float, ...], order: int) -> tuple[Any, Any]:
    """Return the nodes and weights of Gauss and Legendre's rule on each of several intervals."""
    found: Any = np.polynomial.legendre.leggauss(order)
    starts, widths = np.array(edges[:-1])[:, None], np.diff(edges)[:, None]
    return (starts + widths * (found[0] + 1) / 2).reshape(-1), (widths * found[1] / 2).reshape(-1)


# finer towards 1, where the integrand has its peak if the correlations are nearly singular
NODES, WEIGHTS = _graded_rule((0.0, *[1 - 2.0**-k for k in range(1, 14, 2)], 1.0), 20)
LEAST_VARIANCE = 1e-32  # of a number when the other two are known; rounding may leave less, or nothing


def _cdf(a: Array, b: Array, c: Array, ab: Array, ac: Array, bc: Array) -> Array:
    """Return the probability that numbers lie below a, b and c, from their correlations.

    The derivative by the correlations with the first number, integrated from independence (Plackett 1954; Genz 2004,
    section 3.2). The first number is the one behind the two whose correlation is largest.
    """
    a, b, c = (clip(v, -FAR, FAR) for v in (a, b, c))
    last, middle = (abs(ab) > abs(bc)) & (abs(ab) >= abs(ac)), (abs(ac) > abs(bc)) & (abs(ac) > abs(ab))
    a, c, ab, bc = where(last, c, a), where(last, a, c), where(last, bc, ab), where(last, ab, bc)
    a, b, ac, bc = where(middle, b, a), where(middle, a, b), where(middle, bc, ac), where(middle, ac, bc)
    with quiet():
        total = ndtr(a) * bivariate_cdf(b, c, bc) + _integrate_from_independence(a, b, c, ab, ac, bc)
        total = total + _integrate_from_independence(a, c, b, ac, ab, bc)
    return astype(clip(total, 0.0, 1.0), a.dtype)


def _integrate_from_independence(a: Array, b: Array, c: Array, ab: Array, ac: Array, bc: Array) -> Array:
    """Return the share of the correlation of a and b, when both correlations of a grow from 0 together."""
    a, b, c, ab, ac, bc = (expand_dims(v, -1) for v in (a, b, c, ab, ac, bc))
    angle = asin(ab)
    r = sin(angle * NODES)
    s = ac * where(ab == 0, NODES, r / where(ab == 0, 1.0, ab))
    rest = (1 - r) * (1 + r)
    height = exp((r * a * b - (a * a + b * b) / 2) / rest)
    centre = ((s - r * bc) * a + (bc - r * s) * b) / rest
    variance = (1 - r * r - s * s - bc * bc + 2 * r * s * bc) / rest
    below = ndtr((c - centre) / sqrt(maximum(variance, LEAST_VARIANCE)))
    return sum_(height * below * WEIGHTS, axis=-1) * angle[..., 0] / (2 * math.pi)


def _rule(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Array, Array]:
    """Return the value and its derivative: densities of one number or two, times what the others do then."""
    a, b, c, ab, ac, bc = primals
    slope = (
        _slope_by_bound(a, b, c, ab, ac, bc) * tangents[0]
        + _slope_by_bound(b, a, c, ab, bc, ac) * tangents[1]
        + _slope_by_bound(c, a, b, ac, bc, ab) * tangents[2]
        + _slope_by_correlation(a, b, c, ab, ac, bc) * tangents[3]
        + _slope_by_correlation(a, c, b, ac, ab, bc) * tangents[4]
        + _slope_by_correlation(b, c, a, bc, ab, ac) * tangents[5]
    )
    return trivariate_cdf(a, b, c, ab, ac, bc), slope


def _slope_by_bound(a: Array, b: Array, c: Array, ab: Array, ac: Array, bc: Array) -> Array:
    """Return the derivative by a: the density there, times the probability of the others when it is known."""
    wide, long = sqrt((1 - ab) * (1 + ab)), sqrt((1 - ac) * (1 + ac))
    rest = clip((bc - ab * ac) / (wide * long), -1.0, 1.0)
    return density(a) * bivariate_cdf((b - ab * a) / wide, (c - ac * a) / long, rest)


def _slope_by_correlation(a: Array, b: Array, c: Array, ab: Array, ac: Array, bc: Array) -> Array:
    """Return the derivative by the correlation of a and b: their density, times the probability of c when both are known."""
    rest = (1 - ab) * (1 + ab)
    variance = (1 - ab * ab - ac * ac - bc * bc + 2 * ab * ac * bc) / rest
    centre = ((ac - ab * bc) * a + (bc - ab * ac) * b) / rest
    height = density(a) * density((b - ab * a) / sqrt(rest)) / sqrt(rest)
    return height * ndtr((c - centre) / sqrt(maximum(variance, LEAST_VARIANCE)))


trivariate_cdf = custom_jvp(_cdf, _rule)


# -- more dimensions --
POINTS = 1 << 14  # of the lattice
LEAST_PROBABILITY = 1e-300  # whose quantile is finite


def lattice_cdf(z: Array, r: Array) -> Array:
    """Return the probability that no number lies above its bound, float[..., n], with correlations float[..., n, n].

    One number after the other is drawn below its bound; the mean of the product of their probabilities is the result
    (Genz 1992). Points are Richtmyer's sequence of roots of primes, folded, so that the mean of N is off by about 1 / N
    where the integrand is smooth. The least likely bounds come first, and the points are always the same.
    """
    z = clip(z, -FAR, FAR)
    order = argsort(z, axis=-1)
    z = take_along_axis(z, order, axis=-1)
    r = take_along_axis(take_along_axis(r, expand_dims(order, -1), axis=-2), expand_dims(order, -2), axis=-1)
    factor = cholesky(r)
    n = z.shape[-1]
    points = _points(n - 1)
    with quiet():
        share = expand_dims(ndtr(z[..., 0]), -1)
        total, drawn = share, list[Array]()
        for i in range(1, n):
            drawn.append(ndtri(maximum(share * points[i - 1], LEAST_PROBABILITY)))
            row = [expand_dims(factor[..., i, j], -1) for j in range(i + 1)]
            centre = row[0] * drawn[0]
            for weight, y in zip(row[1:-1], drawn[1:], strict=True):
                centre = centre + weight * y
            share = ndtr((expand_dims(z[..., i], -1) - centre) / row[-1])
            total = total * share
        return astype(mean(total, axis=-1), z.dtype)


def _points(n: int) -> Any:
    """Return float[n, POINTS] between 0 and 1: multiples of roots of primes, folded so that their ends meet."""
    roots = np.sqrt(np.array(_primes(n), float))
    u = np.outer(roots, np.arange(POINTS) + 0.5) % 1.0
    return 1 - np.abs(2 * u - 1)


def _primes(n: int) -> list[int]:
    found: list[int] = []
    candidate = 2
    while len(found) < n:
        if all(candidate % p for p in found):
            found.append(candidate)
        candidate += 1
    return found
