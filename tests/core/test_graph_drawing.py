"""Graphs draw themselves: every value's way is in the picture, no box covers another."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest

import afx
from afx.core.graph import BOX_GAP, MAX_DRAWN_BOXES, boxes_and_edges, place_boxes, to_svg
from afx.errors import GraphError


def program() -> afx.Graph:
    """Return a graph with inputs, a constant, literals, an unused input, two outputs and an inner graph."""

    def fn(x: afx.Array, y: afx.Array, _: afx.Array) -> tuple[afx.Array, object]:
        z = afx.sin(x) * 2.0 + np.arange(3.0, dtype=np.float32)
        return afx.scan(lambda c, x: (c * y, x), z, None, 4)[0], afx.sum(z)

    return afx.trace(fn)(afx.ones(3), 2.0, 3.0)


def test_boxes_and_arrows_are_the_program() -> None:
    """A box for each input, constant, equation and output; an arrow for each use of a value."""
    graph = program()
    boxes, edges = boxes_and_edges(graph)
    kinds = [box.kind for box in boxes]
    assert kinds == ["input"] * 3 + ["constant"] + ["equation"] * len(graph) + ["output"] * 2
    assert all(start < end for start, end in edges)
    assert 2 not in {start for start, _ in edges}
    multiply = next(k for k, box in enumerate(boxes) if box.title.startswith("multiply("))
    assert "2.0" in boxes[multiply].title
    assert any("graph of 1 equations" in box.title for box in boxes)


def test_the_svg_is_one_and_its_boxes_do_not_overlap() -> None:
    """It parses as XML, lies within its frame, and rows keep their distance."""
    graph = program()
    root = ET.fromstring(graph.to_svg())
    name = "{http://www.w3.org/2000/svg}"
    boxes = [
        [float(rect.attrib[k]) for k in ("x", "y", "width", "height")]
        for rect in root.iter(f"{name}rect")
        if rect.attrib["width"] != "100%"
    ]
    assert len(boxes) == len(boxes_and_edges(graph)[0])
    for i, (x, y, w, h) in enumerate(boxes):
        assert x >= -0.1
        assert x + w <= float(root.attrib["width"])
        assert all(abs(y - b) > h or x + w < a or a + c < x for a, b, c, _ in boxes[i + 1 :])


def test_rows_follow_the_arrows_and_narrow_boxes_let_long_ones_pass() -> None:
    """An arrow leads to a lower row; one over two rows passes beside the box between."""
    layout = place_boxes([40, 40, 40], [(0, 1), (1, 2), (0, 2)])
    heights = [y for _, y in layout.centers]
    assert heights == sorted(set(heights))
    passing = layout.routes[2][1]
    assert passing[1] == layout.centers[1][1]
    assert abs(passing[0] - layout.centers[1][0]) >= 20 + BOX_GAP
    assert place_boxes([], []).centers == ()


def test_texts_quote_what_would_end_them() -> None:
    """Quotes, backslashes and signs of markup cannot leave a label."""
    graph = afx.trace(lambda x: afx.einsum("ij,jk->ik", x, x))(afx.ones((2, 2)))
    assert "->" not in "".join(line for line in graph.to_mermaid().splitlines() if "[" in line)
    assert graph.to_dot().count("digraph {") == 1
    assert all(line.count('"') % 2 == 0 for line in graph.to_dot().splitlines())
    ET.fromstring(graph.to_svg())


def test_a_notebook_shows_picture_and_text_and_of_large_graphs_the_text() -> None:
    """Beyond what can be read, text alone; `to_svg` says so."""

    def long(x: afx.Array) -> afx.Array:
        for _ in range(MAX_DRAWN_BOXES):
            x = afx.sin(x)
        return x

    html = program()._repr_html_()
    assert html.count("<svg") == 2  # the body of the loop has a picture of its own
    assert "<summary>scan: body</summary>" in html
    assert program()._repr_svg_() == to_svg(program())
    graph = afx.trace(long)(1.0)
    assert graph._repr_svg_() is None
    assert graph._repr_html_().startswith("<pre>")
    with pytest.raises(GraphError, match=r"^to_svg: "):
        graph.to_svg()


def test_an_identity_and_a_constant_function_are_drawn() -> None:
    """Outputs may be inputs or numbers; no equation is needed."""
    for fn in (lambda x: x, lambda _: 1.0):
        graph = afx.trace(fn)(1.0)
        ET.fromstring(graph.to_svg())
        assert graph.to_dot().endswith("}")
