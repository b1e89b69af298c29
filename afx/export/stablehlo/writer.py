"""Writer of StableHLO: operations in static single assignment, and formulas of those that it lacks."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from afx.core import Aval, DType
from afx.core.graph import Equation, Graph, Literal
from afx.export.templates import Walk

# --- Writer of StableHLO: operations in static single assignment, on values whose shapes and dtypes are known

ELEMENTS: dict[str, str] = {
    "bool": "i1", "float16": "f16", "float32": "f32", "float64": "f64", "complex64": "complex<f32>",
    "complex128": "complex<f64>", **{f"int{n}": f"i{n}" for n in (8, 16, 32, 64)},
    **{f"uint{n}": f"ui{n}" for n in (8, 16, 32, 64)},
}  # fmt: skip
BOOL = np.dtype(bool)


def type_text(aval: Aval) -> str:
    """Return the type of an array.

    >>> type_text(Aval((2, 3), np.dtype("float32"))), type_text(Aval((), np.dtype(bool)))
    ('tensor<2x3xf32>', 'tensor<i1>')
    """
    return f"tensor<{''.join([f'{n}x' for n in aval.shape])}{ELEMENTS[aval.dtype.name]}>"


class HloWriter:
    """The function that is being written. Values are names; methods that make one return its name."""

    def __init__(self, walk: Walk[HloWriter]) -> None:
        self.walk = walk
        self.lines: list[str] = []
        self._depth = 2

    # -- what a walk asks for --
    def begin(self, eq: Equation) -> None:
        """Take no notice: types say all."""

    def literal(self, literal: Literal) -> str:
        """Return a constant."""
        return self.fill(literal.value, Aval((), literal.aval.dtype))

    def constant(self, name: str, value: np.ndarray[Any, Any]) -> str:
        """Write a captured array, by its bytes."""
        aval = Aval(value.shape, value.dtype)
        if not value.size:
            return self.fill(0, aval)
        text = f'"0x{np.ascontiguousarray(value).tobytes().hex().upper()}"'
        if value.dtype.kind == "b" or not value.ndim:
            text = repr(value.tolist()).lower() if value.ndim else number_text(value[()], value.dtype)
        self.write(f"%{name} = stablehlo.constant dense<{text}> : {type_text(aval)}")
        return name

    # -- statements --
    def write(self, text: str) -> None:
        """Write a line."""
        self.lines.append("  " * self._depth + text)

    @contextmanager
    def region(self, head: str) -> Generator[None]:
        """Write what stands in a region of an operation."""
        self.write(head)
        self._depth += 1
        yield
        self._depth -= 1

    def leave(self, values: Sequence[str], avals: Sequence[Aval]) -> None:
        """Write the end of a region."""
        types = ", ".join(map(type_text, avals))
        self.write(f"stablehlo.return {self.read(values)}{f' : {types}' if types else ''}".rstrip())

    def inline(self, graph: Graph, operands: Sequence[str]) -> list[str]:
        """Write a graph that an equation holds."""
        return self.walk.write(self, graph, operands)

    @staticmethod
    def read(values: Sequence[str]) -> str:
        """Return values as operands."""
        return ", ".join([f"%{x}" for x in values])

    # -- operations --
    def make(self, text: str, name: str = "") -> str:
        """Write an operation of one result; return its name."""
        name = name or self.walk.names.make("v")
        self.write(f"%{name} = stablehlo.{text}")
        return name

    def same(self, op: str, xs: Sequence[str], aval: Aval, name: str = "") -> str:
        """Write an operation whose operands have the type of its result."""
        return self.make(f"{op} {self.read(xs)} : {type_text(aval)}", name)

    def change(self, op: str, x: str, have: Aval, want: Aval, name: str = "", more: str = "") -> str:
        """Write an operation from one type to another."""
        return self.make(f"{op} %{x}{more} : ({type_text(have)}) -> {type_text(want)}", name)

    def fill(self, value: Any, aval: Aval, name: str = "") -> str:
        """Write an array of one number."""
        return self.make(f"constant dense<{number_text(value, aval.dtype)}> : {type_text(aval)}", name)

    def convert(self, x: str, have: Aval, dtype: DType, name: str = "") -> str:
        """Convert to a dtype; nonzero numbers are true."""
        want = Aval(have.shape, dtype)
        if dtype == have.dtype and not name:
            return x
        if dtype.kind == "b" and have.dtype.kind != "b":
            return self.compare("NE", (x, self.fill(0, have)), have, name)
        return self.change("convert", x, have, want, name)

    def broadcast(self, x: str, have: Aval, shape: tuple[int, ...], dims: Sequence[int] = (), name: str = "") -> str:
        """Broadcast to a shape; dims are the axes of the result that those of x become, the last ones by default."""
        if have.shape == shape and not name:
            return x
        axes = [*dims] if dims else [*range(len(shape) - have.ndim, len(shape))]
        return self.change("broadcast_in_dim", x, have, Aval(shape, have.dtype), name, f", dims = {axes}")

    def reshape(self, x: str, have: Aval, shape: tuple[int, ...], name: str = "") -> str:
        """Reshape."""
        return x if have.shape == shape and not name else self.change("reshape", x, have, Aval(shape, have.dtype), name)

    def compare(self, how: str, xs: Sequence[str], aval: Aval, name: str = "") -> str:
        """Compare two arrays of one type."""
        kind = "UNSIGNED" if aval.dtype.kind in "ub" else "SIGNED" if aval.dtype.kind == "i" else "FLOAT"
        operand = type_text(aval)
        out = type_text(Aval(aval.shape, BOOL))
        return self.make(f"compare {how}, {self.read(xs)}, {kind} : ({operand}, {operand}) -> {out}", name)

    def select(self, xs: Sequence[str], aval: Aval, name: str = "") -> str:
        """Choose by a condition of the same shape."""
        condition = type_text(Aval(aval.shape, BOOL))
        return self.make(f"select {self.read(xs)} : {condition}, {type_text(aval)}", name)

    def reduce(self, op: str, x: str, have: Aval, axis: Sequence[int], start: Any, name: str = "") -> str:
        """Reduce along axes."""
        initial = self.fill(start, Aval((), have.dtype))
        out = Aval(tuple([n for a, n in enumerate(have.shape) if a not in axis]), have.dtype)
        types = f"({type_text(have)}, {type_text(Aval((), have.dtype))}) -> {type_text(out)}"
        return self.make(
            f"reduce(%{x} init: %{initial}) applies stablehlo.{op} across dimensions = {[*axis]} : {types}", name
        )


def number_text(value: Any, dtype: DType) -> str:
    """Return a number of a dtype; numbers that are not finite by their bits.

    >>> number_text(1.5, np.dtype("float32")), number_text(float("inf"), np.dtype("float32")), number_text(1, BOOL)
    ('1.5', '0x7F800000', 'true')
    """
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind == "c":
        real = np.dtype("float32" if dtype.itemsize == 8 else "float64")
        return f"({number_text(complex(value).real, real)}, {number_text(complex(value).imag, real)})"
    if dtype.kind != "f":
        return str(int(value))
    number = dtype.type(value)
    if np.isfinite(number):
        digits, sign, power = str(number).partition("e")
        return f"{digits if '.' in digits else f'{digits}.0'}{sign}{power}"
    return f"0x{number[None].view(f'u{dtype.itemsize}')[0]:0{2 * dtype.itemsize}X}"


# --- Formulas: what StableHLO has otherwise than NumPy, above all of integers


class HloValue:
    """A value with Python's operators, while a formula is written."""

    def __init__(self, writer: HloWriter, name: str, aval: Aval) -> None:
        self.writer: HloWriter = writer
        self.name: str = name
        self.aval: Aval = aval

    def of(self, op: str, *others: Any) -> HloValue:
        """Return an operation of values of one type; Python's numbers are filled in."""
        names = [self.name, *[self.lift(y).name for y in others]]
        return HloValue(self.writer, self.writer.same(op, names, self.aval), self.aval)

    def lift(self, y: Any) -> HloValue:
        """Return a number as a value of this type."""
        return y if isinstance(y, HloValue) else HloValue(self.writer, self.writer.fill(y, self.aval), self.aval)

    def compare(self, how: str, y: Any) -> HloValue:
        """Return a condition."""
        name = self.writer.compare(how, (self.name, self.lift(y).name), self.aval)
        return HloValue(self.writer, name, Aval(self.aval.shape, np.dtype(bool)))

    def where(self, x: Any, y: Any, like: HloValue) -> HloValue:
        """Return a choice by this condition."""
        names = (self.name, like.lift(x).name, like.lift(y).name)
        return HloValue(self.writer, self.writer.select(names, like.aval), like.aval)

    def __add__(self, y: Any) -> HloValue:
        return self.of("add", y)

    def __sub__(self, y: Any) -> HloValue:
        return self.of("subtract", y)

    def __mul__(self, y: Any) -> HloValue:
        return self.of("multiply", y)

    def __truediv__(self, y: Any) -> HloValue:
        return self.of("divide", y)

    def __neg__(self) -> HloValue:
        return self.of("negate")


def _floor_divide(x: HloValue, y: HloValue) -> HloValue:
    is_zero = y.compare("EQ", 0)  # by which nothing is left
    x, y = is_zero.where(0, x, x), is_zero.where(1, y, y)
    if x.aval.dtype.kind == "u":
        return x / y
    rest = x.of("remainder", y)
    crosses = rest.compare("NE", 0).of("and", rest.of("xor", y).compare("LT", 0))
    return x / y - crosses.where(1, 0, x)


def _count_bits(x: HloValue) -> HloValue:
    return (x.of("abs") if x.aval.dtype.kind == "i" else x).of("popcnt")


def _sign(x: HloValue) -> HloValue:
    if x.aval.dtype.kind == "u":
        return x.compare("EQ", 0).where(0, 1, x)
    return x.compare("EQ", 0).where(0, x.of("sign"), x)


def _shift_right(x: HloValue, y: HloValue) -> HloValue:
    return x.of(f"shift_right_{'logical' if x.aval.dtype.kind == 'u' else 'arithmetic'}", y)


FORMULAS: dict[str, Callable[..., HloValue]] = {  # of what StableHLO lacks for some dtypes, or has otherwise
    "bitwise_count": _count_bits,
    "bitwise_right_shift": _shift_right,
    "floor_divide": _floor_divide,
    "sign": _sign,
}
