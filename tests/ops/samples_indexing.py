"""Operands for the primitives behind indices and updates."""

import numpy as np

from tests.ops.samples import Sample

RNG = np.random.default_rng(4)
A, V, S = RNG.normal(size=(2, 3, 4)), RNG.normal(size=5), np.array(0.7)
ROWS, COLUMNS = np.array([[1, 0], [-1, 1]]), np.array([2, 0])
REPEATED = np.array([3, 3, 0, -2])
PART = ((0, 2, 1), 1, None, (3, -1, -2))  # x[:, 1, None, ::-2]


def values(*shape: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Return values away from each other and from zero."""
    return RNG.uniform(0.5, 2.0, size=shape)


UPDATES = [
    Sample((V, values(4), REPEATED), {"axis": 0}),
    Sample((A, values(2, 2, 4), ROWS, COLUMNS), {"axis": 0}),
    Sample((A, values(2, 4, 4), REPEATED % 3), {"axis": 1}),
    Sample((A, values(2, 2, 2), ROWS, COLUMNS), {"axis": 1}),
    Sample((V, values(), np.array(2)), {"axis": 0}),
    Sample((V, values(0), np.zeros(0, np.int64)), {"axis": 0}),
]
SLICED = [
    Sample((A, values(2, 1, 2)), {"index": PART}),
    Sample((V, values()), {"index": (2,)}),
    Sample((V, values(0)), {"index": ((0, 0, 1),)}),
    Sample((S, values(1)), {"index": (None,)}),
]
READS = [
    Sample((A, ROWS), {"axis": 0}),
    Sample((A, ROWS, COLUMNS), {"axis": 1}),
    Sample((V, REPEATED), {"axis": 0}),
    Sample((V, np.array(1)), {"axis": 0}),
    Sample((V, np.zeros(0, np.int64)), {"axis": 0}),
]

WRITES = [
    Sample((values(2, 2, 3, 4), ROWS), {"shape": (2, 3, 4), "axis": 0}),
    Sample((values(2, 2, 2), ROWS, COLUMNS), {"shape": (2, 3, 4), "axis": 1}),
    Sample((values(4), REPEATED), {"shape": (5,), "axis": 0}),
    Sample((values(), np.array(1)), {"shape": (5,), "axis": 0}),
]
SAMPLES: dict[str, list[Sample]] = {
    "slice": [
        Sample((A,), {"index": PART}),
        Sample((V,), {"index": ((0, 5, 2),)}),
        Sample((S,), {"index": (None,)}),
        Sample((V,), {"index": ((0, 0, 1),)}),
    ],
    "embed": [
        Sample((values(2, 1, 2),), {"shape": (2, 3, 4), "index": PART}),
        Sample((values(),), {"shape": (5,), "index": (2,)}),
        Sample((values(0),), {"shape": (5,), "index": ((0, 0, 1),)}),
    ],
    "slice_set": SLICED,
    "slice_add": SLICED,
    "gather": READS,
    "select": READS,
    "scatter": WRITES,
    "scatter_unread": WRITES,
    "index_set": UPDATES,
    "index_add": UPDATES,
    "index_multiply": UPDATES,
    "index_min": UPDATES,
    "index_max": UPDATES,
}
