"""Slots of the demonstrations: shared by the ranks that mpiexec has started, or all in one process."""

from __future__ import annotations

import os

from afx import distributed
from afx.distributed import Machines

__all__ = ["connect"]


def connect(slots: int) -> Machines:
    """Return the slots, shared by the ranks that mpiexec has started, or all in this process."""
    is_job = any(name in os.environ for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"))
    return distributed.connect(slots) if is_job else distributed.local(slots)
