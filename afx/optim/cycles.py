"""Composed schedules: joined ones, warm-ups of any, cycles and restarts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Literal

from afx.core.array.array import Array, ArrayLike
from afx.core.dtypes import float64
from afx.errors import ArgumentError
from afx.ops.creation.creation import asarray
from afx.ops.elementwise.arithmetic import sqrt
from afx.ops.elementwise.exponential import log
from afx.ops.elementwise.rounding import floor
from afx.ops.elementwise.trigonometry import cos
from afx.ops.elementwise.where import clip, maximum, where
from afx.optim.hyperparameters import ArraySchedule, Schedule, check_numbers
from afx.optim.schedules import check_steps, plan, rule

__all__ = ["cosine_restarts", "inverse_sqrt", "join", "one_cycle", "warmup"]


def join(schedules: Sequence[Schedule], boundaries: Sequence[int]) -> ArraySchedule:
    """Return the schedule that follows one after another, each from its own start.

    Args:
        schedules: what to follow.
        boundaries: the step at which each but the first takes over, in rising order; it then counts from 0.

    Raises:
        ArgumentError: there is not one boundary between each two, or they do not rise.

    >>> import afx
    >>> from afx import optim
    >>> join([optim.constant(1.0), optim.linear(1.0, 0.0, 4)], [10])(afx.asarray(12.0))
    Array(0.5, dtype=float64)
    """
    for boundary in boundaries:
        check_numbers("join", boundary=boundary)
    rises = all(a < b for a, b in itertools.pairwise(boundaries))
    if len(boundaries) != len(schedules) - 1 or not rises:
        raise ArgumentError(
            f"join: rising boundaries stand between schedules: got {len(schedules)} schedules and {list(boundaries)}; "
            "name the step at which each but the first takes over"
        )
    return plan(_join, schedules=tuple(schedules), boundaries=tuple(boundaries))


@rule
def _join(count: Array | float, schedules: Sequence[Schedule], boundaries: Sequence[int]) -> Array:
    count = count if isinstance(count, Array) else asarray(count, float64)
    value = _double(schedules[0](count))
    for boundary, following in zip(boundaries, schedules[1:], strict=True):
        value = where(count < boundary, value, _double(following(count - boundary)))
    return value


def warmup(schedule: Schedule, steps: int, *, start: float = 0.0) -> ArraySchedule:
    """Return a schedule behind a warm-up, which rises in a line to its first value.

    Args:
        schedule: any schedule; it counts from 0 at the end of the warm-up.
        steps: the number of steps that the rise takes.
        start: the first learning rate.

    >>> import afx
    >>> from afx import optim
    >>> rate = warmup(optim.cosine_decay(1.0, 10), 4)
    >>> rate(afx.asarray(2.0)), rate(afx.asarray(14.0))
    (Array(0.5, dtype=float64), Array(0., dtype=float64))
    """
    check_steps(steps, "warmup")
    check_numbers("warmup", start=start)
    return join([plan(_rising, schedule=schedule, steps=steps, start=start), schedule], [steps])


@rule
def _rising(count: Array | float, schedule: Schedule, steps: int, start: float) -> Array:
    return start + (_double(schedule(asarray(0.0, float64))) - start) * clip(count / steps, 0.0, 1.0)


def inverse_sqrt(peak: float, warmup: int) -> ArraySchedule:
    """Return the schedule that rises in a line to ``peak`` and falls as 1 / √count from there.

    Source: Vaswani et al. 2017, section 5.3, with the peak named.

    Args:
        peak: the highest learning rate.
        warmup: the step at which it is reached, 1 or more.

    >>> import afx
    >>> inverse_sqrt(1.0, 4)(afx.asarray(16.0))
    Array(0.5, dtype=float32)
    """
    check_steps(warmup, "inverse_sqrt")
    check_numbers("inverse_sqrt", peak=peak)
    return plan(_inverse_sqrt, peak=peak, warmup=warmup)


@rule
def _inverse_sqrt(count: Array | float, peak: float, warmup: int) -> Array:
    return peak * where(count < warmup, count / warmup, sqrt(warmup / maximum(count, float(warmup))))


def cosine_restarts(start: float, steps: int, *, growth: float = 1.0, end: float = 0.0) -> ArraySchedule:
    """Return the schedule that falls from ``start`` to ``end`` along half a cosine, again and again.

    Source: Loshchilov & Hutter 2017, equation 5 (SGDR); torch's ``CosineAnnealingWarmRestarts``.

    Args:
        start: the learning rate after each restart.
        steps: the length of the first period.
        growth: how many times longer each next period is, 1 or more.
        end: what each period falls to.

    Raises:
        ArgumentError: the length or the growth is below 1.

    >>> import afx
    >>> rate = cosine_restarts(1.0, 4, growth=2)
    >>> [round(float(rate(afx.asarray(t))), 3) for t in (0.0, 2.0, 4.0, 8.0, 12.0)]
    [1.0, 0.5, 1.0, 0.5, 1.0]
    """
    check_steps(steps, "cosine_restarts")
    check_numbers("cosine_restarts", start=start, growth=growth, end=end)
    if not growth >= 1:
        raise ArgumentError(f"cosine_restarts: the growth is 1 or more: got {growth}; 1 keeps the length of periods")
    return plan(_restarts, start=start, steps=steps, growth=growth, end=end)


@rule
def _restarts(count: Array | float, start: float, steps: int, growth: float, end: float) -> Array:
    def begin(turn: Array) -> Array:
        return steps * (growth**turn - 1) / (growth - 1)

    if growth == 1:
        done = count / steps - floor(count / steps)
    else:
        turn = floor(log(count * (growth - 1) / steps + 1) / math.log(growth))
        turn = where(count < begin(turn), turn - 1, where(count >= begin(turn + 1), turn + 1, turn))  # rounding
        done = (count - begin(turn)) / (steps * growth**turn)
    return end + (start - end) * 0.5 * (1 + cos(math.pi * done))


def one_cycle(
    peak: float,
    steps: int,
    *,
    rise: float = 0.3,
    fall: float | None = None,
    div_factor: float = 25.0,
    final_div_factor: float = 1e4,
    shape: Literal["cosine", "linear"] = "cosine",
    inclusive: bool = False,
) -> ArraySchedule:
    """Return the schedule that rises from ``peak / div_factor`` to ``peak`` and falls far below its start.

    Source: Smith & Topin 2018, as in Optax, whose linear form is ``shape="linear", fall=0.85``. torch's ``OneCycleLR`` ends at
    step ``steps - 1`` and does not round the step of the peak: ``inclusive=True``.

    Args:
        peak: the highest learning rate.
        steps: the number of all steps.
        rise: the part of the steps that it rises.
        fall: the part of the steps after which it is back at its start; None falls to the end at once.
        div_factor: ``peak`` over the first learning rate.
        final_div_factor: the first learning rate over the last one.
        shape: of the rise and the fall: half a cosine, or a line.
        inclusive: counts from the first of the steps to the last, as torch does, not to the one behind it.

    Raises:
        ArgumentError: parts of the steps that are not between 0 and 1, or in another order.

    >>> import afx
    >>> rate = one_cycle(1.0, 10)
    >>> [round(float(rate(afx.asarray(t))), 2) for t in (0.0, 3.0, 10.0)]
    [0.04, 1.0, 0.0]
    """
    check_steps(steps, "one_cycle")
    check_numbers("one_cycle", peak=peak, rise=rise, fall=1.0 if fall is None else fall)
    check_numbers("one_cycle", div_factor=div_factor, final_div_factor=final_div_factor)
    if not 0 < rise < (1.0 if fall is None else fall) <= 1:
        raise ArgumentError(
            f"one_cycle: parts of the steps rise from 0 to 1: got {rise=}, {fall=}; 0.3 and 0.85 are usual"
        )
    first = peak / div_factor
    parts = [(rise, peak)] + ([] if fall is None else [(fall, first)]) + [(1.0, first / final_div_factor)]
    at = [part * steps - k - 1 if inclusive else float(int(part * steps)) for k, (part, _) in enumerate(parts)]
    at = [*at[:-1], float(steps - 1)] if inclusive else at
    places, values = (0.0, *at), (first, *[value for _, value in parts])
    return plan(_through, places=places, values=values, is_line=shape != "cosine")


@rule
def _through(count: Array | float, places: Sequence[float], values: Sequence[float], is_line: bool) -> Array:
    """Return the rate on its way from value to value, which it has at these steps."""
    value = asarray(values[-1], float64)
    for k in reversed(range(len(values) - 1)):
        done = clip((count - places[k]) / max(places[k + 1] - places[k], 1e-300), 0.0, 1.0)
        done = done if is_line else 0.5 * (1 - cos(math.pi * done))
        value = where(count < places[k + 1], values[k] + (values[k + 1] - values[k]) * done, value)
    return value


def _double(rate: ArrayLike) -> Array:
    """Return what a schedule gives as an array; a number keeps all its digits."""
    return rate if isinstance(rate, Array) else asarray(rate, float64)
