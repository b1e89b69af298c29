"""Custom derivatives: `custom_vjp` and `custom_jvp` take rules from the user; a call is one entry of a tape."""

from __future__ import annotations

import functools
import inspect
from _thread import get_ident
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeAlias, TypeVar

import numpy as np

from afx import pytree
from afx.core import Array, Aval, Params, Tracer, Value, Values, any_traced, aval_of, to_array, to_lower_level, wrap
from afx.core.tracing.tape import OPEN_BLOCKS, Entry, Tape, TapeTracer
from afx.errors import TreeError
from afx.ops import asarray, astype
from afx.ops._basic import reshape_p
from afx.pytree.trees import check_matching, check_structure
from afx.transforms._arguments import ONE_LEAF, check_callable, name_of, pair_of, transformed
from afx.transforms.custom_call import (
    CustomRules,
    clean_by_structure,
    custom_call,
    custom_call_p,
    fill_dead,
    push_rules,
    strong,
)
from afx.transforms.derivatives.cotangent_masks import GraphPullback
from afx.transforms.derivatives.jvp import Flat, Flattened, Push

# --- Custom recording: a call with a custom rule as one entry of a tape, where arrays are all that it takes
#
# What `afx.transforms.custom_call` does for any leaves under any traces, by a short way for the commonest case: a
# tape that holds plain values, as in a first derivative.

Aligner: TypeAlias = Callable[[Any, list[tuple[list[Aval], Any, bool]], int, str], Sequence[Value]]


def plain_tape(xs: Sequence[Any]) -> Tape | None:
    """Return the tape that alone traces values among arrays, if it holds plain values; None else."""
    tape = None
    for x in xs:
        if x.__class__ is TapeTracer:
            if tape is None:
                tape = x._trace
            elif x._trace is not tape:
                return None
        elif x.__class__ is not Array:
            return None
    return tape if isinstance(tape, Tape) and tape.is_ground and not OPEN_BLOCKS else None


class RecordedVjp:
    """A call of a function with a backward rule, whose arguments are arrays: its entry on a tape, and its pullback.

    Attributes:
        name: of the function.
        fn: the function.
        backward: the user's backward rule.
        aligned: returns what the rule gave as one cotangent for each argument, or raises.
    """

    __slots__ = ("_ends", "_kept_tree", "_operands", "_out_tree", "aligned", "backward", "fn", "name")

    def __init__(self, name: str, fn: Callable[..., Any], backward: Callable[..., Any], aligned: Aligner) -> None:
        self.name: str = name
        self.fn: Callable[..., Any] = fn
        self.backward: Callable[..., Any] = backward
        self.aligned: Aligner = aligned

    def record(self, tape: Tape, xs: Sequence[Any], forward: Callable[..., Any]) -> tuple[Any] | None:
        """Run the forward rule and enter the call; return the result in a tuple, None where it holds traced values."""
        if tape.__class__ is not Tape:  # one that notes lines
            return None
        primals = _plain(tape, xs)
        out, residuals = pair_of(forward(*primals), "forward", "(result, residuals)", self.name)
        outs, self._out_tree = pytree.flatten(out)
        leaves, self._kept_tree = pytree.flatten(residuals)
        results = _untraced(outs, ())
        values = None if results is None else _untraced(leaves, (results, primals))
        if results is None or values is None:
            return None
        self._operands: list[Aval] = [x.aval for x in primals]
        self._ends: list[Aval] = [z.aval for z in results]
        ins = tuple([x._index if x.__class__ is TapeTracer else -1 for x in xs])
        pullback = GraphPullback(self.pull, self.pull_masked, makes_masks=False, is_inlined=True)
        tracers = tape.enter_call(
            custom_call_p, ins, tuple([v._value for v in values]), [z._value for z in results], pullback
        )
        return (tracers[0] if self._out_tree is ONE_LEAF else pytree.unflatten(self._out_tree, tracers),)

    def pull(
        self, ct: Value, z: Value, residuals: Values, _: Params, avals: tuple[Aval | None, ...]
    ) -> Sequence[Value]:
        """Return the cotangents of the arguments, None for zeros."""
        ends = self._ends
        if len(ends) == 1:  # with a cotangent, or nobody had asked
            return self._ruled(residuals, ct)
        return self._ruled(
            residuals, [np.zeros(a.shape, a.dtype) if c is None else c for c, a in zip(ct, ends, strict=True)]
        )

    def pull_masked(
        self, kinds: Sequence[int], cts: Sequence[Value], masks: Sequence[Value], residuals: Sequence[Value]
    ) -> tuple[Sequence[Value], Sequence[Value]]:
        """Return the cotangents of the arguments and their masks."""
        full, alive = fill_dead(kinds, cts, masks, self._ends)
        gs = [None if g is None else asarray(g) for g in self._ruled(residuals, full)]
        return clean_by_structure(self.name, self._leaves_of, self._operands, gs, [to_lower_level(m) for m in alive])

    def _ruled(self, residuals: Sequence[Value], cts: Sequence[Value]) -> Sequence[Value]:
        gradients = self.backward(_tree(self._kept_tree, residuals), _tree(self._out_tree, cts))
        operands = self._operands
        if gradients.__class__ is tuple and len(gradients) == len(operands):
            for g, a in zip(gradients, operands, strict=True):
                if not isinstance(g, Array) or g.shape != a.shape:
                    break
            else:
                return gradients
        return self.aligned(gradients, [([a], ONE_LEAF, True) for a in operands], len(operands), self.name)

    def _leaves_of(self, *xs: Any) -> Sequence[Any]:
        return pytree.leaves(self.fn(*xs))


def _tree(treedef: Any, values: Sequence[Value]) -> Any:
    if treedef is ONE_LEAF:
        return to_array(values[0])
    return pytree.unflatten(treedef, [to_array(v) for v in values])


def record_jvp(tape: Tape, xs: Sequence[Any], fn: Flat, push: Push) -> list[Any] | None:
    """Run a function with a forward rule, and enter the operations of the rule on tangents instead of the function's.

    Pulled back, they take the cotangent of the result, that of its tangent, to the operands. Returns the results, None
    where the function or the rule closes over traced values.

    Args:
        tape: of plain values.
        xs: Arrays, some of them on the tape.
        fn: the function.
        push: leaves and their tangents to results and tangents.
    """
    primals = _plain(tape, xs)
    results = _untraced(fn(*primals), ())
    if results is None:
        return None
    start = len(tape.entries)
    tangents = [_tangent(tape, x) for x in xs]
    first = len(tape.entries)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # of zeros, times infinite slopes
        outs, slopes = push(primals, tangents)
    if _is_closed(tape.entries[first:], start, results, outs) and tape.is_ground:
        return [
            tape.with_value(t, z._value) if t.__class__ is TapeTracer else z
            for z, t in zip(results, slopes, strict=True)
        ]
    del tape.entries[start:]
    return None


def _tangent(tape: Tape, x: Any) -> Any:
    zeros = np.zeros(x.shape, x.dtype)
    return tape.stand_in(reshape_p, {"shape": x.shape}, x, zeros) if x.__class__ is TapeTracer else wrap(zeros)


def _is_closed(entries: Sequence[Entry], start: int, results: Sequence[Any], outs: Sequence[Any]) -> bool:
    """Tell whether a rule read nothing on the tape but what is behind ``start``, and gave results as the function does."""
    if len(outs) != len(results):
        return False
    for z, out in zip(results, outs, strict=True):
        if isinstance(out, Tracer) or out.shape != z.shape or out.dtype != z.dtype:
            return False
    return all(j < 0 or j >= start for entry in entries for j in entry.ins)


def _plain(tape: Tape, xs: Sequence[Any]) -> list[Any]:
    if tape.owner != get_ident():
        tape.check()
    return [wrap(x._value) if x.__class__ is TapeTracer else x for x in xs]


def _untraced(values: Sequence[Any], beside: Sequence[Sequence[Any]]) -> Sequence[Any] | None:
    """Return values as Arrays, None where one is traced; numbers take the dtype of what stands beside them."""
    for v in values:
        if v.__class__ is not Array:
            if any_traced(values):
                return None
            return [asarray(x) for x in strong(values, [x for xs in beside for x in xs])]
    return values


# --- Custom derivatives

P = ParamSpec("P")
R = TypeVar("R")
K = TypeVar("K")
Kind: TypeAlias = tuple[list[Aval], Any, bool]  # of an argument: leaves, structure, whether a rule gives its cotangent


def custom_vjp(
    fn: Callable[P, R], forward: Callable[P, tuple[R, K]], backward: Callable[[K, R], tuple[Any, ...]]
) -> Callable[P, R]:
    """Return ``fn`` with a reverse-mode rule of your own.

    Args:
        fn: a function of pytrees of arrays.
        forward: of the same arguments, returns ``(fn(...), residuals)``: what the backward pass needs, any pytree.
        backward: ``(residuals, ct)`` to a tuple with one cotangent tree per positional argument, of its structure;
            None stands for zero. ``ct`` has the structure of the result.

    Returns:
        A function that computes as ``fn`` and differentiates by these rules, under every transformation but forward
        mode (`custom_jvp` serves both). It may close over traced arrays, unless a derivative by those is wanted. Second
        derivatives are those of ``forward`` and ``backward`` as they are written: where ``forward`` gets its result from
        the returned function itself, that result follows the rule again.

    Raises:
        TreeError, ShapeError: ``backward`` returns another structure or shape than the arguments.

    >>> import afx
    >>> clipped = custom_vjp(lambda x: x, lambda x: (x, None), lambda _, ct: (afx.clip(ct, -1.0, 1.0),))
    >>> afx.grad(lambda x: 5.0 * clipped(x))(0.0)
    Array(1., dtype=float32)
    """
    for given in (fn, forward, backward):
        check_callable(given, "custom_vjp")
    name = f"custom_vjp of {name_of(fn)}"

    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        result: R
        tape = None if kwargs else plain_tape(args)
        if tape is not None:
            recorded = RecordedVjp(name, fn, backward, _aligned).record(tape, args, forward)
            if recorded is not None:
                result = recorded[0]
                return result
        places, names = _by_position(fn, args, kwargs)
        leaves, treedef = pytree.flatten(_any((places, names)))
        # the backward pass must not hold the arguments
        kinds = [_kinds(a, n < len(args)) for n, a in enumerate(places)]
        call = _VjpCall(name, Flattened(fn, treedef), forward, backward, kinds)
        rules = CustomRules(name, call.plain, call.forward, call.backward, None)
        result = call.plain.result(custom_call(rules, leaves))
        return result

    made: Callable[P, R] = transformed(run, "custom_vjp", fn, functools.partial(custom_vjp, fn, forward, backward))
    return made


class _VjpCall:
    """One call of a function with a reverse-mode rule: its parts as functions of leaves.

    Attributes:
        plain: the function itself.
    """

    __slots__ = ("_ahead", "_back", "_kept", "_kinds", "_name", "plain")

    def __init__(self, name: str, plain: Flattened, forward: Any, backward: Any, kinds: Sequence[Kind]) -> None:
        self._name: str = name
        self._ahead: Any = forward
        self._back: Any = backward
        self._kinds: Sequence[Kind] = kinds
        self._kept: Any = None
        self.plain: Flattened = plain

    def forward(self, xs: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        """Return the leaves of the result and of the residuals."""
        args, kwargs = self.plain.arguments(xs)
        out, residuals = pair_of(self._ahead(*args, **kwargs), "forward", "(result, residuals)", self._name)
        outs, self.plain.out_tree = pytree.flatten(out)
        leaves, self._kept = pytree.flatten(residuals)
        return outs, leaves

    def backward(self, residuals: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
        """Return the cotangents of the arguments' leaves, None for zeros."""
        trees = self._back(pytree.unflatten(self._kept, list(residuals)), self.plain.result(cts))
        return _aligned(trees, self._kinds, self.plain.treedef.num_leaves, self._name)


def _by_position(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments by position where the function takes them so, since cotangents are given by position."""
    if not kwargs:
        return args, kwargs
    try:
        bound = inspect.signature(fn).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return args, kwargs
    return bound.args, bound.kwargs


def _avals(xs: Sequence[Any]) -> list[Aval]:
    return [aval_of(x) for x in xs]


def _kinds(tree: Any, needed: bool) -> Kind:
    """Return the leaves and the structure of an argument, and whether a rule has to give its cotangent."""
    leaves, treedef = pytree.flatten(tree)
    return _avals(leaves), treedef, needed or any_traced(leaves)


def _aligned(trees: Any, kinds: Sequence[Kind], count: int, name: str) -> list[Any]:
    """Return one cotangent or None per leaf of all arguments, from one tree per positional argument.

    Plain arguments that were passed by name need none, and None stands for those that were not passed at all.
    """
    if isinstance(trees, tuple):
        absent = kinds[len(trees) :]  # pyright: ignore[reportUnknownArgumentType]  # a user's value
        if not any(needed for *_, needed in absent):
            trees = (*trees, *[None] * len(absent))
        if all(ct is None for ct in trees[len(kinds) :]):  # pyright: ignore[reportUnknownVariableType]  # a user's value
            trees = trees[: len(kinds)]  # pyright: ignore[reportUnknownVariableType]  # a user's value
    if not isinstance(trees, tuple) or len(trees) != len(kinds):  # pyright: ignore[reportUnknownArgumentType]  # a user's value
        raise TreeError(
            f"{name}: backward returns one cotangent per argument: {len(kinds)} in a tuple: got {trees!r}; "
            "return such a tuple"
        )
    flat: list[Any] = []
    for k, (ct, (avals, treedef, _)) in enumerate(zip(trees, kinds, strict=True)):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  # a user's value
        if ct is None:
            flat += [None] * len(avals)
            continue
        cts, ct_tree = pytree.flatten(_any(ct))
        what, advice = f"the cotangent of argument {k}", "return that of the argument"
        check_structure(ct_tree, treedef, name, what, advice)
        check_matching(_avals(cts), avals, ct_tree, name, what, advice, dtypes="any")
        flat += [c if isinstance(c, Array) else asarray(c) for c in cts]
    return flat + [None] * (count - len(flat))


def _any(x: Any) -> Any:
    """Return x as a value of unknown type."""
    return x


def custom_jvp(
    fn: Callable[..., R], rule: Callable[[tuple[Any, ...], tuple[Any, ...]], tuple[R, R]]
) -> Callable[..., R]:
    """Return ``fn`` with a forward-mode rule of your own, from which reverse mode follows.

    Args:
        fn: a function of pytrees of floating arrays.
        rule: ``(primals, tangents)`` to ``(fn(*primals), tangent of the result)``; linear in the tangents. Whatever
            the rule computes its result by, every order of derivatives sees one that follows the rule.

    Returns:
        A function that computes as ``fn`` and differentiates by this rule, in every mode and order.

    >>> import afx
    >>> f = custom_jvp(afx.abs, lambda x, t: (afx.abs(x[0]), 7.0 * t[0]))
    >>> afx.grad(f)(2.0)
    Array(7., dtype=float32)
    >>> afx.grad(afx.grad(lambda x: f(x) ** 2))(2.0)
    Array(98., dtype=float32)
    """
    for given in (fn, rule):
        check_callable(given, "custom_jvp")
    name = f"custom_jvp of {name_of(fn)}"

    def run(*args: Any) -> R:
        """Record the rule on a plain tape, where one is open; else make an equation that holds it."""
        result: R
        tape = plain_tape(args)
        if tape is not None:
            plain = Flattened(fn, None, flat=True)
            outs = record_jvp(tape, args, plain, functools.partial(_push, rule, plain, name))
            if outs is not None:
                result = plain.result(outs)
                return result
        leaves, treedef = pytree.flatten(_any((args, {})))
        plain = Flattened(fn, treedef)
        rules = push_rules(name, plain, functools.partial(_push, rule, plain, name))
        result = plain.result(custom_call(rules, leaves))
        return result

    made: Callable[..., R] = transformed(run, "custom_jvp", fn, functools.partial(custom_jvp, fn, rule))
    return made


def _push(
    rule: Any, plain: Flattened, name: str, xs: Sequence[Any], ts: Sequence[Any]
) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return the leaves of the result and of its tangent by a user's rule."""
    primals, tangents = plain.arguments(xs)[0], plain.arguments(ts)[0]
    out, tangent = pair_of(rule(primals, tangents), "the rule", "(result, tangent)", name)
    outs, plain.out_tree = pytree.flatten(out)
    if (
        isinstance(out, Array)
        and isinstance(tangent, Array)
        and out.shape == tangent.shape
        and out.dtype is tangent.dtype
    ):
        return [out], [tangent]
    slopes, slope_tree = pytree.flatten(tangent)
    what, advice = "the tangent", "return that of the result"
    check_structure(slope_tree, plain.out_tree, name, what, advice)
    check_matching(_avals(slopes), _avals(outs), slope_tree, name, what, advice, dtypes="any")
    results = [z if isinstance(z, Array) else asarray(z) for z in outs]
    return results, [astype(t, z.dtype) for z, t in zip(results, slopes, strict=True)]
