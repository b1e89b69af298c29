"""`while_loop` and `fori_loop`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from afx import pytree
from afx.control.programs import Body, body_of, build, check_same, inexact, is_abstract, strong, zeros_of
from afx.control.scan import scan
from afx.core.array import Array, ArrayLike
from afx.core.aval import Aval, aval_of
from afx.core.batch import BatchTracer
from afx.core.primitive import JointPullback, Params, Primitive, Value, register
from afx.core.tracer import Tracer, bind, raised
from afx.errors import ShapeError, TracerError
from afx.ops.creation import asarray
from afx.ops.ranges import arange
from afx.ops.reductions import any as any_
from afx.ops.selection import where
from afx.ops.shaping import broadcast_to, reshape
from afx.runtime.evaluate import evaluate
from afx.transforms.call import Compiled
from afx.transforms.leaves import name_of

__all__ = ["fori_loop", "while_loop"]

C = TypeVar("C")


def while_loop(cond_fn: Callable[[C], Any], body_fn: Callable[[C], C], init: C) -> C:
    """Run ``carry = body_fn(carry)`` as long as ``cond_fn(carry)`` holds, and return the carry.

    Differentiable in reverse mode too: values are saved as they come. Under `jit` it is one equation, of first-order
    reverse mode; elsewhere a Python loop, differentiable to any order.

    Args:
        cond_fn: the carry to a boolean scalar.
        body_fn: the carry to the next one, of the same structure, shapes and dtypes.
        init: the first carry, any pytree.

    Raises:
        ShapeError, TreeError: the carry changes, or the condition is no scalar; the message names the path.

    >>> import afx
    >>> while_loop(lambda x: x < 100.0, lambda x: x * 2.0, 1.0)
    Array(128., dtype=float32)
    """
    flat, tree = pytree.flatten(init)
    carry = strong(flat)
    while True:
        going = cond_fn(pytree.unflatten(tree, carry))
        if aval_of(going, "while_loop").shape != ():
            raise ShapeError(f"while_loop: the condition is a scalar: got {aval_of(going)}; reduce it with all or any")
        if _unknown(going):
            last: C = _traced(cond_fn, body_fn, carry, tree)
            return last
        if not going:
            return pytree.unflatten(tree, carry)
        found, found_tree = pytree.flatten(body_fn(pytree.unflatten(tree, carry)))
        check_same(found, found_tree, carry, tree, "while_loop", "the carry")
        carry = strong(found)


def fori_loop(lower: ArrayLike, upper: ArrayLike, body_fn: Callable[[Array, C], C], init: C) -> C:
    """Run ``carry = body_fn(i, carry)`` for i from ``lower`` to ``upper - 1`` and return the carry.

    Args:
        lower: the first index; with a known upper one the loop is a `scan`, else a `while_loop`.
        upper: one past the last index.
        body_fn: index and carry to the next carry, of the same structure, shapes and dtypes.
        init: the first carry, any pytree.

    >>> import afx
    >>> fori_loop(0, 3, lambda i, x: x * 2.0, 1.0)
    Array(8., dtype=float32)
    """
    if not _unknown(lower) and not _unknown(upper):
        steps = arange(_int(lower), max(_int(upper), _int(lower)))

        def step(c: C, i: Any) -> tuple[C, None]:
            return body_fn(i, c), None

        return scan(step, init, steps)[0]

    def body(state: Any) -> Any:
        i, carry = state
        return i + 1, body_fn(i, carry)

    start: Any = (asarray(lower), init)
    end: C = while_loop(lambda state: state[0] < upper, body, start)[1]
    return end


def _int(x: Any) -> int:
    return int(x)


def _unknown(x: Any) -> bool:
    """Tell whether a value cannot steer a Python loop: it is abstract, or differs along a batch."""
    while isinstance(x, Tracer):
        if is_abstract(x) or isinstance(x, BatchTracer):
            return True
        x = x._value
    return False


def _traced(cond_fn: Any, body_fn: Any, carry: list[Any], tree: Any) -> Any:
    avals = [c.aval for c in carry]
    pair = pytree.structure((pytree.unflatten(tree, carry),))

    def step(c: Any) -> Any:
        found, found_tree = pytree.flatten(body_fn(c))
        check_same(found, found_tree, carry, tree, "while_loop", "the carry")
        return found

    test = body_of(cond_fn, pair, avals, f"while_loop's condition {name_of(cond_fn)}")
    body = body_of(step, pair, avals, f"while_loop of {name_of(body_fn)}")
    counts = (len(test.lifted), len(body.lifted))
    consts = [*test.lifted, *body.lifted]
    programs = {"test": _consts_first(test, len(carry)), "body": _consts_first(body, len(carry))}
    return pytree.unflatten(tree, list(bind(while_p, *consts, *carry, counts=counts, **programs)))


def _consts_first(body: Body, nk: int) -> Compiled:
    inputs = [v.aval for v in body.program.graph.inputs]
    nc = len(inputs) - nk
    graph = body.program.graph
    return build("while_loop", [*inputs[nk:], *inputs[:nk]], lambda *v: evaluate(graph, *v[nc:], *v[:nc]))


def _parts(values: Sequence[Any], counts: tuple[int, int]) -> tuple[list[Any], list[Any], list[Any]]:
    a, b = counts
    return list(values[:a]), list(values[a : a + b]), list(values[a + b :])


def _run(*ops: Any, test: Compiled, body: Compiled, counts: tuple[int, int]) -> tuple[Any, ...]:
    of_test, of_body, carry = _parts(ops, counts)
    while test.plan(*of_test, *carry)[0]:
        carry = body.plan(*of_body, *carry)
    return tuple([np.array(c) for c in carry])


def _abstract(*avals: Aval, test: Compiled, body: Compiled, counts: tuple[int, int]) -> tuple[Aval, ...]:
    return tuple([Aval(a.aval.shape, a.aval.dtype) for a in body.graph.outputs])


def _jvp(ts: tuple[Value | None, ...], z: Value, xs: tuple[Value, ...], params: Params) -> Value:
    body: Compiled = params["body"]
    test: Compiled = params["test"]
    counts: tuple[int, int] = params["counts"]
    of_test, of_body, carry = _parts(xs, counts)
    _, t_body, t_carry = _parts(ts, counts)
    moving = tuple([t is not None for t in t_body]) + tuple([inexact(c) for c in carry])
    pushed = body.pushed(moving)
    n, nb = len(carry), len(of_body)
    moved = [k for k, c in enumerate(carry) if inexact(c)]
    tangents = [zeros_of(carry[k]) if t_carry[k] is None else raised(t_carry[k]) for k in moved]
    consts = [raised(t) for t in t_body if t is not None]
    avals = [v.aval for v in body.graph.inputs]

    def step(*v: Any) -> list[Any]:
        b, tb, c, tc = v[:nb], v[nb : nb + len(consts)], v[nb + len(consts) :][:n], v[nb + len(consts) + n :]
        outs = evaluate(pushed.program.graph, *b, *c, *tb, *tc)
        slopes = iter(outs[n:])
        full = [next(slopes) if m else zeros_of(a) for m, a in zip(pushed.moves, avals[nb:], strict=True)]
        return [*outs[:n], *[full[k] for k in moved]]

    def going(*v: Any) -> list[Any]:
        return evaluate(test.graph, *v[: len(of_test) + n])

    ac, ab = [v.aval for v in test.graph.inputs[: len(of_test)]], avals[:nb]
    at = [a for a, t in zip(ab, t_body, strict=True) if t is not None]
    state = [*avals[nb:], *[avals[nb + k] for k in moved]]
    programs = {"test": build("condition", [*ac, *state], going), "body": build("body", [*ab, *at, *state], step)}
    outs = bind(
        while_p, *of_test, *of_body, *consts, *carry, *tangents, counts=(len(of_test), nb + len(consts)), **programs
    )
    found = dict(zip(moved, outs[n:], strict=True))
    return outs[:n], [found.get(k) for k in range(n)]


def _record(
    xs: tuple[Value, ...], params: Params, wanted: tuple[bool, ...]
) -> tuple[Sequence[Value], Sequence[Value], JointPullback]:
    counts: tuple[int, int] = params["counts"]
    a, b = counts
    moving = wanted[a : a + b] + tuple([inexact(x) for x in xs[a + b :]])
    moved = [k for k, x in enumerate(xs[a + b :]) if inexact(x)]

    def joint(ct: Value, z: Value, kept: tuple[Value, ...], _: Params, avals: tuple[Aval | None, ...]) -> list[Value]:
        cts = [raised(ct[k]) for k in moved]
        found = iter(bind(while_back_p, *[raised(v) for v in kept], *cts, moving=moving, **params))
        of_body = [next(found) if m else None for m in moving[:b]]
        return [*[None] * a, *of_body, *[next(found) if m else None for m in moving[b:]]]

    return bind(while_p, *xs, **params), list(xs), joint


def _batch(size: int, xs: tuple[Value, ...], batched: tuple[bool, ...], params: Params) -> Value:
    test: Compiled = params["test"]
    body: Compiled = params["body"]
    counts: tuple[int, int] = params["counts"]
    a, b = counts
    flags_test, flags_body = batched[:a], batched[a : a + b]
    of_test, of_body, carry = _parts(xs, counts)
    n = len(carry)
    carry = [c if f else broadcast_to(c, (size, *c.shape)) for c, f in zip(carry, batched[a + b :], strict=True)]
    many_test = test.batched(size, (*flags_test, *[True] * n))
    many_body = body.batched(size, (*flags_body, *[True] * n))

    def going(*v: Any) -> list[Any]:
        return [any_(evaluate(many_test.graph, *v)[0])]

    def step(*v: Any) -> list[Any]:
        old = v[a + b :]
        alive = evaluate(many_test.graph, *v[:a], *old)[0]
        new = evaluate(many_body.graph, *v[a:])
        return [where(reshape(alive, (size,) + (1,) * (y.ndim - 1)), x, y) for x, y in zip(new, old, strict=True)]

    state = [aval_of(c) for c in carry]
    ac = [v.aval for v in many_test.graph.inputs[:a]]
    ab = [v.aval for v in many_body.graph.inputs[:b]]
    programs = {"test": build("condition", [*ac, *state], going), "body": build("body", [*ac, *ab, *state], step)}
    return bind(while_p, *of_test, *of_test, *of_body, *carry, counts=(a, a + b), **programs)


while_p = register(
    Primitive(
        name="while_loop",
        kind="custom",
        run=_run,
        abstract=_abstract,
        record=_record,
        jvp=_jvp,
        batch=_batch,
        multiple=True,
        doc="a loop that ends on a condition",
    )
)


def _back_run(
    *ops: Any, test: Compiled, body: Compiled, counts: tuple[int, int], moving: tuple[bool, ...]
) -> tuple[Any, ...]:
    """Run the loop again, keep what its steps' pullbacks read, and walk back over them."""
    a, b = counts
    n = len(body.graph.outputs)
    pair = body.pair(moving)
    of_test, of_body, carry = ops[:a], ops[a : a + b], list(ops[a + b : a + b + n])
    kept: list[list[Any]] = []
    while test.plan(*of_test, *carry)[0]:
        outs = pair.forward.plan(*of_body, *carry)
        carry = outs[:n]
        kept.append(outs[n:])
    moved = [k for k, m in enumerate(moving[b:]) if m]
    cts: dict[int, Any] = dict(zip(moved, ops[a + b + n :], strict=True))
    sums: dict[int, Any] = {
        k: np.zeros(v.aval.shape, v.aval.dtype) for k, v in enumerate(body.graph.inputs[:b]) if moving[k]
    }
    for residuals in reversed(kept):
        found = iter(pair.back.plan(*residuals, *[cts[k] for k, o in enumerate(pair.owned) if o]))
        pulled = [next(found) if needed else None for needed in pair.needed]
        sums = {k: s if pulled[k] is None else s + pulled[k] for k, s in sums.items()}
        for k in moved:
            aval = body.graph.inputs[b + k].aval
            cts[k] = np.zeros(aval.shape, aval.dtype) if pulled[b + k] is None else pulled[b + k]
    return (*[np.array(s) for s in sums.values()], *[np.array(cts[k]) for k in moved])


def _back_abstract(
    *avals: Aval, test: Compiled, body: Compiled, counts: tuple[int, int], moving: tuple[bool, ...]
) -> tuple[Aval, ...]:
    return tuple([Aval(v.aval.shape, v.aval.dtype) for v, m in zip(body.graph.inputs, moving, strict=True) if m])


def _refuse(*_: Any) -> Any:
    raise TracerError(
        "while_loop: reverse mode through a compiled loop is of first order; "
        "use scan or fori_loop with a known number of steps, or differentiate without jit"
    )


def _back_batch(size: int, xs: tuple[Value, ...], batched: tuple[bool, ...], params: Params) -> Value:
    raise TracerError(
        "while_loop: reverse mode through a compiled loop has no batching rule; "
        "use scan or fori_loop with a known number of steps, or vmap the loop itself before differentiating"
    )


while_back_p = register(
    Primitive(
        name="while_loop_backward",
        kind="custom",
        run=_back_run,
        abstract=_back_abstract,
        record=_refuse,
        jvp=_refuse,
        batch=_back_batch,
        multiple=True,
        doc="the backward pass of while_loop",
    )
)
