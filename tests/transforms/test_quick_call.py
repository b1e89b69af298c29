"""Calls of jitted functions after many of the same kind: Python written for that kind tells every other one apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import attrs
import numpy as np
import pytest

import afx
from afx import pytree
from afx.transforms.compile.quick_call import QUICK_CALLS
from tests.every import together


@attrs.frozen
class Layer:
    """A layer with parts of every kind."""

    weight: Any
    rest: Any
    count: int = 3
    name: str = afx.static(default="a")
    nothing: Any = None


class Pair(NamedTuple):
    """A named tuple."""

    first: Any
    second: Any


def tree(x: Any) -> Any:
    """Return a tree of nodes of every kind."""
    return {"z": [x, (x, 2.5)], "a": Layer(Pair(x, np.ones(3)), {"k": x}), "m": ()}


def change(t: Any) -> Any:
    """Return a tree like another one, with other numbers, and which parts of it are no numbers."""
    layer = t["a"]
    new = pytree.map(lambda x: x * 2, {"a": layer, "m": t["m"], "z": t["z"]})
    return new, (layer.count * t["z"][0], layer.name == "a")


def warmed(fn: Callable[..., Any], *args: Any) -> Any:
    """Return the function jitted, called so often that Python was written for these arguments."""
    compiled = afx.jit(fn)
    for _ in range(QUICK_CALLS + 2):
        compiled(*args)
    return compiled


def same(found: Any, want: Any) -> bool:
    """Tell whether two trees have the same structure and numbers."""
    if pytree.structure(found) != pytree.structure(want):
        return False
    return all(np.array_equal(a, b) for a, b in zip(pytree.leaves(found), pytree.leaves(want), strict=True))


X = afx.asarray(np.arange(3.0))


def test_results_and_arguments_of_all_kinds() -> None:
    """Trees of every kind of node give what they give uncompiled, of the same types, in the same order of keys."""
    compiled = warmed(lambda t, n: (change(t)[0], n + 1), tree(X), 2.0)
    want = change(tree(X + 1))[0]
    found, more = compiled(tree(X + 1), 4.0)
    assert same(found, want)
    assert list(found) == ["a", "m", "z"]
    assert type(found["a"].weight) is Pair
    assert float(more) == 5.0
    assert compiled.cache_info().traces == 1


@together(
    "other",
    [
        tree(X[:2]),
        tree(X.astype(np.float32)),
        tree(np.arange(3.0)),
        tree(np.arange(3.0, dtype=">f8")),
        {**tree(X), "a": attrs.evolve(tree(X)["a"], count=4)},
        {**tree(X), "a": attrs.evolve(tree(X)["a"], name="b")},
        {**tree(X), "a": attrs.evolve(tree(X)["a"], nothing=X)},
        {**tree(X), "a": attrs.evolve(tree(X)["a"], count=True)},
        {**tree(X), "z": (X, (X, 2.5))},
        {**tree(X), "z": [X, (X, 2)]},
        {**tree(X), "z": [X, (X, 2.5), X]},
        {**tree(X), "m": None},
    ],
)
def test_other_kinds_are_noticed(other: Any) -> None:
    """A shape, dtype, type, length or static value that differs is traced anew."""
    compiled = warmed(lambda t: change(t)[0], tree(X))
    want = change(other)[0]
    found = compiled(other)
    assert same(found, want)
    assert same(compiled(tree(X)), change(tree(X))[0])


def test_order_of_keys() -> None:
    """A dict with its keys in another order is another kind."""
    compiled = warmed(lambda d: d, {"a": X, "b": X})
    assert list(compiled({"b": X, "a": X})) == ["b", "a"]
    assert list(compiled({"a": X, "b": X})) == ["a", "b"]


def test_what_stands_around_the_call() -> None:
    """The default dtype, transformations around the call and named arguments are seen."""
    compiled = warmed(lambda p: (p[0] * p[0]).sum() + afx.zeros(()), (X, X))
    with afx.default_dtype(np.float64):
        assert compiled((X, X)).dtype == X.dtype
    assert np.array_equal(afx.grad(compiled)((X, X))[0], 2 * X)
    assert np.array_equal(afx.vmap(compiled)((X[None], X[None])), [5.0])
    assert float(compiled(p=(X, X))) == 5.0
    made = warmed(lambda p: (p[0], afx.zeros(2)), (X,))
    with afx.default_dtype(np.float64):
        assert made((X,))[1].dtype == np.float64
    assert made((X,))[1].dtype == np.float32
    compiled.clear_cache()
    assert float(compiled((X, X))) == 5.0
    assert compiled.cache_info().traces == 1


def test_a_class_that_is_registered_anew() -> None:
    """Fields that a later registration calls static belong to the structure from then on."""

    @attrs.frozen
    class Box:
        value: Any
        size: Any

    seen: list[Any] = []

    def fn(box: Box) -> Any:
        seen.append(box.size)
        return box.value * 2

    compiled = warmed(fn, Box(X, 2.0))
    pytree.register(Box, lambda b: ([b.value], b.size), lambda size, values: Box(values[0], size))
    assert np.array_equal(compiled(Box(X, 7.0)), X * 2)
    assert seen[-1] == 7.0


def test_donated_trees() -> None:
    """Memory that is given away is used, or protected where others see it, and the Arrays say that they are gone."""
    compiled = afx.jit(lambda s, x: {"w": s["w"] + x, "n": s["n"] + 1}, donate_argnums=0)
    old, state, x = None, {"w": X + 0, "n": X + 0}, X
    for _ in range(QUICK_CALLS + 5):
        old, state = state, compiled(state, x)
    with pytest.raises(afx.errors.OperandError, match="donated"):
        np.asarray(old["w"]) if old else None
    with pytest.raises(afx.errors.OperandError, match="donated"):
        compiled(old, x)
    view = np.asarray(state["w"])
    before = view.copy()
    after = compiled(state, x)
    assert np.array_equal(view, before)
    assert np.array_equal(after["w"], before + X)


def test_arrays_of_either_kind() -> None:
    """NumPy's arrays and afx's take each other's place, alone and in trees, and are read as they are at each call."""
    compiled, x = warmed(lambda x, y: x * 2 + y, X, X), np.arange(3.0)
    for args in ((x, X), (X, x), (x, x), (X, X)):
        assert np.array_equal(compiled(*args), x * 3)
    x[0] = 5.0
    assert float(compiled(x, X)[0]) == 10.0
    assert np.array_equal(afx.grad(lambda z: compiled(z, x).sum())(X), [2.0, 2.0, 2.0])
    assert compiled.cache_info().traces == 1
