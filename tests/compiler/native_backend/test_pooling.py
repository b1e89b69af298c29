"""Pooling within machine code."""

from typing import Any

import numpy as np
import pytest

import afx
from afx import nn

pytest.importorskip("llvmlite", reason="machine code is an extra")

from tests.compiler.native_backend.native_run import assert_same_bits


def _image(shape: tuple[int, ...], dtype: str) -> Any:
    """Return an image with ties, zeros of both signs, infinities and nan."""
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, shape).astype(dtype) * rng.choice([-1, 1], shape).astype(dtype)
    x[rng.random(shape) < 0.05] = np.nan
    x[rng.random(shape) < 0.05] = -np.inf
    return x


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(("shape", "window"), [((3, 8, 2), 2), ((2, 6, 9, 3), (2, 3)), ((4, 4, 4, 2, 1), (2, 2, 2))])
def test_pooling_has_the_bits_of_numpys_plan(dtype: str, shape: tuple[int, ...], window: Any) -> None:
    """Largest elements, and the gradient to the first of them: of ties the first, of nan the last place."""
    x = _image(shape, dtype)

    def fn(x: Any, w: Any) -> Any:
        value, pull = afx.vjp(lambda x: nn.max_pool(x, window), x)
        return value, pull(w)[0], afx.jvp(lambda x: nn.max_pool(x, window), (x,), (x * 2 + 1,))[1]

    w = np.random.default_rng(1).normal(size=nn.max_pool(x, window).shape).astype(dtype)
    assert_same_bits(fn, x, w)


def test_long_windows_are_left_to_numpy() -> None:
    """Windows of more than sixteen elements are NumPy's."""
    lowered = afx.jit(lambda x: nn.max_pool(x, 5)).lower(np.ones((2, 10, 10, 1)))
    assert any("windows of 25 elements" in reason for _, reason in lowered.plan.why_not_native)
