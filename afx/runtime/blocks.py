"""Regions as Python: a function of one block, whose intermediate values stay in the cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from afx.core.dtypes import DType
from afx.core.graph import Atom, Var
from afx.runtime.quiet import common, silence_of, silenced
from afx.runtime.regions import Node, elements
from afx.runtime.writing import by_reduction

__all__ = ["Blocks"]

LARGEST = 3 << 17  # bytes of one value in a block: few calls, so that two threads seldom wait for the interpreter
SMALLEST = 1 << 15  # elements of a block


class Blocks:
    """The text of one region.

    Attributes:
        name: of its function.
        lines: the function.
        block: elements of one block.
        slots: the dtype of each intermediate array.
        arguments: the large values that it reads and writes, then scalars, in the order of the parameters.
        partials: for each reduction the output and its ufunc's text.
    """

    def __init__(self, node: Node, name: str, read: Callable[[Atom], str], ufunc: Callable[[Any], str]) -> None:
        assert node.shape is not None
        self.node = node
        self.name = name
        self.slots: list[DType] = []
        self.partials: list[tuple[Var, str]] = []
        self._read = read
        self._ufunc = ufunc
        self._place: dict[int, str] = {}
        self._free: list[int] = []
        self.size = elements(node.shape)
        large = [v for v in node.inputs if v.aval.shape]
        written = [v for v in node.outputs if v.aval.shape]
        self.large = [*large, *written]
        self.scalars = [v for v in node.inputs if not v.aval.shape]
        for v in (*self.large, *self.scalars):
            self._place[v.index] = read(v)
        body = self._body()
        width = max([v.aval.dtype.itemsize for v in self.large], default=4)
        self.block = _block(self.size, LARGEST // width)
        self.lines = [*self._head(), *body]

    def _head(self) -> list[str]:
        names = [self._read(v) for v in (*self.large, *self.scalars)]
        parts = [f"part_{self._read(v)}" for v, _ in self.partials]
        lines = [f"def {self.name}(block_, start_, stop_, own_, {', '.join([*names, *parts])}):"]
        if self.slots:
            slots = [f"t{n}" for n in range(len(self.slots))]
            lines.append(f"    {', '.join(slots)}, = own_")
            lines.append(f"    if stop_ - start_ < {self.block}:")
            lines.append(f"        {', '.join(slots)}, = [t[: stop_ - start_] for t in own_]")
        lines += [f"    {self._read(v)} = {self._read(v)}[start_:stop_]" for v in self.large]
        return lines

    def _body(self) -> list[str]:
        last: dict[int, int] = {}
        for k, eq in enumerate(self.node.equations):
            for a in eq.inputs:
                if isinstance(a, Var):
                    last[a.index] = k
        slot_of: dict[int, int] = {}
        lines: list[str] = []
        for k, eq in enumerate(self.node.equations):
            out = eq.outputs[0]
            xs = [self._place[a.index] if isinstance(a, Var) else self._read(a) for a in eq.inputs]
            for index in {a.index for a in eq.inputs if isinstance(a, Var)}:
                if last[index] == k and index in slot_of:
                    self._free.append(slot_of[index])
            if by_reduction(eq) and not out.aval.shape:
                reduce = f"{self._ufunc(eq.primitive.reduces)}.reduce"
                lines.append(f"    part_{self._read(out)}[block_] = {reduce}({xs[0]})")
                self.partials.append((out, reduce))
                continue
            if out.index not in self._place:
                slot_of[out.index] = slot = self._slot(out.aval.dtype)
                self._place[out.index] = f"t{slot}"
            lines.append(f"    {self._ufunc(eq.primitive.ufunc)}({', '.join(xs)}, out={self._place[out.index]})")
        if common(self.node.equations)[1]:
            return lines
        return silenced(lines, [silence_of(eq) for eq in self.node.equations], "    ")

    def _slot(self, dtype: DType) -> int:
        """Return a free array of this dtype, or a new one."""
        for slot in reversed(self._free):
            if self.slots[slot] == dtype:
                self._free.remove(slot)
                return slot
        self.slots.append(dtype)
        return len(self.slots) - 1


def _block(size: int, longest: int) -> int:
    """Return the elements of a block: an even number of equal blocks, so that two threads end together."""
    pairs = -(-size // (2 * longest))
    return max(-(-size // (2 * pairs * 64)) * 64, min(size, SMALLEST))
