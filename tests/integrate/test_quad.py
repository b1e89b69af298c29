"""`quad` integrates to its tolerance, with derivatives by limits and parameters."""

from typing import Any

import numpy as np
import pytest

import afx
from afx.integrate import quad
from afx.integrate.quad import GAUSS_WEIGHTS, NODES, WEIGHTS

INF = np.float64(np.inf)


def test_the_rule_is_exact_for_polynomials() -> None:
    """The rules of 10 and 21 points integrate polynomials of degree 19 and 31 exactly."""
    for weights, degree in ((GAUSS_WEIGHTS, 19), (WEIGHTS, 31)):
        for k in range(degree + 1):
            assert weights @ NODES**k == pytest.approx(1 / (k + 1), rel=1e-14)


@pytest.mark.parametrize(
    ("fn", "lower", "upper", "want"),
    [
        (lambda x: afx.exp(-x * x), -INF, INF, np.sqrt(np.pi)),
        (lambda x: 1 / (1 + x * x), 0.0, INF, np.pi / 2),
        (lambda x: afx.exp(x), -INF, 0.5, np.exp(0.5)),
        (lambda x: afx.exp(-x), INF, 1.0, -np.exp(-1.0)),
        (lambda x: afx.log(x), 0.0, 1.0, -1.0),
        (lambda x: afx.abs(x - 1 / 3), 0.0, 1.0, 5 / 18),
        (lambda x: afx.sin(50 * x) ** 2, 0.0, np.pi, np.pi / 2),
        (lambda x: x**30, 1.0, 0.0, -1 / 31),
        (lambda x: x, 1.0, 1.0, 0.0),
    ],
)
def test_known_integrals(fn: Any, lower: Any, upper: Any, want: float) -> None:
    """Values are right within the estimated error, which is within the tolerance."""
    result = quad(fn, np.float64(lower), np.float64(upper))
    assert result.converged
    assert abs(float(result.value) - want) <= float(result.error) + 1e-15
    assert float(result.error) <= 1.5e-8 * max(1.0, abs(want)) * 1.01


def test_integrals_are_differentiable() -> None:
    """By limits, arguments and closures, in both modes, twice, compiled and batched."""

    def area(a: Any, b: Any, k: Any) -> Any:
        return quad(lambda x: afx.exp(-k * x), a, b).value

    a, b, k = np.array([0.5, 2.0, 1.3])
    by_k = ((-b * k - 1) * np.exp(-k * b) + (a * k + 1) * np.exp(-k * a)) / k**2
    want = (-np.exp(-k * a), np.exp(-k * b), -by_k)
    for gradient in (afx.grad(area, argnums=(0, 1, 2)), afx.jit(afx.grad(area, argnums=(0, 1, 2)))):
        np.testing.assert_allclose(gradient(a, b, k), want, rtol=1e-10)
    whole = lambda k: (
        quad(lambda x, c: afx.exp(-c * x), np.float64(0.0), np.inf, k).value
    )  # a function to differentiate
    assert float(afx.jvp(whole, (k,), (np.float64(1.0),))[1]) == pytest.approx(-1 / k**2, rel=1e-9)
    assert float(afx.hessian(whole)(k)) == pytest.approx(2 / k**3, rel=1e-9)
    ks = np.array([0.5, 1.0, 4.0])
    np.testing.assert_allclose(afx.vmap(whole)(ks), 1 / ks, rtol=1e-8)


def test_trees_and_precision() -> None:
    """Integrands return trees; Python's limits give the default dtype."""
    result = quad(lambda x: {"a": x, "b": afx.stack([x * x, 1.0 + 0.0 * x])}, np.float64(0.0), 1.0)
    assert float(result.value["a"]) == pytest.approx(0.5)
    np.testing.assert_allclose(result.value["b"], [1 / 3, 1.0])
    assert quad(lambda x: x, 0, 1).value.dtype == np.float32


def test_it_says_why_it_stopped() -> None:
    """Integrals that do not exist, and limits, are reported; mistakes are named."""
    assert not quad(lambda x: 1 / x, np.float64(0.0), 1.0).converged
    assert quad(afx.sqrt, np.float64(0.0), 1.0, max_intervals=2).reason == "the limit of iterations was reached"
    assert quad(lambda x: x * np.nan, np.float64(0.0), 1.0).reason == "the function is not finite"
    with pytest.raises(afx.errors.ShapeError, match="scalars"):
        quad(lambda x: x, np.zeros(2), 1.0)
    with pytest.raises(afx.errors.ArgumentError, match="max_intervals"):
        quad(lambda x: x, 0.0, 1.0, max_intervals=0)


SINGULAR = {
    "root": (lambda x: x**-0.5, 0.0, 1.0, 2.0),
    "steep": (lambda x: x**-0.9, 0.0, 1.0, 10.0),
    "logarithm": (lambda x: afx.log(x) ** 2, 0.0, 1.0, 2.0),
    "both": (lambda x: x**-0.5 * afx.log(x), 0.0, 1.0, -4.0),
    "upper": (lambda x: (1 - x) ** -0.9, 0.0, 1.0, 10.0),
    "both ends": (lambda x: (x * (1 - x)) ** -0.5, 0.0, 1.0, np.pi),
    "gamma": (lambda x: afx.exp(-x) / afx.sqrt(x), 0.0, np.inf, np.sqrt(np.pi)),
    "backwards": (lambda x: x**-0.5, 1.0, 0.0, -2.0),
    "tail": (lambda x: x**-1.1, 1.0, np.inf, 10.0),
}


@pytest.mark.parametrize("name", SINGULAR)
def test_singular_ends_are_extrapolated(name: str) -> None:
    """Integrals of functions that are infinite at an end are exact to 1e-12, eager, compiled and mapped."""
    fn, lower, upper, want = SINGULAR[name]
    result = quad(fn, np.float64(lower), upper)
    assert result.reason == "the tolerance is met"
    assert float(result.value) == pytest.approx(want, rel=1e-12)
    if np.isfinite(upper):
        ends = np.float64(lower), np.float64(upper)
        assert float(afx.jit(lambda a, b: quad(fn, a, b).value)(*ends)) == pytest.approx(want, rel=1e-12)
        batch = afx.vmap(lambda s: quad(lambda x: s * fn(x), *ends).value)(np.array([1.0, 2.0]))
        np.testing.assert_allclose(np.asarray(batch), [want, 2 * want], rtol=1e-12)


@pytest.mark.parametrize("power", [0.3, 0.5, 0.9])
def test_derivatives_through_extrapolation(power: float) -> None:
    """Derivatives of extrapolated integrals by parameters and limits are exact, in both modes and twice."""

    def at(p: Any, b: Any = 1.0) -> Any:
        return quad(lambda x, p: x**-p, np.float64(0.0), b, p).value

    p, want = np.float64(power), 1 / (1 - power) ** 2
    for found in (afx.grad(at)(p), afx.jit(afx.grad(at))(p), afx.jvp(at, (p,), (np.float64(1.0),))[1]):
        assert float(found) == pytest.approx(want, rel=1e-11)
    assert float(afx.grad(afx.grad(at))(p)) == pytest.approx(2 / (1 - power) ** 3, rel=1e-9)
    assert float(afx.grad(at, argnums=1)(p, np.float64(2.0))) == pytest.approx(2**-power, rel=1e-12)


def test_points_between_the_limits() -> None:
    """Points name singularities, jumps and kinks inside of the range, in any order and direction; they may be traced."""
    want = 2 * (0.3**0.5 + 0.7**0.5)

    def at(c: Any) -> Any:
        return quad(lambda x, c: abs(x - c) ** -0.5, np.float64(0.0), 1.0, c, points=[c]).value

    assert float(at(np.float64(0.3))) == pytest.approx(want, rel=1e-12)
    steps = quad(afx.floor, np.float64(4.0), 0.0, points=[1.0, 3.0, 2.0])
    assert float(steps.value) == pytest.approx(-6.0, rel=1e-14)
    moved = afx.grad(lambda c: quad(lambda x, c: abs(x - c), np.float64(0.0), 1.0, c, points=[c]).value)(
        np.float64(0.3)
    )
    assert float(moved) == pytest.approx(-0.4, rel=1e-12)
    with pytest.raises(afx.errors.ArgumentError, match="points lie between the limits"):
        quad(afx.exp, 0.0, 1.0, points=[2.0])


def test_integrals_that_do_not_exist_say_so() -> None:
    """A function without an integral is no extrapolated number, and what has not converged has no derivative."""
    for power in (1.0, 1.1, 1.5):
        assert not quad(lambda x, p=power: x**-p, np.float64(0.0), 1.0).converged
    slope = afx.grad(lambda p: quad(lambda x, p: x**-p, np.float64(0.0), 1.0, p).value)(np.float64(1.1))
    assert np.isnan(float(slope))
