"""Fourier transforms agree with NumPy's, and keep its conventions in every transformation."""

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx import fft
from afx.testing import check_grads
from tests.ops.samples import together

RNG = np.random.default_rng(10)
REAL = RNG.normal(size=(3, 4, 5))
COMPLEX = REAL + 1j * RNG.normal(size=REAL.shape)
NORMS: tuple[Any, ...] = ("backward", "ortho", "forward", None)
ONE_AXIS = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
TWO_AXES = ("fft2", "ifft2", "rfft2", "irfft2")
ANY_AXES = ("fftn", "ifftn", "rfftn", "irfftn")


def _signal(name: str) -> np.ndarray:
    return REAL if name in ("rfft", "ihfft", "rfft2", "rfftn") else COMPLEX


def _agree(name: str, x: Any, *args: Any) -> None:
    """Check afx's function, NumPy's on an Array, and the compiled one against NumPy's on NumPy's arrays."""
    mine: Callable[..., Any] = getattr(fft, name)
    numpys: Callable[..., Any] = getattr(np.fft, name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # lengths without axes
        want, dispatched = numpys(x, *args), numpys(afx.asarray(x), *args)
    for found in (mine(x, *args), dispatched, afx.jit(lambda v: mine(v, *args))(x)):
        assert isinstance(found, afx.Array)
        assert (found.shape, found.dtype) == (want.shape, want.dtype)
        np.testing.assert_allclose(np.asarray(found), want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ONE_AXIS)
def test_one_axis_is_numpys(name: str) -> None:
    """Cut, padded, even and odd numbers of points along any axis, with each norm, give NumPy's numbers."""
    for n, axis, norm in itertools.product((None, 1, 2, 3, 8, 9), (0, -2, 2), NORMS):
        _agree(name, _signal(name), n, axis, norm)


@pytest.mark.parametrize("name", TWO_AXES)
def test_two_axes_are_numpys(name: str) -> None:
    """Transforms along two axes are NumPy's, cut and padded too."""
    for s, axes, norm in itertools.product((None, (3, 7), (6, -1)), ((-2, -1), (2, 0)), NORMS[:2]):
        _agree(name, _signal(name), s, axes, norm)


@pytest.mark.parametrize("name", ANY_AXES)
def test_any_axes_are_numpys(name: str) -> None:
    """Transforms along all axes, some of them, and one axis twice are NumPy's."""
    for axes in (None, (1,), (0, 2), (-1, 0, 1), (1, 1)):
        _agree(name, _signal(name), None, axes)
    _agree(name, _signal(name), (2, 6, 3), (0, 1, 2), "ortho")
    _agree(name, _signal(name), (2, 7), None, "forward")


@together("name", [*ONE_AXIS, *TWO_AXES, *ANY_AXES])
def test_precision_is_kept(name: str) -> None:
    """Single precision in, single precision out; integers compute in the default dtype."""
    x = _signal(name)
    mine = getattr(fft, name)
    small = x.astype(np.complex64 if x.dtype.kind == "c" else np.float32)
    single, want = mine(small), getattr(np.fft, name)(x)
    assert single.dtype == getattr(np.fft, name)(small).dtype
    np.testing.assert_allclose(np.asarray(single), want, rtol=1e-5, atol=1e-5)
    assert mine(np.ones((4, 4), np.int64)).dtype == single.dtype
    with afx.default_dtype(np.float64):
        assert mine(np.ones((4, 4), np.int64)).dtype == want.dtype


@pytest.mark.parametrize("n", [64, 128])
def test_single_precision_is_computed_in_single_precision(n: int) -> None:
    """All norms use NumPy's loops of single precision: they differ by powers of two, as their scales do."""
    x = np.concatenate([COMPLEX.reshape(-1)] * 3)[:n].astype(np.complex64)
    for name in ("fft", "rfft", "irfft", "ifft"):
        mine, numpys = getattr(fft, name), getattr(np.fft, name)
        y = x.real if name == "rfft" else x[:33] if name == "irfft" else x
        is_there = name in ("fft", "rfft")
        want = numpys(y, norm="forward" if is_there else "backward") * np.float32(n if is_there else 1)
        np.testing.assert_array_equal(np.asarray(mine(y)), want)
        np.testing.assert_array_equal(np.asarray(afx.jit(mine)(y)), want)


@together(("shape", "s"), [((40, 41), None), ((41, 40), None), ((5, 16, 18), None), ((20, 60), (33, 64))])
@together("norm", NORMS[:3])
def test_spectra_of_real_numbers_mirror_themselves(shape: Any, s: Any, norm: Any) -> None:
    """Of many real numbers one half of the spectrum is computed: values and derivatives are those of the whole."""
    x = RNG.normal(size=shape)
    axes = tuple(range(-len(s), 0)) if s else None
    for args in ((s, axes, norm), (None, (-1, 0), norm)):
        np.testing.assert_allclose(np.asarray(fft.fftn(x, *args)), np.fft.fftn(x, *args), atol=1e-12)
    weights = RNG.normal(size=fft.fftn(x, s, axes, norm).shape)

    def loss(v: Any, one: Any) -> afx.Array:
        return afx.sum(weights * afx.imag(fft.fftn(v * one, s, axes, norm)) ** 2)

    slopes = [np.asarray(afx.grad(loss)(x, one)) for one in (1.0, 1.0 + 0j)]
    np.testing.assert_allclose(*slopes, atol=1e-12 * abs(slopes[1]).max())


@pytest.mark.parametrize(("n", "d"), [(1, 1.0), (4, 0.5), (7, 0.1)])
def test_frequencies_are_numpys(n: int, d: float) -> None:
    """Frequencies are NumPy's, in the default dtype or the one asked for."""
    for mine, numpys in ((fft.fftfreq, np.fft.fftfreq), (fft.rfftfreq, np.fft.rfftfreq)):
        np.testing.assert_array_equal(np.asarray(mine(n, d, dtype=np.float64, device="cpu")), numpys(n, d))
        assert mine(n, d).dtype == afx.float32


def test_frequencies_of_a_traced_distance() -> None:
    """A distance may be an argument of jit, and has a derivative."""
    for mine, numpys in ((fft.fftfreq, np.fft.fftfreq), (fft.rfftfreq, np.fft.rfftfreq)):
        found = afx.jit(lambda d, mine=mine: mine(5, d, dtype=np.float64))(np.float64(0.3))
        np.testing.assert_allclose(found, numpys(5, 0.3), rtol=1e-15)
        slope = afx.jacfwd(lambda d, mine=mine: mine(5, d, dtype=np.float64))(np.float64(0.3))
        np.testing.assert_allclose(slope, -numpys(5, 0.3) / 0.3, rtol=1e-14)


def test_shifts_are_numpys_and_inverse() -> None:
    """Shifts of even and odd axes are NumPy's; one undoes the other."""
    for axes in (None, 0, (1, 2), -1):
        x = afx.asarray(REAL)
        np.testing.assert_array_equal(np.asarray(np.fft.fftshift(x, axes)), np.fft.fftshift(REAL, axes))
        np.testing.assert_array_equal(np.asarray(np.fft.ifftshift(x, axes)), np.fft.ifftshift(REAL, axes))
        np.testing.assert_array_equal(np.asarray(fft.ifftshift(fft.fftshift(x, axes), axes)), REAL)


@pytest.mark.parametrize("n", [4, 5])
@pytest.mark.parametrize("norm", NORMS[:3])
def test_transposes_are_those_of_the_matrix(n: int, norm: Any) -> None:
    """The pullback of a transform multiplies by its matrix's transpose, real numbers get a real cotangent."""
    x, z = RNG.normal(size=n), RNG.normal(size=n) + 1j * RNG.normal(size=n)
    matrix = np.fft.fft(np.eye(n), axis=0, norm=norm)
    (found,) = afx.vjp(lambda v: fft.fft(v, norm=norm), z)[1](afx.asarray(z))
    np.testing.assert_allclose(np.asarray(found), matrix.T @ z, rtol=1e-12)
    (found,) = afx.vjp(lambda v: fft.fft(v, norm=norm), x)[1](afx.asarray(z))
    np.testing.assert_allclose(np.asarray(found), (matrix.T @ z).real, rtol=1e-12)
    half = n // 2 + 1
    (found,) = afx.vjp(lambda v: fft.rfft(v, norm=norm), x)[1](afx.asarray(z[:half]))
    assert found.dtype == np.float64
    np.testing.assert_allclose(np.asarray(found), (matrix[:half].T @ z[:half]).real, rtol=1e-12)
    real = np.fft.irfft(np.eye(half), n, axis=0, norm=norm), np.fft.irfft(1j * np.eye(half), n, axis=0, norm=norm)
    (found,) = afx.vjp(lambda v: fft.irfft(v, n, norm=norm), z[:half])[1](afx.asarray(x))
    np.testing.assert_allclose(np.asarray(found), real[0].T @ x - 1j * real[1].T @ x, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["rfft", "hfft", "ihfft", "rfftn", "irfftn", "fft2"])
def test_derivatives_of_every_order(name: str) -> None:
    """First and second derivatives of a function of a spectrum agree with differences, also under vmap and jit."""
    mine: Callable[[Any], afx.Array] = getattr(fft, name)
    weights = RNG.normal(size=mine(REAL[0]).shape)

    def power(x: Any) -> afx.Array:
        z = mine(x)
        return afx.sum(weights * (afx.real(z) ** 3 + afx.imag(z) ** 2))

    check_grads(power, (REAL[0],), order=2)
    slopes = [np.asarray(afx.grad(power)(x)) for x in REAL]
    for many in (afx.vmap(afx.grad(power)), afx.jit(afx.vmap(afx.grad(power))), afx.vmap(afx.jit(afx.grad(power)))):
        np.testing.assert_allclose(np.asarray(many(REAL)), slopes, rtol=1e-10, atol=1e-10)


def test_inverses_have_the_identitys_derivative() -> None:
    """A transform and its inverse cancel in derivatives too, for odd and even numbers of points."""
    pairs: list[Any] = [(fft.fft, fft.ifft), (fft.rfft, fft.irfft), (fft.ihfft, fft.hfft)]
    for n, (there, back) in itertools.product((6, 7), pairs):

        def both(x: Any, there: Any = there, back: Any = back, n: int = n) -> afx.Array:
            return afx.real(back(there(x), n))

        np.testing.assert_allclose(np.asarray(afx.jacrev(both)(RNG.normal(size=n))), np.eye(n), atol=1e-12)


def test_convolution_theorem() -> None:
    """A convolution by way of padded transforms has the gradient of the direct one."""
    x, k = RNG.normal(size=9), RNG.normal(size=4)

    def fast(x: Any, k: Any) -> afx.Array:
        return afx.sum(fft.irfft(fft.rfft(x, 12) * fft.rfft(k, 12), 12) ** 2)

    def direct(x: Any, k: Any) -> afx.Array:
        return afx.sum(afx.convolve(x, k, "full") ** 2)

    for found, want in zip(afx.grad(fast, (0, 1))(x, k), afx.grad(direct, (0, 1))(x, k), strict=True):
        np.testing.assert_allclose(np.asarray(found), np.asarray(want), rtol=1e-11, atol=1e-12)


@together(
    ("run", "kind", "words"),
    [
        (lambda: fft.rfft(COMPLEX), afx.errors.DtypeError, "use fft for complex"),
        (lambda: fft.ihfft(COMPLEX), afx.errors.DtypeError, "use fft for complex"),
        (lambda: fft.fft(REAL, n=0), afx.errors.ArgumentError, "n >= 1"),
        (lambda: fft.irfft(REAL, n=-2), afx.errors.ArgumentError, "n >= 1"),
        (lambda: fft.fft(1.0), afx.errors.ShapeError, "no axes"),
        (lambda: fft.fft(REAL, axis=3), afx.errors.ShapeError, "out of bounds"),
        (lambda: fft.fft(REAL[:0], axis=0), afx.errors.ShapeError, "no points"),
        (lambda: fft.fft(REAL, norm="unitary"), afx.errors.ArgumentError, "'ortho'"),  # a user's mistake
        (lambda: fft.fftn(REAL, (3,), (0, 1)), afx.errors.ArgumentError, "differ in number"),
        (lambda: fft.rfftn(REAL, axes=()), afx.errors.ArgumentError, "name one"),
        (lambda: fft.fftfreq(0), afx.errors.ArgumentError, "n >= 1"),
        (lambda: fft.fftfreq(4, dtype=np.int64), afx.errors.DtypeError, "floating"),
        (lambda: fft.fftfreq(4, device="gpu"), afx.errors.ArgumentError, "device"),
    ],
)
def test_mistakes_are_explained(run: Callable[[], Any], kind: type[Exception], words: str) -> None:
    """Each mistake raises with its reason."""
    with pytest.raises(kind, match=words):
        run()
