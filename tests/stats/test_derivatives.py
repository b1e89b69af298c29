"""Derivatives of distributions by every real parameter, in the tails to where float64 ends, and under transformations.

Numbers in the table were made with mpmath at 60 digits: closed forms, and their central differences.
"""

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
import scipy.stats

import afx
from afx import stats
from tests.every import together
from tests.stats.laws import PLAIN

# distribution, function, argument and parameters; the value and its derivative by each of them
TAILS = [
    (
        "t",
        "logsf",
        (1e30, 12.0, 0.5, 2.0),
        (-807.8856286880467, -1.2e-29, -66.68188878671669, 1.200000000404005e-29, 6.0),
    ),
    (
        "t",
        "logsf",
        (50.0, 400.0, 0.5, 2.0),
        (-189.4206150637503, -4.896502569417984, -0.1626608216413936, 4.896502569417984, 121.1884385930951),
    ),
    (
        "f",
        "logsf",
        (1e100, 3.0, 8.0),
        (-916.2101778106654, -4.0e-100, -0.546031746031746, -114.0863522831214),
    ),
    (
        "norm",
        "logsf",
        (1000.0, 0.5, 2.0),
        (-124882.1643005105, -249.8760004922383, 249.8760004922383, 124875.5312459961),
    ),
    (
        "gamma",
        "logsf",
        (3000.0, 2.5, 0.5, 2.0),
        (-1489.064102310812, -0.4995002499859702, 6.610564065462314, 0.4995002499859702, 749.1254999164587),
    ),
    (
        "beta",
        "logsf",
        (0.9999, 3.0, 200.0),
        (-1832.149847985235, -1999998.009752439, 4.387857060111163, -9.200414757499546),
    ),
    (
        "poisson",
        "logsf",
        (700.0, 5.0),
        (-2773.280215629384, -4.943793290270037, 139.2014346907408),
    ),
    (
        "nbinom",
        "logsf",
        (4000.0, 3.0, 0.5),
        (-2758.771462337812, -0.6926476177320117, 6.679242681875919, -7998.001999000001),
    ),
    (
        "binom",
        "logcdf",
        (3.0, 1500.0, 0.75),
        (-2055.999136603007, 7.154270032304172, -1.384293472033999, -5984.003561092217),
    ),
    (
        "binom",
        "logsf",
        (900.0, 1000.0, 0.125),
        (-1567.065683736594, -4.149986912006574, 2.174722818895952, 7095.002728540593),
    ),
]
SMOOTH: list[tuple[str, tuple[float, ...]]] = [
    ("beta", (0.3, 2.5, 1.5, -0.2, 1.4)),
    ("cauchy", (0.7, -0.2, 1.4)),
    ("chi2", (2.0, 3.5, -0.2, 1.4)),
    ("expon", (0.7, -0.2, 1.4)),
    ("f", (1.3, 3.0, 5.5, -0.2, 1.4)),
    ("gamma", (1.3, 2.5, -0.2, 1.4)),
    ("laplace", (0.7, -0.2, 1.4)),
    ("logistic", (0.7, -0.2, 1.4)),
    ("lognorm", (1.3, 0.8, -0.2, 1.4)),
    ("norm", (0.7, -0.2, 1.4)),
    ("t", (0.7, 3.5, -0.2, 1.4)),
    ("t", (-1.7, 3.5, -0.2, 1.4)),
    ("uniform", (0.4, -0.2, 1.4)),
    ("weibull_min", (1.3, 1.7, -0.2, 1.4)),
]
RARE: dict[str, tuple[float, ...]] = {
    **dict.fromkeys([name for name in PLAIN if name not in dict(SMOOTH)], (0.7, -0.2, 1.4)),
    "bernoulli": (0.0, 0.3),
    "gennorm": (0.7, 1.7, -0.2, 1.4),
    "invgamma": (0.7, 2.5, -0.2, 1.4),
    "pareto": (2.7, 2.5, -0.2, 1.4),
    "skewnorm": (0.7, 1.5, -0.2, 1.4),
    "truncnorm": (0.3, -1.0, 2.0, -0.2, 1.4),
    "vonmises": (0.7, 1.5, -0.2, 1.4),
    "wrapcauchy": (0.7, 0.4, -0.2, 1.4),
}
SIMPLE = {"poisson", "binom", "nbinom", "geom", "dirichlet", "multivariate_normal"}
EPS = 1e-5


@together(("name", "method", "xs", "expected"), TAILS)
def test_tails(name: str, method: str, xs: tuple[float, ...], expected: tuple[float, ...]) -> None:
    """Logarithms of tails that underflow, and their derivatives, keep their digits."""
    fn = getattr(getattr(stats, name), method)
    value, slopes = afx.value_and_grad(fn, tuple(range(len(xs))))(*[np.float64(x) for x in xs])
    assert float(value) == pytest.approx(expected[0], rel=1e-13)
    known = slice(1, None) if name in ("t", "f", "norm", "gamma", "beta") else slice(2, None)  # not by whole numbers
    found = [float(g) for g in slopes]
    assert found[known.start - 1 :] == pytest.approx(expected[known], rel=1e-10)
    if known.start == 2:
        assert found[0] == 0


@together("method", ["pdf", "logpdf", "cdf", "sf", "logcdf", "logsf", "ppf"])
@together(("name", "xs"), SMOOTH)
def test_derivatives_are_differences(name: str, xs: tuple[float, ...], method: str) -> None:
    """Derivatives by argument, shapes, location and scale are differences of values; second ones, of first ones."""
    fn = getattr(getattr(stats, name), method)
    point = np.array((0.37, *xs[1:]) if method == "ppf" else xs)
    by = tuple(range(len(xs)))

    def slopes(v: np.ndarray) -> np.ndarray:
        return np.array([float(g) for g in afx.grad(fn, by)(*[np.float64(x) for x in v])])

    second = np.asarray(afx.hessian(lambda v: fn(*v))(point))
    for k in by:
        move = EPS * (np.arange(len(xs)) == k)
        value = (float(fn(*(point + move))) - float(fn(*(point - move)))) / (2 * EPS)
        assert slopes(point)[k] == pytest.approx(value, rel=1e-7, abs=1e-8)
        np.testing.assert_allclose(
            second[k], (slopes(point + move) - slopes(point - move)) / (2 * EPS), rtol=1e-6, atol=1e-7
        )


@together(
    ("name", "k", "parameters"),
    [("poisson", 3, (2.5,)), ("binom", 3, (7, 0.3)), ("nbinom", 3, (2.5, 0.3)), ("geom", 3, (0.3,))],
)
@together("method", ["pmf", "logpmf", "cdf", "sf", "logcdf", "logsf"])
def test_discrete_derivatives(name: str, k: int, parameters: tuple[float, ...], method: str) -> None:
    """Derivatives by parameters of distributions of whole numbers are differences of values."""
    fn = getattr(getattr(stats, name), method)
    for i, p in enumerate(parameters):
        if isinstance(p, int):
            continue

        def moved(v: Any, i: int = i) -> Any:
            return fn(k, *[v if j == i else q for j, q in enumerate(parameters)])

        slope = float(afx.grad(moved)(np.float64(p)))
        difference = (float(moved(np.float64(p + EPS))) - float(moved(np.float64(p - EPS)))) / (2 * EPS)
        assert slope == pytest.approx(difference, rel=1e-8, abs=1e-9)


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("laplace", ()),
        ("gennorm", (0.5,)),
        ("gennorm", (1.3,)),
        ("gennorm", (8.0,)),
        ("vonmises", (2.0,)),
        ("t", (3.0,)),
        ("norm", ()),
    ],
)
def test_slopes_in_the_middle_of_symmetric_laws(name: str, shapes: tuple[float, ...]) -> None:
    """At 0 distribution functions grow by the density, those of logarithms by twice that, and quantiles by its inverse."""
    law, zero = getattr(stats, name), np.float64(0.0)
    peak = float(getattr(scipy.stats, name)(*shapes).pdf(0.0))
    for method, slope in (("cdf", peak), ("sf", -peak), ("logcdf", 2 * peak), ("logsf", -2 * peak)):
        assert float(afx.grad(getattr(law, method))(zero, *shapes)) == pytest.approx(slope, rel=1e-12)
    assert float(afx.grad(law.ppf)(np.float64(0.5), *shapes)) == pytest.approx(1 / peak, rel=1e-10)


def test_large_powers_of_small_numbers() -> None:
    """The power may be too small for a number, where the share of the middle is not."""
    x = np.array([-0.4, -1e-3, 0.4])
    law = scipy.stats.uniform(-1, 2)  # the limit of large exponents
    np.testing.assert_allclose(np.asarray(stats.gennorm.cdf(x, 1e6)), law.cdf(x), atol=1e-6)
    np.testing.assert_allclose(np.asarray(stats.gennorm.logcdf(x, 1e6)), law.logcdf(x), atol=1e-5)
    np.testing.assert_allclose(np.asarray(stats.gennorm.ppf(law.cdf(x), 1e6)), x, atol=1e-6)
    for dtype in (np.float32, np.float64):  # whose density at 0 is too large for a number
        assert stats.gennorm.ppf(dtype(0.5), dtype(1e-3)) == 0


def test_ends_of_the_support() -> None:
    """At the ends of a support derivatives are those from inside, and outside they are 0: nothing is nan."""
    for fn, x, expected in (
        (lambda x: stats.gamma.pdf(x, 2.0), 0.0, 1.0),
        (lambda x: stats.gamma.cdf(x, 1.0), 0.0, 1.0),
        (stats.expon.logpdf, 0.0, -1.0),
        (stats.expon.cdf, -1.0, 0.0),
        (stats.uniform.logcdf, 2.0, 0.0),
        (lambda x: stats.lognorm.pdf(x, 1.0), -1.0, 0.0),
        (lambda x: stats.weibull_min.logsf(x, 1.5), 0.0, 0.0),
        (lambda x: stats.t.cdf(x, 3.0), 0.0, 0.36755259694786135),
        (stats.norm.pdf, np.inf, 0.0),
    ):
        assert float(afx.grad(fn)(np.float64(x))) == pytest.approx(expected)


def test_masked_points_have_no_share_in_gradients() -> None:
    """The gradient by a parameter skips points outside the support instead of turning nan."""
    x = np.array([-1.0, 0.5, 2.0])
    slope = afx.grad(lambda a: afx.sum(stats.gamma.pdf(x, a)))(np.float64(2.5))
    inside = afx.grad(lambda a: afx.sum(stats.gamma.pdf(x[1:], a)))(np.float64(2.5))
    assert float(slope) == pytest.approx(float(inside), rel=1e-14)


@together("name", [name for name in stats.__all__ if name in (set(dict(SMOOTH)) | set(RARE) | SIMPLE)])
def test_transformations(name: str) -> None:
    """Every distribution gives the same compiled and in a loop, and distributions pickle."""
    distribution = getattr(stats, name)
    assert pickle.loads(pickle.dumps(distribution)) is distribution
    rows = dict(SMOOTH)
    rows |= RARE
    rows |= {"poisson": (3.0, 2.5), "binom": (3.0, 7.0, 0.3), "nbinom": (3.0, 2.5, 0.3), "geom": (3.0, 0.3)}
    if name in rows:
        _, *parameters = rows[name]
        x = np.array([rows[name][0], rows[name][0] + 1.0])
        methods = ["cdf", "logsf", "logpmf" if hasattr(distribution, "logpmf") else "logpdf"]
    else:
        x, parameters, methods = np.array([[0.3, 0.7], [0.6, 0.4]]), [np.array([2.0, 0.5])], ["logpdf", "pdf"]
    parameters = [np.asarray(p, np.float64) for p in parameters]
    for method in methods:
        fn = getattr(distribution, method)
        plain = [np.asarray(fn(row, *parameters)) for row in x]
        np.testing.assert_allclose(afx.jit(afx.vmap(lambda row, fn=fn: fn(row, *parameters)))(x), plain, rtol=1e-13)
        by = tuple(range(1, len(parameters) + 1))
        slopes = afx.grad(fn, by)(x[0], *parameters)
        for g, compiled in zip(slopes, afx.jit(afx.grad(fn, by))(x[0], *parameters), strict=True):
            np.testing.assert_allclose(np.asarray(g), np.asarray(compiled), rtol=1e-12)
            assert np.isfinite(np.asarray(g)).all()


def test_dtypes() -> None:
    """float64 of any operand is kept, float32 stays, and numbers alone give float64."""
    single = np.float32(0.5)
    assert stats.gamma.logpdf(single, 2.0).dtype == np.float32
    for method, x in itertools.product(("logpdf", "cdf", "logsf", "ppf"), (single, 0.5)):
        assert getattr(stats.gamma, method)(x, np.float64(2.5)).dtype == np.float64
    assert stats.gamma.logpdf(np.array([1.0]), 0.1)[0] == stats.gamma.logpdf(np.array([1.0]), np.float64(0.1))[0]
    assert stats.poisson.logpmf(np.array([3]), 2.5).dtype == np.float64


@pytest.mark.parametrize("name", ["cdf", "sf", "logcdf", "logsf"])
def test_the_normal_law_is_short_and_right_at_infinity(name: str) -> None:
    """`stats.norm`'s distribution functions are few equations; at infinity they have their limits, and derivative 0."""
    fn = getattr(stats.norm, name)
    x = np.array([-np.inf, -2.0, 0.5, np.inf, np.nan])
    np.testing.assert_allclose(np.asarray(fn(x, 0.5, 2.0)), getattr(scipy.stats.norm, name)(x, 0.5, 2.0), rtol=1e-13)
    for transform in (lambda f: f, afx.jit):
        slopes = transform(afx.grad(lambda p: fn(x[:4], *p).sum()))((np.float64(0.5), np.float64(2.0)))
        finite = afx.grad(lambda p: fn(x[1:3], *p).sum())((np.float64(0.5), np.float64(2.0)))
        np.testing.assert_allclose(np.asarray(slopes), np.asarray(finite), rtol=1e-13)
    graph = afx.jit(fn).lower(x, np.float64(0.5), np.float64(2.0)).graph
    assert len(graph.equations) <= 9
