"""Quick calls: Python that is written for one kind of arguments, takes them apart, and puts results together.

`pytree.flatten` asks each value for its type and the key of the cache for its hash. Arguments like those of an earlier call
need less: one test each, in the order in which their structure was met, and no table. What does not pass is left to the
general way, which knows all kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np

from afx.compiler.target import current
from afx.core.array.array import Array
from afx.core.aval import SCALARS
from afx.core.dtypes import get_default_dtype
from afx.pytree.nodes import LEAF, NOTHING, DictNode, Node, RecordNode, SequenceNode, Token
from afx.pytree.registry import INSIDE
from afx.pytree.treedef import TreeDef

__all__ = ["MAX_TOKENS", "Match", "make_builder", "make_match"]

Match: TypeAlias = "Callable[[tuple[Any, ...]], tuple[list[Any], list[Any]] | None]"
"""Takes arguments apart into leaves and their bare values; None where they are of another kind."""

MAX_TOKENS = 200  # of a structure: Python takes 10 us for each line that it compiles
COMPARED = (int, bool, str)  # static values that may be equal without being the same


OTHER = SimpleNamespace(shape=None)  # stands for what is no array


class _Unknown(Exception):
    """Arguments of a kind that is left to the general way."""


class _Writer:
    """Lines of a function, and what they name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {"Array": Array, "ndarray": np.ndarray, "OTHER": OTHER}

    def name(self, value: Any) -> str:
        """Return a name for a value."""
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name

    def function(self, head: str, end: str) -> Any:
        """Return the function of the lines."""
        text = "\n".join([f"def {head}:", *[f"    {line}" for line in (*self.lines, end)]])
        exec(compile(text, "<quick call>", "exec"), self.names)
        return self.names[head.partition("(")[0]]


def make_match(treedef: TreeDef[Any], leaves: Sequence[Any], values: Sequence[Any]) -> Match | None:
    """Return what takes arguments of the same kind apart; None where there is none that is quicker.

    Args:
        treedef: of the positional and the named arguments, of which there are none.
        leaves: of such arguments.
        values: the leaves as a plan takes them.
    """
    tokens = treedef.tokens
    if len(tokens) + len(leaves) > MAX_TOKENS:
        return None
    writer = _Writer()
    default, key = writer.name(get_default_dtype()), writer.name(current.key)
    writer.names |= {"default_dtype": get_default_dtype, "current": current}
    writer.lines.append(f"if default_dtype() is not {default} or current.key is not {key}: return None")
    matcher = _Matcher(writer, tokens[1:-1], leaves, values)  # without the pair of both, and the empty dict
    try:
        matcher.open("args")
    except _Unknown:
        return None
    names = [", ".join([f"{letter}{k}" for k in range(len(leaves))]) for letter in "xv"]
    match: Match = writer.function("match(args)", f"return [{names[0]}], [{names[1]}]")
    return match


class _Matcher:
    """Writer of the tests, structure and leaves in the order of tokens."""

    def __init__(self, writer: _Writer, tokens: Sequence[Token], leaves: Sequence[Any], values: Sequence[Any]) -> None:
        self.writer = writer
        self._tokens = iter(tokens)
        self._leaves = zip(leaves, values, strict=True)
        self._count = 0
        self._nodes = 0
        self._classes: set[type] = set()

    def open(self, text: str) -> None:
        """Test the value of an expression, as the next token says, and what it holds."""
        token = next(self._tokens)
        if token is LEAF:
            self._leaf(text)
        elif isinstance(token, Node):
            name = f"t{self._nodes}"
            self._nodes += 1
            step = self._leaf if token.is_flat else self.open
            for child in self._children(token, name, text):
                step(child)
        elif token == NOTHING:
            self._refuse(f"{text} is not None")
        else:
            assert isinstance(token, tuple)
            self._static(text, token)

    def _refuse(self, condition: str) -> None:
        self.writer.lines.append(f"if {condition}: return None")

    def _static(self, text: str, token: tuple[Any, Any]) -> None:
        kind, value = token
        constant = self.writer.name(value)
        if kind in COMPARED:
            self._refuse(f"(s := {text}).__class__ is not {kind.__name__} or s != {constant}")
        else:
            self._refuse(f"{text} is not {constant}")

    def _children(self, node: Node, name: str, text: str) -> list[str]:
        """Test that a value is such a node, and return the expressions of its children."""
        begin = f"({name} := {text}).__class__ is not"
        if isinstance(node, SequenceNode):
            self._refuse(f"{begin} {node.kind.__name__} or len({name}) != {node.arity}")
            return [f"{name}[{k}]" for k in range(node.arity)]
        if isinstance(node, RecordNode):
            self._class(node.kind)
            self._refuse(f"{begin} {self.writer.name(node.kind)}")
            return [f"{name}.{field}" for field in node.names]
        if isinstance(node, DictNode) and all(type(key) is str for key in node.order):
            self._refuse(f"{begin} dict or [*{name}] != {self.writer.name(list(node.order))}")
            return [f"{name}[{key!r}]" for key in node.keys]
        raise _Unknown

    def _class(self, kind: type) -> None:
        """Test that a class is still registered as it was."""
        if kind not in self._classes:
            self._classes.add(kind)
            known = self.writer.name(INSIDE.kinds.get(kind))
            self.writer.names["kind_of"] = INSIDE.kinds.get
            self._refuse(f"kind_of({self.writer.name(kind)}) is not {known}")

    def _leaf(self, text: str) -> None:
        leaf, value = next(self._leaves)
        x, v = f"x{self._count}", f"v{self._count}"
        self._count += 1
        kind: Any = leaf.__class__
        if kind in SCALARS and value is leaf:
            self._refuse(f"({x} := {text}).__class__ is not {kind.__name__}")
            self.writer.lines.append(f"{v} = {x}")
            return
        if kind is not Array and not (kind is np.ndarray and value is leaf):
            raise _Unknown
        shape, dtype = self.writer.name(value.shape), self.writer.name(value.dtype)
        own = f"({v} := {x}._value) if ({x} := {text}).__class__ is Array"
        self._refuse(
            f"({own} else ({v} := {x}) if {x}.__class__ is ndarray else OTHER).shape != {shape} or {v}.dtype is not {dtype}"
        )


def make_builder(treedef: TreeDef[Any]) -> Callable[[list[Any]], Any]:
    """Return what makes a tree of Arrays of bare values that nobody else holds."""
    writer = _Writer()
    writer.names["new"] = object.__new__
    leaves = [f"x{k}" for k in range(treedef.num_leaves)]
    if leaves:
        writer.lines.append(f"{', '.join(leaves)}, = outs")
    for x in leaves:  # as `wrap` does
        writer.lines += [f"a = new(Array); a._value = {x}; {x} = a"]
    text = _display(writer, iter(treedef.tokens), iter(leaves))
    build: Callable[[list[Any]], Any] = writer.function("build(outs)", f"return {text}")
    return build


def _display(writer: _Writer, tokens: Iterator[Token], leaves: Iterator[str]) -> str:
    """Return the expression of the next value."""
    token = next(tokens)
    if token is LEAF:
        return next(leaves)
    if not isinstance(token, Node):
        assert isinstance(token, tuple)
        return writer.name(token[1])
    children = [next(leaves) if token.is_flat else _display(writer, tokens, leaves) for _ in range(token.arity)]
    inside = "".join([f"{child}, " for child in children])
    if isinstance(token, SequenceNode):
        return f"({inside})" if token.kind is tuple else f"[{inside}]"
    return f"{writer.name(token.build)}([{inside}])"
