"""What ``import afx`` costs beside ``import numpy``, in processes of their own, in turn."""

import compileall
import resource
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
STATEMENTS = ("pass", "import numpy", "import numpy, attrs", "import afx")


def _seconds(statement: str) -> float:
    """Return the processor's time of a fresh interpreter, which other programs disturb less than the clock's."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", statement], check=True, cwd=ROOT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main(rounds: int = 25) -> None:
    """Print ratios of minima and of medians, each import taken above a bare interpreter's start."""
    compileall.compile_dir(ROOT / "afx", quiet=1)  # as an installed package is
    times: dict[str, list[float]] = {statement: [] for statement in STATEMENTS}
    for _ in range(rounds):
        for statement, found in times.items():
            found.append(_seconds(statement))
    ratios: dict[str, list[float]] = {statement: [] for statement in STATEMENTS[2:]}
    for pick in (min, statistics.median):
        bare, numpy = (pick(times[s]) for s in STATEMENTS[:2])
        for statement, found in ratios.items():
            found.append((pick(times[statement]) - bare) / (numpy - bare))
    print()
    for statement, (least, middle) in ratios.items():
        print(f"{statement}: {least:.2f} × import numpy (of medians {middle:.2f})")
