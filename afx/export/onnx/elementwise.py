"""Elementwise operations: arithmetic, comparisons, integers, and functions that runtimes have of floats alone."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from afx.export.onnx.table import formulas, rule, rules
from afx.export.onnx.value import BOOL, Value, where
from afx.export.onnx.writer import OnnxWriter
from afx.export.templates.table import NoTemplateError

__all__ = ["arctangent", "as_bool", "expm1", "log1p", "signbit"]

FLOAT, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
SAME = {  # operators of one operand that runtimes compute of both floats
    "ceil": "Ceil", "cos": "Cos", "exp": "Exp", "floor": "Floor", "log": "Log", "reciprocal": "Reciprocal",
    "sin": "Sin", "sqrt": "Sqrt", "tanh": "Tanh",
}  # fmt: skip
ARITHMETIC = {"add": "Add", "multiply": "Mul", "subtract": "Sub", "divide": "Div", "negative": "Neg", "pow": "Pow"}
COMPARISONS = {
    "equal": "Equal", "greater": "Greater", "greater_equal": "GreaterOrEqual", "less": "Less",
    "less_equal": "LessOrEqual",
}  # fmt: skip
LOGIC = {"and": "And", "or": "Or", "xor": "Xor"}


@rules(SAME)
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


# -- parts of numbers --
def signbit(x: Value) -> Value:
    """Return where x is negative, of zeros too."""
    return (x < 0) | (x.equals(0) & (1 / x < 0)) if x.dtype.kind == "f" else x < 0


@rule("where")
def _where(_w: OnnxWriter, test: Value, x: Value, y: Value) -> Value:
    return where(as_bool(test), x, y)


# -- the larger and the smaller --
def _extreme(kind: str, x: Value, y: Value) -> Value:
    if x.dtype == BOOL:
        return x | y if kind == "Max" else x & y
    if x.dtype == np.dtype(np.uint64):
        raise NoTemplateError("order of uint64")
    return x.writer.arithmetic(kind, x, y)


def _known_extreme(kind: str, x: Value, y: Value) -> Value:
    found = _extreme(kind, x, y)
    return where(x.is_nan(), y, where(y.is_nan(), x, found)) if x.dtype.kind == "f" else found


# -- remainders and shifts --
def _fmod(x: Value, y: Value) -> Value:
    if x.dtype.kind == "f":
        return x.op("Mod", y, fmod=1)
    rest = x.writer.arithmetic("Mod", x, _divisor(x, y), fmod=1)
    return where(y.equals(0), 0, rest)


def remainder(x: Value, y: Value) -> Value:
    """Return the remainder that has the divisor's sign; 0 of a division of integers by 0."""
    if x.dtype.kind == "f":
        rest = x.op("Mod", y, fmod=1)
        differs = ~rest.equals(0) & ((rest < 0) ^ (y < 0))
        return where(differs, rest + y, rest)
    return where(y.equals(0), 0, x.writer.arithmetic("Mod", x, _divisor(x, y)))


def _divisor(x: Value, y: Value) -> Value:
    if x.dtype == np.dtype(np.uint64):
        raise NoTemplateError("division of uint64")
    return where(y.equals(0), 1, y)


def _floor_divide(x: Value, y: Value) -> Value:
    if x.dtype.kind == "f":
        is_far = y.op("IsInf", dtype=BOOL) & ~x.op("IsInf", dtype=BOOL) & ~x.is_nan()
        quotient = (x - remainder(x, y)) / where(is_far, 1.0, y)
        found = where(y.equals(0), x / y, (quotient + 0.5).op("Floor"))
        return where(is_far, where((x < 0) ^ (y < 0) & ~x.equals(0), -1.0, x.writer.number(0.0, x.dtype)), found)
    rest = remainder(x, y)
    return where(y.equals(0), 0, (x - rest) / _divisor(x, y))


def _right_shift(x: Value, y: Value) -> Value:
    if x.dtype.kind == "u":
        return _shift(x, y, "RIGHT")
    below = x < 0  # of which the bits that come in are ones
    flipped = where(below, x.op("BitwiseNot"), x)
    found = _shift(flipped, y, "RIGHT")
    return where(below, found.op("BitwiseNot"), found)


def _shift(x: Value, y: Value, direction: str) -> Value:
    """Return bits moved; ONNX moves those of unsigned integers, by less than their number."""
    bits = 8 * x.dtype.itemsize
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    is_whole = y.cast(np.int64) < bits
    count = where(is_whole, y.cast(np.int64), 0).cast(unsigned)
    moved = x.cast(unsigned).op("BitShift", count, direction=direction).cast(x.dtype)
    return where(is_whole, moved, 0)


# -- exponentials --
def expm1(x: Value) -> Value:
    """Return ``exp(x) - 1``: near 0 by half the argument's hyperbolic tangent."""
    half = (x * 0.5).op("Tanh")
    return where(abs(x) < 1.0, 2.0 * half / (1.0 - half), x.op("Exp") - 1.0)


def log1p(x: Value) -> Value:
    """Return ``log(1 + x)``: near 0 with the sum's rounding taken out (Goldberg 1991, theorem 4)."""
    total = x + 1.0
    near = where(total.equals(1.0), x, total.op("Log") * x / (total - 1.0))
    return where(abs(x) < 1.0, near, total.op("Log"))


def _add_powers(x: Value, y: Value) -> Value:
    turn = math.log(2.0)
    return where(x.equals(y), x + 1.0, _add_exponentials(x * turn, y * turn) / turn)


def _add_exponentials(x: Value, y: Value) -> Value:
    gap = where(x.equals(y), 0.0, x - y)
    return _extreme("Max", x, y) + log1p((-abs(gap)).op("Exp"))


def _hypot(x: Value, y: Value) -> Value:
    top, low = _extreme("Max", abs(x), abs(y)), _extreme("Min", abs(x), abs(y))
    regular = (top > 0) & ~top.op("IsInf", dtype=BOOL)
    part = where(regular, low, 0.0) / where(regular, top, 1.0)
    either = x.op("IsInf", dtype=BOOL) | y.op("IsInf", dtype=BOOL)
    return where(either, math.inf, where(regular, top * (part * part + 1.0).op("Sqrt"), top))


# -- functions of the circle, and of the hyperbola --
def _choose_form(kind: str, x: Value, formula: Callable[[Value], Value]) -> Value:
    return x.op(kind) if x.dtype == FLOAT else formula(x)


def _sinh(x: Value) -> Value:
    up, half = expm1(x), (abs(x) * 0.5).op("Exp")
    far = x.op("Sign") * (half * 0.5 * half)  # which overflows where the result does
    near = (up + up / (up + 1.0)) * 0.5
    return where(abs(x) < 1.0, near, where(abs(x) < 20.0, (x.op("Exp") - (-x).op("Exp")) * 0.5, far))


def _cosh(x: Value) -> Value:
    half = (abs(x) * 0.5).op("Exp")
    return where(abs(x) < 20.0, (x.op("Exp") + (-x).op("Exp")) * 0.5, half * 0.5 * half)


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


def _atan2(y: Value, x: Value) -> Value:
    w = x.writer
    both = x.op("IsInf", dtype=BOOL) & y.op("IsInf", dtype=BOOL)
    quotient = where(both, y.op("Sign") * x.op("Sign"), y / where(x.equals(0.0), 1.0, x))
    below = signbit(y)
    angle = where(x.equals(0.0), where(below, -math.pi / 2, w.number(math.pi / 2, x.dtype)), arctangent(quotient))
    angle = where(y.equals(0.0), where(x.is_nan(), x, 0.0), where(x.equals(0.0) & y.is_nan(), y, angle))
    turn = where(below, -math.pi, w.number(math.pi, x.dtype))
    return where(signbit(x) & ~(x.equals(0.0) & ~y.equals(0.0)), angle + turn, angle)


def _asinh(x: Value) -> Value:
    size = abs(x)
    near = where(size < 1e8, size, 1.0)
    square = near * near
    found = log1p(near + square / ((square + 1.0).op("Sqrt") + 1.0))
    return x.op("Sign") * where(size < 1e8, found, size.op("Log") + math.log(2.0))


def _acosh(x: Value) -> Value:
    above = where(x > 1e8, 1.0, x - 1.0)
    found = log1p(above + (above * (above + 2.0)).op("Sqrt"))
    return where(x > 1e8, x.op("Log") + math.log(2.0), where(x < 1.0, math.nan, found))


def _atanh(x: Value) -> Value:
    size = abs(x)
    return x.op("Sign") * log1p(2.0 * size / (1.0 - size)) * 0.5


def _sinc(x: Value) -> Value:
    angle = where(x.equals(0.0), 1.0, x) * math.pi
    return where(x.equals(0.0), 1.0, angle.op("Sin") / angle)


UNARY: dict[str, Callable[[Value], Value]] = {
    **dict.fromkeys(("positive", "stop_gradient", "conj", "real"), lambda x: x),
    "abs": lambda x: x if x.dtype == BOOL else abs(x),
    "square": lambda x: x & x if x.dtype == BOOL else x * x,
    "sign": lambda x: where(x.is_nan(), x, x.op("Sign")) if x.dtype.kind == "f" else x.op("Sign"),
    "signbit": signbit,
    "imag": lambda x: x.writer.full(x.writer.outs[0].shape, 0, x.dtype),
    "round": lambda x: x.op("Round") if x.dtype.kind == "f" else x,
    "trunc": lambda x: where(x < 0, x.op("Ceil"), x.op("Floor")) if x.dtype.kind == "f" else x,
    "logical_not": lambda x: ~as_bool(x),
    "bitwise_invert": lambda x: ~x if x.dtype == BOOL else x.op("BitwiseNot"),
    "isnan": lambda x: x.is_nan(),
    "isinf": lambda x: x.op("IsInf", dtype=BOOL) if x.dtype.kind == "f" else ~x.equals(x),
    "isfinite": lambda x: ~(x.op("IsInf", dtype=BOOL) | x.is_nan()) if x.dtype.kind == "f" else x.equals(x),
    "deg2rad": lambda x: x * (math.pi / 180),
    "rad2deg": lambda x: x * (180 / math.pi),
    "exp2": lambda x: x.writer.arithmetic("Pow", x.writer.number(2, x.dtype), x),
    "expm1": expm1,
    "log1p": log1p,
    "log2": lambda x: x.op("Log") / math.log(2.0),
    "log10": lambda x: x.op("Log") / math.log(10.0),
    "logit": lambda x: x.op("Log") - log1p(-x),
    "cbrt": lambda x: x.op("Sign") * x.writer.arithmetic("Pow", abs(x), x.writer.number(1 / 3, x.dtype)),
    "tan": lambda x: _choose_form("Tan", x, lambda x: x.op("Sin") / x.op("Cos")),
    "atan": arctangent,
    "asin": lambda x: _choose_form("Asin", x, lambda x: arctangent(x / ((1.0 - x) * (x + 1.0)).op("Sqrt"))),
    "acos": lambda x: _choose_form("Acos", x, lambda x: arctangent(((1.0 - x) / (x + 1.0)).op("Sqrt")) * 2.0),
    "sinh": lambda x: _choose_form("Sinh", x, _sinh),
    "cosh": lambda x: _choose_form("Cosh", x, _cosh),
    "asinh": lambda x: _choose_form("Asinh", x, _asinh),
    "acosh": lambda x: _choose_form("Acosh", x, _acosh),
    "atanh": lambda x: _choose_form("Atanh", x, _atanh),
    "sinc": _sinc,
}
BINARY: dict[str, Callable[[Value, Value], Value]] = {
    "not_equal": lambda x, y: ~x.equals(y),
    "copysign": lambda x, y: where(signbit(y), -abs(x), abs(x)),
    "maximum": lambda x, y: _extreme("Max", x, y),
    "minimum": lambda x, y: _extreme("Min", x, y),
    "fmax": lambda x, y: _known_extreme("Max", x, y),
    "fmin": lambda x, y: _known_extreme("Min", x, y),
    "fmod": _fmod,
    "remainder": remainder,
    "floor_divide": _floor_divide,
    "bitwise_left_shift": lambda x, y: _shift(x, y, "LEFT"),
    "bitwise_right_shift": _right_shift,
    "logaddexp": _add_exponentials,
    "logaddexp2": _add_powers,
    "hypot": _hypot,
    "atan2": _atan2,
}
formulas(UNARY)
formulas(BINARY)
