"""The statement of legal native programs: what lowering makes keeps it, and each law is looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx.compiler.native_backend.lowering.lower import lower_schedule
from afx.compiler.native_backend.program.elements import Op
from afx.compiler.native_backend.program.leaves import Nest
from afx.compiler.native_backend.program.legal import refuse_illegal
from afx.compiler.native_backend.program.loops import Control
from afx.compiler.native_backend.program.steps import Phase, Program
from afx.compiler.target import portable_target
from afx.errors import GraphError


def program_of(fn: Callable[..., Any], *args: Any) -> Program:
    """Return the program of a function, without parts for threads."""
    schedule = afx.jit(fn, backend="numpy").lower(*args).schedule
    return lower_schedule(schedule, portable_target(), threads=False)[0]


def nests() -> Program:
    """Return a program of two nests with an array of the arena between them."""
    x = np.ones((6, 5))
    return program_of(lambda x: afx.sin(x + 1.0).T @ afx.cumsum(x * 2.0, axis=0), x)


def loop() -> Program:
    """Return a program of a loop."""
    return program_of(lambda x: afx.scan(lambda c, _: (c * 0.5 + x, c), x, None, length=4), np.ones(3))


def with_step(program: Program, number: int, **changes: Any) -> Program:
    """Return a program with another step."""
    steps = [*program.block.steps]
    kind: Any = attrs
    steps[number] = kind.evolve(steps[number], **changes)
    return attrs.evolve(program, block=attrs.evolve(program.block, steps=tuple(steps)))


def first(program: Program, kind: type) -> int:
    """Return the number of the first step of a kind."""
    return next(k for k, step in enumerate(program.block.steps) if isinstance(step, kind))


def moved(program: Program, **changes: Any) -> Program:
    """Return a program whose first nest writes elsewhere."""
    k = first(program, Nest)
    nest: Any = program.block.steps[k]
    (value, ref), *rest = nest.stores
    return with_step(program, k, stores=((value, attrs.evolve(ref, **changes)), *rest))


def out_of_turn(program: Program) -> Program:
    """Return a program in which a value is made of a later one."""
    k = first(program, Nest)
    nest: Any = program.block.steps[k]
    values = [attrs.evolve(v, args=(len(nest.values),)) if isinstance(v, Op) else v for v in nest.values]
    return with_step(program, k, values=tuple(values))


def without_args(program: Program) -> Program:
    """Return a program whose loop gives its block too little."""
    k = first(program, Control)
    step: Any = program.block.steps[k]
    return with_step(program, k, bodies=tuple([attrs.evolve(body, args=body.args[1:]) for body in step.bodies]))


def in_reverse(program: Program) -> Program:
    """Return a program whose steps run from the last one."""
    return attrs.evolve(program, block=attrs.evolve(program.block, steps=program.block.steps[::-1]))


def in_one_place(program: Program) -> Program:
    """Return a program whose arena begins at one place for all of its roots."""
    roots = [attrs.evolve(root, offset=0) if root.param < 0 else root for root in program.block.roots]
    return attrs.evolve(program, block=attrs.evolve(program.block, roots=tuple(roots)))


def with_phases(program: Program) -> Program:
    """Return a program whose phases leave a step out."""
    return attrs.evolve(program, block=attrs.evolve(program.block, phases=(Phase(1, len(program.block.steps), False),)))


BROKEN: dict[str, tuple[Callable[[], Program], str]] = {
    "memory behind its end": (lambda: moved(nests(), offset=1 << 20), r"takes bytes \d+ to \d+ of root"),
    "memory before its beginning": (lambda: moved(nests(), offset=-8), "takes bytes -8"),
    "no such root": (lambda: moved(nests(), root=99), "is none of"),
    "another dtype": (lambda: moved(nests(), dtype="i8"), "a value of f8 is stored as i8"),
    "strides of other axes": (lambda: moved(nests(), strides=(8,) * 7), "has 7 strides over"),
    "values out of turn": (lambda: out_of_turn(nests()), "is made of"),
    "a block without its memory": (lambda: without_args(loop()), "parameters gets"),
    "reads before writes": (lambda: in_reverse(nests()), "is read before it is written"),
    "shared bytes": (lambda: in_one_place(nests()), "share bytes"),
    "arguments that change": (lambda: moved(nests(), root=0, offset=0), "writes root 0, which is an argument"),
    "phases that leave steps out": (lambda: with_phases(nests()), "a phase runs steps"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_each_law_is_looked_at(name: str) -> None:
    """A program that breaks it is refused, and the message names the step."""
    make, message = BROKEN[name]
    with pytest.raises(GraphError, match=message):
        refuse_illegal(make())


def test_lowering_keeps_the_laws() -> None:
    """The same programs as they are made."""
    for program in (nests(), loop()):
        assert refuse_illegal(program) is program
