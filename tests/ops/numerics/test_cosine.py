"""Cosine and sine transforms beside SciPy's."""

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.fft

import afx
from afx import fft
from afx.errors import ArgumentError, ShapeError
from tests.ops.samples import together

ONE_AXIS = ("dct", "idct", "dst", "idst")
SEVERAL = ("dctn", "idctn", "dstn", "idstn")
NORMS = (None, "backward", "ortho", "forward")


def numbers(*shape: int) -> Any:
    """Return numbers of a shape, the same at each call."""
    return np.random.default_rng([7, *shape]).normal(size=shape)


def least(name: str, kind: int) -> int:
    """Return how many points a transform takes at least."""
    return 2 if kind == 1 and "c" in name else 1


@together(("name", "kind"), list(itertools.product(ONE_AXIS, (1, 2, 3, 4))))
def test_values_are_scipys(name: str, kind: Any) -> None:
    """Of all types, norms and weights of the ends, for even and odd numbers of points, along any axis, cut or padded."""
    for n, norm, weighs in itertools.product((1, 2, 3, 4, 5, 8, 9, 30), NORMS, (None, True, False)):
        if n >= least(name, kind):
            x = numbers(n, 2)
            want = getattr(scipy.fft, name)(x, kind, axis=0, norm=norm, orthogonalize=weighs)
            got = getattr(fft, name)(x, kind, axis=0, norm=norm, orthogonalize=weighs)
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
    for n in (3, 6):
        np.testing.assert_allclose(
            getattr(fft, name)(numbers(2, 5), kind, n), getattr(scipy.fft, name)(numbers(2, 5), kind, n)
        )


@together(("name", "kind"), list(itertools.product(ONE_AXIS, (1, 2, 3, 4))))
def test_dtypes(name: str, kind: Any) -> None:
    """Precision stays, of complex numbers too, and integers take the default dtype."""
    x = numbers(6)
    for given in (x.astype(np.float32), x + 1j * x[::-1], (x + 1j).astype(np.complex64)):
        want, got = getattr(scipy.fft, name)(given, kind), getattr(fft, name)(given, kind)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(
            got, want, rtol=0, atol=1e-14 if want.dtype.itemsize > 8 - 4 * (want.dtype.kind == "f") else 1e-5
        )
    assert getattr(fft, name)([1, 2, 3], kind).dtype == afx.get_default_dtype()


@pytest.mark.parametrize("name", SEVERAL)
def test_several_axes(name: str) -> None:
    """All axes, some, and with lengths of one's own."""
    x = numbers(3, 4, 5)
    for options in ({}, {"axes": (0, 2)}, {"s": (2, 6)}, {"s": (4, 3), "axes": (1, 0), "norm": "ortho", "type": 4}):
        np.testing.assert_allclose(getattr(fft, name)(x, **options), getattr(scipy.fft, name)(x, **options), atol=1e-12)


@together(("name", "kind"), list(itertools.product(ONE_AXIS, (1, 2, 3, 4))))
def test_derivatives_compiled_and_batched(name: str, kind: Any) -> None:
    """The derivative is that of a matrix; `jit` and `vmap` change nothing."""
    fn = lambda x: getattr(fft, name)(x, kind)  # a function of the point alone
    x = afx.asarray(numbers(5))
    np.testing.assert_allclose(afx.jacrev(fn)(x), getattr(fft, name)(np.eye(5), kind, axis=0), atol=1e-12)
    afx.testing.check_grads(lambda x: fn(afx.sin(x)), (x,))
    np.testing.assert_allclose(afx.jit(fn)(x), fn(x), rtol=1e-14, atol=1e-14)
    np.testing.assert_array_equal(afx.vmap(fn)(numbers(3, 5)), fn(numbers(3, 5)))


@pytest.mark.parametrize("name", ONE_AXIS)
def test_refusals(name: str) -> None:
    """Errors name what is wrong: the type, the norm, the number of points, the axis."""
    fn = getattr(fft, name)
    with pytest.raises(ArgumentError, match=f"{name}: a transform has type 1, 2, 3 or 4: got type=5"):
        fn(numbers(3), 5)
    with pytest.raises(ArgumentError, match=f"{name}: no such norm"):
        fn(numbers(3), norm="full")
    with pytest.raises(ArgumentError, match=f"{name}: a transform has one point or more"):
        fn(numbers(3), n=0)
    with pytest.raises(ShapeError, match=f"{name}: too few points"):
        fn(numbers(0))
    with pytest.raises(IndexError, match=f"{name}: axis"):
        fn(1.0)
    if "c" in name:
        with pytest.raises(ShapeError, match=f"{name}: too few points"):
            fn(numbers(1), 1)
