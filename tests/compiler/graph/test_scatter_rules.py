"""Scatters: gradients of gathered elements are computed of those elements alone."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx import Array
from afx.compiler.graph.rewrite_rules import simplify
from afx.core.graph import Graph
from tests.compiler.graph.test_selection_pushdown import EAGER, computed

RNG = np.random.default_rng(3)
X = RNG.normal(size=(6, 90))
Y = RNG.normal(size=(6, 90))
FEW = np.array([3, 17, -1, 3, 50])

LOSSES: dict[str, Callable[..., Any]] = {
    "an elementwise op": lambda x, y, i: afx.sum(afx.sin(x)[:, i] ** 2),
    "a product": lambda x, y, i: afx.sum((x * y)[:, i] ** 2),
    "a quotient": lambda x, y, i: afx.sum((x / y)[:, i] ** 2),
    "a broadcast operand": lambda x, y, i: afx.sum((x * y[:1])[:, i] ** 2),
    "a chain": lambda x, y, i: afx.sum(afx.exp(afx.sin(x) * y)[:, i] ** 2),
    "a reshape": lambda x, y, i: afx.sum((x.reshape(2, 3, 90) * y[0])[..., i] ** 2),
    "a product of matrices": lambda x, y, i: afx.sum((x[:, :4].T @ y)[:, i] ** 2),
    "rows of a product of matrices": lambda x, y, i: afx.sum((x.T @ y)[i] ** 2),
    "two gathers": lambda x, y, i: afx.sum(afx.sqrt(afx.abs(x) + 1)[:, i] * afx.cos(x)[:, i]),
}


def gradients(name: str, captured: bool) -> tuple[Callable[..., Any], list[Any]]:
    """Return a gradient by x and y, and its arguments, with or without the indices."""
    fn = LOSSES[name]
    if captured:
        return afx.grad(lambda x, y: fn(x, y, FEW), argnums=(0, 1)), [X, Y]
    return afx.grad(fn, argnums=(0, 1)), [X, Y, FEW]


def test_gradients_of_gathered_sums_stay() -> None:
    """Whose cotangents are repeated over the axis of the sum, masks and all."""
    fn = afx.grad(lambda x, y, i: afx.sum(afx.sum(x * y, axis=0)[i] ** 2), argnums=(0, 1))
    for found, want in zip(afx.jit(fn)(X, Y, FEW), fn(X, Y, FEW), strict=True):
        np.testing.assert_allclose(np.asarray(found), np.asarray(want), rtol=1e-12, atol=1e-13)


def simple(fn: Callable[..., Any], args: list[Any]) -> Graph:
    """Return the simplified graph."""
    return simplify(afx.trace(fn)(*args), EAGER, expanding=True)


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_gradients_of_gathered_elements_stay(name: str, captured: bool) -> None:
    """Beside the eager ones, with an index that stands twice and one that counts from the end."""
    fn, args = gradients(name, captured)
    for found, want in zip(afx.jit(fn)(*args), fn(*args), strict=True):
        np.testing.assert_allclose(np.asarray(found), np.asarray(want), rtol=1e-12, atol=1e-13)
    assert "where" not in simple(fn, args).counts()


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_what_was_left_out_gives_zero(name: str, captured: bool) -> None:
    """Where operands are infinite or nan, and no index reads them, as without a plan."""
    fn, args = gradients(name, captured)
    args = [a.copy() for a in args]
    args[0][:, 40], args[1][:, 41], args[0][2, 42], args[1][3, 43] = np.inf, np.nan, -np.inf, 0.0
    with np.errstate(all="ignore"):
        for found, want in zip(afx.jit(fn)(*args), fn(*map(afx.asarray, args)), strict=True):
            np.testing.assert_allclose(np.asarray(found), np.asarray(want), rtol=1e-12, atol=1e-13)


def test_products_over_the_scattered_axis_have_few_terms() -> None:
    """A gradient by what a large matrix was multiplied with reads the columns that were gathered."""

    def loss(a: Array, x: Array, i: Array) -> Array:
        return afx.sum((a @ x)[:, i] ** 2)

    graph = simple(afx.grad(loss), [X[:, :6], Y, FEW])
    assert computed(graph) == 36
    assert "scatter_unread" not in graph.counts()


def test_masks_of_whole_values_go() -> None:
    """What an index reads at all is alive after a product over the gathered axis: no mask is made of it."""

    def loss(a: Array, x: Array, i: Array) -> Array:
        return afx.sum((afx.stack([afx.sin(a), afx.cos(a)]) @ x)[:, i] ** 2)

    counts = simple(afx.grad(loss), [X[0], Y[0][:, None] * Y[1], FEW]).counts()
    assert not counts.keys() & {"where", "any", "logical_or", "not_equal"}


@pytest.mark.parametrize("size", [0, 1, 60, 90])
def test_few_or_many_indices(size: int) -> None:
    """None at all, and more than a quarter, in which case the scatter stays before the product."""

    def loss(x: Array, i: Array) -> Array:
        return afx.sum((afx.sin(x) * afx.exp(x[:1]))[:, i] ** 2)

    at = RNG.integers(-90, 90, size)
    found, want = afx.jit(afx.grad(loss))(X, at), afx.grad(loss)(X, at)
    np.testing.assert_allclose(np.asarray(found), np.asarray(want), rtol=1e-12, atol=1e-13)


def test_whether_any_element_was_selected() -> None:
    """Is known where there is an index, and not where there is none."""

    def fn(i: Array) -> Array:
        return afx.any(afx.vjp(lambda x: x[i], afx.ones(9))[1](afx.ones(i.shape))[0] != 0)

    assert len(simple(fn, [FEW % 9])) == 0
    assert bool(afx.jit(fn)(FEW % 9))
    assert not bool(afx.jit(fn)(FEW[:0]))


def test_equal_constants_are_one() -> None:
    """So that two gathers at the same indices are."""
    graph = simplify(afx.trace(lambda x: x[np.array([1, 2])] * x[np.array([1, 2])])(np.ones(5)))
    assert len(graph.constants) == 1
    assert graph.counts()["gather"] == 1
    signs = afx.jit(lambda x: (x / np.array([0.0, 1.0]), x / np.array([-0.0, 1.0])))
    with np.errstate(divide="ignore"):
        assert [float(z[0]) for z in signs(np.ones(2))] == [np.inf, -np.inf]


def test_zeros_of_sums_that_are_no_derivative_stay_numbers() -> None:
    """A count that is 0 times infinity is nan."""

    def fn(i: Array, y: Array) -> tuple[Array, Array]:
        counts = afx.bincount(i, length=90).astype(y.dtype)
        return counts * y, counts @ y[:, None]

    y = np.full(90, np.inf)
    with np.errstate(invalid="ignore"):
        for found, want in zip(afx.jit(fn)(FEW % 90, y), fn(FEW % 90, afx.asarray(y)), strict=True):
            np.testing.assert_array_equal(np.asarray(found), np.asarray(want))
            assert np.isnan(np.asarray(found)).any()


@pytest.mark.parametrize("at", [3, -1])
def test_an_element_of_a_vector_by_a_transpose(at: int) -> None:
    """Its mask is an array that is known; its index is not."""
    fn = afx.grad(lambda m, v: afx.sum(afx.sin(v @ m.T)[np.array([at])]), argnums=(0, 1))
    m, v = Y[:, :6], X[0, :6]
    for found, want in zip(afx.jit(fn)(m, v), fn(m, v), strict=True):
        np.testing.assert_allclose(np.asarray(found), np.asarray(want), rtol=1e-12, atol=1e-13)
