"""Transformations: scaling, weight decay and averaging of gradients."""

from __future__ import annotations

from typing import ClassVar, Generic, Literal, TypeVar

import attrs

from afx import pytree
from afx.core.array.array import Array, ArrayLike
from afx.core.tracing.tracer import Tracer
from afx.errors import ArgumentError
from afx.ops.elementwise.where import maximum, where
from afx.ops.reductions.moments import vector_norm
from afx.optim import checks
from afx.optim.hyperparameters import Schedule, check_numbers, count_zero, is_nonzero, rate_at
from afx.optim.leaves import as_real, average, is_trained, map_trained, times, zeros_of
from afx.optim.masks import Mask, mask_leaves
from afx.optim.protocols import EmptyState, Rescaling, Transformation
from afx.optim.shards import norm_of_shards
from afx.optim.step import check_kind

__all__ = [
    "Ema",
    "EmaState",
    "ScheduleState",
    "Stateless",
    "StatelessRescaling",
    "add_decayed_weights",
    "decay_weights",
    "ema",
    "scale",
    "scale_by_param_block_rms",
    "scale_by_schedule",
    "scale_by_trust_ratio",
]

T = TypeVar("T")


class Stateless:
    """The base of transformations without state, which say only how gradients change."""

    __slots__ = ()

    def init(self, params: object) -> EmptyState:
        """Return the state, which holds nothing."""
        return EmptyState()

    def update(self, grads: T, state: EmptyState, params: T, value: ArrayLike | None = None, /) -> tuple[T, EmptyState]:
        """Return the changed gradients."""
        check_kind(state, EmptyState, type(self).__name__.strip("_"))
        return self.change(grads, params), state

    def change(self, grads: T, params: T) -> T:
        """Return the changed gradients."""
        raise NotImplementedError  # each transformation has its own


class StatelessRescaling(Stateless):
    """The base of stateless transformations that only change sizes."""

    __slots__ = ()
    rescales: ClassVar[Literal[True]] = True


# --- scaling


@attrs.frozen
class _Scale(StatelessRescaling):
    factor: float

    def __attrs_post_init__(self) -> None:
        _check_factor(self.factor, "scale")

    def change(self, grads: T, params: T) -> T:
        return times(grads, self.factor)


def scale(factor: float) -> Rescaling[EmptyState]:
    """Return the rule that multiplies gradients (or, behind an optimizer, updates) by a number, 0 or more.

    Raises:
        ArgumentError: the factor is below 0: `scale_by_learning_rate` goes downhill.

    >>> import afx
    >>> scale(2.0).update(afx.ones(1), scale(2.0).init(None), afx.zeros(1), None)[0]
    Array([2.], dtype=float32)
    """
    return _Scale(factor)


def _check_factor(factor: float | Array, who: str) -> None:
    check_numbers(who, factor=factor)
    if not isinstance(factor, Tracer) and not float(factor) >= 0:
        raise ArgumentError(
            f"{who}: the factor is 0 or more: got {factor}; to go downhill write scale_by_learning_rate({abs(float(factor))})"
        )


@attrs.frozen
class ScheduleState:
    """The state of `scale_by_schedule`.

    Attributes:
        count: the number of steps taken.
        factor: that of the last step (of the first one, before it).
    """

    count: Array
    factor: Array


@attrs.frozen
class _ScaleBySchedule:
    schedule: Schedule
    rescales: ClassVar[Literal[True]] = True

    def init(self, params: object) -> ScheduleState:
        factor = rate_at(self.schedule, count_zero())
        _check_factor(factor, "scale_by_schedule")
        return ScheduleState(count_zero(), factor)

    def update(
        self, grads: T, state: ScheduleState, params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, ScheduleState]:
        check_kind(state, ScheduleState, "scale_by_schedule")
        factor = rate_at(self.schedule, state.count)
        return times(grads, factor), ScheduleState(state.count + 1, factor)


def scale_by_schedule(schedule: Schedule) -> Rescaling[ScheduleState]:
    """Return the rule that multiplies by a function of the number of steps taken, 0 or more.

    Raises:
        ArgumentError: the first factor is below 0 (in ``init``).

    >>> import afx
    >>> rule = scale_by_schedule(lambda count: 0.5)
    >>> rule.update(afx.ones(1), rule.init(None), afx.zeros(1), None)[0]
    Array([0.5], dtype=float32)
    """
    return _ScaleBySchedule(schedule)


@attrs.frozen
class _ScaleByTrustRatio(StatelessRescaling):
    who: ClassVar[str] = "scale_by_trust_ratio"
    coefficient: float = attrs.field(validator=checks.positive)
    eps: float = attrs.field(validator=checks.not_negative)

    def change(self, grads: T, params: T) -> T:
        def scaled(u: Array, p: Array) -> Array:
            weight, size = norm_of_shards(vector_norm(p)), norm_of_shards(vector_norm(u))
            unknown = (weight == 0) | (size == 0)
            ratio = as_real(self.coefficient, u) * weight / where(unknown, 1.0, size + as_real(self.eps, u))
            return where(unknown, 1.0, ratio) * u

        return map_trained(scaled, grads, params)


def scale_by_trust_ratio(coefficient: float = 1.0, *, eps: float = 0.0) -> Rescaling[EmptyState]:
    """Return the rule that gives each array of the updates ``coefficient`` times the norm of its parameters.

    Where either norm is 0 the update stays as it is. Source: You et al. 2017 (LARS) and 2020 (LAMB).

    Args:
        coefficient: the ratio of the two norms, above 0.
        eps: added to the norm of the update, 0 or more.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> rule = scale_by_trust_ratio()
    >>> rule.update(afx.asarray([3.0, 4.0]), rule.init(None), afx.asarray([0.0, 1.0]), None)[0]
    Array([0.6, 0.8], dtype=float32)
    """
    return _ScaleByTrustRatio(coefficient, eps)


@attrs.frozen
class _ScaleByParamBlockRms(StatelessRescaling):
    who: ClassVar[str] = "scale_by_param_block_rms"
    least: float = attrs.field(validator=checks.positive)

    def change(self, grads: T, params: T) -> T:
        def scaled(u: Array, p: Array) -> Array:
            return u * maximum(vector_norm(p) / max(p.size, 1) ** 0.5, as_real(self.least, p))

        return map_trained(scaled, grads, params)


def scale_by_param_block_rms(least: float = 1e-3) -> Rescaling[EmptyState]:
    """Return the rule that multiplies each array of the updates by the root mean square of its parameters.

    Source: Shazeer & Stern 2018, section 8, for Adafactor.

    Args:
        least: the least root mean square that counts, above 0.

    Raises:
        ArgumentError: ``least`` is not above 0.

    >>> import afx
    >>> rule = scale_by_param_block_rms()
    >>> rule.update(afx.ones(2), rule.init(None), afx.asarray([2.0, 2.0]), None)[0]
    Array([2., 2.], dtype=float32)
    """
    return _ScaleByParamBlockRms(least)


# --- decay


def decay_weights(updates: T, params: T, strength: float | Array, mask: Mask = True) -> T:
    """Return updates with ``strength · parameter`` added where the mask is true."""
    if not is_nonzero(strength):
        return updates
    chosen = mask_leaves(mask, params, "weight decay")
    found, treedef = pytree.flatten(updates)
    pairs = zip(found, pytree.leaves(params), chosen, strict=True)
    return pytree.unflatten(treedef, [_decay(u, p, strength, m) for u, p, m in pairs])


def _decay(update: Array, param: Array, strength: float | Array, mask: bool | Array) -> Array:
    if mask is False or not (is_trained(update) and is_trained(param)):
        return update
    decayed = update + as_real(strength, param) * param
    return decayed if mask is True else where(mask, decayed, update)


@attrs.frozen
class _AddDecayedWeights(Stateless):
    who: ClassVar[str] = "add_decayed_weights"
    strength: float = attrs.field(validator=checks.not_negative)
    mask: Mask

    def change(self, grads: T, params: T) -> T:
        return decay_weights(grads, params, self.strength, self.mask)


def add_decayed_weights(strength: float, *, mask: Mask = True) -> Transformation[EmptyState]:
    """Return the rule that adds ``strength · parameter`` to each gradient, the derivative of an L2 penalty.

    In front of `scale_by_adam` the penalty is scaled as the gradient is; between it and `scale_by_learning_rate` it is
    decoupled, as in `adamw`.

    Args:
        strength: 0 or more; the penalty is ``strength / 2 · Σ parameter²``.
        mask: what decays: a prefix tree of the parameters of bools or boolean arrays, or a function
            ``(path, leaf) -> bool``.

    Raises:
        ArgumentError: the strength is below 0.

    >>> import afx
    >>> rule = add_decayed_weights(0.5, mask={"w": True, "b": False})
    >>> params = {"w": afx.ones(1), "b": afx.ones(1)}
    >>> rule.update({"w": afx.zeros(1), "b": afx.zeros(1)}, rule.init(params), params, None)[0]
    {'w': Array([0.5], dtype=float32), 'b': Array([0.], dtype=float32)}
    """
    return _AddDecayedWeights(strength, mask)


# --- averaging


@attrs.frozen
class EmaState(Generic[T]):
    """The state of `ema`.

    Attributes:
        count: the number of steps taken.
        average: the moving average, from 0.
    """

    count: Array
    average: T


@attrs.frozen
class Ema:
    """The moving average of gradients; made by `ema`."""

    decay: float = attrs.field(validator=checks.fraction)
    debias: bool = True

    def init(self, params: T) -> EmaState[T]:
        """Return the state before the first step."""
        return EmaState(count_zero(), zeros_of(params, "ema"))

    def update(
        self, grads: T, state: EmaState[T], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, EmaState[T]]:
        """Return the average, and the next state."""
        check_kind(state, EmaState, "ema")
        count, mean = state.count + 1, average(state.average, grads, self.decay)
        return times(mean, 1 / (1 - self.decay**count)) if self.debias else mean, EmaState(count, mean)


def ema(decay: float, *, debias: bool = True) -> Ema:
    """Return the transformation to the moving average m = decay·m + (1 - decay)·g of the gradients.

    Args:
        decay: how much of m is kept, from 0 up to 1.
        debias: corrects the average for its start at 0: m / (1 - decayᵗ).

    Raises:
        ArgumentError: the decay is outside [0, 1).

    >>> import afx
    >>> rule = ema(0.9)
    >>> rule.update(afx.ones(1), rule.init(afx.ones(1)), afx.ones(1))[0]
    Array([1.], dtype=float32)
    """
    return Ema(decay, debias)
