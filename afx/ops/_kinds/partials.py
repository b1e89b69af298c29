"""Partial derivatives: their operands and dtype, and the rules of elementwise ops made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from afx.core.array.array import Array
from afx.core.aval import SCALARS, Shape
from afx.core.dtypes import DType, real_dtype, strengthen
from afx.core.primitive import Params, Pullback, Pushforward, Value
from afx.core.tracing.tracer import to_lower_level
from afx.ops._basic import broadcast, select_where

__all__ = ["Partial", "elementwise_jvp", "elementwise_pullback", "reads_of", "typed"]

Partial: TypeAlias = Callable[..., Array] | float


def reads_of(rule: Callable[..., Any], first: int, count: int) -> int:
    """Return the bit mask of the ``count`` parameters from ``first`` on whose names have no leading underscore."""
    names = rule.__code__.co_varnames[first : first + count]
    return sum(1 << k for k, name in enumerate(names) if not name.startswith("_"))


def typed(partial: Callable[..., Any], arity: int) -> Callable[..., Any]:
    """Return a partial of several operands, given the result's dtype first, that reads operands in that dtype.

    A Python number or an integer by itself would compute in the default dtype, and float32 beside float64 in its own.
    """
    reads = reads_of(partial, 0, arity + 1) >> 1
    places = [k for k in range(arity) if reads >> k & 1]

    def read(dtype: DType, z: Value, *xs: Value, **params: Any) -> Any:
        for k in places:
            if getattr(xs[k], "dtype", None) is not dtype:
                return partial(z, *[_convert(x, dtype) if reads >> j & 1 else x for j, x in enumerate(xs)], **params)
        return partial(z, *xs, **params)

    return read


def _convert(x: Value, dtype: DType) -> Value:
    """Return an operand in a dtype, a real one beside complex numbers in the dtype of their parts."""
    if x.__class__ in SCALARS:
        return strengthen(x, dtype)
    want = dtype if x.dtype.kind == "c" else real_dtype(dtype)
    return x if x.dtype == want or dtype.kind not in "fc" else to_lower_level(x.astype(want))


def elementwise_pullback(partial: Partial, arity: int, exact: bool) -> Pullback:
    if not callable(partial):
        sign = partial

        def scale(ct: Value, z: Value, xs: tuple[Value, ...], params: Params, shape: Shape, dtype: DType) -> Value:
            return ct if sign == 1.0 else -ct if sign == -1.0 else ct * sign

        return scale

    def pull(ct: Value, z: Value, xs: tuple[Value, ...], params: Params, shape: Shape, dtype: DType) -> Value:
        d = partial(z, *xs)
        return ct * (d._value if d.__class__ is Array else d)

    if exact or arity == 1:
        return pull
    read = typed(partial, arity)

    def pull_typed(ct: Value, z: Value, xs: tuple[Value, ...], params: Params, shape: Shape, dtype: DType) -> Value:
        d = read(ct.dtype, z, *xs)
        return ct * (d._value if d.__class__ is Array else d)

    return pull_typed


def elementwise_jvp(partials: Sequence[Partial], masks: bool, exact: bool) -> Pushforward:
    def push(ts: tuple[Value | None, ...], z: Value, xs: tuple[Value, ...], params: Params) -> Value:
        total: Value | None = None
        if not exact and len(xs) > 1:
            xs = tuple([_convert(x, z.dtype) for x in xs])
        for t, partial in zip(ts, partials, strict=True):
            if t is None:
                continue
            if callable(partial):
                d = to_lower_level(partial(z, *xs))
                term = to_lower_level(
                    (to_lower_level(select_where(d != 0, t, np.zeros((), t.dtype))) if masks else t) * d
                )
            else:
                term = t if partial == 1.0 else t * partial
            total = term if total is None else total + term
        if total is not None and total.shape != z.shape:
            total = broadcast(total, z.shape)
        return total

    return push
