"""Shards: norms of arrays of which each slot has a part, for optimizers whose state is divided among slots."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Generator
from typing import Final

from afx.core.array.array import Array
from afx.ops.reductions.moments import vector_norm
from afx.ops.reductions.sums import max as largest

__all__ = ["are_sharded", "largest_of_shards", "norm_of_shards", "sharded_by"]

_gather: Final[contextvars.ContextVar[Callable[[Array], Array] | None]] = contextvars.ContextVar(
    "afx shards", default=None
)


@contextlib.contextmanager
def sharded_by(gather: Callable[[Array], Array]) -> Generator[None, None, None]:
    """Let arrays of optimizers be parts of larger ones.

    Args:
        gather: a scalar to those of all parts, in their order.
    """
    token = _gather.set(gather)
    try:
        yield
    finally:
        _gather.reset(token)


def are_sharded() -> bool:
    """Tell whether arrays are parts of larger ones."""
    return _gather.get() is not None


def norm_of_shards(norm: Array) -> Array:
    """Return Euclid's norm of an array from that of this part."""
    gather = _gather.get()
    return norm if gather is None else vector_norm(gather(norm))


def largest_of_shards(x: Array) -> Array:
    """Return the largest of the numbers of all parts."""
    gather = _gather.get()
    return x if gather is None else largest(gather(x))
