"""Fits: data of any unit, plans, and what cannot be fitted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import afx
from afx import stats


@pytest.mark.parametrize("name", ["norm", "gumbel_r", "cauchy", "logistic", "gamma", "expon"])
@pytest.mark.parametrize("unit", [1e8, 1e-8])
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
