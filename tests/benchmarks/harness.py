"""Timing two things in turn, and printing what came out."""

import importlib.util
import statistics
import time
from collections.abc import Callable

from tests.benchmarks.c_library import C, compiler

__all__ = ["Row", "available", "interleaved", "table"]

Row = tuple[str, float, dict[str, float]]


def available(name: str) -> bool:
    """Tell whether a peer is installed."""
    return compiler() is not None if name == C else importlib.util.find_spec(name) is not None


def interleaved(
    functions: dict[str, Callable[[], object]],
    rounds: int = 40,
    seconds: float = 0.02,
    pick: Callable[[list[float]], float] = statistics.median,
    rest: float = 0.0,
) -> dict[str, float]:
    """Return the median seconds of a call of each function, or the least, run in turn so that drift hits all of them alike.

    Threads of one library that wait for more work in a loop are given seconds of rest, after which they leave the
    processor to the next one.
    """
    repeats: dict[str, int] = {}
    for name, fn in functions.items():
        fn()
        start = time.perf_counter()
        fn()
        repeats[name] = max(1, int(seconds / max(time.perf_counter() - start, 1e-7)))
    taken: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, fn in functions.items():
            count = repeats[name]
            time.sleep(rest)
            start = time.perf_counter()
            for _ in range(count):
                fn()
            taken[name].append((time.perf_counter() - start) / count)
    return {name: pick(times) for name, times in taken.items()}


def table(title: str, rows: list[Row]) -> None:
    """Print each workload's time and how many times longer each peer takes."""
    print(f"\n{title}")
    for name, seconds, ratios in rows:
        beside = "  ".join(f"{peer} {ratio:.2f}×" for peer, ratio in ratios.items())
        print(f"  {name:44s} {seconds * 1e6:10.1f} µs   {beside}")
