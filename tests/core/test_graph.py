"""Graphs are data: they compare, hash, print and check themselves, and differ where programs differ."""

import gc
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx import Array, Aval, Equation, Graph, Literal, Var
from afx.errors import GraphError

X = afx.ones(3)


def _wave(x: Array) -> Array:
    return afx.sin(x) * 2.0 + x


def _graph(fn: Callable[..., Any], *args: Any) -> Graph:
    return afx.trace(fn)(*args)


def test_prints_as_a_program() -> None:
    """Each equation is a line that names its op, operands, shapes and parameters."""
    assert str(_graph(lambda x: afx.sum(_wave(x)), X)).splitlines() == [
        "graph(a:float32[3]) {",
        "  b:float32[3] = sin(a)",
        "  c:float32[3] = multiply(b, 2.0)",
        "  d:float32[3] = add(c, a)",
        "  e:float32[] = sum[axis=(0,)](d)",
        "  return e",
        "}",
    ]


def test_the_same_program_is_the_same_graph() -> None:
    """Tracing again gives an equal graph with the same hash, text and digest; numbers of the arguments do not count."""
    first, second = _graph(_wave, X), _graph(lambda y: y + 0 if False else afx.sin(y) * 2.0 + y, 5 * X)
    assert first == second
    assert (hash(first), str(first), first.digest) == (hash(second), str(second), second.digest)


@pytest.mark.parametrize(
    "other",
    [
        _graph(lambda x: afx.cos(x) * 2.0 + x, X),
        _graph(lambda x: afx.sin(x) * 3.0 + x, X),
        _graph(lambda x: x + afx.sin(x) * 2.0, X),
        _graph(_wave, afx.ones(4)),
        _graph(_wave, np.ones(3)),
        _graph(lambda x: (_wave(x), x), X),
        _graph(lambda x: _wave(x) * 1.0, X),
    ],
    ids=["op", "number", "order of operands", "shape", "dtype", "outputs", "another equation"],
)
def test_another_program_is_another_graph(other: Graph) -> None:
    """Graphs differ in any op, operand, number, shape, dtype or output."""
    graph = _graph(_wave, X)
    assert graph != other
    assert graph.digest != other.digest


def test_constants_count_by_their_bytes() -> None:
    """Captured arrays are equal by dtype, shape and bytes, so that -0 and 0 differ and nan is itself."""

    def adding(values: list[float]) -> Graph:
        constant = np.array(values)
        return _graph(lambda x: x + constant, np.ones(2))

    assert adding([1.0, np.nan]) == adding([1.0, np.nan])
    assert adding([1.0, 0.0]) != adding([1.0, -0.0])
    assert adding([1.0, 0.0]).digest != adding([1.0, -0.0]).digest


def test_numbers_tell_both_zeros_apart() -> None:
    """A number written into an equation is equal by sign and dtype too."""
    weak = Aval((), np.dtype("float32"), weak=True)
    assert Literal(0.0, weak) != Literal(-0.0, weak)
    assert Literal(float("nan"), weak) == Literal(float("nan"), weak)
    assert Literal(1, weak) != Literal(1.0, weak)
    assert Literal(1.0, weak) != Literal(1.0, Aval((), np.dtype("float32")))


def test_is_a_collection_of_equations() -> None:
    """Its length, its equations in order, and how often each op occurs."""
    graph = _graph(lambda x: _wave(_wave(x)), X)
    assert len(graph) == 6
    assert [eq.primitive.name for eq in graph] == ["sin", "multiply", "add"] * 2
    assert dict(graph.counts()) == {"add": 2, "multiply": 2, "sin": 2}


def test_is_frozen() -> None:
    """Nothing of a graph can be set."""
    graph = _graph(_wave, X)
    for target, name in ((graph, "outputs"), (graph.equations[0], "inputs"), (graph.inputs[0], "index")):
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            setattr(target, name, ())


def test_evaluates_to_what_the_function_gives() -> None:
    """`afx.evaluate` runs it, on plain and on traced arrays."""
    graph = _graph(lambda x: afx.sum(_wave(x)), np.ones(3))
    x = np.array([0.1, 0.2, 0.3])
    assert float(afx.evaluate(graph, x)[0]) == pytest.approx(float(np.sum(np.sin(x) * 2 + x)))
    found = afx.grad(lambda v: afx.evaluate(graph, v)[0])(x)
    np.testing.assert_allclose(np.asarray(found), 2 * np.cos(x) + 1)


def test_names_are_letters() -> None:
    """Variables are called a to z, then ba, bb and so on, each differently."""
    aval = Aval((), np.dtype("float32"))
    assert [Var(k, aval).name for k in (0, 25, 26, 27, 26 * 26)] == ["a", "z", "ba", "bb", "baa"]
    assert len({Var(k, aval).name for k in range(2000)}) == 2000


def test_nothing_is_recorded_of_what_is_known() -> None:
    """What does not depend on the arguments is computed at once and captured."""
    graph = _graph(lambda x: x * afx.sum(afx.exp(afx.ones(3))), X)
    assert [eq.primitive.name for eq in graph] == ["multiply"]


def _replaced(graph: Graph, k: int, **changes: Any) -> Graph:
    equations = list(graph.equations)
    equations[k] = attrs.evolve(equations[k], **changes)
    return attrs.evolve(graph, equations=tuple(equations))


A, B, C = (Var(k, X.aval) for k in range(3))
WAVE = _graph(_wave, X)


@pytest.mark.parametrize(
    ("graph", "words"),
    [
        (_replaced(WAVE, 0, inputs=(Var(9, X.aval),)), "j is used before its definition"),
        (_replaced(WAVE, 1, outputs=(B,)), "b is defined twice"),
        (_replaced(WAVE, 0, outputs=(A,)), "a is defined twice"),
        (_replaced(WAVE, 0, outputs=(Var(1, Aval((4,), np.dtype("f"))),)), r"should be float32\[3\]"),
        (_replaced(WAVE, 1, inputs=(Var(1, Aval((3,), np.dtype("d"))), 2.0)), r"b:float64\[3\] was defined as"),
        (attrs.evolve(WAVE, equations=WAVE.equations[::-1]), "before its definition"),
        (attrs.evolve(WAVE, outputs=(Var(7, X.aval),)), "h is used before its definition in the outputs"),
        (attrs.evolve(WAVE, inputs=(A, A)), "a is defined twice: again in the inputs"),
    ],
)
def test_check_finds_the_fault(graph: Graph, words: str) -> None:
    """`afx.check` raises at the first variable or Aval that is wrong, and says where."""
    with pytest.raises(GraphError, match=words):
        afx.check(graph)


def test_check_passes_what_is_right() -> None:
    """A graph that was traced, or written by hand, is in order."""
    afx.check(WAVE)
    sin = WAVE.equations[0].primitive
    afx.check(Graph((A,), (), (Equation(sin, (A,), (B,)), Equation(sin, (B,), (C,))), (C, A)))


def test_long_graphs_are_freed_at_once() -> None:
    """A graph of 10 000 equations is freed by its last reference, without the garbage collector or recursion."""

    def chain(x: Array) -> Array:
        for _ in range(10_000):
            x = x + 1.0
        return x

    gc.collect()
    gc.disable()
    try:
        graph = _graph(chain, 1.0)
        del graph
        assert gc.collect() == 0
    finally:
        gc.enable()
