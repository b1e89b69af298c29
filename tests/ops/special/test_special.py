"""Special functions: values against SciPy, derivatives against constants of 30 digits, tails, edges and dispatch.

Numbers in tables were made with mpmath at 40 digits, by its own functions and their numerical derivatives, and rounded.
"""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

import afx
from afx import special
from tests.ops.samples import together

GRID = np.concatenate([-np.geomspace(1e-8, 30, 40)[::-1], [0.0], np.geomspace(1e-8, 30, 40)])
POSITIVE = np.geomspace(1e-6, 1e5, 60)
SHARES = np.concatenate([np.geomspace(1e-12, 0.5, 40), 1 - np.geomspace(1e-12, 0.5, 40)])
ONE_OPERAND = {
    "erf": GRID,
    "erfc": GRID,
    "erfcx": GRID[GRID > -25],
    "erfinv": 2 * SHARES - 1,
    "erfcinv": 2 * SHARES,
    "ndtr": GRID,
    "ndtri": SHARES,
    "ndtri_exp": np.concatenate([-np.geomspace(1e-10, 1e8, 40), np.log(SHARES)]),
    "log_ndtr": np.concatenate([GRID, -np.geomspace(30, 1e8, 20)]),
    "gammaln": POSITIVE,
    "gamma": np.linspace(-5.3, 20, 50),
    "gammasgn": np.linspace(-5.3, 3, 50),
    "digamma": np.linspace(-5.3, 20, 50),
    "factorial": np.linspace(0, 20, 50),
    "expit": GRID,
    "log_expit": GRID,
    "logit": SHARES,
    "entr": np.concatenate([[-1.0, 0.0], POSITIVE]),
}
TWO_OPERANDS = {
    "beta": (POSITIVE[:40], POSITIVE[:40]),
    "betaln": (POSITIVE[:40], POSITIVE[:40]),  # beyond them SciPy loses digits
    "xlogy": (np.array([-1.0, 0.0, 2.5]), np.concatenate([[0.0], POSITIVE])),
    "xlog1py": (np.array([-1.0, 0.0, 2.5]), np.concatenate([[-1.0, -0.5], POSITIVE])),
    "rel_entr": (np.array([-1.0, 0.0, 1e-300, 2.5]), np.concatenate([[-1.0, 0.0, np.inf], POSITIVE])),
    "kl_div": (np.array([-1.0, 0.0, 1e-300, 2.5]), np.concatenate([[-1.0, 0.0], POSITIVE])),
}


FAR_BETALN = [
    (1e-6, 1e5, 13.815498467828967),
    (3e-4, 2e7, 8.106511619777862),
    (0.25, 1e12, -5.619732754283966),
    (2.5, 1e15, -86.06225811680379),
    (40.0, 1e9, -722.2988739972129),
    (1e5, 1e5, -138633.92706134808),
]


def slope(fn: Callable[..., Any], *xs: float, by: int = 0) -> float:
    """Return a derivative at a point, in float64."""
    return float(afx.grad(fn, by)(*[np.float64(x) for x in xs]))


def second(fn: Callable[..., Any], x: float) -> float:
    """Return a second derivative at a point, in float64."""
    return float(afx.grad(afx.grad(fn))(np.float64(x)))


@together("name", ONE_OPERAND)
def test_values_of_one_operand(name: str) -> None:
    """Values are SciPy's, in float64 and in float32, whose dtype is kept."""
    x, fn = ONE_OPERAND[name], getattr(special, name)
    want = getattr(scipy.special, name)(x)
    np.testing.assert_allclose(np.asarray(fn(x)), want, rtol=1e-13, atol=1e-300)
    small = x.astype(np.float32)
    found = fn(small)
    assert found.dtype == np.float32
    np.testing.assert_allclose(np.asarray(found), getattr(scipy.special, name)(small), rtol=2e-6, atol=1e-37)


@pytest.mark.parametrize("name", TWO_OPERANDS)
def test_values_of_two_operands(name: str) -> None:
    """Values of two operands that broadcast are SciPy's."""
    x, y = TWO_OPERANDS[name]
    want = getattr(scipy.special, name)(x[:, None], y)
    np.testing.assert_allclose(np.asarray(getattr(special, name)(x[:, None], y)), want, rtol=1e-12)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_polygamma(n: int) -> None:
    """Polygamma functions of any order are SciPy's, and each is the derivative of the one before."""
    x = np.concatenate([np.geomspace(1e-3, 1e4, 30), [-0.5, -3.2]])
    np.testing.assert_allclose(np.asarray(special.polygamma(n, x)), scipy.special.polygamma(n, x), rtol=1e-13)
    found = afx.grad(lambda x: afx.sum(special.polygamma(n, x)))(x)
    np.testing.assert_allclose(np.asarray(found), scipy.special.polygamma(n + 1, x), rtol=1e-13)


@pytest.mark.parametrize(("a", "b", "want"), FAR_BETALN)
def test_betaln_of_unlike_parameters(a: float, b: float, want: float) -> None:
    """The logarithm of the beta function keeps its digits where one parameter outweighs the other (SciPy loses nine)."""
    assert float(special.betaln(np.float64(a), b)) == pytest.approx(want, rel=1e-13)
    assert float(special.betaln(np.float64(b), a)) == pytest.approx(want, rel=1e-13)


@pytest.mark.parametrize(
    ("df", "p", "want"),
    [
        (1.0, 1e-300, 2.1945482016709167e302),
        (2.0, 1e-280, 1.13618593955467e142),
        (30.0, 1e-290, 16837032135.29261),
        (0.1, 1e-5, 1.7273572818455204e49),
        (3.0, 0.2, 0.05155072611488466),
    ],
)
def test_quantiles_of_students_t_by_degrees_of_freedom(df: float, p: float, want: float) -> None:
    """The derivative is finite wherever the quantile is, in tails whose density underflows too."""
    assert slope(special.stdtrit, df, p) == pytest.approx(want, rel=1e-12)


def test_multigammaln() -> None:
    """The multivariate gamma function is SciPy's."""
    for d in (1, 2, 4):
        assert float(special.multigammaln(np.float64(3.7), d)) == pytest.approx(
            scipy.special.multigammaln(3.7, d), rel=1e-14
        )
    with pytest.raises(afx.errors.ArgumentError, match=r"one logarithm a dimension: got d=1e\+09"):
        special.multigammaln(3e9, 10**9)


@pytest.mark.parametrize("order", [171, 10**9])
def test_orders_without_a_factorial_are_refused(order: int) -> None:
    """An order above 170 raises at once, and no factorial of a billion is computed; 170 itself is SciPy's."""
    with pytest.raises(afx.errors.ArgumentError, match="no float64 above 170"):
        special.polygamma(order, 1.0)
    np.testing.assert_allclose(special.polygamma(170, np.float64(2.0)), scipy.special.polygamma(170, 2.0), rtol=1e-13)


@pytest.mark.parametrize("order", [0.5, -1, "one"])
def test_orders_are_integers(order: Any) -> None:
    """An order that is no integer, or too small, raises."""
    with pytest.raises(afx.errors.ArgumentError, match="the order is an integer"):
        special.polygamma(order, 1.0)


@together(
    ("fn", "x", "first", "twice"),
    [
        (special.log_ndtr, -30.0, 30.03325966743368, -0.9988962284881099),
        (special.log_ndtr, -10000.0, 10000.0001, -0.9999999900000006),
        (special.log_ndtr, -1.0, 1.525135276160981, -0.8009023344296512),
        (special.log_ndtr, 5.0, 1.486719940904906e-6, -7.433601914860711e-6),
        (special.log_ndtr, 20.0, 5.520948362159763e-88, -1.104189672431953e-86),
        (special.erfcx, -5.0, -1440097986747.739, 14688999464826.71),
        (special.erfcx, 3.0, -0.05437226000717287, 0.03176874231974267),
        (special.erfcx, 10000.0, -5.641895750849127e-9, 1.128379133244139e-12),
        (special.erfcx, 100000000.0, -5.641895835477562e-17, 1.128379167095512e-24),
        (special.erfc, -6.0, -2.617301239249265e-16, -3.140761487099118e-15),
        (special.erfc, 0.3, -1.031260909618963, 0.6187565457713778),
        (special.erfc, 25.0, -4.153401063639897e-272, 2.076700531819948e-270),
        (special.erfinv, 0.3, 0.9545203588405493, 0.496486526010743),
        (special.erfinv, 0.9999999999990905, 106817285124.6591, 1.152689353100098e23),
        (special.erfinv, -0.9999999999999999, 757347920544974.0, -6.726421479466189e30),
        (special.ndtri, 1e-100, 4.690375414837741e98, -4.680079270222467e198),
        (special.ndtri, 1e-10, 1535723698.196386, -1.500288713062846e19),
        (special.ndtri, 0.25, 3.146865080561092, -6.679310007532782),
        (special.gammaln, 1e-06, -1000000.57721402, 1000000000001.645),
        (special.gammaln, 0.5, -1.963510026021423, 4.934802200544679),
        (special.gammaln, 1000000.0, 13.81551005796419, 1.000000500000167e-6),
        (special.gamma, -2.5, -1.042823592460615, -10.16793081139032),
        (special.gamma, 0.1, -99.166472874637, 1998.673483922574),
        (special.gamma, 10.0, 817115.9795205318, 1878105.782345317),
        (special.logit, 1e-12, 1000000000001.0, -1.0e24),
        (special.logit, 0.5000000009313226, 4.0, 2.980232238769531e-8),
        (special.logit, 0.9999999999990905, 1099511627777.0, 1.208925819614629e24),
    ],
)
def test_tails(fn: Callable[[Any], Any], x: float, first: float, twice: float) -> None:
    """First and second derivatives are accurate far out too."""
    assert slope(fn, x) == pytest.approx(first, rel=1e-12, abs=0.0)
    assert second(fn, x) == pytest.approx(twice, rel=1e-11, abs=0.0)


@together(
    ("fn", "xs", "expected"),
    [
        pytest.param(special.entr, [0.0], [np.inf], id="entr at 0"),
        pytest.param(special.entr, [-1.0], [0.0], id="entr below 0"),
        pytest.param(special.xlogy, [0.0, 0.0], [0.0, 0.0], id="xlogy(0, 0)"),
        pytest.param(special.xlogy, [0.0, 2.0], [np.log(2.0), 0.0], id="xlogy(0, 2)"),
        pytest.param(special.xlogy, [2.0, 0.0], [-np.inf, np.inf], id="xlogy(2, 0)"),
        pytest.param(special.xlog1py, [0.0, -1.0], [0.0, 0.0], id="xlog1py(0, -1)"),
        pytest.param(special.rel_entr, [0.0, 0.0], [0.0, 0.0], id="rel_entr(0, 0)"),
        pytest.param(special.rel_entr, [0.0, 1.0], [-np.inf, 0.0], id="rel_entr(0, 1)"),
        pytest.param(special.rel_entr, [1.0, 0.0], [0.0, 0.0], id="rel_entr(1, 0)"),
        pytest.param(special.kl_div, [0.0, 0.0], [0.0, 1.0], id="kl_div(0, 0)"),
        pytest.param(special.kl_div, [2.0, 2.0], [0.0, 0.0], id="kl_div at equal values"),
        pytest.param(special.logit, [0.0], [np.inf], id="logit at 0"),
        pytest.param(special.logit, [1.0], [np.inf], id="logit at 1"),
        pytest.param(special.erf, [np.inf], [0.0], id="erf at inf"),
        pytest.param(special.erf, [1e300], [0.0], id="erf far out"),
        pytest.param(special.erfc, [-np.inf], [0.0], id="erfc at -inf"),
        pytest.param(special.erfcx, [np.inf], [0.0], id="erfcx at inf"),
        pytest.param(special.erfinv, [1.0], [np.inf], id="erfinv at 1"),
        pytest.param(special.erfcinv, [0.0], [-np.inf], id="erfcinv at 0"),
        pytest.param(special.ndtri, [0.0], [np.inf], id="ndtri at 0"),
        pytest.param(special.log_ndtr, [np.inf], [0.0], id="log_ndtr at inf"),
        pytest.param(special.log_ndtr, [-np.inf], [np.inf], id="log_ndtr at -inf"),
        pytest.param(special.beta, [-1.0, 1.0], [-1.0, -np.inf], id="beta at cancelling poles"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's own, at infinite values
def test_edges(fn: Callable[..., Any], xs: list[float], expected: list[float]) -> None:
    """Derivatives at edges are as the docstrings say."""
    assert [slope(fn, *xs, by=k) for k in range(len(xs))] == expected


@pytest.mark.parametrize("name", ["erf", "expit", "log_expit", "digamma", "entr", "ndtr", "logit"])
def test_scipy_on_arrays_is_afx(name: str) -> None:
    """SciPy's function called on an afx array is afx's, and differentiates."""
    fn, x = getattr(scipy.special, name), np.array([0.25, 0.5])
    found = fn(afx.asarray(x))
    assert isinstance(found, afx.Array)
    np.testing.assert_allclose(np.asarray(found), fn(x), rtol=1e-14)
    want = afx.grad(lambda x: afx.sum(getattr(special, name)(x)))(x)
    np.testing.assert_array_equal(np.asarray(afx.grad(lambda x: afx.sum(fn(x)))(x)), np.asarray(want))


def test_log_of_the_normal_distribution_inverts() -> None:
    """`ndtri_exp` undoes `log_ndtr`, in its derivative too, in both tails."""
    for x in (-1e4, -30.0, -1.0, 2.0, 6.0):
        y = float(special.log_ndtr(np.float64(x)))
        assert float(special.ndtri_exp(np.float64(y))) == pytest.approx(x, rel=1e-8)
        assert slope(special.ndtri_exp, y) * slope(special.log_ndtr, x) == pytest.approx(1.0, rel=1e-6)


def test_scipy_functions_never_detach() -> None:
    """What SciPy computes in Python refuses a traced array, and its zeta function, which is a ufunc inside, is afx's."""
    for fn in (scipy.special.softmax, scipy.special.logsumexp, lambda x: scipy.special.polygamma(1, x)):
        with pytest.raises(afx.errors.ConcreteValueError):
            afx.grad(lambda x, fn=fn: afx.sum(fn(x)))(np.ones(2))
    for fn in (lambda x: scipy.special.zeta(x, 1), scipy.special.zeta):
        assert slope(fn, 2.0) == slope(special.zeta, 2.0)


def test_without_scipy() -> None:
    """Where SciPy is missing, the error names the extra; logarithms, shares, entropies and error functions do without it."""
    code = (
        "import sys; sys.modules['scipy.special'] = None\n"
        "import afx\n"
        "from afx import special as s\n"
        "print(s.logit(0.5), s.xlogy(0.0, 0.0), s.entr(0.0), s.expit(0.0), s.kl_div(1.0, 1.0))\n"
        "print(s.erf(0.0), afx.nn.gelu(0.0, approximate=False))\n"
        "try: s.jv(1, 0.5)\n"
        "except afx.errors.MissingExtraError as error: print(error)\n"
    )
    lines = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines[0] == "0.0 0.0 0.0 0.5 0.0"
    assert lines[1] == "0.0 0.0"
    assert lines[2] == "j1: needs SciPy, which is not installed; pip install 'afx[scipy]'"


@pytest.mark.parametrize(
    ("x", "q", "by_x", "twice_by_x", "by_both"),
    [
        (1.01, 1.0, -9999.927281160435, 1999999.990289209, -0.7085260346873371),
        (2.0, 1.0, -0.9375482543158438, 1.989280234298901, -0.8058044173883206),
        (2.0, 0.01, 46050.75649917457, 212077.9129573509, -10210341.12908741),
        (3.5, 100.0, -2.025219904745374e-5, 0.0001019127118218904, 4.681298396750646e-7),
        (30.0, 0.7, 15824.55117750559, 5644.220904149874, -741576.2945553201),
    ],
)
def test_zeta(x: float, q: float, by_x: float, twice_by_x: float, by_both: float) -> None:
    """The zeta function is SciPy's, and differentiates by both arguments."""
    point = (np.float64(x), np.float64(q))
    assert float(special.zeta(*point)) == scipy.special.zeta(x, q)
    assert slope(special.zeta, x, q) == pytest.approx(by_x, rel=1e-13)
    assert float(afx.grad(afx.grad(special.zeta))(*point)) == pytest.approx(twice_by_x, rel=1e-13)
    assert float(afx.grad(afx.grad(special.zeta), 1)(*point)) == pytest.approx(by_both, rel=1e-13)
    assert float(afx.grad(afx.grad(special.zeta, 1))(*point)) == pytest.approx(by_both, rel=1e-13)
    assert slope(special.zeta, x, q, by=1) == pytest.approx(-x * scipy.special.zeta(x + 1, q), rel=1e-14)


def test_rgamma() -> None:
    """The reciprocal gamma function is SciPy's, and has derivatives at the poles of the gamma function."""
    poles = np.array([0.0, -1.0, -2.0, -5.0])
    x = np.concatenate([[-3.5, -0.2, 0.4, 1.0, 2.5, 6.0], poles])
    np.testing.assert_allclose(np.asarray(special.rgamma(x)), scipy.special.rgamma(x), rtol=1e-14)
    slopes = afx.vmap(afx.grad(special.rgamma))(poles)
    np.testing.assert_allclose(np.asarray(slopes), [1.0, -1.0, 2.0, -120.0], rtol=1e-12)  # (-1)ⁿ n!
    second = afx.vmap(afx.grad(afx.grad(special.rgamma)))(poles[:2])
    np.testing.assert_allclose(np.asarray(second), [2 * np.euler_gamma, 2 - 2 * np.euler_gamma], rtol=1e-12)


# Derivatives by df of the distribution function of Student's t at t, and by both degrees of freedom of Fisher's F at y,
# made with mpmath at 40 digits as central differences of its ``betainc``.
BY_DEGREES_OF_T = [
    (3.0, -3.0, -0.012214731099656578),
    (3.0, 0.1, 0.0009778873739133493),
    (3.0, 6.0, 0.004406295572369194),
    (29.0, -3.0, -5.6771922882328625e-05),
    (29.0, 0.1, 1.1808079412803e-05),
    (29.0, 6.0, 1.0824894270073275e-07),
    (310.0, -3.0, -3.604640464746971e-07),
    (310.0, 0.1, 1.0421295587893568e-07),
    (310.0, 6.0, 8.457325620366579e-12),
    (10000.0, -3.0, -3.3282403426193825e-10),
    (10000.0, 0.1, 1.0022799489281824e-10),
    (10000.0, 6.0, 3.4726121078689746e-15),
    (1000000.0, -3.0, -3.323929851838475e-14),
    (1000000.0, 0.1, 1.0023049300910833e-14),
    (1000000.0, 6.0, 3.3731078492270763e-19),
]
BY_DEGREES_OF_F = [
    (1.0, 2.0, 0.5, -0.18099581957681707, 0.031887848182811616),
    (1.0, 2.0, 1.0, -0.12469196056890673, 0.04501749765653146),
    (1.0, 2.0, 3.0, -0.04292257951787308, 0.06247149568449241),
    (300.0, 10.0, 0.5, -1.2929414286285525e-05, -0.0054156253486807235),
    (300.0, 10.0, 1.0, -9.40356303275598e-06, 0.0031188287430187556),
    (300.0, 10.0, 3.0, 2.610634380709078e-06, 0.007109835478617021),
    (5.0, 100000.0, 0.5, -0.036029788185817445, -9.41189320520768e-12),
    (5.0, 100000.0, 1.0, -0.008381610062774682, 6.101760809937724e-11),
    (5.0, 100000.0, 3.0, 0.005303676891071026, 3.8461624484652206e-11),
    (10000.0, 5.0, 0.5, -9.915804809395021e-09, -0.014688195439427076),
    (10000.0, 5.0, 1.0, -6.09892496727767e-09, 0.008387457400771238),
    (10000.0, 5.0, 3.0, 1.3811577923400634e-09, 0.03124427128385297),
    (3000.0, 2000.0, 0.5, -2.9714456087813383e-68, -4.195938405692657e-68),
    (3000.0, 2000.0, 1.0, -7.962767437784906e-07, 1.4659100740744105e-06),
]


@together(("df", "t", "want"), BY_DEGREES_OF_T)
def test_derivatives_of_students_t_by_degrees_of_freedom(df: float, t: float, want: float) -> None:
    """They keep their digits however many degrees of freedom there are, where terms of it cancel."""
    slope = afx.grad(lambda n: afx.stats.t.cdf(np.float64(t), n))
    for run in (slope, afx.jit(slope)):
        assert float(run(np.float64(df))) == pytest.approx(want, rel=2e-12)


@together(("m", "n", "y", "by_m", "by_n"), BY_DEGREES_OF_F)
def test_derivatives_of_fishers_f_by_degrees_of_freedom(m: float, n: float, y: float, by_m: float, by_n: float) -> None:
    """They keep their digits however many degrees of freedom there are; those of the complement are the negatives."""
    for fn, sign in ((afx.stats.f.cdf, 1), (afx.stats.f.sf, -1)):
        found = afx.grad(lambda p, fn=fn: fn(np.float64(y), p[0], p[1]))(np.array([m, n]))
        np.testing.assert_allclose(np.asarray(found), [sign * by_m, sign * by_n], rtol=2e-11)
