"""Ravelling: the trained leaves of a tree as one vector, and back."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

from afx.errors import ShapeError
from afx.pytree.flatten import flatten, unflatten
from afx.pytree.register import register
from afx.pytree.treedef import TreeDef, marked_leaves

__all__ = ["Unravel", "ravel"]

T = TypeVar("T")


Layout: TypeAlias = tuple[TreeDef[T], tuple[tuple[int, ...] | None, ...], tuple[Any, ...]]


class Unravel(Generic[T]):
    """The way back from a vector to a tree; made by `ravel`.

    Attributes:
        layout: the structure of the tree, and the shapes and dtypes of its leaves, None of those that are not trained.
        others: the leaves that are not trained, None for the others.
    """

    __slots__ = ("layout", "others")  # by hand: a plain import does without attrs

    def __init__(self, layout: Layout[T], others: tuple[Any, ...]) -> None:
        self.layout: Layout[T] = layout
        self.others: tuple[Any, ...] = others

    def __reduce__(self) -> tuple[type[Unravel[T]], tuple[Layout[T], tuple[Any, ...]]]:
        return (Unravel, (self.layout, self.others))

    def __call__(self, vector: Any) -> T:
        """Return the tree of a vector's elements; what is not trained is as it was.

        Raises:
            ShapeError: the vector has another length.
        """
        treedef, shapes, dtypes = self.layout
        sizes = [0 if shape is None else math.prod(shape) for shape in shapes]
        vector = _as_array(vector)
        if vector.shape != (sum(sizes),):
            raise ShapeError(
                f"unravel: the vector has {sum(sizes)} elements: got shape {vector.shape}; keep its length"
            )
        found: list[Any] = []
        start = 0
        for shape, dtype, other, size in zip(shapes, dtypes, self.others, sizes, strict=True):
            if shape is None:
                found.append(other)
                continue
            part = vector[start : start + size].reshape(shape)
            part = part.real if part.dtype.kind == "c" and dtype.kind != "c" else part
            found.append(part.astype(dtype))
            start += size
        return unflatten(treedef, found)


register(Unravel, lambda back: (back.others, back.layout), lambda layout, others: Unravel(layout, tuple(others)))


def ravel(tree: T) -> tuple[Any, Unravel[T]]:
    """Return the trained leaves of a tree as one vector, and the function that makes a tree of such a vector.

    Leaves that are not trained (integers, booleans, keys, fields marked with `non_trainable`) are not in the vector, and
    come back as they are. The vector has the common dtype of the leaves; each comes back in its own.

    Args:
        tree: the tree.

    Returns:
        ``(vector, unravel)``: an array float[n], and a function that pickles.

    >>> import afx
    >>> vector, unravel = afx.pytree.ravel({"w": afx.ones((2, 2)), "b": afx.zeros(1), "n": afx.asarray(3)})
    >>> vector
    Array([0., 1., 1., 1., 1.], dtype=float32)
    >>> unravel(2 * vector)["w"]
    Array([[2., 2.],
           [2., 2.]], dtype=float32)
    """
    leaves, treedef = flatten(tree)
    marked = marked_leaves(treedef) or [False] * len(leaves)
    arrays = [_as_array(x) if isinstance(x, (float, complex)) or _is_inexact(x) else x for x in leaves]
    trained = [_is_inexact(x) and not m for x, m in zip(arrays, marked, strict=True)]
    parts = [x.reshape(-1) for x, t in zip(arrays, trained, strict=True) if t]
    vector = _as_array(np.concatenate(parts) if parts else np.zeros(0))
    shapes = tuple([tuple(x.shape) if t else None for x, t in zip(arrays, trained, strict=True)])
    dtypes = tuple([x.dtype if t else None for x, t in zip(arrays, trained, strict=True)])
    others = tuple([None if t else x for x, t in zip(leaves, trained, strict=True)])
    return vector, Unravel((treedef, shapes, dtypes), others)


def _is_inexact(x: Any) -> bool:
    return getattr(getattr(x, "dtype", None), "kind", "") in ("f", "c")


_CONVERTERS: list[Callable[[Any], Any]] = []


def use_converter(asarray: Callable[[Any], Any]) -> None:
    """Set the function that makes arrays, which stands in a layer above this one."""
    _CONVERTERS[:] = [asarray]


def _as_array(x: Any) -> Any:
    return _CONVERTERS[0](x) if _CONVERTERS else np.asarray(x)
