"""Laws made of laws, normal vectors by factors, walks and ordered classes, against SciPy and direct sums and integrals."""

from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.stats

import afx
from afx import stats
from afx.errors import ArgumentError, ShapeError
from tests.stats.test_values import compare

KEY = afx.random.key(5)
F = np.float64


def check_moments(law: Any, count: int = 20_000) -> None:
    """Check that draws have the law's mean and variance."""
    x = np.asarray(law.astype(np.float64).rvs(KEY, count))
    sd = np.sqrt(np.asarray(law.var()))
    np.testing.assert_allclose(x.mean(0), law.mean(), atol=float(5 * sd.max() / np.sqrt(count)))
    np.testing.assert_allclose(x.var(0), law.var(), rtol=0.15)


def test_mixtures() -> None:
    """One family and several: densities are weighted sums, moments and draws theirs; batches and vectors too."""
    w, at = np.array([0.2, 0.5, 0.3]), np.array([-3.0, 0.0, 2.0])
    x = np.array([-4.0, 0.3, 2.5, np.nan])
    one = stats.mixture(w, stats.norm(at, 0.5))
    several = stats.mixture(w, [stats.norm(F(-3.0), 0.5), stats.norm(F(0.0), 0.5), stats.norm(F(2.0), 0.5)])
    want = np.sum(w * scipy.stats.norm.pdf(x[:, None], at, 0.5), axis=1)
    for law in (one, several):
        compare(np.exp(law.logpdf(x)), want)
        compare(law.cdf(x), np.sum(w * scipy.stats.norm.cdf(x[:, None], at, 0.5), axis=1))
        compare(law.mean(), w @ at)
        compare(law.var(), 0.25 + w @ at**2 - (w @ at) ** 2)
        check_moments(law)
    other = stats.mixture(np.array([0.5, 0.5]), [stats.norm(F(0.0), 1.0), stats.t(F(3.0))])
    compare(np.exp(other.logpdf(1.0)), 0.5 * scipy.stats.norm.pdf(1.0) + 0.5 * scipy.stats.t.pdf(1.0, 3))
    counts = stats.mixture(w[:2] / 0.7, [stats.poisson(F(2.0)), stats.binom(5, F(0.3))])
    compare(counts.pmf(3), (0.2 * scipy.stats.poisson.pmf(3, 2) + 0.5 * scipy.stats.binom.pmf(3, 5, 0.3)) / 0.7)
    wide = stats.mixture(w, stats.norm(at + np.zeros((4, 1)), 1.0))
    assert wide.rvs(KEY, 7).shape == (7, 4)
    vectors = stats.mixture(w, stats.multivariate_normal(np.zeros((3, 2)), np.eye(2)))
    assert vectors.rvs(KEY, 5).shape == (5, 2)
    compare(vectors.logpdf(np.ones(2)), scipy.stats.multivariate_normal.logpdf(np.ones(2), np.zeros(2)))
    afx.testing.check_grads(lambda w, m: stats.mixture(w, stats.norm(m, 1.0)).logpdf(x[:3]), (w, at), order=1)
    with pytest.raises(ArgumentError, match="a weight for each"):
        stats.mixture(w, [stats.norm()])


@pytest.mark.parametrize(("low", "high"), [(-1.0, 2.0), (0.5, None), (None, -1.0), (6.0, None), (9.0, 9.5)])
def test_truncated_normal_numbers(low: Any, high: Any) -> None:
    """Densities, distribution functions, quantiles and moments are SciPy's, in the tails too."""
    law = stats.truncated(stats.norm(F(0.5), 1.5), low, high)
    a, b = ((v - 0.5) / 1.5 if v is not None else s * np.inf for v, s in ((low, -1), (high, 1)))
    peer = scipy.stats.truncnorm(a, b, 0.5, 1.5)
    x = np.concatenate([peer.ppf([0.1, 0.5, 0.9]), [-30.0, 30.0]])
    np.testing.assert_allclose(np.exp(law.logpdf(x)), peer.pdf(x), rtol=1e-9)
    np.testing.assert_allclose(law.cdf(x), peer.cdf(x), rtol=1e-8, atol=1e-12)
    q = np.array([0.01, 0.5, 0.99])
    np.testing.assert_allclose(law.ppf(q), peer.ppf(q), rtol=1e-8)
    np.testing.assert_allclose(law.mean(), stats.truncnorm.mean(F(a), F(b), 0.5, 1.5), rtol=1e-9)
    np.testing.assert_allclose(law.var(), stats.truncnorm.var(F(a), F(b), 0.5, 1.5), rtol=1e-7)
    check_moments(law)


def test_truncated_laws_of_other_kinds() -> None:
    """Whole numbers count their bounds; sums and integrals are 1; moments that an open side lacks are nan."""
    law = stats.truncated(stats.poisson(F(3.0)), 1, 6)
    k = np.arange(9.0)
    p = scipy.stats.poisson.pmf(k, 3.0) * (k >= 1) * (k <= 6)
    p /= p.sum()
    compare(np.exp(law.logpmf(k)), p)
    compare(law.cdf(k), np.cumsum(p))
    compare(law.mean(), p @ k)
    compare(law.var(), p @ k**2 - (p @ k) ** 2)
    check_moments(law)
    gamma = stats.truncated(stats.gamma(F(2.0), scale=F(2.0)), 1.0, 5.0)
    total = scipy.integrate.quad(lambda v: float(np.exp(gamma.logpdf(F(v)))), 1, 5)[0]
    assert total == pytest.approx(1, rel=1e-10)
    assert float(gamma.mean()) == pytest.approx(
        scipy.integrate.quad(lambda v: v * float(np.exp(gamma.logpdf(F(v)))), 1, 5)[0], rel=1e-9
    )
    assert np.isnan(stats.truncated(stats.cauchy(F(0.0)), 0.0).mean())
    afx.testing.check_grads(lambda m, b: stats.truncated(stats.norm(m, 1.0), b).logpdf(2.0), (F(0.3), F(0.1)), order=1)
    with pytest.raises(ArgumentError, match="law of real or whole numbers"):
        stats.truncated(stats.dirichlet(np.ones(2)), 0.0)


def test_censored_laws() -> None:
    """On a bound stands the probability beyond it; moments are those of clipped numbers."""
    law = stats.censored(stats.norm(F(0.5), 2.0), -1.0, 2.0)
    peer = scipy.stats.norm(0.5, 2.0)
    compare(law.logpdf([-1.0, 0.0, 2.0]), [peer.logcdf(-1), peer.logpdf(0.0), peer.logsf(2.0)])
    assert np.isneginf(law.logpdf([-1.5, 3.0])).all()
    compare(law.cdf([-2.0, -1.0, 1.0, 2.0]), [0, peer.cdf(-1), peer.cdf(1), 1])
    mean = scipy.integrate.quad(lambda v: np.clip(v, -1, 2) * peer.pdf(v), -20, 20, points=[-1, 2])[0]
    var = scipy.integrate.quad(lambda v: (np.clip(v, -1, 2) - mean) ** 2 * peer.pdf(v), -20, 20, points=[-1, 2])[0]
    np.testing.assert_allclose([law.mean(), law.var()], [mean, var], rtol=1e-8)
    check_moments(law)
    counts = stats.censored(stats.poisson(F(3.0)), high=4)
    k, p = np.arange(60.0), scipy.stats.poisson.pmf(np.arange(60.0), 3.0)
    compare(counts.pmf([2.0, 4.0]), [scipy.stats.poisson.pmf(2, 3), scipy.stats.poisson.sf(3, 3)])
    compare(counts.mean(), np.minimum(k, 4) @ p)
    check_moments(counts)


def test_counts_with_other_zeros() -> None:
    """Probabilities sum to 1, moments are their sums, and draws have them."""
    k = np.arange(200.0)
    for law, zero in (
        (stats.zero_inflated(stats.poisson(F(3.0)), 0.3), 0.3 + 0.7 * np.exp(-3)),
        (stats.hurdle(stats.poisson(F(3.0)), 0.3), 0.3),
        (stats.hurdle(stats.nbinom(F(2.0), 0.4), 0.1), 0.1),
        (stats.hurdle(stats.poisson(F(3.0)), 0.0), 0.0),
        (stats.zero_inflated(stats.geom(F(0.25)), 0.9), 0.9),  # of counts that are not 0 themselves
    ):
        p = np.asarray(law.pmf(k))
        assert p.sum() == pytest.approx(1, rel=1e-12)
        assert p[0] == pytest.approx(zero, rel=1e-12)
        compare(law.mean(), p @ k)
        np.testing.assert_allclose(law.var(), p @ k**2 - (p @ k) ** 2, rtol=1e-11)
        assert np.isneginf(law.logpmf([0.5, -1.0])).all()
        check_moments(law)
    afx.testing.check_grads(lambda m, p: stats.hurdle(stats.poisson(m), p).logpmf(k[:4]), (F(2.0), F(0.2)), order=1)
    with pytest.raises(ArgumentError, match="law of whole numbers"):
        stats.hurdle(stats.norm(), 0.5)


def test_ordered_numbers() -> None:
    """The density is that of order statistics: over two numbers it integrates to 1."""
    law = stats.ordered(stats.norm(F(0.0), 1.0).expand(2))
    nodes, weights = np.polynomial.legendre.leggauss(60)
    x = 8 * nodes
    y = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1)
    height = np.exp(np.asarray(law.logpdf(y)))
    assert (height[np.tril_indices(60)] == 0).all()
    half = np.triu(np.ones((60, 60)), 1) + 0.5 * np.eye(60)
    whole = np.exp(scipy.stats.norm.logpdf(y).sum(-1)) * 2 * half
    assert 64 * weights @ whole @ weights == pytest.approx(1, rel=1e-3)
    np.testing.assert_allclose(height[np.triu_indices(60, 1)], whole[np.triu_indices(60, 1)], rtol=1e-12)
    drawn = np.asarray(law.rvs(KEY, 4000))
    assert (drawn[:, 0] <= drawn[:, 1]).all()
    np.testing.assert_allclose(drawn.mean(0), [-1 / np.sqrt(np.pi), 1 / np.sqrt(np.pi)], atol=0.06)


def order_moment(peer: Any, n: int, r: int, power: int) -> float:
    """Return a raw moment of the r-th of n numbers of a law of SciPy's, as an integral over its density."""
    share = scipy.stats.beta(r, n - r + 1)
    ends = peer.interval(1 - 1e-15)
    return scipy.integrate.quad(lambda x: x**power * share.pdf(peer.cdf(x)) * peer.pdf(x), *ends, limit=200)[0]


def test_moments_of_ordered_numbers() -> None:
    """Means and variances are those of order statistics, integrals of beta laws of shares."""
    for family, peer in (
        (stats.norm(F(1.0), 2.0), scipy.stats.norm(1, 2)),
        (stats.expon(F(0.0), 0.5), scipy.stats.expon(0, 0.5)),
    ):
        for n in (1, 4, 30):
            law = stats.ordered(family.expand(n))
            for r in {1, n // 2 + 1, n}:
                mean = order_moment(peer, n, r, 1)
                assert float(law.mean()[r - 1]) == pytest.approx(mean, rel=1e-7, abs=1e-9)
                assert float(law.var()[r - 1]) == pytest.approx(order_moment(peer, n, r, 2) - mean**2, rel=1e-6)
    wide = stats.ordered(stats.norm(np.zeros((3, 1)), np.array([[1.0], [2.0], [3.0]])).expand(()))
    assert wide.mean().shape == (3, 1)
    compare(wide.std(), [[1.0], [2.0], [3.0]])
    assert np.isnan(stats.ordered(stats.cauchy(F(0.0)).expand(3)).mean()).all()


def test_distribution_functions_of_laws_of_laws() -> None:
    """Logarithms of distribution functions are direct sums, in the tails too; laws of these laws are truncated by them."""
    x = np.array([-4.0, -1.0, 0.0, 0.3, 1.0, 2.5, 6.0, 40.0])
    two = stats.mixture(np.array([0.3, 0.7]), stats.norm(np.array([-1.0, 1.0]), 0.5))
    parts = np.stack([scipy.stats.norm.logsf(x, at, 0.5) + np.log(w) for at, w in ((-1.0, 0.3), (1.0, 0.7))])
    compare(two.logsf(x), np.logaddexp(*parts))
    compare(two.std() ** 2, two.var())
    cut = stats.truncated(two, 0.0, 2.0)
    mass = float(two.cdf(2.0) - two.cdf(0.0))
    assert float(np.exp(cut.logpdf(1.0))) == pytest.approx(float(two.pdf(1.0)) / mass, rel=1e-12)
    assert scipy.integrate.quad(lambda v: float(cut.pdf(F(v))), 0, 2)[0] == pytest.approx(1, rel=1e-9)
    edge = stats.censored(two, high=1.5)
    compare(edge.logpdf(1.5), two.logsf(1.5))
    normal, peer = stats.truncated(stats.norm(F(0.0), 1.0), -1.0, 3.0), scipy.stats.truncnorm(-1, 3)
    np.testing.assert_allclose(normal.logsf(x), peer.logsf(x), rtol=1e-9)
    np.testing.assert_allclose(normal.logcdf(x), peer.logcdf(x), rtol=1e-9)
    k = np.arange(-1.0, 9.0)
    for law in (
        stats.truncated(stats.poisson(F(3.0)), 1, 6),
        stats.censored(stats.poisson(F(3.0)), 1, 6),
        stats.zero_inflated(stats.poisson(F(3.0)), 0.3),
        stats.hurdle(stats.poisson(F(3.0)), 0.3),
        stats.mixture(np.array([0.5, 0.5]), [stats.poisson(F(1.0)), stats.binom(5, F(0.3))]),
    ):
        p = np.asarray(law.pmf(k))
        np.testing.assert_allclose(law.cdf(k), np.cumsum(p), rtol=1e-12)
        np.testing.assert_allclose(law.sf(k + 0.5), 1 - np.cumsum(p), rtol=1e-10, atol=1e-15)
    afx.testing.check_grads(lambda p, m: stats.hurdle(stats.poisson(m), p).logsf(k[1:5]), (F(0.2), F(2.0)), order=1)


def test_laws_with_axes_in_front_have_the_methods() -> None:
    """Moments are of all values, distribution functions broadcast."""
    law = stats.gamma(F(2.0), scale=np.array([1.0, 3.0])).expand(4)
    for name in ("mean", "var", "std", "entropy", "median"):
        compare(
            getattr(law, name)(), np.broadcast_to(getattr(scipy.stats.gamma(2.0, scale=[1.0, 3.0]), name)(), (4, 2))
        )
    compare(law.cdf(np.ones((4, 2))), np.broadcast_to(scipy.stats.gamma.cdf(1.0, 2.0, scale=[1.0, 3.0]), (4, 2)))
    with pytest.raises(AttributeError):
        law.mode()


def test_normal_vectors_by_factors(rng: np.random.Generator) -> None:
    """Densities, moments, entropies and draws are those of the covariance."""
    root = rng.normal(size=(3, 3))
    cov = root @ root.T + np.eye(3)
    m, x = np.array([1.0, 2.0, 3.0]), rng.normal(size=(4, 3))
    peer = scipy.stats.multivariate_normal(m, cov)
    factor, precision = np.linalg.cholesky(cov), np.linalg.inv(cov)
    np.testing.assert_allclose(stats.multivariate_normal_cholesky.logpdf(x, m, factor), peer.logpdf(x), rtol=1e-11)
    np.testing.assert_allclose(stats.multivariate_normal_precision.logpdf(x, m, precision), peer.logpdf(x), rtol=1e-11)
    for law in (stats.multivariate_normal_cholesky(m, factor), stats.multivariate_normal_precision(m, precision)):
        np.testing.assert_allclose(law.cov(), cov, rtol=1e-11)
        np.testing.assert_allclose(law.entropy(), peer.entropy(), rtol=1e-11)
        compare(law.mean(), m)
        np.testing.assert_allclose(np.cov(np.asarray(law.rvs(KEY, 6000)).T), cov, atol=0.1 * cov.max())
    with pytest.raises(ShapeError, match="matrix's length"):
        stats.multivariate_normal_cholesky.logpdf(x, m, factor[:2])


def test_random_walks() -> None:
    """The density is that of the vector with the walk's mean and covariance."""
    law = stats.gaussian_random_walk(4, F(0.7), 0.3, loc=1.0)
    x = np.array([[1.0, 2.0, 0.5, 1.5], [0.0, 0.0, 1.0, 3.0]])
    peer = scipy.stats.multivariate_normal(np.asarray(law.mean()), np.asarray(law.cov()))
    np.testing.assert_allclose(stats.gaussian_random_walk.logpdf(x, F(0.7), 0.3, 1.0), peer.logpdf(x), rtol=1e-11)
    np.testing.assert_allclose(law.log_probability(x), peer.logpdf(x), rtol=1e-11)
    compare(law.mean(), 1 + 0.3 * np.arange(1, 5))
    np.testing.assert_allclose(np.cov(np.asarray(law.rvs(KEY, 8000)).T), law.cov(), atol=0.1)
    assert np.isnan(stats.gaussian_random_walk.logpdf(x, -1.0)).all()


def test_ordered_classes() -> None:
    """Probabilities are differences of logistic ones, far out too; they sum to 1, and draws have them."""
    cuts, eta = np.array([-1.0, 0.5, 2.0]), np.array([0.0, 1.5])
    ends = np.concatenate([[-np.inf], cuts, [np.inf]])
    want = np.diff(scipy.stats.logistic.cdf(ends - eta[:, None]), axis=1)
    got = stats.ordered_logistic.pmf(np.arange(4)[:, None], eta, cuts)
    np.testing.assert_allclose(got.T, want, rtol=1e-12)
    compare(stats.ordered_logistic.mean(eta, cuts), want @ np.arange(4))
    compare(stats.ordered_logistic.var(eta, cuts), want @ np.arange(4) ** 2 - (want @ np.arange(4)) ** 2)
    np.testing.assert_allclose(
        stats.ordered_logistic.logpmf(1, F(60.0), cuts), -59.5 + np.log1p(-np.exp(-1.5)), rtol=1e-9
    )
    assert np.isneginf(stats.ordered_logistic.logpmf([-1, 4, 0.5], 0.0, cuts)).all()
    assert np.isnan(stats.ordered_logistic.logpmf(1, 0.0, cuts[::-1]))
    drawn = np.asarray(stats.ordered_logistic(F(1.5), cuts).rvs(KEY, 8000))
    np.testing.assert_allclose(np.bincount(drawn.astype(int), minlength=4) / 8000, want[1], atol=0.02)
    afx.testing.check_grads(lambda e, c: stats.ordered_logistic.logpmf([0, 1, 3], e, c), (F(0.3), cuts), order=1)


def test_factors_of_correlations() -> None:
    """Their density is that of the matrices times the determinant of the way there; draws have ones as lengths."""
    factor = np.linalg.cholesky(np.array([[1, 0.3, -0.2], [0.3, 1, 0.4], [-0.2, 0.4, 1.0]]))
    for eta in (0.7, 2.5):
        sides = np.log(np.diag(factor)) @ np.array([2.0, 1.0, 0.0])
        want = float(stats.lkj.logpdf(factor @ factor.T, F(eta))) + sides
        np.testing.assert_allclose(stats.lkj_cholesky.logpdf(factor, F(eta)), want, rtol=1e-11)
    assert np.isneginf(stats.lkj_cholesky.logpdf(2 * factor, F(1.0)))
    drawn = np.asarray(stats.lkj_cholesky(3, F(2.0)).rvs(KEY, 2000))
    np.testing.assert_allclose((drawn**2).sum(-1), 1, rtol=1e-9)
    assert scipy.stats.kstest((drawn[:, 1, 0] + 1) / 2, scipy.stats.beta(2.5, 2.5).cdf).pvalue > 1e-3


@pytest.mark.parametrize("eta", [0.7, 2.5])
def test_moments_of_correlations_and_their_factors(eta: float) -> None:
    """Elements are beta numbers, and those of a factor's diagonal the roots of some, of 1 to 4 numbers."""
    for d in (1, 2, 4):
        beside = scipy.stats.beta(eta - 1 + d / 2, eta - 1 + d / 2, -1, 2).var() if d > 1 else 0.0
        np.testing.assert_array_equal(stats.lkj(d, F(eta)).mean(), np.eye(d))
        np.testing.assert_allclose(stats.lkj(d, F(eta)).var(), beside * (1 - np.eye(d)), rtol=1e-13)
        sides = [scipy.stats.beta(eta + (d - 1 - k) / 2, k / 2).expect(np.sqrt) for k in range(1, d)]
        factor = stats.lkj_cholesky(d, F(eta))
        np.testing.assert_allclose(factor.mean(), np.diag([1.0, *sides]), rtol=1e-9)
        np.testing.assert_allclose(np.asarray(factor.rvs(KEY, 4000)).mean(0), factor.mean(), atol=0.04)
    assert stats.lkj_cholesky(3, np.array([eta, 1.0])).mean().shape == (2, 3, 3)
    np.testing.assert_allclose(stats.lkj_cholesky(2, F(1e12)).mean()[1, 1], 1 - 2.5e-13, rtol=1e-15)
    assert np.isnan(stats.lkj(3, -1.0).var()).all()
    assert np.isnan(stats.lkj_cholesky(3, -1.0).mean()).all()


def test_censored_laws_of_which_nothing_is_inside() -> None:
    """Where all lies below the lower bound that is the mean."""
    law = stats.censored(stats.bernoulli(0.3), 2, 5)
    assert (float(law.mean()), float(law.var())) == (2.0, 0.0)
