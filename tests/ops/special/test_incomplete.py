"""Incomplete gamma and beta functions: values against SciPy, derivatives by every argument, inverses.

Numbers in tables were made with mpmath at 70 digits: differences of its ``gammainc``, and of ``hyp2f1`` for the beta
functions, with steps of 1e-18 of the parameter.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

import afx
from afx import special, stats
from tests.ops.samples import together

# a, x, and the first and second derivative of gammainc by a
GAMMA = [
    (0.001, 1e-08, -17.5294998590612, 311.2023492820536),
    (0.001, 3.0, -0.01309791147888503, -0.04956929700348667),
    (0.5, 0.2, -0.8201614064863389, 1.033937861095309),
    (1.0, 1.0, -0.4317297106348987, 0.0336180352999592),
    (2.5, 0.01, -1.705664749777821e-5, 9.639327520786809e-5),
    (2.5, 30.0, -3.320467967686098e-11, -8.476372758880234e-11),
    (30.0, 28.0, -0.07049269276012013, 0.004883618603839374),
    (100.0, 10.0, -1.246351381063073e-62, 2.872043381942817e-62),
    (10000.0, 10000.0, -0.003989456049453669, 3.324602108308707e-12),
    (10000.0, 10500.0, -2.167832421716264e-8, -1.057697793253623e-9),
    (10000.0, 9000.0, -2.203778116786748e-26, 2.321931352097767e-27),
]
# a, b, x, and the derivatives of betainc by a, by b, and by both
BETA = [
    (0.001, 0.001, 0.5, -250.0004101840321, 250.0004101840321, 0.0),
    (0.001, 5.0, 1e-06, -11.5967390184102, 0.000218716277466092, 0.2161258450818243),
    (0.5, 0.5, 0.3, -0.6428114811572839, 0.4687445839155054, -0.2657297583584443),
    (1.0, 2.0, 0.25, -0.4190037829899521, 0.1618211657541268, -0.01376614301613556),
    (2.5, 30.0, 0.9, -3.001378756270944e-28, 2.543311333931756e-28, 6.732252295106898e-28),
    (2.5, 1.5, 0.99999, -5.936968620648693e-8, 1.176749933129404e-6, 6.202164551014681e-7),
    (30.0, 40.0, 0.4, -0.05096303510647503, 0.03599497751050728, -0.002398935667827675),
    (1000.0, 10.0, 0.5, -3.627062810529111e-283, 2.106321703957653e-282, -1.440622704740432e-282),
    (10000.0, 10000.0, 0.5, -0.002821006688412662, 0.002821006688412662, 0.0),
    (10000.0, 10000.0, 0.52, -3.07314509179736e-10, 3.198612675962631e-10, 1.25452414325258e-11),
    (10000.0, 0.1, 0.99999, -7.55526011783728e-6, 1.622003235224868, -6.135687066692099e-5),
]
SHAPES = np.array([1e-3, 0.1, 0.7, 1.0, 2.5, 30.0, 1e3])
POINTS = np.array([0.0, 1e-10, 0.01, 0.5, 1.0, 3.0, 40.0, 1100.0])
SHARES = np.array([0.0, 1e-10, 0.01, 0.5, 0.9, 1 - 1e-9, 1.0])


def slope(fn: Callable[..., Any], *xs: float, by: int = 0) -> float:
    """Return a derivative at a point, in float64."""
    return float(afx.grad(fn, by)(*[np.float64(x) for x in xs]))


@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
def test_gamma_values(name: str) -> None:
    """Values are SciPy's on a grid, at 0 and infinity too, and float32 is kept."""
    fn, peer = getattr(special, name), getattr(scipy.special, name)
    x = np.append(POINTS, np.inf)
    np.testing.assert_array_equal(np.asarray(fn(SHAPES[:, None], x)), peer(SHAPES[:, None], x))
    assert fn(np.float32(2), np.ones(3, np.float32)).dtype == np.float32
    slopes = afx.grad(lambda a, x: afx.sum(fn(a, x)), (0, 1))(np.float32(2), np.ones(3, np.float32))
    assert [g.dtype for g in slopes] == [np.float32, np.float32]


@pytest.mark.parametrize("name", ["betainc", "betaincc"])
def test_beta_values(name: str) -> None:
    """Values are SciPy's on a grid, at 0 and 1 too, and float32 is kept."""
    fn, peer = getattr(special, name), getattr(scipy.special, name)
    operands = (SHAPES[:, None, None], SHAPES[:, None], SHARES)
    np.testing.assert_array_equal(np.asarray(fn(*operands)), peer(*operands))
    half = np.full(3, 0.5, np.float32)
    assert fn(half, half, half).dtype == np.float32
    slopes = afx.grad(lambda *xs: afx.sum(fn(*xs)), (0, 1, 2))(half, half, half)
    assert [g.dtype for g in slopes] == [np.float32] * 3


@together(("a", "x", "first", "second"), GAMMA)
def test_gamma_by_its_parameter(a: float, x: float, first: float, second: float) -> None:
    """The first two derivatives by a are right for small and large a, around the mean and in both tails."""
    assert slope(special.gammainc, a, x) == pytest.approx(first, rel=1e-11, abs=0.0)
    assert slope(special.gammaincc, a, x) == pytest.approx(-first, rel=1e-11, abs=0.0)
    twice = float(afx.grad(afx.grad(special.gammainc))(np.float64(a), np.float64(x)))
    assert twice == pytest.approx(second, rel=1e-9, abs=1e-9 * first**2)  # it crosses 0 near the mean


@together(("a", "b", "x", "by_a", "by_b", "by_both"), BETA)
def test_beta_by_its_parameters(a: float, b: float, x: float, by_a: float, by_b: float, by_both: float) -> None:
    """Derivatives by a, by b and by both are right for small and large parameters, around the mean and in the tails."""
    for fn, sign in ((special.betainc, 1), (special.betaincc, -1)):
        assert slope(fn, a, b, x, by=0) == pytest.approx(sign * by_a, rel=2e-10, abs=0.0)
        assert slope(fn, a, b, x, by=1) == pytest.approx(sign * by_b, rel=2e-10, abs=0.0)
    mixed = float(afx.grad(afx.grad(special.betainc, 0), 1)(np.float64(a), np.float64(b), np.float64(x)))
    assert mixed == pytest.approx(by_both, rel=1e-9, abs=1e-12 * abs(by_a))
    swapped = float(afx.grad(afx.grad(special.betainc, 1), 0)(np.float64(a), np.float64(b), np.float64(x)))
    assert swapped == mixed


@pytest.mark.parametrize("a", [0.3, 2.5, 40.0])
@pytest.mark.parametrize("x", [1e-3, 2.0, 60.0])
def test_gamma_by_its_argument(a: float, x: float) -> None:
    """The derivative by x is the density, and that one's derivatives are its own."""
    log_density = (a - 1) * np.log(x) - x - scipy.special.gammaln(a)
    density = np.exp(log_density)
    assert slope(special.gammainc, a, x, by=1) == pytest.approx(density, rel=1e-12)
    second = float(afx.grad(afx.grad(special.gammainc, 1), 1)(np.float64(a), np.float64(x)))
    assert second == pytest.approx(density * ((a - 1) / x - 1), rel=1e-11)
    mixed = density * (np.log(x) - scipy.special.digamma(a))
    for first, then in ((0, 1), (1, 0)):
        found = float(afx.grad(afx.grad(special.gammainc, first), then)(np.float64(a), np.float64(x)))
        assert found == pytest.approx(mixed, rel=1e-11)


@together(
    ("fn", "xs", "expected"),
    [
        pytest.param(special.gammainc, [2.0, 0.0], [0.0, 0.0], id="gammainc at 0"),
        pytest.param(special.gammainc, [1.0, 0.0], [0.0, 1.0], id="gammainc(1, 0)"),
        pytest.param(special.gammainc, [0.5, 0.0], [0.0, np.inf], id="gammainc(½, 0)"),
        pytest.param(special.gammainc, [2.0, np.inf], [0.0, 0.0], id="gammainc at infinity"),
        pytest.param(special.betainc, [2.0, 3.0, 0.0], [0.0, 0.0, 0.0], id="betainc at 0"),
        pytest.param(special.betainc, [1.0, 3.0, 0.0], [0.0, 0.0, 3.0], id="betainc(1, 3, 0)"),
        pytest.param(special.betainc, [2.0, 1.0, 1.0], [0.0, 0.0, 2.0], id="betainc(2, 1, 1)"),
        pytest.param(special.betainc, [2.0, 0.5, 1.0], [0.0, 0.0, np.inf], id="betainc(2, ½, 1)"),
        pytest.param(special.gammaincinv, [2.0, 0.0], [0.0, np.inf], id="gammaincinv at 0"),
        pytest.param(special.gammaincinv, [1.0, 0.0], [0.0, 1.0], id="gammaincinv(1, 0)"),
        pytest.param(special.betaincinv, [2.0, 3.0, 1.0], [0.0, 0.0, np.inf], id="betaincinv at 1"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's own, at infinite values
def test_edges(fn: Callable[..., Any], xs: list[float], expected: list[float]) -> None:
    """Derivatives at the ends of the intervals are their limits."""
    assert [slope(fn, *xs, by=k) for k in range(len(xs))] == expected


def test_exponential_integral_at_parameter_0() -> None:
    """At a = 0 the derivative of gammainc by a is its limit, the exponential integral."""
    for x in (0.1, 1.0, 5.0):
        assert slope(special.gammainc, 0.0, x) == pytest.approx(-scipy.special.exp1(x), rel=1e-11)


@pytest.mark.parametrize("name", ["gammaincinv", "gammainccinv"])
@pytest.mark.parametrize("a", [0.05, 1.0, 3.3, 200.0])
def test_gamma_quantiles(name: str, a: float) -> None:
    """Quantiles are SciPy's; by the implicit function theorem, ``dF/da + dF/dx · dx/da`` is 0."""
    forward, inverse = getattr(special, name.removesuffix("inv")), getattr(special, name)
    for p in (1e-3, 0.4, 0.999):
        x = float(inverse(np.float64(a), np.float64(p)))
        assert x == getattr(scipy.special, name)(a, p)
        by_a, by_p = (slope(inverse, a, p, by=k) for k in range(2))
        assert slope(forward, a, x, by=1) * by_p == pytest.approx(1.0, rel=1e-13)
        assert slope(forward, a, x, by=1) * by_a == pytest.approx(-slope(forward, a, x), rel=1e-13)
        found = float(afx.grad(lambda a, p=p: forward(a, inverse(a, p)))(np.float64(a)))
        assert found == pytest.approx(0.0, abs=1e-14)


@pytest.mark.parametrize("name", ["betaincinv", "betainccinv"])
@pytest.mark.parametrize(("a", "b"), [(0.3, 0.6), (2.0, 5.0), (70.0, 20.0)])
def test_beta_quantiles(name: str, a: float, b: float) -> None:
    """Quantiles are SciPy's, and move with a, b and p by the implicit function theorem, at second order too."""
    forward, inverse = getattr(special, name.removesuffix("inv")), getattr(special, name)
    point = tuple(map(np.float64, (a, b, 0.3)))
    assert float(inverse(*point)) == getattr(scipy.special, name)(*point)

    def identity(values: Any) -> Any:
        return forward(values[0], values[1], inverse(*values))

    np.testing.assert_allclose([float(g) for g in afx.grad(identity)(point)], [0.0, 0.0, 1.0], atol=1e-12)
    second = afx.hvp(identity, (point,), (tuple(np.float64(t) for t in (1.0, -0.5, 0.1)),))
    np.testing.assert_allclose(np.array([float(g) for g in second]), 0.0, atol=1e-9)


def test_many_at_once() -> None:
    """Under vmap and jit, and over more elements than fit one block, derivatives are those of a loop."""
    rng = np.random.default_rng(3)
    a, b, x = rng.uniform(0.2, 9, 1500), rng.uniform(0.2, 9, 1500), rng.uniform(0.1, 0.9, 1500)
    gradient = afx.grad(special.betainc, (0, 1, 2))
    many = afx.vmap(gradient)(a, b, x)
    compiled = afx.jit(afx.vmap(gradient))(a, b, x)
    for k in (0, 777, 1499):
        for g, c, one in zip(many, compiled, gradient(a[k], b[k], x[k]), strict=True):
            assert float(g[k]) == pytest.approx(float(one), rel=1e-12)
            assert float(c[k]) == pytest.approx(float(one), rel=1e-12)


@pytest.mark.parametrize("name", ["gammainc", "betainc", "gammaincinv", "betaincc"])
def test_scipy_on_arrays_is_afx(name: str) -> None:
    """SciPy's function called on afx arrays is afx's."""
    operands = [np.array([0.3, 0.6])] * (3 if name.startswith("beta") else 2)
    found = getattr(scipy.special, name)(*[afx.asarray(x) for x in operands])
    assert isinstance(found, afx.Array)
    np.testing.assert_array_equal(np.asarray(found), getattr(scipy.special, name)(*operands))


def test_shapes_must_fit() -> None:
    """Shapes that do not broadcast raise, and the error names them."""
    with pytest.raises(
        afx.errors.ShapeError, match=r"gammainc: operands could not be broadcast together: got float64\[2\]"
    ):
        special.gammainc(np.ones(2), np.ones(3))
    with pytest.raises(afx.errors.DtypeError, match="betainc"):
        special.betainc(1j, 1.0, 0.5)


def test_betainc_of_whole_parameters_in_float32() -> None:
    """Float32 operands give the rounded number of float64, also where SciPy's loop of float32 gives inf, nan or 0."""
    a, b = np.array([11, 36, 89, 11, 28], np.float32), np.array([999_990, 18_764, 21, 70_386, 812_806], np.float32)
    x = np.array([0.5, 0.2328, 0.3105, 0.6, 0.4162], np.float32)
    want = scipy.special.betainc(*[v.astype(np.float64) for v in (a, b, x)])
    fn = special.betainc
    for found in (fn(a, b, x), afx.jit(fn)(a, b, x), afx.jit(fn, backend="native")(a, b, x)):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, want, rtol=1e-6)
    sums = stats.binom.sf(np.float32(10), np.float32(1e6), np.float32(0.5))
    assert float(sums) == 1.0
    assert special.betainc(11, 5, x).dtype == np.float32
    assert special.betainc(11, 5, 0.5).dtype == np.float64


@pytest.mark.parametrize("name", ["betaincinv", "betainccinv", "stdtrit"])
def test_quantiles_of_float32_are_those_of_float64(name: str) -> None:
    """They are rounded once, where SciPy's loops of float32 give nan, or three digits."""
    rng = np.random.default_rng(4)
    a, b = np.append(rng.integers(1, 200, 3000), [27, 29]), np.append(rng.integers(1, 200, 3000), [154, 145])
    if name == "stdtrit":
        a = a / 50 + 0.5
    given = [a, b, np.append(rng.random(3000), [0.7591807842254639, 0.2640695571899414])]
    xs = [x.astype(np.float32) for x in (given[::2] if name == "stdtrit" else given)]
    fn = getattr(special, name)
    found, want = fn(*xs), np.asarray(fn(*[x.astype(np.float64) for x in xs]))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, want.astype(np.float32))
