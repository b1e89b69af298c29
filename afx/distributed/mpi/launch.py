"""Launch: what the environment says about how this process was started."""

from __future__ import annotations

import os
from collections.abc import Mapping

from afx.errors import ArgumentError

__all__ = ["asked_ranks", "check_launch", "is_one_machine"]

# By launcher: Open MPI's mpiexec; PMI (MPICH, Intel MPI, srun --mpi=pmi2); a step of SLURM
RANK_COUNTS = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")
HERE_COUNT = "OMPI_COMM_WORLD_LOCAL_SIZE"


def asked_ranks(environment: Mapping[str, str] | None = None) -> int:
    """Return how many ranks the launcher started, as far as its variables tell; 1 where they do not."""
    env = os.environ if environment is None else environment
    for name in RANK_COUNTS:
        if (text := env.get(name, "")).isdigit():
            return int(text)
    text = env.get("PMIX_RANK", "")
    return int(text) + 1 if text.isdigit() else 1  # at least so many


def is_one_machine(environment: Mapping[str, str] | None = None) -> bool:
    """Tell whether all ranks run on this machine, as far as the launcher's variables tell."""
    env = os.environ if environment is None else environment
    here = env.get(HERE_COUNT)
    return env.get(RANK_COUNTS[0]) == here if here is not None else asked_ranks(env) == 1


def check_launch(seen: int, environment: Mapping[str, str] | None = None) -> None:
    """Refuse a job whose processes do not know each other: each of them would be rank 0.

    Args:
        seen: the ranks that MPI sees.
        environment: variables; this process's own by default.

    Raises:
        ArgumentError: the launcher started more ranks than MPI sees.
    """
    env = os.environ if environment is None else environment
    asked = asked_ranks(env)
    if seen > 1 or asked <= 1:
        return
    if "SLURM_STEP_NUM_TASKS" in env and "OMPI_COMM_WORLD_SIZE" not in env:
        raise ArgumentError(
            f"connect: srun started {asked} processes that do not know each other: got one rank in each, all of them rank 0; "
            'start by mpiexec -n "$SLURM_NTASKS" python -m mpi4py train.py inside of sbatch or salloc, or by '
            "srun --mpi=pmix where the cluster's PMIx and that of mpi4py's MPI fit"
        )
    raise ArgumentError(
        f"connect: the launcher started {asked} ranks or more and MPI sees {seen}: got an mpiexec of another MPI than "
        "mpi4py's; use the one that the extra distributed installs"
    )
