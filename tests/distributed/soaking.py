"""Programs of ``python -m tests.distributed.soak``: random trainings, split graphs and losses, each beside one process."""

import os
import signal
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

import afx
from afx import distributed, optim
from afx.distributed import Machines, Split
from tests.distributed.programs import SLOTS, X, Y, bits_of, leave_to_numpy, loss, parameters, random_graph, report

MOST_RANKS, MOST_SLOTS = 6, 9
SPLITS = [Split((10, 9, 9, 7, 1, 1)), Split((0, 30, 0, 5, 0, 2))]  # of jobs that lose ranks
OPTIMIZERS: list[Callable[[], Any]] = [
    lambda: optim.sgd(0.1),
    lambda: optim.adamw(0.1, weight_decay=0.01),
    lambda: optim.lamb(0.1),
    lambda: optim.chain(optim.clip_by_global_norm(0.5), optim.adam(0.1)),
]


def random_split(generator: np.random.Generator, slots: int) -> Split:
    """Deal examples to slots, of which some get none."""
    while True:
        sizes = [int(n) for n in generator.integers(0, 5, slots) * (generator.random(slots) < 0.7)]
        if sum(sizes):
            return Split(sizes)


def train_randomly(machines: Machines, split: Split, seed: int) -> list[bytes]:
    """Train a model of random sizes with a random optimizer, whole or sharded."""
    generator = np.random.default_rng(seed)
    width = int(generator.choice([1, 3, 40, 3000]))
    dtype = generator.choice(["float32", "float64"])
    x = generator.normal(size=(split.total, 4)).astype(dtype)
    p: Any = {"u": afx.asarray(generator.normal(size=(4, width)).astype(dtype)), "n": afx.asarray(seed)}
    p |= {"v": afx.asarray(generator.normal(size=width).astype("float32")), "s": afx.asarray(0.5)}

    def cost(p: Any, x: Any, scale: Any) -> Any:
        error = afx.tanh(x @ p["u"]) @ p["v"] * p["s"] - afx.sum(x, axis=1) * scale
        return afx.mean(error**2), {"mean": afx.mean(error), "n": p["n"]}

    optimizer, steps = OPTIMIZERS[int(generator.integers(len(OPTIMIZERS)))](), int(generator.integers(1, 4))
    scale = distributed.by_slot(lambda slot: 1.0 + slot)
    if generator.random() < 0.5:
        sharded = distributed.shard_optimizer(machines, optimizer)
        step = sharded.value_and_step(cost, split=split, has_aux=True)
        state, out = sharded.init(p), None
        for _ in range(steps):
            out, p, state = step(p, state, x, scale)
        return bits_of((out, p, sharded.gather(state)))
    slopes, state = machines.value_and_grad(cost, split=split, has_aux=True), optimizer.init(p)
    out = None
    for _ in range(steps):
        out, grads = slopes(p, x, scale)
        p, state = optimizer.step(p, grads, state)
    return bits_of((out, p, machines.average(lambda slot: slot / 3, split)))


def trainings(first: int, count: int) -> None:
    """Random trainings have the bits of one process."""
    for seed in range(first, first + count):
        generator = np.random.default_rng(seed)
        size = int(os.environ.get("OMPI_COMM_WORLD_SIZE", "1"))
        slots = int(generator.integers(size, MOST_SLOTS + 1))
        split = random_split(generator, slots)
        with distributed.connect(slots, deadline=60.0) as machines:
            same = train_randomly(machines, split, seed) == train_randomly(distributed.local(slots), split, seed)
            print(f"training {seed} on rank {machines.rank}: {'same' if same else f'DIFFERENT {split}'}", flush=True)


def graphs(first: int, count: int) -> None:
    """Random graphs on random slots, of which some get nothing, have the bits of one process."""
    machines = distributed.connect(max(SLOTS, int(os.environ.get("OMPI_COMM_WORLD_SIZE", "1"))), deadline=60.0)
    for seed in range(first, first + count):
        generator = np.random.default_rng(seed)
        graph, places, inputs = random_graph(seed, int(generator.integers(4, 60)))
        used = generator.permutation(machines.slots)[: generator.integers(1, machines.slots + 1)]
        split = distributed.split_graph(graph, [int(used[k % len(used)]) for k in places])
        batches = [[scale * x for x in inputs] for scale in (1.0, 0.5, 2.0)]
        local = distributed.local(machines.slots)
        same = bits_of(machines.run_graph(split, *inputs)) == bits_of(local.run_graph(split, *inputs))
        same &= bits_of(machines.run_pipeline(split, batches)) == bits_of(local.run_pipeline(split, batches))
        print(f"graph {seed} on rank {machines.rank}: {'same' if same else 'DIFFERENT'}", flush=True)


# ------------------------------------------------------------------------------------------------------------- losses

OUTSIDE = ["connect", "first", "evaluate", "average", "broadcast", "scatter", "graph", "gather", "spmd"]
INSIDE = ["step", "sharded step", "graph again"]


class Killer:
    """Ends this process in one of the calls, at once or a moment later."""

    def __init__(self, rank: int, ranks: int, seed: int) -> None:
        generator = np.random.default_rng(seed)
        victims = generator.permutation(ranks)[: generator.integers(1, ranks)].tolist()
        places = [str(generator.choice(OUTSIDE if generator.random() < 0.5 else INSIDE)) for _ in victims]
        delays = [float(x) for x in generator.choice([0.0, 1e-4, 1e-3, 1e-2], len(victims))]
        mine = victims.index(rank) if rank in victims else None
        self._place = None if mine is None else places[mine]
        self._delay = 0.0 if mine is None else delays[mine] * float(generator.random())
        if self._place == "connect":
            self._delay *= 30  # MPI takes so long to begin

    @contextmanager
    def at(self, place: str) -> Generator[None]:
        """Run a call in which this rank may end."""
        if place != self._place:
            yield
            return
        print(f"armed: {place}", flush=True)
        if not self._delay:
            os.kill(os.getpid(), signal.SIGKILL)
        signal.setitimer(signal.ITIMER_REAL, self._delay)  # SIGALRM ends a process wherever it is
        yield
        if self._delay > 0.005:
            time.sleep(0.02)
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        print(f"survived: {place}", flush=True)


def run_calls(machines: Machines, killer: Killer | None) -> Generator[list[bytes]]:
    """Make calls of all kinds, and give what they return."""

    def at(place: str) -> Any:
        return nullcontext() if killer is None else killer.at(place)

    step, optimizer = machines.value_and_grad(loss, split=SPLITS[0], has_aux=True), optim.adam(0.1)
    p, out = parameters(), None
    state = optimizer.init(p)
    for number in range(6):
        keys = distributed.by_slot(lambda slot, number=number: afx.random.fold_in(afx.random.key(number), slot))
        with at("first" if number == 0 else "step" if number == 3 else ""):
            out, grads = step(p, X, Y, keys)
        p, state = optimizer.step(p, grads, state)
    yield bits_of((out, p))
    with at("evaluate"):
        yield bits_of(machines.map(lambda k: afx.sin(afx.asarray(float(k))), range(9)))
    with at("average"):
        yield bits_of(machines.average(lambda slot: np.full(3, slot / 3), SPLITS[1]))
    with at("broadcast"):
        yield bits_of(machines.broadcast(X if machines.rank == 0 else None))
    graph, places, inputs = random_graph(3, 20)
    split = distributed.split_graph(graph, [k + number % 3 for number, k in enumerate(places)], slots=MOST_RANKS)
    for place in ("graph", "graph again"):
        with at(place):
            yield bits_of(machines.run_graph(split, *inputs))
    with at("spmd"):
        yield bits_of(machines.spmd(lambda x: distributed.psum(x * 2.0))(distributed.by_slot(lambda s: s / 3)).gather())
    yield from run_shards(machines, at)
    with at("scatter"):
        rows = machines.scatter(X if machines.rank == 0 else None, SPLITS[0])
    yield bits_of(machines.value_and_grad(lambda w, x: afx.mean((w * x) ** 2), split=SPLITS[0])(2.0, rows))


def run_shards(machines: Machines, at: Callable[[str], Any]) -> Generator[list[bytes]]:
    """Train with a sharded state, and gather it."""
    sharded = distributed.shard_optimizer(machines, optim.adamw(0.1, weight_decay=0.01))
    step, p, out = sharded.value_and_step(loss, split=SPLITS[0], has_aux=True), parameters(), None
    state = sharded.init(p)
    for number in range(4):
        keys = distributed.by_slot(lambda slot, number=number: afx.random.fold_in(afx.random.key(number), slot))
        with at("sharded step" if number == 2 else ""):
            out, p, state = step(p, state, X, Y, keys)
    with at("gather"):
        yield bits_of((out, p, sharded.gather(state)))


def losses(seed: int, on_loss: Any) -> None:
    """Ranks are killed in calls of all kinds; the others have the bits of one process."""
    env = os.environ
    killer = Killer(int(env["OMPI_COMM_WORLD_RANK"]), int(env["OMPI_COMM_WORLD_SIZE"]), seed)
    with killer.at("connect"):
        machines = distributed.connect(MOST_RANKS, deadline=20.0, on_loss=on_loss)
    found = list(run_calls(machines, killer))
    report(machines, found == list(run_calls(distributed.local(machines.slots), None)))
    sys.stdout.flush()
    os._exit(0)  # MPI's own end would wait for the lost ranks


if __name__ == "__main__":
    leave_to_numpy()
    numbers = [int(word) if word.isdigit() else word for word in sys.argv[2:]]
    globals()[sys.argv[1]](*numbers)
