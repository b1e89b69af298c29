"""Laws at the limits of their arguments: matrices and weights that are none, and dtypes."""

from __future__ import annotations

import math

import numpy as np
import pytest

import afx
from afx import stats


@pytest.mark.parametrize("name", ["skewnorm", "vonmises"])
@pytest.mark.parametrize("function", ["cdf", "logcdf", "sf", "logsf", "ppf", "isf"])
def test_integrated_laws_keep_float32(name: str, function: str) -> None:
    """Values of float32 arguments are float32, and those of float64 but for rounding."""
    x, shape = np.array([0.2, 0.7], np.float32), np.float32(1.5)
    of = getattr(getattr(stats, name), function)
    found = of(x, shape)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, of(x.astype(np.float64), 1.5), rtol=3e-6)


def test_a_matrix_that_is_no_correlation_has_no_density() -> None:
    """Its diagonal is of ones; elsewhere the density is 0."""
    x = np.array([[[1.0, 0.3], [0.3, 1.0]], [[2.0, 0.3], [0.3, 1.0]]])
    np.testing.assert_allclose(stats.lkj.logpdf(x, 1.0), [-math.log(2), -math.inf], rtol=1e-12)


@pytest.mark.parametrize("weights", [[1.0, -0.5, 1.0], [0.0, 0.0, 0.0], [1.0, math.nan, 1.0]])
def test_weights_that_are_none_are_refused(weights: list[float]) -> None:
    """Negative weights, and those that are all 0."""
    with pytest.raises(afx.errors.ArgumentError, match="gaussian_kde: weights are 0 or more"):
        stats.gaussian_kde(np.array([1.0, 2.0, 4.0]), weights=np.array(weights))
