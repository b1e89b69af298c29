"""What every optimizer is made of: rules that turn gradients into updates, and one step that applies them.

A *rule* has ``init(params) -> state`` and ``update(grads, state, params, value) -> (updates, state)``; updates are added
to the parameters. Rules chain. An *optimizer* is a rule with ``step``. All are frozen and pure: state in, state out.

Inside of a rule, float16 leaves are float32, and gradients of complex parameters are conjugated, which makes them point
uphill; in place of leaves that are not trained stand empty boolean arrays, which `map_trained` passes over. `apply_rule`
sees to all of it, and to what is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, overload

import attrs
import numpy as np

from afx import pytree
from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval, aval_of
from afx.core.dtypes import DType, bool_, float16, float32, is_inexact, real_dtype
from afx.errors import DtypeError, ShapeError, TreeError
from afx.ops.creation.creation import asarray, zeros
from afx.ops.elementwise.arithmetic import sqrt
from afx.ops.elementwise.where import where
from afx.pytree import TreeDef
from afx.pytree.treedef import difference
from afx.transforms.custom_derivatives import custom_jvp

__all__ = ["EmptyState", "Optimizer", "Rule"]

T = TypeVar("T")
S = TypeVar("S")


class Rule(Protocol[S]):
    """Turns gradients into updates; ``S`` is its state."""

    # Any, for the state's type follows from that of the parameters, and no protocol can say how
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


@attrs.frozen
class EmptyState:
    """The state of rules that have none."""


# ------------------------------------------------------------------------------------------------------- the one step


def apply_rule(
    update: Callable[[T, S, T, ArrayLike | None], tuple[T, S]],
    params: T,
    grads: T,
    state: S,
    value: ArrayLike | None,
) -> tuple[T, S]:
    """Return parameters moved by a rule's updates, each leaf in its own dtype, and the rule's next state.

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
        updates, after = update(pytree.unflatten(treedef, uphill), state, pytree.unflatten(treedef, whole), value)
    except TreeError as error:
        if not str(error).startswith("map:"):
            raise
        raise TreeError(f"step: the state is of other parameters ({error}); call init(params)") from error
    check_state(state, after)
    steps = pytree.leaves(updates)
    _check_updates(whole, steps, treedef)
    moved = [(w + u).astype(p.dtype) if t else p for p, w, u, t in zip(old, whole, steps, trained, strict=True)]
    return pytree.unflatten(treedef, moved), after


def check_params(leaves: Sequence[Any], treedef: TreeDef[Any], who: str) -> None:
    """Raise where there are parameters, but none that is trained."""
    for x in leaves:
        aval_of(x, who)
    if leaves and not any(trained_leaves(leaves, treedef)):
        raise DtypeError(
            f"{who}: parameters are floating or complex: got params{pytree.paths(treedef)[0]} = {aval_of(leaves[0])} "
            "and no leaf that is trained; convert one to a float, or take its mark afx.non_trainable() off"
        )


def _gradients(grads: Any, leaves: Sequence[Any], treedef: TreeDef[Any]) -> list[Array]:
    """Return the leaves of the gradients, or raise where they differ from the parameters', naming the path."""
    slopes, slope_tree = pytree.flatten(grads)
    if slope_tree != treedef:
        path, theirs, mine = difference(treedef, slope_tree)
        raise TreeError(
            f"step: gradients have another structure than parameters, at {path or 'the top'}: got {mine} in grads "
            f"where params have {theirs}; pass what afx.grad returns"
        )
    for k, (p, g) in enumerate(zip(leaves, slopes, strict=True)):
        a, b = aval_of(p, "step"), aval_of(g, "step")
        if a.shape != b.shape or a.dtype != b.dtype:
            raise _unequal(pytree.paths(treedef)[k], a, b)
    return [asarray(g) for g in slopes]


def _unequal(path: str, param: Aval, slope: Aval) -> ShapeError | DtypeError:
    """Return the error for a gradient that differs from its parameter."""
    got = f"got grads{path} = {slope} where params{path} = {param}"
    if param.shape != slope.shape:
        return ShapeError(f"step: a gradient has another shape than its parameter: {got}; pass what afx.grad returns")
    return DtypeError(f"step: a gradient has another dtype than its parameter: {got}; convert one with astype")


def check_state(before: Any, after: Any) -> None:
    """Raise where a step would change the shape of its state, which was then made for other parameters."""
    old, treedef = pytree.flatten(before)
    new, structure = pytree.flatten(after)
    if treedef != structure:
        path, mine, theirs = difference(treedef, structure)
        raise TreeError(f"step: the state is of other parameters: got {mine} at state{path}, not {theirs}; call init")
    for k, (x, y) in enumerate(zip(old, new, strict=True)):
        a, b = aval_of(x, "step"), aval_of(y, "step")
        if a.shape != b.shape or a.dtype != b.dtype:
            path = pytree.paths(treedef)[k]
            raise ShapeError(f"step: the state is of other parameters: got state{path} = {a}, not {b}; call init")


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


# ------------------------------------------------------------------------------------------------------------- leaves


def trained_leaves(leaves: Sequence[Any], treedef: TreeDef[Any]) -> list[bool]:
    """Tell of each leaf whether it is trained: a floating or complex one outside of `non_trainable` fields."""
    inexact = list(map(_is_trained, leaves))
    marked = pytree.marked_leaves(treedef)
    return [i and not m for i, m in zip(inexact, marked, strict=True)] if marked else inexact


def _is_trained(leaf: Any) -> bool:
    return is_inexact(aval_of(leaf).dtype)


def hidden() -> Array:
    """Return what stands, inside of rules and states, in the place of a leaf that is not trained."""
    return zeros((0,), bool_)


@overload
def map_trained(fn: Callable[[Any], object], tree: T, /) -> T: ...
@overload
def map_trained(fn: Callable[[Any, Any], object], tree: T, other: object, /) -> T: ...
@overload
def map_trained(fn: Callable[[Any, Any, Any], object], tree: T, other: object, third: object, /) -> T: ...
@overload
def map_trained(fn: Callable[..., object], tree: T, /, *rest: object) -> T: ...
def map_trained(fn: Callable[..., object], tree: T, /, *rest: object) -> T:
    """Apply a function to every trained leaf, or to those in the same place of several trees, as `afx.pytree.map` does.

    Where a leaf of any of the trees is neither floating nor complex, the first tree's leaf is kept.

    >>> import afx
    >>> map_trained(lambda p: 2 * p, {"w": afx.ones(2), "count": afx.asarray(3)})
    {'w': Array([2., 2.], dtype=float32), 'count': Array(3, dtype=int64)}
    """

    def apply(*leaves: Any) -> object:
        return fn(*leaves) if all(map(_is_trained, leaves)) else leaves[0]

    return pytree.map(apply, tree, *rest)


def to_compute_dtype(x: Array) -> Array:
    """Return a leaf in the dtype that rules compute in: float16 becomes float32."""
    return x.astype(float32) if x.dtype == float16 else x


def _zeros(p: Any, real: bool) -> Array:
    aval = aval_of(p)
    dtype: DType = np.result_type(aval.dtype, float32)  # squares of float16 would not fit float16
    return zeros(aval.shape, real_dtype(dtype) if real else dtype)


def zeros_of(params: T, who: str, *, real: bool = False) -> T:
    """Return zeros of the shapes of all trained parameters, which are checked; float16 gives float32.

    Args:
        params: the parameters.
        who: whose state it is, for messages.
        real: real zeros for complex parameters as well.
    """
    leaves, treedef = pytree.flatten(params)
    check_params(leaves, treedef, who)
    trained = trained_leaves(leaves, treedef)
    return pytree.unflatten(treedef, [_zeros(p, real) if t else hidden() for p, t in zip(leaves, trained, strict=True)])


def as_real(scalar: Array, like: Array) -> Array:
    """Return a float64 scalar in the real dtype of a leaf, so that the leaf keeps its dtype."""
    return scalar.astype(real_dtype(like.dtype))


def square(x: Array) -> Array:
    """Return the square of the absolute value, real for complex x too."""
    return (x * x.conj()).real if x.dtype.kind == "c" else x * x


def _root_rule(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Array, Array]:
    z = sqrt(primals[0])
    return z, where(z > 0, 0.5 * tangents[0] / where(z > 0, z, 1.0), 0.0)


# The root of a mean square is |g| where one gradient was seen: where it is 0, so is what it divides, and the derivative
# of a whole step is finite. Through sqrt it would be inf · 0.
safe_sqrt: Callable[[Array], Array] = custom_jvp(sqrt, _root_rule)
