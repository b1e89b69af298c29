"""How cost grows with the number of operations: seconds an operation of trace, plan, run, tape and backward.

Six kinds of chains are compiled at growing lengths; the exponent between two of them is at most 1.15 where cost is linear.
"""

from __future__ import annotations

import itertools
import math
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
BAR = 1.15  # of the exponents between lengths of a thousand and more: below, what happens once counts
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


def _softmaxes(x: Any, count: int) -> Any:
    for _ in range(count // 5):
        e = afx.exp(x - afx.max(x, axis=1, keepdims=True))
        x = e / afx.sum(e, axis=1, keepdims=True)
    return x


def _products(x: Any, count: int) -> Any:
    w = x[:, :6] * 0.1
    for _ in range(count // 2):
        x = afx.tanh(w @ x)
    return x


def _rolls(x: Any, count: int) -> Any:
    for _ in range(count // 4):
        x = afx.concatenate([x[1:], x[:1]]) * 0.5
    return x


def _updates(x: Any, count: int) -> Any:
    for k in range(count // 3):
        x = x.at[k % 6].add(x[(k + 1) % 6] * 0.5)
    return x


def _sums_of_all(x: Any, count: int) -> Any:
    """Return a sum of values each of which lives to the end."""
    values = [x]
    for _ in range(count // 2):
        values.append(afx.sin(values[-1]))
    total = x
    for value in reversed(values):
        total = total + value
    return total


CHAINS: dict[str, Callable[[Any, int], Any]] = {
    "elementwise": lambda x, count: chain(count, afx.sqrt, lambda x: x)(x),
    "dependent softmaxes": _softmaxes,
    "products": _products,
    "slices, joined": _rolls,
    "updates at indices": _updates,
    "values kept to the end": _sums_of_all,
}


def compile_seconds(name: str, count: int) -> float:
    """Return the seconds from a function to the result of its first call, by NumPy's plan."""
    x = np.linspace(0.1, 1.0, 60).reshape(6, 10)

    def fn(x: Any) -> Any:
        return CHAINS[name](x, count)

    jitted = afx.jit(fn, backend="numpy")
    return _timed(lambda: jitted(x))[0]


def print_chains(quick: bool) -> bool:
    """Print the seconds to the first result of each kind of chain; return whether all exponents are within the bar."""
    counts = COUNTS[: 2 if quick else 4]
    print(f"\nSeconds to the first result, and exponents between lengths (from 1,000 on at most {BAR})")
    print(f"{'operations':26}" + "".join(f"{count:>20,}" for count in counts))
    good = True
    for name in CHAINS:
        compile_seconds(name, counts[0])
        times = [min([compile_seconds(name, n) for _ in range(3 if n <= 10_000 else 1)]) for n in counts]
        exponents = [math.log10(b / a) for a, b in itertools.pairwise(times)]
        good = good and all(e <= BAR for e in exponents[1:])
        cells = [duration(times[0]), *[f"{duration(t)} ({e:.2f})" for t, e in zip(times[1:], exponents, strict=True)]]
        print(f"{name:26}" + "".join(f"{cell:>20}" for cell in cells), flush=True)
    return good


def main(quick: bool = False) -> bool:
    """Print the tables; return whether all exponents are within the bar."""
    print("\nHow cost grows: an operation on ten float64 numbers, in chains of growing length")
    print(f"{'operations':>11}" + "".join(f"{stage:>11}" for stage in STAGES))
    for count in COUNTS[: 3 if quick else 4]:
        rounds = [stages(count) for _ in range(max(1, min(9, 30_000 // count)))]
        cells = [duration(statistics.median([r[s] for r in rounds]) / count) for s in STAGES]
        print(f"{count:>11}" + "".join(f"{cell:>11}" for cell in cells), flush=True)
    return print_chains(quick)
