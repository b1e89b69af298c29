"""Notebooks: trees and functions as lines that open, well formed, escaped, of bounded size, and without a colour."""

import dataclasses
import xml.etree.ElementTree as ET
from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx import nn, optim, sample, stats
from afx.core.html import DEEPEST, LONGEST_GRAPH, LONGEST_TEXT, MOST_CHILDREN, MOST_LINES, tree_html
from afx.errors import ArgumentError
from afx.interop import is_shown, notebook


@attrs.frozen
class Line:
    """A class of a user's."""

    slope: Any
    name: Any = afx.static(default="line")
    running: Any = afx.non_trainable(default=None)


def parse(html: str | None) -> ET.Element:
    """Return the page as a tree: it is well formed, and names no colour and no script."""
    assert html is not None
    assert not any(word in html for word in ("<script", "color", "<style", "http"))
    return ET.fromstring(html)


def summaries(html: str | None) -> list[str]:
    """Return the texts of the lines that open."""
    return [element.text or "" for element in parse(html).iter("summary")]


def lines(html: str | None) -> list[str]:
    """Return all texts in the order of the page."""
    return [text for element in parse(html).iter() if (text := element.text)]


def test_nodes_have_counts_and_leaves_shapes_and_dtypes() -> None:
    """Counts are of all leaves below, in numbers and bytes; elements stand behind their line."""
    model = Line({"w": afx.ones((2, 3)), "b": np.zeros(2)}, running=2.5)
    texts = lines(tree_html(model))
    assert texts[0] == "Line · 3 leaves, 9 numbers, 44 bytes"
    assert "slope · dict of 2 · 2 leaves, 8 numbers, 40 bytes" in texts
    assert "'w' · float32[2,3]" in texts
    assert "'b' · float64[2]" in texts
    assert "name · 'line'" in texts
    assert "running · 2.5" in texts
    assert "[[1. 1. 1.]\n [1. 1. 1.]]" in texts


@pytest.mark.parametrize("nasty", ["<script>alert(1)</script>", "&amp;", "\"quoted\" 'text'", "]]>"])
def test_texts_are_escaped(nasty: str) -> None:
    """Names of keys, static values and names of functions and classes stand as they are, and are no markup."""
    assert f"name · {nasty!r}" in lines(tree_html(Line(afx.ones(2), nasty)))
    assert any(repr(nasty) in text for text in lines(tree_html({nasty: afx.ones(2)})))
    kind = attrs.make_class("Kind", {"x": attrs.field(type=Any)}, frozen=True)
    kind.__name__ = kind.__qualname__ = nasty
    assert summaries(tree_html(kind(afx.ones(1))))[0].startswith(nasty)

    def fn(x: afx.Array) -> afx.Array:
        return x

    fn.__doc__, fn.__qualname__ = nasty, nasty
    for made in (afx.jit(fn), afx.grad(fn), afx.vmap(fn), afx.trace(fn)):
        page: Any = made
        assert nasty in lines(page._repr_html_())
        assert nasty in summaries(page._repr_html_())[0]


def test_deep_long_and_wide_trees_are_cut_and_counted_whole() -> None:
    """No tree makes a page that a browser does not show; every count is of all leaves."""
    deep: Any = 1.0
    for _ in range(5 * DEEPEST):
        deep = [deep, afx.ones(3)]
    assert len(summaries(tree_html(deep))) <= 2 * DEEPEST + 1
    assert summaries(tree_html(deep))[0].startswith(
        f"list of 2 · {5 * DEEPEST + 1:,} leaves, {15 * DEEPEST + 1:,} numbers"
    )
    wide = [afx.ones(2)] * (MOST_CHILDREN + 5)
    assert lines(tree_html(wide))[-1] == "… 5 more"
    both = [[float(k) for k in range(50)] for _ in range(MOST_CHILDREN)]
    page = lines(tree_html(both))
    assert MOST_LINES <= len(page) <= MOST_LINES + 2 * DEEPEST
    assert page[0].startswith(f"list of {MOST_CHILDREN} · 5,000 leaves, 5,000 numbers")
    assert page[-1].endswith("more")
    large = tree_html([afx.zeros((9,) * 6), "x" * 10_000])
    assert large is not None
    assert len(large) < 2 * LONGEST_TEXT


def test_traced_and_donated_arrays_have_no_elements() -> None:
    """A tracer shows its shape and dtype, a donated array that it is; neither is read, and nothing raises."""
    pages: list[str | None] = []

    def look(x: afx.Array) -> afx.Array:
        pages.append(tree_html({"x": x, "y": 2.0}))
        return afx.sum(x)

    afx.grad(look)(afx.ones(3))
    afx.jit(look)(afx.ones(3))
    afx.vmap(look)(afx.ones((2, 3)))
    assert len(pages) >= 3
    assert all("'x' · float32[3], traced" in lines(page) for page in pages)
    x = afx.ones(3)
    afx.jit(lambda x: 2 * x, donate_argnums=0)(x)
    assert lines(tree_html([x]))[1] == "0 · an array whose buffer was donated"
    assert lines(tree_html([x]))[0] == "list of 1 · 1 leaf, 0 numbers, 0 bytes"


def test_edges_of_values() -> None:
    """None, empty containers and arrays, scalars, infinities and nan have lines; what is no tree has none."""
    page = lines(
        tree_html([None, (), {}, afx.zeros((0, 3)), np.float32(np.inf), float("nan"), afx.asarray(True), 3, 1j])
    )
    assert page[0] == "list of 9 · 6 leaves, 5 numbers, 25 bytes"
    assert page[1:4] == ["0 · None", "1 · tuple of 0", "2 · dict of 0"]
    assert "3 · float32[0,3]" in page
    assert page[-5:] == ["4 · float32[] = inf", "5 · nan", "6 · bool[] = True", "7 · 3", "8 · 0.+1.j"]
    assert tree_html(object()) is None
    assert tree_html(Line(1.0, name=[])) is None  # does not hash


def test_a_repr_that_fails_does_not() -> None:
    """A user's static value whose text raises is named by its type."""

    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError

    assert "name · <Broken>" in lines(tree_html(Line(1.0, Broken())))


PARAMS = {"w": afx.ones((2, 2))}
OPTIMIZERS = [optim.adam(0.1), optim.sgd(0.1, momentum=0.9), optim.adafactor(0.1), optim.rmsprop(0.1)]


@pytest.mark.parametrize(
    "value",
    [
        nn.Sequential(nn.Linear.create(0, 3, 2), nn.BatchNorm.create(2), nn.Dropout(0.5)),
        nn.LSTM.create(0, 3, 2),
        *[optimizer.init(PARAMS) for optimizer in OPTIMIZERS],
        optim.minimize(lambda x: afx.sum(x * x), afx.ones(2)),
        stats.gaussian_kde(np.arange(5.0)),
        sample.Model({"m": stats.norm(0.0, 1.0), "x": lambda p: stats.norm(p["m"], 1.0)}, lambda p: 0.0),
    ],
    ids=lambda value: type(value).__name__,
)
def test_trees_of_afx_show_themselves(value: Any) -> None:
    """Layers, states, results and distributions: the first line is the class with its counts."""
    assert summaries(value._repr_html_())[0].startswith(f"{type(value).__name__} · ")
    assert not hasattr(value, "__dict__") or isinstance(value, nn.Linear)


def test_every_public_state_of_an_optimizer_shows_itself() -> None:
    """None is forgotten."""
    states = [getattr(optim, name) for name in optim.__all__ if name.endswith("State")]
    assert len(states) > 20
    assert not [state for state in states if not hasattr(state, "_repr_html_")]


def test_functions_show_parameters_and_traces() -> None:
    """A jitted function has its parameters and a line for each kind of arguments; derivatives hold their function."""

    @afx.jit
    def double(x: afx.Array, k: float = 2.0) -> afx.Array:
        """Multiply."""
        return x * k

    assert "Multiply." in lines(double._repr_html_())
    assert len(summaries(double._repr_html_())) == 1
    double(afx.ones(3))
    double(afx.ones((2, 2)))
    heads = summaries(double._repr_html_())
    assert heads[1:] == ["(float32[3]) → (float32[3]) · 1 equation", "(float32[2,2]) → (float32[2,2]) · 1 equation"]
    for k in range(4, 30):
        double(afx.ones(k))
    assert len(summaries(double._repr_html_())) == 1 + 8
    gradient: Any = afx.grad(double, argnums=0)
    assert summaries(gradient._repr_html_())[0].startswith("grad of ")
    assert any(text.startswith("jit of ") for text in summaries(gradient._repr_html_()))
    law: Any = stats.norm
    assert summaries(law._repr_html_()) == ["distribution norm(loc, scale)"]


def test_a_long_program_is_cut() -> None:
    """A graph of many equations does not fill the notebook."""

    @afx.jit
    def long(x: afx.Array) -> afx.Array:
        for _ in range(2000):
            x = afx.sin(x)
        return x

    long(afx.ones(3))
    assert len(long._repr_html_()) < 2 * LONGEST_GRAPH


def test_a_notebook_shows_trees_of_others_by_a_call_alone() -> None:
    """Frozen classes with leaves, registered classes, and containers of Arrays; outside of IPython the call says so."""

    @dataclasses.dataclass(frozen=True)
    class Point:
        x: float

    assert is_shown(Line(1.0))
    assert is_shown(Point(1.0))
    assert is_shown((Line(afx.ones(2)), {"a": 1.0}))
    others = ([1.0, 2.0], {"a": "b"}, 3.0, "text", afx.ones(2), np.ones(2), Line, afx.sin, object(), Line(None), [])
    assert not any(is_shown(value) for value in others)
    assert not is_shown([afx.ones(1)] * (MOST_CHILDREN + 1))
    with pytest.raises(ArgumentError, match=r"^interop\.notebook: there is no notebook"):
        notebook()


def test_ipython_shows_them_until_it_is_taken_back() -> None:
    """By IPython's own formatter, which otherwise keeps its ways."""
    shells = pytest.importorskip("IPython.core.interactiveshell")
    shell = shells.InteractiveShell.instance()
    show: Any = shell.display_formatter.formatters["text/html"]
    try:
        assert show(Line(afx.ones(2))) is None
        notebook()
        assert summaries(show(Line(afx.ones(2))))[0].startswith("Line")
        assert show(3.0) is None
        assert show(Line) is None
        assert "float32[2]" in show(afx.ones(2))
        notebook(show=False)
        assert show(Line(afx.ones(2))) is None
    finally:
        shells.InteractiveShell.clear_instance()


def test_optimizers_laws_and_what_was_lowered_open() -> None:
    """Optimizers and laws are trees of their numbers; of compiled steps there are the graph, the schedule and the source."""
    shown = optim.chain(optim.clip_by_global_norm(1.0), optim.adamw(0.5))._repr_html_()
    assert summaries(shown)[0].startswith("Chain · 7 leaves, 7 numbers")
    assert "learning_rate · 0.5" in lines(shown)
    classes = [x for x in [getattr(optim, name) for name in dir(optim)] if isinstance(x, type) and attrs.has(x)]
    assert len(classes) > 60
    assert [c.__name__ for c in classes if not hasattr(c, "_repr_html_")] == []
    law = stats.multivariate_normal(np.zeros(2), np.eye(2))
    assert "family · <distribution multivariate_normal(mean, cov)>" in lines(law._repr_html_())
    assert summaries(stats.dirichlet._repr_html_()) == ["distribution dirichlet(alpha)"]
    assert summaries(stats.norm(0.0, 1.0).expand(3)._repr_html_())[0].startswith("Expanded · 2 leaves")
    lowered = afx.jit(lambda x: afx.sin(x) * 2.0).lower(afx.ones(3))
    texts = summaries(lowered._repr_html_())
    assert texts[0].startswith("lowered · 2 equations")
    assert texts[1:] == ["(float32[3]) → (float32[3]) · 2 equations", "schedule", "plan.source"]
