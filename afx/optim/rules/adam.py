"""Adam: steps along the mean gradient over the root of the mean square gradient, and its kin."""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar

import attrs

from afx.core import Array, ArrayLike, Shown
from afx.ops import abs as absolute, maximum, sign, sqrt, where
from afx.optim import hyperparameters
from afx.optim.hyperparameters import LearningRate, count_zero, first_rate, is_nonzero, next_rate
from afx.optim.step import (
    Mask,
    apply_rule,
    as_real,
    average,
    average_square,
    check_kind,
    filled,
    map_trained,
    safe_sqrt,
    square,
    times,
    zeros_of,
)
from afx.optim.transforms import Descent, decay_weights, descent

__all__ = [
    "Adam",
    "AdamState",
    "AmsgradState",
    "MomentsState",
    "NadamState",
    "adam",
    "adamax",
    "adamw",
    "amsgrad",
    "nadam",
    "radam",
    "scale_by_adam",
    "scale_by_adamax",
    "scale_by_amsgrad",
    "scale_by_nadam",
    "scale_by_radam",
    "scale_by_yogi",
    "yogi",
]

# --- Adam

T = TypeVar("T")


@attrs.frozen
class MomentsState(Shown, Generic[T]):
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
class AdamState(Shown, Generic[T]):
    """The state of Adam.

    Attributes:
        count: the number of steps taken.
        mu: the moving average of the gradients.
        nu: the moving average of their squares, real for complex parameters too.
        learning_rate: the last step's size (before it the first one's); where the optimizer was given a number, it may
            be replaced.
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


@attrs.frozen(kw_only=True)
class ScaleByAdam(Shown, Moments):
    """Adam's transformation of gradients, m̂ / (√(v̂ + eps_root) + eps): what `adam` multiplies by its learning rate.

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

    who: ClassVar[str] = "scale_by_adam"
    b1: float = hyperparameters.fraction_field(0.9)
    b2: float = hyperparameters.fraction_field(0.999)
    eps: float = hyperparameters.positive_field(1e-8)
    nesterov: bool = False
    eps_root: float = hyperparameters.nonnegative_field(0.0)

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
    eps, mean, root_eps = rule.eps * second, mu, rule.eps_root * second * second
    if rule.nesterov:
        next_weight, weight = (
            rule.b1 * second / (1 - rule.b1 ** (count + 1)),
            (1 - rule.b1) * second / (1 - rule.b1**count),
        )
        mean = map_trained(lambda m, g: as_real(next_weight, m) * m + as_real(weight, m) * g, mu, grads)
        factor = size
    else:
        factor = size * second / (1 - rule.b1**count)
    squares = map_trained(lambda n: n + as_real(root_eps, n), nu) if is_nonzero(rule.eps_root) else nu
    direction = map_trained(lambda m, n: as_real(factor, m) * m / (safe_sqrt(n) + as_real(eps, n)), mean, squares)
    return direction, MomentsState(count, mu, nu)


@attrs.frozen
class Adam(Shown):
    """Adam; made by `adam` and `adamw`, which say what the attributes are."""

    learning_rate: LearningRate = attrs.field(validator=hyperparameters.check_positive)
    b1: float = hyperparameters.fraction_field(0.9)
    b2: float = hyperparameters.fraction_field(0.999)
    eps: float = hyperparameters.positive_field(1e-8)
    weight_decay: float = hyperparameters.nonnegative_field(0.0)
    mask: Mask = True
    nesterov: bool = False
    eps_root: float = hyperparameters.nonnegative_field(0.0)

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
        learning_rate: a number, a scalar array, or a schedule of the steps taken.
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
        learning_rate: a number, a scalar array, or a schedule of the steps taken.
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


# --- Adam with another second moment: AMSGrad, Yogi and Adamax

# --- AMSGrad


@attrs.frozen
class AmsgradState(Shown, Generic[T]):
    """The state of `scale_by_amsgrad`.

    Attributes:
        count: the number of steps taken.
        mu: the moving average of the gradients.
        nu: the moving average of their squares.
        nu_max: the largest of the latter so far, element by element.
    """

    count: Array
    mu: T
    nu: T
    nu_max: T


@attrs.frozen(kw_only=True)
class ScaleByAmsgrad(Shown):
    """AMSGrad's transformation of gradients: what `amsgrad` multiplies by its learning rate.

    Arguments and errors are those of `amsgrad`.

    >>> import afx
    >>> rule = scale_by_amsgrad()
    >>> rule.update(afx.asarray([4.0]), rule.init(afx.ones(1)), afx.ones(1))[0]
    Array([1.], dtype=float32)
    """

    b1: float = hyperparameters.fraction_field(0.9)
    b2: float = hyperparameters.fraction_field(0.999)
    eps: float = hyperparameters.positive_field(1e-8)
    correct_first: bool = False

    def init(self, params: T) -> AmsgradState[T]:
        """Return the state before the first step."""
        nu = zeros_of(params, "amsgrad", real=True)
        return AmsgradState(count_zero(), zeros_of(params, "amsgrad"), nu, nu)

    def update(
        self, grads: T, state: AmsgradState[T], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, AmsgradState[T]]:
        """Return the scaled gradients, and the next state."""
        check_kind(state, AmsgradState, "amsgrad")
        count = state.count + 1
        mu, nu = average(state.mu, grads, self.b1), average_square(state.nu, grads, self.b2)
        second = 1 - self.b2**count
        seen = times(nu, 1 / second) if self.correct_first else nu
        nu_max = map_trained(maximum, state.nu_max, seen)
        correction = 1.0 if self.correct_first else 1 / sqrt(second)
        first = 1 / (1 - self.b1**count)

        def scaled(m: Array, n: Array) -> Array:
            return as_real(first, m) * m / (safe_sqrt(n) * as_real(correction, n) + as_real(self.eps, n))

        return map_trained(scaled, mu, nu_max), AmsgradState(count, mu, nu, nu_max)


def amsgrad(
    learning_rate: LearningRate = 1e-3,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    correct_first: bool = False,
    weight_decay: float = 0.0,
    mask: Mask = True,
) -> Descent[AmsgradState[Any]]:
    """Return AMSGrad: Adam that divides by the root of the largest mean square so far, so that steps never grow again.

    Source: Reddi, Kale & Kumar 2018, Algorithm 2, with Adam's corrections. By default the maximum is taken of the averages
    themselves, as torch does; Optax takes it of the corrected ones: ``correct_first=True``.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the steps taken.
        b1: decay of the average gradient, from 0 up to 1.
        b2: decay of the average square, from 0 up to 1.
        eps: added to the root, above 0.
        correct_first: corrects the average square before the maximum is taken, not afterwards.
        weight_decay: the strength of the decoupled decay, 0 or more.
        mask: what decays, as in `adamw`.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> optimizer = amsgrad(0.1)
    >>> optimizer.step(afx.ones(2), afx.ones(2), optimizer.init(afx.ones(2)))[0]
    Array([0.9, 0.9], dtype=float32)
    """
    rule = scale_by_amsgrad(b1=b1, b2=b2, eps=eps, correct_first=correct_first)
    return descent(rule, learning_rate, "amsgrad", weight_decay, mask)


# --- Yogi


@attrs.frozen(kw_only=True)
class ScaleByYogi(Shown, Moments):
    """Yogi's transformation of gradients: what `yogi` multiplies by its learning rate.

    Arguments and errors are those of `yogi`.

    >>> import afx
    >>> rule = scale_by_yogi(eps=1e-9)
    >>> rule.update(afx.asarray([4.0]), rule.init(afx.ones(1)), afx.ones(1))[0].round(2)
    Array([1.], dtype=float32)
    """

    b1: float = hyperparameters.fraction_field(0.9)
    b2: float = hyperparameters.fraction_field(0.999)
    eps: float = hyperparameters.positive_field(1e-3)
    initial: float = hyperparameters.nonnegative_field(1e-6)

    def init(self, params: T) -> MomentsState[T]:
        """Return the state before the first step."""
        start = super().init(params)
        return MomentsState(start.count, filled(start.mu, self.initial), filled(start.nu, self.initial))

    def scaled(self, grads: T, state: MomentsState[T], size: float | Array) -> tuple[T, MomentsState[T]]:
        """Return ``size`` times the scaled gradients, and the next state."""
        count, mu = state.count + 1, average(state.mu, grads, self.b1)

        def added(n: Array, g: Array) -> Array:
            s = square(g)
            return n - as_real(1 - self.b2, n) * sign(n - s) * s

        nu = map_trained(added, state.nu, grads)
        first, second = size / (1 - self.b1**count), 1 / sqrt(1 - self.b2**count)

        def divided(m: Array, n: Array) -> Array:
            return as_real(first, m) * m / (safe_sqrt(n) * as_real(second, n) + as_real(self.eps, n))

        return map_trained(divided, mu, nu), MomentsState(count, mu, nu)


def yogi(
    learning_rate: LearningRate = 1e-2,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-3,
    initial: float = 1e-6,
    weight_decay: float = 0.0,
    mask: Mask = True,
) -> Descent[MomentsState[Any]]:
    """Return Yogi: Adam whose mean square moves by at most (1 - b2)·g² a step, v = v - (1 - b2)·sign(v - g²)·g².

    Source: Zaheer et al. 2018, Algorithm 2. Corrections of the averages and their start are Optax's.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the steps taken.
        b1: decay of the average gradient, from 0 up to 1.
        b2: decay of the average square, from 0 up to 1.
        eps: added to the root, above 0.
        initial: where both averages start, 0 or more.
        weight_decay: the strength of the decoupled decay, 0 or more.
        mask: what decays, as in `adamw`.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> optimizer = yogi(0.1, eps=1e-9)
    >>> optimizer.step(afx.ones(2), afx.ones(2), optimizer.init(afx.ones(2)))[0].round(3)
    Array([0.9, 0.9], dtype=float32)
    """
    rule = scale_by_yogi(b1=b1, b2=b2, eps=eps, initial=initial)
    return descent(rule, learning_rate, "yogi", weight_decay, mask)


# --- Adamax


@attrs.frozen(kw_only=True)
class ScaleByAdamax(Shown, Moments):
    """Adamax' transformation of gradients: what `adamax` multiplies by its learning rate.

    Arguments and errors are those of `adamax`.

    >>> import afx
    >>> rule = scale_by_adamax()
    >>> rule.update(afx.asarray([4.0]), rule.init(afx.ones(1)), afx.ones(1))[0]
    Array([1.], dtype=float32)
    """

    b1: float = hyperparameters.fraction_field(0.9)
    b2: float = hyperparameters.fraction_field(0.999)
    eps: float = hyperparameters.positive_field(1e-8)

    def scaled(self, grads: T, state: MomentsState[T], size: float | Array) -> tuple[T, MomentsState[T]]:
        """Return ``size`` times the scaled gradients, and the next state."""
        count, mu = state.count + 1, average(state.mu, grads, self.b1)

        nu = map_trained(
            lambda n, g: maximum(as_real(self.b2, n) * n, absolute(g) + as_real(self.eps, n)), state.nu, grads
        )
        first = size / (1 - self.b1**count)
        return map_trained(lambda m, n: as_real(first, m) * m / n, mu, nu), MomentsState(count, mu, nu)


def adamax(
    learning_rate: LearningRate = 2e-3,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    mask: Mask = True,
) -> Descent[MomentsState[Any]]:
    """Return Adamax: Adam that divides by the largest gradient that decays, u = max(b2·u, abs(g) + eps).

    Source: Kingma & Ba 2015, Algorithm 2; eps, which the paper leaves out, stands where torch and Optax have it.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the steps taken.
        b1: decay of the average gradient, from 0 up to 1.
        b2: decay of the largest gradient, from 0 up to 1.
        eps: added to absolute values, above 0.
        weight_decay: the strength of the decoupled decay, 0 or more.
        mask: what decays, as in `adamw`.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> optimizer = adamax(0.1)
    >>> optimizer.step(afx.ones(2), afx.ones(2), optimizer.init(afx.ones(2)))[0]
    Array([0.9, 0.9], dtype=float32)
    """
    return descent(scale_by_adamax(b1=b1, b2=b2, eps=eps), learning_rate, "adamax", weight_decay, mask)


# --- Adam with another first moment: NAdam's momentum ahead, and RAdam's rectified start


@attrs.frozen
class NadamState(Shown, Generic[T]):
    """The state of `scale_by_nadam`.

    Attributes:
        count: the number of steps taken.
        mu: the moving average of the gradients.
        nu: the moving average of their squares.
        product: the product of all momenta so far.
    """

    count: Array
    mu: T
    nu: T
    product: Array


@attrs.frozen(kw_only=True)
class ScaleByNadam(Shown):
    """NAdam's transformation of gradients: what `nadam` multiplies by its learning rate.

    Arguments and errors are those of `nadam`.

    >>> import afx
    >>> rule = scale_by_nadam(momentum_decay=None)
    >>> rule.update(afx.asarray([4.0]), rule.init(afx.ones(1)), afx.ones(1))[0].round(4)
    Array([1.4737], dtype=float32)
    """

    b1: float = hyperparameters.fraction_field(0.9)
    b2: float = hyperparameters.fraction_field(0.999)
    eps: float = hyperparameters.positive_field(1e-8)
    momentum_decay: float | None = attrs.field(default=4e-3, validator=hyperparameters.check_not_negative_or_none)

    def init(self, params: T) -> NadamState[T]:
        """Return the state before the first step."""
        mu, nu = zeros_of(params, "nadam"), zeros_of(params, "nadam", real=True)
        return NadamState(count_zero(), mu, nu, count_zero() + 1)

    def _momentum(self, count: Array) -> float | Array:
        if self.momentum_decay is None:
            return self.b1
        return self.b1 * (1 - 0.5 * 0.96 ** (count * self.momentum_decay))

    def update(
        self, grads: T, state: NadamState[T], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, NadamState[T]]:
        """Return the scaled gradients, and the next state."""
        check_kind(state, NadamState, "nadam")
        count = state.count + 1
        mu, nu = average(state.mu, grads, self.b1), average_square(state.nu, grads, self.b2)
        momentum, next_momentum = self._momentum(count), self._momentum(count + 1)
        product = state.product * momentum
        of_grad, of_mean = (1 - momentum) / (1 - product), next_momentum / (1 - product * next_momentum)
        second = 1 / sqrt(1 - self.b2**count)

        def scaled(g: Array, m: Array, n: Array) -> Array:
            direction = as_real(of_grad, g) * g + as_real(of_mean, m) * m
            return direction / (safe_sqrt(n) * as_real(second, n) + as_real(self.eps, n))

        return map_trained(scaled, grads, mu, nu), NadamState(count, mu, nu, product)


def nadam(
    learning_rate: LearningRate = 2e-3,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    momentum_decay: float | None = 4e-3,
    weight_decay: float = 0.0,
    mask: Mask = True,
) -> Descent[NadamState[Any]]:
    """Return NAdam: Adam with Nesterov's momentum, which looks one step of the average gradient ahead.

    Source: Dozat 2016, Algorithm 2, whose momentum rises as b1·(1 - 0.96^(t·momentum_decay) / 2). That is torch's form and
    the default here; Optax keeps the momentum at b1: ``momentum_decay=None``.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the steps taken.
        b1: decay of the average gradient, from 0 up to 1.
        b2: decay of the average square, from 0 up to 1.
        eps: added to the root, above 0.
        momentum_decay: how fast the momentum rises to b1, 0 or more; None keeps it there.
        weight_decay: the strength of the decoupled decay, 0 or more.
        mask: what decays, as in `adamw`.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> optimizer = nadam(0.1, momentum_decay=None)
    >>> optimizer.step(afx.ones(2), afx.ones(2), optimizer.init(afx.ones(2)))[0].round(4)
    Array([0.8526, 0.8526], dtype=float32)
    """
    rule = scale_by_nadam(b1=b1, b2=b2, eps=eps, momentum_decay=momentum_decay)
    return descent(rule, learning_rate, "nadam", weight_decay, mask)


# --- RAdam


@attrs.frozen(kw_only=True)
class ScaleByRadam(Shown, Moments):
    """RAdam's transformation of gradients: what `radam` multiplies by its learning rate.

    Arguments and errors are those of `radam`.

    >>> import afx
    >>> rule = scale_by_radam()
    >>> rule.update(afx.asarray([4.0]), rule.init(afx.ones(1)), afx.ones(1))[0].round(4)
    Array([4.], dtype=float32)
    """

    b1: float = hyperparameters.fraction_field(0.9)
    b2: float = hyperparameters.fraction_field(0.999)
    eps: float = hyperparameters.positive_field(1e-8)
    threshold: float = hyperparameters.positive_field(5.0)
    correct_eps: bool = True

    def scaled(self, grads: T, state: MomentsState[T], size: float | Array) -> tuple[T, MomentsState[T]]:
        """Return ``size`` times the scaled gradients, and the next state."""
        count = state.count + 1
        mu, nu = average(state.mu, grads, self.b1), average_square(state.nu, grads, self.b2)
        rest = 1 - self.b2**count
        limit = 2 / (1 - self.b2) - 1
        length = limit - 2 * count * (1 - rest) / rest  # of the average square, in steps
        rectified = (length >= self.threshold) & (length > 4)
        safe = where(rectified, length, 5.0)
        below = where(rectified, (limit - 4) * (limit - 2) * safe, 1.0)
        ratio = sqrt(where(rectified, (safe - 4) * (safe - 2) * limit / below, 1.0))
        first, second = size / (1 - self.b1**count), sqrt(rest)
        eps = self.eps * second if self.correct_eps else self.eps + count_zero()
        factor = first * ratio * second

        def scaled(m: Array, n: Array) -> Array:
            adapted = as_real(factor, m) * m / (safe_sqrt(n) + as_real(eps, n))
            return where(rectified, adapted, as_real(first, m) * m)

        return map_trained(scaled, mu, nu), MomentsState(count, mu, nu)


def radam(
    learning_rate: LearningRate = 1e-3,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    threshold: float = 5.0,
    correct_eps: bool = True,
    weight_decay: float = 0.0,
    mask: Mask = True,
) -> Descent[MomentsState[Any]]:
    """Return RAdam: Adam that starts as momentum, and adapts once its average square is long enough.

    Source: Liu et al. 2020, Algorithm 2 (threshold 4 there, 5 in torch and Optax). eps is added to the root of the
    corrected average, as in Optax; torch adds it to the average itself: ``correct_eps=False``.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the steps taken.
        b1: decay of the average gradient, from 0 up to 1.
        b2: decay of the average square, from 0 up to 1.
        eps: added to the root, above 0.
        threshold: the number of steps that the average square stands for, above which it is used.
        correct_eps: adds eps after the correction of the average square.
        weight_decay: the strength of the decoupled decay, 0 or more.
        mask: what decays, as in `adamw`.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> optimizer = radam(0.1)
    >>> optimizer.step(afx.ones(2), afx.ones(2), optimizer.init(afx.ones(2)))[0].round(4)
    Array([0.9, 0.9], dtype=float32)
    """
    rule = scale_by_radam(b1=b1, b2=b2, eps=eps, threshold=threshold, correct_eps=correct_eps)
    return descent(rule, learning_rate, "radam", weight_decay, mask)


# --- Names of functions, which users write, for the classes

scale_by_adam = ScaleByAdam
scale_by_amsgrad = ScaleByAmsgrad
scale_by_yogi = ScaleByYogi
scale_by_adamax = ScaleByAdamax
scale_by_nadam = ScaleByNadam
scale_by_radam = ScaleByRadam
