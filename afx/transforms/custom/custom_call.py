"""Custom call: functions called by one op, under `custom_vjp`, `custom_jvp` and `checkpoint`.

Such a function runs as a single tape entry with a pullback of its own. Abstract traces keep it as one equation, so that
its rules survive until the graph is differentiated; plans take the function's own equations in.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from afx.core.array.array import Array
from afx.core.aval import SCALARS, Aval, aval_of
from afx.core.dtypes import DType, real_dtype, strengthen
from afx.core.primitive import JointPullback, Params, Primitive, Value
from afx.core.tracing.tracer import ClosureError, Tracer, bind, to_array, to_lower_level
from afx.errors import TracerError
from afx.ops._kinds.higher_order import higher_order
from afx.ops.creation.creation import asarray
from afx.ops.elementwise.comparison import isfinite, logical_not, logical_or, not_equal
from afx.ops.elementwise.where import where
from afx.ops.manipulation.shape import astype
from afx.transforms._arguments import zero_like
from afx.transforms.custom.custom_rules import CustomRules, close_rules, lift
from afx.transforms.derivatives.cotangent_masks import ALIVE, MARKED, GraphPullback
from afx.transforms.derivatives.flat_functions import Backward, Flat, MaskedBackward
from afx.transforms.derivatives.graph_masks import live_inputs

__all__ = ["clean_by_structure", "custom_call", "custom_call_p", "fill_dead", "strong"]


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

    def joint(ct: Value, z: Value, kept: tuple[Value, ...], _: Params, avals: tuple[Aval | None, ...]) -> list[Value]:
        return list(backward([to_array(v) for v in kept], [None if c is None else to_array(c) for c in ct]))

    def with_masks(
        kinds: Sequence[int], cts: Sequence[Value], masks: Sequence[Value], kept: Sequence[Value]
    ) -> tuple[Sequence[Value], Sequence[Value]]:
        return masked(kept, *fill_dead(kinds, cts, masks, ends))

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

    def joint(ct: Value, z: Value, kept: tuple[Value, ...], _: Params, avals: tuple[Aval | None, ...]) -> list[Value]:
        cts = [to_array(np.zeros(a.shape, a.dtype) if c is None else c) for c, a in zip(ct, ends, strict=True)]
        return list(backward([to_array(v) for v in kept], cts))

    def with_masks(
        kinds: Sequence[int], cts: Sequence[Value], masks: Sequence[Value], kept: Sequence[Value]
    ) -> tuple[Sequence[Value], Sequence[Value]]:
        full, alive = fill_dead(kinds, cts, masks, ends)
        gs = [None if g is None else asarray(g) for g in backward(kept, full)]
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
    return custom_call(rules, xs) if any(isinstance(x, Tracer) for x in xs) else rules.fn(*xs)


def clean_by_structure(
    name: str, fn: Flat, operands: Sequence[Aval], found: Sequence[Any], alive: Sequence[Value]
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
    for g, live, reach in zip(found, living, read, strict=False):  # the graph's further inputs are closed over
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
    if all([x.__class__ is Array for x in xs]):  # noqa: C419  # a list is quicker
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


def _jvp(ts: tuple[Value | None, ...], z: Value, xs: tuple[Value, ...], params: Params) -> Value:
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
    again = rules.forward is None and any(isinstance(x, Tracer) for x in primals)
    return custom_call(rules, primals) if again else outs, tangents


def _batch(size: int, xs: tuple[Value, ...], batched: tuple[bool, ...], params: Params) -> Value:
    return custom_call(params["rules"].batched(size, batched), xs)


custom_call_p: Primitive = higher_order(
    "custom_call", _run, _abstract, _batch, _record, _jvp, decompose=_inline, opaque=True
)
