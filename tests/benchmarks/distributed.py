"""Distribution beside one process and raw MPI: `python -m tests.benchmarks.distributed` starts ``mpiexec`` itself.

Prints, for 2 ranks of one compute thread each: a data-parallel step of the MLP (784-512-512-10, Adam, batch 512) beside
the same step in one process on one thread, once with the whole optimizer on each rank and once with a sharded one, and
beside a step of half the batch that both ranks take at the same time without any message, which is the most that two can
gain where neighbours share caches and memory; the
averaging of 1, 10 and 100 MB beside the same exchange by mpi4py alone (a half to each rank, weighted sums, the sums back);
one run of a random graph of 200 operations on random slots; and the share of a processor that a waiting rank takes. What
is compared is interleaved; medians, and in brackets the fastest tenth and the fastest, which is what a busy machine leaves
to compare.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import afx
from afx import distributed, nn, optim
from afx.distributed import Machines, Split
from tests.distributed.programs import random_graph

BATCH = 512
RANKS = 2
GRAPH_SIZE = 110  # operations of afx, of which some are several equations: about 200
WAIT_SECONDS = 3.0


def _measure(machines: Machines, calls: Mapping[str, Callable[[], Any]], count: int) -> dict[str, list[float]]:
    """Return sorted times of calls that take turns, in milliseconds; all ranks begin each of them together."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(count + 3):
        for name, call in calls.items():
            machines.check_same("", "measurement")
            begin = time.perf_counter()
            call()
            if number >= 3:
                times[name].append(1e3 * (time.perf_counter() - begin))
    return {name: sorted(found) for name, found in times.items()}


def _text(times: list[float]) -> str:
    return f"{statistics.median(times):.3f} [{times[len(times) // 10]:.3f}, {times[0]:.3f}] ms"


def _ratio(above: list[float], below: list[float]) -> str:
    """Return how many times as long the first takes, by medians, the fastest tenth and the fastest."""
    fast = above[len(above) // 10] / below[len(below) // 10]
    return f"{statistics.median(above) / statistics.median(below):.2f} [{fast:.2f}, {above[0] / below[0]:.2f}]"


def _loss(model: nn.MLP, x: Any, y: Any) -> Any:
    return afx.mean(nn.softmax_cross_entropy(model(x), y))


def _problem(examples: int = BATCH) -> tuple[nn.MLP, tuple[Any, Any]]:
    """Return the model and random data."""
    model = nn.MLP.create(afx.random.key(0), [784, 512, 512, 10])
    x = np.random.default_rng(0).normal(size=(examples, 784)).astype(np.float32)
    return model, (x, np.random.default_rng(1).integers(0, 10, examples))


def _step(machines: Machines, split: Split) -> Callable[[], Any]:
    """Return one step of training."""
    model, batch = _problem(split.total)
    optimizer = optim.adam(1e-3)
    state = optimizer.init(model)
    update = afx.jit(optimizer.step)
    slopes = machines.value_and_grad(_loss, split=split)

    def step() -> None:
        nonlocal model, state
        _, grads = slopes(model, *batch)
        model, state = update(model, grads, state)

    return step


def _sharded_step(machines: Machines, split: Split) -> Callable[[], Any]:
    """Return one step of which each rank updates its half of the parameters."""
    model, batch = _problem()
    optimizer = distributed.shard_optimizer(machines, optim.adam(1e-3))
    state = optimizer.init(model)
    value_and_step = optimizer.value_and_step(_loss, split=split)

    def step() -> None:
        nonlocal model, state
        _, model, state = value_and_step(model, state, *batch)

    return step


def _exchanges(machines: Machines, nbytes: int) -> dict[str, Callable[[], Any]]:
    """Return the averaging of a vector, and the same by mpi4py alone into memory that is there."""
    from mpi4py import MPI

    comm: Any = MPI.COMM_WORLD
    mine = np.ones(nbytes // 4, np.float32)
    halves = (slice(0, mine.size // 2), slice(mine.size // 2, mine.size))
    own, other = halves[comm.rank], halves[1 - comm.rank]
    incoming, result = np.empty_like(mine[own]), np.empty_like(mine)
    weight = np.float32(0.5)

    def exchange(tag: int, out: Any, into: Any) -> None:
        requests = [comm.Irecv(into, 1 - comm.rank, tag), comm.Isend(out, 1 - comm.rank, tag)]
        while not MPI.Request.Testall(requests):
            pass

    def raw() -> None:
        exchange(1, mine[other], incoming)
        np.multiply(mine[own], weight, out=result[own])
        np.multiply(incoming, weight, out=incoming)
        np.add(result[own], incoming, out=result[own])
        exchange(2, result[own], result[other])

    split = Split((1, 1))
    total = np.empty_like(mine)
    return {
        "average": lambda: machines.average(lambda slot: mine, split),
        "raw": raw,
        "Allreduce": lambda: comm.Allreduce(mine, total),
    }


def _tiny_step(machines: Machines) -> Callable[[], Any]:
    """Return a step whose arithmetic costs nothing."""
    step = machines.value_and_grad(lambda w, x: afx.mean((w * x) ** 2), split=Split((2, 2)))
    w, x = afx.asarray(1.0), np.ones(4, np.float32)
    return lambda: step(w, x)


def _wait(machines: Machines) -> float:
    """Return the share of a processor that a rank takes while it waits for another one."""
    begin, busy = time.perf_counter(), time.process_time()
    if machines.rank == 1:
        time.sleep(WAIT_SECONDS)
    machines.average(lambda slot: np.zeros(4), Split((1, 1)))
    return (time.process_time() - busy) / (time.perf_counter() - begin)


def measure() -> None:
    """Measure on this rank; rank 0 prints."""
    machines = distributed.connect(RANKS, deadline=120.0)
    if hasattr(os, "sched_setaffinity") and len(os.sched_getaffinity(0)) >= RANKS:
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[machines.rank]})
    show: Callable[[str], None] = print if machines.rank == 0 else (lambda text: None)
    alone = _step(distributed.local(1), Split((BATCH,)))
    halves = Split((BATCH // 2, BATCH // 2))
    calls = {
        "on 2 ranks": _step(machines, halves),
        "on 2 ranks, optimizer sharded": _sharded_step(machines, halves),
        "half the batch in each of two processes without messages": _step(distributed.local(1), Split((BATCH // 2,))),
        "alone": alone if machines.rank == 0 else lambda: time.sleep(0),
    }
    times = _measure(machines, calls, 60)
    show(f"load {os.getloadavg()[0]:.1f}")
    show(f"MLP step, batch {BATCH}, in one process on one thread: {_text(times['alone'])}")
    for name in calls:
        if name != "alone":
            show(f"  {name}: {_text(times[name])}, ratio {_ratio(times['alone'], times[name])}")
    for nbytes, count in ((1000, 1000), (10**6, 300), (10**7, 60), (10**8, 20)):
        times = _measure(machines, _exchanges(machines, nbytes), count)
        show(
            f"average of {nbytes / 1e6:g} MB: {_text(times['average'])}; by mpi4py alone {_text(times['raw'])}, share of its "
            f"speed {_ratio(times['raw'], times['average'])}; Allreduce {_text(times['Allreduce'])}, share of its speed "
            f"{_ratio(times['Allreduce'], times['average'])}"
        )
    tiny = {"2 ranks": _tiny_step(machines), "alone": _tiny_step(distributed.local(RANKS))}
    times = _measure(machines, tiny, 300)
    show(f"tiny step: on 2 ranks {_text(times['2 ranks'])}, alone {_text(times['alone'])}")
    graph, places, inputs = random_graph(1, GRAPH_SIZE)
    split = distributed.split_graph(graph, [place % RANKS for place in places], slots=RANKS)
    times = _measure(machines, {"graph": lambda: machines.run_graph(split, *inputs)}, 100)
    messages = sum(len(program.receives) for program in split.programs)
    show(f"random graph of {len(graph)} equations, {messages} messages: {_text(times['graph'])} a run")
    show(f"a waiting rank takes {100 * _wait(machines):.1f} % of a processor")


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
