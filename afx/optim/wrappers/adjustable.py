"""Adjustable settings: every number of an optimizer in its state, where it can be changed while training."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, cast

import attrs

from afx import pytree
from afx.core.array.array import Array, ArrayLike
from afx.core.dtypes import float64
from afx.ops.creation.creation import asarray
from afx.optim.chain import Chain, check_optimizer
from afx.optim.protocols import Optimizer
from afx.optim.step import Steps, check_kind

__all__ = ["Adjustable", "AdjustableState", "adjustable"]

T = TypeVar("T")
O = TypeVar("O", bound=Optimizer[Any])  # noqa: E741 - an optimizer


@attrs.frozen
class AdjustableState(Generic[O]):
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
