"""The paper's descent: its optimizer, with inertia and a step size that follows the loss, run on any loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import attrs
import numpy as np
import numpy.typing as npt

import afx
from afx import Array, optim
from examples.report import progress

__all__ = ["Descent", "descend"]

T = TypeVar("T")


@attrs.frozen(eq=False)
class Descent(Generic[T]):
    """Where a descent ended, with the loss and the step size before each step."""

    params: T
    losses: npt.NDArray[np.float64]
    step_sizes: npt.NDArray[np.float64]


def descend(loss: Callable[[T], Array], start: T, *, steps: int, initial_step: float, title: str) -> Descent[T]:
    """Take steps of the paper's optimizer down a loss."""
    optimizer = optim.arrayflow(initial_step=initial_step)

    @afx.jit
    def step(params: T, state: optim.ArrayflowState[T]) -> tuple[T, optim.ArrayflowState[T], Array]:
        value, grads = afx.value_and_grad(loss)(params)
        params, state = optimizer.step(params, grads, state, value=value)
        return params, state, value

    params, state = start, optimizer.init(start)
    losses, step_sizes = np.empty(steps), np.empty(steps)
    for k in progress(range(steps), title):
        params, state, value = step(params, state)
        losses[k], step_sizes[k] = float(value), float(state.learning_rate)
    return Descent(params, losses, step_sizes)
