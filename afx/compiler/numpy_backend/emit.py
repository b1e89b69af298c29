"""Code generation: a schedule as Python that calls NumPy, at the lines of the user's code."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial
from types import CodeType, ModuleType
from typing import Any

from afx.compiler.numpy_backend.loops import FusedEmitter, emit_scalar_steps, look_between, run_scalar_loop, walk_back
from afx.compiler.numpy_backend.program import (
    Bind,
    Clock,
    Line,
    NumpyProgram,
    ProgramPart,
    ScheduleNames,
    applied,
    arena_text,
    call_lines,
    common_errstate,
    copies,
    in_arena,
    in_rows,
    kernel_text,
    made_kernel,
    made_pool,
    made_scratch,
    made_view,
    make_line,
    named_once,
    pool_text,
    scratch_text,
    view_text,
    wrap_errstate,
)
from afx.compiler.schedule.schedule import (
    Alloc,
    Branch,
    Buffer,
    Call,
    ErrorState,
    Free,
    Fused,
    Instruction,
    Loop,
    Number,
    Operand,
    Params,
    Result,
    Schedule,
    Sources,
    View,
)
from afx.compiler.target import Target
from afx.core import lookup, primitive_for_role
from afx.core.dtypes import DType, dtype_name
from afx.core.scalar_ops import ADD
from afx.core.tracing.tracer import SourceLocation, module_names
from afx.runtime.blas import product
from afx.runtime.buffer_cache import donated_or_empty
from afx.runtime.thread_pool import run_blocks

# --- Locations: generated code takes the file and the lines of the user's code that it computes
#
# NumPy warns at the line of Python that calls it, in the module of its globals. So the calls of a plan carry the
# user's lines, and nothing has to be done when a call does not warn: filters, ``-W error`` and tracebacks see the
# user's code.

NO_COLUMNS = 13  # the code of an entry that holds a line alone (Objects/locations.md of CPython)
MAX_UNITS = 8  # instructions of two bytes that an entry stands for


def file_of(instruction: Instruction, sources: Sources) -> str:
    """Return the user's file that warnings of an instruction point to, an empty text where it gives none."""
    first: Any = instruction
    if isinstance(instruction, Fused):
        first = instruction.body[0] if instruction.body else None
    if not isinstance(first, Call) or first.error_state is None or first.equation < 0 or not sources:
        return ""
    source = sources[first.equation]
    code = getattr(source, "code", None)
    return "" if source is None else str(source.file if code is None else code.co_filename)


def relocate(code: CodeType, locations: Sequence[SourceLocation | None]) -> CodeType:
    """Return code whose lines are those of a user's file.

    A function has one file: where locations lie in several, it is that of most of them. Lines of no location in it take the
    location before.

    Args:
        code: of a text, with the functions inside of it.
        locations: of each line of the text.
    """
    constants = tuple([relocate(c, locations) if isinstance(c, CodeType) else c for c in code.co_consts])
    code = code.replace(co_consts=constants)
    rows, files, firsts = list[tuple[int, SourceLocation | None]](), list[str](), dict[str, int]()
    for start, end, line in code.co_lines():
        location = None if line is None else locations[line - 1]
        rows.append((end - start, location))
        if location is not None:
            files.append(location.file)
            firsts.setdefault(location.file, location.line)
    if not files:
        return code
    file = files[0] if len(firsts) == 1 else Counter(files).most_common(1)[0][0]
    first = firsts[file]
    return code.replace(co_filename=file, co_firstlineno=first, co_linetable=_table(rows, file, first))


def _table(rows: Sequence[tuple[int, SourceLocation | None]], file: str, first: int) -> bytes:
    """Return the table of lines of code whose ranges of bytes have these locations, in CPython's format.

    Steps from line to line are signed numbers in pieces of six bits, the lowest first. All of it stands in one function, as
    every first call waits for it.
    """
    table, last = bytearray(), first
    for size, location in rows:
        line = location.line if location is not None and location.file == file else last
        units, step, last = size // 2, line - last, line
        while units > 0:
            count = min(units, MAX_UNITS)
            table.append(0x80 | NO_COLUMNS << 3 | count - 1)
            rest = -step << 1 | 1 if step < 0 else step << 1
            while rest >= 64:
                table.append(0x40 | rest & 63)
                rest >>= 6
            table.append(rest)
            units, step = units - count, 0
    return bytes(table)


def module_globals(file: str) -> dict[str, Any]:
    """Return globals whose warnings count as those of the module of a file, which are shown once a line."""
    name = module_names.get(file)
    if name is None:  # of a graph from another process
        modules: dict[str, Any] = dict(sys.modules)  # some programs put other objects there
        files = {n: vars(m).get("__file__") for n, m in modules.items() if isinstance(m, ModuleType)}
        name = module_names[file] = next((n for n, f in files.items() if f == file), "__main__")
    module = sys.modules.get(name)
    space: dict[str, Any] = vars(module) if isinstance(module, ModuleType) else {}
    return {"__name__": name, "__warningregistry__": space.setdefault("__warningregistry__", {})}


# --- Code generation
#
# The program is one function, or several in a row: Python's time to compile a function grows faster than its length.
# What a part reads from outside is bound to it once for each set of buffers, so that all names are local, or nearly
# so. What is shown is what runs.


def emit(schedule: Schedule, target: Target, kernels: Sequence[Bind] = (), clock: Clock | None = None) -> NumpyProgram:
    """Write a schedule down as Python; a clock is called with each instruction's number at its end."""
    return _Emitter(schedule, target, kernels, clock).program()


class _Emitter:
    """The program so far, and the part that is being written."""

    def __init__(self, schedule: Schedule, target: Target, kernels: Sequence[Bind], clock: Clock | None) -> None:
        self.kernels = kernels
        self.clock = clock
        self.schedule = schedule
        self.target = target
        self.names = ScheduleNames()
        self.bodies: dict[str, Schedule] = {}
        self.fallbacks: dict[str, Schedule] = {}
        self._bound: set[int] = set()  # buffers that are made once
        self._loops = 0
        self._begin()

    def _begin(self) -> None:
        self.names.used = {}
        self._functions: list[Line] = []
        self._lines: list[Line] = []
        self._file = ""
        self._states: list[ErrorState] = []
        self._reads: dict[str, None] = {}
        self._makes: dict[str, None] = {}

    def program(self) -> NumpyProgram:
        """Return the whole program."""
        schedule, names = self.schedule, self.names
        for buffer, constant in schedule.constants:
            name = names.of(buffer)
            names.shared[name] = constant.value
            self._bound.add(buffer.index)
        parts, is_waiting = list[ProgramPart](), False
        for number, instruction in enumerate(schedule.instructions):
            file = file_of(instruction, schedule.sources)
            is_long = len(self._lines) >= self.target.function_max_lines
            if (is_long or (file and self._file not in ("", file))) and not is_waiting:
                parts.append(self._end())
            self._file = file or self._file
            self._instruction(instruction)
            if self.clock is not None:
                self._add([f"{names.share('clock', self.clock, '...')}({number})"])
            is_waiting = isinstance(instruction, Alloc)  # for the instruction that fills it
        results = tuple(map(self._result, schedule.results))
        parts.append(self._end())
        return NumpyProgram(
            schedule, names, tuple(map(names.of, schedule.inputs)), tuple(parts), results, self.bodies, self.fallbacks
        )

    def _end(self) -> ProgramPart:
        if any(self._states):
            self.names.numpy("errstate")
        lines = list[Line]()
        for line in wrap_errstate(self._lines, self._states):
            text, number = line
            lines += [make_line((t, number)) for t in text.split("\n")] if "\n" in text else [line]
        part = ProgramPart(
            tuple(self.names.used), tuple(self._functions), tuple(self._reads), tuple(lines), tuple(self._makes)
        )
        self._begin()
        return part

    # -- names --
    def read(self, x: Operand) -> str:
        """Return the text of an operand."""
        if not isinstance(x, Buffer):
            return self.names.number(x)
        name = self.names.buffers.get(x.index) or self.names.of(x)
        if x.storage == "arena" or x.index in self._bound:
            self.names.used[name] = None
            return name
        if name not in self._makes:
            self._reads[name] = None
        return name

    def write(self, x: Buffer) -> str:
        """Return the name of an output: of a buffer in the arena, or a new value."""
        name = self.names.buffers.get(x.index) or self.names.of(x)
        if x.storage != "arena":
            self._makes[name] = None
            return name
        if name not in self.names.own:
            make = partial(in_arena, x.shape, x.dtype, x.location)
            self.names.bind(name, make, partial(arena_text, x))
        self.names.used[name] = None
        return name

    def _add(self, lines: Sequence[str], state: ErrorState = None, equation: int = -1) -> None:
        for text in lines:
            self._lines.append(make_line((text, equation)))
            self._states.append(state)

    # -- instructions --
    def _instruction(self, instruction: Instruction) -> None:
        match instruction:
            case Call():
                self._call(instruction)
            case View():
                self._view(instruction)
            case Alloc():
                self._alloc(instruction)
            case Free():
                self._free(instruction)
            case Fused():
                self._fused(instruction)
            case Loop():
                self._loop(instruction)
            case Branch():
                self._branch(instruction)

    def _call(self, call: Call) -> None:
        xs = list(map(self.read, call.operands))
        if call.method in ("apply", "copies"):
            self._apply(call, xs)
            return
        if call.is_kernel:
            self._native(call, xs)
            return
        out = self.write(call.outputs[0])
        if call.method == "pieces":
            params, function = dict(call.params), self.names.function("product", product)
            lines = [f"{function}({', '.join(xs)}, {out}, {params['axis']}, {params['stops']})"]
        elif call.method == "kernel":
            lines = self._part_lines(call, xs, out) or self._kernel_lines(call, xs, out)
        else:
            lines = call_lines(call, xs, out, self.names)
        self._add(lines, call.error_state, call.equation)

    def _kernel_lines(self, call: Call, xs: list[str], out: str) -> list[str]:
        if call.aliases[0] == "same" and call.outputs[0].storage == "arena":
            xs[0] = out  # an update in place: NumPy sees that nothing is to be copied
        return [f"{self.names.use(self._kernel(call))}({', '.join([out, *xs])})"]

    def _native(self, call: Call, xs: list[str]) -> None:
        number: int = dict(call.params)["number"]
        name, bind = f"native_{number}", self.kernels[number]
        kernel = self.names.use(self.names.bind(name, lambda _: bind(), lambda: f"kernels[{number}].bind()"))
        self._add([f"{kernel}({', '.join([*xs, *map(self.write, call.outputs)])})"], ())

    def _part_lines(self, call: Call, xs: list[str], out: str) -> list[str]:
        """Return the lines of an update of a part of a buffer in the arena, whose view is made once."""
        role, names = lookup(call.op).algebra.canonical, self.names
        in_place = role in ("add_part", "set_part") and call.aliases[0] == "same"
        if call.outputs[0].storage != "arena" or not (in_place or role == "embed"):
            return []
        params = (("index", dict(call.params)["index"]),)
        part = names.use(self._make_once(f"part_{out}", primitive_for_role("slice").name, out, params))
        if role == "add_part":
            return [f"{names.numpy(ADD)}({part}, {xs[1]}, {part})"]
        return [*([f"{out}.fill(0)"] if role == "embed" else []), f"{part}[...] = {xs[-1]}"]

    def _is_constant(self, call: Call) -> bool:
        """Tell whether a call repeats a number, and no result of the schedule lies in the array of it."""
        returned = [r.operand for r in self.schedule.results]
        owners = {x.location if x.storage == "view" else x.index for x in returned if isinstance(x, Buffer)}
        repeats = lookup(call.op).algebra.canonical == "broadcast" and isinstance(call.operands[0], Number)
        return repeats and call.outputs[0].index not in owners

    def _apply(self, call: Call, xs: list[str]) -> None:
        if self._is_constant(call):
            self._bound.add(call.outputs[0].index)
            self._make_once(self.names.of(call.outputs[0]), call.op, xs[0], call.params)
            return
        targets = ", ".join([self.write(b) for b in call.outputs])
        first = call.operands[0] if call.operands else None
        if call.method == "copies":
            text = f"{self.names.function('copies', copies)}({applied(call.op, call.params, xs, self.names)})"
        elif isinstance(first, Buffer):
            text = view_text(call.op, call.params, xs[0], self.names) if len(xs) == 1 else ""
            text = text or applied(call.op, call.params, xs, self.names)
        else:
            text = applied(call.op, call.params, xs, self.names)
        text = text if call.method == "copies" else in_rows(call, text, self.names)
        several = lookup(call.op).multiple_results
        head = f"{targets}{',' if several else ''} = " if targets else ""
        self._add([f"{head}{text}"], call.error_state, call.equation)

    def _kernel(self, call: Call) -> str:
        """Enter an implementation that is prepared for each set of buffers."""
        name = f"{call.op}_{self.names.of(call.outputs[0])}"
        avals = [x.aval for x in call.operands]
        make = lookup(call.op).lowering.make_kernel
        assert make is not None
        made = partial(made_kernel, make, avals, dict(call.params))
        return self.names.bind(name, made, partial(kernel_text, call, avals))

    def _view(self, view: View) -> None:
        name = self.names.of(view.out)
        if not view.once:
            text = view_text(view.op, view.params, self.read(view.source), self.names)
            self._add([f"{self.write(view.out)} = {text}"])
            return
        self._bound.add(view.out.index)
        self._make_once(name, view.op, self.names.of(view.source), view.params)

    def _make_once(self, name: str, op: str, source: str, params: Params) -> str:
        """Enter a view that is made once for each set of buffers."""
        names, used = self.names, dict(self.names.used)
        text = view_text(op, params, source, names)
        names.used = used  # what makes it is no part of the program
        return names.bind(name, partial(made_view, lookup(op).impl, source, dict(params)), partial(str, text))

    def _alloc(self, alloc: Alloc) -> None:
        buffer, names = alloc.buffer, self.names
        name = self.write(buffer)
        if buffer.storage == "donated":
            given = self.read(self.schedule.inputs[buffer.location])
            text = f"{names.function('donated_or_empty', donated_or_empty)}({given})"
        elif buffer.storage == "pooled":
            pool = f"pool_{name}"
            make = partial(made_pool, buffer.aval, self.target.pool_max_arrays)
            names.bind(pool, make, partial(pool_text, buffer.aval, self.target.pool_max_arrays))
            text = f"{names.use(pool)}()"
        else:
            text = f"{names.numpy('empty')}({buffer.shape}, {self._dtype(buffer.dtype)})"
        self._add([f"{name} = {text}"])

    def _dtype(self, dtype: DType) -> str:
        name = dtype_name(dtype)
        return self.names.share(f"{name}_", dtype, f"np.dtype('{name}')")

    def _free(self, free: Free) -> None:
        gone = [self.read(b) for b in free.buffers if b.index not in self._bound]
        for name in gone:
            self._makes.pop(name, None)
        if gone:
            self._add([f"del {', '.join(gone)}"])

    def _fused(self, fused: Fused) -> None:
        self._loops += 1
        names, space = self.names, fused.space
        for b in (*fused.sliced, *fused.whole):
            self.read(b)
        for b in fused.outputs:
            self.write(b)
        block = FusedEmitter(fused, f"fused_{self._loops}", names)
        self._functions += block.lines
        scratch = f"scratch_{self._loops}"
        names.bind(scratch, partial(made_scratch, space.block, fused.scratch), partial(scratch_text, fused))
        state = common_errstate([step.error_state for step in fused.body if isinstance(step, Call)])[0]
        lines: list[str] = []
        for part in fused.partials:
            shape = (space.blocks, *part.out.shape)
            lines.append(f"part_{names.of(part.out)} = {names.numpy('empty')}({shape}, {self._dtype(part.out.dtype)})")
        function = names.function("run_blocks", run_blocks)
        lines.append(
            f"{function}({block.name}, {space.size}, {space.block}, {names.use(scratch)}, ({block.arguments()},))"
        )
        for part in fused.partials:
            reduce = names.numpy(f"{part.ufunc}.reduce")
            lines.append(f"{reduce}(part_{names.of(part.out)}, 0, None, {names.of(part.out)})")
        self._add(lines, state)

    # -- control flow --
    def _body(self, kind: str, body: Schedule) -> str:
        """Enter the function of a body, with buffers of its own for each set."""
        name = f"{kind}_{len(self.bodies) + 1}"
        self.bodies[name] = body
        return self.names.use(name)

    def _loop(self, loop: Loop) -> None:
        """Add a loop: of Python's numbers where its body allows, else one over functions of the body and the condition."""
        parts = (loop.consts, loop.xs, loop.tests, loop.carry, loop.carry_back)
        consts, xs, tests, carry, carry_back = ([self._row_major(x) for x in part] for part in parts)
        name = f"steps_{len(self.fallbacks) + 1}"
        if steps := emit_scalar_steps(loop, name, self.names, self.target):
            self._functions += map(Line, steps)
            self._scalar_loop(loop, name, (consts, carry, xs))
            return
        last, ys = [self.write(b) for b in loop.outputs], [self.write(b) for b in loop.ys]
        body = self._body("body", loop.body)
        if loop.condition is not None and loop.back is not None:
            functions = self._body("condition", loop.condition), body, self._body("back", loop.back)
            self._whole([self._way_back(functions, last, (tests, consts, carry, carry_back))], loop.error_state)
            return
        own = named_once((*consts, *xs, *tests), f"rows_{len(self.bodies)}")
        consts, xs, tests = ([own.get(text, text) for text in part] for part in (consts, xs, tests))
        self._add([f"{name} = {text}" for text, name in own.items()], ())
        lines = [f"{', '.join(last)}, = {', '.join(carry)},"] if last else []
        lines += self._stacks(loop.ys, ys) + self._head(loop, [*tests, *last])
        given = ", ".join([*consts, *last, *[f"{x}[t_]" for x in xs]])
        made = "".join([f"{name}, " for name in (*last, *[f"row_{y}" for y in ys])])
        lines.append(f"    {made}{'= ' if made else ''}{body}({given})")
        lines += [f"    {y}[t_] = row_{y}" for y in ys]
        lines += [f"{name} = {self.names.numpy('array')}({name})" for name in last]
        self._whole([*lines, *[f"del {name}" for name in own.values()]], loop.error_state)

    def _head(self, loop: Loop, tested: list[str]) -> list[str]:
        """Return how a loop over steps begins, which ends where a condition says so."""
        look = self.names.function("look_between", look_between)
        if loop.condition is None:
            indices = f"range({loop.length}){'[::-1]' if loop.reverse else ''}"
            return [f"for t_ in {look}({indices}, {len(loop.body)}):"]
        condition = self._body("condition", loop.condition)
        head = f"for t_ in {look}(calls={len(loop.body) + len(loop.condition)}):"
        return [head, f"    if not {condition}({', '.join(tested)})[0]: break"]

    def _way_back(self, functions: Sequence[str], last: Sequence[str], parts: Sequence[Sequence[str]]) -> str:
        given = ", ".join([*functions, *[f"[{', '.join(part)}]" for part in parts]])
        return f"{', '.join(last)}, = {self.names.function('walk_back', walk_back)}({given})"

    def _stacks(self, buffers: Sequence[Buffer], names: Sequence[str]) -> list[str]:
        both = zip(buffers, names, strict=True)
        return [f"{y} = {self.names.numpy('empty')}({b.shape}, {self._dtype(b.dtype)})" for b, y in both]

    def _row_major(self, x: Operand) -> str:
        """Return an operand of a body, in row-major order as machine code has it: BLAS's last digits depend on that."""
        is_any = isinstance(x, Buffer) and x.storage in ("view", "fresh") and len(x.shape) > 0
        return f"{self.names.numpy('asarray')}({self.read(x)}, order='C')" if is_any else self.read(x)

    def _scalar_loop(self, loop: Loop, steps: str, operands: tuple[list[str], ...]) -> None:
        """Add a loop on Python's floats; where one is not finite, the body computes the step."""
        plain = f"plain_{steps}"
        self.fallbacks[plain] = loop.body
        last, ys = [self.write(b) for b in loop.outputs], [self.write(b) for b in loop.ys]
        run = self.names.function("run_scalar_loop", run_scalar_loop)
        given = ", ".join([f"[{', '.join(part)}]" for part in operands])
        settings = f"{loop.length}, {self.target.scalar_chunk_steps}, {loop.reverse}"
        call = f"{run}({steps}, {self.names.use(plain)}, {settings}, ({given}), [{', '.join(ys)}])"
        self._whole([*self._stacks(loop.ys, ys), f"{', '.join(last)}, = {call}" if last else call], loop.error_state)

    def _whole(self, lines: list[str], state: ErrorState) -> None:
        """Add lines of which some stand inside of others."""
        if state:
            ignored = ", ".join([f"{name}='ignore'" for name in state])
            lines = [f"with {self.names.numpy('errstate')}({ignored}):", *[f"    {line}" for line in lines]]
        self._add(["\n".join(lines)], ())

    def _branch(self, branch: Branch) -> None:
        outs, xs = [self.write(b) for b in branch.outputs], [self._row_major(x) for x in branch.operands]
        bodies = [self._body("branch", body) for body in branch.bodies]
        call = f"({', '.join(bodies)},)[int({self.read(branch.index)})]({', '.join(xs)})"
        self._whole([f"{', '.join(outs)}, = {call}" if outs else call], branch.error_state)

    # -- results --
    def _result(self, result: Result) -> str:
        text = self.read(result.operand)
        if not result.copies:
            return text
        order = ", order='C'" if len(result.operand.shape) > 1 else ""
        return f"{self.names.numpy('array')}({text}{order})"
