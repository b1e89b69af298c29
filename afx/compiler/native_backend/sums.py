"""Sums of products in a known order: a tree of additions, of which some are fused with the multiplication of a term."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Literal, TypeAlias, TypeVar

import attrs

__all__ = ["Arithmetic", "Orders", "Sum", "SumTree", "Wide", "chain"]

T = TypeVar("T")

SumTree: TypeAlias = "int | tuple[Literal['add', 'left', 'right'], SumTree, SumTree]"
"""A term by its number, or an addition of two trees; ``left`` or ``right`` is a term whose product is not rounded."""

Wide: TypeAlias = Literal["", "products", "terms"]


@attrs.frozen
class Arithmetic(Generic[T]):
    """What a sum is computed with.

    Attributes:
        term: the two factors of a term.
        multiply: rounds a product.
        add: rounds a sum.
        fuse: of x, y and z rounds ``x * y + z`` once.
        widen: gives float64 of float32.
        narrow: gives float32 of float64.
        zero: gives 0 of the type of a value.
    """

    term: Callable[[int], tuple[T, T]]
    multiply: Callable[[T, T], T]
    add: Callable[[T, T], T]
    fuse: Callable[[T, T, T], T]
    widen: Callable[[T], T]
    narrow: Callable[[T], T]
    zero: Callable[[T], T]


@attrs.frozen
class Sum:
    """How the terms of an element of a product are added up.

    Attributes:
        tree: the order.
        zero: where a 0 is added, which makes -0 to 0: to the first product, or to the sum.
        wide: of float32: products rounded to float32, or terms, that are added up in float64.

    >>> chain(3)
    Sum(tree=('right', ('right', 0, 1), 2), zero='', wide='')
    """

    tree: SumTree
    zero: Literal["", "start", "end"] = ""
    wide: Wide = ""

    def evaluate(self, ops: Arithmetic[T]) -> T:
        """Return the sum."""
        found = self._tree(ops, self.tree)
        if self.wide:
            found = ops.narrow(found)
        return ops.add(found, ops.zero(found)) if self.zero == "end" else found

    def _tree(self, ops: Arithmetic[T], tree: SumTree) -> T:
        if isinstance(tree, int):
            return self._product(ops, tree)
        kind, left, right = tree
        if kind == "add":
            return ops.add(self._tree(ops, left), self._tree(ops, right))
        one, rest = (left, right) if kind == "left" else (right, left)
        assert isinstance(one, int)
        return ops.fuse(*self._factors(ops, one), self._tree(ops, rest))

    def _factors(self, ops: Arithmetic[T], k: int) -> tuple[T, T]:
        x, y = ops.term(k)
        return (ops.widen(x), ops.widen(y)) if self.wide == "terms" else (x, y)

    def _product(self, ops: Arithmetic[T], k: int) -> T:
        x, y = self._factors(ops, k)
        if self.zero == "start":
            return ops.fuse(x, y, ops.zero(x))
        found = ops.multiply(x, y)
        return ops.widen(found) if self.wide == "products" else found


@attrs.frozen
class Orders:
    """How the elements of a product are added up.

    Attributes:
        kinds: the different orders.
        numbers: of each element, row by row, the number of its order.
    """

    kinds: tuple[Sum, ...]
    numbers: tuple[int, ...]


def chain(terms: int) -> Sum:
    """Return the order of one term after the other, each fused."""
    tree: SumTree = 0
    for k in range(1, terms):
        tree = ("right", tree, k)
    return Sum(tree)
