"""Lion: steps by the sign of an average gradient."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import attrs

from afx.core.array.array import Array, ArrayLike
from afx.ops.elementwise.arithmetic import sign
from afx.optim import checks
from afx.optim.descent import Descent, descent
from afx.optim.hyperparameters import LearningRate, count_zero
from afx.optim.leaves import average, map_trained, zeros_of
from afx.optim.masks import Mask
from afx.optim.step import check_kind

__all__ = ["LionState", "lion", "scale_by_lion"]

T = TypeVar("T")


@attrs.frozen
class LionState(Generic[T]):
    """The state of `scale_by_lion`.

    Attributes:
        count: the number of steps taken.
        mu: the moving average of the gradients.
    """

    count: Array
    mu: T


@attrs.frozen
class ScaleByLion:
    """Lion's transformation; made by `scale_by_lion`."""

    b1: float = attrs.field(default=0.9, validator=checks.fraction)
    b2: float = attrs.field(default=0.99, validator=checks.fraction)

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


def scale_by_lion(*, b1: float = 0.9, b2: float = 0.99) -> ScaleByLion:
    """Return Lion's transformation of gradients: what `lion` multiplies by its learning rate.

    Arguments and errors are those of `lion`.

    >>> import afx
    >>> rule = scale_by_lion()
    >>> rule.update(afx.asarray([4.0, -0.1]), rule.init(afx.ones(2)), afx.ones(2))[0]
    Array([ 1., -1.], dtype=float32)
    """
    return ScaleByLion(b1, b2)


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
        learning_rate: a number, a scalar array, or a schedule of the number of steps taken.
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
