"""Values at infinities, zeros and nan: those of the array API standard, plain and compiled."""

import math
from collections.abc import Callable

import numpy as np
import pytest

import afx
from afx import Array

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
@pytest.mark.parametrize(
    ("x", "y", "want"),
    [
        (INF, 2.0, INF),
        (INF, -2.0, -INF),
        (-INF, 2.0, -INF),
        (-INF, -2.0, INF),
        (INF, INF, NAN),
        (-INF, INF, NAN),
        (1.0, INF, 0.0),
        (-1.0, INF, -0.0),
        (1.0, -INF, -0.0),
        (-1.0, -INF, 0.0),
        (1.0, 0.0, INF),
        (-1.0, 0.0, -INF),
        (0.0, 0.0, NAN),
        (0.0, -2.0, -0.0),
        (NAN, 1.0, NAN),
        (INF, NAN, NAN),
        (7.5, -2.0, -4.0),
    ],
)
def test_floor_divide(x: float, y: float, want: float, dtype: str) -> None:
    """It is the quotient rounded down at every pair of operands, infinite ones too, in their dtype."""
    for z in modes(afx.floor_divide, np.array(x, dtype), np.array(y, dtype)):
        assert z.dtype == dtype
        assert same(z, want)
    assert same(np.asarray(afx.asarray(x, dtype) // y), want)
    assert same(np.asarray(x // afx.asarray(y, dtype)), want)


def test_floor_divide_mixes_finite_and_infinite() -> None:
    """Only infinite operands are treated apart, and operands broadcast."""
    x, y = np.array([[7.0], [-INF]]), np.array([2.0, INF, -2.0])
    np.testing.assert_array_equal(np.asarray(afx.floor_divide(x, y)), [[3.0, 0.0, -4.0], [-INF, NAN, INF]])
    np.testing.assert_array_equal(np.asarray(afx.floor_divide(np.array([7, -7]), 2)), [3, -4])


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize(
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
