"""Custom call: functions called by one op, under `custom_vjp`, `custom_jvp` and `checkpoint`.

Such a function runs as a single tape entry with a pullback of its own. Abstract traces keep it as one equation, so that
its rules survive until the graph is differentiated; plans take the function's own equations in.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np

from afx import pytree
from afx.core.array.array import Array
from afx.core.aval import SCALARS, Aval, aval_of
from afx.core.dtypes import DType, real_dtype, strengthen
from afx.core.graph import Graph
from afx.core.interpreter import evaluate
from afx.core.primitive import JointPullback, Params, Primitive, Value
from afx.core.tracing.graph_trace import GraphTrace
from afx.core.tracing.tracer import ClosureError, Tracer, bind, to_array, to_lower_level
from afx.errors import GraphError, TracerError
from afx.ops._kinds.higher_order import higher_order
from afx.ops.creation.creation import asarray
from afx.ops.manipulation.shape import astype
from afx.transforms._arguments import zero_like
from afx.transforms.cotangent_masks import ALIVE, MARKED, GraphPullback, select
from afx.transforms.graph_masks import live_inputs
from afx.transforms.jvp import jvp
from afx.transforms.vjp import Linearization, vjp
from afx.transforms.vmap import vmap

__all__ = ["CustomRules", "custom_call"]

Flat = Callable[..., Sequence[Any]]
MaskedBackward = Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], tuple[Sequence[Any], Sequence[Any]]]


@attrs.frozen(eq=False, repr=False)
class CustomRules:
    """A function of flat leaves, with the rules that replace its derivatives.

    Attributes:
        name: of the user's function.
        fn: leaves to output leaves.
        forward: leaves to (output leaves, residual leaves), for reverse mode.
        backward: (residual leaves, output cotangents) to one cotangent (or None) per leaf.
        masked: (residual leaves, output cotangents, their masks) to cotangents and masks, each None where there is none;
            None where the backward rule is a function of which nothing is known.
        push: (leaves, tangents) to (output leaves, output tangents), for forward mode; None where it has none.
        num_closed_over: how many of the last leaves are values that the user's functions close over, which have no rule.
    """

    name: str
    fn: Flat
    forward: Callable[[Sequence[Any]], tuple[Sequence[Any], Sequence[Any]]]
    backward: Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]
    push: Callable[[Sequence[Any], Sequence[Any]], tuple[Sequence[Any], Sequence[Any]]] | None
    num_closed_over: int = 0
    masked: MaskedBackward | None = None

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

        def forward(xs: Sequence[Any]) -> Any:
            return vmap(lambda *ys: tuple(map(list, self.forward(ys))), axes, axis_size=size)(*xs)

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

        def push(xs: Sequence[Any], ts: Sequence[Any]) -> Any:
            assert self.push is not None
            rule = self.push

            def one(ys: Any, us: Any) -> Any:
                return tuple(map(list, rule(ys, us)))

            return vmap(one, (list(axes), list(axes)), axis_size=size)(list(xs), list(ts))

        return CustomRules(
            self.name,
            fn,
            forward,
            backward,
            push if self.push is not None else None,
            self.num_closed_over,
            masked if self.masked is not None else None,
        )


def custom_call(rules: CustomRules, leaves: Sequence[Any]) -> list[Any]:
    """Run an opaque function; without traced leaves it is simply called. The caller's memory is copied."""
    leaves = [asarray(x) if issubclass(x.__class__, np.ndarray) else x for x in leaves]
    if not any(isinstance(x, Tracer) for x in leaves):
        outs = list(rules.fn(*leaves))
        if not any(isinstance(z, Tracer) for z in outs):
            return outs
    else:
        with contextlib.suppress(ClosureError):
            return list(bind(custom_call_p, *leaves, rules=rules))
    lifted, own = _closed(rules, leaves)
    return list(bind(custom_call_p, *leaves, *lifted, rules=own))


def _closed(rules: CustomRules, leaves: Sequence[Any]) -> tuple[list[Any], CustomRules]:
    """Return the traced values that rules close over, and rules that take them as leaves behind the others."""
    avals = [aval_of(x) for x in leaves]
    n = len(avals)
    fn, of_fn = _lifting(rules.name, rules.fn, avals)
    outs = [Aval(a.aval.shape, a.aval.dtype) for a in fn.outputs]
    forward, of_forward = _lifting(rules.name, lambda *xs: [z for part in rules.forward(xs) for z in part], avals)
    kept = [Aval(a.aval.shape, a.aval.dtype) for a in forward.outputs[len(outs) :]]
    needed: list[bool] = []

    def pulled(*v: Any) -> list[Any]:
        cts = rules.backward(v[: len(kept)], v[len(kept) :])
        needed[:] = [g is not None for g in cts]
        return [g for g in cts if g is not None]

    back, of_back = _lifting(rules.name, pulled, [*kept, *outs])
    lifted = list({id(x): x for x in (*of_fn, *of_forward, *of_back)}.values())

    def pick(v: Sequence[Any], some: Sequence[Any]) -> list[Any]:
        return [v[next(k for k, y in enumerate(lifted) if y is x)] for x in some]

    def ahead(xs: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        found = evaluate(forward, *xs[:n], *pick(xs[n:], of_forward))
        return found[: len(outs)], [*found[len(outs) :], *xs[n:]]

    def behind(held: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        own = held[len(kept) :]
        found = iter(evaluate(back, *held[: len(kept)], *cts, *pick(own, of_back)))
        return [*[next(found) if need else None for need in needed], *[None] * len(own)]

    push = None if rules.push is None else _closed_push(rules, avals, lifted)
    return lifted, CustomRules(
        rules.name, lambda *v: evaluate(fn, *v[:n], *pick(v[n:], of_fn)), ahead, behind, push, len(lifted)
    )


def _closed_push(rules: CustomRules, avals: Sequence[Aval], lifted: list[Any]) -> Any:
    """Return the forward-mode rule as a graph; values that only it closes over become known with the others."""
    n = len(avals)
    rule = rules.push
    assert rule is not None
    tangents = [Aval(a.shape, a.dtype) for a in avals]
    graph, own = _lifting(rules.name, lambda *v: [z for part in rule(v[:n], v[n:]) for z in part], [*avals, *tangents])
    lifted += [x for x in own if not any(x is y for y in lifted)]
    places = [next(k for k, y in enumerate(lifted) if y is x) for x in own]

    def push(xs: Sequence[Any], ts: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        found = evaluate(graph, *xs[:n], *ts[:n], *[xs[n + k] for k in places])
        return found[: len(found) // 2], found[len(found) // 2 :]

    return push


def _lifting(name: str, fn: Callable[..., Any], avals: Sequence[Aval]) -> tuple[Graph, list[Any]]:
    """Trace a function of leaves; return its graph and the tracers that it closes over, its further inputs."""
    trace = GraphTrace(name)
    try:
        graph = trace.finish([asarray(z) for z in fn(*[trace.input(a) for a in avals])])
    finally:
        trace.alive = False
    return graph, trace.lifted


def _check_closed(rules: CustomRules, moving: Sequence[bool]) -> None:
    """Raise where a derivative by a value is wanted that the user's functions close over."""
    if rules.num_closed_over and any(moving[-rules.num_closed_over :]):
        raise TracerError(
            f"{rules.name}: the function closes over a traced array, by which its rule gives no derivative; "
            "pass it to the function as an argument"
        )


def _run(*xs: Any, rules: CustomRules) -> tuple[Any, ...]:
    outs = [asarray(z) for z in rules.fn(*[to_array(x) for x in xs])]
    if any(isinstance(z, Tracer) for z in outs):
        raise ClosureError(
            f"{rules.name}: the function closes over a traced array; pass it to the function as an argument"
        )
    return tuple([z.numpy() for z in outs])


def _abstract(*avals: Aval, rules: CustomRules) -> tuple[Aval, ...]:
    return rules.abstract(avals)


def _inline(xs: tuple[Value, ...], params: Params) -> tuple[Value, ...]:
    return tuple([asarray(z) for z in params["rules"].fn(*xs)])


def _record(
    xs: tuple[Value, ...], params: Params, wanted: tuple[bool, ...]
) -> tuple[Sequence[Value], Sequence[Value], JointPullback]:
    rules: CustomRules = params["rules"]
    _check_closed(rules, wanted)
    outs, residuals = rules.forward(_strong(xs, xs))

    def joint(ct: Value, z: Value, kept: tuple[Value, ...], _: Params, avals: tuple[Aval | None, ...]) -> list[Value]:
        return list(rules.backward([to_array(v) for v in kept], [to_array(c) for c in ct]))

    results = [asarray(z) for z in outs]
    ends = [aval_of(z) for z in results]
    operands = [aval_of(x) for x in xs]

    def masked(
        kinds: Sequence[int], cts: Sequence[Value], masks: Sequence[Value], kept: Sequence[Value]
    ) -> tuple[Sequence[Value], Sequence[Value]]:
        given, marks = iter(cts), iter(masks)
        full = [next(given) if kind else np.zeros(a.shape, a.dtype) for kind, a in zip(kinds, ends, strict=True)]
        alive = [next(marks) if k >= MARKED else np.full(a.shape, k == ALIVE) for k, a in zip(kinds, ends, strict=True)]
        full, alive = [to_array(c) for c in full], [to_array(m) for m in alive]
        if rules.masked is not None:
            return rules.masked(kept, full, alive)
        found = rules.backward(kept, full)
        return _cleaned_by_structure(rules, operands, found, [to_lower_level(m) for m in alive])

    return (
        results,
        [asarray(r) for r in _strong(residuals, [*results, *xs])],
        GraphPullback(joint, masked, makes_masks=rules.masked is not None, is_inlined=True),
    )


def _cleaned_by_structure(
    rules: Any, operands: Sequence[Aval], found: Sequence[Any], alive: Sequence[Value]
) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return cotangents that a user's rule gave, with zeros where the results that are alive do not read the operand."""
    graph, _ = _lifting(rules.name, rules.fn, [Aval(a.shape, a.dtype) for a in operands])
    count = len(operands)
    masks = [
        np.zeros(a.shape, bool) if m is None else m
        for m, a in zip(live_inputs(graph, alive)[:count], operands, strict=True)
    ]
    gs = [g if g is None else select(m, asarray(g)) for g, m in zip(found, masks, strict=True)]
    return gs, [None if g is None else m for g, m in zip(gs, masks, strict=True)]


def _strong(xs: Sequence[Any], beside: Sequence[Any]) -> list[Any]:
    """Return values with Python's floats in the floating dtype of those beside them, where these have one."""
    dtypes = [aval.dtype for aval in map(aval_of, beside) if aval.dtype.kind in "fc" and not aval.weak]
    if not dtypes:
        return list(xs)
    dtype = np.result_type(*dtypes)
    return [_as_strong(x, dtype) if (aval := aval_of(x)).weak and aval.dtype.kind in "fc" else x for x in xs]


def _as_strong(x: Any, dtype: DType) -> Any:
    if x.__class__ in SCALARS:
        return strengthen(x, dtype)
    return astype(x, dtype if x.dtype.kind == "c" else real_dtype(dtype))


def _jvp(ts: tuple[Value | None, ...], z: Value, xs: tuple[Value, ...], params: Params) -> Value:
    rules: CustomRules = params["rules"]
    if rules.push is None:
        raise TracerError(
            f"{rules.name}: has no forward-mode derivative: it was made with custom_vjp; "
            "use reverse mode (grad, vjp, jacrev), or custom_jvp, which serves both"
        )
    _check_closed(rules, [t is not None for t in ts])
    full = [to_array(zero_like(x)) if t is None else to_array(t) for t, x in zip(ts, xs, strict=True)]
    return rules.push(_strong(xs, xs), full)


def _batch(size: int, xs: tuple[Value, ...], batched: tuple[bool, ...], params: Params) -> Value:
    return custom_call(params["rules"].batched(size, batched), xs)


custom_call_p: Primitive = higher_order(
    "custom_call", _run, _abstract, _batch, _record, _jvp, decompose=_inline, opaque=True
)


class Flattened:
    """A function of pytrees as a function of leaves; it remembers the structure of its last result."""

    __slots__ = ("fn", "out_tree", "treedef")

    def __init__(self, fn: Callable[..., Any], treedef: Any) -> None:
        self.fn: Callable[..., Any] = fn
        self.treedef: Any = treedef
        self.out_tree: Any = None

    def __call__(self, *leaves: Any) -> list[Any]:
        args, kwargs = pytree.unflatten(self.treedef, list(leaves))
        outs, self.out_tree = pytree.flatten(self.fn(*args, **kwargs))
        return outs


def pull_through(fn: Flat, xs: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
    """Return the cotangents of the inexact ones of ``xs`` through a flat function, None for the others."""
    moving = [aval_of(x).dtype.kind in "fc" for x in xs]

    def of_moving(*ys: Any) -> list[Array]:
        values = iter(ys)
        return [asarray(z) for z in fn(*[next(values) if m else x for x, m in zip(xs, moving, strict=True)])]

    if not any(moving):
        return [None] * len(moving)
    _, pullback = vjp(of_moving, *[x for x, m in zip(xs, moving, strict=True) if m])
    found = iter(pullback(list(cts)))
    return [next(found) if m else None for m in moving]


def pull_masked(fn: Flat, xs: Sequence[Any], cts: Sequence[Any], masks: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return what `pull_through` does for cotangents with masks, and the masks of the inexact ones of ``xs``."""
    moving = [aval_of(x).dtype.kind in "fc" for x in xs]
    record = Linearization("backward pass")
    try:
        entered = iter(record.enter([x for x, m in zip(xs, moving, strict=True) if m]))
        outs = [asarray(z) for z in fn(*[next(entered) if m else x for x, m in zip(xs, moving, strict=True)])]
    finally:
        record.tape.finish()
    own = [k for k, z in enumerate(outs) if record.owns(z)]
    gs, alive = record.pull_masked(*[[part[k] for k in own] for part in (outs, cts, masks)])
    found, marks = iter(gs), iter(alive)
    return [next(found) if m else None for m in moving], [next(marks) if m else None for m in moving]


def push_through(fn: Flat, xs: Sequence[Any], ts: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return outputs and tangents of a flat function along the tangents of its inexact inputs."""
    moving = [aval_of(x).dtype.kind in "fc" for x in xs]

    def of_moving(*ys: Any) -> list[Array]:
        values = iter(ys)
        return [asarray(z) for z in fn(*[next(values) if m else x for x, m in zip(xs, moving, strict=True)])]

    if not any(moving):
        outs = of_moving()
        return outs, [to_array(zero_like(z)) for z in outs]
    chosen = [(x, t) for x, t, m in zip(xs, ts, moving, strict=True) if m]
    return jvp(of_moving, tuple([x for x, _ in chosen]), tuple([t for _, t in chosen]))
