"""Keys: values from which random numbers come; the same key always gives the same numbers.

A key is a plain array uint32[2], so that it passes through `afx.jit`, `afx.vmap` and pytrees as any other. Use each key
once: for one draw, or to make other keys of it.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import aval_of, checked_shape
from afx.core.dtypes import int64, uint32, uint64
from afx.core.tracing.tracer import Tracer, bind
from afx.errors import ArgumentError
from afx.ops._basic import fit_p
from afx.ops.creation.creation import asarray
from afx.ops.random.bits import random_bits, random_fold
from afx.ops.random.philox import SPLIT
from afx.random._arguments import checked_key

__all__ = ["fold_in", "key", "split"]

MASK = 0xFFFFFFFF


def key(seed: int | ArrayLike) -> Array:
    """Return the key of a seed, uint32[2]: its lower and upper 32 bits.

    Args:
        seed: from 0 up to, not including, 2⁶⁴; as an array (0-d) it may be traced.

    Raises:
        ArgumentError: no integer, or one out of range.

    >>> key(0)
    Array([0, 0], dtype=uint32)
    """
    if isinstance(seed, Tracer):
        return _split_seed(seed)
    number = _number(seed, "key", 0)
    return asarray([number & MASK, number >> 32], uint32)


def _number(data: object, who: str, least: int) -> int:
    try:
        number = operator.index(data)  # type: ignore[arg-type]  # what is no integer raises
    except TypeError as error:
        raise ArgumentError(f"{who}: takes an integer: got {data!r}; give one below 2**64") from error
    if not least <= number < 1 << 64:
        raise ArgumentError(f"{who}: takes an integer from {least} to 2**64 - 1: got {number}; take it modulo 2**64")
    return number


def _split_seed(seed: Tracer) -> Array:
    aval = aval_of(seed)
    if aval.dtype.kind not in "iu" or aval.shape:
        raise ArgumentError(f"key: a seed is one integer: got {aval}; use vmap for several")
    wide = bind(fit_p, seed, dtype=uint64)
    return asarray([wide & MASK, wide >> 32], uint32)


def split(key: ArrayLike, num: int | Sequence[int] = 2) -> Array:
    """Return new keys made of one, uint32[num, 2], or uint32[*num, 2] for a shape of them.

    Do not draw from a key that has been split: draw from the new ones.

    >>> first, second = split(afx.random.key(0))
    """
    return random_bits(checked_key(key, "split"), (*checked_shape(num, "split"), 2), uint32, SPLIT)


def fold_in(key: ArrayLike, data: int | ArrayLike) -> Array:
    """Return the key that a key and an integer make, such as the number of a step or of a process.

    Args:
        key: uint32[2].
        data: an integer of up to 64 bits; 0-d.

    Raises:
        ArgumentError: no key, no integer, or an integer of more than 64 bits.

    >>> fold_in(afx.random.key(0), 7).shape
    (2,)
    """
    if isinstance(data, int):
        data = np.asarray(_number(data, "fold_in", -1 << 63), uint64 if data >= 0 else int64)
    aval = aval_of(data, "fold_in")
    if aval.dtype.kind not in "iu" or aval.shape:
        raise ArgumentError(f"fold_in: folds one integer into a key: got {aval}; use vmap for several")
    return random_fold(checked_key(key, "fold_in"), data)
