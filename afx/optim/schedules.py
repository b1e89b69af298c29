"""Schedules: the learning rate as a pure function of the steps taken, composed ones, and plateaus of the loss."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeVar

import attrs

from afx.core import Array, ArrayLike, Shown, float64
from afx.errors import ArgumentError
from afx.ops import asarray, clip, cos, exp, floor, full, log, maximum, minimum, sqrt, where
from afx.optim.hyperparameters import (
    ArraySchedule,
    Schedule,
    check_mapping,
    check_numbers,
    count_zero,
    is_within,
    positive,
)
from afx.optim.step import check_kind, times

__all__ = [
    "PlateauState",
    "constant",
    "cosine_decay",
    "cosine_restarts",
    "exponential_decay",
    "inverse_sqrt",
    "join",
    "linear",
    "one_cycle",
    "piecewise_constant",
    "polynomial",
    "reduce_on_plateau",
    "warmup",
    "warmup_cosine",
]

# --- Schedules: the learning rate as a pure function of the number of steps taken


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
    """Return a number of steps once it is 1 or more."""
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

    Raises:
        ArgumentError: no mapping of numbers.

    >>> piecewise_constant(1.0, {5: 0.5})(asarray(7.0))
    Array(0.5, dtype=float64)
    """
    check_numbers("piecewise_constant", start=start)
    check_mapping("piecewise_constant", factors, "{step: factor}")
    for step, factor in factors.items():
        check_numbers("piecewise_constant", step=step, factor=factor)
    return plan(_piecewise, start=start, pairs=tuple(sorted(factors.items())))


@rule
def _piecewise(count: Array | float, start: float, pairs: tuple[tuple[int, float], ...]) -> Array:
    rate = asarray(start, float64)
    for step, factor in pairs:
        rate = where(count >= step, rate * factor, rate)
    return rate


# --- Composed schedules: joined ones, warm-ups of any, cycles and restarts


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


# --- Plateaus: steps shrink when the loss stops falling

T = TypeVar("T")


@attrs.frozen
class PlateauState(Shown):
    """The state of `reduce_on_plateau`.

    Attributes:
        scale: what steps are multiplied by.
        best: the least mean loss so far.
        waited: the number of means in a row without a better one.
        cooldown: the number of means for which nothing is counted yet.
        count: the number of losses in the mean that is being taken.
        mean: that mean.
    """

    scale: Array
    best: Array
    waited: Array
    cooldown: Array
    count: Array
    mean: Array


@attrs.frozen
class ReduceOnPlateau(Shown):
    """The rule that multiplies updates by a number that shrinks when the loss stops falling.

    It stands in a chain, mostly behind the optimizer, and needs the loss: ``step(..., value=loss)``. As in Optax; torch's
    scheduler waits for one loss more.

    Args:
        factor: what the number is multiplied by, between 0 and 1.
        patience: how many means in a row without a better one shrink it.
        rtol: a mean is better where it is below (1 - rtol) · best - atol.
        atol: see rtol.
        cooldown: for how many means nothing is counted after it shrank.
        window: how many losses a mean is taken of.
        least: the least number.

    Raises:
        ArgumentError: the factor is not between 0 and 1, or a number is below its range; no loss is given (at the step).

    >>> import afx
    >>> from afx import optim
    >>> optimizer = optim.chain(optim.sgd(1.0), reduce_on_plateau(0.5, patience=2))
    >>> params, state = afx.zeros(1), optimizer.init(afx.zeros(1))
    >>> for loss in (3.0, 2.0, 2.0, 2.0):
    ...     params, state = optimizer.step(params, afx.ones(1), state, value=loss)
    >>> params, float(state[1].scale)
    (Array([-3.5], dtype=float32), 0.5)
    """

    factor: float = 0.1
    patience: int = attrs.field(default=10, kw_only=True)
    rtol: float = attrs.field(default=1e-4, kw_only=True)
    atol: float = attrs.field(default=0.0, kw_only=True)
    cooldown: int = attrs.field(default=0, kw_only=True)
    window: int = attrs.field(default=1, kw_only=True)
    least: float = attrs.field(default=0.0, kw_only=True)
    rescales: ClassVar[Literal[True]] = True

    def __attrs_post_init__(self) -> None:
        check_numbers("reduce_on_plateau", **attrs.asdict(self, recurse=False))
        if not is_within(self.factor, lambda v: 0 < v < 1):
            raise ArgumentError(f"reduce_on_plateau: the factor is between 0 and 1: got {self.factor}; 0.1 is usual")
        for name, lowest in (("patience", 1), ("window", 1), ("cooldown", 0)):
            number = getattr(self, name)
            if not is_within(number, functools.partial(operator.le, lowest)):
                raise ArgumentError(f"reduce_on_plateau: {name} is {lowest} or more: got {number}; count losses")
        for name in ("rtol", "atol", "least"):
            positive(name, getattr(self, name), "reduce_on_plateau", zero=True)

    def init(self, params: object) -> PlateauState:
        """Return the state before the first step."""
        zero = count_zero()
        return PlateauState(zero + 1, full((), float("inf"), float64), zero, zero, zero, zero)

    def update(
        self, grads: T, state: PlateauState, params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, PlateauState]:
        """Return the updates times the number, and the next state."""
        check_kind(state, PlateauState, "reduce_on_plateau")
        if value is None:
            raise ArgumentError("reduce_on_plateau: it follows the loss: got no value; call step(..., value=loss)")
        count = state.count + 1
        mean = (state.count * state.mean + asarray(value).astype(float64)) / count
        after = self._looked(attrs.evolve(state, mean=mean, count=count), count == self.window)
        return times(grads, after.scale), after

    def _looked(self, state: PlateauState, full_window: Array) -> PlateauState:
        """Return the state after a mean is complete, the state as it is before."""
        better = state.mean < (1 - self.rtol) * state.best - self.atol
        waited = where(better, 0.0, state.waited + 1)
        cooling = state.cooldown > 0
        reduces = ~cooling & (waited == self.patience)
        scale = where(reduces, maximum(state.scale * self.factor, self.least), state.scale)
        cooldown = where(cooling, state.cooldown - 1, where(reduces, float(self.cooldown), 0.0))
        best, waited = where(better, state.mean, state.best), where(cooling | reduces, 0.0, waited)
        looked = PlateauState(scale, best, waited, cooldown, count_zero(), count_zero())
        pairs = zip(attrs.astuple(looked, recurse=False), attrs.astuple(state, recurse=False), strict=True)
        return PlateauState(*[where(full_window, new, old) for new, old in pairs])


# --- Names of functions, which users write, for the classes

reduce_on_plateau = ReduceOnPlateau

# names in files of earlier versions
_ReduceOnPlateau = ReduceOnPlateau
