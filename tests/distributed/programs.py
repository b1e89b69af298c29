"""Programs that the tests start under ``mpiexec``: each is a function of this module, named on the command line."""

import contextlib
import os
import platform
import resource
import signal
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import afx
from afx import Array, Graph, distributed, optim, random
from afx.compiler.target import Target, current
from afx.distributed import Machines, Split
from afx.distributed.mpi import link as mpi_link
from afx.distributed.sums import packets, plan
from afx.runtime.thread_pool import get_threads

X = np.random.default_rng(0).normal(size=(37, 5))
Y = np.random.default_rng(1).normal(size=(37,))
SPLITS = [Split((10, 9, 9, 9)), Split((1, 2, 33, 1)), Split((0, 30, 0, 7)), Split((37, 0, 0, 0))]
SLOTS = 4
title = ""  # of the program that runs, where a job runs several
COMPILED = ("bits", "examples")  # with machine code as in any program; in the others it would come when they end


@contextlib.contextmanager
def replacing(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Give an attribute another value inside a ``with`` block; `unittest.mock` would be a sixth of a rank's imports."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def leave_to_numpy() -> None:
    """Compile no machine code in this rank, whose bits it would not change: a job ends before it has any."""
    current.set(Target(backend="numpy"))


def parameters() -> Any:
    """Make parameters of two dtypes, with an integer."""
    return {
        "w": afx.asarray(np.linspace(-1, 1, 5)),
        "b": afx.asarray(np.float32(0.25)),
        "n": afx.asarray(3),
        "v": afx.asarray(np.linspace(0, 1, 3, dtype=np.float32)),
    }


def loss(p: Any, x: Array, y: Array, key: Array) -> tuple[Array, Any]:
    """A regression with noise from the slot's key, and metrics beside it."""
    noise = random.normal(key, y.shape, dtype=np.float64)
    error = x @ p["w"] + p["b"] * afx.sum(p["v"] ** 2) - y + 0.01 * noise
    return afx.mean(error**2), {"mean": afx.mean(error), "steps": p["n"] + 1}


def train(machines: Machines, split: Split, steps: int = 5, disturb: Any = None) -> list[bytes]:
    """Train some steps and return the bits of parameters, value and metrics."""
    step = machines.value_and_grad(loss, split=split, has_aux=True)
    optimizer = optim.adam(0.1)
    p = parameters()
    state = optimizer.init(p)
    key = random.key(5)
    out: Any = None
    for number in range(steps):
        keys = distributed.by_slot(lambda slot, number=number: random.fold_in(random.fold_in(key, number), slot))
        if disturb is not None:
            disturb(machines, number)
        out, grads = step(p, X, Y, keys)
        p, state = optimizer.step(p, grads, state)
    return bits_of((p, out))


def report(machines: Machines, ok: bool) -> None:
    """Print on each rank whether it agrees."""
    print(f"{title}rank {machines.rank} of {machines.ranks}: {'same' if ok else 'DIFFERENT'}", flush=True)


def bits() -> None:
    """Every Split gives the bits of one process; so do mapping, scattering and broadcasting."""
    machines = distributed.connect(SLOTS, deadline=60.0)
    ok = all(train(machines, split) == train(distributed.local(SLOTS), split) for split in SPLITS)
    ok &= get_threads() == max(1, len(os.sched_getaffinity(0)) // machines.ranks)  # ranks share the processors
    squares = [x.tolist() for x in machines.map(lambda k: random.normal(random.key(k), 3), range(7))]
    ok &= squares == [random.normal(random.key(k), 3).tolist() for k in range(7)]
    split = SPLITS[1]
    x, y = machines.scatter((X, Y) if machines.rank == 0 else None, split), Y  # parts
    del x, y
    ok &= machines.broadcast({"x": X} if machines.rank == 0 else None)["x"].tolist() == X.tolist()  # a tree
    report(machines, ok)


def random_graph(seed: int, size: int = 200) -> tuple[Graph, list[int], list[Any]]:
    """Make a random graph of that many operations, a random slot for each equation, and inputs."""
    generator = np.random.default_rng(seed)

    def program(x: Array, y: Array) -> tuple[Array, ...]:
        values = [x, y, afx.asarray(generator.normal(size=4))]
        while len(values) < size:
            a, b = (values[k] for k in generator.integers(0, len(values), 2))
            kind = generator.integers(0, 6)
            if kind == 0:
                values.append(afx.sin(a + b))
            elif kind == 1:
                values.append(a * 0.5 - b)
            elif kind == 2:
                values.append(afx.tanh(a) * afx.sum(b))
            elif kind == 3:
                values.append(afx.where(a > b, a, b * 0.25))
            elif kind == 4:
                values.append(afx.flip(a) + afx.cumsum(b) * 0.1)
            else:
                values.append(afx.outer(a, b) @ afx.cos(a))
        return values[-1], values[size // 2], x

    def gradient(x: Array, y: Array) -> tuple[Array, ...]:
        return program(x, y) if seed % 2 else afx.grad(lambda x: afx.sum(afx.tanh(program(x, y)[0])))(x)

    inputs = [generator.normal(size=4), generator.normal(size=4)]
    graph = afx.trace(gradient)(*inputs)
    return graph, [int(k) for k in generator.integers(0, SLOTS, len(graph))], inputs


def graphs() -> None:
    """Random graphs with random assignments give the bits of one process, one by one and as a pipeline."""
    machines = distributed.connect(SLOTS, deadline=600.0)
    ok = True
    for seed in range(int(sys.argv[2])):
        graph, places, inputs = random_graph(seed)
        split = distributed.split_graph(graph, places, slots=SLOTS)
        batches = [inputs, [x * 0.5 for x in inputs], [x + 1.0 for x in inputs]]
        found, root, own = machines.run_pipeline(split, batches), seed % machines.ranks, None
        if machines.rank == root:
            own = [np.asarray(x) for x in afx.pytree.leaves(distributed.local(SLOTS).run_pipeline(split, batches))]
        expected: Any = machines.broadcast(own, root=root)
        ok &= bits_of(found) == bits_of(expected) and bits_of(machines.run_graph(split, *inputs)) == bits_of(
            expected[: len(expected) // len(batches)]
        )
    report(machines, ok)


def bits_of(tree: Any) -> list[bytes]:
    """Return the bytes of all leaves."""
    return [np.asarray(leaf).tobytes() for leaf in afx.pytree.leaves(tree)]


def train_sharded(
    machines: Machines, steps: int = 6, state: Any = None, p: Any = None, start: int = 0
) -> tuple[Any, Any]:
    """Train some steps with a sharded optimizer; return parameters and the gathered state."""
    step = machines.value_and_grad(loss, split=SPLITS[0], has_aux=True)
    optimizer = distributed.shard_optimizer(machines, optim.adamw(0.1, weight_decay=0.01))
    p = parameters() if p is None else p
    state = optimizer.init(p) if state is None else state
    for number in range(start, start + steps):
        keys = distributed.by_slot(lambda slot, number=number: random.fold_in(random.key(number), slot))
        _, grads = step(p, X, Y, keys)
        p, state = optimizer.step(p, grads, state)
    return p, optimizer.gather(state)


def shard() -> None:
    """A state that is divided among ranks gives the bits of one process, and goes on from a gathered one."""
    machines = distributed.connect(SLOTS, deadline=60.0)
    lamb = [norms(where) for where in (machines, distributed.local(SLOTS))]
    p, state = train_sharded(machines, 3)
    found = train_sharded(machines, 3, state, p)
    expected = bits_of(train_sharded(distributed.local(SLOTS), 3, *train_of(3)))
    report(machines, bits_of(found) == expected and lamb[0] == lamb[1])


def norms(machines: Machines) -> list[bytes]:
    """Take steps by norms of arrays that no slot has whole."""
    rule = optim.chain(optim.clip_by_global_norm(0.5), optim.adam(0.1))
    for optimizer in (optim.lamb(0.1), rule):
        sharded = distributed.shard_optimizer(machines, optimizer)
        p, state = parameters(), sharded.init(parameters())
        for _ in range(3):
            p, state = sharded.step(p, p, state)
    return bits_of((p, sharded.gather(state)))


def train_in_one(machines: Machines, split: Split, steps: int = 4) -> tuple[Any, Any, Any]:
    """Train with a step that exchanges chunks of the gradient alone; return output, parameters and the gathered state."""
    optimizer = distributed.shard_optimizer(machines, optim.adamw(0.1, weight_decay=0.01))
    step = optimizer.value_and_step(loss, split=split, has_aux=True)
    p = parameters()
    state, out = optimizer.init(p), None
    for number in range(steps):
        keys = distributed.by_slot(lambda slot, number=number: random.fold_in(random.key(number), slot))
        out, p, state = step(p, state, X, Y, keys)
    return out, p, optimizer.gather(state)


def step_in_one() -> None:
    """Chunks of the gradient stay where they are used: the bits of one process, for Splits with idle slots too."""
    machines = distributed.connect(SLOTS, deadline=60.0)
    local = distributed.local(SLOTS)
    for split in SPLITS:
        report(machines, bits_of(train_in_one(machines, split)) == bits_of(train_in_one(local, split)))


def train_of(steps: int) -> tuple[Any, Any]:
    """Return the state and the parameters after some steps in one process."""
    p, state = train_sharded(distributed.local(SLOTS), steps)
    return state, p


def pieces() -> None:
    """Messages that are cut because MPI takes so many elements a call give the same bits."""
    with contextlib.ExitStack() as stack:
        # 2**30 and 2**22 else; and so that nothing travels together
        for module, name, value in (
            (mpi_link, "PIECE_BYTES", 24),
            (packets, "PIECE_BYTES", 16),
            (packets, "JOIN_BYTES", 0),
            (mpi_link, "share_memory", lambda _: None),
        ):
            stack.enter_context(replacing(module, name, value))
        send_in_pieces()


def send_in_pieces() -> None:
    """Compare what is sent with one process."""
    machines = distributed.connect(SLOTS, deadline=60.0)
    ok = all(train(machines, split) == train(distributed.local(SLOTS), split) for split in SPLITS)
    ok &= bits_of(train_in_one(machines, SPLITS[2])) == bits_of(train_in_one(distributed.local(SLOTS), SPLITS[2]))
    graph, places, inputs = random_graph(1, 30)
    split = distributed.split_graph(graph, places, slots=SLOTS)
    ok &= bits_of(machines.run_graph(split, *inputs)) == bits_of(distributed.local(SLOTS).run_graph(split, *inputs))
    report(machines, ok)


def machines_of() -> None:
    """Ranks on machines of the given numbers of ranks, as they call themselves, give the bits of one process."""
    sizes = [int(text) for text in sys.argv[2].split(",")]
    names = [f"machine {k}" for k, size in enumerate(sizes) for _ in range(size)]
    own = names[int(os.environ["OMPI_COMM_WORLD_RANK"])]
    saves = replacing(plan.MachineNodes, "saves", lambda self, others: self.are_shared)  # also of few
    with replacing(platform, "node", lambda: own), saves:
        sum_on(sizes)


def sum_on(sizes: list[int]) -> None:
    """Compare sums on machines of these numbers of ranks with one process."""
    slots = 2 * sum(sizes) + 1
    machines, local = distributed.connect(slots, deadline=60.0), distributed.local(slots)
    ok = machines.link.hosts == tuple(sizes)  # of the link over MPI
    split, given = Split((1,) * slots), [np.random.default_rng(k).normal(size=30_000) for k in range(slots)]
    for read in (given.__getitem__, lambda slot: given[slot][:10]):
        ok &= bits_of(machines.average(read, split)) == bits_of(local.average(read, split))
    found = list[Any]()
    for where in (machines, local):
        optimizer = distributed.shard_optimizer(where, optim.adam(0.1))
        step = optimizer.value_and_step(lambda w, x: afx.mean((x * w) ** 2), split=split)
        w = afx.asarray(given[0])
        _, w, state = step(w, optimizer.init(w), np.array(given))
        found.append(bits_of((w, optimizer.gather(state))))
    report(machines, ok and found[0] == found[1])


def slot_programs() -> None:
    """Halo exchange with its gradient, and a network cut by columns, have the bits of one process."""
    from examples import slot_programs as demonstration  # it needs the extra that draws

    machines, local = distributed.connect(SLOTS, deadline=60.0), distributed.local(SLOTS)
    ok = bits_of(demonstration.heat(machines, 9)) == bits_of(demonstration.heat(local, 9))
    found, expected = (demonstration.train(where, 5)[0].gather() for where in (machines, local))
    rows = distributed.by_slot(lambda slot: afx.asarray(X[:SLOTS, :] * (slot + 1)))
    scatter = [where.spmd(distributed.psum_scatter)(rows).gather() for where in (machines, local)]
    ring = [where.spmd(lambda x: distributed.shift(x, 3, wrap=True))(rows).gather() for where in (machines, local)]
    ok &= bits_of(found) == bits_of(expected) and bits_of(scatter[0]) == bits_of(scatter[1])
    report(machines, ok and bits_of(ring[0]) == bits_of(ring[1]))


def stage(params: Any, x: Any) -> Any:
    """One stage of a model."""
    return afx.tanh(x @ params["w"]) + x


def stage_loss(x: Any, y: Any) -> Any:
    """A mean over examples."""
    return afx.mean((x - y) ** 2)


def stage_parameters(slot: int) -> Any:
    """The parameters of a stage, with an integer among them."""
    return {"w": afx.asarray(np.random.default_rng(slot).normal(size=(6, 6))), "n": afx.asarray(slot)}


def stages() -> None:
    """A model in stages trains with the bits of one process."""
    x, y = np.random.default_rng(5).normal(size=(8, 6)), np.random.default_rng(6).normal(size=(8, 6))

    def train_stages(machines: Machines) -> list[bytes]:
        step = machines.pipeline([stage] * SLOTS, stage_loss, micro_batches=4)
        params: Any = machines.spmd(stage_parameters)(distributed.by_slot(lambda slot: slot))
        value: Any = None
        for _ in range(3):
            inputs = distributed.by_slot(lambda slot: x if slot == 0 else 1 / 0)  # read on the first slot alone
            value, slopes = step(params, inputs, distributed.by_slot(lambda slot: y if slot == SLOTS - 1 else 1 / 0))
            params = machines.spmd(lambda p, g: {"w": p["w"] - 0.1 * g["w"], "n": p["n"]})(params, slopes)
        return bits_of((value, params.gather()))

    machines = distributed.connect(SLOTS, deadline=60.0)
    report(machines, train_stages(machines) == train_stages(distributed.local(SLOTS)))


def large_model() -> None:
    """Four stages of 64 MB train under a limit that one process, with all of them and their gradients, exceeds."""
    machines = distributed.connect(SLOTS, deadline=200.0)
    step = machines.pipeline([stage] * SLOTS, stage_loss, micro_batches=2)
    status = Path("/proc/self/status").read_text(encoding="ascii")
    used = 1024 * int(status.split("VmSize:")[1].split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (used + 750_000_000, used + 750_000_000))
    params: Any = machines.spmd(lambda slot: {"w": afx.ones((4000, 4000), dtype="float32") * 1e-4})(
        distributed.by_slot(lambda slot: slot)
    )
    x = np.ones((4, 4000), np.float32)
    values = [step(params, x, x)[0] for _ in range(2)]
    report(machines, all(bool(np.isfinite(np.asarray(v))) for v in values))


def memory() -> None:
    """Print the most memory of a step with a sharded state, in bytes of the parameters."""
    machines, split = distributed.connect(2, deadline=60.0), Split((2, 2))
    afx.set_cache_limit(0)  # what plans keep for their next call is bounded by it

    def cost(p: Any, x: Any) -> Any:
        for w in p:
            x = afx.tanh(x @ w)
        return afx.mean(x**2)

    def measure(make: Any) -> float:
        tracemalloc.start()
        p = [afx.ones((500, 500), dtype="float32") * 0.01 for _ in range(12)]
        optimizer, step = make()
        state, x = optimizer.init(p), np.ones((4, 500), np.float32)
        for _ in range(3):
            tracemalloc.reset_peak()
            p, state = step(p, state, x)
        peak = tracemalloc.get_traced_memory()[1] / sum(w.nbytes for w in p)
        tracemalloc.stop()
        return float(peak)

    def sharded() -> Any:
        optimizer = distributed.shard_optimizer(machines, optim.adam(1e-3))
        step = optimizer.value_and_step(cost, split=split)
        return optimizer, lambda p, state, x: step(p, state, x)[1:]

    print(f"peak {measure(sharded):.2f}", flush=True)


def examples() -> None:
    """The demonstrations run in a job; rank 0 tells what they claim."""
    from examples import data_parallel, graph_split, slot_programs  # they need the extra that draws

    with tempfile.TemporaryDirectory() as folder:
        claims = [*data_parallel.run(Path(folder), steps=8), *graph_split.run(Path(folder), branches=16, most_slots=8)]
        claims += slot_programs.run(Path(folder), steps=8)
    print("claims", [claim.value < 1 for claim in claims if claim.shown == "{:g}"], flush=True)


def differ() -> None:
    """Ranks with other programs are told so before anything is computed."""
    machines = distributed.connect(SLOTS, deadline=60.0)
    scale = 1.0 + machines.rank
    step = machines.value_and_grad(lambda w, x: afx.mean(x * w) * scale, split=Split((1, 1, 1, 1)))
    step(1.0, np.arange(4.0))


FACTORS = {"scale": 1.0}


def scaled(w: Array, x: Array) -> Array:
    """A program whose code does not show what it reads from its module."""
    return afx.mean(x * w) * FACTORS["scale"]


def differ_in_graph() -> None:
    """Ranks of the same code trace other graphs."""
    machines = distributed.connect(SLOTS, deadline=60.0)
    FACTORS["scale"] += machines.rank
    machines.value_and_grad(scaled, split=Split((2, 1, 1, 1)))(1.0, np.arange(5.0))


def die() -> None:
    """One rank is killed in a job that stops then."""
    machines = distributed.connect(SLOTS, deadline=60.0)

    def kill(machines: Machines, number: int) -> None:
        if machines.rank == 1 and number == 3:
            print(f"killed at {time.time()}", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

    train(machines, SPLITS[0], 100_000, kill)


def fail() -> None:
    """One rank raises."""
    machines = distributed.connect(SLOTS, deadline=60.0)
    if machines.rank == 1:
        raise RuntimeError("broken on purpose")
    train(machines, SPLITS[0], 1000)


def hang() -> None:
    """One rank does not answer."""
    machines = distributed.connect(SLOTS, deadline=1.0)
    if machines.rank == 1:
        time.sleep(600)
    train(machines, SPLITS[0])


def idle() -> None:
    """Rank 0 waits for two seconds; it prints the share of a processor that it took."""
    machines = distributed.connect(SLOTS, deadline=60.0)
    train(machines, SPLITS[0], 1)

    def sleep(machines: Machines, number: int) -> None:
        if machines.rank == 1:
            time.sleep(2.0)

    begin, cpu = time.perf_counter(), time.process_time()
    train(machines, SPLITS[0], 1, sleep)
    if machines.rank == 0:
        print(f"share {(time.process_time() - cpu) / (time.perf_counter() - begin):.3f}", flush=True)


def lose() -> None:
    """Ranks are killed at random moments, one after the other; the last one ends with the bits of one process."""
    generator = np.random.default_rng(int(sys.argv[2]))
    machines = distributed.connect(SLOTS, deadline=30.0, on_loss="shrink")
    steps = 12 * machines.ranks
    victims = generator.permutation(machines.ranks)[1:].tolist()
    moments = np.sort(generator.choice(np.arange(1, steps - 1), len(victims), replace=False)).tolist()
    delays = (generator.random(len(victims)) * 0.004).tolist()
    mine = machines.rank

    def kill(machines: Machines, number: int) -> None:
        if mine in victims and number == moments[victims.index(mine)]:
            delay = delays[victims.index(mine)]
            if delay > 0.002:
                os.kill(os.getpid(), signal.SIGKILL)
            signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
            signal.setitimer(signal.ITIMER_REAL, delay + 1e-6)

    found = train(machines, SPLITS[0], steps, kill)
    report(machines, found == train(distributed.local(SLOTS), SPLITS[0], steps))
    sys.stdout.flush()
    os._exit(0)  # MPI's own end would wait for the lost ranks


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    if sys.argv[1] not in COMPILED:
        leave_to_numpy()
    globals()[sys.argv[1]]()
