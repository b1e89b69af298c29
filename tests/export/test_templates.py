"""Walks over traced graphs: names after the user's variables, captured arrays, loops, and refusals at the user's line."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import afx
from afx.compiler.schedule.schedule import ScanSpec
from afx.core.graph import Equation, Literal
from afx.core.primitive import Primitive
from afx.errors import ExportError
from afx.export.templates import Names, Table, Template, Walk
from afx.export.traced import trace_program


class Lines:
    """A toy language."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def begin(self, eq: Equation) -> None:
        """Take no notice."""

    def literal(self, literal: Literal) -> str:
        """Return the number."""
        return str(literal.value)

    def constant(self, name: str, value: np.ndarray[Any, Any]) -> str:
        """Keep the size alone."""
        self.lines.append(f"{name} = {value.size} numbers")
        return name


def ufuncs(p: Primitive) -> Template[Lines] | None:
    """Fill in ufuncs."""
    if p.lowering.ufunc is None:
        return None
    return lambda writer, eq, xs, zs: writer.lines.append(f"{zs[0]} = {eq.primitive.name}({', '.join(xs)})")


TABLE: Table[Lines] = Table("toy", ufuncs)


def toy(fn: Any, *args: Any) -> list[str]:
    """Return a function in the toy language."""
    program = trace_program(fn, args, "to_toy")
    names, lines = Names(), Lines()
    walk = Walk(TABLE, names, "to_toy: f")
    walk.check(program.graph)
    operands = [names.make(slot.path) for slot in program.inputs]
    results = walk.write(lines, program.graph, operands)
    return [f"f({', '.join(operands)})", *lines.lines, f"return {', '.join(results)}"]


def repeat(step: Any, x: Any) -> Any:
    """Return what three steps make of x."""
    return afx.scan(step, x, None, length=3)[0]


def test_values_have_the_names_of_the_users_variables() -> None:
    """A line that assigns a variable names its value; captured arrays have a name too."""
    weights = np.arange(3.0)

    def model(x: Any, params: dict[str, Any]) -> Any:
        hidden = afx.tanh(x * params["scale"])
        return hidden + weights

    assert toy(model, np.ones(3), {"scale": np.float64(2)}) == [
        "f(x, params_scale)",
        "captured = 3 numbers",
        "hidden_part = multiply(x, params_scale)",
        "hidden = tanh(hidden_part)",
        "t = add(hidden, captured)",
        "return t",
    ]


def test_what_has_no_template_is_refused_at_its_line() -> None:
    """The message names the operation and the user's line, also within a loop."""

    def step(carry: Any, _: None) -> tuple[Any, None]:
        return afx.sort(carry), None

    with pytest.raises(ExportError, match=r"to_toy: f: .*toy: got scan at .*test_templates.py:\d+"):
        toy(partial(repeat, step), np.ones(3))


def test_loops_hold_prepared_graphs() -> None:
    """A walk yields the equations of a loop's body, simplified as a plan has them."""

    def step(carry: Any, _: None) -> tuple[Any, None]:
        return afx.sin(carry) * 1.0, None

    program = trace_program(partial(repeat, step), (np.ones(3),), "to_toy")
    walk = Walk(TABLE, Names(), "to_toy: f")
    assert [eq.primitive.name for eq in walk.equations(program.graph)] == ["scan", "sin"]
    spec = walk.control(program.graph.equations[0])
    assert isinstance(spec, ScanSpec)
    assert (spec.length, spec.carry) == (3, 1)
