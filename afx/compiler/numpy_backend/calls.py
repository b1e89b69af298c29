"""Calls: the line of Python for one `Call`, inside of a fused loop or outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from afx.compiler.numpy_backend.names import Names
from afx.compiler.schedule import Call, Params

__all__ = ["applied", "call_lines", "named_once", "view_text"]

BY_NAME = (np.maximum, np.minimum)  # NumPy 2.5 warns of an operand after their two


def call_lines(call: Call, xs: Sequence[str], out: str, names: Names) -> list[str]:
    """Return the lines that compute a call of one output.

    Args:
        call: the call.
        xs: the text of its operands.
        out: the text of what is written into; of the name that is assigned where it makes its result itself.
        names: the names of the schedule.
    """
    method = call.method
    if method in ("ufunc", "dot", "flat_dot", "vecdot", "reduce", "turned_reduce"):
        return [_numpy_call(call, xs, out, names)]
    if method == "unrolled_reduce":
        return _unrolled(call, xs[0], out, names)
    if method == "copy":
        return [f"{out}[...] = {xs[0]}"]
    if method == "into":
        return [f"{names.rule(call.op, 'impl_into')}({', '.join([out, *xs, *_keywords(call.params, names)])})"]
    raise AssertionError(method)


def _numpy_call(call: Call, xs: Sequence[str], out: str, names: Names) -> str:
    into = "" if call.allocates else f", {out}"
    if call.method == "ufunc":
        name, ufunc = names.ufunc(call.op)
        into = into.replace(", ", ", out=", 1) if ufunc in BY_NAME else into
        text = f"{name}({', '.join(xs)}{into})"
    elif call.method == "dot":
        text = f"{xs[0]}.dot({xs[1]}{into})"
    elif call.method == "flat_dot":
        text = f"{xs[0]}.reshape(-1).dot({xs[1]}{into})"
    elif call.method == "vecdot":
        text = f"{names.numpy('vecdot')}({', '.join(xs)}{into})"
    else:
        text = _reduction(call, xs[0], into, names)
    return f"{out} = {text}" if call.allocates else text


def _reduction(call: Call, x: str, into: str, names: Names) -> str:
    axis: Any = dict(call.params)["axis"]
    if call.method == "turned_reduce":
        last = axis[0]
        x = f"{x}.T.copy()" if last == 1 else f"{x}.transpose({(last, *range(last))}).copy()"
        axis = (0,)
    name, _ = names.ufunc(call.op, "reduce")
    into = f", None{into}" if into else ""
    return f"{name}({x}, {axis[0] if len(axis) == 1 else axis}{into})"


def _unrolled(call: Call, x: str, out: str, names: Names) -> list[str]:
    axis: int = dict(call.params)["axis"][0]
    parts = [f"{x}[{':, ' * axis}{k}]" for k in range(call.operands[0].shape[axis])]
    name, ufunc = names.ufunc(call.op)
    by = "out=" if ufunc in BY_NAME else ""
    first = f"{name}({parts[0]}, {parts[1]}"
    lines = [f"{out} = {first})" if call.allocates else f"{first}, {by}{out})"]
    return lines + [f"{name}({out}, {part}, {by}{out})" for part in parts[2:]]


def applied(op: str, params: Params, xs: Sequence[str], names: Names) -> str:
    """Return the call of an op's implementation."""
    return f"{names.rule(op, 'impl')}({', '.join([*xs, *_keywords(params, names)])})"


def view_text(op: str, params: Params, source: str, names: Names) -> str:
    """Return the expression of a view: NumPy's own, where the op has one."""
    emit = names.emit_view(op)
    return applied(op, params, [source], names) if emit is None else emit(source, **dict(params))


def _keywords(params: Params, names: Names) -> list[str]:
    return [f"{key}={names.parameter(key, value)}" for key, value in params]


def named_once(texts: Sequence[str], stem: str) -> dict[str, str]:
    """Return names for operands of a loop that steps would make anew each time: what makes one row-major, for instance."""
    made = dict.fromkeys([text for text in texts if not text.isidentifier()])
    return {text: f"{stem}_{k}" for k, text in enumerate(made)}
