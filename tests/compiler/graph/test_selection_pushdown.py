"""Selection pushdown: what slices and gathers leave out is not computed, and values stay."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx import Array
from afx.compiler.graph.rewrite_rules import simplify
from afx.compiler.graph.selection_rules import VIEWS
from afx.compiler.target import Target
from afx.core.graph import Graph, check
from afx.core.tracing.traces import evaluate
from afx.errors import IndexRangeError
from tests.every import together

RNG = np.random.default_rng(7)
X = RNG.normal(size=(40, 30))
FEW = np.array([3, 17, -1, 3])
EAGER = Target(select_min_elements=1)


def computed(graph: Graph) -> int:
    """Return the size of the largest value that is computed."""
    return max(
        [
            v.aval.size
            for eq in graph
            if eq.primitive.algebra.canonical not in (*VIEWS, "slice", "gather")
            for v in eq.outputs
        ],
        default=0,
    )


def simple(fn: Callable[..., Any], *xs: Any, target: Target = EAGER) -> Graph:
    """Return the simplified graph, which computes what the function does."""
    found = simplify(afx.trace(fn)(*xs), target, expanding=True)
    check(found)
    for got, want in zip(evaluate(found, *xs), afx.pytree.leaves(fn(*map(afx.asarray, xs))), strict=True):
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-12, atol=1e-14)
    return found


def let(value: Array, fn: Callable[[Array], Any]) -> Any:
    """Return a function of a value that it reads several times."""
    return fn(value)


SLICED: dict[str, tuple[Callable[..., Any], int]] = {
    "an elementwise op": (lambda x, i: afx.sin(x)[:3], 90),
    "a chain": (lambda x, i: (afx.exp(afx.sin(x)) * x)[5:9, 2:4], 8),
    "a row": (lambda x, i: afx.sin(x)[7], 30),
    "rows by a step": (lambda x, i: afx.sin(x)[1:9:3], 210),
    "a repeated operand": (lambda x, i: (afx.sin(x) + afx.cos(x[:1]) + afx.tanh(x[:, :1]))[:2], 60),
    "a choice of integers": (lambda x, i: afx.where(x > 0, 1, x.astype("int32"))[:2], 60),
    "truth values": (lambda x, i: afx.logical_and(x > 0, x < 1)[:2], 60),
    "an axis that is new": (lambda x, i: afx.sin(x)[None, :2, None], 60),
    "a transpose": (lambda x, i: afx.sin(x).T[:, :2], 60),
    "a reshape": (lambda x, i: afx.sin(x).reshape(40, 5, 6)[:2, :, 1:], 60),
    "a broadcast": (lambda x, i: afx.broadcast_to(afx.sin(x), (3, 40, 30))[:2, 4:6], 60),
    "sums over another axis": (lambda x, i: afx.sum(afx.sin(x), axis=1)[:2], 60),
    "extremes over another axis": (lambda x, i: afx.max(afx.sin(x), axis=0)[4:6], 80),
    "rows of a product": (lambda x, i: (x @ afx.sin(x).T)[:2], 1200),
    "columns of a product": (lambda x, i: (afx.sin(x) @ x.T)[:, 4:6], 1200),
    "a block of a product": (lambda x, i: (x @ x.T)[:2, :2], 4),
    "a product of vectors": (lambda x, i: (x @ x[0])[:2], 2),
    "products of batches": (lambda x, i: (x.reshape(4, 10, 30) @ afx.sin(x.reshape(4, 30, 10)))[:1], 300),
    "concatenated rows": (lambda x, i: afx.concat([afx.sin(x), afx.cos(x)], axis=1)[:2], 120),
    "a part of a stack": (lambda x, i: afx.stack([afx.sin(x), afx.exp(x)])[1, 2:4], 120),
    "neighbouring slices": (lambda x, i: let(afx.sin(x), lambda y: y[2:4] * y[3:5] + y[6]), 150),
    "gathered rows": (lambda x, i: (afx.sin(x) * x)[i], 120),
    "gathered columns": (lambda x, i: afx.sum(afx.sin(x).reshape(4, 10, 30), axis=0)[:, i], 160),
    "gathered rows of a product": (lambda x, i: (afx.sin(x) @ x.T)[i], 160),
    "two sums of gathered rows": (lambda x, i: (afx.sin(x)[i], (afx.sin(x) + 1.0)[i]), 120),
}


@together("name", SLICED)
def test_what_is_left_out_is_not_computed(name: str) -> None:
    """The largest value that is computed is as small as what is read."""
    fn, largest = SLICED[name]
    assert computed(simple(fn, X, FEW)) <= largest


WHOLE: dict[str, Callable[..., Any]] = {
    "the whole is a result": lambda x, i: let(afx.sin(x), lambda y: (y, y[:2])),
    "the whole is read": lambda x, i: let(afx.sin(x), lambda y: y[:2] + afx.sum(y, axis=0)),
    "slices lie far apart": lambda x, i: let(afx.sin(x), lambda y: y[0] + y[-1]),
    "most of it is read": lambda x, i: afx.sin(x)[1:-1],
    "it is read in reverse": lambda x, i: afx.sin(x)[::-1],
    "two vectors of indices": lambda x, i: let(afx.sin(x), lambda y: y[i] + y[i + 1]),
    "a vector of indices, and a slice": lambda x, i: let(afx.sin(x), lambda y: y[i] + y[:4]),
    "a gather takes much": lambda x, i: afx.sin(x)[afx.concat([i] * 3)],
    "a sum over the sliced axis": lambda x, i: afx.cumsum(afx.sin(x), axis=0)[:2],
}


@pytest.mark.parametrize("name", WHOLE)
def test_what_is_read_is_computed_once(name: str) -> None:
    """As a whole, where selections do not read a small part of it together."""
    assert simple(WHOLE[name], X, FEW).counts()["sin"] == 1
    assert computed(simple(WHOLE[name], X, FEW)) >= X.size


def test_small_values_are_computed_whole() -> None:
    """Their calls cost more than their elements; and views alone gain nothing."""
    assert computed(simple(lambda x: afx.sin(x)[:2], X[:8], target=Target())) == 240
    assert str(simple(lambda x: x.T.reshape(30, 40)[:2], X)) == str(afx.trace(lambda x: x.T.reshape(30, 40)[:2])(X))


@pytest.mark.parametrize(
    "index", [np.s_[3:3], np.s_[:0, 1], np.s_[::-1, :2], np.s_[-1:-4:-2], np.s_[5, 5], np.s_[..., None, 2]]
)
def test_unusual_slices(index: Any) -> None:
    """Empty ones, ones that go backwards, and single elements."""
    simple(lambda x: (afx.sin(x) @ afx.cos(x).T)[index], X)
    simple(lambda x: afx.sum(afx.stack([afx.sin(x), x]), axis=0)[index], X)


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (1, 300), (300, 1), (300,)])
def test_unusual_shapes(shape: tuple[int, ...]) -> None:
    """Without elements, and with axes of length 1."""
    x = RNG.normal(size=shape)
    simple(lambda x: (afx.sin(x) + x[:1])[:2], x)
    simple(lambda x: afx.sin(x).reshape(-1)[:2], x)
    simple(lambda x, i: (afx.sin(x) + x[..., :1])[i[:0]], x, FEW)


@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize("bad", [1000, -1001])
def test_an_index_outside_still_raises(bad: int, backend: Any) -> None:
    """Wherever the gather went, also where it meets a broadcast."""
    x, i = np.ones(1000), np.array([0, bad])
    for fn in (lambda x, i: afx.sin(x)[i], lambda x, i: afx.broadcast_to(x[:1], (1000,))[i]):
        with pytest.raises(IndexRangeError, match=f"index {bad} is out of bounds"):
            afx.jit(fn, backend=backend)(x, i)


def test_indices_that_are_computed_after_what_they_read() -> None:
    """The gather cannot stand before its indices."""
    simple(lambda x: afx.exp(afx.cos(x))[afx.argsort(afx.sin(x[:, 0]))[:4]], X)
    simple(lambda x: let(afx.exp(afx.cos(x)), lambda y: y[afx.argsort(y[:, 0])[:4]]), X)


def test_loops_compute_parts() -> None:
    """The body of a loop is simplified as any graph."""

    def fn(x: Array) -> Array:
        return afx.scan(lambda c, row: (c + (afx.sin(x) * c)[3, 2] * row, None), afx.ones((), dtype="float64"), x[0])[0]

    found = afx.jit(fn)(X)
    np.testing.assert_allclose(np.asarray(found), np.asarray(fn(afx.asarray(X))), rtol=1e-12)


def test_a_selection_of_a_long_chain_moves_to_its_front() -> None:
    """In linear time, without recursion."""

    def fn(x: Array) -> Array:
        for _ in range(3000):
            x = afx.sin(x) + 1.0
        return x[:2]

    graph = simplify(afx.trace(fn)(X), expanding=True)
    assert computed(graph) == 60
    assert len(graph) == 6001


STEPS: tuple[Callable[..., Array], ...] = (
    lambda x, y, i: afx.sin(x),
    lambda x, y, i: x * y,
    lambda x, y, i: x + y[:, :1],
    lambda x, y, i: x - afx.max(y, axis=0),
    lambda x, y, i: (x @ y.T) @ y * 0.01,
    lambda x, y, i: x.T.reshape(x.shape),
    lambda x, y, i: afx.stack([x, y])[1] * 0.5,
    lambda x, y, i: afx.concat([x, y], axis=1)[:, 3 : 3 + x.shape[1]],
    lambda x, y, i: afx.concat([x[2:4], afx.cos(y)[: x.shape[0] - 2]]),
    lambda x, y, i: afx.where(x > y[0], x, 0.5),
    lambda x, y, i: afx.sum(afx.broadcast_to(x, (2, *x.shape)) * y, axis=0)[::-1],
    lambda x, y, i: x[i][: x.shape[0]] if x.shape[0] <= i.shape[0] else x + x[i][:1],
)
CUTS: tuple[Callable[..., Array], ...] = (
    lambda x, i: x[:2],
    lambda x, i: x[1:9:3],
    lambda x, i: x[:, 2:4],
    lambda x, i: x[3],
    lambda x, i: x[i],
    lambda x, i: x.T[i],
    lambda x, i: x[i][:, :2],
    lambda x, i: x[2:6][::-1],
    lambda x, i: x[4, None, 1::2],
    lambda x, i: x[:0],
)


@together("seed", range(80))
def test_selections_of_random_programs(seed: int) -> None:
    """Values stay, whatever is read."""
    draw = random.Random(seed)
    steps = [(draw.choice(STEPS), draw.random(), draw.random()) for _ in range(8)]
    cuts = [(draw.choice(CUTS), draw.random()) for _ in range(draw.choice([1, 1, 2, 3]))]

    def fn(x: Array, y: Array, i: Array) -> tuple[Array, ...]:
        found = [x, y]
        for step, a, b in steps:
            found.append(step(found[int(a * len(found))], found[int(b**0.5 * len(found))], i))
        return tuple([cut(found[-1 - int(a * 3)], i) for cut, a in cuts])

    simple(fn, X, X[::-1].copy() * 0.7, np.array([3, 17, -1]))
