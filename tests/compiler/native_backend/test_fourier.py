"""Fourier transforms as machine code: NumPy's own loops."""

from typing import Any

import numpy as np
import pytest

import afx

pytest.importorskip("llvmlite", reason="machine code is an extra")

from afx.compiler.native_backend.lowering import recorder
from afx.compiler.native_backend.program.leaves import UfuncCall
from tests.compiler.native_backend.native_run import Native, assert_same_bits, use_limits, use_threads

fft, ifft, rfft, irfft = afx.fft.fft, afx.fft.ifft, afx.fft.rfft, afx.fft.irfft


def arrays(dtype: str, *shape: int) -> tuple[Any, Any]:
    """Return real and complex numbers."""
    x, y = np.random.default_rng(0).normal(size=(2, *shape)).astype(dtype)
    return x, (x + 1j * y).astype(np.result_type(dtype, np.complex64))


def assert_is_native(fn: Any, *args: Any) -> Native:
    """Assert that a function has NumPy's bits and no call of NumPy left."""
    native = assert_same_bits(fn, *args)
    assert not any(why for _, why in native.plan.why_not_native)
    return native


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_transforms_are_numpys(dtype: str, norm: Any) -> None:
    """Transforms along each axis, cut and padded, of real and complex numbers, have the bits of NumPy's."""
    x, z = arrays(dtype, 3, 4, 6)
    for axis, n in ((0, None), (1, 5), (-1, 8), (-1, 1)):

        def fn(x: Any, z: Any, axis: int = axis, n: Any = n) -> Any:
            args = n, axis, norm
            real = fft(x, *args), ifft(x, *args), rfft(x, *args), irfft(x, *args), afx.fft.ihfft(x, *args)
            return *real, fft(z, *args), ifft(z, *args), irfft(z, *args), afx.fft.hfft(z, *args)

        native = assert_is_native(fn, x, z)
        calls = [getattr(np.fft, name)(x, n, axis, norm) for name in ("fft", "ifft", "rfft")]
        for found, expected in zip(native(x, z)[0], calls, strict=False):
            tolerance = 2e-6 if dtype == "float32" else 0.0  # NumPy's functions compute some in double precision
            np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def test_transforms_of_several_axes_and_of_views() -> None:
    """Several axes, transposed and reversed arrays, and whole numbers have NumPy's bits."""
    x, z = arrays("float64", 4, 6, 5)

    def fn(x: Any, z: Any) -> Any:
        many = afx.fft.fft2(x), afx.fft.ifftn(z), afx.fft.rfftn(x), afx.fft.irfft2(z, (5, 6)), fft(np.arange(7))
        return *many, rfft(x.T, axis=1), fft(z[::-1, ::2].T, axis=1), irfft(z.T[::-1], axis=0)

    assert_is_native(fn, x, z)
    for found, expected in zip(Native(fn, x, z, tier=2)(x, z)[0], afx.jit(fn)(x, z), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_steps_with_transforms_are_one_kernel(dtype: str) -> None:
    """Spectral steps by scan, their gradient and a batch of them run without a call of NumPy."""
    waves = np.arange(9, dtype=dtype)

    def loss(u: Any) -> Any:
        def step(u: Any, _: Any) -> Any:
            slope = irfft(1j * waves * rfft(u), 16)
            return irfft(np.exp(-0.01 * waves**2) * rfft(u - 0.1 * u * slope), 16), None

        return afx.sum(afx.scan(step, u, None, length=5)[0] ** 2)

    u = arrays(dtype, 3, 16)[0]
    assert_is_native(loss, u[0])
    assert_is_native(afx.grad(loss), u[0])
    assert_is_native(afx.vmap(afx.grad(loss)), u)


@use_limits(share_min_elements=100)
def test_threads_share_many_transforms() -> None:
    """Transforms of many rows are cut for threads, at whole vectors, and keep their bits."""
    x, z = arrays("float32", 37, 20)
    with use_threads(2):
        native = assert_is_native(lambda x, z: (fft(x), ifft(z, axis=0), rfft(x)), x, z)
    steps = [step for step in native.program.block.all_steps() if isinstance(step, UfuncCall) and step.cores]
    assert sorted([step.stops for step in steps]) == [(16, 20), (16, 32, 37), (16, 32, 37)]


def test_spectra_of_real_images_are_mirrored() -> None:
    """The half of a spectrum that mirrors the other one is copied within machine code, with the bits of NumPy's plan."""
    for dtype, shape in (("float32", (32, 33)), ("float64", (34, 32)), ("float64", (4, 16, 17))):
        x = arrays(dtype, *shape)[0]
        native = assert_is_native(afx.fft.fftn, x)
        assert_is_native(afx.grad(lambda x: afx.sum(afx.real(afx.fft.fft2(x)) ** 2 + afx.imag(afx.fft.fft2(x)))), x)
        assert "rfft" in native.program.text(0)


def test_flags_of_transforms() -> None:
    """Overflows, of sums and of their rounding to single precision, are seen; infinities are as NumPy has them."""
    for dtype in ("float32", "float64"):
        native = Native(lambda x: (fft(x), rfft(x, norm="ortho")), np.ones(6, dtype))
        for value in (np.finfo(dtype).max, np.inf, np.nan, 1.0):
            x = np.array([value, value, 1, 2, 3, 4], dtype)
            with np.errstate(all="raise", under="ignore"):
                try:
                    native.plan(x)
                    flags = False
                except FloatingPointError:
                    flags = True
            assert (native(x)[1] != 0) == flags
            assert_same_bits(lambda x: (fft(x), rfft(x, norm="ortho")), x)


def test_a_numpy_without_these_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where NumPy has no such loops, transforms are calls of NumPy, as before."""
    monkeypatch.setattr(recorder, "find_ufunc", lambda _: None)
    x = np.arange(12.0)
    plan = afx.jit(lambda x: rfft(x * 2)).lower(x).plan
    assert any("rfft" in why for _, why in plan.why_not_native)
    assert np.array_equal(plan(x)[0], np.fft.rfft(x * 2))
