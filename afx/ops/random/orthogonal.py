"""Orthogonal matrices: drawn from the Haar measure."""

from __future__ import annotations

from typing import Any

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval, Shape
from afx.core.dtypes import DType, float64, uint64
from afx.core.primitive import Primitive
from afx.core.tracing.tracer import bind_single
from afx.ops._kinds.elementwise import nondifferentiable
from afx.ops.random.bits import batch_draw, check_key, generate
from afx.ops.random.uniform_family import SAMPLERS

__all__: list[str] = []


def random_orthogonal(key: ArrayLike, shape: Shape, dtype: DType) -> Array:
    """Return orthogonal matrices: float[*keys, *shape], the last two lengths equal (Mezzadri 2007)."""
    return bind_single(random_orthogonal_p, key, shape=shape, dtype=dtype)


def _orthogonal_run(key: Any, *, shape: Shape, dtype: DType) -> Any:
    check_key(key, "orthogonal")
    q, r = np.linalg.qr(generate(key, shape, float64, uint64, SAMPLERS["normal"]))
    # where R has a positive diagonal the factors are unique, and Q is even
    signs = np.where(np.diagonal(r, axis1=-2, axis2=-1) < 0, -1.0, 1.0)
    return (q * signs[..., None, :]).astype(dtype)


def _orthogonal_abstract(key: Aval, *, shape: Shape, dtype: DType) -> Aval:
    check_key(key, "orthogonal")
    return Aval(key.shape[:-1] + shape, dtype)


random_orthogonal_p: Primitive = nondifferentiable(
    "random_orthogonal",
    _orthogonal_run,
    _orthogonal_abstract,
    batch=batch_draw("random_orthogonal"),
    calls_lapack=True,
)
