"""Divided differences: of any order, accurate for equal, near and far points, on bare float64 values.

``f[x0, …, xk]`` is the recursion's quotient where the points are far apart. Where they are near it is the Taylor series
around their middle, whose m-th term holds the complete homogeneous symmetric polynomial of the distances; functions that
know only their first derivatives take the integral over a simplex instead (Hermite and Genocchi).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import attrs
import numpy as np

__all__ = ["Exponential", "Logarithm", "Power", "Sampled", "Scalar", "divided_differences"]

TERMS = 22  # of the series: near points leave less than 1e-16
NEAR = 0.25  # how far apart near points are, at most, by the size of the smallest
TRUSTED = 1e-12  # two rules of integration that agree so well are right
_where: Any = np.where  # its result type is not known to checkers


class Scalar(Protocol):
    """A function of numbers, hashable, that computes with bare arrays."""

    def value(self, x: Any) -> Any:
        """Return the function."""
        ...

    def near(self, x: Any) -> tuple[Any, Any]:
        """Return ``f[x0, …, xk]`` of points along the last axis, sorted, and where it is right: where they are near."""
        ...


def divided_differences(fn: Scalar, w: Any, order: int) -> Any:
    """Return ``f[w_i, w_j, …]`` of eigenvalues float[..., n] as float[..., n, n, …], with order + 1 axes."""
    grids: Any = np.indices((w.shape[-1],) * (order + 1))
    with np.errstate(all="ignore"):
        return _differences(fn, np.sort(np.stack([w[..., g] for g in grids], axis=-1), axis=-1))


def _differences(fn: Scalar, x: Any) -> Any:
    if x.shape[-1] == 1:
        return fn.value(x[..., 0])
    found, near = fn.near(x)
    if np.all(near):
        return found
    far = (_differences(fn, x[..., 1:]) - _differences(fn, x[..., :-1])) / (x[..., -1] - x[..., 0])
    return _where(near, found, far)


def _series(x: Any, middle: Any, unit: Any, coefficient: Callable[[int], Any]) -> Any:
    """Return the Taylor series: ``Σ c_{k+m} h_m``, of distances and coefficients by a unit of length."""
    order = x.shape[-1] - 1
    distances = (x - middle[..., None]) / unit[..., None]
    powers: list[Any] = [np.ones_like(middle)] + [np.zeros_like(middle)] * TERMS  # h_m of the points so far
    for i in range(order + 1):
        for m in range(1, TERMS + 1):
            powers[m] = powers[m] + distances[..., i] * powers[m - 1]
    total: Any = sum(coefficient(order + m) * powers[m] for m in range(TERMS, -1, -1))
    return total / unit**order


def _are_near(x: Any) -> Any:
    """Tell where points are near by their distance to 0."""
    low, high = x[..., 0], x[..., -1]
    return (low * high > 0) & (high - low <= NEAR * np.minimum(np.abs(low), np.abs(high)))


def _middle(x: Any) -> Any:
    return x[..., 0] + (x[..., -1] - x[..., 0]) / 2


@attrs.frozen
class Power:
    """A real power."""

    p: float

    def value(self, x: Any) -> Any:
        """Return the power."""
        return np.sqrt(x) if self.p == 0.5 else x**self.p

    def near(self, x: Any) -> tuple[Any, Any]:
        """Return the series of binomial coefficients; of equal zeros, the derivative."""
        middle = _middle(x)
        choose: list[float] = [1.0]
        for j in range(x.shape[-1] + TERMS):
            choose.append(choose[-1] * (self.p - j) / (j + 1))
        order = int(x.shape[-1]) - 1
        found = _series(x, middle, middle, lambda j: choose[j]) * self.value(middle)
        zero = x[..., 0] == x[..., -1]
        slope = choose[order] * (0 * middle) ** (self.p - order) if choose[order] else 0.0
        return _where(zero & (middle == 0), slope, found), _are_near(x) | zero


@attrs.frozen
class Logarithm:
    """The natural logarithm."""

    def value(self, x: Any) -> Any:
        """Return the logarithm."""
        return np.log(x)

    def near(self, x: Any) -> tuple[Any, Any]:
        """Return the series of the logarithm."""
        middle = _middle(x)
        return _series(x, middle, middle, lambda j: (-1) ** (j - 1) / j), _are_near(x)


@attrs.frozen
class Exponential:
    """The exponential function."""

    def value(self, x: Any) -> Any:
        """Return the exponential."""
        return np.exp(x)

    def near(self, x: Any) -> tuple[Any, Any]:
        """Return the exponential series of points less than 1 apart."""
        middle = _middle(x)
        found = _series(x, middle, np.ones_like(middle), lambda j: 1 / math.factorial(j)) * np.exp(middle)
        return found, x[..., -1] - x[..., 0] <= 1


@attrs.frozen
class Sampled:
    """A function given by its derivatives.

    Attributes:
        derivative: ``(order, x)`` to the derivative of an order at bare values.
    """

    derivative: Callable[[int, Any], Any]

    def value(self, x: Any) -> Any:
        """Return the function."""
        return self.derivative(0, x)

    def near(self, x: Any) -> tuple[Any, Any]:
        """Return the integral over the simplex, where two rules agree on it."""
        fine, coarse = self._integral(x, 12), self._integral(x, 8)
        same = np.abs(fine - coarse) <= TRUSTED * np.abs(fine)
        close = x[..., -1] - x[..., 0] <= 1e-3 * np.maximum(np.abs(x[..., 0]), np.abs(x[..., -1]))
        return fine, same | close

    def _integral(self, x: Any, count: int) -> Any:
        order = x.shape[-1] - 1
        nodes, weights = np.polynomial.legendre.leggauss(count)
        t = np.meshgrid(*[(nodes + 1) / 2] * order, indexing="ij")
        weight: Any = math.prod(np.meshgrid(*[weights / 2] * order, indexing="ij"))
        steps, point = np.diff(x, axis=-1), x[..., 0].reshape(*x.shape[:-1], *[1] * order)
        share: Any = 1.0
        for i in range(order):
            share = share * t[i]
            weight = weight * t[i] ** (order - 1 - i)
            point = point + share * steps[..., i].reshape(*x.shape[:-1], *[1] * order)
        return np.sum(self.derivative(order, point) * weight, axis=tuple(range(-order, 0)))
