"""Incomplete gamma and beta functions, Student's distribution function and beta functions without SciPy's loops."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import afx
from afx import export, special, stats
from afx.ops.special._shares import beta_shares, gamma_shares

pytest.importorskip("llvmlite", reason="machine code is an extra")
scipy_special = pytest.importorskip("scipy.special", reason="the reference is SciPy's")
mp = pytest.importorskip("mpmath", reason="the exact values are mpmath's")

RNG = np.random.default_rng(7)
INF, NAN = np.inf, np.nan


def portable(fn: Any, *xs: Any) -> list[Any]:
    """Return the results of portable code as ndarrays."""
    return [np.asarray(z) for z in afx.pytree.leaves(afx.jit(fn, backend="portable")(*xs))]


def fraction(steps: Any) -> Any:
    """Return a continued fraction of mpmath's numbers by Lentz's method, from pairs of numerators and denominators."""
    tiny = mp.mpf(10) ** -300
    z = c = tiny
    d = mp.mpf(0)
    for top, bottom in steps:
        d = 1 / ((bottom + top * d) or tiny)
        c = (bottom + top / c) or tiny
        z *= c * d
        if abs(c * d - 1) < mp.mpf(2) ** -120:
            break
    return z


def exact_gamma(a: Any, x: Any) -> tuple[Any, Any]:
    """Return both shares: the lower one by Taylor's series, or the upper one by Legendre's fraction."""
    front = mp.exp(a * mp.log(x) - x - mp.loggamma(a))
    if x > a + 1:
        z = front * fraction((-k * (k - a) if k else 1, x + 2 * k + 1 - a) for k in itertools.count())
        return 1 - z, z
    one = 1 << 220  # of integers: a third of a million terms of mpmath's numbers take seconds
    step, divisor = (int(mp.ldexp(v, 220)) for v in (x, a))
    term = total = one
    while term:
        divisor += one
        term = term * step // divisor
        total += term
    lower = front * mp.ldexp(total, -220) / a
    return lower, 1 - lower


def exact_beta(a: Any, b: Any, x: Any) -> tuple[Any, Any]:
    """Return both shares, the one of which the fraction converges first (DLMF 8.17.22)."""
    if x > (a + 1) / (a + b + 2):
        other, share = exact_beta(b, a, 1 - x)
        return share, other

    def steps() -> Iterator[tuple[Any, Any]]:
        yield mp.mpf(1), mp.mpf(1)
        for k in itertools.count():
            yield -(a + k) * (a + b + k) * x / ((a + 2 * k) * (a + 2 * k + 1)), mp.mpf(1)
            yield (k + 1) * (b - k - 1) * x / ((a + 2 * k + 1) * (a + 2 * k + 2)), mp.mpf(1)

    logarithm = mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)
    z = mp.exp(a * mp.log(x) + b * mp.log(1 - x) - logarithm) / a * fraction(steps())
    return z, 1 - z


def sizes(low: float, high: float, n: int) -> Any:
    """Return numbers of all sizes between two."""
    return np.exp(RNG.uniform(np.log(low), np.log(high), n))


def check(exact: Any, shares: Any, *xs: Any) -> None:
    """Compare both shares with mpmath's, to 1e-12 of each that is no smaller than 1e-290."""
    with np.errstate(all="ignore"):
        found = np.array(shares(*xs)).T
    with mp.workprec(220):
        want = np.array([[float(z) for z in exact(*map(mp.mpf, row))] for row in zip(*xs, strict=True)])
    np.testing.assert_allclose(found, want, rtol=1e-12, atol=1e-290)


def test_gamma_shares_are_mpmaths() -> None:
    """In the middle, in tails and near 0, of parameters from 1e-12 to a million, and some beyond."""
    n = 1200
    a = sizes(1e-12, 1e6, n)
    near = np.abs(a + RNG.normal(size=n) * np.sqrt(a) * RNG.choice([0.01, 1, 6, 25], n)) + 1e-300
    check(exact_gamma, gamma_shares, a, np.where(RNG.random(n) < 0.6, near, sizes(1e-30, 1e3, n)))
    a = np.array([3e8, 3e8, 3e8, 1e9, 1e-30, 1e-30, 0.5, 1.0, 1.0])
    check(exact_gamma, gamma_shares, a, [3e8, 3e8 - 7e4, 3e8 + 3e5, 1e9 + 1, 1e-300, 3.0, 5e-324, 1.0, 1 + 1e-15])


def test_beta_shares_are_mpmaths() -> None:
    """In the middle, in tails and near both ends, of parameters from 1e-12 to a million, and some beyond."""
    n = 1200
    a, b = np.where(RNG.random((2, n)) < 0.5, sizes(1e-12, 1e6, 2 * n).reshape(2, n), sizes(1e-2, 1e2, n))
    middle = a / (a + b)
    spread = np.sqrt(middle * (1 - middle) / (a + b + 1))
    x = middle + spread * RNG.normal(size=n) * RNG.choice([0.01, 1, 6, 20], n)
    x = np.choose(RNG.integers(5, size=n), [x, x, RNG.random(n), sizes(1e-30, 1, n), 1 - sizes(1e-15, 1, n)])
    check(exact_beta, beta_shares, a, b, np.where((x <= 0) | (x >= 1), RNG.random(n), x))
    a, b = [1e10, 1e10, 1e12, 7e11, 0.5, 1e-6, 1e-290, 200.0], [1e10, 1e10, 3.0, 1.6e6, 3e11, 1.0, 1e-290, 1e-9]
    x = [0.5, 0.50002, 1 - 2e-12, 0.9999976901215119, 1e-10, 1e-7, 0.3, 1 - 1e-12]
    check(exact_beta, beta_shares, np.array(a), np.array(b), np.array(x))


@pytest.mark.parametrize("name", ["gamma", "beta"])
def test_densities_are_mpmaths(name: str) -> None:
    """In portable code, to 1e-12, of parameters from 1e-6 to a million: far in tails their logarithms."""
    n = 300
    a, b = sizes(1e-6, 1e6, 2 * n).reshape(2, n)
    middle = a / (a + b) if name == "beta" else a
    spread = np.sqrt(middle * (1 - middle) / (a + b + 1)) if name == "beta" else np.sqrt(a)
    x = np.abs(middle + spread * RNG.normal(size=n) * RNG.choice([0.1, 1, 6], n)) + 1e-200
    x = np.where(x >= 1, RNG.random(n), x) if name == "beta" else x
    with mp.workprec(220):
        p, q, y = [[*map(mp.mpf, row)] for row in (a, b, x)]
        log_gamma = mp.loggamma
        if name == "gamma":
            want = [(s - 1) * mp.log(t) - t - log_gamma(s) for s, t in zip(p, y, strict=True)]
        else:
            rows = zip(p, q, y, strict=True)
            want = [
                (s - 1) * mp.log(t) + (r - 1) * mp.log(1 - t) + log_gamma(s + r) - log_gamma(s) - log_gamma(r)
                for s, r, t in rows
            ]
        exact, right = [[float(f(z)) for z in want] for f in (mp.exp, lambda z: z)]
    law, xs = (stats.gamma, (x, a)) if name == "gamma" else (stats.beta, (x, a, b))
    np.testing.assert_allclose(portable(law.pdf, *xs)[0], exact, rtol=1e-12, atol=1e-290)
    np.testing.assert_allclose(portable(law.logpdf, *xs)[0], right, rtol=1e-12, atol=1e-14)


LIMITS: dict[str, list[tuple[float, ...]]] = {
    "gammainc": [
        (0, 0), (0, 1), (INF, 1), (1, INF), (INF, INF), (-1, 1), (1, -1), (1, 0), (2, NAN), (NAN, 1), (0.5, 1.0),
    ],
    "betainc": [
        (0, 1, 0.5), (1, 0, 0.5), (0, 0, 0.5), (INF, 1, 0.5), (1, INF, 0.5), (INF, INF, 0.5), (1, 1, 0), (1, 1, 1),
        (1, 1, -1), (1, 1, 2), (-1, 1, 0.5), (1, 1, NAN), (0, 1, 0), (0, 1, 1), (1, 0, 1), (1, 0, 0), (2, 3, 0.25),
    ],
    "betaln": [
        (INF, 2), (INF, INF), (0, 1), (-2, 1), (-2, 2), (-2, 3), (-2, 1.5), (-2, -1), (-1.5, 0.5), (-1.5, 1.5), (NAN, 1),
        (0, 0), (-0.5, -0.5), (150, 200), (-2.5, 3.3), (99, 0.5), (1e5, 1e-3), (101, 1e6), (3, 1e9),
    ],
    "beta": [(-2, 1), (-2, 2), (-2, 3), (-1.5, 0.5), (INF, 2), (0, 1), (-2.5, 3.3), (99, 0.5), (150, 200)],
    "stdtr": [
        (1, 0), (3, -INF), (0, 1), (-1, 1), (INF, -2), (2.5, INF), (INF, NAN), (1e10, -3), (2, -1e-200), (2, 1e-9), (0.3, -40),
        (3, 1.5), (3, -1.5), (1e3, -30.0), (1, -1e200),
    ],
}  # fmt: skip
LIMITS |= {"gammaincc": LIMITS["gammainc"], "betaincc": LIMITS["betainc"]}


@pytest.mark.parametrize("names", [("gammainc", "gammaincc"), ("betainc", "betaincc"), ("beta", "betaln"), ("stdtr",)])
def test_limits_are_scipys(names: tuple[str, ...]) -> None:
    """Portable code gives SciPy's values (eager ones of betaln), in float32 too, at poles, ends, infinities and nan."""
    points = [np.array(LIMITS[name], np.float64).T for name in names]
    same = all(np.array_equal(xs, points[0], equal_nan=True) for xs in points)  # then both are made of one

    def fn(points: Any) -> list[Any]:
        return [getattr(special, name)(*points[0 if same else k]) for k, name in enumerate(names)]

    with np.errstate(all="ignore"):
        doubles, singles = portable(fn, points), portable(fn, [xs.astype(np.float32) for xs in points])
        for name, xs, found, single in zip(names, points, doubles, singles, strict=True):
            want = np.asarray(special.betaln(*xs)) if name == "betaln" else getattr(scipy_special, name)(*xs)
            np.testing.assert_allclose(found, want, rtol=1e-12, atol=1e-300, err_msg=name)
            np.testing.assert_allclose(single, want.astype(np.float32), rtol=1e-5, atol=1e-37, err_msg=name)


def test_laws_have_portable_distribution_functions() -> None:
    """Densities and distribution functions of what these functions make, with derivatives, in portable code and C."""
    x = np.array([0.05, 0.4, 0.9])

    def laws(x: Any) -> list[Any]:
        return [
            stats.gamma.cdf(x, 2.5), stats.chi2.sf(x, 3), stats.beta.cdf(x, 0.5, 1.5), stats.beta.logpdf(x, 0.5, 1.5),
            stats.t.cdf(x - 0.5, 3), stats.t.sf(x, 2.5), stats.poisson.cdf(10 * x, 4.5), stats.binom.cdf(10 * x, 12, 0.3),
            stats.binom.logpmf([1, 2, 5], 12, x), stats.f.cdf(x, 3, 4.5), stats.nbinom.pmf([0, 1, 5], 2.5, x),
        ]  # fmt: skip

    want = [np.asarray(z) for z in laws(x)]
    for z, right in zip(portable(laws, x), want, strict=True):
        np.testing.assert_allclose(z, right, rtol=1e-12)
    for z, right in zip(export.compile(laws, x, name="laws")(x), want, strict=True):
        np.testing.assert_allclose(np.asarray(z), right, rtol=1e-12)

    def slope(x: Any) -> Any:
        return afx.grad(lambda x: afx.sum(stats.gamma.cdf(x, 2.5) + stats.beta.cdf(x, 2.0, 1.5) + stats.t.cdf(x, 3)))(x)

    np.testing.assert_allclose(portable(slope, x)[0], np.asarray(slope(x)), rtol=1e-12)

    def by_parameter(a: Any) -> Any:
        return afx.grad(lambda a: afx.sum(stats.beta.logpdf(x, a, 1.5) + stats.gamma.logpdf(x, a)))(a)

    np.testing.assert_allclose(portable(by_parameter, np.float64(2.5))[0], by_parameter(np.float64(2.5)), rtol=1e-12)


def test_shapes_broadcast_and_may_be_empty() -> None:
    """A number beside rows, and arrays without elements."""
    a, x = np.array([[0.5], [3.0]]), np.array([0.1, 1.0, 5.0])
    np.testing.assert_allclose(portable(special.gammainc, a, x)[0], scipy_special.gammainc(a, x), rtol=1e-12)
    np.testing.assert_allclose(
        portable(lambda x: special.betainc(2.0, a, x / 6), x)[0], scipy_special.betainc(2, a, x / 6)
    )
    assert portable(special.gammainc, a, np.zeros((2, 0)))[0].shape == (2, 0)
    assert portable(special.gammainc, 2.5, 1.0)[0] == pytest.approx(scipy_special.gammainc(2.5, 1.0), rel=1e-13)


EXTREME = [0.0, -1.0, -2.0, -2.5, 0.5, 1e-310, -1e-310, 1e16, 1e300, INF, -INF, NAN]


def test_extreme_beta_functions_are_scipys_or_mpmaths() -> None:
    """Poles, denormals, huge parameters, infinities and nan: SciPy's values where it has one, else mpmath's."""
    a, b = np.array(list(itertools.product(EXTREME, repeat=2))).T
    for name, got in zip(
        ("beta", "betaln"), portable(lambda a, b: (special.beta(a, b), special.betaln(a, b)), a, b), strict=True
    ):
        check_extremes(name, a, b, got)


def check_extremes(name: str, a: Any, b: Any, got: Any) -> None:
    """Compare results with SciPy's values, or mpmath's."""
    with np.errstate(all="ignore"), mp.workdps(330):
        for x, y, z, known in zip(a, b, got, getattr(scipy_special, name)(a, b), strict=True):
            want = known
            if np.isfinite(x) and np.isfinite(y) and (np.isnan(known) or {x, y} & {1e-310, -1e-310, 1e300}):
                exact = mp.beta(x, y)
                want = float(exact if name == "beta" else mp.log(abs(exact)))
            elif np.isnan(known) and INF in (x, y) and x + y > 0 and x != y:
                want = 0.0 if name == "beta" else -INF
            if x <= 0.0 and y <= 0.0 and np.isinf(want):
                z, want = abs(z), INF  # whose sign is none: SciPy's turns with the order
            np.testing.assert_allclose(z, want, rtol=1e-12, err_msg=f"{name} of {x}, {y}")


def test_shares_of_huge_and_tiny_parameters() -> None:
    """Of two huge or tiny parameters the ratio counts; beside a huge one its product with a tiny x."""
    a, b, x, want = np.array(
        [
            (1e308, 1e300, 0.5, 0.0),
            (1e295, 1e300, 0.5, 1.0),
            (0.5, 1e308, 1e-310, 0.11246291601828489),  # erf(sqrt(b x))
            (0.5, 1e300, 1e-310, 1.1283791670578983e-05),
            (1e-300, 3e-300, 0.5, 0.75),
            (5e-324, 5e-324, 1e-310, 0.5),
        ]
    ).T
    both = portable(lambda *xs: (special.betainc(*xs), special.betaincc(*xs)), a, b, x)
    for name, found, shares in zip(("betainc", "betaincc"), both, (want, 1.0 - want), strict=True):
        np.testing.assert_allclose(found, shares, rtol=1e-12, atol=1e-15, err_msg=name)
