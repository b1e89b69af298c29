"""Einsum: sums of products named by letters, computed as matrix products of pairs.

What is to be done follows from the subscripts and shapes alone, and is kept: einsum in a loop costs little more than its
products.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from types import EllipsisType
from typing import Any, NamedTuple

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval, Shape
from afx.core.dtypes import promote
from afx.core.registry import register_function
from afx.errors import ArgumentError, ShapeError
from afx.ops.creation.promotion import promote_operands
from afx.ops.elementwise.arithmetic import multiply
from afx.ops.linalg.products import matmul
from afx.ops.manipulation.diagonals import diagonal
from afx.ops.manipulation.shape import astype, permute_dims, reshape
from afx.ops.reductions.sums import sum

__all__ = ["einsum"]

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@register_function
def einsum(
    subscripts: str | ArrayLike, /, *operands: ArrayLike | Sequence[int | EllipsisType], optimize: bool = True
) -> Array:
    """Return the sum of products that ``subscripts`` names: a letter for each axis, summed where it is not in the result.

    Products of more than two operands are taken pair by pair in the order that `numpy.einsum_path` finds; each pair is
    one (batched) matrix product.

    Args:
        subscripts: ``"ij,jk->ik"``; without an arrow the result has the letters that occur once, in alphabetical order.
            ``...`` stands for further axes, which broadcast. A letter that an operand repeats takes its diagonal.
            NumPy's other form names axes by numbers: ``einsum(x, [0, 1], y, [1, 2], [0, 2])``.
        *operands: one per term.
        optimize: whether to look for a good order of pairs; else from left to right.

    Raises:
        ArgumentError: the subscripts are malformed or do not fit the operands.
        ShapeError: a letter stands for two lengths.

    >>> einsum("ij,j->i", np.array([[1.0, 2.0]]), np.array([3.0, 4.0]))
    Array([11.], dtype=float64)
    """
    if not isinstance(subscripts, str):
        subscripts, operands = _join_subscripts((subscripts, *operands))
    arrays = _in_one_dtype(promote_operands(*operands))
    plan = _plan(subscripts, tuple([x.aval for x in arrays]), bool(optimize))
    work = [_single(x, p) for x, p in zip(arrays, plan.singles, strict=True)]
    for pair in plan.pairs:
        y, x = work.pop(pair.second), work.pop(pair.first)
        u, v = _laid(x, pair.x), _laid(y, pair.y)
        z = multiply(u, v) if pair.elementwise else matmul(u, v)
        work.append(z if z.shape == pair.shape else reshape(z, pair.shape))
    return _laid(work[0], plan.last)


def _in_one_dtype(arrays: list[Array]) -> list[Array]:
    """Return arrays in the result's dtype: sums over axes of one operand would leave its own."""
    avals = [x.aval for x in arrays]
    if len({a.dtype for a in avals}) < 2 or all([a.weak for a in avals]):  # noqa: C419  # a list is quicker
        return arrays
    dtype = promote(tuple([a.dtype for a in avals]), tuple([a.weak for a in avals]))
    return [astype(x, dtype) for x in arrays]


def _join_subscripts(given: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """Return subscripts as a text from operands that are each followed by the list of its axes' numbers."""
    operands, lists = given[: len(given) // 2 * 2 : 2], [*given[1::2], *given[len(given) // 2 * 2 :]]
    try:
        terms = ["".join(["..." if n is Ellipsis else LETTERS[n] for n in axes]) for axes in lists]
    except (TypeError, IndexError):
        raise ArgumentError(
            f"einsum: takes a text such as 'ij,jk->ik', or a list of axes behind each operand: got {len(given)} "
            "arguments of another form; write the subscripts as a text"
        ) from None
    result = [f"->{terms.pop()}"] if len(given) % 2 else []
    return ",".join(terms) + "".join(result), operands


class _Single(NamedTuple):
    """What is done to an operand by itself: pairs of axes whose diagonal is taken, and its shape afterwards."""

    diagonals: tuple[tuple[int, int], ...]
    shape: Shape


class _Layout(NamedTuple):
    """Axes to sum over, the order of those that remain (None: as it is), and the shape."""

    summed: tuple[int, ...]
    order: tuple[int, ...] | None
    shape: Shape


class _Pair(NamedTuple):
    """A product of two of the values at hand: both are taken out, the result is put at the end."""

    first: int
    second: int
    x: _Layout
    y: _Layout
    elementwise: bool
    shape: Shape


class _Plan(NamedTuple):
    singles: tuple[_Single, ...]
    pairs: tuple[_Pair, ...]
    last: _Layout


def _single(y: Array, p: _Single) -> Array:
    for i, j in p.diagonals:
        y = diagonal(y, 0, i, j)
    return y if y.shape == p.shape else reshape(y, p.shape)


def _laid(x: Array, layout: _Layout) -> Array:
    if layout.summed:
        x = astype(sum(x, axis=layout.summed), x.dtype)  # einsum keeps small integers, and booleans
    if layout.order is not None:
        x = permute_dims(x, layout.order)
    return x if x.shape == layout.shape else reshape(x, layout.shape)


# -- making the plan --
@functools.lru_cache(maxsize=1024)
def _plan(subscripts: str, avals: tuple[Aval, ...], optimize: bool) -> _Plan:
    terms, result = _parse_subscripts(subscripts, avals)
    lengths = _lengths(terms, avals, subscripts)
    if any(n not in lengths for n in result) or len(set(result)) != len(result):
        raise ArgumentError(f"einsum: the result has letters of no operand, or twice: got {subscripts!r}; mend them")
    path = _path(terms, lengths, result, optimize)
    singles, work = zip(*[_planned_single(t, a, lengths) for t, a in zip(terms, avals, strict=True)], strict=True)
    names, pairs = list(work), list[_Pair]()
    for i, j in path:
        t, s = names.pop(j), names.pop(i)
        pair, term = _planned_pair((i, j), s, t, set(result).union(*names), lengths)
        pairs.append(pair)
        names.append(term)
    return _Plan(singles, tuple(pairs), _layout(names[0], result, lengths))


def _parse_subscripts(subscripts: str, avals: Sequence[Aval]) -> tuple[list[str], str]:
    """Return the letters of each operand and of the result; an ellipsis becomes unused letters."""
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(avals):
        raise ArgumentError(
            f"einsum: {len(terms)} terms need as many operands: got {subscripts!r} and {len(avals)} operands; "
            "separate terms by commas"
        )
    free = [n for n in LETTERS if n not in text]
    extra = [a.ndim - len(t.replace("...", "")) if "..." in t else 0 for t, a in zip(terms, avals, strict=True)]
    widest = max(extra, default=0)
    dots = "".join(free[:widest])
    full = [
        t.replace("...", dots[widest - e :]) if t.count("...") == 1 else t for t, e in zip(terms, extra, strict=True)
    ]
    if not arrow:
        names = "".join(full).replace(".", "")
        right = "..." + "".join(sorted({n for n in names if names.count(n) == 1 and n not in dots}))
    if dots and "..." not in right:
        raise ArgumentError(
            f"einsum: the result lacks the axes of '...': got {subscripts!r}; write ... behind the arrow"
        )
    result = right.replace("...", dots) if right.count("...") <= 1 else right
    for t, a in zip(full, avals, strict=True):
        if len(t) != a.ndim or not all(n in LETTERS for n in t + result):
            raise ArgumentError(
                f"einsum: a term is not one letter for each axis: got {subscripts!r} with {a}; mend it, or use ..."
            )
    return full, result


def _lengths(terms: list[str], avals: Sequence[Aval], subscripts: str) -> dict[str, int]:
    """Return the length of each letter; operands may have 1 where others have more, but not along a diagonal."""
    found: dict[str, int] = {}
    for term, a in zip(terms, avals, strict=True):
        within: dict[str, int] = {}
        for name, n in zip(term, a.shape, strict=True):
            known = within.get(name, found.get(name, 1) if n != 1 else n)
            if known != n and (name in within or known != 1):
                got = ", ".join(map(str, avals))
                raise ShapeError(
                    f"einsum: {name!r} stands for lengths {known} and {n}: got {subscripts!r} with {got}; reshape one"
                )
            within[name] = n
        found.update({name: n for name, n in within.items() if n != 1 or name not in found})
    return found


def _path(terms: list[str], lengths: dict[str, int], result: str, optimize: bool) -> list[tuple[int, int]]:
    """Return the pairs to multiply, by their positions among the values that remain; results are put at the end."""
    in_order = [(0, 1)] * (len(terms) > 1) + [(0, k) for k in range(len(terms) - 2, 0, -1)]
    if not optimize or len(terms) < 3:
        return in_order
    dummies = [np.broadcast_to(np.float32(0), [lengths[n] for n in t]) for t in terms]
    found: list[Any] = np.einsum_path(",".join(terms) + "->" + result, *dummies, optimize="greedy")[0]
    steps = [tuple(sorted(step)) for step in found[1:]]
    return [(step[0], step[1]) for step in steps] if all(len(step) == 2 for step in steps) else in_order


def _planned_single(term: str, a: Aval, lengths: dict[str, int]) -> tuple[_Single, str]:
    """Return what makes each letter occur once, without axes of length 1 that stand for more."""
    diagonals: list[tuple[int, int]] = []
    length = dict(zip(term, a.shape, strict=True))
    for name in sorted(set(term)):
        while term.count(name) > 1:
            i, j = (k for k, n in enumerate(term) if n == name and term[:k].count(name) < 2)
            diagonals.append((i, j))
            term = "".join([n for k, n in enumerate(term) if k not in (i, j)]) + name
    term = "".join([n for n in term if length[n] == lengths[n]])
    return _Single(tuple(diagonals), _shape(term, lengths)), term


def _shape(names: Iterable[str], lengths: dict[str, int]) -> Shape:
    return tuple([lengths[n] for n in names])


def _layout(term: str, want: Sequence[str], lengths: dict[str, int], shape: Shape | None = None) -> _Layout:
    """Return what turns axes named by a term into those wanted, in their order."""
    summed = tuple([a for a, n in enumerate(term) if n not in want])
    rest = [n for n in term if n in want]
    order = tuple([rest.index(n) for n in want])
    return _Layout(
        summed, None if order == tuple(range(len(order))) else order, _shape(want, lengths) if shape is None else shape
    )


def _planned_pair(
    places: tuple[int, int], s: str, t: str, kept: set[str], lengths: dict[str, int]
) -> tuple[_Pair, str]:
    """Return the product of two operands, summed over the letters that are not kept, and the letters of the result."""
    both = [n for n in s if n in t]
    batch, inner = [n for n in both if n in kept], [n for n in both if n not in kept]
    rows, columns = [n for n in s if n not in t and n in kept], [n for n in t if n not in s and n in kept]
    term = "".join([*batch, *rows, *columns])
    b, i, r, c = (_shape(names, lengths) for names in (batch, inner, rows, columns))
    if not inner:
        x = _layout(s, [*batch, *rows], lengths, b + r + (1,) * len(c))
        y = _layout(t, [*batch, *columns], lengths, b + (1,) * len(r) + c)
    else:  # without a batch, an operand that has only inner letters is a vector
        front, sums = ((math.prod(b),) if batch else ()), (math.prod(i),)
        x = _layout(s, [*batch, *rows, *inner], lengths, front + ((math.prod(r),) if rows or batch else ()) + sums)
        y = _layout(
            t, [*batch, *inner, *columns], lengths, front + sums + ((math.prod(c),) if columns or batch else ())
        )
    return _Pair(*places, x, y, not inner, _shape(term, lengths)), term
