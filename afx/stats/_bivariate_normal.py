"""Bivariate normal: the distribution function by Genz's method, with its exact derivatives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from afx.core.array.array import Array
from afx.ops.elementwise.arithmetic import sqrt
from afx.ops.elementwise.exponential import exp
from afx.ops.elementwise.trigonometry import asin, sin
from afx.ops.elementwise.where import clip, maximum, where
from afx.ops.manipulation.shape import astype, expand_dims
from afx.ops.reductions.sums import sum as sum_
from afx.ops.special.errors import ndtr
from afx.stats._distribution import quiet
from afx.transforms.custom.custom_derivatives import custom_jvp

__all__ = ["FAR", "bivariate_cdf", "density"]

_nodes: Any = np.polynomial.legendre.leggauss(20)
NODES, WEIGHTS = (_nodes[0] + 1) / 2, _nodes[1] / 2  # from 0 to 1
STEEP = 0.925  # correlations from which on the integrand by the angle has a peak (Genz 2004, section 2.4)
FAR = 40.0  # numbers beyond which a normal one never lies, in float64
LEAST = -100.0  # exponents below which a term counts for nothing


def _upper(h: Array, k: Array, r: Array) -> Array:
    """Return the probability that two normal numbers of correlation r lie above h and k, to 1e-15."""
    with quiet():
        return where(abs(r) < STEEP, _integrate_by_angle(h, k, where(abs(r) < STEEP, r, 0.0)), _near_line(h, k, r))


def _integrate_by_angle(h: Array, k: Array, r: Array) -> Array:
    """Return the integral of the density from independence to correlation r, by the angle (Drezner & Wesolowsky 1990)."""
    angle = asin(r)
    sines = sin(expand_dims(angle, -1) * NODES)
    products, squares = expand_dims(h * k, -1), expand_dims((h * h + k * k) / 2, -1)
    heights = exp((sines * products - squares) / (1 - sines * sines))
    return sum_(heights * WEIGHTS, axis=-1) * angle / (2 * math.pi) + ndtr(-h) * ndtr(-k)


def _near_line(h: Array, k: Array, r: Array) -> Array:
    """Return the probability for numbers that nearly lie on a line: a series and the rest of it (Genz 2004, equation 12)."""
    k = where(r < 0, -k, k)
    product, gap = h * k, (h - k) ** 2
    rest = (1 - r) * (1 + r)
    is_line = rest <= 0
    rest = where(is_line, 1.0, rest)
    width, distance = sqrt(rest), sqrt(gap)
    c, d = (4 - product) / 8, (12 - product) / 16
    height = -(gap / rest + product) / 2
    series = width * exp(height) * (1 - c * (gap - rest) * (1 - d * gap / 5) / 3 + c * d * rest**2 / 5)
    tail = exp(-product / 2) * math.sqrt(2 * math.pi) * ndtr(-distance / width) * distance
    tail = tail * (1 - c * gap * (1 - d * gap / 5) / 3)
    x = expand_dims(rest, -1) * NODES**2
    wide, cc, dd = (expand_dims(v, -1) for v in (product, c, d))
    exponent = -(expand_dims(gap, -1) / x + wide) / 2
    root = sqrt(1 - x)
    bracket = exp(-wide * (1 - root) / (2 * (1 + root))) / root - (1 + cc * x * (1 + dd * x))
    integral = sum_(where(exponent > LEAST, exp(exponent) * bracket, 0.0) * WEIGHTS, axis=-1) * width
    total = where(height > LEAST, series, 0.0) - where(product > LEAST, tail, 0.0) + integral
    total = where(is_line, 0.0, total) / (-2 * math.pi)
    between = where(k > h, where(h < 0, ndtr(k) - ndtr(h), ndtr(-h) - ndtr(-k)), 0.0)
    return where(r < 0, between - total, total + ndtr(-maximum(h, k)))


def _cdf(h: Array, k: Array, r: Array) -> Array:
    found = _upper(-clip(h, -FAR, FAR), -clip(k, -FAR, FAR), r)
    return astype(clip(found, 0.0, 1.0), h.dtype)


def _rule(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Array, Array]:
    """Return the value, and its derivative: by a bound the density there times that the other number lies below its own."""
    h, k, r = primals
    by_h, by_k, by_r = tangents
    width = sqrt((1 - r) * (1 + r))
    slope = (
        density(h) * ndtr((k - r * h) / width) * by_h
        + density(k) * ndtr((h - r * k) / width) * by_k
        + density(h) * density((k - r * h) / width) / width * by_r
    )
    return bivariate_cdf(h, k, r), slope


def density(x: Array) -> Array:
    """Return the density of a normal number."""
    return exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


bivariate_cdf = custom_jvp(_cdf, _rule)
