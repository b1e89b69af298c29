"""Linker: object code of a native program as a builtin function of Python, with the addresses that it names."""

from __future__ import annotations

import ctypes
import functools
import itertools
import platform
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from afx.compiler.native_backend.child import load_llvm
from afx.compiler.native_backend.emit import Layout
from afx.compiler.native_backend.program import Block, Inner, Nest, Op, Product, Program, UfuncLoop

__all__ = ["Kernel", "layout", "link", "ufunc_loop"]

_names = itertools.count(1)
FASTCALL = 0x80  # METH_FASTCALL


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class _Ufunc(ctypes.Structure):
    """The public head of ``PyUFuncObject``, behind the head of every Python object."""

    _fields_ = (
        ("nin", ctypes.c_int),
        ("nout", ctypes.c_int),
        ("nargs", ctypes.c_int),
        ("identity", ctypes.c_int),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
    )


class _ArrayHead(ctypes.Structure):
    """The public head of ``PyArrayObject``, behind the head of every Python object."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("ndim", ctypes.c_int),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("base", ctypes.c_void_p),
        ("dtype", ctypes.c_void_p),
        ("flags", ctypes.c_int),
    )


@functools.cache
def layout() -> Layout | None:
    """Return where CPython and NumPy keep things here, None where that is not what machine code is made for."""
    if (
        sys.platform == "win32"
        or sys.implementation.name != "cpython"
        or ctypes.sizeof(ctypes.c_void_p) != 8
        or sys.byteorder != "little"
    ):
        return None
    x = np.empty((3, 5), np.float32)
    head = object.__basicsize__
    found = _ArrayHead.from_address(id(x) + head)
    kind = ctypes.c_void_p.from_address(id(x) + head - 8).value
    same = (kind, found.data, found.ndim, found.dtype, found.flags & 0x501)
    if same != (id(np.ndarray), x.ctypes.data, 2, id(np.dtype("f4")), 0x501) or found.shape[1] != 5:
        return None
    if platform.machine().lower() in ("x86_64", "amd64"):
        return Layout(head, True, 4, 8, 1)
    if platform.machine().lower() in ("aarch64", "arm64") and hasattr(ctypes.CDLL(None), "fetestexcept"):
        return Layout(head, False, 2, 4, 1)
    return None


@functools.cache
def ufunc_loop(name: str, dtypes: tuple[str, ...]) -> UfuncLoop | None:
    """Return a loop of a NumPy ufunc for exactly these dtypes, None where there is none that needs no Python."""
    return None if (found := _address(name, dtypes)) is None else UfuncLoop(name, dtypes, bool(found[1]))


@functools.cache
def _address(name: str, dtypes: tuple[str, ...]) -> tuple[int, int] | None:
    """Return the addresses of a loop and of its data."""
    ufunc: Any = getattr(np, name, None)
    if not isinstance(ufunc, np.ufunc):
        return None
    found = _Ufunc.from_address(id(ufunc) + object.__basicsize__)
    if (found.nin, found.nargs, found.ntypes) != (ufunc.nin, ufunc.nargs, len(ufunc.types)):
        return None
    for k, types in enumerate(ufunc.types):
        if tuple([np.dtype(c).str[1:] for c in types.replace("->", "") if c != "O"]) == dtypes:
            return (found.functions[k], found.data[k] or 0) if found.functions[k] else None
    return None


class Kernel:
    """Linked machine code: ``kernel(*arrays)`` gives the errors that were seen, or -1 where it refuses an argument."""

    __slots__ = ("_keep", "call", "code", "program")

    def __init__(self, call: Callable[..., int], program: Program, code: bytes, keep: Any) -> None:
        self.call = call
        self.program = program
        self.code = code
        self._keep = keep


def link(program: Program, name: str, code: bytes) -> Kernel:
    """Link object code and return its function; the code lives as long as the kernel."""
    builder = load_llvm().JITLibraryBuilder().add_object_img(code).export_symbol(name)
    for symbol, address in _symbols(program).items():
        builder.import_symbol(symbol, address)
    tracker = builder.link(_jit(), f"{name}.{next(_names)}")  # its name is not given back when it is dropped
    method = _MethodDef(name.encode(), tracker[name], FASTCALL, None)
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3
    return Kernel(new(ctypes.addressof(method), None, None), program, code, (tracker, method))


@functools.cache
def _jit() -> Any:
    llvm = load_llvm()
    machine = llvm.Target.from_default_triple().create_target_machine(reloc="pic", codemodel="default")
    return llvm.create_lljit_compiler(machine)


def _symbols(program: Program) -> dict[str, int]:
    """Return the addresses that a program's code names."""
    names = ["PyLong_FromLong", "PyEval_SaveThread", "PyEval_RestoreThread"]
    found = {name: _function(ctypes.pythonapi, name) for name in names}
    found["type.ndarray"] = id(np.ndarray)
    for param in program.params:
        found[f"dtype.{param.dtype}"] = id(np.dtype(param.dtype))
    for function in ("memset", "memcpy", "memmove", "fetestexcept", "feclearexcept"):
        if hasattr(ctypes.CDLL(None), function):
            found[function] = _function(ctypes.CDLL(None), function)
    for loop in set(_loops(program.block)):
        address = _address(loop.ufunc, loop.dtypes)
        assert address is not None
        found[loop.symbol] = address[0]
        if loop.has_data:
            found[f"{loop.symbol}.data"] = address[1]
    return found


def _function(library: ctypes.CDLL, name: str) -> int:
    address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    assert address is not None
    return address


def _loops(block: Block) -> Iterator[UfuncLoop]:
    """Yield the loops of NumPy that a block calls."""
    for step in block.all_steps():
        if isinstance(step, Nest):
            yield from [v.name for v in step.values if isinstance(v, Op) and isinstance(v.name, UfuncLoop)]
        elif isinstance(step, Inner | Product):
            yield step.loop
