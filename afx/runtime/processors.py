"""Processors: how many this process may use, by its affinity and by the quota of its control group."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Final

__all__ = ["allowed_processors", "count_processors", "machine_processors", "quota_of"]

GROUPS: Final = Path("/proc/self/cgroup")
ROOT: Final = Path("/sys/fs/cgroup")


def allowed_processors() -> list[int]:
    """Return the numbers of the processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def machine_processors() -> int:
    """Return how many processors the machine has."""
    return os.cpu_count() or 1


def count_processors(groups: Path = GROUPS, root: Path = ROOT) -> int:
    """Return how many threads can run at a time: a container's quota counts as well as the affinity.

    Args:
        groups: the file that names this process's control groups.
        root: where control groups are mounted.
    """
    quota = quota_of(groups, root)
    allowed = len(allowed_processors())
    return max(1, min(allowed, math.ceil(quota) if math.isfinite(quota) else allowed))


def quota_of(groups: Path, root: Path) -> float:
    """Return the processors that the control groups around this process allow; infinity without a quota.

    Version 2 writes ``cpu.max`` ("200000 100000": two), version 1 ``cpu.cfs_quota_us`` and ``cpu.cfs_period_us``; a quota
    of any group above holds as well (Linux, Documentation/admin-guide/cgroup-v2.rst).
    """
    try:
        lines = groups.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return math.inf
    found = math.inf
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        base = root / "cpu" if controllers else root
        here = base / path.lstrip("/")
        for folder in [here, *here.parents]:
            found = min(found, _read_quota(folder))
            if folder == base:
                break
    return found


def _read_quota(folder: Path) -> float:
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text(encoding="ascii").split()
        else:
            quota = (folder / "cpu.cfs_quota_us").read_text(encoding="ascii").strip()
            period = (folder / "cpu.cfs_period_us").read_text(encoding="ascii").strip()
        return int(quota) / int(period) if quota not in ("max", "-1") else math.inf
    except (OSError, ValueError):
        return math.inf
