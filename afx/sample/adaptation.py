"""Adaptation: step sizes by dual averaging, and scales from the draws of windows that grow, as in Stan.

Sources: Hoffman & Gelman 2014, section 3.2; Stan reference manual, chapter "MCMC sampling", "Automatic parameter tuning".
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import attrs

from afx.core.array.array import Array
from afx.ops.creation.creation import asarray, zeros, zeros_like
from afx.ops.creation.matrices import eye
from afx.ops.elementwise.arithmetic import sqrt
from afx.ops.elementwise.exponential import exp, log
from afx.ops.elementwise.where import maximum, where
from afx.ops.linalg.cholesky import cholesky
from afx.ops.linalg.products import outer

__all__ = ["Adaptation", "Schedule", "begin", "learn_draw", "learn_step", "restart", "scale_of", "schedule_windows"]

T = TypeVar("T")

FIRST, WINDOW, LAST = 75, 25, 50  # the lengths of Stan's phases, of 1,000 steps
SHRINKAGE: Final = 0.05  # gamma, t0 and kappa of Hoffman & Gelman
OFFSET: Final = 10
DECAY: Final = 0.75
WINDOWS_MAX: Final = 32


@attrs.frozen
class Schedule:
    """When a warm-up learns what.

    Attributes:
        warmup: its number of steps.
        slow: the first step whose draw is learned from, and the one behind the last.
        closes: int[32], the steps before which the scale is set from the draws since then, -1 behind the last.
    """

    warmup: Array
    slow: Array
    closes: Array


@attrs.frozen
class Adaptation:
    """What a chain has learned.

    Attributes:
        log_step: the logarithm of the step size.
        log_step_mean: that of the step size to keep.
        error: the mean of how much acceptance falls short of its target.
        center: the logarithm of the step size that dual averaging shrinks to.
        steps: learned from since the scale was set.
        draws: learned from since then.
        mean: float[n], of these.
        spread: float[n] or float[n, n], the sum of their squared deviations, or of products of these.
    """

    log_step: Array
    log_step_mean: Array
    error: Array
    center: Array
    steps: Array
    draws: Array
    mean: Array
    spread: Array


def schedule_windows(warmup: int) -> Schedule:
    """Return Stan's schedule: 75 steps, windows of 25, 50, 100 … draws, and 50 steps; in proportion if it is short."""
    first, last, width = FIRST, LAST, WINDOW
    if warmup < first + width + last:
        first, last = int(0.15 * warmup), int(0.1 * warmup)
        width = warmup - first - last
    closes = list[int]()
    end = first
    while warmup >= 20 and width and end + width <= warmup - last:
        # a window that would leave too little for the next one takes it too
        end = warmup - last if end + 3 * width > warmup - last else end + width
        closes.append(end)
        width *= 2
    slow = (first, closes[-1]) if closes else (0, 0)
    return Schedule(asarray(warmup), asarray(slow), asarray([*closes, *[-1] * (WINDOWS_MAX - len(closes))]))


def begin(position: Array, step_size: Array, is_dense: bool) -> Adaptation:
    """Return what is known before the first step."""
    n, dtype = position.shape[0], position.dtype
    nought = zeros_like(step_size)
    none = Adaptation(
        nought, nought, nought, nought, nought, nought, zeros(n, dtype), zeros((n, n) if is_dense else n, dtype)
    )
    return restart(none, step_size)


def restart(a: Adaptation, step_size: Array) -> Adaptation:
    """Return an adaptation that has learned nothing but a step size to begin with."""
    nought = zeros_like(a.steps)
    return Adaptation(
        log(step_size),
        log(step_size),
        nought,
        log(10 * step_size),
        nought,
        nought,
        zeros_like(a.mean),
        zeros_like(a.spread),
    )


def learn_step(a: Adaptation, acceptance: Array, target: Any) -> Adaptation:
    """Return the adaptation after a step was accepted with a probability: one step of dual averaging."""
    t = a.steps + 1
    weight = 1 / (t + OFFSET)
    error = (1 - weight) * a.error + weight * (target - acceptance)
    log_step = a.center - sqrt(t) / SHRINKAGE * error
    share = exp(-DECAY * log(t))
    mean = share * log_step + (1 - share) * a.log_step_mean
    return attrs.evolve(a, log_step=log_step, log_step_mean=mean, error=error, steps=t)


def learn_draw(a: Adaptation, x: Array) -> Adaptation:
    """Return the adaptation after one more draw (Welford 1962)."""
    count = a.draws + 1
    change = x - a.mean
    mean = a.mean + change / count
    rest = x - mean
    product = change * rest if a.spread.ndim == 1 else outer(change, rest)
    return attrs.evolve(a, draws=count, mean=mean, spread=a.spread + product)


def scale_of(a: Adaptation, old: Array) -> Array:
    """Return the scale that draws have taught: the estimate shrunk to 0.001 as in Stan; the old one of less than two."""
    count = a.draws
    spread = a.spread / maximum(count - 1, 1)
    unit: Any = 1.0 if a.spread.ndim == 1 else eye(a.mean.shape[0], dtype=a.mean.dtype)
    shrunk = (count * spread + 5e-3 * unit) / (count + 5)
    return where(count > 1, sqrt(shrunk) if a.spread.ndim == 1 else cholesky(shrunk), old)
