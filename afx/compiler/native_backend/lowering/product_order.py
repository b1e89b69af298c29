"""Orders of small products: which additions BLAS rounds, in which order, found out from its results.

Terms M and -M cancel where they meet: how many of the other terms, all 1, survive tells how many are added later, which
shows the tree of sums (Xie & al. 2025, FPRev: numerically revealing the order of floating-point accumulation). Random
numbers show which additions are fused with a multiplication, and whether all elements of a product agree.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

import attrs
import numpy as np
from numpy.lib.stride_tricks import as_strided

from afx.compiler.native_backend.sums import Arithmetic, Orders, Sum, SumTree, Wide
from afx.core.aval import Shape

__all__ = ["find_orders", "products_digest"]

Batch: TypeAlias = Any  # matrices behind each other
Counts: TypeAlias = "dict[tuple[int, int], Any]"

SAMPLES = 24
ZEROS: tuple[Literal["", "end", "start"], ...] = ("", "end", "start")
KINDS: tuple[Literal["add", "left", "right"], ...] = ("add", "right", "left")
WIDE: tuple[Wide, ...] = ("", "products", "terms")
LARGE = {"f4": 2.0**60, "f8": 2.0**100}  # beyond what float64 holds beside a few ones
SPLITTER = 134217729.0  # 2²⁷ + 1


@attrs.frozen
class _Case:
    """A product whose order is looked for, as NumPy's loops get it: core sizes and strides."""

    dtype: str
    sizes: Shape
    strides: Shape

    @property
    def lengths(self) -> tuple[int, int, int]:
        """Rows, terms, columns."""
        return (1, self.sizes[0], 1) if len(self.sizes) == 1 else (self.sizes[0], self.sizes[1], self.sizes[2])

    def multiply(self, x: Batch, y: Batch) -> Batch:
        """Return the products of a batch as NumPy computes them."""
        m, k, n = self.lengths
        if len(self.sizes) == 1:
            xs, ys = [_laid_out(z.reshape(len(z), k), (k,), (s,)) for z, s in zip((x, y), self.strides, strict=True)]
            return np.vecdot(xs, ys)[:, None, None]
        x, y = _laid_out(x, (m, k), self.strides[:2]), _laid_out(y, (k, n), self.strides[2:4])
        out = _laid_out(np.zeros((len(x), m, n), self.dtype), (m, n), self.strides[4:])
        np.matmul(x, y, out=out)
        return out


def _laid_out(x: Batch, shape: Shape, strides: Shape) -> Batch:
    """Return a copy of a batch with these strides of its last axes, aligned in every way: on that no order may depend."""
    size = x.dtype.itemsize
    span = sum([(n - 1) * s for n, s in zip(shape, strides, strict=True)]) // size + 1
    span = (span | 1) * size
    memory = np.zeros(len(x) * span // size, x.dtype)
    found = as_strided(memory, (len(x), *shape), (span, *strides))
    found[...] = x
    return found


@functools.lru_cache(maxsize=512)
def find_orders(dtype: str, sizes: Shape, strides: Shape) -> Orders | None:
    """Return how NumPy adds up each element of a product, None where that is not found.

    Args:
        dtype: of operands and result, ``f4`` or ``f8``.
        sizes: core sizes as a loop of ``np.matmul`` gets them, or of ``np.vecdot``.
        strides: the same of the core dimensions, of vecdot for its operands alone; positive where a length is not 1.
    """
    case = _Case(dtype, sizes, strides)
    m, _, n = case.lengths
    kinds, numbers = list[Sum](), np.full((m, n), -1)
    with np.errstate(all="ignore"):
        counts = _counts(case)
        while (numbers < 0).any():
            at = tuple(np.argwhere(numbers < 0)[0])
            found = next((s for s in _candidates(case, counts, at) if _agrees(case, s)[at]), None)
            if found is None:
                return None
            numbers[(numbers < 0) & _agrees(case, found)] = len(kinds)
            kinds.append(found)
    return Orders(tuple(kinds), tuple(numbers.ravel().tolist()))


def _candidates(case: _Case, counts: Counts, at: Any) -> Iterator[Sum]:
    """Yield orders of an element."""
    shape = _grown(list(range(case.lengths[1])), {pair: int(c[at]) for pair, c in counts.items()})
    if shape is None:
        return
    for wide in WIDE if case.dtype == "f4" else WIDE[:1]:
        tree = _with_fusions(case, shape, wide, at)
        if tree is not None:
            yield from [Sum(tree, zero, wide) for zero in ZEROS if not (wide and zero == "start")]


def _numbers(case: _Case, count: int) -> tuple[Batch, Batch]:
    m, k, n = case.lengths
    return _irrational((count, m, k), case.dtype, 1.7), _irrational((count, k, n), case.dtype, 2.3)


def _irrational(shape: Shape, dtype: str, step: float) -> Any:
    """Return numbers of both signs with many digits."""
    return np.sin(step * np.arange(1.0, math.prod(shape) + 1.0)).reshape(shape).astype(dtype)


def _agrees(case: _Case, order: Sum) -> Any:
    """Tell of each element whether an order gives NumPy's bits, also of zeros of both signs and of what underflows."""
    x, y = _numbers(case, 2 * SAMPLES)
    x[-4], x[-3, :, 1:], x[-2, :, ::2] = -0.0, -0.0, 0.0
    y[-4:-2] = abs(y[-4:-2])
    x[-3, :, 0], y[-3, 0, :] = -np.finfo(case.dtype).tiny, np.finfo(case.dtype).tiny
    found, made = _evaluate(order, x, y), case.multiply(x, y)
    return ((found == made) & (np.signbit(found) == np.signbit(made))).all(0)


# -- the tree --
def _counts(case: _Case) -> Counts:
    """Return of each pair of terms, for each element, how many terms are added up where the two meet; -1 where none is told."""
    m, k, n = case.lengths
    pairs = [(i, j) for i in range(k) for j in range(i + 1, k)]
    x, y = np.ones((len(pairs), m, k), case.dtype), np.ones((len(pairs), k, n), case.dtype)
    for row, (i, j) in enumerate(pairs):
        x[row, :, i], x[row, :, j] = LARGE[case.dtype], -LARGE[case.dtype]
    left = case.multiply(x, y) if pairs else x
    return dict(zip(pairs, np.where(left == np.rint(left), k - left, -1), strict=True))


def _grown(terms: Sequence[int], counts: dict[tuple[int, int], int]) -> SumTree | None:
    """Return the tree over terms, whose additions are not fused yet; each pair has the number of terms where the two meet."""
    first, *rest = terms
    tree: SumTree = first
    size = 1
    for count in sorted({counts[first, j] for j in rest}):
        group = [j for j in rest if counts[first, j] == count]
        size += len(group)
        other = _grown(group, counts)
        if size != count or other is None:
            return None
        tree = ("add", tree, other)
    return tree


# -- fused additions --
def _with_fusions(case: _Case, tree: SumTree, wide: Wide, at: Any) -> SumTree | None:
    """Return a tree with the fusions of each node, found from the leaves up: all other terms are 0."""
    if isinstance(tree, int):
        return tree
    _, first, second = tree
    left, right = [_with_fusions(case, part, wide, at) for part in (first, second)]
    if left is None or right is None:
        return None
    x, y = _numbers(case, SAMPLES)
    others = [k for k in range(case.lengths[1]) if k not in {*_leaves(tree)}]
    y[:, others] = 0
    made = case.multiply(x, y)[:, *at] + 0.0
    for kind in KINDS:
        if isinstance({"add": 0, "left": left, "right": right}[kind], tuple):
            continue  # only products of terms are fused
        if np.array_equal(_evaluate(Sum((kind, left, right), "end", wide), x, y)[:, *at], made):
            return kind, left, right
    return None


def _leaves(tree: SumTree) -> Iterator[int]:
    if isinstance(tree, int):
        yield tree
    else:
        yield from _leaves(tree[1])
        yield from _leaves(tree[2])


# -- arithmetic --
def _evaluate(order: Sum, x: Batch, y: Batch) -> Batch:
    shape = (*x.shape[:2], y.shape[2])

    def term(k: int) -> tuple[Batch, Batch]:
        return np.broadcast_to(x[:, :, k, None], shape), np.broadcast_to(y[:, k, None, :], shape)

    ops = Arithmetic(term, np.multiply, np.add, _fused, _as("f8"), _as("f4"), np.zeros_like)
    return order.evaluate(ops)


def _as(dtype: str) -> Callable[[Batch], Batch]:
    return lambda x: x.astype(dtype)


def _fused(x: Batch, y: Batch, z: Batch) -> Batch:
    """Return x y + z, rounded once but for ties that no random number makes."""
    if x.dtype == np.float32:
        return (x.astype("f8") * y.astype("f8") + z).astype("f4")
    product = x * y
    (x_high, x_low), (y_high, y_low) = _halves(x), _halves(y)
    rest = ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low
    total = product + z
    there = total - product
    exact = total + (((product - (total - there)) + (z - there)) + rest)
    alone = z == 0
    exact[alone] = product[alone]
    none = alone & ((x == 0) | (y == 0))
    exact[none] = total[none]
    return exact


def _halves(x: Batch) -> tuple[Batch, Batch]:
    shifted = x * SPLITTER
    high = shifted - (shifted - x)
    return high, x - high


@functools.cache
def products_digest() -> str:
    """Return what tells apart processes whose BLAS adds up small products in different orders."""
    found = hashlib.sha256()
    for dtype in ("f4", "f8"):
        for k in (2, 3, 4, 5, 7, 8, 13, 16):
            x, y = _irrational((2, k, k), dtype, 1.3)
            for z in (x @ y, x.T @ y, x @ y.T, x @ y[0], x[0] @ y, x[:2] @ y, x[0] @ y[0], x[:, 0] @ y[:, 0]):
                found.update(z.tobytes())
    return found.hexdigest()
