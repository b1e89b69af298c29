"""Waiting: tests with back-off, so that a rank that waits takes next to no processor time, and never for ever."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from afx.errors import PeerLost

__all__ = ["wait_until"]

SPIN_SECONDS: Final = 0.001  # measured on two cores: most exchanges of a data-parallel step end within it
FIRST_SLEEP_SECONDS: Final = 0.00005
LONGEST_SLEEP_SECONDS: Final = 0.002  # 0.5 % of a processor while nothing comes


def wait_until(is_done: Callable[[], bool], deadline: float, what: str) -> None:
    """Call a test until it says yes: at once for a while, then after sleeps that grow.

    Args:
        is_done: a test that also makes progress, such as MPI's ``Testall``.
        deadline: how many seconds to wait at most.
        what: what is waited for, for the error.

    Raises:
        PeerLost: the deadline went by.
    """
    begin = time.monotonic()
    sleep = FIRST_SLEEP_SECONDS
    while not is_done():
        waited = time.monotonic() - begin
        if waited > deadline:
            raise PeerLost(
                f"{what}: no answer within the deadline: got {waited:.1f} s of waiting; look at the other ranks' output, "
                "or give connect() a longer deadline="
            )
        if waited > SPIN_SECONDS:
            time.sleep(sleep)
            sleep = min(2 * sleep, LONGEST_SLEEP_SECONDS)
