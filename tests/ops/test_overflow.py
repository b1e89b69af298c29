"""Numbers at the ends of their range: sums that dtypes hold, scales that neither overflow nor vanish."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx import linalg, nn, optim
from tests.ops.samples import together

TIMES = 1_700_000_000_000_000_000 + np.arange(8)
LARGE = 2**24 + np.arange(10)
MANY = np.random.default_rng(0).normal(size=70_000).astype(np.float16)


def test_averages_of_large_integers_do_not_wrap() -> None:
    """Sums of 64-bit integers go through float64."""
    for run in (afx.mean, afx.average, afx.jit(afx.mean)):
        np.testing.assert_allclose(run(TIMES), TIMES.astype(float).mean(), rtol=1e-6)
    np.testing.assert_allclose(afx.mean(np.array([2**64 - 1] * 2, np.uint64)), 2.0**64, rtol=1e-6)
    np.testing.assert_allclose(afx.std(LARGE), np.std(LARGE), rtol=1e-6)
    assert afx.std(LARGE).dtype == afx.var(LARGE).dtype == afx.mean(LARGE).dtype == np.float32
    assert afx.std(LARGE, dtype=np.float64).dtype == np.float64


HALVES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "var": (afx.var, np.var),
    "std": (afx.std, np.std),
    "nanmean": (afx.nanmean, np.nanmean),
    "nanvar": (afx.nanvar, np.nanvar),
    "nanstd": (afx.nanstd, np.nanstd),
    "vector_norm": (linalg.vector_norm, np.linalg.norm),
    "logsumexp": (afx.logsumexp, lambda x: np.log(np.sum(np.exp(x)))),
    "softmax": (lambda x: nn.softmax(x)[0] * 1e4, lambda x: np.exp(x[0]) / np.sum(np.exp(x)) * 1e4),
    "log_softmax": (lambda x: nn.log_softmax(x)[0], lambda x: x[0] - np.log(np.sum(np.exp(x)))),
}


@pytest.mark.parametrize("name", HALVES)
def test_half_precision_holds_more_elements_than_its_largest_number(name: str) -> None:
    """Counts and sums go through float32."""
    ours, reference = HALVES[name]
    for run in (ours, afx.jit(ours)):
        found = run(MANY)
        assert found.dtype == np.float16
        np.testing.assert_allclose(float(found), reference(MANY.astype(np.float64)), rtol=1e-2, atol=1e-4)


def test_windows_of_half_precision_are_averaged() -> None:
    """Though their sum is none of its numbers."""
    x = np.full((1, 4, 1), 60_000, np.float16)
    np.testing.assert_array_equal(nn.avg_pool(x, 2), np.full((1, 2, 1), 60_000, np.float16))


def test_mixed_derivatives_of_powers_at_zero_exponents() -> None:
    """The derivative by the base is 0 there, and that by the exponent of it is 1/x."""
    np.testing.assert_allclose(
        afx.hessian(lambda z: z[0] ** z[1])(np.array([2.0, 0.0])), [[0, 0.5], [0.5, np.log(2) ** 2]]
    )
    third = afx.grad(afx.grad(afx.grad(afx.pow)), argnums=1)
    assert float(third(2.0, 1.0)) == 0.5
    assert [float(v) for v in afx.grad(afx.pow, (0, 1))(0.0, 0.0)] == [0.0, 0.0]


def test_ranges_of_integers_are_rounded_down() -> None:
    """As NumPy's are, traced or not."""
    for ends in ((0, -10), (-5, 5)):
        want = np.linspace(*ends, 4, dtype=np.int32)
        np.testing.assert_array_equal(afx.linspace(*ends, 4, dtype=np.int32), want)
        traced = afx.jit(lambda a, b: afx.linspace(a, b, 4, dtype=np.int32))
        np.testing.assert_array_equal(traced(float(ends[0]), float(ends[1])), want)


def test_interpolation_meets_its_points() -> None:
    """Also beside huge and infinite values, and with a derivative on them."""
    np.testing.assert_array_equal(
        afx.interp(np.array([0.0, 1.0]), np.array([0.0, 1.0]), np.array([1e20, 3.0])), [1e20, 3]
    )
    assert float(afx.interp(0.0, np.array([0.0, 1, 2]), np.array([1.0, np.inf, 2.0]))) == 1.0
    places = np.array([-np.inf, 0, 1, np.inf])
    at = np.array([-np.inf, -5.0, 0.0, np.inf])
    np.testing.assert_array_equal(afx.interp(at, places, np.array([1.0, 2, 3, 4])), [1, 2, 2, 4])
    slope = afx.vmap(afx.grad(lambda x: afx.interp(x, np.array([0.0, 1, 3]), np.array([1.0, 2, 8]))))
    np.testing.assert_allclose(slope(np.array([0.0, 0.5, 1.0, 2.0, 3.0])), [1, 1, 3, 3, 3])


def test_differences_of_large_integers_are_exact() -> None:
    """They are taken before numbers are rounded to the default dtype."""
    np.testing.assert_array_equal(afx.gradient(LARGE), np.ones(10))
    np.testing.assert_array_equal(afx.gradient(np.array([0, 1, 4]), LARGE[:3]), [1, 2, 3])
    np.testing.assert_array_equal(afx.interp(LARGE[1:2], LARGE[:3:2], np.array([0, 10])), [5])
    for bins in range(1, 12):
        np.testing.assert_array_equal(afx.histogram(LARGE, bins)[0], np.histogram(LARGE, bins)[0])


def test_norms_of_huge_gradients_are_numbers() -> None:
    """And clipping keeps their direction."""
    g = np.full(10, 3e38, np.float32)
    np.testing.assert_allclose(optim.global_norm(g), 3e38 * np.sqrt(10), rtol=1e-6)
    rule = optim.clip_by_global_norm(1.0)
    np.testing.assert_allclose(rule.update(g, rule.init(None), g, None)[0], np.full(10, 10**-0.5), rtol=1e-5)


@together("power", [-3000, -1100, -1070, -60, 0, 40, 300, 1023, 2097, 2200])
def test_ldexp_is_numpys(power: int) -> None:
    """At both ends of the range, and at 0."""
    x = np.array([0.0, -0.0, 1.5, -3.0, 5e-324, np.inf])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(afx.ldexp(x, power), np.ldexp(x, power))


def test_directions_of_complex_numbers_at_both_ends() -> None:
    """Subnormal and huge ones have one, and it is the derivative of the absolute value."""
    z = np.array([1e-310j, 3e-320 + 4e-320j, 3 - 4j, 1e308 + 1e308j])
    np.testing.assert_allclose(afx.sign(z), [1j, 0.6 + 0.8j, 0.6 - 0.8j, (1 + 1j) / np.sqrt(2)], rtol=1e-3)
    slope = afx.grad(lambda z: afx.sum(afx.abs(z)))(np.array([1e-40 + 0j, 0, 3 - 4j], np.complex64))
    np.testing.assert_allclose(slope, [1, 0, 0.6 + 0.8j], rtol=1e-3)


def test_small_integers_round_to_powers_they_do_not_hold() -> None:
    """To 0."""
    assert int(afx.round(np.array(15, np.int8), -3)) == 0
    assert int(afx.round(np.array(15_500, np.int16), -3)) == 16_000


def test_norms_of_nothing_are_zero() -> None:
    """Where NumPy 2.4 says so."""
    np.testing.assert_array_equal(linalg.norm(np.zeros((3, 0)), np.inf, axis=-1), np.zeros(3))
    np.testing.assert_array_equal(linalg.norm(np.zeros((2, 0, 0)), 2, axis=(-2, -1)), np.zeros(2))
    assert linalg.cond(np.zeros((0, 3, 3))).shape == (0,)


def test_fractions_have_the_sign_of_the_number() -> None:
    """Also those that are 0."""
    x = np.array([-0.0, -1.0, -1.5, 2.0, 2.5, np.inf, -np.inf])
    for found, want in zip(afx.modf(x), np.modf(x), strict=True):
        np.testing.assert_array_equal(found, want)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(want))
    assert float(afx.grad(lambda x: afx.modf(x)[0])(-2.0)) == 1.0
