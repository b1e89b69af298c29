"""Adam: steps along the mean gradient over the root of the mean square gradient."""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

import attrs

from afx.core.array.array import Array, ArrayLike
from afx.ops.elementwise.arithmetic import sqrt
from afx.optim import checks
from afx.optim.hyperparameters import LearningRate, count_zero, first_rate, is_nonzero, next_rate
from afx.optim.leaves import as_real, average, average_square, map_trained, safe_sqrt, zeros_of
from afx.optim.masks import Mask
from afx.optim.step import apply_rule, check_kind
from afx.optim.transforms import decay_weights

__all__ = ["Adam", "AdamState", "MomentsState", "ScaleByAdam", "adam", "adamw", "scale_by_adam"]

T = TypeVar("T")


@attrs.frozen
class MomentsState(Generic[T]):
    """The state of `scale_by_adam` and its relatives.

    Attributes:
        count: the number of steps taken.
        mu: the moving average of the gradients.
        nu: the moving average of their squares, real for complex parameters too.
    """

    count: Array
    mu: T
    nu: T


@attrs.frozen
class AdamState(Generic[T]):
    """The state of Adam.

    Attributes:
        count: the number of steps taken.
        mu: the moving average of the gradients.
        nu: the moving average of their squares, real for complex parameters too.
        learning_rate: the step size of the last step (of the first one, before it); a new one may be put here, where
            the optimizer was given a number.
    """

    count: Array
    mu: T
    nu: T
    learning_rate: Array


class Moments:
    """The base of transformations whose state is the two moving averages."""

    __slots__ = ()

    def init(self, params: T) -> MomentsState[T]:
        """Return the state before the first step."""
        who = type(self).__name__
        return MomentsState(count_zero(), zeros_of(params, who), zeros_of(params, who, real=True))

    def update(
        self, grads: T, state: MomentsState[T], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, MomentsState[T]]:
        """Return the scaled gradients, and the next state."""
        check_kind(state, MomentsState, type(self).__name__)
        return self.scaled(grads, state, 1.0)

    def scaled(self, grads: T, state: MomentsState[T], size: float | Array) -> tuple[T, MomentsState[T]]:
        """Return ``size`` times the scaled gradients, and the next state."""
        raise NotImplementedError  # each kind of Adam has its own


@attrs.frozen
class ScaleByAdam(Moments):
    """Adam's transformation; made by `scale_by_adam`."""

    who: ClassVar[str] = "scale_by_adam"
    b1: float = attrs.field(default=0.9, validator=checks.fraction)
    b2: float = attrs.field(default=0.999, validator=checks.fraction)
    eps: float = attrs.field(default=1e-8, validator=checks.positive)
    nesterov: bool = False
    eps_root: float = attrs.field(default=0.0, validator=checks.not_negative)

    def scaled(self, grads: T, state: MomentsState[T], size: float | Array) -> tuple[T, MomentsState[T]]:
        """Return ``size`` times the scaled gradients, and the next state."""
        return scale_moments(self, grads, state, size)


def scale_moments(
    rule: ScaleByAdam | Adam, grads: T, state: MomentsState[T], size: float | Array
) -> tuple[T, MomentsState[T]]:
    """Return ``size`` times the gradients scaled by Adam's settings, and the next state."""
    count = state.count + 1
    mu, nu = average(state.mu, grads, rule.b1), average_square(state.nu, grads, rule.b2)
    # both bias corrections are scalars: taken out of the loop over elements
    second = sqrt(1 - rule.b2**count)
    eps, mean, inside = rule.eps * second, mu, rule.eps_root * second * second
    if rule.nesterov:
        ahead, now = rule.b1 * second / (1 - rule.b1 ** (count + 1)), (1 - rule.b1) * second / (1 - rule.b1**count)
        mean = map_trained(lambda m, g: as_real(ahead, m) * m + as_real(now, m) * g, mu, grads)
        factor = size
    else:
        factor = size * second / (1 - rule.b1**count)
    squares = map_trained(lambda n: n + as_real(inside, n), nu) if is_nonzero(rule.eps_root) else nu
    direction = map_trained(lambda m, n: as_real(factor, m) * m / (safe_sqrt(n) + as_real(eps, n)), mean, squares)
    return direction, MomentsState(count, mu, nu)


def scale_by_adam(
    *, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8, nesterov: bool = False, eps_root: float = 0.0
) -> ScaleByAdam:
    """Return Adam's transformation of gradients, m̂ / (√(v̂ + eps_root) + eps): what `adam` multiplies by its learning rate.

    Args:
        b1: decay of the average gradient, from 0 up to 1.
        b2: decay of the average square, from 0 up to 1.
        eps: added to the root, above 0.
        nesterov: looks one step of the average ahead, as Optax's ``nadam`` does.
        eps_root: added under the root, 0 or more.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> rule = scale_by_adam()
    >>> rule.update(afx.asarray([3.0, -1e-3]), rule.init(afx.ones(2)), afx.ones(2))[0].round(3)
    Array([ 1., -1.], dtype=float32)
    """
    return ScaleByAdam(b1, b2, eps, nesterov, eps_root)


@attrs.frozen
class Adam:
    """Adam; made by `adam` and `adamw`, which say what the attributes are."""

    learning_rate: LearningRate = attrs.field(validator=checks.positive)
    b1: float = attrs.field(default=0.9, validator=checks.fraction)
    b2: float = attrs.field(default=0.999, validator=checks.fraction)
    eps: float = attrs.field(default=1e-8, validator=checks.positive)
    weight_decay: float = attrs.field(default=0.0, validator=checks.not_negative)
    mask: Mask = True
    nesterov: bool = False
    eps_root: float = attrs.field(default=0.0, validator=checks.not_negative)

    @property
    def who(self) -> str:
        """The name of the function that makes it."""
        return "adamw" if is_nonzero(self.weight_decay) else "adam"

    def init(self, params: T) -> AdamState[T]:
        """Return the state before the first step."""
        mu, nu = zeros_of(params, "adam"), zeros_of(params, "adam", real=True)
        return AdamState(count_zero(), mu, nu, first_rate(self.learning_rate))

    def descend(
        self, grads: T, state: AdamState[T], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, AdamState[T]]:
        """Return what to add to the parameters, and the next state."""
        check_kind(state, AdamState, "adam")
        rate = next_rate(self.learning_rate, state)
        updates, after = scale_moments(self, grads, MomentsState(state.count, state.mu, state.nu), -rate)
        if is_nonzero(self.weight_decay):
            updates = decay_weights(updates, params, -rate * self.weight_decay, self.mask)
        return updates, AdamState(after.count, after.mu, after.nu, rate)

    def step(
        self, params: T, grads: T, state: AdamState[T], *, value: ArrayLike | None = None
    ) -> tuple[T, AdamState[T]]:
        """Return the next parameters and state; ``value`` is not needed."""
        return apply_rule(self.descend, params, grads, state, value)


def adam(
    learning_rate: LearningRate = 1e-3,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    nesterov: bool = False,
    eps_root: float = 0.0,
) -> Adam:
    """Return Adam: steps along the mean gradient, scaled by the root of the mean square gradient.

    The moments are m = b1·m + (1 - b1)·g and v = b2·v + (1 - b2)·g². Corrected for their start at 0 they are
    m̂ = m / (1 - b1ᵗ) and v̂ = v / (1 - b2ᵗ). The step is ``-learning_rate · m̂ / (√v̂ + eps)``.

    Source: Kingma & Ba 2015, Algorithm 1. eps stands where the paper, torch and Optax have it; Keras adds it before the
    correction of v, so its first steps are smaller. At v = 0 the derivative of √v is taken as 0, so that a step has a
    finite derivative where a gradient is 0; Optax needs ``eps_root`` for that.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the number of steps taken.
        b1: decay of the average gradient, from 0 up to 1.
        b2: decay of the average square, from 0 up to 1.
        eps: added to the root, above 0.
        nesterov: looks one step of the average ahead, as `nadam` in Optax's form.
        eps_root: added to v̂ under the root, 0 or more.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> optimizer = adam(0.1)
    >>> state = optimizer.init(afx.ones(2))
    >>> params, state = optimizer.step(afx.ones(2), afx.ones(2), state)
    >>> params, state.count
    (Array([0.9, 0.9], dtype=float32), Array(1., dtype=float64))
    """
    return Adam(learning_rate, b1, b2, eps, nesterov=nesterov, eps_root=eps_root)


def adamw(
    learning_rate: LearningRate = 1e-3,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 1e-2,
    mask: Mask = True,
    nesterov: bool = False,
    eps_root: float = 0.0,
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
        mask: what decays: a prefix tree of the parameters of bools or boolean arrays, or a function
            ``(path, leaf) -> bool``.
        nesterov: looks one step of the average ahead.
        eps_root: added to v̂ under the root, 0 or more.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> optimizer = adamw(0.1, weight_decay=0.5)
    >>> optimizer.step(afx.ones(1), afx.zeros(1), optimizer.init(afx.ones(1)))[0]
    Array([0.95], dtype=float32)
    >>> matrices = adamw(0.1, weight_decay=0.5, mask=lambda path, p: p.ndim > 1)
    >>> matrices.step(afx.ones(1), afx.zeros(1), matrices.init(afx.ones(1)))[0]
    Array([1.], dtype=float32)
    """
    return Adam(learning_rate, b1, b2, eps, weight_decay, mask, nesterov, eps_root)
