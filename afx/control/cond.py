"""Conditionals: `cond` and `switch` run one of several functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

import attrs
import numpy as np

from afx import pytree
from afx.compiler.schedule.cost import flops
from afx.compiler.schedule.schedule import BranchSpec
from afx.control._subgraphs import (
    Body,
    as_strong_arrays,
    body_of,
    build,
    check_same,
    full_mask,
    inexact,
    is_abstract,
    zeros_of,
)
from afx.core import Array, ArrayLike, Aval, Tracer, aval_of, bind, to_array
from afx.core.graph import Graph, drop_effects
from afx.core.primitive import (
    Bools,
    JointPullback,
    Lowering,
    Params,
    Primitive,
    Tangents,
    Value,
    Values,
    to_argument,
    weak_or_strong,
)
from afx.core.tracing.traces import BatchTracer, evaluate, renumber
from afx.errors import ArgumentError, DtypeError, ShapeError
from afx.ops import asarray, astype, clip, not_equal, where
from afx.ops._kinds.linear import higher_order
from afx.pytree import Tree
from afx.transforms._arguments import check_callable, describe, name_of
from afx.transforms.compile.compiled_call import CompiledGraph, VjpGraphs, call
from afx.transforms.derivatives.cotangent_masks import MARKED, GraphPullback, kinds_of, owned_only
from afx.transforms.derivatives.nan_check import check_nan

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
R = TypeVar("R")


@overload
def cond(pred: ArrayLike, true_fn: Callable[[], R], false_fn: Callable[[], R], /) -> R: ...
@overload
def cond(pred: ArrayLike, true_fn: Callable[[A], R], false_fn: Callable[[A], R], operand: A, /) -> R: ...
@overload
def cond(pred: ArrayLike, true_fn: Callable[[A, B], R], false_fn: Callable[[A, B], R], x: A, y: B, /) -> R: ...
@overload
def cond(
    pred: ArrayLike, true_fn: Callable[[A, B, C], R], false_fn: Callable[[A, B, C], R], x: A, y: B, z: C, /
) -> R: ...
@overload  # of so many operands that none of the others could be meant: mypy would forget the types of lambdas
def cond(
    pred: ArrayLike,
    true_fn: Callable[..., R],
    false_fn: Callable[..., R],
    x: Tree,
    y: Tree,
    z: Tree,
    w: Tree,
    /,
    *operands: Tree,
) -> R: ...
def cond(pred: ArrayLike, true_fn: Callable[..., R], false_fn: Callable[..., R], *operands: Tree) -> R:
    """Return ``true_fn(*operands)`` where ``pred`` holds, ``false_fn(*operands)`` elsewhere.

    A known predicate simply calls one of them. Under `jit` it is one equation, and only the chosen branch runs; under
    `vmap` with a predicate that differs from element to element both run and the results are chosen elementwise.

    Args:
        pred: a boolean scalar (a number is true where it is not 0).
        true_fn: a function of the operands.
        false_fn: another, whose result has the same structure, shapes and dtypes.
        *operands: any pytrees.

    Raises:
        ShapeError, TreeError: the predicate is no scalar, or the results differ; the message names the path.

    >>> import afx
    >>> cond(True, afx.sin, afx.cos, 0.0)
    Array(0., dtype=float32)
    """
    for fn in (true_fn, false_fn):
        check_callable(fn, "cond")
    _scalar(pred, "cond")
    index = pred if isinstance(pred, (bool, int, float)) else not_equal(pred, 0)
    operands = pytree.map(_take_operand, operands)
    if not isinstance(index, Tracer):
        return _call(true_fn if index else false_fn, operands, "cond")
    chosen: R = _choose(astype(index, "int64"), (false_fn, true_fn), operands, "cond")
    return chosen


@overload
def switch(index: ArrayLike, branches: Sequence[Callable[[], R]], /) -> R: ...
@overload
def switch(index: ArrayLike, branches: Sequence[Callable[[A], R]], operand: A, /) -> R: ...
@overload
def switch(index: ArrayLike, branches: Sequence[Callable[[A, B], R]], x: A, y: B, /) -> R: ...
@overload
def switch(index: ArrayLike, branches: Sequence[Callable[[A, B, C], R]], x: A, y: B, z: C, /) -> R: ...
@overload
def switch(
    index: ArrayLike, branches: Sequence[Callable[..., R]], x: Tree, y: Tree, z: Tree, w: Tree, /, *operands: Tree
) -> R: ...
def switch(index: ArrayLike, branches: Sequence[Callable[..., R]], *operands: Tree) -> R:
    """Return ``branches[index](*operands)``; an index outside the list takes the nearest branch.

    Args:
        index: an integer scalar.
        branches: functions of the operands whose results have the same structure, shapes and dtypes.
        *operands: any pytrees.

    Raises:
        DtypeError: the index is not an integer.
        ArgumentError: there is no branch.
        ShapeError, TreeError: the results of the branches differ; the message names the path.

    >>> import afx
    >>> switch(1, [afx.sin, afx.cos], 0.0)
    Array(1., dtype=float32)
    """
    if not isinstance(branches, Sequence):  # pyright: ignore[reportUnnecessaryIsInstance]  # users' mistakes
        raise ArgumentError(f"switch: branches are a list of functions: got {describe(branches)}; put them into a list")
    for fn in branches:
        check_callable(fn, "switch")
    _scalar(index, "switch")
    if aval_of(index).dtype.kind not in "iu":
        raise DtypeError(f"switch: the index is an integer: got {aval_of(index)}; use cond for a condition, or astype")
    if not branches:
        raise ArgumentError("switch: there is nothing to choose: got no branches; give one at least")
    operands = pytree.map(_take_operand, operands)
    if not isinstance(index, Tracer):
        return _call(branches[min(max(int(asarray(index)), 0), len(branches) - 1)], operands, "switch")
    chosen: R = _choose(clip(index, 0, len(branches) - 1), tuple(branches), operands, "switch")
    return chosen


def _call(fn: Callable[..., R], operands: tuple[Any, ...], who: str) -> R:
    """Return the result of the branch that was chosen; `debug_nans` looks at it."""
    result = fn(*operands)
    check_nan(f"{who} of {name_of(fn)}", fn, operands, {}, result)
    return result


def _take_operand(x: Any) -> Any:
    """Return an operand as an Array, which the caller cannot write into; Python's numbers as they are."""
    return asarray(x) if isinstance(x, np.ndarray) else x  # pyright: ignore[reportUnknownArgumentType]  # a user's array


def _scalar(x: ArrayLike, who: str) -> None:
    if aval_of(x, who).shape != ():
        raise ShapeError(f"{who}: chooses by one value: got {aval_of(x)}; use afx.where to choose elementwise")


def _choose(index: Any, branches: tuple[Any, ...], operands: tuple[Any, ...], who: str) -> Any:
    """Run the branch of an index: at once where that is known, else as one operation that holds all of them."""
    if not is_abstract(index) and not _batched(index):
        return branches[int(index)](*operands)
    flat, treedef = pytree.flatten(operands)
    is_weak = [(a := aval_of(x)).weak and a.dtype.kind in "fc" for x in flat]
    leaves = as_strong_arrays([x for x, weak in zip(flat, is_weak, strict=True) if not weak])
    avals, own_tree = [x.aval for x in leaves], pytree.structure(tuple(leaves))

    def trace_branch(fn: Callable[..., Any]) -> Body:
        def run(*strong: Any) -> Any:
            given = iter(strong)
            own = [_weak_array(x) if weak else next(given) for x, weak in zip(flat, is_weak, strict=True)]
            return fn(*pytree.unflatten(treedef, own))

        return body_of(run, own_tree, avals, f"{who} of {name_of(fn)}", is_branch=True)

    bodies = [trace_branch(fn) for fn in branches]
    first = bodies[0]
    for other in bodies[1:]:
        outs, want = ([zeros_of(a.aval) for a in b.program.graph.outputs] for b in (other, first))
        check_same(outs, other.out_tree, want, first.out_tree, who, "the result of a branch")
    programs, lifted = _align_branches(bodies, len(leaves))
    return pytree.unflatten(first.out_tree, list(bind(switch_p, index, *leaves, *lifted, branches=programs)))


def _weak_array(x: Any) -> Any:
    """Return a number as an Array of all of its digits, which a branch closes over; traced ones as they are."""
    return x if isinstance(x, Array) else weak_or_strong(np.asarray(x))


def _batched(x: Any) -> bool:
    while isinstance(x, Tracer):
        if isinstance(x, BatchTracer):
            return True
        x = x._value
    return False


def _align_branches(bodies: Sequence[Body], count: int) -> tuple[tuple[CompiledGraph, ...], list[Any]]:
    """Return the branches as programs of the same inputs: the operands, then all values that any branch closes over."""
    lifted: list[Any] = []
    for body in bodies:
        lifted += [x for x in body.lifted if not any(x is y for y in lifted)]
    avals = [v.aval for v in bodies[0].program.graph.inputs[:count]] + [x.aval for x in lifted]

    def program(body: Body) -> CompiledGraph:
        places = [next(k for k, y in enumerate(lifted) if y is x) for x in body.lifted]

        return build(
            "branch", avals, lambda *v: evaluate(body.program.graph, *v[:count], *[v[count + k] for k in places])
        )

    return tuple(map(program, bodies)), lifted


def _run(index: Any, *xs: Any, branches: tuple[CompiledGraph, ...]) -> tuple[Any, ...]:
    return tuple(branches[int(index)].plan(*map(to_argument, xs)))


def _abstract(index: Aval, *avals: Aval, branches: tuple[CompiledGraph, ...]) -> tuple[Aval, ...]:
    return tuple([Aval(a.aval.shape, a.aval.dtype) for a in branches[0].graph.outputs])


def _jvp(ts: Tangents, z: Value, xs: Values, params: Params) -> Value:
    """Push tangents through the branches: each becomes its forward mode, and gives a tangent for every output that can move."""
    branches: tuple[CompiledGraph, ...] = params["branches"]
    moving = tuple([t is not None for t in ts[1:]])
    outputs = [a.aval for a in branches[0].graph.outputs]
    slopes = [k for k, a in enumerate(outputs) if inexact(a)]
    avals = [v.aval for v in branches[0].graph.inputs]
    tangents = [a for a, m in zip(avals, moving, strict=True) if m]

    def program(branch: CompiledGraph) -> CompiledGraph:
        pushed = branch.jvp_graph(moving)

        def run(*v: Any) -> list[Any]:
            outs = evaluate(pushed.program.graph, *v)
            moved = iter(outs[len(outputs) :])
            full = [next(moved) if m else zeros_of(a) for m, a in zip(pushed.moves, outputs, strict=True)]
            return [*outs[: len(outputs)], *[full[k] for k in slopes]]

        return build("forward mode of a branch", [*avals, *tangents], run)

    given = [to_array(t) for t in ts[1:] if t is not None]
    outs = bind(switch_p, *xs, *given, branches=tuple(map(program, branches)))
    by_output = dict(zip(slopes, outs[len(outputs) :], strict=True))
    return outs[: len(outputs)], [by_output.get(k) for k in range(len(outputs))]


@attrs.frozen
class _BackwardSwitch:
    """The pullback of a switch: a switch over the backward passes of its branches.

    Attributes:
        pairs: the forward and the backward program of each branch.
        moving: which operands cotangents are wanted of.
        outputs: of the branches.
        operands: of the branches.
    """

    pairs: Sequence[VjpGraphs]
    moving: Bools
    outputs: Sequence[Aval]
    operands: Sequence[Aval]

    def pull(
        self,
        kinds: Sequence[int],
        cts: Sequence[Value],
        masks: Sequence[Value],
        residuals: Sequence[Value],
        *,
        marked: bool = True,
    ) -> tuple[list[Value], list[Value]]:
        """Return the cotangents of index and operands, and their masks where cotangents are marked."""
        needed = self.moving
        if not marked:
            needed = tuple([any(n) for n in zip(*[p.partial(kinds).needed for p in self.pairs], strict=True)])
        programs = tuple([self._build(p, kinds, needed, marked) for p in self.pairs])
        results = iter(bind(switch_p, *residuals, *cts, *masks, branches=programs) if any(needed) else ())
        first = [next(results) if n else None for n in needed]
        return [None, *first], [None, *[next(results) if n and marked else None for n in needed]]

    def pull_all(
        self, ct: Value, z: Value, residuals: Values, _: Params, reached: tuple[Aval | None, ...]
    ) -> list[Value]:
        """Return the cotangents of index and operands."""
        given = [to_array(c) for c in ct if c is not None]
        return self.pull(kinds_of(ct), given, (), [to_array(v) for v in residuals], marked=False)[0]

    def _build(self, pair: VjpGraphs, kinds: Sequence[int], needed: Sequence[bool], marked: bool) -> CompiledGraph:
        """Return the backward pass of a branch, which computes it forward again."""
        given = [self.outputs[k] for k, kind in enumerate(kinds) if kind]
        marks = [Aval(self.outputs[k].shape, np.dtype(bool)) for k, kind in enumerate(kinds) if kind >= MARKED]

        def run(*v: Any) -> list[Any]:
            values, rest = v[: len(self.operands)], v[len(self.operands) :]
            residuals = evaluate(_without_callbacks(pair.forward.graph), *values)[len(self.outputs) :]
            back = pair.masked(kinds) if marked else pair.partial(kinds)
            ends = owned_only(kinds, pair.owned, rest[: len(given)], rest[len(given) :])
            pulled, seen = back.sort(evaluate(back.program.graph, *residuals, *ends))
            each = [(g, s, a) for g, s, a, n in zip(pulled, seen, self.operands, needed, strict=True) if n]
            cts = [zeros_of(a) if g is None else g for g, _, a in each]
            return [*cts, *[full_mask(g, s, a) for g, s, a in each]] if marked else cts

        return build("backward pass of a branch", [*self.operands, *given, *marks], run)


def _without_callbacks(graph: Graph) -> Graph:
    """Return a graph without what ran for its effect alone when it was computed first."""
    equations = drop_effects(graph.equations, graph.outputs)
    return renumber(graph.inputs, graph.constants, equations, graph.outputs)


def _record(xs: Values, params: Params, wanted: Bools) -> tuple[Sequence[Value], Sequence[Value], JointPullback]:
    """Return the outputs, the residuals, which are the operands, and the pullback."""
    branches: tuple[CompiledGraph, ...] = params["branches"]
    first, moving = branches[0].graph, wanted[1:]
    pairs = [branch.vjp_graphs(moving) for branch in branches]
    back = _BackwardSwitch(pairs, moving, [a.aval for a in first.outputs], [v.aval for v in first.inputs])
    pullback = GraphPullback(
        back.pull_all,
        back.pull,
        makes_masks=any(pair.makes_masks for pair in pairs),
        is_bounded=all(pair.is_bounded for pair in pairs),
    )
    return bind(switch_p, *xs, branches=tuple([b.primal(moving) for b in branches])), list(xs), pullback


def _batch(size: int, xs: Values, batched: Bools, params: Params) -> Value:
    branches: tuple[CompiledGraph, ...] = params["branches"]
    flags = batched[1:]
    programs = tuple([b.batched(size, flags) for b in branches])
    if not batched[0]:
        return bind(switch_p, *xs, branches=programs)
    results = [call(p, *xs[1:]) for p in programs]
    chosen = list(results[0])
    for k, result in enumerate(results[1:], 1):
        chosen = [
            where((xs[0] == k).reshape((size,) + (1,) * (new.ndim - 1)), new, old)
            for new, old in zip(result, chosen, strict=True)
        ]
    return tuple(chosen)


switch_p: Primitive = higher_order(
    "switch",
    _run,
    _abstract,
    _batch,
    _record,
    _jvp,
    lowering=Lowering(
        flops=lambda _, params: max([flops(branch.graph) for branch in params["branches"]]),
        control=lambda params: BranchSpec(tuple([branch.graph for branch in params["branches"]])),
        hold=lambda graphs: (("branches", tuple(map(CompiledGraph, graphs))),),
    ),
    canonical="switch",
)
