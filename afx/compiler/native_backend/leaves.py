"""Leaves of native programs: loop nests, NumPy's inner loops, products, indexed elements, extremes and random words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import attrs

from afx.compiler.native_backend.elements import Load, Ref, UfuncLoop, Value
from afx.core.aval import Shape

__all__ = ["Extreme", "Indexed", "Inner", "Leaf", "Nest", "Product", "Words"]


@attrs.frozen
class Nest:
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

    @property
    def refs(self) -> list[Ref]:
        """What it reads and writes: values that are loaded, stores, folds."""
        loads = [v.ref for v in self.values if isinstance(v, Load)]
        return [*loads, *[ref for _, ref in self.stores], *[ref for *_, ref in self.folds]]

    def on_refs(self, change: Callable[[Ref], Ref]) -> Nest:
        """Return the nest with other ones, changed in that order."""
        values = tuple([Load(change(v.ref)) if isinstance(v, Load) else v for v in self.values])
        stores = tuple([(k, change(ref)) for k, ref in self.stores])
        folds = tuple([(k, ufunc, change(ref)) for k, ufunc, ref in self.folds])
        return attrs.evolve(self, values=values, stores=stores, folds=folds)


@attrs.frozen
class Inner:
    """Inner loop of a ufunc run over strided operands: a reduction where the result has strides of 0.

    Attributes:
        loop: the ufunc's loop.
        space: lengths of the axes; the last one is the loop's own.
        operands: in the order of the loop.
        quiet: floating-point warnings that it ignores.
    """

    loop: UfuncLoop
    space: Shape
    operands: tuple[Ref, ...]
    quiet: tuple[str, ...] = ()


@attrs.frozen
class Indexed:
    """Elements whose indices arrays of integers name: read from an array, or written into one, in row-major order.

    Attributes:
        kind: ``gather`` reads elements, ``set`` and ``add`` write them.
        space: lengths of the axes.
        part: the elements that are made or given.
        whole: the array that is indexed; its strides are 0 along axes of the indices alone.
        indices: one for each indexed axis; negative ones count from its end, others outside of it are faults.
        steps: bytes between neighbours along the indexed axes.
        lengths: of the indexed axes.
        quiet: floating-point warnings that it ignores.
    """

    kind: Literal["gather", "set", "add"]
    space: Shape
    part: Ref
    whole: Ref
    indices: tuple[Ref, ...]
    steps: Shape
    lengths: Shape
    quiet: tuple[str, ...] = ()

    @property
    def operands(self) -> tuple[Ref, ...]:
        """All that it reads and writes."""
        return (self.part, self.whole, *self.indices)


@attrs.frozen
class Extreme:
    """Place of the first largest or smallest element along an axis; nan counts as both.

    Attributes:
        is_max: whether it is the largest.
        space: lengths of the axes; the last one is searched.
        x: what is searched.
        out: the indices, as int64; its last stride is 0.
    """

    is_max: bool
    space: Shape
    x: Ref
    out: Ref
    quiet: tuple[str, ...] = ()

    @property
    def operands(self) -> tuple[Ref, ...]:
        """What it reads, and what it writes."""
        return (self.x, self.out)


@attrs.frozen
class Product:
    """Call of a generalized ufunc's loop, such as that of ``np.matmul``, or the same product in tiles.

    Attributes:
        loop: its loop; None for tiles.
        sizes: the number of core calls, then the core dimensions.
        operands: with the outer stride alone.
        core_strides: strides of the core dimensions, operand by operand.
        quiet: floating-point warnings that it ignores.
        refuses: whether it marks operands without a result as invalid operations: a fault, as NumPy raises then.
        axis: along what a product in pieces is cut: core calls (0), or rows (1) or columns (3) of the result.
        stops: where the pieces end, each a call of the loop; none for one piece.
    """

    loop: UfuncLoop | None
    sizes: Shape
    operands: tuple[Ref, ...]
    core_strides: Shape
    quiet: tuple[str, ...] = ()
    refuses: bool = False
    axis: int = 0
    stops: Shape = ()

    @property
    def is_cut(self) -> bool:
        """Whether it runs piece by piece."""
        return bool(self.stops)

    @property
    def length(self) -> int:
        """Number of pieces."""
        return len(self.stops)


@attrs.frozen
class Words:
    """Random words: blocks of Philox4x32-10, four 32-bit words each.

    Attributes:
        keys: how many keys there are.
        blocks: how many blocks each key gives; their numbers count from 0, where ``counter`` is None.
        purpose: the last word of the counter.
        key: two words for each key, next to each other.
        out: the words of each key's blocks, next to each other.
        counter: the number of each key's only block.
    """

    keys: int
    blocks: int
    purpose: int
    key: Ref
    out: Ref
    counter: Ref | None = None
    quiet: tuple[str, ...] = ()

    @property
    def operands(self) -> tuple[Ref, ...]:
        """What it reads and writes."""
        return (self.key, self.out, *([] if self.counter is None else [self.counter]))


Leaf: TypeAlias = "Nest | Inner | Product | Indexed | Extreme | Words"
