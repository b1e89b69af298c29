"""Philox: the counter-based generator Philox4x32-10 (Salmon et al. 2011).

A key is two 32-bit words. Under one key the generator is a table of blocks of four 32-bit words, and any block can be
computed by itself, from its counter: block ``i`` of a draw has the counter ``(i mod 2³², i / 2³², round, purpose)``. All
is integer arithmetic: the same on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from afx.core.dtypes import DType, uint32, uint64

__all__ = [
    "BLOCKS",
    "BOOST",
    "DRAW",
    "FEW",
    "FOLD",
    "LOW",
    "SPLIT",
    "as_words",
    "block_words",
    "philox",
    "philox_block",
]

MASK = 0xFFFFFFFF
LOW, HALF = np.uint64(MASK), np.uint64(32)
FACTORS = np.array([[0xD2511F53], [0xCD9E8D57]], np.uint64)
STEPS = (0x9E3779B9, 0xBB67AE85)  # what each round adds to the two words of the key
ROUNDS = 10
SCHEDULE = np.arange(ROUNDS, dtype=np.uint64)[:, None, None] * np.array(STEPS, np.uint64)[:, None]
DRAW, SPLIT, FOLD, BOOST = 0, 1, 2, 3  # purposes: the last word of the counter

FEW = 6  # blocks that Python's integers compute sooner than NumPy's arrays
BLOCKS = 16384  # computed at a time: they stay in the cache


def philox(blocks: Any, keys: Any, round_: Any, purpose: int, scratch: Any) -> Any:
    """Return uint64[2, n], the words of n blocks: words 0 and 1 in the first row, 2 and 3 in the second.

    Args:
        blocks: uint64[n], their numbers.
        keys: uint64[2, 1], or [2, n] with a key for each block.
        round_: the third word of the counter.
        purpose: the fourth.
        scratch: uint64[3, 2, n or more], overwritten; the result is a part of it.
    """
    x, q, p = scratch[:, :, : len(blocks)]
    np.bitwise_and(blocks, LOW, out=x[0])
    x[1] = round_
    np.right_shift(blocks, HALF, out=q[0])
    q[1] = purpose
    for k in (keys + SCHEDULE) & LOW if keys.shape[1] == 1 else _schedule(keys):
        np.multiply(x, FACTORS, out=p)
        swapped = p[::-1]
        np.right_shift(swapped, HALF, out=x)
        np.bitwise_xor(x, q, out=x)  # the upper halves of q are what is left of a product, and are cut off below
        np.bitwise_xor(x, k, out=x)
        np.bitwise_and(x, LOW, out=x)
        p, q = q, swapped
    np.left_shift(q, HALF, out=q)
    return np.bitwise_or(q, x, out=q)


def _schedule(keys: Any) -> Iterator[Any]:
    """Yield the keys of the rounds; one array serves them all."""
    k = keys.copy()
    for _ in range(ROUNDS):
        yield k
        np.add(k, SCHEDULE[1], out=k)
        np.bitwise_and(k, LOW, out=k)


def philox_block(key: tuple[int, int], counter: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    """Return the four words of one block, by Python's integers."""
    x0, x1, x2, x3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        p0, p1 = x0 * 0xD2511F53, x2 * 0xCD9E8D57
        x0, x1, x2, x3 = p1 >> 32 ^ x1 ^ k0, p1 & MASK, p0 >> 32 ^ x3 ^ k1, p0 & MASK
        k0, k1 = k0 + STEPS[0] & MASK, k1 + STEPS[1] & MASK
    return x0, x1, x2, x3


def block_words(keys: Any, blocks: Any, round_: Any, purpose: int = DRAW) -> Any:
    """Return uint32[n, 4]: the words of one block each for keys uint32[n, 2], or [1, 2] for one key for all.

    Args:
        keys: the keys.
        blocks: uint64[n], the blocks' numbers.
        round_: the third word of the counter, one number or uint64[n].
        purpose: the fourth.
    """
    n = len(blocks)
    if n <= FEW and not np.ndim(round_):
        each = zip(keys.tolist() * (n if len(keys) == 1 else 1), blocks.tolist(), strict=True)
        rows = [philox_block(k, (b & MASK, b >> 32, round_, purpose)) for k, b in each]
        return np.array(rows, "<u4").reshape(n, 4)
    out = np.empty((n, 2), np.uint64)
    scratch = np.empty((3, 2, min(n, BLOCKS)), np.uint64)
    wide = np.ascontiguousarray(keys.T, np.uint64)
    for start in range(0, n, BLOCKS):
        part = slice(start, start + BLOCKS)
        k = wide if wide.shape[1] == 1 else wide[:, part]
        r = round_[part] if np.ndim(round_) else round_
        out[part] = philox(blocks[part], k, r, purpose, scratch).T
    return as_words(out, uint32).reshape(n, 4)


def as_words(pairs: Any, word: DType) -> Any:
    """Return uint64 words as they are, or as pairs of uint32 words, the lower first."""
    return pairs if word == uint64 else pairs.astype("<u8", copy=False).view("<u4")
