"""Ranks, standard errors, modes and nearest codes beside SciPy; draws of Wald's law and their derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.cluster.vq
import scipy.stats

import afx
from afx import cluster, stats
from afx.errors import ArgumentError, ShapeError

METHODS = ("average", "min", "max", "dense", "ordinal")
TIES = np.random.default_rng(0).integers(0, 4, (3, 5, 2))


@pytest.mark.parametrize("method", METHODS)
def test_ranks_beside_scipy(method: str) -> None:
    """Of ties, along each axis and of all elements, compiled too; a nan makes those beside it nan."""
    for x in (TIES, TIES * 0.5, np.zeros((0, 3)), np.zeros(1)):
        for axis in (None, 0, -1):
            want = scipy.stats.rankdata(x, method, axis=axis)
            np.testing.assert_array_equal(np.asarray(stats.rankdata(x, method, axis=axis)), want)
    x = np.array([[1.0, np.nan, 0.0], [2.0, 1.0, 2.0]])
    want = scipy.stats.rankdata(x, method, axis=1)
    np.testing.assert_array_equal(np.asarray(afx.jit(lambda v: stats.rankdata(v, method, axis=1))(x)), want)
    assert stats.rankdata(np.float32([1, 2]), method).dtype == np.float32


def test_modes_and_standard_errors_beside_scipy() -> None:
    """The least of the most common elements, a nan among them, with its count; errors of means along axes."""
    for x in (TIES, np.array([[1.0, np.nan], [np.nan, np.nan], [1.0, 2.0]])):
        for axis in (None, 0, 1):
            for keepdims in (False, True):
                own, want = stats.mode(x, axis, keepdims=keepdims), scipy.stats.mode(x, axis, keepdims=keepdims)
                np.testing.assert_array_equal(np.asarray(own.mode), want.mode)
                np.testing.assert_array_equal(np.asarray(own.count), want.count)
    for axis in (None, 0, 1):
        np.testing.assert_allclose(
            np.asarray(stats.sem(TIES * 0.5, axis)), scipy.stats.sem(TIES * 0.5, axis), rtol=1e-14
        )
    assert stats.sem(TIES, 0, keepdims=True).shape == (1, 5, 2)


def test_nearest_codes_beside_scipy(rng: np.random.Generator) -> None:
    """Numbers and distances, differentiable by observations and codes; of vectors too."""
    x, codes = rng.normal(size=(20, 3)), rng.normal(size=(4, 3))
    for own, want in zip(cluster.vq(x, codes), scipy.cluster.vq.vq(x, codes), strict=True):
        np.testing.assert_allclose(np.asarray(own), want, rtol=1e-14)
    assert [int(n) for n in cluster.vq([0.2, 4.0], [0.0, 5.0])[0]] == [0, 1]
    afx.testing.check_grads(lambda x, codes: cluster.vq(x, codes)[1], (x, codes))
    compiled = afx.jit(afx.vmap(cluster.vq, (0, None)))(x[None], codes)
    np.testing.assert_array_equal(np.asarray(compiled[0][0]), np.asarray(cluster.vq(x, codes)[0]))


def test_derivatives_of_walds_numbers_are_those_of_the_law() -> None:
    """``-∂F/∂m / f`` at each number; the second derivative of a mean square is that of ``m² + m³``, to its error."""
    key = afx.random.key(3)
    z, slope = afx.jvp(lambda m: afx.random.wald(key, m, 50), (np.float64(2.0),), (np.float64(1.0),))
    own, step = np.asarray(z), 1e-6
    change = scipy.stats.invgauss.cdf(own, 2 + step) - scipy.stats.invgauss.cdf(own, 2 - step)
    np.testing.assert_allclose(np.asarray(slope), -change / (2 * step) / scipy.stats.invgauss.pdf(own, 2.0), rtol=1e-6)
    squares: Any = afx.grad(afx.grad(lambda m: (afx.random.wald(key, m, 200_000) ** 2).mean()))
    assert float(squares(np.float64(2.0))) == pytest.approx(14.0, rel=0.05)
    assert afx.random.wald(key, np.array([1.0, 100.0]), (3, 2)).shape == (3, 2)
    with pytest.raises(ArgumentError, match="wald: a mean"):
        afx.random.wald(key, -1.0)


def test_a_nan_is_searched_for_behind_all_numbers() -> None:
    """In sorted vectors of a batch as in one."""
    x, v = np.array([1.0, np.inf, np.nan, np.nan]), np.array([np.nan, 1.0, 5.0, np.inf])
    for side in ("left", "right"):
        want = np.searchsorted(x, v, side)
        for axes in ((0, None), (0, 0)):
            values = v if axes[1] is None else v[None]
            found = afx.vmap(lambda a, b, side=side: afx.searchsorted(a, b, side), axes)(x[None], values)
            np.testing.assert_array_equal(np.asarray(found)[0], want)


def test_what_is_refused() -> None:
    """Errors name what was given, and what to write."""
    with pytest.raises(ArgumentError, match="rankdata: no such method: got 'last'; use one of average"):
        stats.rankdata([1.0], "last")
    with pytest.raises(ShapeError, match="mode: there is an element along the axis"):
        stats.mode(np.zeros((0, 2)))
    with pytest.raises(ShapeError, match="vq: takes observations and codes of as many features"):
        cluster.vq(np.zeros((3, 2)), np.zeros((2, 3)))


def test_ranks_of_half_precision() -> None:
    """Ranks beyond 2048 are apart from each other, whatever the dtype of the data."""
    x = np.linspace(-60000.0, 60000.0, 5000).astype(np.float16)
    ranks = np.asarray(stats.rankdata(x))
    np.testing.assert_array_equal(ranks, scipy.stats.rankdata(x.astype(np.float64)), strict=True)
