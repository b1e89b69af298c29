"""Data: batches, splits and prefetching of pytrees of arrays, as pure functions of a key.

>>> import afx
>>> from afx import data
>>> x, y = afx.arange(10.0), afx.arange(10)
>>> batches = data.batches((x, y), 4, key=afx.random.key(0))
>>> len(batches), [len(part) for part, _ in batches.epoch(0)]
(2, [4, 4])
"""

from afx.data.batching import *
from afx.data.loading import *
from afx.data.sharding import *
from afx.errors import refuse_names

refuse_names(__name__)
