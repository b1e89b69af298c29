"""Buffers: the leaves of a tree as one flat array a dtype, and back."""

from __future__ import annotations

import functools
import itertools
import operator
import zlib
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from afx.core.array.array import wrap
from afx.core.aval import Aval
from afx.core.dtypes import DType
from afx.distributed.traced import name_traced
from afx.errors import ArgumentError, TracerError
from afx.pytree import flatten, paths, unflatten
from afx.runtime.output_pool import OutputPool

__all__ = ["Layout", "Memory", "Ndarray", "flatten_tree"]

Ndarray: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

POOL_MIN_BYTES: Final = 1 << 16  # below it new memory costs no page
POOL_MAX_ARRAYS: Final = 16
ALIGNMENT_BYTES: Final = 64  # of a vector register: sums of three arrays that straddle lines take twice as long


class Memory:
    """Flat arrays that are used again as soon as nobody refers to them: new pages cost more than a message."""

    def __init__(self) -> None:
        self._pools: dict[int, OutputPool] = {}

    def take(self, size: int, dtype: DType) -> Ndarray:
        """Return an array whose elements are arbitrary."""
        nbytes = size * dtype.itemsize
        if nbytes < POOL_MIN_BYTES:
            return np.empty(size, dtype)
        pool = self._pools.get(nbytes)
        if pool is None:
            aval = Aval((nbytes + ALIGNMENT_BYTES,), np.dtype(np.uint8))
            pool = self._pools[nbytes] = OutputPool(aval, POOL_MAX_ARRAYS)
        block = pool()
        start = -block.ctypes.data % ALIGNMENT_BYTES
        return block[start : start + nbytes].view(dtype)

    def take_bytes(self, nbytes: int) -> Ndarray:
        """Return an array of bytes, which are arbitrary."""
        return self.take(nbytes, np.dtype(np.uint8))


class Layout:
    """Where each leaf of a tree stands in the flat buffers of its dtype."""

    __slots__ = ("_kinds", "_leaves", "_treedef", "dtypes", "lengths", "nbytes", "number", "text")

    def __init__(self, treedef: Any, avals: Sequence[tuple[tuple[int, ...], DType]]) -> None:
        self._treedef = treedef
        self._leaves: list[tuple[tuple[int, ...], int, slice]] = []
        self.dtypes: list[DType] = list(dict.fromkeys(dtype for _, dtype in avals))
        self.lengths: list[int] = [0] * len(self.dtypes)
        for shape, dtype in avals:
            kind = self.dtypes.index(dtype)
            start = self.lengths[kind]
            self.lengths[kind] = start + int(np.prod(shape, dtype=np.int64))
            self._leaves.append((shape, kind, slice(start, self.lengths[kind])))
        self._kinds: list[tuple[int, DType]] = list(zip(self.lengths, self.dtypes, strict=True))
        self.nbytes: int = sum(size * dtype.itemsize for size, dtype in self._kinds)
        if any(dtype.hasobject for dtype in self.dtypes):
            raise ArgumentError("distributed: an array of objects: got no numbers; return numbers and arrays of them")
        self.text: str = ", ".join(
            f"{path}{dtype}{list(shape)}" for path, (shape, dtype) in zip(paths(treedef), avals, strict=True)
        )
        self.number: int = zlib.crc32(self.text.encode())  # by which ranks tell sums of other trees

    def __repr__(self) -> str:
        kinds = [f"{self.dtypes[kind]}{list(shape)}" for shape, kind, _ in self._leaves]
        return f"{self._treedef!r} of {', '.join(kinds)}"

    def check_like(self, before: Layout | None) -> Layout:
        """Return the layout, or refuse that of a slot whose tree cannot be averaged with those before it.

        Raises:
            ArgumentError: the layouts differ.
        """
        if before is not None and before is not self:
            raise ArgumentError(
                f"average: slots whose trees differ: got {self} after {before}; return the same structure, shapes and dtypes"
            )
        return self

    def empty(self, memory: Memory) -> list[Ndarray]:
        """Return buffers whose elements are arbitrary."""
        return list(itertools.starmap(memory.take, self._kinds))

    def empty_small(self) -> list[Ndarray]:
        """Return such buffers as new memory, which is the fastest where they are small."""
        return list(itertools.starmap(np.empty, self._kinds))

    def places(self) -> list[tuple[int, slice]]:
        """Return the dtype's number and the part of its buffer for each leaf."""
        return [(kind, part) for _, kind, part in self._leaves]

    def views(self, buffers: Sequence[Ndarray]) -> list[Ndarray]:
        """Return the flat part of each leaf in the buffers."""
        return [buffers[kind][part] for _, kind, part in self._leaves]

    def cut(self, leaves: Sequence[Ndarray], spans: Sequence[slice]) -> list[Ndarray]:
        """Return one part of each buffer, without the rest of it: the leaves' own memory where it is in one piece.

        Args:
            leaves: the leaves of the tree.
            spans: by dtype, the part of the buffer.
        """
        found: list[list[Ndarray]] = [[] for _ in spans]
        for leaf, (_, kind, at) in zip(leaves, self._leaves, strict=True):
            start, stop = max(at.start, spans[kind].start), min(at.stop, spans[kind].stop)
            if start < stop:
                found[kind].append(leaf.reshape(-1)[start - at.start : stop - at.start])
        return [_join(parts, dtype) for parts, dtype in zip(found, self.dtypes, strict=True)]

    def unpack(self, buffers: Sequence[Ndarray]) -> Any:
        """Return the tree whose leaves are parts of the buffers."""
        if len(self._leaves) == 1:  # in few calls, as of a number that is averaged
            ((shape, kind, _),) = self._leaves
            return unflatten(self._treedef, [wrap(buffers[kind].reshape(shape))])
        leaves = [wrap(buffers[kind][part].reshape(shape)) for shape, kind, part in self._leaves]
        return unflatten(self._treedef, leaves)


def _join(parts: Sequence[Ndarray], dtype: DType) -> Ndarray:
    """Return flat arrays as one: as a view where they are neighbours in one memory, as after `Layout.unpack`."""
    if len(parts) == 1:
        return parts[0]
    owners = [_owner(part) for part in parts]
    whole_parts = all(part.flags.c_contiguous for part in parts)  # not every second element
    if parts and whole_parts and all(owner is owners[0] and owner.flags.c_contiguous for owner in owners):
        begins: list[int] = [part.ctypes.data - owners[0].ctypes.data for part in parts]
        ends = [begin + part.nbytes for begin, part in zip(begins, parts, strict=True)]
        if begins[1:] == ends[:-1]:
            whole: Ndarray = owners[0].reshape(-1).view(np.uint8)
            return whole[begins[0] : ends[-1]].view(dtype)
    return np.concatenate(parts) if parts else np.empty(0, dtype)


def _owner(array: Ndarray) -> Ndarray:
    """Return the array to whose memory a view belongs."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


_kind_of: Final = operator.attrgetter("shape", "dtype")
_layout = functools.lru_cache(maxsize=64)(Layout)  # by structure, shapes and dtypes


def flatten_tree(tree: Any) -> tuple[Layout, list[Ndarray]]:
    """Return the layout of a tree and its leaves as NumPy arrays.

    Raises:
        ArgumentError: an array of objects.
        TracerError: a traced array.
    """
    leaves, treedef = flatten(tree)
    try:
        arrays: list[Ndarray] = list(map(np.asarray, leaves))
    except TracerError as error:
        raise name_traced("distributed", leaves, error) from None
    return _layout(treedef, tuple(map(_kind_of, arrays))), arrays
