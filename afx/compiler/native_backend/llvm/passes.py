"""Passes: which of LLVM's passes a module needs, as its first line says.

Loops over vectors that are written out gain nothing from the stock pipeline, which takes five to ten times as long as the
few passes that join functions and keep values in registers: measured on the benchmarks, whose times stay within 2 %.
Loops over single elements, and loops whose steps are as short as one row, gain up to half their time from unrolling: where
a program spends a good part of its time in them, it gets LLVM's own pipeline.
"""

from __future__ import annotations

from afx.compiler.native_backend.program import Block, Nest, Program, Step
from afx.compiler.target import NativeTarget

__all__ = ["needs_few_passes"]


def needs_few_passes(program: Program, characters: int, limits: NativeTarget) -> bool:
    """Tell whether what takes time in a program, whose module is so long, is loops over vectors that are written out."""
    steps = program.block.steps
    if characters < limits.passes_loop_min_characters and any(step.has_turns for step in program.block.all_steps()):
        return False
    short = sum([_short_nanoseconds(step, limits) for step in steps])
    return short <= limits.passes_short_max_share * program.block.nanoseconds


def _short_nanoseconds(step: Step, limits: NativeTarget) -> float:
    """Return about how long a step spends in loops over single elements, or over short rows."""
    bodies = step.repeated_blocks()
    if not bodies:
        return 0.0 if step.is_written_out(limits) else step.nanoseconds
    return step.turns * sum([_inner_nanoseconds(body, limits) for body in bodies])


def _inner_nanoseconds(block: Block, limits: NativeTarget) -> float:
    """Return the same of a block within a loop, where nests of short rows count however few they are."""
    found = 0.0
    for step in block.steps:
        if not isinstance(step, Nest):
            found += _short_nanoseconds(step, limits)
        elif step.operations and not step.is_dense(limits):
            found += step.nanoseconds
    return found
