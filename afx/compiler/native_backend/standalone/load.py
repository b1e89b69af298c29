"""Loading: functions of C out of an object file, into this process."""

from __future__ import annotations

import ctypes
import itertools
import sys
from collections.abc import Sequence
from typing import Any

from afx.compiler.native_backend.child import load_llvm
from afx.compiler.native_backend.link import load_linker

__all__ = ["load_function"]

_numbers = itertools.count(1)
# of the C library; on Linux those of libm stand in a file of their own
OF_FLOATS = (
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "copysign", "cos", "cosh", "erf", "erfc", "exp",
    "exp2", "expm1", "fabs", "fma", "fmod", "hypot", "lgamma", "log", "log10", "log1p", "log2", "nextafter", "pow", "sin",
    "sinh", "sqrt", "tan", "tanh",
)  # fmt: skip
SYMBOLS = (*OF_FLOATS, *[f"{name}f" for name in OF_FLOATS], "realloc", "free", "memcpy", "memset", "memmove")


def load_function(code: bytes, names: Sequence[str]) -> tuple[Any, dict[str, int]]:
    """Return what keeps the code alive, and the addresses of functions."""
    builder = load_llvm().JITLibraryBuilder().add_object_img(code)
    for name in names:
        builder.export_symbol(name)
    library = ctypes.CDLL("libm.so.6" if sys.platform == "linux" else None)
    for symbol in SYMBOLS:
        if hasattr(library, symbol):
            address = ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value
            builder.import_symbol(symbol, address)
    tracker = builder.link(load_linker(), f"exported.{next(_numbers)}")
    return tracker, {name: tracker[name] for name in names}
