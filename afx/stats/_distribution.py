"""Distributions at given parameters: the record of a standard form, families of them, and maximum likelihood."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Generic, ParamSpec, TypeAlias

import attrs
import numpy as np

from afx import optim
from afx.core import Array, ArrayLike, DType, Tracer, aval_of, float64, function_html, get_default_dtype, promote, wrap
from afx.core.dtypes import epsilon
from afx.errors import ArgumentError, DtypeError, ShapeError
from afx.ops import abs as abs_, digamma, exp, floor, gammaln, log, median, polygamma, sigmoid, sort, sqrt
from afx.ops.creation.creation import asarray, promote_operands, stop_gradient
from afx.ops.elementwise.comparison import isfinite, isinf, isnan, maximum, minimum, where
from afx.ops.indexing.index import is_sequence
from afx.ops.manipulation.join import broadcast_arrays, concat, stack
from afx.ops.manipulation.shape import astype, expand_dims, reshape
from afx.ops.reductions.sums import max as max_, mean, sum as sum_
from afx.random import uniform
from afx.random.keys import ShapeLike
from afx.stats.law import Frozen, Support

# --- Sums over whole numbers: of functions that are smooth between their ends, and may be powers of the distance from
# these

APART = 512  # terms at each end that are taken one by one
EVEN = np.linspace(0.0, 1.0, 33)[1:-1]
GROWING = 4.0 ** np.arange(1, 22)
_rule: Any = np.polynomial.legendre.leggauss(16)


def sum_whole(fn: Callable[[Array], Array], first: Array, last: Array) -> Array:
    """Return the sum of a function over the whole numbers from ``first`` to ``last``, which bear no derivatives.

    Many terms are an integral between halves (Euler and Maclaurin), by Gauss's rule on pieces that grow with the distance
    from both ends, and of which none is longer than a 32nd of the whole.
    """
    first, last = stop_gradient(first), stop_gradient(last)
    steps = _column(np.arange(APART), first.ndim)
    low, high = first + steps, last - steps
    start = first + (APART - 0.5)
    end = maximum(last - (APART - 0.5), start)
    ends = where(low <= last, fn(minimum(low, last)), 0.0) + where(high > start, fn(maximum(high, first)), 0.0)
    return sum_(ends, axis=0) + where(end > start, _integrate(fn, start, end), 0.0)


def _column(values: Any, rank: int) -> Array:
    return reshape(asarray(values, np.dtype("float64")), (-1,) + (1,) * rank)


def _integrate(fn: Callable[[Array], Array], start: Array, end: Array) -> Array:
    """Return the sum over the whole numbers between two halves, as an integral and its corrections."""
    growing = (APART / 4) * _column(np.concatenate([[0.0], GROWING - 1]), start.ndim)
    even = start + (end - start) * _column(EVEN, start.ndim)
    places = sort(concat([minimum(start + growing, end), maximum(end - growing, start), even], axis=0), axis=0)
    nodes, weights = (_column(v / 2, start.ndim) for v in _rule)
    length = expand_dims(places[1:] - places[:-1], 1)
    values = fn(reshape(expand_dims(places[:-1], 1) + length * (nodes + 0.5), (-1, *start.shape)))
    whole = sum_(reshape(length * weights, (-1, *start.shape)) * values, axis=0)
    return whole + _correct(fn, end) - _correct(fn, start)


def _correct(fn: Callable[[Array], Array], end: Array) -> Array:
    """Return the first two corrections at one end, by differences between the whole numbers around it."""
    near, far = fn(end + 0.5) - fn(end - 0.5), fn(end + 1.5) - fn(end - 1.5)
    return (17 * far - 291 * near) / 5760


# --- Distributions at given parameters: the record of a standard form, and what location, scale and support make of
# it
#
# A distribution describes its standard form (location 0, scale 1) inside of the support; location, scale, values
# outside of the support and parameters that are not allowed are seen to here.

Fn: TypeAlias = Callable[[Array], Array]
Number: TypeAlias = Callable[[], Array | float]


def quiet() -> AbstractContextManager[Any]:
    """Return a context without NumPy's warnings: poles are meant, and what is not allowed becomes nan."""
    return np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore")


def _is_column(x: Any) -> bool:
    """Tell whether an operand is another library's array, such as a Series."""
    return not isinstance(x, (Array, np.ndarray, np.generic)) and hasattr(x, "__array__")


def _is_of_numbers(x: Any) -> bool:
    """Tell whether an operand is made of integers and Python's real numbers alone, nested lists too."""
    if is_sequence(x):
        return all(map(_is_of_numbers, x))
    aval = aval_of(x)
    return aval.dtype.kind in "biu" or (aval.weak and aval.dtype.kind == "f")


def floating(who: str, *xs: ArrayLike, alone: DType = float64) -> list[Array]:
    """Return operands as arrays of the real floating dtype that they have together; numbers take that of arrays.

    Integers and Python's numbers alone come in ``alone``.
    """
    if set(map(type, xs)) == {float}:  # the commonest parameters
        return [wrap(np.array(x, alone)) for x in xs]
    operands = [x if x.__class__ is float or not _is_column(x) else asarray(x) for x in xs]
    if all(map(_is_of_numbers, operands)):
        return [_in_dtype(x, alone) for x in operands]
    lists = [isinstance(x, (list, tuple)) for x in xs]
    if any(lists):
        met = promote_operands(*operands)
        operands = [z if is_list else x for x, z, is_list in zip(operands, met, lists, strict=True)]
    avals = [aval_of(x, who) for x in operands]
    weak = tuple([a.weak or (is_list and a.dtype.kind in "biu") for a, is_list in zip(avals, lists, strict=True)])
    dtype = promote(tuple([a.dtype for a in avals]), weak, floating=True)
    if dtype.kind != "f":
        raise DtypeError(f"{who}: not defined for {dtype}: got {', '.join(map(str, avals))}; take the abs or a part")
    return [_in_dtype(x, dtype) for x in operands]


def _in_dtype(x: Any, dtype: DType) -> Array:
    if x.__class__ is float:
        return wrap(np.array(x, dtype))
    return astype(x, dtype) if hasattr(x, "dtype") else asarray(x, dtype)


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
        is_symmetric: whether the standard form is symmetric about 0, so that ``sf(y)`` is ``cdf(-y)``, and needs no form.
    """

    logpdf: Fn
    logcdf: Fn
    logsf: Fn | None = None
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
    is_symmetric: bool = False

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
        if upper and self.isf is not None:
            y = self.isf(safe)
        elif upper:
            y = -self.ppf(safe) if self.is_symmetric else self.ppf(1 - safe)
        else:
            y = self.ppf(safe)
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
    """

    scale: ArrayLike
    middle: Array | float = 0.5
    is_open: bool = False
    has_limits: bool = False

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
            fill = where(isnan(x), math.nan, below)
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


def _is_nowhere(end: Array | float) -> bool:
    """Tell whether a support has no such end, for any of its parameters."""
    return is_endless(end) or (not isinstance(end, Tracer) and bool(np.isinf(np.asarray(end)).all()))


# --- Maximum likelihood: the parameters of a law under which data are likeliest

PROBES = {(True, True, True): "real", (False, True, True): "positive", (False, True, False): "share"}
WAYS: dict[str, tuple[Callable[[Array], Array], Callable[[float], float]]] = {  # from free numbers, and back
    "real": (lambda z: z, lambda v: v),
    "positive": (exp, lambda v: float(np.log(v))),
    "share": (sigmoid, lambda v: float(np.log(v) - np.log1p(-v))),
}
ENDS = {"real": (-math.inf, math.inf), "positive": (0.0, math.inf), "share": (0.0, 1.0)}  # between which numbers lie
FIRST = {"real": 0.5, "positive": 2.0, "share": 0.5}  # where shapes start
STEEPEST = 1e-4  # the slope, by numbers of the data's own scale, up to which a minimum counts as found


def fit(
    who: str,
    distribution: Callable[..., Distribution],
    names: tuple[str, ...],
    defaults: Mapping[str, Any],
    x: ArrayLike,
    start: Mapping[str, float],
    fixed: Mapping[str, ArrayLike],
) -> dict[str, Array]:
    """Return all parameters of the greatest likelihood; what the arguments are stands in `Family.fit`."""
    for name in (*start, *fixed):
        if name not in names:
            raise ArgumentError(f"{who}.fit: there is no parameter {name!r}: its parameters are {', '.join(names)}")
    data = read_real(x, who)
    if not data.size:
        raise ArgumentError(f"{who}.fit: no data: got {data.aval}; give one number or more")
    check_data(data, np.isfinite, who, "data are finite numbers", "leave them out")
    held = {name: read_real(value, who) for name, value in fixed.items()}
    kinds = _free(who, distribution, names, defaults, held)
    _check_given(who, kinds, held, start)
    ways = {name: WAYS[kind] for name, kind in kinds.items() if name not in ("loc", "scale")}
    first = {name: asarray(way[1](start.get(name, FIRST[kinds[name]])), float64) for name, way in ways.items()}
    first |= {name: asarray(0.0, float64) for name in ("loc", "scale") if name in kinds}
    place = _place(data, kinds, held, start)

    def parameters(z: dict[str, Array], known: dict[str, Array], place: tuple[Array, Array]) -> dict[str, Array]:
        free = {name: way[0](z[name]) for name, way in ways.items()}
        if "loc" in z:
            free["loc"] = place[0] + place[1] * z["loc"]
        if "scale" in z:
            free["scale"] = place[1] * exp(z["scale"])
        return {name: free[name] if name in z else known[name] for name in names}

    def loss(z: dict[str, Array], data: Array, known: dict[str, Array], place: tuple[Array, Array]) -> Array:
        with quiet():
            return -mean(distribution(**parameters(z, known, place)).value("logpdf", data))

    before = stop_gradient(loss(first, data, held, place))
    if not isinstance(before, Tracer) and not np.isfinite(before):
        raise _misfit(who, distribution(**parameters(first, held, place)), data)
    with quiet():
        result = optim.minimize(loss, first, data, held, place, method="bfgs", tolerance=1e-8, max_iterations=500)
    slope = _steepest(who, result, stack([*result.gradient.values()]), "give start=, or fix a parameter")
    is_maximum = isfinite(before) & (slope <= STEEPEST)
    fitted = parameters(result.x, held, place)
    return {name: where(is_maximum, value, math.nan) if name in kinds else value for name, value in fitted.items()}


def _steepest(who: str, result: Any, gradient: Array, remedy: str) -> Array:
    """Return the largest slope where a search has ended.

    Raises:
        ArgumentError: it is known, and not small.
    """
    slope = max_(abs_(stop_gradient(gradient)))
    if not isinstance(slope, Tracer) and not slope <= STEEPEST:
        raise ArgumentError(
            f"{who}.fit: no maximum of the likelihood was found: got a slope of {float(slope):.1e} ({result.reason}); "
            f"{remedy}"
        )
    return slope


def fit_shares(x: Array) -> Array:
    """Return the parameters of the likeliest Dirichlet law, from where its moments are those of the data (Minka 2000)."""
    if x.ndim != 2 or min(x.shape) < 2:
        raise ShapeError(f"dirichlet.fit: data are float[k, n] of two components and points at least: got {x.aval}")
    check_data(x, lambda y: y > 0, "dirichlet", "data are shares above 0 with the sum 1", "leave such points out")
    sums, support = sum_(x, axis=0), "data are shares with the sum 1"
    check_data(sums, lambda y: np.abs(y - 1) < 1e-6, "dirichlet", support, "divide by it", name="sums")
    first, second = mean(x, axis=1), mean(x * x, axis=1)
    total = mean((first - second) / where(second > first * first, second - first * first, 1e-12))
    start = log(stop_gradient(first * where(total > 0, total, 1.0)))

    def loss(z: Array, logs: Array) -> Array:
        a = exp(z)
        return sum_(gammaln(a)) - gammaln(sum_(a)) - sum_((a - 1) * logs)

    logs = mean(log(x), axis=1)
    with quiet():
        result = optim.minimize(loss, start, logs, method="bfgs", tolerance=1e-10, max_iterations=500)
    slope = _steepest("dirichlet", result, result.gradient, "give points that differ")
    a = stop_gradient(exp(result.x))
    for _ in range(2):  # Newton's steps, which carry derivatives, the second for second ones (Minka 2000, section 1)
        rise, fall = polygamma(1, a), polygamma(1, sum_(a))
        gap = digamma(a) - digamma(sum_(a)) - logs
        a = a - (gap + fall * sum_(gap / rise) / (1 - fall * sum_(1 / rise))) / rise
    return where(slope <= STEEPEST, a, math.nan)


def _check_given(who: str, kinds: Mapping[str, str], held: Mapping[str, Array], start: Mapping[str, float]) -> None:
    """Raise where nothing is fitted, and for starts of parameters that are not fitted or outside of their range."""
    if not kinds:
        raise ArgumentError(f"{who}.fit: nothing is left to fit: got {', '.join(held)}; leave a parameter out")
    for name, value in start.items():
        if name not in kinds:
            raise ArgumentError(
                f"{who}.fit: {name} is not fitted, and has no start: got {value}; leave it out of start"
            )
        low, high = ENDS[kinds[name]]
        if not low < value < high:
            raise ArgumentError(f"{who}.fit: {name} lies between {low:g} and {high:g}: got {value}; start inside")


def _misfit(who: str, law: Distribution, data: Array) -> ArgumentError:
    """Return the error that names the first number of the data without a finite likelihood, and the support."""
    x = np.asarray(data)
    with quiet():
        heights = np.asarray(law.value("logpdf", data))
    shape = np.broadcast_shapes(heights.shape, x.shape)  # parameters may have axes of their own
    places = np.argwhere(~np.isfinite(np.broadcast_to(heights, shape)))
    if not len(places):
        return ArgumentError(
            f"{who}.fit: the likelihood at the start is beyond all numbers: got {data.aval}; give start="
        )
    low, high, support = _support(law, tuple(places[0].tolist()), shape)
    own: list[list[int]] = np.minimum(places[:, len(shape) - x.ndim :], np.array(x.shape, int) - 1).tolist()
    rows: list[tuple[int, ...]] = list(dict.fromkeys(map(tuple, own)))
    places = np.array(rows, int).reshape(len(rows), x.ndim)
    way = _way_inside(law, low, float(x[tuple(places[0].tolist())]), high)
    return ArgumentError(
        f"{who}.fit: data outside of the support have no likelihood: got {name_first(x, places)}, and the support "
        f"{support}; {way}"
    )


def _way_inside(law: Distribution, low: float, first: float, high: float) -> str:
    """Return what to do about a number without a likelihood, beside the ends of the support."""
    if not isinstance(law, ContinuousDistribution) and not first.is_integer():
        return "round them"
    if low < first < high:
        return "leave them out, or give start="
    if not isinstance(law, ContinuousDistribution):
        return "leave them out, or give other known parameters"
    ends = "loc=" if law.low == 0 and is_endless(law.high) else "loc= and scale="
    return f"leave them out, or give {ends} of a support that holds them"


def name_first(x: np.ndarray[Any, Any], places: np.ndarray[Any, Any], name: str = "x") -> str:
    """Return the first of some numbers of the data with its position, and how many more there are."""
    place = tuple(places[0].tolist())
    named = f"{name}[{', '.join(map(str, place))}] = {x[place]}" if place else f"{name} = {x}"
    return named + (f" and {len(places) - 1} more" if len(places) > 1 else "")


def read_real(x: ArrayLike, who: str) -> Array:
    """Return data or parameters as float64, or raise `DtypeError` where they are complex."""
    return floating(f"{who}.fit", x)[0].astype(float64)


def check_data(x: Array, holds: Callable[[Any], Any], who: str, support: str, way: str, name: str = "x") -> None:
    """Raise where a number of known data does not lie in a support, naming the first."""
    if isinstance(x, Tracer):
        return
    data = np.asarray(x)
    places = np.argwhere(~holds(data))
    if len(places):
        raise ArgumentError(f"{who}.fit: {support}: got {name_first(data, places, name)}; {way}")


def _support(law: Distribution, place: tuple[int, ...], shape: tuple[int, ...]) -> tuple[float, float, str]:
    """Return the ends of a law's support at one number of the data, and how the support is written."""
    scale = law.scale if isinstance(law, ContinuousDistribution) else 1.0
    low, high = (
        float(np.broadcast_to(np.asarray(law.loc) + np.asarray(scale) * np.asarray(end), shape)[place])
        for end in (law.low, law.high)
    )
    if not isinstance(law, ContinuousDistribution):
        return low, high, f"whole numbers from {low:g} to {high:g}"
    left = "(" if law.is_open or math.isinf(low) else "["
    return low, high, f"{left}{low:g}, {high:g}{')' if law.is_open or math.isinf(high) else ']'}"


def _free(
    who: str,
    distribution: Callable[..., Distribution],
    names: tuple[str, ...],
    defaults: Mapping[str, Any],
    held: dict[str, Array],
) -> dict[str, str]:
    """Return of each parameter that is to be fitted what numbers it may be, found by trying some; hold the others."""
    shapes = [name for name in names if name not in ("loc", "scale") and name not in held]
    known = {name: 1.0 for name in ("loc", "scale") if name in names} | dict(held)

    def allows(name: str, value: float) -> bool:
        others = dict.fromkeys(shapes, 0.5)
        allowed = distribution(**{**others, **known, name: asarray(value, float64)}).allowed
        return bool(np.all(np.asarray(allowed)))

    kinds = dict[str, str]()
    for name in shapes:
        kind = PROBES.get((allows(name, -0.5), allows(name, 0.5), allows(name, 1.5)))
        if kind is None:
            raise ArgumentError(f"{who}.fit: {name} is not fitted: it is no real number; give {name}=")
        kinds[name] = kind
    law = distribution(**{**{name: asarray(FIRST[kinds[name]], float64) for name in shapes}, **known})
    kinds |= {name: kind for name, kind in _free_places(who, law).items() if name not in held}
    for name in names:
        if name not in kinds and name not in held:
            held[name] = asarray(defaults[name], float64)
    return kinds


def _free_places(who: str, law: Distribution) -> dict[str, str]:
    """Return what numbers location and scale may be: those that leave the ends of the support where they are."""
    if not isinstance(law, ContinuousDistribution):
        return {}
    if isinstance(law.low, Array) or isinstance(law.high, Array):
        raise ArgumentError(f"{who}.fit: its ends are parameters, and are not fitted by slopes; use afx.optim.minimize")
    endless = is_endless(law.low) + is_endless(law.high)  # how many ends are
    return [{}, {"scale": "positive"}, {"loc": "real", "scale": "positive"}][endless]


def _place(
    data: Array, kinds: Mapping[str, str], held: Mapping[str, Array], start: Mapping[str, float]
) -> tuple[Array, Array]:
    """Return the location and scale to start from: the median of the data, and their mean distance from the location.

    What is fitted is a step from there in units of this scale, so that slopes do not depend on the unit of the data.
    """
    x = stop_gradient(data)
    if "loc" in kinds:
        loc = asarray(start["loc"], float64) if "loc" in start else median(x)
    else:
        loc = stop_gradient(held["loc"]) if "loc" in held else asarray(0.0, float64)
    if "scale" in start:
        return loc, asarray(start["scale"], float64)
    scale = mean(abs_(x - loc)) if "scale" in kinds or "scale" not in held else mean(stop_gradient(held["scale"]))
    return loc, where(scale > 0, scale, 1.0)


# --- Families: distributions as functions of their parameters, which differentiate by the argument and by every
# parameter
#
# A family is one function from parameters to a `Distribution`, decorated with `continuous` or `discrete`; it adds
# dtypes and checks of parameters, and has the methods that all laws share.

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

    def _repr_html_(self) -> str:
        return function_html(repr(self)[1:-1], self._distribution)

    def __reduce__(self) -> str:
        return self.__name__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Frozen:
        """Return the law at these parameters: a tree, with the same methods, of arguments alone.

        >>> afx.stats.norm(0.0, 2.0).cdf(0.0)
        Array(0.5, dtype=float64)
        """
        rest = {*self._names[len(args) :]}
        if len(args) > len(self._names) or not rest - self._defaults.keys() <= kwargs.keys() <= rest:
            self._refuse(args, kwargs)
        return Frozen(self, args, kwargs)

    def shapes(self, *args: P.args, **kwargs: P.kwargs) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the shapes of independent values and of one, which is a number."""
        return broadcast_arrays(*self._arrays((), args, kwargs))[0].shape, ()

    def log_events(self, x: ArrayLike, *args: P.args, **kwargs: P.kwargs) -> Array:
        """Return the logarithm of the density, or of the probability."""
        return self._value("logpdf", x, args, kwargs)

    def support(self, *args: P.args, **kwargs: P.kwargs) -> Support:
        """Return where numbers lie."""
        law = self._distribution(*self._arrays((), args, kwargs))
        if not isinstance(law, ContinuousDistribution):
            return Support("whole", law.low, law.high)
        low, high = (
            None if _is_nowhere(end) else asarray(law.loc) + asarray(law.scale) * end for end in (law.low, law.high)
        )
        return Support("real", low, high)

    def _arrays(
        self, xs: tuple[ArrayLike, ...], args: tuple[Any, ...], kwargs: dict[str, Any], alone: DType = float64
    ) -> list[Array]:
        """Return arguments, and behind them the parameters, all in one floating dtype."""
        given = {**dict(zip(self._names, args, strict=False)), **kwargs}
        values = {**self._defaults, **given}
        if len(given) < len(args) + len(kwargs) or values.keys() != self._keys:
            self._refuse(args, kwargs)
        return floating(self.__name__, *xs, *[values[name] for name in self._names], alone=alone)

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

        `afx.random` draws from the commoner laws more quickly. Whole numbers come as floats, draws of integers' and Python's
        numbers' laws in the default dtype.

        Args:
            key: a random key.
            shape: of the draws; that of the parameters without it.
            *args: the parameters.
            **kwargs: the parameters, by name.

        >>> afx.stats.gamma.rvs(afx.random.key(0), (2, 3), 2.5, scale=2.0).shape
        (2, 3)
        """
        parameters = self._arrays((), args, kwargs, get_default_dtype())
        lead = broadcast_arrays(*parameters)[0].shape
        dtype = parameters[0].dtype
        q = uniform(key, lead if shape is None else shape, dtype=dtype)
        with quiet():
            return self._distribution(*parameters).quantile(maximum(q, epsilon(dtype) / 8))

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
