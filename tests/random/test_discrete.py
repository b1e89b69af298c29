"""Counts, categories, orders, choices, vectors and matrices: their probabilities, shapes and mistakes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

import afx
from afx import random
from tests.every import together

KEY = random.key(13)
N = 20_000
SURE = 1e-4  # the keys are fixed: a test that passes always passes

COUNTS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    **{
        f"poisson of {rate}": (lambda k, rate=rate: random.poisson(k, rate, N), stats.poisson(rate))
        for rate in (0.1, 3, 9.9, 10.1, 60)
    },
    **{
        f"binomial of {n}, {p}": (lambda k, n=n, p=p: random.binomial(k, n, p, N), stats.binom(n, p))
        for n, p in ((1, 0.4), (5, 0.3), (1000, 0.002), (25, 0.4), (100, 0.5), (200, 0.9))
    },
    "geometric": (lambda k: random.geometric(k, 0.2, N), stats.geom(0.2)),
    "negative binomial": (lambda k: random.negative_binomial(k, 2.5, 0.3, N), stats.nbinom(2.5, 0.3)),
    "bernoulli": (lambda k: random.bernoulli(k, 0.3, N), stats.bernoulli(0.3)),
    "a multinomial's category": (
        lambda k: random.multinomial(k, 20, np.array([0.2, 0.3, 0.5]), N)[:, 1],
        stats.binom(20, 0.3),
    ),
}


def fits(counts: Any, probabilities: Any) -> bool:
    """Tell whether counts agree with probabilities (chi-squared), rare outcomes taken together."""
    total = counts.sum()
    often = probabilities * total > 5
    found = np.append(counts[often], total - counts[often].sum())
    want = np.append(probabilities[often], 1 - probabilities[often].sum()) * total
    if want[-1] < 1e-6 * total:
        found, want = found[:-1], want[:-1] * (found[:-1].sum() / want[:-1].sum())
    return bool(stats.chisquare(found, want).pvalue > SURE)


@together(("draw", "distribution"), COUNTS.values(), ids=COUNTS.keys())
def test_counts_have_their_probabilities(draw: Callable[[Any], Any], distribution: Any) -> None:
    """Each count is as frequent as its probability says."""
    x = np.asarray(draw(KEY)).astype(np.int64)
    counts = np.bincount(x)
    assert fits(counts, distribution.pmf(np.arange(len(counts))))


def test_large_counts_have_their_moments() -> None:
    """Means and variances of counts too large to tabulate, within five standard errors."""
    for x, mean, variance in [
        (random.poisson(KEY, 1e9, N), 1e9, 1e9),
        (random.binomial(KEY, 10**9, 0.3, N), 3e8, 2.1e8),
        (random.geometric(KEY, 1e-6, N), 1e6, 1e12),
    ]:
        assert x.dtype == afx.int64
        assert abs(np.asarray(x).mean() - mean) < 5 * np.sqrt(variance / N)
        assert np.asarray(x).var() == pytest.approx(variance, rel=0.1)


def test_certain_counts() -> None:
    """Probabilities of 0 and 1, no tries and a rate of 0 leave nothing to chance."""
    assert np.asarray(random.poisson(KEY, 0.0, 9)).tolist() == [0] * 9
    assert np.asarray(random.binomial(KEY, 50, np.array([0.0, 1.0]))).tolist() == [0, 50]
    assert random.binomial(KEY, 0, 0.5).tolist() == 0
    assert np.asarray(random.geometric(KEY, 1.0, 9)).tolist() == [1] * 9
    assert random.multinomial(KEY, 7, np.array([0.0, 1.0, 0.0])).tolist() == [0, 7, 0]


def test_multinomial_counts_add_up() -> None:
    """Each draw shares out all tries; impossible categories get none; n and p broadcast."""
    p = np.array([[0.2, 0.0, 0.8], [1.0, 2.0, 3.0]])
    x = np.asarray(random.multinomial(KEY, np.array([30, 5]), p, (100, 2)))
    assert x.shape == (100, 2, 3)
    assert np.all(x.sum(-1) == [30, 5])
    assert np.all(x[:, 0, 1] == 0)


def test_categories_have_their_probabilities() -> None:
    """Categories come as often as softmax of the logits says, whatever is added to those; -inf never."""
    logits = np.log([0.5, 0.2, 0.3])
    x = np.asarray(random.categorical(KEY, np.append(logits + 7, -np.inf), N))
    assert x.dtype == np.int64
    assert fits(np.bincount(x, minlength=4), np.array([0.5, 0.2, 0.3, 0.0]))
    rows = np.asarray(random.categorical(KEY, np.stack([logits, logits[::-1]], 1), (N, 2), axis=0))
    assert fits(np.bincount(rows[:, 1]), np.array([0.3, 0.2, 0.5]))
    assert random.categorical(KEY, np.zeros((4, 5))).shape == (4,)


def test_permutations_are_equally_likely() -> None:
    """All orders of four things come equally often, and each thing comes once."""
    orders = np.asarray(afx.vmap(lambda k: random.permutation(k, 4))(random.split(KEY, N)))
    assert np.all(np.sort(orders, axis=1) == np.arange(4))
    counts = np.unique(orders @ [64, 16, 4, 1], return_counts=True)[1]
    assert len(counts) == 24
    assert stats.chisquare(counts).pvalue > SURE


def test_shuffling_moves_slices_as_a_whole() -> None:
    """A permutation of an array takes the slices of one axis in another order, with their derivatives."""
    x = np.arange(12.0).reshape(3, 4)
    for axis in (0, 1, -1):
        y = np.asarray(random.permutation(KEY, x, axis))
        order = np.asarray(random.permutation(KEY, x.shape[axis]))
        assert np.array_equal(y, np.take(x, order, axis))
    g = afx.grad(lambda x: afx.sum(random.permutation(KEY, x)[0] * 2.0))(x)
    first = np.asarray(random.permutation(KEY, 3))[0]
    assert np.array_equal(np.asarray(g), 2.0 * np.outer(np.arange(3) == first, np.ones(4)))
    assert random.permutation(KEY, 0).shape == (0,)


def test_choices_have_their_probabilities() -> None:
    """With replacement, each thing is chosen by its probability; none without one."""
    x = np.array([2, 3, 5, 7])
    p = np.array([0.1, 0.0, 0.4, 0.5])
    found = np.asarray(random.choice(KEY, x, N, p=p * 0.25))
    assert fits(np.bincount(found)[x], p)
    assert fits(np.bincount(np.asarray(random.choice(KEY, 4, N))), np.full(4, 0.25))
    assert random.choice(KEY, np.ones((2, 5)), (3, 4), axis=1).shape == (2, 3, 4)
    g = afx.grad(lambda v: afx.sum(random.choice(KEY, v, 100)))(np.zeros(3))
    assert float(afx.sum(g)) == 100


def test_choices_without_replacement() -> None:
    """Nothing is chosen twice; the first is chosen by its probability, the second by what is left (exact values)."""
    p = np.array([0.5, 0.3, 0.2])
    keys = random.split(KEY, N)
    found = np.asarray(afx.vmap(lambda k: random.choice(k, 3, 2, replace=False, p=p))(keys))
    assert np.all(found[:, 0] != found[:, 1])
    exact = np.array([[0 if i == j else p[i] * p[j] / (1 - p[i]) for j in range(3)] for i in range(3)])
    assert fits(np.bincount(found @ [3, 1], minlength=9), exact.reshape(-1))
    plain = np.asarray(afx.vmap(lambda k: random.choice(k, 3, 2, replace=False))(keys))
    assert fits(np.bincount(plain @ [3, 1], minlength=9), (1 - np.eye(3)).reshape(-1) / 6)


def test_normal_vectors_have_mean_and_covariance() -> None:
    """Sample means and covariances are those asked for; both differentiate."""
    mean, cov = np.array([1.0, -2.0]), np.array([[2.0, 0.8], [0.8, 1.0]])
    x = np.asarray(random.multivariate_normal(KEY, mean, cov, N))
    assert (x.shape, x.dtype) == ((N, 2), np.float64)
    np.testing.assert_allclose(x.mean(0), mean, atol=5 * np.sqrt(2 / N))
    np.testing.assert_allclose(np.cov(x.T), cov, atol=0.1)
    z = np.linalg.solve(np.linalg.cholesky(cov), (x - mean).T)
    assert stats.kstest(z.reshape(-1), stats.norm.cdf).pvalue > SURE
    assert random.multivariate_normal(KEY, np.zeros((3, 1, 2)), np.stack([cov] * 4)).shape == (3, 4, 2)
    afx.testing.check_grads(
        lambda m, c: random.multivariate_normal(KEY, m, c @ c.T, 3), (mean, np.array([[1.0, 0.0], [0.4, 0.9]]))
    )


def test_directions_are_even() -> None:
    """Unit vectors, vectors in a ball and orthogonal matrices: lengths are right, coordinates have the exact distribution."""
    x = np.asarray(random.sphere(KEY, 3, N, dtype=afx.float64))
    np.testing.assert_allclose(np.linalg.norm(x, axis=-1), 1, rtol=1e-12)
    assert stats.kstest(x[:, 0], stats.uniform(-1, 2).cdf).pvalue > SURE  # Archimedes
    y = np.asarray(random.ball(KEY, 3, N, dtype=afx.float64))
    assert stats.kstest(np.linalg.norm(y, axis=-1) ** 3, stats.uniform.cdf).pvalue > SURE
    q = np.asarray(random.orthogonal(KEY, 3, 4000, dtype=afx.float64))
    np.testing.assert_allclose(q @ q.swapaxes(-1, -2), np.broadcast_to(np.eye(3), q.shape), atol=1e-12)
    for entry in (q[:, 0, 0], q[:, 2, 1], q[:, 2, 2]):
        assert stats.kstest(entry, stats.uniform(-1, 2).cdf).pvalue > SURE
    assert abs(np.linalg.det(q).mean()) < 5 / np.sqrt(4000)
    assert random.orthogonal(KEY, 3).dtype == afx.float32


def test_counts_have_no_derivative() -> None:
    """Counts are integers: nothing flows back to the parameters, under every transformation."""
    assert float(afx.grad(lambda r: afx.sum(random.poisson(KEY, r, 5)) * r)(2.0)) == random.poisson(KEY, 2.0, 5).sum()
    mapped = afx.vmap(lambda p: random.binomial(KEY, 10, p, 4))(np.array([0.1, 0.9]))
    assert np.array_equal(np.asarray(mapped)[1], np.asarray(random.binomial(KEY, 10, 0.9, 4)))


@together(
    ("fn", "message"),
    [
        (lambda: random.poisson(KEY, -1.0), r"poisson: a rate is 0 or more: got -1.0; change it"),
        (lambda: afx.jit(lambda r: random.poisson(KEY, r))(-1.0), r"poisson: rates lie from 0 to 2\*\*53"),
        (lambda: random.binomial(KEY, 2.5, 0.5), r"binomial: numbers of tries are whole"),
        (lambda: random.binomial(KEY, 2, 1.5), r"binomial: a probability lies from 0 to 1: got 1.5; change it"),
        (lambda: random.geometric(KEY, 0.0), r"geometric: a probability is above 0: got 0.0; change it"),
        (lambda: random.multinomial(KEY, 3, 0.5), r"multinomial: a probability for each category: got float32\[\]~"),
        (
            lambda: random.categorical(KEY, np.zeros((2, 0))),
            r"categorical: there are no categories: got float64\[2,0\]",
        ),
        (lambda: random.categorical(KEY, np.zeros((2, 3)), 3), r"categorical: logits do not broadcast to the shape"),
        (lambda: random.permutation(KEY, -1), r"permutation: takes a number of things, 0 or more: got -1"),
        (lambda: random.choice(KEY, 0, 2), r"choice: there is nothing to choose from: got 0 things"),
        (lambda: random.choice(KEY, 3, 4, replace=False), r"choice: not so many without replacement: got 4 of 3"),
        (
            lambda: random.choice(KEY, 3, p=np.ones(2)),
            r"choice: one probability for each of 3 things: got float64\[2\]",
        ),
        (lambda: random.choice(KEY, 2, p=np.array([-1.0, 2.0])), r"choice: a probability is 0 or more: got float64"),
        (
            lambda: random.choice(KEY, 2, 2, replace=False, p=np.array([1.0, 0.0])),
            r"choice: fewer than 2 probabilities",
        ),
        (lambda: random.multivariate_normal(KEY, np.zeros(2), np.eye(3)), r"a vector and a matrix of its length"),
        (lambda: random.orthogonal(KEY, -1), r"orthogonal: negative dimensions are not allowed: got shape \(-1, -1\)"),
    ],
)
def test_mistakes_are_explained(fn: Callable[[], Any], message: str) -> None:
    """Parameters and shapes that make no sense raise, naming the draw and the remedy."""
    with pytest.raises(afx.errors.AfxError, match=message):
        fn()
