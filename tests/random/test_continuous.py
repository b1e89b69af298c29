"""Continuous distributions: each draw has its distribution function and its derivatives."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

import afx
from afx import random
from tests.every import together

KEY = random.key(11)
N = 20_000
SURE = 1e-4  # the keys are fixed: a test that passes always passes
F64 = afx.float64
INF = np.inf

DISTRIBUTIONS: dict[str, tuple[Callable[..., Any], tuple[float, ...], Any]] = {
    "exponential": (lambda k, n, s: random.exponential(k, n, s), (2.0,), stats.expon(scale=2)),
    "laplace": (random.laplace, (1.0, 2.0), stats.laplace(1, 2)),
    "logistic": (random.logistic, (1.0, 2.0), stats.logistic(1, 2)),
    "cauchy": (random.cauchy, (1.0, 2.0), stats.cauchy(1, 2)),
    "gumbel": (random.gumbel, (1.0, 2.0), stats.gumbel_r(1, 2)),
    "lognormal": (random.lognormal, (0.5, 0.7), stats.lognorm(0.7, scale=np.exp(0.5))),
    "rayleigh": (random.rayleigh, (2.0,), stats.rayleigh(scale=2)),
    "weibull": (lambda k, n, a, s: random.weibull(k, a, n, s), (1.5, 2.0), stats.weibull_min(1.5, scale=2)),
    "triangular": (lambda k, n, a, b, c: random.triangular(k, a, b, c, n), (-1.0, 0.5, 4.0), stats.triang(0.3, -1, 5)),
    "maxwell": (random.maxwell, (2.0,), stats.maxwell(scale=2)),
    "generalized_normal": (lambda k, n, p: random.generalized_normal(k, p, n), (1.7,), stats.gennorm(1.7)),
    "wald": (lambda k, n, m: random.wald(k, m, n), (2.5,), stats.invgauss(2.5)),
    "pareto": (lambda k, n, a, s: random.pareto(k, a, n, s), (3.0, 2.0), stats.pareto(3, scale=2)),
    "uniform": (random.uniform, (-1.0, 3.0), stats.uniform(-1, 4)),
    "normal": (random.normal, (-1.0, 3.0), stats.norm(-1, 3)),
    "gamma": (lambda k, n, a, s: random.gamma(k, a, n, s), (2.5, 3.0), stats.gamma(2.5, scale=3)),
    "gamma of a small shape": (lambda k, n, a: random.gamma(k, a, n), (0.1,), stats.gamma(0.1)),
    "gamma of a large shape": (lambda k, n, a: random.gamma(k, a, n), (1e4,), stats.gamma(1e4)),
    "loggamma": (lambda k, n, a: random.loggamma(k, a, n), (0.3,), stats.loggamma(0.3)),
    "beta": (lambda k, n, a, b: random.beta(k, a, b, n), (0.5, 2.0), stats.beta(0.5, 2)),
    "chisquare": (lambda k, n, v: random.chisquare(k, v, n), (3.0,), stats.chi2(3)),
    "t": (lambda k, n, v, m, s: random.t(k, v, n, m, s), (3.0, 1.0, 2.0), stats.t(3, 1, 2)),
    "f": (lambda k, n, u, v: random.f(k, u, v, n), (5.0, 7.0), stats.f(5, 7)),
}
BOUNDS = [(-1, 2, 0, 1), (-INF, INF, 0, 1), (3, INF, 0, 1), (-50, -49, 1, 2), (20, 20.1, 0, 1), (-1, 5, 2, 0.5)]
each_distribution = pytest.mark.parametrize(
    ("draw", "params", "distribution"), DISTRIBUTIONS.values(), ids=DISTRIBUTIONS.keys()
)


@each_distribution
@together("dtype", ["float32", "float64"])
def test_draws_have_their_distribution(draw: Callable[..., Any], params: Any, distribution: Any, dtype: str) -> None:
    """The empirical distribution function is near the distribution's (Kolmogorov & Smirnov), in both dtypes."""
    x = np.asarray(draw(KEY, N, *[np.asarray(v, dtype) for v in params]))
    assert (x.shape, x.dtype) == ((N,), dtype)
    assert stats.kstest(x.astype(np.float64), distribution.cdf).pvalue > SURE


@each_distribution
def test_draws_of_each_element_are_independent(draw: Callable[..., Any], params: Any, distribution: Any) -> None:
    """Neighbours are not related: the pairs' distribution functions fill a square evenly."""
    u = distribution.cdf(np.asarray(draw(KEY, N, *[np.float64(v) for v in params])))
    counts = np.histogram2d(u[:-1], u[1:], bins=10, range=[[0, 1], [0, 1]])[0]
    expected = len(u) / 100
    assert np.sum((counts - expected) ** 2) / expected < 99 + 5 * np.sqrt(2 * 99)


@pytest.mark.parametrize(("low", "high", "loc", "scale"), BOUNDS)
def test_truncated_normal_has_its_distribution(low: float, high: float, loc: float, scale: float) -> None:
    """Between the bounds and nowhere else, the distribution is SciPy's; far out in a tail, too."""
    x = np.asarray(random.truncated_normal(KEY, low, high, N, loc, scale, dtype=F64))
    assert x.min() >= low
    assert x.max() <= high
    distribution = stats.truncnorm((low - loc) / scale, (high - loc) / scale, loc, scale)
    assert stats.kstest(x, distribution.cdf).pvalue > SURE
    small = np.asarray(random.truncated_normal(KEY, low, high, N, loc, scale))
    assert small.dtype == np.float32
    assert np.float32(low) <= small.min()
    assert small.max() <= np.float32(high)


def test_truncated_normal_beyond_all_probability() -> None:
    """A thousand standard deviations out, what exceeds the bound is exponential of that rate."""
    x = np.asarray(random.truncated_normal(KEY, 1000.0, INF, N, dtype=F64))
    assert stats.kstest((x - 1000) * 1000, stats.expon.cdf).pvalue > SURE


@together(
    ("fn", "points"),
    [
        (lambda s: random.exponential(KEY, 5, s), (2.0,)),
        (lambda m, s: random.laplace(KEY, 5, m, s), (1.0, 2.0)),
        (lambda m, s: random.logistic(KEY, 5, m, s), (1.0, 2.0)),
        (lambda m, s: random.cauchy(KEY, 5, m, s), (1.0, 2.0)),
        (lambda m, s: random.gumbel(KEY, 5, m, s), (1.0, 2.0)),
        (lambda m, s: random.lognormal(KEY, 5, m, s), (0.5, 0.7)),
        (lambda s: random.rayleigh(KEY, 5, s), (2.0,)),
        (lambda a, s: random.weibull(KEY, a, 5, s), (1.5, 2.0)),
        (lambda a, s: random.pareto(KEY, a, 5, s), (1.5, 2.0)),
        (lambda a, b, m, s: random.truncated_normal(KEY, a, b, 5, m, s), (-1.0, 2.0, 0.5, 1.5)),
        (lambda a, m: random.truncated_normal(KEY, a, INF, 5, m), (15.0, 0.5)),
    ],
)
def test_draws_differentiate_in_their_parameters(fn: Callable[..., Any], points: tuple[float, ...]) -> None:
    """At one key a draw is a smooth function of its parameters: differences agree, to the second order."""
    afx.testing.check_grads(fn, tuple(np.float64(v) for v in points), order=2)


def test_quantiles_move_as_the_draws_derivatives_say() -> None:
    """A draw at probability u has the derivative of the distribution's quantile at u, from SciPy."""
    a, b, m, s = -1.0, 2.0, 0.5, 1.5
    x = np.asarray(random.truncated_normal(KEY, a, b, 50, m, s, dtype=F64))

    def quantile(m: float) -> Any:
        return stats.truncnorm((a - m) / s, (b - m) / s, m, s).ppf(u)

    u = stats.truncnorm((a - m) / s, (b - m) / s, m, s).cdf(x)
    slope = afx.jvp(lambda m: random.truncated_normal(KEY, a, b, 50, m, s), (np.float64(m),), (np.float64(1),))[1]
    np.testing.assert_allclose(
        np.asarray(slope), (quantile(m + 1e-5) - quantile(m - 1e-5)) / 2e-5, rtol=1e-6, atol=1e-9
    )


@together("a", [1e-3, 0.1, 0.7, 1.0, 3.0, 25.0, 29.9, 40.0, 300.0, 1e4])
def test_gamma_numbers_move_with_their_quantiles(a: float) -> None:
    """The derivative by the shape is that of SciPy's quantile function, in the middle and in both tails."""
    one = np.float64(1)
    y, slope = afx.jvp(lambda a: random.loggamma(KEY, a, 200), (np.float64(a),), (one,))
    x = np.exp(np.asarray(y))
    some = x > 1e-290
    u, rest, h = special.gammainc(a, x), special.gammaincc(a, x), 1e-4 * a
    # from the smaller tail: the other has lost its digits; its logarithm by four points
    at = [
        np.where(u < 0.5, special.gammaincinv(a + i * h, u), special.gammainccinv(a + i * h, rest))
        for i in (-2, -1, 1, 2)
    ]
    with np.errstate(divide="ignore"):
        far, near, next_, last = (np.log(v) for v in at)
    with np.errstate(invalid="ignore"):
        want = (8 * (next_ - near) - (last - far)) / (12 * h)
    np.testing.assert_allclose(np.asarray(slope)[some], want[some], rtol=2e-6)
    z, slope = afx.jvp(lambda a: random.gamma(KEY, a, 200), (np.float64(a),), (one,))
    np.testing.assert_allclose(np.asarray(slope)[some], want[some] * np.asarray(z)[some], rtol=2e-6)


def test_derivatives_of_draws_have_the_derivative_of_the_mean() -> None:
    """Means of derivatives over draws are derivatives of expectations, within five standard errors."""
    cases: list[tuple[Callable[[Any], Any], float, float]] = [
        (lambda a: random.gamma(KEY, a, N), 2.0, 1.0),
        (lambda a: random.gamma(KEY, a, N) ** 2, 0.4, 2 * 0.4 + 1),
        (lambda a: random.beta(KEY, a, 3.0, N), 2.0, 3 / 25),
        (lambda b: random.beta(KEY, 2.0, b, N), 3.0, -2 / 25),
        (lambda a: random.dirichlet(KEY, afx.stack([a, 2.0 * a, 1.0 + 0 * a]), N)[:, 2], 0.5, -3 / 2.5**2),
        (lambda v: random.chisquare(KEY, v, N), 3.0, 1.0),
        (lambda v: random.t(KEY, v, N) ** 2, 9.0, -2 / 49),
        (lambda v: random.f(KEY, 5.0, v, N), 12.0, -2 / 100),
    ]
    for fn, at, want in cases:
        slope = np.asarray(afx.jvp(fn, (np.float64(at),), (np.float64(1),))[1])
        assert abs(slope.mean() - want) < 5 * slope.std() / np.sqrt(N)


def test_second_derivatives_of_gamma_numbers() -> None:
    """The second derivative by the shape is that of SciPy's quantile function; forward, reverse and compiled agree."""
    a, h, one = 2.3, 1e-3, np.float64(1)

    def draw(a: Any) -> Any:
        return random.gamma(KEY, a, 50)

    def slope(a: Any) -> Any:
        return afx.jvp(draw, (a,), (one,))[1]

    second = np.asarray(afx.jvp(slope, (np.float64(a),), (one,))[1])
    u = special.gammainc(a, np.asarray(draw(np.float64(a))))
    x = [special.gammaincinv(a + i * h, u) for i in (-2, -1, 0, 1, 2)]
    np.testing.assert_allclose(second, (-x[0] + 16 * x[1] - 30 * x[2] + 16 * x[3] - x[4]) / (12 * h * h), rtol=1e-5)
    total = second.sum()
    for fn in (afx.grad(afx.grad(lambda a: afx.sum(draw(a)))), afx.hessian(lambda a: afx.sum(draw(a)))):
        assert float(fn(np.float64(a))) == pytest.approx(total, rel=1e-12)
        assert float(afx.jit(fn)(np.float64(a))) == pytest.approx(total, rel=1e-12)


def test_small_shapes_do_not_underflow() -> None:
    """Logarithms of gamma numbers, and the distributions made of them, are finite where gamma numbers underflow."""
    y = np.asarray(random.loggamma(KEY, 1e-6, 100))
    assert np.isfinite(y).all()
    assert y.min() < -1e5
    assert (
        stats.kstest(np.asarray(random.loggamma(KEY, 1e-6, N, dtype=F64)) * 1e-6, stats.expon(scale=1).cdf).pvalue < 1
    )
    assert stats.kstest(-np.asarray(random.loggamma(KEY, 1e-6, N, dtype=F64)) * 1e-6, stats.expon.cdf).pvalue > SURE
    shares = np.asarray(random.dirichlet(KEY, np.full(4, 1e-5), 50))
    np.testing.assert_allclose(shares.sum(-1), 1, rtol=1e-6)
    slope = afx.grad(lambda a: afx.sum(random.gamma(KEY, a, 50)))(np.float64(1e-4))
    assert np.isfinite(float(slope))


@together(
    ("fn", "message"),
    [
        (lambda: random.exponential(KEY, scale=-1.0), r"exponential: a scale is 0 or more: got -1.0; change it"),
        (lambda: random.weibull(KEY, 0.0), r"weibull: a concentration is above 0: got 0.0; change it"),
        (lambda: random.gamma(KEY, np.zeros(2)), r"gamma: a shape parameter is above 0: got float64\[2\]; change it"),
        (lambda: afx.jit(lambda a: random.gamma(KEY, a))(-1.0), r"gamma: shapes are finite and above 0: got -1.0"),
        (lambda: random.beta(KEY, 1.0, np.nan), r"beta: a shape parameter is above 0: got nan; change it"),
        (lambda: random.t(KEY, -1.0), r"t: a number of degrees of freedom is above 0: got -1.0; change it"),
        (lambda: random.dirichlet(KEY, 1.0), r"dirichlet: one alpha for each share: got float32\[\]~; give a vector"),
        (
            lambda: random.gamma(KEY, np.ones(2), 3),
            r"gamma: parameters do not broadcast to the shape: got float64\[2\]",
        ),
        (lambda: random.gumbel(KEY, dtype=complex), r"gumbel: draws real floating numbers: got complex128; use"),
        (
            lambda: random.truncated_normal(KEY, 2.0, 1.0),
            r"truncated_normal: low lies below high: got 2.0, 1.0; change",
        ),
    ],
)
def test_mistakes_are_explained(fn: Callable[[], Any], message: str) -> None:
    """Parameters, shapes and dtypes that make no sense raise, naming the draw and the remedy."""
    with pytest.raises(afx.errors.AfxError, match=message):
        fn()


def test_walds_numbers_compile() -> None:
    """Compiled draws, and their second derivatives by the mean, are the eager ones."""
    key = random.key(4)

    def total(m: Any) -> Any:
        return afx.sum(random.wald(key, m, (20,)) ** 2)

    for fn in (total, afx.grad(total), afx.grad(afx.grad(total))):
        np.testing.assert_allclose(
            np.asarray(afx.jit(fn)(np.float64(2.0))), np.asarray(fn(np.float64(2.0))), rtol=1e-13
        )
    shares = afx.jit(afx.vmap(lambda m: random.wald(key, m, (3,))))(np.array([0.5, 4.0]))
    assert shares.shape == (2, 3)
