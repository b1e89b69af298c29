"""RMSProp."""

from __future__ import annotations

from typing import Generic, TypeVar

import attrs

from afx.core.array.array import Array, ArrayLike
from afx.ops.elementwise.where import maximum
from afx.optim.hyperparameters import LearningRate, count_zero, fraction, is_nonzero, positive, rate_at
from afx.optim.rule import apply_rule, as_real, check_kind, map_trained, safe_sqrt, square, zeros_of

__all__ = ["Rmsprop", "RmspropState", "rmsprop"]

T = TypeVar("T")


@attrs.frozen
class RmspropState(Generic[T]):
    """The state of RMSProp.

    Attributes:
        count: the number of steps taken.
        nu: the moving average of the squared gradients, real for complex parameters too.
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
        nu = zeros_of(params, "rmsprop", real=True)
        mean = zeros_of(params, "rmsprop") if self.centered else None
        velocity = zeros_of(params, "rmsprop") if is_nonzero(self.momentum) else None
        return RmspropState(count_zero(), nu, mean, velocity, rate_at(self.learning_rate, count_zero()))

    def update(
        self, grads: T, state: RmspropState[T], params: T, value: ArrayLike | None = None
    ) -> tuple[T, RmspropState[T]]:
        """Return what to add to the parameters, and the next state."""
        check_kind(state, RmspropState, "rmsprop")
        rate = rate_at(self.learning_rate, state.count)
        nu = map_trained(lambda n, g: self.decay * n + (1 - self.decay) * square(g), state.nu, grads)
        mean, spread = None, nu
        if state.mean is not None:
            mean = map_trained(lambda m, g: self.decay * m + (1 - self.decay) * g, state.mean, grads)
            spread = map_trained(lambda n, m: maximum(n - square(m), 0.0), nu, mean)  # rounding may bring it below 0
        direction = map_trained(lambda g, s: g / (safe_sqrt(s) + self.eps), grads, spread)
        velocity = None
        if state.velocity is not None:
            velocity = direction = map_trained(lambda v, d: self.momentum * v + d, state.velocity, direction)
        updates = map_trained(lambda d: -as_real(rate, d) * d, direction)
        return updates, RmspropState(state.count + 1, nu, mean, velocity, rate)

    def step(
        self, params: T, grads: T, state: RmspropState[T], *, value: ArrayLike | None = None
    ) -> tuple[T, RmspropState[T]]:
        """Return the next parameters and state; ``value`` is not needed."""
        return apply_rule(self.update, params, grads, state, value)


def rmsprop(
    learning_rate: LearningRate,
    *,
    decay: float = 0.99,
    eps: float = 1e-8,
    momentum: float = 0.0,
    centered: bool = False,
) -> Rmsprop:
    """Return RMSProp: steps of ``-learning_rate · g / (√v + eps)``, where v = decay·v + (1 - decay)·g².

    With momentum, the step is along u = momentum·u + g / (√v + eps). Centred, v - m² stands for v, where
    m = decay·m + (1 - decay)·g: a gradient that hardly changes has no spread, and steps are then large; a larger eps,
    such as 1e-2, bounds them.

    Source: Hinton 2012, lecture 6e (decay 0.9); the centred form is of Graves 2013 (Generating sequences with recurrent
    neural networks). Defaults and the place of eps are torch's; Graves and Optax add eps inside of the root, and Optax's
    decay is 0.9.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the number of steps taken.
        decay: of the averages, from 0 up to 1.
        eps: added to the root, above 0.
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
    positive("eps", eps, "rmsprop")
    fraction("decay", decay, "rmsprop")
    fraction("momentum", momentum, "rmsprop")
    return Rmsprop(learning_rate, decay, eps, momentum, centered)
