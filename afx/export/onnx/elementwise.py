"""Elementwise operations: arithmetic, comparisons, integers and special functions, and the table of all templates."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from afx.core.graph import Equation
from afx.export.onnx.writer import BOOL, OnnxWriter, Value, refuse_uint64, where
from afx.export.templates import Table

# --- Table: the templates of ONNX, each a function of values that returns its results

OPSET = 18  # of December 2022, the first with all that the templates write
TABLE: Table[OnnxWriter] = Table(f"ONNX (opset {OPSET})", has_formulas=True)
F = TypeVar("F", bound="Callable[..., Value | Sequence[Value]]")


def rule(*names: str) -> Callable[[F], F]:
    """Enter a function of the writer and the operands as the template of primitives; it returns the result, or all results."""

    def enter(form: F) -> F:
        def template(w: OnnxWriter, _eq: Equation, operands: list[str], results: list[str]) -> None:
            for known in (*w.ins, *w.outs):
                w.kind(known.dtype)  # which refuses what no model holds
            w.wish(results[0])
            start, outs = len(w.nodes), w.outs
            values = [w.value(name, known) for name, known in zip(operands, w.ins, strict=True)]
            made = form(w, *values)
            every = [made] if isinstance(made, Value) else made
            w.name_results([v.cast(o.dtype) for v, o in zip(every, outs, strict=True)], results, start)

        TABLE.rule(*names)(template)
        return form

    return enter


def _with_kind(
    form: Callable[..., Value | Sequence[Value]], kind: Any, w: OnnxWriter, *xs: Value
) -> Value | Sequence[Value]:
    return form(w, kind, *xs)


def rules(kinds: Mapping[str, Any]) -> Callable[[F], F]:
    """Enter a function as the template of several primitives: it takes what stands beside their names, then the operands."""

    def enter(form: F) -> F:
        for name, kind in kinds.items():
            rule(name)(functools.partial(_with_kind, form, kind))
        return form

    return enter


def formulas(entries: Mapping[str, Callable[..., Value]]) -> None:
    """Enter formulas of the operands alone as the templates of primitives."""

    @rules(entries)
    def _(_w: OnnxWriter, formula: Callable[..., Value], *xs: Value) -> Value:
        return formula(*xs)


# --- Elementwise operations: arithmetic, comparisons, integers, and functions that runtimes have of floats alone

FLOAT, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
# operators of one operand that runtimes compute as they are, named as afx's functions but for the capital
SAME = "Abs Ceil Cos Exp Floor Log Reciprocal Round Sin Sqrt Tanh"
OF_FLOAT32 = "Acos Acosh Asin Asinh Atanh Cosh Erf Sinh Tan"  # and those that they compute of float32 alone
ARITHMETIC = {"add": "Add", "multiply": "Mul", "subtract": "Sub", "divide": "Div", "negative": "Neg"}
COMPARISONS = {
    "equal": "Equal", "greater": "Greater", "greater_equal": "GreaterOrEqual", "less": "Less",
    "less_equal": "LessOrEqual",
}  # fmt: skip
LOGIC = {"and": "And", "or": "Or", "xor": "Xor"}


@rules({kind.lower(): kind for kind in f"{SAME} {OF_FLOAT32}".split()})
def _operator(_w: OnnxWriter, kind: str, x: Value) -> Value:
    return x.op(kind)


@rules(ARITHMETIC)
def _arithmetic(w: OnnxWriter, kind: str, *xs: Value) -> Value:
    return w.arithmetic(kind, *xs)


@rules(COMPARISONS)
def _comparison(w: OnnxWriter, kind: str, x: Value, y: Value) -> Value:
    return w.compare(kind, x, y)


@rules({f"logical_{name}": kind for name, kind in LOGIC.items()})
def _logic(_w: OnnxWriter, kind: str, x: Value, y: Value) -> Value:
    return as_bool(x).op(kind, as_bool(y))


@rules({f"bitwise_{name}": kind for name, kind in LOGIC.items()})
def _bits(_w: OnnxWriter, kind: str, x: Value, y: Value) -> Value:
    return x.op(kind if x.dtype == BOOL else f"Bitwise{kind}", y)


def as_bool(x: Value) -> Value:
    """Return where x is not 0."""
    return x if x.dtype == BOOL else ~x.equals(0)


# -- choices --
@rule("where")
def _where(_w: OnnxWriter, test: Value, x: Value, y: Value) -> Value:
    return where(as_bool(test), x, y)


# -- the larger and the smaller --
def _extreme(kind: str, x: Value, y: Value) -> Value:
    if x.dtype == BOOL:
        return x | y if kind == "Max" else x & y
    refuse_uint64(x.dtype, "order")
    return x.writer.arithmetic(kind, x, y)


# -- quotients, remainders, powers and shifts --
def _floor_divide(x: Value, y: Value) -> Value:
    """Return the quotient of integers below; that of the least number and -1, which ends processes, wraps."""
    refuse_uint64(x.dtype, "division")
    safe = where(y.equals(0), 1, y)
    if x.dtype.kind == "u":
        return where(y.equals(0), 0, x / safe)
    minus = y.equals(-1)
    safe = where(minus, 1, safe)
    crosses = ~(safe * (x / safe)).equals(x) & ((x < 0) ^ (y < 0))
    quotient = x / safe - crosses.cast(x.dtype)
    return where(y.equals(0), 0, where(minus, 0 - x, quotient))


def _right_shift(x: Value, y: Value) -> Value:
    if x.dtype.kind == "u":
        return _shift(x, y, "RIGHT")
    below = x < 0  # of which the bits that come in are ones
    flipped = where(below, x.op("BitwiseNot"), x)
    shifted = _shift(flipped, y, "RIGHT")
    return where(below, shifted.op("BitwiseNot"), shifted)


def _shift(x: Value, y: Value, direction: str) -> Value:
    """Return bits moved; ONNX moves those of unsigned integers, by less than their number."""
    bits = 8 * x.dtype.itemsize
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    is_whole = y.cast(np.int64) < bits
    count = where(is_whole, y.cast(np.int64), 0).cast(unsigned)
    moved = x.cast(unsigned).op("BitShift", count, direction=direction).cast(x.dtype)
    return where(is_whole, moved, 0)


# -- functions of the circle --
def arctangent(x: Value) -> Value:
    """Return the arc tangent: of doubles that of a float, with one step to the angle whose tangent is the argument."""
    if x.dtype == FLOAT:
        return x.op("Atan")
    is_far = abs(x) > 1.0
    near = where(is_far, 1.0 / where(is_far, x, 1.0), x)
    angle = near.cast(FLOAT).op("Atan").cast(DOUBLE)
    tangent = angle.op("Sin") / angle.op("Cos")
    angle = angle + (near - tangent) / (near * tangent + 1.0)
    return where(is_far, x.op("Sign") * (math.pi / 2) - angle, angle)


UNARY: dict[str, Callable[[Value], Value]] = {
    **dict.fromkeys(("stop_gradient", "conj", "real"), lambda x: x),
    "atan": arctangent,
    "bitwise_invert": lambda x: ~x if x.dtype == BOOL else x.op("BitwiseNot"),
    "imag": lambda x: x.writer.full(x.writer.outs[0].shape, 0, x.dtype),
    "isinf": lambda x: x.op("IsInf", dtype=BOOL),
    "isnan": lambda x: x.is_nan(),
    "logical_not": lambda x: ~as_bool(x),
    "sign": lambda x: where(x.is_nan(), x, x.op("Sign")) if x.dtype.kind == "f" else x.op("Sign"),
}
BINARY: dict[str, Callable[[Value, Value], Value]] = {
    "bitwise_left_shift": lambda x, y: _shift(x, y, "LEFT"),
    "bitwise_right_shift": _right_shift,
    "floor_divide": _floor_divide,
    "fmod": lambda x, y: x.op("Mod", y, fmod=1),
    "maximum": lambda x, y: _extreme("Max", x, y),
    "minimum": lambda x, y: _extreme("Min", x, y),
    "not_equal": lambda x, y: ~x.equals(y),
    "pow": lambda x, y: x.op("Pow", y),
}
formulas(UNARY)
formulas(BINARY)
TABLE.takes |= dict.fromkeys(OF_FLOAT32.lower().split(), "f") | dict.fromkeys(
    ("ceil", "floor", "fmod", "isinf", "pow", "round"), "fd"
)
TABLE.takes |= {"abs": np.typecodes["Integer"] + "fd", "floor_divide": np.typecodes["AllInteger"] + "?"}
