"""Note: what an exported file says of itself, as bytes that stand in its code's constants, wherever a linker puts them.

Layout: a mark, the length of what follows as eight bytes, a JSON text that is compressed by zlib, and its CRC. Reading it runs
nothing of the file.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any

from afx.errors import FileFormatError

__all__ = ["FORMAT", "read_note", "write_note"]

FORMAT = 1  # of the note; later versions read all earlier ones
MARK = b"afx.export\x00\x01"
HEAD = struct.Struct("<QI")
MAX_BYTES = 1 << 26  # of the text: a file that claims more is not ours


def write_note(content: Mapping[str, Any]) -> bytes:
    """Return the bytes of a note."""
    data = zlib.compress(json.dumps({"format": FORMAT, **content}).encode(), 9)
    return MARK + HEAD.pack(len(data), zlib.crc32(data)) + data


def read_note(file: bytes, where: str) -> dict[str, Any]:
    """Return the first note in a file that is whole.

    Raises:
        FileFormatError: there is none, or it is of a later format.
    """
    start = file.find(MARK)
    while start >= 0:
        content = _read(file, start + len(MARK))
        if content is not None:
            if content.get("format", FORMAT + 1) > FORMAT:
                raise FileFormatError(
                    f"load: {where} was made by a later version of afx: got format {content.get('format')}; update afx"
                )
            return content
        start = file.find(MARK, start + 1)
    raise FileFormatError(f"load: {where} holds no note of afx.export: got {len(file)} bytes; give a file that it made")


def _read(file: bytes, at: int) -> dict[str, Any] | None:
    if len(file) < at + HEAD.size:
        return None
    length, crc = HEAD.unpack_from(file, at)
    data = file[at + HEAD.size : at + HEAD.size + length]
    if len(data) != length or zlib.crc32(data) != crc:
        return None
    try:
        unpacker = zlib.decompressobj()
        text = unpacker.decompress(data, MAX_BYTES)
        found: Any = json.loads(text)
    except (zlib.error, ValueError, RecursionError):
        return None
    is_note = found.__class__ is dict and isinstance(found.get("format"), int)
    return found if is_note else None
