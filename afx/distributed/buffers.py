"""Buffers: the leaves of a tree as one flat array a dtype, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from afx.core.array.array import wrap
from afx.core.dtypes import DType
from afx.pytree import flatten, unflatten

__all__ = ["Layout", "Ndarray", "fold", "pack"]

Ndarray: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


class Layout:
    """Where each leaf of a tree stands in the flat buffers of its dtype."""

    __slots__ = ("_kinds", "_leaves", "_treedef", "dtypes", "lengths")

    def __init__(self, leaves: Sequence[Any], treedef: Any) -> None:
        self._treedef = treedef
        kinds: dict[np.dtype[Any], int] = {}
        self._leaves: list[tuple[tuple[int, ...], np.dtype[Any], int]] = []
        for leaf in leaves:
            value = np.asarray(leaf)
            start = kinds.get(value.dtype, 0)
            kinds[value.dtype] = start + value.size
            self._leaves.append((value.shape, value.dtype, start))
        self.dtypes: tuple[DType, ...] = tuple(kinds)
        self.lengths: tuple[int, ...] = tuple(kinds.values())
        self._kinds = {dtype: k for k, dtype in enumerate(self.dtypes)}

    @property
    def description(self) -> str:
        """The structure, shapes and dtypes as text, for comparing among ranks."""
        return f"{self._treedef!r} {[(shape, dtype.str) for shape, dtype, _ in self._leaves]}"

    def unpack(self, buffers: Sequence[Ndarray]) -> Any:
        """Return the tree whose leaves are copied out of the buffers."""
        leaves: list[Any] = []
        for shape, dtype, start in self._leaves:
            flat = buffers[self._kinds[dtype]]
            size = int(np.prod(shape, dtype=np.int64))
            leaves.append(wrap(flat[start : start + size].reshape(shape).copy()))
        return unflatten(self._treedef, leaves)


def pack(tree: Any, weight: float) -> tuple[Layout, list[Ndarray]]:
    """Return the layout of a tree and its buffers; leaves that are not integers are multiplied by the weight."""
    leaves, treedef = flatten(tree)
    layout = Layout(leaves, treedef)
    parts: dict[np.dtype[Any], list[Ndarray]] = {dtype: [] for dtype in layout.dtypes}
    for leaf in leaves:
        value = np.asarray(leaf)
        parts[value.dtype].append(value.reshape(-1))
    buffers = [np.concatenate(pieces) for pieces in parts.values()]
    for buffer in buffers:
        if buffer.dtype.kind in "fc":
            np.multiply(buffer, buffer.dtype.type(weight), out=buffer)
    return layout, buffers


def fold(total: Ndarray, part: Ndarray) -> bool:
    """Add a slot's buffer to the sum of those before it; integers must be the same in all slots, or this raises."""
    if total.dtype.kind in "fc":
        np.add(total, part, out=total)
        return True
    return bool(np.array_equal(total, part))
