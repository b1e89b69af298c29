"""Associative scan: running results of an associative operation in logarithmic depth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from afx import pytree
from afx.control._subgraphs import check_same
from afx.core.array.array import Array
from afx.core.aval import normalize_axis
from afx.errors import ArgumentError, ShapeError
from afx.ops.creation.creation import asarray
from afx.ops.manipulation.axes import moveaxis
from afx.ops.manipulation.join import concat, stack
from afx.ops.manipulation.pad import flip
from afx.ops.manipulation.shape import reshape
from afx.transforms._arguments import check_callable

__all__ = ["associative_scan"]

T = TypeVar("T")


def associative_scan(fn: Callable[[T, T], T], elems: T, *, reverse: bool = False, axis: int = 0) -> T:
    """Return the running results ``x0, fn(x0, x1), fn(fn(x0, x1), x2) …`` along an axis.

    The pairs are combined as a tree (Blelloch 1990): ``fn`` is called about 2·log₂(n) times, on whole arrays.

    Args:
        fn: an associative function of two trees of arrays, elementwise along the axis.
        elems: a tree of arrays of the same length along the axis.
        reverse: runs from the last element to the first.
        axis: the axis to run along.

    Raises:
        ShapeError, TreeError: the lengths differ, or ``fn`` returns another structure, shape or dtype than it got.

    >>> import afx
    >>> associative_scan(afx.add, afx.asarray([1.0, 2.0, 3.0]))
    Array([1., 3., 6.], dtype=float32)
    """
    check_callable(fn, "associative_scan")
    flat, tree = pytree.flatten(elems)
    leaves = [asarray(x) for x in flat]
    if not leaves:
        raise ArgumentError("associative_scan: nothing to scan: got a tree without arrays; give at least one array")
    fronts = [moveaxis(x, normalize_axis(axis, x.ndim, "associative_scan"), 0) for x in leaves]
    if len({x.shape[0] for x in fronts}) > 1:
        got = ", ".join(str(x.aval) for x in leaves)
        raise ShapeError(f"associative_scan: lengths along the axis differ: got {got}; make them equal")

    def combine(xs: list[Array], ys: list[Array]) -> list[Array]:
        if reverse:
            xs, ys = ys, xs
        found, found_tree = pytree.flatten(fn(pytree.unflatten(tree, xs), pytree.unflatten(tree, ys)))
        check_same(found, found_tree, xs, tree, "associative_scan", "the result")
        return [asarray(z) for z in found]

    rows = [flip(x, axis=0) for x in fronts] if reverse else fronts
    found = _scan_pairs(combine, rows)
    back = [flip(x, axis=0) for x in found] if reverse else found
    return pytree.unflatten(tree, [moveaxis(x, 0, axis) for x in back])


def _scan_pairs(combine: Callable[[list[Array], list[Array]], list[Array]], xs: list[Array]) -> list[Array]:
    """Return the running results: of neighbours combined in pairs first, then of those in between."""
    n = xs[0].shape[0]
    if n < 2:
        return xs
    pairs = combine([x[: n - n % 2 : 2] for x in xs], [x[1::2] for x in xs])
    odd = _scan_pairs(combine, pairs)
    if n % 2:
        between = combine(odd, [x[2::2] for x in xs])
    else:
        between = combine([x[:-1] for x in odd], [x[2::2] for x in xs]) if n > 2 else []
    even = [concat([x[:1], b]) for x, b in zip(xs, between, strict=True)] if between else [x[:1] for x in xs]
    return [_woven(e, o) for e, o in zip(even, odd, strict=True)]


def _woven(even: Array, odd: Array) -> Array:
    """Return the rows of two arrays in turn; the first may have one more."""
    n = odd.shape[0]
    both: Any = reshape(stack([even[:n], odd], axis=1), (2 * n, *odd.shape[1:]))
    return concat([both, even[n:]]) if even.shape[0] > n else both
