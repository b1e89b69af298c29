"""Descent: a transformation, a decoupled weight decay and a learning rate together, as most optimizers are made."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import attrs

from afx import pytree
from afx.core.array.array import Array, ArrayLike
from afx.optim import checks
from afx.optim.hyperparameters import LearningRate, count_zero, first_rate, next_rate
from afx.optim.leaves import check_params, times
from afx.optim.masks import Mask
from afx.optim.protocols import Transformation
from afx.optim.step import Steps, check_kind
from afx.optim.transforms import decay_weights

__all__ = ["Descent", "DescentState", "descent"]

T = TypeVar("T")
S = TypeVar("S")


@attrs.frozen
class DescentState(Generic[S]):
    """The state of an optimizer made of a transformation.

    Attributes:
        count: the number of steps taken.
        rule: the state of the transformation.
        learning_rate: the step size of the last step (of the first one, before it); a new one may be put here, where
            the optimizer was given a number.
    """

    count: Array
    rule: S
    learning_rate: Array


@attrs.frozen
class Descent(Steps[DescentState[S]], Generic[S]):
    """Steps of ``-learning_rate · (what a transformation gives + weight_decay · parameter)``.

    Attributes:
        rule: the transformation.
        learning_rate: a number, a scalar array, or a schedule.
        weight_decay: the strength of the decay, 0 or more.
        mask: what decays.
        who: the function that made it, for messages.
    """

    rule: Transformation[S]
    learning_rate: LearningRate = attrs.field(validator=checks.positive)
    weight_decay: float = attrs.field(default=0.0, validator=checks.not_negative)
    mask: Mask = True
    who: str = attrs.field(default="descent", repr=False)

    def init(self, params: Any) -> DescentState[S]:
        """Return the state before the first step."""
        check_params(*pytree.flatten(params), _name(self.rule))
        return DescentState(count_zero(), self.rule.init(params), first_rate(self.learning_rate))

    def descend(
        self, grads: T, state: DescentState[S], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, DescentState[S]]:
        """Return what to add to the parameters, and the next state."""
        check_kind(state, DescentState, _name(self.rule))
        rate = next_rate(self.learning_rate, state)
        direction, rule = self.rule.update(grads, state.rule, params, value)
        direction = decay_weights(direction, params, self.weight_decay, self.mask)
        return times(direction, -rate), DescentState(state.count + 1, rule, rate)


def _name(rule: object) -> str:
    return type(rule).__name__.strip("_")


def descent(
    rule: Transformation[S], learning_rate: LearningRate, who: str, weight_decay: float = 0.0, mask: Mask = True
) -> Descent[S]:
    """Return the optimizer of a transformation, its arguments checked."""
    return Descent(rule, learning_rate, weight_decay, mask, who)
