"""Sums of two doubles: what values are between steps of portable functions, which round them once at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from afx.compiler.native_backend.functions.lanes import Lanes

SPLITTER: Final = 134217729.0  # 2^27 + 1: both halves of a double have at most 26 bits (Veltkamp)


class Pair(NamedTuple):
    """A sum of two doubles, of which the second one is below half a unit in the last place of the first.

    Where the writer computes floats, one double is enough, and the second one is 0.
    """

    high: Lanes
    low: Lanes

    def __neg__(self) -> Pair:
        return Pair(-self.high, -self.low)

    def plus(self, other: Pair) -> Pair:
        """Return the sum."""
        if self.high.w.is_single:
            return pair(self.high, self.high + other.high)
        high = add(self.high, other.high)
        return quick(high.high, high.low + self.low + other.low)

    def times(self, other: Pair) -> Pair:
        """Return the product."""
        if self.high.w.is_single:
            return pair(self.high, self.high * other.high)
        high = multiply(self.high, other.high)
        return quick(high.high, high.low + (self.high * other.low + self.low * other.high))

    def over(self, other: Pair) -> Pair:
        """Return the quotient; the divisor is not 0."""
        if self.high.w.is_single:
            return pair(self.high, self.high / other.high)
        inverse = other.high.constant(1.0) / other.high  # of which one is enough: what it lacks is in the rest
        quotient = self.high * inverse
        product = multiply(quotient, other.high)
        rest = ((self.high - product.high) - product.low + self.low) - quotient * other.low
        return quick(quotient, rest * inverse)

    def scaled(self, factor: float | Lanes) -> Pair:
        """Return the product with a power of two."""
        if self.high.w.is_single:
            return pair(self.high, self.high * factor)
        return Pair(self.high * factor, self.low * factor)

    def root(self) -> Pair:
        """Return the square root of what is not negative."""
        high = self.high.sqrt()
        if high.w.is_single:
            return pair(high, high)
        square = multiply(high, high)
        is_zero = high.compare("oeq", 0.0)
        rest = (self.high - square.high) - square.low + self.low
        return quick(high, is_zero.choose(high.constant(0.0), rest / (is_zero.choose(high.constant(1.0), high) * 2.0)))

    def rounded(self) -> Lanes:
        """Return the nearest double."""
        return self.high if self.high.w.is_single else self.high + self.low


def quick(x: Lanes, y: Lanes) -> Pair:
    """Return a sum whose second term is not larger (Dekker's Fast2Sum)."""
    total = x + y
    return pair(x, total) if x.w.is_single else Pair(total, y - (total - x))


def add(x: Lanes, y: Lanes) -> Pair:
    """Return a sum of any two (Knuth's TwoSum)."""
    total = x + y
    there = total - x
    return Pair(total, (x - (total - there)) + (y - there))


def multiply(x: Lanes, y: Lanes) -> Pair:
    """Return an exact product of factors below 2^990: what is rounded off by a fused operation, else by Veltkamp's halves.

    Both give the same bits, as what is rounded off is a number (Dekker 1971).
    """
    product = x * y
    if x.w.is_single:
        return pair(x, product)
    if x.w.has_fma:
        return Pair(product, x.fused(y, -product))
    (a, b), (c, d) = _halves(x), _halves(y)
    return Pair(product, ((a * c - product) + a * d + b * c) + b * d)


def _halves(x: Lanes) -> tuple[Lanes, Lanes]:
    far = x * SPLITTER
    high = far - (far - x)
    return high, x - high


def pair(x: Lanes, value: tuple[float, float] | Lanes) -> Pair:
    """Return a constant, or one double, as a pair beside a value."""
    high, low = value if isinstance(value, tuple) else (value, 0.0)
    return Pair(high if isinstance(high, Lanes) else x.constant(high), x.constant(0.0 if x.w.is_single else low))


def select(test: Lanes, yes: Pair, no: Pair) -> Pair:
    """Select by a condition."""
    return Pair(test.choose(yes.high, no.high), test.choose(yes.low, no.low))


def plain(x: Lanes, coefficients: Sequence[float]) -> Lanes:
    """Return a polynomial by Horner's rule, each operation rounded."""
    total = x.constant(coefficients[-1])
    for c in coefficients[-2::-1]:
        total = total * x + c
    return total
