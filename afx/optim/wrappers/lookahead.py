"""Lookahead: slow parameters that follow those of an optimizer."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import attrs

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import integer
from afx.errors import ArgumentError
from afx.ops.elementwise.arithmetic import remainder
from afx.ops.elementwise.where import where
from afx.optim.chain import check_optimizer
from afx.optim.hyperparameters import check_numbers, count_zero, is_within
from afx.optim.leaves import as_real, compute_params, map_trained
from afx.optim.protocols import Optimizer
from afx.optim.step import Steps, check_kind

__all__ = ["Lookahead", "LookaheadState", "lookahead"]

T = TypeVar("T")
S = TypeVar("S")


@attrs.frozen
class LookaheadState(Generic[S]):
    """The state of `lookahead`.

    Attributes:
        count: the number of steps taken.
        slow: the slow parameters, which are the ones to evaluate and to keep.
        inner: the optimizer's state.
    """

    count: Array
    slow: Any
    inner: S


@attrs.frozen
class Lookahead(Steps[LookaheadState[S]], Generic[S]):
    """Slow parameters behind an optimizer; made by `lookahead`."""

    inner: Optimizer[S]
    every: int = 5
    share: float = 0.5

    def __attrs_post_init__(self) -> None:
        check_numbers("lookahead", every=self.every, share=self.share)
        if integer(self.every, "lookahead", "every") < 1:
            raise ArgumentError(f"lookahead: every is a number of steps: got {self.every}; give 1 or more")
        if not is_within(self.share, lambda s: 0 < s <= 1):
            raise ArgumentError(f"lookahead: share is above 0 and up to 1: got {self.share}; the paper's is 0.5")

    def init(self, params: Any) -> LookaheadState[S]:
        """Return the state before the first step."""
        inner = self.inner.init(params)
        return LookaheadState(count_zero(), compute_params(params), inner)

    def descend(
        self, grads: T, state: LookaheadState[S], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, LookaheadState[S]]:
        """Return what to add to the parameters, and the next state."""
        check_kind(state, LookaheadState, "lookahead")
        moves, inner = self.inner.descend(grads, state.inner, params, value)
        count = state.count + 1
        meet = remainder(count, self.every) == 0

        def slower(s: Array, p: Array, u: Array) -> Array:
            return where(meet, s + as_real(self.share, s) * (p + u - s), s)

        slow = map_trained(slower, state.slow, params, moves)
        updates = map_trained(lambda u, p, s: where(meet, s - p, u), moves, params, slow)
        return updates, LookaheadState(count, slow, inner)


def lookahead(optimizer: Optimizer[S], every: int = 5, *, share: float = 0.5) -> Lookahead[S]:
    """Return an optimizer whose parameters go back, every so many steps, to slow ones that follow them by a share.

    Source: Zhang et al. 2019, Algorithm 1. The optimizer keeps its state where parameters go back; ``state.slow`` are
    the parameters to evaluate.

    Args:
        optimizer: what takes the steps.
        every: how many steps it takes from the slow parameters, 1 or more.
        share: how far the slow parameters follow, above 0 and up to 1.

    Raises:
        ArgumentError: an argument out of its range, or no optimizer.

    >>> import afx
    >>> from afx import optim
    >>> optimizer, x = lookahead(optim.sgd(1.0), 2), afx.zeros(1)
    >>> state = optimizer.init(x)
    >>> for _ in range(2):
    ...     x, state = optimizer.step(x, -afx.ones(1), state)
    >>> x
    Array([1.], dtype=float32)
    """
    check_optimizer(optimizer, "lookahead")
    return Lookahead(optimizer, every, share)
