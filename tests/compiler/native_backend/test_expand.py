"""Ops that are several calls of NumPy, as machine code: bits of the plan for every layout and kind of value."""

from typing import Any

import numpy as np
import pytest

import afx
from afx import nn

pytest.importorskip("llvmlite", reason="machine code is an extra")

from afx.compiler.target import Target, use_target
from tests.compiler.native_backend.native_run import assert_same_bits, same_bits

SHAPES = ((7,), (6, 40), (300, 20), (2, 3, 1200))


def drawn(shape: tuple[int, ...], dtype: str, scale: float = 3.0) -> Any:
    """Return random numbers."""
    return (np.random.default_rng(len(shape)).normal(size=shape) * scale).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES)
def test_softmax_and_its_logarithms(dtype: str, shape: tuple[int, ...]) -> None:
    """Softmax, log-softmax and logsumexp along every axis, of numbers close to each other and of some that are not."""

    def fn(x: Any) -> Any:
        axes = [*range(x.ndim), *([(0, x.ndim - 1)] if x.ndim > 1 else [])]
        return tuple([f(x, axis=a) for a in axes for f in (nn.softmax, nn.log_softmax, afx.logsumexp)])

    x = drawn(shape, dtype)
    native = assert_same_bits(fn, x)
    far, odd = x.copy(), x.copy()
    far.flat[1] = 1000.0
    odd.flat[0], odd.flat[3], odd.flat[-1] = np.inf, -np.inf, np.nan
    masked = np.where(x > 0, x, -np.inf).astype(dtype)
    masked[..., :] = -np.inf if len(shape) == 1 else masked
    for other in (far, odd, masked, np.full_like(x, -np.inf)):
        with np.errstate(all="ignore"):
            expected = native.plan(other)
        assert all(same_bits(z, want) for z, want in zip(native(other)[0], expected, strict=True))


@pytest.mark.parametrize("rows", [64, 57])
def test_softmax_by_blocks_of_rows(rows: int) -> None:
    """Where NumPy's plan computes blocks of rows, each block decides for itself whether its elements are close."""
    with use_target(Target(fuse_min_elements=16, block_max_bytes=512, block_min_elements=16)):
        x = drawn((rows, 12), "float32")
        x[3, 4], x[rows - 1, 2] = 300.0, -np.inf

        def fn(x: Any) -> Any:
            y = x * 2 + 1
            return nn.softmax(y, axis=1) * 3 + 1, afx.logsumexp(y - 1, axis=1), nn.log_softmax(x + 1, axis=1) * 2

        assert "fused" in str(afx.jit(fn).lower(x).plan.schedule)
        assert_same_bits(fn, x)


def test_gradients_of_cross_entropy() -> None:
    """A classifier's loss and gradients agree bit by bit."""
    w, x, labels = drawn((12, 5), "float32"), drawn((30, 12), "float32"), np.arange(30) % 5
    assert_same_bits(
        lambda w, x, n: afx.value_and_grad(lambda w: nn.softmax_cross_entropy(x @ w, n).mean())(w), w, x, labels
    )
    assert_same_bits(lambda x: afx.grad(lambda x: (nn.softmax(x @ x.T) @ x).sum())(x), x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_norms(dtype: str) -> None:
    """Euclid's norm of all elements and of rows, where squares overflow or vanish too."""

    def fn(x: Any) -> Any:
        return afx.linalg.norm(x), afx.linalg.norm(x, axis=1), afx.linalg.norm(x[:, ::2], axis=0), x.std(axis=0)

    x = drawn((6, 30), dtype)
    native = assert_same_bits(fn, x)
    for scale in (1e-30, 1e25, 0.0, np.inf, np.nan):
        with np.errstate(all="ignore"):
            other = (x * scale).astype(dtype)
            expected = native.plan(other)
        assert all(same_bits(z, want) for z, want in zip(native(other)[0], expected, strict=True))
    assert_same_bits(fn, drawn((60, 40), dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
def test_products_and_quotients(dtype: str) -> None:
    """Products of elements in NumPy's order, and quotients rounded down, of infinite operands too."""
    x = drawn((9, 40), dtype)
    assert_same_bits(lambda x: (x.prod(), x.prod(axis=0), x.prod(axis=1), x[:, :3].prod(axis=(0, 1))), x)
    y = np.where(x == 0, 3, x[:, ::-1] + 1).astype(dtype)
    y[y == 0] = 2
    assert_same_bits(lambda x, y: (x // y, x % y, x // 2, afx.divmod(x, y)), x, y)
    if dtype[0] == "f":
        x[0, :6], y[0, 2:6] = [np.inf, -np.inf, np.nan, 1, -1, 0], [np.inf, 2, -np.inf, np.inf]
        assert_same_bits(lambda x, y: (x // y, 1.0 // y), x, y)


@pytest.mark.parametrize("dtype", ["float32", "bool", "int8"])
def test_moving_elements(dtype: str) -> None:
    """Rolls, repeats, tiles, splits, and reshapes that copy."""
    x = drawn((6, 8), dtype)

    def fn(x: Any) -> Any:
        rolled = afx.roll(x, 2), afx.roll(x, (1, -3), axis=(0, 1)), afx.roll(x, 8, axis=1), afx.roll(x.T, 1, axis=0)
        return (
            *rolled,
            afx.repeat(x, 2, axis=1),
            afx.tile(x, (2, 3)),
            *afx.split(x, 2, axis=1),
            x.T.reshape(-1),
            afx.unstack(x),
        )

    assert_same_bits(fn, x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sinc_is_one_loop(dtype: str) -> None:
    """An op that NumPy has no ufunc for is computed within the loop around it, its derivative too, to NumPy's bits."""
    x = np.concatenate([[0.0, -0.0, 1.0, -2.0, 1e-30, np.inf, -np.inf, np.nan], np.linspace(-3, 3, 500)]).astype(dtype)
    native = assert_same_bits(lambda x: afx.sinc(x * 2) + x, x)
    assert len(native.program.block.steps) == 1
    assert_same_bits(afx.grad(lambda x: afx.sinc(x).sum()), x)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint64", "int64"])
def test_bits_are_counted(dtype: str) -> None:
    """Set bits of integers of every size, those of negative ones too, are counted within kernels."""
    x = np.array([0, 1, 7, 100, np.iinfo(dtype).max, np.iinfo(dtype).min], dtype)
    native = assert_same_bits(lambda x: afx.bitwise_count(x) + 1, x)
    assert not any(why for _, why in native.plan.why_not_native)
