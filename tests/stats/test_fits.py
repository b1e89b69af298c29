"""Fits: data of any unit, plans, and what cannot be fitted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats

import afx
from afx import stats
from tests.every import together


@together("name", ["norm", "gumbel_r", "cauchy", "logistic", "gamma", "expon"])
@together("unit", [1e8, 1e-8])
def test_a_fit_follows_the_unit_of_its_data(name: str, unit: float) -> None:
    """Data in another unit have the same shapes, and location and scale in that unit."""
    x = np.random.default_rng(3).gamma(3.0, size=60) + 3
    law = getattr(stats, name)
    one, other = law.fit(x), law.fit(x * unit)
    for key, value in one.items():
        factor = unit if key in ("loc", "scale") else 1.0
        np.testing.assert_allclose(np.asarray(other[key]) / factor, np.asarray(value), rtol=1e-5, atol=1e-6)


def test_a_normal_fit_is_the_mean_in_any_unit() -> None:
    """Not the median that it starts from; and its derivative by a number is one over how many there are."""
    x = (np.random.default_rng(1).exponential(size=50) + 3) * 1e6
    found = stats.norm.fit(x)
    np.testing.assert_allclose(float(found["loc"]), x.mean(), rtol=1e-10)
    np.testing.assert_allclose(float(found["scale"]), x.std(), rtol=1e-8)
    np.testing.assert_allclose(np.asarray(afx.grad(lambda v: stats.norm.fit(v)["loc"])(x)), 1 / 50, rtol=1e-6)


def test_plans_of_fits_say_where_there_is_none() -> None:
    """Where an eager fit raises, one under jit is nan, and each of a batch for itself."""

    def scale(x: Any) -> Any:
        return stats.expon.fit(x)["scale"]

    assert np.isnan(np.asarray(afx.jit(scale)(-np.ones(4))))
    np.testing.assert_allclose(np.asarray(afx.vmap(scale)(np.array([[1.0, 3.0], [-1.0, 2.0]]))), [2.0, np.nan])
    x = np.array([1.0, 5.0, 9.0, 4.0])
    np.testing.assert_allclose(np.asarray(afx.jit(stats.norm.fit)(x)["loc"]), 4.75, rtol=1e-7)


@pytest.mark.parametrize(
    ("law", "x", "options", "text"),
    [
        ("norm", [], {}, "no data"),
        ("gamma", [1.0, 2.0], {"start": {"loc": 0.5}}, "loc is not fitted"),
        ("gamma", [1.0, 2.0], {"a": 2.0, "start": {"a": 3.0}}, "a is not fitted"),
        ("gamma", [1.0, 2.0], {"start": {"a": -1.0}}, "a lies between 0 and inf"),
        ("norm", [1.0, 2.0], {"start": {"scale": -1.0}}, "scale lies between 0 and inf"),
        ("norm", [1.0, 2.0], {"start": {"loc": np.nan}}, "loc lies between -inf and inf"),
    ],
)
def test_what_cannot_be_started_is_refused(law: str, x: list[float], options: dict[str, Any], text: str) -> None:
    """Starts that would not be heeded or are outside, and no data, without warnings."""
    with pytest.raises(afx.errors.ArgumentError, match=text):
        getattr(stats, law).fit(np.array(x), **options)


def test_fits_of_vectors(rng: np.random.Generator) -> None:
    """Normal vectors as SciPy's, known parameters as given; shares where the likelihood is greatest; counts by their sums."""
    x = rng.normal(size=(40, 3)) @ rng.normal(size=(3, 3))
    found = stats.multivariate_normal.fit(x)
    want = scipy.stats.multivariate_normal.fit(x)
    np.testing.assert_allclose(found["mean"], want[0], rtol=1e-12)
    np.testing.assert_allclose(found["cov"], want[1], rtol=1e-10)
    held = stats.multivariate_normal.fit(x, mean=np.zeros(3))
    np.testing.assert_allclose(held["cov"], x.T @ x / 40, rtol=1e-12)
    shares = rng.dirichlet([0.5, 2.0, 30.0], size=200).T
    alpha = np.asarray(stats.dirichlet.fit(shares)["alpha"])
    slope = afx.special.digamma(alpha.sum()) - afx.special.digamma(alpha) + np.log(shares).mean(axis=1)
    np.testing.assert_allclose(slope, 0.0, atol=1e-7)
    slopes = np.asarray(afx.grad(lambda v: stats.dirichlet.fit(v)["alpha"][1])(shares))
    step = 1e-6 * rng.normal(size=shares.shape) * shares
    step -= shares * step.sum(axis=0)
    ends = [float(stats.dirichlet.fit(shares + s * step)["alpha"][1]) for s in (1, -1)]
    np.testing.assert_allclose((slopes * step).sum(), (ends[0] - ends[1]) / 2, rtol=1e-3)
    counts = np.array([[1, 3, 0], [2, 2, 4]])
    np.testing.assert_allclose(stats.multinomial.fit(counts)["p"], [3 / 12, 5 / 12, 4 / 12], rtol=1e-15)


def test_vectors_that_cannot_be_fitted_are_named() -> None:
    """Data of another shape, what is no share, and parameters that do not fit."""
    wrong: list[tuple[Any, str]] = [
        (lambda: stats.multivariate_normal.fit(np.zeros((0, 2))), "points"),
        (lambda: stats.multivariate_normal.fit(np.zeros((3, 2)), mean=np.zeros(3)), "fit the data"),
        (lambda: stats.dirichlet.fit(np.ones((2, 1))), "two components"),
        (lambda: stats.dirichlet.fit(np.ones((2, 3))), r"with the sum 1: got sums\[0\] = 2.0 and 2 more"),
        (lambda: stats.dirichlet.fit(np.array([[0.5, 1.5], [0.5, -0.5]])), r"above 0 .*got x\[1, 1\] = -0.5; leave"),
        (lambda: stats.multinomial.fit(np.array([[1, 2], [3, -1]])), r"0 or more: got x\[1, 1\] = -1.0; leave"),
        (lambda: stats.multinomial.fit(np.array([[1, 2], [0.5, 1]])), r"whole numbers .*got x\[1, 0\] = 0.5"),
        (lambda: stats.multivariate_normal.fit(np.array([1.0, np.nan])), r"finite numbers: got x\[1, 0\] = nan"),
        (lambda: stats.multinomial.fit(np.ones(3)), "counts"),
    ]
    for run, text in wrong:
        with pytest.raises((afx.errors.ArgumentError, afx.errors.ShapeError), match=text):
            run()


def test_singular_normal_vectors() -> None:
    """Their entropy is that on the plane, as SciPy's, and draws lie on it, with its covariance."""
    cov = np.array([[2.0, 2.0, 0.0], [2.0, 2.0, 0.0], [0.0, 0.0, 3.0]])
    peer: Any = scipy.stats.multivariate_normal
    law = peer(np.zeros(3), cov, allow_singular=True)
    found = stats.multivariate_normal.entropy(cov=cov, allow_singular=True)
    np.testing.assert_allclose(found, law.entropy(), rtol=1e-12)
    x = np.asarray(stats.multivariate_normal.rvs(afx.random.key(0), 4000, np.ones(3), cov, allow_singular=True))
    np.testing.assert_allclose(x[:, 0], x[:, 1], atol=1e-12)
    np.testing.assert_allclose(np.cov(x.T), cov, atol=0.15)


@together(
    ("law", "x", "options", "text"),
    [
        (
            "gamma",
            [1.0, -2.0, 3.0, -4.0],
            {},
            r"got x\[1\] = -2.0 and 1 more, and the support \[0, inf\); .* give loc=",
        ),
        (
            "gamma",
            [[5.0, 6.0], [7.0, 4.0]],
            {"loc": 5.0},
            r"got x\[0, 0\] = 5.0 and 1 more, and the support \[5, inf\)",
        ),
        ("expon", [2.0, -1.0], {}, r"got x\[1\] = -1.0, and the support \[0, inf\)"),
        ("beta", [0.5, 3.0], {"scale": 2.0}, r"got x\[1\] = 3.0, and the support .0, 2.; .* give loc= and scale="),
        ("poisson", [3, -1, 2], {}, r"got x\[1\] = -1.0, and the support whole numbers from 0 to inf; leave"),
        ("poisson", [3, 1.5], {}, r"got x\[1\] = 1.5, .* round them"),
        ("binom", [3, 12], {"n": 10}, r"got x\[1\] = 12.0, and the support whole numbers from 0 to 10"),
        ("norm", [1.0, np.inf, 2.0], {}, r"data are finite numbers: got x\[1\] = inf; leave"),
        ("gamma", -3.0, {"loc": 0.0}, r"got x = -3.0, and the support \[0, inf\)"),
        ("gamma", [1.0, -3.0, 2.0], {"loc": np.zeros((2, 1))}, r"got x\[1\] = -3.0, and the support \[0, inf\)"),
        ("gamma", [[7.0], [9.0]], {"loc": np.array([6.0, 8.0])}, r"got x\[0, 0\] = 7.0, and the support \[8, inf\)"),
    ],
)
def test_data_without_a_likelihood_are_named(law: str, x: Any, options: dict[str, Any], text: str) -> None:
    """The first number outside of the support, its position, how many more there are, the support, and what to do."""
    with pytest.raises(afx.errors.ArgumentError, match=text):
        getattr(stats, law).fit(np.array(x), **options)


@pytest.mark.parametrize("law", ["norm", "dirichlet", "multinomial", "multivariate_normal"])
def test_complex_data_are_refused(law: str) -> None:
    """Imaginary parts are not left out in silence."""
    fit: Any = getattr(stats, law).fit
    with pytest.raises(afx.errors.DtypeError, match=rf"{law}.fit: not defined for complex128: got complex128\[2,2\]"):
        fit(np.full((2, 2), 0.5 + 1j))


def test_complex_parameters_are_refused() -> None:
    """Of those that are known."""
    with pytest.raises(afx.errors.DtypeError, match=r"norm.fit: not defined for complex"):
        stats.norm.fit(np.ones(3), loc=1j)
    with pytest.raises(afx.errors.DtypeError, match=r"multivariate_normal.fit: not defined for complex"):
        stats.multivariate_normal.fit(np.ones((3, 2)), mean=np.ones(2) * 1j)
