"""Leaves of native programs: fused loop nests, calls of NumPy's loops, products, and routines of their own."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import attrs

from afx.compiler.native_backend.program.elements import (
    Access,
    Load,
    Mode,
    Names,
    Op,
    Orders,
    Ref,
    UfuncLoop,
    Value,
    axis_names,
)
from afx.compiler.native_backend.program.steps import Leaf, RowAccess, join_lengths, merged
from afx.compiler.target import NativeTarget
from afx.core import Shape
from afx.core.scalar_ops import ADD, MAXIMUM, MINIMUM, MULTIPLY, scalar_op

# --- Loop nests: fused elementwise operations over one iteration space, with reductions of what they compute


@attrs.frozen(repr=False)
class Nest(Leaf):
    """Fused elementwise operations over one iteration space.

    Attributes:
        space: lengths of the axes, neighbours merged as far as all strides allow.
        values: what is computed for each element, operands before their use.
        stores: which values are written, and where.
        quiet: floating-point warnings that its equations ignore.
        folds: values that are reduced, by which ufunc, and where to: strides are 0 along reduced axes.
        is_cut: whether it runs part by part, along its first axis.
    """

    space: Shape
    values: tuple[Value, ...]
    stores: tuple[tuple[int, Ref], ...]
    quiet: tuple[str, ...] = ()
    folds: tuple[tuple[int, str, Ref], ...] = ()
    is_cut: bool = False

    def accesses(self) -> list[Access]:
        """Return values that are loaded, stores, folds."""
        loads = [Access(ref, "r") for ref in self.loads.values()]
        return [*loads, *[Access(ref, "w") for _, ref in self.stores], *[Access(ref, "w") for *_, ref in self.folds]]

    def map_refs(self, change: Callable[[Ref], Ref]) -> Nest:
        """Return the nest with other memory, changed in the order of its accesses."""
        values = tuple([Load(change(v.ref)) if isinstance(v, Load) else v for v in self.values])
        stores = tuple([(k, change(ref)) for k, ref in self.stores])
        folds = tuple([(k, ufunc, change(ref)) for k, ufunc, ref in self.folds])
        return attrs.evolve(self, values=values, stores=stores, folds=folds)

    def place(self, numbers: Mapping[int, int], arena: int) -> Nest:  # it has none
        """Return the nest in its block, with neighbouring axes joined over which all operands walk evenly."""
        return self.with_roots(numbers).with_merged_axes()

    def with_merged_axes(self) -> Nest:
        """Return the same with neighbouring axes joined over which all operands walk evenly."""
        space, strides = merged(self.space, [ref.strides for ref in self.refs])
        left = iter(strides)
        merged_nest = self.map_refs(lambda ref: attrs.evolve(ref, strides=next(left)))
        return attrs.evolve(merged_nest, space=space)

    @property
    def parts(self) -> int:
        """Number of parts that it can be cut into."""
        return self.space[0]

    @property
    def folds_rows(self) -> bool:
        """Whether none of its folds reduces the first axis: then rows are apart."""
        return bool(self.space) and all(ref.strides[0] for *_, ref in self.folds)

    @property
    def loads(self) -> dict[int, Ref]:
        """The memory that it reads, by the number of the value."""
        return {k: v.ref for k, v in enumerate(self.values) if isinstance(v, Load)}

    @property
    def operations(self) -> list[Op]:
        """What it computes; nothing, where it copies."""
        return [v for v in self.values if isinstance(v, Op)]

    def levels(self, is_apart: Callable[[Value], bool]) -> list[int]:
        """Return of each value in which loop it is computed: operations at even levels, those that stand apart at odd ones."""
        levels: list[int] = []
        for value in self.values:
            calls = is_apart(value)
            level = int(calls)
            for k in value.args:
                odd = is_apart(self.values[k])
                level = max(level, levels[k] + (odd != calls) + 2 * (odd and calls))
            levels.append(level)
        return levels

    @property
    def may_fault(self) -> bool:
        """Whether floats become integers, which may be out of range."""
        return any(op.name == "cast" and self._drops_digits(op) for op in self.operations)

    def _drops_digits(self, op: Op) -> bool:
        return self.values[op.args[0]].dtype[0] == "f" and op.dtype[0] in "iu"

    @property
    def nanoseconds(self) -> float:
        """About how long it takes."""
        return 5 + self.elements * (0.1 * len(self.values) + sum([op.is_call for op in self.operations]))

    @property
    def loops(self) -> Iterator[UfuncLoop]:
        """The loops of NumPy that it calls."""
        return iter([op.loop for op in self.operations if op.loop is not None])

    @property
    def called_roots(self) -> set[int]:
        """The roots that functions read."""
        called = {k for op in self.operations if op.is_call for k in op.args}
        return {ref.root for k, ref in self.loads.items() if k in called}

    def is_written_out(self, limits: NativeTarget) -> bool:
        """Tell whether it copies, is short, or runs over vectors."""
        few = limits.passes_few_folded_elements if self._has_lanes else limits.passes_few_elements
        return not self.operations or self.elements <= few or self.is_dense(limits)

    def is_dense(self, limits: NativeTarget) -> bool:
        """Tell whether its rows are long, and their elements neighbours."""
        row = limits.passes_fold_row_min_elements if self._has_lanes else limits.passes_row_min_elements
        is_long = bool(self.space) and self.space[-1] >= row
        return is_long and all([ref.strides[-1] in (0, ref.size) for ref in self.refs])

    @property
    def _has_lanes(self) -> bool:
        return any(ref.strides and not ref.strides[-1] for *_, ref in self.folds)

    def lines(self, names: Names, arena: int) -> list[str]:  # of loops over blocks
        """Return the loop over its elements."""
        body = self._inside(names)
        if not self.space:
            return body
        notes = [f"ignores {', '.join(self.quiet)}"] if self.quiet else []
        notes += ["shared by threads"] if self.is_cut else []
        comment = f"  # {', '.join(notes)}" if notes else ""
        axes = ", ".join(axis_names(len(self.space)))
        return [f"for {axes} in {join_lengths(self.space)}:{comment}", *["    " + line for line in body]]

    def _inside(self, names: Names) -> list[str]:
        """Return the lines of one element: values that are used more than once have names of their own."""
        rank, texts, lines = len(self.space), [""] * len(self.values), list[str]()
        ends = {k for k, _ in self.stores} | {k for k, *_ in self.folds}
        uses = [sum([k in op.args for op in self.operations]) for k in range(len(self.values))]
        for k, value in enumerate(self.values):
            text = value.text(texts, names, rank)
            if isinstance(value, Op) and (uses[k] > 1 or (k in ends and uses[k]) or len(text) > 60):
                lines.append(f"t{k} = {text}")
                text = f"t{k}"
            texts[k] = text
        lines += [f"{ref.text(names, rank)} = {texts[k]}" for k, ref in self.stores]
        for k, ufunc, ref in self.folds:
            axes = [axis for axis, stride in zip(axis_names(rank), ref.strides, strict=True) if not stride]
            along = ", ".join(axes) or "nothing"
            order = "one after the other" if ref.strides and ref.strides[-1] else "in 32 lanes"
            lines.append(f"{ref.text(names, rank)} = {scalar_op(ufunc).fold} of {texts[k]}  # along {along}, {order}")
        return lines


# --- Leaves of native programs beside loop nests: NumPy's loops, products, and routines of their own

TRANSFORMS_TOGETHER = 16  # at most, in a vector of NumPy's loops

# Which core axes operands have, by the numbers of their lengths
ADDED_UP = ((0,), (0,), ())  # of products of vectors
MULTIPLIED = ((0, 1), (1, 2), (0, 2))  # of matrices
TRANSFORMED = ((0,), (), (1,))  # by Fourier transforms, with a factor
SORTED = (((0,),), ((0,), (0,)))  # rows, and the indices that sort them


@attrs.frozen(repr=False)
class UfuncCall(Leaf):
    """Call of a ufunc's loop on strided operands, or the same product in tiles; a reduction where the result has strides of 0.

    Of a generalized ufunc, such as ``np.matmul``, operands have core axes beside those of the space. A function that sorts
    takes a row, and its indices where it has two operands.

    Attributes:
        loop: the loop; None for tiles.
        space: lengths of the axes, of which the last one is the loop's own; of core calls where there are core axes.
        operands: in the order of the loop.
        quiet: floating-point warnings that it ignores.
        cores: of each operand the core axes, by the numbers of their lengths; none of a ufunc of elements.
        lengths: of the core axes.
        core_strides: strides of the core axes, operand by operand.
        refuses: whether it marks operands without a result as invalid operations: a fault, as NumPy raises then.
        axis: along what it is cut, of what its loop is told: core calls (0), or the last rows or columns of the result of a
            product; a reduction of rows along these.
        stops: where its chunks end, one after the other or by several threads; none for one chunk.
        is_cut: whether it runs chunk by chunk.
        changes: how many of its operands it changes, from the first one on.
        outputs: how many of its operands are results, to the last one.
        orders: how its elements are added up, where they are computed without a call.
        is_read_whole: whether what reads the result of such a one takes several of its rows at once.
        has_work: whether its last operand is memory that a standalone loop works in.
        unstable: what sorts rows without equal elements in place of a stable loop.
        added: of tiles along how many axes of terms, from the first one on, sums are added up that are chains by themselves.
        ends: where such a chain ends and the next one begins, of all terms along the other axes.
        panel: how many columns of its second operand, those of a tile, are neighbours, and bytes to the next ones; none for
            all of them.
    """

    loop: UfuncLoop | None
    space: Shape
    operands: tuple[Ref, ...]
    quiet: tuple[str, ...] = ()
    cores: tuple[Shape, ...] = ()
    lengths: Shape = ()
    core_strides: Shape = ()
    refuses: bool = False
    axis: int = 0
    stops: Shape = ()
    is_cut: bool = False
    changes: int = 0
    outputs: int = 1
    orders: Orders | None = None
    is_read_whole: bool = False
    has_work: bool = False
    unstable: UfuncLoop | None = None
    added: int = 0
    ends: Shape = ()
    panel: Shape = ()

    @property
    def rows(self) -> int:
        """Number of axes of a product's result in front of its columns."""
        return len(self.cores[-1]) - 1

    @property
    def modes(self) -> str:
        """How it touches its operands."""
        return "a" * self.changes + "r" * (len(self.operands) - self.changes - self.outputs) + "w" * self.outputs

    @property
    def sizes(self) -> Shape:
        """What its loop is told: how many elements or core calls there are, then the lengths of core axes."""
        return (self.space[-1] if self.space else 1, *self.lengths)

    @property
    def outer(self) -> Shape:
        """Lengths of the axes around the loop's own."""
        return self.space[:-1]

    @property
    def strides(self) -> list[int]:
        """What its loop is told of operands: bytes from one element or core call to the next, then along core axes."""
        own = self.operands[: len(self.operands) - self.has_work]
        return [ref.strides[-1] if ref.strides else 0 for ref in own] + [*self.core_strides]

    @property
    def parts(self) -> int:
        """Number of chunks."""
        return len(self.stops) * (self.space[0] if self.cuts_each else 1)

    @property
    def cuts_each(self) -> bool:
        """Whether chunks are of rows of each array of a batch, one array after the other."""
        return self.is_tiled and self.axis == self.rows and len(self.space) == 1

    @property
    def is_tiled(self) -> bool:
        """Whether it is a product in tiles."""
        return bool(self.cores) and self.loop is None and self.orders is None

    @property
    def is_transform(self) -> bool:
        """Whether it is a Fourier transform."""
        return self.cores == TRANSFORMED

    @property
    def is_sum_of_products(self) -> bool:
        """Whether it multiplies rows by vectors, each by itself."""
        return self.cores == ADDED_UP

    @property
    def is_sort(self) -> bool:
        """Whether it sorts rows, or finds the indices that sort them; memory may be short, which is a fault."""
        return self.cores in SORTED

    def in_chunks(self, count: int) -> UfuncCall:
        """Return transforms, or sums, of many rows in so many chunks for threads, in which vectors hold the same rows."""
        groups = -(-self.sizes[0] // TRANSFORMS_TOGETHER)
        if not (self.is_transform or self.is_sum_of_products) or self.outer or groups < 2 or self.has_work:
            return self
        ends = {min(-(-groups * part // count) * TRANSFORMS_TOGETHER, self.sizes[0]) for part in range(1, count + 1)}
        return attrs.evolve(self, stops=tuple(sorted(ends)), is_cut=True)

    @property
    def elements(self) -> int:
        """How many elements of the first operand it reads; of the result of tiles it writes."""
        lengths = (*self.lengths[: self.rows], self.lengths[-1]) if self.is_tiled else self.lengths[:1]
        return math.prod((*self.space, *lengths))

    @property
    def row_space(self) -> Shape:
        """The lengths of its axes, where it works on elements, or on the arrays of a batch in tiles."""
        if self.is_tiled and not self.axis:
            return self.space[0], self.elements // self.space[0]
        return () if self.cores else self.space

    def row_accesses(self, rows: int) -> list[RowAccess] | None:
        """Return what it touches in each row; a reduction over rows adds to its result.

        Of generalized ufuncs that is known of products of rows with vectors, or of as many matrices.
        """
        is_batch = (self.is_tiled and not self.axis) or (self.loop and self.cores in (ADDED_UP, MULTIPLIED))
        if self.cores and (not is_batch or self.is_cut):
            return None
        accesses, out = super().row_accesses(rows), self.operands[-1]
        if accesses is None or self.cores or out.strides[0]:
            return accesses
        if len(self.space) < 2 or self.operands[0] != out:
            return None
        return [attrs.evolve(a, adds=a.ref == out) for a in accesses]

    def on_rows(self, count: int, rows: int) -> UfuncCall:
        """Return the same on so many of all rows, which nobody shares."""
        return attrs.evolve(super().on_rows(count, rows), stops=())

    def core_reach(self, operand: int) -> list[int]:
        """Return how many bytes the last element of an operand lies behind its first one, along each core axis."""
        before = sum(map(len, self.cores[:operand]))
        axes = self.cores[operand] if self.cores else ()
        reach = [(self.lengths[axis] - 1) * s for axis, s in zip(axes, self.core_strides[before:], strict=False)]
        if operand == 1 and self.panel:
            width, step = self.panel
            reach[-1] = (self.lengths[-1] // width - 1) * step + (width - 1) * self.core_strides[before + len(axes) - 1]
        return reach

    @property
    def loops(self) -> Iterator[UfuncLoop]:
        """Its loops."""
        return iter([loop for loop in (self.loop, self.unstable) if loop is not None])

    @property
    def may_fault(self) -> bool:
        """Whether operands may have no result."""
        return self.refuses or self.is_sort

    @property
    def calls_blas(self) -> bool:
        """Whether it calls a loop of linear algebra."""
        return bool(self.cores) and self.loop is not None and not self.is_transform and not self.is_sort

    @property
    def nanoseconds(self) -> float:
        """About how long it takes."""
        if not self.cores:
            return 20 + 0.3 * self.elements
        if self.is_transform:
            n = max(self.lengths)
            return math.prod(self.space) * (100 + n * math.log2(n + 1))
        if self.is_sort:
            return 20 * self.sizes[0] + 2.0 * self.elements * self.lengths[0].bit_length()
        return (100 if self.orders is None else 5) + 0.03 * math.prod(self.outer) * math.prod(self.sizes)

    def lines(self, names: Names, arena: int) -> list[str]:  # of loops over blocks
        """Return the call, or the product."""
        operands = [names[ref.root] for ref in self.operands]
        if self.loop is None or self.cores in (ADDED_UP, MULTIPLIED):
            how = "tiles in registers" if self.loop is None else f"NumPy's {self.loop.ufunc}"
            how = how if self.orders is None else "sums in registers"
            pieces = f", {self.parts} pieces" if self.is_cut else ""
            return [f"{operands[-1]} = {' @ '.join(operands[:-1])}  # {join_lengths(self.sizes)}: {how}{pieces}"]
        assert self.loop is not None
        if not self.cores:
            call = f"np.{self.loop.ufunc}({', '.join(operands[:-1])}, out={operands[-1]})"
            shared = ", shared by threads" if self.is_cut else ""
            return [f"{call}  # NumPy's loop over {join_lengths(self.space)}{shared}"]
        written = len(operands) - (self.outputs or self.changes)
        given, made = operands[:written] or operands[-1:], operands[written:]
        sizes = join_lengths((*self.outer, *self.sizes))
        return [f"{', '.join(made)} = np.{self.loop.ufunc}({', '.join(given)})  # {sizes}: NumPy's loop"]


class Form(NamedTuple):
    """What a routine does.

    Attributes:
        text: the call, of the names of what it reads and writes, its sizes and its space.
        nanoseconds: for each element.
        has_rows: whether it works on each row by itself, the last axis.
        may_fault: whether it may find that NumPy has to decide.
        mode: how it touches its last operand.
    """

    text: str
    nanoseconds: float
    has_rows: bool = False
    may_fault: bool = False
    mode: Mode = "w"


COMBINING = {f"scatter.{scalar_op(ufunc).fold}": ufunc for ufunc in (ADD, MULTIPLY, MAXIMUM, MINIMUM)}
FORMS = {
    "gather": Form("{out} = {x}[{others}]  # {space} elements, bounds checked", 1.5, may_fault=True),
    "scatter.set": Form("{out}[{others}] = {x}  # {space} elements, bounds checked", 1.5, may_fault=True),
    **{
        kind: Form(
            "{out}[{others}] %s= {x}  # {space} elements, bounds checked" % (scalar_op(ufunc).symbol or ufunc),
            1.5,
            may_fault=True,
            mode="a",
        )
        for kind, ufunc in COMBINING.items()
    },
    "place.max": Form("{out} = argmax({x})  # along the last of {space}", 1.5, has_rows=True),
    "place.min": Form("{out} = argmin({x})  # along the last of {space}", 1.5, has_rows=True),
    "extreme.max": Form("{out} = maximum of {x}  # along the last of {space}", 0.3, has_rows=True),
    "extreme.min": Form("{out} = minimum of {x}  # along the last of {space}", 0.3, has_rows=True),
    "first.places": Form("{out} = argsort({x})[:{sizes[0]}]  # along the last of {space}", 0.3, has_rows=True),
    "first.values": Form("{out} = sort({x})[:{sizes[0]}]  # along the last of {space}", 0.3, has_rows=True),
    "philox": Form("{out} = philox({every})  # {space}: keys, blocks, words", 7.5),
    "refuse": Form("{out} = refused where {x}", 1.0, may_fault=True),
    "search.left": Form("{out} = searchsorted({x}, {others}, 'left')  # {space} values in {sizes[0]} elements", 20.0),
    "search.right": Form("{out} = searchsorted({x}, {others}, 'right')  # {space} values in {sizes[0]} elements", 20.0),
}


@attrs.frozen(repr=False)
class Routine(Leaf):
    """Rows or elements that a routine of its own computes.

    ``gather`` reads elements of an array at indices, those of ``scatter`` write or combine them, in row-major order: its
    operands are an array of integers for each indexed axis, of which negative ones count from its end and others outside of
    it are faults, then what is read and what is written; the array that is indexed has strides of 0 along axes of the indices
    alone. ``place.max`` and ``place.min`` find the place of the first extreme of each row as int64, nan counting as one;
    ``extreme.max`` and ``extreme.min`` the extreme, as comparing elements one after the other gives it. ``first.values`` and
    ``first.places`` find the first elements of each row in a stable order, or where they stand. ``search.left`` and
    ``search.right`` find the place of values in a sorted vector as int64, nan standing behind all numbers. ``philox``
    makes the words of blocks of Philox4x32-10 for each key of two words, by the numbers of blocks or from 0 on.
    ``refuse`` copies a number, which is a fault where it is not 0: a matrix without factors.

    Attributes:
        name: which one it is.
        space: lengths of the axes.
        operands: what it reads, and behind that what it writes.
        sizes: of indices the bytes between neighbours along the indexed axes, and the lengths of these; of a search the
            elements of the vector and the bytes between them; of first elements how many, and the bytes between them; of words
            the last word of the counter.
        quiet: floating-point warnings that it ignores.
    """

    name: str
    space: Shape
    operands: tuple[Ref, ...]
    sizes: Shape = ()
    quiet: tuple[str, ...] = ()
    is_by_element = True

    @property
    def modes(self) -> str:
        """How it touches its operands."""
        return "r" * (len(self.operands) - 1) + FORMS[self.name].mode

    @property
    def may_fault(self) -> bool:
        """Whether indices may lie outside of their axes."""
        return FORMS[self.name].may_fault

    @property
    def row_space(self) -> Shape:
        """The lengths of its axes, where it works on rows."""
        return self.space if FORMS[self.name].has_rows else ()

    def row_accesses(self, rows: int) -> list[RowAccess] | None:
        """Return what it touches in each row, where it works within rows."""
        return super().row_accesses(rows) if len(self.row_space) > 1 else None

    @property
    def nanoseconds(self) -> float:
        """About how long it takes."""
        return 10 + FORMS[self.name].nanoseconds * self.elements

    def lines(self, names: Names, arena: int) -> list[str]:  # of loops over blocks
        """Return the call."""
        *indices, x, out = [names[ref.root] for ref in self.operands]
        words = {"x": x, "others": ", ".join(indices), "every": ", ".join([*indices, x])}
        space = join_lengths(self.space) or "1"
        return [FORMS[self.name].text.format(out=out, space=space, sizes=self.sizes, **words)]
