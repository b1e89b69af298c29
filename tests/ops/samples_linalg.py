"""Operands for linear algebra: several shapes of each, batched, of one element, and without any."""

import numpy as np

from tests.ops.samples import Sample

RNG = np.random.default_rng(6)
A = RNG.normal(size=(2, 3, 3)) + 3 * np.eye(3)
S = (A + A.swapaxes(-1, -2)) / 2
P = A @ A.swapaxes(-1, -2)
TALL = RNG.normal(size=(2, 4, 3)) + 2 * np.eye(4, 3)
WIDE = TALL.swapaxes(-1, -2).copy()
ONE, NONE = np.array([[1.5]]), np.zeros((0, 0))
B = RNG.normal(size=(2, 3, 2))
SPREAD = np.diag([1.0, 3.0, 6.0]) + 0.2 * A[0]  # no two singular values near each other
SINGULAR = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [0.5, -1.0, 1.0]])
APART = np.diag([1.0, 3.0, 6.0]) + 0.2 * RNG.normal(size=(2, 3, 3))  # real eigenvalues, no two near each other


def directions(count: int) -> tuple[np.ndarray, ...]:
    """Return random matrices like A."""
    return tuple(RNG.normal(size=A.shape) for _ in range(count))


SAMPLES: dict[str, list[Sample]] = {
    "solve": [Sample((A, B)), Sample((A[0], B[0, :, :1])), Sample((A[0], B)), Sample((NONE, np.zeros((0, 2))))],
    "solve_or_nan": [Sample((A, B)), Sample((A[0], B[0, :, :1])), Sample((A[0], B)), Sample((NONE, np.zeros((0, 2))))],
    "solve_triangular": [
        Sample((A, B), {"lower": lower, "unit": unit}) for lower in (False, True) for unit in (False, True)
    ]
    + [Sample((A[0], B), {"lower": True, "unit": False}), Sample((ONE, ONE), {"lower": False, "unit": False})],
    "inv": [Sample((A,)), Sample((ONE,)), Sample((NONE,))],
    "slogdet": [Sample((A,)), Sample((A[0],)), Sample((NONE,))],
    "det": [Sample((A,)), Sample((A[0],)), Sample((SINGULAR,)), Sample((ONE,)), Sample((NONE,))],
    "cofactors": [Sample((A, *directions(k))) for k in range(4)]
    + [Sample((SINGULAR, np.ones((3, 3)))), Sample((ONE, ONE)), Sample((NONE,))],
    "qr": [Sample((x,), {"full": False}) for x in (TALL, A[0], ONE, np.zeros((3, 0)))],
    "svd": [Sample((x,), {"full": False}) for x in (TALL, WIDE, SPREAD, ONE, np.zeros((3, 0)))]
    + [Sample((A,), {"full": True})],
    "svdvals": [Sample((x,)) for x in (TALL, WIDE, A[0], ONE, np.zeros((3, 0)))],
    "pinv": [Sample((x,), {"rcond": 1e-15}) for x in (TALL, WIDE, A[0], ONE, np.zeros((3, 0)))],
    "lu": [Sample((x,)) for x in (TALL, WIDE, A, ONE, np.zeros((3, 0)))],
    "eig": [Sample((APART,)), Sample((APART[0],)), Sample((ONE,)), Sample((NONE,))],
    "eigvals": [Sample((APART,)), Sample((A[0],)), Sample((ONE,)), Sample((NONE,))],
    "expm": [Sample((A,)), Sample((-5 * A[0],)), Sample((np.zeros((2, 2)),)), Sample((ONE,)), Sample((NONE,))],
}
