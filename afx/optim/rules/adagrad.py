"""Adaptive rates: gradients over the root of their squares, averaged, summed, or from rows and columns."""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar

import attrs
import numpy as np

from afx import pytree
from afx.core import Array, ArrayLike, Shown
from afx.ops import expand_dims, maximum, mean, sqrt, sum as sum_, where, zeros
from afx.optim import hyperparameters
from afx.optim.clipping import clip_by_block_rms
from afx.optim.hyperparameters import LearningRate, count_zero, first_rate, is_nonzero, next_rate
from afx.optim.rules.adam import Moments, MomentsState
from afx.optim.step import (
    EmptyState,
    Mask,
    apply_rule,
    as_real,
    average,
    average_square,
    check_kind,
    filled,
    hidden,
    is_trained,
    map_trained,
    norm_of_shards,
    safe_sqrt,
    square,
    times,
    zeros_of,
)
from afx.optim.transforms import Descent, decay_weights, descent, scale_by_param_block_rms

__all__ = [
    "AdadeltaState",
    "Adafactor",
    "AdafactorState",
    "FactoredState",
    "RmsState",
    "Rmsprop",
    "RmspropState",
    "RssState",
    "adabelief",
    "adadelta",
    "adafactor",
    "adagrad",
    "novograd",
    "rmsprop",
    "scale_by_adadelta",
    "scale_by_factored_rms",
    "scale_by_rms",
    "scale_by_rss",
]

# --- RMSProp: gradients over the root of their mean square

T = TypeVar("T")


@attrs.frozen
class RmsState(Shown, Generic[T]):
    """The state of `scale_by_rms`.

    Attributes:
        count: the number of steps taken.
        nu: the moving average of the squared gradients, real for complex parameters too.
        mean: the moving average of the gradients, where centred; else None.
    """

    count: Array
    nu: T
    mean: T | None


@attrs.frozen(kw_only=True)
class ScaleByRms(Shown):
    """RMSProp's transformation of gradients, g / (√v + eps): what `rmsprop` multiplies by its learning rate.

    Args:
        decay: of the averages, from 0 up to 1.
        eps: added to the root, above 0.
        centered: divides by the standard deviation in place of the root mean square; Optax's ``scale_by_stddev``.
        eps_in_root: adds eps inside of the root, as Optax does by default.
        bias_correction: corrects the averages for their start at 0, as Adam does.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> rule = scale_by_rms(decay=0.75)
    >>> rule.update(afx.ones(1), rule.init(afx.ones(1)), afx.ones(1))[0]
    Array([2.], dtype=float32)
    """

    who: ClassVar[str] = "scale_by_rms"
    decay: float = hyperparameters.fraction_field(0.99)
    eps: float = hyperparameters.positive_field(1e-8)
    centered: bool = False
    eps_in_root: bool = False
    bias_correction: bool = False

    def init(self, params: T) -> RmsState[T]:
        """Return the state before the first step."""
        return _start(params, self.centered)

    def update(
        self, grads: T, state: RmsState[T], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, RmsState[T]]:
        """Return the scaled gradients, and the next state."""
        check_kind(state, RmsState, "scale_by_rms")
        return _scale(self, grads, state, self.bias_correction)


def _start(params: T, centered: bool) -> RmsState[T]:
    mean = zeros_of(params, "rmsprop") if centered else None
    return RmsState(count_zero(), zeros_of(params, "rmsprop", real=True), mean)


def _scale(rule: ScaleByRms | Rmsprop, grads: T, state: RmsState[T], corrects: bool) -> tuple[T, RmsState[T]]:
    """Return gradients over the root of their mean square, and the next state."""
    count, nu, mean = state.count + 1, average_square(state.nu, grads, rule.decay), None
    correction = 1 / (1 - rule.decay**count) if corrects else 1.0
    moment = times(nu, correction) if corrects else nu
    if state.mean is not None:
        mean = average(state.mean, grads, rule.decay)

        def variance(n: Array, m: Array) -> Array:  # rounding may bring it below 0
            return maximum(n - square(as_real(correction, m) * m), 0.0)

        moment = map_trained(variance, moment, mean)

    def divide(g: Array, n: Array) -> Array:
        eps = as_real(rule.eps, n)
        return g / (sqrt(n + eps) if rule.eps_in_root else safe_sqrt(n) + eps)

    return map_trained(divide, grads, moment), RmsState(count, nu, mean)


@attrs.frozen
class RmspropState(Shown, Generic[T]):
    """The state of RMSProp.

    Attributes:
        count: the number of steps taken.
        nu: the moving average of the squared gradients, real for complex parameters too.
        mean: the moving average of the gradients, where centred; else None.
        velocity: the momentum, or None without it.
        learning_rate: the last step's size (before it the first one's); where the optimizer was given a number, it may
            be replaced.
    """

    count: Array
    nu: T
    mean: T | None
    velocity: T | None
    learning_rate: Array


@attrs.frozen
class Rmsprop(Shown):
    """RMSProp: steps of ``-learning_rate · g / (√v + eps)``, where v = decay·v + (1 - decay)·g².

    With momentum, the step is along u = momentum·u + g / (√v + eps). Centred, v - m² stands for v, where
    m = decay·m + (1 - decay)·g: a gradient that hardly changes has no variance, and steps are then large; a larger eps,
    such as 1e-2, bounds them.

    Source: Hinton 2012, lecture 6e (decay 0.9); the centred form is of Graves 2013 (Generating sequences with recurrent
    neural networks). Defaults and eps outside of the root are torch's; Graves and Optax add eps inside of the root, and Optax's
    decay is 0.9: ``decay=0.9, eps_in_root=True``.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the steps taken.
        decay: of the averages, from 0 up to 1.
        eps: added to the root, above 0.
        momentum: gathers the scaled gradients, from 0 up to 1.
        centered: divides by the standard deviation in place of the root mean square.
        eps_in_root: adds eps inside of the root.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> optimizer = rmsprop(0.1, decay=0.75)
    >>> optimizer.step(afx.ones(1), afx.ones(1), optimizer.init(afx.ones(1)))[0]
    Array([0.8], dtype=float32)
    """

    learning_rate: LearningRate = attrs.field(validator=hyperparameters.check_positive)
    decay: float = attrs.field(default=0.99, kw_only=True, validator=hyperparameters.check_fraction)
    eps: float = attrs.field(default=1e-8, kw_only=True, validator=hyperparameters.check_positive)
    momentum: float = attrs.field(default=0.0, kw_only=True, validator=hyperparameters.check_fraction)
    centered: bool = attrs.field(default=False, kw_only=True)
    eps_in_root: bool = attrs.field(default=False, kw_only=True)

    def init(self, params: T) -> RmspropState[T]:
        """Return the state before the first step."""
        inner = _start(params, self.centered)
        velocity = zeros_of(params, "rmsprop") if is_nonzero(self.momentum) else None
        return RmspropState(inner.count, inner.nu, inner.mean, velocity, first_rate(self.learning_rate))

    def descend(
        self, grads: T, state: RmspropState[T], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, RmspropState[T]]:
        """Return what to add to the parameters, and the next state."""
        check_kind(state, RmspropState, "rmsprop")
        rate = next_rate(self.learning_rate, state)
        direction, after = _scale(self, grads, RmsState(state.count, state.nu, state.mean), False)
        velocity = state.velocity
        if velocity is not None:
            decay = self.momentum
            velocity = direction = map_trained(lambda v, d: as_real(decay, v) * v + d, velocity, direction)
        return times(direction, -rate), RmspropState(after.count, after.nu, after.mean, velocity, rate)

    def step(
        self, params: T, grads: T, state: RmspropState[T], *, value: ArrayLike | None = None
    ) -> tuple[T, RmspropState[T]]:
        """Return the next parameters and state; ``value`` is not needed."""
        return apply_rule(self.descend, params, grads, state, value)


# --- Adagrad and Adadelta: gradients over the root of a sum, or an average, of squares


@attrs.frozen
class RssState(Shown, Generic[T]):
    """The state of `scale_by_rss`.

    Attributes:
        sum_of_squares: of all gradients so far, real for complex parameters too.
    """

    sum_of_squares: T


@attrs.frozen(kw_only=True)
class ScaleByRss(Shown):
    """Adagrad's transformation of gradients, over the root of the sum of squares.

    Arguments and errors are those of `adagrad`.

    >>> import afx
    >>> rule = scale_by_rss()
    >>> rule.update(afx.asarray([4.0]), rule.init(afx.ones(1)), afx.ones(1))[0]
    Array([1.], dtype=float32)
    """

    who: ClassVar[str] = "adagrad"
    initial: float = hyperparameters.nonnegative_field(0.0)
    eps: float = hyperparameters.positive_field(1e-10)
    eps_in_root: bool = False

    def init(self, params: T) -> RssState[T]:
        """Return the state before the first step."""
        return RssState(filled(zeros_of(params, "adagrad", real=True), self.initial))

    def update(
        self, grads: T, state: RssState[T], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, RssState[T]]:
        """Return the scaled gradients, and the next state."""
        check_kind(state, RssState, "adagrad")
        total = map_trained(lambda s, g: s + square(g), state.sum_of_squares, grads)
        return map_trained(self._divide, grads, total), RssState(total)

    def _divide(self, g: Array, s: Array) -> Array:
        eps = as_real(self.eps, s)
        if not self.eps_in_root:
            return g / (safe_sqrt(s) + eps)
        return where(s > 0, g / sqrt(s + eps), 0.0)


def adagrad(
    learning_rate: LearningRate = 1e-2,
    *,
    initial: float = 0.0,
    eps: float = 1e-10,
    eps_in_root: bool = False,
    weight_decay: float = 0.0,
    mask: Mask = True,
) -> Descent[RssState[Any]]:
    """Return Adagrad: steps of ``-learning_rate · g / (√s + eps)``, where s is the sum of all squares so far.

    Source: Duchi, Hazan & Singer 2011, the diagonal form. Start and eps are torch's; Optax starts the sum at 0.1 and adds
    eps inside of the root: ``initial=0.1, eps=1e-7, eps_in_root=True``.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the steps taken.
        initial: where the sum of squares starts, 0 or more.
        eps: added to the root, above 0.
        eps_in_root: adds eps inside of the root.
        weight_decay: the strength of the decoupled decay, 0 or more.
        mask: what decays, as in `adamw`.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> optimizer = adagrad(0.1)
    >>> optimizer.step(afx.ones(2), afx.ones(2), optimizer.init(afx.ones(2)))[0]
    Array([0.9, 0.9], dtype=float32)
    """
    rule = scale_by_rss(initial=initial, eps=eps, eps_in_root=eps_in_root)
    return descent(rule, learning_rate, "adagrad", weight_decay, mask)


# --- Adadelta


@attrs.frozen
class AdadeltaState(Shown, Generic[T]):
    """The state of `scale_by_adadelta`.

    Attributes:
        squares: the moving average of squared gradients, real for complex parameters too.
        moves: the moving average of squared updates.
    """

    squares: T
    moves: T


@attrs.frozen(kw_only=True)
class ScaleByAdadelta(Shown):
    """Adadelta's transformation of gradients: what `adadelta` multiplies by its learning rate.

    Arguments and errors are those of `adadelta`.

    >>> import afx
    >>> rule = scale_by_adadelta(rho=0.75, eps=1e-6)
    >>> rule.update(afx.asarray([4.0]), rule.init(afx.ones(1)), afx.ones(1))[0].round(4)
    Array([0.002], dtype=float32)
    """

    rho: float = hyperparameters.fraction_field(0.9)
    eps: float = hyperparameters.positive_field(1e-6)

    def init(self, params: T) -> AdadeltaState[T]:
        """Return the state before the first step."""
        start = zeros_of(params, "adadelta", real=True)
        return AdadeltaState(start, start)

    def update(
        self, grads: T, state: AdadeltaState[T], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, AdadeltaState[T]]:
        """Return the scaled gradients, and the next state."""
        check_kind(state, AdadeltaState, "adadelta")
        squares = average_square(state.squares, grads, self.rho)

        def moved(g: Array, s: Array, m: Array) -> Array:
            eps = as_real(self.eps, s)
            return sqrt(m + eps) / sqrt(s + eps) * g

        updates = map_trained(moved, grads, squares, state.moves)
        return updates, AdadeltaState(squares, average_square(state.moves, updates, self.rho))


def adadelta(
    learning_rate: LearningRate = 1.0,
    *,
    rho: float = 0.9,
    eps: float = 1e-6,
    weight_decay: float = 0.0,
    mask: Mask = True,
) -> Descent[AdadeltaState[Any]]:
    """Return Adadelta: gradients over their root mean square, times that of past steps.

    Source: Zeiler 2012, Algorithm 1, as in torch and Optax.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the number of steps taken; the paper has 1.
        rho: decay of both averages, from 0 up to 1.
        eps: added inside of both roots, above 0.
        weight_decay: the strength of the decoupled decay, 0 or more.
        mask: what decays, as in `adamw`.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> optimizer = adadelta(1.0, rho=0.75)
    >>> optimizer.step(afx.ones(2), afx.ones(2), optimizer.init(afx.ones(2)))[0].round(4)
    Array([0.998, 0.998], dtype=float32)
    """
    return descent(scale_by_adadelta(rho=rho, eps=eps), learning_rate, "adadelta", weight_decay, mask)


# --- AdaBelief and NovoGrad: steps scaled by how far gradients are from their average, or by the length of each
# array's


@attrs.frozen
class ScaleByBelief(Moments):
    """AdaBelief's transformation; made by `adabelief`."""

    who: ClassVar[str] = "adabelief"
    b1: float = attrs.field(validator=hyperparameters.check_fraction)
    b2: float = attrs.field(validator=hyperparameters.check_fraction)
    eps: float = attrs.field(validator=hyperparameters.check_positive)
    eps_root: float = attrs.field(validator=hyperparameters.check_not_negative)

    def scaled(self, grads: T, state: MomentsState[T], size: float | Array) -> tuple[T, MomentsState[T]]:
        """Return ``size`` times the scaled gradients, and the next state."""
        count = state.count + 1
        mu = average(state.mu, grads, self.b1)
        gaps = map_trained(lambda g, m: g - m, grads, mu)
        nu = map_trained(lambda n: n + as_real(self.eps_root, n), average_square(state.nu, gaps, self.b2))
        first, second = size / (1 - self.b1**count), 1 / (1 - self.b2**count)

        def direction(m: Array, n: Array) -> Array:
            return as_real(first, m) * m / (safe_sqrt(as_real(second, n) * n) + as_real(self.eps, n))

        return map_trained(direction, mu, nu), MomentsState(count, mu, nu)


def adabelief(
    learning_rate: LearningRate = 1e-3,
    *,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-16,
    eps_root: float = 1e-16,
    weight_decay: float = 0.0,
    mask: Mask = True,
) -> Descent[MomentsState[Any]]:
    """Return AdaBelief: Adam with the mean square of ``g - m`` in place of that of g, so that sure gradients go farther.

    Source: Zhuang et al. 2020, Algorithm 2, as in Optax.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the steps taken.
        b1: decay of the average gradient, from 0 up to 1.
        b2: decay of the average square, from 0 up to 1.
        eps: added to the root, above 0.
        eps_root: added to the mean square at each step, 0 or more.
        weight_decay: the strength of the decoupled decay, 0 or more.
        mask: what decays, as in `adamw`.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> optimizer = adabelief(0.1)
    >>> optimizer.step(afx.ones(1), afx.ones(1), optimizer.init(afx.ones(1)))[0].round(4)
    Array([0.8889], dtype=float32)
    """
    return descent(ScaleByBelief(b1, b2, eps, eps_root), learning_rate, "adabelief", weight_decay, mask)


@attrs.frozen
class ScaleByNovograd:
    """NovoGrad's transformation; made by `novograd`."""

    b1: float = attrs.field(validator=hyperparameters.check_fraction)
    b2: float = attrs.field(validator=hyperparameters.check_fraction)
    eps: float = attrs.field(validator=hyperparameters.check_positive)
    weight_decay: float = attrs.field(validator=hyperparameters.check_not_negative)
    mask: Mask

    def init(self, params: T) -> MomentsState[T]:
        """Return the state before the first step; nu has one number for each array."""
        zeros = zeros_of(params, "novograd")
        return MomentsState(count_zero(), zeros, map_trained(lambda m: sum_(square(m)), zeros))

    def update(
        self, grads: T, state: MomentsState[T], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, MomentsState[T]]:
        """Return the average of scaled gradients, and the next state."""
        check_kind(state, MomentsState, "novograd")

        def mixed(n: Array, g: Array) -> Array:
            size = norm_of_shards(safe_sqrt(sum_(square(g)))) ** 2
            return where(state.count == 0, size, as_real(self.b2, n) * n + as_real(1 - self.b2, n) * size)

        nu = map_trained(mixed, state.nu, grads)
        scaled = map_trained(lambda g, n: g / (safe_sqrt(n) + as_real(self.eps, n)), grads, nu)
        if is_nonzero(self.weight_decay):
            scaled = decay_weights(scaled, params, self.weight_decay, self.mask)
        mu = map_trained(lambda m, s: as_real(self.b1, m) * m + s, state.mu, scaled)
        return mu, MomentsState(state.count + 1, mu, nu)


def novograd(
    learning_rate: LearningRate = 1e-3,
    *,
    b1: float = 0.9,
    b2: float = 0.25,
    eps: float = 1e-6,
    weight_decay: float = 0.0,
    mask: Mask = True,
) -> Descent[MomentsState[Any]]:
    """Return NovoGrad: gradients over the root mean square of the length of their array's, then momentum.

    Source: Ginsburg et al. 2019, Algorithm 1, as in Optax.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the steps taken.
        b1: how much of the last direction is kept, from 0 up to 1.
        b2: decay of the average squared length, from 0 up to 1.
        eps: added to the root, above 0.
        weight_decay: the strength of the decay, inside of the momentum, 0 or more.
        mask: what decays, as in `adamw`.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> optimizer = novograd(0.1)
    >>> optimizer.step(afx.ones(2), afx.asarray([3.0, 4.0]), optimizer.init(afx.ones(2)))[0]
    Array([0.94, 0.92], dtype=float32)
    """
    return descent(ScaleByNovograd(b1, b2, eps, weight_decay, mask), learning_rate, "novograd")


# --- Adafactor: the second moment of a matrix from the means of its rows and columns


@attrs.frozen
class FactoredState(Shown, Generic[T]):
    """The state of `scale_by_factored_rms`; of each array either the first two or the last hold something.

    Attributes:
        count: the number of steps taken.
        rows: mean squares over the longest axis.
        columns: mean squares over the second longest axis.
        nu: mean squares of arrays that are not factored.
    """

    count: Array
    rows: T
    columns: T
    nu: T


@attrs.frozen(kw_only=True)
class ScaleByFactoredRms(Shown):
    """Adafactor's transformation: gradients over the root of a mean square that rows and columns share.

    Arguments and errors are those of `adafactor`.

    >>> import afx
    >>> rule = scale_by_factored_rms(least_length=2)
    >>> g = afx.asarray([[1.0, 2.0], [2.0, 4.0]])
    >>> rule.update(g, rule.init(g), g)[0].round(4)
    Array([[1., 1.],
           [1., 1.]], dtype=float32)
    """

    who: ClassVar[str] = "adafactor"
    decay: float = hyperparameters.positive_field(0.8)
    eps: float = hyperparameters.positive_field(1e-30)
    least_length: int = hyperparameters.positive_field(128)

    def _axes(self, x: Array) -> tuple[int, int] | None:
        """Return the second longest and the longest axis, of arrays to be factored."""
        order = np.argsort(x.shape)
        if x.ndim < 2 or x.shape[order[-2]] < self.least_length:
            return None
        return int(order[-2]), int(order[-1])

    def init(self, params: T) -> FactoredState[T]:
        """Return the state before the first step."""
        start = zeros_of(params, "adafactor", real=True)

        def without(number: int) -> T:
            def reduced(x: Array) -> Array:
                axes = self._axes(x)
                return hidden() if axes is None else zeros(np.delete(x.shape, axes[number]).tolist(), x.dtype)

            return map_trained(reduced, start)

        whole = map_trained(lambda x: x if self._axes(x) is None else hidden(), start)
        return FactoredState(count_zero(), without(1), without(0), whole)

    def update(
        self, grads: T, state: FactoredState[T], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, FactoredState[T]]:
        """Return the scaled gradients, and the next state."""
        check_kind(state, FactoredState, "adafactor")
        count = state.count + 1
        decay = 1 - count ** (-self.decay)
        squares = map_trained(lambda g: square(g) + as_real(self.eps, g), grads)

        def averaged(old: T, number: int) -> T:
            def mixed(v: Array, s: Array) -> Array:
                axes = self._axes(s)
                lines = s if axes is None else mean(s, axis=axes[number])
                return as_real(decay, v) * v + as_real(1 - decay, v) * lines

            return map_trained(mixed, old, squares)

        rows, columns, nu = averaged(state.rows, 1), averaged(state.columns, 0), average(state.nu, squares, decay)
        leaves, treedef = pytree.flatten(grads)
        parts = [pytree.leaves(part) for part in (rows, columns, nu)]
        scaled = [self._divide(*each) for each in zip(leaves, *parts, strict=True)]
        return pytree.unflatten(treedef, scaled), FactoredState(count, rows, columns, nu)

    def _divide(self, g: Array, row: Array, column: Array, nu: Array) -> Array:
        if not is_trained(g):
            return g
        axes = self._axes(g)
        if axes is None:
            return g / sqrt(nu)
        second, first = axes
        left = second - 1 if second > first else second
        share = row / mean(row, axis=left, keepdims=True)
        return g / sqrt(expand_dims(share, first)) / sqrt(expand_dims(column, second))


@attrs.frozen
class AdafactorState(Shown, Generic[T]):
    """The state of Adafactor.

    Attributes:
        count: the number of steps taken.
        factored: the mean squares.
        mu: the moving average of the updates, with momentum; else None.
        learning_rate: the last step's size (before it the first one's); where the optimizer was given a number, it may
            be replaced.
    """

    count: Array
    factored: FactoredState[T]
    mu: T | None
    learning_rate: Array


@attrs.frozen
class Adafactor(Shown):
    """Adafactor; made by `adafactor`, which says what the attributes are."""

    learning_rate: LearningRate = attrs.field(validator=hyperparameters.check_positive)
    rule: ScaleByFactoredRms
    clipping: float | None = attrs.field(default=1.0, validator=hyperparameters.check_positive_or_none)
    scale_by_parameters: bool = True
    momentum: float = hyperparameters.fraction_field(0.0)
    weight_decay: float = hyperparameters.nonnegative_field(0.0)
    mask: Mask = True

    def init(self, params: T) -> AdafactorState[T]:
        """Return the state before the first step."""
        mu = zeros_of(params, "adafactor") if is_nonzero(self.momentum) else None
        return AdafactorState(count_zero(), self.rule.init(params), mu, first_rate(self.learning_rate))

    def descend(
        self, grads: T, state: AdafactorState[T], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, AdafactorState[T]]:
        """Return what to add to the parameters, and the next state."""
        check_kind(state, AdafactorState, "adafactor")
        rate = next_rate(self.learning_rate, state)
        updates, factored = self.rule.update(grads, state.factored, params)
        if self.clipping is not None:
            updates, _ = clip_by_block_rms(self.clipping).update(updates, EmptyState(), params, None)
        updates = times(updates, rate)
        if self.scale_by_parameters:
            updates, _ = scale_by_param_block_rms().update(updates, EmptyState(), params, None)
        mu = state.mu
        if mu is not None:
            mu = updates = average(mu, updates, self.momentum)
        updates = decay_weights(updates, params, self.weight_decay, self.mask)
        return times(updates, -1.0), AdafactorState(state.count + 1, factored, mu, rate)

    def step(
        self, params: T, grads: T, state: AdafactorState[T], *, value: ArrayLike | None = None
    ) -> tuple[T, AdafactorState[T]]:
        """Return the next parameters and state; ``value`` is not needed."""
        return apply_rule(self.descend, params, grads, state, value)


def adafactor(
    learning_rate: LearningRate = 1e-2,
    *,
    decay: float = 0.8,
    eps: float = 1e-30,
    least_length: int = 128,
    clipping: float | None = 1.0,
    scale_by_parameters: bool = True,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    mask: Mask = True,
) -> Adafactor:
    """Return Adafactor: Adam without momentum, whose second moment of a matrix takes two vectors in place of a matrix.

    The mean square of an element is (mean of its row) · (mean of its column) / (mean of all). Its decay at step t is
    1 - t^-decay. Updates are clipped to a root mean square of ``clipping`` and multiplied by that of the parameters.

    Source: Shazeer & Stern 2018, Algorithm 4, in Optax's form. torch factors every matrix, and bounds the learning rate by
    1 / √t: ``least_length=1, learning_rate=lambda t: afx.minimum(1e-2, (t + 1) ** -0.5)``; its weight decay is multiplied by
    the learning rate, here it is not.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the number of steps taken; relative to the size of the
            parameters, as long as these scale the updates.
        decay: the exponent of the decay of mean squares, above 0.
        eps: added to squares, above 0.
        least_length: arrays whose second longest axis is shorter are not factored.
        clipping: the largest root mean square of an array's update; None for no limit.
        scale_by_parameters: multiplies each array's update by the root mean square of its parameters, 1e-3 at least.
        momentum: decay of an average of the updates, from 0 up to 1; at 0 none is kept.
        weight_decay: the part of each parameter that every step takes away, 0 or more.
        mask: what decays, as in `adamw`.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> optimizer = adafactor(0.1)
    >>> optimizer.step(afx.ones(2), afx.ones(2), optimizer.init(afx.ones(2)))[0]
    Array([0.9, 0.9], dtype=float32)
    """
    rule = scale_by_factored_rms(decay=decay, eps=eps, least_length=least_length)
    return Adafactor(learning_rate, rule, clipping, scale_by_parameters, momentum, weight_decay, mask)


# --- Names of functions, which users write, for the classes

scale_by_rms = ScaleByRms
scale_by_rss = ScaleByRss
scale_by_adadelta = ScaleByAdadelta
scale_by_factored_rms = ScaleByFactoredRms
rmsprop = Rmsprop
