"""Waiting: tests with back-off, so that a rank that waits takes next to no processor time, and never for ever."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final

from afx.errors import PeerLost

__all__ = ["wait_until"]

SPIN_SECONDS: Final = 0.00003  # a message within one machine takes some microseconds
YIELD_SECONDS: Final = 0.001  # measured on two cores: most exchanges of a data-parallel step end within it
SLEEP_SHARE: Final = 0.1  # of the time waited so far: sleeping delays no answer by more than that share
LONGEST_SLEEP_SECONDS: Final = 0.002  # 0.5 % of a processor while nothing comes


_yield: Final = getattr(os, "sched_yield", lambda: None)


def wait_until(is_done: Callable[[], bool], deadline: float, what: str) -> None:
    """Call a test until it says yes: at once for a while, then after sleeps that grow.

    Args:
        is_done: a test that also makes progress, such as MPI's ``Testall``.
        deadline: how many seconds to wait at most.
        what: what is waited for, for the error.

    Raises:
        PeerLost: the deadline went by.
    """
    if is_done():
        return
    begin = time.monotonic()
    while not is_done():
        waited = time.monotonic() - begin
        if waited > deadline:
            raise PeerLost(
                f"{what}: no answer within the deadline: got {waited:.1f} s of waiting; look at the other ranks' output, "
                "or give connect() a longer deadline="
            )
        if waited > YIELD_SECONDS:
            time.sleep(min(SLEEP_SHARE * waited, LONGEST_SLEEP_SECONDS))
        elif waited > SPIN_SECONDS:
            _yield()  # to a rank that shares this processor
