"""Bundle adjustment (ADBench's): errors of points seen by cameras, and their Jacobian's blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.benchmarks.libraries import Job, compiled, namespace, transforms
from tests.benchmarks.workloads.workload import Workload

__all__ = ["WORKLOADS"]

CAMERAS, POINTS, SEEN = 49, 7776, 31_843


def _errors(m: Any, camera: Any, point: Any, weight: Any, seen: Any) -> Any:
    """Return by how much a camera's image of a point lies beside what was seen; all axes but the last are batches.

    A camera has three numbers of rotation, three of its centre, focal length, two of its principal point, two of distortion.
    """
    turn = camera[..., :3]
    square = m.sum(turn * turn, axis=-1, keepdims=True)
    angle = m.sqrt(square)
    axis, x = turn / angle, point - camera[..., 3:6]
    cosine, sine = m.cos(angle), m.sin(angle)
    along = m.sum(axis * x, axis=-1, keepdims=True) * (1.0 - cosine)
    x = x * cosine + m.cross(axis, x) * sine + axis * along
    flat = x[..., :2] / x[..., 2:]
    radius = m.sum(flat * flat, axis=-1, keepdims=True)
    bent = flat * (1.0 + camera[..., 9:10] * radius + camera[..., 10:] * radius * radius)
    return weight[..., None] * (bent * camera[..., 6:7] + camera[..., 7:9] - seen)


def _data() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    cameras = rng.normal(size=(CAMERAS, 11)) * 0.1
    cameras[:, 5] -= 5.0
    weights, seen = rng.uniform(0.5, 1.5, SEEN), rng.normal(size=(SEEN, 2))
    which = [rng.integers(0, CAMERAS, SEEN), rng.integers(0, POINTS, SEEN)]
    return [cameras, rng.normal(size=(POINTS, 3)), weights, seen, *which]


def _residual(library: str) -> Job:
    m = namespace(library)
    return compiled(library, lambda c, p, w, s, i, j: _errors(m, c[i], p[j], w, s), _data())


def _jacobian(library: str) -> Job:
    """Return the blocks of the sparse Jacobian, two rows an error."""
    m, t = namespace(library), transforms(library)
    blocks = t.vmap(t.jacrev(lambda c, p, w, s: _errors(m, c, p, w, s), argnums=(0, 1, 2)))
    return compiled(library, lambda c, p, w, s, i, j: blocks(c[i], p[j], w, s), _data())


WORKLOADS = [
    Workload(f"bundle adjustment, {SEEN} errors{what}", make, ("afx", "jax"))
    for what, make in (("", _residual), (" with their Jacobian", _jacobian))
]
