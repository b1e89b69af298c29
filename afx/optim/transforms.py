"""Rules that change gradients, to stand in a chain: clipping, scaling, weight decay."""

from __future__ import annotations

from typing import ClassVar, TypeVar

import attrs

from afx import pytree
from afx.core.array.array import Array, ArrayLike
from afx.core.dtypes import complex128, float64
from afx.errors import DtypeError
from afx.ops.creation.creation import asarray, zeros
from afx.ops.elementwise.where import clip, minimum, where
from afx.ops.manipulation.join import stack
from afx.ops.reductions.moments import vector_norm
from afx.optim.hyperparameters import Schedule, count_zero, positive, rate_at
from afx.optim.rule import EmptyState, Rule, as_real, check_kind, map_trained
from afx.pytree import Tree

__all__ = [
    "ScheduleState",
    "add_decayed_weights",
    "clip_by_global_norm",
    "clip_by_value",
    "global_norm",
    "scale",
    "scale_by_schedule",
]

T = TypeVar("T")


def global_norm(tree: Tree) -> Array:
    """Return Euclid's norm of all elements of a tree together, as a float64 scalar; its derivative at 0 is 0.

    Squares neither overflow nor vanish. Optax's function of this name sums squares as they are.

    >>> import afx
    >>> global_norm((afx.asarray([3.0]), afx.asarray(4.0)))
    Array(5., dtype=float64)
    """
    leaves = [asarray(x) for x in pytree.leaves(tree)]
    norms = [vector_norm(x.astype(complex128 if x.dtype.kind == "c" else float64)) for x in leaves]
    return vector_norm(stack(norms)) if norms else zeros((), float64)


class _Stateless:
    """Rules without state: they say only how gradients change.

    Attributes:
        is_gradient_transform: whether updates still point uphill, as gradients do.
    """

    is_gradient_transform: ClassVar[bool] = False

    def init(self, params: object) -> EmptyState:
        """Return the state, which holds nothing."""
        return EmptyState()

    def update(self, grads: T, state: EmptyState, params: T, value: ArrayLike | None = None) -> tuple[T, EmptyState]:
        """Return the changed gradients."""
        check_kind(state, EmptyState, type(self).__name__)
        return self.change(grads, params), state

    def change(self, grads: T, params: T) -> T:
        """Return the changed gradients."""
        raise AssertionError("each rule has its own")


@attrs.frozen
class _ClipByGlobalNorm(_Stateless):
    is_gradient_transform = True
    limit: float

    def change(self, grads: T, params: T) -> T:
        norm = global_norm(grads)
        factor = minimum(1.0, self.limit / where(norm > 0, norm, self.limit))
        return map_trained(lambda g: g * as_real(factor, g), grads)


def clip_by_global_norm(limit: float) -> Rule[EmptyState]:
    """Return the rule that scales gradients down where their `global_norm` is above ``limit``.

    The step then keeps its direction. A norm that is not finite leads to nan in the parameters: it is not hidden.

    Source: Pascanu et al. 2013, Algorithm 1. torch adds 1e-6 to the norm.

    Args:
        limit: the largest norm, above 0.

    Raises:
        ArgumentError: the limit is not above 0.

    >>> import afx
    >>> rule = clip_by_global_norm(1.0)
    >>> rule.update(afx.asarray([3.0, 4.0]), rule.init(None), afx.zeros(2), None)[0]
    Array([0.6, 0.8], dtype=float32)
    """
    positive("limit", limit, "clip_by_global_norm")
    return _ClipByGlobalNorm(limit)


@attrs.frozen
class _ClipByValue(_Stateless):
    is_gradient_transform = True
    limit: float

    def change(self, grads: T, params: T) -> T:
        return map_trained(self._clipped, grads)

    def _clipped(self, g: Array) -> Array:
        if g.dtype.kind == "c":
            raise DtypeError(f"clip_by_value: complex numbers have no order: got {g.aval}; use clip_by_global_norm")
        return clip(g, -self.limit, self.limit)


def clip_by_value(limit: float) -> Rule[EmptyState]:
    """Return the rule that limits each element of the gradients to the interval from ``-limit`` to ``limit``.

    Args:
        limit: the largest absolute value, above 0.

    Raises:
        ArgumentError: the limit is not above 0.
        DtypeError: a gradient is complex (at the step).

    >>> import afx
    >>> rule = clip_by_value(1.0)
    >>> rule.update(afx.asarray([3.0, -0.5]), rule.init(None), afx.zeros(2), None)[0]
    Array([ 1. , -0.5], dtype=float32)
    """
    positive("limit", limit, "clip_by_value")
    return _ClipByValue(limit)


@attrs.frozen
class _Scale(_Stateless):
    factor: float

    def change(self, grads: T, params: T) -> T:
        return map_trained(lambda g: g * self.factor, grads)


def scale(factor: float) -> Rule[EmptyState]:
    """Return the rule that multiplies gradients (or, behind an optimizer, updates) by a number.

    >>> import afx
    >>> scale(2.0).update(afx.ones(1), scale(2.0).init(None), afx.zeros(1), None)[0]
    Array([2.], dtype=float32)
    """
    return _Scale(factor)


@attrs.frozen
class _AddDecayedWeights(_Stateless):
    is_gradient_transform = True
    strength: float

    def change(self, grads: T, params: T) -> T:
        return map_trained(lambda g, p: g + self.strength * p, grads, params)


def add_decayed_weights(strength: float) -> Rule[EmptyState]:
    """Return the rule that adds ``strength · parameter`` to each gradient, the derivative of an L2 penalty.

    In front of `adam` the penalty is scaled as the gradient is; `adamw` decays apart from it.

    Args:
        strength: 0 or more; the penalty is ``strength / 2 · Σ parameter²``.

    Raises:
        ArgumentError: the strength is below 0.

    >>> import afx
    >>> rule = add_decayed_weights(0.5)
    >>> rule.update(afx.zeros(1), rule.init(None), afx.ones(1), None)[0]
    Array([0.5], dtype=float32)
    """
    positive("strength", strength, "add_decayed_weights", zero=True)
    return _AddDecayedWeights(strength)


@attrs.frozen
class ScheduleState:
    """The state of `scale_by_schedule`.

    Attributes:
        count: the number of steps taken.
        factor: that of the last step (of the first one, before it).
    """

    count: Array
    factor: Array


@attrs.frozen
class _ScaleBySchedule:
    schedule: Schedule

    def init(self, params: object) -> ScheduleState:
        return ScheduleState(count_zero(), rate_at(self.schedule, count_zero()))

    def update(
        self, grads: T, state: ScheduleState, params: T, value: ArrayLike | None = None
    ) -> tuple[T, ScheduleState]:
        check_kind(state, ScheduleState, "scale_by_schedule")
        factor = rate_at(self.schedule, state.count)
        return map_trained(lambda g: g * as_real(factor, g), grads), ScheduleState(state.count + 1, factor)


def scale_by_schedule(schedule: Schedule) -> Rule[ScheduleState]:
    """Return the rule that multiplies by a function of the number of steps taken.

    >>> import afx
    >>> rule = scale_by_schedule(lambda count: 0.5)
    >>> rule.update(afx.ones(1), rule.init(None), afx.zeros(1), None)[0]
    Array([0.5], dtype=float32)
    """
    return _ScaleBySchedule(schedule)
