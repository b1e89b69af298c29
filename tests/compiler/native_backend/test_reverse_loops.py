"""The way back over while loops as machine code: NumPy's bits, for any number of steps."""

import signal
import threading
import tracemalloc
from typing import Any

import numpy as np
import pytest

import afx

pytest.importorskip("llvmlite", reason="machine code is an extra")

from afx.compiler.native_backend.program.loops import Loop
from afx.compiler.target import NativeTarget
from tests.compiler.native_backend.native_run import Native, assert_same_bits, same_bits, use_limits

FIRST_ROWS = NativeTarget().residuals_first_rows
COUNTS = [0, 1, 2, FIRST_ROWS - 1, FIRST_ROWS, FIRST_ROWS + 1, 3 * FIRST_ROWS, 1000]


def ended(x: Any, w: Any, count: Any) -> Any:
    """Return the carry after as many steps."""
    state = (np.int64(0), x, x[0])
    step = lambda s: (s[0] + 1, np.sin(w @ s[1]) + x * s[2], s[2] * 0.5 + s[1][0])
    last = afx.while_loop(lambda s: s[0] < count, step, state)
    return last[1] + last[2]


def turned(x: Any, w: Any, count: Any) -> Any:
    """Return a number whose gradient needs the carry too."""
    return (ended(x, w, count) ** 2).sum()


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradients_for_any_number_of_steps(count: int, dtype: Any) -> None:
    """Rows of residuals grow with the steps; constants are no part of them."""
    rng = np.random.default_rng(1)
    x, w = rng.normal(size=3).astype(dtype), (rng.normal(size=(3, 3)) / 2).astype(dtype)
    native = assert_same_bits(lambda x, w, n: afx.grad(turned, (0, 1))(x, w, n), x, w, np.int64(count))
    loop, _ = [step for step in native.program.block.steps if isinstance(step, Loop) and step.rows is not None]
    starts = [*[arg.offset for arg in loop.residuals], loop.residuals[0].stride]
    assert max(np.diff(starts)) < 9 * x.itemsize


def test_masks_and_nan_in_residuals() -> None:
    """A choice that discards a branch keeps its nan out of the gradient, and nan that belong there stay."""

    def fn(x: Any, bound: Any) -> Any:
        step = lambda s: afx.where(s > 1.0, afx.sqrt(s - 1.0) * 0.5 + s, s * 1.7)
        return afx.while_loop(lambda s: s.sum() < bound, step, x).sum()

    for x in ([0.5, 1.0, 2.0], [1.0, 1.0, 1.0], [np.nan, 0.5, 2.0], [0.0, 0.1, 3.0]):
        with np.errstate(all="ignore"):
            assert_same_bits(lambda x: afx.grad(fn)(x, 40.0), np.array(x))
            assert_same_bits(lambda x: afx.grad(lambda x: (afx.grad(fn)(x, 10.0) ** 2).sum())(x), np.array(x))
    assert np.isfinite(afx.jit(afx.grad(lambda x: fn(x, 40.0)), backend="native")(np.array([0.5, 1.0, 2.0]))).all()


def test_loops_within_loops() -> None:
    """A while loop in a scan, in a while loop and in a branch, and a scan in it: each has rows of its own."""

    def inner(y: Any, bound: float) -> Any:
        return afx.while_loop(lambda s: s.sum() < bound, lambda s: s * 1.5 + np.sin(y), y)

    def stepped(y: Any) -> Any:
        return afx.scan(lambda c, _: (np.tanh(c) + y, c[0]), y, None, 3)[0]

    def scanned(x: Any) -> Any:
        return afx.scan(lambda c, b: (inner(c, 5.0) * 0.3 + b, c), x, np.arange(6.0).reshape(3, 2))[0].sum()

    def nested(x: Any) -> Any:
        return afx.while_loop(lambda s: s.sum() < 40.0, lambda s: inner(s, 9.0) + stepped(s) * 0.1, x).sum()

    def branched(x: Any) -> Any:
        return afx.cond(x[0] > 0, lambda x: inner(x, 7.0), lambda x: x * 2, x).sum()

    for fn in (scanned, nested, branched):
        assert_same_bits(lambda x, fn=fn: afx.grad(fn)(x), np.array([0.3, 0.7]))
        assert_same_bits(lambda x, fn=fn: afx.vmap(afx.grad(fn))(x), np.array([[0.3, 0.7], [0.1, 0.2], [4.0, 9.0]]))


@pytest.mark.parametrize("order", [1, 2, 3])
def test_every_order(order: int) -> None:
    """Derivatives of derivatives are ways back of their own, here of x⁴."""
    fn: Any = lambda x: afx.while_loop(lambda s: s < 10.0, lambda s: s * x, x)
    for _ in range(order):
        fn = afx.grad(fn)
    assert_same_bits(fn, np.float64(2.0))
    want = {1: 32.0, 2: 48.0, 3: 48.0}[order]
    assert float(afx.jit(fn, backend="native")(np.float64(2.0))) == want


@pytest.mark.parametrize(("method", "rtol"), [("dopri5", 1e-9), ("rodas", 1e-6)])
def test_gradients_through_the_steps_of_odeint(method: Any, rtol: float) -> None:
    """The gradient is one kernel, with the bits of NumPy's plan; of an exponential it is the exact one."""
    ts = np.linspace(0.0, 1.0, 4)

    def decayed(y: Any, rates: Any) -> Any:
        rate = lambda t, y, r: -r * y * (1 + 0 * y[::-1])  # a law of decay
        return afx.integrate.odeint(rate, y, ts, rates, method=method, rtol=rtol, atol=1e-12).ys[-1].sum()

    y, rates = np.array([2.0, 3.0]), np.array([0.5, 1.5])
    native = assert_same_bits(afx.grad(decayed, (0, 1)), y, rates)
    (by_y, by_rates), _ = native(y, rates)
    assert np.allclose(by_y, np.exp(-rates), rtol=100 * rtol)
    assert np.allclose(by_rates, -y * np.exp(-rates), rtol=100 * rtol)


def test_what_is_interrupted_gives_memory_back() -> None:
    """Ctrl-C ends a loop that would never end; the next call runs as if nothing had been."""
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals reach the main thread alone")
    step = lambda s: (s[0] + s[1], s[1], np.sin(s[2]))
    fn = lambda x, d: afx.while_loop(lambda s: s[0] < 100, step, (np.int64(0), d, x))[2]  # endless for d = 0
    run = afx.jit(afx.grad(fn), backend="native")
    want = run(np.float64(1.0), np.int64(1))
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    tracemalloc.start()
    try:
        for _ in range(2):
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(KeyboardInterrupt):
                run(np.float64(1.0), np.int64(0))
        now, most = tracemalloc.get_traced_memory()
        assert now < 1 << 20 < most
    finally:
        tracemalloc.stop()
        signal.signal(signal.SIGALRM, before)
    assert run(np.float64(1.0), np.int64(1)) == want


def test_threads_have_rows_of_their_own() -> None:
    """Calls of one function at the same time do not meet."""
    x, w = np.linspace(0.1, 1, 3), np.eye(3)[::-1] * 0.7
    run = afx.jit(lambda x, w, n: afx.grad(turned)(x, w, n), backend="native")
    counts = [3, 400, 77, 1001]
    want = [run(x, w, np.int64(n)) for n in counts]
    found: list[Any] = [None] * len(counts)

    def work(k: int) -> None:
        for _ in range(20):
            found[k] = run(x, w, np.int64(counts[k]))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(len(counts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((a == b).all() for a, b in zip(found, want, strict=True))


@use_limits(residuals_max_bytes=1 << 12)
def test_more_residuals_than_a_kernel_keeps() -> None:
    """NumPy's plan goes on where rows would take too much memory."""
    x, w = np.linspace(0.1, 1, 3), np.eye(3)[::-1] * 0.7
    native = Native(lambda x, w, n: afx.grad(turned)(x, w, n), x, w, np.int64(1))
    assert native(x, w, np.int64(20))[1] >= 0
    for _ in range(2):
        assert native(x, w, np.int64(500))[1] == -1
    run = afx.jit(lambda x, w, n: afx.grad(turned)(x, w, n)).lower(x, w, np.int64(1)).plan
    assert same_bits(native(x, w, np.int64(20))[0][0], run(x, w, np.int64(20))[0])


def test_pseudo_code_shows_both_ways() -> None:
    """The source of a plan names the way back."""
    fn = lambda x: afx.while_loop(lambda s: s < 9.0, lambda s: s * s, x)
    assert "walk_back" in afx.jit(afx.grad(fn), backend="numpy").lower(np.float64(2.0)).plan.source
    native = afx.jit(afx.grad(fn), backend="native")
    native(np.float64(2.0))
    assert "for t in reversed(steps):" in native.lower(np.float64(2.0)).plan.source
