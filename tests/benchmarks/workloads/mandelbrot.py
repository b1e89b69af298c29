"""Mandelbrot's set: a while loop until all points of a grid have escaped or the steps are used up."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.benchmarks.libraries import Job, compiled, namespace
from tests.benchmarks.workloads.workload import Workload

__all__ = ["WORKLOADS"]

SIZE, STEPS = 64, 200


def _while_loop(library: str) -> Any:
    if library == "afx":
        return namespace(library).while_loop
    import jax

    return jax.lax.while_loop


def _make(library: str) -> Job:
    m, while_loop = namespace(library), _while_loop(library)

    def fn(a: Any, b: Any) -> Any:
        def goes_on(now: Any) -> Any:
            step, _, _, count = now
            return (step < STEPS) & m.any(count == step)

        def advance(now: Any) -> Any:
            step, x, y, count = now
            inside = x * x + y * y < 4.0
            x, y = m.where(inside, x * x - y * y + a, x), m.where(inside, 2.0 * x * y + b, y)
            return step + 1, x, y, count + inside

        zero = m.zeros_like(a)
        return while_loop(goes_on, advance, (m.asarray(0), zero, zero, m.zeros_like(a, dtype="int32")))[3]

    a, b = np.meshgrid(np.linspace(-2.0, 0.5, SIZE), np.linspace(-1.25, 1.25, SIZE))
    return compiled(library, fn, [a, b])


WORKLOADS = [Workload(f"Mandelbrot's set, {SIZE} × {SIZE}, {STEPS} steps of a while loop", _make, ("afx", "jax"))]
