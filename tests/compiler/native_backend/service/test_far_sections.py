"""Code is linked wherever there is room in memory, also where that lies in pieces far apart."""

from __future__ import annotations

import ctypes
import mmap
import sys

import numpy as np
import pytest

import afx
from afx import export
from afx.compiler.native_backend.standalone.emit import load_function

pytest.importorskip("llvmlite", reason="machine code is an extra")

NO_RESERVE = 0x4000  # MAP_NORESERVE: addresses without memory


@pytest.mark.skipif(sys.platform != "linux", reason="memory is reserved by Linux's flag")
def test_modules_are_linked_far_apart() -> None:
    """A function with constants, linked again and again, with 2 GiB of memory between, computes the same each time."""
    e = export.compile(lambda x: afx.tanh(x) + afx.sin(x), np.ones(5), name="far", bits="portable")
    x, reserved = np.linspace(-1, 1, 5), list[mmap.mmap]()
    results, loaded = set[bytes](), list[object]()
    for _ in range(24):
        tracker, addresses = load_function(e.object, ["far"])
        out, work = np.empty(5), np.empty(4096 + 64, np.uint8)
        call = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 3)(addresses["far"])
        assert call(x.ctypes.data, out.ctypes.data, -(-work.ctypes.data // 64) * 64) == 0
        results.add(out.tobytes())
        loaded.append(tracker)
        reserved.append(mmap.mmap(-1, 1 << 31, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE))
    assert len(results) == 1
