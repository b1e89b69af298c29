"""Accumulation: one step for the gradients of several small batches."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import attrs

from afx import pytree
from afx.control.cond import cond
from afx.core.array.array import Array, ArrayLike
from afx.errors import ArgumentError, ShapeError
from afx.optim.chain import check_optimizer
from afx.optim.hyperparameters import Schedule, check_numbers, count_zero, is_within, rate_at
from afx.optim.leaves import as_real, check_params, filled, map_trained, to_numbers, zeros_of
from afx.optim.protocols import Optimizer
from afx.optim.step import Steps, check_kind

__all__ = ["Accumulate", "AccumulateState", "accumulate"]

T = TypeVar("T")
S = TypeVar("S")


@attrs.frozen
class AccumulateState(Generic[S]):
    """The state of accumulated gradients.

    Attributes:
        batches: the number of batches since the last step.
        count: the number of steps taken.
        grads: the mean, or the sum, of the gradients since then: a tree of the parameters' structure.
        inner: the optimizer's state.
    """

    batches: Array
    count: Array
    grads: Any
    inner: S


@attrs.frozen
class Accumulate(Steps[AccumulateState[S]], Generic[S]):
    """Accumulated gradients; made by `accumulate`, which says what the attributes are."""

    inner: Optimizer[S]
    every: int | Schedule
    mean: bool = True

    def __attrs_post_init__(self) -> None:
        if callable(self.every):
            return
        check_numbers("accumulate", every=self.every)
        if not is_within(self.every, lambda n: n >= 1):
            raise ArgumentError(
                f"accumulate: a step takes 1 batch or more: got every={self.every}; count the batches of a step"
            )

    def init(self, params: Any) -> AccumulateState[S]:
        """Return the state before the first batch."""
        check_params(*pytree.flatten(params), "accumulate")
        return AccumulateState(count_zero(), count_zero(), zeros_of(params, "accumulate"), self.inner.init(params))

    def descend(
        self, grads: T, state: AccumulateState[S], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, AccumulateState[S]]:
        """Return what to add to the parameters, 0 until enough batches are seen, and the next state."""
        check_kind(state, AccumulateState, "accumulate")
        batches = state.batches + 1
        weight = 1 / batches if self.mean else count_zero() + 1

        def added(total: Array, g: Array) -> Array:
            if total.shape != g.shape:
                raise ShapeError(
                    f"accumulate: the state is of other parameters: got gradients of {total.aval} for {g.aval}; call init"
                )
            return total + (g - total) * as_real(weight, total) if self.mean else total + g

        total = map_trained(added, state.grads, grads)
        every = rate_at(self.every, state.count) if callable(self.every) else self.every

        def step(total: T, inner: S, params: T) -> tuple[T, AccumulateState[S]]:
            updates, after = self.inner.descend(total, inner, params, value)
            empty = filled(total, 0.0)
            return to_numbers(updates, params), AccumulateState(count_zero(), state.count + 1, empty, after)

        def wait(total: T, inner: S, params: T) -> tuple[T, AccumulateState[S]]:
            return filled(params, -0.0), AccumulateState(batches, state.count, total, inner)

        return cond(batches >= every, step, wait, total, state.inner, params)


def accumulate(optimizer: Optimizer[S], every: int | Schedule, *, mean: bool = True) -> Accumulate[S]:
    """Return an optimizer that steps once for several batches, along the mean of their gradients.

    The other calls of ``step`` leave parameters and the inner state exactly as they are. Optax calls this ``MultiSteps``.

    Args:
        optimizer: what takes the steps.
        every: the number of batches for each step, or a function of the number of steps taken that returns it.
        mean: takes the mean of the gradients, not the sum.

    Raises:
        ArgumentError: the number of batches is below 1, or no optimizer.

    >>> import afx
    >>> from afx import optim
    >>> optimizer = accumulate(optim.sgd(1.0), 2)
    >>> params, state = afx.zeros(1), optimizer.init(afx.zeros(1))
    >>> for g in (1.0, 3.0):
    ...     params, state = optimizer.step(params, afx.asarray([g]), state)
    ...     print(params)
    [0.]
    [-2.]
    """
    check_optimizer(optimizer, "accumulate")
    return Accumulate(optimizer, every, mean)
