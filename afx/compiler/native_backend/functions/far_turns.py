"""Quarter turns: remainders of numbers from 2^20 on, by as many bits of 2/π as count (Payne & Hanek 1983)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from afx.compiler.native_backend.functions.elementary import SIZE
from afx.compiler.native_backend.functions.lanes import Lanes
from afx.compiler.native_backend.functions.pairs import Pair, add, pair, select

# 2/π in words of 32 bits, behind 64 zero bits
TWO_OVER_PI: Final = (
    0x0, 0x0, 0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB, 0xDEBBC561, 0xB7246E3A,
    0x424DD2E0, 0x06492EEA, 0x09D1921C, 0xFE1DEB1C, 0xB129A73E, 0xE88235F5, 0x2EBB4484, 0xE99C7026, 0xB45F7E41, 0x3991D639,
    0x835339F4, 0x9C845F8B, 0xBDF9283B, 0x1FF897FF, 0xDE05980F, 0xEF2F118B, 0x5A0A6D1F, 0x6D367ECF, 0x27CB09B7, 0x4F463F66,
    0x9E5FEA2D, 0x7527BAC7, 0xEBE5F17B, 0x3D0739F7, 0x8A5292EA, 0x6BFB5FB1, 0x1F8D5D08,
)  # fmt: skip
WINDOW_WORDS: Final = 6  # of 2/π, whose product with a double's 53 bits leaves 120 bits of the rest of a quarter turn


def turn_far(x: Lanes, quarter: tuple[float, float]) -> tuple[Lanes, Pair]:
    """Return the quarter turns, and the rest of them, of finite numbers beyond 2^20, of a quarter turn in two parts."""
    w = x.w
    words = ", ".join([f"i64 {word}" for word in TWO_OVER_PI])
    w.declare("two.over.pi", f"@two.over.pi = internal constant [{len(TWO_OVER_PI)} x i64] [{words}], align 8")
    bits = x.bits() & SIZE["double"]
    mantissa = (bits & ((1 << 52) - 1)) | (1 << 52)
    offset = (bits >> 52) - (1075 + 2 - 64)  # of the first bit of 2/π that is no multiple of four turns
    word, shift = offset >> 5, offset & 31
    table = [_word(word + k) for k in range(WINDOW_WORDS + 1)]
    window = [
        shifted_right((a << 32) | b, shift.constant(32) - shift) & 0xFFFFFFFF for a, b in itertools.pairwise(table)
    ]
    low, high = mantissa & 0xFFFFFFFF, mantissa >> 32
    limbs = _accumulate([x.bits().constant(0)] * WINDOW_WORDS, window, low)
    limbs = [*_accumulate(limbs[:-1], window[1:], high), limbs[-1]]
    top, below = (limbs[0] << 32) | limbs[1], (limbs[2] << 32) | limbs[3]
    quarters = shifted_right(top + (1 << 61), top.constant(62))
    signed = (top << 2) | shifted_right(below, top.constant(62))
    part = (signed & -2048).to_float()
    rest = (signed & 2047).to_float() + shifted_right(below << 2, top.constant(1)).to_float() * 2.0**-63
    r = add(part, rest).scaled(2.0**-64).times(pair(x, quarter))
    is_negative = x.bits().compare("slt", 0)
    return is_negative.choose(quarters.constant(0) - quarters, quarters), select(is_negative, -r, r)


def _word(number: Lanes) -> Lanes:
    w, at = number.w, number.w.let(f"getelementptr i64, ptr @two.over.pi, {number.type} {number.name}")
    if w.lanes == 1:
        return Lanes(w, "i64", w.let(f"load i64, ptr {at}, align 8"))
    pointers, mask, all_of = [w.vector(kind) for kind in ("ptr", "i1", "i64")]
    name = f"@llvm.masked.gather.v{w.lanes}i64.v{w.lanes}p0"
    w.declare(name, f"declare {all_of} {name}({pointers}, i32, {mask}, {all_of})")
    return Lanes(
        w, "i64", w.let(f"call {all_of} {name}({pointers} {at}, i32 8, {mask} splat (i1 true), {all_of} poison)")
    )


def shifted_right(x: Lanes, count: Lanes) -> Lanes:
    """Shift right; zeros fill."""
    return Lanes(x.w, x.kind, x.w.let(f"lshr {x.type} {x.name}, {count.name}"))


def _accumulate(limbs: Sequence[Lanes], window: Sequence[Lanes], factor: Lanes) -> list[Lanes]:
    """Return limbs of 32 bits, the highest first, with a product added; what goes beyond the highest is dropped."""
    carry, results = factor.constant(0), list[Lanes]()
    for limb, word in zip(reversed(limbs), reversed(window), strict=True):
        total = word * factor + limb + carry
        results.append(total & 0xFFFFFFFF)
        carry = shifted_right(total, total.constant(32))
    return results[::-1]
