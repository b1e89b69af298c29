"""Weighted log-sums of exponentials: SciPy's values, and derivatives by numbers and factors."""

import math
from typing import Any

import numpy as np
import pytest
import scipy.special

import afx


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
