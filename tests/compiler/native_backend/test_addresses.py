"""Object code may be linked anywhere: a process whose memory is fragmented puts code and constants far apart."""

import platform
import struct
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import afx
from afx.compiler.native_backend.service.child import compile_text

X = np.linspace(0.5, 1, 64)
ABSOLUTE, RELATIVE = (
    1,
    24,
)  # R_X86_64_64 and R_X86_64_PC64, of the processor's supplement to System V's binary interface
PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "constants": lambda x: afx.where(x > 0.7, x * 1.25, afx.sqrt(x) + 2.5),
    "a function": lambda x: afx.tanh(x) ** 3,
    "a sum": lambda x: afx.sum(x * 3.5),
    "a loop": lambda x: afx.scan(lambda y, _: (y * 0.5 + y[::-1], None), x, None, 10)[0],
    "a gather": lambda x: x[(x * 10).astype(np.int64)] * 2.5,
    "a division": lambda x: (x * 100).astype(np.int64) // 7,
    "a product": lambda x: x.reshape(8, 8) @ x.reshape(8, 8) * 1.5,
    "copies": lambda x: afx.concatenate([x, x * 2.5]),
}


def relocations(code: bytes) -> Iterator[int]:
    """Return the kinds of relocations in an ELF object of 64 bits."""
    (table,) = struct.unpack_from("<Q", code, 40)
    size, count, _ = struct.unpack_from("<HHH", code, 58)
    for k in range(count):
        _, kind, _, _, offset, length = struct.unpack_from("<IIQQQQ", code, table + k * size)
        if kind == 4:  # a section of relocations
            for at in range(offset, offset + length, 24):
                yield struct.unpack_from("<QQ", code, at)[1] & 0xFFFFFFFF


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="kinds of relocations are those of one format"
)
@pytest.mark.parametrize("name", PROGRAMS)
def test_addresses_have_64_bits(name: str) -> None:
    """No relocation has 32 bits, beyond which LLVM's linker ends the process."""
    pytest.importorskip("llvmlite", reason="machine code needs the extra native")
    plan = afx.jit(PROGRAMS[name], backend="native").lower(X).plan
    found = set(relocations(compile_text(plan.llvm, "")))
    assert found
    assert found <= {ABSOLUTE, RELATIVE}
