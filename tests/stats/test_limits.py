"""Laws at the limits of their arguments: matrices and weights that are none, and dtypes."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

import afx
from afx import stats
from tests.every import together


@together("name", ["skewnorm", "vonmises"])
@together("function", ["cdf", "logcdf", "sf", "logsf", "ppf", "isf"])
def test_integrated_laws_keep_float32(name: str, function: str) -> None:
    """Values of float32 arguments are float32, and those of float64 but for rounding."""
    x, shape = np.array([0.2, 0.7], np.float32), np.float32(1.5)
    of = getattr(getattr(stats, name), function)
    found = of(x, shape)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, of(x.astype(np.float64), 1.5), rtol=3e-6)


@together("dtype", [np.float32, np.float64])
@together("x", [1e-15, 1e-8, 1e-3, 0.7, 1.5])
def test_logarithms_near_zero_keep_digits(x: float, dtype: Any) -> None:
    """Where nearly everything lies on one side, its logarithm is a small number with all digits."""
    y, eps = dtype(x), float(np.finfo(dtype).eps)
    want = np.log1p(-math.erf(float(y) / math.sqrt(2)))
    np.testing.assert_allclose(stats.halfnorm.logsf(y), want, rtol=8 * eps)
    if x < 1e-6:  # the density about the end
        density = (
            math.exp(-0.5) / math.sqrt(2 * math.pi) / (math.erf(1 / math.sqrt(2)) / 2 + math.erf(math.sqrt(2)) / 2)
        )
        size = float(dtype(1 + 64 * eps) - dtype(1)) * density
        np.testing.assert_allclose(stats.truncnorm.logsf(dtype(-1 + 64 * eps), dtype(-1), dtype(2)), -size, rtol=1e-4)


@together("dtype", [np.float32, np.float64])
@together("df", [0.3, 5.0, 14.41, 29.9])
@together("t", [1e-18, 0.0013, -0.02, 0.3, 3.0])
def test_slopes_by_degrees_of_freedom_near_zero(df: float, t: float, dtype: Any) -> None:
    """The derivative of Student's distribution function by df keeps its digits about 0, where its terms cancel."""
    n, x, h = mpmath.mpf(float(dtype(df))), mpmath.mpf(float(dtype(t))), mpmath.mpf(10) ** -15
    with mpmath.workdps(70):
        ends = [mpmath.betainc(0.5, m / 2, 0, x * x / (m + x * x), regularized=True) / 2 for m in (n - h, n + h)]
        want = float(mpmath.sign(x) * (ends[1] - ends[0]) / (2 * h))
    found = afx.grad(lambda df: stats.t.cdf(dtype(t), df))(dtype(df))
    np.testing.assert_allclose(found, want, rtol=1e-9 if dtype is np.float64 else 1e-4)


def test_a_matrix_that_is_no_correlation_has_no_density() -> None:
    """Its diagonal is of ones; elsewhere the density is 0."""
    x = np.array([[[1.0, 0.3], [0.3, 1.0]], [[2.0, 0.3], [0.3, 1.0]]])
    np.testing.assert_allclose(stats.lkj.logpdf(x, 1.0), [-math.log(2), -math.inf], rtol=1e-12)


@pytest.mark.parametrize("weights", [[1.0, -0.5, 1.0], [0.0, 0.0, 0.0], [1.0, math.nan, 1.0]])
def test_weights_that_are_none_are_refused(weights: list[float]) -> None:
    """Negative weights, and those that are all 0."""
    with pytest.raises(afx.errors.ArgumentError, match="gaussian_kde: weights are 0 or more"):
        stats.gaussian_kde(np.array([1.0, 2.0, 4.0]), weights=np.array(weights))


@together("dtype", [np.float32, np.float64])
def test_far_numbers_have_probabilities(dtype: Any) -> None:
    """A number whose square is none lies in no tail: 0 or 1 and their logarithms, never nan or inf; nan stays nan."""
    far = np.array([-1.0, 1.0]) * np.sqrt(float(np.finfo(dtype).max)) * 1e3
    x = np.append(far, [-1e8, 1e8, np.nan]).astype(dtype)
    for law, below in (
        (stats.skewnorm(dtype(3.0)), 0.0),
        (stats.skewnorm(dtype(-100.0)), 0.0),
        (stats.truncnorm(dtype(-math.inf), dtype(-1.0)), 0.0),
        (stats.truncnorm(dtype(10.0), dtype(math.inf)), 0.0),
    ):
        want = np.array([below, 1.0, below, 1.0, math.nan])
        np.testing.assert_array_equal(law.cdf(x), want)
        np.testing.assert_array_equal(law.sf(x), 1 - want)


@together("dtype", [np.float32, np.float64])
@together(
    ("name", "function", "parameters", "x"),
    [
        ("gumbel_l", "logcdf", (), 1e4),
        ("gumbel_r", "logsf", (), -1e4),
        ("weibull_min", "logcdf", (3.0,), 1e30),
        ("rayleigh", "logcdf", (), 1e30),
        ("gennorm", "logcdf", (8.0,), 1e9),
        ("gennorm", "logsf", (8.0,), -1e9),
    ],
)
def test_slopes_of_what_is_certain_are_nothing(name: str, function: str, parameters: Any, x: float, dtype: Any) -> None:
    """Where a probability is 1 its logarithm and the slope of that are 0, though powers on the way are infinite."""
    xs = (dtype(x), *map(dtype, parameters))
    fn = afx.value_and_grad(getattr(getattr(stats, name), function))
    for found in (fn(*xs), afx.jit(fn)(*xs), afx.jit(fn, backend="native")(*xs)):
        assert [float(v) for v in found] == [0.0, 0.0]


@together("dtype", [np.float32, np.float64])
def test_logarithms_of_powers_that_vanish(dtype: Any) -> None:
    """The logarithm of a distribution function goes on where the power in it is smaller than any number."""
    np.testing.assert_allclose(stats.weibull_min.logcdf(dtype(1e-3), dtype(200.0)), 200 * math.log(1e-3), rtol=1e-6)
    np.testing.assert_allclose(stats.rayleigh.logcdf(dtype(1e-37)), 2 * math.log(1e-37) - math.log(2), rtol=1e-6)


def test_logarithms_of_shares_near_one() -> None:
    """Sums of nearly everything are told by what is left, to all digits: of counts, and around the circle."""
    with mpmath.workdps(40):
        n, a, b = 10, mpmath.mpf(100), mpmath.mpf(0.1)
        weights = [mpmath.binomial(n, k) * mpmath.beta(k + a, n - k + b) / mpmath.beta(a, b) for k in range(n)]
        want = [float(mpmath.log1p(-mpmath.fsum(weights[: k + 1]))) for k in range(3)]
    k = np.arange(3.0)
    np.testing.assert_allclose(stats.betabinom.logsf(k, 10, 100.0, 0.1), want, rtol=1e-12)
    single = stats.betabinom.logsf(k.astype(np.float32), 10, np.float32(100.0), np.float32(0.1))
    np.testing.assert_allclose(single, want, rtol=1e-5)
    np.testing.assert_allclose(stats.wrapcauchy.logsf(1e-12, 0.1), -1.1 / 0.9 * 1e-12 / (2 * math.pi), rtol=1e-11)


@together("law", ["laplace", "gennorm"])
def test_moments_on_both_sides_of_a_kink(law: str) -> None:
    """Moments of a law cut on both sides of its peak have twelve digits."""
    parameters = (0.5,) if law == "gennorm" else ()
    cut, whole = stats.truncated(getattr(stats, law)(*parameters), -1.0, 2.0), getattr(scipy.stats, law)(*parameters)

    def integrate(fn: Any) -> Any:
        pieces = [
            scipy.integrate.quad(lambda x: fn(x) * whole.pdf(x), *ends, epsabs=0, epsrel=1e-13)
            for ends in ((-1, 0), (0, 2))
        ]
        return sum(piece[0] for piece in pieces) / (whole.cdf(2) - whole.cdf(-1))

    mean = integrate(lambda x: x)
    np.testing.assert_allclose(cut.mean(), mean, rtol=1e-11)
    np.testing.assert_allclose(cut.var(), integrate(lambda x: (x - mean) ** 2), rtol=1e-11)
