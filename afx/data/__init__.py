"""Data: batches, splits and prefetching of pytrees of arrays, as pure functions of a key.

>>> import afx
>>> from afx import data
>>> x, y = afx.arange(10.0), afx.arange(10)
>>> batches = data.batches((x, y), 4, key=afx.random.key(0))
>>> len(batches), [len(part) for part, _ in batches.epoch(0)]
(2, [4, 4])
"""

from afx.data.batching import Batches, batches, folds, padded_batches, split, time_folds
from afx.data.loading import load_csv, load_npz, load_sklearn, prefetch
from afx.data.sharding import Shards, open_shards, write_shards
from afx.errors import refuse_names

__all__ = [
    "Batches",
    "Shards",
    "batches",
    "folds",
    "load_csv",
    "load_npz",
    "load_sklearn",
    "open_shards",
    "padded_batches",
    "prefetch",
    "split",
    "time_folds",
    "write_shards",
]

refuse_names(__name__)
