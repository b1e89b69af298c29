"""Philox: the counter-based generator Philox4x32-10 (Salmon et al. 2011).

A key is two 32-bit words. Under one key the generator is a table of blocks of four 32-bit words, and any block can be
computed by itself, from its counter: block ``i`` of a draw has the counter ``(i mod 2³², i / 2³², round, purpose)``. All
is integer arithmetic: the same on every machine.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from afx.compiler.random_tables import PHILOX_FACTORS, PHILOX_ROUNDS, PHILOX_STEPS
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
    "philox_few",
    "philox_first",
]

MASK = 0xFFFFFFFF
LOW, HALF = np.uint64(MASK), np.uint64(32)
FACTORS = np.array(PHILOX_FACTORS, np.uint64)[:, None]
SCHEDULE = np.arange(PHILOX_ROUNDS, dtype=np.uint64)[:, None, None] * np.array(PHILOX_STEPS, np.uint64)[:, None]
DRAW, SPLIT, FOLD, BOOST = 0, 1, 2, 3  # purposes: the last word of the counter

FEW = 80  # blocks that Python's integers compute sooner than NumPy's arrays
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
    for _ in range(PHILOX_ROUNDS):
        yield k
        np.add(k, SCHEDULE[1], out=k)
        np.bitwise_and(k, LOW, out=k)


def philox_few(blocks: Any, keys: Any, round_: int, purpose: int) -> Any:
    """Return uint32[n, 4], the words of n blocks, by one of Python's integers for each word of all blocks.

    A block has 128 bits of it. A product of two words takes 64, so that no block runs into the next.

    Args:
        blocks: uint64[n], their numbers.
        keys: uint32[1, 2], or [n, 2] with a key for each block.
        round_: the third word of the counter.
        purpose: the fourth.
    """
    n = len(blocks)
    lanes = _lanes(n)
    counters = np.empty((n, 2), "<u8")
    counters[:, 0], counters[:, 1] = blocks, round_ | purpose << 32
    x, mask = int.from_bytes(counters.tobytes(), "little"), lanes.mask
    if len(keys) == 1:
        k0, k1 = [int(k) * lanes.ones for k in keys[0]]
    else:
        wide = np.zeros((n, 4), "<u4")
        wide[:, :2] = keys
        both = int.from_bytes(wide.tobytes(), "little")
        k0, k1 = both & mask, both >> 32 & mask
    return _rounds((x & mask, x >> 32 & mask, x >> 64 & mask, x >> 96 & mask), k0, k1, PHILOX_ROUNDS, lanes).reshape(
        n, 4
    )


def philox_first(n: int, key: Any, purpose: int) -> Any:
    """Return uint32[4 n], the words of the first n blocks of a key in round 0, as `philox_few` computes them.

    Args:
        n: how many, 2³² at most.
        key: uint32[2].
        purpose: the fourth word of the counter.
    """
    lanes = _lanes(n)
    first, second = key.tolist()
    k0, k1 = first * lanes.ones, second * lanes.ones
    # of the first round, all but the key and the purpose is the same in every draw
    state = (k0, 0, lanes.upper ^ k1 ^ purpose * lanes.ones, lanes.lower)
    return _rounds(state, k0 + lanes.steps[0], k1 + lanes.steps[1], PHILOX_ROUNDS - 1, lanes)


def _rounds(state: tuple[int, ...], k0: int, k1: int, count: int, lanes: Lanes) -> Any:
    """Return uint32[4 n], the words after so many rounds from integers that hold one word of every block each.

    Words of the key grow into the space above them, which is cut off with that of the products.
    """
    (x0, x1, x2, x3), mask, (step0, step1), (factor0, factor1) = state, lanes.mask, lanes.steps, PHILOX_FACTORS
    for _ in range(count):
        p0, p1 = x0 * factor0, x2 * factor1
        x0, x1, x2, x3 = (p1 >> 32 ^ x1 ^ k0) & mask, p1 & mask, (p0 >> 32 ^ x3 ^ k1) & mask, p0 & mask
        k0, k1 = k0 + step0, k1 + step1
    words = (x0 | x1 << 32 | x2 << 64 | x3 << 96).to_bytes(16 * lanes.n, "little")
    return np.frombuffer(bytearray(words), "<u4")


class Lanes(NamedTuple):
    """What integers that hold one word of each of n blocks are made with.

    Attributes:
        n: the number of blocks.
        ones: 1 in each block.
        mask: the bits of a word in each block.
        steps: what each round adds to the words of the key.
        upper: the upper halves of the products of the first round of blocks 0, 1, 2 ….
        lower: their lower halves.
    """

    n: int
    ones: int
    mask: int
    steps: tuple[int, int]
    upper: int
    lower: int


@functools.lru_cache(maxsize=FEW)
def _lanes(n: int) -> Lanes:
    ones = sum([1 << 128 * i for i in range(n)])
    mask, products = MASK * ones, sum([i * PHILOX_FACTORS[0] << 128 * i for i in range(n)])
    return Lanes(
        n, ones, mask, (PHILOX_STEPS[0] * ones, PHILOX_STEPS[1] * ones), products >> 32 & mask, products & mask
    )


def block_words(keys: Any, blocks: Any, round_: Any, purpose: int = DRAW) -> Any:
    """Return uint32[n, 4]: the words of one block each for keys uint32[n, 2], or [1, 2] for one key for all.

    Args:
        keys: the keys.
        blocks: uint64[n], the blocks' numbers.
        round_: the third word of the counter, one number or uint64[n].
        purpose: the fourth.
    """
    n = len(blocks)
    if 0 < n <= FEW and not np.ndim(round_):
        return philox_few(blocks, keys, int(round_), purpose)
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
