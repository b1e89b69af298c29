"""Custom rules: functions of leaves with derivatives and batch rules of their own, called by one op."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np

from afx.core import SCALARS, Array, Aval, Bools, JointPullback, Params, Primitive, Tangents, Value, Values, aval_of
from afx.core.dtypes import DType, real_dtype, strengthen
from afx.core.graph import Graph
from afx.core.tracing.tracer import ClosureError, any_traced, bind, to_array, to_lower_level
from afx.core.tracing.traces import GraphTrace, evaluate
from afx.errors import GraphError, TracerError
from afx.ops import asarray, astype, isfinite, logical_not, logical_or, not_equal, where
from afx.ops._kinds.linear import higher_order
from afx.transforms._arguments import zero_like
from afx.transforms.derivatives.cotangent_masks import ALIVE, MARKED, GraphPullback
from afx.transforms.derivatives.jvp import Backward, Flat, Leaves, MaskedBackward, Push, Transposed
from afx.transforms.derivatives.residuals import live_inputs
from afx.transforms.vmap import vmap

# --- Custom rules: a function of leaves with derivatives of its own, mapped over a batch axis or closed over traced
# values

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
        with GraphTrace(self.name) as trace:
            outs = [aval_of(z) for z in self.fn(*[trace.input(a) for a in avals])]
        if trace.lifted:
            raise ClosureError(
                f"{self.name}: closes over a traced array: got {trace.lifted[0]!r}; "
                "pass it as an argument of the function"
            )
        return tuple([Aval(a.shape, a.dtype) for a in outs])

    def batched(self, size: int, flags: Bools) -> CustomRules:
        """Return the rules of the function mapped over a batch axis in front of the flagged leaves."""
        axes = tuple([0 if f else None for f in flags])

        def unbatched(reduce: Callable[..., Any], zs: Sequence[Any]) -> list[Any]:
            """Return what belongs to leaves: reduced over the batch where a leaf has no axis of it."""
            return [z if f or z is None else reduce(z, axis=0) for z, f in zip(zs, flags, strict=True)]

        def mapped(rule: Callable[..., Any], *in_axes: Any) -> Callable[..., Any]:
            """Return a rule of sequences, from which several come, over the batch."""
            over = vmap(lambda *ys: tuple(map(list, rule(*ys))), in_axes or 0, axis_size=size)
            return lambda *xs: over(*map(list, xs))

        def fn(*xs: Any) -> Any:
            return vmap(lambda *ys: list(self.fn(*ys)), axes, axis_size=size)(*xs)

        push = None if self.push is None else mapped(self.push, list(axes), list(axes))
        if self.forward is None:
            assert push is not None
            return push_rules(self.name, fn, push, self.num_closed_over)

        def backward(residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
            return unbatched(Array.sum, mapped(lambda *ys: [self.backward(*ys)])(residuals, cts)[0])

        def masked(residuals: Sequence[Any], cts: Sequence[Any], masks: Sequence[Any]) -> tuple[list[Any], list[Any]]:
            assert self.masked is not None
            gradients, alive = mapped(self.masked)(residuals, cts, masks)
            return unbatched(Array.sum, gradients), unbatched(Array.any, alive)

        forward = mapped(self.forward, list(axes))
        count = self.num_closed_over
        return CustomRules(self.name, fn, forward, backward, push, count, None if self.masked is None else masked)


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
    forward, backward = _close_backward(rules.forward, rules.backward, avals, outs, closed)
    return closed.values, CustomRules(rules.name, run, forward, backward, push, len(closed.values))


def lift(name: str, fn: Flat, avals: Sequence[Aval]) -> tuple[Graph, list[Any]]:
    """Trace a function of leaves; return its graph and the tracers that it closes over, its further inputs."""
    with GraphTrace(name) as trace:
        return trace.finish([asarray(z) for z in fn(*[trace.input(a) for a in avals])]), trace.lifted


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
        results = run([*xs[:n], *ts[:n]], xs[n:])
        return results[: len(results) // 2], results[len(results) // 2 :]

    return push


def _close_backward(
    forward: Forward, backward: Backward, avals: Sequence[Aval], outs: Sequence[Aval], closed: _Closures
) -> tuple[Forward, Backward]:
    """Return both rules with the values that they close over as further operands and residuals."""
    n, ends = len(avals), len(outs)
    run, closed_over = closed.lift(lambda *xs: [z for part in forward(xs) for z in part], avals)
    residuals, needed = closed_over[ends:], list[bool]()

    def pulled(*v: Any) -> list[Any]:
        cts = backward(v[: len(residuals)], v[len(residuals) :])
        needed[:] = [g is not None for g in cts]
        return [g for g in cts if g is not None]

    pull, _ = closed.lift(pulled, [*residuals, *outs])

    def ahead(xs: Leaves) -> tuple[Leaves, Leaves]:
        values = run(xs[:n], xs[n:])
        return values[:ends], [*values[ends:], *xs[n:]]

    def behind(leaves: Leaves, cts: Leaves) -> Leaves:
        own = leaves[len(residuals) :]
        gs = iter(pull([*leaves[: len(residuals)], *cts], own))
        return [*[next(gs) if need else None for need in needed], *[None] * len(own)]

    return ahead, behind


# --- Custom call: functions called by one op, under `custom_vjp`, `custom_jvp` and `checkpoint`
#
# Such a function runs as a single tape entry with a pullback of its own. Abstract traces keep it as one equation, so
# that its rules survive until the graph is differentiated; plans take the function's own equations in.


def custom_call(rules: CustomRules, leaves: Sequence[Any]) -> list[Any]:
    """Run an opaque function; without traced leaves it is simply called. The caller's memory is copied."""
    leaves = [asarray(x) if issubclass(x.__class__, np.ndarray) else x for x in leaves]
    if not any_traced(leaves):
        outs = list(rules.fn(*leaves))
        if not any_traced(outs):
            return outs
    else:
        with contextlib.suppress(ClosureError):
            return list(bind(custom_call_p, *leaves, rules=rules))
    lifted, own = close_rules(rules, leaves)
    return list(bind(custom_call_p, *leaves, *lifted, rules=own))


def _check_closed(rules: CustomRules, moving: Sequence[bool]) -> None:
    """Raise where a derivative by a value is wanted that the user's functions close over."""
    if rules.num_closed_over and any(moving[-rules.num_closed_over :]):
        raise TracerError(
            f"{rules.name}: the function closes over a traced array, by which its rule gives no derivative; "
            "pass it to the function as an argument"
        )


def _run(*xs: Any, rules: CustomRules) -> tuple[Any, ...]:
    outs = [asarray(z) for z in rules.fn(*[to_array(x) for x in xs])]
    if any_traced(outs):
        raise ClosureError(
            f"{rules.name}: the function closes over a traced array; pass it to the function as an argument"
        )
    return tuple([z.numpy() for z in outs])


def _abstract(*avals: Aval, rules: CustomRules) -> tuple[Aval, ...]:
    return rules.abstract(avals)


def _record(xs: Values, params: Params, wanted: Bools) -> tuple[Sequence[Value], Sequence[Value], JointPullback]:
    rules: CustomRules = params["rules"]
    _check_closed(rules, wanted)
    primals = strong(xs, xs)
    outs, residuals = (_differentiable(rules, primals), primals) if rules.forward is None else rules.forward(primals)

    results = [asarray(z) for z in outs]
    ends = [aval_of(z) for z in results]
    if rules.masked is None:
        pullback = _user_pullback(rules.name, rules.fn, rules.backward, [aval_of(x) for x in xs], ends)
    else:
        pullback = _known_pullback(rules.backward, rules.masked, ends, rules.left_out)
    return results, [asarray(r) for r in strong(residuals, [*results, *xs])], pullback


def _known_pullback(
    backward: Backward, masked: MaskedBackward, ends: Sequence[Aval], left_out: Callable[[], bool] | None
) -> GraphPullback:
    """Return the pullback by backward rules of which one keeps masks.

    Args:
        backward: as in `CustomRules`, likewise the others.
        masked: with masks.
        ends: of the results.
        left_out: tells whether the rule left elements out so far.
    """

    def joint(ct: Value, z: Value, residuals: Values, _: Params, avals: tuple[Aval | None, ...]) -> list[Value]:
        return list(backward([to_array(v) for v in residuals], [None if c is None else to_array(c) for c in ct]))

    def with_masks(
        kinds: Sequence[int], cts: Sequence[Value], masks: Sequence[Value], residuals: Sequence[Value]
    ) -> tuple[Sequence[Value], Sequence[Value]]:
        return masked(residuals, *fill_dead(kinds, cts, masks, ends))

    return GraphPullback(joint, with_masks, makes_masks=True, is_inlined=True, left_out=left_out)


def _user_pullback(
    name: str, fn: Flat, backward: Backward, operands: Sequence[Aval], ends: Sequence[Aval]
) -> GraphPullback:
    """Return the pullback by a user's backward rule, of which nothing is known, and which takes arrays.

    Args:
        name: of the user's function.
        fn: leaves to output leaves.
        backward: the rule.
        operands: the Avals of the leaves.
        ends: those of the results.
    """

    def joint(ct: Value, z: Value, residuals: Values, _: Params, avals: tuple[Aval | None, ...]) -> list[Value]:
        cts = [to_array(np.zeros(a.shape, a.dtype) if c is None else c) for c, a in zip(ct, ends, strict=True)]
        return list(backward([to_array(v) for v in residuals], cts))

    def with_masks(
        kinds: Sequence[int], cts: Sequence[Value], masks: Sequence[Value], residuals: Sequence[Value]
    ) -> tuple[Sequence[Value], Sequence[Value]]:
        full, alive = fill_dead(kinds, cts, masks, ends)
        gs = [None if g is None else asarray(g) for g in backward(residuals, full)]
        return clean_by_structure(name, fn, operands, gs, [to_lower_level(m) for m in alive])

    return GraphPullback(joint, with_masks, makes_masks=False, is_inlined=True)


def fill_dead(
    kinds: Sequence[int], cts: Sequence[Value], masks: Sequence[Value], ends: Sequence[Aval]
) -> tuple[list[Array], list[Array]]:
    """Return a cotangent and a mask for every result, from those that are not dead and those that are marked."""
    given, marks = iter(cts), iter(masks)
    full = [next(given) if kind else np.zeros(a.shape, a.dtype) for kind, a in zip(kinds, ends, strict=True)]
    alive = [next(marks) if k >= MARKED else np.full(a.shape, k == ALIVE) for k, a in zip(kinds, ends, strict=True)]
    return [to_array(c) for c in full], [to_array(m) for m in alive]


def _differentiable(rules: CustomRules, xs: Sequence[Any]) -> Sequence[Any]:
    """Return the outputs, which outer traces differentiate by these rules too."""
    return custom_call(rules, xs) if any_traced(xs) else rules.fn(*xs)


def clean_by_structure(
    name: str, fn: Flat, operands: Sequence[Aval], cotangents: Sequence[Any], alive: Sequence[Value]
) -> tuple[list[Any], list[Any]]:
    """Return cotangents that a user's rule gave, and their masks, as far as the structure of the function tells.

    An element that only dead results read is 0 where the rule gives nothing finite. All else that it gives counts: a rule
    may mix elements, or give a cotangent to an operand that the function does not read at all.
    """
    graph, _ = lift(name, fn, [Aval(a.shape, a.dtype) for a in operands])
    living = live_inputs(graph, alive)
    read = live_inputs(graph, [np.ones(a.aval.shape, bool) for a in graph.outputs])
    gs: list[Any] = []
    masks: list[Any] = []
    for g, live, reach in zip(cotangents, living, read, strict=False):  # the graph's further inputs are closed over
        if g is None:
            gs.append(None)
            masks.append(None)
            continue
        alive_at = np.zeros(g.shape, bool) if live is None else live
        free = np.ones(g.shape, bool) if reach is None else logical_not(reach)
        ct = where(logical_or(logical_or(alive_at, free), isfinite(g)), g, np.zeros((), g.dtype))
        gs.append(ct)
        masks.append(logical_or(alive_at, not_equal(ct, 0)))
    return gs, masks


def strong(xs: Sequence[Any], beside: Sequence[Any]) -> list[Any]:
    """Return values with Python's floats in the floating dtype of those beside them, where these have one."""
    if all([x.__class__ is Array for x in xs]):
        return list(xs)
    dtypes = [aval.dtype for aval in map(aval_of, beside) if aval.dtype.kind in "fc" and not aval.weak]
    if not dtypes:
        return list(xs)
    dtype = np.result_type(*dtypes)
    return [_as_strong(x, dtype) if (aval := aval_of(x)).weak and aval.dtype.kind in "fc" else x for x in xs]


def _as_strong(x: Any, dtype: DType) -> Any:
    if x.__class__ in SCALARS:
        return strengthen(x, dtype)
    return astype(x, dtype if x.dtype.kind == "c" else real_dtype(dtype))


def _jvp(ts: Tangents, z: Value, xs: Values, params: Params) -> Value:
    rules: CustomRules = params["rules"]
    if rules.push is None:
        raise TracerError(
            f"{rules.name}: has no forward-mode derivative: it was made with custom_vjp; "
            "use reverse mode (grad, vjp, jacrev), or custom_jvp, which serves both"
        )
    _check_closed(rules, [t is not None for t in ts])
    full = [to_array(zero_like(x)) if t is None else to_array(t) for t, x in zip(ts, xs, strict=True)]
    primals = strong(xs, xs)
    outs, tangents = rules.push(primals, full)
    # the rule's own outputs would have derivatives of their own, where an outer trace looks on
    again = rules.forward is None and any_traced(primals)
    return custom_call(rules, primals) if again else outs, tangents


custom_call_p: Primitive = higher_order(
    "custom_call",
    _run,
    _abstract,
    lambda size, xs, batched, params: custom_call(params["rules"].batched(size, batched), xs),
    _record,
    _jvp,
    decompose=lambda xs, params: tuple(map(asarray, params["rules"].fn(*xs))),
    opaque=True,
)
