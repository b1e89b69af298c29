"""`einsum`: sums of products named by letters, done as matrix products of pairs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from afx.core.array import Array, ArrayLike
from afx.core.aval import Aval, aval_of
from afx.core.functions import public
from afx.errors import ArgumentError, ShapeError
from afx.ops.arithmetic import multiply
from afx.ops.creation import asarray
from afx.ops.matrix import matmul
from afx.ops.reductions import sum
from afx.ops.selection import where
from afx.ops.shaping import broadcast_to, permute_dims, reshape

__all__ = ["einsum"]

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@public
def einsum(subscripts: str, /, *operands: ArrayLike, optimize: bool = True) -> Array:
    """Return the sum of products that ``subscripts`` names: a letter for each axis, summed where it is not in the result.

    Products of more than two operands are taken pair by pair in the order that `numpy.einsum_path` finds; each pair is
    one (batched) matrix product.

    Args:
        subscripts: ``"ij,jk->ik"``; without an arrow the result has the letters that occur once, in alphabetical order.
            ``...`` stands for further axes, which broadcast. A letter that an operand repeats takes its diagonal.
        *operands: one per term.
        optimize: whether to look for a good order of pairs; else from left to right.

    Raises:
        ArgumentError: the subscripts are malformed or do not fit the operands.
        ShapeError: a letter stands for two lengths.

    >>> einsum("ij,j->i", asarray([[1.0, 2.0]]), asarray([3.0, 4.0]))
    Array([11.], dtype=float32)
    """
    avals = [aval_of(x, "einsum") for x in operands]
    terms, result = _parsed(subscripts, avals)
    lengths = _lengths(terms, avals, subscripts)
    if any(n not in lengths for n in result) or len(set(result)) != len(result):
        raise ArgumentError(f"einsum: the result has letters of no operand, or twice: got {subscripts!r}")
    work = [_diagonal(x, t) for x, t in zip(operands, terms, strict=True)]
    work = [_stretched(x, t, lengths) for x, t in work]
    for places in _path(terms, avals, result, optimize):
        first, second = (work[k] for k in places)
        work = [w for k, w in enumerate(work) if k not in places]
        kept = set(result).union(*[t for _, t in work])
        work.append(_pair(first, second, kept, lengths))
    x, term = _summed(*work[0], set(result))
    return permute_dims(x, [term.index(n) for n in result])


def _parsed(subscripts: str, avals: list[Aval]) -> tuple[list[str], str]:
    """Return the letters of each operand and of the result; an ellipsis becomes unused letters."""
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(avals):
        raise ArgumentError(
            f"einsum: {len(terms)} terms need as many operands: got {subscripts!r} and {len(avals)} operands"
        )
    free = [n for n in LETTERS if n not in text]
    extra = [a.ndim - len(t.replace("...", "")) if "..." in t else 0 for t, a in zip(terms, avals, strict=True)]
    widest = max(extra, default=0)
    dots = "".join(free[:widest])
    full = [t.replace("...", dots[widest - e :]) for t, e in zip(terms, extra, strict=True)]
    if not arrow:
        names = "".join(full).replace(".", "")
        right = "..." + "".join(sorted({n for n in names if names.count(n) == 1 and n not in dots}))
    result = right.replace("...", dots)
    for t, a in zip(full, avals, strict=True):
        if len(t) != a.ndim or not all(n in LETTERS for n in t + result):
            raise ArgumentError(f"einsum: a term has one letter for each axis: got {subscripts!r} with {a} for {t!r}")
    return full, result


def _lengths(terms: list[str], avals: list[Aval], subscripts: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for term, a in zip(terms, avals, strict=True):
        for name, n in zip(term, a.shape, strict=True):
            if found.get(name, 1) != 1 and n not in (1, found[name]):
                got = ", ".join(map(str, avals))
                raise ShapeError(
                    f"einsum: {name!r} stands for lengths {found[name]} and {n}: got {subscripts!r} with {got}"
                )
            found[name] = n if found.get(name, 1) == 1 else found[name]
    return found


def _diagonal(x: ArrayLike, term: str) -> tuple[Array, str]:
    """Return an operand without repeated letters: of those axes only the diagonal is taken."""
    y = asarray(x)
    for name in sorted(set(term)):
        while term.count(name) > 1:
            i = term.index(name)
            j = term.index(name, i + 1)
            on = np.eye(y.shape[i], y.shape[j], dtype=bool)
            mask = on.reshape([y.shape[a] if a in (i, j) else 1 for a in range(y.ndim)])
            y, term = sum(where(mask, y, np.zeros((), y.dtype)), axis=j), term[:j] + term[j + 1 :]
    return y, term


def _stretched(x: Array, term: str, lengths: dict[str, int]) -> tuple[Array, str]:
    """Return an operand whose axes of length 1 have the length that their letter has elsewhere."""
    shape = tuple([lengths[n] for n in term])
    return (x if x.shape == shape else broadcast_to(x, shape)), term


def _path(terms: list[str], avals: list[Aval], result: str, optimize: bool) -> list[tuple[int, int]]:
    if len(terms) == 1:
        return []
    if not optimize or len(terms) == 2:
        return [(0, 1)] + [(0, k) for k in range(len(terms) - 2, 0, -1)]
    dummies = [np.broadcast_to(np.float32(0), a.shape) for a in avals]
    found: list[Any] = np.einsum_path(",".join(terms) + "->" + result, *dummies, optimize="greedy")[0]
    if any(len(step) != 2 for step in found[1:]):
        return _path(terms, avals, result, optimize=False)
    return [(step[0], step[1]) for step in found[1:]]


def _summed(x: Array, term: str, kept: set[str]) -> tuple[Array, str]:
    """Return an operand summed over the letters that nothing else needs."""
    gone = [a for a, n in enumerate(term) if n not in kept]
    return (sum(x, axis=gone) if gone else x), "".join([n for n in term if n in kept])


def _pair(
    first: tuple[Array, str], second: tuple[Array, str], kept: set[str], lengths: dict[str, int]
) -> tuple[Array, str]:
    """Return the product of two operands, summed over the letters that are not kept."""
    x, s = _summed(*first, kept | set(second[1]))
    y, t = _summed(*second, kept | set(s))
    batch = [n for n in s if n in t and n in kept]
    inner = [n for n in s if n in t and n not in kept]
    rows, columns = [n for n in s if n not in t], [n for n in t if n not in s]
    size = {
        k: math.prod([lengths[n] for n in names])
        for k, names in (("b", batch), ("i", inner), ("r", rows), ("c", columns))
    }
    u = reshape(permute_dims(x, [s.index(n) for n in (*batch, *rows, *inner)]), (size["b"], size["r"], size["i"]))
    v = reshape(permute_dims(y, [t.index(n) for n in (*batch, *inner, *columns)]), (size["b"], size["i"], size["c"]))
    if not inner:
        z = multiply(u, reshape(v, (size["b"], 1, size["c"])))
    elif batch:
        z = matmul(u, v)
    else:
        z = matmul(reshape(u, u.shape[1:]), reshape(v, v.shape[1:]))
    term = "".join([*batch, *rows, *columns])
    return reshape(z, tuple([lengths[n] for n in term])), term
