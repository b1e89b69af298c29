"""Functions of the second tier: their accuracy over the whole range, special values, and bits that no width changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx import nn

pytest.importorskip("llvmlite", reason="machine code is an extra")

from afx.compiler.target import current, use_target
from tests.compiler.native_backend.native_run import Native, same_bits

COUNT = 60_000
WIDE = np.longdouble
HAS_WIDE = np.finfo(WIDE).nmant >= 63
Function = Callable[[Any], Any]


def logistic(x: Any) -> Any:
    """Return the logistic function in the precision of x."""
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


# function, its value in longdouble, the range of ordinary arguments for float64 and float32
CASES: dict[str, tuple[Function, Function, float, float, float, float]] = {
    "exp": (afx.exp, np.exp, -745, 709, -103, 88),
    "expm1": (afx.expm1, np.expm1, -45, 709, -20, 88),
    "tanh": (afx.tanh, np.tanh, -25, 25, -10, 10),
    "sigmoid": (nn.sigmoid, logistic, -740, 740, -100, 100),
    "log": (afx.log, np.log, 1e-300, 1e300, 1e-38, 1e38),
    "log1p": (afx.log1p, np.log1p, -1 + 1e-12, 1e12, -1 + 1e-6, 1e12),
    "sin": (afx.sin, np.sin, -1e6, 1e6, -1e9, 1e9),
    "cos": (afx.cos, np.cos, -1e6, 1e6, -1e9, 1e9),
}
SPECIAL = [
    0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, -np.nan, 5e-324, -5e-324, 1e-310, 1e-45, 1e-40, 709.78, 709.79, -708.4,
    -745.13, -745.14, 88.72, 88.73, -87.4, -103.9, -104.0, 1e300, -1e300, 3e38, np.pi, np.pi / 2, 355.0, 1e22, 5e-20,
]  # fmt: skip


def arguments(name: str, dtype: str) -> Any:
    """Return arguments evenly over the range, over all magnitudes in it, and near 0 and 1."""
    low, high = CASES[name][2:4] if dtype == "f8" else CASES[name][4:6]
    rng = np.random.default_rng(0)
    least = 1e-308 if dtype == "f8" else 1e-38
    sizes = np.exp(rng.uniform(np.log(least), np.log(high), COUNT)) * rng.choice([-1.0, 1.0], COUNT)
    every = np.concatenate(
        [rng.uniform(low, high, COUNT), sizes, rng.normal(size=COUNT), 1 + 1e-3 * rng.normal(size=COUNT)]
    )
    return every[(every >= low) & (every <= high)].astype(dtype)


def ulps(z: Any, exact: Any) -> Any:
    """Return distances in units of the last place of the exact value."""
    unit = np.spacing(np.abs(exact.astype(z.dtype))).astype(WIDE)
    return np.abs(z.astype(WIDE) - exact) / unit


@pytest.mark.skipif(not HAS_WIDE, reason="longdouble is no wider than float64")
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", CASES)
def test_functions_are_accurate(name: str, dtype: str) -> None:
    """Own functions are within 1 ulp in float64 and 0.51 in float32, where results are numbers, denormal ones too."""
    x = arguments(name, dtype)
    with use_target(attrs.evolve(current.target, denormals="keep")):
        (z,), _ = Native(CASES[name][0], x, tier=2)(x)
    with np.errstate(under="ignore"):
        exact = CASES[name][1](x.astype(WIDE))
    assert ulps(z, exact).max() <= (0.51 if dtype == "f4" else 1.0)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", CASES)
def test_special_values_are_numpys(name: str, dtype: str) -> None:
    """Zeros with their sign, infinities, nan, denormals and the ends of the range give what NumPy gives, with its flags."""
    with np.errstate(over="ignore", under="ignore"):
        x = np.array(SPECIAL).astype(dtype)
    native = Native(CASES[name][0], x, tier=2)
    (z,), _ = native(x)
    with np.errstate(all="ignore"):
        (want,) = native.plan(x)
        if name == "sigmoid":  # whose tail NumPy's plan cuts off
            want = logistic(x.astype("f8")).astype(dtype)
    is_number = np.isfinite(want) & (want != 0)
    assert same_bits(z[~is_number], want[~is_number])
    tolerance = 4 * np.spacing(np.abs(want[is_number]))
    assert (np.abs(z[is_number] - want[is_number]) <= tolerance).all()


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_quiet_arguments_raise_no_flags(dtype: str) -> None:
    """Ordinary arguments, nan and the limits that functions have at infinity leave no floating-point error behind."""
    x = np.array([0.5, np.nan, 0.25, 3.0, -np.nan, 7.0, 1e-3], dtype)
    assert Native(lambda x: [fn(x) for fn, *_ in CASES.values()], x, tier=2)(x)[1] == 0
    x = np.array([np.inf, 0.5, -np.inf], dtype)
    assert Native(lambda x: (afx.exp(x), np.tanh(x), nn.sigmoid(x)), x, tier=2)(x)[1] == 0


def test_errors_of_functions_are_seen() -> None:
    """Overflow, division by zero and invalid arguments leave NumPy's flags."""
    for fn, value, flag in ((afx.exp, 710.0, 2), (afx.log, 0.0, 1), (afx.log, -1.0, 8), (afx.sin, np.inf, 8)):
        x = np.array([0.5, value])
        assert Native(fn, x, tier=2)(x)[1] & flag, (fn, value)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_bits_depend_on_the_element_alone(dtype: str) -> None:
    """An element has the same bits wherever it stands: in a vector, in the rest behind them, alone."""

    def fn(x: Any) -> Any:
        return [fn(x) for fn, *_ in CASES.values()]

    x = np.random.default_rng(3).uniform(0.01, 5, 47).astype(dtype)
    x[[3, 21, 46]] = [1e30, 0.0, 1e-310]
    whole = Native(fn, x, tier=2)(x)[0]
    shifted = Native(fn, x[5:], tier=2)(np.ascontiguousarray(x[5:]))[0]
    single = Native(fn, x[:1], tier=2)
    for k in (0, 3, 21, 40, 46):
        for z, alone in zip(whole, single(x[k : k + 1])[0], strict=True):
            assert same_bits(alone, z[k : k + 1])
    for z, part in zip(whole, shifted, strict=True):
        assert same_bits(part, z[5:])


def test_arguments_near_multiples_of_pi_keep_their_digits() -> None:
    """Sine and cosine are right to the last place where they nearly vanish, and beyond the range of their own reduction."""
    mpmath = pytest.importorskip("mpmath", reason="mpmath is the oracle")
    k = np.arange(1, 20000, dtype="f8")
    for dtype, turn in (("f8", np.pi), ("f4", np.pi), ("f8", np.pi / 2), ("f4", np.pi / 2)):
        x = np.concatenate([k * turn, 2.0 ** np.arange(0, 120, 0.37)]).astype(dtype)
        for fn, exact in ((afx.sin, mpmath.sin), (afx.cos, mpmath.cos)):
            (z,), _ = Native(fn, x, tier=2)(x)
            pick = np.r_[0:200:7, -325:0:5, 15000:15050]
            with mpmath.workdps(60):
                wants = [exact(mpmath.mpf(float(v))) for v in x[pick]]
                off = [
                    abs(float((mpmath.mpf(float(a)) - w) / float(np.spacing(np.abs(z.dtype.type(float(w)))))))
                    for a, w in zip(z[pick], wants, strict=True)
                ]
            limit = np.where(np.abs(x[pick]) > 2.0**40, 1.5, 0.51) if dtype == "f4" else np.full(len(pick), 1.0)
            assert (np.array(off) <= limit).all(), (dtype, turn, fn, max(off))


def exact_power(x: Any, y: Any) -> Any:
    """Return powers in longdouble."""
    return np.power(x.astype(WIDE), y.astype(WIDE))


@pytest.mark.skipif(not HAS_WIDE, reason="longdouble is no wider than float64")
def test_powers_and_lengths_of_floats_are_accurate() -> None:
    """Pow and hypot of float32 are within 0.51 ulp; their special cases are NumPy's."""
    rng = np.random.default_rng(1)
    x = np.exp(rng.uniform(-40, 40, COUNT)).astype("f4")
    y = rng.uniform(-2, 2, COUNT).astype("f4")
    for fn, exact in (
        (lambda x, y: x**y, exact_power),
        (afx.hypot, lambda x, y: np.hypot(x.astype(WIDE), y.astype(WIDE))),
    ):
        (z,), _ = Native(fn, x, y, tier=2)(x, y)
        assert ulps(z, exact(x, y)).max() <= 0.51
    values = np.array([0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, 3.0, np.inf, -np.inf, np.nan, 1e-45, 3e38], "f4")
    a, b = map(np.ascontiguousarray, np.broadcast_arrays(values[:, None], values))
    for fn in (lambda x, y: x**y, afx.hypot):
        native = Native(fn, a, b, tier=2)
        with np.errstate(all="ignore"):
            (z,), (want,) = native(a, b)[0], native.plan(a, b)
        odd = ~(np.isfinite(want) & (want != 0))
        assert same_bits(z[odd], want[odd])
        assert np.allclose(z[~odd], want[~odd], rtol=3e-7, atol=1e-45)


@pytest.mark.skipif(not HAS_WIDE, reason="longdouble is no wider than float64")
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_powers_by_half_numbers_and_lengths_are_by_roots(dtype: str) -> None:
    """Powers of numbers of moderate size are within 0.51 ulp, others and lengths within 1; special cases are NumPy's."""
    rng, end = np.random.default_rng(1), np.finfo(dtype).maxexp - 1
    special = [0.0, -0.0, -1.0, np.inf, -np.inf, np.nan, np.finfo(dtype).max, np.finfo(dtype).tiny, -1e-30]
    x = np.concatenate([special, 2.0 ** rng.uniform(-end, end, COUNT), np.arange(99.0) ** 2]).astype(dtype)
    for exponent in (0.5, -0.5, 1.5, -1.5):
        native = Native(lambda x, exponent=exponent: x**exponent, x, tier=2)
        (z,), _ = native(x)
        with np.errstate(all="ignore"):
            wide, (plain,) = np.power(x.astype(WIDE), WIDE(exponent)), native.plan(x)
            want = wide.astype(dtype)
        whole = np.isfinite(want) & (want >= np.finfo(dtype).tiny)  # denormals are flushed
        assert "root" in native.text
        odd = ~whole[: len(special)]
        same = same_bits(z[: len(special)][odd], plain[: len(special)][odd])
        assert same or (exponent == 0.5 and np.isinf(plain[4]))  # where NumPy takes no square root
        assert np.array_equal(z[np.isinf(want) & (x > 0)], want[np.isinf(want) & (x > 0)])
        whole &= x >= np.finfo(dtype).tiny
        ordinary = np.abs(np.log2(x[whole])) < (490 if dtype == "f8" else 58)
        off = ulps(z[whole], wide[whole])
        assert off[ordinary].max() <= 0.51
        assert off.max() <= 1
    y = (np.roll(x, 7) * 2.0 ** rng.uniform(-70, 0, len(x))).astype(dtype)
    (z,), _ = Native(afx.hypot, x, y, tier=2)(x, y)
    with np.errstate(all="ignore"):
        wide = np.hypot(x.astype(WIDE), y.astype(WIDE))
    whole = (wide < np.finfo(dtype).max / 2) & (wide >= np.finfo(dtype).tiny / np.finfo(dtype).eps ** 2)
    assert ulps(z[whole], wide[whole]).max() <= 1
    assert np.array_equal(z[~whole & (wide > 1)], wide[~whole & (wide > 1)].astype(dtype))
    assert np.isnan(z[np.isnan(wide)]).all()


def test_erf_of_floats_is_accurate() -> None:
    """Erf of float32 is within 0.51 ulp and has its limits."""
    scipy_special = pytest.importorskip("scipy.special", reason="SciPy is the oracle")
    rng = np.random.default_rng(2)
    x = np.concatenate(
        [rng.uniform(-5, 5, COUNT), np.exp(rng.uniform(-80, 1, COUNT)), [np.inf, -np.inf, -0.0, np.nan]]
    ).astype("f4")
    (z,), flags = Native(afx.special.erf, x, tier=2)(x)
    want = scipy_special.erf(x.astype("f8"))
    assert flags == 0
    assert np.nanmax(np.abs(z - want) / np.spacing(np.abs(want).astype("f4"))) <= 0.51
    assert z[-4:-1].tolist() == [1.0, -1.0, 0.0]
    assert np.signbit(z[-2])
    assert np.isnan(z[-1])


def test_the_first_tier_calls_numpys_loops() -> None:
    """Without the second tier no own function is emitted, and the target alone chooses between them."""
    x = np.linspace(0.1, 1, 50)
    assert "fast.exp" not in Native(afx.exp, x).text
    assert "fast.exp" in Native(afx.exp, x, tier=2).text
