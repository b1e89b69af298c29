"""Passes: which of LLVM's passes a module needs, as its first line says.

Loops over vectors that are written out gain nothing from the stock pipeline, which takes five to ten times as long as the
few passes that join functions and keep values in registers: measured on the benchmarks, whose times stay within 2 %.
Loops over single elements gain up to a quarter from being unrolled, which takes as long again as those few passes, and
nothing from the rest. Loops of the program, whose turns are short, gain up to half their time from LLVM's own pipeline.
"""

from __future__ import annotations

from collections.abc import Sequence

from afx.compiler.native_backend.child import FEW_PASSES, UNROLL
from afx.compiler.native_backend.program import Block, Loop, Nest, Program, Step
from afx.compiler.target import NativeTarget

__all__ = ["choose_passes"]


def choose_passes(programs: Sequence[Program], characters: int, limits: NativeTarget) -> str:
    """Return the first line of a module that is so long, empty where it needs LLVM's own pipeline."""
    if all(_is_written_out(program, limits) for program in programs):
        needs_stock = characters < limits.passes_loop_min_characters and _has_loops(programs)
        return "" if needs_stock else FEW_PASSES
    return "" if _has_loops(programs) else UNROLL


def _has_loops(programs: Sequence[Program]) -> bool:
    return any(isinstance(step, Loop) for program in programs for step in program.block.all_steps())


def _is_written_out(program: Program, limits: NativeTarget) -> bool:
    """Tell whether what takes time in a program is loops over vectors that are written out."""
    short = sum([_short_nanoseconds(step, limits) for step in program.block.steps])
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
