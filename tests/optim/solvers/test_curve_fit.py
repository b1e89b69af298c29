"""`curve_fit`, robust losses and brackets give SciPy's numbers, with derivatives by the data."""

from typing import Any

import numpy as np
import pytest
import scipy.optimize

import afx
from afx import optim

TIMES = np.linspace(0.0, 4.0, 30)
COUNTS = 3 * np.exp(-0.5 * TIMES) + 0.05 * np.random.default_rng(0).normal(size=30)
WILD = COUNTS + 4.0 * (np.arange(30) == 5) - 3.0 * (np.arange(30) == 20)


def decay(p: Any, t: Any) -> Any:
    """Return an exponential decay."""
    return p[0] * afx.exp(-p[1] * t)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # first steps of some overflow
@pytest.mark.parametrize("loss", ["linear", "huber", "soft_l1", "cauchy", "arctan"])
def test_robust_losses_are_scipys(loss: Any) -> None:
    """Fits with outliers have SciPy's parameters, cost and residuals for every loss."""
    result = optim.least_squares(lambda p: decay(p, TIMES) - WILD, np.ones(2), loss=loss, loss_scale=0.1)
    want = scipy.optimize.least_squares(
        lambda p: np.asarray(decay(p, TIMES)) - WILD,
        np.ones(2),
        loss=loss,
        f_scale=0.1,
        xtol=1e-14,
        ftol=1e-14,
        gtol=1e-14,
    )
    assert result.converged
    np.testing.assert_allclose(result.x, want.x, rtol=1e-6)
    assert float(result.cost) == pytest.approx(want.cost, rel=1e-10)
    np.testing.assert_allclose(result.residuals, want.fun, rtol=1e-5, atol=1e-7)


def test_robust_fits_are_differentiable() -> None:
    """Derivatives of a robust fit by the data are those of finite differences."""

    def fit(y: Any) -> Any:
        return optim.least_squares(lambda p, y: decay(p, TIMES) - y, np.ones(2), y, loss="soft_l1", loss_scale=0.1).x

    step = 1e-5 * (np.arange(30) == 3)
    want = (np.asarray(fit(WILD + step)) - np.asarray(fit(WILD - step))) / 2e-5
    np.testing.assert_allclose(np.asarray(afx.jacrev(fit)(WILD))[:, 3], want, rtol=1e-4)


@pytest.mark.parametrize("shape", [(5, 1), (5, 5)])
def test_deviations_are_those_of_measurements(shape: Any) -> None:
    """A column of deviations, or a covariance, is no table of each residual by each of them."""
    x = np.arange(5.0)
    with pytest.raises(afx.errors.ShapeError, match="one of each measurement"):
        optim.curve_fit(lambda p, t: p * t, np.float64(1.0), x, 2 * x, sigma=np.ones(shape))
    no_function: Any = x
    with pytest.raises(afx.errors.ArgumentError, match="curve_fit: needs a function"):
        optim.curve_fit(no_function, np.float64(1.0), x, 2 * x)


@pytest.mark.parametrize("known", [{}, {"sigma": 0.1 + TIMES}, {"sigma": 0.1 + TIMES, "absolute_sigma": True}])
def test_covariances_are_scipys(known: Any) -> None:
    """Parameters and their covariance are SciPy's, with and without weights."""
    result = optim.curve_fit(decay, np.ones(2), TIMES, COUNTS, **known)
    best, covariance = scipy.optimize.curve_fit(
        lambda t, a, b: a * np.exp(-b * t), TIMES, COUNTS, p0=np.ones(2), xtol=1e-14, ftol=1e-14, **known
    )
    np.testing.assert_allclose(result.x, best, rtol=1e-6)
    np.testing.assert_allclose(result.covariance, covariance, rtol=1e-4)
    np.testing.assert_allclose(result.errors, np.sqrt(np.diag(covariance)), rtol=1e-4)


def test_what_is_not_determined_has_infinite_errors() -> None:
    """Parameters that measurements do not tell apart have an infinite covariance; a wrong shape is named."""
    result = optim.curve_fit(
        lambda p, t: (p["a"] + p["b"]) * t, {"a": 1.0, "b": 1.0}, TIMES, 3 * TIMES, max_iterations=50
    )
    assert np.isinf(np.asarray(result.covariance)).all()
    with pytest.raises(afx.errors.ShapeError, match="the shape of y"):
        optim.curve_fit(lambda p, t: p[0] * t[:3], np.ones(1), TIMES, COUNTS)


@pytest.mark.parametrize(
    ("fn", "lower", "upper"),
    [
        (lambda x: x**3 - x - 2, 1.0, 2.0),
        (lambda x: afx.exp(x) - 1e3, -10.0, 20.0),
        (lambda x: 1 / x - 2, 0.01, 10.0),
        (lambda x: afx.cos(x) - x, 0.0, 1.0),
    ],
)
def test_brackets_narrow_to_roots(fn: Any, lower: float, upper: float) -> None:
    """A bracket narrows to SciPy's root in no more evaluations than Brent's method and a few takes."""
    result = optim.root_scalar(fn, (np.float64(lower), upper))
    want = scipy.optimize.root_scalar(
        lambda x: float(fn(np.float64(x))), bracket=(lower, upper), xtol=1e-15, rtol=1e-14
    )
    assert float(result.x) == pytest.approx(want.root, rel=1e-12)
    assert int(result.evaluations) <= want.function_calls + 5
    assert result.converged


def test_brackets_of_arrays() -> None:
    """Arrays of brackets are searched together; roots are differentiable, and a wrong bracket is named."""
    result = optim.root_scalar(lambda x, c: x * x - c, (0.0, np.full(3, 10.0)), np.array([2.0, 3.0, 4.0]))
    np.testing.assert_allclose(result.x, np.sqrt([2.0, 3.0, 4.0]), rtol=1e-14)

    def root(c: Any) -> Any:
        return optim.root_scalar(lambda x, c: x * x - c, (0.0, np.float64(10.0)), c).x

    for run in (afx.grad(root), afx.jit(afx.grad(root))):
        assert float(run(np.float64(4.0))) == pytest.approx(0.25, rel=1e-12)
    assert optim.root_scalar(lambda x: x * x + 1, (0.0, np.float64(1.0))).reason.startswith(
        "the function has the same sign"
    )
