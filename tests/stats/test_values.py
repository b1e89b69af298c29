"""Distributions against SciPy: values on both sides of the support, at its ends, at nan and for wrong parameters."""

from typing import Any

import numpy as np
import pytest
import scipy.stats

import afx
from afx import stats
from afx.errors import ShapeError
from tests.every import together

CONTINUOUS: dict[str, list[tuple[float, ...]]] = {
    "beta": [(0.5, 0.5), (1.0, 3.0), (2.5, 7.0), (60.0, 40.0)],
    "cauchy": [()],
    "chi2": [(0.5,), (3.0,), (50.0,)],
    "expon": [()],
    "f": [(1.0, 4.0), (5.0, 2.0), (30.0, 40.0)],
    "gamma": [(0.4,), (1.0,), (2.5,), (60.0,)],
    "laplace": [()],
    "logistic": [()],
    "lognorm": [(0.5,), (2.0,)],
    "norm": [()],
    "t": [(0.7,), (3.0,), (40.0,)],
    "uniform": [()],
    "weibull_min": [(0.7,), (1.0,), (3.0,)],
}
DISCRETE: dict[str, list[tuple[float, ...]]] = {
    "binom": [(1, 0.3), (10, 0.2), (200, 0.7)],
    "geom": [(0.01,), (0.4,)],
    "nbinom": [(0.7, 0.3), (5, 0.5), (40, 0.2)],
    "poisson": [(0.3,), (4.0,), (80.0,)],
}
SHARES = np.array([1e-12, 1e-3, 0.1, 0.3, 0.5, 0.6, 0.9, 0.999])
EDGES = np.array([-np.inf, -3.0, 0.0, 0.5, 1.0, 2.5, 30.0, np.nan])
RNG = np.random.default_rng(8)


def cases(table: dict[str, list[tuple[float, ...]]]) -> list[Any]:
    """Return each distribution with each of its parameters."""
    return [pytest.param(name, ps, id=f"{name}{ps}") for name, rows in table.items() for ps in rows]


def compare(found: Any, expected: Any) -> None:
    """Check that values are the same to twelve digits."""
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-12, atol=1e-15)


@together("place", [{}, {"loc": 0.5, "scale": 2.0}], ids=["standard", "moved"])
@together(("name", "parameters"), cases(CONTINUOUS))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # SciPy's own at the ends of a support
def test_continuous_values(name: str, parameters: tuple[float, ...], place: dict[str, float]) -> None:
    """Densities, distribution functions and quantiles are SciPy's to twelve digits, in float64."""
    distribution, peer = getattr(stats, name), getattr(scipy.stats, name)
    x = np.concatenate([peer.ppf(SHARES, *parameters, **place), EDGES])
    for method in ("pdf", "logpdf", "cdf", "logcdf", "sf", "logsf"):
        found = getattr(distribution, method)(x, *parameters, **place)
        assert found.dtype == np.float64
        compare(found, getattr(peer, method)(x, *parameters, **place))
    q = np.concatenate([SHARES, [0.0, 1.0, -0.1, 1.1, np.nan]])
    compare(distribution.ppf(q, *parameters, **place), peer.ppf(q, *parameters, **place))


@together("place", [{}, {"loc": 2}], ids=["standard", "moved"])
@together(("name", "parameters"), cases(DISCRETE))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # SciPy's own at the ends of a support
def test_discrete_values(name: str, parameters: tuple[float, ...], place: dict[str, float]) -> None:
    """Probabilities, distribution functions and quantiles are SciPy's; numbers that are not whole have probability 0."""
    distribution, peer = getattr(stats, name), getattr(scipy.stats, name)
    k = np.concatenate([np.arange(-1, 15.0), [100, 201, 0.5, 2.5, -np.inf, np.nan]])
    for method in ("pmf", "logpmf", "cdf", "sf"):
        compare(getattr(distribution, method)(k, *parameters, **place), getattr(peer, method)(k, *parameters, **place))
    for method, rest in (("logcdf", "sf"), ("logsf", "cdf")):  # SciPy's logarithm of what is nearly 1 has few digits
        other = getattr(peer, rest)(k, *parameters, **place)
        expected = np.where(other < 0.5, np.log1p(-other), getattr(peer, method)(k, *parameters, **place))
        finite = np.isfinite(expected) | (other != 1)
        compare(np.asarray(getattr(distribution, method)(k, *parameters, **place))[finite], expected[finite])
    q = np.concatenate([SHARES, [0.0, -0.1, 1.1, np.nan]])
    compare(distribution.ppf(q, *parameters, **place), peer.ppf(q, *parameters, **place))
    whole = np.arange(1.0, 6.0)
    q = np.asarray(distribution.cdf(whole, *parameters))
    np.testing.assert_array_equal(distribution.ppf(q[q < 1], *parameters), whole[q < 1])


@together(
    ("name", "wrong"),
    [
        ("norm", {"scale": 0.0}),
        ("norm", {"scale": -1.0}),
        ("gamma", {"a": 0.0}),
        ("gamma", {"a": np.nan}),
        ("beta", {"a": 1.0, "b": -1.0}),
        ("t", {"df": -2.0}),
        ("f", {"dfn": 2.0, "dfd": 0.0}),
        ("lognorm", {"s": -1.0}),
        ("weibull_min", {"c": 0.0}),
        ("poisson", {"mu": -1.0}),
        ("binom", {"n": 2.5, "p": 0.5}),
        ("binom", {"n": 2, "p": 1.5}),
        ("nbinom", {"n": 0.0, "p": 0.5}),
        ("geom", {"p": 0.0}),
    ],
)
def test_parameters_that_are_not_allowed(name: str, wrong: dict[str, float]) -> None:
    """Where a parameter is not allowed every function is nan, as SciPy's is."""
    distribution = getattr(stats, name)
    kinds = ("pmf", "logpmf") if name in DISCRETE else ("pdf", "logpdf")
    for method in (*kinds, "cdf", "sf", "logcdf", "logsf", "ppf"):
        assert np.isnan(getattr(distribution, method)(np.float64(0.5), **wrong))


def test_large_parameters_keep_digits() -> None:
    """Densities at parameters of a million and more have the digits of the closed forms (mpmath, 40 digits)."""
    compare(stats.gamma.logpdf(np.float64(1.001e12), 1e12), -499681.6519154246927)
    compare(stats.t.logpdf(np.float64(2.0), 1e10), -2.918938533029672742)
    compare(stats.binom.logpmf(500_300, 1_000_000, np.float64(0.5)), -7.313546712426953640)


def test_wrong_calls_name_the_distribution() -> None:
    """A missing, unknown or doubled parameter is a TypeError that names the distribution and its parameters."""
    gamma: Any = stats.gamma
    for args, kwargs in (((1.0,), {}), ((1.0, 2.0), {"a": 2.0}), ((1.0, 2.0), {"shape": 1.0}), ((1.0, 2, 3, 4, 5), {})):
        with pytest.raises(TypeError, match=r"gamma: .*; its parameters, behind the argument, are a, loc, scale"):
            gamma.logpdf(*args, **kwargs)
    with pytest.raises(afx.errors.DtypeError, match="norm: not defined for complex128"):
        stats.norm.pdf(1j * np.ones(2))


# -- vectors ----------------------------------------------------------------------------------------------------------
def test_dirichlet() -> None:
    """Densities are SciPy's, of many points, and of all shares but the last."""
    alpha = np.array([0.5, 2.0, 3.5])
    x = RNG.dirichlet(alpha, 5).T
    for points in (x, x[:-1], x[:, 0]):
        compare(stats.dirichlet.logpdf(points, alpha), scipy.stats.dirichlet.logpdf(points, alpha))
        compare(stats.dirichlet.pdf(points, alpha), scipy.stats.dirichlet.pdf(points, alpha))
    assert stats.dirichlet.logpdf(np.array([0.5, 0.6, 0.5]), alpha) == -np.inf
    assert np.isnan(stats.dirichlet.logpdf(x, -alpha)).all()
    with pytest.raises(ShapeError, match="first axis of x is as long as alpha"):
        stats.dirichlet.logpdf(x.T, alpha)


def test_multivariate_normal() -> None:
    """Densities are SciPy's, for every form of the covariance, and leading axes broadcast."""
    n = 3
    root = RNG.normal(size=(n, n))
    cov, mean, x = root @ root.T + np.eye(n), RNG.normal(size=n), RNG.normal(size=(4, n))
    peer = scipy.stats.multivariate_normal
    for m, c in ((mean, cov), (None, cov), (mean, np.array([1.0, 2.0, 3.0])), (mean, 2.0)):
        compare(stats.multivariate_normal.logpdf(x, m, c), peer.logpdf(x, m, c))
        compare(stats.multivariate_normal.pdf(x[0], m, c), peer.pdf(x[0], m, c))
    compare(stats.multivariate_normal.logpdf(np.array([1.0, 2.0])), peer.logpdf(np.array([1.0, 2.0]), [0.0, 0.0]))
    many = stats.multivariate_normal.logpdf(x, mean, np.stack([cov, 2 * cov])[:, None])
    compare(many, [peer.logpdf(x, mean, cov), peer.logpdf(x, mean, 2 * cov)])
    with pytest.raises(ShapeError, match="vectors of the covariance's length"):
        stats.multivariate_normal.logpdf(x[:, :2], mean, cov)


# Bounds, correlation, and the probability by mpmath's quadrature at 25 digits (Plackett's integral by the angle).
BIVARIATE = [
    (0.3, -1.2, 0.4, 0.09808127955882746),
    (-2.0, -1.5, 0.9, 0.020284586729677419),
    (1.0, 0.5, -0.8, 0.53356111473760778),
    (0.2, 0.3, 0.97, 0.55762839366778165),
    (-0.5, 1.5, -0.96, 0.24173381003492632),
    (2.0, 2.2, 0.999, 0.97724986648858093),
    (-3.0, -4.0, 0.6, 8.959377240656132e-6),
    (-1.0, 1.1, -0.9999, 0.022989192985074736),
]


def correlated(r: Any) -> Any:
    """Return a covariance of two numbers with variances 4 and 1 and this correlation."""
    return afx.reshape(afx.stack([4.0, 2 * r, 2 * r, 1.0]), (2, 2))


@pytest.mark.parametrize(("h", "k", "r", "want"), BIVARIATE)
def test_bivariate_normal_distribution_function(h: float, k: float, r: float, want: float) -> None:
    """Probabilities have 15 digits behind the point, and so have those of the complements; float32 stays."""
    cdf = stats.multivariate_normal.cdf
    mean, x, cov = np.array([0.5, -1.0]), np.array([2 * h + 0.5, k - 1.0]), np.asarray(correlated(np.float64(r)))
    assert float(cdf(x, mean, cov)) == pytest.approx(want, abs=5e-16)
    assert float(afx.jit(cdf)(x, mean, cov)) == pytest.approx(want, abs=5e-16)
    flipped = np.array([[4.0, -2 * r], [-2 * r, 1.0]])  # of the second number with its sign changed
    rest = cdf(x * np.array([1.0, -1.0]), mean * np.array([1.0, -1.0]), flipped)
    assert float(rest) == pytest.approx(float(stats.norm.cdf(np.float64(h))) - want, abs=5e-16)
    single = cdf(x.astype("f"), mean.astype("f"), cov.astype("f"))
    assert single.dtype == np.float32
    assert float(single) == pytest.approx(want, abs=2e-5)


def test_distribution_functions_of_normal_vectors() -> None:
    """One number is the normal law, infinite bounds leave the other number, and batches and derivatives are right."""
    cdf = stats.multivariate_normal.cdf
    assert float(cdf(np.float64(0.7), 0.2, 4.0)) == pytest.approx(float(stats.norm.cdf(np.float64(0.25))), rel=1e-15)
    for x, want in (([np.inf, 0.3], stats.norm.cdf(np.float64(0.3))), ([-np.inf, 0.3], 0.0), ([np.inf, np.inf], 1.0)):
        assert float(cdf(np.array(x), cov=np.array([[1.0, 0.5], [0.5, 1.0]]))) == pytest.approx(float(want), abs=1e-16)
    r = np.linspace(-0.99, 0.99, 9)
    together = afx.vmap(lambda r: cdf(np.zeros(2), cov=correlated(r)))(r)
    compare(together, 0.25 + np.arcsin(r) / (2 * np.pi))
    x = np.array([0.3, -0.4])
    for c in (0.3, 0.95):
        afx.testing.check_grads(lambda x, r: cdf(x, cov=correlated(r)), (x, np.float64(c)), order=2)
    with pytest.raises(np.linalg.LinAlgError):
        cdf(np.zeros(2), cov=np.ones((2, 2)) + np.eye(2)[::-1])


def by_quadrature(x: np.ndarray, r: np.ndarray) -> float:
    """Return the probability of three bounds: the integral over the first number of what the others do."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    edges = np.linspace(-9.0, min(x[0], 9.0), 120)
    t = (edges[:-1, None] + np.diff(edges)[:, None] * (nodes + 1) / 2).reshape(-1, 1)
    w = (np.diff(edges)[:, None] * weights / 2).reshape(-1)
    rest = r[1:, 1:] - np.outer(r[0, 1:], r[0, 1:])
    below = stats.multivariate_normal.cdf(x[1:] - t * r[0, 1:], cov=rest)
    return float(np.sum(w * np.exp(-(t[:, 0] ** 2) / 2) / np.sqrt(2 * np.pi) * np.asarray(below)))


TRIVARIATE = [
    ([0.3, -0.4, 1.1], [0.2, -0.3, 0.4]),
    ([-1.5, 0.2, 0.4], [0.6, 0.5, 0.9]),
    ([0.5, 0.6, 0.4], [-0.7, 0.1, -0.6]),
    ([0.1, 0.2, 0.15], [0.99, 0.985, 0.998]),
    ([1.0, -0.5, 0.7], [0.0, 0.0, 0.8]),
    ([-2.0, -2.5, -1.0], [0.5, 0.9, 0.3]),
]


@together(("x", "r"), TRIVARIATE)
@together("order", [(0, 1, 2), (2, 0, 1), (1, 0, 2)])
def test_trivariate_normal_distribution_function(x: list[float], r: list[float], order: tuple[int, int, int]) -> None:
    """Probabilities have 15 digits behind the point, in any order of the numbers, plain and compiled."""
    corr = np.array([[1.0, r[0], r[1]], [r[0], 1.0, r[2]], [r[1], r[2], 1.0]])
    want = by_quadrature(np.array(x), corr)
    bounds, cov = np.array(x)[list(order)], corr[np.ix_(order, order)]
    widths = np.array([2.0, 0.5, 1.0])
    args = (bounds * widths + 1.0, np.ones(3), cov * np.outer(widths, widths))
    assert float(stats.multivariate_normal.cdf(*args)) == pytest.approx(want, abs=1e-15)
    assert float(afx.jit(stats.multivariate_normal.cdf)(*args)) == pytest.approx(want, abs=1e-15)


def test_normal_vectors_of_three_numbers_and_more() -> None:
    """Orthants have their closed forms, independent parts multiply, infinite bounds drop out, batches broadcast."""
    cdf = stats.multivariate_normal.cdf
    r = np.array([[1.0, 0.3, -0.2], [0.3, 1.0, 0.5], [-0.2, 0.5, 1.0]])
    want = 0.125 + np.arcsin(r[np.triu_indices(3, 1)]).sum() / (4 * np.pi)
    assert float(cdf(np.zeros(3), cov=r)) == pytest.approx(want, abs=1e-15)
    assert float(cdf(np.array([0.3, np.inf, -0.2]), cov=r)) == pytest.approx(
        float(cdf(np.array([0.3, -0.2]), cov=r[::2, ::2])), abs=1e-15
    )
    for n in (4, 5, 9):
        equal = np.full((n, n), 0.5) + 0.5 * np.eye(n)
        assert float(cdf(np.zeros(n), cov=equal)) == pytest.approx(1 / (n + 1), abs=2e-5)
    x = np.array([0.5, -0.3, 1.2, 0.4])
    parts = np.kron(np.eye(2), np.array([[1.0, 0.6], [0.6, 1.0]]))
    apart = float(cdf(x[:2], cov=parts[:2, :2]) * cdf(x[2:], cov=parts[:2, :2]))
    assert float(cdf(x, cov=parts)) == pytest.approx(apart, abs=1e-5)
    assert float(cdf(np.append(x[:3], np.inf), cov=parts)) == pytest.approx(
        float(cdf(x[:3], cov=parts[:3, :3])), abs=1e-5
    )
    assert float(afx.jit(cdf)(x, np.zeros(4), parts)) == pytest.approx(apart, abs=1e-5)
    assert cdf(np.zeros((5, 1, 3)), cov=np.stack([r, r])).shape == (5, 2)
    assert cdf(np.zeros((3, 1, 4), "f"), cov=np.stack([parts, parts]).astype("f")).dtype == np.float32


def test_derivatives_of_normal_distribution_functions() -> None:
    """Of three numbers they are exact in every order, of four those of the mean, and 0 by an infinite bound."""
    cdf = stats.multivariate_normal.cdf
    root = np.array([[1.0, 0.0, 0.0, 0.0], [0.4, 0.9, 0.0, 0.0], [-0.3, 0.5, 0.8, 0.0], [0.2, 0.1, 0.3, 0.7]])
    x = np.array([0.3, -0.4, 0.9, 0.1])
    afx.testing.check_grads(lambda x, a: cdf(x, cov=a @ a.T), (x[:3], root[:3, :3]), order=2)
    afx.testing.check_grads(lambda x, a: cdf(x, cov=a @ a.T), (x, root), order=1)
    by = np.asarray(afx.grad(lambda x: cdf(x, cov=root @ root.T))(np.array([0.3, np.inf, 0.9, 0.1])))
    assert by[1] == 0.0
    assert np.all(by[[0, 2, 3]] > 0)


@pytest.mark.parametrize(
    ("df", "q", "want"),
    [
        (0.9, 1e-250, -1.651057872415212e277),
        (1.5, 1e-300, -5.2194694273446363e199),
        (3.0, 1e-250, -2.225769823822442e83),
        (10.0, 1e-300, -2.5645257189481978e30),
        (0.3, 1e-40, -6.4787854258309255e131),
        (2.0, 1e-100, -7.0710678118654752e49),
        (0.3, 1e-200, -np.inf),
    ],
)
def test_quantiles_of_t_reach_to_the_end_of_float64(df: float, q: float, want: float) -> None:
    """Quantiles are mpmath's (40 digits) where SciPy's own stop at the root of the largest number, or are infinite."""
    assert float(stats.t.ppf(np.float64(q), df)) == pytest.approx(want, rel=5e-13)
    assert float(afx.jit(stats.t.ppf)(np.float64(q), np.float64(df))) == pytest.approx(want, rel=5e-13)


@pytest.mark.parametrize(
    ("df", "y", "want"),
    [
        (3.0, 1e13, -89.703095187723182),
        (7.5, 1e11, -184.36701045958529),
        (0.5, 1e155, -179.58759083781006),
        (2.0, 1e200, -921.72718437817822),
        (5.0, 1e300, -3451.627383255255),
    ],
)
def test_tails_of_t_reach_to_the_end_of_float64(df: float, y: float, want: float) -> None:
    """Logarithms of tails, and their slopes, are mpmath's (40 digits) to the largest numbers."""
    compare(stats.t.logsf(np.float64(y), df), want)
    compare(stats.t.logcdf(np.float64(-y), df), want)
    slope = afx.grad(lambda s: stats.t.logsf(y * s, df))(np.float64(1.0))
    assert float(slope) == pytest.approx(-df, rel=1e-12)


def test_the_negative_zero_of_an_angle_is_zero() -> None:
    """What lies above it is all there is, with the density as its slope."""
    for x in (-0.0, 0.0):
        assert float(stats.wrapcauchy.sf(np.float64(x), 0.3)) == 1.0
        assert float(stats.wrapcauchy.logsf(np.float64(x), 0.3)) == 0.0
        slope = afx.grad(lambda x: stats.wrapcauchy.cdf(x, 0.3))(np.float64(x))
        assert float(slope) == pytest.approx(float(stats.wrapcauchy.pdf(np.float64(x), 0.3)))
