"""Legalization: formulas are traced once for each kind of operands, and stand at the lines of those who call them."""

import functools
import threading
from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx import special
from afx.compiler.graph import legalize as legalizing
from afx.compiler.graph.legalize import is_standalone, legalize
from afx.compiler.target import Target, portable_target
from afx.core.graph import Graph

legalized = functools.partial(legalize, has=is_standalone, target=portable_target(), standalone=True)


def graph_of(fn: Any, *xs: Any) -> Graph:
    """Return the legalized graph of a function."""
    return legalized(afx.trace(fn)(*xs))


def test_known_formulas_give_the_graphs_of_new_ones() -> None:
    """Of the same equations; their captured arrays are other objects of the same numbers."""
    x = np.linspace(0.5, 3.0, 7)
    legalizing._known.clear()
    first = graph_of(lambda x: special.gammaln(x) + special.i0(x), x)
    count = len(legalizing._known)
    second = graph_of(lambda x: special.gammaln(x) + special.i0(x), x)
    assert count == len(legalizing._known) > 0
    assert first == second
    arrays = [[id(c.value) for _, c in g.constants] for g in (first, second)]
    assert not set(arrays[0]) & set(arrays[1])


def test_known_formulas_stand_at_each_callers_line() -> None:
    """A message names the line of the call that it is about, and what is ignored there."""
    x = np.linspace(0.5, 3.0, 7)

    def one(x: Any) -> Any:
        return special.gammaln(x)

    def other(x: Any) -> Any:
        with np.errstate(invalid="ignore"):
            return special.gammaln(x)

    for fn in (one, other, one):
        (made,) = afx.trace(fn)(x).equations
        found = graph_of(fn, x).equations
        assert {str(eq.source) for eq in found} == {str(made.source)}
        assert made.source is not None


def test_parameters_that_are_equal_may_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """1, True and 1.0, zeros of both signs and other states of errors: each has a formula of its own."""
    (eq,) = afx.trace(special.gammaln)(np.ones(3)).equations
    graph, asked = afx.trace(lambda x: x + 1.0)(np.ones(3)), list[Any]()
    monkeypatch.setattr(legalizing, "_graph_of", lambda eq, _: asked.append(eq.params) or graph)
    monkeypatch.setattr(legalizing, "_known", {})
    for _ in range(2):
        for value in (1, True, 1.0, 0.0, -0.0, (0.0, 1), (-0.0, 1), np.nan):
            legalizing._formula(attrs.evolve(eq, params=(("scale", value),)), is_standalone, None, True)
    with np.errstate(divide="ignore"):
        legalizing._formula(attrs.evolve(eq, params=(("scale", 1),)), is_standalone, None, True)
    assert len(asked) == 9
    for _ in range(2):  # a list, a function or a graph is asked for again
        legalizing._formula(attrs.evolve(eq, params=(("scale", max),)), is_standalone, None, True)
    assert len(asked) == 11


def test_what_is_known_is_bounded() -> None:
    """More equations than that are dropped."""
    for n in range(1, 500):
        graph_of(lambda x: special.gammaln(x), np.ones(n))
    assert sum(len(g.equations) for g in legalizing._known.values()) < 2 * Target().formulas_max_equations


def test_threads_legalize_at_once() -> None:
    """Each gets the graph that one thread gets."""
    wanted = [graph_of(lambda x: special.digamma(x), np.ones(n)) for n in range(1, 9)]
    legalizing._known.clear()
    found: list[list[Graph]] = [[] for _ in range(4)]

    def work(mine: list[Graph]) -> None:
        mine += [graph_of(lambda x: special.digamma(x), np.ones(n)) for n in range(1, 9)]

    threads = [threading.Thread(target=work, args=(mine,)) for mine in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [wanted] * 4


def test_loops_within_formulas_are_traced_anew() -> None:
    """Graphs that equations hold are those of one call."""
    legalizing._known.clear()
    key = afx.random.key(0)
    graph_of(lambda k: afx.random.gamma(k, 2.0, (3,)), key)
    assert all(
        not hasattr(v, "equations") for g in legalizing._known.values() for e in g.equations for _, v in e.params
    )
