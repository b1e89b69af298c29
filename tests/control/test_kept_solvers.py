"""Solvers called again with known values: their steps are traced once, and no function ever has another one's numbers."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import afx
from afx import optim
from afx.control import solving
from afx.integrate import odeint

SHORT, LONG = np.linspace(0.0, 1.0, 3), np.linspace(0.0, 5.0, 21)
START: Any = np.ones(3)
TARGET = np.array([1.0, 2.0, 3.0])
RATE = 1.0  # a global that tests change


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    solving._programs.clear()
    solving._met.clear()
    solving._numbers.clear()
    yield
    solving._programs.clear()
    solving._met.clear()
    solving._numbers.clear()


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of solvers that are traced."""
    found, trace = list[str](), solving._trace

    def note(fn: Any, trees: Any, name: str) -> Any:
        found.append(name)
        return trace(fn, trees, name)

    monkeypatch.setattr(solving, "_trace", note)
    return found


def _minimum(method: Any, **options: Any) -> Callable[[Any], Any]:
    return lambda data: (
        optim.minimize(lambda x: afx.sum((x - data) ** 2 * (1.5 + afx.cos(x))), np.zeros(3), method=method, **options).x
    )


def _fit(**options: Any) -> Callable[[Any], Any]:
    return lambda data: optim.least_squares(lambda x: x * x - data, np.ones(3), **options).x


def _root(**options: Any) -> Callable[[Any], Any]:
    return lambda data: optim.root(lambda x: x**3 + x - data, np.ones(3), **options).x


SOLVERS: dict[str, Callable[[Any], Any]] = {
    "odeint": lambda data: odeint(lambda t, y: afx.sin(data - y), START, LONG).ys,
    "odeint, short": lambda data: odeint(lambda t, y: afx.sin(data - y), START, SHORT).ys,
    "rodas": lambda data: odeint(lambda t, y: data - y * y, START, SHORT, method="rodas").ys,
    "an event": lambda data: odeint(lambda t, y: data, 0 * START, LONG, event=lambda t, y: (y - data)[0]).event_y,
    "lbfgs": _minimum("lbfgs"),
    "bfgs within bounds": _minimum("bfgs", bounds=(0.0, 2.5)),
    "newton_cg": _minimum("newton_cg"),
    "trust_region": _minimum("trust_region"),
    "nelder_mead": _minimum("nelder_mead"),
    "least_squares": _fit(),
    "gauss_newton": _fit(method="gauss_newton"),
    "newton": _root(),
    "broyden": _root(method="broyden"),
    "chandrupatla": _root(method="chandrupatla", bracket=(0.0, 9.0)),
    "fixed_point": lambda data: optim.fixed_point(lambda x: afx.cos(x) / data, np.ones(3)).x,
}


@pytest.mark.parametrize("name", SOLVERS)
def test_steps_are_traced_once(name: str, traces: list[str]) -> None:
    """From the second call on a solver has the program of an earlier one, with new closures and other data too."""
    solver = SOLVERS[name]
    found = [np.asarray(solver(TARGET + k)) for k in (0.0, 0.0, 0.0, 0.5, 1.0)]
    assert len(traces) == len(solving._programs) == 1
    np.testing.assert_array_equal(found[1], found[2])
    with afx.disable_jit():
        for k, x in zip((0.0, 0.5, 1.0), (found[0], *found[3:]), strict=True):
            np.testing.assert_allclose(x, solver(TARGET + k), rtol=1e-6)


@pytest.mark.parametrize("name", [name for name in SOLVERS if name != "gauss_newton"])  # by NumPy's least squares
def test_steps_have_machine_code(name: str) -> None:
    """No instruction of a solver under `jit` is left to NumPy, as one on an array in another order of memory is."""
    assert [why for _, why in afx.jit(SOLVERS[name]).lower(TARGET).native if why] == []


@pytest.mark.parametrize("kind", [float, np.float64])
def test_numbers_that_differ_from_call_to_call_become_arguments(kind: Any, traces: list[str]) -> None:
    """A sweep over a number that a function closes over has one program; the numbers that stay are its own."""

    def solve(rate: Any, power: float = 2.0) -> Any:
        return odeint(lambda t, y: 3.0 * power - rate * y**power, START, LONG).ys

    rates = [kind(rate) for rate in (1.0, 1.0, 2.0, 2.5, 1.0, 3.0)]
    found = [solve(rate) for rate in rates]
    assert len(traces) == 2  # with the first number, and with any
    assert [len(varied) for _, varied in solving._numbers.values()] == [1]
    with afx.disable_jit():
        for rate, ys in zip(rates, found, strict=True):
            np.testing.assert_allclose(ys, solve(rate), rtol=1e-10)
    np.testing.assert_allclose(solve(1.0, 3.0)[-1], 9 ** (1 / 3), rtol=1e-4)


class _Field:
    """A right side whose attribute may change."""

    def __init__(self) -> None:
        self.rate: Any = 1.0

    def slope(self, _: Any, y: Any) -> Any:
        return -self.rate * y


def _end(field: Any) -> float:
    return float(odeint(field, np.ones(1), LONG).ys[-1, 0])


def test_changed_globals_attributes_and_defaults_are_seen() -> None:
    """A function that computes something else is another one: by a global, an attribute, a default or an array that changed."""
    field, table = _Field(), np.array([1.0])

    def by_global(_: Any, y: Any) -> Any:
        return -RATE * y

    def by_default(_: Any, y: Any, rate: float = 1.0) -> Any:
        return -rate * y

    def set_global(rate: float) -> Any:
        globals()["RATE"] = rate
        return by_global

    def set_attribute(rate: float) -> Any:
        field.rate = rate
        return field.slope

    def set_default(rate: float) -> Any:
        by_default.__defaults__ = (rate,)
        return by_default

    def set_in_place(rate: float) -> Any:
        table[0] = rate
        return lambda t, y: -table * y

    def set_kind(rate: float) -> Any:
        field.rate = np.array([rate]) if rate > 1 else rate
        return field.slope

    for change in (set_global, set_attribute, set_default, set_in_place, set_kind):
        for rate in (1.0, 1.0, 0.5, 1.5, 1.0, 0.5):
            np.testing.assert_allclose(_end(change(rate)), np.exp(-5 * rate), rtol=1e-3)


def test_rules_of_ones_own_are_those_of_the_call() -> None:
    """A derivative rule that reads a changed global has its new value, though the function itself is the same."""
    scale = [1.0]

    def squares(x: Any) -> Any:
        return afx.sum((x - 1.0) ** 2)

    square = afx.custom_jvp(squares, lambda xs, ts: (squares(*xs), scale[0] * afx.sum(2 * (xs[0] - 1.0) * ts[0])))
    for factor in (1.0, 1.0, 2.0, 1.0):
        scale[0] = factor
        found = optim.minimize(square, np.array([3.0, 2.0]), max_iterations=0)
        np.testing.assert_allclose(found.gradient, factor * np.array([4.0, 2.0]))


def test_options_tell_solvers_apart() -> None:
    """Another tolerance, limit, method, dtype or structure has a program of its own."""
    fn = lambda x: afx.sum(afx.stack(afx.pytree.leaves(x)) ** 4)
    wanted = {"tolerance": (1e-3, 1e-9), "max_iterations": (3, 50), "method": ("lbfgs", "bfgs")}
    for name, values in wanted.items():
        for value in (*values, *values):
            options: Any = {"tolerance": 1e-6, name: value}
            found = optim.minimize(fn, [np.float64(1.0), np.float64(2.0)], **options)
            with afx.disable_jit():
                eager = optim.minimize(fn, [np.float64(1.0), np.float64(2.0)], **options)
            assert int(found.iterations) == int(eager.iterations)
    for dtype in (np.float32, np.float64, np.float32, np.float64):
        assert odeint(lambda t, y: -y, START.astype(dtype), SHORT).ys.dtype == dtype


def test_derivatives_come_of_kept_programs_too(traces: list[str]) -> None:
    """Gradients by what a function closes over, and by its arguments, are those of finite differences at every call."""

    def loss(rate: Any, start: Any) -> Any:
        return afx.sum(odeint(lambda t, y: -rate * y, start, LONG).ys[-1])

    for rate in (0.5, 0.5, 0.25):
        by_rate, by_start = afx.grad(loss, (0, 1))(np.float64(rate), np.ones(1))
        np.testing.assert_allclose(by_rate, -5 * np.exp(-5 * rate), rtol=1e-3)
        np.testing.assert_allclose(by_start, [np.exp(-5 * rate)], rtol=1e-3)
    assert len(traces) == 1


def test_the_way_back_of_the_adjoint_is_traced_once(traces: list[str]) -> None:
    """By ``gradient="adjoint"`` too the steps backwards are compiled, and kept; in both directions of time."""

    def loss(rate: Any, times: Any) -> Any:
        return afx.sum(odeint(lambda t, y: -rate * y, np.ones(1), times, gradient="adjoint").ys[-1])

    for rate in (0.5, 0.5, 0.25):
        np.testing.assert_allclose(afx.grad(loss)(np.float64(rate), LONG), -5 * np.exp(-5 * rate), rtol=1e-3)
        np.testing.assert_allclose(afx.grad(loss)(np.float64(rate), -LONG), 5 * np.exp(5 * rate), rtol=1e-3)
    assert len(traces) == 3  # the steps once, and the way back in each direction


def test_batches_are_compiled(traces: list[str]) -> None:
    """Under `vmap`, and its derivatives, a solver outside of `jit` runs as within, and traces its steps once."""
    starts = np.array([[1.0], [2.0], [3.0]])

    def end(start: Any, rate: Any) -> Any:
        return odeint(lambda t, y: -rate * y, start, LONG).ys[-1, 0]

    for _ in range(2):
        np.testing.assert_allclose(afx.vmap(end, (0, None))(starts, 0.5), starts[:, 0] * np.exp(-2.5), rtol=1e-4)
        slopes = afx.vmap(afx.grad(end, 1), (0, None))(starts, np.float64(0.5))
        np.testing.assert_allclose(slopes, -5 * starts[:, 0] * np.exp(-2.5), rtol=1e-3)
        total = afx.grad(lambda rate: afx.sum(afx.vmap(lambda y: end(y, rate))(starts)))(np.float64(0.5))
        np.testing.assert_allclose(total, slopes.sum(), rtol=1e-8)
    assert len(traces) <= 2  # of a number, and of an array
    found = afx.vmap(lambda a: optim.root(lambda x: x * x - a, np.ones(1)).x)(np.array([4.0, 9.0, 1e9]))
    np.testing.assert_allclose(found[:2, 0], [2.0, 3.0])


def test_heavy_functions_are_compiled_at_once(traces: list[str]) -> None:
    """What takes long at each evaluation does not run in Python first."""
    matrix = np.eye(3000)
    found = optim.fixed_point(lambda x: 0.5 * (matrix @ x) + 1.0, np.ones(3000))
    np.testing.assert_allclose(found.x, 2.0)
    assert len(traces) == 1
