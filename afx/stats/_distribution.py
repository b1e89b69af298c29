"""Distributions at given parameters: the record of a standard form, and what location, scale and support make of it.

A distribution describes its standard form (location 0, scale 1) inside of the support; location, scale, values outside of
the support and parameters that are not allowed are seen to here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

import attrs
import numpy as np

from afx.core.array.array import Array, ArrayLike, wrap
from afx.core.aval import aval_of
from afx.core.dtypes import DType, promote
from afx.errors import DtypeError
from afx.ops.creation.creation import asarray
from afx.ops.creation.promotion import promote_operands
from afx.ops.creation.stop_gradient import stop_gradient
from afx.ops.elementwise.arithmetic import sqrt
from afx.ops.elementwise.comparison import isinf, isnan
from afx.ops.elementwise.exponential import exp, expm1, log, log1p
from afx.ops.elementwise.rounding import floor
from afx.ops.elementwise.where import maximum, minimum, where
from afx.ops.manipulation.shape import astype
from afx.stats._whole_sums import sum_whole

__all__ = [
    "ContinuousDistribution",
    "DiscreteDistribution",
    "Distribution",
    "floating",
    "is_endless",
    "log1mexp",
    "quiet",
]

Fn: TypeAlias = Callable[[Array], Array]
Number: TypeAlias = Callable[[], Array | float]


def quiet() -> AbstractContextManager[Any]:
    """Return a context without NumPy's warnings: poles are meant, and what is not allowed becomes nan."""
    return np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore")


def _is_column(x: Any) -> bool:
    """Tell whether an operand is another library's array, such as a Series."""
    return not isinstance(x, (Array, np.ndarray, np.generic)) and hasattr(x, "__array__")


def floating(who: str, *xs: ArrayLike) -> list[Array]:
    """Return operands as arrays of the real floating dtype that they have together; numbers take that of arrays."""
    operands: list[Any] = [x if x.__class__ is float or not _is_column(x) else asarray(x) for x in xs]
    if any([isinstance(x, (list, tuple)) for x in xs]):  # noqa: C419  # a list is quicker
        operands = list(promote_operands(*operands))
    avals = [aval_of(x, who) for x in operands]
    dtype = promote(tuple([a.dtype for a in avals]), tuple([a.weak for a in avals]), floating=True)
    if dtype.kind != "f":
        raise DtypeError(f"{who}: not defined for {dtype}: got {', '.join(map(str, avals))}; take the abs or a part")
    return [_in_dtype(x, dtype) for x in operands]


def _in_dtype(x: Any, dtype: DType) -> Array:
    if x.__class__ is float:  # the commonest parameter
        return wrap(np.array(x, dtype))
    return astype(x, dtype) if hasattr(x, "dtype") else asarray(x, dtype)


def log1mexp(x: Array) -> Array:
    """Return ``log(1 - exp(-x))`` for numbers above 0, accurate for small and large ones (Mächler 2012)."""
    small = x < math.log(2)
    return where(small, log(-expm1(-where(small, x, 1))), log1p(-exp(-where(small, 1, x))))


# -- distributions --
FILLS = {  # what functions are below and above the support
    "pdf": (0.0, 0.0),
    "logpdf": (-math.inf, -math.inf),
    "cdf": (0.0, 1.0),
    "sf": (1.0, 0.0),
    "logcdf": (-math.inf, 0.0),
    "logsf": (0.0, -math.inf),
}
MIRRORED = {"sf": "cdf", "logsf": "logcdf"}  # of symmetric distributions, at the number on the other side


@attrs.frozen(eq=False, kw_only=True)
class Distribution:
    """A distribution at given parameters, by its standard form.

    Attributes:
        logpdf: the logarithm of the density, or of the probability of a whole number.
        logcdf: the logarithm of the distribution function.
        logsf: the logarithm of its complement.
        ppf: the quantile of a probability between 0 and 1, its ends excluded.
        mean: the mean, when it is asked for.
        var: likewise the variance.
        entropy: likewise the differential entropy; of whole numbers a sum without it.
        isf: the quantile of a complement, where that of 1 less it would lose digits.
        pdf: the density, where the exponential of its logarithm would lose digits or derivatives.
        cdf: likewise the distribution function.
        sf: likewise its complement.
        loc: the location.
        low: the lower end of the support.
        high: its upper end.
        allowed: where the parameters are; elsewhere all values are nan.
    """

    logpdf: Fn
    logcdf: Fn
    logsf: Fn
    ppf: Fn
    mean: Number
    var: Number
    entropy: Number | None = None
    isf: Fn | None = None
    pdf: Fn | None = None
    cdf: Fn | None = None
    sf: Fn | None = None
    loc: ArrayLike
    low: Array | float = -math.inf
    high: Array | float = math.inf
    allowed: Array | bool = True

    def of(self, name: str, y: Array) -> Array:
        """Return a function of the standard form inside the support."""
        direct: Fn | None = getattr(self, name)
        if direct is not None:
            return direct(y)
        logarithm: Fn = getattr(self, f"log{name}")
        return exp(logarithm(y))

    def value(self, name: str, x: Array) -> Array:
        """Return a function of `FILLS`."""
        raise NotImplementedError  # each distribution has its own

    def quantile(self, q: Array, upper: bool = False) -> Array:
        """Return the quantile, of the complement where ``upper`` says so."""
        raise NotImplementedError  # each distribution has its own

    def number(self, name: str) -> Array:
        """Return the mean, variance or entropy."""
        raise NotImplementedError  # each distribution has its own

    def _inverse(self, q: Array, upper: bool, low: Array | float) -> Array:
        """Return the quantile of the standard form; those of 0 and 1 are the ends of the support."""
        inside = (q > 0) & (q < 1)
        safe = where(inside, q, 0.5)
        y = self.ppf(safe) if not upper else self.isf(safe) if self.isf is not None else self.ppf(1 - safe)
        first, last = (self.high, low) if upper else (low, self.high)
        return where(inside, y, astype(where(q == 0, first, where(q == 1, last, math.nan)), y.dtype))


@attrs.frozen(eq=False, kw_only=True)
class ContinuousDistribution(Distribution):
    """A distribution of real numbers.

    Attributes:
        scale: the scale.
        middle: a number inside the support, where values are computed that are then discarded.
        is_open: whether the ends of the support lie outside.
        has_limits: whether distribution functions of an endless support are right at infinity, where derivatives are 0.
        is_symmetric: whether the standard form is symmetric about 0, so that ``sf(y)`` is ``cdf(-y)``.
    """

    scale: ArrayLike
    middle: Array | float = 0.5
    is_open: bool = False
    has_limits: bool = False
    is_symmetric: bool = False

    def value(self, name: str, x: Array) -> Array:
        """Return a function of `FILLS`."""
        scale = asarray(self.scale)
        if self.is_symmetric and name in MIRRORED:
            name, y = MIRRORED[name], (self.loc - x) / scale
        else:
            y = (x - self.loc) / scale
        if self.has_limits and "pdf" not in name:
            return where(self._holds(scale), self.of(name, where(isinf(y), stop_gradient(y), y)), math.nan)
        outside = isinf(y)
        if not is_endless(self.low):
            outside = outside | ((y <= self.low) if self.is_open else (y < self.low))
        if not is_endless(self.high):
            outside = outside | ((y >= self.high) if self.is_open else (y > self.high))
        z = self._scaled(name, where(outside, self.middle, y), scale)
        below, above = FILLS[name]
        fill = below if below == above else astype(where(y > self.middle, above, below), z.dtype)
        return where(self._holds(scale), where(outside, fill, z), math.nan)

    def _scaled(self, name: str, y: Array, scale: Array) -> Array:
        z = self.of(name, y)
        return z - log(scale) if name == "logpdf" else z / scale if name == "pdf" else z

    def _holds(self, scale: Array) -> Array:
        """Tell where the parameters are those of a distribution."""
        return scale > 0 if self.allowed is True else self.allowed & (scale > 0)

    def quantile(self, q: Array, upper: bool = False) -> Array:
        """Return the quantile; those of 0 and 1 are the ends of the support."""
        scale = asarray(self.scale)
        return where(self._holds(scale), scale * self._inverse(q, upper, self.low) + self.loc, math.nan)

    def number(self, name: str) -> Array:
        """Return the mean, variance or entropy, moved and scaled."""
        scale = asarray(self.scale)
        if name == "entropy":
            assert self.entropy is not None  # every law of real numbers has one
            z = self.entropy() + log(scale) + 0 * asarray(self.loc)
        else:
            loc = asarray(self.loc)
            z = scale * scale * self.var() + 0 * loc if name == "var" else loc + scale * self.mean()
        return where(self._holds(scale), z, math.nan)


@attrs.frozen(eq=False, kw_only=True)
class DiscreteDistribution(Distribution):
    """A distribution of whole numbers."""

    def value(self, name: str, x: Array) -> Array:
        """Return a function of `FILLS`."""
        k = floor(x - self.loc)
        below, above = FILLS[name]
        if name in ("pdf", "logpdf"):
            outside = (k != x - self.loc) | (k < self.low) | (k > self.high) | isinf(k)
            fill: Array | float = where(isnan(x), math.nan, below)
        else:
            outside = isnan(k) | (k < self.low) | (k >= self.high)
            fill = where(k < self.low, below, where(isnan(k), math.nan, above))
        z = self.of(name, where(outside, self.low, k))
        return where(self.allowed, where(outside, astype(fill, z.dtype), z), math.nan)

    def quantile(self, q: Array, upper: bool = False) -> Array:
        """Return the least number whose distribution function is q or more; of 0 it is one below the support."""
        return where(self.allowed, self._inverse(q, upper, self.low - 1) + self.loc, math.nan)

    def number(self, name: str) -> Array:
        """Return the mean, variance or entropy, moved."""
        if name == "mean":
            z = self.loc + asarray(self.mean())
        elif name == "var":
            z = asarray(self.var()) + 0 * asarray(self.loc)
        else:
            z = (self._summed_entropy() if self.entropy is None else self.entropy()) + 0 * asarray(self.loc)
        return where(self.allowed, z, math.nan)

    def _summed_entropy(self) -> Array:
        """Return the entropy as a sum over numbers around the mean, out to where tails, at most exponentials, are nothing."""
        mean, var = asarray(self.mean()), asarray(self.var())
        width, fall = sqrt(var), var / where(mean > 0, mean, 1.0)
        rise = var / where(self.high > mean, self.high - mean, 1.0)

        def surprise(k: Array) -> Array:
            logarithm = self.logpdf(k)
            seen = logarithm > -math.inf
            return where(seen, -exp(logarithm) * where(seen, logarithm, 0.0), 0.0)

        first = maximum(floor(mean - 12 * width - 60 * rise) - 60, self.low)
        return sum_whole(surprise, first, minimum(floor(mean + 12 * width + 60 * fall) + 60, self.high))


def is_endless(end: Array | float) -> bool:
    """Tell whether an end of a support is infinite."""
    return isinstance(end, float) and math.isinf(end)
