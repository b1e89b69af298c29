"""Object files for macOS and Windows, which nothing here runs: their format, symbols and relocations are read."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
import pytest

import afx
from afx import export, linalg, nn

pytest.importorskip("llvmlite", reason="machine code is an extra")

LIBM = {"acos", "asin", "atan2", "cbrt", "cos", "erf", "exp", "fma", "log", "log1p", "pow", "sin", "tan", "tanh"}
LIBC = {"memcpy", "memmove", "memset", "bzero", "memset_pattern16"}


class File(NamedTuple):
    """What an object file says.

    Attributes:
        machine: the number of its processor.
        defined: names of functions that it gives.
        needed: names of what a linker must find.
        relocations: their kinds.
    """

    machine: int
    defined: set[str]
    needed: set[str]
    relocations: set[int]


def text_at(code: bytes, at: int) -> str:
    """Return a text that ends with a zero."""
    return code[at : code.index(0, at)].decode()


def read_macho(code: bytes) -> File:
    """Return what an object of macOS says, by ``mach-o/loader.h``, ``nlist.h`` and ``reloc.h``."""
    magic, machine, _, kind, count = struct.unpack_from("<5I", code)
    assert (magic, kind) == (0xFEEDFACF, 1)
    file, at = File(machine, set(), set(), set()), 32
    for _ in range(count):
        command, length = struct.unpack_from("<2I", code, at)
        if command == 0x19:  # a segment
            for k in range(struct.unpack_from("<I", code, at + 64)[0]):
                start, entries = struct.unpack_from("<2I", code, at + 72 + 80 * k + 56)
                file.relocations.update(code[start + 8 * j + 7] >> 4 for j in range(entries))
        if command == 2:  # symbols
            symbols, number, texts, _ = struct.unpack_from("<4I", code, at + 8)
            for k in range(number):
                name, tags = struct.unpack_from("<IB", code, symbols + 16 * k)
                if tags & 1:  # an external one
                    (file.defined if tags & 0x0E else file.needed).add(text_at(code, texts + name))
        at += length
    return file


def read_coff(code: bytes) -> File:
    """Return what an object of Windows says, by the specification of the PE format."""
    machine, sections, _, symbols, number, extra = struct.unpack_from("<2H3IH", code)
    file = File(machine, set(), set(), set(_coff_relocations(code, 20 + extra, sections)))
    k = 0
    while k < number:
        name, _, section, kind, storage, more = struct.unpack_from("<8sIhHBB", code, symbols + 18 * k)
        if storage == 2:  # an external one
            is_long = not int.from_bytes(name[:4], "little")
            at = symbols + 18 * number + int.from_bytes(name[4:], "little")
            text = text_at(code, at) if is_long else name.rstrip(b"\0").decode()
            if section == 0 or kind == 0x20:  # functions
                (file.defined if section else file.needed).add(text)
        k += 1 + more
    return file


def _coff_relocations(code: bytes, at: int, sections: int) -> Iterator[int]:
    for k in range(sections):
        start, _, count = struct.unpack_from("<2IH", code, at + 40 * k + 24)
        for j in range(count):
            yield struct.unpack_from("<H", code, start + 10 * j + 8)[0]


# name: what reads it, its processor, the kinds of relocations that linkers know, and what stands before C's names
FORMATS: dict[str, Any] = {
    "macos-arm64": (read_macho, 0x0100000C, set(range(7)), "_"),  # ARM64_RELOC_UNSIGNED to GOT_LOAD_PAGEOFF12
    "macos-x86_64": (read_macho, 0x01000007, set(range(9)), "_"),  # X86_64_RELOC_UNSIGNED to SIGNED_4
    "windows-x86_64": (read_coff, 0x8664, {1, 3, *range(4, 12)}, ""),  # IMAGE_REL_AMD64_ADDR64 to SECREL
}


def program(x: Any, key: Any) -> Any:
    """Return results of loops, sorts, systems, draws and functions."""
    y = afx.sort(nn.gelu(x)) + afx.random.normal(key, x.shape)
    z = afx.scan(lambda c, _: (afx.sin(c) * 0.5, None), y, None, length=30)[0]
    return z, afx.sum(x @ linalg.inv(afx.eye(9) * 3.0 + x[:, None] * x)), x.astype(np.int64) // 7, x**1.7


@pytest.mark.parametrize("target", FORMATS)
def test_an_object_is_of_its_systems_format(target: str) -> None:
    """It gives two functions by C's names there, needs C's library alone, in portable bits next to nothing of it."""
    read, machine, kinds, before = FORMATS[target]
    args = np.linspace(0.1, 0.9, 9), afx.random.key(0)
    kinds_of_bits: tuple[Literal["target", "portable"], ...] = ("target", "portable")
    for bits in kinds_of_bits:
        made = export.compile(program, *args, target=target, name="program", bits=bits)
        file = read(made.object)
        assert file.machine == machine
        assert file.defined == {f"{before}program", f"{before}program_work_bytes"}
        assert file.relocations <= kinds
        library = LIBC if bits == "portable" else LIBC | LIBM
        marks = {"_fltused"} if target.startswith("windows") else set[str]()
        assert file.needed - marks <= {before + name for name in library}, bits
