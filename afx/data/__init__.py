"""Data: batches, splits and prefetching of pytrees of arrays, as pure functions of a key.

>>> import afx
>>> from afx import data
>>> x, y = afx.arange(10.0), afx.arange(10)
>>> batches = data.batches((x, y), 4, key=afx.random.key(0))
>>> len(batches), [len(part) for part, _ in batches.epoch(0)]
(2, [4, 4])
"""

from typing import TYPE_CHECKING, NoReturn

from afx.data.batching import Batches, batches, folds, padded_batches, split, time_folds
from afx.data.loading import load_csv, load_npz, load_sklearn, prefetch
from afx.data.sharding import Shards, open_shards, write_shards

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


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:  # who refuse others

    def __getattr__(name: str) -> NoReturn:
        from afx.other_names import missing_name

        raise missing_name(__name__, name)
