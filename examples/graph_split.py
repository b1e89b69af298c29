"""One program on several machines: its graph is split, run with the same bits, and simulated on up to 1024 slots.

``mpiexec -n 2 python -m mpi4py -m examples graph_split`` shares the slots among two processes; without mpiexec all are in
one.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

import afx
from afx import Array, Graph, distributed
from afx.distributed import GraphSplit, Machine, Machines
from examples.report import Bars, Claim, Curve, Panel, progress, save
from examples.slots import connect

SIZE, DEPTH, SLOTS = 96, 4, 4
ETHERNET = Machine(network_bytes_per_second=1.2e9, latency_seconds=5e-5)


def program(x: Array, branches: int) -> Array:
    """Return the sum of functions of a matrix that do not depend on each other: some products each."""
    parts = list[Array]()
    for k in range(branches):
        y = x * (1 + k / branches)
        for _ in range(DEPTH):
            y = afx.tanh(x @ y / SIZE)
        parts.append(afx.mean(y))
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def trace(branches: int) -> Graph:
    """Return the program as a graph."""

    def fn(x: Array) -> Array:
        return program(x, branches)

    return afx.trace(fn)(matrix())


def matrix() -> Array:
    """Return the input."""
    return afx.random.normal(afx.random.key(0), (SIZE, SIZE))


def by_branch(graph: Graph, slots: int) -> GraphSplit:
    """Deal the branches to slots one after the other, and leave the sum to slot 0."""
    branch, assignment = -1, list[int]()
    for eq in graph:
        branch += eq.primitive.name == "multiply"  # a branch begins
        assignment.append(0 if eq.primitive.name == "add" else branch % slots)
    return distributed.split_graph(graph, assignment, slots=slots)


def simulate(counts: list[int], branches: int) -> tuple[list[float], list[float]]:
    """Return how many times as fast each number of slots is, and the share of the time in which slots work."""
    graph, speedups, shares = trace(branches), list[float](), list[float]()
    for slots in progress(counts, "simulation"):
        found = distributed.estimate(by_branch(graph, slots), ETHERNET)
        speedups.append(found.whole_seconds / found.seconds)
        shares.append(sum(found.busy_seconds) / (slots * found.seconds))
    return speedups, shares


def run_timed(machines: Machines, split: GraphSplit, x: Array) -> tuple[Array, float]:
    """Return the output of a split graph, and the seconds of its second run."""
    machines.run_graph(split, x)
    start = time.perf_counter()
    (found,) = machines.run_graph(split, x)
    return found, time.perf_counter() - start


def run(output: Path, branches: int = 1024, most_slots: int = 1024) -> list[Claim]:
    """Split a small program and run it; show what each slot does, and simulate a large one on many slots."""
    graph, x = trace(8), matrix()
    with connect(SLOTS) as machines:
        found, seconds = run_timed(machines, by_branch(graph, SLOTS), x)
        rank, ranks = machines.rank, machines.ranks
    if rank:
        return []
    (expected,) = distributed.local(1).run_graph(distributed.split_graph(graph, [0] * len(graph)), x)
    print(f"  {SLOTS} slots on {ranks} ranks: {1e3 * seconds:.2f} ms a run")
    differing, rows = int(not np.array_equal(found, expected)), list[str]()
    for slots in (1, 2, 4):
        split = by_branch(graph, slots)
        result, seconds = run_timed(distributed.local(slots), split, x)
        differing += int(not np.array_equal(result, expected))
        guess = distributed.estimate(split, ETHERNET)
        rows.append(
            f"  {slots:5}  {split.bytes_sent:10}  {1e3 * seconds:22.2f}  {1e3 * guess.seconds:20.2f}"
            f"  {1e3 * max(guess.busy_seconds):11.2f}  {1e3 * (guess.seconds - max(guess.busy_seconds)):11.2f}"
        )
    placed = distributed.split_graph(graph, distributed.place(graph, SLOTS, ETHERNET), slots=SLOTS)
    by_hand = distributed.estimate(by_branch(graph, SLOTS), ETHERNET).seconds
    print("  slots  bytes sent  all in one process, ms  10 Gbit/s, about ms  computing ms  waiting ms")
    print("\n".join(rows))
    counts = [2**k for k in range(int(np.log2(most_slots)) + 1)]
    speedups, shares = simulate(counts, branches)
    print("  slots, simulated  " + "".join(f"{n:>7}" for n in counts))
    print("  times as fast     " + "".join(f"{s:>7.1f}" for s in speedups))
    slots_axis = np.array(counts, np.float64)
    save(
        output / "graph_split.png",
        Panel(
            f"Simulated: {branches} branches over 10 Gbit/s",
            "slots",
            "times as fast",
            (Curve(slots_axis, np.array(speedups), "estimate", "C0.-"), Curve(slots_axis, slots_axis, "ideal", "k:")),
            log_x=True,
            log_y=True,
        ),
        Panel("Share of the time in which slots compute", "log2(slots) + 1", "share", (Bars(np.array(shares)),)),
    )
    return [
        Claim("splits whose bits differ from one slot's", differing, 1, shown="{:g}"),
        Claim(
            "automatic placement against dealing branches out, by time",
            distributed.estimate(placed, ETHERNET).seconds / by_hand,
            1.3,
            shown="{:.2f}",
        ),
        Claim("speedup of the simulation, best", max(speedups), 8.0, at_least=True, shown="{:.1f}"),
    ]
