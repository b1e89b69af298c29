"""Fused loops as Python: a function of one block, whose intermediate values stay in the cache."""

from __future__ import annotations

from afx.compiler.numpy_backend.calls import call_lines
from afx.compiler.numpy_backend.errstate import common_errstate, wrap_errstate
from afx.compiler.numpy_backend.names import Names
from afx.compiler.numpy_backend.program import Line
from afx.compiler.operands import Buffer, Number, Operand
from afx.compiler.schedule import Call, ErrorState, Fused, View
from afx.core.aval import Shape

__all__ = ["FusedEmitter"]


class FusedEmitter:
    """The text of one fused loop.

    Attributes:
        name: of its function.
        lines: the function.
        arguments: what it is called with, behind a block's number, its bounds and its scratch arrays.
    """

    def __init__(self, fused: Fused, name: str, names: Names) -> None:
        self.fused = fused
        self.name = name
        self._names = names
        self._rows = fused.space.kind == "rows"
        self._parts = {partial.out.index: f"part_{names.of(partial.out)}" for partial in fused.partials}
        self._ufuncs = {partial.out.index: partial.ufunc for partial in fused.partials}
        self._sliced = [*fused.sliced, *[b for b in fused.outputs if b.index not in self._parts]]
        self._also_sliced = {b.index for b in self._sliced}
        self.lines: list[Line] = [*map(Line, self._head()), *self._body()]

    def _head(self) -> list[str]:
        fused, names = self.fused, self._names
        parameters = [*map(names.of, self._sliced), *map(self._all, fused.whole), *self._parts.values()]
        lines = [f"def {self.name}(block_, start_, stop_, own_, {', '.join(parameters)}):"]
        if fused.scratch:
            slots = ", ".join([f"t{k}" for k in range(len(fused.scratch))])
            lines.append(f"    {slots}, = own_")
            lines.append(f"    if stop_ - start_ < {fused.space.block}:")
            lines.append(f"        {slots}, = [t[: stop_ - start_] for t in own_]")
        lines += [f"    {names.of(b)} = {names.of(b)}[start_:stop_]" for b in self._sliced]
        lines += [f"    {self._view(view)}" for view in fused.backward]
        return lines

    def arguments(self) -> str:
        """Return what the function is called with; arrays of several axes are flat where blocks are of elements."""
        flat = "" if self._rows else ".reshape(-1)"
        sliced = [self._names.of(b) + (flat if len(b.shape) > 1 else "") for b in self._sliced]
        return ", ".join([*sliced, *map(self._names.of, self.fused.whole), *self._parts.values()])

    def _all(self, b: Buffer) -> str:
        """Return the name of a value that each block reads as a whole."""
        return f"{self._names.of(b)}_all" if b.index in self._also_sliced else self._names.of(b)

    def _locate(self, b: Buffer) -> str:
        if b.storage == "scratch":
            return f"t{b.location}"
        return f"v{b.index}" if b.storage == "view" and b.index not in self._also_sliced else self._names.of(b)

    def _view(self, view: View) -> str:
        shape = ", ".join(["-1", *map(str, view.out.shape[1:])])  # any number of such rows
        return f"v{view.out.index} = {self._locate(view.source)}.reshape({shape})"

    def _body(self) -> list[Line]:
        lines, states = list[Line](), list[ErrorState]()
        for step in self.fused.body:
            found = [self._view(step)] if isinstance(step, View) else self._step(step)
            lines += [Line(f"    {line}", step.equation) for line in found]
            states += [None if isinstance(step, View) else step.error_state] * len(found)
        if common_errstate(states)[1]:
            return lines  # the whole loop is called within it
        self._names.numpy("errstate")
        return wrap_errstate(lines, states, "    ")

    def _step(self, call: Call) -> list[str]:
        names, out = self._names, call.outputs[0]
        xs = [self._operand(x, part) for x, part in zip(call.operands, call.sliced, strict=True)]
        part = self._parts.get(out.index)
        if part is None:
            if call.method == "copy":
                tail = ", ".join(["-1", *map(str, out.shape[1:])])
                xs = [f"{xs[0]}.reshape({tail})"]
            return call_lines(call, xs, self._locate(out), names)
        if call.method == "into":
            return call_lines(call, xs, f"{part}[block_]", names)
        reduce, _ = names.ufunc(call.op, "reduce")
        return [f"{part}[block_] = {reduce}({xs[0]}, {dict(call.params)['axis'] if self._rows else 0})"]

    def _operand(self, x: Operand, is_sliced: bool) -> str:
        if isinstance(x, Buffer):
            return self._locate(x) if is_sliced else self._all(x)
        if x.form != "filled" or not is_sliced:
            return self._names.number(x)
        return f"{self._names.number(x, self._block_shape(x))}[: stop_ - start_]"

    def _block_shape(self, x: Number) -> Shape:
        return (self.fused.space.block, *(x.shape[1:] if self._rows else ()))
