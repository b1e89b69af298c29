"""Passes: which of LLVM's passes a module needs, as its first line says.

Loops over vectors that are written out gain nothing from the stock pipeline, which takes five to ten times as long as the
few passes that join functions and keep values in registers: measured on the benchmarks, whose times stay within 2 %.
Loops over single elements, and loops whose steps are as short as one row, gain up to half their time from unrolling.
"""

from __future__ import annotations

import math

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
)

__all__ = ["needs_few_passes"]

FEW_ELEMENTS = 1 << 13  # of a loop that takes some microseconds, however it is compiled
FEW_FOLDED_ELEMENTS = 1 << 10
ROW_MIN_ELEMENTS = 32  # of which the addresses of a row are a small part
SMALL_PART = 32  # of the elements of a block: what a loop over fewer ones takes is not seen
FOLD_ROW_MIN_ELEMENTS = 1024  # the same of a fold's lanes, which unrolled loops keep in registers


def needs_few_passes(program: Program) -> bool:
    """Tell whether all that takes time in a program is loops over vectors that are written out."""
    return all(map(_is_written_out, program.block.steps))


def _is_written_out(step: Step) -> bool:
    if isinstance(step, Scan | While | Choice):
        return False  # of short steps, say, where every instruction counts
    if isinstance(step, BlockLoop):
        few = step.elements // step.length // SMALL_PART
        inner = [s for body in step.bodies for s in body.steps if not isinstance(s, Nest) or math.prod(s.space) > few]
        return all(_is_dense_nest(s) if isinstance(s, Nest) else _is_written_out(s) for s in inner)
    if isinstance(step, Indexed | Extreme):
        return math.prod(step.space) <= FEW_ELEMENTS
    if isinstance(step, Words):
        return step.keys * step.blocks * 4 <= FEW_ELEMENTS
    return _is_nest_written_out(step) if isinstance(step, Nest) else True  # a loop of NumPy, or tiles


def _is_nest_written_out(nest: Nest) -> bool:
    is_copy = not any(isinstance(v, Op) for v in nest.values)  # memory is what it waits for
    few = FEW_FOLDED_ELEMENTS if _has_lanes(nest) else FEW_ELEMENTS
    return is_copy or math.prod(nest.space) <= few or _is_dense_nest(nest)


def _has_lanes(nest: Nest) -> bool:
    return any(ref.strides and not ref.strides[-1] for *_, ref in nest.folds)


def _is_dense_nest(nest: Nest) -> bool:
    row = FOLD_ROW_MIN_ELEMENTS if _has_lanes(nest) else ROW_MIN_ELEMENTS
    return nest.space[-1] >= row and all(map(_is_dense, nest.refs))


def _is_dense(ref: Ref) -> bool:
    return ref.strides[-1] in (0, int(ref.dtype[1:]))
