"""Maximum likelihood: the parameters of a law under which data are likeliest."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.dtypes import float64
from afx.core.tracing.tracer import Tracer
from afx.errors import ArgumentError, ShapeError
from afx.ops.creation.creation import asarray
from afx.ops.creation.stop_gradient import stop_gradient
from afx.ops.elementwise.arithmetic import abs as abs_
from afx.ops.elementwise.comparison import isfinite
from afx.ops.elementwise.exponential import exp, log, sigmoid
from afx.ops.elementwise.where import where
from afx.ops.manipulation.join import stack
from afx.ops.reductions.quantiles import median
from afx.ops.reductions.sums import max as max_
from afx.ops.reductions.sums import mean
from afx.ops.reductions.sums import sum as sum_
from afx.ops.special.gamma import gammaln
from afx.optim.solvers.minimize import minimize
from afx.stats._distribution import ContinuousDistribution, Distribution, floating, is_endless, quiet

__all__ = ["fit", "fit_shares"]

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
    if not kinds:
        raise ArgumentError(f"{who}.fit: nothing is left to fit: got {', '.join(held)}; leave a parameter out")
    _check_given(who, kinds, start)
    ways = {name: WAYS[kind] for name, kind in kinds.items() if name not in ("loc", "scale")}
    first = {name: asarray(way[1](start.get(name, FIRST[kinds[name]])), float64) for name, way in ways.items()}
    first |= {name: asarray(0.0, float64) for name in ("loc", "scale") if name in kinds}

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

    place = _place(data, kinds, held, start)
    before = stop_gradient(loss(first, data, held, place))
    if not isinstance(before, Tracer) and not np.isfinite(before):
        raise _misfit(who, distribution(**parameters(first, held, place)), data)
    with quiet():
        result = minimize(loss, first, data, held, place, method="bfgs", tolerance=1e-8, max_iterations=500)
    slope = max_(abs_(stack([stop_gradient(g) for g in result.gradient.values()])))
    if not isinstance(slope, Tracer) and not slope <= STEEPEST:
        raise ArgumentError(
            f"{who}.fit: no maximum of the likelihood was found: got a slope of {float(slope):.1e} ({result.reason}); give "
            "start=, or fix a parameter"
        )
    found = isfinite(before) & (slope <= STEEPEST)
    fitted = parameters(result.x, held, place)
    return {name: where(found, value, math.nan) if name in kinds else value for name, value in fitted.items()}


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

    with quiet():
        result = minimize(loss, start, mean(log(x), axis=1), method="bfgs", tolerance=1e-10, max_iterations=500)
    slope = max_(abs_(stop_gradient(result.gradient)))
    if not isinstance(slope, Tracer) and not slope <= STEEPEST:
        raise ArgumentError(
            f"dirichlet.fit: no maximum of the likelihood was found: got a slope of {float(slope):.1e} ({result.reason}); "
            "give points that differ"
        )
    return where(slope <= STEEPEST, exp(result.x), math.nan)


def _check_given(who: str, kinds: Mapping[str, str], start: Mapping[str, float]) -> None:
    """Raise an error for starts of parameters that are not fitted, and for those that are outside of their range."""
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
    first = float(x[tuple(places[0].tolist())])
    if not isinstance(law, ContinuousDistribution) and not first.is_integer():
        way = "round them"
    elif low < first < high:
        way = "leave them out, or give start="
    elif isinstance(law, ContinuousDistribution):
        ends = "loc=" if law.low == 0 and is_endless(law.high) else "loc= and scale="
        way = f"leave them out, or give {ends} of a support that holds them"
    else:
        way = "leave them out, or give other known parameters"
    return ArgumentError(
        f"{who}.fit: data outside of the support have no likelihood: got {name_first(x, places)}, and the support "
        f"{support}; {way}"
    )


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
    known: dict[str, Any] = {name: 1.0 for name in ("loc", "scale") if name in names} | dict(held)

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
    if isinstance(law, ContinuousDistribution):
        if isinstance(law.low, Array) or isinstance(law.high, Array):
            raise ArgumentError(
                f"{who}.fit: its ends are parameters, and are not fitted by slopes; use afx.optim.minimize"
            )
        free = is_endless(law.low) and is_endless(law.high)
        if "loc" not in held and free:
            kinds["loc"] = "real"
        if "scale" not in held and (is_endless(law.low) or is_endless(law.high)):
            kinds["scale"] = "positive"
    for name in names:
        if name not in kinds and name not in held:
            held[name] = asarray(defaults[name], float64)
    return kinds


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
