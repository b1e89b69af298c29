"""Threads: one call for all that compiled functions use."""

from __future__ import annotations

import operator
from typing import Literal, TypeAlias

import attrs

from afx.compiler.target import current
from afx.errors import ArgumentError, MissingExtraError
from afx.runtime import thread_pool as workers
from afx.runtime.blas import is_installed
from afx.runtime.thread_pool import get_threads


def set_threads(count: int | None = None, *, products: Who | None = None) -> None:
    """Set how many threads compiled functions use, and who computes their large products of matrices.

    Without a call to it, there are as many threads as processors that the process may use, and products are ``"auto"``.
    Threads do not always help: on small arrays, and beside other busy programs, they wait for each other. So a compiled
    function that could use them times its calls, and takes the faster way. No bit of a result depends on that. BLAS is
    set back at the end of each call: NumPy outside of compiled functions is not touched.

    Args:
        count: threads, the caller's own among them; 1 for no others. None leaves it as it is. Functions compiled while
            there were fewer keep to those: set it before.
        products: of functions compiled from now on: ``"auto"`` and ``"plan"``: large products are cut into pieces by
            their shapes alone, each computed by one BLAS thread, pieces by afx's threads; ``"blas"``: BLAS's own threads,
            whose number then decides about last digits. None leaves it as it is. ``"plan"``, and ``"auto"`` to have an
            effect, need threadpoolctl (the extra ``threads``); else it is as ``"blas"``.

    Raises:
        ArgumentError: not a number of threads, or another word.
        MissingExtraError: ``"plan"`` without threadpoolctl.

    >>> before = get_threads()
    >>> set_threads(1)
    >>> get_threads()
    1
    >>> set_threads(before)
    """
    if count is not None:
        try:
            number = operator.index(count)
        except TypeError:
            number = 0
        if number < 1:
            raise ArgumentError(
                f"set_threads: needs a number of threads, 1 or more: got {count!r}; give 1 for none beside the caller's"
            )
    else:
        number = get_threads()
    if products is not None:
        set_products(products)
    workers.set_threads(number)


Who: TypeAlias = Literal["auto", "blas", "plan"]


def set_products(who: Who) -> None:
    """Set whose threads compute the large products of plans made from now on, as `set_threads` has it."""
    if who not in ("auto", "blas", "plan"):
        raise ArgumentError(f"set_threads: products is 'auto', 'blas' or 'plan': got {who!r}; take one of them")
    if who == "plan" and not is_installed():
        raise MissingExtraError("set_threads: products='plan' needs threadpoolctl: pip install 'afx[threads]'")
    current.set(attrs.evolve(current.target, pins_blas=who != "blas" and is_installed()))
