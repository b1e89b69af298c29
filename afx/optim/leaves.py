"""Leaves: the part of a model that is trained, and the arithmetic that optimizers share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

import numpy as np

from afx import pytree
from afx.core.array.array import Array
from afx.core.aval import aval_of
from afx.core.dtypes import DType, bool_, float16, float32, real_dtype
from afx.errors import DtypeError
from afx.ops.creation.creation import asarray, full, zeros
from afx.ops.elementwise.arithmetic import sqrt
from afx.ops.elementwise.where import where
from afx.pytree import TreeDef
from afx.transforms._arguments import check_integers
from afx.transforms.custom.custom_derivatives import custom_jvp

__all__ = ["map_trained"]

T = TypeVar("T")


def trained_leaves(leaves: Sequence[Any], treedef: TreeDef[Any]) -> list[bool]:
    """Tell of each leaf whether it is trained: a floating or complex one outside of `non_trainable` fields."""
    inexact = list(map(is_trained, leaves))
    marked = pytree.marked_leaves(treedef)
    return [i and not m for i, m in zip(inexact, marked, strict=True)] if marked else inexact


def is_trained(leaf: Any) -> bool:
    """Tell whether a leaf is floating or complex."""
    return (leaf.dtype if leaf.__class__ is Array else aval_of(leaf).dtype).kind in "fc"  # asked at every step


def hidden() -> Array:
    """Return what stands, inside of rules and states, for a leaf that is not trained."""
    return zeros((0,), bool_)


def _is_hidden(leaf: Any) -> bool:
    aval = aval_of(leaf)
    return aval.shape == (0,) and aval.dtype == bool_


def hide(tree: T, seen: Sequence[object]) -> T:
    """Return a tree in which the leaves that are not seen are hidden."""
    leaves, treedef = pytree.flatten(tree)
    return pytree.unflatten(treedef, [x if s is not False else hidden() for x, s in zip(leaves, seen, strict=True)])


def still(like: Any) -> Array:
    """Return the update of a parameter that stays exactly as it is: no number, of its shape."""
    return zeros(aval_of(like).shape, bool_)


def check_params(leaves: Sequence[Any], treedef: TreeDef[Any], who: str) -> None:
    """Raise where there are parameters, but none that is trained."""
    for x in leaves:
        aval_of(x, who)
    check_integers(leaves, treedef, who, lambda path: f"params{path}")
    if leaves and not any(trained_leaves(leaves, treedef)) and not any(map(_is_hidden, leaves)):
        raise DtypeError(
            f"{who}: parameters are floating or complex: got params{pytree.paths(treedef)[0]} = {aval_of(leaves[0])} "
            "and no leaf that is trained; convert one to a float, or take its mark afx.non_trainable() off"
        )


@overload
def map_trained(fn: Callable[[Any], object], tree: T, /) -> T: ...
@overload
def map_trained(fn: Callable[[Any, Any], object], tree: T, other: object, /) -> T: ...
@overload
def map_trained(fn: Callable[[Any, Any, Any], object], tree: T, other: object, third: object, /) -> T: ...
@overload
def map_trained(fn: Callable[..., object], tree: T, /, *rest: object) -> T: ...
def map_trained(fn: Callable[..., object], tree: T, /, *rest: object) -> T:
    """Apply a function to every trained leaf, or to the matching ones of several trees, as `afx.pytree.map` does.

    Where a leaf of any of the trees is neither floating nor complex, the first tree's leaf is kept.

    >>> import afx
    >>> map_trained(lambda p: 2 * p, {"w": afx.ones(2), "count": afx.asarray(3)})
    {'w': Array([2., 2.], dtype=float32), 'count': Array(3, dtype=int64)}
    """

    def apply(*leaves: Any) -> object:
        return fn(*leaves) if all(map(is_trained, leaves)) else leaves[0]

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


def filled(tree: T, value: float | Array) -> T:
    """Return a tree with one value in all trained leaves."""

    def constant(x: Any) -> Array:
        aval = aval_of(x)
        return full(aval.shape, value, aval.dtype)

    return map_trained(constant, tree)


def compute_params(params: T) -> T:
    """Return parameters as rules see them: in the dtype they compute in, what is not trained hidden."""
    leaves, treedef = pytree.flatten(params)
    trained = trained_leaves(leaves, treedef)
    seen = [to_compute_dtype(asarray(x)) if t else hidden() for x, t in zip(leaves, trained, strict=True)]
    return pytree.unflatten(treedef, seen)


def restored(tree: T, newest: T) -> T:
    """Return a tree with the newest values of leaves that are not trained."""
    leaves, treedef = pytree.flatten(newest)
    trained = trained_leaves(leaves, treedef)
    kept = [x if t else y for x, y, t in zip(pytree.leaves(tree), leaves, trained, strict=True)]
    return pytree.unflatten(treedef, kept)


def to_numbers(updates: T, params: T) -> T:
    """Return updates with a number for each trained parameter, -0.0 for those that stay still: x + -0.0 is x."""

    def number(p: Array, u: Array) -> Array:
        return u if is_trained(u) else full(p.shape, -0.0, p.dtype)

    leaves, treedef = pytree.flatten(params)
    pairs = zip(leaves, pytree.leaves(updates), strict=True)
    return pytree.unflatten(treedef, [number(p, u) if is_trained(p) else u for p, u in pairs])


def as_real(scalar: float | Array, like: Array) -> float | Array:
    """Return a scalar in the real dtype of a leaf, so that the leaf keeps its dtype; a number stays one."""
    return scalar.astype(real_dtype(like.dtype)) if isinstance(scalar, Array) else scalar


def average(old: T, new: T, decay: float | Array) -> T:
    """Return the moving average ``decay · old + (1 - decay) · new``, leaf by leaf."""
    return map_trained(lambda m, x: as_real(decay, m) * m + as_real(1 - decay, m) * x, old, new)


def average_square(old: T, new: T, decay: float | Array) -> T:
    """Return the moving average of squares of absolute values, leaf by leaf."""
    return map_trained(lambda n, x: as_real(decay, n) * n + as_real(1 - decay, n) * square(x), old, new)


def times(tree: T, factor: float | Array) -> T:
    """Return a tree multiplied by a real scalar."""
    return map_trained(lambda x: as_real(factor, x) * x, tree)


def square(x: Array) -> Array:
    """Return the square of the absolute value, real for complex x too."""
    return (x * x.conj()).real if x.dtype.kind == "c" else x * x


def _root_rule(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Array, Array]:
    z = sqrt(primals[0])
    return z, where(z > 0, 0.5 * tangents[0] / where(z > 0, z, 1.0), 0.0)


# The root of a mean square is |g| where one gradient was seen: where it is 0, so is what it divides, and the derivative
# of a whole step is finite. Through sqrt it would be inf · 0.
safe_sqrt: Callable[[Array], Array] = custom_jvp(sqrt, _root_rule)
