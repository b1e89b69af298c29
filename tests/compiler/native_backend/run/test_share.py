"""Large loop nests in parts, run by several threads."""

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import afx
from afx import optim

pytest.importorskip("llvmlite", reason="machine code is an extra")

from afx.compiler.native_backend.run.run import run_on_threads
from afx.runtime import thread_pool
from tests.compiler.native_backend.native_run import Native, assert_same_bits, same_bits, use_limits, use_threads


@pytest.fixture(autouse=True)
def _small_parts() -> Iterator[None]:
    """Cut what is small, so that tests are quick, and let three threads run."""
    with use_threads(3), use_limits(share_min_elements=2000, share_chunk_elements=512):
        yield


@pytest.mark.parametrize("count", [2000, 4096, 4101, 30_000])
def test_parts_give_the_whole(count: int) -> None:
    """Cut nests have NumPy's bits, for any number of threads, with what is left over and functions in strips."""
    x, y = np.random.default_rng(0).normal(size=(2, count))

    def fn(x: Any, y: Any) -> Any:
        z = np.exp(-x * x) * y + np.tanh(x + y)
        return z, (z[1:] - z[:-1]) * 2, (z * 3 + x[::-1]).sum(), np.sqrt(abs(z[::-1] * y)) + x.sum()

    native = assert_same_bits(fn, x, y)
    assert any(phase.is_shared for phase in native.program.block.phases)
    many = native(x, y)[0]
    with thread_pool.single_threaded:
        alone = native(x, y)[0]
    assert all(same_bits(a, b) for a, b in zip(many, alone, strict=True))


def test_rows_and_columns_are_cut() -> None:
    """Nests of several axes are cut along the first one; broadcasts, transposes and reads behind writes agree."""
    x, w = np.random.default_rng(1).normal(size=(80, 70)), np.random.default_rng(2).normal(size=70)

    def fn(x: Any, w: Any) -> Any:
        y = x * w + w[::-1]
        z = y[:, ::-1] * y + (y[::2] * 2).repeat(2, 0)
        return z, z[1:] * y[:-1], z.max(axis=1), np.exp(y[:, 3:]) * z[:, :-3], y.reshape(70, 80) + 1

    assert any(phase.is_shared for phase in assert_same_bits(fn, x, w).program.block.phases)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(30, 1000), (3, 7, 129), (2, 5, 4, 257), (900, 3)])
def test_reductions_of_rows_are_cut(shape: tuple[int, ...], dtype: Any) -> None:
    """Sums and extremes of long rows have NumPy's bits, piece by piece: with nan, zeros of both signs, and what is left over."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=shape).astype(dtype)
    rough = rng.choice(np.array([0.0, -0.0, 1.0, np.nan], dtype), size=shape, p=[0.45, 0.45, 0.09, 0.01])

    def fn(x: Any) -> Any:
        first = [f(x, axis=0) for f in (afx.sum, afx.max, afx.min, afx.prod)]
        return first, afx.sum(x, axis=tuple(range(x.ndim - 1))), afx.max(x, axis=-2), afx.sum(x, axis=-1)

    native = assert_same_bits(fn, x)
    assert_same_bits(fn, rough)
    if native.program.block.is_shared:
        many = native(x)[0]
        with thread_pool.single_threaded:
            assert all(same_bits(a, b) for a, b in zip(many, native(x)[0], strict=True))
    assert native.program.block.is_shared == (shape[-1] > 128)


@use_limits(share_min_elements=200_000, share_min_nanoseconds=20_000)
def test_nests_of_few_elements_that_take_long_are_cut() -> None:
    """What threads share is decided by the time it takes too: functions of some thousand elements, and not their sums."""
    x = np.random.default_rng(6).normal(size=9001)

    def slow(x: Any) -> Any:
        return np.sin(np.exp(-x * x)) * np.tanh(x) + np.log1p(np.exp(x))

    native = assert_same_bits(slow, x)
    assert native.program.block.is_shared
    with thread_pool.single_threaded:
        assert same_bits(native(x)[0][0], native.plan(x)[0])
    assert not assert_same_bits(lambda x: x * 2 + x[::-1], x).program.block.is_shared


def test_an_optimizer_over_many_leaves_is_one_phase_behind_its_scalars() -> None:
    """Leaves of all sizes are updated together: threads meet once."""
    rng = np.random.default_rng(3)
    params = tuple([rng.normal(size=n).astype(np.float32) for n in (5000, 12, 3000, 7000)])
    grads = tuple([rng.normal(size=p.shape).astype(np.float32) for p in params])
    adam = optim.adam(0.01)
    state = adam.init(params)
    fn = afx.jit(lambda p, g, s: adam.step(p, g, s), backend="numpy")
    lowered = fn.lower(params, grads, state)
    from afx.compiler.native_backend.lowering.lower import lower_schedule

    program, _ = lower_schedule(lowered.plan.schedule, lowered.plan.target)
    assert [phase.is_shared for phase in program.block.phases].count(True) <= 2
    compiled = afx.jit(lambda p, g, s: adam.step(p, g, s))
    for a, b in zip(
        afx.pytree.leaves(compiled(params, grads, state)), afx.pytree.leaves(fn(params, grads, state)), strict=True
    ):
        assert same_bits(a, b)


def test_many_callers_at_once() -> None:
    """Calls from several threads do not meet, and errors of any part are seen."""
    x = np.linspace(-1, 1, 9000)
    native = Native(lambda x: (1 / x, np.exp(x) * x - x[::-1]), x)
    wanted = native(x + 3)[0]
    faults: list[str] = []

    def work() -> None:
        for _ in range(20):
            found, errors = native(x + 3)
            if errors or not all(same_bits(a, b) for a, b in zip(found, wanted, strict=True)):
                faults.append("other bits")

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not faults
    for location in (0, 4500, 8999):
        y = x + 3
        y[location] = 0.0
        assert native(y)[1] == 1


def test_a_helper_that_stops_as_a_call_begins_comes_back() -> None:
    """A call counts on a helper that seems to watch; where it has just stopped, it looks once more, and then no more."""
    entered, may_leave = threading.Semaphore(0), threading.Semaphore(0)

    def kernel(*args: Any) -> int:
        if len(args) == 2:  # the team's memory, and which helper it is
            entered.release()
            assert may_leave.acquire(timeout=60)
        return 0

    args = (None, None, np.zeros(8, np.int64))
    for _ in range(200):  # helpers of other tests may still watch
        run_on_threads(kernel, args, 2)
        if entered.acquire(timeout=0.05):
            break
    else:
        raise AssertionError("no helper came")
    run_on_threads(kernel, args, 2)
    assert not entered.acquire(timeout=0.05)
    may_leave.release()
    assert entered.acquire(timeout=60)
    may_leave.release()
    assert not entered.acquire(timeout=0.1)


def test_folds_of_the_second_tier_are_cut() -> None:
    """Reductions of large arrays along rows and columns have the same bits for any number of threads, near NumPy's."""
    x = np.random.default_rng(7).normal(size=(90, 300))

    def fn(x: Any) -> Any:
        y = np.exp(x)
        return x.sum(0), x.max(0), x.sum(1), x.min(1), x.sum(), (y.sum(0), y.max(1), (x * y).sum(1))

    native = Native(fn, x, tier=2)
    many = native(x)[0]
    with thread_pool.single_threaded:
        assert all(same_bits(a, b) for a, b in zip(many, native(x)[0], strict=True))
    for found, want in zip(many, native.plan(x), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-12)
    for f in (lambda x: x.sum(0), lambda x: x.max(1)):
        assert Native(f, x, tier=2).program.block.is_shared
