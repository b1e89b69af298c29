"""What all laws share: means, variances, entropies, quantiles of complements, draws and fits; and the rarer laws."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

import afx
from afx import stats
from tests.every import together
from tests.stats.laws import PLAIN
from tests.stats.test_derivatives import RARE
from tests.stats.test_values import CONTINUOUS, DISCRETE, SHARES, cases, compare

NEW: dict[str, list[tuple[float, ...]]] = {
    **{name: [()] for name in PLAIN if name not in CONTINUOUS},
    "gennorm": [(0.7,), (2.5,)],
    "invgamma": [(0.7,), (1.7,), (4.5,)],
    "pareto": [(0.8,), (1.7,), (3.5,)],
    "wrapcauchy": [(0.3,), (0.95,)],
    "truncnorm": [(-1.0, 2.0), (2.0, 5.0), (-np.inf, -1.0), (-6.0, np.inf)],
}
BY_QUADRATURE: dict[str, list[tuple[float, ...]]] = {
    "skewnorm": [(0.0,), (3.0,), (-1.5,)],
    "vonmises": [(0.3,), (4.0,)],
}
NEW_DISCRETE: dict[str, list[tuple[float, ...]]] = {
    "bernoulli": [(0.3,), (0.0,)],
    "betabinom": [(10, 2.0, 3.0), (5, 0.3, 0.7)],
}
ALL_CONTINUOUS = CONTINUOUS | NEW | BY_QUADRATURE
ALL_DISCRETE = DISCRETE | NEW_DISCRETE
OF_VECTORS = {  # where the values of each are tested
    "dirichlet": "test_values.py",
    "gaussian_kde": "test_vectors.py",
    "lkj": "test_vectors.py",
    "multinomial": "test_vectors.py",
    "multivariate_normal": "test_values.py",
    "censored": "test_composite.py",
    "gaussian_random_walk": "test_composite.py",
    "hurdle": "test_composite.py",
    "lkj_cholesky": "test_composite.py",
    "mixture": "test_composite.py",
    "multivariate_normal_cholesky": "test_composite.py",
    "multivariate_normal_precision": "test_composite.py",
    "ordered": "test_composite.py",
    "ordered_logistic": "test_composite.py",
    "truncated": "test_composite.py",
    "zero_inflated": "test_composite.py",
    "wishart": "test_vectors.py",
}


def test_each_law_is_compared_with_other_values() -> None:
    """A law of `afx.stats` stands in a table that is held against SciPy, or in a test of vectors."""
    described = {"mode", "rankdata", "sem"}
    laws = {name for name in stats.__all__ if not isinstance(getattr(stats, name), type)} - described
    assert laws == {*ALL_CONTINUOUS, *ALL_DISCRETE, *OF_VECTORS}
    for name, file in OF_VECTORS.items():
        text = (Path(__file__).parent / file).read_text(encoding="utf-8")
        assert re.search(rf"stats\.{name}\.(logpdf|logpmf|pdf|pmf)|stats\.{name}\(", text), name


@together(("name", "parameters"), cases(NEW))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # SciPy's own in the tails
def test_continuous_values(name: str, parameters: tuple[float, ...]) -> None:
    """Densities, distribution functions and quantiles are SciPy's; logarithms where SciPy's keep their digits."""
    distribution, peer = getattr(stats, name), getattr(scipy.stats, name)
    place = {"loc": 0.5, "scale": 2.0}
    end = -np.inf if name == "gumbel_l" else np.inf  # where SciPy's density is no nan
    x = np.concatenate([peer.ppf(SHARES, *parameters, **place), [-3.0, 0.5, 1.0, 2.5, 30.0, end, np.nan]])
    for method in ("pdf", "logpdf", "cdf", "sf"):
        compare(getattr(distribution, method)(x, *parameters, **place), getattr(peer, method)(x, *parameters, **place))
    for method, direct in (("logcdf", "cdf"), ("logsf", "sf")):
        found = np.asarray(getattr(distribution, method)(x, *parameters, **place))
        np.testing.assert_allclose(
            np.exp(found), getattr(peer, direct)(x, *parameters, **place), rtol=1e-11, atol=1e-15
        )
    compare(distribution.ppf(SHARES, *parameters, **place), peer.ppf(SHARES, *parameters, **place))


@pytest.mark.parametrize(("name", "parameters"), cases(NEW_DISCRETE))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # SciPy's own
def test_discrete_values(name: str, parameters: tuple[float, ...]) -> None:
    """Probabilities, distribution functions and quantiles are SciPy's, moved too; and of what lies outside."""
    distribution, peer = getattr(stats, name), getattr(scipy.stats, name)
    k = np.array([-1.0, 0, 1, 2, 4, 5, 7, 12, 13, 2.5, -np.inf, np.nan])
    for method in ("pmf", "logpmf", "cdf", "sf", "logcdf"):
        compare(getattr(distribution, method)(k, *parameters, 2), getattr(peer, method)(k, *parameters, 2))
    compare(distribution.ppf(SHARES, *parameters), peer.ppf(SHARES, *parameters))
    with pytest.raises(afx.errors.ConcreteValueError, match="known n"):
        afx.jit(lambda n: stats.betabinom.cdf(1.0, n, 1.0, 1.0))(3.0)


# the argument and parameter, the distribution function and its logarithm, by mpmath's quadrature at 30 digits
SKEWED = [
    (3.0, -2.5, 4.34175802203495024e-17, -37.6756672406052673),
    (3.0, -0.3, 0.0239209833800368062, -3.73299923953919641),
    (3.0, 0.4, 0.323664176922794266, -1.12804879169707339),
    (-1.5, -2.0, 0.0454803718428826852, -3.09047443416834604),
    (-1.5, 1.2, 0.997231238006156358, -0.00277260210520707148),
    (0.0, -1.0, 0.158655253931457051, -1.84102164500926351),
]
# concentration, angle, the distribution function and the variance of angles, likewise
WOUND = [
    (0.3, -2.0, 0.14010539565318413, 2.70736148197340413),
    (4.0, -1.0, 0.0332258209014513113, 0.298228377673744755),
    (4.0, 0.5, 0.829488464005985509, 0.298228377673744755),
    (60.0, -0.3, 0.0104393411272253904, 0.0168081332817057579),
    (60.0, -1.2, 1.32794714943296095e-18, 0.0168081332817057579),
    (2000.0, -0.05, 0.0126858702959802992, 0.000500125067763078868),
]


# the ends of a truncated normal number, its mean, variance and entropy, likewise: far out, narrow, beside the peak
CUT = [
    (30.0, np.inf, 30.033259667433677, 0.001103771511890091, -2.4034104116333688),
    (1.0, 1.001, 1.0004999166250041, 8.3333326384703421e-8, -6.9077553206905878),
    (-40.0, -35.0, -35.028524970596688, 0.00081235516838263269, -2.556975743275803),
    (-2.0, 3.0, 0.050782989674878974, 0.87314863997540568, 1.3324071216576477),
    (-np.inf, -200.0, -200.00499975003124, 2.4996250781047718e-5, -4.2983673618613073),
    (1e4, np.inf, 10000.000099999998, 9.99999940000005e-9, -8.210340391976182),
]


@pytest.mark.parametrize(("low", "high", "mean", "var", "entropy"), CUT)
def test_moments_of_a_truncated_normal_number(low: float, high: float, mean: float, var: float, entropy: float) -> None:
    """They keep 12 digits in float64 and 6 in float32, where densities at the ends would cancel; derivatives are right."""
    ends = (np.float64(low), np.float64(high))
    single = (np.float32(low), np.float32(high))
    for name, want in (("mean", mean), ("var", var), ("entropy", entropy)):
        moment = getattr(stats.truncnorm, name)
        np.testing.assert_allclose(moment(*ends), want, rtol=1e-13)
        if (low, high) != (1.0, 1.001):  # which float32 does not hold
            np.testing.assert_allclose(moment(*single), want, rtol=1e-6)
            assert moment(*single).dtype == np.float32
    if np.isfinite(low):  # d mean / d low = density(low) (mean - low), of the truncated density
        slope = afx.grad(lambda x: stats.truncnorm.mean(x, ends[1]))(ends[0])
        np.testing.assert_allclose(slope, stats.truncnorm.pdf(ends[0], *ends) * (mean - low), rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize(("a", "x", "want", "logarithm"), SKEWED)
def test_skew_normal_numbers(a: float, x: float, want: float, logarithm: float) -> None:
    """Distribution functions have 12 digits in the lighter tail too, on both sides; densities and entropy are right."""
    compare(stats.skewnorm.logcdf(np.float64(x), a), logarithm)
    compare(stats.skewnorm.logsf(np.float64(-x), -a), logarithm)
    assert float(stats.skewnorm.ppf(np.float64(want), a)) == pytest.approx(x, rel=1e-11)
    compare(stats.skewnorm.logpdf(x, np.float64(a)), scipy.stats.skewnorm.logpdf(x, a))
    compare(stats.skewnorm.entropy(np.array([3.0, -1.5])), [0.95283496904081353, 1.1209417179448092])


@pytest.mark.parametrize(("kappa", "x", "want", "variance"), WOUND)
def test_angles(kappa: float, x: float, want: float, variance: float) -> None:
    """The distribution function is mpmath's, grows by 1 with each turn, and has its inverse and its moments."""
    compare(stats.vonmises.cdf(np.array([x, x + 4 * np.pi]), kappa), [want, want + 2])
    compare(stats.vonmises.sf(np.float64(-x), kappa), want)
    assert float(stats.vonmises.ppf(np.float64(want), kappa)) == pytest.approx(x, rel=1e-12)
    compare(stats.vonmises.var(np.float64(kappa)), variance)
    compare(stats.vonmises.logpdf(np.float64(x), kappa), scipy.stats.vonmises.logpdf(x, kappa))
    compare(stats.vonmises.entropy(np.float64(kappa)), scipy.stats.vonmises.entropy(kappa))


@together(("name", "parameters"), cases(ALL_CONTINUOUS | ALL_DISCRETE))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # SciPy's own where there is no mean
def test_means_variances_and_entropies(name: str, parameters: tuple[float, ...]) -> None:
    """They are SciPy's to 12 digits, moved and scaled, inf and nan where there are none; so are medians and intervals."""
    distribution, peer = getattr(stats, name), getattr(scipy.stats, name)
    place = {"loc": np.float64(2.0)} | ({} if name in ALL_DISCRETE else {"scale": np.float64(1.5)})
    for method in ("mean", "var", "std", "entropy", "median"):
        if name == "vonmises" and method in ("var", "std"):
            continue  # SciPy's are slow, and have five digits
        if (name, method) == ("truncnorm", "entropy") and np.isinf(parameters).any():
            continue  # SciPy has none
        found = getattr(distribution, method)(*parameters, **place)
        np.testing.assert_allclose(found, getattr(peer, method)(*parameters, **place), rtol=1e-11, atol=1e-14)
    found = distribution.interval(0.8, *parameters, **place)
    compare(np.array([float(x) for x in found]), peer.interval(0.8, *parameters, **place))


@together(("name", "parameters"), cases(ALL_CONTINUOUS | ALL_DISCRETE))
def test_quantiles_of_complements(name: str, parameters: tuple[float, ...]) -> None:
    """`isf` undoes `sf` to the digits of small probabilities, and has the ends of the support at 0 and 1."""
    distribution, peer = getattr(stats, name), getattr(scipy.stats, name)
    q = np.array([0.9, 0.5, 0.1])
    np.testing.assert_allclose(distribution.isf(q, *parameters), peer.isf(q, *parameters), rtol=1e-12, atol=1e-14)
    if name not in ALL_DISCRETE and name not in (
        "uniform",
        "beta",
        "truncnorm",
        "vonmises",
        "wrapcauchy",
    ):  # numbers end there
        small = np.array([1e-3, 1e-12])
        np.testing.assert_allclose(distribution.sf(distribution.isf(small, *parameters), *parameters), small, rtol=1e-9)
    compare(distribution.isf(np.array([0.0, np.nan]), *parameters), peer.isf(np.array([0.0, np.nan]), *parameters))


POINTS = {name: row for name, row in RARE.items() if name != "bernoulli"}


@pytest.mark.parametrize("name", POINTS)
def test_derivatives(name: str) -> None:
    """By the argument and every parameter, of every function and number of a law, forward and backward."""
    law, point = getattr(stats, name), [np.float64(v) for v in POINTS[name]]
    for method in ("logpdf", "logcdf", "logsf"):
        afx.testing.check_grads(getattr(law, method), tuple(point), order=1)
    for method in ("ppf", "isf"):
        afx.testing.check_grads(getattr(law, method), (np.float64(0.37), *point[1:]), order=1)
    if name != "halfcauchy":
        afx.testing.check_grads(
            lambda *p: afx.stack([law.mean(*p), law.var(*p), law.entropy(*p)]), tuple(point[1:]), order=1
        )


def test_second_derivatives_of_inverted_quantiles() -> None:
    """Newton's steps that end an inversion carry second derivatives: ``-f' / f³`` by the probability."""
    q, kappa = np.float64(0.3), 2.0
    x, f = float(stats.vonmises.ppf(q, kappa)), float(stats.vonmises.pdf(stats.vonmises.ppf(q, kappa), kappa))
    found = afx.jit(afx.grad(afx.grad(lambda q: stats.vonmises.ppf(q, kappa))))(q)
    assert float(found) == pytest.approx(kappa * np.sin(x) / f**2, rel=1e-10)


def test_draws() -> None:
    """Draws follow their law (Kolmogorov and Smirnov), the same for a key, compiled, of parameters' shape, differentiable."""
    key = afx.random.key(5)
    for name, row in {
        **{k: v[0] for k, v in NEW.items()},
        "skewnorm": (3.0,),
        "vonmises": (4.0,),
        "norm": (),
        "t": (3.0,),
    }.items():
        law = getattr(stats, name)
        x = np.asarray(law.rvs(key, 400, *row, scale=np.float64(1.5)))
        assert x.shape == (400,)
        assert scipy.stats.kstest(x, lambda v, law=law, row=row: np.asarray(law.cdf(v, *row, scale=1.5))).pvalue > 1e-3
    counts = np.asarray(stats.poisson.rvs(key, 2000, np.float64(3.0)))
    assert counts.mean() == pytest.approx(3, abs=0.15)
    assert (counts % 1 == 0).all()
    assert stats.gamma.rvs(key, None, np.array([1.0, 2.0, 3.0])).shape == (3,)
    drawn = afx.jit(lambda a: stats.gamma.rvs(key, (4,), a))(np.float64(2.0))
    np.testing.assert_allclose(drawn, np.asarray(stats.gamma.rvs(key, (4,), np.float64(2.0))), rtol=1e-13)
    afx.testing.check_grads(lambda a: stats.gamma.rvs(key, (4,), a), (np.float64(2.0),), order=1)


FITS: dict[str, tuple[tuple[float, ...], dict[str, float], dict[str, float]]] = {
    "norm": ((), {}, {}),
    "t": ((4.0,), {}, {}),
    "gamma": ((2.5,), {"loc": 0.0}, {"floc": 0.0}),
    "weibull_min": ((1.7,), {}, {"floc": 0.0}),
    "beta": ((2.0, 5.0), {}, {"floc": 0.0, "fscale": 1.0}),
    "gumbel_r": ((), {}, {}),
    "invgamma": ((3.0,), {}, {"floc": 0.0}),
    "vonmises": ((2.0,), {"scale": 1.0}, {"fscale": 1.0}),
    "lognorm": ((0.6,), {"scale": 1.0}, {"floc": 0.0, "fscale": 1.0}),
}


@pytest.mark.parametrize("name", FITS)
def test_fits(name: str, rng: np.random.Generator) -> None:
    """The likelihood is at least that of SciPy's fit, and parameters are the same to its precision."""
    shapes, fixed, theirs = FITS[name]
    peer = getattr(scipy.stats, name)
    x = peer.rvs(*shapes, size=200, random_state=rng)
    found = getattr(stats, name).fit(x, **fixed)
    want = peer.fit(x, *shapes, **theirs)
    own = [float(v) for v in found.values()]
    assert peer.logpdf(x, *own).sum() >= peer.logpdf(x, *want).sum() - 1e-9
    np.testing.assert_allclose(own, want, rtol=2e-3, atol=2e-3)


def test_fits_of_whole_numbers_and_mistakes(rng: np.random.Generator) -> None:
    """Poisson's and binomial fits are means; data have a say by derivatives; what cannot be fitted is named."""
    k = rng.poisson(3.0, 50)
    assert float(stats.poisson.fit(k)["mu"]) == pytest.approx(k.mean(), rel=1e-6)
    assert float(stats.binom.fit(k, n=20)["p"]) == pytest.approx(k.mean() / 20, rel=1e-6)
    assert float(stats.bernoulli.fit(np.array([0, 1, 1, 1]))["p"]) == pytest.approx(0.75, rel=1e-6)
    x = rng.normal(size=20)
    slope = afx.grad(lambda x: stats.norm.fit(x)["loc"])(x)
    np.testing.assert_allclose(slope, np.full(20, 1 / 20), rtol=1e-6)
    for wrong, message in (
        (lambda: stats.binom.fit(k), "binom.fit: n is not fitted"),
        (lambda: stats.norm.fit(x, mu=1.0), "there is no parameter 'mu'"),
        (lambda: stats.uniform.fit(x), "nothing is left to fit"),
        (lambda: stats.truncnorm.fit(x), "truncnorm.fit"),
        (
            lambda: stats.gamma.fit(x),
            r"outside of the support .*got x\[\d+\] = -0\..*, and the support \[0, inf\); .*loc=",
        ),
    ):
        with pytest.raises(afx.errors.ArgumentError, match=message):
            wrong()


def test_entropies_of_many_numbers() -> None:
    """A wide law's sum takes every so many numbers: the entropy is that of the normal law it comes near to."""
    n = 1e7
    wide = stats.binom.entropy(np.float64(n), 0.5)
    assert float(wide) == pytest.approx(0.5 * math.log(math.pi * math.e * n / 2), rel=1e-8)
    p = scipy.stats.poisson.pmf(np.arange(30), 0.3)
    by_series = 0.5 * math.log(2 * math.pi * math.e * 1e6) - 1 / 12e6  # the next term is 1 / 24e12
    found = stats.poisson.entropy(np.array([0.3, 1e6]))
    np.testing.assert_allclose(found, [-(p * np.log(p)).sum(), by_series], rtol=1e-11)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-13), ("float32", 2e-6), ("float16", 1e-3)])
def test_skewed_tails_keep_their_digits(dtype: str, tolerance: float) -> None:
    """Logarithms near 0 and far out, of either tail, in every dtype (mpmath, 60 digits, quadrature in small pieces)."""
    cases = [(-30.0, -9.0, -42.93500193277217), (-3.0, 3.0, -3.264274309655235e-23), (0.3, 6.0, -1.909100113317252e-09)]
    for slant, x, want in cases:
        got = stats.skewnorm.logcdf(np.asarray(x, dtype), np.asarray(slant, dtype))
        mirrored = stats.skewnorm.logsf(np.asarray(-x, dtype), np.asarray(-slant, dtype))
        if abs(want) > np.finfo(dtype).tiny:
            for value in (got, mirrored):
                assert abs(float(value) - want) <= tolerance * abs(want)


def test_a_whole_turn_of_float32() -> None:
    """It is a little above 2π, and there as everywhere a probability is from 0 to 1."""
    turn, c = np.float32(2 * np.pi), np.float32(0.99)
    assert stats.wrapcauchy.cdf(turn, c) == 1
    assert stats.wrapcauchy.sf(turn, c) == stats.wrapcauchy.logcdf(turn, c) == 0
    assert stats.wrapcauchy.logsf(turn, c) == -np.inf


def test_small_shapes_of_betabinom() -> None:
    """They keep their digits beside the number of trials."""
    for dtype, b in ((np.float32, 1e-3), (np.float64, 1e-9)):
        np.testing.assert_allclose(
            stats.betabinom.logpmf(dtype(1), 1, dtype(1), dtype(b)), -np.log1p(b), atol=64 * np.finfo(dtype).eps
        )


def test_far_tails_of_t() -> None:
    """Where squares overflow the probability does not vanish; numbers of mpmath."""
    for dtype, rtol, tail in ((np.float32, 1e-6, 2.2774904536454056e-4), (np.float64, 1e-13, 2.277490460870073e-4)):
        x, df = dtype(1e26), dtype(0.125)
        for value, expected in ((stats.t.cdf(-x, df), tail), (stats.t.sf(x, df), tail), (stats.t.cdf(x, df), 1 - tail)):
            assert value.dtype == dtype
            np.testing.assert_allclose(value, expected, rtol=rtol)
        np.testing.assert_allclose(stats.t.logcdf(x, df), np.log1p(-tail), rtol=rtol)
    np.testing.assert_allclose(stats.t.sf(1e160, np.float64(1.0)), 1 / (np.pi * 1e160), rtol=1e-12)
    slopes = afx.grad(stats.t.sf, argnums=(0, 1))(np.float64(1e26), np.float64(0.125))
    density = stats.t.pdf(np.float64(1e26), np.float64(0.125))
    np.testing.assert_allclose(slopes[0], -density, rtol=1e-12)
    steps = [float(stats.t.sf(1e26, np.float64(0.125 + h))) for h in (-1e-6, 1e-6)]
    np.testing.assert_allclose(slopes[1], (steps[1] - steps[0]) / 2e-6, rtol=1e-6)
