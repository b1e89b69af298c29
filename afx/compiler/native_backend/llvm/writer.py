"""Writer of LLVM IR: text with numbered values, symbols, loops, and flags of floating-point errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import attrs

from afx.compiler.native_backend.program.elements import UfuncLoop
from afx.compiler.target import DEFAULT, NativeTarget
from afx.core.primitive import Printable
from afx.core.scalar_ops import scalar_op

# --- Writer of LLVM IR: text with numbered values, declared symbols and loops
#
# Strict instructions raise the flags of their own operands, where they stand. Of plain instructions LLVM takes the
# flags for nothing: it fills short vectors up with elements that nobody asked for, computes both operations of a pair
# for both elements, hoists a quotient out of the branch that guards it, and moves it behind the place where flags are
# read. Constrained intrinsics stay where they are and what they are. Whole vectors in long loops, where nothing of
# that happens, may be plain: LLVM unrolls and schedules those better.

SIZES = {"float": 32, "double": 64}
INSTRUCTIONS = ("fadd", "fsub", "fmul", "fdiv")
INDEX, FACTORIZATION = 1, 2  # bits of a fault: an index or a conversion out of range; a matrix without factors


def as_pointers(names: Iterable[str]) -> str:
    """Return parameters, or arguments, that are pointers."""
    return ", ".join([f"ptr {name}" for name in names])


class Writer:
    """Collects the functions of one module and the declarations that they need.

    Attributes:
        limits: thresholds of what is emitted.
        lines: of the open function.
        lanes: how many elements operations compute at once.
        elements: how many of them are read and written, where that is half of them: others repeat these.
        calls_numpy: whether loops that it names are NumPy's.
        has_python: whether Python waits for what runs, so that long loops let it see signals.
        looks: whether one of them does.
        has_long_loops: whether operations stand in loops of which LLVM moves nothing to where other flags are looked at.
        fuses: whether multiplications and additions are rounded once.
        has_fma: whether the processor can do so, so that products are made exact by it, which changes no bits.
        keeps_flags: whether floating-point flags are read, so that no operation may raise one that NumPy's does not.
        is_portable: whether results have the same bits on every processor, so that no function of a library computes them.
        is_single: whether portable functions compute floats meanwhile, for which one double is enough.
        may_flush: whether denormals may be flushed while it runs.
        keep: makes a call of one of NumPy's loops; flags that it clears come back.
    """

    fuses: bool = True
    has_fma: bool = True
    keeps_flags: bool = True
    is_portable: bool = False
    is_single: bool = False
    may_flush: bool = True
    calls_numpy: bool = True
    has_python: bool = True

    def __init__(self, limits: NativeTarget = DEFAULT.native) -> None:
        self.limits: NativeTarget = limits
        self.lanes = 1
        self.elements = 0
        self.looks = False
        self.has_long_loops = False
        self.lines: list[str] = []
        self._declared: dict[str, str] = {}
        self._functions: list[str] = []
        self._calls: dict[str, int] = {}
        self._locals: list[str] = []
        self._faults = ""
        self._defined: set[str] = set()
        self._count = 0
        self.keep: Callable[[UfuncLoop, Callable[[], None]], None] = lambda _loop, call: call()

    def fresh(self) -> str:
        """Return a number that no other name has."""
        self._count += 1
        return str(self._count)

    def line(self, text: str) -> None:
        """Add a line to the open function."""
        self.lines.append("  " + text)

    def let(self, text: str) -> str:
        """Add an instruction and return the name of its value."""
        name = f"%v{self.fresh()}"
        self.line(f"{name} = {text}")
        return name

    def local(self, kind: str, alignment: int) -> str:
        """Reserve memory on the stack of the open function and return its pointer."""
        name = f"%s{self.fresh()}"
        self._locals.append(f"  {name} = alloca {kind}, align {alignment}")
        # LLVM 22.1 makes one vector of what stores to the parts of memory write, in front of stores that are out of order
        # (llvm-project#189680), but not of memory whose life has a beginning
        self.declare("lifetime", "declare void @llvm.lifetime.start.p0(i64 immarg, ptr)")
        self._locals.append(f"  call void @llvm.lifetime.start.p0(i64 -1, ptr {name})")
        return name

    def fault(self, condition: str, bit: int = INDEX) -> None:
        """Note, where a condition holds for one of the lanes, that the open function cannot compute what NumPy would."""
        if not self._faults:
            self._faults = self.local("i64", 8)
        new = self.let(f"select i1 {self.any(condition)}, i64 {bit}, i64 0")
        seen = self.let(f"load i64, ptr {self._faults}")
        self.line(f"store i64 {self.let(f'or i64 {seen}, {new}')}, ptr {self._faults}")

    def vector(self, kind: str) -> str:
        """Return the type of as many elements as are computed at once."""
        return kind if self.lanes == 1 else f"<{self.lanes} x {kind}>"

    def splat(self, kind: str, text: str) -> str:
        """Return a constant in all lanes."""
        return text if self.lanes == 1 else f"splat ({kind} {text})"

    def suffix(self, kind: str) -> str:
        """Return how functions of LLVM that take as many elements are told apart."""
        size = {"double": "f64", "float": "f32"}.get(kind, kind)
        return size if self.lanes == 1 else f"v{self.lanes}{size}"

    def intrinsic(self, name: str, kind: str, xs: Sequence[str], result: str = "", notes: Sequence[str] = ()) -> str:
        """Call a function of LLVM, such as ``fma``, of operands of one type, with notes on how, and return its value."""
        old, new, function = self.vector(kind), self.vector(result or kind), f"@llvm.{name}.{self.suffix(kind)}"
        types = [*[old for _ in xs], *["metadata" for _ in notes]]
        args = [*[f"{old} {x}" for x in xs], *[f'metadata !"{note}"' for note in notes]]
        self.declare(function, f"declare {new} {function}({', '.join(types)})")
        return self.let(f"call {new} {function}({', '.join(args)})")

    def any(self, condition: str) -> str:
        """Return whether a condition holds for one of the lanes."""
        if self.lanes == 1:
            return condition
        function, vector = f"@llvm.vector.reduce.or.v{self.lanes}i1", self.vector("i1")
        self.declare(function, f"declare i1 {function}({vector})")
        return self.let(f"call i1 {function}({vector} {condition})")

    def hand_over_faults(self) -> None:
        """Add the faults of the open function to those before, at its end."""
        if self._faults:
            seen = self.let("load i64, ptr %fault")
            own = self.let(f"load i64, ptr {self._faults}")
            self.line(f"store i64 {self.let(f'or i64 {seen}, {own}')}, ptr %fault")

    def call(self, function: str, args: str) -> None:
        """Add a call of one of the module's own functions, without a result."""
        self._calls[function] = self._calls.get(function, 0) + 1
        self.line(f"call void {function}({args})")

    def declare(self, name: str, text: str) -> None:
        """Declare a symbol once."""
        self._declared[name] = text

    def undeclare(self, name: str) -> None:
        """Take a declaration back, of what the module defines."""
        self._declared.pop(name, None)

    def label(self, name: str) -> None:
        """Begin a basic block."""
        self.lines.append(f"{name}:")

    def fall(self, name: str) -> None:
        """End a basic block and begin the next one."""
        self.line(f"br label %{name}")
        self.label(name)

    def function(self, head: str, body: Callable[[], None]) -> None:
        """Add a function; functions that the body adds stand apart."""
        outer = self.lines, self._locals, self._faults
        self.lines, self._locals, self._faults = [], [], ""
        body()
        start = [f"  store i64 0, ptr {self._faults}"] if self._faults else []
        # nothing is thrown through it: no unwind table is registered, which LLVM's linker would leave to the C library
        self._functions.append(
            "\n".join([f"define {head} nounwind {{", "entry:", *self._locals, *start, *self.lines, "}"])
        )
        self.lines, self._locals, self._faults = outer

    def define(self, name: str, head: str, body: Callable[[], None]) -> None:
        """Add a function that others may need too, once."""
        if name not in self._defined:
            self._defined.add(name)
            self.function(head, body)

    def loop(
        self,
        start: str,
        stop: str,
        step: int,
        body: Callable[[str], None],
        leave: Callable[[str, str, str], None] | None = None,
    ) -> None:
        """Add a loop from ``start`` up to ``stop``; ``leave(number, done, next)`` ends a step where it may be the last."""

        def turn(i: str, values: Sequence[str]) -> Sequence[str]:
            body(i)
            return values

        self.carry((), start, stop, step, turn, leave)

    def carry(
        self,
        values: Sequence[tuple[str, str]],
        start: str,
        stop: str,
        step: int,
        body: Callable[[str, Sequence[str]], Sequence[str]],
        leave: Callable[[str, str, str], None] | None = None,
    ) -> list[str]:
        """Add a loop whose steps hand on values, given with their types; return the last ones."""
        k = self.fresh()
        before, head, inside, done = f"before{k}", f"head{k}", f"inside{k}", f"done{k}"
        names = [f"%a{k}.{n}" for n in range(len(values))]
        self.fall(before)
        self.fall(head)
        self.line(f"%i{k} = phi i64 [ {start}, %{before} ], [ %n{k}, %last{k} ]")
        at = len(self.lines)
        self.line(f"%c{k} = icmp slt i64 %i{k}, {stop}")
        self.line(f"br i1 %c{k}, label %{inside}, label %{done}")
        self.label(inside)
        new = body(f"%i{k}", names)
        self.lines[at:at] = [
            f"  {name} = phi {kind} [ {first}, %{before} ], [ {last}, %last{k} ]"
            for name, (kind, first), last in zip(names, values, new, strict=True)
        ]
        if leave is None:
            self.line(f"br label %last{k}")
        else:
            leave(f"%i{k}", done, f"last{k}")
        self.label(f"last{k}")
        self.line(f"%n{k} = add nsw i64 %i{k}, {step}")
        self.line(f"br label %{head}")
        self.label(done)
        return names

    def leave(self, condition: str, *lines: str) -> None:
        """Add lines that end the function, or go elsewhere, where a condition holds."""
        k = self.fresh()
        self.line(f"br i1 {condition}, label %leave{k}, label %stay{k}")
        self.label(f"leave{k}")
        for text in lines:
            self.line(text)
        self.label(f"stay{k}")

    def when(self, condition: str, body: Callable[[], None]) -> None:
        """Add what runs where a condition holds."""
        k = self.fresh()
        self.line(f"br i1 {condition}, label %then{k}, label %after{k}")
        self.label(f"then{k}")
        body()
        self.line(f"br label %after{k}")
        self.label(f"after{k}")

    def copy(self, to: str, of: str, nbytes: str | int) -> None:
        """Copy so many bytes between memory that does not overlap."""
        self.declare("memcpy", "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
        self.line(f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {of}, i64 {nbytes}, i1 false)")

    def copy_few(self, to: str, of: str, nbytes: int) -> None:
        """Copy a few bytes, by no function: LLVM takes memory of the stack that nothing else reads apart into registers."""
        self.declare("memcpy.inline", "declare void @llvm.memcpy.inline.p0.p0.i64(ptr, ptr, i64 immarg, i1 immarg)")
        self.line(f"call void @llvm.memcpy.inline.p0.p0.i64(ptr {to}, ptr {of}, i64 {nbytes}, i1 false)")

    def shifted(self, pointer: str, offset: str | int) -> str:
        """Return a pointer so many bytes further."""
        return pointer if offset in (0, "0") else self.let(f"getelementptr i8, ptr {pointer}, i64 {offset}")

    def element(self, kind: str, pointer: str, i: str | int) -> str:
        """Return the pointer to an element of a type so many elements further."""
        return self.let(f"getelementptr {kind}, ptr {pointer}, i64 {i}")

    def text(self) -> str:
        """Return the module."""
        return "\n".join([*self._declared.values(), *self._functions, ""])

    def mark_inline(self) -> None:
        """Have LLVM put functions with one call in its place."""
        self._functions = [self._marked(text) for text in self._functions]

    def _marked(self, function: str) -> str:
        head, body = function.split("\n", 1)
        name = head[head.index("@") : head.index("(")]
        if self._calls.get(name) != 1 or "noinline" in head:
            return function
        return f"{head[:-1]}alwaysinline {{\n{body}"


def compute_strictly(
    w: Writer, name: str, kind: str, xs: Sequence[str], result: str = "", *, of_chosen: bool = False
) -> str:
    """Emit ``fadd``, ``fsub``, ``fmul``, ``fdiv``, ``fma``, ``sqrt`` or ``fptrunc`` of elements of a kind and return its value.

    LLVM would take a plain instruction out of choices that its operands are, which is that of elements not chosen too.

    >>> w = Writer()
    >>> print(compute_strictly(w, "fdiv", "float", ["%x", "%y"]), "call" in w.lines[-1])
    %v1 True
    """
    if not w.keeps_flags:
        return _compute(w, name, kind, xs, result)
    is_whole = w.lanes * SIZES[kind] >= 8 * w.limits.vector_min_bytes and not w.elements
    if w.has_long_loops and is_whole and not of_chosen and name in (*INSTRUCTIONS, "fma"):
        return _compute(w, name, kind, xs, "")
    function = f"experimental.constrained.{name}{f'.{w.suffix(result)}' if result else ''}"
    return w.intrinsic(function, kind, xs, result, ("round.tonearest", "fpexcept.strict"))


def _compute(w: Writer, name: str, kind: str, xs: Sequence[str], result: str) -> str:
    """Emit a plain instruction, where no flag is read."""
    if name in INSTRUCTIONS:
        return w.let(f"{name} {w.vector(kind)} {', '.join(xs)}")
    return w.let(f"{name} {w.vector(kind)} {xs[0]} to {w.vector(result)}") if result else w.intrinsic(name, kind, xs)


def compare_strictly(w: Writer, predicate: str, kind: str, xs: Sequence[str]) -> str:
    """Compare without a flag for nan, as NumPy does."""
    if not w.keeps_flags:
        return w.let(f"fcmp {predicate} {w.vector(kind)} {xs[0]}, {xs[1]}")
    return w.intrinsic("experimental.constrained.fcmp", kind, xs, "i1", (predicate, "fpexcept.strict"))


# --- Flags as LLVM IR: those of floating-point errors, read, cleared and put back; and whether denormals are flushed


@attrs.frozen(eq=False, repr=False)
class Addresses(Printable):
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

    def __init__(self, w: Writer, layout: Addresses) -> None:
        self.w = w
        w.keep = self.keep
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
            mask = w.let(f"xor i32 {flags}, -1")
            self._write(w.let(f"and i32 {state}, {mask}"))
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
        if not self.all:
            return call()
        before = self.w.let(f"and i32 {self.read()}, {self.all}")
        result = call()
        self.clear(str(self.all))
        self._add(before)
        return result

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
            state = w.let(f"and i32 {self._read_sse()}, {~FLUSH_X86}")
            self._write(w.let(f"or i32 {state}, {w.let(f'trunc i64 {mode} to i32')}"))
            return
        state = w.let(f"and i64 {self._read_fpcr()}, {~FLUSH_ARM}")
        w.declare("set.fpcr", "declare void @llvm.aarch64.set.fpcr(i64)")
        w.line(f"call void @llvm.aarch64.set.fpcr(i64 {w.let(f'or i64 {state}, {mode}')})")

    def _read_fpcr(self) -> str:
        self.w.declare("get.fpcr", "declare i64 @llvm.aarch64.get.fpcr()")
        return self.w.let("call i64 @llvm.aarch64.get.fpcr()")

    def number(self, kinds: Sequence[str]) -> int:
        """Return the flags of these kinds of error, in NumPy's words."""
        return sum([getattr(self.layout, kind, 0) for kind in {*kinds}])
