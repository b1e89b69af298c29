"""From the text of a plan to the function that runs it.

Up to about a thousand lines that is one function whose names are all local. The time that Python takes to compile a
function grows faster than its length, so that longer plans become several functions that share their names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FunctionType
from typing import Any, TypeAlias

import numpy as np

__all__ = ["Bind", "Code"]

Bind: TypeAlias = "Callable[[Sequence[Any]], Callable[..., list[Any]]]"

LONGEST = 1000  # lines of one function
DOTTED = re.compile(r"\bnp(?:\.\w+)+")
BY_NAME = (np.maximum, np.minimum)  # NumPy 2.5 warns of an operand after their two
WRITES = re.compile(r"^( *)(.+\.dot|\w+)\((.*), out=(\w+)\)$")
ASSIGNED = re.compile(r"^ *(\w+(?:, *\w+)*),? = ", re.MULTILINE)


class Code:
    """The text of a plan, with NumPy's functions as names of their own.

    What ufuncs write into becomes a positional argument, which spares a fifth of the time of a small call.

    Attributes:
        used: NumPy's functions by these names.
    """

    def __init__(self, lines: Sequence[str], functions: Sequence[str], result: str, inputs: Sequence[str]) -> None:
        self.used: dict[str, Any] = {}
        self._lines = [self._spelled(line) for line in lines]
        self._functions = [self._spelled(line) for line in functions]
        self._result = DOTTED.sub(self._local, result)
        self._inputs = inputs

    def _spelled(self, line: str) -> str:
        line = DOTTED.sub(self._local, line)
        found = WRITES.match(line)
        if found is None:
            return line
        indent, function, operands, out = found.groups()
        value = self.used.get(function)
        if function.endswith(".dot") or (isinstance(value, np.ufunc) and value not in BY_NAME):
            return f"{indent}{function}({operands}, {out})"
        if isinstance(getattr(value, "__self__", None), np.ufunc):  # its ``reduce``, which takes a dtype before
            return f"{indent}{function}({operands}, None, {out})"
        return line

    def _local(self, found: re.Match[str]) -> str:
        name = found.group().replace(".", "_")
        if name not in self.used:
            value: Any = np
            for part in found.group().split(".")[1:]:
                value = getattr(value, part)
            self.used[name] = value
        return name

    def bind(self, names: Sequence[str]) -> Bind:
        """Return the function that takes the values of these names and gives the function that runs."""
        return self._as_one(names) if len(self._lines) <= LONGEST else self._as_several(names)

    def _as_one(self, names: Sequence[str]) -> Bind:
        blocks = "".join([f"\n {line}" for line in self._functions])
        body = "\n  ".join([*self._lines, f"return {self._result}"])
        text = f"def bind({', '.join(names)}):{blocks}\n def run({', '.join(self._inputs)}):\n  {body}\n return run"
        space: dict[str, Any] = {}
        exec(compile(text, "<plan>", "exec"), space)
        bind = space.pop("bind")  # or the function and its globals would hold each other
        return lambda values: bind(*values)

    def _as_several(self, names: Sequence[str]) -> Bind:
        blocks = compile("\n".join(self._functions), "<plan>", "exec")
        parts = [*self._parts(), f"def part():\n return {self._result}"]
        codes = [_code(text) for text in parts]
        made = {name for text in parts for found in ASSIGNED.findall(text) for name in re.findall(r"\w+", found)}
        temporary = [*self._inputs, *sorted(made)]

        def bind(values: Sequence[Any]) -> Callable[..., list[Any]]:
            space = dict(zip(names, values, strict=True))
            space |= _functions(blocks, space)
            steps = [FunctionType(code, space) for code in codes]  # the names do not hold these: no cycle

            def run(*inputs: Any) -> list[Any]:
                space.update(zip(self._inputs, inputs, strict=True))
                try:
                    for step in steps[:-1]:
                        step()
                    found: list[Any] = steps[-1]()
                finally:
                    for name in temporary:
                        space.pop(name, None)
                return found

            return run

        return bind

    def _parts(self) -> Iterator[str]:
        """Yield functions of about so many lines; what stands inside of a ``with`` stays together."""
        part: list[str] = []
        for line in self._lines:
            if len(part) >= LONGEST and not line.startswith(" "):
                yield _function(part)
                part = []
            part.append(line)
        yield _function(part)


def _function(lines: Sequence[str]) -> str:
    text = "\n ".join(lines)
    made = {name for found in ASSIGNED.findall("\n".join(lines)) for name in re.findall(r"\w+", found)}
    gone = {name for line in lines if line.startswith("del ") for name in re.findall(r"\w+", line[4:])}
    shared = f" global {', '.join(sorted(made | gone))}\n" if made | gone else ""
    return f"def part():\n{shared} {text}"


def _code(text: str) -> CodeType:
    return next(c for c in compile(text, "<plan>", "exec").co_consts if isinstance(c, CodeType))


def _functions(blocks: CodeType, space: dict[str, Any]) -> dict[str, Any]:
    """Return the functions of regions, in names of their own."""
    own = dict(space)
    exec(blocks, own)
    return {name: own.pop(name) for name in [*own] if name not in space and name != "__builtins__"}
