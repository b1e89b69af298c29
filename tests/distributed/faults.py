"""Programs of faults that the tests start under ``mpiexec``: each is a function, named on the command line."""

import os
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import afx
from afx import distributed, optim, train
from afx.distributed import Machines, Split
from afx.errors import ArgumentError, PeerLost
from afx.io import checkpoints
from tests.distributed.programs import (
    SLOTS,
    SPLITS,
    X,
    Y,
    bits_of,
    leave_to_numpy,
    loss,
    parameters,
    report,
    train as train_plain,
    train_in_one,
)

QUARTERS = Split((1, 1, 1, 1))


def cost(w: Any, x: Any) -> Any:
    """A mean."""
    return afx.mean((w["w"] * x) ** 2)


def other_values() -> None:
    """Ranks start from other parameters."""
    machines = distributed.connect(SLOTS, deadline=60.0)
    machines.value_and_grad(cost, split=QUARTERS)({"w": afx.asarray(1.0 + machines.rank)}, np.arange(4.0))


def other_rates() -> None:
    """Ranks take steps of other sizes."""
    machines = distributed.connect(SLOTS, deadline=60.0)
    step = machines.value_and_grad(cost, split=QUARTERS)
    optimizer = optim.sgd(0.1 * (1 + machines.rank))
    w = {"w": afx.asarray(1.0)}
    state = optimizer.init(w)
    for _ in range(5):
        _, grads = step(w, np.arange(4.0))
        w, state = optimizer.step(w, grads, state)


def other_sharded_rates() -> None:
    """Ranks shard optimizers of other settings."""
    machines = distributed.connect(SLOTS, deadline=60.0)
    optimizer = distributed.shard_optimizer(machines, optim.sgd(0.1 * (1 + machines.rank)))
    w = {"w": afx.ones(8)}
    optimizer.step(w, w, optimizer.init(w))


def other_calls() -> None:
    """Rank 1 makes another call than the others."""
    machines = distributed.connect(SLOTS, deadline=600.0)
    if machines.rank == 1:
        machines.map(lambda x: x, [1, 2])
    else:
        machines.value_and_grad(cost, split=QUARTERS)({"w": afx.asarray(1.0)}, np.arange(4.0))


def misfits(machines: Machines) -> dict[str, Any]:
    """Return calls in which ranks differ, and what all ranks are told of them."""
    rank, slots = machines.rank, range(SLOTS)
    graph = afx.trace(lambda x: afx.sin(x) + afx.cos(x))(np.ones(2))
    split = distributed.split_graph(graph, [0, SLOTS - 1, 0])
    optimizer = distributed.shard_optimizer(machines, optim.adam(0.1))
    step, data = machines.value_and_grad(cost, split=QUARTERS), "data 1 float(32|64)"
    long, w = np.ones(50_000), {"w": afx.ones(8) * (1 + rank)}
    return {
        r"average over \(1, 1, 1, 1\): \['.'\]float64": lambda: machines.average(
            lambda slot: {"ab"[rank]: 1.0}, QUARTERS
        ),
        "average over .*: float(32|64)": lambda: machines.average(
            lambda slot: long if rank else long.view(np.float32), QUARTERS
        ),
        "average over .*: float64.[23], [23]": lambda: machines.average(
            lambda slot: np.ones((2 + rank, 3 - rank)), QUARTERS
        ),
        "average over .*(5, 1|1, 5)": lambda: machines.average(float, Split((1, 1, 1 + 4 * rank, 5 - 4 * rank))),
        f"value_and_grad of cost: {data},.* value_and_grad of cost: {data}": lambda: step(
            {"w": afx.asarray(0.5)}, np.arange(4.0).astype("fd"[rank])
        ),
        f"value_and_grad of cost: {data}.* value_and_grad of cost: {data}": lambda: [
            step({"w": afx.asarray(0.5)}, np.arange(4.0).astype(dtype)) for dtype in ["d", "d", "d", "fd"[rank]]
        ],
        "the same structure and dtypes of the data": lambda: step(
            {"w": afx.asarray(0.5)}, distributed.by_slot(lambda slot: np.ones(1, "fd"[rank]))
        ),
        "an array of objects": lambda: machines.average(lambda slot: np.array([None]), QUARTERS),
        "the same items of map": lambda: machines.map(lambda x: x, [1, 2, 3 + rank]),
        "the same items of map: got": lambda: machines.map(lambda x: x, [1, 2, 3, 4][: 4 - rank]),
        "broadcast: no such rank: got root=5 of 2": lambda: machines.broadcast(1.0, root=5),
        "scatter: no such rank: got root=-1 of 2": lambda: machines.scatter(X, QUARTERS, root=-1),
        "run_graph: ranks hold other values": lambda: machines.run_graph(split, np.ones(2) * rank),
        "step of a sharded optimizer: ranks hold other values": lambda: optimizer.step(w, w, optimizer.init(w)),
        "spmd of .*: 1. psum of float32.[23]": lambda: machines.spmd(distributed.psum)(
            distributed.by_slot(lambda slot: afx.ones(2 + rank))
        ),
        "all_gather": lambda: machines.spmd(distributed.all_gather)(
            distributed.by_slot(lambda slot: long[:2].view(np.float32) if rank else long[:2])
        ),
        "spmd of .*psum of float64": lambda: machines.spmd(lambda x: distributed.psum(x)[: len(slots)])(
            distributed.by_slot(lambda slot: long if rank else long.reshape(2, -1))
        ),
    }


def differ_in_calls() -> None:
    """Ranks give a call other arguments, each time in a connection of its own; all of them are told so."""
    ok, number, count = True, 0, 1
    while number < count:
        with distributed.connect(SLOTS, deadline=60.0) as machines:
            calls = list(misfits(machines).items())
            (message, call), count, found = calls[number], len(calls), "no error"
            try:
                call()
            except ArgumentError as error:
                found = str(error)
            if not re.search(message, found):
                sys.stderr.write(f"{message}: {found}\n")
                ok = False
        number += 1
    report(machines, ok)


def other_integers() -> None:
    """Slots return other integers, slots of one rank or of two; all ranks are told so, and go on."""
    machines = distributed.connect(SLOTS, deadline=60.0)
    told = 0
    for size in (1, 50_000):
        for odd in ({0}, {2, 3}, {3}):
            try:
                machines.average(lambda slot, odd=odd, size=size: np.full(size, int(slot in odd)), QUARTERS)
            except ArgumentError as error:
                told += "integers or keys that a function returned differ" in str(error)
    report(machines, told == 6 and float(machines.average(float, QUARTERS)) == 1.5)


def left_alone() -> None:
    """Rank 1 makes a collective more than rank 0; both are told so, and end with whatever was on its way."""
    machines = distributed.connect(SLOTS, deadline=600.0)
    times = 1 + machines.rank

    def work(x: Any) -> Any:
        for _ in range(times):
            x = distributed.psum(x)
        return x

    try:
        machines.spmd(work)(distributed.by_slot(lambda slot: afx.ones(3)))
        machines.check_same("", "end")
    except ArgumentError as error:
        sys.stdout.write(f"rank {machines.rank}: {error}\n")


def errors_in_slots() -> None:
    """Slots of one rank or of all fail before, between and behind collectives, or make others; all ranks are told and go on."""
    machines = distributed.connect(SLOTS, deadline=60.0)
    x, last = distributed.by_slot(lambda slot: afx.asarray(float(slot))), SLOTS - 1.0

    def fails(before: int, behind: int, odd: tuple[float, ...]) -> Any:
        def work(x: Any) -> Any:
            for _ in range(before):
                x = x + 0 * distributed.psum(x)
            if float(x) in odd:
                raise ZeroDivisionError("on purpose")
            for _ in range(behind):
                x = x + 0 * distributed.psum(x)
            return x

        return work

    everyone = (0.0, 1.0, 2.0, last)
    programs = [fails(*counts, odd) for counts in [(0, 1), (1, 1), (1, 0)] for odd in [(last,), everyone]]
    programs += [
        lambda x: distributed.psum(x.astype("f8") if machines.rank else x),
        lambda x: distributed.psum(x) if machines.rank else distributed.all_gather(x),
        lambda x: distributed.psum(distributed.psum(x)) if machines.rank else distributed.psum(x),
    ]
    told = 0
    for program in programs:
        try:
            machines.spmd(program)(x)
        except (ArgumentError, ZeroDivisionError):
            told += 1
        found = [float(machines.spmd(distributed.psum)(x).first), float(machines.average(float, QUARTERS))]
        told += found == [6.0, 1.5]
    report(machines, told == 2 * len(programs))


def errors_in_calls() -> None:
    """What the user's code raises on one rank, or on all, ends the call on all of them, which go on together."""
    machines = distributed.connect(SLOTS, deadline=60.0, on_loss="shrink" if sys.argv[2] == "shrink" else "stop")
    optimizer = distributed.shard_optimizer(machines, optim.sgd(0.1))
    params = {"w": afx.ones(8)}
    stages = [lambda w, x: w * x] * SLOTS
    weights = distributed.by_slot(lambda slot: afx.asarray(1.0))

    def fail(ranks: tuple[int, ...], value: Any) -> Any:
        if machines.rank in ranks:
            raise ZeroDivisionError("on purpose")
        return value

    def calls(ranks: tuple[int, ...]) -> list[Any]:
        step = machines.value_and_grad(lambda w, x: fail(ranks, cost(w, x)), split=QUARTERS, compiled=False)
        shard = optimizer.value_and_step(lambda w, x: fail(ranks, cost(w, x)), split=QUARTERS)
        return [
            lambda: machines.spmd(lambda x: fail(ranks, distributed.psum(x)))(weights),
            lambda: machines.map(lambda x: fail(ranks, x), range(6)),
            lambda: machines.average(lambda slot: fail(ranks, float(slot)), QUARTERS),
            lambda: step(params, np.arange(4.0)),
            lambda: shard(params, optimizer.init(params), np.arange(4.0)),
            lambda: machines.pipeline(stages, lambda x, y: fail(ranks, afx.mean(x - y)), micro_batches=2)(
                weights, np.ones(4), np.ones(4)
            ),
        ]

    told = count = 0
    for ranks in [(0,), (2,), (0, 2), (0, 1, 2)]:
        for call in calls(ranks):
            count += 2
            try:
                call()
            except ZeroDivisionError as error:
                told += machines.rank in ranks or "got ZeroDivisionError: on purpose" in str(error)
            told += float(machines.average(float, QUARTERS)) == 1.5
    for call in calls(()):
        call()
    report(machines, told == count or f"{told} of {count}")


def over() -> None:
    """Rank 1 makes other calls than rank 0, in which a slot fails; each is told so, and the next call that it cannot go on."""
    machines = distributed.connect(SLOTS, deadline=60.0)
    for _ in range(2):
        try:
            if machines.rank:
                machines.broadcast(X, root=1)  # a call more, which needs no answer
                machines.map(lambda x: x, [1, 2])
            else:
                machines.spmd(lambda x: distributed.psum(1 // int(x)))(0.0)
        except (ArgumentError, PeerLost, ZeroDivisionError) as error:
            sys.stdout.write(f"rank {machines.rank}: {error}\n")


def missing_call() -> None:
    """Rank 0 makes a call more in front, which needs no answer."""
    machines = distributed.connect(SLOTS, deadline=600.0)
    step = machines.value_and_grad(cost, split=QUARTERS)
    step({"w": afx.asarray(1.0)}, np.arange(4.0))
    if machines.rank == 0:
        machines.broadcast({"x": X})
    for _ in range(3):
        step({"w": afx.asarray(1.0)}, np.arange(4.0))


def leave() -> None:
    """Rank 1 ends its program normally, before the others."""
    machines = distributed.connect(SLOTS, deadline=600.0)
    train_plain(machines, SPLITS[0], 2 if machines.rank == 1 else 5)


def clocks() -> None:
    """Training ends on all ranks where rank 0's clock and verdict say so."""
    machines = distributed.connect(SLOTS, deadline=60.0)

    def step(state: int, batch: float) -> tuple[int, float]:
        time.sleep(0.02 * machines.rank)
        machines.average(lambda slot: float(slot), QUARTERS)
        return state + 1, batch + machines.rank

    timed = train.finish(train.limit_time(train.steps(step, 0, [0.0] * 100_000), 0.5)).number
    values = [3.0, 2.0, 2.5, 2.5, 1.0] if machines.rank == 0 else [3.0, 2.0, 1.0, 0.5, 0.2]
    stopped = train.finish(train.stop_early(train.steps(step, 0, values), patience=2)).number
    report(machines, len({*machines.map(lambda k: (timed, stopped), range(SLOTS))}) == 1 and stopped == 4)


def save_once() -> None:
    """Each rank writes its slots, and reads them again."""
    machines = distributed.connect(SLOTS, deadline=60.0)
    folder = sys.argv[2]
    optimizer = distributed.shard_optimizer(machines, optim.adam(0.1))
    p = parameters()
    state = optimizer.init(p)

    def step(now: Any, batch: int) -> Any:
        q, inner = now
        return optimizer.step(q, q, inner), float(batch)

    saved = afx.io.Checkpoints(folder)
    done = train.finish(train.save_checkpoints(train.steps(step, (p, state), range(3)), saved, every=2))
    machines.check_same("", "saved")
    number, (q, again) = train.resume(saved, (p, optimizer.init(p)))
    ok = number == 3 and tuple(sorted(again.by_slot)) == machines.own_slots
    report(machines, ok and bits_of((q, again)) == bits_of(done.state))


def go_on() -> None:
    """Train with a sharded state from where a folder's checkpoints end; rank 1 may be killed behind its part of one."""
    folder, steps, victim = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    machines = distributed.connect(SLOTS, deadline=60.0)
    real = checkpoints.write_archive

    def write(path: Path, *args: Any) -> str:
        digest = real(path, *args)
        if machines.rank == 1 and path.name.startswith(f"step_{victim:010d}"):
            os.kill(os.getpid(), signal.SIGKILL)
        return digest

    checkpoints.write_archive = write
    start, state = train_saved(machines, folder, steps)
    report(machines, start + len(state) > 0)


def train_saved(machines: Machines, folder: str | Path, steps: int) -> tuple[int, Any]:
    """Return the step from which a training goes on, and the state with which it ends."""
    optimizer = distributed.shard_optimizer(machines, optim.adam(0.1))
    move = optimizer.value_and_step(loss, split=SPLITS[0], has_aux=True)

    def step(state: Any, number: int) -> Any:
        keys = distributed.by_slot(lambda slot: afx.random.fold_in(afx.random.key(number), slot))
        value, p, inner = move(*state, X, Y, keys)
        return (p, inner), value[0]

    saved = afx.io.Checkpoints(folder)
    start, state = train.resume(saved, (parameters(), optimizer.init(parameters())))
    run = train.steps(step, state, range(int(start), steps), start=start)
    return int(start), train.finish(train.save_checkpoints(run, saved, every=1)).state


def idle_graph() -> None:
    """A graph that stays on one slot, with an output that is an input, on more ranks than it needs."""
    machines = distributed.connect(SLOTS, deadline=60.0)
    graph = afx.trace(lambda x: (x, afx.sum(x) * 2.0))(np.ones(3))
    split = distributed.split_graph(graph, distributed.place(graph, 2))
    found = machines.run_pipeline(split, [[np.full(3, float(k))] for k in range(3)])
    report(machines, [[np.asarray(x).tolist() for x in one] for one in found] == [[[k] * 3, 6 * k] for k in range(3)])


def lose_outside() -> None:
    """Ranks are lost in first calls, gatherings, maps, broadcasts and sharded steps; the rest has the bits of one process."""
    place, machines = sys.argv[2], distributed.connect(SLOTS, deadline=20.0, on_loss="shrink")
    victim = machines.rank == machines.ranks - 1
    local = distributed.local(SLOTS)

    def die() -> None:
        if victim:
            os.kill(os.getpid(), signal.SIGKILL)

    if place == "first":
        die()
        ok = train_plain(machines, SPLITS[0], 3) == train_plain(local, SPLITS[0], 3)
    elif place == "second":
        train_plain(machines, SPLITS[0], 2)
        die()
        ok = train_plain(machines, SPLITS[1], 3) == train_plain(local, SPLITS[1], 3)
    elif place == "map":
        ok = machines.map(lambda k: (die(), k)[1], range(9)) == list(range(9))
    elif place == "broadcast":
        die()
        ok = bool(np.array_equal(machines.broadcast(X if machines.rank == 0 else None), X))
    elif place == "graph":
        graph = afx.trace(lambda x: afx.sin(x) + afx.cos(x))(np.ones(3))
        split = distributed.split_graph(graph, [0, SLOTS - 1, 0])
        machines.run_graph(split, np.ones(3))
        die()
        ok = bits_of(machines.run_graph(split, np.zeros(3))) == bits_of(local.run_graph(split, np.zeros(3)))
    else:
        ok = lose_in_shards(machines, die) == bits_of(train_in_one(local, SPLITS[0], 6))
    report(machines, ok)
    sys.stdout.flush()
    os._exit(0)  # MPI's own end would wait for the lost ranks


def lose_in_shards(machines: Machines, die: Any) -> list[bytes]:
    """Train with a sharded state, of which a rank is lost in the middle."""
    optimizer = distributed.shard_optimizer(machines, optim.adamw(0.1, weight_decay=0.01))
    step = optimizer.value_and_step(loss, split=SPLITS[0], has_aux=True)
    p = parameters()
    state, out = optimizer.init(p), None
    for number in range(6):
        keys = distributed.by_slot(lambda slot, number=number: afx.random.fold_in(afx.random.key(number), slot))
        if number == 3:
            die()
        out, p, state = step(p, state, X, Y, keys)
    return bits_of((out, p, optimizer.gather(state)))


def hang_and_go_on() -> None:
    """A rank that hangs is ended at the deadline, and the others go on."""
    machines = distributed.connect(SLOTS, deadline=5.0, on_loss="shrink")
    train_plain(machines, SPLITS[0], 2)
    if machines.rank == machines.ranks - 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    ok = train_plain(machines, SPLITS[0], 3) == train_plain(distributed.local(SLOTS), SPLITS[0], 3)
    report(machines, ok)
    sys.stdout.flush()
    os._exit(0)


def connect_again() -> None:
    """A program connects, ends the connection and connects again, with calls in between on which ranks wait."""
    ok = True
    for number in range(12):
        with distributed.connect(SLOTS, deadline=60.0) as machines:
            step = machines.value_and_grad(cost, split=QUARTERS)
            ok &= all(float(step({"w": afx.asarray(1.0)}, np.arange(4.0))[0]) == 3.5 for _ in range(number % 3))
    report(machines, ok)


def lost_before() -> None:
    """Rank 1 is lost before it connects."""
    if os.environ["OMPI_COMM_WORLD_RANK"] == "1":
        os.kill(os.getpid(), signal.SIGKILL)
    distributed.connect(SLOTS, deadline=2.0, on_loss="shrink")


def sums() -> None:
    """A loss is a sum over its examples."""
    machines = distributed.connect(SLOTS, deadline=60.0)
    step = machines.value_and_grad(lambda w, x: afx.sum((w * x) ** 2), split=Split((3, 3, 3, 3)))
    step(2.0, np.arange(12.0))


def raise_while_shrinking() -> None:
    """One rank raises in a job that goes on without lost ranks."""
    machines = distributed.connect(SLOTS, deadline=60.0, on_loss="shrink")
    train_plain(machines, SPLITS[0], 1)
    if machines.rank == 1:
        raise RuntimeError("broken on purpose")
    train_plain(machines, SPLITS[0], 1000)


def raise_alone() -> None:
    """The last rank that is left raises."""
    machines = distributed.connect(SLOTS, deadline=60.0, on_loss="shrink")
    if machines.rank > 0:
        os.kill(os.getpid(), signal.SIGKILL)
    train_plain(machines, SPLITS[0], 1)
    raise RuntimeError("broken on purpose")


def list_ports() -> None:
    """No socket of this process listens on an address of the network."""
    machines = distributed.connect(SLOTS, deadline=60.0)
    sockets = [str(fd.readlink()) for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()]
    numbers = {text[len("socket:[") : -1] for text in sockets if text.startswith("socket:[")}
    listening = list[str]()
    for name in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{name}").read_text(encoding="ascii").splitlines()[1:]:
            local, _, state, *rest = line.split()[1:]
            if state == "0A" and rest[5] in numbers and not local.startswith("0100007F"):
                listening.append(local)
    report(machines, not listening)


if __name__ == "__main__":
    leave_to_numpy()
    globals()[sys.argv[1]]()
