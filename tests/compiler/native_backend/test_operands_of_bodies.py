"""Loops and branches read transposes and parts of arrays as NumPy's plan does, on whose order BLAS's last digits depend."""

from typing import Any

import numpy as np
import pytest

import afx

pytest.importorskip("llvmlite", reason="machine code is an extra")

from tests.compiler.native_backend.native_run import assert_same_bits

SIZES = (3, 5, 7, 16, 33)


def _arrays(n: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(n)
    return rng.normal(size=(4, n, n)), rng.normal(size=(4, n, n))


def _turned(x: Any) -> Any:
    return x.swapaxes(-1, -2)


@pytest.mark.parametrize("n", SIZES)
def test_loops_close_over_transposes_and_parts(n: int) -> None:
    """Products within a loop, with what lies in another order, or among other elements, around it."""
    x, y = _arrays(n)

    def fn(x: Any, y: Any) -> Any:
        w, u, v = _turned(x), np.tanh(x)[::2, ::-1], y[:, :, 1][:, None]

        def step(c: Any, _: None) -> tuple[Any, Any]:
            return np.tanh(w @ (w @ c)), (u @ c[:2]).sum() + (v @ c).sum()

        return afx.scan(step, y[..., :1], None, length=3)

    assert_same_bits(fn, x, y)


@pytest.mark.parametrize("n", SIZES)
def test_loops_begin_with_and_walk_along_transposes(n: int) -> None:
    """First carries, and elements, may be views in any order."""
    x, y = _arrays(n)

    def fn(x: Any, y: Any) -> Any:
        def step(c: Any, row: Any) -> tuple[Any, Any]:
            return np.tanh(row @ c) @ y[0], (c * row).sum() + row.sum()

        return afx.scan(step, _turned(x)[0], _turned(y)), afx.scan(step, x[:, 0].T @ x[:, 0], y[:, ::-1, ::-1])

    assert_same_bits(fn, x, y)


@pytest.mark.parametrize("n", SIZES)
def test_steps_with_solutions_of_their_own(n: int) -> None:
    """Fits of many rows at once: a transpose that does not change stands before the loop."""

    def fit(q: Any, v: Any) -> Any:
        j = np.tanh(v) + np.eye(n)

        def step(q: Any, _: None) -> tuple[Any, None]:
            return q - afx.linalg.solve(j.T @ j + 0.5 * np.eye(n), j.T @ (j @ q - v[0])), None

        return afx.scan(step, q, None, length=3)[0]

    assert_same_bits(lambda x, y: afx.vmap(fit)(x[:, 0], y), *_arrays(n))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_of_transposed_parts(dtype: str) -> None:
    """What NumPy's ``dot`` copies, and what it reads as it lies, agrees, also a matrix times its own transpose."""
    x, y = (z.astype(dtype) for z in _arrays(33))
    assert_same_bits(lambda x, y: (x[:, 0].T @ x[:, 0], x[:, 0] @ x[:, 0].T, y[:, 1, :7] @ x[:, 2, :7].T), x, y)
    assert_same_bits(lambda x, y: (x[0].T @ y[:, 1].T, x[0, :9].T @ y[0, :9], y[:, 0] @ x[1, :9].T), x, y)


@pytest.mark.parametrize("n", SIZES)
def test_branches_and_while_loops_take_transposes(n: int) -> None:
    """Branches, conditions and steps of loops of unknown length read views."""
    x, y = _arrays(n)

    def fn(x: Any, y: Any) -> Any:
        w = _turned(x)
        chosen = afx.cond(x[0, 0, 0] > 0, lambda w, y: w @ y, lambda w, y: w - y @ y, w, y)
        grown = afx.while_loop(
            lambda c: c[0] + np.tanh((w[0] @ c[1]).sum()) < 4, lambda c: (c[0] + 1, np.tanh(w[1] @ c[1])), (0, w[2])
        )
        return chosen, grown

    assert_same_bits(fn, x, y)
