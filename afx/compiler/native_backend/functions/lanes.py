"""Lanes: values of LLVM IR with Python's operators, as many elements at once as the writer computes."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TypeAlias

from afx.compiler.native_backend.llvm.writer import Writer, compute_strictly
from afx.core.scalar_ops import COPYSIGN, SQRT

Term: TypeAlias = "Lanes | float"

BITS = {"double": "i64", "float": "i32"}
FLOATS = {kind: name for name, kind in BITS.items()}


class Lanes:
    """A value: ``kind`` is the LLVM type of one element. Operators compute without contraction.

    >>> w = Writer()
    >>> x = Lanes(w, "double", "%x")
    >>> print((x * x + 1.0).name, w.lines[-1].strip())
    %v2 %v2 = fadd double %v1, 0x3FF0000000000000
    """

    __slots__ = ("kind", "name", "w")

    def __init__(self, w: Writer, kind: str, name: str) -> None:
        self.w: Writer = w
        self.kind: str = kind
        self.name: str = name

    @property
    def type(self) -> str:
        """LLVM's type of all lanes."""
        return self.w.vector(self.kind)

    def constant(self, value: float) -> Lanes:
        """Return a number in all lanes."""
        return Lanes(self.w, self.kind, constant(self.w, self.kind, value))

    def _let(self, text: str, kind: str = "") -> Lanes:
        return Lanes(self.w, kind or self.kind, self.w.let(text))

    def _term(self, other: Term) -> Lanes:
        return other if isinstance(other, Lanes) else self.constant(other)

    def _binary(self, names: str, other: Term) -> Lanes:
        """Return what an instruction of floats or one of integers, the last of two names, makes of both."""
        name = names.split()[0 if self.kind in BITS else -1]
        return self._let(f"{name} {self.type} {self.name}, {self._term(other).name}")

    # -- arithmetic --
    def __add__(self, other: Term) -> Lanes:
        return self._binary("fadd add", other)

    def __sub__(self, other: Term) -> Lanes:
        return self._binary("fsub sub", other)

    def __mul__(self, other: Term) -> Lanes:
        return self._binary("fmul mul", other)

    def __truediv__(self, other: Term) -> Lanes:
        return self._binary("fdiv", other)

    def __neg__(self) -> Lanes:
        return self._let(f"fneg {self.type} {self.name}")

    def fma(self, factor: Term, term: Term) -> Lanes:
        """Return ``self * factor + term``, rounded once where the writer fuses."""
        return self.fused(factor, term) if self.w.fuses else self * factor + term

    def fused(self, factor: Term, term: Term) -> Lanes:
        """Return ``self * factor + term``, rounded once."""
        return self._call("fma", self._term(factor), self._term(term))

    def polynomial(self, coefficients: Sequence[float], square: Lanes | None = None) -> Lanes:
        """Return a polynomial, the constant first: of many terms even and odd ones apart, so that less waits."""
        if len(coefficients) < 6:
            return self._horner(coefficients)
        square = square or self * self
        return square._horner(coefficients[1::2]).fma(self, square._horner(coefficients[::2]))

    def _horner(self, coefficients: Sequence[float]) -> Lanes:
        total = self.constant(coefficients[-1])
        for c in reversed(coefficients[:-1]):
            total = total.fma(self, c)
        return total

    # -- bits --
    def __and__(self, other: Term) -> Lanes:
        return self._binary("and", other)

    def __or__(self, other: Term) -> Lanes:
        return self._binary("or", other)

    def __xor__(self, other: Term) -> Lanes:
        return self._binary("xor", other)

    def __lshift__(self, count: int) -> Lanes:
        return self._binary("shl", count)

    def __rshift__(self, count: int) -> Lanes:
        """Shift right; the sign fills."""
        return self._binary("ashr", count)

    def bits(self) -> Lanes:
        """Return a float's bits as an integer."""
        return self._cast("bitcast", BITS[self.kind])

    def as_float(self) -> Lanes:
        """Return the float that has these bits."""
        return self._cast("bitcast", FLOATS[self.kind])

    def to_float(self) -> Lanes:
        """Return an integer as a float of its size."""
        return self._cast("sitofp", FLOATS[self.kind])

    def widen(self) -> Lanes:
        """Return a float as a double."""
        return self if self.kind == "double" else self._cast("fpext", "double")

    def narrow(self, kind: str) -> Lanes:
        """Return a double that fits as another float."""
        return self if self.kind == kind else self._cast("fptrunc", kind)

    def extended(self) -> Lanes:
        """Return a natural number with 64 bits."""
        return self._cast("zext", "i64")

    def truncated(self, kind: str) -> Lanes:
        """Return the last bits of an integer."""
        return self._let(f"trunc {self.type} {self.name} to {self.w.vector(kind)}", kind)

    def rounded(self) -> Lanes:
        """Return a double as a float, which raises its flags where it stands: it may overflow."""
        return Lanes(self.w, "float", compute_strictly(self.w, "fptrunc", self.kind, [self.name], "float"))

    def times(self, factor: Lanes) -> Lanes:
        """Return a product that raises its flags where it stands."""
        return Lanes(self.w, self.kind, compute_strictly(self.w, "fmul", self.kind, [self.name, factor.name]))

    def _cast(self, name: str, kind: str) -> Lanes:
        return self._let(f"{name} {self.type} {self.name} to {self.w.vector(kind)}", kind)

    # -- comparison --
    def compare(self, predicate: str, other: Term) -> Lanes:
        """Compare: floats by ``oeq`` or ``uno``, which raise no flag for nan; integers by any predicate."""
        name = "fcmp" if self.kind in BITS else "icmp"
        return self._let(f"{name} {predicate} {self.type} {self.name}, {self._term(other).name}", "i1")

    def choose(self, yes: Lanes, no: Term) -> Lanes:
        """Select by a condition."""
        other = yes._term(no)
        return self._let(f"select {self.type} {self.name}, {yes.type} {yes.name}, {yes.type} {other.name}", yes.kind)

    def unary(self, name: str) -> Lanes:
        """Return an intrinsic function of one operand, such as ``fabs``."""
        return self._call(name)

    def sqrt(self) -> Lanes:
        """Return the square root."""
        return self._call(SQRT)

    def copysign(self, sign: Lanes) -> Lanes:
        """Return the value with another's sign."""
        return self._call(COPYSIGN, sign)

    def _call(self, name: str, *operands: Lanes) -> Lanes:
        return Lanes(self.w, self.kind, self.w.intrinsic(name, self.kind, [x.name for x in (self, *operands)]))


def bits_of(kind: str, value: float) -> int:
    """Return a float's bits as a signed integer.

    >>> hex(bits_of("double", 1.0)), bits_of("float", -0.0) == -(1 << 31)
    ('0x3ff0000000000000', True)
    """
    (bits,) = struct.unpack(
        *(("<q", struct.pack("<d", value)) if kind == "double" else ("<i", struct.pack("<f", value)))
    )
    return int(bits)


def constant(w: Writer, kind: str, value: float) -> str:
    """Return a number in all lanes; that of a float must be one, that of an integer is taken modulo its range."""
    half = 1 << (int(kind[1:]) - 1) if kind not in BITS else 0
    text = (
        str((int(value) + half) % (2 * half) - half)
        if half
        else f"0x{struct.unpack('>Q', struct.pack('>d', value))[0]:016X}"
    )
    return w.splat(kind, text)
