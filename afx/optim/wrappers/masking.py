"""Masking: transformations of some parameters, frozen ones, and an optimizer for each group."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import attrs
import numpy as np

from afx import pytree
from afx.core import Array, ArrayLike, Shown, aval_of
from afx.errors import ArgumentError, TreeError
from afx.ops import ones_like, where, zeros
from afx.optim.hyperparameters import check_mapping
from afx.optim.step import (
    EmptyState,
    Labels,
    Mask,
    Optimizer,
    Steps,
    Transformation,
    check_kind,
    check_params,
    hidden,
    hide,
    is_trained,
    label_leaves,
    mask_leaves,
    still,
    takes_one,
    trained_leaves,
)
from afx.optim.transforms import check_optimizer, check_transformation
from afx.transforms.derivatives.grad import vjp

__all__ = ["Frozen", "Masked", "Partition", "PartitionState", "freeze", "masked", "partition", "set_to_zero"]

T = TypeVar("T")
S = TypeVar("S")


# --- masked transformations


@attrs.frozen
class Masked(Shown, Generic[S]):
    """A transformation of some gradients, which passes the others on; made by `masked`."""

    inner: Transformation[S]
    mask: Mask

    def init(self, params: Any) -> S:
        """Return the inner transformation's state, for what the mask chooses."""
        return self.inner.init(hide(params, mask_leaves(self.mask, params, "masked")))

    def update(self, grads: T, state: S, params: T, value: ArrayLike | None = None, /) -> tuple[T, S]:
        """Return the gradients, changed where the mask is true."""
        chosen = mask_leaves(self.mask, params, "masked")
        leaves, treedef = pytree.flatten(grads)
        seen = pytree.unflatten(treedef, [_apply_mask(g, m) for g, m in zip(leaves, chosen, strict=True)])
        updates, after = self.inner.update(seen, state, hide(params, chosen), value)
        pairs = zip(pytree.leaves(updates), leaves, chosen, strict=True)
        return pytree.unflatten(treedef, [_choose(u, g, m) for u, g, m in pairs]), after


def _apply_mask(grad: Array, mask: bool | Array) -> Array:
    """Return what is seen of a gradient through a mask: nothing, all, or 0 where it is false."""
    if mask is False or not is_trained(grad):
        return hidden()
    return grad if mask is True else where(mask, grad, 0.0)


def _choose(update: Array, other: Array, mask: bool | Array) -> Array:
    """Return the update where a mask is true, something else where it is not."""
    if mask is False or not is_trained(other):
        return other
    return update if mask is True else where(mask, update, other)


def masked(transformation: Transformation[S], mask: Mask) -> Masked[S]:
    """Return the transformation that works on the gradients a mask chooses, and passes the others on unchanged.

    The transformation does not see the others: they count in no norm, and its state holds nothing for them. As in
    Optax. To keep parameters still write `freeze`, to train groups differently `partition`.

    Args:
        transformation: what changes the chosen gradients.
        mask: what is chosen: a prefix tree of the parameters whose values are bools or boolean arrays that broadcast to
            a parameter, or a function ``(path, leaf) -> bool``.

    Raises:
        ArgumentError: got an optimizer, not a gradient transformation.
        TreeError, ShapeError, DtypeError: the mask does not fit the parameters (in ``init`` and ``update``).

    >>> import afx
    >>> from afx import optim
    >>> decay = masked(optim.add_decayed_weights(0.5), {"w": True, "b": False})
    >>> optimizer = optim.chain(decay, optim.sgd(1.0))
    >>> params = {"w": afx.ones(2), "b": afx.ones(())}
    >>> optimizer.step(params, {"w": afx.zeros(2), "b": afx.ones(())}, optimizer.init(params))[0]
    {'w': Array([0.5, 0.5], dtype=float32), 'b': Array(0., dtype=float32)}
    """
    check_transformation(transformation, "masked", "write freeze to keep parameters still, partition for groups")
    return Masked(transformation, mask)


# --- frozen parameters


@attrs.frozen
class Frozen(Steps[S]):
    """An optimizer that keeps part of the parameters still; made by `freeze`."""

    inner: Optimizer[S]
    frozen: Any  # a mask, or a function that selects parts of the parameters

    def init(self, params: Any) -> S:
        """Return the inner optimizer's state, for what moves."""
        check_params(*pytree.flatten(params), "freeze")
        return self.inner.init(hide(params, self._free(params)))

    def descend(self, grads: T, state: S, params: T, value: ArrayLike | None = None, /) -> tuple[T, S]:
        """Return updates that leave frozen parameters alone; gradients there are not seen, not even nan."""
        free = self._free(params)
        leaves, treedef = pytree.flatten(grads)
        seen = pytree.unflatten(treedef, [_apply_mask(g, m) for g, m in zip(leaves, free, strict=True)])
        updates, after = self.inner.descend(seen, state, hide(params, free), value)
        triples = zip(pytree.leaves(updates), pytree.leaves(params), free, strict=True)
        return pytree.unflatten(treedef, [_keep_fixed(u, p, m) for u, p, m in triples]), after

    def _free(self, params: Any) -> list[Any]:
        """Return the opposite of what is frozen, for each leaf."""
        if callable(self.frozen) and takes_one(self.frozen):
            return _invert_selection(self.frozen, params)
        return [not m if isinstance(m, bool) else ~m for m in mask_leaves(self.frozen, params, "freeze")]


def _keep_fixed(update: Array, param: Array, free: bool | Array) -> Array:
    if free is False and is_trained(param):
        return still(param)
    return update if isinstance(free, bool) or not is_trained(param) else where(free, update, -0.0)  # x + -0.0 is x


def _invert_selection(parts: Callable[[Any], object], params: Any) -> list[Any]:
    """Return where a function does not select, for each leaf: the transpose of a selection puts ones where it does."""

    def selected(blank: Any) -> Any:
        chosen = parts(blank)
        if chosen is None or not all(isinstance(leaf, Array) for leaf in pytree.leaves(chosen)):
            raise ArgumentError(
                f"freeze: parts returns what is frozen: got {chosen!r}; return leaves of the parameters it is given"
            )
        return chosen

    blank = pytree.map(lambda p: zeros(aval_of(p).shape, aval_of(p).dtype), params)
    chosen, back = vjp(selected, blank)
    (marks,) = back(pytree.map(ones_like, chosen))
    return [_simplify_mask(np.asarray(mark) == 0) for mark in pytree.leaves(marks)]


def _simplify_mask(free: Any) -> Any:
    """Return a mask that is the same everywhere as a bool."""
    return bool(free.all()) if free.all() or not free.any() else free


def freeze(optimizer: Optimizer[S], frozen: Mask | Callable[[Any], object]) -> Frozen[S]:
    """Return an optimizer that keeps some parameters, or elements of them, exactly as they are.

    What is frozen takes no part: its gradients are not seen, no momentum or weight decay reaches it, and the state holds
    nothing for a parameter that is frozen as a whole.

    Args:
        optimizer: what moves the others.
        frozen: a mask that is true where parameters are frozen, or a function of the parameters that returns the frozen
            part. A mask is a prefix tree of bools or boolean arrays, or a function ``(path, leaf) -> bool``. A frozen
            part is leaves, subtrees, elements (``lambda y: y[[0, -1]]``) or a tuple of such.

    Raises:
        ArgumentError: got a gradient transformation, not an optimizer; the function returns no parts (at the step).
        TreeError, ShapeError, DtypeError: the mask does not fit the parameters (at the step); the message names the path.

    >>> import afx
    >>> from afx import optim
    >>> optimizer = freeze(optim.sgd(1.0), lambda y: y[[0, -1]])
    >>> optimizer.step(afx.zeros(4), afx.ones(4), optimizer.init(afx.zeros(4)))[0]
    Array([ 0., -1., -1.,  0.], dtype=float32)
    >>> optimizer = freeze(optim.sgd(1.0), {"w": True, "b": False})
    >>> params = {"w": afx.ones(1), "b": afx.ones(1)}
    >>> optimizer.step(params, params, optimizer.init(params))[0]
    {'w': Array([1.], dtype=float32), 'b': Array([0.], dtype=float32)}
    """
    check_optimizer(optimizer, "freeze")
    if frozen is None:
        raise ArgumentError("freeze: needs a mask, or a function that returns what is frozen: got None; write one")
    return Frozen(optimizer, frozen)


# --- groups of parameters


@attrs.frozen
class SetToZero(Steps[EmptyState]):
    """The optimizer that moves nothing, for the frozen group of a `partition`.

    >>> import afx
    >>> optimizer = set_to_zero()
    >>> optimizer.step(afx.ones(1), afx.ones(1), optimizer.init(afx.ones(1)))[0]
    Array([1.], dtype=float32)
    """

    def init(self, params: object) -> EmptyState:
        """Return the state, which holds nothing."""
        return EmptyState()

    def descend(
        self, grads: T, state: EmptyState, params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, EmptyState]:
        """Return updates that leave every parameter exactly as it is."""
        check_kind(state, EmptyState, "set_to_zero")
        return pytree.map(still, params), state


@attrs.frozen
class PartitionState(Shown):
    """The state of `partition`.

    Attributes:
        states: the state of each group's optimizer, by label.
    """

    states: dict[str, Any]


@attrs.frozen
class Partition(Steps[PartitionState]):
    """An optimizer for each group of parameters; made by `partition`."""

    optimizers: dict[str, Optimizer[Any]]
    labels: Labels

    def init(self, params: Any) -> PartitionState:
        """Return the state of each optimizer, for its own parameters."""
        check_params(*pytree.flatten(params), "partition")
        labels = self._labels(params)
        return PartitionState(
            {name: rule.init(hide(params, [x == name for x in labels])) for name, rule in self.optimizers.items()}
        )

    def descend(
        self, grads: T, state: PartitionState, params: T, value: ArrayLike | None = None, /
    ) -> tuple[T, PartitionState]:
        """Return the updates of each group by its own optimizer."""
        check_kind(state, PartitionState, "partition")
        labels, treedef = self._labels(params), pytree.structure(grads)
        by_label: dict[str, list[Any]] = {}
        after: dict[str, Any] = {}
        for name, optimizer in self.optimizers.items():
            own = [x == name for x in labels]
            updates, after[name] = optimizer.descend(hide(grads, own), state.states[name], hide(params, own), value)
            by_label[name] = pytree.leaves(updates)
        unchanged = pytree.leaves(grads)
        moved = [by_label[name][k] if name in by_label else unchanged[k] for k, name in enumerate(labels)]
        return pytree.unflatten(treedef, moved), PartitionState(after)

    def _labels(self, params: Any) -> list[str]:
        labels = label_leaves(self.labels, params, "partition")
        trained = trained_leaves(*pytree.flatten(params))
        for k, label in enumerate(labels):
            if trained[k] and label not in self.optimizers:
                path = pytree.paths(pytree.structure(params))[k]
                raise TreeError(
                    f"partition: a label has no optimizer: got {label!r} for params{path}, and optimizers for "
                    f"{sorted(self.optimizers)}; add one, set_to_zero() to keep it still"
                )
        return labels


def partition(optimizers: Mapping[str, Optimizer[Any]], labels: Labels) -> Partition:
    """Return the optimizer that trains each group of parameters by an optimizer of its own.

    Each optimizer sees its own parameters alone: a norm that it clips is that of its group. `afx.pytree.partition`
    splits a tree in two.

    Args:
        optimizers: an optimizer for each label; `set_to_zero` keeps a group still.
        labels: the label of each parameter: a prefix tree of the parameters whose values are strings, or a function
            ``(path, leaf) -> str``.

    Raises:
        ArgumentError: no mapping, or what is given for a label is no optimizer.
        TreeError: the labels do not fit the parameters, or one has no optimizer (in ``init`` and ``step``).

    >>> import afx
    >>> from afx import optim
    >>> groups = {"fast": optim.sgd(1.0), "slow": optim.sgd(0.5)}
    >>> optimizer = partition(groups, lambda path, leaf: "slow" if path == "['b']" else "fast")
    >>> params = {"w": afx.zeros(2), "b": afx.zeros(())}
    >>> optimizer.step(params, {"w": afx.ones(2), "b": afx.ones(())}, optimizer.init(params))[0]
    {'w': Array([-1., -1.], dtype=float32), 'b': Array(-0.5, dtype=float32)}
    """
    check_mapping("partition", optimizers, "{label: optimizer}")
    if not optimizers:
        raise ArgumentError("partition: there is nothing to train with: got no optimizers; name one for each label")
    for optimizer in optimizers.values():
        check_optimizer(optimizer, "partition")
    return Partition(dict(optimizers), labels)


# --- Names of functions, which users write, for the classes

set_to_zero = SetToZero
