"""Metrics of classes against scikit-learn, and losses by likelihood against their definitions."""

import math
from typing import Any

import numpy as np
import pytest
import scipy.stats
from sklearn import metrics
from sklearn.calibration import calibration_curve

import afx
from afx import nn


@pytest.fixture(autouse=True)
def _float64() -> Any:
    with afx.default_dtype(afx.float64):
        yield


PAIRS = (
    (nn.precision, metrics.precision_score),
    (nn.recall, metrics.recall_score),
    (nn.f1_score, metrics.f1_score),
)


@pytest.mark.parametrize(("found", "peer"), PAIRS)
@pytest.mark.parametrize("average", ["macro", "micro", "weighted", None])
def test_shares_of_many_classes(found: Any, peer: Any, average: Any, rng: np.random.Generator) -> None:
    """Averages over classes are scikit-learn's, for a class that is never predicted too; compiled and of scores."""
    targets, predictions = rng.integers(0, 5, 60), rng.integers(0, 4, 60)
    want = peer(targets, predictions, average=average, labels=range(5), zero_division=0)
    np.testing.assert_allclose(found(predictions, targets, 5, average=average), want, rtol=1e-14)
    compiled = afx.jit(lambda p, t: found(p, t, 5, average=average))(predictions, targets)
    np.testing.assert_allclose(compiled, want, rtol=1e-14)
    np.testing.assert_allclose(found(np.eye(5)[predictions], targets, average=average), want, rtol=1e-14)


@pytest.mark.parametrize(("found", "peer"), PAIRS)
def test_shares_of_two_classes(found: Any, peer: Any, rng: np.random.Generator) -> None:
    """Of two classes class 1 counts; of no examples of it the share is 0."""
    targets, predictions = rng.integers(0, 2, 30), rng.integers(0, 2, 30)
    assert float(found(predictions, targets)) == pytest.approx(peer(targets, predictions), rel=1e-14)
    assert float(found(np.zeros(3, int), np.zeros(3, int))) == 0.0
    with pytest.raises(afx.errors.ArgumentError, match="give average="):
        found(predictions, targets, 3)
    with pytest.raises(afx.errors.ArgumentError, match="average is"):
        found(predictions, targets, average="mean")


def test_log_loss(rng: np.random.Generator) -> None:
    """scikit-learn's, of two classes and of more, with a probability of 0."""
    p, targets = rng.dirichlet(np.ones(4), 20), rng.integers(0, 4, 20)
    p[0] = np.eye(4)[(targets[0] + 1) % 4]
    assert float(nn.log_loss(p, targets)) == pytest.approx(metrics.log_loss(targets, p, labels=range(4)), rel=1e-13)
    q, ones = rng.uniform(size=20), rng.integers(0, 2, 20)
    assert float(nn.log_loss(q, ones)) == pytest.approx(metrics.log_loss(ones, q), rel=1e-13)
    with pytest.raises(afx.errors.ShapeError, match="log_loss"):
        nn.log_loss(p, targets[:3])
    with pytest.raises(afx.errors.ArgumentError, match="probabilities"):
        nn.log_loss(2 * p, targets)


def test_calibration(rng: np.random.Generator) -> None:
    """Bins that are not empty are scikit-learn's; the error is the mean gap."""
    p = np.append(rng.uniform(size=40) * 0.7, [0.0, 0.1, 0.2, 0.5])
    targets = rng.integers(0, 2, 44)
    observed, predicted = calibration_curve(targets, p, n_bins=10)
    found = nn.calibration(p, targets)
    counts = np.asarray(found.counts)
    np.testing.assert_allclose(np.asarray(found.observed)[counts > 0], observed, rtol=1e-13)
    np.testing.assert_allclose(np.asarray(found.predicted)[counts > 0], predicted, rtol=1e-13)
    assert np.isnan(np.asarray(found.observed)[counts == 0]).all()
    want = (np.abs(observed - predicted) * counts[counts > 0]).sum() / 44
    assert float(nn.calibration_error(p, targets)) == pytest.approx(want, rel=1e-13)
    assert float(afx.jit(nn.calibration_error)(p, targets)) == pytest.approx(want, rel=1e-13)
    with pytest.raises(IndexError, match="no class"):
        nn.calibration(p, targets + 1)


class TestLikelihoods:
    """Losses of distributions' parameters."""

    def test_gaussian(self, rng: np.random.Generator) -> None:
        """The full loss is minus SciPy's density; a variance of 0 counts as eps; shapes and signs are checked."""
        m, y, v = rng.normal(size=5), rng.normal(size=5), rng.uniform(0.1, 3, 5)
        want = -scipy.stats.norm.logpdf(y, m, np.sqrt(v))
        np.testing.assert_allclose(nn.gaussian_nll(m, y, v, full=True), want, rtol=1e-13)
        np.testing.assert_allclose(nn.gaussian_nll(m, y, v), want - 0.5 * math.log(2 * math.pi), rtol=1e-13)
        assert float(nn.gaussian_nll(np.ones(1), np.ones(1), np.zeros(1))[0]) == pytest.approx(0.5 * math.log(1e-6))
        with pytest.raises(afx.errors.ArgumentError, match="predict their logarithm"):
            nn.gaussian_nll(m, y, -v)
        with pytest.raises(afx.errors.ShapeError, match="variances"):
            nn.gaussian_nll(m, y, v[:1])

    def test_poisson(self, rng: np.random.Generator) -> None:
        """The full loss is minus SciPy's probability, from rates and from their logarithms."""
        rate, k = rng.uniform(0.1, 5, 6), np.arange(6)
        want = -scipy.stats.poisson.logpmf(k, rate)
        np.testing.assert_allclose(nn.poisson_nll(np.log(rate), k, full=True), want, rtol=1e-12)
        np.testing.assert_allclose(nn.poisson_nll(rate, k, log_input=False, full=True), want, rtol=1e-12)
        assert nn.poisson_nll(np.zeros(2), np.array([3, 0])).tolist() == [1.0, 1.0]

    def test_dice(self, rng: np.random.Generator) -> None:
        """The overlap of shares, of each example or along axes; nothing on both sides has loss 0."""
        y, t = rng.normal(size=(3, 4, 5)), rng.integers(0, 2, (3, 4, 5))
        p = 1 / (1 + np.exp(-y))
        want = 1 - (2 * (p * t).sum((1, 2)) + 1) / (p.sum((1, 2)) + t.sum((1, 2)) + 1)
        np.testing.assert_allclose(nn.dice(y, t), want, rtol=1e-13)
        assert nn.dice(y, t, axis=1).shape == (3, 5)
        assert nn.dice(np.full((1, 3), -1e3), np.zeros((1, 3))).tolist() == [0.0]
        with pytest.raises(afx.errors.ArgumentError, match="smooth"):
            nn.dice(y, t, smooth=-1.0)

    def test_margin_ranking(self) -> None:
        """max(0, margin - t (x - y)), of 1 and -1."""
        x, y = np.array([1.0, 2.0, 3.0]), np.array([2.0, 2.0, 1.0])
        assert nn.margin_ranking(x, y, np.array([1, -1, -1]), 0.5).tolist() == [1.5, 0.5, 2.5]
        with pytest.raises(afx.errors.ArgumentError, match="targets are -1 and 1"):
            nn.margin_ranking(x, y, np.array([1, 0, 1]))
