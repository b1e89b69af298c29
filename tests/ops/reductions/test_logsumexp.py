"""Log-sums of exponentials: derivatives that share them; with factors SciPy's values, and derivatives by both."""

import math
from decimal import Decimal
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


def test_derivatives_share_the_exponentials() -> None:
    """A compiled gradient computes each exponential once, and gives the shares to all digits, far below the largest too."""
    x = np.array([[3.0, -40.0, 2.5], [-700.0, 0.0, -300.0]])
    gradient = afx.jit(afx.value_and_grad(lambda x: afx.sum(afx.logsumexp(x, axis=1))))
    found = np.asarray(gradient(x)[1])
    assert [e.primitive.name for e in gradient.lower(x).graph.equations].count("exp") == 1
    powers = [[Decimal(v).exp() for v in row] for row in x.tolist()]  # of 28 digits
    shares = [[power / sum(row) for power in row] for row in powers]
    np.testing.assert_allclose(found, np.array(shares, float), rtol=4e-16)


@pytest.mark.parametrize("mode", ["reverse", "forward", "compiled", "batched"])
@pytest.mark.parametrize(
    ("x", "shares"),
    [
        ([math.inf, 1.0, math.inf], [0.5, 0.0, 0.5]),
        ([-math.inf, -math.inf], [0.5, 0.5]),
        ([-math.inf, 1.0], [0.0, 1.0]),
        ([math.nan, 1.0], [math.nan, math.nan]),
        ([1e300, -1e300], [1.0, 0.0]),
    ],
)
def test_infinite_elements_share_the_derivative(mode: str, x: list[float], shares: list[float]) -> None:
    """The largest ones share it evenly, whatever the transformation, and nothing warns."""
    transform = {
        "reverse": afx.grad(afx.logsumexp),
        "forward": afx.jacfwd(afx.logsumexp),
        "compiled": afx.jit(afx.grad(afx.logsumexp)),
        "batched": lambda v: afx.vmap(afx.grad(afx.logsumexp))(v[None])[0],
    }[mode]
    np.testing.assert_array_equal(np.asarray(transform(np.array(x))), shares)


def test_nothing_has_no_derivative() -> None:
    """Of no elements the value is -inf, the derivative empty."""
    value, slope = afx.value_and_grad(lambda x: afx.sum(afx.logsumexp(x, axis=0)))(np.zeros((0, 2)))
    assert (float(value), slope.shape) == (-math.inf, (0, 2))
