"""Uniform and normal numbers, integers, and yes or no: distributions, ranges, dtypes, derivatives and mistakes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

import afx
from afx import random
from tests.every import together

KEY = random.key(7)
N = 40_000
SURE = 1e-4  # the keys are fixed: a test that passes always passes


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_uniform_numbers_fill_the_half_open_interval(dtype: str) -> None:
    """They are multiples of a power of two from 0 up to, not including, 1, evenly distributed."""
    bits = {"float16": 11, "float32": 24, "float64": 53}[dtype]
    x = np.asarray(random.uniform(KEY, N, dtype=dtype))
    assert x.dtype == dtype
    assert x.min() >= 0
    assert x.max() <= 1 - 2.0**-bits
    assert np.array_equal(np.rint(x.astype(np.float64) * 2.0**bits), x.astype(np.float64) * 2.0**bits)
    assert stats.kstest(x.astype(np.float64), stats.uniform.cdf).pvalue > SURE


def test_uniform_never_draws_its_upper_bound() -> None:
    """Not even where rounding would: near 2²⁰ float32 has few numbers."""
    low, high = np.float32(2**20), np.float32(2**20 + 1)
    x = np.asarray(random.uniform(KEY, N, low, high))
    assert x.dtype == np.float32
    assert x.min() == low
    assert x.max() == np.nextafter(high, low)
    assert np.all(np.asarray(random.uniform(KEY, 5, 3.0, 3.0)) == 3)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 4e-7), ("float64", 2e-15)])
def test_normal_numbers_are_quantiles_of_the_bits(dtype: str, tolerance: float) -> None:
    """Each is the quantile at (k + ½) / 2ʷ + ½ of its word k, in the tails too."""
    wide = dtype == "float64"
    word = np.asarray(random.bits(KEY, N, dtype=afx.uint64 if wide else afx.uint32))
    k, bits = (word.view(np.int64), 64) if wide else (word.view(np.int32).astype(np.int64), 32)
    p = ((np.where(k < 0, k, ~k) & 2 ** (bits - 1) - 1) + 0.5) * 2.0**-bits
    x = np.asarray(random.normal(KEY, N, dtype=dtype))
    assert x.dtype == dtype
    np.testing.assert_allclose(x, np.where(k < 0, 1, -1) * special.ndtri(p), rtol=tolerance, atol=tolerance / 10)
    assert stats.kstest(x, stats.norm.cdf).pvalue > SURE


def test_normal_numbers_have_their_moments() -> None:
    """Mean, variance, skewness and kurtosis are those of a normal distribution, within five standard errors."""
    x = np.asarray(random.normal(KEY, N, 3.0, 2.0, dtype=afx.float64))
    z = (x - 3) / 2
    for moment, want, variance in [(z, 0, 1), (z**2, 1, 2), (z**3, 0, 15), (z**4, 3, 96)]:
        assert abs(moment.mean() - want) < 5 * np.sqrt(variance / N)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_integers_are_equally_likely(dtype: str) -> None:
    """Each integer between the bounds is drawn as often as the others, and nothing else is."""
    x = np.asarray(random.randint(KEY, 3, 20, N, dtype=dtype))
    assert x.dtype == dtype
    counts = np.bincount(x.astype(np.int64))
    assert counts[:3].sum() == 0
    assert len(counts) == 20
    assert stats.chisquare(counts[3:]).pvalue > SURE


def test_integers_of_wide_spans_are_not_biased() -> None:
    """Spans that divide no power of two are drawn evenly: of 3/4 of all words, a remainder alone would favour half."""
    for high, dtype in [(3 * 2**30, "uint32"), (3 * 2**62, "uint64")]:
        x = np.asarray(random.randint(KEY, np.array(0, dtype), np.array(high, dtype), N, dtype=dtype))
        assert stats.kstest(x / float(high), stats.uniform.cdf).pvalue > SURE
    x = np.asarray(random.randint(KEY, -(2**63), 2**63 - 1, N))
    assert stats.kstest(x / 2.0**64 + 0.5, stats.uniform.cdf).pvalue > SURE


def test_bounds_of_integers_broadcast() -> None:
    """Each element has bounds of its own, under vmap too, where one key gives what a loop gives."""
    high = np.array([1, 10, 2**40])
    x = np.asarray(random.randint(KEY, high - 1, high, (5, 3)))
    assert np.array_equal(x, np.broadcast_to(high - 1, (5, 3)))
    many = afx.vmap(lambda h: random.randint(KEY, 0, h, 30))(high)
    assert np.array_equal(np.asarray(many), [np.asarray(random.randint(KEY, 0, h, 30)) for h in high.tolist()])


@pytest.mark.parametrize("p", [0.0, 1e-3, 0.3, 1.0])
def test_bernoulli_has_its_probability(p: float) -> None:
    """True comes with probability p, never for 0 and always for 1."""
    x = np.asarray(random.bernoulli(KEY, p, N))
    assert x.dtype == bool
    assert abs(x.mean() - p) <= 5 * np.sqrt(p * (1 - p) / N)
    assert abs(np.asarray(random.rademacher(KEY, N)).mean()) < 5 / np.sqrt(N)


def test_dtypes_are_those_of_the_parameters() -> None:
    """Draws have the default dtype, that of parameters that are arrays, or the one asked for."""
    loc = np.zeros(3)
    assert random.normal(KEY).dtype == random.uniform(KEY, 2, 1, 3).dtype == afx.float32
    assert random.normal(KEY, loc=loc).dtype == afx.float64
    assert random.normal(KEY, loc=loc, dtype=afx.float32).dtype == afx.float32
    assert random.normal(KEY, loc=np.zeros(3, np.int64)).dtype == afx.float32
    assert random.uniform(KEY, high=np.ones(3, np.float16)).dtype == afx.float16
    with afx.default_dtype(afx.float64):
        assert random.normal(KEY).dtype == afx.float64
    assert random.rademacher(KEY, 2).dtype == afx.float32


def test_shapes_are_those_of_the_parameters() -> None:
    """Without a shape that of the parameters is drawn; with one they broadcast to it."""
    assert random.normal(KEY).shape == ()
    assert random.normal(KEY, 3).shape == (3,)
    assert random.normal(KEY, (0, 3)).shape == (0, 3)
    assert random.normal(KEY, loc=np.zeros((2, 1)), scale=np.ones(3)).shape == (2, 3)
    assert random.normal(KEY, (4, 3), np.zeros(3)).shape == (4, 3)
    assert random.bernoulli(KEY, np.full(3, 0.5)).shape == (3,)


@pytest.mark.parametrize(
    "draw",
    [
        lambda a, b: random.normal(KEY, (4, 3), a, b),
        lambda a, b: random.uniform(KEY, (4, 3), a, a + b),
    ],
)
def test_draws_differentiate_in_their_parameters(draw: Callable[..., Any]) -> None:
    """Location and scale have the derivatives of a linear map, to any order, forward and reverse."""
    afx.testing.check_grads(draw, (np.array([0.5, -1.0, 2.0]), np.array([1.0, 2.0, 0.5])), order=2)


@together(
    ("fn", "message"),
    [
        (lambda: random.normal(KEY, scale=-1.0), r"normal: a scale is 0 or more: got -1.0; change it"),
        (lambda: random.normal(KEY, scale=np.array([np.nan])), r"normal: a scale is 0 or more: got float64\[1\]"),
        (
            lambda: random.normal(KEY, 2, np.zeros(3)),
            r"normal: parameters do not broadcast to the shape: got float64\[3\]",
        ),
        (lambda: random.normal(KEY, (1, 3), np.zeros((2, 3))), r"parameters do not broadcast to the shape"),
        (lambda: random.normal(KEY, dtype=afx.int32), r"normal: draws real floating numbers: got int32; use afx"),
        (lambda: random.normal(KEY, loc=np.zeros(2, complex)), r"normal: draws real floating numbers: got complex128"),
        (lambda: random.uniform(KEY, -2), r"uniform: negative dimensions are not allowed: got shape \(-2,\)"),
        (lambda: random.uniform(KEY, 2, 1.0, 0.0), r"uniform: low lies below high: got 1.0, 0.0; change it"),
        (lambda: random.uniform(KEY, 2, -2e38, 2e38), "uniform: the distance of bounds is a number in float32"),
        (lambda: random.uniform(KEY, 2, np.zeros(1), np.full(1, np.inf)), "uniform: the distance of bounds"),
        (lambda: random.randint(KEY, 2, 2), r"randint: low lies below high: got 2 and 2; exchange them"),
        (lambda: random.randint(KEY, 0, 300, dtype=afx.int8), r"randint: int8 does not hold these bounds: got 0, 300"),
        (lambda: random.randint(KEY, 0.0, 3), r"randint: draws integers between integers: got float32"),
        (lambda: random.bernoulli(KEY, 1.5), r"bernoulli: a probability lies from 0 to 1: got 1.5; change it"),
        (lambda: random.rademacher(KEY, dtype=afx.uint8), r"rademacher: draws 1 and -1: got uint8; use a signed"),
    ],
)
def test_mistakes_are_explained(fn: Callable[[], Any], message: str) -> None:
    """Parameters, shapes and dtypes that make no sense raise, naming the draw and the remedy."""
    with pytest.raises(afx.errors.AfxError, match=message):
        fn()
