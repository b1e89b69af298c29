"""Elementwise operations of every dtype by ``backend="portable"``: beside eager ones, mpmath's values, and in half precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest
from numpy.testing import assert_array_equal

import afx
from afx import export, special
from afx.core.aval import Aval
from afx.core.primitive import Primitive
from afx.core.tracing.tracer import bind
from afx.errors import ArgumentError, IndexRangeError
from tests.ops.domains import domain
from tests.ops.samples import arity, holds_function, takes

pytest.importorskip("llvmlite", reason="machine code is an extra")
mp = pytest.importorskip("mpmath", reason="the exact values are mpmath's")

RNG = np.random.default_rng(11)
TOLERANCE = {"e": 2e-3, "f": 2e-5, "d": 1e-12, "F": 2e-5, "D": 1e-12}
# families of integrals, quantiles, hypergeometric and Bessel functions, of which SciPy alone knows
REFUSED = frozenset({
    "beta_tail", "betainc_slope", "betainccinv", "betaincinv", "binomial_quantile", "binomial_upper_quantile", "boxcox",
    "boxcox1p", "comb", "cosine_integral", "dawsn", "erfcx_slope", "exp1", "expi", "expn", "exprel", "faddeeva_imag",
    "faddeeva_real", "fisher_slope", "fresnel_cosine", "fresnel_sine", "gamma_flow",
    "gamma_flow_by_logarithm", "gamma_tail", "gammainc_slope", "gammainccinv", "gammaincinv", "geometric_quantile",
    "geometric_upper_quantile", "harmonic", "hyp1f1", "hyp2f1", "inv_boxcox", "inv_boxcox1p", "ive_slope", "jv", "kv",
    "kve", "log1prel", "log_beta_density", "log_betainc", "log_betaincc", "log_gammainc", "log_gammaincc",
    "nbinom_quantile", "nbinom_upper_quantile", "owens_t", "poch", "poisson_quantile", "poisson_upper_quantile",
    "sine_integral", "spence", "stdtrit", "yv", "zeta", "zeta_slope",
})  # fmt: skip
SHARES = frozenset({"gammainc", "gammaincc", "betainc", "betaincc", "stdtr", "fisher", "fisherc"})  # in test_shares.py
COMPLEX_ONLY = frozenset({"complex_exp2", "complex_expm1"})


def operands(p: Primitive, dtype: str) -> list[Any]:
    """Return random operands in an op's domain, zeros, halves and whole numbers among them."""
    low, high = domain(p)
    numbers = np.r_[RNG.uniform(low, high, 40), [0.5, 1.0, 1.5, min(high, 2.5)]]
    if dtype in "FD":
        return [(RNG.permutation(numbers) + 1j * RNG.permutation(numbers)).astype(dtype) for _ in range(arity(p))]
    if dtype == "?":
        return [RNG.permutation(numbers) > 1 for _ in range(arity(p))]
    whole = np.round(numbers * 4) if dtype not in "efd" else numbers
    return [RNG.permutation(np.abs(whole) if dtype not in "efd" else whole).astype(dtype) for _ in range(arity(p))]


def elementwise(dtype: str) -> list[Primitive]:
    """Return the elementwise operations that are defined for a dtype, and have a portable form."""
    apart = REFUSED | SHARES | (frozenset({"erf", "erfc"}) if dtype in "FD" else COMPLEX_ONLY)
    found = [p for p in afx.primitives() if p.is_elementwise and not holds_function(p) and takes(p, dtype)]
    chosen = [p for p in found if p.name not in apart and p.algebra.canonical != "select"]
    if dtype in "?bL":  # whole numbers are converted to floats, of which other dtypes are tests
        chosen = [p for p in chosen if p.abstract_eval(*[Aval((), np.dtype(dtype))] * arity(p)).dtype.kind != "f"]
    return chosen


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", list("?bLedFD"))
def test_every_operation_computes_its_numbers(dtype: str) -> None:
    """One function of all operations of a dtype gives what the eager ones give."""
    ops = [p for p in elementwise(dtype) if dtype != "e" or p.name not in ("nextafter", "spacing")]
    assert len(ops) > 20
    given = [operands(p, dtype) for p in ops]

    def fn(*xs: Any) -> list[Any]:
        rest = iter(xs)
        return [bind(p, *[next(rest) for _ in range(arity(p))]) for p in ops]

    flat = [x for xs in given for x in xs]
    with np.errstate(all="ignore"):
        results = afx.jit(fn, backend="portable")(*flat)
        for p, z, wanted in zip(ops, results, fn(*flat), strict=True):
            got, want = np.asarray(z), np.asarray(wanted)
            assert got.dtype == want.dtype, p.name
            tolerance = TOLERANCE.get(want.dtype.char, 0.0)
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance, err_msg=p.name)


EXACT: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "erf": (mp.erf, RNG.uniform(-6, 6, 60)),
    "erfc": (mp.erfc, RNG.uniform(-6, 26, 60)),
    "erfinv": (mp.erfinv, RNG.uniform(-1, 1, 30)),
    "gammaln": (
        lambda x: mp.log(abs(mp.gamma(x))),
        np.r_[RNG.uniform(0, 30, 60), 5e-324, -1e-310, 1e-9, 1e9, 0.999, 2.001],
    ),
    "digamma": (mp.digamma, np.r_[RNG.uniform(2, 30, 60), -2.3, 1e-5, 1e9]),
    "gamma": (mp.gamma, np.r_[RNG.uniform(-9, 170, 60), 1e-9]),
    "rgamma": (mp.rgamma, np.r_[RNG.uniform(-9, 60, 60), 0.0, -3.0]),
    "ndtr": (mp.ncdf, RNG.uniform(-30, 8, 60)),
    "i0": (lambda x: mp.besseli(0, x), RNG.uniform(-60, 60, 60)),
    "i1": (lambda x: mp.besseli(1, x), RNG.uniform(-60, 60, 60)),
    "i0e": (lambda x: mp.exp(-abs(x)) * mp.besseli(0, x), np.r_[RNG.uniform(-60, 60, 60), 1e9]),
    "i1e": (lambda x: mp.exp(-abs(x)) * mp.besseli(1, x), RNG.uniform(-60, 60, 60)),
}


@pytest.mark.parametrize("name", sorted(EXACT))
def test_special_functions_are_mpmaths(name: str) -> None:
    """To 2e-13 of their values, within SciPy's own errors and beyond."""
    exact, x = EXACT[name]
    with mp.workprec(200):
        wanted = [float(exact(mp.mpf(float(v)))) for v in x]
    results = np.asarray(afx.jit(getattr(special, name), backend="portable")(x))
    np.testing.assert_allclose(results, wanted, rtol=2e-13, atol=1e-300)


def test_the_least_degrees_of_freedom_have_a_law() -> None:
    """Half of them is no number any more."""
    found = afx.jit(special.stdtr, backend="portable")(np.full(3, 5e-324), np.array([-2.0, 0.0, 2.0]))
    np.testing.assert_array_equal(found, 0.5)


def test_derivatives_of_special_functions_have_forms() -> None:
    """Those of the functions of gamma, the normal distribution and i0, to the second order."""
    x = np.array([0.3, 1.2, 2.5])

    def total(x: Any) -> Any:
        names = ("gammaln", "digamma", "erf", "erfc", "ndtr", "i0", "entr", "xlogy")
        return sum([afx.sum(getattr(special, n)(*([x, x] if n == "xlogy" else [x]))) for n in names])

    slope = afx.grad(lambda x: afx.sum(afx.grad(total)(x)))
    np.testing.assert_allclose(afx.jit(slope, backend="portable")(x), slope(x), rtol=1e-11)


def test_processors_without_fused_operations_give_the_same_bits() -> None:
    """Products are made exact by a fused operation where there is one, of numbers of all sizes."""
    bits = RNG.integers(0, 2**64, 4000, dtype=np.uint64, endpoint=False).view(np.float64)
    ends = [0.0, -0.0, 5e-324, 2.0**-1022, 1e300, np.inf, -np.inf, np.nan, 40.0, -690.0, 2.0**28, 1e-290]
    near = RNG.normal(size=4000) * RNG.choice([1e-200, 1e-3, 1.0, 10.0, 1000.0], 4000)
    x = np.concatenate([bits, near, np.linspace(-746.0, 746.0, 2000), ends])
    y = RNG.permutation(x)
    small, size = 2.0 ** np.random.default_rng(0).uniform([[-1022], [0]], [[-960], [40]], (2, 40_000))
    x, y = np.concatenate([x, small]), np.concatenate([y, size])  # quotients of many are denormal

    def all_of(x: afx.Array, y: afx.Array) -> list[afx.Array]:
        one = [
            afx.acos, afx.acosh, afx.asin, afx.asinh, afx.atan, afx.atanh, afx.cbrt, afx.cosh, afx.exp, afx.exp2,
            afx.expm1, afx.log, afx.log10, afx.log1p, afx.log2, afx.sin, afx.sinh, afx.tan, afx.tanh, afx.nn.sigmoid,
        ]  # fmt: skip
        return [*[f(x) for f in one], afx.power(x, y), afx.atan2(x, y), afx.hypot(x, y)]

    both = [
        export.compile(all_of, x, y, bits="portable", target=attrs.evolve(export.MACHINES["host"], has_fma=has_fma))
        for has_fma in (True, False)
    ]
    fused, apart = [compiled(x, y) for compiled in both]
    for k, (a, b) in enumerate(zip(fused, apart, strict=True)):
        assert_array_equal(np.asarray(a).view(np.uint64), np.asarray(b).view(np.uint64), err_msg=str(k))


def test_neighbours_are_those_of_the_dtype() -> None:
    """They are refused of halves, which are computed as singles, whose neighbours are others."""
    for dtype in (np.float32, np.float64):
        x = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -3.3, np.finfo(dtype).max], dtype)
        with np.errstate(all="ignore"):
            assert_array_equal(np.asarray(afx.jit(afx.spacing, backend="portable")(x)), np.spacing(x))
            for y in np.array([np.inf, -0.0], dtype):
                assert_array_equal(np.asarray(afx.jit(afx.nextafter, backend="portable")(x, y)), np.nextafter(x, y))
    x = np.ones(3, np.float16)
    for fn, args in ((afx.spacing, (x,)), (afx.nextafter, (x, 2 * x))):
        with pytest.raises(ArgumentError, match=f"got {fn.__name__} of f2"):
            afx.jit(lambda *xs, fn=fn: fn(*xs), backend="portable")(*args)


def test_halves_are_rounded_from_singles() -> None:
    """Every half and what lies between two: conversions and sums are NumPy's, bit by bit."""
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    finite = halves[np.isfinite(halves)]
    wide = np.r_[
        finite.astype(np.float64) * (1 + 2.0**-11), finite.astype(np.float64) * 1.0001, 65519.99, 65520.0, np.inf
    ]
    with np.errstate(all="ignore"):
        narrowed = wide.astype(np.float16)
        summed = halves + halves[::-1]
    np.testing.assert_array_equal(afx.jit(lambda x: x.astype(np.float16), backend="portable")(wide), narrowed)
    np.testing.assert_array_equal(
        afx.jit(lambda x: x.astype(np.float64), backend="portable")(halves), halves.astype("d")
    )
    got = np.asarray(afx.jit(lambda x, y: x + y, backend="portable")(halves, halves[::-1].copy()))
    np.testing.assert_array_equal(got, summed)
    assert (got[np.isnan(got)].view(np.uint16) == 0x7E00).all()


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_products_and_sums_have_forms(dtype: Any) -> None:
    """Matrices, sums, choices, conversions, and gradients; exported functions too."""
    x = (RNG.normal(size=(5, 5)) + 1j * RNG.normal(size=(5, 5))).astype(dtype)

    def fn(x: Any) -> Any:
        chosen = afx.where(afx.abs(x) > 1, x, afx.exp(x) / x)
        return x @ chosen, afx.sum(x, axis=0), afx.cumsum(x[0]), x.real.astype(dtype), afx.conj(x) * 2.0

    def loss(x: Any) -> Any:
        return afx.sum(afx.abs(afx.sin(x) @ x) ** 2)

    tolerance = 1e-4 if dtype is np.complex64 else 1e-12
    compiled = export.compile(fn, x, bits="portable", name="complex_fn")
    for got, also, want in zip(afx.jit(fn, backend="portable")(x), compiled(x), fn(x), strict=True):
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
        np.testing.assert_array_equal(got, also)
    slope = afx.grad(loss)
    np.testing.assert_allclose(afx.jit(slope, backend="portable")(x), slope(x), rtol=10 * tolerance)


def test_halves_in_networks_and_loops_are_those_of_singles() -> None:
    """Products, sums, normalization, softmax, scans, indices and gradients, each result rounded to float16."""
    x = afx.asarray(np.linspace(-2, 2, 40).astype(np.float16).reshape(5, 8))

    def fn(x: Any) -> Any:
        centered = (x - afx.mean(x, axis=1, keepdims=True)) / afx.sqrt(afx.var(x, axis=1, keepdims=True) + 1e-3)
        sums = afx.scan(lambda c, row: (c + row, c), x[0], x)[1]
        return (
            afx.nn.softmax(centered @ x.T),
            sums,
            x.at[afx.asarray([0, 0, 2])].add(x[:3]),
            afx.round(x),
            afx.argmax(x),
        )

    for got, want in zip(afx.jit(fn, backend="portable")(x), fn(x), strict=True):
        assert np.asarray(got).dtype == np.asarray(want).dtype
        np.testing.assert_allclose(got, want, rtol=4e-3, atol=4e-3)
    slope = afx.grad(lambda x: afx.sum(afx.tanh(x) ** 2))
    np.testing.assert_allclose(afx.jit(slope, backend="portable")(x), slope(x), atol=4e-3)


def test_negative_powers_of_integers_are_errors() -> None:
    """As in NumPy's plan."""
    with pytest.raises(IndexRangeError, match=r"integer's power is negative at .*test_elementwise\.py:\d+"):
        afx.jit(lambda x, y: x**y, backend="portable")(np.array([2, 3]), np.array([-1, 2]))


@pytest.mark.parametrize("name", ["expi", "dawsn"])
def test_what_has_no_portable_form_is_refused_by_name(name: str) -> None:
    """Before anything runs, with the user's line."""
    fn = getattr(special, name)
    with pytest.raises(ArgumentError, match=rf"no portable form: got .*{name}.* at .*test_elementwise\.py:\d+"):
        afx.jit(lambda x: fn(x) + 1.0, backend="portable")(np.ones(3) / 3)
