"""Derivatives of eager solves: long loops are compiled on their way back as on their way forward."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx

FEW = 400  # calls of the user's function: ten steps in Python, and traces of the whole


class Swing:
    """A pendulum that counts how often it is asked for its rate."""

    def __init__(self) -> None:
        self.calls = 0

    def end(self, y: Any, p: Any, until: float = 30.0) -> Any:
        """Return the sum of the squares of the last state."""

        def rate(_: Any, y: Any, p: Any) -> Any:
            self.calls += 1
            return afx.stack([y[1], -p * afx.sin(y[0])])

        return afx.sum(afx.integrate.odeint(rate, y, [0.0, until], p, rtol=1e-9, atol=1e-9).ys[-1] ** 2)

    def end_by_closure(self, y: Any, p: Any, until: float = 30.0) -> Any:
        """Do so with a rate that closes over its constant."""

        def rate(_: Any, y: Any) -> Any:
            self.calls += 1
            return afx.stack([y[1], -p * afx.sin(y[0])])

        return afx.sum(afx.integrate.odeint(rate, y, [0.0, until], rtol=1e-9, atol=1e-9).ys[-1] ** 2)


Y, P = np.array([1.0, 0.2]), np.float64(1.3)


def _pushed(fn: Callable[..., Any]) -> Any:
    return lambda y, p: afx.jvp(fn, (y, p), (np.array([0.3, -0.2]), np.float64(0.7)))


DERIVATIVES: dict[str, Callable[[Any], Any]] = {
    "value": lambda fn: fn,
    "gradient": lambda fn: afx.value_and_grad(fn, (0, 1)),
    "direction": _pushed,
    "pullback": lambda fn: lambda y, p: afx.vjp(fn, y, p)[1](np.float64(2.0)),
}


@pytest.mark.parametrize("name", DERIVATIVES)
@pytest.mark.parametrize("closes", [False, True])
def test_a_long_solve_is_compiled_on_its_way_back(name: str, closes: bool) -> None:
    """Derivatives are those of the jitted function, and the user's function is called as often as it is traced."""
    swing = Swing()
    fn = swing.end_by_closure if closes else swing.end
    found = DERIVATIVES[name](fn)(Y, P)
    assert swing.calls <= FEW
    want = afx.jit(DERIVATIVES[name](Swing().end))(Y, P)
    for a, b in zip(afx.pytree.leaves(found), afx.pytree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_second_derivatives_are_compiled() -> None:
    """A derivative of a derivative is one operation of both tapes."""
    swing = Swing()
    found = afx.grad(lambda p: afx.grad(lambda p: swing.end(Y, p, until=2.0))(p))(P)
    assert swing.calls <= 2 * FEW
    h = 1e-5
    by = afx.jit(afx.grad(lambda p: Swing().end(Y, p, until=2.0)))
    np.testing.assert_allclose(found, (by(P + h) - by(P - h)) / (2 * h), rtol=1e-7)


def test_a_short_solve_stays_in_python() -> None:
    """One of a few steps is not worth a compilation: its gradient is right all the same."""
    swing = Swing()
    found = afx.grad(swing.end, 1)(Y, P, until=0.01)
    want = afx.jit(afx.grad(lambda y, p: Swing().end(y, p, until=0.01), 1))(Y, P)
    np.testing.assert_allclose(found, want, rtol=1e-12)


def test_a_rate_that_branches_on_values_runs_in_python() -> None:
    """What cannot be traced is differentiated step by step, as before."""

    def end(p: Any) -> Any:
        def rate(_: Any, y: Any, p: Any) -> Any:
            return -p * y if float(afx.stop_gradient(y[0])) > 0 else 0 * y

        return afx.sum(afx.integrate.odeint(rate, np.ones(1), [0.0, 10.0], p, rtol=1e-9, atol=1e-12).ys[-1])

    np.testing.assert_allclose(afx.grad(end)(P), -10 * np.exp(-10 * P), rtol=1e-5)


def test_batches_stay_as_they_are() -> None:
    """Under `vmap` elements take their own steps."""
    ps = np.array([0.5, 1.3])
    found = afx.vmap(lambda p: Swing().end(Y, p, until=3.0))(ps)
    want = [float(Swing().end(Y, p, until=3.0)) for p in ps]
    np.testing.assert_allclose(found, want, rtol=1e-7)


def test_stochastic_solves() -> None:
    """`sdeint` differentiates its path as one operation, too: the same as under `jit`."""
    key, times = afx.random.key(3), np.linspace(0.0, 1.0, 5)
    calls = []

    def end(p: Any) -> Any:
        def drift(_: Any, y: Any, p: Any) -> Any:
            calls.append(1)
            return -p * y

        found = afx.integrate.sdeint(drift, lambda t, y, p: 0.1 * y, np.ones(2), times, p, key=key, substeps=16)
        return afx.sum(found.ys[-1])

    found = afx.grad(end)(P)
    assert len(calls) <= FEW
    np.testing.assert_allclose(found, afx.jit(afx.grad(end))(P), rtol=1e-12)


def test_iterations_that_end_at_once_have_derivatives() -> None:
    """A Newton step that changes nothing, as the last one may, has a size without a derivative: nothing warns of it."""

    def push(p: Any) -> Any:
        options: Any = {"method": "radau", "rtol": 1e-7, "atol": 1e-9}

        def end(p: Any) -> Any:
            return afx.integrate.odeint(lambda _, y: -p * y, np.float64(2.0), [0.0, 1.0, 3.0], **options).ys[-1]

        return afx.jvp(end, (p,), (np.float64(1.0),))

    for run in (push, afx.jit(push)):
        np.testing.assert_allclose(run(np.float64(0.7)), (2 * np.exp(-2.1), -6 * np.exp(-2.1)), rtol=1e-6)
