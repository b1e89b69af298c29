"""Modules: the parts of a file of Python that is being written: imports, functions, arrays, and the function itself."""

from __future__ import annotations

import base64
import textwrap
import zlib
from typing import Any

import numpy as np

from afx.export.templates.names import Names

__all__ = ["Module", "number_text"]

SHOWN = 16  # elements of an array that are written as numbers
LINE = 96  # characters of a line of encoded bytes
UNPACK = '''
def unpack(text, dtype, shape):
    """Return the array that a text holds: its bytes, compressed, in base64."""
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype).reshape(shape)
'''


class Module:
    """What a file holds, in the order in which it was entered.

    Attributes:
        names: in use at the top of the file and in its function.
        imports: statements.
        known: the name of each value that is written down, and the value, so that its identity stays its own.
        parts: texts of functions and arrays.
    """

    def __init__(self, names: Names) -> None:
        self.names = names
        self.imports: set[str] = set()
        self.known: dict[int, tuple[str, Any]] = {}
        self.parts: list[str] = []

    def reserve(self, value: Any, wish: str) -> str:
        """Return the name of a value whose text will follow."""
        name = self.names.make(wish)
        self.known[id(value)] = name, value
        return name

    def define(self, value: Any, name: str, source: str) -> str:
        """Enter a value with its text under a name that nothing else takes."""
        self.known[id(value)] = name, value
        self.write(source.strip())
        return name

    def write(self, text: str) -> None:
        """Add a text at the top of the file."""
        self.parts.append(text)

    def enter_array(self, value: np.ndarray[Any, Any], name: str) -> str:
        """Enter an array under a name, as numbers where there are few, else as encoded bytes; return the name."""
        self.known[id(value)] = name, value
        self.write(f"{name} = {self._array_text(value)}\n{name}.flags.writeable = False")
        return name

    def _array_text(self, value: np.ndarray[Any, Any]) -> str:
        if value.ndim > 1 and value.flags.f_contiguous and not value.flags.c_contiguous:
            return f"{self._array_text(value.T)}.T"  # the order of elements decides about the last bits of products
        if value.size <= SHOWN:
            text = f"np.array({number_text(value.tolist())}, np.{value.dtype.name})"
            return text if value.size else f"np.zeros({value.shape}, np.{value.dtype.name})"
        if "import zlib" not in self.imports:
            self.imports |= {"import base64", "import zlib"}
            self.parts.insert(0, UNPACK.strip())
        data = base64.b64encode(zlib.compress(np.ascontiguousarray(value).tobytes(), 9)).decode()
        lines = "\n".join(textwrap.wrap(data, LINE))
        return f'unpack("""\n{lines}\n""", np.{value.dtype.name}, {value.shape})'


def number_text(value: Any) -> str:
    """Return a Python number, or a list of such, as an expression that gives it.

    >>> number_text(1.5), number_text(float("-inf")), number_text(True)
    ('1.5', '-np.inf', 'True')
    """
    if isinstance(value, list):
        return f"[{', '.join([number_text(item) for item in value])}]"  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # of any nesting
    if isinstance(value, complex):
        return f"complex({number_text(value.real)}, {number_text(value.imag)})"
    text = repr(value)
    return text.replace("inf", "np.inf").replace("nan", "np.nan")
