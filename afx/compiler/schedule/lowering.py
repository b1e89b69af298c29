"""Lowering: a grouped graph with assigned buffers becomes a schedule."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import attrs
import numpy as np

from afx.compiler.graph.rewrite_rules import simplify
from afx.compiler.schedule.buffers import BufferAssignment, BufferedValue, assign
from afx.compiler.schedule.fusion import (
    Group,
    Groups,
    by_reduction,
    by_ufunc,
    errstate_of,
    fuse,
    lowers_to_dot,
    materialize_scalars,
    reduces_in_transpose,
    sums_few,
    sums_rows,
    unrolls,
    writes_into,
)
from afx.compiler.schedule.schedule import (
    Alias,
    Alloc,
    Branch,
    BranchSpec,
    Buffer,
    Call,
    ControlSpec,
    ErrorState,
    Free,
    Fused,
    Instruction,
    Loop,
    Method,
    Number,
    Operand,
    Params,
    Partial,
    Result,
    ScanSpec,
    Schedule,
    Sources,
    Space,
    Storage,
    View,
    WhileBackSpec,
)
from afx.compiler.target import Target
from afx.core import Aval, DType, Shape
from afx.core.graph import Atom, Equation, Graph, Literal, Var
from afx.core.scalar_ops import ADD, MATMUL

# --- Products: how one of two matrices, or of a matrix and a vector, is cut into pieces, a function of shapes and
# dtypes alone
#
# Each piece is computed by one BLAS thread, so that no number of threads, load or measurement changes a bit of it.


def cut(x: Aval, y: Aval, out: Aval, target: Target) -> tuple[int, tuple[int, ...]] | None:
    """Return the axis of the result along which a product is cut, and the ends of the pieces; None for one piece.

    >>> import numpy as np
    >>> a = Aval((300, 300), np.dtype("float64"))
    >>> cut(a, a, a, Target(pins_blas=True))
    (0, (160, 300))
    """
    plain = x.ndim == 2 >= y.ndim > 0 and x.dtype == y.dtype == out.dtype and out.dtype.char in "fd"
    if not target.pins_blas or not plain or out.size * x.shape[1] < target.cut_min_products:
        return None
    rows, columns = (*out.shape, 1)[:2]
    axis, length = (0, rows) if rows >= columns else (1, columns)
    step = -(-length // (target.cut_pieces * target.cut_multiple)) * target.cut_multiple
    stops = tuple([min(stop, length) for stop in range(step, length + step, step)])
    return (axis, stops) if len(stops) > 1 else None


# --- Fused loops: a group of equations becomes one `Fused` instruction, with slots for its intermediate values


class FusedLowering:
    """One group on its way to an instruction."""

    def __init__(
        self, group: Group, buffer: Callable[[Var], Buffer], alias: Callable[[Buffer, Var], Alias], target: Target
    ) -> None:
        assert group.key is not None
        self.group = group
        self.target = target
        self._alias = alias
        self._rows = group.key[0] == "rows"
        self._size = group.key[1][0] if self._rows else math.prod(group.key[1])
        self._slots: list[tuple[DType, Shape]] = []
        self._free: list[int] = []
        self._slot_of: dict[int, int] = {}
        self._partials: list[Partial] = []
        self._base: dict[int, Buffer] = {}  # of each view within the loop, the buffer that it looks into
        self._buffer = buffer
        self._reductions = {
            eq.outputs[0].index for eq, s in zip(group.equations, group.spaces, strict=True) if s.is_reduction
        }
        given = [v for v in group.outputs if v.index not in self._reductions]
        self._locate = {v.index: buffer(v) for v in (*group.sliced, *given)}
        self._backward = [self._view_of_output(eq) for eq in group.reshaped.values()]

    def fused(self) -> Fused:
        """Return the instruction."""
        group = self.group
        assert group.key is not None
        body = self._body()
        sliced, whole, outputs = ([self._buffer(v) for v in vs] for vs in (group.sliced, group.whole, group.outputs))
        return Fused(
            Space("rows" if self._rows else "elements", group.key[1], self._block()),
            tuple(body),
            tuple(sliced),
            tuple(whole),
            tuple([self._alias_of(b) for b in (*sliced, *whole)]),
            tuple(outputs),
            tuple(self._partials),
            tuple(self._slots),
            tuple(self._backward),
        )

    def _alias_of(self, x: Buffer) -> Alias:
        aliases = {self._alias(x, v) for v in self.group.outputs}
        return "unknown" if "unknown" in aliases else "same" if "same" in aliases else "disjoint"

    def _block(self) -> int:
        """Return the size of a block: an even number of equal ones, so that two threads end together."""
        group, target = self.group, self.target
        values = [v.aval for eq in group.equations for v in eq.outputs] + [v.aval for v in group.sliced]
        widest = max([v.nbytes // self._size for v in values], default=4)
        dearest = max([v.size // self._size for v in values], default=1)
        pairs = -(-self._size // (2 * max(target.block_max_bytes // max(widest, 1), 1)))
        even = -(-self._size // (2 * pairs))
        if not self._rows:
            even = -(-even // 64) * 64
        return max(even, min(self._size, -(-target.block_min_elements // max(dearest, 1))), 1)

    def _body(self) -> list[Call | View]:
        """Return the calls of a block; memory of values that end is free before an operation in place, behind any other."""
        group, ends = self.group, self._ends()
        body: list[Call | View] = []
        for k, (eq, space, number) in enumerate(zip(group.equations, group.spaces, group.numbers, strict=True)):
            in_place, ending = by_ufunc(eq), ends.get(k, [])
            operands = [self._operand(eq, a, part) for a, part in zip(eq.inputs, space.sliced, strict=True)]
            if in_place:
                self._end(ending)
            if eq.outputs[0].index not in group.reshaped:
                body.append(self._step(eq, operands, space.sliced, number))
            if not in_place:
                self._end(ending)
        return body

    def _ends(self) -> dict[int, list[int]]:
        """Return the values that each equation is the last one to read, themselves or in another shape."""
        last: dict[int, int] = {}
        for k, eq in reversed(list(enumerate(self.group.equations))):
            for a in eq.inputs:
                if isinstance(a, Var):
                    reshaped = last.get(eq.outputs[0].index, k) if eq.primitive.lowering.may_alias else k
                    last[a.index] = max(last.get(a.index, k), reshaped)
        ends: dict[int, list[int]] = {}
        for index, k in last.items():
            ends.setdefault(k, []).append(index)
        return ends

    def _end(self, ending: Sequence[int]) -> None:
        self._free += [self._slot_of[index] for index in ending if index in self._slot_of]

    def _operand(self, eq: Equation, a: Atom, is_sliced: bool) -> Operand:
        if isinstance(a, Var):
            return self._locate[a.index] if is_sliced else self._buffer(a)
        if not materialize_scalars(eq, self.target) or a.aval.shape:
            return Number(a)
        return Number(a, "filled", eq.aval.shape)

    def _step(self, eq: Equation, xs: list[Operand], sliced: tuple[bool, ...], number: int) -> Call | View:
        """Return the call, or the view, that computes an equation on one block."""
        p, out = eq.primitive, eq.outputs[0]
        method: Method = "into"
        ufunc, params = "", eq.params
        if p.lowering.may_alias:
            return self._reshape(eq, xs, number)
        if by_ufunc(eq):
            assert p.lowering.ufunc is not None
            method, ufunc = "ufunc", p.lowering.ufunc.__name__
            sliced = tuple(
                [s or (isinstance(x, Number) and x.form == "filled") for s, x in zip(sliced, xs, strict=True)]
            )
        elif p.lowering.reduce_ufunc is not None:
            ufunc = p.lowering.reduce_ufunc.__name__
            method = "reduce" if out.index in self._reductions else self._reduce_method(eq)
            if method == "vecdot":
                x = eq.inputs[0].aval
                ones = Number(Literal(1.0, Aval((), x.dtype)), "filled", x.shape[-1:])
                ufunc, params, xs, sliced = "", (), [*xs, ones], (*sliced, False)
        if out.index in self._reductions:
            self._partials.append(Partial(self._buffer(out), ufunc or ADD))
        return self._call(eq, method, xs, ufunc, params, number, sliced)

    def _reduce_method(self, eq: Equation) -> Method:
        """Return how a reduction is computed that is whole: sums of rows are products with ones."""
        if sums_rows(eq, self.target):
            return "vecdot"
        if reduces_in_transpose(eq, self.target):
            return "turned_reduce"
        return "unrolled_reduce" if unrolls(eq, self.target) else "reduce"

    def _call(
        self,
        eq: Equation,
        method: Method,
        xs: list[Operand],
        ufunc: str,
        params: Params,
        number: int,
        sliced: tuple[bool, ...],
    ) -> Call:
        out = eq.outputs[0]
        target = self._buffer(out) if out.index in self._reductions else self._target(out)
        aliases: tuple[Alias, ...] = tuple([self._between(x, target, out) for x in xs])
        state = errstate_of(eq)
        return Call(
            eq.primitive.name, method, tuple(xs), aliases, (target,), ufunc, params, False, state, number, sliced
        )

    def _between(self, x: Operand, target: Buffer, out: Var) -> Alias:
        """Tell whether an operand shares memory with the buffer that is written; a part of it is unknown."""
        if isinstance(x, Number):
            return "disjoint"
        base, written = self._base.get(x.index, x), self._base.get(target.index, target)
        if "scratch" not in (base.storage, written.storage):
            alias = self._alias(base, out) if base.index != written.index else "same"
        else:
            alias = "same" if (base.storage, base.location) == (written.storage, written.location) else "disjoint"
        return "unknown" if alias == "same" and base is not x else alias

    def _view_of_output(self, eq: Equation) -> View:
        """Compute a value that is reshaped into an output in that output's buffer."""
        source, out = eq.inputs[0], self._locate[eq.outputs[0].index]
        assert isinstance(source, Var)
        view = Buffer(source.index, source.aval.shape, source.aval.dtype, "view", out.index)
        self._base[view.index] = self._base.get(out.index, out)
        self._locate[source.index] = view
        return View(eq.primitive.name, out, view, (("shape", source.aval.shape),))

    def _reshape(self, eq: Equation, xs: list[Operand], number: int) -> Call | View:
        out, source = eq.outputs[0], xs[0]
        assert isinstance(source, Buffer)
        if out.index in self._locate:
            target = self._locate[out.index]
            alias = self._between(source, target, out)
            return Call(eq.primitive.name, "copy", (source,), (alias,), (target,), "", (), False, None, number, (True,))
        view = Buffer(out.index, out.aval.shape, out.aval.dtype, "view", source.index)
        self._locate[out.index] = view
        self._base[view.index] = self._base.get(source.index, source)
        return View(eq.primitive.name, source, view, eq.params, equation=number)

    def _target(self, out: Var) -> Buffer:
        """Return where an output goes: to its own memory where others read it, else to a free slot."""
        buffer = self._locate.get(out.index)
        if buffer is None:
            slot = self._slot_of[out.index] = self._slot(out.aval.dtype, out.aval.shape[1:] if self._rows else ())
            buffer = self._locate[out.index] = Buffer(out.index, out.aval.shape, out.aval.dtype, "scratch", slot)
        return buffer

    def _slot(self, dtype: DType, tail: Shape) -> int:
        for slot in reversed(self._free):
            if self._slots[slot] == (dtype, tail):
                self._free.remove(slot)
                return slot
        self._slots.append((dtype, tail))
        return len(self._slots) - 1


# --- Lowering

Part = TypeVar("Part", bound=Instruction)
DISJOINT: tuple[Alias, ...] = ("disjoint",)


def schedule_graph(graph: Graph, target: Target) -> Schedule:
    """Return the schedule of a graph, by all steps of the compiler."""
    groups = fuse(simplify(graph, target, expanding=True), target)
    return lower(groups, assign(groups, (), target.arena_alignment_bytes), target)


def lower(groups: Groups, buffers: BufferAssignment, target: Target) -> Schedule:
    """Select the instructions of a grouped graph.

    >>> import afx
    >>> graph = afx.trace(lambda x: afx.sin(x) + 1.0)(afx.ones(2))
    >>> print(schedule_graph(graph, Target()))
    schedule(a:float32[2]#0) {  # 64 bytes of arena
      b:float32[2]@0 = sin(a)
      c:float32[2] := add(b, 1.0)
      return c
    }
    """
    return _Lowering(groups, buffers, target).schedule()


class _Lowering:
    """The schedule so far."""

    def __init__(self, groups: Groups, buffers: BufferAssignment, target: Target) -> None:
        self.groups = groups
        self.graph = groups.graph
        self.assigned = buffers
        self.target = target
        self.instructions: list[Instruction] = []
        self._buffers: dict[int, Buffer] = {}
        self._views: dict[int, list[Buffer]] = {}
        self._inputs = {v.index: k for k, v in enumerate(self.graph.inputs)}
        self._constants = {v.index: k for k, (v, _) in enumerate(self.graph.constants)}

    def schedule(self) -> Schedule:
        """Return the whole schedule."""
        freed = self._freed()
        for k, group in enumerate(self.groups):
            if group.key is None:
                self._equation(group.equations[0], group.numbers[0])
            else:
                self._fused(group)
            if k in freed:
                gone = [self.buffer(v) for v in freed[k]]
                self.instructions.append(Free(tuple([b for g in gone for b in (g, *self._views.get(g.index, ()))])))
        return Schedule(
            tuple(map(self.buffer, self.graph.inputs)),
            tuple([(self.buffer(v), constant) for v, constant in self.graph.constants]),
            tuple(self.instructions),
            tuple(map(self._result, self.graph.outputs)),
            self.assigned.size,
            self.assigned.widest,
            Sources([eq.source for eq in self.graph.equations]),
        )

    # -- operands --
    def buffer(self, var: Var) -> Buffer:
        """Return the buffer of a variable."""
        buffer = self._buffers.get(var.index)
        if buffer is None:
            value, aval = self.assigned.values[var.index], var.aval
            storage, location = self._locate(var, value)
            buffer = Buffer(var.index, aval.shape, aval.dtype, storage, location, value.strides)
            self._buffers[var.index] = buffer
        return buffer

    def _locate(self, var: Var, value: BufferedValue) -> tuple[Storage, int]:
        index = var.index
        if value.kind == "input":
            return "input", self._inputs[index]
        if value.kind == "constant":
            return "constant", self._constants[index]
        if value.kind == "view":
            return "view", value.root
        if index in self.assigned.offsets:
            return "arena", self.assigned.offsets[index]
        if index in self.assigned.donated_to:
            return "donated", self._inputs[self.assigned.donated_to[index]]
        pooled = value.kind == "written" and value.nbytes >= self.target.pool_min_bytes
        return ("pooled" if pooled else "fresh"), 0

    def read(self, atom: Atom, shape: Shape | None = None) -> Operand:
        """Return an operand; a number is an array, of a shape where one is given."""
        if isinstance(atom, Var):
            return self._buffers.get(atom.index) or self.buffer(atom)
        return Number(atom) if shape is None or atom.aval.shape else Number(atom, "filled", shape)

    def scalars(self, atoms: Sequence[Atom]) -> tuple[Operand, ...]:
        """Return operands of an implementation: numbers stay plain."""
        return tuple([self.buffer(a) if isinstance(a, Var) else Number(a, "scalar") for a in atoms])

    def alias(self, x: Atom | Operand, out: Var) -> Alias:
        """Tell how an operand lies to the memory of an output."""
        taken = self.assigned.donated_to.get(out.index)
        if taken is None or not isinstance(x, (Var, Buffer)):
            return "disjoint"
        value = self.assigned.values[x.index]
        if value.root != taken:
            return "disjoint"
        shape = x.aval.shape if isinstance(x, Var) else x.shape
        same = value.root == x.index or value.is_row_major
        return "same" if same and shape == out.aval.shape else "unknown"

    def _freed(self) -> dict[int, list[Var]]:
        """Return large values that implementations made, by the group after which nothing reads them."""
        count, least = len(self.groups), self.target.free_min_bytes
        large = [i for i in self.assigned.intervals if i.nbytes >= least and 0 <= i.start < i.end < count]
        freed = [i for i in large if self.assigned.values[i.root].kind == "made"]
        made = {v.index: v for group in self.groups for v in group.outputs} if freed else {}
        by_group: dict[int, list[Var]] = {}
        for interval in freed:
            by_group.setdefault(interval.end, []).append(made[interval.root])
        return by_group

    # -- single equations --
    def _equation(self, eq: Equation, number: int) -> None:
        p = eq.primitive
        out = eq.outputs[0] if eq.outputs else None
        if p.lowering.control is not None:
            self._control(eq, number, p.lowering.control(eq.keywords))
        elif out is not None and self.assigned.values[out.index].kind == "view":
            self._view(eq, out, number)
        elif by_ufunc(eq):
            self._ufunc(eq, number)
        elif by_reduction(eq) and isinstance(eq.inputs[0], Var):
            self._reduction(eq, eq.inputs[0], number)
        elif writes_into(eq):
            method: Method = "into" if p.lowering.make_kernel is None else "kernel"
            self._call(eq, method, [self.read(a) for a in eq.inputs], number, params=eq.params, allocates=False)
        else:
            method = "copies" if p.multiple_results and p.lowering.may_alias else "apply"
            xs, outs = self.scalars(eq.inputs), tuple(map(self.buffer, eq.outputs))
            state = errstate_of(eq)
            self.instructions.append(
                Call(p.name, method, xs, DISJOINT * len(xs), outs, "", eq.params, True, state, number)
            )

    def _view(self, eq: Equation, out: Var, number: int) -> None:
        """Add a view: one of a constant or of the arena is made once, others in each run, and let go with their root."""
        source = eq.inputs[0]
        assert isinstance(source, Var)
        value, view = self.assigned.values[out.index], self.buffer(out)
        kind = self.assigned.values[value.root].kind
        once = kind == "constant" or value.root in self.assigned.offsets
        if not once:
            self._views.setdefault(value.root, []).append(view)
        self.instructions.append(
            View(eq.primitive.name, self.buffer(source), view, eq.params, once, value.offset, number)
        )

    def _ufunc(self, eq: Equation, number: int) -> None:
        p, out = eq.primitive, eq.outputs[0]
        few = out.aval.size <= self.target.fill_max_elements
        shape = out.aval.shape if few and materialize_scalars(eq, self.target) else None
        xs: list[Operand] = []
        for a in eq.inputs:
            xs.append(self.read(a, shape))  # noqa: PERF401  # no call of a comprehension
        method: Method = "ufunc"
        if p.lowering.ufunc is np.matmul:
            method = "dot" if lowers_to_dot(eq) else "ufunc"
            pieces = cut(eq.inputs[0].aval, eq.inputs[1].aval, out.aval, self.target)
            if pieces is not None:
                params = (("axis", pieces[0]), ("stops", pieces[1]))
                self._call(eq, "pieces", xs, number, MATMUL, params, allocates=False)
                return
        self._call(eq, method, xs, number, p.lowering.ufunc.__name__ if p.lowering.ufunc else "")

    def _reduction(self, eq: Equation, x: Var, number: int) -> None:
        """Add a reduction in the fastest form that its shape allows: products with ones, unrolled, or NumPy's own."""
        ufunc = eq.primitive.lowering.reduce_ufunc
        assert ufunc is not None
        axis: Shape = eq.keywords["axis"]
        shape, operand = x.aval.shape, self.buffer(x)
        everything = len(axis) == len(shape)
        if sums_few(eq, self.target):
            ones = _ones(x.aval, x.aval.size if everything else shape[axis[0]])
            xs: list[Operand] = [operand, ones] if everything or axis == (1,) else [ones, operand]
            self._call(eq, "flat_dot" if everything and len(shape) > 1 else "dot", xs, number)
        elif sums_rows(eq, self.target):
            self._call(eq, "vecdot", [operand, _ones(x.aval, shape[-1])], number)
        elif reduces_in_transpose(eq, self.target):
            self._call(eq, "turned_reduce", [operand], number, ufunc.__name__, eq.params)
        elif unrolls(eq, self.target):
            self._call(eq, "unrolled_reduce", [operand], number, ufunc.__name__, eq.params)
        else:
            self._call(eq, "reduce", [operand], number, ufunc.__name__, eq.params)

    def _call(
        self,
        eq: Equation,
        method: Method,
        xs: list[Operand],
        number: int,
        ufunc: str = "",
        params: Params = (),
        *,
        allocates: bool = True,
    ) -> None:
        """Append a call of NumPy, which makes small results itself if it may, and else writes into memory."""
        var, state = eq.outputs[0], errstate_of(eq)
        out = self._buffers.get(var.index) or self.buffer(var)
        if not allocates or out.storage != "fresh" or not out.shape:
            allocates = False
            if out.storage in ("fresh", "pooled", "donated"):
                self.instructions.append(Alloc(out))
        taken = var.index in self.assigned.donated_to
        aliases: tuple[Alias, ...] = tuple([self.alias(x, var) for x in xs]) if taken else DISJOINT * len(xs)
        name, operands = eq.primitive.name, tuple(xs)
        self.instructions.append(Call(name, method, operands, aliases, (out,), ufunc, params, allocates, state, number))

    # -- fused loops --
    def _fused(self, group: Group) -> None:
        for var in group.outputs:
            if self.buffer(var).storage in ("fresh", "pooled", "donated"):
                self.instructions.append(Alloc(self.buffer(var)))
        self.instructions.append(FusedLowering(group, self.buffer, self.alias, self.target).fused())

    # -- control flow --
    def _control(self, eq: Equation, number: int, spec: ControlSpec) -> None:
        xs, outs = self.scalars(eq.inputs), tuple(map(self.buffer, eq.outputs))
        name, state = eq.primitive.name, errstate_of(eq)
        if isinstance(spec, BranchSpec):
            bodies = tuple([self._body(graph, state) for graph in spec.bodies])
            self.instructions.append(Branch(name, xs[0], xs[1:], outs, bodies, state, number))
        else:
            self.instructions.append(self._loop(name, xs, outs, spec, state, number))

    def _loop(
        self, name: str, xs: tuple[Operand, ...], outs: tuple[Buffer, ...], spec: Any, errors: ErrorState, number: int
    ) -> Loop:
        """Return a scan, a loop that ends by a condition, or the way back over one, of these operands."""
        if isinstance(spec, ScanSpec):
            ends = spec.consts, spec.consts + spec.carry
            parts = xs[: ends[0]], xs[ends[0] : ends[1]], xs[ends[1] :]
            last, ys = outs[: spec.carry], outs[spec.carry :]
            body = self._body(spec.body, errors)
            return Loop(name, spec.length, None, (), *parts, last, ys, body, spec.reverse, errors, number)
        ends = spec.tests, spec.tests + spec.consts
        tests, consts, carry = xs[: ends[0]], xs[ends[0] : ends[1]], xs[ends[1] :]
        condition, body = self._body(spec.condition, errors), self._body(spec.body, errors)
        if isinstance(spec, WhileBackSpec):
            given, back = iter(carry[spec.carry :]), self._body(spec.back, errors)
            state = [_zeros(b) if zero else next(given) for b, zero in zip(outs, spec.zeros, strict=True)]
            parts = tests, consts, carry[: spec.carry]
            return Loop(name, None, condition, *parts, (), outs, (), body, False, errors, number, back, tuple(state))
        return Loop(name, None, condition, tests, consts, carry, (), outs, (), body, False, errors, number)

    def _body(self, graph: Graph, ignored: ErrorState) -> Schedule:
        body: Schedule = schedule_graph(graph, self.target)
        return _within(body, ignored) if ignored else body

    # -- results --
    def _result(self, atom: Atom) -> Result:
        """Return a result that shares memory with no buffer, argument or constant."""
        if isinstance(atom, Literal):
            return Result(Number(atom), copies=True)
        root = self.assigned.values[atom.index].root
        value = self.assigned.values[root]
        lives = value.kind in ("made", "written") and root not in self.assigned.offsets
        whole = root == atom.index or atom.aval.nbytes == value.nbytes
        return Result(self.buffer(atom), copies=not (lives and whole))


def _ones(x: Aval, length: int) -> Number:
    return Number(Literal(1.0, Aval((), x.dtype)), "filled", (length,))


def _zeros(b: Buffer) -> Number:
    return Number(Literal(b.dtype.type(0).item(), Aval((), b.dtype)), "filled", b.shape)


def _within(schedule: Schedule, ignored: Sequence[str]) -> Schedule:
    """Return a schedule without errors that its instructions need not ignore, as they are ignored around it."""
    return attrs.evolve(schedule, instructions=tuple([_instruction_within(i, ignored) for i in schedule]))


def _instruction_within(i: Instruction, ignored: Sequence[str]) -> Instruction:
    if isinstance(i, Fused):
        return attrs.evolve(i, body=tuple([_call_within(part, ignored) for part in i.body]))
    if isinstance(i, Branch):
        i = attrs.evolve(i, bodies=tuple([_within(body, ignored) for body in i.bodies]))
    elif isinstance(i, Loop):
        inner = [None if s is None else _within(s, ignored) for s in (i.condition, i.back)]
        i = attrs.evolve(i, condition=inner[0], body=_within(i.body, ignored), back=inner[1])
    return _call_within(i, ignored)


def _call_within(i: Part, ignored: Sequence[str]) -> Part:
    if not isinstance(i, Call | Loop | Branch) or not i.error_state:
        return i
    return attrs.evolve(i, error_state=tuple([name for name in i.error_state if name not in ignored]))
