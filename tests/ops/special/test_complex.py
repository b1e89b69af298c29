"""Special functions of complex numbers: SciPy's values, and derivatives in every direction."""

import math
from typing import Any

import numpy as np
import pytest
import scipy.special

import afx
from afx import special

Z = np.array([0.3 - 0.7j, -1.2 + 0.4j, 2.0 + 1.5j, -0.1j, 3.0 + 0j])


@pytest.mark.parametrize("name", ["erf", "erfc", "exp2"])
def test_complex_values_and_derivatives(name: str) -> None:
    """Complex numbers have SciPy's values (2**z), and the derivative is a difference in every direction."""
    fn: Any = afx.exp2 if name == "exp2" else getattr(special, name)
    expected = 2.0**Z if name == "exp2" else getattr(scipy.special, name)(Z)
    for dtype, tolerance in ((np.complex128, 1e-13), (np.complex64, 1e-5)):
        found = fn(Z.astype(dtype))
        assert found.dtype == dtype
        np.testing.assert_allclose(np.asarray(found), expected, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(np.asarray(afx.jit(fn)(Z.astype(dtype))), expected, rtol=tolerance, atol=tolerance)
    for direction in (1.0, 1j):
        slope = afx.jvp(fn, (Z,), (np.full_like(Z, direction),))[1]
        difference = (np.asarray(fn(Z + 1e-6 * direction)) - np.asarray(fn(Z - 1e-6 * direction))) / 2e-6
        np.testing.assert_allclose(np.asarray(slope), difference, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("b", [0.0, 0.5, 1.0, 2.0, -2.0, 10.0])
def test_tanh_far_out(b: float) -> None:
    """The hyperbolic tangent of complex numbers far out is 1 or -1, and its derivative there is 0."""
    for sign in (1.0, -1.0):
        for x in (complex(sign * math.inf, b), complex(sign * 800.0, b)):
            value, slope = afx.jvp(afx.tanh, (np.array([x]),), (np.array([1.0 + 0j]),))
            assert complex(value[0]) == sign
            assert complex(slope[0]) == 0
