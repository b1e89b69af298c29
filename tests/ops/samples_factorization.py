"""Operands for factorisations: symmetric matrices, moved as such."""

import numpy as np

from tests.ops.samples import Sample

RNG = np.random.default_rng(6)
A = RNG.normal(size=(2, 3, 3))
POSITIVE = A @ A.swapaxes(-1, -2) + np.eye(3)
APART = POSITIVE + np.diag([0.0, 3.0, 9.0])  # no two eigenvalues near each other

SAMPLES: dict[str, list[Sample]] = {
    "cholesky": [Sample((POSITIVE,), symmetric=True), Sample((POSITIVE[0],), symmetric=True)],
    "eigh": [Sample((APART,), symmetric=True), Sample((APART[0],), symmetric=True)],
    "eigvalsh": [Sample((APART,), symmetric=True), Sample((APART[0],), symmetric=True)],
}
