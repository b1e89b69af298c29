"""Compiled functions beside the peers': whole processes in turn, so that no pools of threads meet."""

from __future__ import annotations

import compileall
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import attrs
import numpy as np

import afx
from tests.benchmarks.c_library import C, c_version
from tests.benchmarks.libraries import NATIVE
from tests.benchmarks.workloads import WORKLOADS, Workload

__all__ = ["Choice", "main"]

PATIENCE = 900.0  # seconds for one process
ROOT = Path(__file__).resolve().parents[2]
FORCED = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")  # BLAS detects the processor itself
NAME, WIDE, NARROW = 47, 11, 10  # characters of the table's columns

Found = dict[str, Any]


@attrs.frozen
class Choice:
    """What to run.

    Attributes:
        only: workloads whose name holds one of these; all where it is empty.
        libraries: afx and the peers beside it.
        rounds: how often each library's process is run, in turn.
        seconds: how long a process measures the steady time.
        products: whose threads compute afx's large products: its default, those of blas or of the plan.
        workloads: what is chosen from.
        has_fixed_parameters: whether training steps leave the parameters where they are.
    """

    only: tuple[str, ...]
    libraries: tuple[str, ...]
    rounds: int
    seconds: float
    products: str
    workloads: Mapping[str, Workload] = WORKLOADS
    has_fixed_parameters: bool = False

    def works(self) -> Iterator[Workload]:
        """Yield the chosen workloads."""
        for work in self.workloads.values():
            if not self.only or any(part.lower() in work.name.lower() for part in self.only):
                yield work


@attrs.define
class Row:
    """What was found for a workload: each library's rounds, and why some have none."""

    work: Workload
    rounds: dict[str, list[Found]]
    faults: dict[str, str]

    def median(self, library: str, what: str) -> float:
        """Return the median over the rounds, nan where there is none."""
        found = [r[what] for r in self.rounds.get(library, [])]
        return statistics.median(found) if found else math.nan

    def ratio(self, peer: str, what: str = "steady", mine: str = "afx") -> float:
        """Return how many times longer a peer takes: the median of the rounds' ratios."""
        pairs = zip(self.rounds.get(peer, []), self.rounds.get(mine, []), strict=False)
        found = [theirs[what] / ours[what] for theirs, ours in pairs]
        return statistics.median(found) if found else math.nan


def _apart(library: str, name: str, choice: Choice) -> Found:
    """Measure in a process of its own."""
    environment = {k: v for k, v in os.environ.items() if k not in FORCED}
    command = [sys.executable, "-m", "tests.benchmarks.child", library, name, str(choice.seconds), choice.products]
    command += ["fixed"] * choice.has_fixed_parameters
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"ended with {done.returncode}"]
        raise RuntimeError(lines[-1])
    found: Found = json.loads(done.stdout.splitlines()[-1])
    return found


def disagreement(mine: Found, theirs: Found, tolerance: float) -> str:
    """Tell where the numbers of two libraries lie apart, as a fraction of an array's largest one; empty if nowhere."""
    for call in mine["numbers"].keys() & theirs["numbers"].keys():
        ours, others = mine["numbers"][call], theirs["numbers"][call]
        if list(map(len, ours)) != list(map(len, others)):
            return f"{call} call: arrays of other sizes"
        for number, (x, y) in enumerate(zip(ours, others, strict=True)):
            largest = max(np.max(np.abs(x), initial=0.0), 1e-30)
            gap = np.max(np.abs(np.subtract(x, y)), initial=0.0) / largest
            if not gap <= tolerance:
                return f"{call} call: array {number} lies {gap:.1e} apart"
    return ""


def _measured(work: Workload, choice: Choice) -> Row:
    """Run the libraries in turn; one that fails or disagrees is not run again."""
    row = Row(work, {}, {})
    for _ in range(choice.rounds):
        for library in choice.libraries:
            known = "afx" if library == NATIVE else library
            if known not in work.libraries or library in row.faults:
                continue
            try:
                found = _apart(library, work.name, choice)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                row.faults[library] = str(error)
                row.rounds.pop(library, None)
                continue
            row.rounds.setdefault(library, []).append(found)
    for library, rounds in list(row.rounds.items()):
        apart = disagreement(row.rounds["afx"][0], rounds[0], work.tolerance) if "afx" in row.rounds else ""
        if apart:
            row.faults[library] = f"disagrees with afx: {apart}"
            del row.rounds[library]
    return row


def duration(seconds: float) -> str:
    """Write seconds in the unit that suits them.

    >>> duration(0.0123)
    '12.3 ms'
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return "-" if math.isnan(seconds) else f"{seconds / 1e-6:.2f} µs"


def _times(ratio: float) -> str:
    return "-" if math.isnan(ratio) else f"{ratio:.0f}×" if ratio >= 100 else f"{ratio:.2f}×"


def _head(libraries: tuple[str, ...]) -> None:
    versions = ", ".join([f"{name} {version(name)}" for name in ("numpy", *libraries[1:]) if name not in (NATIVE, C)])
    if C in libraries:
        versions += f", {c_version()}"
    print(f"\nCompiled functions: afx {afx.__version__} beside {versions}; {os.cpu_count()} processors")
    print("How many times longer each peer takes, steadily and for the first call; MB: peak memory above the imports")
    cells = [f"{title:>{WIDE}}" for title in ("afx steady", "afx first")]
    peers = "".join(f"{p:>{NARROW}}" for p in libraries[1:])
    print(f"{'':{NAME}}{cells[0]}{peers}{cells[1]}{peers}   MB {' / '.join(libraries)}")


def _print(row: Row, libraries: tuple[str, ...]) -> None:
    cells: list[str] = []
    for what in ("steady", "first"):
        cells.append(f"{duration(row.median('afx', what)):>{WIDE}}")
        cells += [f"{_times(row.ratio(p, what)):>{NARROW}}" for p in libraries[1:]]
    memory = [row.median(p, "memory") for p in libraries]
    cells.append("   " + " / ".join(["-" if math.isnan(m) else f"{m:.0f}" for m in memory]))
    print(f"{row.work.name:{NAME}}" + "".join(cells), flush=True)
    for library, fault in row.faults.items():
        print(f"    {library}: {fault}", flush=True)


def _means(rows: list[Row], peers: tuple[str, ...]) -> None:
    for mine in ("afx", *[p for p in peers if p == NATIVE]):
        for peer in peers:
            found = [r for r in (row.ratio(peer, mine=mine) for row in rows) if not math.isnan(r)]
            if found and peer != mine:
                behind = sum(r < 1 for r in found)
                print(
                    f"{peer}: geometric mean {statistics.geometric_mean(found):.2f}× over {len(found)} workloads, "
                    f"faster than {mine} on {behind}"
                )


def main(choice: Choice, record: Path | None = None) -> bool:
    """Print the table as it grows, and return whether everything ran and agreed."""
    compileall.compile_dir(ROOT / "afx", quiet=1)  # as an installed package is
    rows: list[Row] = []
    _head(choice.libraries)
    for work in choice.works():
        rows.append(_measured(work, choice))
        _print(rows[-1], choice.libraries)
    _means(rows, choice.libraries[1:])
    known = {r["blas"] for row in rows for r in row.rounds.get("afx", [])}
    print(f"BLAS of NumPy: {'; '.join(sorted(known))}")
    if record is not None:
        bare = {row.work.name: {p: [_bare(r) for r in found] for p, found in row.rounds.items()} for row in rows}
        record.write_text(json.dumps(bare, indent=1))
    return not any(row.faults for row in rows)


def _bare(found: Found) -> Found:
    return {k: v for k, v in found.items() if k != "numbers"}
