"""Gradient descent."""

from __future__ import annotations

from typing import Generic, TypeVar

import attrs

from afx import pytree
from afx.core.array.array import Array, ArrayLike
from afx.errors import ArgumentError
from afx.optim.hyperparameters import LearningRate, count_zero, fraction, is_nonzero, positive, rate_at
from afx.optim.rule import apply_rule, as_real, check_kind, check_params, map_trained, zeros_of

__all__ = ["Sgd", "SgdState", "sgd"]

T = TypeVar("T")


@attrs.frozen
class SgdState(Generic[T]):
    """The state of gradient descent.

    Attributes:
        count: the number of steps taken.
        velocity: the sum of past gradients that momentum keeps; None without momentum.
        learning_rate: the step size of the last step (of the first one, before it).
    """

    count: Array
    velocity: T | None
    learning_rate: Array


@attrs.frozen
class Sgd:
    """Gradient descent; made by `sgd`, which says what the attributes are."""

    learning_rate: LearningRate
    momentum: float = 0.0
    nesterov: bool = False

    def init(self, params: T) -> SgdState[T]:
        """Return the state before the first step."""
        check_params(*pytree.flatten(params), "sgd")
        velocity = zeros_of(params, "sgd") if is_nonzero(self.momentum) else None
        return SgdState(count_zero(), velocity, rate_at(self.learning_rate, count_zero()))

    def update(self, grads: T, state: SgdState[T], params: T, value: ArrayLike | None = None) -> tuple[T, SgdState[T]]:
        """Return what to add to the parameters, and the next state."""
        check_kind(state, SgdState, "sgd")
        rate = rate_at(self.learning_rate, state.count)
        velocity = None
        direction = grads
        if state.velocity is not None:
            velocity = map_trained(lambda v, g: self.momentum * v + g, state.velocity, grads)
            direction = velocity
            if self.nesterov:
                direction = map_trained(lambda v, g: self.momentum * v + g, velocity, grads)
        updates = map_trained(lambda d: -as_real(rate, d) * d, direction)
        return updates, SgdState(state.count + 1, velocity, rate)

    def step(self, params: T, grads: T, state: SgdState[T], *, value: ArrayLike | None = None) -> tuple[T, SgdState[T]]:
        """Return the next parameters and state; ``value`` is not needed."""
        return apply_rule(self.update, params, grads, state, value)


def sgd(learning_rate: LearningRate, *, momentum: float = 0.0, nesterov: bool = False) -> Sgd:
    """Return gradient descent: the step is ``-learning_rate · v``, where v is the gradient or gathers momentum.

    Without momentum v = g; with it v = momentum·v + g, and Nesterov's form steps along momentum·v + g in place of v.

    Source: Polyak 1964; Nesterov 1983 as rewritten by Sutskever et al. 2013, who gather learning_rate·g: that differs
    where the learning rate changes. torch and Optax do as afx does; torch's ``dampening`` is 0 here.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the number of steps taken.
        momentum: how much of v is kept, from 0 up to 1.
        nesterov: looks one step of momentum ahead.

    Raises:
        ArgumentError: momentum outside [0, 1), Nesterov's form without momentum, or no positive learning rate.

    >>> import afx
    >>> optimizer = sgd(0.5)
    >>> optimizer.step(afx.ones(2), afx.ones(2), optimizer.init(afx.ones(2)))[0]
    Array([0.5, 0.5], dtype=float32)
    """
    positive("learning_rate", learning_rate, "sgd")
    fraction("momentum", momentum, "sgd")
    if nesterov and not momentum:
        raise ArgumentError("sgd: nesterov=True looks along the momentum: got momentum=0; give one, 0.9 as a rule")
    return Sgd(learning_rate, momentum, nesterov)
