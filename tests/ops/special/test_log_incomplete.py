"""Logarithms of the incomplete gamma and beta functions: values and derivatives where the functions underflow.

Numbers in the table were made with mpmath at 60 digits: its ``gammainc`` and ``hyp2f1``, and their central differences.
"""

import itertools
import math

import numpy as np
import pytest
import scipy.special

import afx
from afx import special
from tests.ops.samples import together

# operands, and the value and its derivative by each of them
TABLE = [
    ("log_gammaincc", (3.0, 800.0), (-787.3214237278234, 5.763078951163234, -0.9975031249902588)),
    ("log_gammaincc", (0.5, 20.0), (-22.09383308421964, 5.005938572071683, -1.02388273608503)),
    ("log_gammaincc", (100.0, 1000.0), (-675.1623043733718, 2.308701806157326, -0.9011096082724724)),
    ("log_gammaincc", (300.0, 1400.0), (-642.938032987116, 1.543019630010323, -0.7866221046281629)),
    ("log_gammainc", (500.0, 1.0), (-2612.328460465461, -6.215611757057216, 499.0019999840323)),
    ("log_gammainc", (3.0, 1.0), (-2.5219682600314, -1.325747207726556, 2.290616692785362)),
    ("log_gammainc", (0.75, 1e-300), (-517.9972448026398, -691.0230003517606, 7.5e299)),
    ("log_gammainc", (1000.0, 300.0), (-507.9896393300137, -1.204899552188176, 2.334758132811412)),
    ("log_betainc", (500.0, 2.0, 0.01), (-2296.378517067321, -4.603174218246156, 5.784789263817046, 49998.99193548387)),
    (
        "log_betainc",
        (500.0, 500.0, 0.25),
        (-147.5239271952194, -0.6956321967492507, 0.4069565131378203, 1337.301863916607),
    ),
    ("log_betainc", (3.0, 0.5, 1e-150), (-1037.326442657126, -345.5407249768934, 3.066666666666667, 3.0e150)),
    (
        "log_betaincc",
        (2.0, 500.0, 0.99),
        (-2296.37851706732, 5.784789263817046, -4.603174218246155, -49998.99193548383),
    ),
    (
        "log_betaincc",
        (500.0, 500.0, 0.9),
        (-514.976106980757, 0.5885360754624613, -1.611185705602233, -4446.93666928115),
    ),
    (
        "log_betaincc",
        (0.5, 300.0, 0.96),
        (-969.0670785117337, 7.62660936797823, -3.220540872781016, -7500.519031513363),
    ),
]


@together(("name", "xs", "expected"), TABLE)
def test_values_and_derivatives(name: str, xs: tuple[float, ...], expected: tuple[float, ...]) -> None:
    """The logarithm and its derivative by every argument keep their digits, eagerly and compiled."""
    operands = [np.float64(x) for x in xs]
    fn = afx.value_and_grad(getattr(special, name), tuple(range(len(xs))))
    for run in (fn, afx.jit(fn)):
        value, slopes = run(*operands)
        assert float(value) == pytest.approx(expected[0], rel=2e-14)
        assert [float(g) for g in slopes] == pytest.approx(expected[1:], rel=5e-13)


@together(("name", "xs", "expected"), [row for row in TABLE if row[1][-1] > 1e-200])  # x² would underflow
def test_second_derivatives(name: str, xs: tuple[float, ...], expected: tuple[float, ...]) -> None:
    """Second derivatives are differences of the first ones, in the tails too, and symmetric."""
    fn, operands = getattr(special, name), np.array(xs)
    steps = 1e-6 * operands
    hessian = np.asarray(afx.hessian(lambda v: fn(*v))(operands))
    for i, j in itertools.product(range(len(xs)), repeat=2):
        move = steps * (np.arange(len(xs)) == j)
        above, below = (float(afx.grad(fn, i)(*[np.float64(x) for x in operands + s * move])) for s in (1, -1))
        difference = (above - below) / (2 * steps[j])
        assert hessian[i, j] == pytest.approx(difference, rel=1e-5, abs=1e-9 * abs(expected[1 + i] / xs[j]))
        assert hessian[i, j] == pytest.approx(hessian[j, i], rel=1e-7)


@pytest.mark.parametrize("name", ["gammainc", "gammaincc", "betainc", "betaincc"])
def test_logarithms_of_the_functions(name: str) -> None:
    """Where the functions do not underflow the values are their logarithms, at the ends of the axes too."""
    shapes = np.array([1e-3, 0.7, 1.0, 2.5, 30.0])
    if name.startswith("gamma"):
        operands: tuple[np.ndarray, ...] = (shapes[:, None], np.array([0.0, 1e-10, 0.5, 3.0, 40.0, np.inf]))
    else:
        operands = (shapes[:, None, None], shapes[:, None], np.array([0.0, 1e-10, 0.3, 0.9, 1.0]))
    value, rest = (
        getattr(scipy.special, n)(*operands) for n in (name, name[:-1] if name.endswith("cc") else f"{name}c")
    )
    with np.errstate(divide="ignore"):
        expected = np.where(value > 0.5, np.log1p(-rest), np.log(value))
    found = np.asarray(getattr(special, f"log_{name}")(*operands))
    there = (value > 1e-290) | (operands[-1] == 0)
    np.testing.assert_allclose(found[there], expected[there], rtol=1e-13, atol=0.0)


def test_gammaincc_of_the_issue() -> None:
    """The derivative of the logarithm is about -1 where the function is 0 in float64, and in float32 too."""
    assert float(afx.grad(special.log_gammaincc, 1)(3.0, np.float64(800.0))) == pytest.approx(-0.9975031249902588)
    slope = afx.grad(special.log_gammaincc, 1)(np.float32(3), np.float32(200))
    assert slope.dtype == np.float32
    assert float(slope) == pytest.approx(-0.9900506, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "xs", "expected"),
    [
        ("log_gammaincc", (2.0, math.inf), (-math.inf, -1.0)),
        ("log_gammainc", (2.0, 0.0), (-math.inf, math.inf)),
        ("log_gammainc", (2.0, math.inf), (0.0, 0.0)),
        ("log_betainc", (2.0, 3.0, 1.0), (0.0, 0.0)),
        ("log_betaincc", (2.0, 3.0, 0.0), (0.0, 0.0)),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # a pole
def test_ends(name: str, xs: tuple[float, ...], expected: tuple[float, float]) -> None:
    """At the ends of the axis the value and the derivative by the argument are their limits."""
    value, slope = afx.value_and_grad(getattr(special, name), len(xs) - 1)(*[np.float64(x) for x in xs])
    assert (float(value), float(slope)) == expected
