"""Updates: ``x.at[index]`` makes changed copies of an immutable array."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from afx.core.registry import FUNCTIONS

if TYPE_CHECKING:
    from afx.core.array.array import Array, ArrayLike

__all__ = ["At", "AtIndex"]


class At:
    """What ``x.at`` gives: index it, then name the update.

    >>> import afx
    >>> afx.zeros(3).at[1].set(5.0)
    Array([0., 5., 0.], dtype=float32)
    """

    __slots__ = ("_x",)

    def __init__(self, x: Any) -> None:
        self._x = x

    def __getitem__(self, index: Any) -> AtIndex:
        return AtIndex(self._x, index)


class AtIndex:
    """An array and an index into it, waiting for the update.

    Indices may repeat: `set` keeps the last value, all others accumulate one after the other. Every index of NumPy
    works; one out of range raises `IndexError`. Values broadcast to the shape of ``x[index]`` and take x's dtype.
    """

    __slots__ = ("_index", "_x")

    def __init__(self, x: Any, index: Any) -> None:
        self._x = x
        self._index = index

    def __repr__(self) -> str:
        return f"<{self._x.aval}.at[{self._index!r}]: call .set(values), .add(values) …>"

    def get(self) -> Array:
        """Return ``x[index]``."""
        return FUNCTIONS.getitem(self._x, self._index)

    def set(self, values: ArrayLike) -> Array:
        """Return a copy of x with ``values`` at the index."""
        return FUNCTIONS.index_set(self._x, self._index, values)

    def add(self, values: ArrayLike) -> Array:
        """Return a copy of x with ``values`` added at the index, once per occurrence."""
        return FUNCTIONS.index_add(self._x, self._index, values)

    def subtract(self, values: ArrayLike) -> Array:
        """Return a copy of x with ``values`` subtracted at the index, once per occurrence."""
        return FUNCTIONS.index_add(self._x, self._index, FUNCTIONS.negative(values))

    def multiply(self, values: ArrayLike) -> Array:
        """Return a copy of x multiplied by ``values`` at the index, once per occurrence."""
        return FUNCTIONS.index_multiply(self._x, self._index, values)

    def divide(self, values: ArrayLike) -> Array:
        """Return a copy of x divided by ``values`` at the index, once per occurrence."""
        return FUNCTIONS.index_divide(self._x, self._index, values)

    def min(self, values: ArrayLike) -> Array:
        """Return a copy of x with the smaller of x and ``values`` at the index."""
        return FUNCTIONS.index_min(self._x, self._index, values)

    def max(self, values: ArrayLike) -> Array:
        """Return a copy of x with the larger of x and ``values`` at the index."""
        return FUNCTIONS.index_max(self._x, self._index, values)

    def apply(self, fn: Callable[[Array], ArrayLike]) -> Array:
        """Return a copy of x with ``fn(x[index])`` at the index; an index that repeats is applied once."""
        return self.set(fn(self.get()))
