"""Formulas: elementwise functions that StableHLO lacks, from those that it has, accurate near 0 and without overflow."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from afx.core.aval import Aval
from afx.export.stablehlo.writer import HloWriter

__all__ = ["FORMULAS"]

Binary: TypeAlias = "Callable[[Value, Value], Value]"


class Value:
    """A value with Python's operators, while a formula is written."""

    def __init__(self, writer: HloWriter, name: str, aval: Aval) -> None:
        self.writer: HloWriter = writer
        self.name: str = name
        self.aval: Aval = aval

    def of(self, op: str, *others: Any) -> Value:
        """Return an operation of values of one type; Python's numbers are filled in."""
        names = [self.name, *[self.lift(y).name for y in others]]
        return Value(self.writer, self.writer.same(op, names, self.aval), self.aval)

    def lift(self, y: Any) -> Value:
        """Return a number as a value of this type."""
        return y if isinstance(y, Value) else Value(self.writer, self.writer.fill(y, self.aval), self.aval)

    def compare(self, how: str, y: Any) -> Value:
        """Return a condition."""
        name = self.writer.compare(how, (self.name, self.lift(y).name), self.aval)
        return Value(self.writer, name, Aval(self.aval.shape, np.dtype(bool)))

    def where(self, x: Any, y: Any, like: Value) -> Value:
        """Return a choice by this condition."""
        names = (self.name, like.lift(x).name, like.lift(y).name)
        return Value(self.writer, self.writer.select(names, like.aval), like.aval)

    def __add__(self, y: Any) -> Value:
        return self.of("add", y)

    def __sub__(self, y: Any) -> Value:
        return self.of("subtract", y)

    def __mul__(self, y: Any) -> Value:
        return self.of("multiply", y)

    def __truediv__(self, y: Any) -> Value:
        return self.of("divide", y)

    def __neg__(self) -> Value:
        return self.of("negate")


def _sinh(x: Value) -> Value:
    e = x.of("exponential_minus_one")
    near = (e + e / (e + 1.0)) * 0.5
    far = (x.of("exponential") - (-x).of("exponential")) * 0.5
    return x.of("abs").compare("LT", 1.0).where(near, far, x)


def _asinh(x: Value) -> Value:
    a = x.of("abs")
    near = (a + a * a / ((a * a + 1.0).of("sqrt") + 1.0)).of("log_plus_one")
    far = a.of("log") + math.log(2.0)
    return x.of("sign") * a.compare("LT", 1e7).where(near, far, x)


def _acosh(x: Value) -> Value:
    t = x - 1.0
    near = (t + (t * (t + 2.0)).of("sqrt")).of("log_plus_one")
    found = x.compare("LT", 1e7).where(near, x.of("log") + math.log(2.0), x)
    return x.compare("LT", 1.0).where(math.nan, found, x)


def _leg(x: Value) -> Value:
    return ((x.lift(1.0) - x) * (x + 1.0)).of("sqrt")


def _hypot(x: Value, y: Value) -> Value:
    a, b = x.of("abs"), y.of("abs")
    high, low = a.of("maximum", b), a.of("minimum", b)
    ratio = high.compare("EQ", 0.0).where(0.0, low / high, x)
    found = high * (ratio * ratio + 1.0).of("sqrt")
    is_far = a.compare("EQ", math.inf).of("or", b.compare("EQ", math.inf))
    return is_far.where(math.inf, found, x)


def _logaddexp(x: Value, y: Value) -> Value:
    gap = (x - y).of("abs")
    found = x.of("maximum", y) + (-gap).of("exponential").of("log_plus_one")
    return x.compare("EQ", y).where(x + math.log(2.0), found, x)


def _floor_divide(x: Value, y: Value) -> Value:
    if x.aval.dtype.kind == "f":
        return _floor_divide_real(x, y)
    x, y = y.compare("EQ", 0).where(0, x, x), _divisor(y)
    if x.aval.dtype.kind == "u":
        return x / y
    rest = x.of("remainder", y)
    crosses = rest.compare("NE", 0).of("and", rest.of("xor", y).compare("LT", 0))
    return x / y - crosses.where(1, 0, x)


def _floor_divide_real(x: Value, y: Value) -> Value:
    """Return what is left when C's remainder is taken away, as NumPy does, so that inf divides."""
    rest = x.of("remainder", y)
    quotient = (x - rest) / y
    quotient = _crosses(rest, y).where(quotient - 1.0, quotient, x)
    floor = quotient.of("floor")
    floor = (quotient - floor).compare("GT", 0.5).where(floor + 1.0, floor, x)
    signed = floor.compare("EQ", 0.0).where((x / y).of("sign") * 0.0, floor, x)
    return y.compare("EQ", 0.0).where(x / y, signed, x)


def _crosses(rest: Value, y: Value) -> Value:
    """Return where a remainder has not its divisor's sign."""
    differs = rest.compare("LT", 0).of("xor", y.compare("LT", 0))
    return rest.compare("NE", 0).of("and", differs)


def _divisor(y: Value) -> Value:
    """Return 1 for an integer 0, by which nothing is left."""
    return y if y.aval.dtype.kind == "f" else y.compare("EQ", 0).where(1, y, y)


def _remainder(x: Value, y: Value) -> Value:
    y = _divisor(y)
    rest = x.of("remainder", y)
    if x.aval.dtype.kind == "u":
        return rest
    found = _crosses(rest, y).where(rest + y, rest, x)
    if x.aval.dtype.kind != "f":
        return found
    return rest.compare("EQ", 0.0).where(y.compare("LT", 0.0).where(-0.0, 0.0, x), found, x)


def _sign(x: Value) -> Value:
    if x.aval.dtype.kind == "u":
        return x.compare("EQ", 0).where(0, 1, x)
    return x.compare("EQ", 0).where(0, x.of("sign"), x)


def _isinf(x: Value) -> Value:
    return x.compare("NE", x) if x.aval.dtype.kind in "iub" else x.of("abs").compare("EQ", math.inf)


def _pick(op: str) -> Binary:
    def pick(x: Value, y: Value) -> Value:
        if x.aval.dtype.kind != "f":
            return x.of(op, y)
        both = y.compare("NE", y).where(x, x.of(op, y), x)
        return x.compare("NE", x).where(y, both, x)

    return pick


def _xlogy(function: str) -> Binary:
    return lambda x, y: x.compare("EQ", 0.0).of("and", y.compare("EQ", y)).where(x, x * y.of(function), x)


UNARY: dict[str, Callable[[Value], Value]] = {
    "acos": lambda x: _leg(x).of("atan2", x),
    "acosh": _acosh,
    "asin": lambda x: x.of("atan2", _leg(x)),
    "asinh": _asinh,
    "atan": lambda x: x.of("atan2", 1.0),
    "atanh": lambda x: (x.of("log_plus_one") - (-x).of("log_plus_one")) * 0.5,
    "cosh": lambda x: (x.of("exponential") + (-x).of("exponential")) * 0.5,
    "deg2rad": lambda x: x * (math.pi / 180.0),
    "exp2": lambda x: x.lift(2.0).of("power", x),
    "isinf": _isinf,
    "isnan": lambda x: x.compare("NE", x),
    "log10": lambda x: x.of("log") / math.log(10.0),
    "log2": lambda x: x.of("log") / math.log(2.0),
    "positive": lambda x: x,
    "rad2deg": lambda x: x * (180.0 / math.pi),
    "reciprocal": lambda x: x.lift(1) / x,
    "sign": _sign,
    "sinh": _sinh,
    "square": lambda x: x * x,
    "trunc": lambda x: x.compare("LT", 0.0).where(x.of("ceil"), x.of("floor"), x),
}
BINARY: dict[str, Binary] = {
    "floor_divide": _floor_divide,
    "fmax": _pick("maximum"),
    "fmin": _pick("minimum"),
    "fmod": lambda x, y: x.of("remainder", _divisor(y)),
    "hypot": _hypot,
    "logaddexp": _logaddexp,
    "remainder": _remainder,
    "xlog1py": _xlogy("log_plus_one"),
    "xlogy": _xlogy("log"),
}
FORMULAS: dict[str, Callable[..., Value]] = {**UNARY, **BINARY}
