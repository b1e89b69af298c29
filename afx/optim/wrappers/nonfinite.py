"""Non-finite steps: gradients that hold nan or inf are left out."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import attrs

from afx import pytree
from afx.control.cond import cond
from afx.core.array.array import Array, ArrayLike
from afx.errors import ArgumentError
from afx.ops.creation.creation import asarray
from afx.ops.elementwise.comparison import isfinite
from afx.ops.elementwise.where import where
from afx.ops.manipulation.join import stack
from afx.ops.reductions.boolean import all as every
from afx.optim.chain import check_optimizer
from afx.optim.hyperparameters import check_numbers, count_zero, is_within
from afx.optim.leaves import filled, is_trained, to_numbers
from afx.optim.protocols import Optimizer
from afx.optim.step import Steps, check_kind
from afx.pytree import Tree

__all__ = ["SkipNonfinite", "SkipNonfiniteState", "skip_nonfinite"]

T = TypeVar("T")
S = TypeVar("S")


@attrs.frozen
class SkipNonfiniteState(Generic[S]):
    """The state of an optimizer that leaves out non-finite steps.

    Attributes:
        consecutive: the number of steps left out since the last finite one.
        skipped: the number of all steps left out.
        inner: the optimizer's state.
    """

    consecutive: Array
    skipped: Array
    inner: S


@attrs.frozen
class SkipNonfinite(Steps[SkipNonfiniteState[S]], Generic[S]):
    """An optimizer that leaves out non-finite steps; made by `skip_nonfinite`."""

    inner: Optimizer[S]
    limit: int

    def __attrs_post_init__(self) -> None:
        check_numbers("skip_nonfinite", limit=self.limit)
        if not is_within(self.limit, lambda n: n >= 0):
            raise ArgumentError(
                f"skip_nonfinite: the limit is 0 or more: got {self.limit}; count the steps in a row to leave out"
            )

    def init(self, params: Any) -> SkipNonfiniteState[S]:
        """Return the state before the first step."""
        return SkipNonfiniteState(count_zero(), count_zero(), self.inner.init(params))

    def descend(
        self, grads: T, state: SkipNonfiniteState[S], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, SkipNonfiniteState[S]]:
        """Return what to add to the parameters, 0 where the gradients are not finite, and the next state."""
        check_kind(state, SkipNonfiniteState, "skip_nonfinite")
        finite = _all_finite(grads)
        consecutive = where(finite, 0.0, state.consecutive + 1)

        def step(grads: T, inner: S, params: T) -> tuple[T, S]:
            updates, after = self.inner.descend(grads, inner, params, value)
            return to_numbers(updates, params), after

        def skip(grads: T, inner: S, params: T) -> tuple[T, S]:
            return filled(params, -0.0), inner

        taken = finite | (consecutive > self.limit)
        updates, inner = cond(taken, step, skip, grads, state.inner, params)
        return updates, SkipNonfiniteState(consecutive, where(taken, state.skipped, state.skipped + 1), inner)


def _all_finite(tree: Tree) -> Array:
    checks = [every(isfinite(x)) for x in pytree.leaves(tree) if is_trained(x)]
    return every(stack(checks)) if checks else asarray(True)


def skip_nonfinite(optimizer: Optimizer[S], limit: int = 10) -> SkipNonfinite[S]:
    """Return an optimizer that leaves out steps whose gradients hold nan or inf.

    Parameters and the inner state then stay exactly as they are. After ``limit`` such steps in a row the next one is taken
    all the same, so that a training that has failed shows; the state counts. Optax calls this ``apply_if_finite``.

    Args:
        optimizer: what takes the steps.
        limit: how many steps in a row are left out, 0 or more.

    Raises:
        ArgumentError: the limit is below 0, or no optimizer.

    >>> import afx
    >>> from afx import optim
    >>> optimizer = skip_nonfinite(optim.sgd(1.0))
    >>> params, state = optimizer.step(afx.zeros(1), afx.asarray([afx.nan]), optimizer.init(afx.zeros(1)))
    >>> params, state.skipped
    (Array([0.], dtype=float32), Array(1., dtype=float64))
    """
    check_optimizer(optimizer, "skip_nonfinite")
    return SkipNonfinite(optimizer, limit)
