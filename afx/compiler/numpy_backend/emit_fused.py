"""Regions as Python: a function of one block, whose intermediate values stay in the cache."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

from afx.compiler.fusion import Node, domain
from afx.compiler.lowering import by_ufunc, reduced, sums_rows, wants_arrays
from afx.compiler.numpy_backend.errstate import common, silence_of, silenced
from afx.core.aval import Aval, Shape
from afx.core.dtypes import DType
from afx.core.graph import Atom, Equation, Literal, Var

__all__ = ["Blocks"]

LARGEST = 3 << 17  # bytes of one value in a block: few calls, so that two threads seldom wait for the interpreter
SMALLEST = 1 << 14  # elements of a block


class Writer(Protocol):
    """What a region asks of the program around it."""

    def read(self, atom: Atom, *, plain: bool = False) -> str:
        """Return the text of an operand."""
        ...

    def repeated(self, atom: Atom, shape: Shape) -> str:
        """Return the text of an operand; a number is an array of this shape."""
        ...

    def ones(self, rows: Aval) -> str:
        """Return the text of a row of ones."""
        ...

    def ufunc_name(self, ufunc: Any) -> str:
        """Return the text of a ufunc."""
        ...

    def function_name(self, name: str, function: Any) -> str:
        """Return the text of a function."""
        ...

    def keywords(self, eq: Equation) -> list[str]:
        """Return the text of an equation's parameters."""
        ...


class Blocks:
    """The text of one region.

    Attributes:
        name: of its function.
        lines: the function.
        size: elements, or rows, of the region.
        block: those of one block.
        slots: the dtype and the shape of a row (``()`` where blocks are of elements) of each intermediate array.
        taken: the values that each block takes its part of: operands, and outputs that others read.
        whole: those that each block reads as a whole.
        partials: for each sum over the blocks the output, and the reduction's text.
    """

    def __init__(self, node: Node, name: str, writer: Writer) -> None:
        assert node.key is not None
        self.node = node
        self.name = name
        self.slots: list[tuple[DType, Shape]] = []
        self.partials: list[tuple[Var, str]] = []
        self.rows = node.key[0] == "rows"
        self.size = node.key[1][0] if self.rows else math.prod(node.key[1])
        self._writer = writer
        self._place: dict[int, str] = {}
        self._free: list[int] = []
        self._slot_of: dict[int, int] = {}
        lasting = {eq.outputs[0].index for eq in node.equations if self._sums(eq)}
        self.taken = [*node.taken, *[v for v in node.outputs if v.index not in lasting]]
        self.whole = node.whole
        for v in self.taken:
            self._place[v.index] = writer.read(v)
        self._views = [self._backwards(eq) for eq in node.reshaped.values()]
        self.block = self._block()
        body = self._body()
        self.lines = [*self._head(), *body]

    def _sums(self, eq: Equation) -> bool:
        found = domain(eq)
        return found is not None and found.whole

    def _block(self) -> int:
        """Return the size of a block: an even number of equal ones, so that two threads end together."""
        values = [v.aval for eq in self.node.equations for v in eq.outputs] + [v.aval for v in self.node.taken]
        widest = max([v.nbytes // self.size for v in values], default=4)
        dearest = max([v.size // self.size for v in values], default=1)
        pairs = -(-self.size // (2 * max(LARGEST // max(widest, 1), 1)))
        even = -(-self.size // (2 * pairs))
        if not self.rows:
            even = -(-even // 64) * 64
        return max(even, min(self.size, -(-SMALLEST // max(dearest, 1))), 1)

    def _head(self) -> list[str]:
        names = [*[self._writer.read(v) for v in self.taken], *[self._all(v) for v in self.whole]]
        parts = [f"part_{self._writer.read(v)}" for v, _ in self.partials]
        lines = [f"def {self.name}(block_, start_, stop_, own_, {', '.join([*names, *parts])}):"]
        if self.slots:
            slots = [f"t{n}" for n in range(len(self.slots))]
            lines.append(f"    {', '.join(slots)}, = own_")
            lines.append(f"    if stop_ - start_ < {self.block}:")
            lines.append(f"        {', '.join(slots)}, = [t[: stop_ - start_] for t in own_]")
        lines += [f"    {self._writer.read(v)} = {self._writer.read(v)}[start_:stop_]" for v in self.taken]
        return lines + self._views

    def _all(self, v: Var) -> str:
        """Return the name of a value that each block reads as a whole."""
        return f"{self._writer.read(v)}_all" if v in self.taken else self._writer.read(v)

    def _body(self) -> list[str]:
        equations = self.node.equations
        ends = self._ends()
        lines: list[str] = []
        for k, eq in enumerate(equations):
            in_place = by_ufunc(eq)
            ending = ends.get(k, [])
            xs = self._operands(eq)
            if in_place:
                self._end(ending)
            if eq.outputs[0].index not in self.node.reshaped:
                lines.append(f"    {self._line(eq, xs)}")
            if not in_place:
                self._end(ending)
        if common(equations)[1]:
            return lines
        kept = [eq for eq in equations if eq.outputs[0].index not in self.node.reshaped]
        return silenced(lines, [silence_of(eq) for eq in kept], "    ")

    def _ends(self) -> dict[int, list[int]]:
        """Return the values that each equation is the last one to read, themselves or in another shape."""
        last: dict[int, int] = {}
        for k, eq in reversed(list(enumerate(self.node.equations))):
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

    def _operands(self, eq: Equation) -> list[str]:
        found = domain(eq)
        assert found is not None
        return [
            (self._place[a.index] if taken else self._all(a)) if isinstance(a, Var) else self._number(eq, a)
            for a, taken in zip(eq.inputs, found.taken, strict=True)
        ]

    def _number(self, eq: Equation, number: Literal) -> str:
        if not wants_arrays(eq):
            return self._writer.read(number)
        tail = eq.outputs[0].aval.shape[1:] if self.rows else ()
        return f"{self._writer.repeated(number, (self.block, *tail))}[: stop_ - start_]"

    def _line(self, eq: Equation, xs: list[str]) -> str:
        p, out = eq.primitive, eq.outputs[0]
        if self._sums(eq):
            if p.lowering.reduce_ufunc is None:
                self.partials.append((out, "np.add.reduce"))
                function = self._writer.function_name(p.name, p.lowering.impl_into)
                part = f"part_{self._writer.read(out)}[block_]"
                return f"{function}({', '.join([part, *xs, *self._writer.keywords(eq)])})"
            reduce = f"{self._writer.ufunc_name(p.lowering.reduce_ufunc)}.reduce"
            self.partials.append((out, reduce))
            part = f"part_{self._writer.read(out)}"
            return f"{part}[block_] = {reduce}({xs[0]}, {eq.keywords['axis'] if self.rows else 0})"
        if p.lowering.may_alias:
            return self._reshaped(eq, xs[0])
        place = self._target(out)
        if by_ufunc(eq):
            return f"{self._writer.ufunc_name(p.lowering.ufunc)}({', '.join(xs)}, out={place})"
        if sums_rows(eq):
            return f"np.vecdot({xs[0]}, {self._writer.ones(eq.inputs[0].aval)}, {place})"
        if p.lowering.reduce_ufunc is not None:
            return f"{reduced(eq, self._writer.ufunc_name(p.lowering.reduce_ufunc), xs[0])}, out={place})"
        function = self._writer.function_name(p.name, p.lowering.impl_into)
        return f"{function}({', '.join([place, *xs, *self._writer.keywords(eq)])})"

    def _backwards(self, eq: Equation) -> str:
        """Place what is reshaped into an output in that output's memory; return the text of that view."""
        source, out = eq.inputs[0], eq.outputs[0]
        assert isinstance(source, Var)
        place = self._place[source.index] = f"v{source.index}"
        return f"    {place} = {self._place[out.index]}.reshape({_whole_rows(source.aval.shape)})"

    def _reshaped(self, eq: Equation, x: str) -> str:
        out = eq.outputs[0]
        view = f"{x}.reshape({_whole_rows(out.aval.shape)})"
        if out.index in self._place:
            return f"{self._place[out.index]}[...] = {view}"
        place = self._place[out.index] = f"v{out.index}"
        return f"{place} = {view}"

    def _target(self, out: Var) -> str:
        """Return where an output goes: to its own memory where others read it, else to a free intermediate array."""
        if out.index not in self._place:
            self._slot_of[out.index] = slot = self._slot(out.aval.dtype, out.aval.shape[1:] if self.rows else ())
            self._place[out.index] = f"t{slot}"
        return self._place[out.index]

    def _slot(self, dtype: DType, tail: Shape) -> int:
        for slot in reversed(self._free):
            if self.slots[slot] == (dtype, tail):
                self._free.remove(slot)
                return slot
        self.slots.append((dtype, tail))
        return len(self.slots) - 1


def _whole_rows(shape: Shape) -> str:
    """Return the text of a shape of any number of such rows."""
    return ", ".join(["-1", *map(str, shape[1:])])
