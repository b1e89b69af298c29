"""Laws at the limits of their arguments: matrices and weights that are none, and dtypes."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest

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
