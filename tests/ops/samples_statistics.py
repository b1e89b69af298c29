"""Operands for reductions that pass over nan."""

import numpy as np

from tests.ops.samples import Sample

RNG = np.random.default_rng(21)
X = RNG.normal(size=(2, 3, 4))
HOLES = np.where(X > 0.8, np.nan, X)
REDUCED = [
    Sample((HOLES,), {"axis": (1,)}),
    Sample((X,), {"axis": (0, 2)}),
    Sample((RNG.normal(size=()),), {"axis": ()}),
    Sample((RNG.normal(size=(0, 3)),), {"axis": (1,)}),
]
PLACES = [Sample((HOLES,), {"axis": -1}), Sample((X,), {"axis": -2}), Sample((RNG.normal(size=5),), {"axis": -1})]

SAMPLES: dict[str, list[Sample]] = {
    "nanmax": REDUCED,
    "nanmin": REDUCED,
    "nanargmax": PLACES,
    "nanargmin": PLACES,
}
