"""Distribution families: functions that differentiate by the argument and by every real parameter.

A family is one function from parameters to a *distribution*, decorated with `continuous` or `discrete`. The distribution
describes its standard form (location 0, scale 1) inside of the support. The family adds location, scale and dtypes, the
values outside of the support, and checks of parameters.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Generic, ParamSpec, TypeAlias

import attrs
import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import aval_of
from afx.core.dtypes import promote
from afx.errors import DtypeError
from afx.ops.creation.creation import asarray
from afx.ops.creation.promotion import promote_operands
from afx.ops.creation.stop_gradient import stop_gradient
from afx.ops.elementwise.comparison import isinf, isnan
from afx.ops.elementwise.exponential import exp, expm1, log, log1p
from afx.ops.elementwise.rounding import floor
from afx.ops.elementwise.where import where
from afx.ops.manipulation.shape import astype

__all__ = ["ContinuousDistribution", "DiscreteDistribution", "continuous", "discrete", "floating", "log1mexp", "quiet"]

P = ParamSpec("P")
Fn: TypeAlias = Callable[[Array], Array]


def quiet() -> AbstractContextManager[Any]:
    """Return a context without NumPy's warnings: poles are meant, and what is not allowed becomes nan."""
    return np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore")


def _is_column(x: Any) -> bool:
    """Tell whether an operand is another library's array, such as a Series."""
    return not isinstance(x, (Array, np.ndarray, np.generic)) and hasattr(x, "__array__")


def floating(who: str, *xs: ArrayLike) -> list[Array]:
    """Return operands as arrays of the real floating dtype that they have together; numbers take that of arrays."""
    operands: list[Any] = [asarray(x) if _is_column(x) else x for x in xs]
    if any(isinstance(x, (list, tuple)) for x in xs):
        operands = list(promote_operands(*operands))
    avals = [aval_of(x, who) for x in operands]
    dtype = promote(tuple([a.dtype for a in avals]), tuple([a.weak for a in avals]), floating=True)
    if dtype.kind != "f":
        raise DtypeError(f"{who}: not defined for {dtype}: got {', '.join(map(str, avals))}; take the abs or a part")
    return [astype(x, dtype) if hasattr(x, "dtype") else asarray(x, dtype) for x in operands]


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


@attrs.frozen(eq=False, kw_only=True)
class Distribution:
    """A distribution at given parameters, by its standard form.

    Attributes:
        logpdf: the logarithm of the density, or of the probability of a whole number.
        logcdf: the logarithm of the distribution function.
        logsf: the logarithm of its complement.
        ppf: the quantile of a probability between 0 and 1, its ends excluded.
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

    def quantile(self, q: Array) -> Array:
        """Return the quantile."""
        raise NotImplementedError  # each distribution has its own


@attrs.frozen(eq=False, kw_only=True)
class ContinuousDistribution(Distribution):
    """A distribution of real numbers.

    Attributes:
        scale: the scale.
        middle: a number inside the support, where values are computed that are then discarded.
        is_open: whether the ends of the support lie outside.
        has_limits: whether distribution functions of an endless support are right at infinity, where derivatives are 0.
    """

    scale: ArrayLike
    middle: Array | float = 0.5
    is_open: bool = False
    has_limits: bool = False

    def value(self, name: str, x: Array) -> Array:
        """Return a function of `FILLS`."""
        scale = asarray(self.scale)
        y = (x - self.loc) / scale
        if self.has_limits and "pdf" not in name:
            return where(self._holds(scale), self.of(name, where(isinf(y), stop_gradient(y), y)), math.nan)
        outside = isinf(y)
        if not _is_endless(self.low):
            outside = outside | ((y <= self.low) if self.is_open else (y < self.low))
        if not _is_endless(self.high):
            outside = outside | ((y >= self.high) if self.is_open else (y > self.high))
        z = self._scaled(name, where(outside, self.middle, y), scale)
        below, above = FILLS[name]
        fill = below if below == above else where(y > self.middle, above, below)
        return where(self._holds(scale), where(outside, fill, z), math.nan)

    def _scaled(self, name: str, y: Array, scale: Array) -> Array:
        z = self.of(name, y)
        return z - log(scale) if name == "logpdf" else z / scale if name == "pdf" else z

    def _holds(self, scale: Array) -> Array:
        """Tell where the parameters are those of a distribution."""
        return scale > 0 if self.allowed is True else self.allowed & (scale > 0)

    def quantile(self, q: Array) -> Array:
        """Return the quantile; those of 0 and 1 are the ends of the support."""
        inside = (q > 0) & (q < 1)
        y = where(inside, self.ppf(where(inside, q, 0.5)), _ends(q, self.low, self.high))
        scale = asarray(self.scale)
        return where(self._holds(scale), scale * y + self.loc, math.nan)


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
            outside = (k < self.low) | (k >= self.high)
            fill = where(k < self.low, below, above)
        z = self.of(name, where(outside, self.low, k))
        return where(self.allowed, where(outside, fill, z), math.nan)

    def quantile(self, q: Array) -> Array:
        """Return the least number whose distribution function is q or more; of 0 it is one below the support."""
        inside = (q > 0) & (q < 1)
        k = where(inside, self.ppf(where(inside, q, 0.5)), _ends(q, self.low - 1, self.high))
        return where(self.allowed, k + self.loc, math.nan)


def _is_endless(end: Array | float) -> bool:
    return isinstance(end, float) and math.isinf(end)


def _ends(q: Array, low: Array | float, high: Array | float) -> Array:
    return where(q == 0, low, where(q == 1, high, math.nan))


# -- families --
class Family(Generic[P]):
    """A distribution as a function of its parameters; those follow the argument in every method.

    Parameters that are not allowed give nan, as in SciPy.
    """

    def __init__(self, distribution: Callable[P, Distribution]) -> None:
        self.__doc__, self.__module__ = distribution.__doc__, distribution.__module__
        self.__name__: str = distribution.__name__
        self._distribution: Callable[..., Distribution] = distribution
        self._signature = inspect.signature(distribution)
        parameters = self._signature.parameters.values()
        self._defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
        self._names, self._keys = tuple(self._signature.parameters), self._signature.parameters.keys()

    def __repr__(self) -> str:
        return f"<distribution {self.__name__}({', '.join(self._names)})>"

    def __reduce__(self) -> str:
        return self.__name__

    def _bind(self, x: ArrayLike, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Array, Distribution]:
        """Return the argument and the distribution, all parameters in one floating dtype with it."""
        given = {**dict(zip(self._names, args, strict=False)), **kwargs}
        values = {**self._defaults, **given}
        if len(given) < len(args) + len(kwargs) or values.keys() != self._keys:
            self._refuse(args, kwargs)
        x, *parameters = floating(self.__name__, x, *[values[name] for name in self._names])
        with quiet():
            return x, self._distribution(*parameters)

    def _refuse(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        try:
            self._signature.bind(*args, **kwargs)
        except TypeError as error:
            names = ", ".join(self._names)
            raise TypeError(f"{self.__name__}: {error}; its parameters, behind the argument, are {names}") from None

    def _value(self, name: str, x: ArrayLike, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Array:
        y, distribution = self._bind(x, args, kwargs)
        with quiet():
            return distribution.value(name, y)

    def cdf(self, x: ArrayLike, *args: P.args, **kwargs: P.kwargs) -> Array:
        """Return the distribution function: the probability of at most x."""
        return self._value("cdf", x, args, kwargs)

    def logcdf(self, x: ArrayLike, *args: P.args, **kwargs: P.kwargs) -> Array:
        """Return the logarithm of `cdf`, finite where that underflows."""
        return self._value("logcdf", x, args, kwargs)

    def sf(self, x: ArrayLike, *args: P.args, **kwargs: P.kwargs) -> Array:
        """Return the survival function: the probability of more than x, accurate where it is small."""
        return self._value("sf", x, args, kwargs)

    def logsf(self, x: ArrayLike, *args: P.args, **kwargs: P.kwargs) -> Array:
        """Return the logarithm of `sf`, finite where that underflows."""
        return self._value("logsf", x, args, kwargs)

    def ppf(self, q: ArrayLike, *args: P.args, **kwargs: P.kwargs) -> Array:
        """Return the quantile: the least x whose `cdf` is q or more."""
        y, distribution = self._bind(q, args, kwargs)
        with quiet():
            return distribution.quantile(y)


class continuous(Family[P]):  # named as the decorator that it is
    """Make a distribution of real numbers from a function of its parameters to its `ContinuousDistribution`."""

    def pdf(self, x: ArrayLike, *args: P.args, **kwargs: P.kwargs) -> Array:
        """Return the density."""
        return self._value("pdf", x, args, kwargs)

    def logpdf(self, x: ArrayLike, *args: P.args, **kwargs: P.kwargs) -> Array:
        """Return the logarithm of the density, finite where that underflows."""
        return self._value("logpdf", x, args, kwargs)


class discrete(Family[P]):  # named as the decorator that it is
    """Make a distribution of whole numbers from a function of its parameters to its `DiscreteDistribution`.

    Values have no derivative by the numbers themselves, nor quantiles any.
    """

    def pmf(self, k: ArrayLike, *args: P.args, **kwargs: P.kwargs) -> Array:
        """Return the probability of a number."""
        return self._value("pdf", k, args, kwargs)

    def logpmf(self, k: ArrayLike, *args: P.args, **kwargs: P.kwargs) -> Array:
        """Return the logarithm of the probability of a number, finite where that underflows."""
        return self._value("logpdf", k, args, kwargs)
