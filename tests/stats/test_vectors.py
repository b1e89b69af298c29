"""Laws of counts, vectors and matrices, and kernel densities, against SciPy and closed forms."""

from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.stats

import afx
from afx import stats
from tests.stats.test_values import compare

KEY = afx.random.key(3)


@pytest.fixture
def spread(rng: np.random.Generator) -> Any:
    """Return a covariance of three numbers."""
    root = rng.normal(size=(3, 3))
    return root @ root.T + np.eye(3)


def test_multinomial(rng: np.random.Generator) -> None:
    """Probabilities, means and covariances are SciPy's; what is no count, or sums to another number, has none."""
    p, peer = np.array([0.2, 0.5, 0.3]), scipy.stats.multinomial
    x = rng.multinomial(7, p, size=5)
    compare(stats.multinomial.logpmf(x, 7, p), peer.logpmf(x, 7, p))
    compare(stats.multinomial.pmf(np.array([[1, 2, 3], [4, 4, -1]]), 7, p), [0, 0])
    compare(stats.multinomial.mean(7, p), 7 * p)
    compare(stats.multinomial.cov(7, p), peer.cov(7, p))
    assert np.isnan(stats.multinomial.pmf(x, 7, 2 * p)).all()
    assert stats.multinomial.rvs(KEY, (4,), 7, p).sum(axis=-1).tolist() == [7] * 4
    afx.testing.check_grads(lambda p: stats.multinomial.logpmf(x, 7, p / afx.sum(p)), (p,), order=1)
    with pytest.raises(afx.errors.ShapeError, match="one length"):
        stats.multinomial.pmf(x, 7, p[:2])


def test_wishart(rng: np.random.Generator, spread: Any) -> None:
    """Densities, moments and entropy are SciPy's, of several matrices; draws have the moments."""
    peer = scipy.stats.wishart
    x = peer.rvs(5.5, spread, size=4, random_state=rng)
    compare(stats.wishart.logpdf(x, 5.5, spread), peer.logpdf(np.moveaxis(x, 0, -1), 5.5, spread))
    compare(stats.wishart.pdf(x[0], 5.5, spread), peer.pdf(x[0], 5.5, spread))
    compare(stats.wishart.mean(5.5, spread), peer.mean(5.5, spread))
    compare(stats.wishart.var(5.5, spread), peer.var(5.5, spread))
    compare(stats.wishart.entropy(5.5, spread), peer.entropy(5.5, spread))
    drawn = np.asarray(stats.wishart.rvs(KEY, 4000, np.float64(5.5), spread))
    np.testing.assert_allclose(drawn.mean(0), 5.5 * spread, atol=0.06 * 5.5 * spread.max())
    np.testing.assert_allclose(drawn.var(0), peer.var(5.5, spread), rtol=0.25)
    afx.testing.check_grads(
        lambda n, a: stats.wishart.logpdf(x[0], n, a @ a.T), (np.float64(5.5), np.tril(spread)), order=1
    )
    assert np.isnan(stats.wishart.logpdf(x[0], 1.5, spread))


def test_lkj(spread: Any) -> None:
    """Of two numbers it is a beta law, of three it integrates to 1; draws are correlations with its moments."""
    for eta in (0.7, 2.5):
        r = 0.3
        want = scipy.stats.beta.pdf((r + 1) / 2, eta, eta) / 2
        compare(stats.lkj.pdf(np.array([[1, r], [r, 1]]), np.float64(eta)), want)
    a, b = np.array([0.2, -0.5]), np.array([0.4, 0.1])

    def height(r: float) -> float:
        x = np.array([[1, a[0], b[0]], [a[0], 1, r], [b[0], r, 1.0]])
        return float(np.exp(stats.lkj.logpdf(x, np.float64(2.0))))

    low, high = (a[0] * b[0] + s * np.sqrt((1 - a[0] ** 2) * (1 - b[0] ** 2)) for s in (-1, 1))
    # with two correlations given: of these each is beta(2.5, 2.5), independent
    found = scipy.integrate.fixed_quad(np.vectorize(height), low, high, n=20)[0]
    want = [scipy.stats.beta.pdf((r + 1) / 2, 2.5, 2.5) / 2 for r in (a[0], b[0])]
    assert found == pytest.approx(want[0] * want[1], rel=1e-12)
    drawn = np.asarray(stats.lkj.rvs(KEY, 3000, 3, np.float64(2.0)))
    np.testing.assert_allclose(np.diagonal(drawn, axis1=1, axis2=2), 1, atol=1e-12)
    for i, j in ((1, 0), (2, 0), (2, 1)):
        assert scipy.stats.kstest((drawn[:, i, j] + 1) / 2, scipy.stats.beta(2.5, 2.5).cdf).pvalue > 1e-3
    correlation = spread / np.sqrt(np.outer(np.diag(spread), np.diag(spread)))
    afx.testing.check_grads(lambda e: stats.lkj.logpdf(correlation, e), (np.float64(1.5),), order=1)


def test_shares_have_moments() -> None:
    """Means, variances and entropy of the Dirichlet law are SciPy's, and draws are shares."""
    alpha, peer = np.array([0.5, 2.0, 3.5]), scipy.stats.dirichlet
    compare(stats.dirichlet.mean(alpha), peer.mean(alpha))
    compare(stats.dirichlet.var(alpha), peer.var(alpha))
    compare(stats.dirichlet.entropy(alpha), peer.entropy(alpha))
    np.testing.assert_allclose(stats.dirichlet.rvs(KEY, (5,), alpha).sum(axis=-1), 1, rtol=1e-12)


def test_normal_vectors(spread: Any) -> None:
    """The entropy is SciPy's; a singular covariance has its density on its plane, and none beside it; draws have moments."""
    peer = scipy.stats.multivariate_normal
    compare(stats.multivariate_normal.entropy(cov=spread), peer.entropy(cov=spread))
    compare(stats.multivariate_normal.entropy(np.zeros(2), 4.0), peer.entropy(np.zeros(2), 4.0))
    flat = np.array([[2.0, 1.0, 3.0], [1.0, 1.0, 2.0], [3.0, 2.0, 5.0]])  # the third is the sum of the others
    x = np.array([[0.5, -0.3, 0.2], [1.0, 1.0, 2.0], [1.0, 1.0, 2.5]])
    compare(
        stats.multivariate_normal.logpdf(x, np.zeros(3), flat, allow_singular=True),
        peer.logpdf(x, np.zeros(3), flat, allow_singular=True),
    )
    compare(stats.multivariate_normal.pdf(x, np.ones(3), spread, allow_singular=True), peer.pdf(x, np.ones(3), spread))
    with pytest.raises(np.linalg.LinAlgError):
        stats.multivariate_normal.logpdf(x, np.zeros(3), flat - 0.1 * np.eye(3))
    drawn = np.asarray(stats.multivariate_normal.rvs(KEY, (4000,), np.ones(3), spread))
    np.testing.assert_allclose(np.cov(drawn.T), spread, atol=0.1 * spread.max())


@pytest.mark.parametrize("bandwidth", ["scott", "silverman", 0.4])
@pytest.mark.parametrize("d", [1, 2])
def test_kernel_densities(bandwidth: Any, d: int, rng: np.random.Generator) -> None:
    """Densities are SciPy's, weighted too; they are trees, with derivatives by their points; draws follow them."""
    points, x, w = rng.normal(size=(d, 30)), rng.normal(size=(d, 5)), rng.uniform(size=30)
    for weights in (None, w):
        peer = scipy.stats.gaussian_kde(points, bandwidth, weights=weights)
        own = stats.gaussian_kde(points, bandwidth, weights=weights)
        np.testing.assert_allclose(own(x), peer(x), rtol=1e-11)
        np.testing.assert_allclose(afx.jit(lambda k, x: k.logpdf(x))(own, x), peer.logpdf(x), rtol=1e-11)
    if d == 1:
        want = [peer.integrate_box_1d(-np.inf, v) for v in x[0]]
        np.testing.assert_allclose(own.cdf(x[0]), want, rtol=1e-10)
        assert scipy.stats.kstest(np.asarray(own.rvs(KEY, 500)), lambda v: np.asarray(own.cdf(v))).pvalue > 1e-3
    else:
        assert own.rvs(KEY, (3, 4)).shape == (2, 3, 4)
        with pytest.raises(afx.errors.ShapeError, match="one dimension"):
            own.cdf(0.0)
    afx.testing.check_grads(lambda p: stats.gaussian_kde(p, bandwidth).logpdf(x), (points,), order=1)


def test_kernel_densities_of_what_is_no_sample() -> None:
    """One point, other weights and other bandwidths are named."""
    for wrong, message in (
        (lambda: stats.gaussian_kde(np.ones(1)), "two or more"),
        (lambda: stats.gaussian_kde(np.arange(3.0), weights=np.ones(2)), "a weight for each"),
        (lambda: stats.gaussian_kde(np.arange(3.0), -1.0), "bandwidth"),
    ):
        with pytest.raises(afx.errors.AfxError, match=message):
            wrong()
