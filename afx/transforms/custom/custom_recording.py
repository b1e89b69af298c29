"""Custom recording: a call with a custom rule as one entry of a tape, where arrays are all that it takes.

What `afx.transforms.custom.custom_call` does for any leaves under any traces, by a short way for the commonest case: a tape that
holds plain values, as in a first derivative.
"""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from afx import pytree
from afx.core.array.array import Array, wrap
from afx.core.aval import Aval
from afx.core.primitive import Params, Value
from afx.core.tracing.debug_nans import OPEN_BLOCKS
from afx.core.tracing.tape import Entry, Tape, TapeTracer
from afx.core.tracing.tracer import Tracer, to_array, to_lower_level
from afx.ops._basic import reshape_p
from afx.ops.creation.creation import asarray
from afx.transforms._arguments import ONE_LEAF, pair_of
from afx.transforms.custom.custom_call import clean_by_structure, custom_call_p, fill_dead, strong
from afx.transforms.derivatives.cotangent_masks import GraphPullback
from afx.transforms.derivatives.flat_functions import Flat, Push

__all__ = ["RecordedVjp", "plain_tape", "record_jvp"]

Aligner: TypeAlias = Callable[[Any, list[tuple[list[Aval], Any, bool]], int, str], Sequence[Value]]


def plain_tape(xs: Sequence[Any]) -> Tape | None:
    """Return the tape that alone traces values among arrays, if it holds plain values; None else."""
    tape: Any = None
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
        kept, self._kept_tree = pytree.flatten(residuals)
        results = _untraced(outs, ())
        values = None if results is None else _untraced(kept, (results, primals))
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
        self, ct: Value, z: Value, kept: tuple[Value, ...], _: Params, avals: tuple[Aval | None, ...]
    ) -> Sequence[Value]:
        """Return the cotangents of the arguments, None for zeros."""
        ends = self._ends
        if len(ends) == 1:  # with a cotangent, or nobody had asked
            return self._ruled(kept, ct)
        return self._ruled(
            kept, [np.zeros(a.shape, a.dtype) if c is None else c for c, a in zip(ct, ends, strict=True)]
        )

    def pull_masked(
        self, kinds: Sequence[int], cts: Sequence[Value], masks: Sequence[Value], kept: Sequence[Value]
    ) -> tuple[Sequence[Value], Sequence[Value]]:
        """Return the cotangents of the arguments and their masks."""
        full, alive = fill_dead(kinds, cts, masks, self._ends)
        gs = [None if g is None else asarray(g) for g in self._ruled(kept, full)]
        return clean_by_structure(self.name, self._leaves_of, self._operands, gs, [to_lower_level(m) for m in alive])

    def _ruled(self, kept: Sequence[Value], cts: Sequence[Value]) -> Sequence[Value]:
        found = self.backward(_tree(self._kept_tree, kept), _tree(self._out_tree, cts))
        operands = self._operands
        if found.__class__ is tuple and len(found) == len(operands):
            for g, a in zip(found, operands, strict=True):
                if not isinstance(g, Array) or g.shape != a.shape:
                    break
            else:
                return found
        return self.aligned(found, [([a], ONE_LEAF, True) for a in operands], len(operands), self.name)

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
            if any(isinstance(x, Tracer) for x in values):
                return None
            return [asarray(x) for x in strong(values, [x for xs in beside for x in xs])]
    return values
