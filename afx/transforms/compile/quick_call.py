"""Quick calls: Python written for one kind of arguments, and the cache of a function's traces by kind."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, TypeAlias

import attrs
import numpy as np

from afx import pytree
from afx.compiler.target import Target, current
from afx.core import SCALARS, Array, get_default_dtype, wrap
from afx.pytree.nodes import INSIDE, LEAF, NOTHING, DictNode, Node, RecordNode, SequenceNode, Token
from afx.pytree.treedef import TreeDef
from afx.runtime.buffer_cache import tick
from afx.transforms.compile.compiled_call import CompiledGraph
from afx.transforms.compile.make_graph import Traced

# --- Quick calls: Python that is written for one kind of arguments, takes them apart, and puts results together
#
# `pytree.flatten` asks each value for its type and the key of the cache for its hash. Arguments like those of an
# earlier call need less: one test each, in the order in which their structure was met, and no table. What does not
# pass is left to the general way, which knows all kinds.

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
    """Return a function that takes arguments of the same kind apart; None where there is none that is quicker.

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
        kind = leaf.__class__
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
    """Return a function that makes a tree of Arrays of bare values that nobody else holds."""
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
    items = "".join([f"{child}, " for child in children])
    if isinstance(token, SequenceNode):
        return f"({items})" if token.kind is tuple else f"[{items}]"
    return f"{writer.name(token.build)}([{items}])"


# --- Jit cache: compiled traces of a function by the kinds of its arguments, and what they hold

CACHE_SIZE = 256
QUICK_CALLS = 20  # of one kind, before the Python for it is written, in about half a millisecond
NO_NAMES: dict[str, Any] = {}
LEAF_STRUCTURE = pytree.structure(0.0)


@attrs.frozen
class CacheInfo:
    """The cache of a jitted function.

    Attributes:
        traces: how often the function was traced since it was made, or since `clear_cache`.
        entries: the kinds of arguments whose traces are kept.
        max_entries: the most that are kept.
        plan_bytes: about what their plans and machine code take.
        idle_bytes: of the buffers that these keep between calls; see `afx.set_cache_limit`, for both.
        native_entries: how many of them machine code answers; ``fn.lower(*args).status`` says more.
    """

    traces: int
    entries: int
    max_entries: int
    plan_bytes: int
    idle_bytes: int
    native_entries: int


class CacheEntry:
    """A compiled trace of the function for one kind of arguments."""

    __slots__ = ("_calls", "_made", "build", "donated", "lifted", "match", "out_tree", "program", "single", "vjps")

    def __init__(self, traced: Traced, donated: Sequence[int], target: Target) -> None:
        self.program: CompiledGraph = CompiledGraph(traced.graph, () if traced.lifted else donated, target)
        self.out_tree: Any = traced.out_tree
        self.lifted: list[Any] = traced.lifted
        self.donated: Sequence[int] = donated
        self.single: bool = traced.out_tree == LEAF_STRUCTURE
        self.match: Match | None = None
        self.build: Callable[[list[Any]], Any] | None = None
        self.vjps: dict[bool, Any] = {}  # what `afx.vjp` runs, by ``has_aux``
        self._calls = 0
        self._made = tick()

    def results(self, outs: list[Any]) -> Any:
        """Return the outputs of the plan as the function's result."""
        if self.single:
            return wrap(outs[0])
        if self.build is not None:
            return self.build(outs)
        return pytree.unflatten(self.out_tree, [wrap(v) for v in outs])

    def notes_match(self, args: tuple[Any, ...], values: Sequence[Any]) -> bool:
        """Count a call, and after some write the Python that takes such arguments apart; tell whether there is any."""
        self._calls += 1
        if self._calls == QUICK_CALLS:
            leaves, treedef = pytree.flatten((args, NO_NAMES))
            self.match = make_match(treedef, leaves, values)
            if self.match is not None and len(self.out_tree.tokens) <= MAX_TOKENS:
                self.build = make_builder(self.out_tree)
        return self.match is not None

    @property
    def is_pair(self) -> bool:
        """Whether the function returns a tuple of two."""
        head = self.out_tree.tokens[0]
        return isinstance(head, SequenceNode) and head.kind is tuple and head.arity == 2

    @property
    def used(self) -> float:
        """When it was last seen to run: a larger number is later; what has been forgotten was used before all others."""
        plan = self.program.made_plan
        return -math.inf if self.program.is_forgotten else self._made if plan is None else plan.idle.used


def cache_info(traces: int, entries: Collection[CacheEntry]) -> CacheInfo:
    """Return what is kept."""
    plans = [plan for entry in entries if (plan := entry.program.made_plan) is not None]
    fixed, idle = sum([plan.idle.fixed_bytes for plan in plans]), sum([plan.idle_bytes for plan in plans])
    native = sum([plan.status.backend == "native" for plan in plans])
    return CacheInfo(traces, len(entries), CACHE_SIZE, fixed, idle, native)


def forget_unused(entries: dict[Any, CacheEntry], more: int = 0) -> bool:
    """Remove traces whose plans are forgotten, and those that were not used for longest where there are too many.

    Return whether there were any.
    """
    items = list(entries.copy().items())  # other threads add and remove; a copy is made at once
    unused = [key for key, entry in items if entry.program.is_forgotten]
    left = [(entry.used, k) for k, (_, entry) in enumerate(items) if not entry.program.is_forgotten]
    count = len(left) + more - CACHE_SIZE
    if count > 0:
        unused += [items[k][0] for _, k in sorted(left)[:count]]
    for key in unused:
        entries.pop(key, None)
    return bool(unused)
