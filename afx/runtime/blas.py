"""Large products of matrices, and whose threads compute them.

BLAS libraries keep threads of their own, which spin while they wait: on an idle machine that is fastest, beside other
busy threads products become many times slower. Where threadpoolctl is installed, plans can hold BLAS to one thread
while they run; it is set back at the end of each call, so that the caller's own NumPy stays as it was.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import math
import os
import threading
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from afx.core.aval import Aval
from afx.core.graph import Equation
from afx.errors import ArgumentError, MissingExtraError
from afx.runtime.thread_pool import get_threads, run_blocks

__all__ = ["blas", "heavy", "product", "set_products", "shared_out"]

Who: TypeAlias = Literal["auto", "blas", "plan"]

THREADED = 1 << 15  # multiplications from which on BLAS uses more than one thread
LARGE = 1 << 22  # multiplications from which on a product is shared out
PARTS = 2
WHOLE = 16  # rows or columns that BLAS computes together


def shared_out(x: Aval, y: Aval, out: Aval) -> bool:
    """Tell whether a product is worth sharing out: of two matrices of real floats, with rows or columns enough."""
    plain = x.ndim == y.ndim == 2 and x.dtype == y.dtype == out.dtype and out.dtype.char in "fd"
    return plain and max(out.shape) >= PARTS * WHOLE and out.size * x.shape[1] >= LARGE


def set_products(who: Who) -> None:
    """Set whose threads compute the large products of plans made from now on.

    Args:
        who: ``"auto"``: BLAS's threads or one thread, whichever has lately been faster for the plan (BLAS's threads,
            where threadpoolctl is not installed); ``"blas"``: BLAS's threads; ``"plan"``: the plan's own threads, each
            with its share of the rows or columns.

    Raises:
        ArgumentError: another word.
        MissingExtraError: threadpoolctl, which ``"plan"`` needs, is not installed.
    """
    if who not in ("auto", "blas", "plan"):
        raise ArgumentError(f"set_threads: products is 'auto', 'blas' or 'plan': got {who!r}; take one of them")
    if who == "plan" and not _installed():
        raise MissingExtraError("set_threads: products='plan' needs threadpoolctl: pip install 'afx[threads]'")
    blas.who = who


def heavy(eq: Equation) -> bool:
    """Tell whether BLAS would call its threads for an equation."""
    p = eq.primitive
    if p.is_elementwise or p.kind != "bilinear":
        return False
    x, y, out = eq.inputs[0].aval, eq.inputs[1].aval, eq.outputs[0].aval
    return math.sqrt(x.size * y.size * out.size) >= THREADED  # m·k, k·n and m·n: their product's root is m·k·n


def product(x: Any, y: Any, out: Any) -> None:
    """Compute ``x @ y`` into ``out``, its longer side in as many parts whatever the number of threads."""
    rows, columns = out.shape
    if rows >= columns:
        run_blocks(_rows, rows, _half(rows), [()] * PARTS, (x, y, out))
    else:
        run_blocks(_columns, columns, _half(columns), [()] * PARTS, (x, y, out))


def _half(size: int) -> int:
    return -(-size // (PARTS * WHOLE)) * WHOLE


def _rows(_k: int, start: int, stop: int, _own: tuple[Any, ...], x: Any, y: Any, out: Any) -> None:
    np.matmul(x[start:stop], y, out=out[start:stop])


def _columns(_k: int, start: int, stop: int, _own: tuple[Any, ...], x: Any, y: Any, out: Any) -> None:
    np.matmul(x, y[:, start:stop], out=out[:, start:stop])


@functools.cache
def _installed() -> bool:
    return importlib.util.find_spec("threadpoolctl") is not None


class Blas:
    """The process's BLAS libraries, held to one thread while plans run.

    Attributes:
        who: whose threads compute the products of new plans.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._before: list[int] = []
        self._libraries: list[Any] | None = None
        self.who: Who = "auto"

    def sharing(self) -> bool:
        """Tell whether new plans share out products among their own threads."""
        return self.who == "plan" and get_threads() > 1 and bool(self._found())

    def choosing(self) -> bool:
        """Tell whether new plans find out by themselves whether BLAS's threads help."""
        if self._libraries is not None:
            return self.who == "auto" and bool(self._libraries)
        return self.who == "auto" and _installed()  # loaded when first held

    def _found(self) -> list[Any]:
        if self._libraries is None:
            try:
                control: Any = importlib.import_module("threadpoolctl").ThreadpoolController()
            except ImportError:
                self._libraries = []
            else:
                self._libraries = list(control.select(user_api="blas").lib_controllers)
        return self._libraries

    def __enter__(self) -> None:
        with self._lock:
            if not self._depth:
                before = [library.get_num_threads() for library in self._found()]
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
        for library, count in zip(self._found(), counts, strict=True):
            release: Any = getattr(library, "clear_controlling_thread", _nothing)
            release(force=True)
            library.set_num_threads(count)
            release(force=True)

    def forget(self) -> None:
        """Begin anew in a forked child, which has none of the threads that held BLAS."""
        self._lock = threading.Lock()
        if self._depth:
            self._depth = 0
            self._set(self._before)


def _nothing(force: bool) -> None:
    """Stand for what older releases of threadpoolctl do not need."""


blas = Blas()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=blas.forget)
