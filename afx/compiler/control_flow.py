"""Control flow: how ops that hold graphs describe themselves, by the rule ``Lowering.control`` of their record."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from afx.core.graph import Graph

__all__ = ["BranchSpec", "ControlSpec", "ScanSpec", "WhileBackSpec", "WhileSpec"]


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
