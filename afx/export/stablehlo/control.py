"""Loops and branches of StableHLO: a scan counts its steps, and reads and writes a row in each."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

import numpy as np

from afx.compiler.control_flow import BranchSpec, ScanSpec, WhileSpec
from afx.core.aval import Aval
from afx.core.graph import Equation
from afx.export.stablehlo.writer import HloWriter, type_text
from afx.export.templates.table import NoTemplateError, Template

__all__ = ["LOOPS"]

NUMBER = Aval((), np.dtype(np.int64))


def _scan(writer: HloWriter, eq: Equation, xs: list[str], zs: list[str]) -> None:
    spec = writer.walk.control(eq)
    assert isinstance(spec, ScanSpec)
    head = spec.consts + spec.carry
    avals = [var.aval for var in eq.outputs]
    if not spec.length:  # no row could be read: rows have one element at least
        _write_no_steps(writer, spec, avals, xs[spec.consts : head], zs)
        return
    start = [writer.fill(0, NUMBER), *xs[spec.consts : head], *[writer.fill(0, a) for a in avals[spec.carry :]]]
    names = [writer.walk.names.make(f"{z}_in") for z in ("step", *zs)]
    types = [NUMBER, *avals]
    made = [writer.walk.names.make("steps"), *zs]
    with _loop(writer, made, names, start, types):
        limit = writer.fill(spec.length, NUMBER)
        writer.leave([writer.compare("LT", (names[0], limit), NUMBER)], [Aval((), np.dtype(bool))])
    with writer.region("} do {"):
        after = writer.same("add", (names[0], writer.fill(1, NUMBER)), NUMBER)
        place = writer.same("subtract", (writer.fill(spec.length, NUMBER), after), NUMBER) if spec.reverse else names[0]
        rows = [_read_row(writer, x, a.aval, place) for x, a in zip(xs[head:], eq.inputs[head:], strict=True)]
        carry = names[1 : 1 + spec.carry]
        found = writer.inline(spec.body, [*xs[: spec.consts], *carry, *rows])
        ys = [
            _write_row(writer, y, aval, row, place)
            for y, aval, row in zip(names[1 + spec.carry :], avals[spec.carry :], found[spec.carry :], strict=True)
        ]
        writer.leave([after, *found[: spec.carry], *ys], types)
    writer.write("}")


def _write_no_steps(
    writer: HloWriter, spec: ScanSpec, avals: Sequence[Aval], carry: Sequence[str], zs: Sequence[str]
) -> None:
    """Write what a loop without steps gives: its carry, and arrays without rows."""
    for x, aval, z in zip(carry, avals, zs, strict=False):
        writer.reshape(x, aval, aval.shape, z)
    for aval, z in zip(avals[spec.carry :], zs[spec.carry :], strict=True):
        writer.fill(0, aval, z)


def _loop(
    writer: HloWriter, made: Sequence[str], names: Sequence[str], start: Sequence[str], types: Sequence[Aval]
) -> AbstractContextManager[None]:
    """Write the head of a loop; return the context in which its condition is written."""
    pairs = ", ".join([f"%{name} = %{x}" for name, x in zip(names, start, strict=True)])
    writer.write(f"{writer.read(made)} = stablehlo.while({pairs}) : {', '.join(map(type_text, types))}")
    return writer.region("cond {")


def _places(writer: HloWriter, aval: Aval, place: str) -> tuple[str, str]:
    """Return the operands and types of the start of a row."""
    zero = [writer.fill(0, NUMBER)] * (aval.ndim - 1)
    return writer.read([place, *zero]), ", ".join([type_text(NUMBER)] * aval.ndim)


def _read_row(writer: HloWriter, x: str, aval: Aval, place: str) -> str:
    starts, types = _places(writer, aval, place)
    row = Aval((1, *aval.shape[1:]), aval.dtype)
    name = writer.make(
        f"dynamic_slice %{x}, {starts}, sizes = {[*row.shape]} : ({type_text(aval)}, {types}) -> {type_text(row)}"
    )
    return writer.reshape(name, row, aval.shape[1:])


def _write_row(writer: HloWriter, y: str, aval: Aval, row: str, place: str) -> str:
    part = Aval((1, *aval.shape[1:]), aval.dtype)
    name = writer.reshape(row, Aval(aval.shape[1:], aval.dtype), part.shape)
    starts, types = _places(writer, aval, place)
    whole = type_text(aval)
    return writer.make(
        f"dynamic_update_slice %{y}, %{name}, {starts} : ({whole}, {type_text(part)}, {types}) -> {whole}"
    )


def _while(writer: HloWriter, eq: Equation, xs: list[str], zs: list[str]) -> None:
    spec = writer.walk.control(eq)
    assert isinstance(spec, WhileSpec)
    first, avals = spec.tests + spec.consts, [var.aval for var in eq.outputs]
    names = [writer.walk.names.make(f"{z}_in") for z in zs]
    with _loop(writer, zs, names, xs[first:], avals):
        writer.leave(writer.inline(spec.condition, [*xs[: spec.tests], *names]), [Aval((), np.dtype(bool))])
    with writer.region("} do {"):
        writer.leave(writer.inline(spec.body, [*xs[spec.tests : first], *names]), avals)
    writer.write("}")


def _while_back(*_: object) -> None:
    raise NoTemplateError("the way back over a loop whose steps are not counted has no shape; use scan")


def _switch(writer: HloWriter, eq: Equation, xs: list[str], zs: list[str]) -> None:
    spec = writer.walk.control(eq)
    assert isinstance(spec, BranchSpec)
    avals, number = [var.aval for var in eq.outputs], Aval((), np.dtype(np.int32))
    index = writer.convert(xs[0], eq.inputs[0].aval, number.dtype)
    head = f'{writer.read(zs)} = "stablehlo.case"(%{index}) ({{'
    for k, body in enumerate(spec.bodies):
        with writer.region("}, {" if k else head):
            writer.leave(writer.inline(body, xs[1:]), avals)
    writer.write(f"}}) : ({type_text(number)}) -> ({', '.join(map(type_text, avals))})")


LOOPS: dict[str, Template[HloWriter]] = {
    "scan": _scan,
    "while_loop": _while,
    "while_loop_backward": _while_back,
    "switch": _switch,
}
