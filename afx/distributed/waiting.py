"""Waiting: tests with back-off, so that a rank that waits takes next to no processor time, and never for ever."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final

__all__ = ["wait_until"]

SPIN_SECONDS: Final = 0.00003  # a message within one machine takes some microseconds
YIELD_SECONDS: Final = 0.001  # measured on two cores: most exchanges of a data-parallel step end within it
SLEEP_SHARE: Final = 0.1  # of the time waited so far: sleeping delays no answer by more than that share
LONGEST_SLEEP_SECONDS: Final = 0.002  # 0.5 % of a processor while nothing comes


_yield: Final = getattr(os, "sched_yield", lambda: None)


def wait_until(is_done: Callable[[], bool], look: Callable[[float], None]) -> None:
    """Call a test until it says yes: at once for a while, then after sleeps that grow.

    Args:
        is_done: a test that also makes progress, such as MPI's ``Testall``.
        look: called with the seconds waited so far before each sleep; it may raise.
    """
    if is_done():
        return
    begin = time.monotonic()
    while not is_done():
        waited = time.monotonic() - begin
        if waited > YIELD_SECONDS:
            look(waited)
            time.sleep(min(SLEEP_SHARE * waited, LONGEST_SLEEP_SECONDS))
        elif waited > SPIN_SECONDS:
            _yield()  # to a rank that shares this processor
