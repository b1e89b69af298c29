"""Looks: running kernels let Python see signals, whatever encloses their loops."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import afx
from tests.compiler.native_backend.native_run import Native

pytest.importorskip("llvmlite", reason="machine code is an extra")

X = np.linspace(0.1, 1, 3)
FOREVER = 1 << 30


class StopError(Exception):
    """What a signal's handler raises."""


@contextlib.contextmanager
def alarms(seconds: float, handler: Callable[..., None], every: float = 0.0) -> Iterator[None]:
    """Have the system send signals to a handler."""
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals reach the main thread alone")
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, seconds, every)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def stop(*_: Any) -> None:
    """Raise, as a handler."""
    raise StopError


def turn(y: Any) -> Any:
    """Return the state of a loop behind one step."""
    return np.sin(y) + y[::-1]


def scanned(y: Any, n: int = FOREVER) -> Any:
    """Return it behind so many steps."""
    return afx.scan(lambda y, _: (turn(y), None), y, None, n)[0]


def repeated(y: Any, n: Any) -> Any:
    """Return it behind so many steps, of a loop that a condition ends."""
    return afx.while_loop(lambda s: s[1] < n, lambda s: (turn(s[0]), s[1] + 1), (y, n * 0))[0]


LOOPS: dict[str, Callable[[Any, Any], Any]] = {
    "scan": lambda y, n: scanned(y),
    "while_loop": repeated,
    "scan in scan": lambda y, n: afx.scan(lambda y, _: (scanned(y, 20_000), None), y, None, 100_000)[0],
    "second of two loops": lambda y, n: scanned(scanned(y, 5)),
    "first of two loops": lambda y, n: scanned(scanned(y), 5),
    "while_loop in scan": lambda y, n: afx.scan(lambda y, _: (repeated(y, n), None), y, None, 3)[0],
    "while_loop in while_loop": lambda y, n: afx.while_loop(
        lambda s: s[1] < n, lambda s: (repeated(s[0], n - FOREVER + 9), s[1] + 1), (y, n * 0)
    )[0],
    "while_loop in cond": lambda y, n: afx.cond(n > 0, lambda: repeated(y, n), lambda: y),
    "way back": lambda y, n: afx.grad(lambda y: np.sum(afx.scan(lambda y, _: (turn(y), None), y, None, 1 << 24)[0]))(y),
    "way back in scan": lambda y, n: afx.scan(
        lambda y, _: (afx.grad(lambda y: np.sum(repeated(y, n - FOREVER + 200)))(y), None), y, None, FOREVER
    )[0],
}


@pytest.mark.parametrize("name", LOOPS)
def test_every_loop_hears_signals(name: str) -> None:
    """What a handler raises ends a loop that would run for hours, and the next call runs as if nothing had been."""
    fn = afx.jit(LOOPS[name], backend="native")
    n = np.int64(FOREVER)
    assert fn.lower(X, n).plan.native.is_linked
    for _ in range(2):
        with alarms(0.05, stop), pytest.raises(StopError):
            fn(X, n)


@pytest.mark.parametrize("shape", [(800_000,), (26_000, 30), (3, 260_000)])
@pytest.mark.parametrize("tier", [1, 2])
def test_long_nests_hear_signals(shape: tuple[int, ...], tier: int) -> None:
    """One nest of many functions is cut into parts, between which handlers run."""

    def fn(x: Any) -> Any:
        for _ in range(60):
            x = np.sin(x) + 0.1 * x
        return x.sum(axis=0) if tier > 1 else x

    native, seen = Native(fn, np.zeros(shape), tier=tier), list[float]()
    with alarms(0.005, lambda *_: seen.append(1.0), 0.005):
        found, errors = native(np.ones(shape))
    assert len(seen) > 2
    assert errors == 0
    np.testing.assert_allclose(found[0], native.plan(np.ones(shape))[0], rtol=1e-12)


def test_a_handler_may_call_the_function_that_runs() -> None:
    """A handler computes what it wants, with errors of its own, and the loop goes on with its own bits and flags."""
    fn = afx.jit(lambda x: scanned(x, 300_000), backend="native")
    quiet, seen = np.asarray(fn(X)), list[Any]()

    def handler(*_: Any) -> None:
        with np.errstate(all="ignore"):
            seen.append((np.asarray(afx.jit(scanned, static_argnums=1)(X, 3)), np.ones(2) / np.zeros(2)))

    with alarms(0.005, handler), np.errstate(all="raise", under="ignore"):
        for _ in range(100):
            np.testing.assert_array_equal(np.asarray(fn(X)), quiet)
            if seen:
                break
    np.testing.assert_array_equal(seen[0][0], np.asarray(scanned(X, 3)))


def test_other_threads_run_meanwhile() -> None:
    """A long loop hands Python's lock to other threads, which may end what the main thread waits for."""
    fn = afx.jit(repeated, backend="native")
    n = np.int64(FOREVER)
    assert fn.lower(X, n).plan.native.is_linked

    def send() -> None:
        signal.raise_signal(signal.SIGALRM)

    with alarms(0.0, stop):
        timer = threading.Timer(0.05, send)
        timer.start()
        with pytest.raises(StopError):
            fn(X, n)
        timer.join()
