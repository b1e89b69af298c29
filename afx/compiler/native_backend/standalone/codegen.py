"""Code generation for any processor: LLVM IR becomes an object file, in the process that compiles for this one too."""

from __future__ import annotations

import threading
from typing import Any

from afx.compiler.native_backend.process import Job, service

__all__ = ["compile_module"]

SECONDS = 600.0


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
    is_done, found = threading.Event(), list[Any]()

    def done(code: Any, reason: str) -> None:
        found[:] = [code, reason]
        is_done.set()

    service.submit(Job((text, cpu, "object", (triple, features, "pic" if is_loaded else "static")), done))
    if not is_done.wait(SECONDS):
        raise RuntimeError(f"the compiling process gave no answer for {SECONDS:.0f} s")
    code, reason = found
    if code is None:
        raise RuntimeError(reason)
    return bytes(code)
