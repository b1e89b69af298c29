"""Tape: a flat record of a function's operations for reverse mode, plain or with the user's lines."""

from __future__ import annotations

import contextlib
import contextvars
import sys
import weakref
from _thread import get_ident
from collections.abc import Generator, Sequence
from types import FrameType
from typing import Any, NamedTuple, cast

import numpy as np

from afx.core.array.array import Array, snapshot, to_numpy_value, wrap
from afx.core.aval import SCALARS, Aval, Shape
from afx.core.dtypes import DType, weak_dtype
from afx.core.primitive import JointPullback, Params, Primitive, Value, Values, WeakArray, holds_graphs
from afx.core.tracing.tracer import (
    NUMPY_ERRORS,
    Source,
    Trace,
    Tracer,
    bind,
    bind1,
    bind2,
    caller,
    meet,
    raise_op_error,
    run_impl,
    to_array,
    to_lower_level,
    way_out,
)
from afx.errors import ConcreteValueError, NanError

# --- Tape
#
# Entries hold indices of earlier entries and values of the next lower level, never tracers: there are no reference
# cycles, and a tape of any length is walked and freed without recursion.


class Entry(NamedTuple):
    """One value on the tape and how it came about.

    Attributes:
        primitive: None for an input, and for all but the first output of an op with several.
        ins: index of the entry of each operand, -1 for operands that do not depend on the inputs.
        z: the output (a tuple where there are several), kept only if a pullback reads it.
        xs: the operands that a pullback reads, None for the others.
        params: the op's parameters.
        shape: of this value.
        dtype: of this value.
        outputs: the number of outputs.
        joint: the pullback of an op that records itself.
    """

    primitive: Primitive | None
    ins: Shape
    z: Value
    xs: Values
    params: Params
    shape: Shape
    dtype: DType
    outputs: int = 1
    joint: JointPullback | None = None


COPY_ONCE_MIN_ELEMENTS = 1 << 12  # below, copying takes no longer than looking for the copy
NO_PARAMS: dict[str, Any] = {}
_entry = cast(Any, tuple.__new__)
_new = object.__new__


class TapeTracer(Tracer):
    """A value on a tape: the value itself, and the index of its entry."""

    __slots__ = ("_index",)
    _index: int


class Tape(Trace):
    """The trace of reverse mode: concrete, so that Python control flow works.

    Attributes:
        entries: what was computed, in order.
        is_ground: whether all values are bare NumPy values, as they are when no outer trace is involved.
        has_selections: whether an op selected some of its operand's elements.
        has_choices: whether an op chose elements by a condition, as ``where`` does.
        lines: where abstract values come from, by index of the entry.
    """

    __slots__ = ("_copies", "entries", "has_choices", "has_selections", "is_ground", "lines")

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.entries: list[Entry] = []
        self.is_ground: bool = True
        self.has_selections: bool = False
        self.has_choices: bool = False
        self.lines: dict[int, Any] = {}
        self._copies: dict[int, tuple[Any, Any]] = {}

    def input(self, x: Any) -> TapeTracer:
        """Enter an input of the function; a Python number becomes an array of the default dtype."""
        return self._emit(None, (), None, (), NO_PARAMS, self._lift(x))

    def _lift(self, x: Any) -> Any:
        """Return an input's value: a tracer of an outer trace, so that not all values are bare ones, or a NumPy value."""
        if isinstance(x, Tracer):
            self.is_ground = False
            return x
        value = snapshot(x, self.name)
        return weak_dtype(value.__class__).type(value) if value.__class__ in SCALARS else value

    def _emit(
        self,
        p: Primitive | None,
        ins: Shape,
        z: Value,
        xs: Values,
        params: Params,
        value: Value,
        joint: JointPullback | None = None,
    ) -> TapeTracer:
        entries = self.entries
        t = _new(TapeTracer)
        t._trace = self
        t._index = len(entries)
        t._value = value
        entries.append(_entry(Entry, (p, ins, z, xs, params, value.shape, value.dtype, 1, joint)))
        return t

    def apply1(self, p: Primitive, x: Any) -> Any:
        """Record an elementwise op of one operand."""
        if self.owner != get_ident():
            self.check()
        value = x._value
        if self.is_ground:
            try:
                z = p.impl(value)
            except NUMPY_ERRORS as error:
                raise_op_error(p, (value,), NO_PARAMS, error)
        else:
            z = to_lower_level(bind1(p, to_array(value)))
            self.lines[len(self.entries)] = _line_of(z)
        rules = p.derivative
        if rules.vjps is None:
            return to_array(z)
        reads = rules.reads[0]  # bits: 1 for the output, 2 for the operand
        entries = self.entries
        t = _new(TapeTracer)
        t._trace = self
        t._index = len(entries)
        t._value = z
        out, residuals = z if reads & 1 else None, (value if reads & 2 else None,)
        entries.append(_entry(Entry, (p, (x._index,), out, residuals, NO_PARAMS, z.shape, z.dtype, 1, None)))
        return t

    def apply2(self, p: Primitive, x: Any, y: Any) -> Any:  # noqa: PLR0912  # the hottest path: each call costs
        """Record an elementwise op of two operands."""
        if self.owner != get_ident():
            self.check()
        if x.__class__ is TapeTracer and x._trace is self:
            i, xv = x._index, x._value
        else:
            i, xv = -1, x._value if x.__class__ is Array else self._operand(p, x, y)
        if y.__class__ is TapeTracer and y._trace is self:
            j, yv = y._index, y._value
        else:
            j, yv = -1, y._value if y.__class__ is Array else self._operand(p, y, x)
        if self.is_ground:
            try:
                z = p.impl(xv, yv)
            except NUMPY_ERRORS as error:
                raise_op_error(p, (xv, yv), NO_PARAMS, error)
        else:
            xv, yv = x if x.__class__ is Array else xv, y if y.__class__ is Array else yv
            z = to_lower_level(bind2(p, self._outer(xv, p.name), self._outer(yv, p.name)))
            self.lines[len(self.entries)] = _line_of(z)
        rules = p.derivative
        if rules.vjps is None:
            return to_array(z)
        # bits: 1 for the output, 2 for x, 4 for y
        reads = (rules.reads[0] if i >= 0 else 0) | (rules.reads[1] if j >= 0 else 0)
        if reads & 2:
            if isinstance(x, np.ndarray):
                xv = self._copy(x, p.name)
        else:
            xv = None
        if reads & 4:
            if isinstance(y, np.ndarray):
                yv = self._copy(y, p.name)
        else:
            yv = None
        entries = self.entries
        t = _new(TapeTracer)
        t._trace = self
        t._index = len(entries)
        t._value = z
        entries.append(
            _entry(Entry, (p, (i, j), z if reads & 1 else None, (xv, yv), NO_PARAMS, z.shape, z.dtype, 1, None))
        )
        return t

    def _operand(self, p: Primitive, x: Any, beside: Any = None) -> Any:
        """Return the value of an operand that is not on this tape, a weak array in the dtype that it meets beside another."""
        if x.__class__ is WeakArray:
            return x if holds_graphs(p) else to_lower_level(meet(p, (x, beside))[0])
        if isinstance(x, Tracer):
            self.is_ground = False
            return x
        return to_numpy_value(x, p.name)

    def apply(self, p: Primitive, xs: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Carry out an op and record it."""
        if self.owner != get_ident():
            self.check()
        if len(xs) == 1 and self.is_ground and p.derivative.vjps is not None and not p.multiple_results:
            return self._apply_one(p, xs[0], params)
        if WeakArray in [x.__class__ for x in xs]:
            xs = meet(p, xs)
        if p.derivative.through is not None:
            return p.derivative.through(*xs, **params)
        ins = tuple([x._index if x.__class__ is TapeTracer and x._trace is self else -1 for x in xs])
        values = tuple(
            [x._value if i >= 0 or x.__class__ is Array else self._operand(p, x) for i, x in zip(ins, xs, strict=True)]
        )
        rules = p.derivative
        if rules.concrete_vjp is not None:
            operands = tuple(
                [self._outer(x if x.__class__ is Array else v, p.name) for x, v in zip(xs, values, strict=True)]
            )
            return self._apply_concrete_vjp(p, ins, operands, params)
        if self.is_ground:
            z = run_impl(p, values, params)
        else:
            z = bind(
                p,
                *[self._outer(x if x.__class__ is Array else v, p.name) for x, v in zip(xs, values, strict=True)],
                **params,
            )
            z = tuple(map(to_lower_level, z)) if p.multiple_results else to_lower_level(z)
            self.lines[len(self.entries)] = _line_of(z[0] if p.multiple_results else z)
        if rules.vjps is None and rules.vjp_all is None:
            return tuple(map(to_array, z)) if p.multiple_results else to_array(z)
        return self._append_entry(p, ins, xs, values, params, z)

    def _apply_one(self, p: Primitive, x: Any, params: dict[str, Any]) -> TapeTracer:
        """Record an op of one operand, a plain value: what `apply` does, by a shorter way."""
        value = x._value
        z = run_impl(p, (value,), params)
        if p.masking.selects:
            self.has_selections = True
        elif p.masking.mask is not None:
            self.has_choices = True
        reads = p.derivative.reads[0]  # bits: 1 for the output, 2 for the operand
        return self._emit(p, (x._index,), z if reads & 1 else None, (value if reads & 2 else None,), params, z)

    def stand_in(self, p: Primitive, params: dict[str, Any], x: Any, value: Any) -> TapeTracer:
        """Enter a linear op of a tracer with another value than its own, which no pullback reads: a tangent."""
        return self._emit(p, (x._index,), None, (None,), params, value)

    def with_value(self, t: Any, value: Any) -> TapeTracer:
        """Return a tracer of another value that has the cotangent of ``t``."""
        new = _new(TapeTracer)
        new._trace = self
        new._index = t._index
        new._value = value
        return new

    def _append_entry(
        self, p: Primitive, ins: Shape, xs: tuple[Any, ...], values: tuple[Any, ...], params: Params, z: Value
    ) -> Any:
        """Enter an op with those of its values that its pullbacks read; the caller's memory is copied."""
        if p.masking.selects:
            self.has_selections = True
        elif p.masking.mask is not None:
            self.has_choices = True
        reads = self._reads(p, ins)
        residuals = tuple(
            [
                (self._copy(x, p.name) if isinstance(x, np.ndarray) else v) if reads >> k & 2 else None
                for k, (x, v) in enumerate(zip(xs, values, strict=True))
            ]
        )
        if p.multiple_results:
            return self._emit_many(p, ins, z if reads & 1 else None, residuals, params, z, None)
        return self._emit(p, ins, z if reads & 1 else None, residuals, params, z)

    @staticmethod
    def _reads(p: Primitive, ins: Shape) -> int:
        """Return which of output and operands the wanted pullbacks read, as a bit mask."""
        masks = p.derivative.reads
        if len(masks) == 1:
            return masks[0]
        reads = 0
        for mask, i in zip(masks, ins, strict=True):
            if i >= 0:
                reads |= mask
        return reads

    def _apply_concrete_vjp(self, p: Primitive, ins: Shape, operands: tuple[Any, ...], params: Params) -> Any:
        """Let an op that holds functions run as one entry with a pullback of its own."""
        assert p.derivative.concrete_vjp is not None
        outs, residual_values, joint = p.derivative.concrete_vjp(operands, params, tuple([i >= 0 for i in ins]))
        self.check_closure(params, p.name, *outs, *residual_values)
        residuals = tuple(map(to_lower_level, residual_values))
        return self._emit_many(p, ins, None, residuals, params, tuple(map(to_lower_level, outs)), joint)

    def enter_call(
        self, p: Primitive, ins: Shape, residuals: Values, values: Sequence[Any], joint: JointPullback
    ) -> list[Any]:
        """Enter a call that has run already, with its pullback; return its results as tracers."""
        if len(values) != 1 or values[0].dtype.kind not in "fc":
            return list(self._emit_many(p, ins, None, residuals, NO_PARAMS, tuple(values), joint))
        return [self._emit(p, ins, None, residuals, NO_PARAMS, values[0], joint)]

    def _emit_many(
        self,
        p: Primitive,
        ins: Shape,
        z: Value,
        xs: Values,
        params: Params,
        values: Values,
        joint: JointPullback | None,
    ) -> tuple[Any, ...]:
        """Enter the outputs of one op: the first entry carries it, the others stand for their outputs alone."""
        outs: list[Any] = []
        for k, value in enumerate(values):
            t = self._emit(None, (), None, (), NO_PARAMS, value)
            if k == 0:
                first = Entry(p, ins, z, xs, params, value.shape, value.dtype, len(values), joint)
                self.entries[t._index] = first
            outs.append(t if value.dtype.kind in "fc" else to_array(value))
        return tuple(outs)

    def _copy(self, x: Any, who: str) -> Any:
        """Return the copy of the caller's array that rules keep: a large one is copied once, unless it changes."""
        if x.size < COPY_ONCE_MIN_ELEMENTS:
            return snapshot(x, who)
        copied = self._copies.get(id(x))
        if copied is not None and copied[0] is x and _same_bits(x, copied[1]):
            return copied[1]
        value = snapshot(x, who)
        if value is not x:
            self._copies[id(x)] = (x, value)
        return value

    def _outer(self, v: Any, who: str) -> Any:
        """Return an operand as one that an outer trace may keep."""
        return to_operand(self._copy(v, who) if isinstance(v, np.ndarray) else v)

    def concrete_value(self, x: Any, who: str) -> Any:
        """Return the bare value where reading it loses nothing, or raise."""
        return plain_value(x, who, self.name)

    def show(self, x: Any) -> str:
        """Return the repr of a tracer."""
        if not self.alive:
            return f"Traced<{Aval(x.shape, x.dtype)} by {self.name}, ended>"
        return f"Traced<{x._value!r} by {self.name}>"

    def finish(self) -> None:
        """Mark the trace as ended; its tracers raise from now on."""
        self.alive = False
        self._copies.clear()


def _line_of(z: Any) -> Any:
    """Return where the equation stands that an op has just made, None where it was computed."""
    while isinstance(z, Tracer):
        find = getattr(z._trace, "last_source", None)
        if find is not None:
            return find()
        z = z._value
    return None


def _same_bits(x: Any, y: Any) -> bool:
    """Tell whether two arrays hold the same bytes; comparing takes a third of the time of copying."""
    if x.dtype != y.dtype or x.shape != y.shape or not x.flags.c_contiguous:
        return False
    return bool(np.array_equal(x.reshape(-1).view(np.uint8), y.reshape(-1).view(np.uint8)))


def plain_value(x: Any, who: str, name: str) -> Any:
    """Return the bare value of a tracer that holds it, where reading it loses no derivative, or raise."""
    value = x._value
    if who != "bool" and value.dtype.kind in "fc":
        raise ConcreteValueError(
            f"{who}: its result would not be differentiated: got a traced {Aval(x.shape, x.dtype)} in {name}; "
            f"{way_out()}, or take the plain value with afx.stop_gradient(x)"
        )
    return value.concrete(who) if isinstance(value, Array) else value


def snapshot_operand(v: Any, who: str) -> Any:
    """Return a value as an operand that an outer trace may keep: the caller's memory is copied."""
    return to_operand(v if isinstance(v, Array) else snapshot(v, who))


def to_operand(v: Any) -> Any:
    """Return a lower-level value as an operand: Python numbers stay weak, memory that the tape holds is afx's."""
    return v if isinstance(v, Array) or not isinstance(v, (np.ndarray, np.generic)) else wrap(v)


# --- Located tape: a tape with the user's line of every operation, for messages and for hunting nan
#
# Finding the line at every operation would cost a tenth of the time of small programs, so plain tapes do without.
# When a backward pass fails, the function runs once more on a tape of this kind, and the message names the line.

OPEN_BLOCKS: list[bool] = []  # not empty while some context looks for nan, or disables jit: one look costs nothing
_debugging: contextvars.ContextVar[bool] = contextvars.ContextVar("afx_debug_nans", default=False)


@contextlib.contextmanager
def debug_nans() -> Generator[None]:
    """Raise where a function's result or gradient is nan, naming the operation and the user's line that made the first.

    Inside the ``with`` block the results of jitted functions, derivatives and loops are checked, and jitted functions run
    as plain Python. A nan in a branch that `where` discards does not count. Of single operations, called outside of such
    functions in the block's thread, the arrays that are still in use when it ends are checked (not under a profiler).

    Raises:
        NanError: from within the block, where a result is nan though no argument is; at its end, for single operations.

    >>> import afx
    >>> with debug_nans():
    ...     afx.grad(lambda x: afx.sqrt(x) * x)(4.0)
    Array(3., dtype=float32)
    """
    token = _debugging.set(True)
    OPEN_BLOCKS.append(True)
    watch = NanWatch() if sys.getprofile() is None else None
    try:
        if watch is not None:
            sys.setprofile(watch.returned)
        yield
    finally:
        OPEN_BLOCKS.pop()
        _debugging.reset(token)
        if watch is not None and sys.getprofile() == watch.returned:
            sys.setprofile(None)
    if watch is not None:
        watch.check()


def debugging() -> bool:
    """Tell whether a `debug_nans` block is open."""
    return _debugging.get()


class NanOrigin(NamedTuple):
    """The operation that made a nan from operands without one, and the user's line."""

    name: str
    source: Source | None

    def __str__(self) -> str:
        return f"{self.name}: nan from operands without nan{at(self.source)}; guard the operand with afx.where"


class NanWatch:
    """What single operations on plain values made of nan, seen by Python's profiling hook, so that other calls cost nothing.

    Each nan keeps the origin of the operand from which it comes. A nan that came in from outside has none.
    """

    def __init__(self) -> None:
        # by identity of the value, which it keeps
        self._found: dict[int, tuple[Any, weakref.ref[Array], NanOrigin]] = {}

    def returned(self, frame: FrameType, event: str, result: Any) -> None:
        """Look at what a function returns: operations make a nan, others may hand it on, as indexing does."""
        if event != "return":
            return
        if frame.f_code not in BINDING:
            self._hand_on(frame, result)
            return
        several = result if result.__class__ is tuple else (result,)
        outs = [z for z in several if z.__class__ is Array and has_nan(z)]
        if not outs:
            return
        names = frame.f_locals  # as the functions of BINDING call the primitive and its operands
        operands = names["xs"] if "xs" in names else [names[k] for k in ("x", "y") if k in names]
        nans = [x._value if x.__class__ is Array else x for x in operands if has_nan(x)]
        origin = next((self._found[id(x)][2] for x in nans if id(x) in self._found), None)
        if origin is None:
            if nans:  # it came in from outside
                return
            origin = NanOrigin(names["p"].name, caller(2))
        self._found |= {id(z._value): (z._value, weakref.ref(z), origin) for z in outs}

    def _hand_on(self, frame: FrameType, result: Any) -> None:
        if result.__class__ is not Array or id(result._value) in self._found or not has_nan(result):
            return
        for x in frame.f_locals.values():
            origin = self.origin_of(x)
            if origin is not None:
                self._found[id(result._value)] = result._value, weakref.ref(result), origin
                return

    def origin_of(self, x: Any) -> NanOrigin | None:
        """Return where a nan of an array comes from, None where that was not seen."""
        seen = self._found.get(id(x._value)) if x.__class__ is Array else None
        return None if seen is None else seen[2]

    def forget(self) -> None:
        """Forget what was seen: it has been reported."""
        self._found.clear()

    def check(self) -> None:
        """Raise `NanError` where an array that is in use holds a nan whose origin was seen."""
        for _, array, origin in self._found.values():
            if array() is not None:
                raise NanError(str(origin))


BINDING = frozenset(fn.__code__ for fn in (bind, bind1, bind2))


def _open_watch() -> NanWatch | None:
    watch = getattr(sys.getprofile(), "__self__", None)
    return watch if isinstance(watch, NanWatch) else None


def seen_origin(xs: Sequence[Any]) -> NanOrigin | None:
    """Return where the first nan in some arrays comes from, as far as the block that is open has seen it."""
    watch = _open_watch()
    return None if watch is None else next((o for o in map(watch.origin_of, xs) if o is not None), None)


def nan_error(text: str) -> NanError:
    """Return the error to raise; the end of the block, should it be caught before, does not raise it again."""
    watch = _open_watch()
    if watch is not None:
        watch.forget()
    return NanError(text)


class LocatedTape(Tape):
    """A tape with the source of each entry.

    Attributes:
        sources: by index of the entry, the source location outside afx that computed it.
    """

    __slots__ = ("checks", "sources")

    def __init__(self, name: str, *, checks: bool = False) -> None:
        super().__init__(name)
        self.sources: dict[int, Source | None] = {}
        self.checks: bool = checks

    def apply1(self, p: Primitive, x: Any) -> Any:
        """Record an elementwise op of one operand and where it stands."""
        return self._located(p, super().apply1(p, x))

    def apply2(self, p: Primitive, x: Any, y: Any) -> Any:
        """Record an elementwise op of two operands and where it stands."""
        return self._located(p, super().apply2(p, x, y))

    def apply(self, p: Primitive, xs: tuple[Any, ...], params: dict[str, Any]) -> Any:
        """Carry out an op, record it and where it stands."""
        return self._located(p, super().apply(p, xs, params))

    def _located(self, p: Primitive, z: Any) -> Any:
        source = caller(3)
        if z.__class__ is TapeTracer and z._trace is self and not self.checks:
            self.sources[z._index] = source
            return z
        outs = z if p.multiple_results else (z,)
        for t in outs:
            if isinstance(t, Tracer) and t._trace is self:
                self.sources[t._index] = source  # type: ignore[attr-defined]  # this tape's tracers have it
        return z


def at(source: Source | None) -> str:
    """Return `` at file:line``, or nothing where the source location is unknown."""
    return "" if source is None else f" at {source}"


def has_nan(x: Any) -> bool:
    """Tell whether the plain value behind an operand holds a nan; unknown values count as free of it."""
    while isinstance(x, Array):
        x = x._value
    known: Any = (np.ndarray, np.generic, float, complex)
    return isinstance(x, known) and bool(np.any(np.isnan(x)))
