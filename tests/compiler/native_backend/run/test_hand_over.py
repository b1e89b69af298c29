"""Calls that begin in NumPy's plan and end in machine code: loops go over between their steps, with the same bits."""

import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import afx

pytest.importorskip("llvmlite", reason="machine code is an extra")

from afx.compiler.native_backend.run import swap
from afx.compiler.native_backend.run.swap import Compiling, Linked, OnTrial, Refused
from afx.compiler.native_backend.service import helper
from afx.runtime.control_register import is_flushing
from tests.compiler.native_backend.native_run import run_python, same_bits, use_limits

STEPS = 3000
X = np.linspace(0.1, 0.9, 3)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Count the looks of calls whose first one brings machine code at once: compiling takes until it is there."""
    found, look, start = list[int](), swap._Watch.look, swap.start

    def counted(watch: Any, calls: float) -> None:
        found.append(1)
        look(watch, calls)

    def wait(code: Any) -> None:
        start(code)
        if isinstance(code.state, Compiling):
            assert code.state.ready.wait(60)

    monkeypatch.setattr(swap._Watch, "look", counted)
    monkeypatch.setattr(swap, "start", wait)
    monkeypatch.setattr(helper, "_chosen", [""])
    with use_limits(compile_min_seconds=0.0, early_min_seconds=100.0, hand_over_max_call_seconds=100.0):
        yield found


def newton(x: Any) -> Any:
    """Take steps until there were some: a loop that a condition ends."""

    def step(s: Any) -> Any:
        return s[0] - 0.01 * (afx.sin(s[0]) - x), s[1] + 1

    return afx.while_loop(lambda s: s[1] < STEPS, step, (x, 0))[0]


def walk(x: Any) -> Any:
    """Take steps of a known number, rows of whose results are kept."""
    return afx.scan(lambda c, _: (afx.cos(c) * x, c[::-1]), x, None, STEPS)


def reverse(x: Any) -> Any:
    """Walk along rows from the last one to the first."""
    rows = afx.sin(afx.arange(STEPS, dtype=afx.float64))
    return afx.scan(lambda c, r: (afx.cos(c) * x + r, c), x, rows, reverse=True)


def numbers(x: Any) -> Any:
    """Take steps on 0-d values, which run on Python's floats."""
    return afx.scan(lambda c, _: (c * 0.5 + x[0], c), x[1], None, 3 * STEPS)


def nested(x: Any) -> Any:
    """Run a loop within each step of another one."""
    return afx.scan(lambda c, _: (afx.fori_loop(0, 10, lambda _, d: afx.sin(d) + x, c), c), x, None, STEPS // 10)


def backward(x: Any) -> Any:
    """Differentiate a loop that a condition ends: it runs there and back."""
    return afx.grad(lambda x: afx.sum(newton(x)))(x)


LOOPS: dict[str, Callable[[Any], Any]] = {f.__name__: f for f in (newton, walk, reverse, numbers, nested, backward)}


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_ends_in_machine_code(looks: list[int], name: str) -> None:
    """After a few steps of NumPy's plan the kernel finishes the call; its results, and later ones, have the plan's bits."""
    expected = afx.pytree.leaves(afx.jit(LOOPS[name], backend="numpy")(X))
    fn = afx.jit(LOOPS[name])
    for _ in range(3):
        assert all(map(same_bits, afx.pytree.leaves(fn(X)), expected))
    assert 2 <= len(looks) <= 4
    assert isinstance(fn.lower(X).plan.native.state, Linked)


def test_a_call_whose_errors_are_heard_goes_on_in_numpys_plan(looks: list[int]) -> None:
    """The kernel leaves a call that divides by zero alone: the user is warned once, at each call."""

    def fn(x: Any) -> Any:
        return afx.scan(lambda c, k: (c + 1 / (k - 2990.0), None), x, afx.arange(STEPS, dtype=afx.float64))[0]

    jitted = afx.jit(fn)
    for _ in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert np.isinf(np.asarray(jitted(X))).all()
        assert [str(w.message) for w in caught] == ["divide by zero encountered in divide"]
    assert len(looks) >= STEPS  # NumPy's plan has made all steps
    assert jitted.lower(X).status.refusals == 2


def test_errors_are_the_caller_s(looks: list[int]) -> None:
    """What the caller of a loop ignores, or wants raised, is not what its steps ignore."""

    def fn(x: Any) -> Any:
        return afx.scan(lambda c, k: (c * 0.5 + x[0] / k, c), x[1], afx.arange(-10.0, STEPS, dtype=afx.float64))

    with np.errstate(divide="ignore"):
        assert np.isinf(np.asarray(afx.jit(fn)(X)[0]))
    assert len(looks) <= 4
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError, match="divide"):
        afx.jit(fn)(X)


def test_a_call_that_may_write_into_its_arguments_does_not_begin_again(looks: list[int]) -> None:
    """Where memory was given away NumPy's plan ends what it has begun."""

    def fn(x: Any) -> Any:
        y = afx.sin(x) * 2
        return y, newton(y[:3])

    x = np.linspace(0.0, 1.0, 100_000)
    expected = afx.jit(fn, backend="numpy")(x)
    donating = afx.jit(fn, donate_argnums=0)
    assert all(map(same_bits, donating(afx.asarray(x) + 0.0), expected))
    assert not looks


def test_long_calls_of_numpy_are_not_made_again(looks: list[int]) -> None:
    """A loop whose time goes into NumPy's own work is not begun anew: the kernel waits for the next call."""
    fn = afx.jit(newton)
    expected = np.asarray(afx.jit(newton, backend="numpy")(X))
    with use_limits(compile_min_seconds=0.0, early_min_seconds=100.0, hand_over_max_call_seconds=0.0):
        assert same_bits(np.asarray(fn(X)), expected)
        assert len(looks) == STEPS + 1
        assert isinstance(fn.lower(X).plan.native.state, OnTrial)
        assert same_bits(np.asarray(fn(X)), expected)
    assert len(looks) == STEPS + 1


def test_where_no_machine_code_can_be_made_the_loop_goes_on(looks: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that refuses a plan in the middle of its first call changes nothing of it."""

    def refuse(code: Any) -> None:
        code.become(Refused("it is a test"))

    monkeypatch.setattr(swap, "start", refuse)
    fn = afx.jit(newton)
    assert same_bits(np.asarray(fn(X)), np.asarray(afx.jit(newton, backend="numpy")(X)))
    assert fn.lower(X).status.reason == "it is a test"
    assert len(looks) == STEPS + 1


def test_an_interrupt_while_a_loop_begins_to_compile_leaves_it_to_the_next_call(
    looks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C between two steps ends the call; the next one begins anew, and ends in machine code."""
    start = swap.start

    def interrupted(_: Any) -> None:
        raise KeyboardInterrupt

    fn = afx.jit(newton)
    monkeypatch.setattr(swap, "start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fn(X)
    assert not isinstance(fn.lower(X).plan.native.state, Compiling)
    monkeypatch.setattr(swap, "start", start)
    assert same_bits(np.asarray(fn(X)), np.asarray(afx.jit(newton, backend="numpy")(X)))
    assert len(looks) <= 5


def test_a_loop_that_flushes_denormals_goes_over(looks: list[int]) -> None:
    """Machine code takes denormals as zeros as the loop before it did; the caller's mode is as before."""

    def fn(x: Any) -> Any:
        return afx.scan(lambda c, _: (c * 0.5 + x * 1e-30, c[0]), x, None, STEPS)

    x = np.full(64, 1e-8, np.float32)
    expected = afx.jit(fn, backend="numpy")(x)
    assert all(map(same_bits, afx.jit(fn)(x), expected))
    assert len(looks) <= 4
    assert not is_flushing()


def test_threads_whose_first_calls_meet(looks: list[int]) -> None:
    """Several threads begin one function's loop at once: one has it compiled, all end with the same bits."""
    fn, expected = afx.jit(walk), afx.pytree.leaves(afx.jit(walk, backend="numpy")(X))
    fn.lower(X)
    barrier, wrong = threading.Barrier(4), list[int]()

    def work(k: int) -> None:
        barrier.wait()
        for _ in range(3):
            wrong.extend(
                [k for z, want in zip(afx.pytree.leaves(fn(X)), expected, strict=True) if not same_bits(z, want)]
            )

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert looks
    assert isinstance(fn.lower(X).plan.native.state, (Linked, OnTrial))


def test_a_loop_that_went_over_stops_for_signals() -> None:
    """Ctrl-C ends a first call that began in NumPy's plan and goes on in machine code; the function can be called again."""
    script = """
        import os, signal, threading, time
        import numpy as np, afx
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
        def fn(x, n):
            return afx.while_loop(lambda s: s[1] < n, lambda s: (afx.sin(s[0]) + x, s[1] + 1), (x, 0))[0]
        fn = afx.jit(fn)
        x = np.linspace(0, 1, 8)
        code = fn.lower(x, 0).plan.native
        def interrupt():
            while not code.is_linked:
                time.sleep(0.01)
            time.sleep(0.3)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt, daemon=True).start()
        try:
            fn(x, 2_000_000_000)
        except KeyboardInterrupt:
            print("stopped", code.is_linked, np.asarray(fn(x, 1))[0])
    """
    assert run_python(script).split() == ["stopped", "True", "0.0"]


def test_what_prints_is_not_run_twice(looks: list[int]) -> None:
    """A loop whose steps call the user's functions stays in NumPy's plan: each is called once a step."""
    seen: list[float] = []

    def fn(x: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            afx.debug.callback(lambda y: seen.append(float(y[0])), c)
            return afx.sin(c) + x, None

        return afx.scan(step, x, None, 40)[0]

    afx.jit(fn)(X)
    assert len(seen) == len(looks) == 40
