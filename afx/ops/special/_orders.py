"""Orders: functions of static parameters, of arrays of them too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from afx.core import Array, any_traced, broadcast_shapes
from afx.errors import ShapeError
from afx.ops._kinds.special import alone_in_float64
from afx.ops.creation.creation import as_array
from afx.ops.manipulation.join import concat
from afx.ops.manipulation.shape import broadcast_to, reshape


def of_each(who: str, fn: Callable[..., Array], parameters: tuple[Any, ...], x: Any) -> Array:
    """Return a function of parameters and x, where parameters are numbers or known arrays, which broadcast with x.

    Each set of parameters is computed once, of those elements of x that it belongs to.

    Raises:
        ShapeError: the shapes do not broadcast.
    """
    if any_traced(parameters) or not any(map(np.ndim, parameters)):
        return fn(*parameters, x)
    known, y = [np.asarray(p) for p in parameters], as_array(*alone_in_float64(who, x))
    shape = broadcast_shapes([*[p.shape for p in known], y.shape])
    if shape is None:
        raise ShapeError(
            f"{who}: parameters and x broadcast: got {[p.shape for p in known]} and {y.aval}; give them axes of length 1"
        )
    flat = reshape(broadcast_to(y, shape), (-1,))
    rows = np.stack([np.broadcast_to(p, shape).reshape(-1) for p in known], axis=-1)
    sets, place = np.unique(rows, axis=0, return_inverse=True)
    place = place.reshape(-1)
    if not len(sets):
        return reshape(flat, shape)
    parts = [fn(*row.tolist(), flat[np.flatnonzero(place == k)]) for k, row in enumerate(sets)]
    return reshape(concat(parts)[np.argsort(np.argsort(place, kind="stable"))], shape)
