"""Solvers that are called with plain values run as under `jit`, with its bits, where their functions can be traced."""

import warnings
from typing import Any

import numpy as np
import pytest

import afx
from afx import optim
from afx.control import solving
from afx.integrate import odeint

TIMES = np.linspace(0.0, 20.0, 21)
START = np.array([10.0, 5.0])


class Field:
    """Lotka and Volterra's equations, which count their calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, _: Any, y: Any, rate: Any = 1.1) -> Any:
        self.calls += 1
        return afx.stack([y[0] * (rate - 0.4 * y[1]), y[1] * (0.1 * y[0] - 0.4)])


def test_a_long_integration_has_the_bits_of_a_jitted_one() -> None:
    """Called eagerly `odeint` traces its function, and gives what the jitted call gives, with other arguments too."""
    for rate in (1.1, 0.9):
        field = Field()
        found = odeint(field, START, TIMES, rate)
        traced = field.calls
        want = afx.jit(lambda y, r: odeint(Field(), y, TIMES, r).ys)(START, rate)
        np.testing.assert_array_equal(found.ys, want)
        with afx.disable_jit():
            eager = odeint(field, START, TIMES, rate)
        assert field.calls - traced > 5 * traced  # each step calls it
        np.testing.assert_allclose(found.ys, eager.ys, rtol=1e-8)


def test_functions_that_are_written_anew_share_a_plan() -> None:
    """A closure for each call has the plan of the one before, whatever values its arguments have."""
    solving._programs.clear()
    for rate in (1.0, 1.1, 1.2):
        odeint(lambda t, y, r: Field()(t, y, r), START, TIMES, np.float64(rate))
    assert len(solving._programs) == 1
    solving._programs.clear()
    for _ in range(2):
        optim.minimize(lambda x: (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2, np.array([-1.2, 1.0]))
    assert len(solving._programs) == 1


def test_python_branches_still_work() -> None:
    """A function that asks for values runs in Python throughout."""

    def field(t: Any, y: Any) -> Any:
        return -y if float(t) < 1.0 else -2 * y

    ts = np.linspace(0.0, 2.0, 30)
    found = odeint(field, np.ones(1), ts, rtol=1e-8, atol=1e-10)
    assert abs(float(found.ys[-1, 0]) - np.exp(-3.0)) < 1e-5


def test_gradients_do_not_change() -> None:
    """Derivatives of an integration called eagerly are those of the jitted one."""
    loss = lambda y, r: afx.sum(odeint(Field(), y, TIMES[:8], r).ys[-1])
    rate = np.float64(1.1)
    compiled_slopes = afx.jit(afx.grad(loss, (0, 1)))(START, rate)
    for found, want in zip(afx.grad(loss, (0, 1))(START, rate), compiled_slopes, strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-9)


def test_errors_name_the_users_line() -> None:
    """What is wrong in a user's function is said at its line, as in Python."""

    def field(_: Any, y: Any) -> Any:
        return afx.concat([y, y])

    with pytest.raises(afx.errors.ShapeError, match="as many elements"):
        odeint(field, START, TIMES)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        odeint(lambda t, y: -y * afx.where(t < 1.0, 1.0, 1.0 + 0 * afx.log(t - t)), np.ones(1), TIMES)
    assert caught
    assert {warning.filename for warning in caught} == {__file__}
