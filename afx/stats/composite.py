"""Laws made of laws: mixtures, truncated and censored ones, counts with other zeros, and ordered numbers."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import attrs
import numpy as np

from afx import pytree
from afx.core import Array, ArrayLike, DType, broadcast_shapes, epsilon, float64, get_default_dtype
from afx.errors import ArgumentError
from afx.ops import arange, asarray, floor, gammaln, isfinite, maximum, minimum, sort, sqrt, stack, sum as sum_, where
from afx.ops.creation.creation import stop_gradient
from afx.ops.elementwise.exponentials import exp, expm1, log, log1p, logaddexp
from afx.ops.manipulation.shape import astype, broadcast_to, expand_dims
from afx.ops.reductions.cumulative import cumsum, log1mexp, logsumexp
from afx.random import split, uniform
from afx.random.keys import ShapeLike
from afx.stats._distribution import floating, quiet, sum_whole
from afx.stats.law import Law, Shape, Support, shape_of

__all__ = ["censored", "hurdle", "mixture", "ordered", "truncated", "zero_inflated"]

L = TypeVar("L", bound=Law)


@attrs.frozen(eq=False)
class Composite(Law):
    """A law of numbers that is made of others: what follows from its logarithms and its variance."""

    def logcdf(self, x: ArrayLike) -> Array:
        """Return the logarithm of the distribution function."""
        raise NotImplementedError  # each kind has its own

    def logsf(self, x: ArrayLike) -> Array:
        """Return the logarithm of the survival function."""
        raise NotImplementedError  # each kind has its own

    def cdf(self, x: ArrayLike) -> Array:
        """Return the distribution function: the probability of at most x."""
        return exp(self.logcdf(x))

    def sf(self, x: ArrayLike) -> Array:
        """Return the survival function: the probability of more than x, accurate where it is small."""
        return exp(self.logsf(x))

    def var(self) -> Array:
        """Return the variance."""
        raise NotImplementedError  # each kind has its own

    def std(self) -> Array:
        """Return the standard deviation."""
        return sqrt(self.var())


# -- mixtures --


@attrs.frozen(eq=False)
class Mixture(Composite):
    """A law of one of several laws, each with its weight: see `mixture`."""

    weights: Any
    laws: Any

    def _each(self) -> tuple[Law, ...]:
        return (self.laws,) if self._is_one else self.laws

    @property
    def _is_one(self) -> bool:
        return not isinstance(self.laws, tuple)

    @property
    def event(self) -> Shape:
        """The shape of one value."""
        return self._each()[0].event

    @property
    def batch(self) -> Shape:
        """The shape of independent values."""
        if self._is_one:
            shape = broadcast_shapes([self.laws.batch, asarray(self.weights).shape]) or ()
            return shape[:-1]
        return broadcast_shapes([asarray(self.weights).shape[:-1], *[law.batch for law in self.laws]]) or ()

    def _gather(self, fn: Callable[[Law], Array]) -> Array:
        """Return a function of each component, components on the last axis."""
        if self._is_one:
            return fn(self.laws)
        parts = [fn(law) for law in self.laws]
        shape = broadcast_shapes([x.shape for x in parts])
        assert shape is not None  # of components of one batch
        return stack([broadcast_to(x, shape) for x in parts], axis=-1)

    def _spread(self, x: Array) -> Array:
        """Return values with an axis for the components of one family."""
        return expand_dims(x, -1 - len(self.event)) if self._is_one else x

    def _mix(self, name: str, x: ArrayLike) -> Array:
        """Return the logarithm of the weighted sum of what a method of the components is the logarithm of."""
        own, y = _meet(self, x)
        y = own._spread(y)
        with quiet():
            logs = own._gather(lambda law: _method(law, name)(y))
            return logsumexp(logs + log(asarray(own.weights)), axis=-1)

    def log_probability(self, x: ArrayLike) -> Array:
        """Return the logarithm of the density or probability."""
        return self._mix("log_probability", x)

    def logcdf(self, x: ArrayLike) -> Array:
        """Return the logarithm of the distribution function of numbers."""
        return self._mix("logcdf", x)

    def logsf(self, x: ArrayLike) -> Array:
        """Return the logarithm of the survival function of numbers."""
        return self._mix("logsf", x)

    def mean(self) -> Array:
        """Return the mean of numbers."""
        own, _ = _meet(self)
        return sum_(own._gather(lambda law: _method(law, "mean")()) * asarray(own.weights), axis=-1)

    def var(self) -> Array:
        """Return the variance of numbers."""
        own, _ = _meet(self)
        gaps = own._gather(lambda law: _method(law, "mean")()) - expand_dims(own.mean(), -1)
        return sum_((own._gather(lambda law: _method(law, "var")()) + gaps * gaps) * asarray(own.weights), axis=-1)

    def rvs(self, key: ArrayLike, shape: ShapeLike = None) -> Array:
        """Return independent draws: one of each component, of which one is taken."""
        first, second = split(key)
        lead, rank = shape_of(shape) + self.batch, len(self.event)
        weights = asarray(self.weights)
        luck = uniform(first, (*lead, 1), dtype=weights.dtype)
        picked = sum_(astype(cumsum(weights, axis=-1) < luck, int), axis=-1)
        if self._is_one:
            k = self.laws.batch[-1]
            extra = lead[: len(lead) - len(self.laws.batch) + 1]
            every = broadcast_to(self.laws.rvs(second, extra), (*lead, k, *self.event))
            parts = [every[(..., j, *[slice(None)] * rank)] for j in range(k)]
        else:
            keys = split(second, len(self.laws))
            parts = [law.rvs(own, lead[: len(lead) - len(law.batch)]) for own, law in zip(keys, self.laws, strict=True)]
        drawn = parts[0]
        for j, part in enumerate(parts[1:], 1):
            chosen = picked == j
            drawn = where(expand_dims(chosen, tuple(range(-rank, 0))) if rank else chosen, part, drawn)
        return drawn

    def support(self) -> Support:
        """Return the least place that holds those of all components."""
        found = [law.support() for law in self._each()]
        if len({s.kind for s in found}) > 1:
            raise ArgumentError(f"mixture: laws have values of one kind: got {[s.kind for s in found]}; part them")
        if found[0].kind not in ("real", "whole"):
            return found[0]
        ends = list[Any]()
        for name, choose, axis_choose in (("low", minimum, "min"), ("high", maximum, "max")):
            values = [getattr(s, name) for s in found]
            end = None if any(v is None for v in values) else functools.reduce(choose, map(asarray, values))
            ends.append(getattr(end, axis_choose)(axis=-1) if end is not None and self._is_one and end.ndim else end)
        return Support(found[0].kind, *ends)

    def middle(self) -> Array | None:
        """Return the mean, if it is any."""
        return None if self.event else self.mean()


def mixture(weights: ArrayLike, laws: Law | Sequence[Law]) -> Mixture:
    """Return the mixture of the components of one law, which are its last axis, or of several laws.

    Args:
        weights: float[..., k], which sum to 1.
        laws: a law with a batch [..., k], or k laws.

    Raises:
        ArgumentError: there are other weights than laws.

    >>> import afx
    >>> two = afx.stats.mixture(np.array([0.25, 0.75]), afx.stats.norm(np.array([-1.0, 1.0]), 0.5))
    >>> two.mean(), two.shape
    (Array(0.5, dtype=float64), ())
    """
    parts = laws if isinstance(laws, Law) else tuple(laws)
    shape = asarray(weights).shape
    count = parts.batch[-1:] if isinstance(parts, Law) else (len(parts),)
    if not shape or not count or shape[-1] != count[0]:
        raise ArgumentError(f"mixture: a weight for each law: got weights {shape} and laws {count}; give as many")
    return Mixture(weights, parts)


def _method(law: Law, name: str) -> Any:
    """Return a method of a law of numbers, or say that it has none."""
    found = getattr(law, name, None)
    if found is None:
        raise ArgumentError(f"stats: {law!r} has no {name}; take a law of numbers that has")
    return found


def _meet(law: L, x: ArrayLike = 0.0, alone: DType = float64) -> tuple[L, Array]:
    """Return a law and its argument in the dtype that they have together: constants of the law are computed in it."""
    y, *_ = floating("stats", x, *pytree.leaves(law), alone=alone)
    met: Any = law.astype(y.dtype)
    return met, y


def _weak(x: Any, z: Array) -> Array:
    """Return a parameter, a number of Python's in the dtype of what it meets."""
    return asarray(x, z.dtype) if isinstance(x, int | float) else asarray(x)


# -- truncated and censored --

STEPS = np.linspace(-4.0, 4.0, 161)  # of the double exponential rule (Takahasi & Mori 1974)
SHARES = 1 / (1 + np.exp(-np.pi * np.sinh(STEPS)))  # of the interval from 0 to 1, below each node
WEIGHTS = (STEPS[1] - STEPS[0]) * np.pi * np.cosh(STEPS) * SHARES * SHARES[::-1]


@attrs.frozen(eq=False)
class Between(Composite):
    """What truncated and censored laws share: a law of numbers and two bounds, None where there is none."""

    law: Law
    low: Any = None
    high: Any = None

    @property
    def batch(self) -> Shape:
        """The shape of independent values."""
        ends = [asarray(end).shape for end in (self.low, self.high) if end is not None]
        return broadcast_shapes([self.law.batch, *ends]) or ()

    @property
    def _is_whole(self) -> bool:
        return self.law.support().kind == "whole"

    def _call(self, name: str, x: Any) -> Array:
        found: Array = _method(self.law, name)(x)
        return found

    def _below(self) -> tuple[Any, Any]:
        """Return the logarithms of the probability of less than the lower bound, and of the rest."""
        if self.low is None:
            return -math.inf, 0.0
        edge = self.low - 1 if self._is_whole else self.low
        return self._call("logcdf", edge), self._call("logsf", edge)

    def _above(self) -> tuple[Any, Any]:
        """Return the logarithms of the probability of more than the upper bound, and of the rest."""
        if self.high is None:
            return -math.inf, 0.0
        return self._call("logsf", self.high), self._call("logcdf", self.high)

    def _log_inside(self) -> Array:
        """Return the logarithm of the probability between the bounds, by the tail that is smaller."""
        (below, over), (above, under) = self._below(), self._above()
        if self.low is None:
            return asarray(under)
        if self.high is None:
            return asarray(over)
        return _log_difference(under, below, over, above)

    def _share(self, low: Array | None, high: Array | None) -> Array:
        """Return the logarithm of the share of what lies between the bounds that lies between two others."""
        part = attrs.evolve(self, low=_nearer(maximum, self.low, low), high=_nearer(minimum, self.high, high))
        with quiet():
            return part._log_inside() - self._log_inside()

    def _clip(self, y: Array) -> Array:
        y = y if self.low is None else maximum(y, self.low)
        return y if self.high is None else minimum(y, self.high)

    def _expect(self, fn: Callable[[Array], Array], quantile: Callable[[Array, bool], Array]) -> Array:
        """Return the mean of a function of quantiles between the bounds."""
        if not self._is_whole:
            middle = self.law.middle()
            half = 0.5 if middle is None else stop_gradient(exp(self._share(None, middle)))
            return _integrate_shares(lambda q, upper: fn(quantile(q, upper)), len(self.batch), half)
        tiny = asarray(1e-18)
        first, last = quantile(tiny, False), quantile(tiny, True)
        inside = self._log_inside()
        return sum_whole(lambda k: fn(k) * exp(self.law.log_probability(k) - inside), first, last)


def _integrate_shares(fn: Callable[[Array, bool], Array], rank: int, half: ArrayLike = 0.5) -> Array:
    """Return the integral over shares from 0 to 1 of a function of them, or of the rest where it is told so.

    The share below the median parts it: there densities have their kinks, if they have any.
    """
    shares, weights = (np.reshape(x, (-1,) + (1,) * rank) for x in (SHARES, WEIGHTS))
    total = asarray(0.0)
    for length, upper in ((asarray(half), False), (1 - asarray(half), True)):  # from the ends, where it may be steep
        some = length > 0
        z = fn(where(some, length, 0.5) * shares, upper) * weights
        total = total + where(some, length * sum_(z, axis=0), 0.0)
    return total


def _nearer(choose: Callable[[Any, Any], Array], *ends: Any) -> Any:
    """Return the end that binds, None where there is none."""
    some = [end for end in ends if end is not None]
    return functools.reduce(choose, some) if some else None


def _log_difference(under: Any, below: Any, over: Any, above: Any) -> Array:
    """Return log(F(high) - F(low)), by survival functions where these are the smaller ones."""
    is_right = over < below
    top, gap = where(is_right, over, under), where(is_right, over - above, under - below)
    is_some = gap > 0
    return where(is_some, top + log1mexp(where(is_some, gap, 1.0)), -math.inf)


@attrs.frozen(eq=False)
class Truncated(Between):
    """A law of numbers between two bounds alone: see `truncated`."""

    def log_probability(self, x: ArrayLike) -> Array:
        """Return the logarithm of the density or probability."""
        own, y = _meet(self, x)
        with quiet():
            z = own.law.log_probability(y) - own._log_inside()
            return where(self._clip(y) == y, z, where(y == y, -math.inf, math.nan))  # noqa: PLR0124  # nan

    def logcdf(self, x: ArrayLike) -> Array:
        """Return the logarithm of the distribution function."""
        own, y = _meet(self, x)
        return own._share(None, y)

    def logsf(self, x: ArrayLike) -> Array:
        """Return the logarithm of the survival function."""
        own, y = _meet(self, x)
        return own._share(floor(y) + 1 if own._is_whole else y, None)

    def ppf(self, q: ArrayLike) -> Array:
        """Return the quantile."""
        own, y = _meet(self, q)
        return own._quantile(y, False)

    def isf(self, q: ArrayLike) -> Array:
        """Return the quantile of a complement."""
        own, y = _meet(self, q)
        return own._quantile(y, True)

    def _quantile(self, q: Array, upper: bool) -> Array:
        """Return a quantile by the law's own, of the probability below it or above it, whichever is smaller."""
        with quiet():
            (below, _), (above, _), inside = self._below(), self._above(), self._log_inside()
            share, rest = (log1p(-q), log(q)) if upper else (log(q), log1p(-q))
            left = logaddexp(asarray(below), share + inside)
            right = logaddexp(asarray(above), rest + inside)
            by_left = left < right
            by_ppf = self._call("ppf", exp(where(by_left, left, math.log(0.5))))
            return self._clip(where(by_left, by_ppf, self._call("isf", exp(where(by_left, math.log(0.5), right)))))

    def middle(self) -> Array | None:
        """Return the median."""
        return broadcast_to(self.ppf(0.5), self.batch)

    def mean(self) -> Array:
        """Return the mean, by quadrature of quantiles; nan where an open side has none."""
        own, _ = _meet(self)
        return own._if_any("mean", own._expect(lambda y: y, own._quantile))

    def var(self) -> Array:
        """Return the variance, likewise."""
        own, _ = _meet(self)
        mean = own._expect(lambda y: y, own._quantile)
        return own._if_any("var", own._expect(lambda y: (y - mean) ** 2, own._quantile))

    def _if_any(self, name: str, z: Array) -> Array:
        if self.low is not None and self.high is not None:
            return z
        return where(isfinite(_method(self.law, name)()), z, math.nan)

    def rvs(self, key: ArrayLike, shape: ShapeLike = None) -> Array:
        """Return independent draws, quantiles of uniform numbers."""
        own, half = _meet(self, 0.5, get_default_dtype())
        q = uniform(key, shape_of(shape) + self.batch, dtype=half.dtype)
        return own._quantile(maximum(q, epsilon(half.dtype) / 8), False)

    def support(self) -> Support:
        """Return where values lie."""
        own = self.law.support()
        return Support(own.kind, _nearer(maximum, own.low, self.low), _nearer(minimum, own.high, self.high))


@attrs.frozen(eq=False)
class Censored(Between):
    """A law of numbers of which those beyond bounds are known as the bounds: see `censored`."""

    def log_probability(self, x: ArrayLike) -> Array:
        """Return the logarithm of the density between the bounds, and of the probability on each and beyond it."""
        own, y = _meet(self, x)
        with quiet():
            z = own.law.log_probability(y)
            if own.low is not None:
                z = where(y < own.low, -math.inf, where(y == own.low, own._call("logcdf", own.low), z))
            if own.high is not None:
                edge = own.high - 1 if own._is_whole else own.high
                z = where(y > own.high, -math.inf, where(y == own.high, own._call("logsf", edge), z))
            return z

    def logcdf(self, x: ArrayLike) -> Array:
        """Return the logarithm of the distribution function."""
        return self._clipped("logcdf", x, -math.inf, 0.0)

    def logsf(self, x: ArrayLike) -> Array:
        """Return the logarithm of the survival function."""
        return self._clipped("logsf", x, 0.0, -math.inf)

    def _clipped(self, name: str, x: ArrayLike, below: float, above: float) -> Array:
        """Return a function of the law between the bounds, and what it is below and above them."""
        own, y = _meet(self, x)
        z = own._call(name, y)
        z = z if own.low is None else where(y < own.low, below, z)
        return z if own.high is None else where(y >= own.high, above, z)

    def mean(self) -> Array:
        """Return the mean."""
        return self._moment(lambda y: y)

    def var(self) -> Array:
        """Return the variance."""
        mean = self.mean()
        return self._moment(lambda y: (y - mean) ** 2)

    def _moment(self, fn: Callable[[Array], Array]) -> Array:
        """Return the mean of a function: of what lies between the bounds, and of each bound by its probability."""
        cut, _ = _meet(Truncated(self.law, self.low, self.high))
        with quiet():
            inside = exp(cut._log_inside())  # nothing at all, of which there is no mean, where all lies beyond a bound
            z = cut._if_any("mean", where(inside > 0, inside * cut._expect(fn, cut._quantile), 0.0))
        if self.low is not None:
            z = z + fn(_weak(self.low, z)) * exp(self._below()[0])
        return z if self.high is None else z + fn(_weak(self.high, z)) * exp(self._above()[0])

    def rvs(self, key: ArrayLike, shape: ShapeLike = None) -> Array:
        """Return independent draws of the law, clipped."""
        extra = self.batch[: len(self.batch) - len(self.law.batch)]
        return self._clip(self.law.rvs(key, shape_of(shape) + extra))

    def support(self) -> Support:
        """Return where values lie; those on bounds are no density, so that parameters have no such law."""
        return Support("whole")


def truncated(law: Law, low: ArrayLike | None = None, high: ArrayLike | None = None) -> Truncated:
    """Return a law of numbers given that they lie between bounds, which count for whole numbers.

    >>> import afx
    >>> afx.stats.truncated(afx.stats.norm(np.float64(0.0), 1.0), low=0.0).mean().round(6)
    Array(0.797885, dtype=float64)
    """
    return Truncated(_numbers("truncated", law), low, high)


def censored(law: Law, low: ArrayLike | None = None, high: ArrayLike | None = None) -> Censored:
    """Return a law of numbers of which those beyond bounds are known as the bounds.

    >>> import afx
    >>> afx.stats.censored(afx.stats.norm(np.float64(0.0), 1.0), high=0.0).logpdf(0.0).round(4)
    Array(-0.6931, dtype=float64)
    """
    return Censored(_numbers("censored", law), low, high)


def _numbers(who: str, law: Any, kinds: tuple[str, ...] = ("real", "whole")) -> Law:
    if not isinstance(law, Law) or law.event or law.support().kind not in kinds:
        raise ArgumentError(
            f"{who}: takes a law of {' or '.join(kinds)} numbers: got {law!r}; give stats.poisson(3.0) or so"
        )
    return law


# -- counts with other zeros --


@attrs.frozen(eq=False)
class ZeroInflated(Composite):
    """A law of counts with further zeros: see `zero_inflated`."""

    law: Law
    share: Any

    @property
    def batch(self) -> Shape:
        """The shape of independent values."""
        return broadcast_shapes([self.law.batch, asarray(self.share).shape]) or ()

    @property
    def _rest(self) -> Law:
        """The law of the counts that are no further zeros."""
        return self.law

    def _logs(self, name: str, x: ArrayLike) -> tuple[Array, Array, Array]:
        """Return counts, the logarithm of the share, and that of the rest times what a method is the logarithm of."""
        own, k = _meet(self, x)
        with quiet():
            p = asarray(own.share)
            return k, log(p), log1p(-p) + _method(own._rest, name)(k)

    def log_probability(self, x: ArrayLike) -> Array:
        """Return the logarithm of the probability."""
        k, share, rest = self._logs("log_probability", x)
        return where(k == 0, logaddexp(share, rest), rest)

    def logcdf(self, x: ArrayLike) -> Array:
        """Return the logarithm of the distribution function."""
        k, share, rest = self._logs("logcdf", x)
        return where(k < 0, rest, logaddexp(share, rest))

    def logsf(self, x: ArrayLike) -> Array:
        """Return the logarithm of the survival function."""
        k, _, rest = self._logs("logsf", x)
        return where(k < 0, 0.0, rest)

    def _moments(self) -> tuple[Array, Array, Array]:
        own, _ = _meet(self)
        return _method(own.law, "mean")(), _method(own.law, "var")(), 1 - asarray(own.share)

    def mean(self) -> Array:
        """Return the mean."""
        m, _, rest = self._moments()
        return rest * m

    def var(self) -> Array:
        """Return the variance."""
        m, v, rest = self._moments()
        return rest * (v + m * m) - (rest * m) ** 2

    def rvs(self, key: ArrayLike, shape: ShapeLike = None) -> Array:
        """Return independent draws."""
        first, second = split(key)
        extra = self.batch[: len(self.batch) - len(self.law.batch)]
        k = self._rest.rvs(second, shape_of(shape) + extra)
        return where(uniform(first, shape_of(shape) + self.batch, dtype=k.dtype) < self.share, 0.0, k)

    def support(self) -> Support:
        """Return where values lie."""
        return self.law.support()


@attrs.frozen(eq=False)
class Hurdle(ZeroInflated):
    """A law of counts whose zeros have a probability of their own: see `hurdle`."""

    @property
    def _rest(self) -> Law:
        return Truncated(self.law, low=1)

    def _moments(self) -> tuple[Array, Array, Array]:
        m, v, rest = super()._moments()
        return m, v, rest / -expm1(self.law.log_probability(asarray(0.0, m.dtype)))


def zero_inflated(law: Law, share: ArrayLike) -> ZeroInflated:
    """Return a law of counts that are 0 with a probability, and else those of a law, which may be 0 too.

    >>> import afx
    >>> afx.stats.zero_inflated(afx.stats.poisson(np.float64(2.0)), 0.25).mean()
    Array(1.5, dtype=float64)
    """
    return ZeroInflated(_numbers("zero_inflated", law, ("whole",)), share)


def hurdle(law: Law, share: ArrayLike) -> Hurdle:
    """Return a law of counts that are 0 with just this probability, and else those of a law above 0.

    >>> import afx
    >>> afx.stats.hurdle(afx.stats.poisson(np.float64(2.0)), 0.25).pmf(0)
    Array(0.25, dtype=float64)
    """
    return Hurdle(_numbers("hurdle", law, ("whole",)), share)


# -- ordered numbers --


@attrs.frozen(eq=False)
class OrderedLaw(Law):
    """Independent numbers of one law in ascending order: see `ordered`."""

    law: Law

    @property
    def event(self) -> Shape:
        """The shape of one vector."""
        return self.law.batch[-1:]

    @property
    def batch(self) -> Shape:
        """The shape of independent values."""
        return self.law.batch[:-1]

    def log_probability(self, x: ArrayLike) -> Array:
        """Return the logarithm of the density; -inf of what does not ascend."""
        own, y = _meet(self, x)
        rises = sum_(astype(y[..., 1:] <= y[..., :-1], int), axis=-1) == 0
        count = gammaln(asarray(y.shape[-1] + 1.0, y.dtype))
        return where(rises, sum_(own.law.log_probability(y), axis=-1) + count, -math.inf)

    def mean(self) -> Array:
        """Return the means of the smallest to the greatest, by quadrature of quantiles; nan where the law has none."""
        return self._expect("mean", lambda y: y)

    def var(self) -> Array:
        """Return their variances, likewise."""
        mean = self.mean()
        return self._expect("var", lambda y: (y - mean) ** 2)

    def std(self) -> Array:
        """Return their standard deviations, likewise."""
        return sqrt(self.var())

    def _expect(self, name: str, fn: Callable[[Array], Array]) -> Array:
        """Return the mean of a function of each number, where the law has a moment: the share below it has a beta law."""
        own, like = _meet(self)
        count = self.event[0]
        below = astype(arange(count), like.dtype)
        above = count - 1 - below
        height = gammaln(count + 1 + 0 * below) - gammaln(below + 1) - gammaln(above + 1)

        def integrand(q: Array, upper: bool) -> Array:
            under, over = (log1p(-q), log(q)) if upper else (log(q), log1p(-q))
            return fn(_method(own.law, "isf" if upper else "ppf")(q)) * exp(height + below * under + above * over)

        with quiet():
            z = _integrate_shares(integrand, len(own.law.batch))
            return where(isfinite(_method(own.law, name)()), z, math.nan)

    def rvs(self, key: ArrayLike, shape: ShapeLike = None) -> Array:
        """Return independent draws."""
        return sort(self.law.rvs(key, shape), axis=-1)

    def support(self) -> Support:
        """Return where values lie."""
        own = self.law.support()
        return Support("ordered", own.low, own.high)


def ordered(law: Law) -> OrderedLaw:
    """Return the law of the order statistics of independent numbers of one law, along its last axis.

    >>> import afx
    >>> afx.stats.ordered(afx.stats.norm(0.0, 5.0).expand(3)).event
    (3,)
    """
    if not _numbers("ordered", law, ("real",)).batch:
        raise ArgumentError(f"ordered: takes several numbers: got {law!r}; expand(n) it")
    return OrderedLaw(law)
