"""Teams: threads that take parts of loop nests, within loops too."""

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import afx

pytest.importorskip("llvmlite", reason="machine code is an extra")

from afx.compiler.native_backend.llvm.team import DISMISSED, ENDED, JOB, MEMBERS, TICKET
from afx.compiler.native_backend.run.run import run_on_threads, team_memory
from afx.runtime import thread_pool
from tests.compiler.native_backend.native_run import (
    Native,
    assert_same_bits,
    run_python,
    same_bits,
    use_limits,
    use_threads,
)


@pytest.fixture(autouse=True)
def _small_parts() -> Iterator[None]:
    """Cut what is small, so that tests are quick, and let three threads run."""
    with use_threads(3), use_limits(share_min_elements=500, share_min_rows=4, share_chunk_elements=64):
        yield


def assert_shared(fn: Callable[..., Any], *args: Any) -> Native:
    """Assert that a shared program has NumPy's bits on three threads and on one."""
    native = assert_same_bits(fn, *args)
    assert native.program.block.is_shared
    many, errors = native(*args)
    with thread_pool.single_threaded:
        alone, own = native(*args)
    assert errors == own
    assert all(same_bits(a, b) for a, b in zip(many, alone, strict=True))
    return native


def _diffused(u: Any) -> Any:
    lap = 4.0 * u[1:-1, 1:-1] - (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2])
    x, y = lap[1:, 1:-1] - lap[:-1, 1:-1], lap[1:-1, 1:] - lap[1:-1, :-1]
    return afx.pad(u[2:-2, 2:-2] - 0.01 * (x[1:] - x[:-1] + y[:, 1:] - y[:, :-1]), 2)


@pytest.mark.parametrize("length", [1, 2, 5])
def test_steps_of_scans(length: int) -> None:
    """Steps that read what other parts of the step before wrote agree, with rows and elements, results and constants."""
    rng = np.random.default_rng(0)
    u, x, table = rng.normal(size=(40, 30)), rng.normal(size=2000), rng.normal(size=(40, 30))

    def step(c: Any, r: Any) -> Any:
        u, x = c
        x = np.sin(x[::-1]) * r + x
        return (_diffused(u) + table * r, x), (u * 2, x[:3], x.sum())

    assert_shared(lambda u, x, r: afx.scan(step, (u, x), r, reverse=True), u, x, rng.normal(size=length))


@use_limits(tile_min_bytes=1, tile_max_elements=60, tile_min_rows=2)
def test_tiles_of_stencils_are_shared() -> None:
    """Each thread has memory of its own for the tiles that it computes."""
    u = np.random.default_rng(1).normal(size=(84, 20)).astype(np.float32)
    native = assert_shared(lambda u: afx.scan(lambda u, _: (_diffused(u), u[0]), u, None, 4), u)
    assert any(getattr(step, "is_cut", False) and hasattr(step, "bodies") for step in native.program.block.all_steps())


@use_limits(rows_max_elements=64)
def test_rows_within_loops() -> None:
    """Reductions along rows in a loop's body are shared too: forces on bodies, say."""
    x = np.random.default_rng(2).normal(size=(24, 3))

    def step(c: Any, _: Any) -> Any:
        x, v = c
        d = x[None] - x[:, None]
        v = v + 0.01 * (d * ((d * d).sum(-1) + 0.1)[..., None] ** -1.5).sum(1)
        return (x + 0.01 * v, v), afx.nn.softmax(d[0], 0)

    assert_shared(lambda x: afx.scan(step, (x, x * 0), None, 3), x)


def test_loops_until_a_condition_and_nested_ones() -> None:
    """Conditions over large arrays, loops within loops and branches run on the first thread, their nests on all."""
    x = np.linspace(0.1, 1, 1500)

    def inner(y: Any) -> Any:
        return afx.while_loop(lambda y: np.tanh(y * y).max() < 0.99, lambda y: y * 1.25 + y[::-1] * 0.1, y)

    def fn(x: Any) -> Any:
        def step(y: Any, k: Any) -> Any:
            y = inner(y * k)
            return afx.cond(y[0] > 0.5, lambda y: np.cos(y) * y[::-1], lambda y: y * 0.5, y), (y * y).sum()

        return afx.scan(step, x, np.array([0.1, 0.2, 0.3]))

    assert_shared(fn, x)
    assert_shared(inner, x * 0.01)
    assert_shared(lambda x: inner(x) * 2 + np.exp(x)[::-1], x * 0.01)
    assert_shared(lambda x: afx.grad(lambda x: (inner(x) * x).sum())(x), x * 0.01)


def test_carries_that_stay_in_place() -> None:
    """Reads of a carry and writes of the next one, which is the same memory, are no two parts of one phase."""
    x = np.random.default_rng(3).normal(size=(1200, 2))

    def step(c: Any, k: Any) -> Any:
        x, y = c
        z = np.tanh(x[::-1, 0] * 0.5) + y
        return (x.at[k].add(z[:2]), z * 0.9), z[5]

    assert_shared(lambda x: afx.scan(step, (x, x[:, 0]), np.array([3, 700, 3, 1199])), x)

    def halves(c: Any, _: Any) -> Any:
        return c.at[:600].set(np.sin(c[600:]) + c[:600]), c.sum()

    assert_shared(lambda x: afx.scan(halves, x, None, 3), x)


def test_errors_and_refusals_of_any_part() -> None:
    """A floating-point error, or a number that fits no integer, is seen wherever it stands and whoever computes it."""
    x = np.linspace(1.0, 2.0, 3000)
    fn = lambda x: afx.scan(lambda y, _: (1 / y, None), x, None, 2)[0]  # it is compiled twice
    native = assert_shared(fn, x)
    whole = Native(lambda x: afx.scan(lambda y, _: ((y * 2).astype(np.int32) + y, None), x, None, 2)[0], x)
    assert whole.program.block.is_shared
    for place in (0, 1500, 2999):
        y = x.copy()
        y[place] = 0.0
        assert native(y)[1] == 1
        y[place] = 1e20
        assert whole(y)[1] == -1


def _args(native: Native, *given: Any) -> tuple[Any, ...]:
    """Return the arguments of a loop's kernel, with a team of three."""
    params = native.program.params[len(given) : len(native.program.params) - len(native.constants)]
    outs = [np.empty(p.shape, p.dtype) for p in params]
    arena = np.empty(native.program.block.arena, np.uint8)
    (team,) = team_memory(native.kernel)
    team[MEMBERS // 8] = 3
    return (*given, *outs, *native.constants, arena, team)


def test_nobody_waits_for_a_helper_that_does_not_come() -> None:
    """One thread of three does all parts; who comes afterwards finds none, and leaves after a while, or when told to."""
    x = np.linspace(0, 1, 2000)
    native = Native(lambda x: afx.scan(lambda y, _: (np.cos(y[::-1]), None), x, None, 7)[0], x)
    args = _args(native, x)
    team, number = args[-1], np.array([1])
    assert native.kernel.call(*args) == 0
    assert same_bits(args[1], native.plan(x)[0])
    assert team[ENDED // 8] == 1
    assert team[TICKET // 8] // JOB == 7  # a job a step
    args[1][:] = 5.0
    assert native.kernel.call(team, number) == 0
    team[ENDED // 8] = 0
    assert native.kernel.call(team, number) == 0
    team[DISMISSED // 8] = 1
    assert native.kernel.call(team, number) == 0
    assert (args[1] == 5.0).all()


def test_a_helper_serves_one_program_after_the_other() -> None:
    """Who helps takes parts of any kernel's loops, and leaves each program its own errors and refusals."""
    x = np.linspace(1, 2, 2000)
    one = Native(lambda x: afx.scan(lambda y, _: (1 / y[::-1], None), x, None, 50)[0], x)
    other = Native(lambda x: afx.scan(lambda y, _: ((y * 2).astype(np.int32) + y, None), x, None, 2)[0], x)
    zero, far = x.copy(), x.copy()
    zero[-1], far[-1] = 0.0, 1e20
    wanted = one(x)[0]
    for _ in range(30):
        assert one(zero)[1] == 1
        assert other(x)[1] == 0
        assert other(far)[1] == -1
        found, errors = one(x)
        assert errors == 0
        assert same_bits(found[0], wanted[0])


def test_many_teams_at_once() -> None:
    """Calls from several threads have teams of their own; more threads than parts are no more than parts."""
    x = np.random.default_rng(4).normal(size=(30, 40))
    native = Native(lambda x: afx.scan(lambda y, _: (_diffused(y) * 0.99, y.max()), x, None, 40), x)
    wanted, faults = native(x)[0], list[str]()

    def work(threads: int) -> None:
        for _ in range(15):
            args = _args(native, x)
            errors = run_on_threads(native.kernel.call, args, threads)
            if errors or not all(same_bits(a, b) for a, b in zip(args[1:3], wanted, strict=True)):
                faults.append("other bits")

    workers = [threading.Thread(target=work, args=(n,)) for n in (1, 2, 3, 50)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not faults


SCRIPT = """
    import os, signal, threading, time
    import numpy as np, afx
    from afx.compiler.target import NativeTarget, Target, current
    from afx.runtime.thread_pool import set_threads
    set_threads(2)
    current.set(Target(native=NativeTarget(share_min_elements=500)))
    fn = afx.jit(lambda x, n: afx.while_loop(lambda c: c[1] < n, lambda c: (np.sin(c[0]) + c[0][::-1], c[1] + 1), (x, n * 0)),
                 backend="native")
    x = np.linspace(0, 1, 20_000)
"""


def test_signals_stop_a_team() -> None:
    """Ctrl-C ends a loop on several threads, which can be called again."""
    script = (
        SCRIPT
        + """
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
    short = fn(x, np.int64(9))
    for delay in (0.05, 0.1, 0.3):
        threading.Timer(delay, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        start = time.monotonic()
        try:
            fn(x, np.int64(1 << 60))
        except KeyboardInterrupt:
            assert time.monotonic() - start < 30  # all steps take years
            assert np.array_equal(fn(x, np.int64(9))[0], short[0])
            print("stopped")
    """
    )
    assert run_python(script).split() == ["stopped"] * 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_has_a_team_of_its_own() -> None:
    """After a fork from a process whose team has worked, parent and child both go on."""
    script = (
        SCRIPT
        + """
    want = fn(x, np.int64(50))[0]
    child = os.fork()
    same = np.array_equal(fn(x, np.int64(50))[0], want)
    if child == 0:
        os._exit(0 if same else 1)
    print(same, os.waitpid(child, 0)[1])
    """
    )
    quiet = "import warnings; warnings.simplefilter('ignore')\n    " + script.lstrip("\n ")
    assert run_python("    " + quiet).split() == ["True", "0"]


@use_limits(share_min_elements=200_000, share_loop_min_elements=600, share_loop_chunk_elements=64)
def test_smaller_nests_are_shared_in_long_loops() -> None:
    """A nest that is too small to be shared by itself is shared in a loop of many steps, which threads join once."""
    x = np.linspace(0.1, 1, 1500)

    def steps(count: int) -> Callable[[Any], Any]:
        return lambda x: np.sqrt(x) + afx.scan(lambda y, _: (np.cos(y[::-1]) * y, y[7]), x, None, count)[0]

    assert not Native(steps(3), x).program.block.is_shared
    with use_limits(share_loop_min_nanoseconds=1):
        native = assert_shared(steps(3), x)
        assert not native.program.block.phases
        assert_shared(lambda x: afx.while_loop(lambda y: y.sum() < 1e3, lambda y: y * 2 + y[::-1], x), x)
        assert not Native(lambda x: np.sqrt(x) + x[::-1], x).program.block.is_shared
