"""Higher-order ops: primitives whose parameters hold graphs or functions, and which return several values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from afx.core.primitive import (
    Algebra,
    BatchRule,
    ConcreteVjp,
    DecomposeRule,
    Derivative,
    Lowering,
    Primitive,
    Pushforward,
    register,
)

__all__ = ["higher_order"]


def higher_order(
    name: str,
    impl: Callable[..., Any],
    abstract_eval: Callable[..., Any],
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
    return register(
        Primitive(
            name=name,
            kind="custom",
            impl=impl,
            abstract_eval=abstract_eval,
            batch=batch,
            decompose=decompose,
            opaque=opaque,
            multiple_results=True,
            derivative=Derivative(concrete_vjp=concrete_vjp, jvp=jvp),
            lowering=lowering or Lowering(),
            algebra=Algebra(canonical=canonical),
        )
    )
