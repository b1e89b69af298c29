"""`odeint`'s methods have their orders, keep what they promise to keep, and give derivatives and dense output."""

import pickle
from typing import Any

import numpy as np
import pytest
import scipy.integrate

import afx
from afx.integrate import odeint


def pendulum(_: Any, state: Any) -> Any:
    """A pendulum as a pair of angle and speed."""
    return state[1], -afx.sin(state[0])


def pendulum_flat(_: Any, y: Any) -> Any:
    """The pendulum as a vector."""
    return afx.stack([y[1], -afx.sin(y[0])])


START = (np.array([1.0]), np.array([0.0]))
EXACT = scipy.integrate.solve_ivp(
    lambda _, y: [y[1], -np.sin(y[0])], (0, 4), [1.0, 0.0], rtol=1e-12, atol=1e-13, dense_output=True
)


@pytest.mark.parametrize(
    ("method", "order"),
    [
        *{"euler": 1, "heun": 2, "midpoint": 2, "ralston": 2, "bosh3": 3, "rk4": 4}.items(),
        *{"leapfrog": 2, "yoshida4": 4, "rodas": 4}.items(),
    ],
)
def test_fixed_steps_have_the_order_of_their_method(method: Any, order: int) -> None:
    """Steps of half the size, given by size or by number, have an error smaller by two to the power of the order."""
    errors: list[float] = []
    for steps, size in ((80, {"steps": 80}), (160, {"step": 4 / 160})):
        result = odeint(pendulum, START, [0.0, 4.0], method=method, **size)
        assert int(result.iterations) == steps
        errors.append(abs(float(result.ys[0][-1, 0]) - EXACT.y[0, -1]))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.35)


@pytest.mark.parametrize(("method", "steps"), [("radau", 16), ("tsit5", 40)])
def test_fixed_steps_of_order_five(method: Any, steps: int) -> None:
    """Tsitouras' method has it, and Radau IIA, which solves its equations as exactly as the tolerance asks for."""
    errors: list[float] = []
    for n in (steps, 2 * steps):
        found = odeint(pendulum_flat, np.array([1.0, 0.0]), [0.0, 4.0], method=method, steps=n, rtol=1e-12)
        errors.append(abs(float(found.ys[-1, 0]) - EXACT.y[0, -1]))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(5, abs=0.4)


@pytest.mark.parametrize("method", ["leapfrog", "yoshida4"])
def test_symplectic_methods_keep_the_energy(method: Any) -> None:
    """After tens of turns the energy is as near to the first as after ten; Runge and Kutta's method loses it."""

    def growth(method: Any) -> float:
        q, p = odeint(pendulum, START, np.linspace(0.0, 400.0, 81), method=method, steps=1600, max_steps=1).ys
        energy = np.asarray(0.5 * p**2 - afx.cos(q))[:, 0]
        errors = abs(energy - energy[0])
        return float(errors[41:].max() / errors[:41].max())

    assert growth(method) < 1.1
    assert growth("rk4") > 1.8


def test_symplectic_methods_are_differentiable() -> None:
    """The derivative by the first angle is that of a small change, in both modes."""

    def angle(q: Any) -> Any:
        return odeint(pendulum, (q, 0.0 * q), [0.0, 3.0], method="yoshida4", steps=100).ys[0][-1]

    q, h = np.float64(1.0), 1e-6
    want = (float(angle(q + h)) - float(angle(q - h))) / (2 * h)
    for slope in (afx.grad(angle)(q), afx.jit(afx.grad(angle))(q), afx.jvp(angle, (q,), (np.float64(1.0),))[1]):
        assert float(slope) == pytest.approx(want, rel=1e-7)


@pytest.mark.parametrize("method", ["dopri5", "tsit5", "dop853", "rodas", "radau", "bdf"])
def test_solutions_are_called(method: Any) -> None:
    """Between steps the solution is as exact as the tolerance, at any shape of times, and nan outside."""
    result = odeint(pendulum_flat, np.array([1.0, 0.0]), [0.0, 4.0], method=method, rtol=1e-8, atol=1e-8, dense=True)
    solution = result.solution
    assert solution is not None
    times = np.linspace(0.0, 4.0, 12).reshape(3, 4)
    np.testing.assert_allclose(
        solution(times), np.moveaxis(EXACT.sol(times.ravel()).reshape(2, 3, 4), 0, -1), atol=2e-7
    )
    assert solution.ts.shape == (int(result.iterations) + 1,)
    np.testing.assert_allclose(solution.ys, solution(solution.ts), atol=1e-12)
    np.testing.assert_array_equal(solution.ys[-1], result.ys[-1])
    assert np.isnan(solution([-0.1, 4.1])).all()


def test_solutions_are_called_backwards_and_compiled() -> None:
    """Backwards in time too, as part of a compiled function, and with derivatives by parameters and times."""
    back = odeint(lambda t, y: {"x": -y["x"]}, {"x": np.float64(1.0)}, [0.0, -2.0], dense=True).solution
    assert back is not None
    np.testing.assert_allclose(back(np.array([-0.5, -1.7]))["x"], np.exp([0.5, 1.7]), rtol=1e-5)

    def at(k: Any, t: Any) -> Any:
        options: Any = {"dense": True, "max_steps": 60, "rtol": 1e-8}
        return odeint(lambda t, y: -k * y, np.float64(2.0), [0.0, 3.0], **options).solution(t)

    k, t = np.float64(0.7), np.float64(1.3)
    end = 2 * np.exp(-0.7 * 1.3)
    for run in (at, afx.jit(at)):
        assert float(run(k, t)) == pytest.approx(end, rel=1e-6)
        np.testing.assert_allclose(afx.grad(run, argnums=(0, 1))(k, t), [-1.3 * end, -0.7 * end], rtol=1e-4)


def kinetics(_: Any, y: Any) -> Any:
    """Robertson's kinetics with the conservation of mass in place of the last equation."""
    slow, middle, fast = 0.04 * y[0], 1e4 * y[1] * y[2], 3e7 * y[1] ** 2
    return afx.stack([middle - slow, slow - middle - fast, afx.sum(y) - 1])


@pytest.mark.parametrize("method", ["rodas", "radau", "bdf"])
def test_algebraic_equations(method: Any) -> None:
    """Rows of the mass that are 0 are equations that hold at every step (Hairer & Wanner 1996, section VI.1)."""
    options: Any = {"rtol": 1e-7, "atol": 1e-10, "mass": np.array([1.0, 1.0, 0.0])}
    found = odeint(kinetics, np.array([1.0, 0.0, 0.0]), [0.0, 0.4, 40.0, 4000.0], method=method, **options)
    exactly = {"rtol": 1e-5 if method == "bdf" else 1e-6}  # errors of a multistep method add up along many steps
    np.testing.assert_allclose(found.ys[2], [0.715827069, 9.18553477e-06, 2.84163746e-01], **exactly)
    np.testing.assert_allclose(found.ys[3], [1.83202258e-01, 8.94237125e-07, 8.16796848e-01], **exactly)

    def end(k: Any, m: Any) -> Any:
        field = lambda t, y: afx.stack([-k * y[0], y[1] - y[0] ** 2])  # closes over k
        mass = afx.stack([afx.stack([m, 0.0 * m]), afx.zeros(2)])
        options: Any = {"method": method, "mass": mass, "rtol": 1e-8, "atol": 1e-10}
        return odeint(field, np.array([1.0, 1.0]), [0.0, 1.0], **options).ys[-1, 1]

    k, m = np.float64(0.7), np.float64(2.0)
    assert float(end(k, m)) == pytest.approx(np.exp(-0.7), rel=1e-6)
    np.testing.assert_allclose(afx.grad(end, argnums=(0, 1))(k, m), np.exp(-0.7) * np.array([-1.0, 0.35]), rtol=1e-5)


def test_wrong_use_of_methods_is_named() -> None:
    """What a method cannot do is refused before the first step."""

    def run(**options: Any) -> Any:
        return odeint(lambda t, y: -y, np.ones(2), [0.0, 1.0], **options)

    for message, options in {
        "no error estimate": {"method": "rk4"},
        "above 0": {"step": 0.0},
        "steps is a whole number": {"steps": 0},
        "got 2.5": {"steps": 2.5},
        "max_steps is a whole number": {"max_steps": 10.0},
        "direction is -1, 0 or 1": {"direction": 1.0},
        "one size": {"steps": 3, "step": 0.1},
        "takes no mass": {"mass": np.ones(2)},
        "have no adjoint": {"dense": True, "gradient": "adjoint"},
        "finds the sizes of its steps": {"method": "bdf", "steps": 3},
        "a pair of positions and momenta": {"method": "leapfrog", "steps": 3},
    }.items():
        with pytest.raises(afx.errors.ArgumentError, match=message):
            run(**options)
    with pytest.raises(afx.errors.ShapeError, match="the mass is square"):
        run(method="radau", mass=np.ones(3))


@pytest.mark.parametrize("ends", [(0, 1), (1, 0)])
def test_fixed_steps_are_as_many_as_asked_for(ends: Any) -> None:
    """In float32 times do not drift: so many steps end at the last time, by their number as by their size."""
    for size in ({"steps": 3000}, {"step": 1 / 3000}):
        options: Any = size
        result = odeint(lambda t, y: -y, np.ones(1, np.float32), np.float32(ends), method="rk4", **options)
        assert int(result.iterations) == 3000
        np.testing.assert_allclose(result.ys[-1], np.exp(ends[0] - ends[1]), rtol=1e-5)


def test_fixed_steps_that_are_lost_in_rounding() -> None:
    """A step that does not move time ends the integration and says so."""
    times = np.array([1000.0, 1001.0], np.float32)
    result = odeint(lambda t, y: -y, np.ones(1, np.float32), times, method="rk4", step=1e-5)
    assert result.reason == "no step leads further in this precision"
    assert np.isnan(result.ys[-1]).all()


def test_numbers_of_numpy_are_taken() -> None:
    """Integers of NumPy stand for Python's in steps, limits and directions."""

    def run(whole: Any) -> Any:
        numbers = {"steps": whole(4), "max_steps": whole(9), "direction": whole(-1)}
        return odeint(lambda t, y: -y, np.ones(2), [0.0, 1.0], event=lambda t, y: y[0] - 0.5, **numbers)

    assert afx.pytree.equal(run(np.int64), run(int))


@pytest.mark.parametrize("times", [[5.0, 5.0], [5.0]])
def test_solutions_without_steps(times: Any) -> None:
    """Where no step was taken the solution is the first state at its time, and not known elsewhere."""
    result = odeint(lambda t, y: -y, np.array([1.0, 2.0]), times, dense=True)
    assert result.solution is not None
    found = result.solution(np.array([4.9, 5.0, 5.0 + 1e-10]))
    np.testing.assert_array_equal(found, [[np.nan] * 2, [1.0, 2.0], [np.nan] * 2])


def test_solutions_end_at_events() -> None:
    """After the event that ended the integration there is no solution."""
    field = lambda t, y: afx.stack([y[1], -9.8 + 0.0 * y[0]])  # a fall
    start = np.array([10.0, 0.0])
    result = odeint(field, start, [0.0, 5.0], method="dop853", event=lambda t, y: y[0], dense=True)
    solution = result.solution
    assert solution is not None
    assert float(solution.ts[-1]) == float(result.event_time)
    np.testing.assert_allclose(solution(np.array([1.0, 2.0]))[:, 0], [10 - 4.9, np.nan], rtol=1e-12)
    np.testing.assert_allclose(solution(result.event_time), result.event_y, atol=1e-12)


@pytest.mark.parametrize("method", ["dop853", "rodas", "radau", "bdf"])
def test_methods_in_batches(method: Any) -> None:
    """Under vmap each element is solved with its own steps, and none divides by 0 after its end."""
    rates, times = np.array([0.1, 10.0]), np.array([0.0, 1.0, 2.0])
    found = afx.vmap(lambda k: odeint(lambda t, y: -k * y, np.float64(1.0), times, method=method))(rates)
    np.testing.assert_allclose(found.ys, np.exp(-rates[:, None] * times), atol=2e-6)
    assert int(found.iterations[0]) < int(found.iterations[1])


def test_solutions_pickle() -> None:
    """With the tree of the state, and values between the steps."""
    start = {"x": np.float32(1.0), "v": np.ones(2)}
    result = odeint(lambda t, y: {"x": -y["x"], "v": y["x"] * y["v"]}, start, [0.0, 1.0], dense=True)
    again = pickle.loads(pickle.dumps(result))
    for got, want in zip(afx.pytree.leaves(again.solution(0.3)), afx.pytree.leaves(result.solution(0.3)), strict=True):
        assert got.dtype == want.dtype
        assert afx.array_equal(got, want)
