"""First calls of the second tier beside jax.jit's, and how soon machine code takes over by default.

Each figure is from a process of its own, in turn. *Cold* is the first function of a process, *warm* a later one, when
compilers have been loaded. The back end is asked for before the data are made, as programs do.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.compiled import FORCED, duration
from tests.benchmarks.harness import available
from tests.benchmarks.libraries import NATIVE, arrays
from tests.benchmarks.workloads import WORKLOADS

__all__ = ["NAMES", "main", "measure"]

ROOT = Path(__file__).resolve().parents[2]
NAMES = (
    "elementwise chain, 10^3 float32",
    "histogram classifier, 100 examples",
    "MLP 784-512-512-10 with Adam, batch 32",
    "Adam, 10^6 in one leaf",
    "LSTM, 100 steps by scan, batch 16",
    "softmax of rows, 64 × 128",
)
IMPORTS = {"jax": ("jax", "jax.numpy", "jax.nn"), "afx": ("afx", "afx.nn", "afx.optim")}
PATIENCE = 60.0  # seconds until machine code takes over


def _warm_up(library: str) -> None:
    """Compile a function that shares nothing with the workloads."""
    x = arrays(library, [np.linspace(0, 1, 5)])[0]
    if library == "jax":
        jax: Any = importlib.import_module("jax")
        jax.block_until_ready(jax.jit(lambda x: x / (x + 3))(x))
        return
    afx: Any = importlib.import_module("afx")
    fn = afx.jit(lambda x: x / (x + 3))
    _until_taken_over(lambda: fn(x)) if afx.get_backend() == "auto" else fn(x)


def _until_taken_over(run: Callable[[], Any]) -> float:
    """Run until all machine code that was begun has come; return the seconds from the first call to the last code."""
    swap: Any = importlib.import_module("afx.compiler.native_backend.run.swap")
    become, times = swap.NativeCode.become, list[float]()

    def become_and_note(code: Any, state: Any) -> None:
        become(code, state)
        times.append(time.perf_counter())

    swap.NativeCode.become = become_and_note
    service: Any = importlib.import_module("afx.compiler.native_backend.service.process").service
    start = time.perf_counter()
    try:
        while (not times or service.is_busy) and time.perf_counter() - start < PATIENCE:
            run()
    finally:
        swap.NativeCode.become = become
    return times[0] - start if times else math.nan  # later ones end trials


def measure(library: str, name: str, is_warm: bool) -> float:
    """Return the seconds of a first call, for afx's default those until machine code takes over."""
    known = "afx" if library == NATIVE else library
    for module in IMPORTS[known]:
        importlib.import_module(module)
    if library == NATIVE:
        importlib.import_module("afx").set_backend("native")
    arrays(known, [np.zeros(1, np.float32)])  # whatever a library sets up at its first array
    if is_warm:
        _warm_up(known)
    job = WORKLOADS[name].make(known)
    if library == "afx":
        return _until_taken_over(job.run)
    start = time.perf_counter()
    job.run()
    return time.perf_counter() - start


def _apart(library: str, name: str, is_warm: bool) -> float:
    environment = {k: v for k, v in os.environ.items() if k not in FORCED}
    command = [sys.executable, "-m", __name__, library, name, str(int(is_warm))]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=300)
    return float(json.loads(done.stdout.splitlines()[-1]))


def main(rounds: int = 5, names: Sequence[str] = NAMES) -> None:
    """Print the table: medians, and the median of the rounds' ratios."""
    peers = [NATIVE, *(["jax"] if available("jax") else []), "afx"]
    print(
        "\nFirst calls with backend=\"native\" beside jax.jit's, and the default's time until machine code takes over"
    )
    print(f"{'':40}{'':>6}{'native':>10}{'jax':>10}{'jax/native':>12}{'taken over':>12}")
    for name in names:
        for is_warm in (False, True):
            found: dict[str, list[float]] = {peer: [] for peer in peers}
            for _ in range(rounds):
                for peer, seconds in found.items():
                    seconds.append(_apart(peer, name, is_warm))
            cells = [duration(statistics.median(found[p])) if p in found else "-" for p in (NATIVE, "jax", "afx")]
            ratios = [theirs / ours for theirs, ours in zip(found.get("jax", []), found[NATIVE], strict=False)]
            ratio = f"{statistics.median(ratios):.2f}×" if ratios else "-"
            print(
                f"{name:40}{'warm' if is_warm else 'cold':>6}{cells[0]:>10}{cells[1]:>10}{ratio:>12}{cells[2]:>12}",
                flush=True,
            )


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2], sys.argv[3] == "1")))
