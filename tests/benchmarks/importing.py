"""What ``import afx`` costs beside ``import numpy``, in processes of their own, in turn."""

import compileall
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def _seconds(module: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
    return time.perf_counter() - start


def main(rounds: int = 15) -> None:
    """Print the median ratio, each import taken above a bare interpreter's start."""
    compileall.compile_dir(ROOT / "afx", quiet=1)  # as an installed package is
    ratios: list[float] = []
    for _ in range(rounds):
        bare = statistics.median([_seconds("sys") for _ in range(2)])
        numpy = _seconds("numpy") - bare
        ratios.append((_seconds("afx") - bare) / numpy)
    print(f"\nimport afx takes {statistics.median(ratios):.2f} × import numpy")
