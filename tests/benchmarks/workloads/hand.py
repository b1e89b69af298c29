"""Hand tracking (ADBench's HAND): a posed mesh of which few vertices are compared with what was seen."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.benchmarks.libraries import Job, namespace, value_and_grad
from tests.benchmarks.workloads.workload import Workload

__all__ = ["WORKLOADS"]

BONES, VERTICES, SEEN = 22, 10_000, 800


def _turns(m: Any, angles: Any) -> Any:
    """Return a transform for each bone, the first three rows: turned about three axes, one after another."""
    a, b, c = angles[:, 0], angles[:, 1], angles[:, 2]
    (ca, cb, cc), (sa, sb, sc) = (m.cos(a), m.cos(b), m.cos(c)), (m.sin(a), m.sin(b), m.sin(c))
    rows = (
        (cc * cb, cc * sb * sa - sc * ca, cc * sb * ca + sc * sa, 0.1 * a),
        (sc * cb, sc * sb * sa + cc * ca, sc * sb * ca - cc * sa, 0.1 * b),
        (-sb, cb * sa, cb * ca, 0.1 * c),
    )
    return m.stack([m.stack(row, axis=-1) for row in rows], axis=1)


def _make(library: str) -> Job:
    """Return the squared distances of posed vertices (linear blend skinning) to points, by the angles of the bones."""
    rng, m = np.random.default_rng(0), namespace(library)

    def loss(p: Any, base: Any, weights: Any, rest: Any, which: Any, points: Any) -> Any:
        posed = _turns(m, p[0]) @ rest @ base
        apart = m.sum(posed * weights[:, None, :], axis=0)[:, which] - points
        return m.sum(apart * apart)

    base = np.concatenate([rng.normal(size=(3, VERTICES)), np.ones((1, VERTICES))])
    weights = rng.dirichlet(np.ones(BONES), VERTICES).T.copy()
    rest = np.eye(4) + 0.1 * rng.normal(size=(BONES, 4, 4))
    which, points = rng.integers(0, VERTICES, SEEN), rng.normal(size=(3, SEEN))
    return value_and_grad(library, loss, [rng.normal(size=(BONES, 3)) * 0.3], [base, weights, rest, which, points])


WORKLOADS = [Workload(f"hand tracking, {SEEN} of {VERTICES} vertices", _make, ("afx", "jax"))]
