"""Stopped gradients: `stop_gradient` gives a value that derivatives see as a constant."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from afx import pytree
from afx.core.aval import Aval, aval_of
from afx.core.primitive import Primitive
from afx.core.registry import register_function
from afx.core.tracing.tracer import bind
from afx.ops._kinds.batching import batch_unchanged
from afx.ops._kinds.elementwise import nondifferentiable

__all__ = ["stop_gradient"]

T = TypeVar("T")


@register_function
def stop_gradient(x: T) -> T:
    """Return a tree of arrays with the same values, whose derivative is 0.

    Under `grad` the result is a plain value: ``float(stop_gradient(x))`` and ``np.asarray(stop_gradient(x))`` work.

    >>> import afx
    >>> afx.grad(lambda x: x * stop_gradient(x))(3.0)
    Array(3., dtype=float32)
    """
    return pytree.map(lambda leaf: bind(stop_gradient_p, leaf), x)


def _run(x: Any) -> Any:
    return np.asarray(x, aval_of(x).dtype)


def _abstract(x: Aval) -> Aval:
    return Aval(x.shape, x.dtype)


stop_gradient_p: Primitive = nondifferentiable(
    "stop_gradient",
    _run,
    _abstract,
    batch=batch_unchanged("stop_gradient"),
    may_alias=True,
    canonical="stop_gradient",
)
