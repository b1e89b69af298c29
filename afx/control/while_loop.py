"""While loops: `while_loop`, of unknown length, and `fori_loop` over a range of indices."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from afx import pytree
from afx.control._subgraphs import as_strong_arrays, body_of, check_same, consts_first, is_abstract, resolve_weak_carry
from afx.control.scan import scan
from afx.control.while_graphs import WhileLoop
from afx.control.while_p import run_while
from afx.core.array.array import Array, ArrayLike
from afx.core.aval import aval_of
from afx.core.tracing.batch_trace import BatchTracer
from afx.core.tracing.tracer import Tracer
from afx.errors import DtypeError, ShapeError
from afx.ops.creation.creation import asarray
from afx.transforms._arguments import check_callable, describe, name_of
from afx.transforms.derivatives.nan_check import check_nan

__all__ = ["fori_loop", "while_loop"]

C = TypeVar("C")


def while_loop(cond_fn: Callable[[C], Any], body_fn: Callable[[C], C], init: C) -> C:
    """Run ``carry = body_fn(carry)`` as long as ``cond_fn(carry)`` holds, and return the carry.

    Differentiable in both modes and every order: reverse mode saves values as they come. Under `jit` and `trace` it is one
    equation where the carry, or what the functions close over, is unknown; elsewhere a Python loop.

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
    for fn in (cond_fn, body_fn):
        check_callable(fn, "while_loop")
    flat, tree = pytree.flatten(init)
    carry = resolve_weak_carry(body_fn, flat, tree, f"while_loop of {name_of(body_fn)}")
    while True:
        going = cond_fn(pytree.unflatten(tree, carry))
        if aval_of(going, "while_loop").shape != ():
            raise ShapeError(f"while_loop: the condition is a scalar: got {aval_of(going)}; reduce it with all or any")
        unknown = _unknown(going)
        if not unknown and not going:
            check_nan("while_loop", functools.partial(while_loop, cond_fn, body_fn), (init,), {}, carry)
            return pytree.unflatten(tree, carry)
        if unknown or any(map(is_abstract, carry)):
            break
        found, found_tree = pytree.flatten(body_fn(pytree.unflatten(tree, carry)))
        check_same(found, found_tree, carry, tree, "while_loop", "the carry")
        if any(map(is_abstract, found)):  # the step closes over unknown values
            break
        carry = as_strong_arrays(found)
    last: C = _bind_loop(cond_fn, body_fn, carry, tree)
    return last


def fori_loop(lower: ArrayLike, upper: ArrayLike, body_fn: Callable[[Array, C], C], init: C) -> C:
    """Run ``carry = body_fn(i, carry)`` for i from ``lower`` to ``upper - 1`` and return the carry.

    Args:
        lower: the first index; with a known upper one the loop is a `scan`, else a `while_loop`.
        upper: one past the last index.
        body_fn: index and carry to the next carry, of the same structure, shapes and dtypes.
        init: the first carry, any pytree.

    Raises:
        DtypeError: a bound is not an integer.
        ShapeError, TreeError: the carry changes; the message names the path.

    >>> import afx
    >>> fori_loop(0, 3, lambda i, x: x * 2.0, 1.0)
    Array(8., dtype=float32)
    """
    check_callable(body_fn, "fori_loop")
    for bound in (lower, upper):
        aval = aval_of(bound, "fori_loop")
        if aval.shape != () or aval.dtype.kind not in "iu":
            raise DtypeError(f"fori_loop: bounds are integers: got {describe(bound)}; use astype")

    @functools.wraps(body_fn)
    def body(state: Any) -> Any:
        i, carry = state
        found = body_fn(i, carry)
        _check_kept(found, carry)
        return i + 1, found

    if not _unknown(lower) and not _unknown(upper):
        start: Any = (asarray(_int(lower)), init)
        count = max(_int(upper) - _int(lower), 0)

        @functools.wraps(body_fn)
        def step(state: Any, _: None) -> Any:
            return body(state), None

        last: C = scan(step, start, None, count)[0][1]
        return last
    start = (asarray(lower), init)
    end: C = while_loop(lambda state: state[0] < upper, body, start)[1]
    return end


def _check_kept(found: Any, carry: Any) -> None:
    """Raise where a step gives another kind of carry; numbers take their dtype from the first step."""
    (leaves, tree), (old, old_tree) = pytree.flatten(found), pytree.flatten(carry)
    if not any(aval_of(x, "fori_loop").weak for x in (*leaves, *old)):
        check_same(leaves, tree, old, old_tree, "fori_loop", "the carry")


def _int(x: Any) -> int:
    return int(x)


def _unknown(x: Any) -> bool:
    """Tell whether a value cannot steer a Python loop: it is abstract, or differs along a batch."""
    while isinstance(x, Tracer):
        if is_abstract(x) or isinstance(x, BatchTracer):
            return True
        x = x._value
    return False


def _bind_loop(cond_fn: Any, body_fn: Any, carry: list[Any], tree: Any) -> Any:
    avals = [c.aval for c in carry]
    pair = pytree.structure((pytree.unflatten(tree, carry),))

    def step(c: Any) -> Any:
        found, found_tree = pytree.flatten(body_fn(c))
        check_same(found, found_tree, carry, tree, "while_loop", "the carry")
        return found

    test = body_of(cond_fn, pair, avals, f"while_loop's condition {name_of(cond_fn)}")
    body = body_of(step, pair, avals, f"while_loop of {name_of(body_fn)}")
    n = len(carry)
    loop = WhileLoop(consts_first(test, n), consts_first(body, n), len(test.lifted), len(body.lifted))
    return pytree.unflatten(tree, list(run_while(loop, *test.lifted, *body.lifted, *carry)))
