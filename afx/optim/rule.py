"""What every optimizer is made of: rules that turn gradients into updates, and one step that applies them.

A *rule* has ``init(params) -> state`` and ``update(grads, state, params, value) -> (updates, state)``; updates are added
to the parameters. Rules chain. An *optimizer* is a rule with ``step``. All are frozen and pure: state in, state out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import attrs

from afx import pytree
from afx.core.array import Array, ArrayLike
from afx.core.aval import aval_of
from afx.core.dtypes import DType, float64, real_dtype
from afx.errors import ArgumentError, DtypeError, ShapeError, TreeError
from afx.ops.creation import asarray, zeros

__all__ = ["LearningRate", "Optimizer", "Rule", "Schedule"]

T = TypeVar("T")
S = TypeVar("S")

Schedule = Callable[[Array], ArrayLike]
LearningRate = float | Array | Schedule


class Rule(Protocol[S]):
    """Turns gradients into updates; ``S`` is its state."""

    def init(self, params: Any, /) -> S:
        """Return the state for parameters of this structure."""
        ...

    def update(self, grads: T, state: S, params: T, value: ArrayLike | None, /) -> tuple[T, S]:
        """Return what to add to the parameters, and the next state."""
        ...


class Optimizer(Rule[S], Protocol[S]):
    """A rule with a step; ``S`` is its state."""

    def step(self, params: T, grads: T, state: S, *, value: ArrayLike | None = None) -> tuple[T, S]:
        """Return the next parameters and state."""
        ...


def take_step(rule: Any, params: T, grads: T, state: S, value: ArrayLike | None) -> tuple[T, S]:
    """Return parameters moved by a rule's updates, each leaf in its own dtype, and the rule's next state.

    Raises:
        TreeError, ShapeError, DtypeError: gradients do not match the parameters; the message names the path.
    """
    leaves, treedef = pytree.flatten(params)
    slopes, slope_tree = pytree.flatten(grads)
    check_gradients(leaves, treedef, slopes, slope_tree)
    whole = pytree.unflatten(treedef, [asarray(p) for p in leaves])
    updates, state = rule.update(pytree.unflatten(treedef, slopes), state, whole, value)
    return pytree.map(lambda p, u: p + u.astype(p.dtype), whole, updates), state


def check_gradients(leaves: list[Any], treedef: Any, slopes: list[Any], slope_tree: Any) -> None:
    """Raise where gradients differ from the parameters they belong to, naming the path."""
    if slope_tree != treedef:
        raise TreeError(f"step: gradients have another structure: got {slope_tree}; the parameters are {treedef}")
    for k, (p, g) in enumerate(zip(leaves, slopes, strict=True)):
        a, b = aval_of(p, "step"), aval_of(g, "step")
        if a.dtype.kind not in "fc":
            path = pytree.paths(treedef)[k]
            raise DtypeError(
                f"step: parameters are floating or complex: got params{path} = {a}; mark it with afx.static()"
            )
        if a.shape != b.shape:
            path = pytree.paths(treedef)[k]
            raise ShapeError(f"step: a gradient has another shape: got grads{path} = {b}; params{path} is {a}")


def zeros_like_tree(params: T) -> T:
    """Return a tree of zeros of the same shapes and dtypes."""
    return pytree.map(lambda p: zeros(aval_of(p).shape, aval_of(p).dtype), params)


def count_zero() -> Array:
    """Return the number of steps before the first one, as states hold it."""
    return zeros((), float64)


def rate_at(rate: LearningRate, count: Array) -> Array:
    """Return the learning rate at a step, as a float64 scalar that states show."""
    found = rate(count) if callable(rate) else rate
    aval = aval_of(found, "learning_rate")
    if aval.shape != ():
        raise ShapeError(
            f"learning_rate: a scalar: got {aval}; scale gradients per leaf to move parameters differently"
        )
    return asarray(found).astype(float64) if isinstance(found, Array) else asarray(found, float64)


def as_real(scalar: Array, like: Any) -> Array:
    """Return a float64 scalar in the real dtype of a leaf, so that the leaf keeps its dtype."""
    dtype: DType = real_dtype(like.dtype)
    return scalar.astype(dtype)


def positive(name: str, value: Any, who: str, *, zero: bool = False) -> None:
    """Raise where a hyperparameter that is a plain number is not above 0 (or not 0 either)."""
    if isinstance(value, (int, float)) and not (value > 0 or (zero and value == 0)):
        raise ArgumentError(f"{who}: {name} is {'0 or more' if zero else 'above 0'}: got {value}")


def fraction(name: str, value: float, who: str) -> None:
    """Raise where a decay rate is not in [0, 1)."""
    if not 0 <= value < 1:
        raise ArgumentError(f"{who}: {name} is from 0 up to, not including, 1: got {value}")


@attrs.frozen
class CountState:
    """The state of rules that only count their steps.

    Attributes:
        count: the number of steps taken.
        learning_rate: the factor of the last step.
    """

    count: Array
    learning_rate: Array


@attrs.frozen
class EmptyState:
    """The state of rules that have none."""
