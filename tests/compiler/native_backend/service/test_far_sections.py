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
from tests.compiler.native_backend.native_run import run_python

pytest.importorskip("llvmlite", reason="machine code is an extra")

NO_RESERVE = 0x4000  # MAP_NORESERVE: addresses without memory
PIECES = """
    import mmap

    import numpy as np

    import afx
    from afx import export

    NO_RESERVE = 0x4000

    def reserve(size: int) -> mmap.mmap:
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE)

    kept = []
    x = np.linspace(1.0, 2.0, 7)
    for k in range(8):
        f = export.compile(lambda x: afx.exp(x) * float(k) + afx.log(x), x, name="f")
        f.object  # compiled before the memory is in pieces, and linked at the first call
        kept += [reserve(1 << 12 << m) for m in (4, 0) for _ in range(2000)]
        pages = []
        for _ in range(100):  # a page more, as Linux puts whole large pages at rounded addresses
            pages.append(reserve(1 << 12))
            kept.append(reserve((3 << 30) + (1 << 12)))
        for page in pages:
            page.close()
        np.testing.assert_allclose(np.asarray(f(x)), np.exp(x) * k + np.log(x), rtol=1e-14)
"""


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


@pytest.mark.skipif(sys.platform != "linux", reason="memory is reserved by Linux's flag")
def test_a_module_lies_in_one_piece() -> None:
    """A module is linked where free memory is in pieces of a page with 3 GiB between: its sections lie side by side."""
    run_python(PIECES)
