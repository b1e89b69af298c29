"""Reductions: the kind of op whose derivative is given by each element's partial."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, TypeAlias

import numpy as np

from afx.core.array.array import Array
from afx.core.aval import Aval, Shape
from afx.core.dtypes import DType
from afx.core.primitive import Params, Primitive, Value, define
from afx.core.tracing.tracer import to_lower_level
from afx.ops._basic import select_where, sum_over
from afx.ops._kinds.batching import batch_along_axes
from afx.ops._kinds.partials import reads_of

__all__ = ["reduction"]

ReductionRule: TypeAlias = Callable[Concatenate[Array, Array, ...], Array]
Shaper: TypeAlias = Callable[..., Aval]


def reduction(
    name: str,
    impl: Callable[..., Any],
    abstract_eval: Shaper,
    partial: ReductionRule,
    **tags: Any,
) -> Primitive:
    """Make a reduction over axes from ``partial(z, x, axis=…)``, dz/dx in the shape of x; z has its axes kept."""
    reads = reads_of(partial, 0, 2)

    def kept(z: Value, axis: tuple[int, ...], ndim: int) -> Value:
        shape = iter(z.shape)
        return z.reshape(tuple([1 if a in axis else next(shape) for a in range(ndim)]))

    def pull(ct: Value, z: Value, xs: tuple[Value, ...], params: Params, shape: Shape, dtype: DType) -> Value:
        axis = params["axis"]
        d = partial(kept(z, axis, len(shape)) if reads & 1 else z, xs[0], **params)
        return to_lower_level(kept(ct, axis, len(shape)) * to_lower_level(d))

    def push(ts: tuple[Value | None, ...], z: Value, xs: tuple[Value, ...], params: Params) -> Value:
        axis, x, t = params["axis"], xs[0], ts[0]
        assert t is not None
        d = to_lower_level(partial(kept(z, axis, x.ndim), x, **params))
        if tags.get("selects"):  # what is not chosen has no share, whatever its tangent is
            t = to_lower_level(select_where(d != 0, t, np.zeros((), t.dtype)))
        return to_lower_level(sum_over(t * d, axis))

    return define(
        name=name,
        kind="reduction",
        impl=impl,
        abstract_eval=abstract_eval,
        vjps=(pull,),
        reads=(reads,),
        jvp=push,
        batch=batch_along_axes(name),
        **tags,
    )
