"""Families: distributions as functions of their parameters, which differentiate by the argument and by every parameter.

A family is one function from parameters to a `Distribution`, decorated with `continuous` or `discrete`; it adds dtypes
and checks of parameters, and has the methods that all laws share.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Generic, ParamSpec

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.dtypes import float64
from afx.ops.creation.creation import asarray
from afx.ops.elementwise.arithmetic import sqrt
from afx.ops.elementwise.where import maximum
from afx.ops.manipulation.join import broadcast_arrays
from afx.ops.manipulation.shape import astype
from afx.random import uniform
from afx.random._arguments import ShapeLike
from afx.stats._distribution import Distribution, floating, quiet
from afx.stats._fitting import fit

__all__ = ["continuous", "discrete"]

P = ParamSpec("P")


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

    def _arrays(self, xs: tuple[ArrayLike, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Array]:
        """Return arguments, and behind them the parameters, all in one floating dtype."""
        given = {**dict(zip(self._names, args, strict=False)), **kwargs}
        values = {**self._defaults, **given}
        if len(given) < len(args) + len(kwargs) or values.keys() != self._keys:
            self._refuse(args, kwargs)
        return floating(self.__name__, *xs, *[values[name] for name in self._names])

    def _bind(self, x: ArrayLike, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Array, Distribution]:
        """Return the argument and the distribution."""
        y, *parameters = self._arrays((x,), args, kwargs)
        with quiet():
            return y, self._distribution(*parameters)

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

    def _number(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Array:
        """Return a number of the parameters: computed in float64, as it may be a small rest of large terms."""
        parameters = self._arrays((), args, kwargs)
        with quiet():
            distribution = self._distribution(*[astype(p, float64) for p in parameters])
            z = sqrt(distribution.number("var")) if name == "std" else distribution.number(name)
            return astype(z, parameters[0].dtype)

    def _quantile(self, q: ArrayLike, args: tuple[Any, ...], kwargs: dict[str, Any], upper: bool = False) -> Array:
        y, distribution = self._bind(q, args, kwargs)
        with quiet():
            return distribution.quantile(y, upper)

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
        return self._quantile(q, args, kwargs)

    def isf(self, q: ArrayLike, *args: P.args, **kwargs: P.kwargs) -> Array:
        """Return the inverse of `sf`: the quantile of 1 - q, with the digits of small q."""
        return self._quantile(q, args, kwargs, upper=True)

    def median(self, *args: P.args, **kwargs: P.kwargs) -> Array:
        """Return the quantile of one half."""
        return self._quantile(0.5, args, kwargs)

    def interval(self, confidence: ArrayLike, *args: P.args, **kwargs: P.kwargs) -> tuple[Array, Array]:
        """Return the ends of the interval around the median that has this probability, with equal tails."""
        tail = (1 - confidence) / 2 if isinstance(confidence, int | float) else (1 - asarray(confidence)) / 2
        return self._quantile(tail, args, kwargs), self._quantile(tail, args, kwargs, upper=True)

    def mean(self, *args: P.args, **kwargs: P.kwargs) -> Array:
        """Return the mean; inf or nan where there is none, as in SciPy."""
        return self._number("mean", args, kwargs)

    def var(self, *args: P.args, **kwargs: P.kwargs) -> Array:
        """Return the variance; inf or nan where there is none, as in SciPy."""
        return self._number("var", args, kwargs)

    def std(self, *args: P.args, **kwargs: P.kwargs) -> Array:
        """Return the standard deviation."""
        return self._number("std", args, kwargs)

    def entropy(self, *args: P.args, **kwargs: P.kwargs) -> Array:
        """Return the differential entropy, in nats; of whole numbers the sum of ``-p log p``."""
        return self._number("entropy", args, kwargs)

    def rvs(self, key: ArrayLike, shape: ShapeLike = None, *args: P.args, **kwargs: P.kwargs) -> Array:
        """Return draws: quantiles of uniform numbers, which differentiate by the parameters as `ppf` does.

        `afx.random` draws from the commoner laws more quickly. Whole numbers come as floats.

        Args:
            key: a random key.
            shape: of the draws; that of the parameters without it.
            *args: the parameters.
            **kwargs: the parameters, by name.

        >>> afx.stats.gamma.rvs(afx.random.key(0), (2, 3), 2.5, scale=2.0).shape
        (2, 3)
        """
        parameters = self._arrays((), args, kwargs)
        lead = broadcast_arrays(*parameters)[0].shape
        dtype = parameters[0].dtype
        q = uniform(key, lead if shape is None else shape, dtype=dtype)
        with quiet():
            return self._distribution(*parameters).quantile(maximum(q, float(np.finfo(dtype).eps) / 8))

    def fit(self, x: ArrayLike, *, start: Mapping[str, float] | None = None, **fixed: ArrayLike) -> dict[str, Array]:
        """Return the parameters of the greatest likelihood, by name, in float64, with derivatives by the data.

        The location of laws whose support has an end is not fitted: the likelihood has its maximum at the data's own
        ends there, or none. It is 0, and on an interval the scale 1, unless they are given.

        Args:
            x: the data, any shape.
            start: where to begin, for parameters that have a better start than the usual one.
            **fixed: parameters that are known.

        Raises:
            ArgumentError: a fixed parameter is none of this law's, one with a start is not fitted or starts outside of its
                range, one is needed that cannot be fitted, there are no data, data
                lie outside of the support, or no maximum was found.

        >>> found = afx.stats.expon.fit(np.array([1.0, 2.0, 6.0]))
        >>> found["scale"].round(6)
        Array(3., dtype=float64)
        """
        return fit(self.__name__, self._distribution, self._names, self._defaults, x, start or {}, fixed)


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
