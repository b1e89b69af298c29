"""Flags as LLVM IR: those of floating-point errors, read, cleared and put back; and whether denormals are flushed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from afx.compiler.native_backend.elements import UfuncLoop
from afx.compiler.native_backend.llvm.writer import Writer
from afx.core.scalar_ops import scalar_op

__all__ = ["Flags", "Layout"]


@attrs.frozen
class Layout:
    """Where CPython and NumPy keep what the builtin function reads, and the processor its floating-point flags.

    Where all flags are 0, none is read.

    Attributes:
        head: bytes of the head of a Python object, at whose end its type stands.
        x86: whether flags are read from MXCSR; otherwise by the functions of C.
        divide: flag of a division by zero.
        over: flag of an overflow.
        invalid: flag of an invalid operation.
        products: tells apart the orders in which BLAS adds up small products; empty where no code depends on them.
    """

    head: int
    x86: bool
    divide: int
    over: int
    invalid: int
    products: str = ""


FLUSH_X86, FLUSH_ARM = 0x8040, 1 << 24  # the bits of MXCSR, and of FPCR, that flush denormal operands and results


class Flags:
    """Emitter of what reads and clears the flags of floating-point errors."""

    def __init__(self, w: Writer, layout: Layout) -> None:
        self.w = w
        self.layout = layout
        self.all: int = layout.divide | layout.over | layout.invalid

    def read(self) -> str:
        """Return the flags raised so far."""
        w = self.w
        if not self.all:
            return "0"
        if self.layout.x86:
            return w.let(f"or i32 {self._read_sse()}, {self._read_x87()}")
        w.declare("fetestexcept", "declare i32 @fetestexcept(i32)")
        return w.let(f"call i32 @fetestexcept(i32 {self.all})")

    def _read_sse(self) -> str:
        w = self.w
        w.declare("stmxcsr", "declare void @llvm.x86.sse.stmxcsr(ptr)")
        location = w.local("i32", 4)
        w.line(f"call void @llvm.x86.sse.stmxcsr(ptr {location})")
        return w.let(f"load volatile i32, ptr {location}")

    def _read_x87(self) -> str:
        """Return the flags of the old unit, in which the C library raises overflow for NumPy's loops."""
        w = self.w
        state = w.let('call i16 asm sideeffect "fnstsw $0", "={ax},~{dirflag},~{fpsr},~{flags}"()')
        return w.let(f"and i32 {w.let(f'zext i16 {state} to i32')}, {self.all}")

    def clear(self, flags: str) -> None:
        """Take back these flags."""
        w = self.w
        if not self.all:
            return
        if self.layout.x86:
            old = self._read_x87()
            state = w.let(f"or i32 {self._read_sse()}, {old}")
            has_old = w.let(f"icmp ne i32 {old}, 0")
            w.when(has_old, lambda: w.line('call void asm sideeffect "fnclex", "~{dirflag},~{fpsr},~{flags}"()'))
            kept = w.let(f"xor i32 {flags}, -1")
            self._write(w.let(f"and i32 {state}, {kept}"))
            return
        w.declare("feclearexcept", "declare i32 @feclearexcept(i32)")
        w.line(f"%v{w.fresh()} = call i32 @feclearexcept(i32 {flags})")

    def refuse_invalid(self, call: Callable[[], None]) -> None:
        """Make a call whose invalid operations are faults; flags that it clears come back."""
        w, invalid = self.w, self.layout.invalid
        if not self.all:
            call()
            return
        before = w.let(f"and i32 {self.read()}, {self.all}")
        self.clear(str(invalid))
        call()
        new = w.let(f"and i32 {self.read()}, {invalid}")
        seen, more = w.let("load i64, ptr %fault"), w.let(f"zext i32 {new} to i64")
        w.line(f"store i64 {w.let(f'or i64 {seen}, {more}')}, ptr %fault")
        self.clear(str(invalid))
        self._add(before)

    def keep_around(self, call: Callable[[], str]) -> str:
        """Make a call that leaves the flags as they were."""
        before = self.w.let(f"and i32 {self.read()}, {self.all}")
        found = call()
        self.clear(str(self.all))
        self._add(before)
        return found

    def keep(self, loop: UfuncLoop, call: Callable[[], None]) -> None:
        """Make a call of one of NumPy's loops; flags that it clears come back."""
        if not self.all or not (scalar_op(loop.ufunc).clears or loop.ufunc.startswith(("linalg.", "special."))):
            call()
            return
        before = self.w.let(f"and i32 {self.read()}, {self.all}")
        call()
        self._add(before)

    def _add(self, flags: str) -> None:
        w = self.w
        if self.layout.x86:
            self._write(w.let(f"or i32 {self.read()}, {flags}"))
            return
        w.declare("feraiseexcept", "declare i32 @feraiseexcept(i32)")
        w.line(f"%v{w.fresh()} = call i32 @feraiseexcept(i32 {flags})")

    def _write(self, state: str) -> None:
        """Set the x86 processor's control and status register."""
        w = self.w
        w.declare("ldmxcsr", "declare void @llvm.x86.sse.ldmxcsr(ptr)")
        location = w.local("i32", 4)
        w.line(f"store volatile i32 {state}, ptr {location}")
        w.line(f"call void @llvm.x86.sse.ldmxcsr(ptr {location})")

    @property
    def flush(self) -> int:
        """The bits of the mode that flushes."""
        return FLUSH_X86 if self.layout.x86 else FLUSH_ARM

    def mode(self) -> str:
        """Return the bits that say whether this thread flushes denormals."""
        w = self.w
        if self.layout.x86:
            return w.let(f"zext i32 {w.let(f'and i32 {self._read_sse()}, {FLUSH_X86}')} to i64")
        return w.let(f"and i64 {self._read_fpcr()}, {FLUSH_ARM}")

    def set_mode(self, mode: str) -> None:
        """Have this thread flush denormals or not, as another one does."""
        w = self.w
        if self.layout.x86:
            others = w.let(f"and i32 {self._read_sse()}, {~FLUSH_X86}")
            self._write(w.let(f"or i32 {others}, {w.let(f'trunc i64 {mode} to i32')}"))
            return
        others = w.let(f"and i64 {self._read_fpcr()}, {~FLUSH_ARM}")
        w.declare("set.fpcr", "declare void @llvm.aarch64.set.fpcr(i64)")
        w.line(f"call void @llvm.aarch64.set.fpcr(i64 {w.let(f'or i64 {others}, {mode}')})")

    def _read_fpcr(self) -> str:
        self.w.declare("get.fpcr", "declare i64 @llvm.aarch64.get.fpcr()")
        return self.w.let("call i64 @llvm.aarch64.get.fpcr()")

    def number(self, kinds: Sequence[str]) -> int:
        """Return the flags of these kinds of error, in NumPy's words."""
        known = {"divide": self.layout.divide, "over": self.layout.over, "invalid": self.layout.invalid}
        return sum([known.get(kind, 0) for kind in {*kinds}])
