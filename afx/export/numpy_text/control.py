"""Loops and branches as Python's own: the templates of what holds graphs."""

from __future__ import annotations

from collections.abc import Sequence

from afx.compiler.control_flow import BranchSpec, ScanSpec, WhileBackSpec, WhileSpec
from afx.core.graph import Equation
from afx.export.numpy_text.writer import NumpyWriter, dtype_text
from afx.export.templates.table import Template

__all__ = ["LOOPS"]


def _scan(writer: NumpyWriter, eq: Equation, xs: list[str], zs: list[str]) -> None:
    spec = writer.walk.control(eq)
    assert isinstance(spec, ScanSpec)
    head = spec.consts + spec.carry
    carry, rows = zs[: spec.carry], zs[spec.carry :]
    writer.assign_all(carry, xs[spec.consts : head])
    for z, var in zip(rows, eq.outputs[spec.carry :], strict=True):
        writer.assign(z, f"np.empty({var.aval.shape}, {dtype_text(var.aval.dtype)})")
    step = writer.walk.names.make("step")
    steps = f"reversed(range({spec.length}))" if spec.reverse else f"range({spec.length})"
    with writer.block(f"for {step} in {steps}:"):
        walked = [writer.walk.names.make("row") for _ in xs[head:]]
        for row, x in zip(walked, xs[head:], strict=True):
            writer.assign(row, f"{x}[{step}]")
        found = writer.inline(spec.body, [*xs[: spec.consts], *carry, *walked])
        for z, row in zip(rows, found[spec.carry :], strict=True):
            writer.write(f"{z}[{step}] = {row}")
        writer.assign_all(carry, found[: spec.carry])


def _while(writer: NumpyWriter, eq: Equation, xs: list[str], zs: list[str]) -> None:
    spec = writer.walk.control(eq)
    assert isinstance(spec, WhileSpec)
    writer.assign_all(zs, xs[spec.tests + spec.consts :])
    with writer.block("while True:"):
        _leave(writer, spec, xs, zs)
        writer.assign_all(zs, writer.inline(spec.body, [*xs[spec.tests : spec.tests + spec.consts], *zs]))


def _leave(writer: NumpyWriter, spec: WhileSpec | WhileBackSpec, xs: Sequence[str], carry: Sequence[str]) -> None:
    (goes_on,) = writer.inline(spec.condition, [*xs[: spec.tests], *carry])
    with writer.block(f"if not ({goes_on}):"):
        writer.write("break")


def _while_back(writer: NumpyWriter, eq: Equation, xs: list[str], zs: list[str]) -> None:
    spec = writer.walk.control(eq)
    assert isinstance(spec, WhileBackSpec)
    names = writer.walk.names
    first = spec.tests + spec.consts
    consts, start = xs[spec.tests : first], xs[first : first + spec.carry]
    carry = [names.make("forward") for _ in start]
    kept = names.make("kept")
    writer.assign_all(carry, start)
    writer.assign(kept, "[]")
    with writer.block("while True:"):
        _leave(writer, spec, xs, carry)
        found = writer.inline(spec.body, [*consts, *carry])
        residuals = found[spec.carry :]
        writer.write(f"{kept}.append(({', '.join(residuals)}{',' * (len(residuals) == 1)}))")
        writer.assign_all(carry, found[: spec.carry])
    given = iter(xs[first + spec.carry :])
    for z, var, zero in zip(zs, eq.outputs, spec.zeros, strict=True):
        writer.assign(z, f"np.zeros({var.aval.shape}, {dtype_text(var.aval.dtype)})" if zero else next(given))
    with writer.block(f"while {kept}:"):
        taken = [names.make("residual") for _ in residuals]
        if taken:
            writer.write(f"{', '.join(taken)}{',' * (len(taken) == 1)} = {kept}.pop()")
        else:
            writer.write(f"{kept}.pop()")
        writer.assign_all(zs, writer.inline(spec.back, [*consts, *taken, *zs]))


def _switch(writer: NumpyWriter, eq: Equation, xs: list[str], zs: list[str]) -> None:
    spec = writer.walk.control(eq)
    assert isinstance(spec, BranchSpec)
    for k, body in enumerate(spec.bodies):
        word = "if" if k == 0 else "elif"
        last = k == len(spec.bodies) - 1 and k > 0
        with writer.block("else:" if last else f"{word} {xs[0]} == {k}:"):
            writer.assign_all(zs, writer.inline(body, xs[1:]))


LOOPS: dict[str, Template[NumpyWriter]] = {
    "scan": _scan,
    "while_loop": _while,
    "while_loop_backward": _while_back,
    "switch": _switch,
}
