"""Scan: a loop over the first axis of arrays that carries a value along."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from afx import pytree
from afx.control._subgraphs import as_strong_arrays, body_of, check_same, is_abstract, resolve_weak_carry
from afx.control.scan_p import bind_scan, run_scan, step_of
from afx.core.array.array import Array
from afx.core.aval import Aval, aval_of, integer
from afx.errors import ArgumentError, ConcreteValueError, ShapeError, TreeError
from afx.ops.creation.creation import zeros
from afx.ops.manipulation.join import stack
from afx.ops.manipulation.split import unstack
from afx.pytree import Tree
from afx.transforms._arguments import check_callable, name_of, pair_of
from afx.transforms.checkpoint import checkpoint as checkpointed
from afx.transforms.derivatives.nan_check import check_nan

__all__ = ["scan"]

C = TypeVar("C")
Y = TypeVar("Y")


@overload
def scan(  # of an array, so that a lambda's element has a type
    fn: Callable[[C, Array], tuple[C, Y]],
    init: C,
    xs: Array,
    length: int | None = None,
    *,
    reverse: bool = False,
    checkpoint: int | None = None,
) -> tuple[C, Y]: ...
@overload
def scan(
    fn: Callable[[C, Any], tuple[C, Y]],
    init: C,
    xs: Tree = None,
    length: int | None = None,
    *,
    reverse: bool = False,
    checkpoint: int | None = None,
) -> tuple[C, Y]: ...
def scan(
    fn: Callable[[C, Any], tuple[C, Y]],
    init: C,
    xs: Tree = None,
    length: int | None = None,
    *,
    reverse: bool = False,
    checkpoint: int | None = None,
) -> tuple[C, Y]:
    """Run ``carry, y = fn(carry, x)`` over the first axis of ``xs`` and return the last carry and the stacked ys.

    Under `jit` and `trace` it is one equation, however long it is; elsewhere a Python loop, so that Python control
    flow works inside.

    Args:
        fn: one step; the carry keeps its structure, shapes and dtypes.
        init: the first carry, any pytree.
        xs: a pytree of arrays of the same first length; None where there is nothing to walk along.
        length: the number of steps, needed where ``xs`` is None.
        reverse: walks from the last element to the first; ys keep the order of xs.
        checkpoint: keeps only every so many carries for reverse mode and computes the steps between again, which
            bounds memory; the square root of the length is a good choice.

    Raises:
        ArgumentError: the number of steps is unknown or negative.
        ShapeError: first lengths differ, or the carry changes its shape or dtype; the message names the path.
        TreeError: the carry changes its structure.

    >>> import afx
    >>> scan(lambda c, x: (c + x, c), 0.0, afx.asarray([1.0, 2.0, 3.0]))
    (Array(6., dtype=float32), Array([0., 1., 3.], dtype=float32))
    """
    check_callable(fn, "scan")
    length = None if length is None else integer(length, "scan", "length")
    checkpoint = None if checkpoint is None else integer(checkpoint, "scan", "checkpoint")
    if length is not None and length < 0:
        raise ArgumentError(f"scan: length is a number of steps: got {length}; give 0 or more")
    flat, tree = pytree.flatten(xs)
    leaves = as_strong_arrays(flat)
    count = _length(leaves, tree, length)
    first, carry_tree = pytree.flatten(init)
    carry = _resolve_weak_carry(fn, first, carry_tree, leaves, tree, -1 if reverse else 0)
    if checkpoint is not None and checkpoint < count:
        return _scan_in_chunks(fn, pytree.unflatten(carry_tree, carry), leaves, tree, count, checkpoint, reverse)
    if any(map(is_abstract, [*carry, *leaves])):
        return _bind_scan(fn, carry, carry_tree, leaves, tree, count, reverse)
    found = _plain(fn, carry, carry_tree, leaves, tree, count, reverse)

    def again(c: Any, x: Any) -> Any:
        return scan(fn, c, x, length, reverse=reverse)

    check_nan("scan", again, (init, xs), {}, found)
    return found


def _resolve_weak_carry(
    fn: Any, first: Sequence[Any], carry_tree: Any, leaves: Sequence[Array], tree: Any, start: int
) -> list[Array]:
    """Return the first carry; Python numbers in it take the dtype that the first step, at ``start``, gives them."""
    if not any(aval_of(x, "scan").weak for x in first):
        return as_strong_arrays(first)

    def step(c: Any, *row: Any) -> Any:
        out = fn(c, pytree.unflatten(tree, list(row)))
        return out[0] if isinstance(out, tuple) and len(out) == 2 else c  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # a user's value; the loop refuses another

    rows = [x[start] if x.shape[0] else zeros(x.shape[1:], x.dtype) for x in leaves]
    return resolve_weak_carry(step, first, carry_tree, f"scan of {name_of(fn)}", rows)


def _length(leaves: Sequence[Array], tree: Any, length: int | None) -> int:
    found = {} if length is None else {"length": length}
    for path, x in zip(pytree.paths(tree), leaves, strict=True):
        if not x.ndim:
            raise ShapeError(f"scan: xs{path} has no axis to walk along: got {x.aval}; close over it instead")
        found[f"xs{path}"] = x.shape[0]
    if not found:
        raise ArgumentError("scan: the number of steps is unknown: got xs without arrays; give length=")
    if len(set(found.values())) > 1:
        got = ", ".join(f"{k} {n}" for k, n in found.items())
        raise ShapeError(f"scan: lengths of the first axis differ: got {got}; make them equal")
    return next(iter(found.values()))


def _pair(out: Any, fn: Any) -> tuple[Any, Any]:
    return pair_of(out, name_of(fn), "(carry, y)", "scan")


def _plain(
    fn: Any, carry: list[Array], carry_tree: Any, leaves: list[Array], tree: Any, count: int, reverse: bool
) -> tuple[Any, Any]:
    """Run the loop in Python; where values turn out to be unknown after its first step, as an equation."""
    rows = [unstack(x) for x in leaves]
    start = carry
    ys: list[list[Any]] = []
    ys_tree: Any = None
    for t in range(count)[:: -1 if reverse else 1]:
        x = pytree.unflatten(tree, [r[t] for r in rows])
        new, y = _pair(fn(pytree.unflatten(carry_tree, carry), x), fn)
        found, found_tree = pytree.flatten(new)
        check_same(found, found_tree, carry, carry_tree, "scan", "the carry")
        carry = as_strong_arrays(found)
        row, out_tree = pytree.flatten(y)
        if ys and out_tree != ys_tree:
            raise TreeError(
                f"scan: the outputs change their structure: got {out_tree} after {ys_tree}; return the same tree"
            )
        ys_tree = out_tree
        ys.append(row)
        if len(ys) == 1 and any(map(is_abstract, [*carry, *row])):  # it closes over unknown values
            return _bind_scan(fn, start, carry_tree, leaves, tree, count, reverse)
    if not ys:
        return _empty(fn, carry, carry_tree, leaves, tree)
    columns = zip(*ys[:: -1 if reverse else 1], strict=True)
    return pytree.unflatten(carry_tree, carry), pytree.unflatten(ys_tree, [stack(as_strong_arrays(c)) for c in columns])


def _body(fn: Any, carry: Sequence[Array], carry_tree: Any, leaves: Sequence[Array], tree: Any) -> Any:
    avals = [aval_of(c) for c in carry] + [Aval(x.shape[1:], x.dtype) for x in leaves]
    pair = pytree.structure((pytree.unflatten(carry_tree, list(carry)), pytree.unflatten(tree, list(leaves))))

    def step(c: Any, x: Any) -> Any:
        new, y = _pair(fn(c, x), fn)
        found, found_tree = pytree.flatten(new)
        check_same(found, found_tree, carry, carry_tree, "scan", "the carry")
        return found, y

    return body_of(step, pair, avals, f"scan of {name_of(fn)}")


def _bind_scan(
    fn: Any, carry: list[Array], carry_tree: Any, leaves: list[Array], tree: Any, count: int, reverse: bool
) -> tuple[Any, Any]:
    """Run the loop as one equation."""
    body = _body(fn, carry, carry_tree, leaves, tree)
    outs = run_scan(body, carry, leaves, count, reverse)
    found, ys = pytree.unflatten(body.out_tree, outs)
    return pytree.unflatten(carry_tree, found), ys


def _empty(fn: Any, carry: list[Array], carry_tree: Any, leaves: list[Array], tree: Any) -> tuple[Any, Any]:
    """Return the carry unchanged and ys of length 0, with shapes from a trace of one step."""
    body = _body(fn, carry, carry_tree, leaves, tree)
    avals = [a.aval for a in body.program.graph.outputs]
    _, ys = pytree.unflatten(body.out_tree, [zeros((0, *a.shape), a.dtype) for a in avals])
    return pytree.unflatten(carry_tree, carry), ys


def _scan_in_chunks(
    fn: Any, carry: Any, leaves: list[Array], tree: Any, count: int, every: int, reverse: bool
) -> tuple[Any, Any]:
    """Run the loop in checkpointed pieces: reverse mode keeps the carry at their borders alone."""
    if every < 1:
        raise ArgumentError(f"scan: checkpoint is a number of steps: got {every}; give 1 or more")
    piece = _piece(fn, carry, leaves, tree, reverse)
    pieces: list[Any] = []
    starts = range(0, count, every)
    for start in starts[:: -1 if reverse else 1]:
        part = [x[start : start + every] for x in leaves]
        carry, ys = piece(carry, part, min(every, count - start))
        pieces.append(ys)
    return carry, pytree.map(lambda *parts: _stack_rows(parts), *pieces[:: -1 if reverse else 1])


def _piece(fn: Any, carry: Any, leaves: list[Array], tree: Any, reverse: bool) -> Callable[[Any, Any, int], Any]:
    """Return the run of some steps as one checkpointed op: a compiled loop, or Python where a step has branches."""
    first, carry_tree = pytree.flatten(carry)
    try:
        body = _body(fn, as_strong_arrays(first), carry_tree, leaves, tree)
    except ConcreteValueError:

        def slow(c: Any, part: Any, length: int) -> Any:
            def run(c: Any, xs: Any) -> Any:
                return scan(fn, c, xs, length, reverse=reverse)

            return checkpointed(run)(c, pytree.unflatten(tree, part))

        return slow
    step = step_of(body)

    def fast(c: Any, part: Any, length: int) -> Any:
        @checkpointed
        def run(consts: list[Any], flat: list[Any], xs: list[Any]) -> list[Any]:
            return list(bind_scan(step, consts, flat, xs, length, reverse))

        found, ys = pytree.unflatten(body.out_tree, run(body.lifted, pytree.leaves(c), part))
        return pytree.unflatten(carry_tree, found), ys

    return fast


def _stack_rows(parts: Sequence[Any]) -> Array:
    rows = [row for part in parts for row in unstack(part)]
    return stack(rows)
