"""Fused spaces: elementwise ops run at once, all others block by block, as in NumPy's plan.

A result that is read by nothing but what writes it among zeros is made in its place among them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import attrs

from afx.compiler.native_backend.lowering.convert import BlockBuilder, Converted, UnsupportedError
from afx.compiler.native_backend.lowering.items import made_by, reads_of
from afx.compiler.native_backend.lowering.memory import Location, copy_nest, dense, look
from afx.compiler.native_backend.lowering.ops.reduction import REDUCTIONS
from afx.compiler.native_backend.program import Arg, BlockLoop, Body
from afx.compiler.operands import Buffer, Operand
from afx.compiler.schedule import Call, Fused, Partial, Result, Schedule, Space, View
from afx.core.aval import Shape
from afx.core.primitive import lookup, primitive_for_role

__all__ = ["lower_fused"]

ELEMENTWISE = frozenset({"cast", "select"})  # roles of ops


def lower_fused(b: BlockBuilder, fused: Fused) -> None:
    """Add a fused space to a block."""
    if all(map(_is_elementwise, fused.body)):
        _lower_body(b, fused.body, fused.backward)
    else:
        _block_loop(b, fused)


def _is_elementwise(part: Call | View) -> bool:
    if isinstance(part, View) or part.method == "copy":
        return True
    return _role(part) in ELEMENTWISE if part.method == "into" else part.method == "ufunc" and part.ufunc != "matmul"


def _role(call: Call) -> str:
    return lookup(call.op).algebra.canonical


def _lower_body(b: BlockBuilder, body: Sequence[Call | View], backward: Sequence[View]) -> None:
    for part in body:
        b.lower(part)
        for view in reversed(backward):
            if view.out.index in b.locations and view.source.index not in b.locations:
                shape = (("shape", view.source.shape),)
                if not b.look(view.source, view.op, shape, b.locations[view.out.index]):
                    raise UnsupportedError(f"{view.op} that copies")


def _block_loop(b: BlockBuilder, fused: Fused) -> None:
    """Add a loop over blocks, and what joins the parts that they leave of reductions over the space."""
    space, partials = fused.space, {p.out.index: p for p in fused.partials}
    places = {x.index: p for x in fused.outputs if x.index not in partials and (p := _place(b, space, x)) is not None}
    sliced = [*[_flat(space, b.location(x)) for x in fused.sliced], *places.values()]
    whole = [b.location(x) for x in fused.whole]
    counts = [n for n in (space.block * (space.size >= space.block), space.size % space.block) if n]
    bodies = [_body(b, fused, _Body(fused, n), [*[_of_length(x, n) for x in sliced], *whole], places) for n in counts]
    results = [x for x in fused.outputs if x.index not in places]
    outs, parts = list[Location](), list[tuple[Partial, Buffer]]()
    for out in results:
        if out.index in partials:
            part = Buffer(b.fresh(), (space.blocks, *out.shape), out.dtype, "fresh")
            parts.append((partials[out.index], part))
            outs.append(b.own(part.index, part.shape, b.dtype(part)))
        else:
            outs.append(b.own(out.index, out.shape, b.dtype(out)))
    constants = [[b.constant(c) for c in body.constants] for body in bodies]
    moves = [
        p.strides[0] if x.index in partials else space.block * _flat(space, p).strides[0]
        for x, p in zip(results, outs, strict=True)
    ]
    args = [
        *[Arg((p.owner,), space.block * p.strides[0]) for p in sliced],
        *[Arg((p.owner,)) for p in whole],
        *[Arg((p.owner,), move) for p, move in zip(outs, moves, strict=True)],
    ]
    pairs = zip(bodies, constants, strict=True)
    runs = [Body(body.block, (*args, *[Arg((c.owner,)) for c in own])) for body, own in pairs]
    loop = BlockLoop(tuple(runs), space.blocks, _elements(fused))
    b.fixed(
        [loop], [*sliced, *whole, *[c for own in constants for c in own]], [*places.values(), *outs], loop.arena_bytes
    )
    b.locations |= places
    for partial, part in parts:
        axes = (("axis", (0,)),)
        b.lower(Call("join", "reduce", (part,), ("disjoint",), (partial.out,), partial.ufunc, axes))


def _place(b: BlockBuilder, space: Space, x: Buffer) -> Location | None:
    """Return where a result of rows lies among the zeros that surround it, where nothing else reads it."""
    readers = [i for i in b.schedule.instructions if x.index in reads_of(i)]
    if space.kind != "rows" or len(readers) != 1 or any(r.operand == x for r in b.schedule.results):
        return None
    (reader,) = readers
    if not isinstance(reader, Call) or _role(reader) != "embed":
        return None
    (whole,) = reader.outputs
    take, params = primitive_for_role("slice").impl, dict(reader.params)
    part = look(b.own(whole.index, whole.shape, b.dtype(whole)), lambda x: take(x, index=params["index"]))
    return part if part.strides == b.locations[whole.index].strides else None


def _elements(fused: Fused) -> int:
    """Return how many elements the largest value of a space has."""
    return max(
        [math.prod(x.shape) for x in (*fused.sliced, *[v for part in fused.body for v in made_by(part)])], default=0
    )


def _flat(space: Space, x: Location) -> Location:
    """Return a location along whose first axis blocks lie."""
    if space.kind == "rows":
        return x
    size = int(x.dtype[1:])
    if x.strides != dense(x.shape, size):
        raise UnsupportedError("blocks of the elements of an array that is not dense")
    return look(x, lambda v: v.reshape(-1))


def _of_length(x: Location, count: int) -> Location:
    return look(x, lambda v: v[:count])


def _body(b: BlockBuilder, fused: Fused, body: _Body, given: Sequence[Location], places: Collection[int]) -> Converted:
    """Return the block that computes one block of a space, and writes results that have their places to these."""
    inner_places = {x.index: body.place(x) for x in fused.outputs if x.index in places}
    sliced = (*[body.buffer(x, True) for x in fused.sliced], *inner_places.values())
    inputs = (*sliced, *[body.buffer(x, False) for x in fused.whole])
    outputs = tuple([Result(body.made(x)) for x in fused.outputs if x.index not in places])
    inner = b.within(Schedule(inputs, (), (), outputs), given, body.count)
    _lower_body(inner, [body.part(part) for part in fused.body], [body.view(view) for view in fused.backward])
    for x in fused.outputs:
        if x.index in places:
            _write(inner, inner.locations[inner_places[x.index].index], body.made(x))
    return inner.build()


def _write(b: BlockBuilder, part: Location, x: Buffer) -> None:
    """Write a value to a location, in the loop that makes it where there is one."""
    if not b.store_into(part, x):
        source = b.location(x)
        b.fixed([copy_nest(part, source)], [source], [part])


class _Body:
    """The calls of a space on one block of so many elements or rows."""

    def __init__(self, fused: Fused, count: int) -> None:
        self.count = count
        self._rows = fused.space.kind == "rows"
        self._partials = {p.out.index for p in fused.partials}
        values = [*fused.sliced, *fused.whole, *fused.outputs, *[v for part in fused.body for v in made_by(part)]]
        self._shift = 1 + max([v.index for v in values])  # of wholes, of which blocks may read their parts too

    def _shape(self, shape: Shape) -> Shape:
        return (self.count, *(shape[1:] if self._rows else ()))

    def buffer(self, x: Buffer, is_sliced: bool) -> Buffer:
        """Return a block's part of a value, or all of it."""
        return (
            attrs.evolve(x, shape=self._shape(x.shape)) if is_sliced else attrs.evolve(x, index=x.index + self._shift)
        )

    def place(self, x: Buffer) -> Buffer:
        """Return a block's part of the memory that a result is written to."""
        return attrs.evolve(x, index=x.index + 2 * self._shift, shape=self._shape(x.shape))

    def made(self, x: Buffer) -> Buffer:
        """Return what a block makes of a value."""
        return x if x.index in self._partials else self.buffer(x, True)

    def _operand(self, x: Operand, is_sliced: bool) -> Operand:
        if isinstance(x, Buffer):
            return self.buffer(x, is_sliced)
        return attrs.evolve(x, shape=self._shape(x.shape)) if is_sliced and x.form == "filled" else x

    def view(self, view: View) -> View:
        """Return a view of a block."""
        source, out = self.buffer(view.source, True), self.buffer(view.out, True)
        return attrs.evolve(view, source=source, out=out, params=(("shape", out.shape),))

    def part(self, part: Call | View) -> Call | View:
        """Return a call, or a view, of a block."""
        if isinstance(part, View):
            return self.view(part)
        operands = tuple([self._operand(x, own) for x, own in zip(part.operands, part.sliced, strict=True)])
        found = attrs.evolve(part, operands=operands, outputs=tuple(map(self.made, part.outputs)), sliced=())
        if (
            part.outputs[0].index not in self._partials or part.method == "into"
        ):  # which adds up over a block's examples
            return found
        if part.method not in REDUCTIONS:
            raise UnsupportedError(f"{part.op}.{part.method} over blocks")
        return attrs.evolve(found, method="reduce", params=part.params if self._rows else (("axis", (0,)),))
