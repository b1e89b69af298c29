"""BLAS: products in pieces, libraries limited to one thread while plans run, and its triangular solver."""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from afx.core import Ndarray
from afx.runtime.thread_pool import run_blocks, undisturbed

# --- BLAS
#
# BLAS libraries keep threads of their own. They cut a product by the number of processors, on which its last digits
# then depend. They spin while they wait: beside other busy threads products become many times slower. Where
# threadpoolctl is installed, plans limit BLAS to one thread while they run, and compute the pieces of large products
# on their own threads. The limit ends with each call, so that the caller's own NumPy stays as it was.


def product(x: Any, y: Any, out: Any, axis: int, stops: tuple[int, ...]) -> None:
    """Compute ``x @ y`` into ``out`` in pieces along an axis that end at these rows or columns."""
    piece = _rows if axis == 0 else _columns
    run_blocks(piece, stops[-1], stops[0], [()] * len(stops), (x, y, out))


def _rows(_k: int, start: int, stop: int, _own: tuple[Any, ...], x: Any, y: Any, out: Any) -> None:
    np.matmul(x[start:stop], y, out=out[start:stop])


def _columns(_k: int, start: int, stop: int, _own: tuple[Any, ...], x: Any, y: Any, out: Any) -> None:
    np.matmul(x, y[:, start:stop], out=out[:, start:stop])


@functools.cache
def is_installed() -> bool:
    """Tell whether threadpoolctl, which holds BLAS to one thread, is installed."""
    return importlib.util.find_spec("threadpoolctl") is not None


BRINGERS = ("scipy.linalg", "scipy.special")  # modules with a BLAS of their own, which may be imported at any time


class Blas:
    """The process's BLAS libraries, limited to one thread while plans run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._before: list[int] = []
        self._libraries: list[Any] | None = None
        self._loaded: list[bool] = []  # of BRINGERS, when libraries were looked for

    def _find(self) -> list[Any]:
        """Return the libraries, looked for again where a module has brought another one."""
        loaded = [name in sys.modules for name in BRINGERS]
        if self._libraries is None or (self._loaded and loaded != self._loaded):
            self._loaded = loaded
            try:
                with undisturbed:
                    control = importlib.import_module("threadpoolctl").ThreadpoolController()
            except ImportError:
                self._libraries = []
            else:
                self._libraries = list(map(_direct, control.select(user_api="blas").lib_controllers))
        return self._libraries

    def __enter__(self) -> None:
        with self._lock:
            if not self._depth:
                before = [library.get_num_threads() for library in self._find()]
                try:
                    self._set([1] * len(before))
                except BaseException:
                    self._set(before)
                    raise
                self._before = before
            self._depth += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._depth -= 1
            if not self._depth:
                self._set(self._before)

    def _set(self, counts: Sequence[int]) -> None:
        """Set the numbers of threads, whichever thread did so last: threadpoolctl else obeys the first one alone."""
        for library, count in zip(self._libraries or (), counts, strict=True):
            release = getattr(library, "clear_controlling_thread", _nothing)
            release(force=True)
            library.set_num_threads(count)
            release(force=True)

    def forget(self) -> None:
        """Begin anew in a forked child, which has none of the threads that limited BLAS."""
        self._lock = threading.Lock()
        if self._depth:
            self._depth = 0
            self._set(self._before)


class _Direct:
    """An OpenBLAS whose own functions are called: a tenth of the time that threadpoolctl takes for their names.

    They set one number, and keep Python's lock meanwhile: beside busy threads it would come back after all their turns.
    """

    __slots__ = ("get_num_threads", "set_num_threads")

    def __init__(self, get: Any, set_: Any) -> None:
        self.get_num_threads: Any = ctypes.PYFUNCTYPE(ctypes.c_int)(_address(get))
        self.set_num_threads: Any = ctypes.PYFUNCTYPE(None, ctypes.c_int)(_address(set_))


def _direct(library: Any) -> Any:
    """Return a library with its own functions, where it is an OpenBLAS whose threads belong to the process."""
    find = getattr(library, "_get_symbol", None)
    if getattr(library, "threading_layer", "") != "pthreads" or find is None:
        return library
    get, set_ = find("openblas_get_num_threads"), find("openblas_set_num_threads")
    return library if get is None or set_ is None else _Direct(get, set_)


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _nothing(force: bool) -> None:
    """Stand for what older releases of threadpoolctl do not need."""


blas: Blas = Blas()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=blas.forget)


# --- Triangular solver: BLAS's ``trsm`` and ``trsv``, in the library that NumPy itself has loaded

Solver: TypeAlias = Callable[[Ndarray, Ndarray, bool, bool], None]

# The routines' names, and their integers: those of NumPy's wheels, of 64 bits under the usual name, of C's.
NAMES: Final = (("scipy_cblas_{}64_", ctypes.c_int64), ("cblas_{}64_", ctypes.c_int64), ("cblas_{}", ctypes.c_int))
LETTERS: Final = {"d": "d", "D": "z"}  # of NumPy's dtypes
ROW_MAJOR, LEFT = 101, 141
NO_TRANSPOSE, TRANSPOSE = 111, 112
UPPER, LOWER = 121, 122
NON_UNIT, UNIT = 131, 132


@functools.cache
def find_solver(char: str) -> Solver | None:
    """Return a function that solves triangular systems in place; None where BLAS's routines cannot be found.

    The function takes a matrix in either order, right-hand sides in C's order, which become the solution, whether the
    lower triangle is read, and whether the diagonal counts as ones.

    Args:
        char: the dtype's character, of float64 or complex128.
    """
    library = _library()
    for name, integer in NAMES if char in LETTERS else ():
        of_matrices, of_vectors = (
            getattr(library, name.format(LETTERS[char] + routine), None) for routine in ("trsm", "trsv")
        )
        if of_matrices is not None and of_vectors is not None:
            return _solver(of_matrices, of_vectors, integer, is_complex=char == "D")
    return None


@functools.cache
def _library() -> Any:
    """Return the module of NumPy's products; where the system looks for symbols so, those of its BLAS are among its own."""
    try:
        return ctypes.CDLL(importlib.import_module("numpy._core._multiarray_umath").__file__)
    except (ImportError, OSError):
        return None


def _solver(of_matrices: Any, of_vectors: Any, integer: Any, *, is_complex: bool) -> Solver:
    """Return a solver of triangular systems in place by the two functions of BLAS, whose argument types it declares."""
    number, pointer = ctypes.c_int, ctypes.c_void_p
    one = (ctypes.c_double * 2)(1.0, 0.0) if is_complex else 1.0
    of_matrices.restype = of_vectors.restype = None
    scale = pointer if is_complex else ctypes.c_double
    of_matrices.argtypes = [*[number] * 5, integer, integer, scale, pointer, integer, pointer, integer]
    of_vectors.argtypes = [*[number] * 4, integer, pointer, integer, pointer, integer]

    def solve(a: Ndarray, b: Ndarray, lower: bool, unit: bool) -> None:
        n, k = b.shape
        form = NO_TRANSPOSE
        if not a.flags.c_contiguous:  # it is so when seen from the other side
            form, a, lower = TRANSPOSE, a.T, not lower
        triangle, diagonal = LOWER if lower else UPPER, UNIT if unit else NON_UNIT
        if k == 1:
            of_vectors(ROW_MAJOR, triangle, form, diagonal, n, a.ctypes.data, n, b.ctypes.data, 1)
        else:
            of_matrices(ROW_MAJOR, LEFT, triangle, form, diagonal, n, k, one, a.ctypes.data, n, b.ctypes.data, k)

    return solve
