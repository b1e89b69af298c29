"""Slots: the arguments of an exported function, one a leaf, with their names in C."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

import attrs

from afx.core.dtypes import DType

__all__ = ["Slot", "escape_line", "name_slots"]

C_TYPES = {
    "float32": "float", "float64": "double", "bool": "uint8_t", "int8": "int8_t", "int16": "int16_t",
    "int32": "int32_t", "int64": "int64_t", "uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint32_t",
    "uint64": "uint64_t",
}  # fmt: skip
RESERVED = frozenset({
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern",
    "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict", "return", "short", "signed",
    "sizeof", "static", "struct", "switch", "typedef", "union", "unsigned", "void", "volatile", "while", "work",
})  # fmt: skip


@attrs.frozen
class Slot:
    """An array that the function of C reads or writes, dense in row-major order.

    Attributes:
        path: where the leaf stands among the arguments, or in the result, of the Python function.
        name: of the parameter in C.
        shape: its lengths.
        dtype: of its elements.
    """

    path: str
    name: str
    shape: tuple[int, ...]
    dtype: DType

    @property
    def c_type(self) -> str:
        """The type of an element in C."""
        return C_TYPES[self.dtype.name]

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def __str__(self) -> str:
        return f"{self.path}: {self.dtype}[{','.join(map(str, self.shape))}]"


def escape_line(text: str) -> str:
    r"""Return a text as one line that can be printed: line ends, control characters and the like are escaped.

    >>> print(escape_line("a\nb"))
    a\nb
    """
    return "".join([letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text])


def name_slots(items: Sequence[tuple[str, tuple[int, ...], DType]], taken: Iterable[str] = ()) -> tuple[Slot, ...]:
    """Return slots with a C name each, from their paths.

    >>> import numpy as np
    >>> double = np.dtype("f8")
    >>> [slot.name for slot in name_slots([("w[0]", (2,), double), ("w[1]", (), double), ("int", (), double)])]
    ['w_0', 'w_1', 'int_2']
    """
    used, found = {*taken, *RESERVED}, list[Slot]()
    for path, shape, dtype in items:
        stem = re.sub(r"\W+", "_", path, flags=re.ASCII).strip("_") or "x"
        stem = f"_{stem}" if stem[0].isdigit() else stem
        name, k = stem, 1
        while name in used:
            k += 1
            name = f"{stem}_{k}"
        used.add(name)
        found.append(Slot(path, name, shape, dtype))
    return tuple(found)
