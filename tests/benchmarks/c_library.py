"""C peers: the same work by hand in C, compiled where a compiler is found, on one processor."""

from __future__ import annotations

import ctypes
import functools
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["C", "c_function", "c_version", "compiler", "pointer"]

C = "c"
FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-shared", "-fPIC")
SOURCES = Path(__file__).with_name("c")


def compiler() -> str | None:
    """Return the path of a C compiler, None where there is none."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def c_version() -> str:
    """Return the compiler and its flags."""
    found = compiler()
    if found is None:
        return "no C compiler"
    first = subprocess.run([found, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    return f"C by {first} {' '.join(FLAGS[:3])}"


@functools.cache
def load(name: str) -> ctypes.CDLL:
    """Return the library of a source file, compiled once."""
    found = compiler()
    assert found is not None
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / f"{name}.so"
        subprocess.run([found, *FLAGS, str(SOURCES / f"{name}.c"), "-o", str(library), "-lm"], check=True)
        return ctypes.CDLL(str(library))


def c_function(name: str, result: Any = None, symbol: str = "") -> Callable[..., Any]:
    """Return the function of a source file, compiled: that of the same name, or another one."""
    function: Any = getattr(load(name), symbol or name)
    function.restype = result
    return function  # of a library that ctypes knows nothing of


def pointer(x: np.ndarray) -> ctypes.c_void_p:
    """Return the memory of an array, which lives as long, as an argument."""
    return x.ctypes.data_as(ctypes.c_void_p)
