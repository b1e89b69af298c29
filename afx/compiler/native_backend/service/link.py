"""Linker: object code of a native program as a builtin function of Python, with the addresses that it names."""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.util
import itertools
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from afx.compiler.native_backend.llvm.writer import Addresses
from afx.compiler.native_backend.program.elements import UfuncLoop
from afx.compiler.native_backend.program.interface import Interface
from afx.compiler.native_backend.service.child import load_llvm
from afx.compiler.native_backend.service.image import Image, load_image
from afx.core.scalar_ops import SCALAR_OPS

_names = itertools.count(1)
FASTCALL = 0x80  # METH_FASTCALL
PYTHON_FUNCTIONS = (
    "PyLong_FromLong", "PyEval_SaveThread", "PyEval_RestoreThread", "PyMem_RawRealloc", "PyMem_RawFree", "PyObject_CallNoArgs",
    "PyThread_get_thread_ident", "Py_DecRef",
)  # fmt: skip
C_FUNCTIONS = (
    "memset", "memcpy", "memmove", "fetestexcept", "feclearexcept", "feraiseexcept", "fma", "fmaf", "sched_yield",
    "clock_gettime",
    *[f"{op.libm}{kind}" for op in SCALAR_OPS.values() if op.libm for kind in ("", "f")],  # portable code calls exact ones
)  # fmt: skip

NUMPY_2 = 0x2000000  # the version of its binary interface
ARRAY_FUNCTIONS = 365  # the place of PyDataType_GetArrFuncs in NumPy's C interface
FIRST_SORT = 33  # the place of the first function that sorts in PyArray_ArrFuncs
SORTS = {"sort.quick": 0, "argsort.quick": 3, "argsort.stable": 5}  # places behind it: three kinds of each


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
def layout() -> Addresses | None:
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
    array = _ArrayHead.from_address(id(x) + head)
    kind = ctypes.c_void_p.from_address(id(x) + head - 8).value
    same = (kind, array.data, array.ndim, array.dtype, array.flags & 0x501)
    dtype = ctypes.string_at(id(x.dtype) + head + 8, 3)  # kind, type, byte order
    if (*same, dtype) != (id(np.ndarray), x.ctypes.data, 2, id(x.dtype), 0x501, b"ff=") or array.shape[1] != 5:
        return None
    if platform.machine().lower() in ("x86_64", "amd64"):
        return Addresses(head, True, 4, 8, 1)
    if platform.machine().lower() in ("aarch64", "arm64") and hasattr(_process(), "fetestexcept"):
        return Addresses(head, False, 2, 4, 1)
    return None


@functools.cache
def ufunc_loop(name: str, dtypes: tuple[str, ...]) -> UfuncLoop | None:
    """Return a loop of a NumPy ufunc for exactly these dtypes, None where there is none that needs no Python."""
    return None if (addresses := _address(name, dtypes)) is None else UfuncLoop(name, dtypes, bool(addresses[1]))


@functools.cache
def _address(name: str, dtypes: tuple[str, ...]) -> tuple[int, int] | None:
    """Return the addresses of a loop and of its data."""
    if name in SORTS:
        address = _sort_address(SORTS[name], dtypes[0])
        return None if address is None else (address, 0)
    ufunc = find_ufunc(name)
    if ufunc is None:
        return None
    record = _Ufunc.from_address(id(ufunc) + object.__basicsize__)
    if (record.nin, record.nargs, record.ntypes) != (ufunc.nin, ufunc.nargs, len(ufunc.types)):
        return None
    for k, types in enumerate(ufunc.types):
        if tuple([np.dtype(c).str[1:] for c in types.replace("->", "") if c != "O"]) == dtypes:
            data = record.data[k] if record.data else None
            return (record.functions[k], data or 0) if record.functions[k] else None
    return None


def find_ufunc(name: str) -> Any:
    """Return a ufunc, those of other modules than NumPy's own with the module's name in front; None where there is none.

    >>> find_ufunc("linalg.solve1").signature
    '(m,m),(m)->(m)'
    """
    own = name.rpartition(".")[2]
    places: dict[str, Callable[[], Any]] = {
        "": lambda: np,
        "fft.": lambda: getattr(np.fft, "_pocketfft_umath", None),
        "linalg.": lambda: getattr(np.linalg, "_umath_linalg", None),
        "special.": lambda: importlib.import_module("scipy.special") if importlib.util.find_spec("scipy") else None,
    }
    ufunc = getattr(places[name.removesuffix(own)](), own, None)
    return ufunc if isinstance(ufunc, np.ufunc) else None


def _sort_address(place: int, dtype: str) -> int | None:
    """Return one of the functions that NumPy sorts a dtype with, which its C interface hands out.

    That begins with a function for its version; the number of the one that is asked holds for all of NumPy 2.
    """
    core = getattr(np, "_core", None)
    capsule = getattr(getattr(core, "_multiarray_umath", None), "_ARRAY_API", None)
    if capsule is None:
        return None
    open_capsule = ctypes.pythonapi.PyCapsule_GetPointer
    open_capsule.restype, open_capsule.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = ctypes.cast(open_capsule(capsule, None), ctypes.POINTER(ctypes.c_void_p))
    if table[0] is None or ctypes.CFUNCTYPE(ctypes.c_uint)(table[0])() != NUMPY_2 or table[ARRAY_FUNCTIONS] is None:
        return None
    give = ctypes.PYFUNCTYPE(ctypes.POINTER(ctypes.c_void_p), ctypes.py_object)(table[ARRAY_FUNCTIONS])
    address: int | None = give(np.dtype(dtype))[FIRST_SORT + place]
    return address


class Kernel(NamedTuple):
    """Linked machine code: ``kernel(*arrays)`` gives the errors that were seen, or -1 where it refuses an argument."""

    call: Callable[..., int]
    interface: Interface


def look() -> None:
    """Let Python run signal handlers and hand its lock to others, which it does where a function begins."""


class HasInterface(Protocol):
    """A program whose kernel is linked in the process that made it."""

    @property
    def interface(self) -> Interface:
        """What its calls need to know."""
        ...


def link(programs: Sequence[Interface | HasInterface], code: Image | bytes) -> list[Kernel]:
    """Link the code of programs and return its functions; the code lives as long as one of them."""
    faces = [p if isinstance(p, Interface) else p.interface for p in programs]
    symbols = {name: address for face in faces for name, address in _symbols(face).items()}
    if isinstance(code, Image):
        tracker, starts = load_image(code, symbols)
    else:
        tracker = starts = load_code(code, [f"kernel_{k}" for k in range(len(faces))], symbols)
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    kernels: list[Kernel] = []
    for k, face in enumerate(faces):
        method = _MethodDef(b"kernel", starts[f"kernel_{k}"], FASTCALL, None)
        # the builtin's own object holds code and definition, which Python reads while it frees the builtin
        kernels.append(Kernel(new(ctypes.addressof(method), (tracker, method), None), face))
    return kernels


def load_code(code: bytes, names: Sequence[str], symbols: Mapping[str, int]) -> Any:
    """Link object code that names these symbols; return the addresses of functions by their names, which keep it alive."""
    builder = load_llvm().JITLibraryBuilder().add_object_img(code)
    for name in names:
        builder.export_symbol(name)
    for symbol, address in symbols.items():
        builder.import_symbol(symbol, address)
    return builder.link(load_linker(), f"code.{next(_names)}")  # its name is not given back when it is dropped


@functools.cache
def load_linker() -> Any:
    """Return LLVM's linker, whose binding takes a while to load: best before there is code to be linked.

    It is JITLink, which puts the sections of a module together: the other one puts them where there is room, and ends the
    process where code is more than 2 GiB from its constants. On Windows, where Python says AMD64, it is the other one.
    """
    llvm = load_llvm()
    machine = llvm.Target.from_default_triple().create_target_machine(reloc="pic", codemodel="default")
    in_one_piece = platform.machine() in ("x86_64", "aarch64", "arm64", "ARM64")
    return llvm.create_lljit_compiler(machine, use_jit_link=in_one_piece)


@functools.cache
def _functions() -> dict[str, int]:
    """Return the addresses of functions that any program's code may name."""
    addresses = {name: address_of(ctypes.pythonapi, name) for name in PYTHON_FUNCTIONS}
    addresses["python.look"] = id(look)
    addresses["type.ndarray"] = id(np.ndarray)
    for function in C_FUNCTIONS:
        if hasattr(_process(), function):
            addresses[function] = address_of(_process(), function)
    return addresses


def _symbols(face: Interface) -> dict[str, int]:
    """Return the addresses that a program's code names."""
    addresses = {**_functions(), **{f"dtype.{p.dtype}": id(np.dtype(p.dtype)) for p in face.params}}
    for loop in face.loops:
        address = _address(loop.ufunc, loop.dtypes)
        assert address is not None
        addresses[loop.symbol] = address[0]
        if loop.has_data:
            addresses[f"{loop.symbol}.data"] = address[1]
    return addresses


@functools.cache
def _process() -> ctypes.CDLL:
    """Return the symbols of this process; each such object would be a reference cycle of its own."""
    return ctypes.CDLL(None)


def address_of(library: ctypes.CDLL, name: str) -> int:
    """Return the address of a function of a library."""
    address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    assert address is not None
    return address
