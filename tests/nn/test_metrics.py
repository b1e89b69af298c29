"""Metrics: by definition, ties, edges, mistakes."""

from typing import Any

import numpy as np
import pytest

import afx
from afx import nn


@pytest.fixture(autouse=True)
def _float64() -> Any:
    with afx.default_dtype(afx.float64):
        yield


def test_accuracy() -> None:
    """Of scores the largest counts, of classes the class; compiled too."""
    scores = np.array([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]])
    classes = np.array([1, 1, 1])
    assert float(nn.accuracy(scores, classes)) == pytest.approx(2 / 3)
    assert float(nn.accuracy(np.array([1, 0, 1]), classes)) == pytest.approx(2 / 3)
    assert float(afx.jit(nn.accuracy)(scores, classes)) == pytest.approx(2 / 3)
    with pytest.raises(afx.errors.ShapeError, match="accuracy: predictions do not fit"):
        nn.accuracy(np.ones((3, 1)), np.ones((3, 1), int))
    with pytest.raises(afx.errors.DtypeError, match="targets are classes"):
        nn.accuracy(scores, np.ones(3))
    with pytest.raises(IndexError, match="no class"):
        nn.accuracy(scores, np.array([0, 1, 2]))


def test_top_k(rng: np.random.Generator) -> None:
    """The class is among the k largest scores; of equal ones lower classes come first; nan is wrong."""
    scores, classes = rng.normal(size=(50, 6)), rng.integers(0, 6, 50)
    for k in range(1, 7):
        want = np.mean([c in np.argsort(-row)[:k] for row, c in zip(scores, classes, strict=True)])
        assert float(nn.top_k_accuracy(scores, classes, k)) == pytest.approx(want)
    assert float(nn.top_k_accuracy(scores, classes, 1)) == float(nn.accuracy(scores, classes))
    assert float(nn.top_k_accuracy(np.zeros((4, 4)), np.arange(4), 2)) == 0.5
    assert float(nn.top_k_accuracy(np.full((1, 3), np.nan), np.array([0]), 3)) == 0.0
    with pytest.raises(afx.errors.ArgumentError, match="k is from 1"):
        nn.top_k_accuracy(scores, classes, 7)


def test_confusion_matrix(rng: np.random.Generator) -> None:
    """Rows are true classes, columns predicted ones."""
    predictions, classes = rng.integers(0, 4, 100), rng.integers(0, 4, 100)
    found = np.asarray(nn.confusion_matrix(predictions, classes, 5))
    want = [[((classes == i) & (predictions == j)).sum() for j in range(5)] for i in range(5)]
    assert found.tolist() == want
    assert nn.confusion_matrix(np.eye(4)[predictions], classes).tolist() == found[:4, :4].tolist()
    compiled = afx.jit(lambda p, c: nn.confusion_matrix(p, c, 5))(predictions, classes)
    assert compiled.tolist() == want
    with pytest.raises(afx.errors.ArgumentError, match="give classes="):
        nn.confusion_matrix(predictions, classes)
    with pytest.raises(IndexError, match="no class"):
        nn.confusion_matrix(predictions, classes, 3)


def test_area_under_the_curve(rng: np.random.Generator) -> None:
    """How often a 1 has a larger score than a 0, ties counting half, by all pairs."""
    scores, targets = rng.normal(size=200).round(1), rng.integers(0, 2, 200)
    gaps = scores[targets == 1][:, None] - scores[targets == 0]
    want = (gaps > 0).mean() + 0.5 * (gaps == 0).mean()
    for way in (nn.roc_auc, afx.jit(nn.roc_auc)):
        assert float(way(scores, targets)) == pytest.approx(want, rel=1e-14)
    assert float(nn.roc_auc(scores, targets == 1)) == pytest.approx(want, rel=1e-14)
    assert float(nn.roc_auc(np.zeros(4), np.array([0, 1, 0, 1]))) == 0.5
    assert float(nn.roc_auc(np.array([-np.inf, np.inf]), np.array([0, 1]))) == 1.0
    assert np.isnan(float(nn.roc_auc(np.array([np.nan, 1.0]), np.array([0, 1]))))
    for wrong in (np.ones(200, int), targets + 1):
        with pytest.raises(afx.errors.ArgumentError, match="targets are 0 and 1"):
            nn.roc_auc(scores, wrong)
    with pytest.raises(afx.errors.ShapeError, match="vectors"):
        nn.roc_auc(scores[:, None], targets)


def test_r2(rng: np.random.Generator) -> None:
    """1 less the rest over the variance; the mean over outputs; large offsets lose no digits."""
    y = rng.normal(size=(60, 3))
    p = y + 0.3 * rng.normal(size=(60, 3))
    want = 1 - ((y - p) ** 2).sum(0) / ((y - y.mean(0)) ** 2).sum(0)
    assert float(nn.r2_score(p, y)) == pytest.approx(want.mean(), rel=1e-13)
    assert float(nn.r2_score(p[:, 0] + 1e8, y[:, 0] + 1e8)) == pytest.approx(want[0], rel=1e-6)
    assert float(nn.r2_score(y, y)) == 1.0
    assert float(nn.r2_score(np.broadcast_to(y.mean(0), y.shape), y)) == pytest.approx(0, abs=1e-14)
    assert float(nn.r2_score(np.ones(3), np.ones(3))) == 1.0
    assert float(nn.r2_score(np.zeros(3), np.ones(3))) == 0.0
    with pytest.raises(afx.errors.ShapeError, match="r2_score"):
        nn.r2_score(y, y[:, :1])
