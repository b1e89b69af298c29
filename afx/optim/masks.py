"""Masks and labels: prefix trees, or functions of path and leaf, that choose parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from afx import pytree
from afx.core.array.array import Array
from afx.core.aval import aval_of
from afx.core.dtypes import bool_
from afx.errors import ArgumentError, DtypeError, ShapeError
from afx.optim.leaves import is_trained
from afx.pytree import Leaf, Tree

__all__ = ["Labels", "Mask", "label_leaves", "mask_leaves", "takes_one"]

Mask: TypeAlias = "Tree | Callable[[str, Leaf], bool]"
Labels: TypeAlias = "Tree | Callable[[str, Leaf], str]"


def mask_leaves(mask: Mask, params: Tree, who: str) -> list[Any]:
    """Return what a mask says of each leaf: True, False, or a boolean array that broadcasts to it.

    Raises:
        TreeError, ShapeError, DtypeError: the mask does not fit the parameters; the message names the path.
    """
    leaves, treedef = pytree.flatten(params)
    found = [_as_bool(m) for m in _spread(mask, params, who, _is_mask)]
    for k, (m, leaf) in enumerate(zip(found, leaves, strict=True)):
        if not isinstance(m, bool) and is_trained(leaf):
            _check_mask(m, leaf, pytree.paths(treedef)[k], who)
    return found


def label_leaves(labels: Labels, params: Tree, who: str) -> list[str]:
    """Return the label of each leaf.

    Raises:
        TreeError: the labels do not fit the parameters; the message names the path.
        ArgumentError: a label is no string.
    """
    found = _spread(labels, params, who, lambda x: isinstance(x, str))
    for k, label in enumerate(found):
        if not isinstance(label, str):
            path = pytree.paths(pytree.structure(params))[k]
            raise ArgumentError(f"{who}: a label is a string: got {label!r} for params{path}; return a name")
    return found


def _spread(prefix: Any, params: Tree, who: str, is_value: Callable[[Any], bool]) -> list[Any]:
    """Return what a prefix tree, or a function, says of each leaf."""
    if callable(prefix):
        if takes_one(prefix):
            return _spread(prefix(params), params, who, is_value)
        return [prefix(path, leaf) for path, leaf in pytree.flatten_with_path(params)[0]]
    return pytree.broadcast_prefix(prefix, params, is_leaf=is_value, who=who)


def takes_one(fn: Callable[..., Any]) -> bool:
    """Tell whether a function needs one argument alone: the parameters, where others take path and leaf."""
    try:
        found = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return True
    positional = [p for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)]
    return len([p for p in positional if p.default is p.empty]) == 1


def _is_mask(x: Any) -> bool:
    return isinstance(x, (bool, np.bool_, np.ndarray, Array))


def _as_bool(x: Any) -> Any:
    return bool(x) if isinstance(x, np.bool_) else x  # pyright: ignore[reportUnknownArgumentType]  # a NumPy bool of unknown kind


def _check_mask(mask: Any, param: Any, path: str, who: str) -> None:
    """Raise where a mask is not of booleans or does not broadcast to its parameter."""
    aval, wanted = aval_of(mask, who), aval_of(param)
    if aval.dtype != bool_:
        raise DtypeError(f"{who}: a mask is boolean: got mask{path} = {aval}; compare, as in mask != 0")
    lengths = zip(reversed(aval.shape), reversed(wanted.shape), strict=False)
    if aval.ndim > wanted.ndim or any(n not in (1, length) for n, length in lengths):
        raise ShapeError(
            f"{who}: a mask broadcasts to its parameter: got mask{path} = {aval} for {wanted}; change its shape"
        )
