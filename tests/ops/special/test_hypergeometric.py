"""Power transforms, dilogarithm, Owen's and Faddeeva's functions, binomials, hypergeometric functions and harmonics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special

import afx
from afx import special
from afx.core.tracing.tracer import bind_single
from afx.errors import ArgumentError, DtypeError
from afx.ops.special.hypergeometric import exprel_p, log1prel_p

scipy_special = pytest.importorskip("scipy.special", reason="the reference is SciPy's")
M = mpmath.mpf


@pytest.fixture(autouse=True)
def _digits() -> Any:
    """Numbers of mpmath have 120 digits."""
    with mpmath.workdps(120):
        yield


@pytest.mark.parametrize("order", range(4))
def test_ratios_of_expm1_and_log1p_have_all_digits(order: int) -> None:
    """So have their derivatives: at 0, near it, and where the rule for small arguments ends."""
    t = np.array([-700, -50, -16.1, -15.9, -3, -1e-9, 0, 1e-9, 1, 15.9, 16.1, 300.0])
    want = [float(mpmath.hyp1f1(order + 1, order + 2, M(v)) / (order + 1)) for v in t]
    np.testing.assert_allclose(np.asarray(bind_single(exprel_p, t, order=order)), want, rtol=3e-14)
    t = np.array([-0.99, -0.51, -0.49, -1e-9, 0, 1e-9, 0.49, 0.51, 5, 1e3])
    sign = (-1) ** order * mpmath.factorial(order)
    want = [float(sign * mpmath.hyp2f1(order + 1, order + 1, order + 2, -M(v)) / (order + 1)) for v in t]
    np.testing.assert_allclose(np.asarray(bind_single(log1prel_p, t, order=order)), want, rtol=1e-14)
    ends = np.asarray(bind_single(exprel_p, np.array([-np.inf, np.inf, 1e3, np.nan]), order=order))
    np.testing.assert_array_equal(ends, [0.0, np.inf, np.inf, np.nan])


def _power(x: Any, power: Any) -> Any:
    return mpmath.log(x) if power == 0 else (M(x) ** power - 1) / power


def _root(y: Any, power: Any) -> Any:
    return mpmath.exp(y) if power == 0 else (1 + power * y) ** (1 / M(power))


TRANSFORMS: dict[str, Callable[[Any, Any], Any]] = {
    "boxcox": _power,
    "boxcox1p": lambda x, power: _power(1 + x, power),
    "inv_boxcox": _root,
    "inv_boxcox1p": lambda y, power: _root(y, power) - 1,
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_power_transforms_beside_mpmath(name: str) -> None:
    """Values and both derivatives, also where the power is 0 or nearly so."""
    exact, own = TRANSFORMS[name], getattr(special, name)
    x, power = (v.ravel() for v in np.meshgrid([1e-6, 0.1, 0.5, 1.0, 2.0], [-0.4, -1e-9, 0.0, 1e-9, 0.5, 2.0]))
    z, pull = afx.vjp(own, x, power)
    np.testing.assert_allclose(
        np.asarray(z), [float(exact(M(a), M(b))) for a, b in zip(x, power, strict=True)], rtol=1e-14
    )
    step = M(10) ** -25
    for slopes, (u, v) in zip(pull(afx.ones(x.size, afx.float64)), ((step, 0), (0, step)), strict=True):
        want = [
            float((exact(a + u, b + v) - exact(a - u, b - v)) / (2 * step))
            for a, b in zip(map(M, x), map(M, power), strict=True)
        ]
        np.testing.assert_allclose(np.asarray(slopes), want, rtol=2e-14)


def test_boxcox_of_zero() -> None:
    """It is -inf, or -1 / lmbda; derivatives are the limits."""
    powers = np.array([-1.0, 0.0, 0.5, 2.0])
    np.testing.assert_array_equal(np.asarray(special.boxcox(0.0, powers)), scipy_special.boxcox(0.0, powers))
    with np.errstate(divide="ignore"):
        by_x, by_power = afx.vmap(afx.grad(special.boxcox, argnums=(0, 1)))(np.zeros(3), np.array([0.5, 1.0, 2.0]))
    np.testing.assert_array_equal(np.asarray(by_x), [np.inf, 1.0, 0.0])
    np.testing.assert_array_equal(np.asarray(by_power), [4.0, 1.0, 0.25])


def _owen(h: Any, a: Any) -> Any:
    return mpmath.quad(lambda t: mpmath.exp(-(h**2) * (1 + t * t) / 2) / (1 + t * t), [0, a]) / (2 * mpmath.pi)


BESIDE: dict[str, tuple[Callable[..., Any], Callable[..., Any], Any]] = {
    "spence": (special.spence, lambda x: mpmath.polylog(2, 1 - x).real, ([1e-12, 0.3, 1 - 1e-9, 1.0, 1 + 1e-9, 50.0],)),
    "owens_t": (special.owens_t, _owen, ([0.3, 1.0, 3.0, -2.0], [0.5, 1.0, 2.0, 0.7])),
    "poch": (special.poch, mpmath.rf, ([0.5, 2.0, 9.0], [1.5, 0.1, 3.0])),
    "comb": (special.comb, mpmath.binomial, ([5.0, 7.5, 40.0], [2.0, 3.1, 0.5])),
    "loggamma": (special.loggamma, mpmath.loggamma, ([0.1, 2.5, 300.0],)),
    "exprel": (special.exprel, lambda x: mpmath.expm1(x) / x, ([-3.0, 1e-9, 20.0],)),
    "hyp1f1": (lambda x: special.hyp1f1(0.3, 1.7, x), lambda x: mpmath.hyp1f1(0.3, 1.7, x), ([-5.0, 0.1, 3.0],)),
    "hyp2f1": (
        lambda x: special.hyp2f1(0.3, 1.7, 2.2, x),
        lambda x: mpmath.hyp2f1(0.3, 1.7, 2.2, x),
        ([-5.0, 0.1, 0.8],),
    ),
}


@pytest.mark.parametrize("name", BESIDE)
def test_values_and_derivatives_beside_mpmath(name: str) -> None:
    """Of all operands; compiled and mapped functions give the same."""
    own, exact, given = BESIDE[name]
    xs = [np.array(v) for v in given]
    want = [float(exact(*map(M, v))) for v in zip(*xs, strict=True)]
    z, pull = afx.vjp(own, *xs)
    np.testing.assert_allclose(np.asarray(z), want, rtol=1e-13)
    np.testing.assert_allclose(np.asarray(afx.jit(own)(*xs)), np.asarray(z), rtol=1e-15)
    np.testing.assert_allclose(np.asarray(afx.vmap(own)(*xs)), np.asarray(z), rtol=1e-15)
    step = M(10) ** -20
    for k, slopes in enumerate(pull(afx.ones(len(want), afx.float64))):
        shifts = [step if j == k else 0 for j in range(len(xs))]
        want = [
            float(
                (
                    exact(*[M(a) + s for a, s in zip(v, shifts, strict=True)])
                    - exact(*[M(a) - s for a, s in zip(v, shifts, strict=True)])
                )
                / (2 * step)
            )
            for v in zip(*xs, strict=True)
        ]
        np.testing.assert_allclose(np.asarray(slopes), want, rtol=1e-12)
    assert own(*[x.astype(np.float32) for x in xs]).dtype == np.float32
    assert np.isnan(np.asarray(own(*[np.full(1, np.nan) for _ in xs]))).all()


def test_hypergeometric_functions_of_large_arguments_end() -> None:
    """SciPy's goes on for ever where the function is infinite."""
    x = np.array([1e15, 1e300, np.inf, -1e300])
    np.testing.assert_array_equal(np.asarray(special.hyp1f1(0.5, 1.5, x)), [np.inf, np.inf, np.inf, 0.0])


def test_second_derivatives_of_the_dilogarithm_at_one() -> None:
    """Nothing is lost where numerator and denominator are both 0."""
    slope = afx.elementwise_grad(afx.elementwise_grad(special.spence))
    np.testing.assert_allclose(np.asarray(slope(np.array([1.0, 1 + 1e-8]))), [0.5, 0.5 - 2e-8 / 3], rtol=1e-14)


def test_hypergeometric_functions_of_arrays_of_parameters() -> None:
    """They broadcast with x, as SciPy's, with derivatives."""
    x, a = np.array([-0.5, 0.1, 0.6]), np.array([[1.0], [2.5], [1.0]])
    np.testing.assert_allclose(
        np.asarray(special.hyp2f1(a, [1, 2, 0.5], 2, x)), scipy_special.hyp2f1(a, [1, 2, 0.5], 2, x), rtol=1e-13
    )
    np.testing.assert_allclose(np.asarray(special.hyp1f1(a, 1.5, x)), scipy_special.hyp1f1(a, 1.5, x), rtol=1e-13)
    afx.testing.check_grads(lambda x: special.hyp2f1(a, [1, 2, 0.5], 2, x), (x,))
    afx.testing.check_grads(lambda x: special.hyp1f1(a, 1.5, x), (x,))


def test_faddeevas_function_beside_mpmath() -> None:
    """Of complex numbers, with their derivative; real ones become complex."""
    z = np.array([1 + 1j, -2 + 0.5j, 0.3 - 0.2j, 3.0])
    want = [complex(mpmath.exp(-(mpmath.mpc(v) ** 2)) * mpmath.erfc(-1j * mpmath.mpc(v))) for v in z]
    np.testing.assert_allclose(np.asarray(special.wofz(z)), want, rtol=1e-13)
    afx.testing.check_grads(special.wofz, (z,))
    assert special.wofz(np.float64(1.0)).dtype == np.complex128
    assert special.wofz(1).dtype == np.complex128


def test_choices_that_there_are_not() -> None:
    """They are 0, as SciPy's, with derivatives of 0; repetition counts choices with it."""
    n, k = np.array([5, 4, 3, -1, 5]), np.array([2, 4, 5, 1, -1])
    np.testing.assert_array_equal(np.asarray(special.comb(n, k)), scipy_special.comb(n, k))
    assert float(special.comb(5, 2, repetition=True)) == scipy_special.comb(5, 2, repetition=True)
    assert afx.grad(special.comb, argnums=(0, 1))(3.0, 5.0) == (0.0, 0.0)


@pytest.mark.parametrize(("n", "m"), [(0, 0), (3, -2), (5, 5), (4, 1), (4, 0)])
def test_spherical_harmonics_beside_scipy(n: int, m: int) -> None:
    """Values on the whole sphere, poles included; derivatives by both angles, which need no division by a sine."""
    theta, phi = np.array([0.0, 0.4, 1.5, np.pi]), np.array([0.2, 1.0, -2.0, 3.0])
    if not hasattr(scipy_special, "sph_harm_y"):
        pytest.skip("SciPy before 1.15")
    want = scipy_special.sph_harm_y(n, m, theta, phi)
    np.testing.assert_allclose(np.asarray(special.sph_harm_y(n, m, theta, phi)), want, atol=1e-15)
    afx.testing.check_grads(lambda a, b: special.sph_harm_y(n, m, a, b), (np.array([0.1, 1.5, 3.0]), phi[:3]))
    poles = np.asarray(afx.jacfwd(lambda a: special.sph_harm_y(n, m, a, 0.5))(np.float64(0.0)))
    assert np.isfinite(poles)


def test_bernoulli_numbers_and_bessel_functions_of_all_orders() -> None:
    """As SciPy's and JAX's; two numbers at least are SciPy's own."""
    for n in (0, 1, 2, 30):
        want = scipy_special.bernoulli(n)
        np.testing.assert_array_equal(np.asarray(special.bernoulli(n, dtype=afx.float64)), want[: n + 1])
    x = np.array([1.0, 2.0])
    np.testing.assert_allclose(np.asarray(special.bessel_jn(x, v=3)), [scipy_special.jv(k, x) for k in range(4)])


@pytest.mark.parametrize(
    ("fn", "said"),
    [
        (lambda: special.bernoulli(-1), "bernoulli: the order is an integer, 0 or more: got -1"),
        (lambda: special.hyp1f1(np.ones(2), "b", 1.0), "hyp1f1: [ab] is a number that is known"),
        (lambda: special.hyp2f1(1, 1, "c", 1.0), "hyp2f1: c is a number that is known"),
        (lambda: special.hyp1f1(1e15, 3.0, -1.0), "hyp1f1: a is at most 1e\\+06 in size"),
        (lambda: special.sph_harm_y(1, 2, 0.0, 0.0), "sph_harm_y: the order is at most the degree: got n=1, m=2"),
        (lambda: special.comb(5, 2, exact=True), "call math.comb"),
        (lambda: special.bessel_jn(1.0, v=-1), "bessel_jn: the order is an integer"),
    ],
)
def test_what_is_refused(fn: Callable[[], Any], said: str) -> None:
    """Errors name the function, the parameter, and what to write."""
    with pytest.raises(ArgumentError, match=said):
        fn()
    with pytest.raises(DtypeError, match="spence: not defined for complex"):
        special.spence(1j)


@pytest.mark.parametrize(
    ("y", "power"),
    [(np.inf, 2.5), (np.inf, 0.0), (-np.inf, 0.0), (-np.inf, -1.0), (np.inf, -1.0), (-np.inf, 2.0), (1e308, 10.0)],
)
def test_the_ends_of_what_box_cox_gives(y: float, power: float) -> None:
    """Numbers beyond all others go back to those that they came from, in every back end's form."""
    for name in ("inv_boxcox", "inv_boxcox1p"):
        wanted = getattr(scipy.special, name)(y, power)
        for run in (getattr(special, name), afx.jit(getattr(special, name))):
            np.testing.assert_allclose(np.asarray(run(np.float64(y), np.float64(power))), wanted, rtol=1e-12)
