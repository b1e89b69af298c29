"""Operands for the primitives that arrange elements."""

import numpy as np

from tests.ops.samples import Sample

RNG = np.random.default_rng(3)
A, B, V, S = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(2, 1, 4)), RNG.normal(size=5), np.array(0.7)
EMPTY = np.zeros((0, 3))
DOUBLE, SINGLE = np.dtype("float64"), np.dtype("float32")

SAMPLES: dict[str, list[Sample]] = {
    "cast": [Sample((A,), {"dtype": DOUBLE}), Sample((S,), {"dtype": np.dtype("complex128")})],
    "fit": [
        Sample((np.arange(3),), {"dtype": np.dtype("uint8")}),
        Sample((np.arange(0),), {"dtype": np.dtype("int8")}),
    ],
    "convert": [Sample((A,), {"dtype": np.dtype("int64")}), Sample((np.arange(3),), {"dtype": SINGLE})],
    "reshape": [
        Sample((A,), {"shape": (4, 6)}),
        Sample((S,), {"shape": (1, 1)}),
        Sample((EMPTY,), {"shape": (3, 0, 2)}),
    ],
    "broadcast_to": [
        Sample((B,), {"shape": (5, 2, 3, 4)}),
        Sample((S,), {"shape": (2, 2)}),
        Sample((S,), {"shape": (0,)}),
    ],
    "permute_dims": [Sample((A,), {"axes": (2, 0, 1)}), Sample((S,), {"axes": ()}), Sample((EMPTY,), {"axes": (1, 0)})],
    "roll": [
        Sample((A,), {"shifts": ((0, 1), (2, 3))}),
        Sample((V,), {"shifts": ()}),
        Sample((EMPTY,), {"shifts": ((1, 2),)}),
    ],
    "concat": [
        Sample((A, B, A), {"axis": 1, "sizes": (3, 1, 3)}),
        Sample((V,), {"axis": 0, "sizes": (5,)}),
        Sample((EMPTY, EMPTY), {"axis": 0, "sizes": (0, 0)}),
    ],
    "stack": [Sample((A, 2 * A), {"axis": 1}), Sample((S, S, S), {"axis": 0}), Sample((EMPTY,), {"axis": 2})],
    "unstack": [Sample((A,), {"axis": 1}), Sample((V,), {"axis": 0})],
    "split": [
        Sample((A,), {"axis": 2, "sizes": (1, 3)}),
        Sample((V,), {"axis": 0, "sizes": (2, 0, 3)}),
        Sample((EMPTY,), {"axis": 0, "sizes": (0,)}),
    ],
}
