"""Cost of native programs: about how long a block takes."""

from __future__ import annotations

import math

from afx.compiler.native_backend.program import (
    Block,
    BlockLoop,
    Choice,
    Extreme,
    Indexed,
    Inner,
    Nest,
    Op,
    Product,
    Scan,
    Step,
    Words,
    step_blocks,
)

__all__ = ["WHILE_TURNS", "nanoseconds", "step_nanoseconds"]


WHILE_TURNS = 1000


def nanoseconds(block: Block) -> float:
    """Return about how long a block takes."""
    return sum(map(step_nanoseconds, block.steps), 0.0)


def step_nanoseconds(step: Step) -> float:
    """Return about how long a step takes; of a loop whose length is unknown `WHILE_TURNS` steps."""
    if isinstance(step, Nest):
        calls = sum([isinstance(v, Op) and not isinstance(v.name, str) for v in step.values])
        return 5 + math.prod(step.space) * (0.1 * len(step.values) + calls)
    if isinstance(step, Inner):
        return 20 + 0.3 * math.prod(step.space)
    if isinstance(step, Indexed | Extreme):
        return 10 + 1.5 * math.prod(step.space)
    if isinstance(step, Words):
        return 10 + 30 * step.keys * step.blocks
    if isinstance(step, Product):
        return 100 + 0.03 * math.prod(step.sizes)
    if isinstance(step, Scan):
        return step.length * (nanoseconds(step.body) + 5)
    if isinstance(step, BlockLoop):
        return step.length * nanoseconds(step.bodies[0])
    if isinstance(step, Choice):
        return 5 + max(map(nanoseconds, step.bodies))
    return WHILE_TURNS * sum(map(nanoseconds, step_blocks(step)))
