"""Distribution beside one process and raw MPI: `python -m tests.benchmarks.distributed` starts ``mpiexec`` itself.

Prints, for 2 ranks of one compute thread each: a data-parallel step of the MLP (784-512-512-10, Adam, batch 512) beside
the same step in one process on one thread; the averaging of 1, 10 and 100 MB beside the same messages by mpi4py alone;
and one run of a random graph of 200 operations on random slots.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import afx
from afx import distributed, nn, optim
from afx.distributed import Machines, Split
from tests.distributed.programs import random_graph

BATCH = 512
RANKS = 2


def _median(call: Callable[[], Any], count: int = 30) -> float:
    """Return the median time of a call in seconds, after two that do not count; every rank calls as often."""
    times: list[float] = []
    for _ in range(count + 2):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times[2:])


def _step(machines: Machines, split: Split) -> Callable[[], Any]:
    """Return one step of training on random data."""
    key = afx.random.key(0)
    model = nn.MLP.create(key, [784, 512, 512, 10])
    x = np.random.default_rng(0).normal(size=(BATCH, 784)).astype(np.float32)
    y = np.random.default_rng(1).integers(0, 10, BATCH)
    optimizer = optim.adam(1e-3)
    state = optimizer.init(model)
    update = afx.jit(optimizer.step)

    def loss(model: nn.MLP, x: Any, y: Any) -> Any:
        return afx.mean(nn.softmax_cross_entropy(model(x), y))

    slopes = machines.value_and_grad(loss, split=split)

    def step() -> None:
        _, grads = slopes(model, x, y)
        update(model, grads, state)

    return step


def _exchange(machines: Machines, megabytes: int) -> tuple[float, float]:
    """Return the times of averaging a vector and of the same messages by mpi4py alone."""
    from mpi4py import MPI

    comm: Any = MPI.COMM_WORLD
    mine = np.ones(megabytes * 250_000, np.float32)
    half = mine.size // 2
    incoming, result = np.empty(half, np.float32), np.empty(half, np.float32)
    other = 1 - comm.rank

    def raw() -> None:
        for tag, out, into in ((1, mine[:half], incoming), (2, incoming, result)):
            requests = [comm.Irecv(into, other, tag), comm.Isend(out, other, tag)]
            while not MPI.Request.Testall(requests):
                pass

    split = Split((1, 1))
    return _median(lambda: machines.average(lambda slot: mine, split)), _median(raw)


def measure() -> None:
    """Measure on this rank; rank 0 prints."""
    machines = distributed.connect(RANKS, deadline=120.0)
    show: Callable[[str], None] = print if machines.rank == 0 else (lambda text: None)
    together = _median(_step(machines, Split((BATCH // 2, BATCH // 2))))
    if machines.rank == 0:
        alone = _median(_step(distributed.local(1), Split((BATCH,))))
        show(
            f"MLP step, batch {BATCH}: 2 ranks {together * 1e3:.2f} ms, "
            f"one process on one thread {alone * 1e3:.2f} ms, ratio {alone / together:.2f}"
        )
    machines.check_same("", "measurement")
    for megabytes in (1, 10, 100):
        ours, raw = _exchange(machines, megabytes)
        show(f"average of {megabytes} MB: {ours * 1e3:.2f} ms, its messages by mpi4py alone {raw * 1e3:.2f} ms")
    graph, places, inputs = random_graph(0)
    split = distributed.split_graph(graph, [place % RANKS for place in places], slots=RANKS)
    seconds = _median(lambda: machines.run_graph(split, *inputs))
    show(
        f"random graph of {len(graph)} equations, {len(split.programs[0].receives)} messages to rank 0: "
        f"{seconds * 1e3:.2f} ms a run"
    )


def main() -> int:
    """Start the ranks."""
    names = [f"{kind}_ALLOW_RUN_AS_ROOT{end}" for kind in ("OMPI", "PRTE") for end in ("", "_CONFIRM")]
    settings = dict.fromkeys(names, "1") | {
        "OPENBLAS_NUM_THREADS": "1",
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_btl": "self,sm,tcp",
    }
    mpiexec = Path(sys.executable).with_name("mpiexec")
    command = [str(mpiexec), "-n", str(RANKS), "--oversubscribe", "--bind-to", "none"]
    command += [sys.executable, "-m", "tests.benchmarks.distributed", "rank"]
    return subprocess.run(command, env=os.environ | settings, check=False).returncode


if __name__ == "__main__":
    if sys.argv[1:] == ["rank"]:
        measure()
    else:
        sys.exit(main())
