"""The programs that solvers keep between calls: which are kept, for whom, and what never waits for another."""

import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import afx
from afx.control import solving
from afx.core.graph import Constant
from afx.integrate import odeint
from afx.transforms.compile.compiled_call import CompiledGraph

TIMES = np.linspace(0.0, 5.0, 21)


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    solving._programs.clear()
    solving._met.clear()
    solving._numbers.clear()
    yield
    solving._programs.clear()
    solving._met.clear()
    solving._numbers.clear()


def _decay(shift: Any = 0.0) -> Any:
    return odeint(lambda t, y: shift - y, np.ones(2), TIMES).ys


def _interrupt_comparisons(monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any]) -> None:
    """Have something done in the midst of the first comparison of programs."""
    compare: Any = CompiledGraph.__eq__
    pending = [act]

    def compare_late(self: CompiledGraph, other: object) -> bool:
        if pending:
            pending.pop()()
        return bool(compare(self, other))

    monkeypatch.setattr(CompiledGraph, "__eq__", compare_late)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Python's own word on forking with threads
def test_a_forked_process_does_not_wait_for_threads_it_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forked off while another thread looks a program up, a process integrates as before."""
    want = np.asarray(_decay())
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        entered.set()
        leave.wait(60)

    _interrupt_comparisons(monkeypatch, hold)
    thread = threading.Thread(target=_decay, daemon=True)
    thread.start()
    assert entered.wait(60)
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(_decay(), want) else 1)
    deadline = time.monotonic() + 20
    done, status = os.waitpid(child, os.WNOHANG)
    while not done and time.monotonic() < deadline:
        time.sleep(0.01)
        done, status = os.waitpid(child, os.WNOHANG)
    leave.set()
    thread.join(60)
    if not done:
        os.kill(child, 9)
        os.waitpid(child, 0)
    assert done == child
    assert os.waitstatus_to_exitcode(status) == 0


def test_what_interrupts_a_solver_may_call_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """An integration from within the look-up of a program, as a signal's handler may make it, ends."""
    found = [_decay()]
    _interrupt_comparisons(monkeypatch, lambda: found.append(_decay()))
    thread = threading.Thread(target=lambda: found.append(_decay()), daemon=True)
    thread.start()
    thread.join(20)
    assert len(found) == 3
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])


def test_large_constants_are_not_kept_for_one_call() -> None:
    """A program that holds a large array is run and let go, also where a loop's graph holds it."""
    table = np.arange(200_000)
    found = odeint(lambda t, y: -y + 0.0 * afx.sum(table * y[0]), np.ones(2), TIMES).ys
    np.testing.assert_allclose(found[:, 0], np.exp(-TIMES), rtol=1e-4)
    assert not solving._programs
    _decay(np.linspace(1.0, 2.0, 2))
    assert len(solving._programs) == 1


@pytest.mark.parametrize("make", [afx.asarray, np.array])
def test_large_constants_are_planned_twice_at_most(make: Callable[[Any], Any]) -> None:
    """A program that holds a large array is kept where it is met again with the same numbers, and found from then on."""
    table = np.arange(200_000) % 2 + 1

    def integrated(factor: int) -> tuple[Any, int]:
        held = make(factor * table)
        found = odeint(lambda t, y: 0.0 * y - afx.max(held * y[0]), np.ones(1), TIMES).ys
        return np.asarray(found)[:, 0], len(solving._programs)

    first, second, third, other = map(integrated, (1, 1, 1, 2))
    assert [first[1], second[1], third[1], other[1]] == [0, 1, 1, 1]
    np.testing.assert_array_equal(first[0], third[0])
    np.testing.assert_allclose(other[0], np.exp(-4 * TIMES), rtol=1e-2, atol=1e-6)


def test_programs_that_differ_in_constants_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Constants are told apart by their hashes: the bytes of others are not compared."""
    compared = []
    compare: Any = Constant.__eq__
    monkeypatch.setattr(Constant, "__eq__", lambda a, b: compared.append(bool(compare(a, b))) or compared[-1])
    for shift in (0, 1, 2, 1):
        np.testing.assert_allclose(_decay(np.array([0, shift]))[-1, 1], shift, atol=0.01 + abs(1 - shift) / 99)
    assert False not in compared
    assert len(solving._programs) == 3


def test_forgotten_programs_are_dropped() -> None:
    """What `set_cache_limit` has had forgotten goes with the next call."""
    _decay()
    before = afx.set_cache_limit(0)
    try:
        _decay(np.array([0, 1]))
        _decay(np.array([0, 2]))
        assert len(solving._programs) <= 2  # of three: the last, and what was forgotten when it ran
    finally:
        afx.set_cache_limit(before)


def test_weak_arguments_keep_their_digits() -> None:
    """An array of Python's numbers that is an argument has all of its digits, as under `jit` and in Python."""
    rates = afx.stack([0.1, 0.2])

    def solve(k: Any) -> Any:
        return odeint(lambda t, y, k: -y * k, np.ones(2), TIMES, k).ys

    found = solve(rates)
    np.testing.assert_array_equal(found, afx.jit(solve)(rates))
    with afx.disable_jit():
        np.testing.assert_allclose(found, solve(rates), rtol=1e-14)
    np.testing.assert_allclose(found, solve(np.array([0.1, 0.2])), rtol=1e-14)


def test_warnings_name_the_line_of_the_function_that_is_called() -> None:
    """Functions that compute the same share no program where they stand in different lines."""
    roots = (
        lambda t, y: -y * afx.where(t < 1.0, 1.0, 1.0 + 0 * afx.log(t - t)),
        lambda t, y: -y * afx.where(t < 1.0, 1.0, 1.0 + 0 * afx.log(t - t)),
    )
    for root in roots:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            odeint(root, np.ones(1), TIMES)
        assert {warning.lineno for warning in caught} == {root.__code__.co_firstlineno}


def test_silenced_warnings_are_silenced_for_their_function_alone() -> None:
    """One function's ``np.errstate`` says nothing of another's."""

    def slope(y: Any, t: Any) -> Any:
        return -y * afx.where(t < 1.0, 1.0, 1.0 + 0 * afx.log(t - t))

    def silent(t: Any, y: Any) -> Any:
        with np.errstate(all="ignore"):
            return slope(y, t)

    for field, is_heard in ((silent, False), (lambda t, y: slope(y, t), True)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            odeint(field, np.ones(1), TIMES)
        assert bool(caught) == is_heard


def test_what_was_stored_while_tracing_names_the_way_out() -> None:
    """Traced arrays that a function stores raise, and the error names `disable_jit`, under which they are values."""
    stored = list[Any]()

    def field(_: Any, y: Any) -> Any:
        stored.append(y)
        return -y

    odeint(field, np.ones(1), TIMES)
    with pytest.raises(afx.errors.EscapedTracerError, match="disable_jit"):
        stored[-1] + 1.0
    with afx.disable_jit():
        odeint(field, np.ones(1), TIMES)
    assert float(stored[-1][0]) > 0.0
