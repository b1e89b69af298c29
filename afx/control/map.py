"""Map: a function of one element along the first axis of arrays, one element or one block after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from afx import pytree
from afx.control.scan import scan
from afx.core import Array, integer
from afx.errors import ArgumentError
from afx.ops import asarray, concat, reshape
from afx.transforms._arguments import check_callable
from afx.transforms.vmap import vmap

X = TypeVar("X")
Y = TypeVar("Y")


def map(fn: Callable[[X], Y], xs: X, *, block: int | None = None) -> Y:
    """Return ``fn`` of each element of ``xs`` along its first axis, the results stacked, in turn: `vmap` with less memory.

    Args:
        fn: a function of one element, a pytree as ``xs`` is.
        xs: a pytree of arrays of the same first length.
        block: takes so many elements at once by `vmap`; one at a time without it.

    Raises:
        ArgumentError: the block is not 1 or more.
        ShapeError: first lengths differ.

    >>> map(lambda x: x * x, afx.asarray([1.0, 2.0, 3.0]), block=2)
    Array([1., 4., 9.], dtype=float32)
    """
    check_callable(fn, "map")

    if block is not None and integer(block, "map", "block") < 1:
        raise ArgumentError(f"map: block is a number of elements: got {block}; give 1 or more")
    arrays = pytree.map(asarray, xs)
    lengths = {x.shape[:1] for x in pytree.leaves(arrays)}
    if block is None or len(lengths) != 1 or lengths == {(0,)}:
        return scan(lambda _, x: (None, fn(x)), None, xs)[1]
    many = vmap(fn)
    count = pytree.leaves(arrays)[0].shape[0] // block
    blocks = pytree.map(lambda x: reshape(x[: count * block], (count, block, *x.shape[1:])), arrays)
    rest = pytree.map(lambda x: x[count * block :], arrays)
    if not count:
        return many(rest)
    results = pytree.map(lambda y: reshape(y, (-1, *y.shape[2:])), map(many, blocks))
    return results if (count * block,) in lengths else pytree.map(_join_blocks, results, many(rest))


def _join_blocks(x: Any, y: Any) -> Array:
    return concat([x, y], axis=0)
