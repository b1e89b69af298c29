"""How cost grows with the number of operations: seconds an operation of trace, plan, run, tape and backward."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import afx
from afx.compiler.executable import make_plan
from afx.compiler.graph.rewrite_rules import simplify
from tests.benchmarks.compiled import duration

__all__ = ["chain", "main"]

COUNTS = (100, 1_000, 10_000, 100_000)
STAGES = ("trace", "simplify", "plan", "first run", "run", "tape", "backward")


def chain(count: int, sqrt: Callable[[Any], Any], total: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function of ``count`` operations that no simplification shortens."""

    def fn(x: Any) -> Any:
        for _ in range(count // 4):
            x = x * 0.9
            x = x + 0.1
            x = x * x
            x = sqrt(x)
        return total(x)

    return fn


def _timed(fn: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = fn()
    return time.perf_counter() - start, result


def stages(count: int) -> dict[str, float]:
    """Return the seconds of each stage for a chain on ten numbers."""
    fn = chain(count, afx.sqrt, afx.sum)
    x = afx.asarray(np.linspace(0.1, 1.0, 10))
    bare = np.asarray(x)
    trace, graph = _timed(lambda: afx.trace(fn)(x))
    simple, graph = _timed(lambda: simplify(graph, expanding=True))
    plan, program = _timed(lambda: make_plan(graph))
    first, planned = _timed(lambda: program(bare))
    run, _ = _timed(lambda: program(bare))
    tape, (value, pullback) = _timed(lambda: afx.vjp(fn, x))
    back, _ = _timed(lambda: pullback(np.float64(1.0)))
    if not np.allclose(planned[0], np.asarray(value)):
        raise ArithmeticError(f"a chain of {count} operations: planned {planned[0]}, eager {value}")
    return dict(zip(STAGES, (trace, simple, plan, first, run, tape, back), strict=True))


def main(quick: bool = False) -> None:
    """Print the table."""
    print("\nHow cost grows: an operation on ten float64 numbers, in chains of growing length")
    print(f"{'operations':>11}" + "".join(f"{stage:>11}" for stage in STAGES))
    for count in COUNTS[: 3 if quick else 4]:
        rounds = [stages(count) for _ in range(max(1, min(9, 30_000 // count)))]
        cells = [duration(statistics.median([r[s] for r in rounds]) / count) for s in STAGES]
        print(f"{count:>11}" + "".join(f"{cell:>11}" for cell in cells), flush=True)
