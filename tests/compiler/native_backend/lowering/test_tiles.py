"""Products of the second tier: tiles in registers, whose bits are those of one ascending chain an element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx.compiler.native_backend.lowering.lower import lower_schedule
from afx.compiler.native_backend.program.leaves import Nest, UfuncCall

pytest.importorskip("llvmlite", reason="machine code is an extra")

from afx.runtime import thread_pool
from tests.compiler.native_backend.native_run import Native, of_tier, same_bits, use_threads

FORMS: dict[str, Callable[[Any, Any], Any]] = {
    "x @ y": lambda x, y: x @ y,
    "x @ y.T": lambda x, y: x @ y.T,
    "x.T @ y": lambda x, y: x.T @ y,
}


def chain(x: Any, y: Any) -> Any:
    """Return a product of float32, fused and in ascending order: doubles hold each product, and nearly each sum, exactly."""
    total = np.zeros((x.shape[0], y.shape[1]), np.float32)
    for k in range(x.shape[1]):
        exact = x[:, k, None].astype(np.longdouble) * y[None, k].astype(np.longdouble)
        total = (exact + total.astype(np.longdouble)).astype(np.float32)
    return total


def is_tiled(native: Native) -> bool:
    """Tell whether all products of a program are tiles."""
    products = [step for step in native.program.block.all_steps() if isinstance(step, UfuncCall) and step.cores]
    return bool(products) and all(step.loop is None for step in products)


@pytest.mark.parametrize(("m", "k", "n"), [(1, 7, 40), (8, 16, 32), (9, 5, 33), (13, 30, 47), (2, 2, 3), (20, 3, 10)])
def test_bits_are_those_of_an_ascending_chain(m: int, k: int, n: int) -> None:
    """Each element of a product is one chain of fused operations over ascending k, at edges of tiles too."""
    rng = np.random.default_rng(m)
    x, y = rng.normal(size=(m, k)).astype("f4"), rng.normal(size=(k, n)).astype("f4")
    native = Native(FORMS["x @ y"], x, y, tier=2)
    assert is_tiled(native)
    assert same_bits(native(x, y)[0][0], chain(x, y))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("form", FORMS)
def test_any_form_of_operands(form: str, dtype: str) -> None:
    """Transposed operands, which are copied where that pays, give the product."""
    rng = np.random.default_rng(0)
    for m, k, n in ((30, 40, 35), (64, 100, 17), (3, 50, 70)):
        x = rng.normal(size=(k, m) if form == "x.T @ y" else (m, k)).astype(dtype)
        y = rng.normal(size=(n, k) if form == "x @ y.T" else (k, n)).astype(dtype)
        native = Native(FORMS[form], x, y, tier=2)
        want = FORMS[form](x.astype(np.longdouble), y.astype(np.longdouble))
        assert np.abs(native(x, y)[0][0] - want).max() <= 60 * k * np.finfo(dtype).eps


def test_vectors_and_batches() -> None:
    """Products with vectors and stacks of matrices have forms of their own."""
    rng = np.random.default_rng(1)
    shapes = [
        ((6,), (6, 9)),
        ((9, 6), (6,)),
        ((50,), (50,)),
        ((4, 5, 6), (4, 6, 7)),
        ((4, 5, 6), (6,)),
        ((3, 4, 5, 6), (6, 7)),
    ]
    for a, c in shapes:
        x, y = rng.normal(size=a), rng.normal(size=c)
        (z,), _ = Native(lambda x, y: afx.matmul(x, y), x, y, tier=2)(x, y)
        assert np.allclose(z, np.matmul(x, y), rtol=1e-13, atol=1e-13), (a, c)
    x, y = rng.normal(size=(40, 20)), rng.normal(size=20)
    native = Native(lambda x, y: x @ y, x, y, tier=2)
    assert [type(step) for step in native.program.block.steps] == [Nest]


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_products_of_two_vectors_are_sums(dtype: str) -> None:
    """A product of one row and one column is a sum of vectors, which no long chain holds up; columns of a matrix too."""
    rng = np.random.default_rng(1)
    for k in (17, 200, 5001):
        x, y = rng.normal(size=(k, 3)).astype(dtype), rng.normal(size=(4, k)).astype(dtype)
        bound = 4 * np.finfo(dtype).eps * (abs(x[:, 1].astype("f8")) @ abs(y[0].astype("f8")))
        for fn in (
            lambda x, y: y[0] @ x[:, 1],
            lambda x, y: (x[None, :, 1] @ y[:1].T)[0, 0],
            lambda x, y: x[:, 1] @ y[0],
        ):
            native = Native(fn, x, y, tier=2)
            assert any(isinstance(step, Nest) and step.folds for step in native.program.block.all_steps())
            assert abs(float(native(x, y)[0][0]) - x[:, 1].astype("f8") @ y[0].astype("f8")) <= bound
    rows = rng.normal(size=(5, 1, 300)).astype(dtype)
    native = Native(lambda x: x @ afx.swapaxes(x, -1, -2), rows, tier=2)
    np.testing.assert_allclose(native(rows)[0][0], rows @ np.swapaxes(rows, 1, 2), rtol=20 * np.finfo(dtype).eps)


def test_large_products_are_left_to_blas() -> None:
    """Beyond some sixty million multiplications no tile is emitted: BLAS computes the pieces of NumPy's plan."""
    x = np.ones((420, 420), np.float32)
    lowered = afx.jit(lambda x: (x @ x) * 2 + 1).lower(x)
    program, _ = lower_schedule(lowered.plan.schedule, of_tier(2))
    (product,) = [step for step in program.block.steps if isinstance(step, UfuncCall) and step.cores]
    assert product.loop is not None
    assert product.stops == (224, 420)


def test_products_that_numpys_plan_cuts() -> None:
    """Products that NumPy's plan cuts into pieces for its threads are tiles too."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(64, 300)).astype("f4"), rng.normal(size=(300, 300)).astype("f4")
    native = Native(lambda x, y: x @ y, x, y, tier=2)
    assert is_tiled(native)
    assert np.abs(native(x, y)[0][0] - x.astype("f8") @ y).max() < 1e-4


@pytest.mark.parametrize(("m", "k", "n"), [(130, 140, 145), (30, 260, 310), (301, 90, 97), (8, 700, 500)])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_large_tiled_products_are_shared(m: int, k: int, n: int, dtype: str) -> None:
    """Threads take tiles of rows or of columns, those at the edge too; each element is the same chain."""
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(m, k)).astype(dtype), rng.normal(size=(k, n)).astype(dtype)
    native = Native(lambda x, y: (x @ y, y.T @ x.T), x, y, tier=2)
    products = [step for step in native.program.block.steps if isinstance(step, UfuncCall) and step.cores]
    assert all(step.is_cut and step.loop is None for step in products)
    with use_threads(3):
        found, _ = native(x, y)
        with thread_pool.single_threaded:
            alone, _ = native(x, y)
    assert all(same_bits(a, b) for a, b in zip(found, alone, strict=True))
    assert np.abs(found[0] - x.astype("f8") @ y.astype("f8")).max() <= 2 * k * np.finfo(dtype).eps * 10


def test_products_within_loops() -> None:
    """Tiles run within the steps of a scan."""
    rng = np.random.default_rng(2)
    w, x = rng.normal(size=(12, 12)) / 4, rng.normal(size=(3, 12))

    def fn(w: Any, x: Any) -> Any:
        return afx.scan(lambda h, _: (np.tanh(h @ w), h @ w.T), x, None, 5)

    native = Native(fn, w, x, tier=2)
    found = native(w, x)[0]
    for z, want in zip(found, native.plan(w, x), strict=True):
        assert np.allclose(z, want, rtol=1e-12, atol=1e-13)
