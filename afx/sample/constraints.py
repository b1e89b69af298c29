"""Constraints: trees of bijectors over the parameters of a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from afx import pytree
from afx.core.array.array import Array
from afx.ops.creation.creation import asarray
from afx.sample.bijectors import Bijector

__all__ = ["Constraints", "bijectors_of", "constrain", "log_det", "unconstrain"]

T = TypeVar("T")

Constraints: TypeAlias = Any
"""A bijector, None, or a tree of them in the structure of the parameters; one stands for all leaves below it."""


def constrain(constraints: Constraints, position: T) -> T:
    """Return the parameters of an unconstrained position.

    Args:
        constraints: bijectors, or None where a parameter has no constraint, in the structure of the parameters from the
            top; a dict may leave out what has none.
        position: a tree of unconstrained arrays.

    Raises:
        TreeError: the constraints have another structure.

    >>> from afx import sample
    >>> constrain({"scale": sample.Positive()}, {"mean": np.zeros(1), "scale": np.zeros(1)})
    {'mean': Array([0.], dtype=float64), 'scale': Array([1.], dtype=float64)}
    """
    return _apply(constraints, position, lambda bijector, x: bijector.forward(x))


def unconstrain(constraints: Constraints, params: T) -> T:
    """Return the unconstrained position of parameters, which keep the constraints.

    >>> from afx import sample
    >>> unconstrain(sample.Interval(0.0, 2.0), np.ones(1))
    Array([0.], dtype=float64)
    """
    return _apply(constraints, params, lambda bijector, y: bijector.inverse(y))


def log_det(constraints: Constraints, position: Any) -> Array:
    """Return the logarithm of the determinant of `constrain`, by which a density of parameters becomes one of positions.

    >>> from afx import sample
    >>> log_det(sample.Positive(), np.array([1.0, 2.0]))
    Array(3., dtype=float64)
    """
    found = asarray(0.0)
    for bijector, x in zip(bijectors_of(constraints, position), pytree.leaves(position), strict=True):
        if bijector is not None:
            found = bijector.log_det(asarray(x)) + found
    return found


def _apply(constraints: Constraints, tree: T, fn: Callable[[Bijector, Array], Array]) -> T:
    """Return a tree with a function of each bijector and its leaf applied."""
    leaves, treedef = pytree.flatten(tree)
    pairs = zip(bijectors_of(constraints, tree), leaves, strict=True)
    return pytree.unflatten(treedef, [asarray(x) if b is None else fn(b, asarray(x)) for b, x in pairs])


def bijectors_of(constraints: Constraints, tree: Any) -> list[Bijector | None]:
    """Return the bijector of each leaf of a tree."""
    if type(constraints) is type(tree) is dict:
        constraints = {**dict.fromkeys(tree), **constraints}
    return pytree.broadcast_prefix(constraints, tree, is_leaf=_is_bijector, who="constraints")


def _is_bijector(x: object) -> bool:
    return x is None or isinstance(x, Bijector)
