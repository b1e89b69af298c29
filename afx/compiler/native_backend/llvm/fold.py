"""Folds: reductions of the second tier as LLVM IR, in 32 lanes, whatever the width of the processor's vectors.

Element j of a row belongs to lane j modulo 32. Lanes of long sums are joined every 1024 elements to totals that keep what
rounding takes from them (Knuth's TwoSum); in the end halves of the lanes are combined until one is left.
"""

from __future__ import annotations

from afx.compiler.native_backend.elements import Number, Ref
from afx.compiler.native_backend.functions.exponential import INFINITY, SIZE
from afx.compiler.native_backend.functions.lanes import Lanes
from afx.compiler.native_backend.llvm.op import element_type, emit, memory_type, number, read, shuffled, written
from afx.compiler.native_backend.llvm.strip import SINGLE_LANES
from afx.compiler.native_backend.llvm.writer import Writer
from afx.core.scalar_ops import scalar_op

__all__ = ["FOLD_BLOCK", "FOLD_LANES", "Accumulator", "accumulate", "fill"]

FOLD_LANES = 32
FOLD_BLOCK = 1024  # elements of a row after which the lanes of a long sum are joined


class Accumulator:
    """Lanes of one reduction, in memory that LLVM keeps in registers where their numbers are known.

    Args:
        w: where it is emitted.
        ufunc: what combines two elements.
        dtype: of the elements.
        count: how many elements are reduced.
    """

    def __init__(self, w: Writer, ufunc: str, dtype: str, count: int) -> None:
        self.w = w
        self.ufunc = ufunc
        self.dtype = dtype
        self.is_long: bool = ufunc == "add" and count > FOLD_BLOCK
        locations = [w.local(f"[{FOLD_LANES} x {memory_type(dtype)}]", 64) for _ in range(3 if self.is_long else 1)]
        self._lanes = locations[0]
        self._totals, self._rests = locations[1:] or ("", "")

    def begin(self) -> None:
        """Set all lanes to the identity."""
        for location in (self._lanes, self._totals, self._rests):
            if location:
                self._store(Lanes(self.w, self._kind, self._identity()), location)

    def add(self, value: str, lane: str | int) -> None:
        """Combine neighbouring elements, as many as the writer computes at once, with the lanes from this one on."""
        accumulate(self.w, self.ufunc, self.dtype, value, self.w.shifted(self._lanes, self._bytes(lane)))

    def join(self) -> None:
        """Add the lanes of a long sum to its totals."""
        if not self.is_long:
            return
        part, total, rest = [self._load(location) for location in (self._lanes, self._totals, self._rests)]
        count, self.w.lanes = self.w.lanes, FOLD_LANES
        both = total + part
        is_finite = (both.bits() & SIZE[self._kind]).compare("ult", INFINITY[self._kind])
        total, part, whole = [
            is_finite.choose(x, 0.0) for x in (total, part, both)
        ]  # differences of infinities raise flags
        there = whole - total
        rest = rest + ((total - (whole - there)) + (part - there))
        self.w.lanes = count
        for value, location in ((both, self._totals), (rest, self._rests)):
            self._store(value, location)
        self._store(Lanes(self.w, self._kind, self._identity()), self._lanes)

    def total(self) -> str:
        """Return the one value that all lanes come to."""
        w = self.w
        found = self._load(self._totals or self._lanes)
        count, w.lanes = w.lanes, FOLD_LANES
        if self.is_long:
            both = found + self._load(self._rests)
            found = both.compare("uno", both).choose(found, both)  # of infinities the rest is nan
        value, width = found.name, FOLD_LANES
        while width > 1:
            count_before, half = w.lanes, width // 2
            w.lanes = SINGLE_LANES if half == 2 and self.dtype == "f4" else half  # LLVM fills shorter ones up
            rows = [[k % half + first for k in range(w.lanes)] for first in (0, half)]
            parts = [shuffled(w, self._kind, value, count_before, row) for row in rows]
            if half == 1:
                parts = [w.let(f"extractelement <1 x {self._kind}> {p}, i64 0") for p in parts]
            value, width = emit(w, self.ufunc, parts, [self.dtype, self.dtype], self.dtype), half
        w.lanes = count
        return value

    @property
    def _kind(self) -> str:
        return element_type(self.dtype)

    def _bytes(self, lane: str | int) -> str | int:
        size = int(self.dtype[1:])
        return lane * size if isinstance(lane, int) else self.w.let(f"mul nuw nsw i64 {lane}, {size}")

    def _identity(self) -> str:
        count, self.w.lanes = self.w.lanes, FOLD_LANES
        found = number(self.w, lane_start(self.ufunc, self.dtype))
        self.w.lanes = count
        return found

    def _load(self, location: str) -> Lanes:
        return Lanes(self.w, self._kind, self.w.let(f"load <{FOLD_LANES} x {self._kind}>, ptr {location}, align 64"))

    def _store(self, value: Lanes, location: str) -> None:
        self.w.line(f"store <{FOLD_LANES} x {self._kind}> {value.name}, ptr {location}, align 64")


def lane_start(ufunc: str, dtype: str) -> Number:
    """Return what lanes begin with."""
    value = scalar_op(ufunc).lane
    assert value is not None
    return Number(value, dtype)


def accumulate(w: Writer, ufunc: str, dtype: str, value: str, pointer: str) -> None:
    """Combine elements with those at a pointer."""
    before = read(w, dtype, pointer)
    written(w, dtype, emit(w, ufunc, [before, value], [dtype, dtype], dtype), pointer)


def fill(w: Writer, ufunc: str, ref: Ref, pointer: str) -> None:
    """Store the identity."""
    w.line(f"store {memory_type(ref.dtype)} {number(w, lane_start(ufunc, ref.dtype))}, ptr {pointer}")
