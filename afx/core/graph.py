"""Graphs: programs as frozen data in single-assignment form, and their drawings as text, SVG and HTML."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Any, cast

import attrs
import numpy as np

from afx.core.aval import Aval, Shape, aval_of
from afx.core.html import fold
from afx.core.primitive import Primitive, Printable, infer, precise
from afx.errors import GraphError

# --- Equations: one operation of a graph, with the variables, literals and constants that it is made of


def name_of(index: int) -> str:
    """Return the name of a variable of this number.

    >>> name_of(0), name_of(25), name_of(26)
    ('a', 'z', 'ba')
    """
    letters, n = "", index
    while True:
        n, letter = divmod(n, 26)
        letters = chr(97 + letter) + letters
        if n == 0:
            return letters


@attrs.frozen(repr=False)
class Var(Printable):
    """A variable of a graph: its number and its Aval.

    >>> str(Var(3, Aval((2,), np.dtype("float32"))))
    'd:float32[2]'
    """

    index: int
    aval: Aval

    @property
    def name(self) -> str:
        """A short name, from a to z, then ba, bb and so on."""
        return name_of(self.index)

    def __str__(self) -> str:
        return f"{self.name}:{self.aval}"


@attrs.frozen(repr=False)
class Literal(Printable):
    """A number written into an equation; its Aval gives the dtype in which it is used."""

    value: bool | int | float | complex
    aval: Aval

    def __str__(self) -> str:
        return repr(self.value)

    def __eq__(self, other: object) -> bool:
        # repr tells 0.0 from -0.0 and finds nan equal to itself
        return isinstance(other, Literal) and repr(self.value) == repr(other.value) and self.aval == other.aval

    def __hash__(self) -> int:
        return hash((repr(self.value), self.aval))


@attrs.frozen(repr=False)
class Constant(Printable):
    """An array captured by a graph, equal to another of the same dtype, shape and bytes."""

    value: np.ndarray[Any, np.dtype[Any]]

    def _key(self) -> tuple[str, Shape, bytes]:
        return (self.value.dtype.str, self.value.shape, self.value.tobytes())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and (self.value is other.value or self._key() == other._key())

    def __hash__(self) -> int:
        return hash(self._key())


Atom = Var | Literal
Atoms = tuple[Atom, ...]


def indices_of(atoms: Iterable[Atom]) -> set[int]:
    """Return the numbers of the variables among atoms.

    >>> indices_of([Var(3, Aval((), np.dtype(bool))), Literal(1.0, Aval((), np.dtype(float)))])
    {3}
    """
    return {a.index for a in atoms if isinstance(a, Var)}


@attrs.frozen(repr=False)
class Equation(Printable):
    """One operation: ``outputs = primitive[params](inputs)``.

    Attributes:
        primitive: the op.
        inputs: variables and literals.
        outputs: the variables it defines.
        params: the op's static parameters, hashable, sorted by name.
        source: the source location of the user's code that made it (its ``str`` is ``file:line``), or None; not part of
            equality.
        ignored_fp_errors: the floating-point warnings that ``np.errstate`` ignored around it within its function, such as
            ``("divide", "invalid")``; not part of equality.
    """

    primitive: Primitive
    inputs: Atoms
    outputs: tuple[Var, ...]
    params: tuple[tuple[str, Any], ...] = ()
    source: Any = attrs.field(default=None, eq=False, repr=False)
    ignored_fp_errors: tuple[str, ...] = attrs.field(default=(), eq=False, repr=False)

    @property
    def keywords(self) -> dict[str, Any]:
        """The parameters as a dict."""
        return dict(self.params)

    @property
    def avals(self) -> list[Aval]:
        """The shapes and dtypes of its operands."""
        return [a.aval for a in self.inputs]

    @property
    def aval(self) -> Aval:
        """The shape and dtype of its first result."""
        return self.outputs[0].aval

    def __str__(self) -> str:
        outs = ", ".join(map(str, self.outputs))
        ins = ", ".join(a.name if isinstance(a, Var) else str(a) for a in self.inputs)
        params = ", ".join(f"{k}={v}" for k, v in self.params)
        return f"{outs} = {self.primitive.name}{f'[{params}]' if params else ''}({ins})"


# --- Layered layout: positions of boxes in rows, so that arrows run downwards and cross little
#
# Sugiyama, Tagawa & Toda 1981, "Methods for visual understanding of hierarchical system structures": rows by the
# longest path, boxes without content where an arrow passes a row, order by barycentres, then positions by relaxation.

ROW_HEIGHT = 64.0
BOX_GAP = 18.0
PASSING_WIDTH = 6.0
SWEEPS = 8


@attrs.frozen(eq=False, repr=False)
class DrawingLayout(Printable):
    """Positions of boxes and routes of arrows.

    Attributes:
        centers: x and y of each box.
        routes: for each arrow, the points it passes, box to box.
        width: of the whole drawing.
        height: of the whole drawing.
    """

    centers: tuple[tuple[float, float], ...]
    routes: tuple[tuple[tuple[float, float], ...], ...]
    width: float
    height: float


def place_boxes(widths: Sequence[float], edges: Sequence[tuple[int, int]]) -> DrawingLayout:
    """Return positions of boxes of these widths.

    Args:
        widths: of the boxes, in an order in which every arrow runs forward.
        edges: arrows, from one box to a later one.

    >>> place_boxes([10, 10], [(0, 1)]).centers
    ((5.0, 32.0), (5.0, 96.0))
    """
    rows = _rows(len(widths), edges)
    all_widths, all_rows, chains = _cut_edges(list(widths), rows, edges)
    neighbours = _neighbours(len(all_widths), chains)
    x = _relax(_order(all_rows, neighbours), all_widths, neighbours)
    left = min((x[k] - all_widths[k] / 2 for k in range(len(x))), default=0.0)
    points = [(x[k] - left, (all_rows[k] + 0.5) * ROW_HEIGHT) for k in range(len(x))]
    return DrawingLayout(
        tuple(points[: len(widths)]),
        tuple(tuple(points[k] for k in chain) for chain in chains),
        max((p[0] + w / 2 for p, w in zip(points, all_widths, strict=True)), default=0.0),
        (max(all_rows, default=-1) + 1) * ROW_HEIGHT,
    )


def _rows(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return the row of each box: below all that lead to it, and boxes that nothing leads to right above their first use."""
    rows = [0] * count
    for start, end in sorted(edges, key=lambda edge: edge[1]):
        rows[end] = max(rows[end], rows[start] + 1)
    is_entered = [False] * count
    for _, end in edges:
        is_entered[end] = True
    for k in range(count):
        if not is_entered[k]:
            rows[k] = min((rows[end] - 1 for start, end in edges if start == k), default=0)
    return rows


def _cut_edges(
    widths: list[float], rows: list[int], edges: Sequence[tuple[int, int]]
) -> tuple[list[float], list[int], list[list[int]]]:
    """Give an arrow a narrow box in each row that it passes; return widths, rows and the chains of boxes."""
    widths, rows, chains = list(widths), list(rows), list[list[int]]()
    for start, end in edges:
        chain = [start]
        for row in range(rows[start] + 1, rows[end]):
            chain.append(len(rows))
            rows.append(row)
            widths.append(PASSING_WIDTH)
        chains.append([*chain, end])
    return widths, rows, chains


def _neighbours(count: int, chains: Sequence[Sequence[int]]) -> tuple[list[list[int]], list[list[int]]]:
    """Return the boxes above and those below each box."""
    above, below = [list[int]() for _ in range(count)], [list[int]() for _ in range(count)]
    for chain in chains:
        for upper, lower in pairwise(chain):
            above[lower].append(upper)
            below[upper].append(lower)
    return above, below


def _order(rows: Sequence[int], neighbours: tuple[list[list[int]], list[list[int]]]) -> list[list[int]]:
    """Order the boxes of each row by the mean position of their neighbours, downwards and upwards in turn."""
    order = [list[int]() for _ in range(max(rows, default=-1) + 1)]
    for k, number in enumerate(rows):
        order[number].append(k)
    place = {k: float(i) for row in order for i, k in enumerate(row)}
    for sweep in range(SWEEPS):
        near = neighbours[sweep % 2]
        for row in order if sweep % 2 == 0 else reversed(order):
            means = {k: sum(place[n] for n in near[k]) / len(near[k]) if near[k] else place[k] for k in row}
            row.sort(key=means.__getitem__)
            place.update({k: float(i) for i, k in enumerate(row)})
    return order


def _relax(
    order: Sequence[Sequence[int]], widths: Sequence[float], neighbours: tuple[list[list[int]], list[list[int]]]
) -> list[float]:
    """Return the x of each box: near the mean of its neighbours, without overlap within its row."""
    x = [0.0] * len(widths)
    for row in order:
        _spread(row, [0.0] * len(row), widths, x)
    for sweep in range(SWEEPS):
        near = neighbours[sweep % 2]
        for row in order if sweep % 2 == 0 else reversed(order):
            wished = [sum(x[n] for n in near[k]) / len(near[k]) if near[k] else x[k] for k in row]
            _spread(row, wished, widths, x)
    return x


def _spread(row: Sequence[int], wished: Sequence[float], widths: Sequence[float], x: list[float]) -> None:
    """Write the positions of a row's boxes into ``x``: as near to the wished ones as the gaps allow, on average."""
    places = list[float]()
    for i, k in enumerate(row):
        least = places[-1] + (widths[row[i - 1]] + widths[k]) / 2 + BOX_GAP if places else wished[i]
        places.append(max(wished[i], least))
    shift = sum(w - p for w, p in zip(wished, places, strict=True)) / max(len(row), 1)
    for k, place in zip(row, places, strict=True):
        x[k] = place + shift


# --- Drawing: graphs as DOT and Mermaid text, as SVG and as HTML, without any program or package for it

MAX_DRAWN_BOXES = 400  # larger graphs are pictures that nobody reads: notebooks show their text
MAX_PARAMETER_LENGTH = 28  # characters
BOX_HEIGHT = 38.0
CHARACTER_WIDTH = 7.3
MARGIN = 10.0
COLORS = {"input": "#dbeafe", "constant": "#fef3c7", "equation": "#ffffff", "output": "#dcfce7"}


@attrs.frozen(eq=False, repr=False)
class Box(Printable):
    """An input, a constant, an equation or an output, with two lines of text."""

    kind: str
    title: str
    value: str


def boxes_and_edges(graph: Graph) -> tuple[list[Box], list[tuple[int, int]]]:
    """Return the boxes of a graph, in the order of their computation, and the arrows between them."""
    boxes, edges, maker = list[Box](), list[tuple[int, int]](), dict[int, int]()
    for kind, variables in (("input", graph.inputs), ("constant", [var for var, _ in graph.constants])):
        for var in variables:
            maker[var.index] = len(boxes)
            boxes.append(Box(kind, kind, str(var)))
    for eq in graph.equations:
        edges += [(maker[a.index], len(boxes)) for a in eq.inputs if isinstance(a, Var)]
        maker |= {var.index: len(boxes) for var in eq.outputs}
        boxes.append(Box("equation", _title(eq), ", ".join(map(str, eq.outputs))))
    for atom in graph.outputs:
        if isinstance(atom, Var):
            edges.append((maker[atom.index], len(boxes)))
        boxes.append(Box("output", "output", _text(atom)))
    return boxes, list(dict.fromkeys(edges))


def _text(atom: Atom) -> str:
    return str(atom) if isinstance(atom, Literal) else atom.name


def _title(eq: Equation) -> str:
    """Return an equation's operation with its numbers and parameters."""
    operands = [_text(a) for a in eq.inputs] if any(isinstance(a, Literal) for a in eq.inputs) else []
    parameters = [f"{name}={_shorten(value)}" for name, value in eq.params]
    called = f"({', '.join(operands)})" if operands else ""
    return f"{eq.primitive.name}{called}{' [' + ', '.join(parameters) + ']' if parameters else ''}"


def _shorten(value: Any) -> str:
    """Return a parameter's text, or its beginning; of a graph its size."""
    inner = _inner_graph(value)
    if inner is not None:
        return f"graph of {len(inner)} equations"
    text = " ".join(str(value).split())
    return text if len(text) <= MAX_PARAMETER_LENGTH else f"{text[: MAX_PARAMETER_LENGTH - 1]}…"


def _inner_graph(value: Any) -> Graph | None:
    """Return the graph that a parameter is or holds, such as the body of a loop."""
    inner = getattr(value, "graph", value)
    return inner if hasattr(inner, "equations") else None


def to_dot(graph: Graph) -> str:
    """Return a graph in the language of Graphviz."""
    boxes, edges = boxes_and_edges(graph)
    lines = ["digraph {", '  node [shape=box, style="filled,rounded", fontname="sans-serif"];']
    for k, box in enumerate(boxes):
        label = f"{box.title}\n{box.value}".replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        lines.append(f'  n{k} [label="{label}", fillcolor="{COLORS[box.kind]}"];')
    lines += [f"  n{start} -> n{end};" for start, end in edges]
    return "\n".join([*lines, "}"])


def to_mermaid(graph: Graph) -> str:
    """Return a graph in the language of Mermaid, which Markdown viewers draw."""
    boxes, edges = boxes_and_edges(graph)
    lines = ["flowchart TD"]
    for k, box in enumerate(boxes):
        opening, closing = ("[", "]") if box.kind == "equation" else ("([", "])")
        lines.append(f'  n{k}{opening}"{_entities(box.title)}<br/>{_entities(box.value)}"{closing}')
    return "\n".join([*lines, *[f"  n{start} --> n{end}" for start, end in edges]])


def _entities(text: str) -> str:
    """Return a text for Mermaid, whose entities begin with a number sign."""
    signs = {"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "&": "#amp;"}
    return "".join(signs.get(sign, sign) for sign in text)


def to_svg(graph: Graph) -> str | None:
    """Return a picture of a graph, None of one that is too large to read."""
    boxes, edges = boxes_and_edges(graph)
    if len(boxes) > MAX_DRAWN_BOXES:
        return None
    widths = [CHARACTER_WIDTH * max(len(box.title), len(box.value)) + 2 * MARGIN for box in boxes]
    layout = place_boxes(widths, edges)
    width, height = layout.width + 2 * MARGIN, layout.height + 2 * MARGIN
    view = f"{-MARGIN:g} {-MARGIN:g} {width:.1f} {height:.1f}"
    drawn = [_draw_box(box, w, *center) for box, w, center in zip(boxes, widths, layout.centers, strict=True)]
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" viewBox="{view}"'
        ' font-family="ui-monospace, monospace" font-size="12" text-anchor="middle">'
    )
    return "\n".join(
        [
            opening,
            f'<rect x="{-MARGIN:g}" y="{-MARGIN:g}" width="100%" height="100%" fill="#ffffff"/>',
            *_draw_arrows(layout),
            *drawn,
            "</svg>",
        ]
    )


def _draw_box(box: Box, width: float, x: float, y: float) -> str:
    left, top = x - width / 2, y - BOX_HEIGHT / 2
    return (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{BOX_HEIGHT:g}" rx="6"'
        f' fill="{COLORS[box.kind]}" stroke="#475569"/>'
        f'<text x="{x:.1f}" y="{y - 4:.1f}" font-weight="bold" fill="#0f172a">{escape(box.title)}</text>'
        f'<text x="{x:.1f}" y="{y + 12:.1f}" fill="#475569">{escape(box.value)}</text>'
    )


def _draw_arrows(layout: DrawingLayout) -> list[str]:
    """Return a smooth line for each arrow, with its head where it arrives."""
    lines = list[str]()
    for route in layout.routes:
        points = [
            (route[0][0], route[0][1] + BOX_HEIGHT / 2),
            *route[1:-1],
            (route[-1][0], route[-1][1] - BOX_HEIGHT / 2),
        ]
        path = f"M{points[0][0]:.1f},{points[0][1]:.1f}"
        for (x0, y0), (x1, y1) in pairwise(points):
            middle = (y0 + y1) / 2
            path += f" C{x0:.1f},{middle:.1f} {x1:.1f},{middle:.1f} {x1:.1f},{y1:.1f}"
        x, y = points[-1]
        lines.append(f'<path d="{path}" fill="none" stroke="#94a3b8" stroke-width="1.4"/>')
        lines.append(f'<path d="M{x:.1f},{y:.1f} l-4,-7 l8,0 z" fill="#94a3b8"/>')
    return lines


def to_html(graph: Graph) -> str:
    """Return a picture of a graph with its text and its inner graphs folded below; of a large one no picture."""
    picture, text = to_svg(graph), f"<pre>{escape(str(graph))}</pre>"
    parts = [text] if picture is None else [f'<div style="overflow-x:auto">{picture}</div>', fold(graph.label, text)]
    for eq in graph.equations:
        for name, value in eq.params:
            inner = _inner_graph(value)
            if inner is not None:
                parts.append(fold(f"{eq.primitive.name}: {name}", to_html(inner)))
    return "".join(parts)


# --- Graphs: programs as frozen data, a flat list of equations in single-assignment form
#
# Variables are numbered in the order of their definition: inputs, constants, then equation outputs. So two graphs of
# the same structure are equal as data, and comparing, hashing, printing and destroying one needs no recursion.

_set_index: Callable[[Var, int], None] = vars(Var)["index"].__set__


@attrs.frozen(repr=False)
class Graph(Printable):
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
    outputs: Atoms

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
        h = importlib.import_module("hashlib").sha256(str(self).encode())
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
        counts: dict[str, int] = {}
        for eq in self.equations:
            counts[eq.primitive.name] = counts.get(eq.primitive.name, 0) + 1
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def to_dot(self) -> str:
        """Return the graph in the language of Graphviz, as text: no program is run.

        >>> import afx
        >>> afx.trace(afx.sin)(afx.ones(2)).to_dot().splitlines()[-2:]
        ['  n1 -> n2;', '}']
        """
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

        return to_svg(self)

    def _repr_html_(self) -> str:

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
    graph = value if isinstance(value, Graph) else getattr(value, "graph", None)
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
        dtype = precise(var.aval.dtype) if var.aval.weak else var.aval.dtype
        if aval_of(constant.value) != Aval(var.aval.shape, dtype):
            raise GraphError(f"check: constant {var} holds {aval_of(constant.value)}; trace the function again")
    for eq in graph.equations:
        _use(known, eq.inputs, str(eq))
        expected = infer(eq.primitive, eq.avals, eq.keywords)
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


def _use(known: Mapping[int, Aval], atoms: Atoms, where: str) -> None:
    for atom in atoms:
        if isinstance(atom, Literal):
            continue
        if atom.index not in known:
            raise GraphError(f"check: {atom.name} is used before its definition in {where}; order the equations")
        if known[atom.index] != atom.aval:
            raise GraphError(f"check: {atom} was defined as {known[atom.index]}: in {where}; use one Aval for it")


def has_effects(eq: Equation) -> bool:
    """Tell whether an equation runs for more than its results, by itself or by the graphs that it holds."""
    return op_has_effects(eq.primitive, [value for _, value in eq.params])


def op_has_effects(p: Primitive, params: Iterable[Any]) -> bool:
    """Tell the same of an op and its parameters."""
    return p.has_effects or (p.multiple_results and any(map(_holds_effects, params)))


def drop_effects(equations: Sequence[Equation], outputs: Iterable[Atom]) -> list[Equation]:
    """Return equations without those that run for their effect alone: neither others nor the outputs read their results."""
    read = indices_of([*outputs, *[a for eq in equations for a in eq.inputs]])
    return [eq for eq in equations if not has_effects(eq) or not read.isdisjoint([v.index for v in eq.outputs])]


def _holds_effects(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(map(_holds_effects, value))  # pyright: ignore[reportUnknownArgumentType]  # a parameter
    bodies = [getattr(value, name, None) for name in ("graph", "test", "body")]
    graphs = [g for g in bodies if isinstance(g, Graph)]
    inner = [g for g in bodies if g is not None and not isinstance(g, Graph)]
    return any(has_effects(eq) for g in graphs for eq in g.equations) or any(map(_holds_effects, inner))
