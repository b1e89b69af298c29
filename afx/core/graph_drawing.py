"""Drawing: graphs as DOT and Mermaid text, as SVG and as HTML, without any program or package for it."""

from __future__ import annotations

from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import attrs

from afx.core.equation import Atom, Equation, Literal, Var
from afx.core.graph_layout import Layout, place_boxes

if TYPE_CHECKING:
    from afx.core.graph import Graph

__all__ = ["to_dot", "to_html", "to_mermaid", "to_svg"]

MAX_DRAWN_BOXES = 400  # larger graphs are pictures that nobody reads: notebooks show their text
MAX_PARAMETER_LENGTH = 28  # characters
BOX_HEIGHT = 38.0
CHARACTER_WIDTH = 7.3
MARGIN = 10.0
COLORS = {"input": "#dbeafe", "constant": "#fef3c7", "equation": "#ffffff", "output": "#dcfce7"}


@attrs.frozen
class Box:
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


def _draw_arrows(layout: Layout) -> list[str]:
    """Return a smooth line for each arrow, with its head where it arrives."""
    found = list[str]()
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
        found.append(f'<path d="{path}" fill="none" stroke="#94a3b8" stroke-width="1.4"/>')
        found.append(f'<path d="M{x:.1f},{y:.1f} l-4,-7 l8,0 z" fill="#94a3b8"/>')
    return found


def to_html(graph: Graph) -> str:
    """Return a picture of a graph with its text and its inner graphs folded below; of a large one no picture."""
    picture, text = to_svg(graph), f"<pre>{escape(str(graph))}</pre>"
    parts = [text] if picture is None else [f'<div style="overflow-x:auto">{picture}</div>', _fold(graph.label, text)]
    for eq in graph.equations:
        for name, value in eq.params:
            inner = _inner_graph(value)
            if inner is not None:
                parts.append(_fold(f"{eq.primitive.name}: {name}", to_html(inner)))
    return "".join(parts)


def _fold(summary: str, content: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>{content}</details>"
