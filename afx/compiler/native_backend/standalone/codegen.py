"""Code generation for any processor: LLVM IR becomes an object file in the compiling process, and functions in this one."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from afx.compiler.native_backend.link import address_of, load_code
from afx.compiler.native_backend.process import service

__all__ = ["SYMBOLS", "compile_module", "load_function"]

SECONDS = 600.0
# of the C library; on Linux those of libm stand in a file of their own
OF_FLOATS = (
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "copysign", "cos", "cosh", "erf", "erfc", "exp",
    "exp2", "expm1", "fabs", "fma", "fmod", "hypot", "lgamma", "log", "log10", "log1p", "log2", "nextafter", "pow", "sin",
    "sinh", "sqrt", "tan", "tanh",
)  # fmt: skip
SYMBOLS = (*OF_FLOATS, *[f"{name}f" for name in OF_FLOATS], "realloc", "free", "memcpy", "memset", "memmove")


def compile_module(text: str, triple: str, cpu: str, features: str, is_loaded: bool) -> bytes:
    """Return the object file of a module.

    Args:
        text: the module.
        triple: LLVM's name of the machine; an empty one stands for this one.
        cpu: LLVM's name of the processor; an empty one stands for this one.
        features: LLVM's names of features beyond it.
        is_loaded: whether a loader puts the code where there is room, so that it must not know its place.

    Raises:
        RuntimeError: LLVM refuses it, or cannot be started; the text says why.
    """
    answer: Future[tuple[Any, str]] = Future()
    call = (text, cpu, "object", (triple, features, "pic" if is_loaded else "static"))
    service.submit(call, lambda code, reason: answer.set_result((code, reason)))
    try:
        code, reason = answer.result(SECONDS)
    except TimeoutError:
        raise RuntimeError(f"the compiling process gave no answer for {SECONDS:.0f} s") from None
    if code is None:
        raise RuntimeError(reason)
    return bytes(code)


def load_function(code: bytes, names: Sequence[str]) -> tuple[Any, dict[str, int]]:
    """Link an object file within this process; return what keeps the code alive, and the addresses of functions."""
    library = ctypes.CDLL("libm.so.6" if sys.platform == "linux" else None)
    tracker = load_code(code, names, {name: address_of(library, name) for name in SYMBOLS if hasattr(library, name)})
    return tracker, {name: tracker[name] for name in names}
