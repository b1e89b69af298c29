"""Product rules: many small products and sums of outer products are one product, with the same values and derivatives."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx.compiler.graph.rewrite_rules import simplify

RNG = np.random.default_rng(3)
C, X, Y = RNG.normal(size=(6, 7)), RNG.normal(size=(300, 7)), RNG.normal(size=(300, 6))
CUBE, OTHER = RNG.normal(size=(30, 5, 8)), RNG.normal(size=(30, 5, 9))

Case = tuple[Callable[..., Any], tuple[Any, ...], Callable[..., Any], int]
CASES: dict[str, Case] = {
    "one matrix times many columns": (
        lambda c, x: (c @ x[:, :, None])[:, :, 0],
        (C, X),
        lambda c, x: np.einsum("ij,bj->bi", c, x),
        300 * 7,
    ),
    "columns in two batch axes": (
        lambda c, x: c @ x.reshape(30, 10, 7, 1),
        (C, X),
        lambda c, x: np.einsum("ij,bj->bi", c, x).reshape(30, 10, 6, 1),
        300 * 7,
    ),
    "a sum of outer products": (
        lambda x, y: afx.sum(x[:, :, None] @ y[:, None, :], axis=0),
        (X, Y),
        lambda x, y: np.einsum("bi,bj->ij", x, y),
        300 * 7,
    ),
    "a sum of outer products by elements": (
        lambda x, y: afx.sum(y[:, None, :] * x[:, :, None], axis=0),
        (X, Y),
        lambda x, y: np.einsum("bi,bj->ij", x, y),
        300 * 7,
    ),
    "a sum over the last axis": (
        lambda x, y: afx.sum(x.T[:, None, :] * y.T[None, :, :], axis=2),
        (X, Y),
        lambda x, y: np.einsum("bi,bj->ij", x, y),
        300 * 7,
    ),
    "a sum over axes on both sides": (
        lambda x, y: afx.sum(x[:, :, None, :] * y[:, None, :, :], axis=(0, 3)),
        (CUBE.transpose(0, 2, 1), OTHER.transpose(0, 2, 1)),
        lambda x, y: np.einsum("bik,bjk->ij", x, y),
        30 * 5 * 9,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_products_have_the_same_values_and_derivatives(name: str) -> None:
    """The plan's values are those of `einsum`, its derivatives eager ones', to 1e-12, and no larger array is made."""
    fn, xs, wanted, largest = CASES[name]
    want = wanted(*xs)
    np.testing.assert_allclose(np.asarray(afx.jit(fn)(*xs)), want, rtol=1e-12, atol=1e-12)
    slopes = afx.grad(lambda xs: (fn(*xs) ** 2).sum())
    for found, eager in zip(afx.jit(slopes)(xs), slopes(xs), strict=True):
        np.testing.assert_allclose(np.asarray(found), np.asarray(eager), rtol=1e-12, atol=1e-12 * np.abs(eager).max())
    simple = simplify(afx.trace(fn)(*map(afx.asarray, xs)), expanding=True)
    assert max(v.aval.size for eq in simple.equations for v in eq.outputs) <= largest, str(simple)
    assert sum(eq.primitive.name == "matmul" for eq in simple.equations) == 1


@pytest.mark.parametrize("dtype", ["float32", "complex128", "int64", "float16"])
def test_products_of_all_dtypes(dtype: str) -> None:
    """Products of other dtypes keep theirs, and integers their exact sums."""
    for fn, xs, wanted, _ in CASES.values():
        given = [np.round(4 * x).astype(dtype) for x in xs]
        found = np.asarray(afx.jit(fn)(*given))
        assert found.dtype == dtype
        np.testing.assert_allclose(
            found.astype("complex128"), wanted(*[x.astype("complex128") for x in given]), rtol=1e-2
        )


def test_products_of_inner_length_one_are_elements() -> None:
    """Outer products, stacks and broadcast ones of them, are loops over elements, also of special values."""
    x, y = np.array([[1.0], [np.inf], [np.nan], [0.0]]), np.array([[2.0, -3.0, 0.0]])
    for a, b in ((x, y), (x[None], np.stack([y, -y])), (np.stack([x, x])[:, None], y)):
        simple = simplify(afx.trace(afx.matmul)(afx.asarray(a), afx.asarray(b)), expanding=True)
        assert [eq.primitive.name for eq in simple.equations] == ["multiply"]
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(np.asarray(afx.jit(afx.matmul)(a, b)), np.matmul(a, b))
    with pytest.warns(RuntimeWarning, match="overflow"):
        afx.jit(afx.matmul)(np.full((2, 1), 1e200), np.full((1, 2), 1e200))


def test_small_or_shared_axes_are_left_alone() -> None:
    """Sums of few rows, of small arrays and of products that share an axis beside the summed ones stay loops."""

    def names(fn: Callable[..., Any], *xs: Any) -> set[str]:
        return {eq.primitive.name for eq in simplify(afx.trace(fn)(*map(afx.asarray, xs)), expanding=True).equations}

    assert "matmul" not in names(lambda x, y: afx.sum(x[:, :2, None] * y[:, None, :], axis=0), X, Y)
    assert "matmul" not in names(lambda x, y: afx.sum(x[:9, :, None] * y[:9, None, :], axis=0), X, Y)
    assert "matmul" not in names(lambda x, y: afx.sum(x[..., None] * y[:, :, None, :], axis=1), CUBE, OTHER)


def test_slices_and_parts_of_whole_arrays_are_reshapes() -> None:
    """Axes of one element that an index drops or adds cost nothing, but for reversed ones."""

    def names(fn: Callable[..., Any]) -> list[str]:
        return [eq.primitive.name for eq in simplify(afx.trace(fn)(afx.asarray(X)), expanding=True).equations]

    assert names(lambda x: x[:, None, :, None]) == ["reshape"]
    assert names(lambda x: afx.reshape(x, (1, 300, 7))[0]) == []
    assert names(lambda x: afx.grad(lambda x: x[:, None][:, 0].sum())(x)) == ["broadcast_to"]
    assert names(lambda x: x[::-1]) == ["slice"]
    assert names(lambda x: afx.permute_dims(x[:, None], (0, 2, 1))) == ["reshape"]
    for fn in (lambda x: x[::-1, None], lambda x: x[:1, ::-1], lambda x: x[0, :, None], lambda x: x[:0, None]):
        np.testing.assert_array_equal(np.asarray(afx.jit(fn)(X)), fn(X))


def test_a_vector_times_a_transpose_stays_a_product() -> None:
    """A vector has no rows and columns: its products with a transposed matrix, or a stack of them, compile as they are."""
    rng = np.random.default_rng(0)
    v, a, b = rng.normal(size=3), rng.normal(size=(3, 3)), rng.normal(size=(2, 3, 3))
    for x in (a, b):
        swapped = np.swapaxes(x, -1, -2)
        found = afx.jit(lambda v, x: (v @ afx.swapaxes(x, -1, -2), afx.swapaxes(x, -1, -2) @ v))(v, x)
        np.testing.assert_allclose(found[0], v @ swapped)
        np.testing.assert_allclose(found[1], swapped @ v)
