"""Passes: which of LLVM's passes a module needs, as its first line says.

Loops over vectors that are written out gain nothing from the stock pipeline, which takes five to ten times as long as the
few passes that join functions and keep values in registers: measured on the benchmarks, whose times stay within 2 %.
Loops over single elements, and loops whose steps are as short as one row, gain up to half their time from unrolling: where
a program spends a good part of its time in them, it gets LLVM's own pipeline.
"""

from __future__ import annotations

import math

from afx.compiler.native_backend.cost import WHILE_TURNS, step_nanoseconds
from afx.compiler.native_backend.program import (
    BlockLoop,
    Choice,
    Extreme,
    Indexed,
    Nest,
    Op,
    Program,
    Ref,
    Scan,
    Step,
    While,
    Words,
    step_blocks,
)
from afx.compiler.target import NativeTarget

__all__ = ["needs_few_passes"]

LOOPS = (Scan, While, Choice)


def needs_few_passes(program: Program, characters: int, limits: NativeTarget) -> bool:
    """Tell whether what takes time in a program, whose module is so long, is loops over vectors that are written out."""
    steps = program.block.steps
    if characters < limits.passes_loop_min_characters and any(
        isinstance(step, LOOPS) for step in program.block.all_steps()
    ):
        return False
    short = sum([_short_nanoseconds(step, limits) for step in steps])
    return short <= limits.passes_short_max_share * sum(map(step_nanoseconds, steps))


def _short_nanoseconds(step: Step, limits: NativeTarget) -> float:
    """Return about how long a step spends in loops over single elements, or over short rows."""
    bodies = step_blocks(step)
    if not bodies:
        return 0.0 if _is_written_out(step, limits) else step_nanoseconds(step)
    own = bodies[:1] if isinstance(step, BlockLoop) else bodies  # the second one of a loop over blocks runs once
    steps = [s for body in own for s in body.steps]
    inner = [s for s in steps if not (isinstance(s, Nest) and (_is_dense_nest(s, limits) or _is_copy(s)))]
    turns = step.length if isinstance(step, BlockLoop | Scan) else WHILE_TURNS if isinstance(step, While) else 1
    return turns * sum([step_nanoseconds(s) if isinstance(s, Nest) else _short_nanoseconds(s, limits) for s in inner])


def _is_written_out(step: Step, limits: NativeTarget) -> bool:
    if isinstance(step, Indexed | Extreme):
        return math.prod(step.space) <= limits.passes_few_elements
    if isinstance(step, Words):
        return step.keys * step.blocks * 4 <= limits.passes_few_elements
    return _is_nest_written_out(step, limits) if isinstance(step, Nest) else True  # a loop of NumPy, or tiles


def _is_nest_written_out(nest: Nest, limits: NativeTarget) -> bool:
    few = limits.passes_few_folded_elements if _has_lanes(nest) else limits.passes_few_elements
    return _is_copy(nest) or math.prod(nest.space) <= few or _is_dense_nest(nest, limits)


def _is_copy(nest: Nest) -> bool:
    """Tell whether a nest computes nothing: memory is what it waits for."""
    return not any(isinstance(v, Op) for v in nest.values)


def _has_lanes(nest: Nest) -> bool:
    return any(ref.strides and not ref.strides[-1] for *_, ref in nest.folds)


def _is_dense_nest(nest: Nest, limits: NativeTarget) -> bool:
    row = limits.passes_fold_row_min_elements if _has_lanes(nest) else limits.passes_row_min_elements
    return bool(nest.space) and nest.space[-1] >= row and all(map(_is_dense, nest.refs))


def _is_dense(ref: Ref) -> bool:
    return ref.strides[-1] in (0, int(ref.dtype[1:]))
