"""Lookups and lone reductions: single operations on large arrays, value only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.benchmarks.libraries import Job, compiled, namespace
from tests.benchmarks.workloads.workload import Workload

__all__ = ["WORKLOADS"]

SIDE, ROWS, COLUMNS, READ = 1000, 50_000, 64, 10_000


def _reduction(library: str, what: Callable[[Any, Any], Any]) -> Job:
    m = namespace(library)
    values = np.random.default_rng(0).normal(size=(SIDE, SIDE)).astype(np.float32)
    return compiled(library, lambda x: what(m, x), [values])


def _table(library: str, what: Callable[[Any, Any, Any, Any], Any]) -> Job:
    rng, m = np.random.default_rng(0), namespace(library)
    table = rng.normal(size=(ROWS, COLUMNS)).astype(np.float32)
    given = rng.normal(size=(READ, COLUMNS)).astype(np.float32)
    return compiled(library, lambda t, i, x: what(m, t, i, x), [table, rng.integers(0, ROWS, READ), given])


REDUCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    f"{name} of {SIDE} × {SIDE} along {along}": lambda m, x, name=name, axis=axis: getattr(m, name)(x, axis=axis)
    for name in ("sum", "max", "argmax", "cumsum")
    for axis, along in ((0, "columns"), (1, "rows"))
}
TABLES: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    f"{READ} rows of {COLUMNS} taken": lambda m, t, i, x: m.take(t, i, axis=0),
    f"{READ} rows of {COLUMNS} added at indices": lambda m, t, i, x: t.at[i].add(x),
}
WORKLOADS = [
    *[Workload(name, lambda lib, fn=fn: _reduction(lib, fn), ("afx", "jax")) for name, fn in REDUCTIONS.items()],
    *[Workload(name, lambda lib, fn=fn: _table(lib, fn), ("afx", "jax")) for name, fn in TABLES.items()],
]
