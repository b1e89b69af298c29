"""How a process was started: jobs whose processes do not know each other are refused with the right line."""

import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from afx.distributed.mpi.connect import LAUNCHERS, asked_ranks, check_launch, is_one_machine
from afx.errors import ArgumentError
from afx.runtime.thread_pool import count_processors, quota_of
from tests.distributed.jobs import ROOT


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
        ({"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}, "such as torchrun started 2 .* RANK=1 and WORLD_SIZE=2"),
    ],
)
def test_separate_jobs_of_one_rank_are_refused(environment: dict[str, str], message: str) -> None:
    """Each would be rank 0, and all of them would write the same checkpoint."""
    with pytest.raises(ArgumentError, match=message):
        check_launch(1, environment)
    check_launch(4, environment)


@pytest.mark.parametrize(
    "environment",
    [{}, {"SLURM_NTASKS": "4", "SLURM_PROCID": "0"}, {"OMPI_COMM_WORLD_SIZE": "1"}, {"RANK": "0", "WORLD_SIZE": "1"}],
)
def test_one_process_is_fine(environment: dict[str, str]) -> None:
    """So is a script that sbatch runs without srun, in an allocation of many tasks."""
    assert asked_ranks(environment) == 1
    check_launch(1, environment)


ALONE = """
import sys
from afx import distributed
with distributed.connect(3) as machines:
    print(machines, "mpi4py.MPI" in sys.modules, machines.average(float, distributed.Split((1, 1, 2))))
"""


def run_alone(**variables: str) -> "subprocess.CompletedProcess[str]":
    """Run a script in a process that no launcher of MPI started."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
    words = [sys.executable, "-c", ALONE]
    return subprocess.run(words, env=kept | variables, cwd=ROOT, capture_output=True, text=True, check=False)


def test_one_process_begins_no_mpi() -> None:
    """`connect` gives all slots to the process, and Open MPI leaves no memory behind; processes of torchrun are refused."""
    assert run_alone().stdout == "Machines(slots=3, rank=0, ranks=1) False 1.25\n"
    refused = run_alone(RANK="0", WORLD_SIZE="2")
    assert "ArgumentError: connect: a launcher such as torchrun started 2 processes" in refused.stderr


def script_of_the_guide() -> str:
    """The guide's job script."""
    text = (ROOT / "examples" / "guides" / "jobs.md").read_text(encoding="utf-8")
    return next(block for block in text.split("```text\n") if block.startswith("#!/bin/sh")).split("```")[0]


@pytest.fixture
def cluster(tmp_path: Path) -> dict[str, str]:
    """Variables of an allocation of four tasks, with an mpiexec that tells its words and an srun of separate processes."""
    commands = {
        "mpiexec": 'printf "%s\\n" "$@"',
        "srun": 'for k in 0 1; do SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=$k PMIX_RANK=$k "$@" || status=$?; done; exit $status',
    }
    for name, body in commands.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "PMI", "SLURM"))}
    return kept | {"PATH": path, "SLURM_NTASKS": "4", "SLURM_CPUS_PER_TASK": "8", "PYTHONPATH": str(ROOT)}


@pytest.mark.skipif(shutil.which("sh") is None, reason="needs a shell")
def test_the_job_script_starts_a_rank_a_task_with_all_its_cores(tmp_path: Path, cluster: dict[str, str]) -> None:
    """Its shell reads it, its options say what its variables need, and mpiexec gets them."""
    script = tmp_path / "job.sh"
    script.write_text(script_of_the_guide(), encoding="utf-8")
    shell = shutil.which("bash") or "sh"
    subprocess.run([shell, "-n", str(script)], check=True)
    options = re.findall(r"--([a-z-]+)", "".join(re.findall(r"#SBATCH (.*)", script.read_text(encoding="utf-8"))))
    assert {"ntasks", "cpus-per-task", "requeue"} <= set(options)
    done = subprocess.run(["sh", str(script)], env=cluster, capture_output=True, text=True, check=True)
    expected = ["-n", "4", "--map-by", "ppr:1:node:PE=8", "python", "-m", "mpi4py", "train.py"]
    assert done.stdout.splitlines() == expected


@pytest.mark.skipif(shutil.which("sh") is None, reason="needs a shell")
def test_a_script_under_srun_is_refused(cluster: dict[str, str]) -> None:
    """Each process would be a job of its own; the line that works is in the error."""
    words = ["srun", sys.executable, "-c", "from afx.distributed.mpi import connect as launch; launch.check_launch(1)"]
    done = subprocess.run(words, env=cluster, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert 'start by mpiexec -n "$SLURM_NTASKS" python -m mpi4py train.py' in done.stderr, done.stderr


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
