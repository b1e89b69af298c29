"""Operands for linear algebra."""

import numpy as np

from tests.ops.samples import Sample

RNG = np.random.default_rng(6)
A = RNG.normal(size=(2, 3, 3)) + 3 * np.eye(3)
S = (A + A.swapaxes(-1, -2)) / 2
P = A @ A.swapaxes(-1, -2)

SAMPLES: dict[str, list[Sample]] = {
    "solve": [Sample((A, RNG.normal(size=(2, 3, 2)))), Sample((A[0], RNG.normal(size=(2, 3, 1))))],
    "slogdet": [Sample((A,)), Sample((A[0],))],
    "det": [Sample((A,)), Sample((A[0],))],
}
