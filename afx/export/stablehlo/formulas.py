"""Formulas: what StableHLO has otherwise than NumPy, above all of integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from afx.core.aval import Aval
from afx.export.stablehlo.writer import HloWriter

__all__ = ["FORMULAS"]


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


def _floor_divide(x: Value, y: Value) -> Value:
    x, y = y.compare("EQ", 0).where(0, x, x), _divisor(y)
    if x.aval.dtype.kind == "u":
        return x / y
    rest = x.of("remainder", y)
    crosses = rest.compare("NE", 0).of("and", rest.of("xor", y).compare("LT", 0))
    return x / y - crosses.where(1, 0, x)


def _crosses(rest: Value, y: Value) -> Value:
    """Return where a remainder has not its divisor's sign."""
    differs = rest.compare("LT", 0).of("xor", y.compare("LT", 0))
    return rest.compare("NE", 0).of("and", differs)


def _divisor(y: Value) -> Value:
    """Return 1 for an integer 0, by which nothing is left."""
    return y if y.aval.dtype.kind == "f" else y.compare("EQ", 0).where(1, y, y)


def _fmod(x: Value, y: Value) -> Value:
    return x.of("remainder", _divisor(y))


def _remainder(x: Value, y: Value) -> Value:
    y = _divisor(y)
    rest = x.of("remainder", y)
    if x.aval.dtype.kind == "u":
        return rest
    return _crosses(rest, y).where(rest + y, rest, x)


def _count_bits(x: Value) -> Value:
    return (x.of("abs") if x.aval.dtype.kind == "i" else x).of("popcnt")


def _sign(x: Value) -> Value:
    if x.aval.dtype.kind == "u":
        return x.compare("EQ", 0).where(0, 1, x)
    return x.compare("EQ", 0).where(0, x.of("sign"), x)


def _power(x: Value, y: Value) -> Value:
    """Return a power; of integers bit by bit, as XLA errs at large exponents, and 0 for a negative one."""
    if x.aval.dtype.kind not in "iu":
        return x.of("power", y)
    is_signed, below = x.aval.dtype.kind == "i", y.compare("LT", 0)
    found = x.lift(1)
    for k in range(8 * x.aval.dtype.itemsize - is_signed):
        found = y.of("and", 1 << k).compare("NE", 0).where(found * x, found, x)
        x = x * x
    return below.where(0, found, found) if is_signed else found


FORMULAS: dict[str, Callable[..., Value]] = {  # of what StableHLO lacks for some dtypes, or has otherwise
    "bitwise_count": _count_bits,
    "floor_divide": _floor_divide,
    "fmod": _fmod,
    "pow": _power,
    "remainder": _remainder,
    "sign": _sign,
}
