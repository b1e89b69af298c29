"""Compiled functions beside jax.jit: whole processes in turn, so that no pools of threads meet."""

import json
import os
import statistics
import subprocess
import sys
import time

from tests.benchmarks.harness import available
from tests.benchmarks.workloads import WORKLOADS

ROUNDS = 2


def measure(peer: str, number: int) -> dict[str, float]:
    """Return the seconds of the first call and the median of the next ones."""
    work = WORKLOADS[number]
    run = work.make(peer, *work.arguments)
    start = time.perf_counter()
    run()
    first = time.perf_counter() - start
    taken: list[float] = []
    begin = time.perf_counter()
    while len(taken) < 10 or (time.perf_counter() - begin < 0.5 and len(taken) < 3000):
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    return {"first": first, "steady": statistics.median(taken[2:])}


def _apart(peer: str, number: int) -> dict[str, float]:
    """Measure in a process of its own; BLAS detects the processor itself."""
    environment = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
    command = [sys.executable, "-m", "tests.benchmarks.compiled", peer, str(number)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Print the table."""
    peers = ["afx", *[p for p in ("jax",) if available(p)]]
    print("\nCompiled functions (ratio: how many times longer jax takes; medians of processes in turn)")
    for number, work in enumerate(WORKLOADS):
        rounds = [{p: _apart(p, number) for p in peers} for _ in range(ROUNDS)]
        steady = statistics.median([r["afx"]["steady"] for r in rounds])
        first = statistics.median([r["afx"]["first"] for r in rounds])
        line = f"  {work.name:44s} {steady * 1e6:10.1f} µs   first call {first * 1e3:7.1f} ms"
        if len(peers) > 1:
            ratio = statistics.median([r["jax"]["steady"] / r["afx"]["steady"] for r in rounds])
            start = statistics.median([r["jax"]["first"] / r["afx"]["first"] for r in rounds])
            line += f"   jax {ratio:.2f}×, first call {start:.0f}×"
        print(line, flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
    else:
        main()
