"""Special functions of complex numbers, the reciprocal gamma function, Bessel's of the second kind, weighted logsumexp."""

import math
from typing import Any

import numpy as np
import pytest
import scipy.special

import afx
from afx import special

Z = np.array([0.3 - 0.7j, -1.2 + 0.4j, 2.0 + 1.5j, -0.1j, 3.0 + 0j])
X = np.array([-3.5, -0.2, 0.4, 1.0, 2.5, 6.0])


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


def test_rgamma() -> None:
    """The reciprocal gamma function is SciPy's, and has derivatives at the poles of the gamma function."""
    poles = np.array([0.0, -1.0, -2.0, -5.0])
    x = np.concatenate([X, poles])
    np.testing.assert_allclose(np.asarray(special.rgamma(x)), scipy.special.rgamma(x), rtol=1e-14)
    slopes = afx.vmap(afx.grad(special.rgamma))(poles)
    np.testing.assert_allclose(np.asarray(slopes), [1.0, -1.0, 2.0, -120.0], rtol=1e-12)  # (-1)ⁿ n!
    second = afx.vmap(afx.grad(afx.grad(special.rgamma)))(poles[:2])
    np.testing.assert_allclose(np.asarray(second), [2 * np.euler_gamma, 2 - 2 * np.euler_gamma], rtol=1e-12)


@pytest.mark.parametrize(("name", "order"), [("y0", ()), ("y1", ()), ("yn", (3,)), ("yv", (0.5,)), ("yv", (-1.5,))])
def test_bessel_functions_of_the_second_kind(name: str, order: tuple[float, ...]) -> None:
    """Values are SciPy's, and the first two derivatives are its ``yvp``."""
    x = np.array([0.1, 0.9, 2.0, 7.5, 40.0])
    v = order[0] if order else float(name[1])

    def fn(y: Any) -> Any:
        return getattr(special, name)(*order, y)

    np.testing.assert_allclose(np.asarray(fn(x)), getattr(scipy.special, name)(*order, x), rtol=1e-13)
    np.testing.assert_allclose(np.asarray(afx.vmap(afx.grad(fn))(x)), scipy.special.yvp(v, x), rtol=1e-10)
    np.testing.assert_allclose(
        np.asarray(afx.vmap(afx.grad(afx.grad(fn)))(x)), scipy.special.yvp(v, x, 2), rtol=1e-9, atol=1e-12
    )


# -- logsumexp --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_weighted_logsumexp(axis: Any, keepdims: bool) -> None:
    """With factors the value is SciPy's, for large numbers too, and derivatives are differences by both operands."""
    rng = np.random.default_rng(3)
    x, b = rng.normal(size=(3, 4)) * 300, np.abs(rng.normal(size=(3, 4)))
    b[1, 2] = 0.0
    found = afx.logsumexp(x, axis, b=b, keepdims=keepdims)
    np.testing.assert_allclose(np.asarray(found), scipy.special.logsumexp(x, axis, b=b, keepdims=keepdims), rtol=1e-13)
    x = x / 300
    for k in (0, 1):
        slope = afx.grad(lambda *v: afx.sum(afx.logsumexp(v[0], axis, b=v[1], keepdims=keepdims)), k)(x, b)
        t = rng.normal(size=(3, 4))
        moved = [
            float(np.sum(scipy.special.logsumexp(x + (1 - k) * h * t, axis, b=b + k * h * t))) for h in (1e-6, -1e-6)
        ]
        assert float(np.sum(np.asarray(slope) * t)) == pytest.approx((moved[0] - moved[1]) / 2e-6, rel=1e-7)


def test_factors_of_zero() -> None:
    """Where a factor is 0 it does not matter what the number is; of nothing, and of zeros, the value is -inf."""
    x = np.array([1.0, np.inf, np.nan, 5e3])
    b = np.array([2.0, 0.0, 0.0, 0.0])
    value, slope = afx.value_and_grad(lambda v: afx.logsumexp(v, b=b))(x)
    assert float(value) == pytest.approx(1 + math.log(2.0), rel=1e-15)
    np.testing.assert_array_equal(np.asarray(slope), [1.0, 0.0, 0.0, 0.0])
    with np.errstate(divide="ignore"):
        assert float(afx.logsumexp(np.zeros(3), b=np.zeros(3))) == -math.inf
        assert float(afx.logsumexp(np.zeros(0), b=np.zeros(0))) == -math.inf
