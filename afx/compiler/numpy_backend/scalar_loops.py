"""Scalar loops: steps on 0-d float64 values run as arithmetic on Python's floats, an eighth of the time of NumPy's calls.

Sums, differences, products, quotients and square roots of Python's floats have the bits of NumPy's; every other
function is NumPy's own. No flag of the processor is asked: an operation that could have raised one leaves an infinity, a
nan or an exception behind, and infinities and nan stay what they are in sums and products. So a step whose last values
are finite went without; any other one is computed again by NumPy, which warns, raises and rounds as it does.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from afx.compiler.numpy_backend.names import Names
from afx.compiler.operands import Buffer, Number, Operand
from afx.compiler.schedule import Alloc, Call, Free, Loop, Schedule
from afx.compiler.target import Target

__all__ = ["emit_scalar_steps", "run_scalar_loop"]


class Form(NamedTuple):
    """An operation on Python's floats.

    Attributes:
        text: the expression.
        passing: the operands whose infinities and nan stay infinities or nan in the result.
    """

    text: str
    passing: tuple[int, ...] = (0, 1)


FORMS = {
    "add": Form("{} + {}"),
    "subtract": Form("{} - {}"),
    "multiply": Form("{} * {}"),
    "divide": Form("{} / {}", (0,)),
    "negative": Form("-{}"),
    "positive": Form("{}"),
    "square": Form("{0} * {0}"),
    "reciprocal": Form("1.0 / {}", ()),
}
FLOAT64 = np.dtype(np.float64)


def emit_scalar_steps(loop: Loop, name: str, names: Names, target: Target) -> list[str]:
    """Return the lines of a function that runs steps of a loop on Python's floats.

    There are none where a value is anything but a 0-d float64 one. The function takes the constants, the carry and rows
    as floats, what keeps a row of results, and what computes a step by NumPy; it gives the last carry.
    """
    body = loop.body
    calls = [i for i in body if isinstance(i, Call)]
    others = [i for i in body if not isinstance(i, (Alloc, Call, Free))]
    if loop.condition is not None or others or not 0 < len(calls) <= target.scalar_max_lines:
        return []
    if not all(map(_is_scalar, body.inputs)) or not all(map(_is_float, calls)):
        return []
    if not all(_is_result(r.operand) for r in body.results):
        return []
    return list(_steps(loop, calls, name, names))


def _is_scalar(x: Buffer) -> bool:
    return x.dtype == FLOAT64 and not x.shape


def _is_number(x: Operand) -> bool:
    if isinstance(x, Buffer):
        return _is_scalar(x)
    return isinstance(x.literal.value, float) and (x.literal.aval.dtype == FLOAT64 or x.literal.aval.weak)


def _is_result(x: Operand) -> bool:
    """Tell whether a value can be kept as a float: rows of another dtype round it as they do any number."""
    if isinstance(x, Buffer):
        return _is_scalar(x)
    return isinstance(x.literal.value, float)


def _is_float(call: Call) -> bool:
    return call.method == "ufunc" and all(map(_is_scalar, call.outputs)) and all(map(_is_number, call.operands))


def _steps(loop: Loop, calls: Sequence[Call], name: str, names: Names) -> Iterator[str]:
    inputs = list(map(names.of, loop.body.inputs))
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
    ending = [names.of(x) for x in _unchecked(calls, loop.body)]
    yield f"            sum_ = {' + '.join(ending)}"
    yield "            if sum_ - sum_ != 0.0:"
    yield "                raise ArithmeticError"
    yield "        except (ArithmeticError, ValueError):"
    yield f"            {', '.join(targets)}, = plain_({', '.join(inputs)})"
    count = len(loop.carry)
    yield f"        keep_(({', '.join(made[count:])}{',' if made[count:] else ''}))"
    if carry:
        yield f"        {', '.join(carry)}, = {', '.join(made[:count])},"
    yield f"    return ({', '.join(carry)}{',' if carry else ''})"


def _text(x: Operand, names: Names) -> str:
    if isinstance(x, Buffer):
        return names.of(x)
    value = x.literal.value
    assert isinstance(value, float)
    return repr(value) if math.isfinite(value) else names.number(Number(x.literal, "scalar"))


def _expression(call: Call, names: Names) -> str:
    xs = [_text(x, names) for x in call.operands]
    if call.ufunc in FORMS:
        return FORMS[call.ufunc].text.format(*xs)
    if call.ufunc == "sqrt":
        return f"{names.function('sqrt', math.sqrt)}({xs[0]})"
    return f"{names.function('float', float)}({names.ufunc(call.op)[0]}({', '.join(xs)}))"


def _unchecked(calls: Sequence[Call], body: Schedule) -> list[Buffer]:
    """Return values whose infinities and nan no other value shows."""
    shown = set[int]()
    for call in calls:
        form = FORMS.get(call.ufunc)
        passing = (0,) if call.ufunc == "sqrt" else form.passing if form else ()
        shown |= {x.index for k, x in enumerate(call.operands) if k in passing and isinstance(x, Buffer)}
    values = [*body.inputs, *[call.outputs[0] for call in calls]]
    read = {x.index for call in calls for x in call.operands if isinstance(x, Buffer)}
    made = {call.outputs[0].index for call in calls}
    return [x for x in values if x.index not in shown and (x.index in read or x.index in made)]


def run_scalar_loop(
    steps: Callable[..., Any],
    plain: Callable[..., Any],
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
        chunk: steps whose rows are held as Python's floats at once.
        reverse: whether rows are walked from the last to the first.
        operands: constants, the first carry, and arrays that are walked along.
        ys: arrays of the stacked results.
    """
    consts, carry = ([float(x) for x in values] for values in operands[:2])
    errors = np.geterr()

    def careful(*values: float) -> list[float]:
        with np.errstate(**errors):
            return [float(x) for x in plain(*map(np.float64, values))]

    if errors["under"] != "ignore":  # results that are too small leave no trace in others
        steps = _careful_steps
    starts = range(0, length, chunk)
    with np.errstate(all="ignore"):
        for start in reversed(starts) if reverse else starts:
            part = slice(start, min(start + chunk, length))
            kept = list[tuple[float, ...]]()
            carry = steps(consts, carry, _rows(operands[2], part, reverse), kept.append, careful)
            for y, column in zip(ys, zip(*kept, strict=True), strict=True):
                y[part] = column[::-1] if reverse else column
    return [np.array(c) for c in carry]


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
