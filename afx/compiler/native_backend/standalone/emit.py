"""Standalone modules: native programs as object code with one function of C, for any processor."""

from __future__ import annotations

import ctypes
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, Literal

import attrs
import numpy as np

from afx.compiler.native_backend.functions.lanes import Lanes
from afx.compiler.native_backend.llvm.emit import Blocks, end_module
from afx.compiler.native_backend.llvm.loops import Looks
from afx.compiler.native_backend.llvm.team import KernelEntry
from afx.compiler.native_backend.llvm.writer import FLUSH_ARM, FLUSH_X86, Addresses, Flags, Writer, as_pointers
from afx.compiler.native_backend.lowering.lower import explain_schedule, standalone_target
from afx.compiler.native_backend.program.leaves import UfuncCall
from afx.compiler.native_backend.program.steps import Block, Program
from afx.compiler.native_backend.service.link import address_of, load_code
from afx.compiler.native_backend.service.process import service
from afx.compiler.native_backend.standalone.matrix_loops import each
from afx.compiler.native_backend.standalone.scalar_loops import define_loop
from afx.compiler.schedule.schedule import Schedule
from afx.compiler.target import Target
from afx.core.graph import Equation, Graph
from afx.core.scalar_ops import COPYSIGN, OF_SCIPY, SCALAR_OPS, SQRT

# --- Code generation for any processor: LLVM IR becomes an object file in the compiling process, and functions in
# this one

SECONDS = 600.0
SHOWN = 3  # that an error names
# of the C library; on Linux those of libm stand in a file of their own
OF_FLOATS = ("fabs", "fma", COPYSIGN, SQRT, *OF_SCIPY, *filter(None, [op.libm for op in SCALAR_OPS.values()]))
SYMBOLS = (*OF_FLOATS, *[f"{name}f" for name in OF_FLOATS], "realloc", "free", "memcpy", "memset", "memmove")


def compile_module(text: str, triple: str, cpu: str, features: str, is_loaded: bool) -> bytes:
    """Return the object file of a module.

    Args:
        text: the module.
        triple: LLVM's name of the machine; an empty one stands for this one.
        cpu: LLVM's name of the processor; an empty one stands for this one.
        features: LLVM's names of features beyond it.
        is_loaded: whether a loader puts the code where there is room, so that it must not know its place.

    Raises:
        RuntimeError: LLVM refuses it, or cannot be started; the text says why.
    """
    return compile_apart(text, cpu, "object", (triple, features, "pic" if is_loaded else "static"))


def compile_apart(*call: Any) -> bytes:
    """Return what the compiling process makes of a call, such as a module's text and a processor's name.

    Raises:
        RuntimeError: as `compile_module` says.
    """
    answer: Future[tuple[Any, str]] = Future()
    service.submit(call, lambda code, reason: answer.set_result((code, reason)))
    try:
        code, reason = answer.result(SECONDS)
    except TimeoutError:
        raise RuntimeError(f"the compiling process gave no answer for {SECONDS:.0f} s") from None
    if code is None:
        raise RuntimeError(reason)
    return bytes(code)


def load_function(code: bytes, names: Sequence[str]) -> tuple[Any, dict[str, int]]:
    """Link an object file within this process; return what keeps the code alive, and the addresses of functions."""
    library = ctypes.CDLL("libm.so.6" if sys.platform == "linux" else None)
    tracker = load_code(code, names, {name: address_of(library, name) for name in SYMBOLS if hasattr(library, name)})
    return tracker, {name: tracker[name] for name in names}


# --- Standalone modules: native programs as LLVM IR with one function of C, whose symbols are their own or those of
# libm

NO_FLAGS = Addresses(0, False, 0, 0, 0)
ALIGNMENT = 64


class StandaloneWriter(Writer):
    """Writer of a module that names no function of the C library but those of libm.

    Attributes:
        has_fma: whether the processor rounds a multiplication with an addition once; elsewhere that would be a call.
        size: LLVM's type of ``size_t``.
    """

    calls_numpy = False
    keeps_flags = False
    has_python = False

    def __init__(self, *, has_fma: bool, size: str, is_portable: bool = False, may_flush: bool = False) -> None:
        super().__init__()
        self.has_fma: bool = has_fma
        self.fuses: bool = has_fma and not is_portable
        self.is_portable: bool = is_portable
        self.may_flush: bool = may_flush
        self.size: str = size

    def function(self, head: str, body: Callable[[], None]) -> None:
        """Add a function, whose loops are not turned into calls of the C library."""
        super().function(f'{head} "no-builtins"', body)

    def copy(self, to: str, of: str, nbytes: str | int) -> None:
        """Copy so many bytes, eight at a time as long as there are so many."""
        self.define("@copy", "internal void @copy(ptr noalias %to, ptr noalias %of, i64 %count) noinline", self._copy)
        self.line(f"call void @copy(ptr {to}, ptr {of}, i64 {nbytes})")

    def _copy(self) -> None:
        whole, count = Lanes(self, "i64", self.let("and i64 %count, -8")), Lanes(self, "i64", "%count")
        for kind, start, stop, step in (("i64", 0, whole, 8), ("i8", whole, count, 1)):
            for i in each(self, start, stop, step):
                value = self.let(f"load {kind}, ptr {self.shifted('%of', i.name)}, align 1")
                self.line(f"store {kind} {value}, ptr {self.shifted('%to', i.name)}, align 1")
        self.line("ret void")

    def define_memory(self) -> None:
        """Define what rows of residuals ask Python for, by the C library, whose sizes have another width on some processors."""
        if "realloc" not in self._declared:
            return
        del self._declared["realloc"], self._declared["free"]
        self.declare("c.realloc", f"declare ptr @realloc(ptr, {self.size})")
        self.declare("c.free", "declare void @free(ptr)")

        def realloc() -> None:
            some = self.let("or i64 %size, 1")  # for none, libraries may give none
            size = some if self.size == "i64" else self.let(f"trunc i64 {some} to {self.size}")
            pointer = self.let(f"call ptr @realloc(ptr %memory, {self.size} {size})")
            self.line(f"ret ptr {pointer}")

        def free() -> None:
            self.line("call void @free(ptr %memory)")
            self.line("ret void")

        self.function("internal ptr @PyMem_RawRealloc(ptr %memory, i64 %size)", realloc)
        self.function("internal void @PyMem_RawFree(ptr %memory)", free)


class PortableWriter(Writer):
    """Writer of a module that runs within Python, whose results have the same bits on every processor."""

    calls_numpy = False
    fuses = False
    is_portable = True
    keeps_flags = False
    may_flush = False


def emit_function(
    program: Program,
    constants: Sequence[Any],
    name: str,
    *,
    has_fma: bool = True,
    size: str = "i64",
    note: bytes = b"",
    has_scalar: bool = False,
    flushes: Literal["x86", "arm"] | None = None,
    portable_from: int | None = None,
) -> str:
    """Return the module of a program.

    Its function ``name`` takes a pointer for each input and each output, then one to ``program.block.arena`` bytes of
    memory to work in; it returns 0, or bits that say what went wrong.

    Args:
        program: lowered for one thread.
        constants: the arrays that it captured, which the module holds.
        name: of the function.
        has_fma: whether the processor has fused multiplications and additions.
        size: LLVM's type of ``size_t``.
        note: bytes that the module keeps.
        has_scalar: whether it has ``{name}_scalar(int n, double *x, void *data)`` too, which takes all inputs, doubles, one
            behind the other, and returns the only output, a double.
        flushes: the kind of processor whose control register it sets while it runs, so that denormals are zeros; None
            leaves that alone.
        portable_from: the number of its inputs, where its bits shall depend on the program and what it is given alone: the
            results behind them have one nan.

    Raises:
        UnsupportedError: it calls a loop of NumPy that has no form without NumPy.
    """
    w = StandaloneWriter(
        has_fma=has_fma, size=size, is_portable=portable_from is not None, may_flush=flushes is not None
    )
    count = len(program.params) - len(constants)
    main = _emit_main(Blocks(w, NO_FLAGS), program, range(count if portable_from is None else portable_from, count))
    w.define_memory()
    captured = _define_data(w, constants, note)
    given = [f"%p{k}" for k in range(count)]

    def body() -> None:
        fault = w.local("[2 x i64]", 8)
        w.line(f"store i64 0, ptr {fault}")
        w.call(main, as_pointers([*given, *captured, "%work", fault]))
        status = w.let(f"load i64, ptr {fault}")
        w.line(f"ret i32 {w.let(f'trunc i64 {status} to i32')}")

    heads = as_pointers([f"noalias {name}" for name in (*given, "%work")])
    w.function(f"i32 @{name}({heads})" if flushes is None else f"internal i32 @as.flushed({heads}) noinline", body)
    if flushes is not None:
        args = as_pointers([*given, "%work"])
        w.function(f"i32 @{name}({heads})", lambda: _call_flushed(w, args, is_x86=flushes == "x86"))
    w.function(f"{size} @{name}_work_bytes()", lambda: w.line(f"ret {size} {program.block.arena}"))
    if has_scalar:
        head = f"double @{name}_scalar(i32 %n, ptr %x, ptr %data)"
        w.function(head, lambda: _scalar(w, program, name, count - 1))
    return w.text()


def _define_data(w: Writer, constants: Sequence[Any], note: bytes) -> list[str]:
    """Add a note, if there is one, and arrays; return the names of these."""
    names = [f"constant.{k}" for k in range(len(constants))]
    for name, value in zip(names, constants, strict=True):
        w.declare(name, _constant(f"@{name}", value.tobytes()))
    if note:
        w.declare("note", _constant("@note", note))
        w.declare("used", '@llvm.used = appending global [1 x ptr] [ptr @note], section "llvm.metadata"')
    return [f"@{name}" for name in names]


def emit_kernel(program: Program, results: range, layout: Addresses) -> str:
    """Return the module of a portable program, whose builtin function ``kernel_0`` Python calls as `KernelEntry` says.

    Args:
        program: what it computes.
        results: numbers of the parameters that it writes.
        layout: where CPython and NumPy keep things.

    Raises:
        UnsupportedError: it calls a loop of NumPy that has no form without NumPy.
    """
    w, where = PortableWriter(), attrs.evolve(layout, divide=0, over=0, invalid=0)
    blocks = Blocks(w, where)
    KernelEntry(w, where, program).emit("kernel_0", _emit_main(blocks, program, results))
    if w.looks:
        Looks(w, blocks.flags).define()
    return w.text() if any(program.block.loops) else end_module(w, [program])


def _emit_main(blocks: Blocks, program: Program, results: range) -> str:
    """Add the function of a program's block, which leaves one nan in these results, and the loops that it calls."""
    w, main = blocks.w, blocks.emit(program.block, "main")
    for loop in sorted(set(program.block.loops), key=lambda loop: loop.symbol):
        w.undeclare(loop.symbol)
        define_loop(w, loop)
    unsettled = _unsettled(program.block, results)
    if not unsettled:
        return main
    parameters = as_pointers([*[f"%p{k}" for k in range(program.block.params)], "%arena", "%fault"])

    def body() -> None:
        w.call(main, parameters)
        for k in unsettled:
            _settle_nan(w, f"%p{k}", np.dtype(program.params[k].dtype), math.prod(program.params[k].shape))
        w.line("ret void")

    w.function(f"internal void @settled({parameters})", body)
    return "@settled"


def _unsettled(block: Block, results: range) -> list[int]:
    """Return the results that other steps write than loops over elements of floats, and tiles, which write no nan but one."""
    writers = [(step, access.ref) for step in block.steps for access in step.accesses() if access.mode != "r"]
    others = {
        block.roots[ref.root].param
        for step, ref in writers
        if ref.dtype not in ("f4", "f8") or (isinstance(step, UfuncCall) and step.cores and step.loop is not None)
    }
    return [k for k in results if k in others]


def _settle_nan(w: Writer, pointer: str, dtype: np.dtype[Any], count: int) -> None:
    """Write the positive quiet nan without a payload for each nan: which one an operation gives is the processor's choice."""
    if dtype.kind not in "fc":
        return
    parts = 2 if dtype.kind == "c" else 1
    size = dtype.itemsize // parts
    kind = f"i{8 * size}"
    nan, limit = [int(np.array(x, f"f{size}").view(f"u{size}")) for x in (np.nan, np.inf)]
    lanes = w.limits.vector_bytes // size
    whole = count * parts // lanes * lanes
    for w.lanes, start, stop in ((lanes, 0, whole), (1, whole, count * parts)):
        for i in each(w, start, stop, w.lanes):
            at = w.element(kind, pointer, i.name)
            bits = Lanes(w, kind, w.let(f"load {w.vector(kind)}, ptr {at}, align {size}"))
            is_nan = (bits & (2 ** (8 * size - 1) - 1)).compare("ugt", limit)
            w.line(f"store {bits.type} {is_nan.choose(bits.constant(nan), bits).name}, ptr {at}, align {size}")


def _call_flushed(w: Writer, args: str, *, is_x86: bool) -> None:
    """Call the function with the control register set, and set that back."""
    flags = Flags(w, Addresses(0, is_x86, 0, 0, 0))
    before = flags.mode()
    flags.set_mode(str(FLUSH_X86 if is_x86 else FLUSH_ARM))
    status = w.let(f"call i32 @as.flushed({args})")
    flags.set_mode(before)
    w.line(f"ret i32 {status}")


def _scalar(w: Writer, program: Program, name: str, inputs: int) -> None:
    """Call the function on inputs that lie one behind the other, with memory on the stack."""
    result, at = w.local("double", 8), 0
    work = w.local(f"[{max(program.block.arena, 1)} x i8]", ALIGNMENT)
    pointers: list[str] = []
    for param in program.params[:inputs]:
        pointers.append(w.shifted("%x", at))
        at += 8 * math.prod(param.shape)
    args = as_pointers([*pointers, result, work])
    failed = w.let(f"icmp ne i32 {w.let(f'call i32 @{name}({args})')}, 0")
    value = w.let(f"load double, ptr {result}")
    w.line(f"ret double {w.let(f'select i1 {failed}, double 0x7FF8000000000000, double {value}')}")


def _constant(name: str, data: bytes) -> str:
    text = "".join([chr(c) if 32 <= c < 127 and c not in (34, 92) else f"\\{c:02X}" for c in data])
    return f'{name} = internal constant [{len(data)} x i8] c"{text}", align {ALIGNMENT}'


# --- Refusals: the operation, and the user's line, that a standalone module has no form for


def explain_refusal(reason: str, schedule: Schedule, graph: Graph, target: Target) -> tuple[str, str]:
    """Return why the first operation that has no form has none, and the user's line, as `` at file.py:12`` where it is known."""
    reasons = [why for _, why in explain_schedule(schedule, standalone_target(target)) if why]
    reason = (reasons[0] if reasons else reason).removesuffix(" has no native form")
    source = next((eq.source for eq in _equations(graph) if _names(eq) & set(re.findall(r"\w+", reason))), None)
    return reason, f" at {source}" if source is not None else ""


def explain_fault(graph: Graph) -> str:
    """Return the user's lines at which numbers are indices or exponents: `` at file.py:12``."""
    found = dict.fromkeys(str(eq.source) for eq in _equations(graph) if eq.source is not None and _may_fail(eq))
    lines = [*found][:SHOWN]
    return f" at {' or '.join(lines)}{' or another line' if len(found) > len(lines) else ''}" if lines else ""


def _may_fail(eq: Equation) -> bool:
    """Tell whether an operation takes numbers within limits: indices, or integers' exponents."""
    p, kinds, kind = eq.primitive, {a.aval.dtype.kind for a in eq.inputs}, eq.outputs[0].aval.dtype.kind
    if p.is_elementwise or p.algebra.canonical == "cast":
        return kind in "iu" and p.lowering.ufunc is np.power
    return len(eq.inputs) > 1 and bool(kinds & {"i", "u"}) and p.lowering.control is None


def _names(eq: Equation) -> set[str]:
    ufunc = eq.primitive.lowering.ufunc
    return {eq.primitive.name, *([ufunc.__name__] if ufunc is not None else [])}


def _equations(graph: Graph) -> Iterator[Equation]:
    """Yield the equations of a graph and of those that it holds."""
    for eq in graph.equations:
        yield eq
        for _, value in eq.params:
            for member in (value, getattr(value, "graph", None), getattr(value, "body", None)):
                inner = getattr(member, "graph", member)
                if isinstance(inner, Graph):
                    yield from _equations(inner)
