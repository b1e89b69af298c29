"""Fused loops: a group of equations becomes one `Fused` instruction, with slots for its intermediate values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from afx.compiler.fusion import Group
from afx.compiler.lowering_rules import (
    by_ufunc,
    errstate_of,
    materialize_scalars,
    reduces_in_transpose,
    sums_rows,
    unrolls,
)
from afx.compiler.operands import Alias, Buffer, Number, Operand
from afx.compiler.schedule import Call, Fused, Method, Params, Partial, Space, View
from afx.compiler.target import Target
from afx.core.aval import Aval, Shape
from afx.core.dtypes import DType
from afx.core.graph import Atom, Equation, Literal, Var

__all__ = ["FusedLowering"]


class FusedLowering:
    """One group on its way to an instruction."""

    def __init__(
        self,
        group: Group,
        buffer: Callable[[Var], Buffer],
        alias: Callable[[Buffer, Var], Alias],
        target: Target,
    ) -> None:
        assert group.key is not None
        self.group = group
        self.target = target
        self._alias = alias
        self._rows = group.key[0] == "rows"
        self._size = group.key[1][0] if self._rows else math.prod(group.key[1])
        self._slots: list[tuple[DType, Shape]] = []
        self._free: list[int] = []
        self._slot_of: dict[int, int] = {}
        self._partials: list[Partial] = []
        self._base: dict[int, Buffer] = {}  # of each view within the loop, the buffer that it looks into
        self._buffer = buffer
        self._reductions = {
            eq.outputs[0].index for eq, s in zip(group.equations, group.spaces, strict=True) if s.is_reduction
        }
        given = [v for v in group.outputs if v.index not in self._reductions]
        self._locate = {v.index: buffer(v) for v in (*group.sliced, *given)}
        self._backward = [self._view_of_output(eq) for eq in group.reshaped.values()]

    def fused(self) -> Fused:
        """Return the instruction."""
        group = self.group
        assert group.key is not None
        body = self._body()
        sliced, whole, outputs = ([self._buffer(v) for v in vs] for vs in (group.sliced, group.whole, group.outputs))
        return Fused(
            Space("rows" if self._rows else "elements", group.key[1], self._block()),
            tuple(body),
            tuple(sliced),
            tuple(whole),
            tuple([self._alias_of(b) for b in (*sliced, *whole)]),
            tuple(outputs),
            tuple(self._partials),
            tuple(self._slots),
            tuple(self._backward),
        )

    def _alias_of(self, x: Buffer) -> Alias:
        found = {self._alias(x, v) for v in self.group.outputs}
        return "unknown" if "unknown" in found else "same" if "same" in found else "disjoint"

    def _block(self) -> int:
        """Return the size of a block: an even number of equal ones, so that two threads end together."""
        group, target = self.group, self.target
        values = [v.aval for eq in group.equations for v in eq.outputs] + [v.aval for v in group.sliced]
        widest = max([v.nbytes // self._size for v in values], default=4)
        dearest = max([v.size // self._size for v in values], default=1)
        pairs = -(-self._size // (2 * max(target.block_max_bytes // max(widest, 1), 1)))
        even = -(-self._size // (2 * pairs))
        if not self._rows:
            even = -(-even // 64) * 64
        return max(even, min(self._size, -(-target.block_min_elements // max(dearest, 1))), 1)

    def _body(self) -> list[Call | View]:
        group, ends = self.group, self._ends()
        body: list[Call | View] = []
        for k, (eq, space, number) in enumerate(zip(group.equations, group.spaces, group.numbers, strict=True)):
            in_place, ending = by_ufunc(eq), ends.get(k, [])
            operands = [self._operand(eq, a, part) for a, part in zip(eq.inputs, space.sliced, strict=True)]
            if in_place:
                self._end(ending)
            if eq.outputs[0].index not in group.reshaped:
                body.append(self._step(eq, operands, space.sliced, number))
            if not in_place:
                self._end(ending)
        return body

    def _ends(self) -> dict[int, list[int]]:
        """Return the values that each equation is the last one to read, themselves or in another shape."""
        last: dict[int, int] = {}
        for k, eq in reversed(list(enumerate(self.group.equations))):
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

    def _operand(self, eq: Equation, a: Atom, is_sliced: bool) -> Operand:
        if isinstance(a, Var):
            return self._locate[a.index] if is_sliced else self._buffer(a)
        if not materialize_scalars(eq, self.target) or a.aval.shape:
            return Number(a)
        return Number(a, "filled", eq.outputs[0].aval.shape)

    def _step(self, eq: Equation, xs: list[Operand], sliced: tuple[bool, ...], number: int) -> Call | View:
        p, out = eq.primitive, eq.outputs[0]
        method: Method = "into"
        ufunc, params = "", eq.params
        if p.lowering.may_alias:
            return self._reshape(eq, xs, number)
        if by_ufunc(eq):
            assert p.lowering.ufunc is not None
            method, ufunc = "ufunc", p.lowering.ufunc.__name__
            sliced = tuple(
                [s or (isinstance(x, Number) and x.form == "filled") for s, x in zip(sliced, xs, strict=True)]
            )
        elif p.lowering.reduce_ufunc is not None:
            ufunc = p.lowering.reduce_ufunc.__name__
            method = "reduce"
            if out.index not in self._reductions:
                x = eq.inputs[0].aval
                if sums_rows(eq, self.target):
                    ones = Number(Literal(1.0, Aval((), x.dtype)), "filled", x.shape[-1:])
                    method, ufunc, params, xs, sliced = "vecdot", "", (), [*xs, ones], (*sliced, False)
                elif reduces_in_transpose(eq, self.target):
                    method = "turned_reduce"
                elif unrolls(eq, self.target):
                    method = "unrolled_reduce"
        if out.index in self._reductions:
            self._partials.append(Partial(self._buffer(out), ufunc or "add"))
        return self._call(eq, method, xs, ufunc, params, number, sliced)

    def _call(
        self,
        eq: Equation,
        method: Method,
        xs: list[Operand],
        ufunc: str,
        params: Params,
        number: int,
        sliced: tuple[bool, ...],
    ) -> Call:
        out = eq.outputs[0]
        target = self._buffer(out) if out.index in self._reductions else self._target(out)
        aliases: tuple[Alias, ...] = tuple([self._between(x, target, out) for x in xs])
        state = errstate_of(eq)
        return Call(
            eq.primitive.name, method, tuple(xs), aliases, (target,), ufunc, params, False, state, number, sliced
        )

    def _between(self, x: Operand, target: Buffer, out: Var) -> Alias:
        if isinstance(x, Number):
            return "disjoint"
        base, written = self._base.get(x.index, x), self._base.get(target.index, target)
        if "scratch" not in (base.storage, written.storage):
            found = self._alias(base, out) if base.index != written.index else "same"
        else:
            found = "same" if (base.storage, base.location) == (written.storage, written.location) else "disjoint"
        return "unknown" if found == "same" and base is not x else found

    def _view_of_output(self, eq: Equation) -> View:
        """Compute a value that is reshaped into an output in that output's buffer."""
        source, out = eq.inputs[0], self._locate[eq.outputs[0].index]
        assert isinstance(source, Var)
        view = Buffer(source.index, source.aval.shape, source.aval.dtype, "view", out.index)
        self._base[view.index] = self._base.get(out.index, out)
        self._locate[source.index] = view
        return View(eq.primitive.name, out, view, (("shape", source.aval.shape),))

    def _reshape(self, eq: Equation, xs: list[Operand], number: int) -> Call | View:
        out, source = eq.outputs[0], xs[0]
        assert isinstance(source, Buffer)
        if out.index in self._locate:
            found = self._locate[out.index]
            alias = self._between(source, found, out)
            return Call(eq.primitive.name, "copy", (source,), (alias,), (found,), "", (), False, None, number, (True,))
        view = Buffer(out.index, out.aval.shape, out.aval.dtype, "view", source.index)
        self._locate[out.index] = view
        self._base[view.index] = self._base.get(source.index, source)
        return View(eq.primitive.name, source, view, eq.params, equation=number)

    def _target(self, out: Var) -> Buffer:
        """Return where an output goes: to its own memory where others read it, else to a free slot."""
        found = self._locate.get(out.index)
        if found is None:
            slot = self._slot_of[out.index] = self._slot(out.aval.dtype, out.aval.shape[1:] if self._rows else ())
            found = self._locate[out.index] = Buffer(out.index, out.aval.shape, out.aval.dtype, "scratch", slot)
        return found

    def _slot(self, dtype: DType, tail: Shape) -> int:
        for slot in reversed(self._free):
            if self._slots[slot] == (dtype, tail):
                self._free.remove(slot)
                return slot
        self._slots.append((dtype, tail))
        return len(self._slots) - 1
