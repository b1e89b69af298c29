"""Accumulation: one step for several batches, steps left out at nan, and settings changed while training."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, cast

import attrs

from afx import pytree
from afx.control.cond import cond
from afx.core import Array, ArrayLike, Shown, float64
from afx.errors import ArgumentError, ShapeError
from afx.ops import all as every, asarray, isfinite, stack, where
from afx.optim.hyperparameters import Schedule, check_numbers, count_zero, is_within, rate_at
from afx.optim.step import (
    Optimizer,
    Steps,
    as_real,
    check_kind,
    check_params,
    filled,
    is_trained,
    map_trained,
    to_numbers,
    zeros_of,
)
from afx.optim.transforms import Chain, check_optimizer
from afx.pytree import Tree

__all__ = [
    "Accumulate",
    "AccumulateState",
    "Adjustable",
    "AdjustableState",
    "SkipNonfinite",
    "SkipNonfiniteState",
    "accumulate",
    "adjustable",
    "skip_nonfinite",
]

# --- Accumulation: one step for the gradients of several small batches

T = TypeVar("T")
S = TypeVar("S")


@attrs.frozen
class AccumulateState(Shown, Generic[S]):
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


# --- Non-finite steps: gradients that hold nan or inf are left out


@attrs.frozen
class SkipNonfiniteState(Shown, Generic[S]):
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

        is_taken = finite | (consecutive > self.limit)
        updates, inner = cond(
            is_taken, step, lambda grads, inner, params: (filled(params, -0.0), inner), grads, state.inner, params
        )
        return updates, SkipNonfiniteState(consecutive, where(is_taken, state.skipped, state.skipped + 1), inner)


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


# --- Adjustable settings: every number of an optimizer in its state, where it can be changed while training

O = TypeVar("O", bound=Optimizer[Any])  # noqa: E741 - an optimizer


@attrs.frozen
class AdjustableState(Shown, Generic[O]):
    """The state of an optimizer whose settings can be changed.

    Attributes:
        settings: the optimizer, its numbers as float64 scalars; a new one may be put here.
        inner: the optimizer's state.
    """

    settings: O
    inner: Any


@attrs.frozen
class Adjustable(Steps[AdjustableState[O]], Generic[O]):
    """An optimizer whose settings are in its state; made by `adjustable`."""

    optimizer: O

    def init(self, params: Any) -> AdjustableState[O]:
        """Return the state before the first step."""
        return AdjustableState(pytree.map(_convert_setting, self.optimizer), self.optimizer.init(params))

    def descend(
        self, grads: T, state: AdjustableState[O], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, AdjustableState[O]]:
        """Return what to add to the parameters, and the next state."""
        check_kind(state, AdjustableState, "adjustable")
        settings = pytree.map(_convert_setting, state.settings)
        updates, inner = settings.descend(grads, _replace_rates(settings, state.inner), params, value)
        return updates, AdjustableState(settings, inner)


def _convert_setting(leaf: Any) -> Any:
    """Return a number as a scalar array, which is traced without the number; masks stay."""
    return asarray(leaf, float64) if isinstance(leaf, float) else leaf


def _replace_rates(optimizer: Any, state: Any) -> Any:
    """Return a state with the learning rates of the settings, where these are numbers."""
    if isinstance(optimizer, Chain):
        links = cast("tuple[Any, ...]", optimizer.links)
        return tuple([_replace_rates(link, own) for link, own in zip(links, state, strict=True)])
    rate = getattr(optimizer, "learning_rate", None)
    if isinstance(rate, (float, Array)) and hasattr(state, "learning_rate"):
        return attrs.evolve(state, learning_rate=asarray(rate).astype(float64))
    return state


def adjustable(optimizer: O) -> Adjustable[O]:
    """Return an optimizer whose state holds all its settings, so that they can be changed while training.

    ``state.settings`` is the optimizer itself: ``attrs.evolve(state, settings=attrs.evolve(state.settings, b1=0.8))`` makes
    the next steps with another b1, without a new trace. Learning rates alone need no wrapper: they stand in every state.
    Optax calls this ``inject_hyperparams``.

    Args:
        optimizer: any optimizer; its numbers become settings, its schedules and flags stay.

    Raises:
        ArgumentError: no optimizer is given.

    >>> import attrs, afx
    >>> from afx import optim
    >>> optimizer = adjustable(optim.sgd(1.0, momentum=0.5))
    >>> state = optimizer.init(afx.zeros(1))
    >>> state = attrs.evolve(state, settings=attrs.evolve(state.settings, learning_rate=0.25))
    >>> optimizer.step(afx.zeros(1), afx.ones(1), state)[0]
    Array([-0.25], dtype=float32)
    """
    check_optimizer(optimizer, "adjustable")
    return Adjustable(optimizer)
