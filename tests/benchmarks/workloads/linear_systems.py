"""Sparse and banded systems: Thomas's method for tridiagonal matrices by scans, and products with a sparse matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.benchmarks.libraries import Job, compiled, namespace, scan_of
from tests.benchmarks.workloads.workload import Workload

__all__ = ["WORKLOADS"]

UNKNOWNS, SYSTEMS = 1000, 16
ROWS, ENTRIES, ROUNDS = 2000, 20_000, 20


def _tridiagonal(library: str) -> Job:
    """Solve systems with one matrix row a step: forward elimination, then substitution from the last row."""
    m, scan = namespace(library), scan_of(library)

    def fn(lower: Any, diagonal: Any, upper: Any, right: Any) -> Any:
        def eliminate(now: Any, row: Any) -> Any:
            ratio, value = now
            a, b, c, r = row
            scale = 1 / (b - a * ratio)
            found = (c * scale, (r - a * value) * scale)
            return found, found

        def substitute(x: Any, row: Any) -> Any:
            x = row[1] - row[0] * x
            return x, x

        zero = m.zeros_like(right[0])
        rows = scan(eliminate, (zero, zero), (lower, diagonal, upper, right))[1]
        return scan(substitute, zero, rows, reverse=True)[1]

    rng = np.random.default_rng(0)
    lower, upper, right = (rng.normal(size=(UNKNOWNS, SYSTEMS)) for _ in range(3))
    return compiled(library, fn, [lower, 4.0 + np.abs(lower) + np.abs(upper), upper, right])


def _sparse_product(library: str) -> Job:
    """Multiply by a matrix given as its entries' rows, columns and values, again and again."""
    m, scan = namespace(library), scan_of(library)

    def fn(values: Any, rows: Any, columns: Any, x: Any) -> Any:
        def step(x: Any, _: Any) -> Any:
            z = m.zeros_like(x).at[rows].add(values * x[columns])
            return z / m.sqrt(m.sum(z * z)), None

        return scan(step, x, None, ROUNDS)[0]

    rng = np.random.default_rng(0)
    rows = np.sort(rng.integers(0, ROWS, ENTRIES)).astype(np.int32)
    columns = rng.integers(0, ROWS, ENTRIES).astype(np.int32)
    values = rng.normal(size=ENTRIES).astype(np.float32)
    return compiled(library, fn, [values, rows, columns, rng.normal(size=ROWS).astype(np.float32)])


WORKLOADS = [
    Workload(f"{SYSTEMS} tridiagonal systems of {UNKNOWNS}, by scan", _tridiagonal, ("afx", "jax")),
    Workload(f"sparse product, {ENTRIES} entries, {ROUNDS} times", _sparse_product, ("afx", "jax"), tolerance=1e-2),
]
