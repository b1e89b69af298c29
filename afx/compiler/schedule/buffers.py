"""Buffer assignment: which memory each value of a grouped graph takes, and offsets in the arena."""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter
from typing import Any, Literal, NamedTuple, TypeAlias

import attrs
import numpy as np

from afx.compiler.schedule.fusion import Group, Groups, by_ufunc, writes_into
from afx.compiler.target import DEFAULT
from afx.core.cached import maker_of
from afx.core.graph import Equation, Var, indices_of
from afx.core.primitive import Printable

# --- Arena: offsets into one block of memory, handed out and taken back

ALIGNMENT: int = DEFAULT.arena_alignment_bytes


class Arena:
    """Hands out offsets in one block of memory and takes them back, the smallest hole that fits first.

    Attributes:
        alignment: bytes of which each offset is a multiple.
        size: bytes that the block needs.
        live: bytes that are in use now.
        widest: the most that were in use at any time.
    """

    def __init__(self, alignment: int = ALIGNMENT) -> None:
        self.alignment: int = alignment
        self.size: int = 0
        self.live: int = 0
        self.widest: int = 0
        self._holes: list[tuple[int, int]] = []  # (offset, bytes), by offset

    def take(self, nbytes: int) -> int:
        """Return the offset of a free piece."""
        need = -(-max(nbytes, 1) // self.alignment) * self.alignment
        self.live += need
        self.widest = max(self.widest, self.live)
        best = -1
        for k, (_, room) in enumerate(self._holes):
            if room >= need and (best < 0 or room < self._holes[best][1]):
                best = k
        if best >= 0:
            offset, room = self._holes.pop(best)
            if room > need:
                insort(self._holes, (offset + need, room - need))
            return offset
        if self._holes and sum(self._holes[-1]) == self.size:  # the last hole grows
            offset, _ = self._holes.pop()
        else:
            offset = self.size
        self.size = offset + need
        return offset

    def give(self, offset: int, nbytes: int) -> None:
        """Take a piece back."""
        room = -(-max(nbytes, 1) // self.alignment) * self.alignment
        self.live -= room
        insort(self._holes, (offset, room))
        k = self._holes.index((offset, room))
        if k + 1 < len(self._holes) and offset + room == self._holes[k + 1][0]:
            room += self._holes.pop(k + 1)[1]
            self._holes[k] = (offset, room)
        if k and sum(self._holes[k - 1]) == offset:
            before, width = self._holes[k - 1]
            self._holes[k - 1 : k + 1] = [(before, width + room)]


# --- Buffer assignment
#
# Four functions over one list of intervals. Alias analysis finds the values that share memory. Liveness gives the
# interval in which each buffer is needed. Donation lets results take the memory of operands that end there. Offsets
# put the rest into one block, the arena.

Kind: TypeAlias = Literal["input", "constant", "written", "made", "view"]


class BufferedValue(NamedTuple):
    """How a variable lies in memory.

    Attributes:
        kind: an argument, a constant, written into memory that it is given, made by an implementation in new memory, or
            a view of its root.
        root: the variable that owns the memory: itself, but for views.
        nbytes: bytes of its elements.
        strides: in bytes, None where they are known only at run time.
        offset: bytes from the start of the root's memory; None where strides are.
        is_all: whether it is all of its root's memory, each element once.
        is_row_major: whether it is that in row-major order.
    """

    kind: Kind
    root: int
    nbytes: int
    strides: tuple[int, ...] | None
    offset: int | None
    is_all: bool
    is_row_major: bool


class Interval(NamedTuple):
    """From when to when the memory of a root is needed.

    Attributes:
        root: the variable that owns it.
        nbytes: its size.
        start: number of the group that makes it, -1 for arguments.
        end: number of the last group that reads it or a view of it; that of all groups for what is returned.
        is_result: whether it is all of a result, which lives on after the run.
        in_arena: whether it lies in the arena.
    """

    root: int
    nbytes: int
    start: int
    end: int
    is_result: bool
    in_arena: bool


_value, _interval = maker_of(BufferedValue), maker_of(Interval)  # one of each is made for every variable
_end_of = attrgetter("end", "root")


@attrs.frozen(eq=False, repr=False)
class BufferAssignment(Printable):
    """The memory of every variable.

    Attributes:
        values: of each variable, how it lies in memory.
        intervals: of each root but constants, in the order in which they start.
        donated_to: of roots that take the memory of another one, that one: in place, or of an argument.
        offsets: of each root in the arena.
        size: bytes of the arena.
        widest: bytes that are alive together at the widest point.
    """

    values: Mapping[int, BufferedValue]
    intervals: tuple[Interval, ...]
    donated_to: Mapping[int, int]
    offsets: Mapping[int, int]
    size: int
    widest: int

    def __str__(self) -> str:
        lines = [f"{self.size} bytes of arena, {self.widest} at the widest point"]
        for index, value in self.values.items():
            location = f" @{self.offsets[index]}" if index in self.offsets else ""
            over = f" over {self.donated_to[index]}" if index in self.donated_to else ""
            of = f" of {value.root}" if value.root != index else ""
            lines.append(f"{index}: {value.kind}{of}, {value.nbytes} bytes{location}{over}")
        return "\n".join(lines)


def assign(groups: Groups, donated: Collection[int] = (), alignment: int = ALIGNMENT) -> BufferAssignment:
    """Assign memory to every value of a grouped graph.

    Args:
        groups: the graph, grouped.
        donated: positions of arguments whose memory results may take.
        alignment: bytes of which each offset in the arena is a multiple.

    >>> import afx
    >>> from afx.compiler.schedule.fusion import fuse
    >>> from afx.compiler.target import Target
    >>> graph = afx.trace(lambda x: afx.sin(afx.cos(x)) @ x)(afx.ones((8, 8)))
    >>> assign(fuse(graph, Target())).size
    256
    """
    graph = groups.graph
    values = find_aliases(groups)
    intervals = find_lifetimes(groups, values)
    given = frozenset([graph.inputs[k].index for k in donated])
    donated_to = donate(groups, values, intervals, given)
    offsets, arena = assign_offsets(intervals, donated_to, alignment)
    return BufferAssignment(values, tuple(intervals), donated_to, offsets, arena.size, arena.widest)


# -- alias analysis --
def find_aliases(groups: Groups) -> dict[int, BufferedValue]:
    """Return how each variable lies in memory: views of known strides are tried on memory that nobody touches."""
    values: dict[int, BufferedValue] = {}
    samples: dict[int, Any] = {}
    graph = groups.graph
    for var in graph.inputs:
        values[var.index] = BufferedValue("input", var.index, var.aval.nbytes, None, None, False, False)
    for var, constant in graph.constants:
        samples[var.index] = x = constant.value
        values[var.index] = BufferedValue("constant", var.index, x.nbytes, x.strides, 0, True, x.flags.c_contiguous)
    for group in groups:
        eq = group.equations[0]
        if group.key is None and eq.primitive.lowering.may_alias and _try_view(eq, values, samples):
            continue
        is_written = group.key is not None or writes_into(eq)
        for var in group.outputs:
            nbytes = var.aval.size * var.aval.dtype.itemsize
            strides = _row_major(var) if is_written and var.aval.shape else ()
            values[var.index] = _value(
                ("written", var.index, nbytes, strides, 0, True, True)
                if is_written
                else ("made", var.index, nbytes, None, None, False, False)
            )
    return values


def _row_major(var: Var) -> tuple[int, ...]:
    """Return the strides that NumPy gives a new array."""
    strides, step = list[int](), var.aval.dtype.itemsize
    for length in reversed(var.aval.shape):
        strides.append(step)
        step *= max(length, 1)
    return tuple(strides[::-1])


def _try_view(eq: Equation, values: dict[int, BufferedValue], samples: dict[int, Any]) -> bool:
    """Enter the output of an equation that may be a view of its operand, if it is: it is tried on memory of the same layout.

    Args:
        eq: the equation.
        values: how variables lie in memory, to which the output is added.
        samples: of variables with known strides, an array that lies like them.
    """
    p, source = eq.primitive, eq.inputs[0] if eq.inputs else None
    if p.multiple_results or not isinstance(source, Var):
        return False
    out, of = eq.outputs[0], values[source.index]
    if of.strides is None:  # it is known to each run, which makes the view
        values[out.index] = BufferedValue("view", of.root, out.aval.nbytes, None, None, False, False)
        return True
    sample = samples.get(source.index)
    if sample is None:
        sample = samples[source.index] = np.empty(source.aval.shape, source.aval.dtype)
    made = p.impl(sample, **eq.keywords)
    if made is not sample and not _is_view(made, sample):
        return False
    samples[out.index] = made
    assert of.offset is not None
    offset = of.offset + (made.ctypes.data - sample.ctypes.data if made.size else 0)
    is_all = made.nbytes == values[of.root].nbytes and 0 not in made.strides
    values[out.index] = BufferedValue(
        "view", of.root, made.nbytes, made.strides, offset, is_all, is_all and made.flags.c_contiguous
    )
    return True


def _is_view(x: Any, of: Any) -> bool:
    """Tell whether an array looks into the memory of another one; without elements, whether it looks into any."""
    return x.base is not None and (not x.size or np.may_share_memory(x, of))


# -- liveness --
def find_lifetimes(groups: Groups, values: Mapping[int, BufferedValue]) -> list[Interval]:
    """Return the interval of each root, in the order in which they start."""
    last: dict[int, int] = {}
    for k, group in enumerate(groups):
        for var in group.inputs:
            last[values[var.index].root] = k
    results = set[int]()
    for atom in groups.graph.outputs:
        if isinstance(atom, Var):
            value = values[atom.index]
            last[value.root] = len(groups)
            if value.is_all and values[value.root].kind == "written":
                results.add(value.root)
    starts = [(var, -1) for var in groups.graph.inputs]
    starts += [(var, k) for k, group in enumerate(groups) for var in group.outputs]
    intervals: list[Interval] = []
    for var, start in starts:
        value = values[var.index]
        if value.root == var.index:
            is_result = var.index in results
            in_arena = value.kind == "written" and not is_result
            end = last.get(var.index, start)
            intervals.append(_interval((var.index, value.nbytes, start, end, is_result, in_arena)))
    return intervals


# -- donation --
def donate(
    groups: Groups, values: Mapping[int, BufferedValue], intervals: Sequence[Interval], donated: Collection[int]
) -> dict[int, int]:
    """Return which roots are written into the memory of an operand that ends there: a buffer's, or an argument's."""
    of = {interval.root: interval for interval in intervals}
    roots: dict[int, int] = {}
    for k, group in enumerate(groups):
        ending = set[int]()
        for v in group.inputs:
            interval = of.get(values[v.index].root)
            if interval is not None and interval.end == k:
                ending.add(interval.root)
        for var in group.outputs:
            if not ending or values[var.index].kind != "written" or var.aval.size == 1:
                continue  # a single number never is: NumPy takes four times as long where operand and result are one
            free = {r for r in ending if of[r].in_arena} if of[var.index].in_arena else ending.intersection(donated)
            if not free:
                continue
            root = _operand_to_overwrite(group, var, free, values)
            if root >= 0:
                roots[var.index] = root
                ending.discard(root)
    return roots


def _operand_to_overwrite(group: Group, out: Var, free: Collection[int], values: Mapping[int, BufferedValue]) -> int:
    """Return the root of an operand that the group may overwrite with an output, or -1."""
    if group.key is not None:
        return _of_group(group, out, free, values)
    eq = group.equations[0]
    first = eq.inputs[0]
    if eq.primitive.lowering.updates_first_operand and isinstance(first, Var) and first not in eq.inputs[1:]:
        operands = [first]
    elif eq.primitive.is_elementwise and by_ufunc(eq):
        operands = group.inputs
    else:
        return -1
    for v in operands:
        if values[v.index].root in free and _fits(v, out, values):
            return values[v.index].root
    return -1


def _fits(operand: Var, out: Var, values: Mapping[int, BufferedValue]) -> bool:
    """Tell whether an operand is a whole piece of memory that the output could take."""
    value = values[operand.index]
    if values[value.root].kind == "input":
        return operand.index == value.root and operand.aval == out.aval
    return value.is_row_major and value.nbytes == out.aval.nbytes and operand.aval.shape == out.aval.shape


def _of_group(group: Group, out: Var, free: Collection[int], values: Mapping[int, BufferedValue]) -> int:
    """Return such a root that the group reads for the last time before, or as, it writes the output."""
    at = group.first_write(out)
    rest = group.equations[at + 1 :] if by_ufunc(group.equations[at]) else group.equations[at:]
    views = [eq for eq in group.equations if eq.primitive.lowering.may_alias]
    later = indices_of([a for eq in (*rest, *views) for a in eq.inputs])
    later |= {v.index for v in group.whole}
    roots = [values[v.index].root for v in group.inputs]
    for var, root in zip(group.inputs, roots, strict=True):
        if root in free and roots.count(root) == 1 and var.index not in later and _fits(var, out, values):
            return root
    return -1


# -- offsets --
def assign_offsets(
    intervals: Sequence[Interval], donated_to: Mapping[int, int], alignment: int = ALIGNMENT
) -> tuple[dict[int, int], Arena]:
    """Return the arena's offset of each root that lies in it, and the arena's size."""
    arena, offsets = Arena(alignment), dict[int, int]()
    taken = set(donated_to.values())
    starting = [interval for interval in intervals if interval.in_arena]
    ending = sorted([i for i in starting if i.root not in taken], key=_end_of)
    k = 0
    for interval in starting:
        while k < len(ending) and ending[k].end < interval.start:
            arena.give(offsets[ending[k].root], ending[k].nbytes)
            k += 1
        if interval.root in donated_to:
            offsets[interval.root] = offsets[donated_to[interval.root]]
        else:
            offsets[interval.root] = arena.take(interval.nbytes)
    return offsets, arena
