"""Bessel functions and exponential integrals: values against SciPy, derivatives against constants.

Numbers in the table were made with mpmath at 60 digits, as differences of its functions with steps of 1e-15.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.special

import afx
from afx import special
from tests.ops.samples import together

GRID = np.concatenate([-np.geomspace(1e-6, 600, 30), [0.0], np.geomspace(1e-6, 600, 30)])


@pytest.mark.parametrize("name", ["i0", "i1", "i0e", "i1e", "j0", "j1", "exp1", "expi"])
def test_values(name: str) -> None:
    """Values are SciPy's, and float32 is kept."""
    x = GRID[GRID > 0] if name.startswith("exp") else GRID
    fn, peer = getattr(special, name), getattr(scipy.special, name)
    np.testing.assert_array_equal(np.asarray(fn(x)), peer(x))
    assert fn(x.astype(np.float32)).dtype == np.float32


@together("name", ["iv", "ive", "jv", "kv", "kve"])
@together("v", [-1.5, -1, 0, 0.5, 3])
def test_values_of_any_order(name: str, v: float) -> None:
    """Values of an order that is a static number are SciPy's, and float32 is kept."""
    x = GRID[(GRID > 0) & (GRID < 100)]
    found = getattr(special, name)(v, x)
    np.testing.assert_allclose(np.asarray(found), getattr(scipy.special, name)(v, x), rtol=1e-13, atol=1e-15)
    assert getattr(special, name)(v, x.astype(np.float32)).dtype == np.float32


def test_expn_values() -> None:
    """Exponential integrals of any order are SciPy's."""
    x = np.geomspace(1e-3, 100, 20)
    for n in (0, 1, 2, 7):
        np.testing.assert_allclose(np.asarray(special.expn(n, x)), scipy.special.expn(n, x), rtol=1e-14)


@together(
    ("fn", "x", "first", "twice"),
    [
        (special.i0, 0.0, 0.0, 0.5),
        (special.i0, -2.5, -2.516716245288698, 2.283152645934644),
        (special.i0, 30.0, 768532038938.957, 756054563192.6789),
        (special.i1, 0.0, 0.5, 0.0),
        (special.i1, 1e-05, 0.50000000001875, 3.750000000052084e-6),
        (special.i1, 12.0, 17437.14628415974, 16814.23484672023),
        (special.i0e, 0.001, -0.9985012492711613, 1.497502186188101),
        (special.i0e, -3.0, 0.04617364086452454, 0.02673837729661547),
        (special.i0e, 50.0, -0.0005685027545587929, 1.714303125967778e-5),
        (special.i0e, 1000000.0, -1.99471215002464e-10, 2.992068973055139e-16),
        (special.i0e, 1000000000000.0, -1.994711402007911e-19, 2.992067103012615e-31),
        (special.i1e, 0.001, 0.49900093691694, -0.9981267489067654),
        (special.i1e, -3.0, -0.01943526356790907, -0.001609678703498758),
        (special.i1e, 50.0, -0.0005513597232991151, 1.628141276346268e-5),
        (special.i1e, 1000000.0, -1.994709157955667e-10, 2.992061492880836e-16),
        (partial(special.ive, 2.5), 0.1, 0.003657624960001943, 0.04977939244465151),
        (partial(special.ive, 2.5), 20.0, -0.00131021614779969, 5.645080211264446e-5),
        (partial(special.iv, 0.5), 0.1, 1.272088778186753, -6.149804182264095),
        (partial(special.iv, 0.5), 7.0, 153.5458745788747, 144.2653317492582),
        (special.j0, 0.0, 0.0, -0.5),
        (special.j0, 2.0, -0.5767248077568734, 0.06447162473720103),
        (special.j0, -40.0, 0.126038318037585, -0.004215932633297665),
        (special.j1, 0.0, 0.5, 0.0),
        (special.j1, 2.0, -0.06447162473720103, -0.4003077934490545),
        (partial(special.jv, 3), 0.5, 0.01522164349115918, 0.05928726282823519),
        (partial(special.jv, 3), 9.0, 0.2051590716447229, 0.1380358278942813),
        (partial(special.kv, 1.5), 0.001, -59449919.35260415, 148624778624.2743),
        (partial(special.kv, 1.5), 3.0, -0.06004330855294099, 0.08005774473725465),
        (partial(special.kv, 1.5), 200.0, -1.235690703503561e-88, 1.238826381918357e-88),
        (partial(special.kve, 0), 0.1, -8.207856580786802, 92.48611366892335),
        (partial(special.kve, 0), 50.0, -0.001759402701386236, 5.252576840383851e-5),
        (special.exp1, 1e-08, -99999999.00000034, 1.000000000000005e16),
        (special.exp1, 2.0, -0.06766764161830635, 0.1015014624274595),
        (special.exp1, 100.0, -3.720075976020836e-46, 3.757276735781044e-46),
        (special.expi, -2.0, -0.06766764161830635, -0.1015014624274595),
        (special.expi, 0.5, 3.297442541400256, -3.297442541400256),
        (special.expi, 40.0, 5884631670925500.0, 5737515879152362.0),
        (partial(special.expn, 3), 0.1, -0.7225450221940205, 1.822923958419391),
        (partial(special.expn, 3), 20.0, -9.404856430858149e-11, 9.835525290649882e-11),
    ],
)
def test_derivatives(fn: Callable[[Any], Any], x: float, first: float, twice: float) -> None:
    """First and second derivatives are right near 0 and far out."""
    assert float(afx.grad(fn)(np.float64(x))) == pytest.approx(first, rel=2e-12, abs=0.0)
    assert float(afx.grad(afx.grad(fn))(np.float64(x))) == pytest.approx(twice, rel=5e-12, abs=0.0)


def test_scaled_derivative_at_0() -> None:
    """At 0, where ``exp(-|x|)`` has its kink, the derivative is the mean of both sides."""
    assert float(afx.grad(special.i0e)(np.float64(0))) == 0.0
    assert float(afx.grad(special.i1e)(np.float64(0))) == pytest.approx(0.5, rel=1e-14)
    assert float(afx.grad(partial(special.ive, 2))(np.float64(0))) == 0.0


def test_numpy_and_scipy_dispatch() -> None:
    """``np.i0`` and SciPy's functions called on an afx array are afx's, and differentiate."""
    x = afx.asarray(np.array([0.5, 2.0]))
    want = np.asarray(afx.grad(lambda x: afx.sum(special.i0(x)))(x))
    np.testing.assert_allclose(want, scipy.special.i1(np.asarray(x)), rtol=1e-14)
    for fn in (np.i0, scipy.special.i0, partial(scipy.special.iv, 0)):
        assert isinstance(fn(x), afx.Array)
        np.testing.assert_array_equal(np.asarray(afx.grad(lambda x, fn=fn: afx.sum(fn(x)))(x)), want)


@pytest.mark.parametrize("order", ["one", [1, "two"]])
def test_orders_are_known_numbers(order: Any) -> None:
    """An order that is no number, or traced, raises; so do shapes that do not broadcast."""
    with pytest.raises(afx.errors.ArgumentError, match="iv: the order is a number that is known"):
        special.iv(order, 1.0)
    with pytest.raises(afx.errors.ArgumentError, match="iv: the order is a number that is known: got Traced"):
        afx.jit(lambda v: special.iv(v, 1.0))(np.arange(3))
    with pytest.raises(afx.errors.ShapeError, match=r"iv: parameters and x broadcast: got \[\(2,\)\] and float64\[3\]"):
        special.iv([1, 2], np.ones(3))


@pytest.mark.parametrize("name", ["iv", "ive", "jv", "yv", "kv", "kve"])
def test_orders_in_arrays_are_scipys(name: str) -> None:
    """They broadcast with x: eager, compiled, mapped and differentiated; x keeps its dtype, and may be empty."""
    fn, x = getattr(special, name), np.linspace(0.1, 5, 6)
    for v in (np.arange(4)[:, None], np.array([0.5, 1, 2, -1.5, 0.5, 3]), [0, 1, 2, 3, 4, 5]):
        want = getattr(scipy.special, name)(v, x)
        np.testing.assert_allclose(np.asarray(fn(v, x)), want, rtol=1e-12)
        np.testing.assert_allclose(np.asarray(afx.jit(lambda x, v=v: fn(v, x))(x)), want, rtol=1e-12)
        afx.testing.check_grads(lambda x, v=v: fn(v, x), (x,))
    mapped = afx.vmap(lambda x: fn(np.arange(3), x))(x)
    np.testing.assert_allclose(np.asarray(mapped), getattr(scipy.special, name)(np.arange(3), x[:, None]), rtol=1e-12)
    assert fn([0, 1], x[:2].astype(np.float32)).dtype == np.float32
    assert fn([0, 1], 2).dtype == np.float64
    assert fn(np.zeros((0, 1)), x).shape == (0, 6)


@pytest.mark.parametrize(("name", "order"), [("y0", ()), ("y1", ()), ("yn", (3,)), ("yv", (0.5,)), ("yv", (-1.5,))])
def test_bessel_functions_of_the_second_kind(name: str, order: tuple[float, ...]) -> None:
    """Values are SciPy's, and the first two derivatives are its ``yvp``."""
    x = np.array([0.1, 0.9, 2.0, 7.5, 40.0])
    v = order[0] if order else float(name[1])

    def fn(y: Any) -> Any:
        return getattr(special, name)(*order, y)

    np.testing.assert_allclose(np.asarray(fn(x)), getattr(scipy.special, name)(*order, x), rtol=1e-13)
    np.testing.assert_allclose(np.asarray(afx.vmap(afx.grad(fn))(x)), scipy.special.yvp(v, x), rtol=1e-10)
    np.testing.assert_allclose(
        np.asarray(afx.vmap(afx.grad(afx.grad(fn)))(x)), scipy.special.yvp(v, x, 2), rtol=1e-9, atol=1e-12
    )
