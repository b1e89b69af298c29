"""A training split over slots: digits on one to four processes, the same bits, and where the time goes.

``mpiexec -n 2 python -m mpi4py -m examples data_parallel`` shares the slots among two processes; without mpiexec all are
in one.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

import afx
from afx import Array, data, distributed, nn, optim
from afx.distributed import Machine, Machines, Split
from examples.digits import flatten, images
from examples.report import Claim, Curve, Panel, progress, save
from examples.slots import connect

SLOTS, BATCH = 4, 256
MOST_SLOTS = 1024


def loss(model: nn.MLP, x: Array, y: Array) -> Array:
    """Return the mean cross entropy of a part of a batch."""
    return afx.mean(nn.softmax_cross_entropy(model(x), y))


def train(machines: Machines, steps: int) -> tuple[nn.MLP, list[float], float]:
    """Train a network on any machines; return it, the losses and the seconds of a step."""
    x, y = images()
    batches = data.batches((flatten(x), y), BATCH, key=afx.random.key(1))
    model = nn.MLP.create(afx.random.key(0), [64, 128, 10])
    optimizer = optim.adam(3e-3)
    state, losses, times = optimizer.init(model), list[float](), list[float]()
    value_and_grad = machines.value_and_grad(loss, split=Split((BATCH // SLOTS,) * SLOTS))
    update = afx.jit(optimizer.step)
    numbers = range(steps)
    for number in progress(numbers, f"{machines.ranks} ranks") if machines.rank == 0 else numbers:
        start = time.perf_counter()
        value, grads = value_and_grad(model, *batches[number])
        model, state = update(model, grads, state)
        losses.append(float(value))
        times.append(time.perf_counter() - start)
    return model, losses, float(np.median(times))


def compute_seconds(model: nn.MLP, examples: int) -> float:
    """Return how long the gradient of a part of a batch takes here."""
    x, y = images()
    part = (flatten(x)[:examples], y[:examples])
    gradient = afx.jit(afx.value_and_grad(loss))
    times = list[float]()
    for _ in range(20):
        start = time.perf_counter()
        gradient(model, *part)
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def exchange_seconds(machine: Machine, nbytes: int, ranks: int) -> float:
    """Return how long ranks take to sum their gradients: each sums one share of it, and gives the sum to all others."""
    return 2 * (ranks - 1) * machine.message_seconds(-(-nbytes // ranks)) if ranks > 1 else 0.0


def simulate(whole: float, fixed: float, nbytes: int) -> dict[str, Array]:
    """Return by network the speedup on 1, 2, 4 … ranks of a step of fixed batch: the work shrinks, calls and messages stay."""
    networks = {
        "one machine, 5 GB/s": Machine(),
        "10 Gbit/s": Machine(network_bytes_per_second=1.2e9, latency_seconds=5e-5),
        "1 Gbit/s": Machine(network_bytes_per_second=1.2e8, latency_seconds=1e-4),
    }
    found = dict[str, Array]()
    for name, machine in networks.items():
        ranks = 2 ** np.arange(int(np.log2(MOST_SLOTS)) + 1)
        times = [fixed + (whole - fixed) / n + exchange_seconds(machine, nbytes, int(n)) for n in ranks]
        found[name] = afx.asarray(times[0] / np.array(times))
    return found


def run(output: Path, steps: int = 150) -> list[Claim]:
    """Train, compare with one process, and show where the time goes and would go on more slots."""
    with connect(SLOTS) as machines:
        model, losses, seconds = train(machines, steps)
        rank, ranks = machines.rank, machines.ranks
    if rank:
        return []
    alone, _, _ = train(distributed.local(SLOTS), steps)
    differing = sum(
        int(afx.sum(a != b)) for a, b in zip(afx.pytree.leaves(model), afx.pytree.leaves(alone), strict=True)
    )
    x, y = images()
    errors = 1 - float(nn.accuracy(model(flatten(x)), y))
    nbytes = sum(leaf.nbytes for leaf in afx.pytree.leaves(model))
    parts = {n: compute_seconds(model, BATCH // n) for n in (1, 2, 4)}
    fixed = max(0.0, 2 * parts[2] - parts[1])  # what half of the examples does not halve
    print(f"  {ranks} ranks: {1e3 * seconds:.2f} ms a step; the gradient has {nbytes / 1e3:.0f} kB")
    print("  ranks  examples each  compute ms  exchange ms (5 GB/s)")
    for n, part in parts.items():
        print(f"  {n:5}  {BATCH // n:13}  {1e3 * part:10.2f}  {1e3 * exchange_seconds(Machine(), nbytes, n):11.2f}")
    speedups = simulate(parts[1], fixed, nbytes)
    large = simulate(1000 * parts[1], fixed, nbytes)
    many = 2.0 ** np.arange(len(next(iter(speedups.values()))))
    best = {name: int(many[int(afx.argmax(curve))]) for name, curve in speedups.items()}
    print(f"  fastest number of ranks, simulated: {best}")
    panels = [
        Panel(
            title,
            "ranks",
            "times as fast",
            tuple(Curve(many, curve, name, f"C{k}.-") for k, (name, curve) in enumerate(curves.items())),
            log_x=True,
            log_y=True,
        )
        for title, curves in (("Simulated: this step", speedups), ("Simulated: a step of 1000 times the work", large))
    ]
    save(
        output / "data_parallel.png",
        Panel("Loss", "step", "cross entropy", (Curve(np.arange(1, steps + 1), np.array(losses)),), log_y=True),
        *panels,
    )
    return [
        Claim(f"parameters that differ from those of one process, on {ranks} ranks", differing, 1, shown="{:g}"),
        Claim("share of digits misread", errors, 0.03, shown="{:.2%}"),
    ]
