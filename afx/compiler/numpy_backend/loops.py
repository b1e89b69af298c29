"""Loops as Python: looks between steps, fused loops by blocks, steps on numbers, and the way back over residuals."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from afx.compiler.numpy_backend.program import Line, ScheduleNames, call_lines, common_errstate, wrap_errstate
from afx.compiler.schedule.schedule import (
    Alloc,
    Buffer,
    Call,
    ErrorState,
    Free,
    Fused,
    Loop,
    Number,
    Operand,
    Schedule,
    View,
)
from afx.compiler.target import Target
from afx.core import Function, lookup
from afx.core.scalar_ops import scalar_op

R = TypeVar("R")

# --- Looks: what runs between the steps of loops, while a call of a plan waits for machine code that may finish it


class Watch(Protocol):
    """What looks between the steps of a call's loops."""

    def look(self, calls: float) -> None:
        """Look, before a step of so many instructions; raise to end the call."""
        ...


class _Looks(threading.local):
    """What a thread's plan is watched by, if by anything."""

    watch: Watch | None = None


_looks = _Looks()
_FOREVER: Iterator[None] = itertools.repeat(None)


def run_with_looks(watch: Watch, run: Callable[..., R], *args: Any) -> R:
    """Return ``run(*args)``, between the steps of whose loops a watch looks."""
    before = _looks.watch
    try:
        _looks.watch = watch
        return run(*args)
    finally:
        _looks.watch = before


def look_between(steps: Iterable[Any] = _FOREVER, calls: float = math.inf) -> Iterable[Any]:
    """Return the steps of a loop, each of which is one of so many instructions; a watch, where there is one, looks between.

    >>> look_between(range(3), 2)
    range(0, 3)
    """
    watch = _looks.watch
    return steps if watch is None else _looking(watch, steps, calls)


def _looking(watch: Watch, steps: Iterable[Any], calls: float) -> Iterator[Any]:
    for step in steps:
        watch.look(calls)
        yield step


# --- Fused loops as Python: a function of one block, whose intermediate values stay in the cache


class FusedEmitter:
    """The text of one fused loop.

    Attributes:
        name: of its function.
        lines: the function.
        arguments: what it is called with, behind a block's number, its bounds and its scratch arrays.
    """

    def __init__(self, fused: Fused, name: str, names: ScheduleNames) -> None:
        self.fused = fused
        self.name = name
        self._names = names
        self._rows = fused.space.kind == "rows"
        self._parts = {partial.out.index: f"part_{names.of(partial.out)}" for partial in fused.partials}
        self._ufuncs = {partial.out.index: partial.ufunc for partial in fused.partials}
        self._sliced = [*fused.sliced, *[b for b in fused.outputs if b.index not in self._parts]]
        self._also_sliced = {b.index for b in self._sliced}
        self.lines: list[Line] = [*map(Line, self._head()), *self._body()]

    def _head(self) -> list[str]:
        fused, names = self.fused, self._names
        parameters = [*map(names.of, self._sliced), *map(self._all, fused.whole), *self._parts.values()]
        lines = [f"def {self.name}(block_, start_, stop_, own_, {', '.join(parameters)}):"]
        if fused.scratch:
            slots = ", ".join([f"t{k}" for k in range(len(fused.scratch))])
            lines.append(f"    {slots}, = own_")
            lines.append(f"    if stop_ - start_ < {fused.space.block}:")
            lines.append(f"        {slots}, = [t[: stop_ - start_] for t in own_]")
        lines += [f"    {names.of(b)} = {names.of(b)}[start_:stop_]" for b in self._sliced]
        lines += [f"    {self._view(view)}" for view in fused.backward]
        return lines

    def arguments(self) -> str:
        """Return what the function is called with; arrays of several axes are flat where blocks are of elements."""
        flat = "" if self._rows else ".reshape(-1)"
        sliced = [self._names.of(b) + (flat if len(b.shape) > 1 else "") for b in self._sliced]
        return ", ".join([*sliced, *map(self._names.of, self.fused.whole), *self._parts.values()])

    def _all(self, b: Buffer) -> str:
        """Return the name of a value that each block reads as a whole."""
        return f"{self._names.of(b)}_all" if b.index in self._also_sliced else self._names.of(b)

    def _locate(self, b: Buffer) -> str:
        if b.storage == "scratch":
            return f"t{b.location}"
        return f"v{b.index}" if b.storage == "view" and b.index not in self._also_sliced else self._names.of(b)

    def _view(self, view: View) -> str:
        shape = ", ".join(["-1", *map(str, view.out.shape[1:])])  # any number of such rows
        return f"v{view.out.index} = {self._locate(view.source)}.reshape({shape})"

    def _body(self) -> list[Line]:
        lines, states = list[Line](), list[ErrorState]()
        for step in self.fused.body:
            texts = [self._view(step)] if isinstance(step, View) else self._step(step)
            lines += [Line(f"    {line}", step.equation) for line in texts]
            states += [None if isinstance(step, View) else step.error_state] * len(texts)
        if common_errstate(states)[1]:
            return lines  # the whole loop is called within it
        self._names.numpy("errstate")
        return wrap_errstate(lines, states, "    ")

    def _step(self, call: Call) -> list[str]:
        names, out = self._names, call.outputs[0]
        xs = [self._operand(x, part) for x, part in zip(call.operands, call.sliced, strict=True)]
        part = self._parts.get(out.index)
        if part is None:
            if call.method == "copy":
                tail = ", ".join(["-1", *map(str, out.shape[1:])])
                xs = [f"{xs[0]}.reshape({tail})"]
            return call_lines(call, xs, self._locate(out), names)
        if call.method == "into":
            return call_lines(call, xs, f"{part}[block_]", names)
        reduce, _ = names.ufunc(call.op, "reduce")
        return [f"{part}[block_] = {reduce}({xs[0]}, {dict(call.params)['axis'] if self._rows else 0})"]

    def _operand(self, x: Operand, is_sliced: bool) -> str:
        if isinstance(x, Buffer):
            return self._locate(x) if is_sliced else self._all(x)
        if x.form != "filled" or not is_sliced:
            return self._names.number(x)
        shape = (self.fused.space.block, *(x.shape[1:] if self._rows else ()))
        return f"{self._names.number(x, shape)}[: stop_ - start_]"


# --- Reverse loops: the steps of a loop that a condition ends, and the way back over what they left


def walk_back(
    test: Function,
    step: Function,
    back: Function,
    tests: Sequence[Any],
    consts: Sequence[Any],
    carry: Sequence[Any],
    state: Sequence[Any],
) -> list[Any]:
    """Run steps as long as a condition holds, then the way back over them; return what is carried back.

    Args:
        test: what the condition closes over and the carry to a list of one boolean.
        step: constants and the carry to the next carry, then residuals.
        back: constants, the residuals of a step, and what is carried back to the latter.
        tests: what the condition closes over.
        consts: what each step closes over.
        carry: before the first step.
        state: what is carried back, before the first step back.
    """
    count, residuals = len(carry), list[Sequence[Any]]()
    for _ in look_between():
        if not test(*tests, *carry)[0]:
            break
        results = step(*consts, *carry)
        carry = results[:count]
        residuals.append(results[count:])
    for _ in look_between(range(len(residuals))):
        state = back(*consts, *residuals.pop(), *state)
    return [np.array(x) for x in state]


# --- Scalar loops: steps on 0-d values run as arithmetic of Python, an eighth of the time of NumPy's calls
#
# Values are of float64, truth values that choose among them, and int64, which counts.
#
# Sums, differences, products, quotients and square roots of Python's floats have the bits of NumPy's; every other
# function is NumPy's own. The processor's flags are not read: an operation that raises one leaves an infinity, a nan
# or an exception behind, and sums and products keep infinities and nan. So a step whose last values are finite raised
# no flag. Any other step is computed again by NumPy, with its warnings, exceptions and rounding.


class Form(NamedTuple):
    """An operation on Python's floats.

    Attributes:
        text: the expression.
        passing: the operands whose infinities and nan stay infinities or nan in the result.
    """

    text: str
    passing: tuple[int, ...] = (0, 1)


FUNCTIONS: Mapping[str, Function] = {f.__name__: f for f in (abs, math.sqrt, float)}
KINDS = {np.dtype(np.float64): "float", np.dtype(np.int64): "int", np.dtype(np.bool_): "bool"}
LARGEST = 2**63 - 1


def emit_scalar_steps(loop: Loop, name: str, names: ScheduleNames, target: Target) -> list[str]:
    """Return the lines of a function that runs steps of a loop on Python's numbers.

    There are none where a value is anything but a 0-d one of float64, int64 or bool. The function takes the constants,
    the carry and rows as numbers, what keeps a row of results, and what computes a step by NumPy; it gives the last
    carry.
    """
    body = loop.body
    if loop.condition is not None or not _are_numbers(body, target):
        return []
    kinds = [_kind(x) for call in _calls(body) for x in call.outputs]
    return list(_steps(loop, name, names)) if "float" in kinds else []


def _calls(body: Schedule) -> list[Call]:
    return [i for i in body if isinstance(i, Call)]


def _are_numbers(body: Schedule, target: Target) -> bool:
    """Tell whether all values of a step are numbers, and all calls have a form for them."""
    calls = _calls(body)
    others = [i for i in body if not isinstance(i, (Alloc, Call, Free))]
    if others or not 0 < len(calls) <= target.scalar_max_lines or not all(map(_kind, body.inputs)):
        return False
    return all(_form(call) is not None for call in calls) and all(_is_result(r.operand) for r in body.results)


def _kind(x: Operand) -> str:
    """Return ``float``, ``int`` or ``bool``, an empty text for everything else."""
    if isinstance(x, Buffer):
        return "" if x.shape else KINDS.get(x.dtype, "")
    value = x.literal.value
    kind = KINDS.get(x.dtype, "")
    return kind if type(value).__name__ == kind else ""


def _is_result(x: Operand) -> bool:
    """Tell whether a value can be kept as a number: rows of another dtype round a float as they do any number."""
    return bool(_kind(x)) if isinstance(x, Buffer) else isinstance(x.literal.value, float)


def _form(call: Call) -> Form | None:
    """Return how a call is computed, None for one that NumPy must compute."""
    kinds = [_kind(x) for x in call.operands]
    if len(call.outputs) != 1 or not all(kinds) or not _kind(call.outputs[0]):
        return None
    out, alike = _kind(call.outputs[0]), len(set(kinds)) == 1
    role = lookup(call.op).algebra.canonical
    if role == "select":
        return Form("{1} if {0} else {2}", ()) if kinds == ["bool", out, out] else None
    if role == "cast":
        return Form("float_({})", ()) if out == "float" and kinds[0] != "float" else None
    if call.method != "ufunc" or not alike:
        return None
    op = scalar_op(call.ufunc)
    form = Form(op.python, op.passing)
    if kinds[0] == "bool":
        return Form(op.of_bools, ()) if out == "bool" and op.of_bools else None
    if out == "bool":
        return form if op.is_comparison else None
    if out == "int" or kinds[0] == "int":
        return form if out == kinds[0] and op.counts else None
    return form if op.text or op.symbol else Form("", ())


def _steps(loop: Loop, name: str, names: ScheduleNames) -> Iterator[str]:
    """Yield the function of all steps of a loop on Python's numbers; where one is not finite, NumPy does the step again."""
    inputs, calls = list(map(names.of, loop.body.inputs)), _calls(loop.body)
    ends = len(loop.consts), len(loop.consts) + len(loop.carry)
    consts, carry, rows = inputs[: ends[0]], inputs[ends[0] : ends[1]], inputs[ends[1] :]
    made = [_text(r.operand, names) for r in loop.body.results]
    targets = [text if isinstance(r.operand, Buffer) else "_" for text, r in zip(made, loop.body.results, strict=True)]
    yield f"def {name}(consts_, carry_, rows_, keep_, plain_):"
    for part, given in ((consts, "consts_"), (carry, "carry_")):
        if part:
            yield f"    {', '.join(part)}, = {given}"
    yield f"    for {', '.join(rows)}{',' if rows else '_'} in rows_:"
    yield "        try:"
    yield from [f"            {_text(call.outputs[0], names)} = {_expression(call, names)}" for call in calls]
    yield from [f"            {line}" for line in _checks(calls, loop.body, names)]
    yield "        except (ArithmeticError, ValueError):"
    yield f"            {', '.join(targets)}, = plain_({', '.join(inputs)})"
    count = len(loop.carry)
    yield f"        keep_(({', '.join(made[count:])}{',' if made[count:] else ''}))"
    if carry:
        yield f"        {', '.join(carry)}, = {', '.join(made[:count])},"
    yield f"    return ({', '.join(carry)}{',' if carry else ''})"


def _text(x: Operand, names: ScheduleNames) -> str:
    if isinstance(x, Buffer):
        return names.of(x)
    value = x.literal.value
    is_plain = not isinstance(value, float) or math.isfinite(value)
    return repr(value) if is_plain else names.number(Number(x.literal, "scalar"))


def _expression(call: Call, names: ScheduleNames) -> str:
    form, xs = _form(call), [_text(x, names) for x in call.operands]
    assert form is not None
    text = form.text or f"float_({names.ufunc(call.op)[0]}({', '.join(['{}'] * len(xs))}))"
    for name, value in FUNCTIONS.items():
        if text.startswith(f"{name}_("):
            names.function(name, value)
    return text.format(*xs)


def _checks(calls: Sequence[Call], body: Schedule, names: ScheduleNames) -> list[str]:
    """Return the lines that raise where NumPy must compute the step."""
    counts = [names.of(c.outputs[0]) for c in calls if _kind(c.outputs[0]) == "int"]
    lines = [f"if not -{LARGEST} <= {k} <= {LARGEST}:" for k in counts]
    ending = [names.of(x) for x in _unchecked(calls, body)]
    if ending:
        lines += [f"sum_ = {' + '.join(ending)}", "if sum_ - sum_ != 0.0:"]
    return [text for line in lines for text in ([line, "    raise ArithmeticError"] if line[:2] == "if" else [line])]


def _unchecked(calls: Sequence[Call], body: Schedule) -> list[Buffer]:
    """Return floats whose infinities and nan no other value shows."""
    shown = set[int]()
    for call in calls:
        form = _form(call)
        assert form is not None
        shown |= {x.index for k, x in enumerate(call.operands) if k in form.passing}
    values = [*body.inputs, *[call.outputs[0] for call in calls]]
    read = {x.index for call in calls for x in call.operands}
    made = {call.outputs[0].index for call in calls}
    floats = [x for x in values if _kind(x) == "float" and x.index not in shown]
    return [x for x in floats if x.index in read or x.index in made]


def run_scalar_loop(
    steps: Function,
    plain: Function,
    length: int,
    chunk: int,
    reverse: bool,
    operands: tuple[Sequence[Any], Sequence[Any], Sequence[Any]],
    ys: Sequence[Any],
) -> list[Any]:
    """Run the steps of a loop and return the last carry; rows of results go into ``ys``.

    Args:
        steps: runs some steps on floats.
        plain: runs one step by NumPy.
        length: the number of steps.
        chunk: steps whose rows are Python floats at a time.
        reverse: whether rows are walked from the last to the first.
        operands: constants, the first carry, and arrays that are walked along.
        ys: arrays of the stacked results.
    """
    consts, carry = ([_number(x) for x in values] for values in operands[:2])
    errors = np.geterr()

    def careful(*values: Any) -> list[Any]:
        with np.errstate(**errors):
            return [_number(x) for x in plain(*[np.asarray(x)[()] for x in values])]

    if errors["under"] != "ignore":  # results that are too small leave no trace in others
        steps = _careful_steps
    starts = range(0, length, chunk)
    with np.errstate(all="ignore"):
        for start in look_between(reversed(starts) if reverse else starts):
            part = slice(start, min(start + chunk, length))
            rows = list[tuple[float, ...]]()
            carry = steps(consts, carry, _rows(operands[2], part, reverse), rows.append, careful)
            for y, column in zip(ys, zip(*rows, strict=True), strict=True):
                y[part] = column[::-1] if reverse else column
    return [np.array(c) for c in carry]


def _number(x: Any) -> Any:
    """Return a number of Python."""
    return x.item() if isinstance(x, (np.generic, np.ndarray)) else x  # pyright: ignore[reportUnknownVariableType]  # NumPy's stub


def _rows(xs: Sequence[Any], part: slice, reverse: bool) -> Iterator[tuple[float, ...]]:
    """Return rows as Python's floats."""
    if not xs:
        return itertools.repeat((), part.stop - part.start)
    columns = [x[part].tolist() for x in xs]
    return zip(*[column[::-1] for column in columns] if reverse else columns, strict=True)


def _careful_steps(
    consts: Sequence[float], carry: Sequence[float], rows: Iterator[tuple[float, ...]], keep: Any, plain: Any
) -> Sequence[float]:
    """Run steps by NumPy."""
    for row in rows:
        made = plain(*consts, *carry, *row)
        carry = made[: len(carry)]
        keep(tuple(made[len(carry) :]))
    return carry
