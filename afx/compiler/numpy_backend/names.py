"""Names: what the Python of a plan calls its buffers, functions and numbers, and what they stand for."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from afx.compiler.operands import Buffer, Number
from afx.core.aval import Shape
from afx.core.dtypes import dtype_name
from afx.core.graph import Literal, name_of
from afx.core.named_tuples import maker_of
from afx.core.primitive import Primitive, lookup

__all__ = ["Binding", "Names"]

RESERVED = frozenset({"arena", "np", "run", "bind", "part"})

Make: TypeAlias = "Callable[[dict[str, Any]], Any]"


class Binding(NamedTuple):
    """A name that each set of buffers has a value of its own for.

    Attributes:
        make: from the values of the names before it, and the block of the arena as ``arena``, to its value.
        text: gives the expression that is shown.
    """

    make: Make
    text: Callable[[], str]


_binding = maker_of(Binding)


class Names:
    """The names of one schedule.

    Attributes:
        shared: values that all sets of buffers share: NumPy's functions, constants, numbers.
        shown: of shared ones, the expressions that are shown.
        own: names with a value for each set of buffers, in the order in which they are made.
        buffers: those of buffers that were asked for, by their numbers.
        used: names that the part of the program that is being written reads from outside.
    """

    def __init__(self) -> None:
        self.shared: dict[str, Any] = {}
        self.shown: dict[str, str] = {}
        self.own: dict[str, Binding] = {}
        self.used: dict[str, None] = {}
        self.buffers: dict[int, str] = {}
        self._numbers: dict[Any, str] = {}
        self._ufuncs: dict[tuple[str, str], tuple[str, Any]] = {}

    def of(self, buffer: Buffer) -> str:
        """Return the name of a buffer, which no function or keyword of Python bears."""
        found = self.buffers.get(buffer.index)
        if found is None:
            name = name_of(buffer.index)
            found = f"{name}_" if keyword.iskeyword(name) or name in RESERVED else name
            self.buffers[buffer.index] = found
        return found

    def use(self, name: str) -> str:
        """Note that the part reads a name from outside."""
        self.used[name] = None
        return name

    def bind(self, name: str, make: Make, text: Callable[[], str]) -> str:
        """Enter a name that is made for each set of buffers."""
        self.own[name] = _binding((make, text))
        return name

    def share(self, name: str, value: Any, text: str = "") -> str:
        """Return the name of a shared value; another value of that name gets another one."""
        wish, k = name, 2
        while wish in self.shared and self.shared[wish] is not value:
            wish, k = f"{name}_{k}", k + 1
        if wish not in self.shared:
            self.shared[wish] = value
            if text:
                self.shown[wish] = text
        return self.use(wish)

    def numpy(self, path: str) -> str:
        """Return the name of a function of NumPy, such as ``add.reduce``."""
        name = f"np_{path.replace('.', '_')}"
        if name not in self.shared:
            value: Any = np
            for part in path.split("."):
                value = getattr(value, part)
            self.shared[name] = value
            self.shown[name] = f"np.{path}"
        return self.use(name)

    def ufunc(self, op: str, attribute: str = "") -> tuple[str, Any]:
        """Return the name of the ufunc that computes an op, or of its ``reduce``, and the ufunc."""
        found = self._ufuncs.get((op, attribute))
        if found is None:
            found = self._ufuncs[op, attribute] = self._ufunc(op, attribute)
        self.used[found[0]] = None
        return found

    def _ufunc(self, op: str, attribute: str) -> tuple[str, Any]:
        rule = lookup(op).lowering
        value: Any = rule.reduce_ufunc if attribute or rule.ufunc is None else rule.ufunc
        tail = f".{attribute}" if attribute else ""
        name: str = value.__name__
        if getattr(np, name, None) is value:
            return self.numpy(f"{name}{tail}"), value
        function: Any = getattr(value, attribute) if attribute else value
        return self.share(f"{name}{tail.replace('.', '_')}_", function, f"{name}{tail}"), value

    def function(self, name: str, value: Any) -> str:
        """Return the name of a function of afx."""
        return self.share(f"{name}_", value)

    def rule(self, op: str, rule: str) -> str:
        """Return the name of an implementation of an op."""
        p: Primitive = lookup(op)
        value: Any = p.impl if rule == "impl" else getattr(p.lowering, rule)
        return self.function(op, value)

    def emit_view(self, op: str) -> Callable[..., str] | None:
        """Return the rule that writes a view of an op down, if it has one."""
        return lookup(op).lowering.emit_view

    def number(self, number: Number, block: Shape | None = None) -> str:
        """Return the name of a number; filled ones may have another shape in blocks."""
        literal, shape = number.literal, number.shape if block is None else block
        key = (number.form, repr(literal.value), literal.aval.dtype, shape)
        name = self._numbers.get(key)
        if name is None:
            name = self._numbers[key] = self._free(_number_name(literal, number.form, shape))
            self.shared[name] = _value(literal, number.form, shape)
            self.shown[name] = _number_text(literal, number.form, shape)
        self.used[name] = None
        return name

    def _free(self, wish: str) -> str:
        name, k = wish, 2
        while name in self.shared:
            name, k = f"{wish}_{k}", k + 1
        return name

    def parameter(self, key: str, value: Any) -> str:
        """Return the text of a parameter."""
        if _is_plain(value):
            return repr(value)
        dtype: Any = value
        name = f"{dtype_name(dtype)}_" if isinstance(value, np.dtype) else f"{key}_1"
        return self.share(name, value)  # pyright: ignore[reportUnknownArgumentType]  # a dtype of any kind


def _value(literal: Literal, form: str, shape: Shape) -> Any:
    if form == "scalar":
        return literal.aval.dtype.type(literal.value)
    if form == "array":
        return np.array(literal.value, literal.aval.dtype)
    return np.full(shape, literal.value, literal.aval.dtype)


def _number_name(literal: Literal, form: str, shape: Shape) -> str:
    number = "n_" + re.sub(r"\W", "_", str(literal.value).replace("-", "minus_").replace(".", "_"))
    if form != "filled":
        return number
    return f"{'ones' if literal.value == 1 else number}_{'x'.join(map(str, shape))}"


def _number_text(literal: Literal, form: str, shape: Shape) -> str:
    dtype, text = literal.aval.dtype, str(literal.value).replace("inf", "np.inf").replace("nan", "np.nan")
    if form == "scalar":
        return f"np.{dtype.type.__name__}({text})"
    if form == "array":
        return f"np.array({text}, '{dtype}')"
    if literal.value == 1:
        return f"np.ones({shape}, '{dtype}')"
    return f"np.full({shape}, {text}, '{dtype}')"


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))  # pyright: ignore[reportUnknownArgumentType]  # parameters of any type
    return value is None or type(value) in (bool, int, str)
