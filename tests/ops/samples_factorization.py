"""Operands for factorisations: symmetric matrices, moved as such."""

import numpy as np

from afx.ops.linalg.matrix_functions import Exponential, Logarithm, Power, Sampled
from tests.ops.samples import Sample


def sine(order: int, x: np.ndarray) -> np.ndarray:
    """Return a derivative of the sine."""
    return np.sin(x + order * np.pi / 2)


RNG = np.random.default_rng(6)
A = RNG.normal(size=(2, 3, 3))
POSITIVE = A @ A.swapaxes(-1, -2) + np.eye(3)
APART = POSITIVE + np.diag([0.0, 3.0, 9.0])  # no two eigenvalues near each other

SAMPLES: dict[str, list[Sample]] = {
    "cholesky": [Sample((POSITIVE,), symmetric=True), Sample((POSITIVE[0],), symmetric=True)],
    "cholesky_or_nan": [Sample((POSITIVE,), symmetric=True), Sample((POSITIVE[0],), symmetric=True)],
    "eigh": [Sample((APART,), symmetric=True), Sample((APART[0],), symmetric=True)],
    "fractional_matrix_power": [Sample((APART + 3 * A / 10,), {"power": 0.3})],
    "hermitian_function": [
        Sample((POSITIVE,), {"fn": Logarithm()}),
        Sample((POSITIVE, A), {"fn": Power(0.5)}),
        Sample((np.eye(3), A[0], A[1]), {"fn": Exponential()}),
        Sample((POSITIVE,), {"fn": Sampled(sine)}),
    ],
    "logm": [Sample((APART + 3 * A / 10,))],
    "lu_exchanges": [
        Sample((np.array([[2, 0, 1], [0, 1, 2]]),), {"back": False}),
        Sample((np.array([2, 2, 2]),), {"back": True}),
    ],
    "nuclear_norm": [Sample((A,)), Sample((A[0, :2],)), Sample((np.eye(3),))],
    "polar": [Sample((A,), {"partial": False}), Sample((A[:, :, :2],), {"partial": True})],
    "qdwh": [Sample((A,), {"eps": 2e-16, "limit": 10}), Sample((A[0, :, :2],), {"eps": 2e-16, "limit": 10})],
    "solve_banded": [
        Sample((np.abs(A[:, :, :3]) + np.array([0, 5.0, 0])[:, None], A), {"lower": 1, "upper": 1}),
        Sample((np.abs(A[0, :2]) + np.array([5.0, 0])[:, None], A[0, :, :2]), {"lower": 1, "upper": 0}),
    ],
    "sparse_solve": [
        Sample((np.abs(A[0].ravel()) + np.eye(3).ravel() * 5, *np.indices((3, 3)).reshape(2, 9), A[0])),
        Sample((RNG.uniform(1.0, 2.0, (2, 4)), *np.array([[[0, 1, 2, 0]] * 2, [[1, 2, 0, 0]] * 2]), A[:, :, :2])),
    ],
    "solve_sylvester": [
        Sample((APART, POSITIVE[:, :2, :2], A[:, :, :2]), {"hermitian": False}),
        Sample((POSITIVE[0], POSITIVE[0], A[0]), {"hermitian": False}),
    ],
    "sqrtm": [Sample((APART + 3 * A / 10,))],
    "unitary_form": [
        Sample((A,), {"name": "schur", "output": "complex"}),
        Sample((A[0],), {"name": "hessenberg", "output": "real"}),
    ],
    "eigvalsh": [Sample((APART,), symmetric=True), Sample((APART[0],), symmetric=True)],
}
