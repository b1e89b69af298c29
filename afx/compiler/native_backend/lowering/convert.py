"""Lowering of schedules to native programs: calls that fuse become loop nests, the others calls of NumPy's loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from afx.compiler.native_backend.functions.table import rewrite
from afx.compiler.native_backend.lowering.complex_loops import compute_inline
from afx.compiler.native_backend.lowering.memory import (
    Group,
    Item,
    Location,
    Recipe,
    copy_nest,
    dense,
    dtype_name,
    made_by,
    of_array,
    part_of,
    place_memory,
    recipe_of,
    with_views_first,
)
from afx.compiler.native_backend.lowering.tiles import (
    cut_at_calls,
    fold_apart,
    fuse_rows,
    has_short_calls,
    shared_rows,
    tile_stencils,
    turn_first,
)
from afx.compiler.native_backend.program.elements import Load, Number, Op, Ref
from afx.compiler.native_backend.program.leaves import Nest
from afx.compiler.native_backend.program.steps import Block, Step
from afx.compiler.schedule.schedule import Buffer, Instruction, Operand, Schedule
from afx.compiler.target import DEFAULT, NativeTarget, Target
from afx.core import Shape, lookup
from afx.core.primitive import Printable
from afx.core.scalar_ops import COMPLEX


class UnsupportedError(Exception):
    """An instruction without native form; the message says why."""


@attrs.frozen(eq=False, repr=False)
class Converted(Printable):
    """A block, the arrays that it captured, and the sizes of its arena."""

    block: Block
    constants: tuple[Any, ...]


class BlockBuilder:
    """Builds the block of one schedule."""

    def __init__(
        self,
        schedule: Schedule,
        forms: Mapping[type[Any], Callable[[BlockBuilder, Any], None]],
        target: Target = DEFAULT,
    ) -> None:
        self.schedule = schedule
        self.target: Target = target
        self.tier: int = target.tier
        self.limits: NativeTarget = target.native
        self.items: list[Item] = []
        self._recipes: dict[int, Recipe] = {}  # of values that are made again, by the index of their buffer
        self._groups: dict[Shape, list[tuple[int, Group]]] = {}  # by their space, with their numbers
        self.locations: dict[int, Location] = {}  # buffer index to where it lies in the memory of its owner
        self.defined: dict[int, int] = {}  # owner to the item that writes it
        self.stored: set[int] = set()  # owners that are read from memory
        self.sizes: dict[int, int] = {}
        self.constants: list[Any] = []
        self.constant_owners: list[int] = []
        self._forms = forms
        self._rows = 0  # along the first axis of a block of a fused space
        self._fresh = -1
        self.multiplications = 0  # of its products so far
        self._taken: set[int] = set()  # owners of results
        self._filled: dict[Any, Location] = {}
        for buffer in schedule.inputs:
            self.own(buffer.index, buffer.shape, dtype_name(buffer.dtype))
        for buffer, constant in schedule.constants:
            self.locations[buffer.index] = self.constant(constant.value)

    def within(self, schedule: Schedule, given: Sequence[Location], rows: int) -> BlockBuilder:
        """Return a builder of a block in this one, whose inputs lie like these; ``rows`` says how many rows they have."""
        inner = BlockBuilder(schedule, self._forms, self.target)
        inner._rows = rows
        for buffer, location in zip(schedule.inputs, given, strict=True):
            inner.locations[buffer.index] = attrs.evolve(location, owner=buffer.index)
        return inner

    # -- values --
    def dtype(self, buffer: Buffer) -> str:
        """Return the name of a buffer's dtype."""
        return dtype_name(buffer.dtype)

    def own(self, index: int, shape: Shape, dtype: str) -> Location:
        """Enter memory of its own, dense in row-major order."""
        location = Location(index, 0, dense(shape, int(dtype[1:])), shape, dtype)
        self.locations[index] = location
        self.sizes[index] = location.nbytes
        return location

    def own_buffer(self, buffer: Buffer) -> Location:
        """Enter memory of a buffer's own."""
        return self.own(buffer.index, buffer.shape, self.dtype(buffer))

    def temporary(self, shape: Shape, dtype: str) -> Location:
        """Return new memory."""
        return self.own(self.fresh(), shape, dtype)

    def fresh(self) -> int:
        """Return an index that no buffer has."""
        self._fresh -= 1
        return self._fresh

    def constant(self, array: Any) -> Location:
        """Return the memory of a captured array."""
        value = np.ascontiguousarray(array).reshape(array.shape)
        location = self.temporary(value.shape, dtype_name(value.dtype))
        self.constants.append(value)
        self.constant_owners.append(location.owner)
        return location

    def location(self, x: Operand) -> Location:
        """Return where an operand lies; a number is a captured array."""
        if isinstance(x, Buffer):
            self.dtype(x)
            location = self.locations[x.index]
            self.stored.add(location.owner)
            return location
        key = (x.literal, x.shape if x.form == "filled" else ())
        if key not in self._filled:
            self._filled[key] = self.constant(np.full(key[1], x.literal.value, x.dtype))
        return self._filled[key]

    def dense(self, x: Operand) -> Location:
        """Return where an operand lies densely, copied where it does not."""
        location = self.location(x)
        if location.strides == dense(location.shape, int(location.dtype[1:])):
            return location
        return self.copied(location)

    def copied(self, x: Location) -> Location:
        """Return a dense copy."""
        copy = self.temporary(x.shape, x.dtype)
        self.fixed([copy_nest(copy, x)], [x], [copy])
        return copy

    def is_row_major(self, location: Location) -> bool:
        """Tell whether NumPy's axes lie in order there, so that results like it, and copies, are dense in row-major order."""
        steps = [abs(s) for s, n in zip(location.strides, location.shape, strict=True) if n > 1]
        return steps == sorted(steps, reverse=True)

    def ordered(self, x: Operand) -> Location:
        """Return where an operand lies whose order of elements in memory decides about NumPy's bits."""
        location = self.location(x)
        self.check_order(location)
        return location

    def check_order(self, location: Location) -> None:
        """Raise where a location is not in row-major order, and NumPy's bits are wanted."""
        if self.tier == 1 and not self.is_row_major(location):
            raise UnsupportedError("an array that is not in row-major order where that decides about bits")

    # -- steps --
    def fixed(
        self, steps: Sequence[Step], reads: Sequence[Location], writes: Sequence[Location], arena: int = 0
    ) -> None:
        """Add steps that run at this point, but for those that have no element to work on."""
        item = Item(
            [step for step in steps if not step.is_void], {p.owner for p in reads}, [p.owner for p in writes], arena
        )
        self.stored |= item.reads | set(item.writes)
        for p in writes:
            self.defined[p.owner] = len(self.items)
        self.items.append(item)

    def elementwise(
        self,
        out: Buffer,
        operands: Sequence[Operand],
        quiet: tuple[str, ...] | None,
        make: Callable[[Group, list[int]], int],
    ) -> None:
        """Add a call to the last group of its space that runs behind its operands, or to a new one."""
        space = out.shape
        owner = self.own_buffer(out).owner
        for x in operands:
            if isinstance(x, Buffer):
                self.dtype(x)
        k, group = self.group_of(space, operands, quiet)
        group.made[out.index] = make(group, [self.value(group, k, x) for x in operands])
        self._recipes |= recipe_of(out, operands, quiet, make, self._recipes)
        group.writes.append(owner)
        self.defined[owner] = k

    def store_into(self, part: Location, x: Operand) -> bool:
        """Have the loop that makes a value write it to a location too; tell whether there is such a loop."""
        if not isinstance(x, Buffer) or (x.shape, dtype_name(x.dtype)) != (part.shape, part.dtype):
            return False
        if not self.is_elementwise(x):
            return False
        group = self.items[self.defined[self.locations[x.index].owner]]
        assert isinstance(group, Group)
        group.parts.append((group.made[x.index], part.ref))
        group.writes.append(part.owner)
        return True

    def group_of(
        self, space: Shape, operands: Sequence[Operand], quiet: tuple[str, ...] | None, reduced: tuple[bool, ...] = ()
    ) -> tuple[int, Group]:
        """Return the last group of a space that runs behind operands and has room, or a new one, with its number.

        Args:
            space: lengths of the axes.
            operands: what the group reads.
            quiet: the floating-point errors that it ignores; None for what raises none.
            reduced: of a reduction, which axes it reduces.
        """
        first = self._first_behind(operands, space)
        groups = self._groups.setdefault(space, [])
        for k, group in reversed(groups):
            if k < first:
                break
            if len(group.values) > self.limits.nest_max_values:
                continue
            if any(tuple([s == 0 for s in ref.strides]) != reduced for *_, ref in group.folds if reduced):
                continue
            streams = len(group.reads) + len(self.stored.intersection(group.writes))
            if (streams < self.limits.nest_max_streams or not space) and (
                quiet is None or group.quiet in (None, quiet)
            ):
                group.quiet = group.quiet if quiet is None else quiet
                return k, group
        groups.append((len(self.items), Group(space=space, quiet=quiet)))
        self.items.append(groups[-1][1])
        return groups[-1]

    def _first_behind(self, operands: Sequence[Operand], space: Shape) -> int:
        """Return the number of the first item that can read operands."""
        first = 0
        for x in operands:
            if isinstance(x, Buffer):
                location = self.locations[x.index]
                at = self.defined.get(location.owner, -1)
                first = max(first, at if self._is_made_in(at, x) and location.shape == space else at + 1)
        return first

    def is_elementwise(self, x: Operand) -> bool:
        """Tell whether a loop over elements computes a value."""
        return isinstance(x, Buffer) and self._is_made_in(self.defined.get(self.locations[x.index].owner, -1), x)

    def _is_made_in(self, k: int, x: Buffer) -> bool:
        """Tell whether an item is a group that computes a value, element by element."""
        group = self.items[k] if k >= 0 else None
        return isinstance(group, Group) and x.index in group.made

    def value(self, group: Group, k: int, x: Operand) -> int:
        """Return the number that an operand has in the group ``k``."""
        if not isinstance(x, Buffer):
            return group.add(Number(x.literal.value, dtype_name(x.dtype)))
        location = self.locations[x.index]
        if self.defined.get(location.owner) == k and self._is_made_in(k, x) and location.shape == group.space:
            return group.made[x.index]
        if x.index in self._recipes and location.owner not in self.stored and location.shape == group.space:
            return self._recipes[x.index](group, lambda v: self.value(group, k, v))
        self.stored.add(location.owner)
        group.reads.add(location.owner)
        return group.add(Load(location.over(group.space)))

    # -- instructions --
    def build(self, is_shared: bool = False, ordered: int | None = None) -> Converted:
        """Return the block, of which threads may share loops over rows.

        Args:
            is_shared: whether they may.
            ordered: of how many results, the first ones, the order of elements in memory counts; None for all. Of the
                others NumPy's plan makes dense copies, as of what a loop stacks.

        Raises:
            UnsupportedError: an instruction has no native form.
        """
        for instruction in with_views_first(self.schedule.instructions):
            self.lower(instruction)
        outputs = [
            self._output(result.operand, is_ordered=not result.copies and (ordered is None or k < ordered))
            for k, result in enumerate(self.schedule.results)
        ]
        inputs = [b.index for b in self.schedule.inputs]
        for item in self.items:
            if isinstance(item, Group):
                self._close(item)
        params = [*inputs, *outputs, *self.constant_owners]
        rows = shared_rows(self.items, self.limits) if is_shared else self._rows
        if rows:
            self.items = fuse_rows(self.items, rows, params, self.limits.rows_max_elements, is_shared=is_shared)
        elif not is_shared:
            self.items = tile_stencils(self.items, params, self.sizes, self.limits)
        return Converted(place_memory(self.items, params, self.sizes), tuple(self.constants))

    def reason(self, instruction: Instruction) -> str:
        """Add an instruction; return why it has no native form, and take its results for given then."""
        try:
            self.lower(instruction)
        except UnsupportedError as reason:
            for b in made_by(instruction):
                if b.index not in self.locations:
                    self.own(b.index, b.shape, dtype_name(b.dtype))
            return str(reason)
        return ""

    def lower(self, instruction: Instruction) -> None:
        """Add an instruction."""
        form = self._forms.get(type(instruction))
        if form is not None:
            form(self, instruction)

    def look(self, out: Buffer, op: str, params: Any, source: Location) -> bool:
        """Look at memory as NumPy does: the op is tried on an array of the source's strides; tell whether it is a view."""
        x = of_array(source)
        z = lookup(op).impl(x, **dict(params))
        if z is not x and not np.may_share_memory(x, z):
            return False
        self.dtype(out)
        self.locations[out.index] = part_of(source, x, z)
        return True

    def take_part(self, out: Buffer, source: Buffer) -> None:
        """Have the loop that makes complex numbers give a part of them, which is looked at, to what joins that loop."""
        whole, part = self.locations[source.index], self.locations[out.index]
        if whole.dtype in COMPLEX and part.dtype not in COMPLEX and self.is_elementwise(source):
            group = self.items[self.defined[whole.owner]]
            assert isinstance(group, Group)
            which = (part.offset - whole.offset) // int(part.dtype[1:])
            group.made[out.index] = group.add(Op(f"part.{which}", part.dtype, (group.made[source.index],)))

    def _output(self, x: Operand, *, is_ordered: bool) -> int:
        """Return the owner of a result's memory, copied where it is not its own."""
        location = self.ordered(x) if is_ordered else self.location(x)
        whole = (
            location.strides == dense(location.shape, int(location.dtype[1:]))
            and location.nbytes == self.sizes[location.owner]
        )
        known = {b.index for b in self.schedule.inputs} | set(self.constant_owners) | self._taken
        if whole and location.owner not in known:
            self._taken.add(location.owner)
            return location.owner
        copy = self.copied(location)
        self._taken.add(copy.owner)
        return copy.owner

    def _close(self, group: Group) -> None:
        """Make the nest of a group, which stores what is read from memory."""
        stores: list[tuple[int, Ref]] = []
        for index, k in group.made.items():
            location = self.locations[index]
            if location.owner in self.stored and index == location.owner:  # and no part of a complex number
                stores.append((k, location.ref))
        stores += group.parts
        group.writes = [ref.root for _, ref in stores]
        nest = Nest(group.space, tuple(group.values), tuple(stores), group.quiet or (), tuple(group.folds))
        if self.target.backend != "portable" and not self.target.cpu:
            nest = compute_inline(nest)
        group.writes += [ref.root for *_, ref in group.folds]
        if self.tier > 1:
            nest = rewrite(nest, self.target.backend == "portable")
        if (stores or group.folds) and not nest.is_void:
            group.steps = self._cut(group, nest)

    def _cut(self, group: Group, nest: Nest) -> list[Step]:
        """Return a nest behind those that copy what it reads, or several that call NumPy's loops for all elements at once."""

        def temporary(shape: Shape, dtype: str) -> Location:
            location = self.temporary(shape, dtype)
            group.writes.append(location.owner)
            return location

        *copies, nest = turn_first(nest, temporary, self.limits)
        nests = fold_apart(nest, temporary, self.limits)
        if len(nests) > 1 or not has_short_calls(nest, self.limits):
            return [*copies, *nests]
        return [*copies, *cut_at_calls(nest, lambda dtype: temporary(nest.space, dtype).ref)]
