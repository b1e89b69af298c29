"""Gradient descent: plain steps, momentum, steps by signs, and rates for each layer."""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar

import attrs

from afx import pytree
from afx.core import Array, ArrayLike, Shown, float64
from afx.errors import ArgumentError
from afx.ops import clip, sign, where
from afx.optim import hyperparameters
from afx.optim.hyperparameters import (
    LearningRate,
    count_zero,
    first_rate,
    fraction,
    is_nonzero,
    is_within,
    next_rate,
    positive,
)
from afx.optim.rules.adam import MomentsState, scale_by_adam
from afx.optim.step import (
    EmptyState,
    Mask,
    Steps,
    apply_rule,
    as_real,
    average,
    check_kind,
    check_params,
    filled,
    map_trained,
    times,
    zeros_of,
)
from afx.optim.transforms import Descent, add_decayed_weights, chain, descent, scale_by_trust_ratio
from afx.optim.wrappers.masking import masked

__all__ = [
    "Lars",
    "LarsState",
    "LearningRateState",
    "LionState",
    "Rprop",
    "RpropState",
    "Sgd",
    "SgdState",
    "TraceState",
    "lamb",
    "lars",
    "lion",
    "rprop",
    "scale_by_learning_rate",
    "scale_by_lion",
    "sgd",
    "trace",
]

# --- Gradient descent: plain steps, and steps with momentum

T = TypeVar("T")


@attrs.frozen
class LearningRateState(Shown):
    """The state of `scale_by_learning_rate`.

    Attributes:
        count: the number of steps taken.
        learning_rate: the last step's size (before it the first one's); where the optimizer was given a number, it may
            be replaced.
    """

    count: Array
    learning_rate: Array


@attrs.frozen
class ScaleByLearningRate(Steps[LearningRateState]):
    """The optimizer that steps by ``-learning_rate`` times what it is given: the end of a chain.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the steps taken.

    Raises:
        ArgumentError: the learning rate is not above 0.

    >>> import afx
    >>> from afx import optim
    >>> optimizer = optim.chain(optim.scale_by_adam(), optim.scale_by_learning_rate(0.5))
    >>> optimizer.step(afx.ones(2), afx.ones(2), optimizer.init(afx.ones(2)))[0]
    Array([0.5, 0.5], dtype=float32)
    """

    who: ClassVar[str] = "scale_by_learning_rate"
    learning_rate: LearningRate = attrs.field(validator=hyperparameters.check_positive)

    def init(self, params: object) -> LearningRateState:
        """Return the state before the first step."""
        check_params(*pytree.flatten(params), "scale_by_learning_rate")
        return LearningRateState(count_zero(), first_rate(self.learning_rate))

    def descend(
        self, grads: T, state: LearningRateState, params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, LearningRateState]:
        """Return what to add to the parameters, and the next state."""
        check_kind(state, LearningRateState, "scale_by_learning_rate")
        rate = next_rate(self.learning_rate, state)
        return times(grads, -rate), LearningRateState(state.count + 1, rate)


# --- momentum


def gather(grads: T, velocity: T, count: Array, decay: float, nesterov: bool, dampening: float) -> tuple[T, T]:
    """Return the direction of momentum, and the next velocity."""
    if is_nonzero(dampening):
        first = (count == 0).astype(float64)  # the first gradient is not dampened
        old_weight, new_weight = (1 - first) * decay, first + (1 - first) * (1 - dampening)
        velocity = map_trained(lambda v, g: as_real(old_weight, v) * v + as_real(new_weight, v) * g, velocity, grads)
    else:
        velocity = map_trained(lambda v, g: as_real(decay, v) * v + g, velocity, grads)
    direction = map_trained(lambda v, g: as_real(decay, v) * v + g, velocity, grads) if nesterov else velocity
    return direction, velocity


def check_momentum(decay: float, nesterov: bool, dampening: float, who: str) -> None:
    """Raise where a setting of momentum is out of its range."""
    fraction("momentum", decay, who)
    fraction("dampening", dampening, who)
    if nesterov and not is_nonzero(decay):
        raise ArgumentError(f"{who}: nesterov=True looks along the momentum: got momentum=0; give one, 0.9 as a rule")
    if nesterov and is_nonzero(dampening):
        raise ArgumentError(f"{who}: nesterov=True needs whole gradients: got dampening={dampening}; leave one out")
    if is_nonzero(dampening) and not is_nonzero(decay):
        raise ArgumentError(f"{who}: dampening belongs to momentum: got momentum=0; give one, 0.9 as a rule")


@attrs.frozen
class TraceState(Shown, Generic[T]):
    """The state of `trace`.

    Attributes:
        count: the number of steps taken.
        velocity: the sum of past gradients.
    """

    count: Array
    velocity: T


@attrs.frozen
class Trace(Shown):
    """The transformation that gathers gradients, v = momentum·v + (1 - dampening)·g, as `sgd` with momentum does.

    Args:
        momentum: how much of v is kept, above 0 and below 1.
        nesterov: looks one step of momentum ahead.
        dampening: how much of each gradient but the first is left out, as in torch; Optax has none.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> rule = trace(0.5)
    >>> _, state = rule.update(afx.ones(1), rule.init(afx.ones(1)), afx.ones(1))
    >>> rule.update(afx.ones(1), state, afx.ones(1))[0]
    Array([1.5], dtype=float32)
    """

    momentum: float
    nesterov: bool = attrs.field(default=False, kw_only=True)
    dampening: float = attrs.field(default=0.0, kw_only=True)

    def __attrs_post_init__(self) -> None:
        check_momentum(self.momentum, self.nesterov, self.dampening, "trace")

    def init(self, params: T) -> TraceState[T]:
        """Return the state before the first step."""
        return TraceState(count_zero(), zeros_of(params, "trace"))

    def update(
        self, grads: T, state: TraceState[T], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, TraceState[T]]:
        """Return the gathered gradients, and the next state."""
        check_kind(state, TraceState, "trace")
        direction, velocity = gather(grads, state.velocity, state.count, self.momentum, self.nesterov, self.dampening)
        return direction, TraceState(state.count + 1, velocity)


@attrs.frozen
class SgdState(Shown, Generic[T]):
    """The state of gradient descent.

    Attributes:
        count: the number of steps taken.
        velocity: the sum of past gradients that momentum keeps; None without momentum.
        learning_rate: the last step's size (before it the first one's); where the optimizer was given a number, it may
            be replaced.
    """

    count: Array
    velocity: T | None
    learning_rate: Array


@attrs.frozen
class Sgd(Shown):
    """Gradient descent: the step is ``-learning_rate · v``, where v is the gradient or gathers momentum.

    Without momentum v = g; with it v = momentum·v + (1 - dampening)·g, where the first gradient is taken whole.
    Nesterov's form steps along momentum·v + g in place of v.

    Source: Polyak 1964; Nesterov 1983 as rewritten by Sutskever et al. 2013, who gather learning_rate·g: that differs
    where the learning rate changes. torch and Optax do as afx does; Optax has no dampening.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the steps taken.
        momentum: how much of v is kept, from 0 up to 1.
        nesterov: looks one step of momentum ahead.
        dampening: how much of each gradient but the first is left out.

    Raises:
        ArgumentError: momentum outside [0, 1), Nesterov's form without momentum or with dampening, dampening without
            momentum, or no positive learning rate.

    >>> import afx
    >>> optimizer = sgd(0.5)
    >>> optimizer.step(afx.ones(2), afx.ones(2), optimizer.init(afx.ones(2)))[0]
    Array([0.5, 0.5], dtype=float32)
    """

    learning_rate: LearningRate = attrs.field(validator=hyperparameters.check_positive)
    momentum: float = attrs.field(default=0.0, kw_only=True)
    nesterov: bool = attrs.field(default=False, kw_only=True)
    dampening: float = attrs.field(default=0.0, kw_only=True)

    def __attrs_post_init__(self) -> None:
        check_momentum(self.momentum, self.nesterov, self.dampening, "sgd")

    def init(self, params: T) -> SgdState[T]:
        """Return the state before the first step."""
        check_params(*pytree.flatten(params), "sgd")
        velocity = zeros_of(params, "sgd") if is_nonzero(self.momentum) else None
        return SgdState(count_zero(), velocity, first_rate(self.learning_rate))

    def descend(
        self, grads: T, state: SgdState[T], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, SgdState[T]]:
        """Return what to add to the parameters, and the next state."""
        check_kind(state, SgdState, "sgd")
        rate = next_rate(self.learning_rate, state)
        direction, velocity = grads, state.velocity
        if velocity is not None:
            direction, velocity = gather(grads, velocity, state.count, self.momentum, self.nesterov, self.dampening)
        return times(direction, -rate), SgdState(state.count + 1, velocity, rate)

    def step(self, params: T, grads: T, state: SgdState[T], *, value: ArrayLike | None = None) -> tuple[T, SgdState[T]]:
        """Return the next parameters and state; ``value`` is not needed."""
        return apply_rule(self.descend, params, grads, state, value)


# --- Rprop: each element has a step size of its own, which follows the signs of its gradients


@attrs.frozen
class RpropState(Shown, Generic[T]):
    """The state of Rprop.

    Attributes:
        count: the number of steps taken.
        sizes: the step size of each element.
        previous: the last gradients, 0 where their sign had changed.
    """

    count: Array
    sizes: T
    previous: T


@attrs.frozen
class Rprop(Steps[RpropState[Any]]):
    """Rprop: elements move against the signs of their gradients, farther while these stay, less when they change.

    It is for whole gradients: noise of batches changes signs. Where a sign changes the element rests for a step.

    Source: Riedmiller & Braun 1993, in the form without backtracking of Igel & Hüsken 2000, as in torch and Optax.

    Args:
        learning_rate: the first step size of every element, above 0.
        shrink: what a size is multiplied by where a sign changes, above 0 and below 1.
        grow: and where it stays, 1 or more.
        least: the least size, above 0.
        most: the largest size, above 0.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> optimizer = rprop(0.1)
    >>> optimizer.step(afx.ones(2), afx.asarray([4.0, -0.1]), optimizer.init(afx.ones(2)))[0]
    Array([0.9, 1.1], dtype=float32)
    """

    learning_rate: float = 1e-2
    shrink: float = attrs.field(default=0.5, kw_only=True)
    grow: float = attrs.field(default=1.2, kw_only=True)
    least: float = attrs.field(default=1e-6, kw_only=True)
    most: float = attrs.field(default=50.0, kw_only=True)

    def __attrs_post_init__(self) -> None:
        for name in ("shrink", "grow", "least", "most"):
            positive(name, getattr(self, name), "rprop")
        if callable(self.learning_rate):
            raise ArgumentError(
                "rprop: learning_rate is a number, the first size: got a schedule; sizes follow the signs"
            )
        positive("learning_rate", self.learning_rate, "rprop")
        if not (is_within(self.shrink, lambda s: s < 1) and is_within(self.grow, lambda s: s >= 1)):
            raise ArgumentError(
                f"rprop: shrink is below 1, and grow 1 or more: got {self.shrink} and {self.grow}; use 0.5 and 1.2"
            )

    def init(self, params: Any) -> RpropState[Any]:
        """Return the state before the first step."""
        sizes = filled(zeros_of(params, "rprop", real=True), self.learning_rate)
        return RpropState(count_zero(), sizes, zeros_of(params, "rprop"))

    def descend(
        self, grads: T, state: RpropState[Any], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, RpropState[Any]]:
        """Return what to add to the parameters, and the next state."""
        check_kind(state, RpropState, "rprop")
        turns = map_trained(lambda g, p: (g * p.conj()).real if g.dtype.kind == "c" else g * p, grads, state.previous)

        def resized(size: Array, turn: Array) -> Array:
            factor = where(turn > 0, as_real(self.grow, size), where(turn < 0, as_real(self.shrink, size), 1.0))
            return clip(size * factor, as_real(self.least, size), as_real(self.most, size))

        sizes = map_trained(resized, state.sizes, turns)
        gradients = map_trained(lambda g, turn: where(turn < 0, 0.0, g), grads, turns)
        return map_trained(lambda s, g: -s * sign(g), sizes, gradients), RpropState(state.count + 1, sizes, gradients)


# --- Lion: steps by the sign of an average gradient


@attrs.frozen
class LionState(Shown, Generic[T]):
    """The state of `scale_by_lion`.

    Attributes:
        count: the number of steps taken.
        mu: the moving average of the gradients.
    """

    count: Array
    mu: T


@attrs.frozen(kw_only=True)
class ScaleByLion(Shown):
    """Lion's transformation of gradients: what `lion` multiplies by its learning rate.

    Arguments and errors are those of `lion`.

    >>> import afx
    >>> rule = scale_by_lion()
    >>> rule.update(afx.asarray([4.0, -0.1]), rule.init(afx.ones(2)), afx.ones(2))[0]
    Array([ 1., -1.], dtype=float32)
    """

    b1: float = hyperparameters.fraction_field(0.9)
    b2: float = hyperparameters.fraction_field(0.99)

    def init(self, params: T) -> LionState[T]:
        """Return the state before the first step."""
        return LionState(count_zero(), zeros_of(params, "lion"))

    def update(
        self, grads: T, state: LionState[T], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, LionState[T]]:
        """Return the signs, and the next state."""
        check_kind(state, LionState, "lion")
        direction = map_trained(sign, average(state.mu, grads, self.b1))
        return direction, LionState(state.count + 1, average(state.mu, grads, self.b2))


def lion(
    learning_rate: LearningRate = 1e-4,
    *,
    b1: float = 0.9,
    b2: float = 0.99,
    weight_decay: float = 1e-3,
    mask: Mask = True,
) -> Descent[LionState[Any]]:
    """Return Lion: every element moves by the learning rate, against the sign of b1·m + (1 - b1)·g.

    m = b2·m + (1 - b2)·g follows more slowly. Learning rates are three to ten times smaller than Adam's.

    Source: Chen et al. 2023 (Symbolic discovery of optimization algorithms), Algorithm 2, as in Optax.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the steps taken.
        b1: weight of the average gradient in the direction, from 0 up to 1.
        b2: decay of the average gradient, from 0 up to 1.
        weight_decay: the strength of the decoupled decay, 0 or more.
        mask: what decays, as in `adamw`.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> optimizer = lion(0.1, weight_decay=0.0)
    >>> optimizer.step(afx.ones(2), afx.asarray([4.0, -0.1]), optimizer.init(afx.ones(2)))[0]
    Array([0.9, 1.1], dtype=float32)
    """
    return descent(scale_by_lion(b1=b1, b2=b2), learning_rate, "lion", weight_decay, mask)


# --- Layerwise rates: LARS and LAMB, whose steps are in proportion to the norm of each array


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
        learning_rate: a number, a scalar array, or a schedule of the steps taken.
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
class LarsState(Shown, Generic[T]):
    """The state of LARS.

    Attributes:
        count: the number of steps taken.
        velocity: the sum of past steps that momentum keeps.
        learning_rate: the last step's size (before it the first one's); where the optimizer was given a number, it may
            be replaced.
    """

    count: Array
    velocity: T
    learning_rate: Array


@attrs.frozen
class Lars(Shown):
    """LARS: momentum of steps that are, for each array, in proportion to the norm of its parameters.

    Source: You, Gitman & Ginsburg 2017, Algorithm 1, as in Optax: the learning rate is inside of the momentum, where `sgd`
    has it outside.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the steps taken.
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

    learning_rate: LearningRate = attrs.field(default=1.0, validator=hyperparameters.check_positive)
    momentum: float = attrs.field(default=0.9, kw_only=True)
    nesterov: bool = attrs.field(default=False, kw_only=True)
    weight_decay: float = attrs.field(default=0.0, kw_only=True, validator=hyperparameters.check_not_negative)
    mask: Mask = attrs.field(default=True, kw_only=True)
    coefficient: float = attrs.field(default=1e-3, kw_only=True, validator=hyperparameters.check_positive)
    eps: float = attrs.field(default=0.0, kw_only=True, validator=hyperparameters.check_not_negative)
    trust_mask: Mask = attrs.field(default=True, kw_only=True)

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


# --- Names of functions, which users write, for the classes

scale_by_learning_rate = ScaleByLearningRate
trace = Trace
sgd = Sgd
rprop = Rprop
scale_by_lion = ScaleByLion
lars = Lars
