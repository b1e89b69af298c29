"""Schedules: the learning rate as a pure function of the number of steps taken."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from afx.core.array.array import Array
from afx.core.dtypes import float64
from afx.errors import ArgumentError
from afx.ops.creation.creation import asarray
from afx.ops.elementwise.exponential import exp
from afx.ops.elementwise.rounding import floor
from afx.ops.elementwise.trigonometry import cos
from afx.ops.elementwise.where import clip, maximum, minimum, where
from afx.optim.hyperparameters import ArraySchedule, check_numbers

__all__ = [
    "constant",
    "cosine_decay",
    "exponential_decay",
    "linear",
    "piecewise_constant",
    "polynomial",
    "warmup_cosine",
]


@attrs.frozen(eq=False)
class Planned:
    """A schedule as data, which files hold: the name of its rule, and its settings."""

    rule: str
    settings: tuple[tuple[str, Any], ...]

    def __call__(self, count: Array | float) -> Any:
        """Return the learning rate at a step."""
        if self.rule not in RULES:
            raise ArgumentError(f"schedule: no rule of this name: got {self.rule!r}; afx has {sorted(RULES)}")
        return RULES[self.rule](count, **dict(self.settings))


RULES: dict[str, Callable[..., Array | float]] = {}  # by name: the learning rate from a count and settings


def plan(rule: Callable[..., Array | float], **settings: Any) -> Planned:
    """Return a schedule by a rule and its settings."""
    return Planned(rule.__name__.strip("_"), tuple(settings.items()))


def rule(fn: Callable[..., Array | float]) -> Callable[..., Array | float]:
    """Enter a rule under its name."""
    RULES[fn.__name__.strip("_")] = fn
    return fn


def check_steps(steps: int, who: str) -> int:
    check_numbers(who, steps=steps)
    if not steps >= 1:
        raise ArgumentError(f"{who}: the number of steps is 1 or more: got {steps}; count the steps to its end")
    return steps


def constant(value: float) -> Callable[[Array | float], Array | float]:
    """Return the schedule that always gives ``value``, as an array where the count is one of float64.

    >>> constant(0.1)(0)
    0.1
    """
    check_numbers("constant", value=value)
    return plan(_constant, value=value)


@rule
def _constant(count: Array | float, value: float) -> Array | float:
    return asarray(value, float64) if isinstance(count, Array) and count.dtype == float64 else value


def linear(start: float, end: float, steps: int, *, begin: int = 0) -> ArraySchedule:
    """Return the schedule that goes from ``start`` to ``end`` in equal steps, and stays there.

    Args:
        start: the first learning rate.
        end: the last one.
        steps: how many steps it takes.
        begin: the step at which it leaves ``start``.

    >>> linear(1.0, 0.0, 4)(2.0)
    Array(0.5, dtype=float32)
    """
    check_steps(steps, "linear")
    check_numbers("linear", start=start, end=end, begin=begin)
    return plan(_linear, start=start, end=end, steps=steps, begin=begin)


@rule
def _linear(count: Array | float, start: float, end: float, steps: int, begin: int) -> Array:
    return start + (end - start) * clip((count - begin) / steps, 0.0, 1.0)


def polynomial(start: float, end: float, power: float, steps: int, *, begin: int = 0) -> ArraySchedule:
    """Return the schedule ``(start - end) · (1 - count / steps)^power + end``, which stays at ``end``.

    Args:
        start: the first learning rate.
        end: the last one.
        power: the exponent, above 0.
        steps: how many steps it takes.
        begin: the step at which it leaves ``start``.

    >>> polynomial(1.0, 0.0, 2.0, 4)(2.0)
    Array(0.25, dtype=float32)
    """
    check_steps(steps, "polynomial")
    check_numbers("polynomial", start=start, end=end, power=power, begin=begin)
    if not power > 0:
        raise ArgumentError(f"polynomial: the power is above 0: got {power}; 1 goes in equal steps")
    return plan(_polynomial, start=start, end=end, power=power, steps=steps, begin=begin)


@rule
def _polynomial(count: Array | float, start: float, end: float, power: float, steps: int, begin: int) -> Array:
    return (start - end) * (1 - clip((count - begin) / steps, 0.0, 1.0)) ** power + end


def exponential_decay(
    start: float, rate: float, steps: int, *, staircase: bool = False, begin: int = 0, end: float | None = None
) -> ArraySchedule:
    """Return the schedule ``start · rate^(count / steps)``.

    Args:
        start: the first learning rate.
        rate: the factor over so many steps, above 0.
        steps: how many.
        staircase: changes only at every full number of ``steps``.
        begin: the step at which it leaves ``start``.
        end: where it stays once it is reached, if anywhere.

    >>> exponential_decay(1.0, 0.25, 2)(asarray(2.0))
    Array(0.25, dtype=float32)
    """
    check_steps(steps, "exponential_decay")
    check_numbers("exponential_decay", start=start, rate=rate, begin=begin, end=0.0 if end is None else end)
    if not rate > 0:
        raise ArgumentError(f"exponential_decay: the rate is above 0: got {rate}; 1 keeps the learning rate")
    return plan(_exponential, start=start, rate=rate, steps=steps, staircase=staircase, begin=begin, end=end)


@rule
def _exponential(
    count: Array | float, start: float, rate: float, steps: int, staircase: bool, begin: int, end: float | None
) -> Array:
    turns = maximum(count - begin, 0.0) / steps
    value = start * exp(math.log(rate) * (floor(turns) if staircase else turns))
    return value if end is None else maximum(value, end) if rate < 1 else minimum(value, end)


def cosine_decay(start: float, steps: int, *, alpha: float = 0.0, exponent: float = 1.0) -> ArraySchedule:
    """Return the schedule that falls from ``start`` to ``alpha · start`` along half a cosine, and stays there.

    Args:
        start: the first learning rate.
        steps: how many it takes.
        alpha: the part of ``start`` that is left.
        exponent: the power to which the cosine's part is raised.

    Source: Loshchilov & Hutter 2017, equation 5, without restarts.

    >>> cosine_decay(1.0, 10)(asarray(10.0))
    Array(0., dtype=float32)
    """
    check_steps(steps, "cosine_decay")
    check_numbers("cosine_decay", start=start, alpha=alpha, exponent=exponent)
    return plan(_cosine, start=start, steps=steps, alpha=alpha, exponent=exponent)


@rule
def _cosine(count: Array | float, start: float, steps: int, alpha: float, exponent: float) -> Array:
    done = clip(count / steps, 0.0, 1.0)
    fall = 0.5 * (1 + cos(math.pi * done))
    return start * ((1 - alpha) * (fall if exponent == 1 else fall**exponent) + alpha)


def warmup_cosine(peak: float, warmup: int, steps: int, *, start: float = 0.0, end: float = 0.0) -> ArraySchedule:
    """Return the schedule that rises from ``start`` to ``peak`` over ``warmup`` steps and falls to ``end`` at ``steps``.

    It rises in a line and falls along half a cosine. Source: Goyal et al. 2017, section 2.2, for the warm-up.

    Args:
        peak: the highest learning rate.
        warmup: the number of steps that it rises.
        steps: the number of all steps, those of the warm-up among them (as in Optax).
        start: the first learning rate.
        end: the last one, kept from then on.

    >>> warmup_cosine(1.0, 2, 10)(asarray(1.0))
    Array(0.5, dtype=float32)
    """
    check_numbers("warmup_cosine", peak=peak, warmup=warmup, steps=steps, start=start, end=end)
    if not 0 < warmup < steps:
        raise ArgumentError(
            f"warmup_cosine: the warm-up takes 1 step or more, fewer than the whole: got {warmup} of {steps} steps; "
            "cosine_decay has none"
        )
    return plan(_warmup_cosine, peak=peak, warmup=warmup, steps=steps, start=start, end=end)


@rule
def _warmup_cosine(count: Array | float, peak: float, warmup: int, steps: int, start: float, end: float) -> Array:
    rising = start + (peak - start) * count / warmup
    done = clip((count - warmup) / (steps - warmup), 0.0, 1.0)
    return where(count < warmup, rising, end + (peak - end) * 0.5 * (1 + cos(math.pi * done)))


def piecewise_constant(start: float, factors: Mapping[int, float]) -> ArraySchedule:
    """Return the schedule that multiplies the rate by a factor at each of the given steps.

    Args:
        start: the first learning rate.
        factors: by step, the factor that multiplies the rate from then on.

    >>> piecewise_constant(1.0, {5: 0.5})(asarray(7.0))
    Array(0.5, dtype=float64)
    """
    check_numbers("piecewise_constant", start=start)
    for step, factor in factors.items():
        check_numbers("piecewise_constant", step=step, factor=factor)
    return plan(_piecewise, start=start, pairs=tuple(sorted(factors.items())))


@rule
def _piecewise(count: Array | float, start: float, pairs: tuple[tuple[int, float], ...]) -> Array:
    rate = asarray(start, float64)
    for step, factor in pairs:
        rate = where(count >= step, rate * factor, rate)
    return rate
