"""HTML: what notebooks show of trees and functions, as lines that open, without a colour of their own.

Lines are ``<details>``, which every browser opens without scripts; text is escaped, and inherits colours and fonts, so that
light and dark pages are the same to it.
"""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from afx.core.aval import Aval, aval_of
from afx.errors import OperandError, TreeError
from afx.pytree.nodes import LEAF, DictNode, Node, RecordNode, SequenceNode, Token
from afx.pytree.treedef import TreeDef, flatten

MOST_CHILDREN, MOST_LINES, DEEPEST = 100, 1000, 40  # browsers stop at a nesting of some 500 elements
LONGEST_TEXT = 1000  # characters of the elements of an array
LONGEST_GRAPH = 20_000  # characters of a program
LONGEST_WORD = 200  # of a name, or of a value that belongs to the structure
LINE = "margin-left:1.2em"
UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def escape(text: str) -> str:
    """Return text that is no markup."""
    html = importlib.import_module("html")  # a plain import does without it
    escaped: str = html.escape(text)
    return escaped


class Shown:
    """The base of trees that notebooks show as `tree_html` does."""

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        return tree_html(self)


def fold(summary: str, content: str, *, opened: bool = False) -> str:
    """Return a line that opens: its text, which is escaped, and the HTML below it."""
    start = '<details open="">' if opened else "<details>"
    return f"{start}<summary>{escape(summary)}</summary>{content}</details>"


def rows(lines: Iterable[str]) -> str:
    """Return pieces of HTML below each other, indented."""
    return "".join([f'<div style="{LINE}">{line}</div>' for line in lines])


def code(text: str) -> str:
    """Return text in the font of programs, cut where it is long."""
    return f"<code>{escape(_cut(text, LONGEST_WORD))}</code>"


def tree_html(tree: Any) -> str | None:
    """Return a tree as lines that open: of nodes their counts, of leaves shapes, dtypes and elements.

    Beyond `MOST_CHILDREN` children of a node, `MOST_LINES` lines and `DEEPEST` levels, the rest is one line; counts are of
    all. Of traced and donated arrays there are no elements.

    Returns:
        None of what is no tree.

    >>> import afx
    >>> tree_html((afx.zeros(()),))[:73]
    '<details open=""><summary>tuple of 1 · 1 leaf, 1 number, 4 bytes</summary'
    """
    try:
        leaves, treedef = flatten(tree)
    except TreeError:
        return None
    return _Writer(leaves, treedef).write(0, "", 0)


def function_html(title: str, fn: Any, parts: Sequence[str] = ()) -> str:
    """Return a function as a line that opens: below it its parameters, its docstring's first line, and ``parts``."""
    lines: list[str] = []
    try:
        parameters: Iterable[inspect.Parameter] = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):  # as some in C
        parameters = ()
    lines += [code(str(parameter)) for parameter in parameters]
    if doc := inspect.getdoc(fn):
        lines.append(escape(_cut(doc.partition("\n")[0], LONGEST_WORD)))
    return fold(title, rows([*lines, *parts]), opened=True)


def graph_html(graph: Any) -> str:
    """Return a graph as a line that opens: the kinds of its inputs and outputs, and below them its text."""
    inputs, outputs = (", ".join([str(v.aval) for v in vs]) for vs in (graph.inputs, graph.outputs))
    head = _cut(f"({inputs}) → ({outputs})", LONGEST_WORD)
    return fold(f"{head} · {_plural(len(graph), 'equation')}", f"<pre>{escape(_cut(str(graph), LONGEST_GRAPH))}</pre>")


class _Writer:
    """What writes a tree in the order of its tokens."""

    def __init__(self, leaves: Sequence[Any], treedef: TreeDef[Any]) -> None:
        self._leaves, self._left = leaves, MOST_LINES
        self._tokens: list[Token] = []
        for token in treedef.tokens:
            self._tokens.append(token)
            if isinstance(token, Node) and token.is_flat:
                self._tokens += [LEAF] * token.arity
        self._count()

    def _count(self) -> None:
        """Note of each token where what is below it ends, and which leaves are in it."""
        self._ends = [0] * len(self._tokens)
        self._spans = [(0, 0)] * len(self._tokens)
        last, around = len(self._leaves), list[int]()  # of the siblings that follow, the nearest last
        for k in range(len(self._tokens) - 1, -1, -1):
            token = self._tokens[k]
            first, end = (last - 1, k + 1) if token is LEAF else (last, k + 1)
            stop = last
            if isinstance(token, Node) and token.arity:
                inside = around[-token.arity :]
                del around[-token.arity :]
                end, stop = self._ends[inside[0]], self._spans[inside[0]][1]
            around.append(k)
            self._ends[k], self._spans[k] = end, (first, stop)
            last = first
        avals = [_aval(x) for x in self._leaves]
        self._sizes = [0, *accumulate([0 if a is None else math.prod(a.shape) for a in avals])]
        self._bytes = [0, *accumulate([0 if a is None else math.prod(a.shape) * a.dtype.itemsize for a in avals])]

    def write(self, k: int, name: str, depth: int) -> str:
        """Return the line of a token with this name, and below it its children's."""
        token = self._tokens[k]
        self._left -= 1
        if not isinstance(token, Node) or not token.arity or depth == DEEPEST:
            return self._line(k, name)
        below: list[str] = []
        at = k + 1
        for n, step in enumerate(_steps(token)):
            if n == MOST_CHILDREN or self._left <= 0:
                below.append(f"… {token.arity - n:,} more")
                break
            below.append(self.write(at, step, depth + 1))
            at = self._ends[at]
        return fold(_head(name, self._describe(k)), rows(below), opened=not depth)

    def _line(self, k: int, name: str) -> str:
        """Return the line of a leaf, of a static value, or of a node that is not opened."""
        token = self._tokens[k]
        if token is LEAF:
            return _leaf_line(name, self._leaves[self._spans[k][0]])
        return escape(_head(name, self._describe(k)))

    def _describe(self, k: int) -> str:
        """Return what a node is, with its counts, or a static value."""
        token = self._tokens[k]
        if isinstance(token, tuple):
            return _cut(_repr(token[1]), LONGEST_WORD)
        first, stop = self._spans[k]
        if first == stop:
            return _kind(token)
        size, width = self._sizes[stop] - self._sizes[first], self._bytes[stop] - self._bytes[first]
        return f"{_kind(token)} · {_plural(stop - first, 'leaf', 'leaves')}, {_plural(size, 'number')}, {_bytes(width)}"


def _kind(token: Token) -> str:
    if isinstance(token, SequenceNode):
        return f"{token.kind.__name__} of {token.arity:,}"
    if isinstance(token, DictNode):
        return f"dict of {token.arity:,}"
    if isinstance(token, RecordNode):
        return token.kind.__name__
    return getattr(getattr(token, "kind", None), "__name__", "tree")


def _steps(node: Node) -> Iterator[str]:
    """Yield the names of a node's children: fields, keys and numbers."""
    for step in node.steps():
        yield _cut(step[1:] if step.startswith(".") else step[1:-1], LONGEST_WORD) or " "


def _leaf_line(name: str, x: Any) -> str:
    """Return the line of a leaf, which opens where it has elements to show."""
    aval = _aval(x)
    if aval is None:
        return escape(_head(name, "an array whose buffer was donated"))
    if hasattr(x, "_trace"):
        return escape(_head(name, f"{aval}, traced"))
    text = _cut(np.array2string(np.asarray(x), threshold=30, edgeitems=2), LONGEST_TEXT)
    if not aval.shape:
        return escape(_head(name, f"{aval} = {text}" if hasattr(x, "dtype") else text))
    return fold(_head(name, str(aval)), f"<pre>{escape(text)}</pre>")


def _head(name: str, text: str) -> str:
    return f"{name} · {text}" if name else text


def _aval(x: Any) -> Aval | None:
    """Return shape and dtype of a leaf, None of an array whose buffer was donated."""
    try:
        return aval_of(x)
    except OperandError:
        return None


def _repr(value: Any) -> str:
    if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
        return str(value.__qualname__)
    try:
        return repr(value)
    except Exception:  # a user's
        return f"<{type(value).__name__}>"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _plural(count: int, word: str, words: str = "") -> str:
    return f"{count:,} {word if count == 1 else words or f'{word}s'}"


def _bytes(count: int) -> str:
    for size, unit in UNITS:
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return _plural(count, "byte")
