"""Rules that change gradients, and the ways to put rules together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import attrs

from afx import pytree
from afx.core.array import Array, ArrayLike
from afx.core.aval import aval_of
from afx.core.dtypes import float64
from afx.errors import ArgumentError
from afx.ops.arithmetic import abs as abs_
from afx.ops.arithmetic import sqrt
from afx.ops.creation import asarray, zeros
from afx.ops.reductions import max as max_
from afx.ops.reductions import sum as sum_
from afx.ops.selection import clip, maximum, minimum, where
from afx.optim.rule import CountState, EmptyState, Rule, Schedule, as_real, count_zero, positive, rate_at, take_step
from afx.pytree import Tree

__all__ = [
    "Chain",
    "Masked",
    "Projected",
    "add_decayed_weights",
    "chain",
    "clip_by_global_norm",
    "clip_by_value",
    "global_norm",
    "masked",
    "projected",
    "scale",
    "scale_by_schedule",
]

T = TypeVar("T")
S = TypeVar("S")


def global_norm(tree: Tree) -> Array:
    """Return Euclid's norm of all elements of a tree together, as a float64 scalar; it does not overflow.

    >>> import afx
    >>> global_norm((afx.asarray([3.0]), afx.asarray(4.0)))
    Array(5., dtype=float64)
    """
    leaves = [abs_(x).astype(float64) for x in map(asarray, pytree.leaves(tree)) if x.size]
    top = zeros((), float64)
    for x in leaves:
        top = maximum(top, max_(x))
    size = where(top > 0, top, 1.0)
    total = zeros((), float64)
    for x in leaves:
        total = total + sum_((x / size) ** 2)
    return where(top > 0, size * sqrt(where(total > 0, total, 1.0)), top)


@attrs.frozen
class _Stateless:
    """A rule without state."""

    change: Callable[[Any, Any], Any]

    def init(self, params: Any) -> EmptyState:
        return EmptyState()

    def update(self, grads: T, state: EmptyState, params: T, value: ArrayLike | None = None) -> tuple[T, EmptyState]:
        changed: T = self.change(grads, params)
        return changed, state


def clip_by_global_norm(limit: float) -> Rule[EmptyState]:
    """Return the rule that scales gradients down where their `global_norm` is above ``limit``.

    The step then keeps its direction (Pascanu et al. 2013, algorithm 1). A norm that is not finite is passed on: it
    shows in the parameters instead of being hidden.

    >>> import afx
    >>> rule = clip_by_global_norm(1.0)
    >>> rule.update(afx.asarray([3.0, 4.0]), rule.init(None), afx.zeros(2), None)[0]
    Array([0.6, 0.8], dtype=float32)
    """
    positive("limit", limit, "clip_by_global_norm")

    def change(grads: Any, params: Any) -> Any:
        norm = global_norm(grads)
        factor = minimum(1.0, limit / where(norm > 0, norm, limit))
        return pytree.map(lambda g: g * as_real(factor, g), grads)

    return _Stateless(change)


def clip_by_value(limit: float) -> Rule[EmptyState]:
    """Return the rule that limits each element of the gradients to the interval from ``-limit`` to ``limit``.

    >>> import afx
    >>> rule = clip_by_value(1.0)
    >>> rule.update(afx.asarray([3.0, -0.5]), rule.init(None), afx.zeros(2), None)[0]
    Array([ 1. , -0.5], dtype=float32)
    """
    positive("limit", limit, "clip_by_value")
    return _Stateless(lambda grads, params: pytree.map(lambda g: clip(g, -limit, limit), grads))


def scale(factor: float) -> Rule[EmptyState]:
    """Return the rule that multiplies gradients (or, behind an optimizer, updates) by a number.

    >>> import afx
    >>> scale(2.0).update(afx.ones(1), scale(2.0).init(None), afx.zeros(1), None)[0]
    Array([2.], dtype=float32)
    """
    return _Stateless(lambda grads, params: pytree.map(lambda g: g * factor, grads))


def add_decayed_weights(strength: float) -> Rule[EmptyState]:
    """Return the rule that adds ``strength · parameter`` to each gradient, the derivative of an L2 penalty.

    >>> import afx
    >>> rule = add_decayed_weights(0.5)
    >>> rule.update(afx.zeros(1), rule.init(None), afx.ones(1), None)[0]
    Array([0.5], dtype=float32)
    """
    positive("strength", strength, "add_decayed_weights", zero=True)
    return _Stateless(lambda grads, params: pytree.map(lambda g, p: g + strength * p, grads, params))


@attrs.frozen
class _Scheduled:
    """A rule that scales by a schedule."""

    schedule: Schedule

    def init(self, params: Any) -> CountState:
        return CountState(count_zero(), rate_at(self.schedule, count_zero()))

    def update(self, grads: T, state: CountState, params: T, value: ArrayLike | None = None) -> tuple[T, CountState]:
        factor = rate_at(self.schedule, state.count)
        return pytree.map(lambda g: g * as_real(factor, g), grads), CountState(state.count + 1, factor)


def scale_by_schedule(schedule: Schedule) -> Rule[CountState]:
    """Return the rule that multiplies by a function of the number of steps taken.

    >>> import afx
    >>> rule = scale_by_schedule(lambda count: 0.5)
    >>> rule.update(afx.ones(1), rule.init(None), afx.zeros(1), None)[0]
    Array([0.5], dtype=float32)
    """
    return _Scheduled(schedule)


@attrs.frozen
class Chain:
    """Rules one after the other; made by `chain`."""

    rules: tuple[Any, ...]

    def init(self, params: Any) -> tuple[Any, ...]:
        """Return the state of each rule."""
        return tuple([rule.init(params) for rule in self.rules])

    def update(
        self, grads: T, state: tuple[Any, ...], params: T, value: ArrayLike | None = None
    ) -> tuple[T, tuple[Any, ...]]:
        """Return what to add to the parameters, and the next state of each rule."""
        if len(state) != len(self.rules):
            raise ArgumentError(
                f"chain: {len(self.rules)} rules have as many states: got {len(state)}; call init(params)"
            )
        after: list[Any] = []
        for rule, old in zip(self.rules, state, strict=True):
            grads, new = rule.update(grads, old, params, value)
            after.append(new)
        return grads, tuple(after)

    def step(
        self, params: T, grads: T, state: tuple[Any, ...], *, value: ArrayLike | None = None
    ) -> tuple[T, tuple[Any, ...]]:
        """Return the next parameters and the next state of each rule."""
        return take_step(self, params, grads, state, value)


def chain(*rules: Rule[Any]) -> Chain:
    """Return the optimizer that passes gradients through rules in turn; one of them makes the updates, as `adam` does.

    Raises:
        ArgumentError: no rule is given, or something that is none.

    >>> import afx
    >>> from afx import optim
    >>> optimizer = chain(clip_by_global_norm(1.0), optim.sgd(1.0))
    >>> params, state = optimizer.step(afx.zeros(2), afx.asarray([3.0, 4.0]), optimizer.init(afx.zeros(2)))
    >>> params
    Array([-0.6, -0.8], dtype=float32)
    """
    for rule in rules:
        if not (hasattr(rule, "init") and hasattr(rule, "update")):
            raise ArgumentError(
                f"chain: a rule has init and update: got {type(rule).__name__}; call it if it makes one"
            )
    if not rules:
        raise ArgumentError("chain: there is nothing to chain: got no rules; name one optimizer at least")
    return Chain(rules)


@attrs.frozen
class Masked:
    """An optimizer that leaves part of the parameters alone; made by `masked`."""

    inner: Any
    mask: Any

    def init(self, params: Any) -> Any:
        """Return the inner optimizer's state."""
        return self.inner.init(params)

    def update(self, grads: T, state: S, params: T, value: ArrayLike | None = None) -> tuple[T, S]:
        """Return updates that are 0 where the mask is false; gradients there are not seen, not even nan."""
        free = self.mask(params) if callable(self.mask) else self.mask
        seen = pytree.map(_kept, grads, free)
        updates, after = self.inner.update(seen, state, params, value)
        return pytree.map(_kept, updates, free), after

    def step(self, params: T, grads: T, state: S, *, value: ArrayLike | None = None) -> tuple[T, S]:
        """Return the next parameters and state."""
        return take_step(self, params, grads, state, value)


def _kept(x: Array, free: ArrayLike) -> Array:
    return where(free, x, zeros((), aval_of(x).dtype))


def masked(optimizer: Rule[Any], mask: Tree) -> Masked:
    """Return an optimizer that moves parameters only where a mask is true: fixed ends, boundary values, frozen layers.

    Args:
        optimizer: what moves the others.
        mask: a tree of the parameters' structure with a boolean array (or one that broadcasts) for each leaf, or a
            function of the parameters that returns one.

    >>> import afx
    >>> from afx import optim
    >>> optimizer = masked(optim.sgd(1.0), afx.asarray([False, True]))
    >>> optimizer.step(afx.zeros(2), afx.ones(2), optimizer.init(afx.zeros(2)))[0]
    Array([ 0., -1.], dtype=float32)
    """
    return Masked(optimizer, mask)


@attrs.frozen
class Projected:
    """An optimizer whose steps end in a set; made by `projected`."""

    inner: Any
    projection: Callable[[Any], Any]

    def init(self, params: Any) -> Any:
        """Return the inner optimizer's state."""
        return self.inner.init(params)

    def update(self, grads: T, state: S, params: T, value: ArrayLike | None = None) -> tuple[T, S]:
        """Return updates that lead to the projection of where the inner ones lead."""
        updates, after = self.inner.update(grads, state, params, value)
        target = self.projection(pytree.map(lambda p, u: p + u, params, updates))
        return pytree.map(lambda t, p: t - p, target, params), after

    def step(self, params: T, grads: T, state: S, *, value: ArrayLike | None = None) -> tuple[T, S]:
        """Return the next parameters, which are exactly a projection, and state."""
        moved, after = take_step(self.inner, params, grads, state, value)
        return self.projection(moved), after


def projected(optimizer: Rule[Any], projection: Callable[[T], T]) -> Projected:
    """Return an optimizer that projects the parameters after each step, onto a set of allowed ones.

    >>> import afx
    >>> from afx import optim
    >>> optimizer = projected(optim.sgd(1.0), lambda p: afx.maximum(p, 0.0))
    >>> optimizer.step(afx.zeros(2), afx.asarray([1.0, -1.0]), optimizer.init(afx.zeros(2)))[0]
    Array([0., 1.], dtype=float32)
    """
    return Projected(optimizer, projection)
