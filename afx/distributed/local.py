"""Local: all slots in one process, which defines the bits."""

from __future__ import annotations

from afx.distributed.link import LocalLink
from afx.distributed.machines import Machines
from afx.errors import ArgumentError

__all__ = ["local"]


def local(slots: int) -> Machines:
    """Return slots in this one process: no MPI is needed, and it defines the bits that any number of ranks gives.

    Raises:
        ArgumentError: fewer than one slot.

    >>> from afx import distributed
    >>> distributed.local(3)
    Machines(slots=3, rank=0, ranks=1)
    """
    if slots < 1:
        raise ArgumentError(f"local: at least one slot: got {slots}; give a positive number")
    return Machines(LocalLink(slots), slots)
