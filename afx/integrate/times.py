"""Times: those at which a solution is asked for."""

from __future__ import annotations

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.tracing.tracer import Tracer
from afx.errors import ArgumentError, DtypeError, ShapeError
from afx.ops.creation.creation import asarray

__all__ = ["requested_times"]


def requested_times(ts: ArrayLike, y: Array, who: str, *, backwards: bool = True) -> Array:
    """Return times in the state's dtype, if they are a vector that goes one way.

    Args:
        ts: the user's times.
        y: the state.
        who: for messages.
        backwards: whether they may descend.
    """
    times = asarray(ts)
    if times.ndim != 1 or not times.shape[0]:
        raise ShapeError(f"{who}: ts are times, the first that of the start: got {times.aval}; give a vector")
    if times.dtype.kind not in "fiu":
        raise DtypeError(f"{who}: times are real: got {times.aval}")
    if not isinstance(times, Tracer):
        steps = np.diff(np.asarray(times))
        if not ((steps >= 0).all() or (steps <= 0).all()):
            raise ArgumentError(f"{who}: times turn back: got neither ascending nor descending ts; sort them")
        if not backwards and not (steps >= 0).all():
            raise ArgumentError(f"{who}: times ascend: got descending ts; turn them round")
    return asarray(ts, y.dtype)  # Python's numbers keep all of their digits
