"""Sums on 1-4 ranks beside the model of a network: `python -m tests.benchmarks.network` starts ``mpiexec`` itself.

Latency and bandwidth of messages between two ranks of this machine are measured first, and that of adding; with them
`afx.distributed.sums.packets` tells what the same messages should take. Beside it stands what sums take by messages, and in
memory that the ranks share. Fastest of many: a busy machine, and more ranks than processors, leave nothing else to compare.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from afx import distributed
from afx.distributed import Machines, Split
from afx.distributed.graph.placement import Machine
from afx.distributed.mpi import link as mpi_link
from afx.distributed.sums.packets import exchange_seconds
from tests.distributed.jobs import ENVIRONMENT

SIZES = (1000, 10**6, 10**7)
MOST_RANKS = 4
LONG_BYTES = 10**7


def _fastest(machines: Machines, call: Callable[[], Any], count: int) -> float:
    """Return the least time of a call that all ranks begin together, in seconds."""
    times: list[float] = []
    for _ in range(count):
        machines.check_same("", "measurement")
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


def _measure_machine(machines: Machines) -> Machine:
    """Return the speed of messages from one rank to the next and back, and of adding."""
    link, rank = machines.link, machines.rank

    def bounce(nbytes: int) -> float:
        memory = np.zeros(nbytes, np.uint8)

        def call() -> None:
            if rank == 0:
                link.trade([(memory, 1, 9)], [])
                link.trade([], [(memory, 1, 9)])
            elif rank == 1:
                link.trade([], [(memory, 0, 9)])
                link.trade([(memory, 0, 9)], [])

        return _fastest(machines, call, 100) / 2

    latency, long = bounce(8), bounce(LONG_BYTES)
    total, part = np.ones(LONG_BYTES // 4, np.float32), np.ones(LONG_BYTES // 4, np.float32)
    adding = _fastest(machines, lambda: np.add(total, part, total), 50)
    return Machine(
        bytes_per_second=LONG_BYTES / adding,
        network_bytes_per_second=LONG_BYTES / (long - latency),
        latency_seconds=latency,
    )


def _measure_sums(machines: Machines) -> list[float]:
    split = Split((1,) * machines.slots)
    found: list[float] = []
    for nbytes in SIZES:
        mine = np.ones(nbytes // 4, np.float32)
        found.append(_fastest(machines, lambda mine=mine: machines.average(lambda slot: mine, split), 100))
    return found


def _share_nothing(port: object) -> None:
    """Take the place of `share_memory`: messages are sent."""


def measure(ranks: int) -> None:
    """Measure on this rank; rank 0 prints."""
    share, mpi_link.share_memory = mpi_link.share_memory, _share_nothing
    with distributed.connect(ranks, deadline=120.0) as machines:
        model = _measure_machine(machines) if ranks > 1 else Machine()
        by_messages = _measure_sums(machines)
    mpi_link.share_memory = share
    with distributed.connect(ranks, deadline=120.0) as machines:
        by_memory = _measure_sums(machines)
        if machines.rank == 0:
            print(
                f"{ranks} ranks: {1e6 * model.latency_seconds:.1f} us, {model.network_bytes_per_second / 1e9:.1f} GB/s a "
                f"message, {model.bytes_per_second / 1e9:.1f} GB/s added, load {os.getloadavg()[0]:.1f}"
            )
            for nbytes, messages, memory in zip(SIZES, by_messages, by_memory, strict=True):
                expected = exchange_seconds(nbytes, ranks, model)
                print(
                    f"  {nbytes / 1e6:g} MB: model {1e3 * expected:.3f} ms, by messages {1e3 * messages:.3f}, in shared "
                    f"memory {1e3 * memory:.3f}",
                    flush=True,
                )


def main() -> int:
    """Start the ranks."""
    status = 0
    for ranks in range(1, MOST_RANKS + 1):
        command = [
            str(Path(sys.executable).with_name("mpiexec")),
            "-n",
            str(ranks),
            "--oversubscribe",
            "--bind-to",
            "none",
        ]
        command += [sys.executable, "-m", "tests.benchmarks.network", str(ranks)]
        status |= subprocess.run(command, env=os.environ | ENVIRONMENT, check=False).returncode
    return status


if __name__ == "__main__":
    if sys.argv[1:]:
        measure(int(sys.argv[1]))
    else:
        sys.exit(main())
