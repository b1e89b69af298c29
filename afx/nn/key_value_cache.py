"""Key-value cache: keys and values of the steps so far, so that decoding computes each of them once."""

from __future__ import annotations

import attrs

from afx.core.array.array import Array
from afx.core.aval import integer
from afx.core.dtypes import DType, int64
from afx.errors import ArgumentError
from afx.nn.layer import layer
from afx.ops.creation.creation import asarray, zeros
from afx.ops.creation.ranges import arange
from afx.ops.manipulation.shape import expand_dims

__all__ = ["KeyValueCache"]


@layer
@attrs.frozen
class KeyValueCache:
    """Keys and values of an attention layer, with room for steps to come; made by `MultiHeadAttention.make_cache`.

    A value like any other: decoding returns a new one, and the old one still holds the steps before.

    Attributes:
        keys: float[..., groups, 1, capacity, features].
        values: likewise.
        length: int64[], how many steps are taken.
    """

    keys: Array
    values: Array
    length: Array

    @classmethod
    def create(cls, shape: tuple[int, ...], capacity: int, features: int, dtype: DType) -> KeyValueCache:
        """Return an empty cache for keys and values float[*shape, steps, features]."""
        if integer(capacity, "KeyValueCache", "capacity") < 1:
            raise ArgumentError(f"KeyValueCache: room for at least one step: got {capacity}; give the longest sequence")
        empty = zeros((*shape, capacity, features), dtype)
        return cls(empty, empty, asarray(0, int64))

    def positions(self, steps: int) -> Array:
        """Return the positions of the next steps."""
        return self.length + arange(steps, dtype=int64)

    def extend(self, keys: Array, values: Array) -> KeyValueCache:
        """Return the cache with some more steps.

        Raises:
            IndexRangeError: it is full.
        """
        where = self.positions(keys.shape[-2])
        return KeyValueCache(
            self.keys.at[..., where, :].set(keys),
            self.values.at[..., where, :].set(values),
            self.length + keys.shape[-2],
        )

    def visible(self, steps: int) -> Array:
        """Return bool[steps, capacity]: what each of the next steps may see, itself among it."""
        return arange(self.keys.shape[-2], dtype=int64) <= expand_dims(self.positions(steps), -1)
