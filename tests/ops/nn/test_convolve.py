"""Cross-correlation and convolution of vectors, beyond what NumPy's functions take for granted."""

import itertools
import tracemalloc
from typing import Any

import numpy as np
import pytest

import afx
from tests.ops.samples import together

RNG = np.random.default_rng(21)


@together(("n", "m", "mode"), list(itertools.product((1, 2, 5, 6), (1, 2, 3, 4, 7), ("same", "full"))))
def test_any_lengths_are_numpys(n: int, m: int, mode: Any) -> None:
    """Kernels longer than the signal give what NumPy gives."""
    s, k = RNG.normal(size=n), RNG.normal(size=m)
    np.testing.assert_allclose(np.asarray(afx.correlate(s, k, mode)), np.correlate(s, k, mode), atol=1e-14)
    np.testing.assert_allclose(np.asarray(afx.convolve(s, k, mode)), np.convolve(s, k, mode), atol=1e-14)


def test_complex_kernels_are_conjugated_by_correlate_alone() -> None:
    """As NumPy's functions, which dispatch here."""
    s, k = RNG.normal(size=5) + 1j * RNG.normal(size=5), RNG.normal(size=2) + 1j * RNG.normal(size=2)
    for fn in (np.correlate, np.convolve):
        found = fn(afx.asarray(s), afx.asarray(k), "full")
        assert isinstance(found, afx.Array)
        np.testing.assert_allclose(np.asarray(found), fn(s, k, "full"), atol=1e-14)


@pytest.mark.parametrize("mode", ["valid", "same", "full"])
@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0)])
def test_vmap_is_a_loop(mode: Any, axes: Any) -> None:
    """Over signals, kernels or both, and in the gradient of each."""
    s, k = RNG.normal(size=(3, 6)), RNG.normal(size=(3, 4))
    xs = tuple(v if a == 0 else v[0] for v, a in zip((s, k), axes, strict=True))

    def total(s: Any, k: Any) -> Any:
        return afx.sum(afx.sin(afx.correlate(s, k, mode)))

    found = afx.vmap(afx.grad(total, (0, 1)), axes)(*xs)
    for i in range(3):
        one = afx.grad(total, (0, 1))(s[i] if axes[0] == 0 else s[0], k[i] if axes[1] == 0 else k[0])
        for g, want in zip(found, one, strict=True):
            np.testing.assert_allclose(np.asarray(g)[i], np.asarray(want), atol=1e-13)


def test_long_vectors_take_no_matrix() -> None:
    """A kernel of 2 000 along a signal of 20 000 elements would be a matrix of 288 MB."""
    s, k = RNG.normal(size=20_000), RNG.normal(size=2_000)
    tracemalloc.start()
    try:
        z = afx.correlate(s, k)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
    assert z.shape == (18_001,)
    assert float(z[7]) == pytest.approx(float(s[7 : 7 + k.size] @ k))


@pytest.mark.parametrize("mode", ["full", "valid", "same"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_second_tier(dtype: str, mode: Any) -> None:
    """Windows as columns of a product give NumPy's numbers, of kernels with infinities too, which zeros do not meet."""
    pytest.importorskip("llvmlite", reason="machine code is an extra")
    rng = np.random.default_rng(0)
    fn = afx.jit(lambda s, k: afx.convolve(s, k, mode), backend="native")
    for n, m in ((1, 1), (40, 1), (7, 7), (5, 9), (300, 16), (33, 40), (1000, 101)):
        s, k = rng.normal(size=n).astype(dtype), rng.normal(size=m).astype(dtype)
        bound = 4 * np.finfo(dtype).eps * np.convolve(abs(s), abs(k), mode).max()
        np.testing.assert_allclose(fn(s, k), np.convolve(s, k, mode), rtol=0, atol=bound)
        np.testing.assert_allclose(fn(s[::-1], k[::-1]), np.convolve(s[::-1], k[::-1], mode), rtol=0, atol=bound)
    s, k = np.arange(1, 6, dtype=dtype), np.array([1, np.inf, 2], dtype)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(fn(s, k), np.convolve(s, k, mode))
        np.testing.assert_array_equal(fn(k, s), np.convolve(k, s, mode))


@pytest.mark.parametrize("fn", [afx.correlate, afx.convolve])
def test_mistakes_name_the_function(fn: Any) -> None:
    """Matrices, empty vectors and other modes raise under the name that was called."""
    for operands, kind in (
        ((np.ones((2, 2)), np.ones(2)), afx.errors.ShapeError),
        ((np.ones(2), np.ones(0)), afx.errors.ShapeError),
        ((np.ones(3), np.ones(2), "around"), afx.errors.ArgumentError),
    ):
        with pytest.raises(kind, match=f"^{fn.__name__}: "):
            fn(*operands)
