"""Schedules: the learning rate as a pure function of the number of steps taken."""

from __future__ import annotations

import math
from collections.abc import Mapping

from afx.core.array.array import Array
from afx.core.dtypes import float64
from afx.errors import ArgumentError
from afx.ops.creation.creation import asarray
from afx.ops.elementwise.exponential import exp
from afx.ops.elementwise.rounding import floor
from afx.ops.elementwise.trigonometry import cos
from afx.ops.elementwise.where import clip, where
from afx.optim.hyperparameters import Schedule

__all__ = ["constant", "cosine_decay", "exponential_decay", "linear", "piecewise_constant", "warmup_cosine"]


def _steps(steps: int, who: str) -> int:
    if steps < 1:
        raise ArgumentError(f"{who}: the number of steps is 1 or more: got {steps}; count the steps to its end")
    return steps


def constant(value: float) -> Schedule:
    """Return the schedule that always gives ``value``.

    >>> constant(0.1)(0)
    0.1
    """
    return lambda count: value


def linear(start: float, end: float, steps: int) -> Schedule:
    """Return the schedule that goes from ``start`` to ``end`` in equal steps, and stays there.

    >>> linear(1.0, 0.0, 4)(2.0)
    Array(0.5, dtype=float32)
    """
    _steps(steps, "linear")
    return lambda count: start + (end - start) * clip(count / steps, 0.0, 1.0)


def exponential_decay(start: float, rate: float, steps: int, *, staircase: bool = False) -> Schedule:
    """Return the schedule ``start · rate^(count / steps)``.

    Args:
        start: the first learning rate.
        rate: the factor over so many steps, above 0.
        steps: how many.
        staircase: changes only at every full number of ``steps``.

    >>> exponential_decay(1.0, 0.25, 2)(asarray(2.0))
    Array(0.25, dtype=float32)
    """
    _steps(steps, "exponential_decay")
    if not rate > 0:
        raise ArgumentError(f"exponential_decay: the rate is above 0: got {rate}; 1 keeps the learning rate")

    def schedule(count: Array) -> Array:
        turns = count / steps
        return start * exp(math.log(rate) * (floor(turns) if staircase else turns))

    return schedule


def cosine_decay(start: float, steps: int, *, alpha: float = 0.0) -> Schedule:
    """Return the schedule that falls from ``start`` to ``alpha · start`` along half a cosine, and stays there.

    Args:
        start: the first learning rate.
        steps: how many it takes.
        alpha: the part of ``start`` that is left.

    Source: Loshchilov & Hutter 2017, equation 5, without restarts.

    >>> cosine_decay(1.0, 10)(asarray(10.0))
    Array(0., dtype=float32)
    """
    _steps(steps, "cosine_decay")

    def schedule(count: Array) -> Array:
        done = clip(count / steps, 0.0, 1.0)
        return start * ((1 - alpha) * 0.5 * (1 + cos(math.pi * done)) + alpha)

    return schedule


def warmup_cosine(peak: float, warmup: int, steps: int, *, start: float = 0.0, end: float = 0.0) -> Schedule:
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
    if not 0 < warmup < steps:
        raise ArgumentError(
            f"warmup_cosine: the warm-up takes 1 step or more, fewer than the whole: got {warmup} of {steps} steps; "
            "cosine_decay has none"
        )

    def schedule(count: Array) -> Array:
        rising = start + (peak - start) * count / warmup
        done = clip((count - warmup) / (steps - warmup), 0.0, 1.0)
        return where(count < warmup, rising, end + (peak - end) * 0.5 * (1 + cos(math.pi * done)))

    return schedule


def piecewise_constant(start: float, factors: Mapping[int, float]) -> Schedule:
    """Return the schedule that multiplies the rate by a factor at each of the given steps.

    Args:
        start: the first learning rate.
        factors: of each step from which on the rate is multiplied, its factor.

    >>> piecewise_constant(1.0, {5: 0.5})(asarray(7.0))
    Array(0.5, dtype=float64)
    """
    pairs = sorted(factors.items())

    def schedule(count: Array) -> Array:
        rate = asarray(start, float64)
        for step, factor in pairs:
            rate = where(count >= step, rate * factor, rate)
        return rate

    return schedule
