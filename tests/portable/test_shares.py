"""Incomplete gamma and beta functions, Student's distribution function and beta functions without SciPy's loops."""

from __future__ import annotations

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


@pytest.mark.parametrize(("low", "high", "rtol"), [(1e-6, 1, 1e-13), (1, 100, 3e-13), (100, 1e4, 2e-11)])
def test_gamma_shares_on_both_sides(low: float, high: float, rtol: float) -> None:
    """In the middle, in tails and near 0: SciPy's values, which have eleven digits of large parameters' tails."""
    a = np.exp(RNG.uniform(np.log(low), np.log(high), 3000))
    x = np.abs(a + RNG.normal(size=3000) * np.sqrt(a) * RNG.choice([0.1, 1, 5, 20], 3000))
    x = np.where(RNG.random(3000) < 0.3, np.exp(RNG.uniform(-20, 6, 3000)), x)
    with np.errstate(all="ignore"):
        share, other = gamma_shares(a, x)
    np.testing.assert_allclose(share, scipy_special.gammainc(a, x), rtol=rtol, atol=1e-280)
    np.testing.assert_allclose(other, scipy_special.gammaincc(a, x), rtol=rtol, atol=1e-280)


def test_gamma_shares_are_mpmaths() -> None:
    """To 3e-14 of moderate numbers."""
    a, x = RNG.uniform(0.05, 40, 60), RNG.uniform(0.01, 60, 60)
    with mp.workprec(200):
        want = [float(mp.gammainc(float(p), 0, float(y), regularized=True)) for p, y in zip(a, x, strict=True)]
        rest = [float(mp.gammainc(float(p), float(y), mp.inf, regularized=True)) for p, y in zip(a, x, strict=True)]
    with np.errstate(all="ignore"):
        share, other = gamma_shares(a, x)
    np.testing.assert_allclose(share, want, rtol=3e-14)
    np.testing.assert_allclose(other, rest, rtol=3e-14)


@pytest.mark.parametrize(("low", "high", "rtol"), [(0.01, 1, 1e-13), (0.5, 30, 3e-13), (30, 1e4, 1e-11)])
def test_beta_shares_on_both_sides(low: float, high: float, rtol: float) -> None:
    """In the middle and in tails: SciPy's values."""
    a, b = np.exp(RNG.uniform(np.log(low), np.log(high), (2, 3000)))
    middle = a / (a + b)
    near = middle + RNG.normal(size=3000) * np.sqrt(middle * (1 - middle) / (a + b + 1)) * RNG.choice([0.1, 1, 5], 3000)
    x = np.where((RNG.random(3000) < 0.3) | (near <= 0) | (near >= 1), RNG.random(3000), near)
    with np.errstate(all="ignore"):
        share, other = beta_shares(a, b, x)
    np.testing.assert_allclose(share, scipy_special.betainc(a, b, x), rtol=rtol, atol=1e-280)
    np.testing.assert_allclose(other, scipy_special.betaincc(a, b, x), rtol=rtol, atol=1e-280)


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


@pytest.mark.parametrize("name", LIMITS)
def test_limits_are_scipys(name: str) -> None:
    """Portable code gives SciPy's values (eager ones of betaln), in float32 too, at poles, ends, infinities and nan."""
    xs = np.array(LIMITS[name], np.float64).T
    with np.errstate(all="ignore"):
        want = np.asarray(special.betaln(*xs)) if name == "betaln" else getattr(scipy_special, name)(*xs)
        (found,) = portable(getattr(special, name), *xs)
        (single,) = portable(getattr(special, name), *xs.astype(np.float32))
    np.testing.assert_allclose(found, want, rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(single, want.astype(np.float32), rtol=1e-5, atol=1e-37)


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
