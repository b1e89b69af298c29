"""Tiles, short rows and phases: how steps are cut for caches, for calls of NumPy's loops, and for threads."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import attrs

from afx.compiler.native_backend.llvm.nests import group_rows, is_near
from afx.compiler.native_backend.llvm.reductions import cut_rows, is_row_reduction
from afx.compiler.native_backend.lowering.memory import Item, Location, copy_nest, dense, place_memory
from afx.compiler.native_backend.program.elements import Load, Number, Op, Ref, Value
from afx.compiler.native_backend.program.interface import PARTS
from afx.compiler.native_backend.program.leaves import Nest, UfuncCall
from afx.compiler.native_backend.program.loops import Arg, BlockLoop, Body, Loop
from afx.compiler.native_backend.program.steps import Block, Leaf, Phase, RowAccess, Step
from afx.compiler.schedule.buffers import ALIGNMENT
from afx.compiler.target import NativeTarget
from afx.core import Shape
from afx.core.primitive import Printable

# --- Tiles: steps that work on rows run one after the other on a few of them, which stay in the cache
#
# Steps on the same rows run together wherever they stand, as far as nothing else comes between them. Loops over
# neighbouring rows, stencils, are tiled with overlaps: a tile computes some rows of the last loop, and of each loop
# before it these and the neighbours that are read there; rows at the edge of two tiles are computed twice, to the
# same bits::
#
#     for i in 0 .. n: a[i] = f(x[i])
#     for i in 1 .. n - 1: b[i] = g(a[i - 1], a[i + 1])
#
# becomes, in tiles of 64 rows and with an a of 66 rows in the arena::
#
#     for t in tiles:
#         for i in 64 t .. 64 t + 66: a[i - 64 t] = f(x[i])
#         for i in 64 t + 1 .. 64 t + 65: b[i] = g(a[i - 64 t - 1], a[i - 64 t + 1])


@attrs.frozen(eq=False, repr=False)
class _Part(Printable):
    """A step of a tile, which works on some of its rows: from ``first`` to ``last`` rows behind those of the tile.

    Attributes:
        step: on all of its rows.
        accesses: what it touches in each row, in the order of its memory.
        rows: how many there are.
        first: the first one beside those of the tile.
        last: the last one.
    """

    step: Step
    accesses: Sequence[RowAccess]
    rows: int
    first: int = 0
    last: int = 0


@attrs.frozen(eq=False, repr=False)
class _Rows(Printable):
    """Rows of an array that a tile reads or keeps, as in `_Part`; bytes from row to row."""

    first: int
    last: int
    pitch: int


# -- steps on the same rows --
def fuse_rows(items: Sequence[Item], rows: int, kept: Iterable[int], most: int, *, is_shared: bool) -> list[Item]:
    """Return items of which those that work row by row are joined to loops over some rows.

    Args:
        items: what runs, in order.
        rows: how many there are.
        kept: owners of memory that others read.
        most: elements of the largest value of the rows that a loop takes at once.
        is_shared: whether threads may share the rows: then no row adds to what another one has left, and what is
            elementwise alone stays as it is.
    """
    units = _single_steps(items)
    waiting = [(item, _row_accesses(item, rows)) for item in units]
    left, counts, fused = set(kept), _count_touches(units), list[Item]()
    while waiting:
        run, later, passed = _Run(rows, is_shared), list[tuple[Item, list[RowAccess] | None]](), _Touched()
        for item, accesses in waiting:
            is_free = not passed.conflicts(item)
            if is_free and accesses is not None and run.take(item, accesses):
                continue
            if is_free and not run.conflicts(item):
                fused.append(item)
            else:
                later.append((item, accesses))
                passed.add(item)
        is_worth = not all(map(_is_elementwise, run.parts)) if is_shared else len(run.parts) > 1
        outside = left | _touched_outside(run.items, counts)
        tiled = _loop_over_tiles(run.parts, rows, most, outside) if is_worth else None
        fused += run.items if tiled is None else [tiled]
        waiting = later
    return fused


def _is_elementwise(part: _Part) -> bool:
    """Tell whether the step of a part computes each element on its own."""
    return isinstance(part.step, Nest) and not part.step.folds


class _Touched:
    """The memory that some items touch."""

    def __init__(self) -> None:
        self.reads: set[int] = set()
        self.writes: set[int] = set()

    def add(self, item: Item) -> None:
        """Enter what an item touches."""
        self.reads |= item.reads
        self.writes.update(item.writes)

    def conflicts(self, item: Item) -> bool:
        """Tell whether the order of an item and of one of these decides about results."""
        are_apart = self.writes.isdisjoint(item.writes) and self.writes.isdisjoint(item.reads)
        return not are_apart or not self.reads.isdisjoint(item.writes)


class _Run(_Touched):
    """Steps that work on the same rows, one after the other; threads may share these."""

    def __init__(self, rows: int, is_shared: bool) -> None:
        super().__init__()
        self.items: list[Item] = []
        self.parts: list[_Part] = []
        self._rows, self._is_shared = rows, is_shared
        self._accesses: dict[int, list[RowAccess]] = {}  # by their memory

    def take(self, item: Item, accesses: Sequence[RowAccess]) -> bool:
        """Add a step if it may run on some rows before those of the run have run on others; tell whether it may."""
        own: dict[int, list[RowAccess]] = {}
        for a in accesses:
            own.setdefault(a.ref.root, [*self._accesses.get(a.ref.root, ())]).append(a)
        if not all(map(self._fits, own.values())):
            return False
        self._accesses |= own
        self.items.append(item)
        self.parts.append(_Part(item.steps[0], accesses, self._rows))
        self.add(item)
        return True

    def _fits(self, own: Sequence[RowAccess]) -> bool:
        """Tell whether all that touches one memory stays within its rows, or one step adds to it."""
        if not any(a.writes for a in own):
            return True
        if all(a.adds for a in own):
            return not self._is_shared and len({a.ref for a in own}) == 1 and sum([a.writes for a in own]) == 1
        return not any(a.adds or a.pitch != own[0].pitch or a.low < 0 or a.high > a.pitch for a in own)


def _count_touches(items: Iterable[Item]) -> Counter[int]:
    """Return how many items touch the memory of each owner."""
    return Counter([owner for item in items for owner in item.touched])


def _touched_outside(items: Iterable[Item], counts: Mapping[int, int]) -> set[int]:
    """Return the owners of memory that some items touch, and so do others: of each it is known how many do in all."""
    return {owner for owner, n in _count_touches(items).items() if n < counts[owner]}


def _single_steps(items: Sequence[Item]) -> list[Item]:
    """Return items of one step each, as far as they say what they read and write."""
    single: list[Item] = []
    for item in items:
        if all(isinstance(step, Leaf) for step in item.steps):
            single += [_item(step) for step in item.steps]
        else:
            single.append(item)
    return single


def _item(step: Step) -> Item:
    """Return a step as an item."""
    accesses = step.accesses()
    written = [a.ref.root for a in accesses if a.mode != "r"]
    return Item([step], {a.ref.root for a in accesses}, [*dict.fromkeys(written)])


def _row_accesses(item: Item, rows: int) -> list[RowAccess] | None:
    """Return what the step of an item reads and writes in each row; None where it is not a step of rows."""
    return item.steps[0].row_accesses(rows) if len(item.steps) == 1 else None


# -- stencils --
def tile_stencils(
    items: Sequence[Item], kept: Iterable[int], sizes: dict[int, int], limits: NativeTarget
) -> list[Item]:
    """Return items with runs of loops over large arrays as loops over tiles.

    Args:
        items: what runs, in order.
        kept: owners of memory that others read.
        sizes: bytes of each owner.
        limits: which runs are worth it.
    """
    units, left = _single_steps(items), set(kept)
    counts, touched_later = _count_touches(units), set(left)
    items_after: list[Item] = []
    end = len(units)
    while end:
        run = _run(units, end, touched_later)
        begin, roots = end - len(run), {a.ref.root for part in run for a in part.accesses}
        tiled = None
        if len(run) > 1 and sum([sizes[root] for root in roots]) >= limits.tile_min_bytes:
            outside = left | _touched_outside(units[begin:end], counts)
            tiled = _loop_over_tiles(run, run[-1].rows, limits.tile_max_elements, outside, limits.tile_min_rows)
        if tiled is None:
            begin = end - 1
        items_after.append(units[begin] if tiled is None else tiled)
        touched_later.update(*[unit.touched for unit in units[begin:end]])
        end = begin
    return items_after[::-1]


def _run(units: Sequence[Item], end: int, outside: set[int]) -> list[_Part]:
    """Return the longest run of loops up to an end that tiles can compute, each before those that read what it makes."""
    run: list[_Part] = []
    needs: dict[int, _Rows | None] = {}  # None for what no tile could compute
    written: set[int] = set()
    for k in reversed(range(end)):
        unit = units[k]
        part = _part(unit, run, needs, outside, written)
        if part is None:
            break
        run.insert(0, part)
        written |= set(unit.writes)
        for access in part.accesses:
            if not access.writes:
                _read(needs, access, part)
    return run


def _part(
    unit: Item, run: Sequence[_Part], needs: dict[int, _Rows | None], outside: set[int], written: set[int]
) -> _Part | None:
    """Return a loop as a part of tiles, None where it is none."""
    nest = unit.steps[0] if len(unit.steps) == 1 else None
    if not isinstance(nest, Nest) or nest.folds or len(nest.space) < 2:
        return None
    if not nest.operations:
        return None  # a copy, which a loop may leave out where its carry stays in place
    accesses, rows = _row_accesses(unit, nest.space[0]) or [], run[-1].rows if run else nest.space[0]
    made = [a for a in accesses if a.writes]
    changed = {a.ref.root for a in made} & {a.ref.root for a in accesses if not a.writes}
    if changed or not all(map(_is_row, made)) or written & unit.touched:
        return None  # rows at the edge of two tiles, which are computed twice, must not be changed in place
    known = [(needs[a.ref.root], a) for a in made if a.ref.root in needs]
    first = min([need.first - a.shift for need, a in known if need is not None], default=0)
    last = max([need.last - a.shift for need, a in known if need is not None], default=0)
    if any(need is None or need.pitch != a.pitch for need, a in known):
        return None
    if not known or any(a.ref.root in outside for a in made):
        is_possible = first == 0 and rows + last == nest.space[0]
    else:
        is_possible = first >= 0 and rows + last <= nest.space[0] and len(made) == len(known)
    return _Part(nest, accesses, nest.space[0], first, last) if is_possible else None


def _is_row(access: RowAccess) -> bool:
    """Tell whether a loop writes what lies within one row of an array."""
    return access.pitch > 0 and access.low >= 0 and access.high <= (access.shift + 1) * access.pitch


def _read(needs: dict[int, _Rows | None], access: RowAccess, part: _Part) -> None:
    """Note which rows a part reads."""
    root, pitch = access.ref.root, access.pitch
    known = needs.get(root, _Rows(1 << 30, -(1 << 30), pitch))
    if known is None or pitch <= 0 or known.pitch != pitch:
        needs[root] = None
        return
    first, last = part.first + access.shift, part.last + (access.high - 1) // pitch
    needs[root] = _Rows(min(known.first, first), max(known.last, last), pitch)


# -- tiles --
def _loop_over_tiles(
    parts: Sequence[_Part], rows: int, most: int, outside: Collection[int], least: int = 1
) -> Item | None:
    """Return a loop over tiles; what nobody outside reads lies in the arena of a tile. None where one tile has all rows.

    Args:
        parts: what a tile runs, in order.
        rows: how many there are.
        most: elements of the largest value in a tile.
        outside: owners of memory that others read or write.
        least: rows of a tile.
    """
    widest = max([part.step.elements // part.rows for part in parts])
    count = _even_part(rows, most // max(widest, 1))
    if not least <= count < rows:
        return None
    pairs = {(a.ref.root, a.pitch): None for part in parts for a in part.accesses}
    made = {a.ref.root: (part, a) for part in parts for a in part.accesses if a.writes}
    buffers = {
        root: _Rows(part.first + a.shift, part.last + a.shift, a.pitch)
        for root, (part, a) in made.items()
        if root not in outside and a.pitch
    }
    params = [pair for pair in pairs if pair[0] not in buffers]
    args = tuple([Arg((root,), count * pitch) for root, pitch in params])
    bodies = tuple([Body(_tile(parts, n, params, buffers), args) for n in (count, rows % count) if n])
    loop = BlockLoop(bodies, -(-rows // count), widest * rows)
    return Item([loop], {root for root, _ in params}, [root for root in made if root not in buffers], loop.arena_bytes)


def _tile(parts: Sequence[_Part], count: int, params: Sequence[tuple[int, int]], buffers: dict[int, _Rows]) -> Block:
    """Return the block that runs steps on the rows of one tile."""
    numbers, own = {pair: k for k, pair in enumerate(params)}, {root: len(params) + k for k, root in enumerate(buffers)}
    sizes = {own[root]: rows.pitch * (count + rows.last - rows.first) for root, rows in buffers.items()}

    def on_tile(part: _Part) -> Step:
        pitches = iter([a.pitch for a in part.accesses])

        def moved(ref: Ref) -> Ref:
            pitch, rows = next(pitches), buffers.get(ref.root)
            root = numbers[ref.root, pitch] if rows is None else own[ref.root]
            return attrs.evolve(ref, root=root, offset=ref.offset + (part.first - (rows.first if rows else 0)) * pitch)

        return part.step.map_refs(moved).on_rows(count + part.last - part.first, part.rows)

    return place_memory([_item(on_tile(part)) for part in parts], range(len(params)), sizes)


def _even_part(rows: int, most: int) -> int:
    """Return in parts of how many rows they are cut: at most so many, equal ones where those are not much smaller."""
    most = max(min(most, rows), 1)
    return next((n for n in range(most, most // 2, -1) if rows % n == 0), most)


# --- Short rows: loop nests that call NumPy's loops, cut where the calls stand, so that each is one call over all
# elements
#
#     for i, j in n × 3: z[i, j] = np.power(x[i, j] + 1, y[j]) * 2      # n calls of three elements
#
# becomes::
#
#     for i, j in n × 3: t[i, j], u[i, j] = x[i, j] + 1, y[j]           # operands of calls are dense
#     np.power(t, u, out=v)                                             # one call
#     for i, j in n × 3: z[i, j] = v[i, j] * 2


def turn_first(nest: Nest, temporary: Callable[[Shape, str], Location], limits: NativeTarget) -> list[Nest]:
    """Return a nest behind those that copy operands whose neighbours lie far apart along its last axis.

    Without, each of many operations would be computed one by one. Few take squares that are turned in registers.
    """
    far = [(k, ref) for k, ref in nest.loads.items() if ref.strides and not is_near(ref.strides[-1], ref, limits)]
    operations = nest.operations
    is_long = len(operations) > limits.turn_max_operations or any(op.is_function for op in operations)
    is_dense = all(ref.strides[-1:] == (ref.size,) for _, ref in nest.stores)
    if not far or not is_long or not is_dense:
        return [nest]
    nests, values = list[Nest](), list(nest.values)
    for k, ref in far:
        location = temporary(tuple([n if s else 1 for n, s in zip(nest.space, ref.strides, strict=True)]), ref.dtype)
        source = attrs.evolve(location, owner=ref.root, offset=ref.offset, strides=ref.strides)
        nests.append(copy_nest(location, source))
        values[k] = Load(location.over(nest.space))
    return [*nests, attrs.evolve(nest, values=tuple(values))]


def fold_apart(nest: Nest, temporary: Callable[[Shape, str], Location], limits: NativeTarget) -> list[Nest]:
    """Return a nest, or where it reduces functions over rows that fill no vectors one that stores these, and one that reduces.

    Groups of rows fill vectors where nothing is reduced.
    """
    reduced = {k for k, *_ in nest.folds}
    if not any(op.is_function for op in nest.operations) or not reduced:
        return [nest]
    *_, length = nest.with_merged_axes().space or (0,)
    lanes = limits.vector_bytes // max([ref.size for ref in nest.refs])
    merged = attrs.evolve(nest, folds=()).with_merged_axes()
    if length % lanes == 0 or length > lanes + lanes // 4 or (len(merged.space) > 1 and not group_rows(merged, limits)):
        return [nest]
    made = [k for k in reduced if isinstance(nest.values[k], Op)]
    memory = {k: temporary(nest.space, nest.values[k].dtype).ref for k in made}
    apart, kept = attrs.evolve(nest, stores=(*nest.stores, *memory.items()), folds=()), sorted(reduced)
    values = [Load(memory[k]) if k in memory else nest.values[k] for k in kept]
    folds = tuple([(kept.index(k), ufunc, ref) for k, ufunc, ref in nest.folds])
    return [apart, Nest(nest.space, tuple(values), (), nest.quiet, folds)]


def has_short_calls(nest: Nest, limits: NativeTarget) -> bool:
    """Tell whether a nest would call NumPy's loops for each of many short rows, and is small enough to store what they take."""
    if len(nest.space) < 2 or nest.elements > limits.call_cut_max_elements:
        return False
    if not any(op.is_loop for op in nest.operations):
        return False
    space = nest.with_merged_axes().space
    return len(space) > 1 and space[-1] < limits.call_row_min_elements


def cut_at_calls(nest: Nest, temporary: Callable[[str], Ref]) -> list[Nest]:
    """Return nests that run one after the other: of operations, and of single calls on dense memory.

    Args:
        nest: the whole.
        temporary: gives new dense memory for all elements of a dtype.
    """
    cut = _Cut(nest, temporary)
    last = max(cut.levels)
    return [made for level in range(last + 1 + last % 2) for made in cut.nests_of(level)]


class _Cut:
    """The nests of one nest, level by level: operations at even levels, calls at odd ones."""

    def __init__(self, nest: Nest, temporary: Callable[[str], Ref]) -> None:
        self.nest = nest
        self.levels = nest.levels(lambda value: value.is_loop)
        self._temporary = temporary
        self._memory: dict[int, Ref] = {}
        self._stored: set[int] = set()  # numbers of stores whose memory holds a value from the beginning
        self._later: dict[int, int] = {}  # value that is read from memory to the level that writes it
        for k, value in enumerate(nest.values):
            for arg in value.args:
                self._note(arg, k)

    def _note(self, arg: int, user: int) -> None:
        """Note that a value is stored, where another level than its own reads it, or a call that takes dense memory."""
        value, level = self.nest.values[arg], self.levels[user]
        if isinstance(value, Op) and self.levels[arg] < level:
            self._later[arg] = self.levels[arg]
        elif isinstance(value, Load) and level % 2 and value.ref.strides != dense(self.nest.space, value.ref.size):
            self._later[arg] = min(level - 1, self._later.get(arg, level))

    def _end(self, k: int) -> int:
        return self.levels[k] + self.levels[k] % 2

    def nests_of(self, level: int) -> list[Nest]:
        """Return the nests of a level, one for each call, or one of all operations with what is stored and reduced there."""
        ops = [k for k, v in enumerate(self.nest.values) if isinstance(v, Op) and self.levels[k] == level]
        if level % 2:
            return [self._make([k], [(k, self._place(k))], ()) for k in ops]
        stores = [(k, self._place(k)) for k, at in sorted(self._later.items()) if at == level]
        stores += [
            (k, ref) for n, (k, ref) in enumerate(self.nest.stores) if self._end(k) == level and n not in self._stored
        ]
        folds = tuple([fold for fold in self.nest.folds if self._end(fold[0]) == level])
        return [self._make(ops, stores, folds)] if stores or folds else []

    def _place(self, k: int) -> Ref:
        """Return the memory of a value that is read later: where it is stored anyway, or new one."""
        loaded = {ref.root for ref in self.nest.loads.values()}
        for n, (j, ref) in enumerate(self.nest.stores):
            is_whole = ref.strides == dense(self.nest.space, ref.size) and ref.root not in loaded
            if j == k and is_whole and k not in self._memory:
                self._stored.add(n)
                self._memory[k] = ref
        if k not in self._memory:
            self._memory[k] = self._temporary(self.nest.values[k].dtype)
        return self._memory[k]

    def _make(self, ops: list[int], stores: list[tuple[int, Ref]], folds: tuple[tuple[int, str, Ref], ...]) -> Nest:
        """Return a nest of some operations, which reads what others have stored."""
        values, numbers = list[Value](), dict[int, int]()
        stored = self._memory.keys() - (self.nest.loads.keys() & {k for k, _ in stores})

        def number(k: int) -> int:
            """Return the number in the new nest of one of this nest's values."""
            if k not in numbers:
                value = self.nest.values[k]
                if isinstance(value, Op) and k in ops:
                    value = attrs.evolve(value, args=tuple(map(number, value.args)))
                elif not isinstance(value, Number) and k in stored:
                    value = Load(self._memory[k])
                numbers[k] = len(values)
                values.append(value)
            return numbers[k]

        placed = tuple([(number(k), ref) for k, ref in stores])
        reduced = tuple([(number(k), ufunc, ref) for k, ufunc, ref in folds])
        return attrs.evolve(self.nest, values=tuple(values), stores=placed, folds=reduced)


# --- Phases: steps of a program that threads may run side by side, each on its own part of large loop nests
#
# A nest over many elements is cut along its first axis into as many parts, whatever the number of threads. A phase
# holds steps of which none reads or writes what a part of another one writes elsewhere; phases run one after the
# other::
#
#     for i in n: a[i] = f(x[i])
#     for i in n: b[i] = g(a[i])
#     for i in n: c[i] = a[n - 1 - i]
#
# becomes two phases, as the last loop reads what other parts write::
#
#     for p in parts, shared: for i in part p: a[i] = f(x[i]); for i in part p: b[i] = g(a[i])
#     for p in parts, shared: for i in part p: c[i] = a[n - 1 - i]


@attrs.frozen(eq=False, repr=False)
class _Bytes(Printable):
    """Bytes that a step touches: of a parameter, or of the arena (-1); ``part`` tells how a cut nest shares them out."""

    param: int
    start: int
    stop: int
    writes: bool
    part: tuple[object, ...] | None


def cut_block(block: Block, limits: NativeTarget) -> Block:
    """Return the block of a program with large steps cut, and in phases, also in the bodies of its loops."""
    base = -(-block.arena // ALIGNMENT) * ALIGNMENT
    whole = _cut_block(block, base, limits.share_min_elements, limits)
    if whole.phases:  # then other threads are there already
        whole = _cut_block(block, base, min(limits.share_min_elements, limits.share_loop_min_elements), limits)
    cut = [step.arena_bytes for step in whole.all_steps() if isinstance(step, BlockLoop) and step.is_cut]
    return attrs.evolve(whole, arena=base + PARTS * max(cut) if cut else block.arena)


def _cut_block(block: Block, arena: int, least: int, limits: NativeTarget) -> Block:
    """Return a block with steps cut that have so many elements.

    Args:
        block: of a program, or within one.
        arena: where the arenas of loops over blocks begin that are cut.
        least: how many elements they have at least, or how many nanoseconds they take.
        limits: thresholds of the others.
    """
    steps = [part for step in block.steps for part in _cut(step, arena, least, limits)]
    block = attrs.evolve(block, steps=tuple(steps))
    if not any(step.is_cut for step in steps):
        return block
    phases, start, known = list[Phase](), 0, dict[int, list[_Bytes]]()  # what steps of a phase touch, by its parameter
    for k, step in enumerate(steps):
        own = _accesses(block, step)
        if own is None:
            _close(phases, steps, start, k)
            _close(phases, steps, k, k + 1)
            start, known = k + 1, {}
            continue
        if any(_conflict(a, b) for b in own for a in known.get(b.param, ())):
            _close(phases, steps, start, k)
            start, known = k, {}
        for b in own:
            known.setdefault(b.param, []).append(b)
    _close(phases, steps, start, len(steps))
    return attrs.evolve(block, phases=tuple(phases))


def shared_rows(items: Sequence[Item], limits: NativeTarget) -> int:
    """Return how many rows the largest step has that works on rows, where it is worth cutting; 0 where there is none."""
    steps = [step for item in items for step in item.steps if len(step.row_space) > 1 and _is_large(step, limits)]
    return max([step.row_space for step in steps], key=math.prod, default=(0,))[0]


def _is_large(step: Step, limits: NativeTarget) -> bool:
    is_slow = isinstance(step, UfuncCall) and step.is_tiled and step.nanoseconds >= limits.share_min_elements
    return is_slow or math.prod(step.row_space) >= limits.share_min_elements


def _close(phases: list[Phase], steps: Sequence[Step], start: int, stop: int) -> None:
    if start < stop:
        is_shared = any(step.is_cut for step in steps[start:stop])
        if phases and not is_shared and not phases[-1].is_shared:
            start = phases.pop().start
        phases.append(Phase(start, stop, is_shared))


def _cut(step: Step, arena: int, least: int, limits: NativeTarget) -> list[Step]:
    """Return a step that is cut, and what is left of it; or a loop over such steps."""
    if isinstance(step, BlockLoop):
        is_long = step.elements >= least or step.nanoseconds >= least
        return [attrs.evolve(step, is_cut=True, arena=arena) if is_long and step.length > 1 else step]
    if is_row_reduction(step):
        return [cut_rows(step, limits) if step.elements >= least else step]
    if isinstance(step, UfuncCall):
        if step.is_tiled:
            return [attrs.evolve(step, is_cut=step.parts > 1)]
        is_long = step.nanoseconds >= least or (step.is_sum_of_products and step.elements >= least)
        return [step.in_chunks(PARTS) if is_long else step]
    if isinstance(step, Loop):
        total = step.turns * sum([block.nanoseconds for block in step.blocks()])
        if total >= limits.share_loop_min_nanoseconds:  # then smaller steps too
            least = min(least, limits.share_loop_min_elements)
        return [step.map_blocks(lambda block: _cut_block(block, arena - step.arena, least, limits))]
    if not isinstance(step, Nest) or not step.space or not _is_worth(step, least, limits):
        return [step]
    if step.folds and not step.folds_rows:
        return [step]
    if len(step.space) > 1:
        return [attrs.evolve(step, is_cut=True) if step.space[0] >= limits.share_min_rows else step]
    is_large = step.elements >= limits.share_min_elements
    return _in_chunks(step, limits.share_chunk_elements if is_large else limits.share_loop_chunk_elements)


def _is_worth(nest: Nest, least: int, limits: NativeTarget) -> bool:
    """Tell whether threads should share a nest: it has so many elements, or fewer that take as long."""
    is_slow = nest.nanoseconds >= limits.share_min_nanoseconds and nest.elements >= limits.share_slow_min_elements
    return nest.elements >= least or is_slow


def _in_chunks(nest: Nest, chunk: int) -> list[Step]:
    """Return a nest of one axis as rows of so many elements, which are cut, and what is left."""
    whole, left = divmod(nest.elements, chunk)
    steps: list[Step] = [
        attrs.evolve(
            nest.map_refs(lambda ref: attrs.evolve(ref, strides=(ref.strides[0] * chunk, ref.strides[0]))),
            space=(whole, chunk),
            is_cut=True,
        )
    ]
    if left:
        rest = nest.map_refs(lambda ref: attrs.evolve(ref, offset=ref.offset + whole * chunk * ref.strides[0]))
        steps.append(attrs.evolve(rest, space=(left,)))
    return steps


def _accesses(block: Block, step: Step) -> list[_Bytes] | None:
    """Return what a step touches, None for steps that stay alone."""
    if not isinstance(step, Nest) or step.folds:
        return None
    touched: list[_Bytes] = []
    same = dict([*block.donated, *zip(block.shared[1::2], block.shared[::2], strict=True)])
    for ref, mode in step.accesses():
        root = block.roots[ref.root]
        reach = [(n - 1) * s for n, s in zip(step.space, ref.strides, strict=True)]
        low = root.offset + ref.offset + sum([r for r in reach if r < 0])
        high = root.offset + ref.offset + sum([r for r in reach if r > 0]) + ref.size
        # elements of one part lie in one range of bytes, that of the same part of every other nest cut like this
        is_part = step.is_cut and ref.strides[0]
        part = (same.get(ref.root, ref.root), ref.offset, step.space, ref.strides) if is_part else None
        touched.append(_Bytes(same.get(root.param, root.param), low, high, mode != "r", part))
    return touched


def _conflict(a: _Bytes, b: _Bytes) -> bool:
    """Tell whether two steps may not run side by side, of bytes of one parameter that they touch."""
    if not (a.writes or b.writes) or a.stop <= b.start or b.stop <= a.start:
        return False
    return a.part is None or a.part != b.part
