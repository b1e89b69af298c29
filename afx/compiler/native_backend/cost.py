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
    Words,
    step_blocks,
)

__all__ = ["nanoseconds"]


def nanoseconds(block: Block) -> float:
    """Return about how long a block takes; a loop whose length is unknown counts as a thousand steps."""
    total = 0.0
    for step in block.steps:
        if isinstance(step, Nest):
            calls = sum([isinstance(v, Op) and not isinstance(v.name, str) for v in step.values])
            total += 5 + math.prod(step.space) * (0.1 * len(step.values) + calls)
        elif isinstance(step, Inner):
            total += 20 + 0.3 * math.prod(step.space)
        elif isinstance(step, Indexed | Extreme):
            total += 10 + 1.5 * math.prod(step.space)
        elif isinstance(step, Words):
            total += 10 + 30 * step.keys * step.blocks
        elif isinstance(step, Product):
            total += 100 + 0.03 * math.prod(step.sizes)
        elif isinstance(step, Scan):
            total += step.length * (nanoseconds(step.body) + 5)
        elif isinstance(step, BlockLoop):
            total += step.length * nanoseconds(step.bodies[0])
        elif isinstance(step, Choice):
            total += 5 + max(map(nanoseconds, step.bodies))
        else:
            total += 1000 * sum(map(nanoseconds, step_blocks(step)))
    return total
