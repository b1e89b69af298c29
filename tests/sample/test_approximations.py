"""Approximations: normal laws that are exact where the posterior is normal."""

from typing import Any

import numpy as np
import pytest

import afx
from afx import sample, stats
from afx.errors import ArgumentError

COVARIANCE = np.array([[1.0, 0.6], [0.6, 2.0]])
PRECISION = np.linalg.inv(COVARIANCE)
MEAN = np.array([1.0, -1.0])


def correlated(p: dict[str, Any]) -> Any:
    """Return a normal density whose integral is exp(3)."""
    x = p["x"] - MEAN
    return 3.0 - 0.5 * afx.vecdot(x, PRECISION @ x) - 0.5 * np.log((2 * np.pi) ** 2 * np.linalg.det(COVARIANCE))


def test_laplace_is_exact_for_normal_densities() -> None:
    """Mode, covariance and the integral of a normal density are found, and its draws have them."""
    found = sample.laplace(correlated, {"x": np.zeros(2)})
    np.testing.assert_allclose(found.params["x"], MEAN, atol=1e-6)
    np.testing.assert_allclose(found.scale @ found.scale.T, COVARIANCE, rtol=1e-6)
    assert float(found.log_evidence) == pytest.approx(3.0, abs=1e-6)
    draws = np.asarray(found.draw(afx.random.key(0), 4000)["x"])
    np.testing.assert_allclose(np.cov(draws.T), COVARIANCE, atol=0.15)


def test_modes_are_those_of_the_parameters() -> None:
    """Not of unconstrained ones, whose determinants move them: of a gamma law, of shares, and of a density with a start."""
    counts = np.array([2, 4, 3])
    model = sample.Model({"rate": stats.gamma(3.0, scale=0.5)}, lambda p: stats.poisson(p["rate"]).observe(counts))
    np.testing.assert_allclose(sample.find_mode(model)["rate"], (3 - 1 + 9) / (2 + 3), rtol=1e-6)
    np.testing.assert_allclose(sample.laplace(model).params["rate"], (3 + 9) / (2 + 3), rtol=1e-6)
    shares = sample.Model({"p": stats.dirichlet(np.array([2.0, 3.0, 4.0]))}, lambda _: 0.0)
    np.testing.assert_allclose(sample.find_mode(shares)["p"], np.array([1.0, 2.0, 3.0]) / 6, rtol=1e-5)
    plain = sample.find_mode(lambda x: -afx.sum((x - 2.0) ** 4), np.ones(2), sample.Positive())
    np.testing.assert_allclose(plain, 2.0, rtol=1e-2)
    with pytest.raises(ArgumentError, match="find_mode: no mode near the start"):
        sample.find_mode(lambda x: afx.sum(x), np.ones(2))
    no_function: Any = 3
    with pytest.raises(ArgumentError, match="find_mode: needs a function"):
        sample.find_mode(no_function, np.ones(2))
    with pytest.raises(ArgumentError, match="find_mode: a density that is a plain function has no start"):
        sample.find_mode(lambda x: -(x**2))


def test_a_start_at_the_lowest_place_is_no_mode() -> None:
    """A density without slope at its start is climbed from beside it: to a mode, or to an end that has none."""
    found = sample.find_mode(lambda x: -((x**2 - 1) ** 2), np.float64(0.0))
    assert abs(float(found)) == pytest.approx(1.0, abs=1e-5)
    with pytest.raises(ArgumentError, match="find_mode: no mode near the start"):
        sample.find_mode(sample.Model({"p": stats.beta(0.5, 0.5)}, lambda _: 0.0))
    flat = sample.find_mode(sample.Model({"p": stats.uniform(0.0, 1.0)}, lambda _: 0.0))
    assert float(flat["p"]) == 0.5


def test_laplace_under_constraints() -> None:
    """The mode is that of the unconstrained parameters: of a gamma law it is the mean."""

    def gamma(p: dict[str, Any]) -> Any:
        return 3 * afx.log(p["rate"]) - 2 * p["rate"]

    found = sample.laplace(gamma, {"rate": np.float64(1.0)}, {"rate": sample.Positive()})
    assert float(found.params["rate"]) == pytest.approx(2.0, abs=1e-5)
    assert float(found.scale[0, 0]) == pytest.approx(0.5, abs=1e-5)
    with pytest.raises(ArgumentError, match="laplace"):
        sample.laplace(lambda x: 0.0 * afx.sum(x), np.ones(2))


def test_advi_finds_means_and_conditional_deviations() -> None:
    """Means are right; standard deviations are those with the other parameters known, as theory has it."""
    fit = sample.advi(correlated, samples=4)
    found = fit.fit(afx.random.key(1), {"x": np.zeros(2)}, 600)
    np.testing.assert_allclose(found.params["x"], MEAN, atol=0.15)
    np.testing.assert_allclose(found.scale, 1 / np.sqrt(np.diag(PRECISION)), rtol=0.15)
    assert float(found.log_evidence) < 3.0
    state, _ = fit.step(fit.init({"x": np.zeros(2)}), afx.random.key(0))
    assert state.position["x"].shape == (2,)
