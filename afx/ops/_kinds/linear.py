"""Linear and higher-order ops: rules that move a batch axis, derivatives by a transpose, ops that hold graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Concatenate, TypeAlias

from afx.core import Array, Aval, DType, Function, Shape, bind, shape_of, to_lower_level
from afx.core.primitive import (
    BatchRule,
    Bools,
    ConcreteVjp,
    DecomposeRule,
    Lowering,
    Params,
    Primitive,
    Pullback,
    Pushforward,
    Tangents,
    Value,
    Values,
    define,
    lookup,
)

# --- Batching rules: the kinds' rules that move a batch axis through an op


def batch_elementwise(name: str) -> Any:
    """Return the batching rule of an elementwise op: unbatched axes broadcast."""

    def batch(size: int, xs: Values, batched: Bools, params: Params) -> Value:
        p = lookup(name)
        rank = max([len(shape_of(x)) - b for x, b in zip(xs, batched, strict=True)])
        ys = [
            x.reshape((size,) + (1,) * (rank - x.ndim + 1) + x.shape[1:]) if b and x.ndim <= rank else x
            for x, b in zip(xs, batched, strict=True)
        ]
        return bind(p, *ys, **params)

    return batch


def batch_unchanged(name: str) -> Any:
    """Return the batching rule of an op of one operand that leaves leading axes alone: its axes count from the back."""

    def batch(size: int, xs: Values, batched: Bools, params: Params) -> Value:
        return bind(lookup(name), *xs, **params)

    return batch


def batch_along_axes(name: str) -> Any:
    """Return the batching rule of an op whose parameter ``axis``, if it has one, counts axes from the front.

    Each operand gets the batch axis in front, and ``axis``, an integer or several, moves by one.
    """

    def batch(size: int, xs: Values, batched: Bools, params: Params) -> Value:
        ys = [with_batch_axis(size, x, b) for x, b in zip(xs, batched, strict=True)]
        if "axis" in params:
            axis = params["axis"]
            params = {**params, "axis": tuple([a + 1 for a in axis]) if axis.__class__ is tuple else axis + 1}
        return bind(lookup(name), *ys, **params)

    return batch


def with_batch_axis(size: int, x: Value, batched: bool) -> Value:
    """Return an operand with the batch axis in front, repeated where it is the same for all."""
    return x if batched else bind(lookup("broadcast_to"), x, shape=(size, *shape_of(x)))


# --- Linear ops: kinds whose derivative is given by a transpose

LinearRule: TypeAlias = Callable[Concatenate[Array, Aval, ...], Array]
BilinearRule: TypeAlias = Callable[Concatenate[Array, Array, Aval, ...], Array]
Shaper: TypeAlias = Callable[..., Aval]


def linear(
    name: str, impl: Callable[..., Any], abstract_eval: Shaper, transpose: LinearRule, *, batch: Any = None, **tags: Any
) -> Primitive:
    """Make an op that is linear in its one operand from ``transpose(ct, aval, **params)``."""

    def pull(ct: Value, z: Value, xs: Values, params: Params, shape: Shape, dtype: DType) -> Value:
        return to_lower_level(transpose(ct, Aval(shape, dtype), **params))

    def push(ts: Tangents, z: Value, xs: Values, params: Params) -> Value:
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


def in_each_part(name: str) -> Function:
    """Return what an op that only moves and adds numbers makes of pairs of parts; other operands are indices."""

    def apply(*xs: Any, **params: Any) -> tuple[Value, Value]:
        def of_part(k: int) -> Any:
            return bind(lookup(name), *[x[k] if x.__class__ is tuple else x for x in xs], **params)

        return of_part(0), of_part(1)

    return apply


def _of_parts(name: str) -> Function:
    """Return what a bilinear op makes of the real and imaginary parts of its operands."""

    def multiply(x: Any, y: Any, **params: Any) -> tuple[Value, Value]:
        def times(u: Any, v: Any) -> Any:
            return bind(lookup(name), u, v, **params)

        (a, b), (c, d) = x, y
        return times(a, c) - times(b, d), times(a, d) + times(b, c)

    return multiply


def bilinear(
    name: str,
    impl: Function,
    abstract_eval: Shaper,
    transposes: tuple[BilinearRule, BilinearRule],
    *,
    batch: Any = None,
    **tags: Any,
) -> Primitive:
    """Make an op that is linear in each of two operands from two ``transpose(ct, other, aval, **params)``."""

    def pullback(k: int) -> Pullback:
        def pull(ct: Value, z: Value, xs: Values, params: Params, shape: Shape, dtype: DType) -> Value:
            return to_lower_level(transposes[k](ct, xs[1 - k], Aval(shape, dtype), **params))

        return pull

    def push(ts: Tangents, z: Value, xs: Values, params: Params) -> Value:
        pairs = [pair for t, pair in ((ts[0], (ts[0], xs[1])), (ts[1], (xs[0], ts[1]))) if t is not None]
        parts = [to_lower_level(bind(lookup(name), *pair, **params)) for pair in pairs]
        return parts[0] if len(parts) == 1 else parts[0] + parts[1]

    return define(
        name, "bilinear", impl, abstract_eval,
        vjps=(pullback(0), pullback(1)), reads=(4, 2), jvp=push, batch=batch, parts=_of_parts(name), **tags,
    )  # fmt: skip


# --- Higher-order ops: primitives whose parameters hold graphs or functions, and which return several values


def higher_order(
    name: str,
    impl: Function,
    abstract_eval: Function,
    batch: BatchRule,
    concrete_vjp: ConcreteVjp,
    jvp: Pushforward,
    *,
    lowering: Lowering | None = None,
    decompose: DecomposeRule | None = None,
    opaque: bool = False,
    canonical: str = "",
) -> Primitive:
    """Register an op that runs what its parameters hold.

    Args:
        name: its name.
        impl: runs it on bare values.
        abstract_eval: the shape rule.
        batch: the batching rule.
        concrete_vjp: ``(xs, params, …)`` to the results and their pullback, with concrete operands.
        jvp: the forward rule.
        lowering: how it is compiled: its cost, and its control flow with the graphs in sight.
        decompose: inlines the graph into others.
        opaque: whether it stays one equation until the graph is compiled.
        canonical: its role in simplification.
    """
    return define(
        name, "custom", impl, abstract_eval, batch=batch, decompose=decompose, opaque=opaque, multiple_results=True,
        concrete_vjp=concrete_vjp, jvp=jvp, lowering=lowering or Lowering(), canonical=canonical,
    )  # fmt: skip
