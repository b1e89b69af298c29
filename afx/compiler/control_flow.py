"""Control flow: how ops that hold graphs describe themselves, by the rule ``Lowering.control`` of their record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from afx.core.aval import Aval
from afx.core.graph import Atom, Graph
from afx.errors import GraphError

__all__ = ["BranchSpec", "ControlSpec", "ScanSpec", "WhileBackSpec", "WhileSpec", "check_operands", "graphs_of"]


class ScanSpec(NamedTuple):
    """A loop of a known number of steps; operands are constants, the carry, and arrays walked along.

    Attributes:
        body: constants, carry and rows to the next carry and rows of results.
        consts: the number of constants.
        carry: the number of values that are carried.
        length: the number of steps.
        reverse: whether rows are walked from the last to the first.
    """

    body: Graph
    consts: int
    carry: int
    length: int
    reverse: bool


class WhileSpec(NamedTuple):
    """A loop that a condition ends; operands are what the condition reads, what the step reads, and the carry.

    Attributes:
        condition: its operands and the carry to a boolean scalar.
        body: constants and the carry to the next carry.
        tests: the number of operands of the condition alone.
        consts: the number of operands of the step alone.
    """

    condition: Graph
    body: Graph
    tests: int
    consts: int


class WhileBackSpec(NamedTuple):
    """A loop that a condition ends, and the way back over its steps, last first; results are what is carried back.

    Operands are those of the loop, then what is carried back: as it is before the first step back, without what
    starts as zeros.

    Attributes:
        condition: its operands and the carry to a boolean scalar.
        body: constants and the carry to the next carry, then the residuals of the step.
        back: constants, the residuals of a step, and what is carried back to the latter.
        tests: the number of operands of the condition alone.
        consts: the number of operands of the step alone.
        carry: the number of values that are carried forward.
        zeros: of each value that is carried back, whether it starts as zeros.
    """

    condition: Graph
    body: Graph
    back: Graph
    tests: int
    consts: int
    carry: int
    zeros: tuple[bool, ...]


class BranchSpec(NamedTuple):
    """One of several graphs; operands are the index and the inputs of each graph."""

    bodies: tuple[Graph, ...]


ControlSpec: TypeAlias = ScanSpec | WhileSpec | WhileBackSpec | BranchSpec


def graphs_of(spec: ControlSpec) -> list[Graph]:
    """Return the graphs that a loop or a branch holds, in order."""
    return [value for value in (spec.bodies if isinstance(spec, BranchSpec) else spec) if isinstance(value, Graph)]


def check_operands(spec: ControlSpec, operands: Sequence[Aval], where: str) -> None:
    """Verify that the operands of control flow are what its graphs take and give.

    Raises:
        GraphError: numbers that are none, or Avals that differ.
    """
    numbers = [value for value in spec if not isinstance(value, (Graph, tuple))]
    if any(type(value) not in (int, bool) or value < 0 for value in numbers):
        raise GraphError(f"check: {where} counts with what is no number: got {numbers}; trace the function again")
    _CHECKS[type(spec)](spec, list(operands), where)


def _check_scan(spec: ScanSpec, operands: list[Aval], where: str) -> None:
    head = spec.consts + spec.carry
    rows = operands[head:]
    if any(not x.shape or x.shape[0] != spec.length for x in rows):
        raise GraphError(f"check: {where} walks along {spec.length} rows: got {rows}; trace the function again")
    _check_fits(spec.body.inputs, [*operands[:head], *[Aval(x.shape[1:], x.dtype) for x in rows]], where)
    _check_fits(spec.body.outputs[: spec.carry], operands[spec.consts : head], where)


def _check_while(spec: WhileSpec | WhileBackSpec, operands: list[Aval], where: str) -> None:
    first = spec.tests + spec.consts
    last = first + spec.carry if isinstance(spec, WhileBackSpec) else len(operands)
    carry = operands[first:last]
    _check_fits(spec.condition.inputs, [*operands[: spec.tests], *carry], where)
    _check_fits(spec.condition.outputs, [Aval((), np.dtype(bool))], where)
    _check_fits(spec.body.inputs, [*operands[spec.tests : first], *carry], where)
    body = spec.body.outputs
    _check_fits(body[: len(carry)] if isinstance(spec, WhileBackSpec) else body, carry, where)


def _check_while_back(spec: WhileBackSpec, operands: list[Aval], where: str) -> None:
    _check_while(spec, operands, where)
    carried = spec.back.inputs[len(spec.back.inputs) - len(spec.zeros) :]
    given = [var for var, zero in zip(carried, spec.zeros, strict=True) if not zero]
    _check_fits(given, operands[spec.tests + spec.consts + spec.carry :], where)


def _check_branches(spec: BranchSpec, operands: list[Aval], where: str) -> None:
    if not spec.bodies or operands[0].shape or operands[0].dtype.kind not in "biu":
        raise GraphError(f"check: {where} chooses among branches by a number: got {operands[:1]}; trace it again")
    for body in spec.bodies:
        _check_fits(body.inputs, operands[1:], where)
        _check_fits(body.outputs, [atom.aval for atom in spec.bodies[0].outputs], where)


def _check_fits(atoms: Sequence[Atom], avals: Sequence[Aval], where: str) -> None:
    expected = [(atom.aval.shape, atom.aval.dtype) for atom in atoms]
    if expected != [(aval.shape, aval.dtype) for aval in avals]:
        raise GraphError(
            f"check: {where} holds a graph of other values: got {list(map(str, avals))} for "
            f"{[str(atom.aval) for atom in atoms]}; trace the function again"
        )


_CHECKS: dict[type, Callable[[Any, list[Aval], str], None]] = {
    ScanSpec: _check_scan,
    WhileSpec: _check_while,
    WhileBackSpec: _check_while_back,
    BranchSpec: _check_branches,
}
