"""Layerwise rates: LARS and LAMB, whose steps are in proportion to the norm of each array."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import attrs

from afx.core.array.array import Array, ArrayLike
from afx.optim import checks
from afx.optim.chain import chain
from afx.optim.descent import Descent, descent
from afx.optim.hyperparameters import LearningRate, count_zero, first_rate, next_rate
from afx.optim.leaves import times, zeros_of
from afx.optim.masks import Mask
from afx.optim.protocols import EmptyState
from afx.optim.rules.adam import MomentsState, scale_by_adam
from afx.optim.rules.sgd import check_momentum, gather
from afx.optim.step import apply_rule, check_kind
from afx.optim.transforms import add_decayed_weights, scale_by_trust_ratio
from afx.optim.wrappers.masking import masked

__all__ = ["Lars", "LarsState", "lamb", "lars"]

T = TypeVar("T")


def lamb(
    learning_rate: LearningRate = 1e-3,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-6,
    weight_decay: float = 0.0,
    mask: Mask = True,
) -> Descent[tuple[MomentsState[Any], EmptyState, EmptyState]]:
    """Return LAMB: Adam's updates, each array's brought to the norm of its parameters, for large batches.

    Source: You et al. 2020, Algorithm 2 with φ(z) = z, as in Optax.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the number of steps taken.
        b1: decay of the average gradient, from 0 up to 1.
        b2: decay of the average square, from 0 up to 1.
        eps: added to the root, above 0.
        weight_decay: added to Adam's update, before its norm is taken; 0 or more.
        mask: what decays, as in `adamw`.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> optimizer = lamb(0.1)
    >>> optimizer.step(afx.asarray([3.0, 4.0]), afx.ones(2), optimizer.init(afx.ones(2)))[0].round(3)
    Array([2.646, 3.646], dtype=float32)
    """
    rule = chain(
        scale_by_adam(b1=b1, b2=b2, eps=eps), add_decayed_weights(weight_decay, mask=mask), scale_by_trust_ratio()
    )
    return descent(rule, learning_rate, "lamb")


@attrs.frozen
class LarsState(Generic[T]):
    """The state of LARS.

    Attributes:
        count: the number of steps taken.
        velocity: the sum of past steps that momentum keeps.
        learning_rate: the step size of the last step (of the first one, before it); a new one may be put here, where
            the optimizer was given a number.
    """

    count: Array
    velocity: T
    learning_rate: Array


@attrs.frozen
class Lars:
    """LARS; made by `lars`, which says what the attributes are."""

    learning_rate: LearningRate = attrs.field(validator=checks.positive)
    momentum: float = 0.9
    nesterov: bool = False
    weight_decay: float = attrs.field(default=0.0, validator=checks.not_negative)
    mask: Mask = True
    coefficient: float = attrs.field(default=1e-3, validator=checks.positive)
    eps: float = attrs.field(default=0.0, validator=checks.not_negative)
    trust_mask: Mask = True

    def __attrs_post_init__(self) -> None:
        check_momentum(self.momentum, self.nesterov, 0.0, "lars")

    def init(self, params: T) -> LarsState[T]:
        """Return the state before the first step."""
        return LarsState(count_zero(), zeros_of(params, "lars"), first_rate(self.learning_rate))

    def descend(
        self, grads: T, state: LarsState[T], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, LarsState[T]]:
        """Return what to add to the parameters, and the next state."""
        check_kind(state, LarsState, "lars")
        rate = next_rate(self.learning_rate, state)
        ratio = masked(scale_by_trust_ratio(self.coefficient, eps=self.eps), self.trust_mask)
        decay = add_decayed_weights(self.weight_decay, mask=self.mask)
        local, _ = decay.update(grads, EmptyState(), params, None)
        local, _ = ratio.update(local, EmptyState(), params)
        move, velocity = gather(times(local, -rate), state.velocity, state.count, self.momentum, self.nesterov, 0.0)
        return move, LarsState(state.count + 1, velocity, rate)

    def step(
        self, params: T, grads: T, state: LarsState[T], *, value: ArrayLike | None = None
    ) -> tuple[T, LarsState[T]]:
        """Return the next parameters and state; ``value`` is not needed."""
        return apply_rule(self.descend, params, grads, state, value)


def lars(
    learning_rate: LearningRate = 1.0,
    *,
    momentum: float = 0.9,
    nesterov: bool = False,
    weight_decay: float = 0.0,
    mask: Mask = True,
    coefficient: float = 1e-3,
    eps: float = 0.0,
    trust_mask: Mask = True,
) -> Lars:
    """Return LARS: momentum of steps that are, for each array, in proportion to the norm of its parameters.

    Source: You, Gitman & Ginsburg 2017, Algorithm 1, as in Optax: the learning rate is inside of the momentum, where `sgd`
    has it outside.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the number of steps taken.
        momentum: how much of past steps is kept, from 0 up to 1.
        nesterov: looks one step of momentum ahead.
        weight_decay: added to the gradient, before its norm is taken; 0 or more.
        mask: what decays, as in `adamw`.
        coefficient: the ratio of the norm of a step to that of the parameters, above 0.
        eps: added to the norm of the gradient, 0 or more.
        trust_mask: whose steps follow the norms; biases and scales are often left out.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> optimizer = lars(1.0, coefficient=0.1)
    >>> optimizer.step(afx.asarray([3.0, 4.0]), afx.asarray([1.0, 0.0]), optimizer.init(afx.ones(2)))[0]
    Array([2.5, 4. ], dtype=float32)
    """
    return Lars(learning_rate, momentum, nesterov, weight_decay, mask, coefficient, eps, trust_mask)
