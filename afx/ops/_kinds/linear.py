"""Linear ops: kinds whose derivative is given by a transpose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, TypeAlias

from afx.core.array.array import Array
from afx.core.aval import Aval, Shape
from afx.core.dtypes import DType
from afx.core.primitive import Params, Primitive, Pullback, Value, define, lookup
from afx.core.tracing.tracer import bind, to_lower_level

__all__ = ["bilinear", "linear"]

LinearRule: TypeAlias = Callable[Concatenate[Array, Aval, ...], Array]
BilinearRule: TypeAlias = Callable[Concatenate[Array, Array, Aval, ...], Array]
Shaper: TypeAlias = Callable[..., Aval]


def linear(
    name: str, impl: Callable[..., Any], abstract_eval: Shaper, transpose: LinearRule, *, batch: Any = None, **tags: Any
) -> Primitive:
    """Make an op that is linear in its one operand from ``transpose(ct, aval, **params)``."""

    def pull(ct: Value, z: Value, xs: tuple[Value, ...], params: Params, shape: Shape, dtype: DType) -> Value:
        return to_lower_level(transpose(ct, Aval(shape, dtype), **params))

    def push(ts: tuple[Value | None, ...], z: Value, xs: tuple[Value, ...], params: Params) -> Value:
        return to_lower_level(bind(lookup(name), ts[0], **params))

    return define(
        name=name,
        kind="linear",
        impl=impl,
        abstract_eval=abstract_eval,
        vjps=(pull,),
        reads=(0,),
        jvp=push,
        batch=batch,
        **tags,
    )


def bilinear(
    name: str,
    impl: Callable[..., Any],
    abstract_eval: Shaper,
    transposes: tuple[BilinearRule, BilinearRule],
    *,
    batch: Any = None,
    **tags: Any,
) -> Primitive:
    """Make an op that is linear in each of two operands from two ``transpose(ct, other, aval, **params)``."""

    def pullback(k: int) -> Pullback:
        def pull(ct: Value, z: Value, xs: tuple[Value, ...], params: Params, shape: Shape, dtype: DType) -> Value:
            return to_lower_level(transposes[k](ct, xs[1 - k], Aval(shape, dtype), **params))

        return pull

    def push(ts: tuple[Value | None, ...], z: Value, xs: tuple[Value, ...], params: Params) -> Value:
        p = lookup(name)
        x, y = xs
        parts = [
            to_lower_level(bind(p, *pair, **params))
            for t, pair in ((ts[0], (ts[0], y)), (ts[1], (x, ts[1])))
            if t is not None
        ]
        return parts[0] if len(parts) == 1 else parts[0] + parts[1]

    return define(
        name=name,
        kind="bilinear",
        impl=impl,
        abstract_eval=abstract_eval,
        vjps=(pullback(0), pullback(1)),
        reads=(4, 2),
        jvp=push,
        batch=batch,
        **tags,
    )
