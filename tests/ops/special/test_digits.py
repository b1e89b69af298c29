"""Digits of special functions where their parts cancel or overflow, beside mpmath."""

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np

import afx
from afx import special
from afx.core.primitive import lookup
from tests.ops.samples import together


def _formula(name: str) -> Callable[..., Any]:
    formula = lookup(name).lowering.formula
    assert formula is not None
    return formula


@together("dtype", ["float32", "float64"])
@together("gap", [1e-7, 1e-4, 0.01, 0.3, -0.49, 0.51, 0.99, 5.0, 1e4])
@together("name", ["kl_div", "rel_entr"])
def test_divergences_of_close_numbers_keep_their_digits(
    name: str, gap: float, dtype: str, rng: np.random.Generator
) -> None:
    """Values and slopes of y near x, and far from it, are right to some last digits, beside mpmath."""
    with mpmath.workdps(50):
        x = np.exp(rng.normal(0, 5, 50)).astype(dtype)
        y = (x * (1 + gap)).astype(dtype)
        pairs = [(mpmath.mpf(float(a)), mpmath.mpf(float(b))) for a, b in zip(x, y, strict=True)]
        is_kl = name == "kl_div"
        values = [float(a * mpmath.log(a / b) + (b - a if is_kl else 0)) for a, b in pairs]
        by_x = [float(mpmath.log(a / b) + (not is_kl)) for a, b in pairs]
        by_y = [float((b - a) / b if is_kl else -a / b) for a, b in pairs]
    fn = getattr(special, name)
    tolerance = 10 * np.finfo(dtype).eps
    np.testing.assert_allclose(fn(x, y), values, rtol=tolerance)
    np.testing.assert_allclose(afx.jit(fn, backend="portable")(x, y), fn(x, y), rtol=tolerance)
    slopes = afx.grad(lambda x, y: fn(x, y).sum(), argnums=(0, 1))(x, y)
    np.testing.assert_allclose(slopes[0], by_x, rtol=tolerance)
    np.testing.assert_allclose(slopes[1], by_y, rtol=tolerance)


def test_exprel_is_finite_as_far_as_it_is() -> None:
    """Where exp(t) is no number but its quotient is, that and its slope are given, beside mpmath; beyond, inf."""
    for t in (700.5, 709.5, 712.0, 716.0):
        with mpmath.workdps(50):
            exact, slope = (float(mpmath.diff(lambda t: mpmath.expm1(t) / t, t, n)) for n in (0, 1))
        np.testing.assert_allclose(special.exprel(np.float64(t)), exact, rtol=1e-14)
        np.testing.assert_allclose(afx.grad(special.exprel)(np.float64(t)), slope, rtol=1e-13)
    assert np.isinf(np.asarray(special.exprel(np.array([717.0, np.inf])))).all()


def test_the_slope_of_dawsons_integral_far_out() -> None:
    """The derivative keeps its digits where 1 and 2 x D(x) are nearly equal."""
    for x in (9.99, 10.01, 25.0, 50.0):
        with mpmath.workdps(1500):
            exact = float(
                1 - mpmath.mpf(x) * mpmath.sqrt(mpmath.pi) * mpmath.exp(-(mpmath.mpf(x) ** 2)) * mpmath.erfi(x)
            )
        np.testing.assert_allclose(afx.grad(special.dawsn)(np.float64(x)), exact, rtol=2e-14)
    np.testing.assert_allclose(afx.grad(special.dawsn)(np.float64(1e8)), -5e-17, rtol=1e-14)


@together("dtype", ["float32", "float64"])
@together("name", ["asinh", "atanh", "cbrt", "erfinv", "expm1", "log1p", "sinh", "tan"])
def test_formulas_keep_tiny_arguments_and_signs_of_zeros(name: str, dtype: str) -> None:
    """What stands in for an operation has its value where that is denormal, or a zero of either sign."""
    least = float(np.finfo(dtype).tiny)
    sizes = np.array([0.0, least / 7, least, 3 * least, 1e-30, 1e-21, 1e-19, 1e-8], dtype)
    x = afx.asarray(np.concatenate([sizes, -sizes]))
    fn = getattr(special if hasattr(special, name) else afx, name)
    with np.errstate(all="ignore"):
        found, want = np.asarray(_formula(name)(x)).astype(dtype), np.asarray(fn(x))
    np.testing.assert_allclose(found, want, rtol=100 * np.finfo(dtype).eps, atol=0)  # powers of 1e-308 lose two digits
    np.testing.assert_array_equal(np.signbit(found), np.signbit(want))


def test_the_reciprocal_of_gamma_near_zero() -> None:
    """It is x of tiny numbers, whose gamma function is too large for a number."""
    x = np.array([0.0, -0.0, 5e-324, -1e-310, 1e-300, -1e-21])
    for run in (_formula("rgamma"), afx.jit(special.rgamma, backend="portable")):
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(np.asarray(run(afx.asarray(x))).view(np.int64), x.view(np.int64))


def test_angles_of_zeros_keep_their_signs() -> None:
    """The formula of atan2 has C's zeros, and its halves and whole turns of either sign."""
    values = np.array([0.0, -0.0, 1.0, -1.0, 1e-310, -1e-310, np.inf, -np.inf, np.nan])
    y, x = (afx.asarray(v.ravel()) for v in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        found, want = np.asarray(_formula("atan2")(y, x)), np.arctan2(np.asarray(y), np.asarray(x))
    np.testing.assert_allclose(found, want, rtol=1e-15, atol=0)
    np.testing.assert_array_equal(np.signbit(found[~np.isnan(want)]), np.signbit(want[~np.isnan(want)]))


def test_the_scaled_tail_of_huge_numbers() -> None:
    """``exp(x²) erfc(x)`` falls as 1/x to the largest number, in portable code too, beside mpmath."""
    x = np.array([1e10, 1e149, 1.1e150, 1e200, 1e308])
    want = [float(1 / (mpmath.mpf(v) * mpmath.sqrt(mpmath.pi))) for v in x]
    for run in (special.erfcx, afx.jit(special.erfcx, backend="portable")):
        np.testing.assert_allclose(run(x), want, rtol=1e-14)
    assert float(afx.jit(special.erfcx, backend="portable")(np.float64(np.inf))) == 0


def test_digamma_keeps_its_digits_at_its_root() -> None:
    """The formula is right to some last digits of values near 0 too, beside mpmath."""
    root = 1.4616321449683623
    x = np.concatenate([np.linspace(1.0, 2.0, 101), root + np.array([-1e-9, -2.3e-16, 0.0, 2.3e-16, 1e-12])])
    with mpmath.workdps(40):
        want = [float(mpmath.digamma(mpmath.mpf(v))) for v in x]
    for run in (special.digamma, afx.jit(special.digamma, backend="portable")):
        np.testing.assert_allclose(run(x), want, rtol=1e-15, atol=0)


def test_digamma_keeps_its_digits_between_its_first_poles() -> None:
    """So it is around the root below 0, by the formula alone, where two terms cancel."""
    root = -0.5040830082644554
    near = root + np.outer([1.0, -1.0], 10.0 ** -np.arange(1.0, 17.0)).ravel()
    x = np.concatenate([np.linspace(-0.99, -0.01, 300), near, np.linspace(root - 0.02, root + 0.02, 200), [root]])
    with mpmath.workdps(50):
        want = [float(mpmath.digamma(mpmath.mpf(v))) for v in x]
    np.testing.assert_allclose(afx.jit(special.digamma, backend="portable")(x), want, rtol=8e-15, atol=0)
