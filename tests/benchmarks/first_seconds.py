"""What a user feels: steps done in the first second, and in the first three, of a program beside jax.jit.

Each program is a value and its gradient, in a process of its own; the clock starts at the first call, behind the imports.
Tracing, compiling and whatever works beside the calls count.
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.compiled import FORCED
from tests.benchmarks.everyday import WORKLOADS
from tests.benchmarks.libraries import arrays

__all__ = ["NAMES", "count_steps", "main"]

ROOT = Path(__file__).resolve().parents[2]
NAMES = tuple([name for name in WORKLOADS if ", gradient, " in name])
IMPORTS = {"jax": ("jax", "jax.numpy", "jax.nn", "jax.scipy.special"), "afx": ("afx", "afx.nn", "afx.special")}
MARKS = (1.0, 3.0)  # seconds


def count_steps(run: Callable[[], Any], marks: Sequence[float] = MARKS) -> list[int]:
    """Return how many runs have ended after each of these seconds."""
    ends: list[float] = []
    start = time.perf_counter()
    while not ends or ends[-1] < marks[-1]:
        run()
        ends.append(time.perf_counter() - start)
    return [sum(end <= mark for end in ends) for mark in marks]


def measure(library: str, name: str, marks: Sequence[float]) -> list[int]:
    """Return the steps of a program in a process of its own."""
    for module in IMPORTS[library]:
        importlib.import_module(module)
    arrays(library, [np.zeros(1, np.float32)])  # whatever a library sets up at its first array
    return count_steps(WORKLOADS[name].make(library).run, marks)


def _apart(library: str, name: str, marks: Sequence[float]) -> list[int]:
    environment = {k: v for k, v in os.environ.items() if k not in FORCED}
    command = [sys.executable, "-m", __name__, library, name, json.dumps(list(marks))]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=300)
    found: list[int] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(rounds: int = 3, names: Sequence[str] = NAMES, marks: Sequence[float] = MARKS) -> None:
    """Print the table: medians of afx's steps, and of the rounds' ratios to jax's."""
    print(
        f"\nSteps in the first {' and '.join(f'{m:g}' for m in marks)} s beside jax.jit; a ratio above 1 is more than jax's"
    )
    heads = "".join([f"{f'afx {m:g} s':>12}{f'jax {m:g} s':>12}{'ratio':>9}" for m in marks])
    print(f"{'':62}{heads}")
    means: list[list[float]] = [[] for _ in marks]
    for name in names:
        pairs = [(_apart("afx", name, marks), _apart("jax", name, marks)) for _ in range(rounds)]
        cells = ""
        for k, ratios in enumerate(means):
            ratios.append(statistics.median([max(ours[k], 0.5) / max(theirs[k], 0.5) for ours, theirs in pairs]))
            counts = [statistics.median([pair[who][k] for pair in pairs]) for who in (0, 1)]
            cells += f"{counts[0]:>12.0f}{counts[1]:>12.0f}{ratios[-1]:>8.2f}×"
        print(f"{name:62}{cells}", flush=True)
    for mark, ratios in zip(marks, means, strict=True):
        below = sum(r < 1 for r in ratios)
        print(
            f"first {mark:g} s: geometric mean {statistics.geometric_mean(ratios):.2f}×, below 1 on {below} of {len(ratios)}"
        )


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))))
