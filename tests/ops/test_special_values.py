"""Values at infinities, zeros, nan and the largest integers: those of NumPy and the array API standard, plain and compiled."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx import Array
from tests.ops.samples import together

INF, NAN = math.inf, math.nan

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's own, at infinite values


def modes(fn: Callable[..., Array], *xs: object) -> list[np.ndarray]:
    """Return a function's values: plain, compiled, and along an axis."""
    stacked = [np.stack([np.asarray(x)] * 2) for x in xs]
    return [np.asarray(z) for z in (fn(*xs), afx.jit(fn)(*xs), afx.vmap(fn)(*stacked)[1])]


def same(have: np.ndarray, want: float | complex) -> bool:
    """Tell whether a value is the wanted one to the sign of its zeros, nan being nan."""
    value = complex(have)
    parts = [(value.real, complex(want).real), (value.imag, complex(want).imag)]
    return all(
        (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b)) for a, b in parts
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floor_divide(dtype: str) -> None:
    """It is NumPy's at every pair of operands, infinite ones too, in their dtype."""
    numbers = np.array([INF, -INF, NAN, 0.0, -0.0, 1.0, -1.0, 7.5, -2.0], dtype)
    with np.errstate(all="ignore"):
        for x in numbers:
            for y in numbers:
                for z in (*modes(afx.floor_divide, x, y), np.asarray(afx.asarray(x) // y)):
                    assert z.dtype == dtype
                    assert same(z, np.floor_divide(x, y))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
def test_integers_rounded_to_tens(dtype: Any) -> None:
    """Integers rounded to tens keep all other digits, halves to even; beyond the dtype they are NumPy's."""
    info = np.iinfo(dtype)
    for value in {info.max, info.max - 2, info.max // 2, info.min, info.min + 2, 25, 35, 0, min(info.max, 2**62)}:
        for decimals in range(-21, 0):
            power = 10**-decimals
            want = round(value, decimals)
            if not info.min <= want <= info.max:
                with np.errstate(invalid="ignore"):
                    want = int(np.round(np.array([value], dtype), decimals)[0])
            for z in modes(lambda x, d=decimals: afx.round(x, d), np.array([value], dtype)):
                assert int(z[0]) == want, (value, power)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_powers_of_two_of_complex_infinities(dtype: str) -> None:
    """They are NumPy's, and near finite numbers keep the digits that NumPy's lose."""
    for value in (complex(INF, 0.03), complex(INF, 0.0), complex(-INF, 2.0), complex(NAN, 0.0), complex(0.0, INF)):
        with np.errstate(all="ignore"):
            want = np.exp2(np.array([value], dtype))
        for z in modes(afx.exp2, np.array([value], dtype)):
            assert same(z[0], want[0])
    found = complex(np.asarray(afx.exp2(np.array(1000 + 2j)))[()])
    exact = complex(math.ldexp(math.cos(2 * math.log(2)), 1000), math.ldexp(math.sin(2 * math.log(2)), 1000))
    assert abs(found - exact) <= 4e-16 * abs(exact)


@together("name", ["mean", "nanmean", "var", "nanvar", "std", "nanstd", "average", "median"])
@together("default", ["float32", "float64"])
def test_moments_of_large_integers(name: str, default: str) -> None:
    """Sums of integers that no integer holds are added up in float64, whatever the default dtype is."""
    x = np.array([2**62, 2**62, 2**62 - 2**56])
    with afx.default_dtype(default):
        for z in modes(getattr(afx, name), x):
            assert z.dtype == default
            np.testing.assert_allclose(z, getattr(np, name)(x), rtol=1e-6)


def test_sign_of_complex_numbers_keeps_its_dtype() -> None:
    """The sign of complex64 is complex64 under every default dtype."""
    for default in ("float32", "float64"):
        with afx.default_dtype(default):
            assert all(z.dtype == np.complex64 for z in modes(afx.sign, np.array([3 + 4j], np.complex64)))


@together("dtype", ["complex64", "complex128"])
@together(
    ("x", "want"),
    [
        (complex(0.0, 0.0), 0j),
        (complex(-0.0, 0.0), 0j),
        (complex(INF, 0.0), complex(INF, 0.0)),
        (complex(-INF, NAN), complex(-1.0, 0.0)),
        (complex(-INF, INF), complex(-1.0, 0.0)),
        (complex(INF, NAN), complex(INF, NAN)),
        (complex(INF, INF), complex(INF, NAN)),
        (complex(NAN, 0.0), complex(NAN, 0.0)),
        (complex(NAN, 1.0), complex(NAN, NAN)),
        (complex(1.0, INF), complex(NAN, NAN)),
    ],
)
def test_expm1_of_complex_numbers(x: complex, want: complex, dtype: str) -> None:
    """Its limits are those of ``exp(x) - 1``."""
    for z in modes(afx.expm1, np.array(x, dtype)):
        assert z.dtype == dtype
        assert same(z, want)


def test_expm1_of_finite_complex_numbers_is_numpys() -> None:
    """It is exact near 0, its derivative is exp, and numbers of Python's work too."""
    x = np.array([1e-9 + 1e-9j, 0.5 - 1j, -3.0 + 2j])
    np.testing.assert_array_equal(np.asarray(afx.expm1(x)), np.expm1(x))
    np.testing.assert_allclose(np.asarray(afx.jvp(afx.expm1, (x,), (np.ones_like(x),))[1]), np.exp(x))
    assert afx.expm1(1j).dtype == afx.complex64
