"""Operands for reductions, products, windows, sorting and complex parts."""

import numpy as np

from tests.ops.samples import Sample

RNG = np.random.default_rng(4)
A, B, V, S = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(4, 5)), RNG.normal(size=5), np.array(0.7)
EMPTY = np.zeros((0, 3))
C = A + 1j * RNG.normal(size=(2, 3, 4))
IMAGE = RNG.normal(size=(2, 6, 5, 3))
WINDOW = {"window": (3, 2), "stride": (2, 1), "dilation": (1, 2), "padding": ((1, 0), (0, 1))}
ROWS = RNG.normal(size=(2, 3, 4, 18))

OVER_AXES = [
    Sample((A,), {"axis": (0, 2)}),
    Sample((A,), {"axis": (1,)}),
    Sample((V,), {"axis": ()}),
    Sample((S,), {"axis": ()}),
]
ALSO_EMPTY = [*OVER_AXES, Sample((EMPTY,), {"axis": (0,)})]
ONE_AXIS = [Sample((A,), {"axis": -2}), Sample((V,), {"axis": -1})]

SAMPLES: dict[str, list[Sample]] = {
    **dict.fromkeys(("sum", "prod", "all", "any", "vector_norm"), ALSO_EMPTY),
    **dict.fromkeys(("max", "min", "max_first", "logsumexp", "softmax", "log_softmax"), OVER_AXES),
    **dict.fromkeys(("argmax", "argmin", "argsort", "sort"), ONE_AXIS),
    **{name: [Sample((C,)), Sample((np.array(1 + 2j),))] for name in ("real", "imag", "conj")},
    "cumulative_sum": [
        Sample((A,), {"axis": 1, "reverse": False}),
        Sample((V,), {"axis": 0, "reverse": True}),
        Sample((EMPTY,), {"axis": 0, "reverse": False}),
    ],
    "stop_gradient": [Sample((A,)), Sample((S,))],
    "matmul": [Sample((A, B)), Sample((A[0], B)), Sample((A, RNG.normal(size=(2, 4, 1)))), Sample((A[:, :0], B))],
    "patches": [Sample((IMAGE,), WINDOW)],
    "unpatches": [Sample((ROWS,), {"shape": IMAGE.shape, **WINDOW})],
    "searchsorted": [Sample((np.sort(V), A), {"side": "left"}), Sample((np.sort(V), S), {"side": "right"})],
}
