"""Adam and its relatives."""

from __future__ import annotations

from typing import Generic, TypeVar

import attrs

from afx.core.array.array import Array, ArrayLike
from afx.ops.elementwise.arithmetic import sqrt
from afx.optim.hyperparameters import LearningRate, count_zero, fraction, is_nonzero, positive, rate_at
from afx.optim.rule import apply_rule, as_real, check_kind, map_trained, safe_sqrt, square, zeros_of

__all__ = ["Adam", "AdamState", "adam", "adamw"]

T = TypeVar("T")


@attrs.frozen
class AdamState(Generic[T]):
    """The state of Adam.

    Attributes:
        count: the number of steps taken.
        mu: the moving average of the gradients.
        nu: the moving average of their squares, real for complex parameters too.
        learning_rate: the step size of the last step (of the first one, before it).
    """

    count: Array
    mu: T
    nu: T
    learning_rate: Array


@attrs.frozen
class Adam:
    """Adam; made by `adam` and `adamw`, which say what the attributes are."""

    learning_rate: LearningRate
    b1: float = 0.9
    b2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.0

    def init(self, params: T) -> AdamState[T]:
        """Return the state before the first step."""
        mu, nu = zeros_of(params, "adam"), zeros_of(params, "adam", real=True)
        return AdamState(count_zero(), mu, nu, rate_at(self.learning_rate, count_zero()))

    def update(
        self, grads: T, state: AdamState[T], params: T, value: ArrayLike | None = None
    ) -> tuple[T, AdamState[T]]:
        """Return what to add to the parameters, and the next state."""
        check_kind(state, AdamState, "adam")
        rate = rate_at(self.learning_rate, state.count)
        count = state.count + 1
        mu = map_trained(lambda m, g: self.b1 * m + (1 - self.b1) * g, state.mu, grads)
        nu = map_trained(lambda n, g: self.b2 * n + (1 - self.b2) * square(g), state.nu, grads)
        # both bias corrections are scalars: taken out of the loop over elements
        second = sqrt(1 - self.b2**count)
        size, eps = rate * second / (1 - self.b1**count), self.eps * second

        def move(m: Array, n: Array, p: Array) -> Array:
            step = -as_real(size, p) * m / (safe_sqrt(n) + as_real(eps, p))
            return step - as_real(rate * self.weight_decay, p) * p if is_nonzero(self.weight_decay) else step

        return map_trained(move, mu, nu, params), AdamState(count, mu, nu, rate)

    def step(
        self, params: T, grads: T, state: AdamState[T], *, value: ArrayLike | None = None
    ) -> tuple[T, AdamState[T]]:
        """Return the next parameters and state; ``value`` is not needed."""
        return apply_rule(self.update, params, grads, state, value)


def adam(learning_rate: LearningRate = 1e-3, *, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Adam:
    """Return Adam: steps along the mean gradient, scaled by the root of the mean square gradient.

    With m = b1·m + (1 - b1)·g and v = b2·v + (1 - b2)·g², and both corrected for their start at 0,
    m̂ = m / (1 - b1ᵗ) and v̂ = v / (1 - b2ᵗ), the step is ``-learning_rate · m̂ / (√v̂ + eps)``.

    Source: Kingma & Ba 2015, Algorithm 1. eps stands where the paper, torch and Optax have it; Keras adds it before the
    correction of v, so its first steps are smaller. At v = 0 the derivative of √v is taken as 0, so that a step has a
    finite derivative where a gradient is 0; Optax needs ``eps_root`` for that.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the number of steps taken.
        b1: decay of the average gradient, from 0 up to 1.
        b2: decay of the average square, from 0 up to 1.
        eps: added to the root, above 0.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> optimizer = adam(0.1)
    >>> state = optimizer.init(afx.ones(2))
    >>> params, state = optimizer.step(afx.ones(2), afx.ones(2), state)
    >>> params, state.count
    (Array([0.9, 0.9], dtype=float32), Array(1., dtype=float64))
    """
    return _checked(Adam(learning_rate, b1, b2, eps), "adam")


def adamw(
    learning_rate: LearningRate = 1e-3,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 1e-2,
) -> Adam:
    """Return Adam with decoupled weight decay: each step also moves by ``-learning_rate · weight_decay · parameter``.

    Source: Loshchilov & Hutter 2019, Algorithm 2, whose schedule multiplies both terms. As in torch and Optax, so does
    the learning rate, which the paper leaves out of the decay; Optax's default decay is 1e-4.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the number of steps taken.
        b1: decay of the average gradient, from 0 up to 1.
        b2: decay of the average square, from 0 up to 1.
        eps: added to the root, above 0.
        weight_decay: the strength of the decay, 0 or more.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> optimizer = adamw(0.1, weight_decay=0.5)
    >>> optimizer.step(afx.ones(1), afx.zeros(1), optimizer.init(afx.ones(1)))[0]
    Array([0.95], dtype=float32)
    """
    positive("weight_decay", weight_decay, "adamw", zero=True)
    return _checked(Adam(learning_rate, b1, b2, eps, weight_decay), "adamw")


def _checked(rule: Adam, who: str) -> Adam:
    positive("learning_rate", rule.learning_rate, who)
    positive("eps", rule.eps, who)
    fraction("b1", rule.b1, who)
    fraction("b2", rule.b2, who)
    return rule
