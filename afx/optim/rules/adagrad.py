"""Adagrad and Adadelta: gradients over the root of a sum, or an average, of squares."""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar

import attrs

from afx.core.array.array import Array, ArrayLike
from afx.ops.elementwise.arithmetic import sqrt
from afx.ops.elementwise.where import where
from afx.optim import checks
from afx.optim.descent import Descent, descent
from afx.optim.hyperparameters import LearningRate
from afx.optim.leaves import as_real, average_square, filled, map_trained, safe_sqrt, square, zeros_of
from afx.optim.masks import Mask
from afx.optim.step import check_kind

__all__ = ["AdadeltaState", "RssState", "adadelta", "adagrad", "scale_by_adadelta", "scale_by_rss"]

T = TypeVar("T")


@attrs.frozen
class RssState(Generic[T]):
    """The state of `scale_by_rss`.

    Attributes:
        sum_of_squares: of all gradients so far, real for complex parameters too.
    """

    sum_of_squares: T


@attrs.frozen
class ScaleByRss:
    """Adagrad's transformation; made by `scale_by_rss`."""

    who: ClassVar[str] = "adagrad"
    initial: float = attrs.field(default=0.0, validator=checks.not_negative)
    eps: float = attrs.field(default=1e-10, validator=checks.positive)
    eps_in_root: bool = False

    def init(self, params: T) -> RssState[T]:
        """Return the state before the first step."""
        return RssState(filled(zeros_of(params, "adagrad", real=True), self.initial))

    def update(
        self, grads: T, state: RssState[T], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, RssState[T]]:
        """Return the scaled gradients, and the next state."""
        check_kind(state, RssState, "adagrad")
        total = map_trained(lambda s, g: s + square(g), state.sum_of_squares, grads)
        return map_trained(self._divide, grads, total), RssState(total)

    def _divide(self, g: Array, s: Array) -> Array:
        eps = as_real(self.eps, s)
        if not self.eps_in_root:
            return g / (safe_sqrt(s) + eps)
        return where(s > 0, g / sqrt(s + eps), 0.0)


def scale_by_rss(*, initial: float = 0.0, eps: float = 1e-10, eps_in_root: bool = False) -> ScaleByRss:
    """Return Adagrad's transformation of gradients, over the root of the sum of squares.

    Arguments and errors are those of `adagrad`.

    >>> import afx
    >>> rule = scale_by_rss()
    >>> rule.update(afx.asarray([4.0]), rule.init(afx.ones(1)), afx.ones(1))[0]
    Array([1.], dtype=float32)
    """
    return ScaleByRss(initial, eps, eps_in_root)


def adagrad(
    learning_rate: LearningRate = 1e-2,
    *,
    initial: float = 0.0,
    eps: float = 1e-10,
    eps_in_root: bool = False,
    weight_decay: float = 0.0,
    mask: Mask = True,
) -> Descent[RssState[Any]]:
    """Return Adagrad: steps of ``-learning_rate · g / (√s + eps)``, where s is the sum of all squares so far.

    Source: Duchi, Hazan & Singer 2011, the diagonal form. Start and eps are torch's; Optax starts the sum at 0.1 and adds
    eps inside of the root: ``initial=0.1, eps=1e-7, eps_in_root=True``.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the number of steps taken.
        initial: where the sum of squares starts, 0 or more.
        eps: added to the root, above 0.
        eps_in_root: adds eps inside of the root.
        weight_decay: the strength of the decoupled decay, 0 or more.
        mask: what decays, as in `adamw`.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> optimizer = adagrad(0.1)
    >>> optimizer.step(afx.ones(2), afx.ones(2), optimizer.init(afx.ones(2)))[0]
    Array([0.9, 0.9], dtype=float32)
    """
    rule = scale_by_rss(initial=initial, eps=eps, eps_in_root=eps_in_root)
    return descent(rule, learning_rate, "adagrad", weight_decay, mask)


# --- Adadelta


@attrs.frozen
class AdadeltaState(Generic[T]):
    """The state of `scale_by_adadelta`.

    Attributes:
        squares: the moving average of squared gradients, real for complex parameters too.
        moves: the moving average of squared updates.
    """

    squares: T
    moves: T


@attrs.frozen
class ScaleByAdadelta:
    """Adadelta's transformation; made by `scale_by_adadelta`."""

    rho: float = attrs.field(default=0.9, validator=checks.fraction)
    eps: float = attrs.field(default=1e-6, validator=checks.positive)

    def init(self, params: T) -> AdadeltaState[T]:
        """Return the state before the first step."""
        start = zeros_of(params, "adadelta", real=True)
        return AdadeltaState(start, start)

    def update(
        self, grads: T, state: AdadeltaState[T], params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, AdadeltaState[T]]:
        """Return the scaled gradients, and the next state."""
        check_kind(state, AdadeltaState, "adadelta")
        squares = average_square(state.squares, grads, self.rho)

        def moved(g: Array, s: Array, m: Array) -> Array:
            eps = as_real(self.eps, s)
            return sqrt(m + eps) / sqrt(s + eps) * g

        updates = map_trained(moved, grads, squares, state.moves)
        return updates, AdadeltaState(squares, average_square(state.moves, updates, self.rho))


def scale_by_adadelta(*, rho: float = 0.9, eps: float = 1e-6) -> ScaleByAdadelta:
    """Return Adadelta's transformation of gradients: what `adadelta` multiplies by its learning rate.

    Arguments and errors are those of `adadelta`.

    >>> import afx
    >>> rule = scale_by_adadelta(rho=0.75, eps=1e-6)
    >>> rule.update(afx.asarray([4.0]), rule.init(afx.ones(1)), afx.ones(1))[0].round(4)
    Array([0.002], dtype=float32)
    """
    return ScaleByAdadelta(rho, eps)


def adadelta(
    learning_rate: LearningRate = 1.0,
    *,
    rho: float = 0.9,
    eps: float = 1e-6,
    weight_decay: float = 0.0,
    mask: Mask = True,
) -> Descent[AdadeltaState[Any]]:
    """Return Adadelta: gradients over their root mean square, times that of past steps.

    Source: Zeiler 2012, Algorithm 1, as in torch and Optax.

    Args:
        learning_rate: a number, a scalar array, or a schedule of the number of steps taken; the paper has 1.
        rho: decay of both averages, from 0 up to 1.
        eps: added inside of both roots, above 0.
        weight_decay: the strength of the decoupled decay, 0 or more.
        mask: what decays, as in `adamw`.

    Raises:
        ArgumentError: an argument out of its range.

    >>> import afx
    >>> optimizer = adadelta(1.0, rho=0.75)
    >>> optimizer.step(afx.ones(2), afx.ones(2), optimizer.init(afx.ones(2)))[0].round(4)
    Array([0.998, 0.998], dtype=float32)
    """
    return descent(scale_by_adadelta(rho=rho, eps=eps), learning_rate, "adadelta", weight_decay, mask)
