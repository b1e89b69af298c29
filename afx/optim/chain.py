"""`chain`: rules one after the other."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, cast, overload

import attrs

from afx.core.array.array import ArrayLike
from afx.errors import ArgumentError, TreeError
from afx.optim.rule import Rule, apply_rule

__all__ = ["Chain", "chain"]

T = TypeVar("T")
S = TypeVar("S")
S1 = TypeVar("S1")
S2 = TypeVar("S2")
S3 = TypeVar("S3")
S4 = TypeVar("S4")


@attrs.frozen
class Chain(Generic[S]):
    """Rules one after the other; made by `chain`. ``S`` is the tuple of their states."""

    rules: tuple[Rule[Any], ...]

    def init(self, params: Any) -> S:
        """Return the state of each rule."""
        return cast(S, tuple([rule.init(params) for rule in self.rules]))

    def update(self, grads: T, state: S, params: T, value: ArrayLike | None = None) -> tuple[T, S]:
        """Return what to add to the parameters, and the next state of each rule."""
        before = self._states(state)
        after: list[Any] = []
        for rule, old in zip(self.rules, before, strict=True):
            grads, new = rule.update(grads, old, params, value)
            after.append(new)
        return grads, cast(S, tuple(after))

    def _states(self, state: S) -> tuple[Any, ...]:
        if not isinstance(state, tuple) or len(cast("tuple[Any, ...]", state)) != len(self.rules):
            count = f"{len(cast('tuple[Any, ...]', state))}" if isinstance(state, tuple) else type(state).__name__
            raise TreeError(
                f"chain: {len(self.rules)} rules have a tuple of as many states: got {count}; call init(params)"
            )
        return cast("tuple[Any, ...]", state)

    def step(self, params: T, grads: T, state: S, *, value: ArrayLike | None = None) -> tuple[T, S]:
        """Return the next parameters and the next state of each rule; ``value`` is the loss, if a rule needs it.

        Raises:
            ArgumentError: no rule makes updates: gradients themselves would lead uphill.
        """
        if not _makes_updates(self):
            names = ", ".join([type(rule).__name__.strip("_") for rule in self.rules])
            raise ArgumentError(
                f"chain: no rule makes updates: got {names}; add an optimizer, such as sgd, behind them"
            )
        return apply_rule(self.update, params, grads, state, value)


def _makes_updates(rule: Any) -> bool:
    """Tell whether a rule may turn gradients into updates, and not only limit or add to them."""
    return (
        any(map(_makes_updates, rule.rules))
        if isinstance(rule, Chain)
        else not getattr(rule, "is_gradient_transform", False)
    )


@overload
def chain(first: Rule[S1], /) -> Chain[tuple[S1]]: ...
@overload
def chain(first: Rule[S1], second: Rule[S2], /) -> Chain[tuple[S1, S2]]: ...
@overload
def chain(first: Rule[S1], second: Rule[S2], third: Rule[S3], /) -> Chain[tuple[S1, S2, S3]]: ...
@overload
def chain(first: Rule[S1], second: Rule[S2], third: Rule[S3], fourth: Rule[S4], /) -> Chain[tuple[S1, S2, S3, S4]]: ...
@overload
def chain(*rules: Rule[Any]) -> Chain[tuple[Any, ...]]: ...
def chain(*rules: Rule[Any]) -> Chain[Any]:
    """Return the optimizer that passes gradients through rules in turn; one of them makes the updates, as `adam` does.

    What stands in front of that one changes gradients; what stands behind it changes updates.

    Raises:
        ArgumentError: no rule is given, or something that is none.

    >>> import afx
    >>> from afx import optim
    >>> optimizer = chain(optim.clip_by_global_norm(1.0), optim.sgd(1.0))
    >>> params, state = optimizer.step(afx.zeros(2), afx.asarray([3.0, 4.0]), optimizer.init(afx.zeros(2)))
    >>> params
    Array([-0.6, -0.8], dtype=float32)
    """
    for rule in rules:
        if isinstance(rule, type) or not (hasattr(rule, "init") and hasattr(rule, "update")):
            raise ArgumentError(
                f"chain: a rule has init and update: got {getattr(rule, '__name__', type(rule).__name__)}; "
                "call it if it makes one"
            )
    if not rules:
        raise ArgumentError("chain: there is nothing to chain: got no rules; name one optimizer at least")
    return Chain(rules)
