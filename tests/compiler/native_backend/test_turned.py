"""Operands whose neighbours lie along another axis than those of results: squares of them are turned in registers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import afx
from afx.compiler.native_backend.program.leaves import Nest
from tests.compiler.native_backend.native_run import Native, assert_same_bits, same_bits
from tests.every import together

KINDS = ["f4", "f8", "i4", "i8", "u4"]
# sizes around those of squares, of one axis or both, and ones that threads share
SHAPES = [(8, 8), (4, 9), (7, 8), (8, 7), (9, 17), (64, 33), (3, 40, 16), (5, 2, 24), (1, 31, 31), (700, 401)]


def _numbers(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    """Return numbers of all signs; of floats with zeros of both signs, nan and infinities."""
    rng = np.random.default_rng(seed)
    x = (rng.normal(size=shape) * 1000).astype(dtype)
    if x.dtype.kind == "f":
        x.flat[:: max(1, x.size // 7)] = np.resize(
            [0.0, -0.0, np.nan, np.inf, -np.inf], x.flat[:: max(1, x.size // 7)].shape
        )
    return x


@together("dtype", KINDS)
@together("shape", SHAPES)
@together("tier", [1, 2])
def test_copies_with_exchanged_axes(shape: tuple[int, ...], dtype: str, tier: int) -> None:
    """Each element is where NumPy has it: the last two axes are exchanged, and the first and the last one."""
    x = _numbers(shape, dtype)
    for axes in ((-1, -2), (0, -1)):
        native = Native(lambda x, axes=axes: afx.reshape(afx.swapaxes(x, *axes), -1), x, tier=tier)
        (found,), _ = native(x)
        assert same_bits(found, x.swapaxes(*axes).reshape(-1))


@pytest.mark.parametrize("n", [8, 12, 31, 40])
@pytest.mark.parametrize("tier", [1, 2])
def test_sums_with_what_is_turned(n: int, tier: int) -> None:
    """Operands that lie as the result, of one number a row or column, and turned ones meet; one array may be both."""
    x, y, row = _numbers((n, n), "f8"), _numbers((n, n), "f8", 1), _numbers((n,), "f8", 2)

    def fn(x: Any, y: Any, row: Any) -> Any:
        return x + y.T, (x + x.T) * 0.5, x.T + row[:, None] - x, x + x.T * row, x.T + y.T - x

    found, _ = Native(fn, x, y, row, tier=tier)(x, y, row)
    with np.errstate(invalid="ignore"):
        for have, want in zip(found, fn(x, y, row), strict=True):
            np.testing.assert_array_equal(have, want)


@pytest.mark.parametrize("shape", [(16, 24), (7, 1000), (1000, 9), (600, 600)])
@pytest.mark.parametrize("backend", ["auto", "native", "portable"])
def test_turned_results_of_every_back_end(shape: tuple[int, int], backend: Any) -> None:
    """Threads, views that are not dense, and the memory of an argument that is no longer needed change nothing."""
    x = _numbers((shape[0], 2 * shape[1]), "f4")
    f = afx.jit(lambda x: afx.reshape(2 * x.T, -1), backend=backend)
    for given in (x, x[:, ::2], x[::-1], np.asfortranarray(x)):
        np.testing.assert_array_equal(np.asarray(f(given)), (2 * given.T).reshape(-1))
    g = afx.jit(lambda x: (x + 1).T + x.T, backend=backend, donate_argnums=0)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(np.asarray(g(afx.asarray(x.copy()))), (x + 1).T + x.T)


def test_programs_with_turned_operands_keep_their_threads_apart() -> None:
    """What one part of a loop writes, none of another does: a loop in place behind a turned copy sees it whole."""
    x = _numbers((999, 613), "f4")
    f = afx.jit(lambda x: afx.sqrt(afx.abs(x.T + 1)) * 2 + x.T, backend="native")
    with np.errstate(invalid="ignore"):
        want = np.sqrt(np.abs(x.T + 1)) * np.float32(2) + x.T
        for _ in range(20):
            np.testing.assert_array_equal(np.asarray(f(x)), want)


@pytest.mark.parametrize("shape", [(4, 200), (3, 50), (40, 30), (1, 9), (5, 4, 7)])
@pytest.mark.parametrize("tier", [1, 2])
def test_many_operations_read_dense_copies(shape: tuple[int, ...], tier: int) -> None:
    """Functions, and more operations than squares take, compute vectors of what lies in another order."""
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=shape).astype("float32"), rng.normal(size=shape[::-1]).astype("float32")

    def fn(x: Any, y: Any) -> Any:
        z = (x.T * y + x.T - y / (x.T + 5.0)) * 2.0 - x.T[:, :1] * 0.25
        return z, afx.sum(afx.exp(x.T) * y), afx.exp(x[..., ::7].T)

    native = assert_same_bits(fn, x, y) if tier == 1 else Native(fn, x, y, tier=2)
    for nest in [step for step in native.program.block.all_steps() if isinstance(step, Nest)]:
        if len(nest.operations) > native.target.native.turn_max_operations and len(nest.space) > 1:
            assert all(ref.strides[-1] in (0, ref.size) for ref in nest.refs if ref.strides)
    if tier > 1:
        found, _ = native(x, y)
        for z, want in zip(found, native.plan(x, y), strict=True):
            np.testing.assert_allclose(z, want, rtol=1e-5, atol=1e-6)
