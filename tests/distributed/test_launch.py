"""How a process was started: jobs whose processes do not know each other are refused with the right line."""

import math
from pathlib import Path

import pytest

from afx.distributed.mpi.launch import asked_ranks, check_launch, is_one_machine
from afx.errors import ArgumentError
from afx.runtime.processors import count_processors, quota_of


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (
            {"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "0"},
            r'srun started 4 .* mpiexec -n "\$SLURM_NTASKS" python -m mpi4py',
        ),
        ({"PMIX_RANK": "2"}, "started 3 ranks or more and MPI sees 1"),
        ({"PMI_SIZE": "2", "PMI_RANK": "0"}, "an mpiexec of another MPI"),
        ({"OMPI_COMM_WORLD_SIZE": "2"}, "an mpiexec of another MPI"),
    ],
)
def test_separate_jobs_of_one_rank_are_refused(environment: dict[str, str], message: str) -> None:
    """Each would be rank 0, and all of them would write the same checkpoint."""
    with pytest.raises(ArgumentError, match=message):
        check_launch(1, environment)
    check_launch(4, environment)


@pytest.mark.parametrize("environment", [{}, {"SLURM_NTASKS": "4", "SLURM_PROCID": "0"}, {"OMPI_COMM_WORLD_SIZE": "1"}])
def test_one_process_is_fine(environment: dict[str, str]) -> None:
    """So is a script that sbatch runs without srun, in an allocation of many tasks."""
    assert asked_ranks(environment) == 1
    check_launch(1, environment)


def test_one_machine_is_recognized() -> None:
    """Where all ranks are here they talk through memory."""
    assert is_one_machine({"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"})
    assert not is_one_machine({"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"})
    assert is_one_machine({})
    assert not is_one_machine({"PMI_SIZE": "2"})


def test_a_quota_counts_as_processors(tmp_path: Path) -> None:
    """The least of all groups around the process, of both versions, rounded up."""
    groups = tmp_path / "cgroup"
    groups.write_text("0::/pod/main\n")
    inner = tmp_path / "root" / "pod" / "main"
    inner.mkdir(parents=True)
    assert quota_of(groups, tmp_path / "root") == math.inf
    (inner / "cpu.max").write_text("max 100000\n")
    assert quota_of(groups, tmp_path / "root") == math.inf
    (inner.parent / "cpu.max").write_text("150000 100000\n")
    assert quota_of(groups, tmp_path / "root") == 1.5
    (inner / "cpu.max").write_text("50000 100000\n")
    assert quota_of(groups, tmp_path / "root") == 0.5
    assert count_processors(groups, tmp_path / "root") == 1
    groups.write_text("3:cpu,cpuacct:/old\n2:memory:/old\n")
    old = tmp_path / "root" / "cpu" / "old"
    old.mkdir(parents=True)
    (old / "cpu.cfs_quota_us").write_text("200000\n")
    (old / "cpu.cfs_period_us").write_text("100000\n")
    assert quota_of(groups, tmp_path / "root") == 2.0
    assert quota_of(tmp_path / "none", tmp_path) == math.inf
