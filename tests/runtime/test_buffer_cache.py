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
