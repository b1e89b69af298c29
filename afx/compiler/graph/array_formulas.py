"""Array formulas, for machine code without NumPy: groups of channels, wide windows, exponentials of matrices."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from afx.compiler.schedule.arrays import SHORT_WINDOW
from afx.core.graph import Equation
from afx.core.registry import FUNCTIONS
from afx.core.tracing.tracer import bind

F: Any = FUNCTIONS


# -- convolutions of groups of channels --
def _by_groups(eq: Equation, *xs: Any) -> Any:
    """Return a convolution as those of its groups of channels, which are parts of all last axes."""
    params = eq.keywords
    groups = params["groups"]
    if "shape" in params:
        params = {**params, "shape": (*params["shape"][:-1], params["shape"][-1] // groups)}
    parts = zip(*[F.split(x, groups, axis=-1) for x in xs], strict=True)
    return F.concatenate([bind(eq.primitive, *part, **{**params, "groups": 1}) for part in parts], axis=-1)


# -- windows of many elements: one axis in place of theirs, the last one --
def _flat(x: Any, axis: tuple[int, ...]) -> Any:
    moved = F.moveaxis(x, axis, range(x.ndim - len(axis), x.ndim))
    return moved.reshape((*moved.shape[: x.ndim - len(axis)], -1))


def _largest(x: Any, *, axis: tuple[int, ...]) -> Any:
    return F.max(x, axis=axis)


def _first(x: Any, z: Any, *, axis: tuple[int, ...]) -> Any:
    hits = _flat(x, axis) == z[..., None]
    return F.where(F.any(hits, axis=-1), F.argmax(hits, axis=-1), hits.shape[-1] - 1)  # of nan the last


def _put(ct: Any, k: Any, *, axis: tuple[int, ...], window: tuple[int, ...]) -> Any:
    here = k[..., None] == F.arange(math.prod(window), dtype=k.dtype)
    parts = F.where(here, ct[..., None], F.zeros((), ct.dtype)).reshape((*ct.shape, *window))
    return F.moveaxis(parts, range(ct.ndim, parts.ndim), axis)


def _pick(x: Any, k: Any, *, axis: tuple[int, ...]) -> Any:
    flat = _flat(x, axis)
    here = k[..., None] == F.arange(flat.shape[-1], dtype=k.dtype)
    return F.sum(F.where(here, flat, F.zeros((), x.dtype)), axis=-1)


WINDOWS: dict[str, Callable[..., Any]] = {
    "first_of_window": _first,
    "max_first": _largest,
    "pick_from_window": _pick,
    "put_into_window": _put,
}


# -- exponents, and exponentials of matrices --
def _exponent(x: Any) -> Any:
    """Return the exponent of a number as a fraction from a half to 1: by its logarithm, whose floor is put right by one."""
    wide = F.abs(F.astype(x, np.float64))  # of which every single is a normal number
    is_tiny, is_regular = wide < 2.0**-1022, (wide > 0) & (wide < math.inf)
    size = F.where(is_regular, F.where(is_tiny, wide * 2.0**54, wide), 0.5)
    whole = F.floor(F.log2(size)) + 1.0
    fraction = size * F.exp2(-whole)
    whole = whole + F.where(fraction >= 1, 1.0, F.where(fraction < 0.5, -1.0, 0.0))
    return F.where(is_regular, F.where(is_tiny, whole - 54.0, whole), 0.0)


TERMS, LARGEST_NORM = 16, 0.75  # of Taylor's series, which is exact up to this norm (Bader, Blanes and Casas 2019)


def _expm(a: Any) -> Any:
    """Return the exponential of matrices by scaling and squaring of Taylor's series (Paterson and Stockmeyer 1973)."""
    norm = F.astype(F.max(F.sum(F.abs(a), axis=-2), axis=-1, initial=0.0), np.float64)
    is_finite = F.isfinite(norm)
    halvings = F.ceil(F.log2(F.maximum(F.where(is_finite, norm, 1.0) / LARGEST_NORM, 1.0)))
    x = (
        F.where(is_finite[..., None, None], a, F.zeros((), a.dtype))
        * F.astype(F.exp2(-halvings), a.dtype)[..., None, None]
    )
    square = x @ x
    powers = [F.eye(a.shape[-1], dtype=a.dtype), x, square, square @ x]
    fourth, z = square @ square, powers[0] / math.factorial(TERMS)
    for first in range(TERMS - 4, -1, -4):
        part = F.zeros((), a.dtype)
        for k, power in enumerate(powers):
            part = part + power / math.factorial(first + k)
        z = fourth @ z + part

    def is_open(state: Any) -> Any:
        return F.any(state[0] < halvings)

    def squared(state: Any) -> Any:
        k, z = state
        return k + 1.0, F.where((k < halvings)[..., None, None], z @ z, z)

    z = F.while_loop(is_open, squared, (F.zeros((), np.float64), z))[1]
    return F.where(is_finite[..., None, None], z, F.full((), math.nan, a.dtype))


WHOLE: dict[str, Callable[..., Any]] = {"expm": _expm, "exponent": _exponent}


def array_formula(eq: Equation) -> Callable[..., Any] | None:
    """Return the formula of an equation's operands that stands for it in machine code without NumPy; None for none."""
    name, params = eq.primitive.name, eq.keywords
    if name in WHOLE:
        return WHOLE[name]
    if params.get("groups", 1) > 1:
        return lambda *xs, **_: _by_groups(eq, *xs)
    if name in WINDOWS:
        axes: tuple[int, ...] = params["axis"]
        shape: list[int] = params["window"] if "window" in params else [eq.inputs[0].aval.shape[a] for a in axes]
        return WINDOWS[name] if math.prod(shape) > SHORT_WINDOW else None
    return None
