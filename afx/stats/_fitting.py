"""Maximum likelihood: the parameters of a law under which data are likeliest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.dtypes import float64
from afx.core.tracing.tracer import Tracer
from afx.errors import ArgumentError
from afx.ops.creation.creation import asarray
from afx.ops.elementwise.exponential import exp, sigmoid
from afx.ops.reductions.sums import mean
from afx.optim.solvers.minimize import minimize
from afx.stats._distribution import ContinuousDistribution, Distribution, is_endless, quiet

__all__ = ["fit"]

PROBES = {(True, True, True): "real", (False, True, True): "positive", (False, True, False): "share"}
WAYS: dict[str, tuple[Callable[[Array], Array], Callable[[float], float]]] = {  # from free numbers, and back
    "real": (lambda z: z, lambda v: v),
    "positive": (exp, lambda v: float(np.log(v))),
    "share": (sigmoid, lambda v: float(np.log(v) - np.log1p(-v))),
}


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
    data = asarray(x).astype(float64)
    held = {name: asarray(value).astype(float64) for name, value in fixed.items()}
    kinds, values = _free(who, distribution, names, defaults, held, start)
    _place(data, kinds, values, held, start)
    if not kinds:
        raise ArgumentError(f"{who}.fit: nothing is left to fit: got {', '.join(held)}; leave a parameter out")
    ways = {name: WAYS[kind] for name, kind in kinds.items()}
    first = {name: asarray(way[1](values[name]), float64) for name, way in ways.items()}

    def parameters(z: dict[str, Array], known: dict[str, Array]) -> dict[str, Array]:
        return {name: ways[name][0](z[name]) if name in z else known[name] for name in names}

    def loss(z: dict[str, Array], data: Array, known: dict[str, Array]) -> Array:
        with quiet():
            return -mean(distribution(**parameters(z, known)).value("logpdf", data))

    _check_start(who, loss(first, data, held))
    with quiet():
        result = minimize(loss, first, data, held, method="bfgs", tolerance=1e-8, max_iterations=500)
    slope = max([abs(_number(g)) for g in result.gradient.values()], default=0.0)
    if slope > 1e-4:
        raise ArgumentError(
            f"{who}.fit: no maximum of the likelihood was found: got a slope of {slope:.1e} ({result.reason}); give start=, "
            "or fix a parameter"
        )
    return parameters(result.x, held)


def _number(x: Any) -> float:
    """Return a value as a number, 0 where it is not known yet."""
    return 0.0 if isinstance(x, Tracer) else float(x)


def _check_start(who: str, value: Array) -> None:
    if not np.isfinite(_number(value)):
        raise ArgumentError(
            f"{who}.fit: data outside of the support have no likelihood: got {_number(value)}; leave them out, or give start="
        )


def _free(
    who: str,
    distribution: Callable[..., Distribution],
    names: tuple[str, ...],
    defaults: Mapping[str, Any],
    held: dict[str, Array],
    start: Mapping[str, float],
) -> tuple[dict[str, str], dict[str, float]]:
    """Return of each shape that is to be fitted what numbers it may be, and where it starts; found by trying some."""
    shapes = [name for name in names if name not in ("loc", "scale") and name not in held]
    known: dict[str, Any] = {name: 1.0 for name in ("loc", "scale") if name in names} | dict(held)

    def allows(name: str, value: float) -> bool:
        others = dict.fromkeys(shapes, 0.5)
        allowed = distribution(**{**others, **known, name: asarray(value, float64)}).allowed
        return bool(np.all(np.asarray(allowed)))

    kinds, values = dict[str, str](), dict[str, float]()
    for name in shapes:
        kind = PROBES.get((allows(name, -0.5), allows(name, 0.5), allows(name, 1.5)))
        if kind is None:
            raise ArgumentError(f"{who}.fit: {name} is not fitted: it is no real number; give {name}=")
        kinds[name], values[name] = kind, start.get(name, 2.0 if kind == "positive" else 0.5)
    law = distribution(**{**{name: asarray(values[name], float64) for name in shapes}, **known})
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
    return kinds, values


def _place(
    data: Array,
    kinds: Mapping[str, str],
    values: dict[str, float],
    held: Mapping[str, Array],
    start: Mapping[str, float],
) -> None:
    """Set the location to the median of the data and the scale to their mean distance from it, to start from."""
    x = np.zeros(1) if isinstance(data, Tracer) else np.asarray(data)
    loc = start.get("loc", float(np.median(x)))
    if "loc" in kinds:
        values["loc"] = loc
    if "scale" in kinds:
        middle = loc if "loc" in kinds else _number(held.get("loc", 0.0))
        values["scale"] = start.get("scale", float(np.abs(x - middle).mean()) or 1.0)
