"""Schedule: instructions in order on buffers with known storage, and how ops that hold graphs describe themselves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import attrs
import numpy as np

from afx.core import Aval, DType, Shape
from afx.core.graph import Atom, Constant, Graph, Literal as Scalar, name_of
from afx.core.primitive import Printable
from afx.errors import GraphError

# --- Operands: what instructions read and write, buffers with known storage and numbers, and where instructions come
# from

Alias: TypeAlias = Literal["same", "disjoint", "unknown"]
"""How the memory of an operand lies to the memory that the instruction writes.

``same``: it is the memory of an output (for an operand that is donated: it may be), element for element at the same
indices, so that each element must be read before it is written. ``disjoint``: no byte is shared. ``unknown``: bytes may
be shared in any way. Two operands that are only read may always overlap each other.
"""

Storage: TypeAlias = Literal["input", "constant", "arena", "fresh", "pooled", "donated", "view", "scratch"]
"""Where a buffer's memory comes from; it says what `Buffer.location` means.

``input``: the argument number ``location``. Its strides, alignment and owner are the caller's.
``constant``: the array number ``location`` of `Schedule.constants`. ``arena``: ``location`` bytes behind the start of
the schedule's block, row-major, aligned to 64 bytes. ``fresh``: new memory of each run, which results may be; made by
`Alloc`, or by the call itself where ``allocates`` is set; ``location`` is 0. ``pooled``: the same, by `Alloc`, from a pool
of memory whose results nobody holds any longer. ``donated``: by `Alloc`, the memory of input ``location`` where that is
writeable and row-major, else new memory. ``view``: strides over the memory of another buffer, whose `Buffer.index` is
``location``. ``scratch``: inside a `Fused` alone: an intermediate value, of which one block is kept in slot ``location`` of
`Fused.scratch`, or in no memory at all.
"""


@attrs.frozen(repr=False)
class Buffer(Printable):
    """A value in memory.

    Attributes:
        index: number of the graph's variable whose value it is; no two buffers of a schedule share one. Bodies of
            loops and branches count anew.
        shape: lengths of the axes, of the whole value also within a `Fused`.
        dtype: NumPy's dtype, in the machine's byte order.
        storage: where its memory comes from.
        location: the offset, the slot or the number that belongs to `storage`.
        strides: bytes from one element to the next along each axis; None where they are known only at run time (arguments,
            their views, and what an implementation made).
    """

    index: int
    shape: Shape
    dtype: DType
    storage: Storage
    location: int = 0
    strides: tuple[int, ...] | None = None

    @property
    def name(self) -> str:
        """The name of the graph's variable."""
        return name_of(self.index)

    @property
    def aval(self) -> Aval:
        """Shape and dtype."""
        return Aval(self.shape, self.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return self.aval.nbytes

    def __str__(self) -> str:
        location = {"arena": "@", "input": "#", "constant": "!", "scratch": "%", "donated": "^", "view": ">"}
        mark = location.get(self.storage)
        return f"{self.name}:{self.aval}{'' if mark is None else f'{mark}{self.location}'}"


class Sources(tuple[Any, ...]):
    """The lines of the user's code that made the equations of a graph, by number; they stay in this process."""

    __slots__ = ()

    def __reduce__(self) -> tuple[type[Sources], tuple[()]]:
        return Sources, ()


@attrs.frozen(repr=False)
class Number(Printable):
    """A number among the operands.

    Attributes:
        literal: its value and dtype.
        form: ``array``: an array of no axes; ``filled``: an array of `shape` that holds it everywhere; ``scalar``: a
            NumPy scalar of its dtype.
        shape: of ``filled`` ones; within a `Fused`, the shape of the whole value.
        index: that of no variable.
    """

    index: ClassVar[int] = -1
    literal: Scalar
    form: Literal["array", "filled", "scalar"] = "array"
    shape: Shape = ()

    @property
    def aval(self) -> Aval:
        """Its dtype, without axes."""
        return self.literal.aval

    @property
    def dtype(self) -> DType:
        """Its dtype."""
        return self.aval.dtype

    def __str__(self) -> str:
        return str(self.literal) if self.form != "filled" else f"{self.literal}[{','.join(map(str, self.shape))}]"


Operand: TypeAlias = Buffer | Number


# --- Schedule: the instructions that compute a graph, in order, on buffers with known storage
#
# A schedule is data alone: frozen, comparable, printable, picklable, and the same in every process for one graph and
# target. It names ops by their primitives' names and NumPy's functions by theirs, never by objects. Back ends read
# it: the NumPy back end prints it as Python, and the native one compiles `Fused`, `Loop` and `Branch`.
#
# The order of `Schedule.instructions` is the order of execution. Each buffer is written by one instruction and read
# by later ones only. Donated or reused memory is another `Buffer` with the same storage.

ErrorState: TypeAlias = "tuple[str, ...] | None"
"""The floating-point errors that ``np.errstate`` ignores around an instruction, such as ``("divide", "invalid")``.

``()`` ignores none: the caller's state holds. None stands for instructions that cannot raise any (moves, comparisons).
"""

Params: TypeAlias = "tuple[tuple[str, Any], ...]"

Method: TypeAlias = Literal[
    "ufunc", "dot", "flat_dot", "vecdot", "reduce", "turned_reduce", "unrolled_reduce", "pieces", "into", "kernel",
    "apply", "copies", "copy",
    "native",
]  # fmt: skip
"""What a call runs; ``x, y …`` are its operands in order, ``out`` its only output, ``f`` the ufunc ``Call.ufunc``.

- ``ufunc``: ``f(x, y …, out)``, broadcast as NumPy does (``matmul`` too).
- ``dot``: ``x.dot(y, out)``: a product by BLAS, also sums as products with a `Number` of ones.
- ``flat_dot``: ``x.reshape(-1).dot(y, out)``.
- ``vecdot``: ``np.vecdot(x, y, out)``: sums of rows, y are ones.
- ``reduce``: ``f.reduce(x, axis, None, out)`` with the parameter ``axis``.
- ``turned_reduce``: the same over the last axis alone, as ``f.reduce(moved, 0, None, out)`` of a row-major copy with
  the last axis in front.
- ``unrolled_reduce``: over one axis of few elements: f of the first two slices, then of that and the next one.
- ``pieces``: a product of two matrices, each piece by one ``matmul`` on one BLAS thread, in any order: parameters
  ``axis``, that of out along which it is cut (rows of x, or columns of y), and ``stops``, the ends of the pieces.
- ``into``: the primitive's ``impl_into(out, x, y …, **params)``; ``out`` overlaps no operand.
- ``kernel``: the primitive's ``make_kernel(*avals, **params)``, made once, as ``kernel(out, x, y …)``. Where the first
  operand's alias is ``same``, x is out.
- ``apply``: the primitive's ``impl(x, y …, **params)``, which makes its outputs itself.
- ``copies``: the same where the outputs are views: each is copied.
- ``copy``: ``out[...] = x`` after a reshape of x to out's shape.
- ``native``: the kernel of the number ``number``, into all outputs; the native back end puts it in place of others.
"""


class Step(Printable):
    """What instructions tell of what they run.

    Attributes:
        has_schedules: whether it runs some.
    """

    __slots__ = ()
    has_schedules: ClassVar[bool] = False

    @property
    def is_kernel(self) -> bool:
        """Whether it calls a kernel of the native back end."""
        return False

    @property
    def parts(self) -> tuple[Call | View, ...]:
        """The instructions that blocks of a space run, else none."""
        return ()

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        """The schedules that it runs."""
        return ()


@attrs.frozen(repr=False)
class Call(Step):
    """One call: ``out = op(*operands)``.

    Attributes:
        op: name of the primitive, such as ``"multiply"`` (`afx.core.primitive.lookup` gives its record).
        method: what computes it.
        operands: buffers and numbers.
        aliases: of each operand, how its memory lies to that of the outputs; ``disjoint`` for numbers.
        outputs: what it writes: one buffer but for ``apply`` and ``copies``.
        ufunc: name of the NumPy ufunc of `op` that is called or reduced by, ``""`` for other methods.
        params: the op's parameters, sorted by name.
        allocates: whether it makes the memory of its outputs itself; else it writes into theirs.
        error_state: floating-point errors that are ignored.
        equation: number of the graph's equation, where its source line is found; -1 for none.
        sliced: in a `Fused`, of each operand whether a block reads its own part of it, not all; ``()`` elsewhere.
    """

    op: str
    method: Method
    operands: tuple[Operand, ...]
    aliases: tuple[Alias, ...]
    outputs: tuple[Buffer, ...]
    ufunc: str = ""
    params: Params = ()
    allocates: bool = False
    error_state: ErrorState = ()
    equation: int = -1
    sliced: tuple[bool, ...] = ()

    @property
    def is_kernel(self) -> bool:
        """Whether it calls a kernel of the native back end."""
        return self.method == "native"

    def __str__(self) -> str:
        name = self.op if self.method in ("ufunc", "into", "apply") else f"{self.op}.{self.method}"
        marks = {"same": "=", "unknown": "?", "disjoint": ""}
        xs = [f"{marks[a]}{_short(x)}" for x, a in zip(self.operands, self.aliases, strict=True)]
        xs += [f"{key}={value}" for key, value in self.params]
        note = f"  # ignores {', '.join(self.error_state)}" if self.error_state else ""
        arrow = ":=" if self.allocates else "="
        return f"{', '.join(map(str, self.outputs))} {arrow} {name}({', '.join(xs)}){note}"


@attrs.frozen(repr=False)
class View(Step):
    """A buffer over the memory of another one; no element is read or written.

    Attributes:
        op: name of the primitive: a reshape, permutation, slice, broadcast …
        source: the buffer that is looked at.
        out: the view: `Buffer.location` is the index of the buffer that owns the memory.
        params: the op's parameters.
        once: whether it can be made once for all runs, as its memory is the arena's or a constant's.
        offset: bytes from the start of the owner's memory to the first element; None where `Buffer.strides` is.
        equation: number of the graph's equation.
    """

    op: str
    source: Buffer
    out: Buffer
    params: Params = ()
    once: bool = False
    offset: int | None = None
    equation: int = -1

    def __str__(self) -> str:
        xs = [self.source.name, *[f"{key}={value}" for key, value in self.params]]
        return f"{self.out} = view {self.op}({', '.join(xs)})"


@attrs.frozen(repr=False)
class Alloc(Step):
    """Memory for a ``fresh``, ``pooled`` or ``donated`` buffer; its elements are arbitrary."""

    buffer: Buffer

    def __str__(self) -> str:
        return f"{self.buffer} = alloc {self.buffer.storage}"


@attrs.frozen(eq=False, repr=False)
class Free(Step):
    """Buffers, and views of them, that nothing reads any longer: their memory can go before the run ends."""

    buffers: tuple[Buffer, ...]

    def __str__(self) -> str:
        return f"free {', '.join([b.name for b in self.buffers])}"


@attrs.frozen(eq=False, repr=False)
class Space(Printable):
    """What a fused loop runs over.

    Attributes:
        kind: ``elements``: each value has the shape `shape`, or none; ``rows``: the first axis of each sliced value.
        shape: of the whole: that of the values, or ``(rows,)``.
        block: elements (of the flattened values), or rows, that run together; sums over the space are sums of blocks,
            so that it decides about bits. The last block may be shorter.
    """

    kind: Literal["elements", "rows"]
    shape: Shape
    block: int

    @property
    def size(self) -> int:
        """Elements, or rows."""
        return math.prod(self.shape)

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return -(-self.size // self.block)


@attrs.frozen(eq=False, repr=False)
class Partial(Printable):
    """A reduction over the whole space: each block gives one part, then the parts are reduced along their first axis.

    Attributes:
        out: the result, one of `Fused.outputs`.
        ufunc: name of the ufunc that joins the parts: ``f.reduce(parts, 0, None, out)``, parts in the order of blocks.
    """

    out: Buffer
    ufunc: str


@attrs.frozen(eq=False, repr=False)
class Fused(Step):
    """Calls that run together, block by block, so that their values stay in the cache.

    A block computes all calls of `body` in order. It works on its own elements or rows of each buffer in `sliced`, each
    scratch value and each output that is no partial, and it reads the buffers in `whole` as wholes. Blocks depend on each
    other through `partials` alone, and may run in any order and on any thread.

    Attributes:
        space: what is cut into blocks.
        body: calls, and views that reshape a scratch value (rows keep the first axis). Shapes in them are those of the
            whole values. A call whose output is a partial reduces its block alone (along its ``axis``, or over all
            elements) and writes its part. Each has its own error state.
        sliced: buffers from outside of which a block reads its own part.
        whole: buffers from outside that each block reads as a whole.
        aliases: of each buffer in `sliced` and then `whole`, how it lies to the outputs. ``same`` stands in `sliced`
            alone: no call reads it after the first write to the output that takes its memory.
        outputs: buffers that are read elsewhere; the others are scratch.
        partials: the outputs that are reductions over the space.
        scratch: dtype and row shape (``()`` for elements) of each slot: a thread needs one block of each.
        backward: views of outputs: ``(view, output)``: a call writes into the view, a scratch value that is that
            output in another shape.
    """

    space: Space
    body: tuple[Call | View, ...]
    sliced: tuple[Buffer, ...]
    whole: tuple[Buffer, ...]
    aliases: tuple[Alias, ...]
    outputs: tuple[Buffer, ...]
    partials: tuple[Partial, ...] = ()
    scratch: tuple[tuple[DType, Shape], ...] = ()
    backward: tuple[View, ...] = ()

    @property
    def parts(self) -> tuple[Call | View, ...]:
        """The instructions of a block."""
        return self.body

    def __str__(self) -> str:
        head = f"fused over {self.space.shape} {self.space.kind}, {self.space.block} a block"
        outs = ", ".join(map(str, self.outputs))
        return f"{outs} = {head}:\n" + "\n".join([_indent(str(part)) for part in self.body])


@attrs.frozen(repr=False)
class Loop(Step):
    """A loop whose steps run one after the other: of known `length`, or as long as a `condition` holds.

    The body's inputs are, in order, `consts`, the carry, and one row of each of `xs`. Its results are the next carry
    and one row of each of `ys`. Step t reads row t of `xs` and writes row t of `ys`; t goes down where `reverse` is.

    Attributes:
        op: name of the primitive.
        length: number of steps, None for a loop that a condition ends.
        condition: a schedule of one boolean scalar, run before each step; its inputs are `tests`, then the carry.
        tests: operands of the condition alone.
        consts: operands that each step reads as they are.
        carry: operands: the first carry.
        xs: operands whose rows are walked along.
        outputs: the last carry: fresh memory that shares none with operands.
        ys: fresh memory of the stacked results.
        body: one step.
        reverse: whether rows are walked from the last to the first.
        error_state: floating-point errors that are ignored around the whole loop.
        equation: number of the graph's equation.
        back: a step back over one of the body: from `consts`, what that gave behind the carry, and what is carried back
            to the latter. It runs over all steps, the last first, and `outputs` are what is carried back in the end.
        carry_back: operands: what is carried back at first.
    """

    op: str
    length: int | None
    condition: Schedule | None
    tests: tuple[Operand, ...]
    consts: tuple[Operand, ...]
    carry: tuple[Operand, ...]
    xs: tuple[Operand, ...]
    outputs: tuple[Buffer, ...]
    ys: tuple[Buffer, ...]
    body: Schedule
    reverse: bool = False
    error_state: ErrorState = ()
    equation: int = -1
    back: Schedule | None = None
    carry_back: tuple[Operand, ...] = ()

    @property
    def bodies(self) -> tuple[Schedule, ...]:
        """One step, and one back where there is one."""
        return (self.body,) if self.back is None else (self.body, self.back)

    has_schedules = True

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        """The condition, where there is one, and the bodies."""
        return self.bodies if self.condition is None else (self.condition, *self.bodies)

    def __str__(self) -> str:
        outs = ", ".join(map(str, (*self.outputs, *self.ys)))
        parts = [(name, getattr(self, name)) for name in ("consts", "carry", "xs", "tests", "carry_back")]
        given = "; ".join([f"{name} {', '.join(map(_short, xs))}" for name, xs in parts if xs])
        steps = "while" if self.length is None else f"{self.length} {'reversed ' if self.reverse else ''}steps"
        inner = [(name, getattr(self, name)) for name in ("condition", "body", "back")]
        lines = [_indent(f"{name} {schedule}") for name, schedule in inner if schedule is not None]
        return "\n".join([f"{outs} = loop {steps} ({given})", *lines])


@attrs.frozen(eq=False, repr=False)
class Branch(Step):
    """One of several schedules is run: `cond` and `switch`.

    Attributes:
        op: name of the primitive.
        index: an integer scalar in the range of `bodies`.
        operands: the inputs of each body.
        outputs: fresh memory of the results.
        bodies: schedules of the same inputs and results.
        error_state: floating-point errors that are ignored around the body.
        equation: number of the graph's equation.
    """

    op: str
    index: Operand
    operands: tuple[Operand, ...]
    outputs: tuple[Buffer, ...]
    bodies: tuple[Schedule, ...]
    error_state: ErrorState = ()
    equation: int = -1

    has_schedules = True

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        """The bodies."""
        return self.bodies

    def __str__(self) -> str:
        outs = ", ".join(map(str, self.outputs))
        bodies = "\n".join([_indent(f"{k}: {body}") for k, body in enumerate(self.bodies)])
        return f"{outs} = branch {_short(self.index)} ({', '.join(map(_short, self.operands))})\n{bodies}"


Instruction: TypeAlias = Call | View | Alloc | Free | Fused | Loop | Branch


@attrs.frozen(repr=False)
class Result(Printable):
    """What a schedule returns for one output of its graph.

    Attributes:
        operand: the value.
        copies: whether a copy is returned, since the memory is an argument's, a constant's, a buffer's of the arena, or
            part of a larger array's.
    """

    operand: Operand
    copies: bool = False

    def __str__(self) -> str:
        return f"copy {_short(self.operand)}" if self.copies else _short(self.operand)


@attrs.frozen(repr=False)
class Schedule(Printable):
    """What a graph runs as.

    Attributes:
        inputs: the arguments, storage ``input``.
        constants: captured arrays: the buffer, and the array (read-only).
        instructions: in the order of execution.
        results: what is returned, in the order of the graph's outputs.
        arena_bytes: size of the block in which ``arena`` buffers lie.
        widest_bytes: bytes of intermediate values that are alive together at the widest point.
        sources: where equations come from, for NumPy's warnings; no part of what it computes.
    """

    inputs: tuple[Buffer, ...]
    constants: tuple[tuple[Buffer, Constant], ...]
    instructions: tuple[Instruction, ...]
    results: tuple[Result, ...]
    arena_bytes: int = 0
    widest_bytes: int = 0
    sources: Sources = attrs.field(default=Sources(), eq=False, repr=False)

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.instructions)

    def at_any_depth(self) -> Iterator[Instruction]:
        """Yield the instructions, and those of fused loops, bodies and conditions."""
        for i in self.instructions:
            yield i
            yield from i.parts
            for schedule in i.schedules if i.has_schedules else ():
                yield from schedule.at_any_depth()

    @property
    def donated(self) -> list[Buffer]:
        """The buffers that are written into memory of arguments."""
        return [i.buffer for i in self.instructions if isinstance(i, Alloc) and i.buffer.storage == "donated"]

    def depends_on_values(self) -> bool:
        """Tell whether its work does: it holds a loop that a condition ends, or a branch, at any depth."""
        return any(isinstance(i, Branch) or (isinstance(i, Loop) and i.length is None) for i in self.at_any_depth())

    def __len__(self) -> int:
        return len(self.instructions)

    def __str__(self) -> str:
        head = f"schedule({', '.join(map(str, self.inputs))}) {{  # {self.arena_bytes} bytes of arena"
        body = [_indent(f"{b} = constant") for b, _ in self.constants]
        body += [_indent(str(instruction)) for instruction in self.instructions]
        return "\n".join([head, *body, f"  return {', '.join(map(str, self.results))}", "}"])


def _short(x: Operand) -> str:
    return x.name if isinstance(x, Buffer) else str(x)


def _indent(text: str) -> str:
    return "\n".join([f"  {line}" for line in text.split("\n")])


# --- Control flow: how ops that hold graphs describe themselves, by the rule ``Lowering.control`` of their record


class ScanSpec(NamedTuple):
    """A loop of a known number of steps; operands are constants, the carry, and arrays walked along.

    Attributes:
        body: constants, carry and rows to the next carry and rows of results.
        consts: the number of constants.
        carry: the number of values that are carried.
        length: the number of steps.
        reverse: whether rows are walked from the last to the first.
    """

    body: Graph
    consts: int
    carry: int
    length: int
    reverse: bool


class WhileSpec(NamedTuple):
    """A loop that a condition ends; operands are what the condition reads, what the step reads, and the carry.

    Attributes:
        condition: its operands and the carry to a boolean scalar.
        body: constants and the carry to the next carry.
        tests: the number of operands of the condition alone.
        consts: the number of operands of the step alone.
    """

    condition: Graph
    body: Graph
    tests: int
    consts: int


class WhileBackSpec(NamedTuple):
    """A loop that a condition ends, and the way back over its steps, last first; results are what is carried back.

    Operands are those of the loop, then what is carried back: as it is before the first step back, without what
    starts as zeros.

    Attributes:
        condition: its operands and the carry to a boolean scalar.
        body: constants and the carry to the next carry, then the residuals of the step.
        back: constants, the residuals of a step, and what is carried back to the latter.
        tests: the number of operands of the condition alone.
        consts: the number of operands of the step alone.
        carry: the number of values that are carried forward.
        zeros: of each value that is carried back, whether it starts as zeros.
    """

    condition: Graph
    body: Graph
    back: Graph
    tests: int
    consts: int
    carry: int
    zeros: tuple[bool, ...]


class BranchSpec(NamedTuple):
    """One of several graphs; operands are the index and the inputs of each graph."""

    bodies: tuple[Graph, ...]


ControlSpec: TypeAlias = ScanSpec | WhileSpec | WhileBackSpec | BranchSpec


def graphs_of(spec: ControlSpec) -> list[Graph]:
    """Return the graphs that a loop or a branch holds, in order."""
    return [value for value in (spec.bodies if isinstance(spec, BranchSpec) else spec) if isinstance(value, Graph)]


def check_operands(spec: ControlSpec, operands: Sequence[Aval], where: str) -> None:
    """Verify that the operands of control flow are what its graphs take and give.

    Raises:
        GraphError: numbers that are none, or Avals that differ.
    """
    numbers = [value for value in spec if not isinstance(value, (Graph, tuple))]
    if any(type(value) not in (int, bool) or value < 0 for value in numbers):
        raise GraphError(f"check: {where} counts with what is no number: got {numbers}; trace the function again")
    _CHECKS[type(spec)](spec, list(operands), where)


def _check_scan(spec: ScanSpec, operands: list[Aval], where: str) -> None:
    head = spec.consts + spec.carry
    rows = operands[head:]
    if any(not x.shape or x.shape[0] != spec.length for x in rows):
        raise GraphError(f"check: {where} walks along {spec.length} rows: got {rows}; trace the function again")
    _check_fits(spec.body.inputs, [*operands[:head], *[Aval(x.shape[1:], x.dtype) for x in rows]], where)
    _check_fits(spec.body.outputs[: spec.carry], operands[spec.consts : head], where)


def _check_while(spec: WhileSpec | WhileBackSpec, operands: list[Aval], where: str) -> None:
    first = spec.tests + spec.consts
    last = first + spec.carry if isinstance(spec, WhileBackSpec) else len(operands)
    carry = operands[first:last]
    _check_fits(spec.condition.inputs, [*operands[: spec.tests], *carry], where)
    _check_fits(spec.condition.outputs, [Aval((), np.dtype(bool))], where)
    _check_fits(spec.body.inputs, [*operands[spec.tests : first], *carry], where)
    body = spec.body.outputs
    _check_fits(body[: len(carry)] if isinstance(spec, WhileBackSpec) else body, carry, where)


def _check_while_back(spec: WhileBackSpec, operands: list[Aval], where: str) -> None:
    _check_while(spec, operands, where)
    carried = spec.back.inputs[len(spec.back.inputs) - len(spec.zeros) :]
    given = [var for var, zero in zip(carried, spec.zeros, strict=True) if not zero]
    _check_fits(given, operands[spec.tests + spec.consts + spec.carry :], where)


def _check_branches(spec: BranchSpec, operands: list[Aval], where: str) -> None:
    if not spec.bodies or operands[0].shape or operands[0].dtype.kind not in "biu":
        raise GraphError(f"check: {where} chooses among branches by a number: got {operands[:1]}; trace it again")
    for body in spec.bodies:
        _check_fits(body.inputs, operands[1:], where)
        _check_fits(body.outputs, [atom.aval for atom in spec.bodies[0].outputs], where)


def _check_fits(atoms: Sequence[Atom], avals: Sequence[Aval], where: str) -> None:
    expected = [(atom.aval.shape, atom.aval.dtype) for atom in atoms]
    if expected != [(aval.shape, aval.dtype) for aval in avals]:
        raise GraphError(
            f"check: {where} holds a graph of other values: got {list(map(str, avals))} for "
            f"{[str(atom.aval) for atom in atoms]}; trace the function again"
        )


_CHECKS: dict[type, Callable[[Any, list[Aval], str], None]] = {
    ScanSpec: _check_scan,
    WhileSpec: _check_while,
    WhileBackSpec: _check_while_back,
    BranchSpec: _check_branches,
}
