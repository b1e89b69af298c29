"""Quantiles of whole numbers: digits of complements, and parameters at their ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats

import afx
from afx import stats
from afx.errors import ArgumentError

LAWS: list[tuple[str, tuple[Any, ...]]] = [
    ("poisson", (3.0,)),
    ("poisson", (1e5,)),
    ("binom", (1000, 0.01)),
    ("binom", (7, 0.6)),
    ("nbinom", (3, 0.4)),
    ("nbinom", (0.05, 0.01)),
    ("geom", (0.3,)),
    ("bernoulli", (0.3,)),
    ("betabinom", (40, 2.0, 3.0)),
]


@pytest.mark.parametrize(("name", "shapes"), LAWS)
def test_quantiles_of_a_complement_keep_its_digits(name: str, shapes: tuple[Any, ...]) -> None:
    """The survival function is no more than the probability there, and more one below; quantiles are SciPy's."""
    q = np.array([1e-300, 1e-30, 1e-17, 1e-6, 0.05, 0.31, 0.77, 0.999])
    law, peer = getattr(stats, name), getattr(scipy.stats, name)
    k = np.asarray(law.isf(q, *shapes))
    assert (np.asarray(law.sf(k, *shapes)) <= q * (1 + 1e-12)).all()
    assert (np.asarray(law.sf(k - 1, *shapes)) > q * (1 - 1e-12)).all()
    p = np.array([1e-12, 0.001, 0.2, 0.5, 0.83, 0.9999])
    np.testing.assert_array_equal(law.ppf(p, *shapes), peer.ppf(p, *shapes))


def test_laws_of_one_number_have_that_as_their_quantiles() -> None:
    """Where a law has one number alone each quantile and draw is that."""
    for law, shapes, want in (
        (stats.binom, (5, 0.0), 0.0),
        (stats.binom, (5, 1.0), 5.0),
        (stats.binom, (0, 0.3), 0.0),
        (stats.nbinom, (3, 1.0), 0.0),
        (stats.poisson, (0.0,), 0.0),
        (stats.geom, (1.0,), 1.0),
    ):
        for q in (1e-9, 0.5, 0.99):
            assert float(law.ppf(q, *shapes)) == want
            assert float(law.isf(q, *shapes)) == want
        assert (np.asarray(law.rvs(afx.random.key(0), (5,), *shapes)) == want).all()


@pytest.mark.parametrize("n", [1e9, 1e30, [3.0, 2e7]])
def test_sums_of_too_many_numbers_are_refused(n: Any) -> None:
    """Where they would take minutes and gigabytes; those of no finite n are nan."""
    with pytest.raises(ArgumentError, match=r"betabinom: .* sums over n . 1 numbers: got n ="):
        stats.betabinom.cdf(1.0, n, 2.0, 3.0)
    assert np.isnan(stats.betabinom.cdf(1.0, [np.inf, np.nan], 2.0, 3.0)).all()
