"""Projections: steps that end in a set of allowed parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import attrs

from afx import pytree
from afx.core.array.array import ArrayLike
from afx.core.aval import aval_of
from afx.optim.chain import check_optimizer
from afx.optim.leaves import map_trained, trained_leaves
from afx.optim.protocols import Optimizer
from afx.optim.step import apply_rule
from afx.pytree import TreeDef
from afx.pytree.compare import check_matching, check_structure

__all__ = ["Projected", "projected"]

T = TypeVar("T")
S = TypeVar("S")


@attrs.frozen
class Projected(Generic[S]):
    """An optimizer whose steps end in a set; made by `projected`."""

    inner: Optimizer[S]
    projection: Callable[[Any], Any]

    def init(self, params: Any) -> S:
        """Return the inner optimizer's state."""
        return self.inner.init(params)

    def descend(self, grads: T, state: S, params: T, value: ArrayLike | None = None, /) -> tuple[T, S]:
        """Return updates that lead to the projection of where the inner ones lead."""
        updates, after = self.inner.descend(grads, state, params, value)
        target: T = self.projection(map_trained(lambda p, u: p + u, params, updates))
        return map_trained(lambda t, p: t - p, target, params), after

    def step(self, params: T, grads: T, state: S, *, value: ArrayLike | None = None) -> tuple[T, S]:
        """Return the next parameters, which are exactly a projection, and state."""
        moved, after = apply_rule(self.inner.descend, params, grads, state, value)
        target: T = self.projection(moved)
        before, treedef = pytree.flatten(moved)
        found = pytree.flatten(target)
        _check_projection((before, treedef), found)
        trained = trained_leaves(before, treedef)
        kept = [y if t else x for x, y, t in zip(before, found[0], trained, strict=True)]
        return pytree.unflatten(treedef, kept), after


def _check_projection(before: tuple[list[Any], TreeDef[Any]], after: tuple[list[Any], TreeDef[Any]]) -> None:
    """Raise where a projection changes the structure, a shape or a dtype."""
    what = "the projection of params"
    check_structure(after[1], before[1], "projected", what, "keep it")
    found, wanted = [aval_of(x, "projected") for x in after[0]], [aval_of(x) for x in before[0]]
    check_matching(found, wanted, before[1], "projected", what, "keep it")


def projected(optimizer: Optimizer[S], projection: Callable[[T], T]) -> Projected[S]:
    """Return an optimizer that projects the parameters after each step, onto a set of allowed ones.

    Args:
        optimizer: what takes the step.
        projection: a function of the parameters that returns allowed ones, of the same structure, shapes and dtypes.

    Raises:
        TreeError, ShapeError, DtypeError: the projection returns something else (at the step).

    >>> import afx
    >>> from afx import optim
    >>> optimizer = projected(optim.sgd(1.0), lambda p: afx.maximum(p, 0.0))
    >>> optimizer.step(afx.zeros(2), afx.asarray([1.0, -1.0]), optimizer.init(afx.zeros(2)))[0]
    Array([0., 1.], dtype=float32)
    """
    check_optimizer(optimizer, "projected")
    return Projected(optimizer, projection)
