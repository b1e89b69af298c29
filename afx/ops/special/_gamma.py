"""Gamma quantiles: derivatives of quantiles by the shape, and logarithms of factorials, without SciPy.

Write ``y`` for the logarithm of a gamma number of shape a and ``z = exp(y)``. With t the distance from y,

    J_k(a, y) = ∫ tᵏ exp(a t - z (eᵗ - 1)) dt

over t < 0, or less that over t > 0, whichever decays from the start; its derivative by a is ``J_{k+1}``. At a fixed
probability y moves with a by

    dy/da = (ψ(a) - y) J₀ - J₁        (implicit differentiation: Figurnov, Mohamed & Mnih 2018),

which is a ratio of integrals: it stays finite where the probability and the density underflow.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from afx.core.dtypes import float64
from afx.ops.special._quadrature import rule

__all__ = ["flow", "flow_by_logarithm", "log_factorial"]

SERIES = 30.0  # for shapes up to this the lower integral is a series
LEAST = 2.0  # up to this z the lower one is taken, whatever the shape
DECAY = 45.0  # the integrand falls to exp of minus this within the interval
BLOCK = 2048  # elements whose integrands stay in the cache
LARGE = 16.0  # from here on asymptotic series have every digit
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
HUGE = 1e290  # bounds what overflows at the least shapes, so that no infinities cancel


def log_factorial(k: Any) -> Any:
    """Return log k! of whole float64 numbers from 0 on: from a table, and by Stirling's series."""
    x = np.maximum(k, LARGE) + 1
    large = (x - 0.5) * np.log(x) - x + 0.5 * math.log(2 * math.pi)
    for i, b in enumerate(BERNOULLI, 1):
        large += b / (2 * i * (2 * i - 1)) / x ** (2 * i - 1)
    table = np.array([math.lgamma(i + 1) for i in range(int(LARGE))])
    return np.where(k < LARGE, table[np.minimum(k, LARGE - 1).astype(np.intp)], large)


def psi_series(order: int, a: Any) -> list[Any]:
    """Return the coefficients of ψ's Taylor series around positive numbers, ``ψ⁽ʲ⁾(a) / j!`` up to an order."""
    x = np.array(a, float64)
    shifts = [np.zeros_like(x) for _ in range(order + 1)]
    for _ in range(int(LARGE)):  # ψ(x) = ψ(x + 1) - 1/x
        small = x < LARGE
        for j, shift in enumerate(shifts):
            shift -= np.where(small, (-1) ** j * np.minimum(x ** -(j + 1.0), HUGE), 0.0)
        x += small
    return [_psi_far(j, x) + shift for j, shift in enumerate(shifts)]


def _psi_far(j: int, x: Any) -> Any:
    total = np.log(x) - 0.5 / x if j == 0 else 1 / (j * x**j) + 0.5 / x ** (j + 1)
    for i, b in enumerate(BERNOULLI, 1):
        term = b / (2 * i) * math.comb(2 * i + j - 1, j) / x ** (2 * i + j)
        total = total - term if j == 0 else total + term
    return total if j == 0 else (-1) ** (j + 1) * total


def flow(order: int, a: Any, y: Any) -> Any:
    """Return the derivative of an order of dy/da by a, where y stays: of flat float64 vectors.

    nan where a is not above 0 or exp(y) is infinite.
    """
    with np.errstate(all="ignore"):
        z = np.exp(y)
        out = np.full(a.shape, np.nan)
        valid = (a > 0) & (z < np.inf)
        short = (z <= LEAST) | ((z <= a) & (a <= SERIES))
        for chosen, compute in ((valid & short, _series), (valid & ~short, _quadrature)):
            places = np.flatnonzero(chosen)
            for start in range(0, len(places), BLOCK):
                part = places[start : start + BLOCK]
                out[part] = compute(order, a[part], y[part], z[part])
    return out


def flow_by_logarithm(order: int, a: Any, y: Any) -> Any:
    """Return the derivative of `flow` of an order by y: that of ``ψ(a) - y - (a - z) dy/da`` by a."""
    with np.errstate(all="ignore"):
        slope = math.factorial(order) * psi_series(order, a)[order] - (a - np.exp(y)) * flow(order, a, y)
        return slope - order * flow(order - 1, a, y) if order else slope - y


def _series(order: int, a: Any, y: Any, z: Any) -> Any:
    """Return the flow as ``Σ (ψ(a + m + 1) - y) zᵐ / (a (a + 1) … (a + m))``, with Taylor series in a carried along."""
    psi = psi_series(order, a + 1)
    psi[0] -= y
    terms = [1 / a]
    for _ in range(order):
        terms.append(np.maximum(np.minimum(-terms[-1] / a, HUGE), -HUGE))
    total = _product(psi, terms)
    for m in range(1, _length(a, z)):
        previous: Any = 0.0
        for j in range(order + 1):
            psi[j] = psi[j] + (-1) ** j / (a + m) ** (j + 1)
            terms[j] = previous = (z * terms[j] - previous) / (a + m)
        total += _product(psi, terms)
    return math.factorial(order) * total


def _product(xs: list[Any], ys: list[Any]) -> Any:
    """Return the last coefficient of the product of two Taylor series."""
    return sum(x * y for x, y in zip(xs[1:], ys[-2::-1], strict=True)) + xs[0] * ys[-1]


def _length(a: Any, z: Any) -> int:
    """Return how many terms of the series there are until they fall below the rounding of the first."""
    worst = int(np.argmax(z - a)), int(np.argmax(z))
    return max(_length_of(float(a[k]), float(z[k])) for k in worst) + 8


def _length_of(a: float, z: float) -> int:
    m, term = 0, 1.0
    while term > 1e-18:
        m += 1
        term *= z / (a + m)
    return m


def _quadrature(order: int, a: Any, y: Any, z: Any) -> Any:
    """Return the flow from the integrals, by Leibniz's rule."""
    moments = _moments(order + 1, a, z)
    psi = psi_series(order, a)
    psi[0] -= y
    terms = [math.comb(order, j) * math.factorial(j) * psi[j] * moments[order - j] for j in range(order + 1)]
    return sum(terms) - moments[order + 1]


def _moments(order: int, a: Any, z: Any) -> list[Any]:
    """Return J_k up to an order, by Gauss's rule on the interval where the integrand is not negligible."""
    nodes, weights = rule()
    sign = np.where(z <= a, -1.0, 1.0)
    end = _end(a, z, sign)
    t = (sign * end)[:, None] * nodes
    values = np.expm1(t)
    values *= -z[:, None]
    values += a[:, None] * t
    np.exp(values, out=values)
    return [-sign * end * (sign * end) ** k * (values @ (weights * nodes**k)) for k in range(order + 1)]


def _end(a: Any, z: Any, sign: Any) -> Any:
    """Return the distance at which the integrand's exponent has fallen by `DECAY`: Newton's method from beyond it."""
    with np.errstate(divide="ignore"):
        t = np.minimum(DECAY / np.abs(z - a), np.sqrt(3 * DECAY / z))
    t = cast(
        Any, np.where((sign < 0) & (t > 1), (DECAY + z) / a, t)
    )  # the square root is a bound for short distances alone
    for _ in range(12):
        s = sign * t
        t = t - (z * np.expm1(s) - a * s - DECAY) / (sign * (z * np.exp(s) - a))
    return t
