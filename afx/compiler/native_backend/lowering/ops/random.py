"""Native forms of random draws: words of Philox, and the distributions that are made of one word an element."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from afx.compiler.native_backend.lowering.convert import BlockBuilder, UnsupportedError
from afx.compiler.native_backend.lowering.memory import Location, copy_nest, dense, dtype_name
from afx.compiler.native_backend.lowering.ops.expand import Calls
from afx.compiler.native_backend.program import Ref, Words
from afx.compiler.operands import Buffer
from afx.compiler.random_tables import (
    CENTRAL_DOUBLE,
    CENTRAL_SINGLE,
    CENTRE,
    FAR,
    FAR_DOUBLE,
    FAR_SINGLE,
    FRACTIONS,
    NEAR,
    NEAR_DOUBLE,
    NEAR_SINGLE,
    OFFSET,
    Pair,
)
from afx.compiler.schedule import Call

__all__ = ["DRAWS"]

DRAW, FOLD = 0, 2  # purposes of words, as in afx.ops.random
QUANTILE: dict[str, tuple[Pair, Pair, Pair]] = {
    "f4": (CENTRAL_SINGLE, NEAR_SINGLE, FAR_SINGLE),
    "f8": (CENTRAL_DOUBLE, NEAR_DOUBLE, FAR_DOUBLE),
}


def _ref(x: Location) -> Ref:
    return Ref(x.owner, x.dtype, x.offset, x.strides)


def _words(b: BlockBuilder, call: Call, dtype: str, purpose: int) -> tuple[Location, Location]:
    """Return as many words as a call draws, and its result: rows for keys."""
    key = b.dense(call.operands[0])
    buffer = call.outputs[0]
    if key.dtype != "u4" or call.sliced or not math.prod(buffer.shape):
        raise UnsupportedError(f"{call.op} of a key of {key.dtype}")
    keys = math.prod(key.shape[:-1])
    n, size = math.prod(buffer.shape) // keys, int(dtype[1:])
    blocks = -(-n * size // 16)
    words = b.temporary((keys, blocks * 16 // size), dtype)
    b.fixed([Words(keys, blocks, purpose, _ref(key), _ref(words))], [key], [words])
    out = b.own(buffer.index, buffer.shape, b.dtype(buffer))
    rows = attrs.evolve(out, shape=(keys, n), strides=dense((keys, n), int(out.dtype[1:])))
    return attrs.evolve(words, shape=(keys, n)), rows


def _bits(b: BlockBuilder, call: Call) -> None:
    params: dict[str, Any] = dict(call.params)
    wide = call.outputs[0].dtype.itemsize == 8
    words, out = _words(b, call, "u8" if wide else "u4", params["purpose"])
    b.fixed([copy_nest(out, words)], [words], [out])


def _fold(b: BlockBuilder, call: Call) -> None:
    """Make keys of keys and integers: the first two words of the block with the integer's number."""
    key, data = b.dense(call.operands[0]), b.dense(call.operands[1])
    buffer = call.outputs[0]
    shape = buffer.shape[:-1]
    if key.dtype != "u4" or data.dtype[0] not in "iu" or call.sliced:
        raise UnsupportedError(f"{call.op} of {data.dtype}")
    every, numbers = b.temporary((*shape, 2), "u4"), b.temporary(shape, "u8")
    b.fixed([copy_nest(every, key), copy_nest(numbers, data)], [key, data], [every, numbers])
    words = b.temporary((*shape, 4), "u4")
    step = Words(math.prod(shape), 1, FOLD, _ref(every), _ref(words), _ref(numbers))
    b.fixed([step], [every, numbers], [words])
    out = b.own(buffer.index, buffer.shape, b.dtype(buffer))
    b.fixed([copy_nest(out, attrs.evolve(words, shape=out.shape))], [words], [out])


# -- distributions --
def _draw(b: BlockBuilder, call: Call) -> None:
    dtype = dtype_name(call.outputs[0].dtype)
    sample = SAMPLERS.get(dict(call.params)["distribution"])
    if sample is None or dtype not in QUANTILE:
        raise UnsupportedError(f"{call.op} of {dtype}, {dict(call.params)['distribution']}")
    words, out = _words(b, call, "u8" if dtype == "f8" else "u4", DRAW)
    calls = Calls(b, ())
    calls.copy(out, sample(calls, words, dtype))


def _upper(c: Calls, words: Location, dtype: str, bits: int) -> Buffer:
    """Return the upper bits of words as fractions."""
    shifted = c.ufunc("right_shift", c.at(words), c.number(8 * int(dtype[1:]) - bits, words.dtype))
    return c.ufunc("multiply", c.cast(shifted, dtype), c.number(2.0**-bits, dtype))


def _uniform(c: Calls, words: Location, dtype: str) -> Buffer:
    return _upper(c, words, dtype, FRACTIONS[np.dtype(dtype).char])


def _open(c: Calls, words: Location, dtype: str) -> Buffer:
    bits = FRACTIONS[np.dtype(dtype).char] - 1
    return c.ufunc("add", _upper(c, words, dtype, bits), c.number(2.0 ** (-bits - 1), dtype))


def _signed(c: Calls, words: Location) -> Buffer:
    return c.at(attrs.evolve(words, dtype=f"i{words.dtype[1:]}"))


def _centred(c: Calls, k: Buffer, dtype: str) -> Buffer:
    """Return ``(k + 1/2) / 2^w`` of signed words of w bits."""
    moved = c.ufunc("add", c.cast(k, dtype), c.number(0.5, dtype))
    return c.ufunc("multiply", moved, c.number(2.0 ** (-8 * k.dtype.itemsize), dtype))


def _tail(c: Calls, k: Buffer, dtype: str) -> Buffer:
    """Return the probability of the tail in which each word lies."""
    bits, kind = 8 * k.dtype.itemsize, dtype_name(k.dtype)
    t = c.ufunc("invert", c.ufunc("right_shift", k, c.number(bits - 1, kind)))
    t = c.ufunc("bitwise_and", c.ufunc("bitwise_xor", t, k), c.number(2 ** (bits - 1) - 1, kind))
    return _centred(c, t, dtype)


def _ratio(c: Calls, pair: Pair, r: Buffer, dtype: str) -> Buffer:
    def polynomial(coefficients: tuple[float, ...]) -> Buffer:
        first, *between, last = coefficients
        y = c.ufunc("multiply", c.number(first, dtype), r)
        for a in between:
            y = c.ufunc("multiply", c.ufunc("add", y, c.number(a, dtype)), r)
        return c.ufunc("add", y, c.number(last, dtype))

    return c.ufunc("divide", polynomial(pair[0]), polynomial(pair[1]), quiet=("divide", "invalid"))


def _normal(c: Calls, words: Location, dtype: str) -> Buffer:
    central, near, far = QUANTILE[dtype]
    k = _signed(c, words)
    q = _centred(c, k, dtype)
    r = c.ufunc("subtract", c.number(OFFSET, dtype), c.ufunc("multiply", q, q))
    middle = c.ufunc("multiply", q, _ratio(c, central, r, dtype))
    p = c.ufunc("log", c.cast(_tail(c, k, dtype), "f8"))
    root = c.cast(c.ufunc("sqrt", c.ufunc("negative", p)), dtype)
    outer = c.where(
        c.ufunc("greater", root, c.number(FAR, dtype)),
        _ratio(c, far, c.ufunc("subtract", root, c.number(FAR, dtype)), dtype),
        _ratio(c, near, c.ufunc("subtract", root, c.number(NEAR, dtype)), dtype),
    )
    outer = c.where(c.ufunc("less", k, c.number(0, dtype_name(k.dtype))), c.ufunc("negative", outer), outer)
    is_tail = c.ufunc("greater", c.ufunc("absolute", q), c.number(CENTRE, dtype))
    return c.where(is_tail, outer, middle)


def _exponential(c: Calls, words: Location, dtype: str) -> Buffer:
    k = _signed(c, words)
    p = _tail(c, k, dtype)
    upper, lower = c.ufunc("log", p), c.ufunc("log1p", c.ufunc("negative", p))
    return c.ufunc("negative", c.where(c.ufunc("less", k, c.number(0, dtype_name(k.dtype))), lower, upper))


SAMPLERS: dict[str, Callable[[Calls, Location, str], Buffer]] = {
    "uniform": _uniform,
    "open": _open,
    "normal": _normal,
    "exponential": _exponential,
}
DRAWS: dict[str, Callable[[BlockBuilder, Call], None]] = {
    "random_bits": _bits,
    "random_fold": _fold,
    "random_draw": _draw,
}
