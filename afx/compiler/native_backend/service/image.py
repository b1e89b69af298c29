"""Images: object code laid out in memory by the process that compiles, so that the one that calls it writes addresses alone.

An object file of ELF for x86-64 becomes one piece of bytes and the places where addresses are written, which is all that
code of LLVM's large model leaves open. Other object code has none, and LLVM links it.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence

import attrs

from afx.core.primitive import Printable

ELF = b"\x7fELF\x02\x01\x01"  # of 64 bits, little-endian
X86, RELOCATABLE = 62, 1
RELA, SYMTAB, NOBITS = 4, 2, 8
WRITE, ALLOC, LINK_ORDER = 1, 2, 0x70000001  # the last one: tables for debuggers, of no use without the linker's help
ABSOLUTE_64 = 1  # the kind of relocation
READ, EXECUTE = 1, 4  # rights of memory


@attrs.frozen(repr=False)
class Image(Printable):
    """Code that runs wherever it lies, once addresses are written into it.

    Attributes:
        data: code and constants.
        entries: where functions begin, by name.
        own: places of addresses within, each with the distance from the start.
        named: places of addresses of symbols, each with the symbol and a distance from it.
    """

    data: bytes
    entries: dict[str, int]
    own: tuple[tuple[int, int], ...]
    named: tuple[tuple[int, str, int], ...]

    def __len__(self) -> int:
        return len(self.data)


def make_image(code: bytes, names: Sequence[str]) -> Image | bytes:
    """Return the image of object code with these functions; the code itself where it is of a kind that LLVM links."""
    if not code.startswith(ELF) or struct.unpack_from("<HH", code, 16) != (RELOCATABLE, X86):
        return code
    try:
        return _lay_out(code, names)
    except (LookupError, ValueError, struct.error):
        return code


def _lay_out(code: bytes, names: Sequence[str]) -> Image:
    """Raise ValueError or LookupError where something in it needs a linker."""
    (table,), (size, count) = struct.unpack_from("<Q", code, 40), struct.unpack_from("<HH", code, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", code, table + k * size) for k in range(count)]
    data, starts = bytearray(), dict[int, int]()
    for k, (_, kind, flags, _, offset, length, _, _, align, _) in enumerate(sections):
        if flags & ALLOC and kind != LINK_ORDER:
            if (flags & WRITE and length) or kind == NOBITS:
                raise ValueError("memory that is written")
            data += bytes(-len(data) % max(align, 16))
            starts[k] = len(data)
            data += code[offset : offset + length]
    symbols = _symbols(code, sections)
    places = {name: starts[section] + value for name, section, value in symbols if section in starts}
    own, named = list[tuple[int, int]](), list[tuple[int, str, int]]()
    for at, target in _relocations(sections, starts):
        where, info, addend = struct.unpack_from("<QQq", code, at)
        if info & 0xFFFFFFFF != ABSOLUTE_64:
            raise ValueError("an address of another kind")
        name, section, value = symbols[info >> 32]
        if section:
            own.append((target + where, starts[section] + value + addend))
        else:
            named.append((target + where, name, addend))
    return Image(bytes(data), {name: places[name] for name in names}, tuple(own), tuple(named))


def _relocations(sections: Sequence[Sequence[int]], starts: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """Yield where each relocation stands in the file, and where the section that it changes begins."""
    for _, kind, _, _, offset, length, _, target, _, entry in sections:
        if kind == RELA and target in starts:
            yield from [(at, starts[target]) for at in range(offset, offset + length, entry)]


def _symbols(code: bytes, sections: Sequence[tuple[int, ...]]) -> list[tuple[str, int, int]]:
    """Return name, section (0 for what is elsewhere) and value of each symbol."""
    ((start, length, texts, entry),) = [(s[4], s[5], s[6], s[9]) for s in sections if s[1] == SYMTAB]
    strings = sections[texts][4]
    symbols: list[tuple[str, int, int]] = []
    for at in range(start, start + length, entry):
        name, _, _, section, value, _ = struct.unpack_from("<IBBHQQ", code, at)
        begin = strings + name
        symbols.append((code[begin : code.index(b"\0", begin)].decode(), section, value))
    return symbols


def load_image(image: Image, addresses: Mapping[str, int]) -> tuple[mmap.mmap, dict[str, int]]:
    """Return memory that holds an image, and where its functions are, as long as the memory lives.

    Raises:
        OSError: this system gives no memory that runs.
    """
    memory = mmap.mmap(-1, len(image.data), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pointer = (ctypes.c_char * len(image.data)).from_buffer(memory)
    base = ctypes.addressof(pointer)
    del pointer  # which would keep the memory from being closed
    memory[:] = image.data
    write = struct.Struct("<Q").pack_into
    for where, distance in image.own:
        write(memory, where, base + distance)
    for where, name, distance in image.named:
        write(memory, where, addresses[name] + distance & 0xFFFFFFFFFFFFFFFF)
    if _protect()(base, len(image.data), READ | EXECUTE):
        raise OSError("memory cannot be made executable")
    return memory, {name: base + start for name, start in image.entries.items()}


@functools.cache
def _protect() -> Callable[[int, int, int], int]:
    mprotect = ctypes.CDLL(None).mprotect
    mprotect.argtypes, mprotect.restype = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int], ctypes.c_int
    return mprotect
