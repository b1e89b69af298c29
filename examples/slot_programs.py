"""Programs whose slots exchange values: a heat equation by domains, and a network whose layers are cut by columns.

``mpiexec -n 4 python -m mpi4py -m examples slot_programs`` shares the slots among four processes; without mpiexec all are
in one. The bits are the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import afx
from afx import Array, distributed, nn
from afx.distributed import Machines, SlotValues
from examples.report import Claim, Curve, Panel, save
from examples.slots import connect

SLOTS, CELLS, RATE = 4, 64, 0.24
WIDTH, BATCH = 64, 96


def exchange_step(u: Array, _: object) -> tuple[Array, None]:
    """Return a step of the heat equation on one slot's cells, with its neighbours' edges and zeros outside."""
    padded = afx.concatenate([distributed.shift(u[-1:]), u, distributed.shift(u[:1], -1)])
    return u + RATE * (padded[2:] - 2 * u + padded[:-2]), None


def whole_step(u: Array, _: object) -> tuple[Array, None]:
    """Return the same step on all cells."""
    padded = afx.pad(u, (1, 1))
    return u + RATE * (padded[2:] - 2 * u + padded[:-2]), None


def heat(machines: Machines, steps: int) -> tuple[Array, Array]:
    """Return the heat after some steps, and the derivative of its misfit by the start, both of all cells."""
    start, target = initial(), afx.zeros(SLOTS * CELLS, dtype="float64")

    def part(x: Array) -> Array:
        return distributed.by_slot(lambda slot: x[slot * CELLS : (slot + 1) * CELLS])

    def last(u: Array) -> Array:
        return afx.scan(exchange_step, u, None, length=steps)[0]

    def distance(u: Array, target: Array) -> Array:
        return afx.sum((last(u) - target) ** 2)  # a slot's share of it

    run, slope = machines.spmd(last), machines.spmd(afx.jit(afx.grad(distance)))
    return afx.concatenate(run(part(start)).gather()), afx.concatenate(slope(part(start), part(target)).gather())


def initial() -> Array:
    """Return a hot stretch in the middle."""
    x = np.linspace(-1, 1, SLOTS * CELLS)
    return afx.asarray(np.exp(-20 * (x - 0.2) ** 2))


def columns(slot: int) -> Any:
    """Return a slot's columns of the first layer, and the rows of the second that belong to them."""
    first, second = afx.random.split(afx.random.fold_in(afx.random.key(1), slot))
    share = WIDTH // SLOTS
    return {
        "in": afx.random.normal(first, (8, share)) / 8**0.5,
        "out": afx.random.normal(second, (share, 1)) / WIDTH**0.5,
    }


def predict(part: Any, x: Array) -> Array:
    """Return the output of the whole network, on every slot: each adds what its columns give."""
    return distributed.psum(nn.relu(x @ part["in"]) @ part["out"])


def share_of_loss(part: Any, x: Array, y: Array) -> Array:
    """Return a slot's share of the loss, which all slots hold."""
    return afx.mean((predict(part, x) - y) ** 2) / SLOTS


def train(machines: Machines, steps: int) -> tuple[SlotValues[Any], list[float]]:
    """Train a network that no slot has whole; return its parts and the losses."""
    x = afx.random.normal(afx.random.key(2), (BATCH, 8))
    y = afx.sin(x[:, :1]) + x[:, 1:2] * x[:, 2:3]
    value_and_grad = afx.jit(afx.value_and_grad(share_of_loss))

    def step(part: Any) -> tuple[Any, Array]:
        value, slopes = value_and_grad(part, x, y)
        return afx.pytree.map(lambda p, g: p - 0.1 * g, part, slopes), SLOTS * value

    def start(part: Any) -> Any:
        return part

    def parameters(pair: tuple[Any, Array]) -> Any:
        return pair[0]

    run, losses = machines.spmd(step), list[float]()
    parts: SlotValues[Any] = machines.spmd(start)(distributed.by_slot(columns))
    for _ in range(steps):
        found = run(parts)
        losses.append(float(found.first[1]))
        parts = found.map(parameters)
    return parts, losses


def run(output: Path, steps: int = 100) -> list[Claim]:
    """Compute both, compare with one process and with the undivided heat equation."""
    with connect(SLOTS) as machines:
        last, slope = heat(machines, steps)
        parts, losses = train(machines, steps)
        network = parts.gather()
        rank, ranks = machines.rank, machines.ranks
    if rank:
        return []
    alone = distributed.local(SLOTS)
    expected = [*heat(alone, steps), train(alone, steps)[0].gather()]
    pairs = zip(afx.pytree.leaves([last, slope, network]), afx.pytree.leaves(expected), strict=True)
    differing = sum(int(afx.sum(a != b)) for a, b in pairs)
    whole = afx.scan(whole_step, initial(), None, length=steps)[0]
    distance = float(afx.max(afx.abs(whole - last)))
    cells = np.arange(SLOTS * CELLS)
    save(
        output / "slot_programs.png",
        Panel(
            f"Heat on {SLOTS} slots",
            "cell",
            "heat",
            (Curve(cells, initial(), "start"), Curve(cells, last, f"{steps} steps", "C1-")),
        ),
        Panel(
            "Columns of a network on four slots",
            "step",
            "loss",
            (Curve(np.arange(steps), np.array(losses)),),
            log_y=True,
        ),
    )
    return [
        Claim(f"numbers that differ from those of one process, on {ranks} ranks", differing, 1, shown="{:g}"),
        Claim("distance from the undivided heat equation", distance, 1e-12),
        Claim("loss of the network by its first", losses[-1] / losses[0], 0.9, shown="{:.2f}"),
    ]
