"""Constrained steps: parameters, or elements of them, that stay as they are, and projections onto a set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar, cast

import attrs

from afx import pytree
from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval, aval_of
from afx.core.dtypes import bool_, is_inexact
from afx.errors import ArgumentError, DtypeError, ShapeError, TreeError
from afx.ops.creation.creation import ones_like, zeros
from afx.ops.elementwise.where import where
from afx.optim.rule import Rule, apply_rule, map_trained
from afx.pytree import Tree, TreeDef
from afx.transforms._arguments import check_callable
from afx.transforms.vjp import vjp

__all__ = ["Masked", "Projected", "freeze", "masked", "projected"]

T = TypeVar("T")
S = TypeVar("S")


@attrs.frozen
class Masked(Generic[S]):
    """An optimizer that leaves part of the parameters alone; made by `masked` and `freeze`."""

    inner: Rule[S]
    mask: Tree

    def init(self, params: Any) -> S:
        """Return the inner optimizer's state."""
        return self.inner.init(params)

    def update(self, grads: T, state: S, params: T, value: ArrayLike | None = None) -> tuple[T, S]:
        """Return updates that are 0 where the mask is false; gradients there are not seen, not even nan."""
        treedef = pytree.structure(params)
        free = _spread(self.mask(params) if callable(self.mask) else self.mask, pytree.leaves(params), treedef)
        updates, after = self.inner.update(_kept(grads, free, 0.0), state, params, value)
        return _kept(updates, free, -0.0), after  # x + -0.0 is x, where -0.0 + 0.0 would be 0.0

    def step(self, params: T, grads: T, state: S, *, value: ArrayLike | None = None) -> tuple[T, S]:
        """Return the next parameters and state."""
        return apply_rule(self.update, params, grads, state, value)


def _kept(tree: T, free: list[Any], fill: float) -> T:
    leaves, treedef = pytree.flatten(tree)
    return pytree.unflatten(
        treedef, [where(f, x, fill) if is_inexact(aval_of(x).dtype) else x for f, x in zip(free, leaves, strict=True)]
    )


def masked(optimizer: Rule[S], mask: Tree) -> Masked[S]:
    """Return an optimizer that moves parameters only where a mask is true: fixed ends, boundary values, frozen layers.

    The optimizer sees gradients of 0 where the mask is false, and what it would do there (weight decay, momentum) is
    dropped. `freeze` names the fixed parts instead. Optax's function of this name passes the other gradients on.

    Args:
        optimizer: what moves the others.
        mask: a tree of the parameters' structure, or a function of the parameters that returns one. Each of its leaves
            is a bool, which may stand for a whole subtree, or a boolean array that broadcasts to the parameter.

    Raises:
        TreeError, ShapeError, DtypeError: the mask does not fit the parameters (at the step); the message names the path.

    >>> import afx
    >>> from afx import optim
    >>> optimizer = masked(optim.sgd(1.0), {"w": afx.asarray([False, True]), "b": False})
    >>> params = {"w": afx.zeros(2), "b": afx.zeros(())}
    >>> optimizer.step(params, {"w": afx.ones(2), "b": afx.ones(())}, optimizer.init(params))[0]
    {'w': Array([ 0., -1.], dtype=float32), 'b': Array(0., dtype=float32)}
    """
    return Masked(optimizer, mask)


def freeze(optimizer: Rule[S], parts: Callable[[Any], object]) -> Masked[S]:
    """Return an optimizer that leaves some parts of the parameters as they are.

    Args:
        optimizer: what moves the others.
        parts: a function that takes the parameters and returns what is frozen: leaves, subtrees, elements
            (``lambda y: y[[0, -1]]``) or a tuple of such.

    Raises:
        ArgumentError: parts is no function, or returns no parts (at the step).

    >>> import afx
    >>> from afx import optim
    >>> optimizer = freeze(optim.sgd(1.0), lambda y: y[[0, -1]])
    >>> optimizer.step(afx.zeros(4), afx.ones(4), optimizer.init(afx.zeros(4)))[0]
    Array([ 0., -1., -1.,  0.], dtype=float32)
    """
    check_callable(parts, "freeze")

    def selected(params: Any) -> Any:
        chosen = parts(params)
        if chosen is None or not all(isinstance(leaf, Array) for leaf in pytree.leaves(chosen)):
            raise ArgumentError(
                f"freeze: parts returns what is frozen: got {chosen!r}; return leaves of the parameters it is given"
            )
        return chosen

    def mask(params: Any) -> Any:
        # the transpose of a selection puts ones where it selects
        blank = pytree.map(lambda p: zeros(aval_of(p).shape, aval_of(p).dtype), params)
        chosen, back = vjp(selected, blank)
        (marks,) = back(pytree.map(ones_like, chosen))
        return pytree.map(lambda mark: mark == 0, marks)

    return Masked(optimizer, mask)


# --------------------------------------------------------------------------------------------------------------- masks


@attrs.frozen
class _Place:
    """Stands for a parameter while a mask is laid over the tree of parameters."""

    index: int
    __afx_leaf__ = True


def _spread(mask: Any, leaves: list[Any], treedef: TreeDef[Any]) -> list[Any]:
    """Return what a mask holds for each leaf."""
    places = pytree.unflatten(treedef, [_Place(k) for k in range(len(leaves))])
    found = dict(_laid(mask, places))
    for k, leaf in enumerate(leaves):
        if k not in found:
            path = pytree.paths(treedef)[k]
            raise TreeError(
                f"masked: the mask does not fit the parameters: got nothing for params{path}; give it their structure"
            )
        if is_inexact(aval_of(leaf).dtype):
            _check_mask(found[k], aval_of(leaf), k, treedef)
    return [found[k] for k in range(len(leaves))]


def _laid(mask: Any, places: Any) -> Iterator[tuple[int, Any]]:
    """Yield what a mask holds for each place; bools in fields, which are no leaves elsewhere, are."""
    if isinstance(places, _Place):
        yield places.index, mask
    elif isinstance(mask, bool):
        for place in pytree.leaves(places):
            if isinstance(place, _Place):  # and no static field
                yield place.index, mask
    elif type(mask) is type(places):
        mine, theirs = _children(mask), _children(places)
        if more := [key for key in mine if key not in theirs]:
            raise TreeError(f"masked: the mask has more than the parameters: got {more}; give it their structure")
        for key, child in mine.items():
            yield from _laid(child, theirs[key])


def _children(tree: Any) -> dict[Any, Any]:
    kind: Any = tree.__class__
    if isinstance(tree, dict):
        return {**tree}
    if isinstance(tree, (tuple, list)):
        return dict(enumerate(cast("tuple[Any, ...]", tree)))
    return {field.name: getattr(tree, field.name) for field in attrs.fields(kind)} if attrs.has(kind) else {}


def _check_mask(mask: Any, param: Aval, k: int, treedef: TreeDef[Any]) -> None:
    """Raise where a mask is not of booleans or does not broadcast to its parameter."""
    aval = aval_of(mask, "masked")
    if aval.dtype != bool_:
        path = pytree.paths(treedef)[k]
        raise DtypeError(f"masked: a mask is boolean: got mask{path} = {aval}; compare, as in mask != 0")
    lengths = zip(reversed(aval.shape), reversed(param.shape), strict=False)
    if aval.ndim > param.ndim or any(n not in (1, length) for n, length in lengths):
        path = pytree.paths(treedef)[k]
        raise ShapeError(
            f"masked: a mask broadcasts to its parameter: got mask{path} = {aval} for {param}; change its shape"
        )


# --------------------------------------------------------------------------------------------------------- projections


@attrs.frozen
class Projected(Generic[S]):
    """An optimizer whose steps end in a set; made by `projected`."""

    inner: Rule[S]
    projection: Callable[[Any], Any]

    def init(self, params: Any) -> S:
        """Return the inner optimizer's state."""
        return self.inner.init(params)

    def update(self, grads: T, state: S, params: T, value: ArrayLike | None = None) -> tuple[T, S]:
        """Return updates that lead to the projection of where the inner ones lead."""
        updates, after = self.inner.update(grads, state, params, value)
        target: T = self.projection(map_trained(lambda p, u: p + u, params, updates))
        return map_trained(lambda t, p: t - p, target, params), after

    def step(self, params: T, grads: T, state: S, *, value: ArrayLike | None = None) -> tuple[T, S]:
        """Return the next parameters, which are exactly a projection, and state."""
        moved, after = apply_rule(self.inner.update, params, grads, state, value)
        target: T = self.projection(moved)
        _check_projection(pytree.flatten(moved), pytree.flatten(target))
        return target, after


def _check_projection(before: tuple[list[Any], TreeDef[Any]], after: tuple[list[Any], TreeDef[Any]]) -> None:
    if before[1] != after[1]:
        raise TreeError(f"projected: the projection changed the structure: got {after[1]}; return {before[1]}")
    for k, (x, y) in enumerate(zip(before[0], after[0], strict=True)):
        a, b = aval_of(x), aval_of(y, "projected")
        if a.shape != b.shape or a.dtype != b.dtype:
            path = pytree.paths(before[1])[k]
            raise ShapeError(f"projected: the projection changed params{path}: got {b} from {a}; keep shape and dtype")


def projected(optimizer: Rule[S], projection: Callable[[T], T]) -> Projected[S]:
    """Return an optimizer that projects the parameters after each step, onto a set of allowed ones.

    Args:
        optimizer: what takes the step.
        projection: a function of the parameters that returns allowed ones, of the same structure, shapes and dtypes.

    Raises:
        TreeError, ShapeError: the projection returns something else (at the step).

    >>> import afx
    >>> from afx import optim
    >>> optimizer = projected(optim.sgd(1.0), lambda p: afx.maximum(p, 0.0))
    >>> optimizer.step(afx.zeros(2), afx.asarray([1.0, -1.0]), optimizer.init(afx.zeros(2)))[0]
    Array([0., 1.], dtype=float32)
    """
    return Projected(optimizer, projection)
