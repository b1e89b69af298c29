"""SciPy's solvers work on trees with compiled functions and exact derivatives."""

from typing import Any

import numpy as np
import pytest

import afx
from afx import optim

pytest.importorskip("scipy", reason="the bridge is to SciPy")

START = {"a": np.tile(np.float32([-1.2, 1.0]), 2), "b": np.float32(0.0), "kind": np.arange(2)}


def rosenbrock(x: Any) -> Any:
    """A curved valley, and one more unknown."""
    a = x["a"]
    return afx.sum(100.0 * (a[1:] - a[:-1] ** 2) ** 2 + (1.0 - a[:-1]) ** 2) + (x["b"] - 2.0) ** 2


@pytest.mark.parametrize("method", [None, "BFGS", "Newton-CG", "L-BFGS-B", "SLSQP", "trust-ncg", "trust-exact"])
def test_minimize(method: str | None) -> None:
    """Methods of each kind of derivative find the minimum in float64, and leave other leaves alone."""
    result = optim.scipy_minimize(rosenbrock, START, method=method, tolerance=1e-9)
    assert result.converged
    assert result.x["a"].dtype == np.float64
    np.testing.assert_allclose(result.x["a"], np.ones(4), rtol=1e-4)
    assert float(result.x["b"]) == pytest.approx(2.0, rel=1e-5)
    np.testing.assert_array_equal(result.x["kind"], [0, 1])
    assert 0 < result.iterations <= result.evaluations


def test_bounds_options_and_dtype() -> None:
    """Bounds hold, options reach SciPy, and float32 is computed where asked for."""
    bound = optim.scipy_minimize(rosenbrock, START, bounds=(None, 0.5), method="L-BFGS-B")
    assert max(float(bound.x["a"].max()), float(bound.x["b"])) <= 0.5
    assert optim.scipy_minimize(rosenbrock, START, method="BFGS", options={"maxiter": 1}).iterations == 1
    single = optim.scipy_minimize(lambda x, c: afx.sum((x - c) ** 2), np.zeros(2), 3.0, dtype=np.float32)
    assert single.x.dtype == np.float32
    np.testing.assert_allclose(single.x, [3.0, 3.0], rtol=1e-4)


def test_least_squares_and_root() -> None:
    """Residuals are trees, whose Jacobians are exact."""
    fit = optim.scipy_least_squares(lambda x: {"u": 10.0 * (x[1:] - x[:-1] ** 2), "v": 1.0 - x}, np.zeros(3))
    np.testing.assert_allclose(fit.x, np.ones(3), rtol=1e-8)
    assert fit.converged
    held = optim.scipy_least_squares(lambda x: x * x - 2.0, 1.0, bounds=(0.0, 1.2))
    assert float(held.x) == pytest.approx(1.2, rel=1e-6)
    for method in ("hybr", "lm", "broyden1"):
        found = optim.scipy_root(lambda x: [x["u"] ** 3 - 8.0], {"u": np.ones(2)}, method=method)
        np.testing.assert_allclose(found.x["u"], [2.0, 2.0], rtol=1e-5)
        assert found.converged
