"""BLAS: products in pieces, and libraries limited to one thread while plans run.

BLAS libraries keep threads of their own. They cut a product by the number of processors, on which its last digits then
depend. They spin while they wait: beside other busy threads products become many times slower. Where threadpoolctl is
installed, plans limit BLAS to one thread while they run, and compute the pieces of large products on their own threads.
The limit ends with each call, so that the caller's own NumPy stays as it was.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import attrs
import numpy as np

from afx.compiler.target import current
from afx.errors import ArgumentError, MissingExtraError
from afx.runtime.thread_pool import run_blocks

__all__ = ["blas", "product", "set_products"]

Who: TypeAlias = Literal["auto", "blas", "plan"]


def set_products(who: Who) -> None:
    """Set whose threads compute the large products of plans made from now on.

    Args:
        who: ``"auto"``: the plan's own threads, each product in pieces of one BLAS thread, where threadpoolctl is
            installed, else BLAS's threads; ``"plan"``: the same, but threadpoolctl must be there; ``"blas"``: BLAS's
            threads, whose number then decides about last digits.

    Raises:
        ArgumentError: another word.
        MissingExtraError: threadpoolctl, which ``"plan"`` needs, is not installed.
    """
    if who not in ("auto", "blas", "plan"):
        raise ArgumentError(f"set_threads: products is 'auto', 'blas' or 'plan': got {who!r}; take one of them")
    if who == "plan" and not _installed():
        raise MissingExtraError("set_threads: products='plan' needs threadpoolctl: pip install 'afx[threads]'")
    current.set(attrs.evolve(current.target, pins_blas=who != "blas" and _installed()))


def product(x: Any, y: Any, out: Any, axis: int, stops: tuple[int, ...]) -> None:
    """Compute ``x @ y`` into ``out`` in pieces along an axis that end at these rows or columns."""
    piece = _rows if axis == 0 else _columns
    run_blocks(piece, stops[-1], stops[0], [()] * len(stops), (x, y, out))


def _rows(_k: int, start: int, stop: int, _own: tuple[Any, ...], x: Any, y: Any, out: Any) -> None:
    np.matmul(x[start:stop], y, out=out[start:stop])


def _columns(_k: int, start: int, stop: int, _own: tuple[Any, ...], x: Any, y: Any, out: Any) -> None:
    np.matmul(x, y[:, start:stop], out=out[:, start:stop])


@functools.cache
def _installed() -> bool:
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
                control: Any = importlib.import_module("threadpoolctl").ThreadpoolController()
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
            release: Any = getattr(library, "clear_controlling_thread", _nothing)
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
    """An OpenBLAS whose own functions are called: a tenth of the time that threadpoolctl takes for their names."""

    __slots__ = ("get_num_threads", "set_num_threads")

    def __init__(self, get: Any, set_: Any) -> None:
        self.get_num_threads = get
        self.set_num_threads = set_


def _direct(library: Any) -> Any:
    """Return a library with its own functions, where it is an OpenBLAS whose threads belong to the process."""
    find = getattr(library, "_get_symbol", None)
    if getattr(library, "threading_layer", "") != "pthreads" or find is None:
        return library
    get, set_ = find("openblas_get_num_threads"), find("openblas_set_num_threads")
    return library if get is None or set_ is None else _Direct(get, set_)


def _nothing(force: bool) -> None:
    """Stand for what older releases of threadpoolctl do not need."""


blas: Blas = Blas()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=blas.forget)
