"""Projections: steps that end in a set of allowed parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import attrs

from afx import pytree
from afx.core.array.array import Array, ArrayLike
from afx.core.aval import aval_of
from afx.errors import DtypeError, ShapeError
from afx.ops.creation.ranges import arange
from afx.ops.creation.stop_gradient import stop_gradient
from afx.ops.elementwise.arithmetic import abs as abs_
from afx.ops.elementwise.arithmetic import sign
from afx.ops.elementwise.where import clip, maximum, where
from afx.ops.reductions.cumulative import cumsum
from afx.ops.reductions.moments import vector_norm
from afx.ops.reductions.sums import max as largest
from afx.ops.reductions.sums import sum as sum_
from afx.ops.sorting.sort import sort
from afx.optim.chain import check_optimizer
from afx.optim.hyperparameters import positive
from afx.optim.leaves import check_params, map_trained, trained_leaves
from afx.optim.protocols import Optimizer
from afx.optim.step import apply_rule
from afx.pytree import TreeDef
from afx.pytree.compare import check_matching, check_structure

__all__ = [
    "Projected",
    "project_box",
    "project_l1_ball",
    "project_l2_ball",
    "project_nonnegative",
    "project_simplex",
    "projected",
]

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


# -- sets -------------------------------------------------------------------------------------------------------------
def project_box(params: T, low: ArrayLike = 0.0, high: ArrayLike = 1.0) -> T:
    """Return the nearest parameters between two bounds, numbers or arrays that broadcast.

    >>> import afx
    >>> project_box(afx.asarray([-1.0, 0.5, 2.0]))
    Array([0. , 0.5, 1. ], dtype=float32)
    """
    return map_trained(lambda p: clip(p, low, high), params)


def project_nonnegative(params: T) -> T:
    """Return the nearest parameters of 0 or more.

    >>> import afx
    >>> project_nonnegative(afx.asarray([-1.0, 0.5]))
    Array([0. , 0.5], dtype=float32)
    """
    return map_trained(lambda p: maximum(p, 0.0), params)


def project_simplex(params: T, total: ArrayLike = 1.0) -> T:
    """Return the nearest parameters of 0 or more that sum to a total, all leaves together.

    Source: Held, Wolfe & Crowder 1974; Duchi et al. 2008, Figure 1.

    Raises:
        ArgumentError: the total is below 0.
        ShapeError: there are no parameters.
        DtypeError: parameters are integers, or complex.

    >>> import afx
    >>> project_simplex(afx.asarray([1.0, 0.5, -1.0]))
    Array([0.75, 0.25, 0.  ], dtype=float32)
    """
    positive("total", total, "project_simplex", zero=True)
    vector, unravel = _vector(params, "project_simplex")
    if not vector.size:
        raise ShapeError(f"project_simplex: numbers sum to a total: got {vector.aval}; give one parameter or more")
    return unravel(_nearest_of_total(vector, total))


def project_l1_ball(params: T, radius: ArrayLike = 1.0) -> T:
    """Return the nearest parameters whose absolute values sum to a radius at most, all leaves together.

    Source: Duchi et al. 2008, section 4.

    Raises:
        ArgumentError: the radius is below 0.
        DtypeError: parameters are integers, or complex.

    >>> import afx
    >>> project_l1_ball(afx.asarray([1.0, -0.5, 0.0]))
    Array([ 0.75, -0.25,  0.  ], dtype=float32)
    """
    positive("radius", radius, "project_l1_ball", zero=True)
    vector, unravel = _vector(params, "project_l1_ball")
    if not vector.size:
        return params
    size = abs_(vector)
    shrunk = sign(vector) * _nearest_of_total(size, radius)
    return unravel(where(sum_(size) <= radius, vector, shrunk))


def project_l2_ball(params: T, radius: ArrayLike = 1.0) -> T:
    """Return the nearest parameters whose norm is a radius at most, all leaves together.

    Raises:
        ArgumentError: the radius is below 0.
        DtypeError: parameters are integers, or complex.

    >>> import afx
    >>> project_l2_ball(afx.asarray([3.0, 4.0]))
    Array([0.6, 0.8], dtype=float32)
    """
    positive("radius", radius, "project_l2_ball", zero=True)
    vector, unravel = _vector(params, "project_l2_ball")
    size = vector_norm(vector)
    outside = size > radius
    return unravel(where(outside, vector * (radius / where(outside, size, 1.0)), vector))


def _vector(params: T, who: str) -> tuple[Array, pytree.Unravel[T]]:
    """Return the trained leaves as one real vector, and the function back."""
    leaves, treedef = pytree.flatten(params)
    check_params(leaves, treedef, who)
    vector, unravel = pytree.ravel(params)
    if vector.dtype.kind == "c":
        raise DtypeError(f"{who}: needs real parameters: got {vector.aval}; keep their parts apart")
    return vector, unravel


def _nearest_of_total(vector: Array, total: ArrayLike) -> Array:
    """Return the nearest numbers of 0 or more that sum to a total.

    All are taken as distances from the largest, which change nothing but keep the total's digits beside large numbers.
    """
    shifted = vector - stop_gradient(largest(vector))
    falling = -sort(-shifted)
    excess = cumsum(falling) - total
    place = arange(1, vector.shape[0] + 1, dtype=vector.dtype)
    count = sum_((falling * place > excess).astype(int))
    threshold = excess[maximum(count - 1, 0)] / maximum(count, 1).astype(vector.dtype)
    return maximum(shifted - threshold, 0.0)
