"""Segments: sums and kin of the elements that belong together."""

from typing import Any

import numpy as np
import pytest

import afx

CASES = {
    "sum": (afx.segment_sum, np.sum, 0.0),
    "mean": (afx.segment_mean, np.mean, 0.0),
    "prod": (afx.segment_prod, np.prod, 1.0),
    "max": (afx.segment_max, np.max, -np.inf),
    "min": (afx.segment_min, np.min, np.inf),
}


@pytest.mark.parametrize("name", CASES)
def test_segments_are_loops(name: str, rng: np.random.Generator) -> None:
    """Each segment holds what NumPy makes of its elements, an empty one the neutral number; with derivatives, compiled."""
    fn, peer, empty = CASES[name]
    x, place = rng.normal(size=(9, 2)), np.array([3, 0, 0, 1, 3, 3, 1, 0, 5])
    want = np.array([peer(x[place == k], axis=0) if (place == k).any() else [empty] * 2 for k in range(7)])
    np.testing.assert_allclose(fn(x, place, 7), want, rtol=1e-13)
    np.testing.assert_allclose(fn(x, place), want[:6], rtol=1e-13)
    np.testing.assert_allclose(afx.jit(lambda x, p: fn(x, p, 7))(x, place), want, rtol=1e-13)
    afx.testing.check_grads(lambda x: fn(x, place)[np.array([0, 1, 3, 5])], (x,))
    both = afx.vmap(lambda x: fn(x, place, 7))(np.stack([x, 2 * x]))
    np.testing.assert_allclose(both[1], np.asarray(fn(2 * x, place, 7)), rtol=1e-13)


def test_segments_of_integers() -> None:
    """Integers stay, a mean is a float, and empty segments have the ends of their dtype."""
    x, place = np.array([1, 2, 5]), np.array([2, 2, 0])
    assert afx.segment_sum(x, place).tolist() == [5, 0, 3]
    assert afx.segment_max(x, place).tolist() == [5, np.iinfo(int).min, 2]
    assert afx.segment_mean(x, place).tolist() == [5.0, 0.0, 1.5]


def test_mistakes() -> None:
    """Numbers that are no segments, another length, a place outside, and an unknown number are named."""
    x: Any = np.ones(3)
    with pytest.raises(afx.errors.DtypeError, match="segments are integers"):
        afx.segment_sum(x, x)
    with pytest.raises(afx.errors.ShapeError, match="a segment for each element"):
        afx.segment_mean(x, np.zeros(2, int))
    with pytest.raises(IndexError, match="give count=4"):
        afx.segment_max(x, np.array([0, 3, 1]), 2)
    with pytest.raises(afx.errors.ConcreteValueError, match="give count="):
        afx.jit(afx.segment_sum)(x, np.zeros(3, int))


def test_extremes_of_booleans_are_any_and_all() -> None:
    """The largest of booleans is whether one is true, the smallest whether all are; of none False and True."""
    x, place = np.array([True, False, False]), np.array([0, 0, 2])
    assert afx.segment_max(x, place, 4).tolist() == [True, False, False, False]
    assert afx.segment_min(x, place, 4).tolist() == [False, True, False, True]
