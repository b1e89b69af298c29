"""Large products of matrices on the plan's own threads.

BLAS libraries keep threads of their own, which spin while they wait: on an idle machine that is fastest, beside other
busy threads products become many times slower. After ``set_products("plan")`` plans hold BLAS to one thread while they
run (by threadpoolctl) and share out the rows of large products among their own workers; the number of BLAS threads is
set back at the end of each call. Plans made before keep their way.
"""

from __future__ import annotations

import importlib
import importlib.util
import threading
from typing import Any, Literal

import numpy as np

from afx.core.aval import Aval
from afx.errors import ArgumentError, MissingExtraError
from afx.runtime.workers import get_threads, run_blocks

__all__ = ["blas", "product", "set_products", "shared_out"]

LARGE = 1 << 22  # multiplications from which on a product is shared out
PARTS = 2


def shared_out(x: Aval, y: Aval, out: Aval) -> bool:
    """Tell whether a product is worth sharing out: of two matrices of real floats, with rows enough."""
    plain = x.ndim == y.ndim == 2 and x.dtype == y.dtype == out.dtype and out.dtype.char in "fd"
    return plain and out.shape[0] >= 16 and out.size * x.shape[1] >= LARGE


def set_products(who: Literal["blas", "plan"]) -> None:
    """Set whose threads compute the large products of plans made from now on: BLAS's, the default, or the plan's.

    Raises:
        ArgumentError: another word.
        MissingExtraError: threadpoolctl, which holds BLAS to one thread, is not installed.
    """
    if who not in ("blas", "plan"):
        raise ArgumentError(f"set_products: who computes them is 'blas' or 'plan': got {who!r}")
    if who == "plan" and importlib.util.find_spec("threadpoolctl") is None:
        raise MissingExtraError("set_products: 'plan' needs threadpoolctl: pip install threadpoolctl")
    blas.held = who == "plan"


def product(x: Any, y: Any, out: Any) -> None:
    """Compute ``x @ y`` into ``out``, its rows in as many parts whatever the number of threads."""
    rows = out.shape[0]
    run_blocks(_rows, rows, -(-rows // PARTS), [()] * PARTS, (x, y, out))


def _rows(_k: int, start: int, stop: int, _own: tuple[Any, ...], x: Any, y: Any, out: Any) -> None:
    np.matmul(x[start:stop], y, out=out[start:stop])


class Blas:
    """The process's BLAS libraries, held to one thread while plans run.

    Attributes:
        held: whether plans are to do so.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._before: list[int] = []
        self._libraries: list[Any] | None = None
        self.held = False

    def available(self) -> bool:
        """Tell whether plans are to hold BLAS to one thread, and can."""
        return self.held and get_threads() > 1 and bool(self._found())

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
            self._depth += 1
            if self._depth == 1:
                self._before = [library.get_num_threads() for library in self._found()]
                for library in self._found():
                    library.set_num_threads(1)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                for library, count in zip(self._found(), self._before, strict=True):
                    library.set_num_threads(count)


blas = Blas()
