"""What ``import afx`` costs beside ``import numpy``, in processes of their own, in turn."""

import statistics
import subprocess
import sys
import time


def _seconds(module: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
    return time.perf_counter() - start


def main(rounds: int = 15) -> None:
    """Print the median ratio, each import taken above a bare interpreter's start."""
    ratios: list[float] = []
    for _ in range(rounds):
        bare = statistics.median([_seconds("sys") for _ in range(2)])
        numpy = _seconds("numpy") - bare
        ratios.append((_seconds("afx") - bare) / numpy)
    print(f"\nimport afx takes {statistics.median(ratios):.2f} × import numpy")
