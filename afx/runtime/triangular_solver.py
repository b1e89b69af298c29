"""Triangular solver: BLAS's ``trsm`` and ``trsv``, in the library that NumPy itself has loaded."""

from __future__ import annotations

import ctypes
import functools
import importlib
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

__all__ = ["Solver", "find_solver"]

Ndarray: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Solver: TypeAlias = Callable[[Ndarray, Ndarray, bool, bool], None]

# The routines' names, and their integers: those of NumPy's wheels, of 64 bits under the usual name, of C's.
NAMES: Final = (
    ("scipy_cblas_{}64_", ctypes.c_int64),
    ("cblas_{}64_", ctypes.c_int64),
    ("cblas_{}", ctypes.c_int),
)
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
