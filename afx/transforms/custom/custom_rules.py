"""Custom rules: a function of leaves with derivatives of its own, mapped over a batch axis or closed over traced values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from afx.core.aval import Aval, aval_of
from afx.core.graph import Graph
from afx.core.interpreter import evaluate
from afx.core.tracing.graph_trace import GraphTrace
from afx.core.tracing.tracer import ClosureError
from afx.errors import GraphError
from afx.ops.creation.creation import asarray
from afx.transforms.derivatives.flat_functions import Backward, Flat, Leaves, MaskedBackward, Push, Transposed
from afx.transforms.vmap import vmap

__all__ = ["CustomRules", "close_rules", "lift", "push_rules"]

Forward = Callable[[Leaves], tuple[Leaves, Leaves]]


@attrs.frozen(eq=False, repr=False)
class CustomRules:
    """A function of flat leaves, with the rules that replace its derivatives.

    Attributes:
        name: of the user's function.
        fn: leaves to output leaves.
        forward: leaves to (output leaves, residual leaves), for reverse mode; None where `push` alone is given (`push_rules`),
            so that the residuals are the leaves, and outputs differentiate by the same rules in every order.
        backward: (residual leaves, output cotangents) to one cotangent (or None) per leaf. Where `masked` is given, the
            cotangents of outputs that nothing reads are None.
        masked: (residual leaves, output cotangents, their masks) to cotangents and masks, each None where there is none;
            None where the backward rule is a function of which nothing is known.
        push: (leaves, tangents) to (output leaves, output tangents), for forward mode; None where it has none.
        num_closed_over: how many of the last leaves are values that the user's functions close over, which have no rule.
        left_out: tells whether the backward rule left elements out so far; None where that is not noted.
    """

    name: str
    fn: Flat
    forward: Forward | None
    backward: Backward
    push: Push | None
    num_closed_over: int = 0
    masked: MaskedBackward | None = None
    left_out: Callable[[], bool] | None = None

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> CustomRules:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        raise GraphError(
            f"pickle: {self.name} holds Python functions, which cannot be saved; save what they are made of"
        )

    def abstract(self, avals: Sequence[Aval]) -> tuple[Aval, ...]:
        """Return the Avals of the results for operands of these Avals."""
        trace = GraphTrace(self.name)
        try:
            outs = [aval_of(z) for z in self.fn(*[trace.input(a) for a in avals])]
        finally:
            trace.alive = False
        if trace.lifted:
            raise ClosureError(
                f"{self.name}: closes over a traced array: got {trace.lifted[0]!r}; "
                "pass it as an argument of the function"
            )
        return tuple([Aval(a.shape, a.dtype) for a in outs])

    def batched(self, size: int, flags: tuple[bool, ...]) -> CustomRules:
        """Return the rules of the function mapped over a batch axis in front of the flagged leaves."""
        axes = tuple([0 if f else None for f in flags])

        def fn(*xs: Any) -> Any:
            return vmap(lambda *ys: list(self.fn(*ys)), axes, axis_size=size)(*xs)

        def push(xs: Sequence[Any], ts: Sequence[Any]) -> Any:
            assert self.push is not None
            rule = self.push

            def one(ys: Any, us: Any) -> Any:
                return tuple(map(list, rule(ys, us)))

            return vmap(one, (list(axes), list(axes)), axis_size=size)(list(xs), list(ts))

        if self.forward is None:
            return push_rules(self.name, fn, push, self.num_closed_over)

        def forward(xs: Sequence[Any]) -> Any:
            assert self.forward is not None
            rule = self.forward
            return vmap(lambda *ys: tuple(map(list, rule(ys))), axes, axis_size=size)(*xs)

        def backward(residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
            def one(rs: Any, cs: Any) -> Any:
                return list(self.backward(rs, cs))

            found = vmap(one, axis_size=size)(list(residuals), list(cts))
            return [g if f or g is None else g.sum(axis=0) for g, f in zip(found, flags, strict=True)]

        def masked(residuals: Sequence[Any], cts: Sequence[Any], masks: Sequence[Any]) -> tuple[list[Any], list[Any]]:
            assert self.masked is not None
            rule = self.masked

            def one(rs: Any, cs: Any, ms: Any) -> Any:
                return tuple(map(list, rule(rs, cs, ms)))

            found, alive = vmap(one, axis_size=size)(list(residuals), list(cts), list(masks))
            gs = [g if f or g is None else g.sum(axis=0) for g, f in zip(found, flags, strict=True)]
            return gs, [m if f or m is None else m.any(axis=0) for m, f in zip(alive, flags, strict=True)]

        return CustomRules(
            self.name,
            fn,
            forward,
            backward,
            push if self.push is not None else None,
            self.num_closed_over,
            masked if self.masked is not None else None,
        )


def push_rules(name: str, fn: Flat, push: Push, num_closed_over: int = 0) -> CustomRules:
    """Return rules of which all derivatives follow from one of forward mode.

    Args:
        name: of the user's function.
        fn: leaves to output leaves.
        push: (leaves, tangents) to (output leaves, output tangents), linear in the tangents.
        num_closed_over: how many of the last leaves have no rule.
    """
    rules = Transposed(push)
    return CustomRules(name, fn, None, rules.backward, push, num_closed_over, rules.masked, rules.left_out)


def close_rules(rules: CustomRules, leaves: Leaves) -> tuple[list[Any], CustomRules]:
    """Return the traced values that rules close over, and rules that take them as leaves behind the others."""
    avals = [aval_of(x) for x in leaves]
    n, closed = len(avals), _Closures(rules.name)
    fn, outs = closed.lift(rules.fn, avals)

    def run(*xs: Any) -> Leaves:
        return fn(xs[:n], xs[n:])

    push = None if rules.push is None else _close_push(rules.push, avals, closed)
    if rules.forward is None:
        assert push is not None
        return closed.values, push_rules(rules.name, run, push, len(closed.values))
    ahead, behind = _close_backward(rules.forward, rules.backward, avals, outs, closed)
    return closed.values, CustomRules(rules.name, run, ahead, behind, push, len(closed.values))


def lift(name: str, fn: Flat, avals: Sequence[Aval]) -> tuple[Graph, list[Any]]:
    """Trace a function of leaves; return its graph and the tracers that it closes over, its further inputs."""
    trace = GraphTrace(name)
    try:
        graph = trace.finish([asarray(z) for z in fn(*[trace.input(a) for a in avals])])
    finally:
        trace.alive = False
    return graph, trace.lifted


class _Closures:
    """Functions as graphs, and the traced values that they close over.

    Attributes:
        values: each of them once, in the order in which the functions were traced.
    """

    def __init__(self, name: str) -> None:
        self.values: list[Any] = []
        self._name = name

    def lift(self, fn: Flat, avals: Sequence[Aval]) -> tuple[Callable[[Leaves, Leaves], Leaves], list[Aval]]:
        """Return a function of leaves and of the values closed over, and the Avals of its results."""
        graph, own = lift(self._name, fn, avals)
        self.values += [x for x in own if not any(x is y for y in self.values)]
        indices = [next(k for k, y in enumerate(self.values) if y is x) for x in own]
        outs = [Aval(a.aval.shape, a.aval.dtype) for a in graph.outputs]
        return lambda xs, held: evaluate(graph, *xs, *[held[k] for k in indices]), outs


def _close_push(rule: Push, avals: Sequence[Aval], closed: _Closures) -> Push:
    n = len(avals)
    tangents = [Aval(a.shape, a.dtype) for a in avals]
    run, _ = closed.lift(lambda *v: [z for part in rule(v[:n], v[n:]) for z in part], [*avals, *tangents])

    def push(xs: Leaves, ts: Leaves) -> tuple[Leaves, Leaves]:
        found = run([*xs[:n], *ts[:n]], xs[n:])
        return found[: len(found) // 2], found[len(found) // 2 :]

    return push


def _close_backward(
    forward: Forward, backward: Backward, avals: Sequence[Aval], outs: Sequence[Aval], closed: _Closures
) -> tuple[Forward, Backward]:
    n, ends = len(avals), len(outs)
    run, found = closed.lift(lambda *xs: [z for part in forward(xs) for z in part], avals)
    kept, needed = found[ends:], list[bool]()

    def pulled(*v: Any) -> list[Any]:
        cts = backward(v[: len(kept)], v[len(kept) :])
        needed[:] = [g is not None for g in cts]
        return [g for g in cts if g is not None]

    pull, _ = closed.lift(pulled, [*kept, *outs])

    def ahead(xs: Leaves) -> tuple[Leaves, Leaves]:
        values = run(xs[:n], xs[n:])
        return values[:ends], [*values[ends:], *xs[n:]]

    def behind(held: Leaves, cts: Leaves) -> Leaves:
        own = held[len(kept) :]
        gs = iter(pull([*held[: len(kept)], *cts], own))
        return [*[next(gs) if need else None for need in needed], *[None] * len(own)]

    return ahead, behind
