"""Local: all slots in one process, which defines the bits."""

from __future__ import annotations

from afx.distributed.link import LocalLink
from afx.distributed.machines import Machines
from afx.transforms._arguments import whole_number

__all__ = ["local"]


def local(slots: int) -> Machines:
    """Return slots in this one process: no MPI is needed, and it defines the bits that any number of ranks gives.

    Raises:
        ArgumentError: fewer than one slot.

    >>> from afx import distributed
    >>> distributed.local(3)
    Machines(slots=3, rank=0, ranks=1)
    """
    count = whole_number("slots", slots, "local")
    return Machines(LocalLink(count), count)
