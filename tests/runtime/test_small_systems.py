"""Small systems: WebAssembly and 32-bit machines have index types of 32 bits, and maybe no threads."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import afx
from afx.runtime import thread_pool


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no thread start, as on WebAssembly."""

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)


@pytest.mark.usefixtures("no_threads")
def test_plans_run_alone_where_no_thread_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that would share its blocks computes them all itself, with the same bits, and does not try again."""
    pool = thread_pool._Pool()
    pool.threads = 4
    monkeypatch.setattr(thread_pool, "_pool", [pool])
    x = np.linspace(0.0, 1.0, 300_001)
    fn = lambda x: afx.tanh(x) * afx.exp(-x) + afx.sin(x)
    got = afx.jit(fn, backend="numpy")(x)
    np.testing.assert_array_equal(np.asarray(got), np.asarray(fn(x)))
    seen: list[int] = []
    thread_pool.run_blocks(lambda k, *_: seen.append(k), 10, 1, [()] * 4, ())
    assert seen == list(range(10))
    assert pool.threads == 1


@pytest.mark.usefixtures("no_threads")
def test_data_and_checkpoints_come_without_threads(tmp_path: Path) -> None:
    """`afx.data.prefetch` makes items as they are asked for; checkpoints in the background are written at once."""
    assert list(afx.data.prefetch(iter(range(5)))) == [0, 1, 2, 3, 4]
    with afx.io.Checkpoints(tmp_path, background=True) as checkpoints:
        checkpoints.save(1, {"x": np.arange(3.0)})
        checkpoints.save(2, {"x": np.arange(4.0)})
    assert afx.io.Checkpoints(tmp_path).latest().step == 2


def check_counts(name: str, place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a function of NumPy refuse counts that NumPy's index type does not hold, as a 32-bit NumPy does."""
    theirs: Callable[..., Any] = getattr(np, name)

    def checked(*args: Any, **options: Any) -> Any:
        counts = np.asarray(args[place])
        if not np.can_cast(counts.dtype, np.int32, "safe"):
            raise TypeError(f"Cannot cast array data from {counts.dtype} to dtype('int32')")
        return theirs(*args, **options)

    monkeypatch.setattr(np, name, checked)


def test_index_types_of_32_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where NumPy's index type has 32 bits, counts reach NumPy in it: sparse derivatives, repeats and gathers work."""
    x = np.linspace(0.1, 1.0, 6)
    calls: list[Callable[[], Any]] = [
        lambda: afx.sparse_jacobian(lambda x: x[1:] * x[:-1] ** 2)(x).todense(),
        lambda: afx.sparse_jacobian(lambda x: afx.concat([x * x[0], afx.sum(x)[None]]))(x).todense(),
        lambda: afx.sparse_hessian(lambda x: afx.sum(x[1:] * x[:-1]) + afx.sum(x) ** 2)(x).todense(),
        lambda: afx.grad(lambda x: afx.sum(afx.repeat(x, np.array([1, 2, 0, 1, 1, 3])) ** 2))(x),
        lambda: afx.grad(lambda x: afx.sum(x[np.array([1, 1, 4])] ** 2))(x),
        lambda: afx.bincount(np.array([1, 1, 4]), weights=x[:3]),
    ]
    expected = [np.asarray(call()) for call in calls]
    monkeypatch.setattr(np, "intp", np.int32)
    check_counts("repeat", 1, monkeypatch)
    check_counts("bincount", 0, monkeypatch)
    for call, value in zip(calls, expected, strict=True):
        np.testing.assert_allclose(np.asarray(call()), value, rtol=1e-15)
