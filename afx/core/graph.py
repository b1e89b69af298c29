"""Graphs: programs as frozen data, a flat list of equations in single-assignment form.

Variables are numbered in the order of their definition: inputs, constants, then equation outputs. So two graphs of the
same structure are equal as data, and comparing, hashing, printing and destroying one needs no recursion.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import attrs
import numpy as np

from afx.core.aval import Aval, aval_of
from afx.core.equation import Atom, Constant, Equation, Literal, Var, name_of
from afx.core.primitive import Primitive
from afx.core.weakness import infer, precise
from afx.errors import GraphError

__all__ = ["Atom", "Constant", "Equation", "Graph", "Literal", "Var", "check", "name_of", "walk"]


_set_index: Callable[[Var, int], None] = vars(Var)["index"].__set__


@attrs.frozen
class Graph:
    """A program: inputs, captured constants, equations and outputs.

    ``str(graph)`` prints it, ``==`` and ``hash`` go by structure and the bytes of the constants, `check` verifies it.
    It pickles, unless it holds Python functions (`afx.checkpoint`, custom rules).

    >>> import afx
    >>> print(afx.trace(lambda x: afx.sin(x) * 2.0)(afx.ones(3)))
    graph(a:float32[3]) {
      b:float32[3] = sin(a)
      c:float32[3] = multiply(b, 2.0)
      return c
    }
    """

    inputs: tuple[Var, ...]
    constants: tuple[tuple[Var, Constant], ...]
    equations: tuple[Equation, ...]
    outputs: tuple[Atom, ...]

    def __str__(self) -> str:
        head = ", ".join(map(str, self.inputs))
        consts = [f"  {v} = constant" for v, _ in self.constants]
        body = [f"  {eq}" for eq in self.equations]
        tail = ", ".join(a.name if isinstance(a, Var) else str(a) for a in self.outputs)
        return "\n".join([f"graph({head}) {{", *consts, *body, f"  return {tail}", "}"])

    def __len__(self) -> int:
        return len(self.equations)

    def __iter__(self) -> Iterator[Equation]:
        return iter(self.equations)

    @property
    def digest(self) -> str:
        """A hexadecimal SHA-256 of structure, parameters and constants, the same in every process.

        Raises:
            GraphError: the graph holds Python functions (custom rules), whose code no digest can tell apart.
        """
        # hashlib is loaded here: it would cost every import 3 ms
        h: Any = importlib.import_module("hashlib").sha256(str(self).encode())
        for _, c in self.constants:
            h.update(c.value.tobytes())
        for inner in self._inner_graphs():
            h.update(inner.digest.encode())
        return str(h.hexdigest())

    @property
    def label(self) -> str:
        """A short name for messages and listings: the start of the digest, where there is one, and the size."""
        try:
            return f"graph {self.digest[:16]} of {len(self)} equations"
        except GraphError:
            return f"graph of {len(self)} equations"

    def _inner_graphs(self) -> Iterator[Graph]:
        """Yield the graphs that equations hold, or raise where one holds a Python function."""
        for eq in self.equations:
            for name, value in eq.params:
                yield from _graphs_in(value, f"{eq.primitive.name}.{name}", strict=True)

    def counts(self) -> Mapping[str, int]:
        """Return how often each op occurs, most frequent first."""
        found: dict[str, int] = {}
        for eq in self.equations:
            found[eq.primitive.name] = found.get(eq.primitive.name, 0) + 1
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))

    def to_dot(self) -> str:
        """Return the graph in the language of Graphviz, as text: no program is run.

        >>> import afx
        >>> afx.trace(afx.sin)(afx.ones(2)).to_dot().splitlines()[-2:]
        ['  n1 -> n2;', '}']
        """
        from afx.core.graph_drawing import to_dot

        return to_dot(self)

    def to_mermaid(self) -> str:
        """Return the graph in the language of Mermaid, which Markdown viewers draw.

        >>> import afx
        >>> print(afx.trace(afx.sin)(afx.ones(2)).to_mermaid())
        flowchart TD
          n0(["input<br/>a:float32[2]"])
          n1["sin<br/>b:float32[2]"]
          n2(["output<br/>b"])
          n0 --> n1
          n1 --> n2
        """
        from afx.core.graph_drawing import to_mermaid

        return to_mermaid(self)

    def to_svg(self) -> str:
        """Return a picture of the graph, to be written to a file or shown in a notebook.

        Raises:
            GraphError: the graph is too large to be read as a picture.

        >>> import afx
        >>> afx.trace(afx.sin)(afx.ones(2)).to_svg()[:4]
        '<svg'
        """
        picture = self._repr_svg_()
        if picture is None:
            raise GraphError(f"to_svg: too large to be read: got {self.label}; print it, or draw a part of it")
        return picture

    def _repr_svg_(self) -> str | None:
        from afx.core.graph_drawing import to_svg

        return to_svg(self)

    def _repr_html_(self) -> str:
        from afx.core.graph_drawing import to_html

        return to_html(self)


def number_variables(
    inputs: Sequence[Var], constants: Sequence[tuple[Var, Constant]], equations: Sequence[Equation]
) -> None:
    """Number variables from 0 in the order of their definition, in place: of a graph that nobody has seen yet."""
    count = 0
    for var in inputs:
        _set_index(var, count)
        count += 1
    for var, _ in constants:
        _set_index(var, count)
        count += 1
    for eq in equations:
        for var in eq.outputs:
            _set_index(var, count)
            count += 1


def walk(graph: Graph) -> Iterator[Graph]:
    """Yield a graph and those that its equations hold, at any depth; what Python functions hold is not seen."""
    yield graph
    for eq in graph.equations:
        for name, value in eq.params:
            for inner in _graphs_in(value, name, strict=False):
                yield from walk(inner)


def _graphs_in(value: Any, path: str, *, strict: bool) -> Iterator[Graph]:
    """Yield the graphs within a parameter; where strict, raise GraphError at a Python function."""
    graph: Any = value if isinstance(value, Graph) else getattr(value, "graph", None)
    if isinstance(graph, Graph):
        yield graph
    elif isinstance(value, (tuple, list, frozenset)):
        for k, item in enumerate(cast("Iterable[Any]", value)):
            yield from _graphs_in(item, f"{path}[{k}]", strict=strict)
    elif attrs.has(value.__class__) and not isinstance(value, Primitive):
        for field in attrs.fields(value.__class__):
            yield from _graphs_in(getattr(value, field.name), f"{path}.{field.name}", strict=strict)
    elif strict and callable(value) and not isinstance(value, (type, np.ufunc)):
        raise GraphError(
            f"digest: {path} is a Python function, whose code no digest can tell apart: got {value!r}; "
            "digest a graph of ops alone"
        )


def check(graph: Graph) -> None:
    """Verify that every variable is defined once and before its use, and that every Aval is what the op gives.

    Raises:
        GraphError: the first fault, with the equation it is in.

    >>> import afx
    >>> check(afx.trace(afx.sin)(afx.ones(3)))
    """
    if not isinstance(graph, Graph):  # pyright: ignore[reportUnnecessaryIsInstance]  # users' mistakes
        raise GraphError(f"check: verifies a Graph: got {type(graph).__name__}; make one with afx.trace(fn)(*args)")
    known: dict[int, Aval] = {}
    for var in graph.inputs:
        _define(known, var, "the inputs")
    for var, constant in graph.constants:
        _define(known, var, "the constants")
        held = precise(var.aval.dtype) if var.aval.weak else var.aval.dtype
        if aval_of(constant.value) != Aval(var.aval.shape, held):
            raise GraphError(f"check: constant {var} holds {aval_of(constant.value)}; trace the function again")
    for eq in graph.equations:
        _use(known, eq.inputs, str(eq))
        expected = infer(eq.primitive, [a.aval for a in eq.inputs], eq.keywords)
        if tuple(v.aval for v in eq.outputs) != expected:
            got = ", ".join(map(str, expected))
            raise GraphError(f"check: outputs of `{eq}` should be {got}; build the equation with these Avals")
        for var in eq.outputs:
            _define(known, var, f"`{eq}`")
    _use(known, graph.outputs, "the outputs")


def _define(known: dict[int, Aval], var: Var, where: str) -> None:
    if var.index in known:
        raise GraphError(f"check: {var.name} is defined twice: again in {where}; give each variable one definition")
    known[var.index] = var.aval


def _use(known: Mapping[int, Aval], atoms: tuple[Atom, ...], where: str) -> None:
    for atom in atoms:
        if isinstance(atom, Literal):
            continue
        if atom.index not in known:
            raise GraphError(f"check: {atom.name} is used before its definition in {where}; order the equations")
        if known[atom.index] != atom.aval:
            raise GraphError(f"check: {atom} was defined as {known[atom.index]}: in {where}; use one Aval for it")


def has_effects(eq: Equation) -> bool:
    """Tell whether an equation runs for more than its results, by itself or by the graphs that it holds."""
    if eq.primitive.has_effects:
        return True
    return eq.primitive.multiple_results and any(_holds_effects(value) for _, value in eq.params)


def _holds_effects(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(map(_holds_effects, value))  # pyright: ignore[reportUnknownArgumentType]  # a parameter
    held = [getattr(value, name, None) for name in ("graph", "test", "body")]
    graphs = [g for g in held if isinstance(g, Graph)]
    inner = [g for g in held if g is not None and not isinstance(g, Graph)]
    return any(has_effects(eq) for g in graphs for eq in g.equations) or any(map(_holds_effects, inner))
