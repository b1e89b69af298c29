"""The memory that plans keep between calls: what is known of it is kept without a lock."""

import ctypes
import gc
import subprocess
import sys
import textwrap
import threading
import time
from typing import Any

import numpy as np
import pytest

import afx
from afx import Array
from afx.runtime import buffer_cache


def double(x: Array) -> Array:
    """Return twice x."""
    return x * 2.0


def triple(x: Array) -> Array:
    """Return three times x."""
    return x * 3.0


def test_what_interrupts_the_making_of_room_may_run_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """A first call from within another one's making of room, as a signal's handler may make it, ends."""
    use: Any = buffer_cache._use
    found: list[Any] = []
    pending = [lambda: found.append(afx.jit(triple)(afx.ones(3)))]

    def use_late(idle: Any) -> Any:
        if pending:
            pending.pop()()
        return use(idle)

    monkeypatch.setattr(buffer_cache, "_use", use_late)
    thread = threading.Thread(target=lambda: found.append(afx.jit(double)(afx.ones(3))), daemon=True)
    thread.start()
    thread.join(20)
    np.testing.assert_array_equal(found, [[3.0] * 3, [2.0] * 3])


def test_plans_that_are_gone_are_not_counted() -> None:
    """A plan that nobody holds any longer leaves nothing behind."""
    gc.collect()
    before = set(buffer_cache._known)
    compiled = afx.jit(double)
    compiled(afx.ones(3))
    made = set(buffer_cache._known) - before
    assert made
    del compiled
    # a thread may look for its machine code still
    deadline = time.monotonic() + 20
    while made & set(buffer_cache._known) and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)
    assert not made & set(buffer_cache._known)


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="glibc alone keeps free pages so"
)
def test_dropped_buffers_go_back_to_the_system() -> None:
    """What is dropped beyond the limit leaves the process, though blocks that lie behind it in the heap live on."""
    script = """
        import numpy as np
        from pathlib import Path
        from afx.runtime.buffer_cache import IdleBuffers, set_cache_limit
        def resident():
            return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
        large = np.ones(1 << 21)
        del large  # from here on the heap holds blocks of this size
        idle, newest = IdleBuffers(1 << 20, 200), IdleBuffers(0, 1)
        survivors = []
        for _ in range(120):
            idle.recent.append(np.ones(1 << 17))
            survivors.append(np.ones(1 << 14))
        before = resident()
        newest.take_older()
        set_cache_limit(0)
        assert not idle.nbytes
        assert before - resident() > 90 << 20, (before, resident())
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True)


def run_and_read_peak(program: str, lengths: str) -> int:
    """Return the most that was resident of a gradient's process, and of its compiling process, in megabytes."""
    script = f"""
        from pathlib import Path
        import numpy as np
        import afx
        from afx.compiler.native_backend.service.process import service
        def peak(pid):
            lines = Path(f"/proc/{{pid}}/status").read_text().splitlines()
            return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1000
        rng = np.random.default_rng(0)
        w = afx.asarray(rng.normal(size=(64, 64)).astype(np.float32) / 8)
        def layers(w, x):
            for _ in range(6):
                x = afx.tanh(x @ w)
            return afx.mean(x * x)
        def steps(w, x):
            h, _ = afx.scan(lambda h, v: (afx.tanh(h @ w + v), None), afx.zeros((64, 64)), x)
            return afx.sum(h * h)
        fn = afx.jit(afx.grad({program}))
        highest = 0
        for n in {lengths}:
            x = rng.normal(size=(8000 + 4 * n, 64) if {program} is layers else (n, 64, 64)).astype(np.float32)
            for _ in range(3):
                fn(w, x)
            highest = max(highest, peak(service.pid) if service.pid else 0)
        print(peak("self") + highest)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], check=True, stdout=subprocess.PIPE, text=True
    )
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("program", ["layers", "steps"])
def test_many_lengths_stay_within_what_is_said(program: str) -> None:
    """Of 120 lengths of a gradient at most 256 MB more are resident, at the peak too, than of the largest alone."""
    assert run_and_read_peak(program, "range(100, 220)") - run_and_read_peak(program, "[219]") <= 256


def test_one_number_of_many_places_is_one_number() -> None:
    """What a gradient of a mean multiplies by is captured once, and bodies of loops have buffers that count."""
    graph = afx.trace(afx.grad(afx.mean))(afx.ones((300, 400)))
    assert all(c.value.strides == (0, 0) for _, c in graph.constants)
    kept = np.broadcast_to(np.ones(3, np.float32), (2, 3))
    (captured,) = [c.value for _, c in afx.trace(lambda x: x * kept)(afx.ones((2, 3))).constants]
    np.testing.assert_array_equal(captured, kept)

    def steps(x: Array) -> Any:
        return afx.scan(lambda c, v: (afx.sort(c + v), None), x[0], x)[0]

    x = np.ones((3, 50_000), np.float32)
    idle = afx.jit(steps, backend="numpy").lower(x).plan.idle
    assert idle.set_bytes >= 2 * x[0].nbytes


def test_profilers_written_in_c() -> None:
    """``python -m cProfile``, whose profiler Python cannot set again: programs run, and go on being profiled."""
    script = """
        import sys
        import afx
        import numpy as np

        profiler = sys.getprofile()
        f = afx.jit(lambda x: (x * x + 1.0, x.sum()))
        kept = [f(np.full(100_000, float(k)))[0] for k in range(6)]
        assert [float(x[0]) for x in kept] == [k * k + 1.0 for k in range(6)]
        afx.value_and_grad(lambda x: afx.sin(x).sum())(afx.ones(3))
        assert sys.getprofile() is profiler
    """
    command = [sys.executable, "-c", f"import cProfile; cProfile.run({textwrap.dedent(script)!r})"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "buffer_cache.py" in said
