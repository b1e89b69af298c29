"""Steps: apply an optimizer's updates to the parameters, once gradients and state are checked.

Inside of an optimizer float16 leaves are float32, and gradients of complex parameters are conjugated, which makes them
point uphill; in place of leaves that are not trained stand empty boolean arrays, which `map_trained` passes over.
`apply_rule` sees to all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from afx import pytree
from afx.core.array.array import Array, ArrayLike
from afx.core.aval import aval_of
from afx.errors import ShapeError, TreeError
from afx.ops.creation.creation import asarray
from afx.optim.leaves import check_params, hidden, is_trained, to_compute_dtype, trained_leaves
from afx.pytree import TreeDef
from afx.pytree.compare import check_matching, check_structure

__all__ = ["Steps", "apply_rule", "check_kind", "check_state"]

OTHER_PARAMS = "the state is of other parameters: call init"
T = TypeVar("T")
S = TypeVar("S")


class Steps(Generic[S]):
    """The base of optimizers: `step` from `descend`."""

    __slots__ = ()

    def descend(self, grads: T, state: S, params: T, value: ArrayLike | None = None, /) -> tuple[T, S]:
        """Return what to add to the parameters, and the next state."""
        raise NotImplementedError  # each optimizer has its own

    def step(self, params: T, grads: T, state: S, *, value: ArrayLike | None = None) -> tuple[T, S]:
        """Return the next parameters and state; ``value`` is the loss at ``params``, where it is needed."""
        return apply_rule(self.descend, params, grads, state, value)


def apply_rule(
    descend: Callable[[T, S, T, ArrayLike | None], tuple[T, S]],
    params: T,
    grads: T,
    state: S,
    value: ArrayLike | None,
) -> tuple[T, S]:
    """Return parameters moved by an optimizer's updates, each leaf in its own dtype, and its next state.

    Raises:
        TreeError, ShapeError, DtypeError: gradients or state do not belong to the parameters; the message names the path.
    """
    leaves, treedef = pytree.flatten(params)
    check_params(leaves, treedef, "step")
    slopes = _gradients(grads, leaves, treedef)
    trained = trained_leaves(leaves, treedef)
    old = [asarray(p) if t else p for p, t in zip(leaves, trained, strict=True)]
    whole = [to_compute_dtype(p) if t else hidden() for p, t in zip(old, trained, strict=True)]
    uphill = [
        to_compute_dtype(g.conj() if g.dtype.kind == "c" else g) if t else hidden()
        for g, t in zip(slopes, trained, strict=True)
    ]
    try:
        updates, after = descend(pytree.unflatten(treedef, uphill), state, pytree.unflatten(treedef, whole), value)
    except TreeError as error:
        if not str(error).startswith("map:"):
            raise
        raise TreeError(f"step: the state is of other parameters ({error}); call init(params)") from error
    except ShapeError as error:
        if "not be broadcast" not in str(error):
            raise
        raise ShapeError(f"step: the state is of other parameters: got {error}; call init(params)") from error
    check_state(state, after)
    steps = pytree.leaves(updates)
    _check_updates(whole, steps, treedef)
    moves = [t and is_trained(u) for t, u in zip(trained, steps, strict=True)]
    moved = [(w + u).astype(p.dtype) if m else p for p, w, u, m in zip(old, whole, steps, moves, strict=True)]
    return pytree.unflatten(treedef, moved), after


def _gradients(grads: Any, leaves: Sequence[Any], treedef: TreeDef[Any]) -> list[Array]:
    """Return the leaves of the gradients, or raise where they differ from the parameters', naming the path."""
    slopes, slope_tree = pytree.flatten(grads)
    check_structure(slope_tree, treedef, "step", "grads", "pass what afx.grad returns")
    found, wanted = [aval_of(g, "step") for g in slopes], [aval_of(p, "step") for p in leaves]
    check_matching(found, wanted, treedef, "step", "grads", "pass what afx.grad returns")
    return [asarray(g) for g in slopes]


def check_state(before: Any, after: Any) -> None:
    """Raise where a step would change the shape of its state, which was then made for other parameters."""
    old, treedef = pytree.flatten(before)
    new, structure = pytree.flatten(after)
    check_structure(treedef, structure, "step", "state", OTHER_PARAMS)
    found, wanted = [aval_of(x, "step") for x in old], [aval_of(x, "step") for x in new]
    check_matching(found, wanted, treedef, "step", "state", OTHER_PARAMS, dtypes="weak")  # numbers may replace settings


def _check_updates(leaves: Sequence[Array], updates: Sequence[Array], treedef: TreeDef[Any]) -> None:
    """Raise where a parameter would change its shape."""
    for k, (p, u) in enumerate(zip(leaves, updates, strict=True)):
        if p.shape != u.shape:
            path = pytree.paths(treedef)[k]
            raise ShapeError(
                f"step: the state is of other parameters: got an update {u.aval} of params{path} = {p.aval}; call init"
            )


def check_kind(state: object, kind: type, who: str) -> None:
    """Raise where a state belongs to another optimizer."""
    if not isinstance(state, kind):
        raise TreeError(
            f"{who}: its state is of type {kind.__name__}: got {type(state).__name__}; call init(params) of the same "
            "optimizer"
        )
