"""Schedule-free training: gradients are taken between an optimizer's iterate and the average of its iterates."""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar

import attrs

from afx import pytree
from afx.core.array.array import Array, ArrayLike
from afx.errors import ArgumentError
from afx.ops.elementwise.where import maximum, where
from afx.optim import checks
from afx.optim.chain import check_optimizer
from afx.optim.descent import DescentState, descent
from afx.optim.hyperparameters import LearningRate, check_numbers, count_zero, rate_at
from afx.optim.leaves import as_real, check_params, compute_params, map_trained
from afx.optim.protocols import EmptyState, Optimizer
from afx.optim.rules.rmsprop import RmsState, scale_by_rms
from afx.optim.schedules import linear
from afx.optim.step import Steps, check_kind
from afx.optim.transforms import scale

__all__ = ["ScheduleFree", "ScheduleFreeState", "schedule_free", "schedule_free_adamw", "schedule_free_sgd"]

T = TypeVar("T")
S = TypeVar("S")


@attrs.frozen
class ScheduleFreeState(Generic[S]):
    """The state of schedule-free training.

    Attributes:
        count: the number of steps taken.
        z: the optimizer's own iterate, a tree of the parameters' structure.
        weight_sum: the sum of the weights of all iterates.
        largest_rate: the largest learning rate so far.
        inner: the optimizer's state.
    """

    count: Array
    z: Any
    weight_sum: Array
    largest_rate: Array
    inner: S


@attrs.frozen
class ScheduleFree(Steps[ScheduleFreeState[S]], Generic[S]):
    """Schedule-free training; made by `schedule_free`, which says what the attributes are."""

    who: ClassVar[str] = "schedule_free"
    inner: Optimizer[S]
    learning_rate: LearningRate = attrs.field(validator=checks.positive)
    b1: float = attrs.field(default=0.9, validator=checks.positive)
    power: float = attrs.field(default=2.0, validator=checks.not_negative)

    def init(self, params: Any) -> ScheduleFreeState[S]:
        """Return the state before the first step."""
        check_params(*pytree.flatten(params), "schedule_free")
        zero = count_zero()
        return ScheduleFreeState(zero, compute_params(params), zero, zero, self.inner.init(params))

    def descend(
        self, grads: T, state: ScheduleFreeState[S], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, ScheduleFreeState[S]]:
        """Return what to add to the parameters, and the next state."""
        check_kind(state, ScheduleFreeState, "schedule_free")
        count = state.count + 1
        largest = maximum(state.largest_rate, rate_at(self.learning_rate, count))
        weight = largest**self.power
        total = state.weight_sum + weight
        share = where(total > 0, weight / where(total > 0, total, 1.0), 0.0)
        moves, inner = self.inner.descend(grads, state.inner, params, value)
        z = map_trained(lambda old, move: old + move, state.z, moves)

        def moved(move: Array, y: Array, old: Array, new: Array) -> Array:
            """Return how far y goes; x is the average of all iterates, and y = b1·x + (1 - b1)·z."""
            b1, part = as_real(self.b1, move), as_real(share, move)
            x = (1 - part) * ((y - (1 - b1) * old) / b1) + part * new
            return b1 * x + (1 - b1) * new - y

        return map_trained(moved, moves, params, state.z, z), ScheduleFreeState(count, z, total, largest, inner)

    def eval_params(self, params: T, state: ScheduleFreeState[S]) -> T:
        """Return the average of all iterates, the parameters to evaluate and to keep."""

        def averaged(y: Array, z: Array) -> Array:
            return ((y - (1 - as_real(self.b1, z)) * z) / as_real(self.b1, z)).astype(y.dtype)

        return map_trained(averaged, params, state.z)


def schedule_free(
    optimizer: Optimizer[S], learning_rate: LearningRate, *, b1: float = 0.9, power: float = 2.0
) -> ScheduleFree[S]:
    """Return an optimizer that needs no schedule: it averages its iterates, and takes gradients near to the average.

    The trained parameters are y = b1·x + (1 - b1)·z. The optimizer moves z; x is the average of all z, weighted by
    (largest learning rate so far)^power. Evaluate with x, from ``optimizer.eval_params(params, state)``. The optimizer has
    no momentum of its own: b1 does its work.

    Source: Defazio et al. 2024 (The road less scheduled), as in Optax.

    Args:
        optimizer: what moves z.
        learning_rate: its learning rate, for the weights.
        b1: how near to the average gradients are taken, above 0 and below 1.
        power: the exponent of the weights, 0 or more.

    Raises:
        ArgumentError: an argument out of its range, or no optimizer.

    >>> import afx
    >>> from afx import optim
    >>> optimizer = schedule_free(optim.sgd(0.5), 0.5)
    >>> state = optimizer.init(afx.ones(1))
    >>> params, state = optimizer.step(afx.ones(1), afx.ones(1), state)
    >>> params, optimizer.eval_params(params, state)
    (Array([0.5], dtype=float32), Array([0.5], dtype=float32))
    """
    check_optimizer(optimizer, "schedule_free")
    return ScheduleFree(optimizer, learning_rate, b1, power)


def schedule_free_sgd(
    learning_rate: LearningRate = 1.0,
    *,
    warmup: int = 0,
    b1: float = 0.9,
    weight_decay: float = 0.0,
    power: float = 2.0,
) -> ScheduleFree[DescentState[EmptyState]]:
    """Return `schedule_free` gradient descent.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the number of steps taken.
        warmup: the number of steps over which a learning rate that is a number rises from 0; 0 for none.
        b1: how near to the average gradients are taken, above 0 and below 1.
        weight_decay: the strength of the decay at the point where gradients are taken, 0 or more.
        power: the exponent of the weights, 0 or more.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> optimizer = schedule_free_sgd(0.5)
    >>> optimizer.step(afx.ones(1), afx.ones(1), optimizer.init(afx.ones(1)))[0]
    Array([0.5], dtype=float32)
    """
    rate = _warm_up(learning_rate, warmup)
    return schedule_free(descent(scale(1.0), rate, "schedule_free_sgd", weight_decay), rate, b1=b1, power=power)


def schedule_free_adamw(
    learning_rate: LearningRate = 2.5e-3,
    *,
    warmup: int = 0,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    power: float = 2.0,
) -> ScheduleFree[DescentState[RmsState[Any]]]:
    """Return `schedule_free` AdamW: gradients over the root of their corrected mean square.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the number of steps taken.
        warmup: the number of steps over which a learning rate that is a number rises from 0; 0 for none.
        b1: how near to the average gradients are taken, above 0 and below 1.
        b2: decay of the average square, from 0 up to 1.
        eps: added to the root, above 0.
        weight_decay: the strength of the decay at the point where gradients are taken, 0 or more.
        power: the exponent of the weights, 0 or more.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> optimizer = schedule_free_adamw(0.5)
    >>> optimizer.step(afx.ones(1), afx.ones(1), optimizer.init(afx.ones(1)))[0]
    Array([0.5], dtype=float32)
    """
    rate = _warm_up(learning_rate, warmup)
    rule = scale_by_rms(decay=b2, eps=eps, bias_correction=True)
    return schedule_free(descent(rule, rate, "schedule_free_adamw", weight_decay), rate, b1=b1, power=power)


def _warm_up(learning_rate: LearningRate, warmup: int) -> LearningRate:
    """Return the schedule that rises to a number and stays there."""
    check_numbers("schedule_free", warmup=warmup)
    if not warmup:
        return learning_rate
    if not isinstance(learning_rate, (int, float)):
        raise ArgumentError("schedule_free: a warm-up rises to a number: got a schedule; write the warm-up into it")
    return linear(0.0, learning_rate, warmup)
