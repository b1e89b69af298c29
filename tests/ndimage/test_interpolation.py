"""Values between elements beside SciPy's."""

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.ndimage

import afx
from afx import ndimage
from afx.errors import ArgumentError, DtypeError, ShapeError
from tests.ndimage.test_filters import MODES, numbers

EXACT = [mode for mode in MODES if mode not in ("reflect", "grid-mirror")]  # where SciPy's splines meet the elements
SHAPES = ((7,), (5, 6), (3, 4, 5), (1,), (2, 1))


def assert_scipys(name: str, x: Any, *args: Any, **options: Any) -> None:
    """Compare with SciPy: values, shape and dtype."""
    want = getattr(scipy.ndimage, name)(x, *args, **options)
    got = getattr(ndimage, name)(x, *args, **options)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-11 if want.dtype != np.float32 else 1e-5)


@pytest.mark.parametrize(("mode", "order"), list(itertools.product(EXACT, range(6))))
def test_values_are_scipys(mode: str, order: int) -> None:
    """At any coordinates, far outside too, and of transforms, in every mode and order."""
    shapes = [shape for shape in SHAPES if len(shape) < 3 or (mode in ("mirror", "constant") and order < 4)]
    for shape, dtype in itertools.product(shapes, (np.float64, np.complex128)):
        x, n = numbers(*shape, dtype=dtype), len(shape)
        rng = np.random.default_rng([order, *shape])
        options = {"order": order, "mode": mode}
        assert_scipys("map_coordinates", x, rng.uniform(-10, 11, (n, 60)), cval=1.25, **options)
        assert_scipys("map_coordinates", x, rng.integers(-9, 10, (n, 4, 5)), **options)
        assert_scipys("shift", x, 1.3, cval=1.0, **options)
        assert_scipys("zoom", x, 1.7, **options)
        matrix = np.eye(n) + 0.3 * rng.normal(size=(n, n))
        assert_scipys("affine_transform", x, matrix, offset=0.3, output_shape=(4,) * n, **options)
        assert_scipys("affine_transform", x, np.diag(matrix), offset=0.3, **options)
        if n > 1:
            assert_scipys("rotate", x, 33, **options)
            assert_scipys("rotate", x, -90.0, axes=(0, n - 1), reshape=False, **options)


@pytest.mark.parametrize("mode", ["reflect", "grid-mirror"])
def test_mirrors_with_the_edge(mode: Any) -> None:
    """SciPy's coefficients begin with an error that long arrays do not see; ours meet the elements of short ones too."""
    x, c = numbers(40), np.random.default_rng(0).uniform(-30, 90, (1, 200))
    for order in range(4):
        assert_scipys("map_coordinates", x, c, order=order, mode=mode)
    for order in range(6):
        got = ndimage.map_coordinates(x[:3], np.arange(3.0)[None], order=order, mode=mode)
        np.testing.assert_allclose(got, x[:3], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("mode", MODES)
def test_coefficients_that_are_given(mode: Any) -> None:
    """Without the filter values are SciPy's in every mode, inside and far outside."""
    for n, order in itertools.product((1, 2, 3, 9), range(6)):
        c = np.linspace(-20, n + 19, 4 * (n + 39) + 1)[None]
        assert_scipys("map_coordinates", numbers(n), c, order=order, mode=mode, prefilter=False)
    for order in range(6):
        assert_scipys("shift", numbers(5, 6), (1.3, -7.6), order=order, mode=mode, prefilter=False)


def test_dtypes_and_options() -> None:
    """Whole numbers are rounded, precision stays, and each option counts."""
    x = np.array([[1, 2, 8], [3, 4, 250]], np.uint8)
    c = np.array([[0.2, 0.9, 0.5], [1.7, 0.4, 2.0]])
    for order in range(4):
        assert_scipys("map_coordinates", x, c, order=order)
        assert_scipys("map_coordinates", x.astype(np.int16) - 20, c, order=order)
        assert_scipys("map_coordinates", numbers(4, 5), c, order=order, prefilter=False, output=np.float32)
    single = numbers(6, 7).astype(np.float32)
    got, want = (m.zoom(single, (2, 1.5)) for m in (ndimage, scipy.ndimage))
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=0, atol=3e-5)
    assert_scipys("zoom", numbers(4, 5), (2, 1.5), order=1, mode="grid-constant", grid_mode=True)
    homogeneous = np.array([[0.9, 0.1, 0.5], [-0.1, 1.1, -0.2], [0.0, 0.0, 1.0]])
    assert_scipys("affine_transform", numbers(4, 5), homogeneous)
    assert_scipys("affine_transform", numbers(4, 5), homogeneous[:2])
    assert_scipys("shift", numbers(4, 5), (1.5, -0.5), mode="nearest")


def test_derivatives() -> None:
    """By elements, coordinates, shifts, matrices and angles."""
    x, c = afx.asarray(numbers(5, 6) / 30), afx.asarray(np.random.default_rng(1).uniform(0.6, 3.4, (2, 4)))
    for mode, order in itertools.product(MODES, (1, 3)):
        afx.testing.check_grads(lambda x, c, m=mode, k=order: ndimage.map_coordinates(x, c, order=k, mode=m), (x, c), 1)
    afx.testing.check_grads(lambda x, c: ndimage.map_coordinates(x, c, mode="mirror"), (x, c + 7.3), 2)
    afx.testing.check_grads(lambda s: ndimage.shift(x, s, mode="nearest"), (0.3,), 1)
    afx.testing.check_grads(lambda a: ndimage.rotate(x, a, reshape=False, mode="reflect"), (12.3,), 1)
    matrix = afx.asarray([[0.9, 0.1], [-0.13, 1.1]], dtype=afx.float64)
    afx.testing.check_grads(lambda m, b: ndimage.affine_transform(x, m, b, mode="mirror"), (matrix, 0.21), 1)


def test_compiled_and_batched() -> None:
    """`jit` and `vmap` give the same values."""
    x = numbers(3, 5, 6)
    for fn in (
        lambda x: ndimage.zoom(x, 1.5),
        lambda x: ndimage.rotate(x, 20),
        lambda x: ndimage.map_coordinates(x, [[0.5, 1.5], [2.2, 3.3]]),
        lambda x: ndimage.shift(x, 0.3, mode="grid-constant", cval=2.0),
    ):
        want = np.stack([fn(v) for v in x])
        np.testing.assert_allclose(afx.vmap(fn)(x), want, rtol=1e-13, atol=1e-12)
        np.testing.assert_allclose(afx.jit(fn)(x[0]), want[0], rtol=1e-13, atol=1e-12)


def test_refusals() -> None:
    """Errors name what is wrong."""
    x = numbers(4, 5)
    with pytest.raises(ArgumentError, match="zoom: order is one of 0, 1, 2, 3, 4, 5: got 6"):
        ndimage.zoom(x, 2, order=6)
    with pytest.raises(ArgumentError, match="shift: mode is one of 'reflect'"):
        ndimage.shift(x, 2, mode="edge")  # a wrong word on purpose
    with pytest.raises(ShapeError, match="map_coordinates: coordinates are float"):
        ndimage.map_coordinates(x, [[0.0]])
    with pytest.raises(DtypeError, match="map_coordinates: coordinates are real"):
        ndimage.map_coordinates(x, [[0j], [1j]])
    with pytest.raises(ShapeError, match="shift: takes an array of one axis or more with elements"):
        ndimage.shift(1.0, 1.0)
    with pytest.raises(ShapeError, match="affine_transform: the matrix takes places"):
        ndimage.affine_transform(x, np.eye(3, 2))
    with pytest.raises(ArgumentError, match="zoom: the result has elements"):
        ndimage.zoom(x, 0.01)
    with pytest.raises(ArgumentError, match="zoom: zoom is a real number"):
        ndimage.zoom(x, np.inf)
    with pytest.raises(ArgumentError, match="rotate: an angle is a real number"):
        ndimage.rotate(x, np.nan)
    with pytest.raises(ShapeError, match="rotate: a plane has two axes"):
        ndimage.rotate(x, 3.0, axes=(0,))
    with pytest.raises(ArgumentError, match="rotate: the shape depends on the angle, which is traced"):
        afx.grad(lambda a: ndimage.rotate(x, a).sum())(3.0)
