"""Gradient descent and RMSProp."""

from __future__ import annotations

from typing import Generic, TypeVar

import attrs

from afx import pytree
from afx.core.array import Array, ArrayLike
from afx.errors import ArgumentError
from afx.ops.arithmetic import sqrt
from afx.optim.rule import LearningRate, as_real, count_zero, fraction, positive, rate_at, take_step, zeros_like_tree

__all__ = ["Rmsprop", "RmspropState", "Sgd", "SgdState", "rmsprop", "sgd"]

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
        velocity = zeros_like_tree(params) if self.momentum else None
        return SgdState(count_zero(), velocity, rate_at(self.learning_rate, count_zero()))

    def update(self, grads: T, state: SgdState[T], params: T, value: ArrayLike | None = None) -> tuple[T, SgdState[T]]:
        """Return what to add to the parameters, and the next state."""
        rate = rate_at(self.learning_rate, state.count)
        velocity = None
        direction = grads
        if state.velocity is not None:
            velocity = pytree.map(lambda v, g: self.momentum * v + g, state.velocity, grads)
            direction = velocity
            if self.nesterov:
                direction = pytree.map(lambda v, g: self.momentum * v + g, velocity, grads)
        updates = pytree.map(lambda d: -as_real(rate, d) * d, direction)
        return updates, SgdState(state.count + 1, velocity, rate)

    def step(self, params: T, grads: T, state: SgdState[T], *, value: ArrayLike | None = None) -> tuple[T, SgdState[T]]:
        """Return the next parameters and state; ``value`` is not needed."""
        return take_step(self, params, grads, state, value)


def sgd(learning_rate: LearningRate, *, momentum: float = 0.0, nesterov: bool = False) -> Sgd:
    """Return gradient descent: the step is ``-learning_rate · v``, where v is the gradient or gathers momentum.

    With momentum, v = momentum·v + g (Polyak 1964, in the form of torch and Sutskever et al. 2013 up to the place of the
    learning rate); Nesterov's form steps along momentum·v + g instead.

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


@attrs.frozen
class RmspropState(Generic[T]):
    """The state of RMSProp.

    Attributes:
        count: the number of steps taken.
        nu: the moving average of the squared gradients.
        mean: the moving average of the gradients, where centred; else None.
        velocity: the momentum, or None without it.
        learning_rate: the step size of the last step (of the first one, before it).
    """

    count: Array
    nu: T
    mean: T | None
    velocity: T | None
    learning_rate: Array


@attrs.frozen
class Rmsprop:
    """RMSProp; made by `rmsprop`, which says what the attributes are."""

    learning_rate: LearningRate
    decay: float = 0.99
    eps: float = 1e-8
    momentum: float = 0.0
    centered: bool = False

    def init(self, params: T) -> RmspropState[T]:
        """Return the state before the first step."""
        mean = zeros_like_tree(params) if self.centered else None
        velocity = zeros_like_tree(params) if self.momentum else None
        return RmspropState(
            count_zero(), zeros_like_tree(params), mean, velocity, rate_at(self.learning_rate, count_zero())
        )

    def update(
        self, grads: T, state: RmspropState[T], params: T, value: ArrayLike | None = None
    ) -> tuple[T, RmspropState[T]]:
        """Return what to add to the parameters, and the next state."""
        rate = rate_at(self.learning_rate, state.count)
        nu = pytree.map(lambda n, g: self.decay * n + (1 - self.decay) * g * g, state.nu, grads)
        mean, spread = None, nu
        if state.mean is not None:
            mean = pytree.map(lambda m, g: self.decay * m + (1 - self.decay) * g, state.mean, grads)
            spread = pytree.map(lambda n, m: n - m * m, nu, mean)
        direction = pytree.map(lambda g, s: g / (sqrt(s) + self.eps), grads, spread)
        velocity = None
        if state.velocity is not None:
            velocity = direction = pytree.map(lambda v, d: self.momentum * v + d, state.velocity, direction)
        updates = pytree.map(lambda d: -as_real(rate, d) * d, direction)
        return updates, RmspropState(state.count + 1, nu, mean, velocity, rate)

    def step(
        self, params: T, grads: T, state: RmspropState[T], *, value: ArrayLike | None = None
    ) -> tuple[T, RmspropState[T]]:
        """Return the next parameters and state; ``value`` is not needed."""
        return take_step(self, params, grads, state, value)


def rmsprop(
    learning_rate: LearningRate,
    *,
    decay: float = 0.99,
    eps: float = 1e-8,
    momentum: float = 0.0,
    centered: bool = False,
) -> Rmsprop:
    """Return RMSProp: steps of ``-learning_rate · g / (√v + eps)``, where v is the moving average of g².

    Source: Hinton 2012, lecture 6e; the centred form, which subtracts the squared mean gradient, is Graves 2013. eps is
    added outside the root, as in torch.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the number of steps taken.
        decay: of the averages, from 0 up to 1.
        eps: added to the root.
        momentum: gathers the scaled gradients, from 0 up to 1.
        centered: divides by the standard deviation in place of the root mean square.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> optimizer = rmsprop(0.1, decay=0.75)
    >>> optimizer.step(afx.ones(1), afx.ones(1), optimizer.init(afx.ones(1)))[0]
    Array([0.8], dtype=float32)
    """
    positive("learning_rate", learning_rate, "rmsprop")
    positive("eps", eps, "rmsprop", zero=True)
    fraction("decay", decay, "rmsprop")
    fraction("momentum", momentum, "rmsprop")
    return Rmsprop(learning_rate, decay, eps, momentum, centered)
