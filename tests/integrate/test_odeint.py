"""`odeint` solves differential equations to its tolerance, with derivatives, events and reasons."""

from typing import Any

import numpy as np
import pytest
import scipy.integrate

import afx
from afx.errors import ArgumentError, OperandError, ShapeError
from afx.integrate import odeint
from tests.integrate.problems import PROBLEMS

METHODS: list[Any] = ["dopri5", "tsit5", "dop853", "rodas", "radau", "bdf"]
FACTOR = {"bdf": 10.0}  # errors of a multistep method add up along many steps, as those of SciPy's do
TIMES = np.linspace(0.0, 5.0, 6)
RATES = np.array([1.5, 1.0, 3.0, 1.0])
ANIMALS = np.array([1.0, 1.0])


def lotka_volterra(_: Any, y: Any, p: Any) -> Any:
    """Prey and predators."""
    return afx.stack([p[0] * y[0] - p[1] * y[0] * y[1], p[3] * y[0] * y[1] - p[2] * y[1]])


def decay(k: Any, y: Any, ts: Any, method: Any = "dopri5") -> Any:
    """Return the end of an exponential decay."""
    return odeint(lambda t, y: -k * y, y, ts, method=method, rtol=1e-7, atol=1e-9).ys[-1]


@pytest.mark.parametrize("method", METHODS)
def test_solutions_are_those_of_scipy(method: Any) -> None:
    """Lotka and Volterra's system is solved as SciPy solves it, to the tolerance."""
    result = odeint(lotka_volterra, ANIMALS, TIMES, RATES, method=method, rtol=1e-7, atol=1e-9)
    want = scipy.integrate.solve_ivp(
        lambda t, y: np.asarray(lotka_volterra(t, y, RATES)), (0, 5), ANIMALS, t_eval=TIMES, rtol=1e-11, atol=1e-13
    )
    np.testing.assert_allclose(result.ys, want.y.T, rtol=2e-6 * FACTOR.get(method, 1.0))
    assert result.converged
    assert result.reason == "the tolerance is met"


@pytest.mark.parametrize("method", METHODS)
def test_tolerances_are_met_between_steps(method: Any) -> None:
    """The harmonic oscillator keeps its closed form at many requested times, in either direction of time."""
    ts = np.linspace(0.0, 6.0, 50)
    for times in (ts, -ts):
        found = odeint(lambda t, y: afx.stack([y[1], -y[0]]), [0.0, 1.0] * np.ones(2), times, method=method)
        np.testing.assert_allclose(found.ys[:, 0], np.sin(times), atol=2e-5 * FACTOR.get(method, 1.0))
    single = odeint(lambda t, y: afx.stack([y[1], -y[0]]), np.float32([0.0, 1.0]), ts, method=method)
    assert single.ys.dtype == np.float32
    np.testing.assert_allclose(single.ys[:, 0], np.sin(ts), atol=2e-2)


@pytest.mark.parametrize("method", METHODS)
def test_errors_follow_the_tolerance(method: Any) -> None:
    """The error at the end is of the size of the tolerance, whichever it is."""
    for tolerance in (1e-4, 1e-6, 1e-8):
        options: Any = {"method": method, "rtol": tolerance, "atol": tolerance}
        found = odeint(lambda t, y: y * afx.cos(t), np.float64(1.0), [0.0, 5.0], **options).ys[-1]
        assert abs(float(found) - np.exp(np.sin(5.0))) < 5 * tolerance * FACTOR.get(method, 1.0)


@pytest.mark.parametrize("method", METHODS)
def test_gradients_of_decay(method: Any) -> None:
    """Exponential decay has its closed form's derivatives by rate, start and times, in both modes and compiled."""
    k, y, ts = np.float64(0.7), np.float64(2.0), np.array([0.0, 1.0, 3.0])
    end = 2 * np.exp(-2.1)
    want = (-3 * end, end / 2, np.array([0.7 * end, 0.0, -0.7 * end]))
    for found in (
        afx.grad(decay, argnums=(0, 1, 2))(k, y, ts, method),
        *([afx.jit(afx.grad(decay, argnums=(0, 1, 2)))(k, y, ts)] if method == "dopri5" else []),
    ):
        for a, b in zip(found, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-12)
    assert float(afx.jvp(lambda r: decay(r, y, ts, method), (k,), (np.float64(1.0),))[1]) == pytest.approx(
        want[0], 1e-6 * FACTOR.get(method, 1.0)
    )


def test_gradients_of_the_oscillator() -> None:
    """The harmonic oscillator's state has its closed form's derivative by the frequency."""

    def position(w: Any) -> Any:
        field = lambda t, s: {"x": s["v"], "v": -w * w * s["x"]}
        start = {"x": np.float64(1.0), "v": np.float64(0.0)}
        return odeint(field, start, [0.0, 2.0], rtol=1e-9, atol=1e-11).ys["x"][-1]

    w = np.float64(1.3)
    assert float(position(w)) == pytest.approx(np.cos(2.6), rel=1e-7)
    assert float(afx.grad(position)(w)) == pytest.approx(-2 * np.sin(2.6), rel=1e-6)


def test_gradients_of_lotka_volterra() -> None:
    """Derivatives by all parameters are those of finite differences."""

    def total(p: Any) -> Any:
        return afx.sum(odeint(lotka_volterra, ANIMALS, [0.0, 2.0], p, rtol=1e-7, atol=1e-9).ys[-1])

    h = 1e-5
    want = [float(total(RATES + h * e) - total(RATES - h * e)) / (2 * h) for e in np.eye(4)]
    np.testing.assert_allclose(afx.grad(total)(RATES), want, rtol=1e-5)


def test_batches() -> None:
    """Under vmap each element is solved as alone, with its own steps."""
    ks = np.array([0.1, 1.0, 10.0])
    result = afx.jit(afx.vmap(lambda k: odeint(lambda t, y: -k * y, np.float64(1.0), TIMES)))(ks)
    np.testing.assert_allclose(result.ys, np.exp(-ks[:, None] * TIMES), rtol=1e-4, atol=1e-7)
    assert int(result.iterations[0]) < int(result.iterations[2])


def test_stiff_systems() -> None:
    """Robertson's kinetics take the implicit method some hundred steps, and stop the explicit one."""

    def robertson(_: Any, y: Any) -> Any:
        slow, middle, fast = 0.04 * y[0], 1e4 * y[1] * y[2], 3e7 * y[1] ** 2
        return afx.stack([middle - slow, slow - middle - fast, fast])

    start, ts = np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.4, 40.0, 4000.0])
    result = odeint(robertson, start, ts, method="rodas", rtol=1e-6, atol=1e-10)
    # Hairer & Wanner 1996, section IV.1; reference: SciPy's Radau at rtol=1e-9
    want = [[9.85172114e-01, 3.38639538e-05, 1.47940222e-02], [0.715827069, 9.18553477e-06, 2.84163746e-01]]
    np.testing.assert_allclose(result.ys[1:3], want, rtol=1e-5)
    np.testing.assert_allclose(result.ys[3], [1.83202258e-01, 8.94237125e-07, 8.16796848e-01], rtol=1e-5)
    assert int(result.iterations) < 300
    stuck = odeint(robertson, start, ts, max_steps=200)
    assert stuck.reason == "the limit of iterations was reached"
    assert np.isnan(stuck.ys[-1]).all()


def fall(height: Any, gravity: Any) -> Any:
    """Return a fall that ends on the ground."""
    start = {"x": height, "v": 0.0 * height}
    field = lambda t, s: {"x": s["v"], "v": -gravity + 0.0 * s["v"]}
    return odeint(field, start, np.linspace(0.0, 3.0, 4), event=lambda t, s: s["x"])


def test_events_end_the_integration() -> None:
    """A fall ends on the ground; later times are nan; the time of the impact is differentiable."""
    result = fall(np.float64(10.0), np.float64(9.81))
    assert result.reason == "an event ended it"
    assert result.converged
    assert int(result.event_index) == 0
    assert float(result.event_time) == pytest.approx(np.sqrt(20 / 9.81), rel=1e-9)
    assert float(result.event_y["v"]) == pytest.approx(-np.sqrt(20 * 9.81), rel=1e-9)
    np.testing.assert_allclose(result.ys["x"], [10.0, 10 - 9.81 / 2, np.nan, np.nan])
    found = afx.grad(lambda *a: fall(*a).event_time, argnums=(0, 1))(np.float64(10.0), np.float64(9.81))
    np.testing.assert_allclose(found, [1 / np.sqrt(20 * 9.81), -0.5 * np.sqrt(20 / 9.81) / 9.81], rtol=1e-8)
    batch = afx.vmap(lambda h: fall(h, 9.81).event_time)(np.array([1.0, 5.0, 1000.0]))
    np.testing.assert_allclose(batch, [*np.sqrt(np.array([2.0, 10.0]) / 9.81), np.nan], rtol=1e-9)


def test_the_first_of_several_events_counts() -> None:
    """Of several event functions the first that changes its sign ends the integration, and is named."""
    result = odeint(lambda t, y: 1.0 + 0.0 * y, np.float64(0.0), [0.0, 10.0], event=lambda t, y: [y - 4.0, 2.5 - y])
    assert int(result.event_index) == 1
    assert float(result.event_time) == pytest.approx(2.5, rel=1e-12)


def test_fields_that_are_not_finite() -> None:
    """A solution that reaches infinity in finite time ends with a reason, and nan afterwards."""
    result = odeint(lambda t, y: y * y, np.float64(1.0), [0.0, 0.5, 2.0])
    assert not result.converged
    assert float(result.ys[1]) == pytest.approx(2.0, rel=1e-5)
    assert np.isnan(result.ys[2])


def test_wrong_use_is_named() -> None:
    """Mistakes raise where they are made."""
    with pytest.raises(afx.errors.ArgumentError, match="turn back"):
        odeint(lambda t, y: y, np.float64(1.0), [0.0, 2.0, 1.0])
    with pytest.raises(afx.errors.ArgumentError, match="no such method"):
        odeint(lambda t, y: y, np.float64(1.0), [0.0, 1.0], method="hein")  # the mistake
    with pytest.raises(afx.errors.ShapeError, match="as many elements"):
        odeint(lambda t, y: y[:1], np.ones(2), [0.0, 1.0])
    with pytest.raises(afx.errors.ShapeError, match="times"):
        odeint(lambda t, y: y, np.ones(2), 1.0)


def test_the_adjoint_gives_the_same_gradients() -> None:
    """By start, times, arguments and closures, compiled too, in either direction of time."""

    def total(p: Any, y: Any, ts: Any, gradient: Any) -> Any:
        options: Any = {"rtol": 1e-7, "atol": 1e-9, "gradient": gradient}
        return afx.sum(odeint(lambda t, v: lotka_volterra(t, v, p), y, ts, **options).ys ** 2)

    inputs = (RATES, ANIMALS, np.array([0.0, 1.0, 2.0]))
    want = afx.grad(total, argnums=(0, 1, 2))(*inputs, "steps")
    adjoint = afx.grad(lambda *a: total(*a, "adjoint"), argnums=(0, 1, 2))
    for found in (adjoint(*inputs), afx.jit(adjoint)(*inputs)):
        for a, b in zip(found, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    past = (RATES, ANIMALS, np.array([0.0, -1.0]))
    np.testing.assert_allclose(adjoint(*past)[0], afx.grad(total)(*past, "steps"), rtol=1e-5)
    with pytest.raises(afx.errors.ArgumentError, match="no adjoint"):
        odeint(lambda t, y: y, np.float64(1.0), [0.0, 1.0], gradient="adjoint", event=lambda t, y: y)


def test_the_adjoint_has_reverse_mode_derivatives_of_every_order() -> None:
    """Of exp(s) by s: each is exp(s), as outer derivatives see the solution change; forward mode is refused."""

    def last(s: Any) -> Any:
        start, times = afx.asarray(np.float64(1)), np.array([0.0, 0.4, 1.0])
        return odeint(lambda t, y, s: s * y, start, times, s, rtol=1e-9, atol=1e-11, gradient="adjoint").ys[-1]

    one, fn = np.float64(1), last
    for order in range(4):
        assert float(fn(one)) == pytest.approx(np.e, rel=1e-7), order
        fn = afx.grad(fn)
    assert float(afx.jit(afx.grad(afx.grad(last)))(one)) == pytest.approx(np.e, rel=1e-7)
    with pytest.raises(afx.errors.TracerError, match="odeint: has no forward-mode derivative"):
        afx.jvp(afx.grad(last), (one,), (one,))


@pytest.mark.parametrize("gradient", ["steps", "adjoint"])
def test_every_instruction_has_a_native_form(gradient: Any) -> None:
    """Integrations without events become machine code as a whole, and so do their adjoints."""

    def total(p: Any) -> Any:
        return afx.sum(odeint(lambda t, y, p: p * y, np.ones(2), np.linspace(0, 1, 3), p, gradient=gradient).ys)

    fn = afx.jit(total if gradient == "steps" else afx.grad(total))
    assert [why for _, why in fn.lower(np.float64(-0.5)).native if why] == []


def test_second_derivatives_of_events() -> None:
    """When an event happens, and the state then, have derivatives of every order, in both modes, eager and compiled."""

    def at(p: Any) -> Any:
        start, times = afx.stack([p[0], 0.0 * p[0]]), np.array([0.0, 10.0])
        result = odeint(
            lambda t, y, g: afx.stack([y[1], -g]), start, times, p[1], event=lambda t, y, g: y[0], rtol=1e-9, atol=1e-12
        )
        return result.event_time, result.event_y[1]

    p = np.array([2.0, 9.8])
    for k, law in ((0, lambda p: afx.sqrt(2 * p[0] / p[1])), (1, lambda p: -afx.sqrt(2 * p[0] * p[1]))):
        want = np.asarray(afx.hessian(law)(p))

        def of(p: Any, k: int = k) -> Any:
            return at(p)[k]

        for run in (afx.hessian(of), afx.jit(afx.jacfwd(afx.grad(of))), afx.jacfwd(afx.jacfwd(of))):
            np.testing.assert_allclose(np.asarray(run(p)), want, rtol=1e-8)
    third = afx.grad(afx.grad(afx.grad(lambda h: at(afx.stack([h, np.float64(9.8)]))[0])))(np.float64(2.0))
    assert float(third) == pytest.approx(3 / 8 * 2.0**-2.5 * np.sqrt(2 / 9.8), rel=1e-8)


def test_derivatives_where_no_event_happened() -> None:
    """Where no event happened the states keep their derivatives."""

    def last(h: Any) -> Any:
        result = odeint(lambda t, y: -y, h, [0.0, 1.0], event=lambda t, y: y - 100.0)
        return result.ys[-1] + afx.where(result.event_index >= 0, result.event_time, 0.0)

    assert float(afx.grad(last)(np.float64(2.0))) == pytest.approx(np.exp(-1), rel=1e-5)
    assert float(afx.jvp(last, (np.float64(2.0),), (np.float64(1.0),))[1]) == pytest.approx(np.exp(-1), rel=1e-5)


def test_directed_events() -> None:
    """Events that rise or fall are told apart, each number by itself, forwards and backwards in time, as in SciPy."""

    def run(direction: Any, times: Any, event: Any = lambda t, y: y[0]) -> Any:
        return odeint(
            lambda t, y: afx.stack([y[1], -y[0]]), np.array([1.0, 0.0]), times, event=event, direction=direction
        )

    for direction, want in ((0, 0.5), (-1, 0.5), (1, 1.5)):
        assert float(run(direction, [0.0, 10.0]).event_time) == pytest.approx(want * np.pi, rel=1e-6)
        assert float(run(direction, [0.0, -10.0]).event_time) == pytest.approx(-want * np.pi, rel=1e-6)
    both = run((1, -1), [0.0, 10.0], lambda t, y: [y[0], y[1] + 0.5])
    assert int(both.event_index) == 1
    assert float(both.event_time) == pytest.approx(np.pi / 6, rel=1e-6)

    def falls(a: Any) -> Any:
        start, times = np.float64(-0.5), [0.0, 20.0]
        return odeint(
            lambda t, y: afx.cos(a * t), start, times, event=lambda t, y: y, direction=-1, rtol=1e-9
        ).event_time

    a = np.float64(0.8)
    want = afx.grad(lambda a: (np.pi - afx.asin(a / 2)) / a)(a)
    for slope in (afx.grad(falls), afx.jit(afx.grad(falls))):
        assert float(slope(a)) == pytest.approx(float(want), rel=1e-6)
    with pytest.raises(afx.errors.ArgumentError, match="direction is -1, 0 or 1"):
        run(2, [0.0, 1.0])


@pytest.mark.parametrize("name", PROBLEMS)
def test_test_sets_end_at_their_references(name: str) -> None:
    """Stiff and other sets of the literature end where their references do, as exactly as the tolerance."""
    p = PROBLEMS[name]
    for method in ("radau", "rodas") if p.stiff else ("dop853",):
        options: Any = {
            "method": method,
            "rtol": 1e-5 if p.stiff else 1e-9,
            "atol": 1e-5 * p.floor if p.stiff else 1e-9,
        }
        result = odeint(lambda t, y: p.field(afx, t, y), p.start, [0.0, p.end], **options)
        assert result.converged
        assert p.error(result.ys[-1]) < (1e-4 if p.stiff else 1e-5)


@pytest.mark.parametrize("name", [name for name, p in PROBLEMS.items() if p.stiff])
def test_radau_keeps_its_jacobians(name: str) -> None:
    """Radau takes no more evaluations than SciPy's, those for its Jacobians included, at errors as small."""
    p, options = PROBLEMS[name], {"rtol": 1e-4, "atol": 1e-4 * PROBLEMS[name].floor}
    want = scipy.integrate.solve_ivp(lambda t, y: p.field(np, t, y), (0, p.end), p.start, "Radau", **options)
    result = odeint(lambda t, y: p.field(afx, t, y), p.start, [0.0, p.end], method="radau", **options)
    assert result.converged
    assert int(result.evaluations) <= 1.15 * (want.nfev + want.njev * p.start.size)
    assert p.error(result.ys[-1]) <= 1.1 * p.error(want.y[:, -1])


@pytest.mark.parametrize("name", [name for name, p in PROBLEMS.items() if p.stiff])
@pytest.mark.parametrize("tolerance", [1e-4, 1e-6])
def test_backward_differences_take_the_steps_of_scipys(name: str, tolerance: float) -> None:
    """BDF takes no more evaluations than SciPy's, those for its Jacobians included, at errors of the same size."""
    p, options = PROBLEMS[name], {"rtol": tolerance, "atol": tolerance * PROBLEMS[name].floor}
    want = scipy.integrate.solve_ivp(lambda t, y: p.field(np, t, y), (0, p.end), p.start, "BDF", **options)
    result = odeint(lambda t, y: p.field(afx, t, y), p.start, [0.0, p.end], method="bdf", **options)
    assert result.converged
    assert int(result.evaluations) <= 1.15 * (want.nfev + want.njev * p.start.size)
    assert int(result.iterations) <= 1.1 * len(want.t)
    assert p.error(result.ys[-1]) <= max(20 * tolerance, 1.5 * p.error(want.y[:, -1]))


def test_backward_differences_between_the_explicit_and_the_implicit_functions() -> None:
    """Derivatives by what the field takes are those of the steps, twice, in batches, and by times."""

    def end(k: Any, t: Any) -> Any:
        field = lambda t, y: afx.stack([-k * y[0], 50.0 * (y[0] ** 2 - y[1])])  # closes over k
        return odeint(field, np.array([1.0, 0.5]), afx.stack([0.0, t]), method="bdf", rtol=1e-9, atol=1e-11).ys[-1, 1]

    def exact(k: Any, t: Any) -> Any:
        a = 50.0 / (50.0 - 2 * k)
        return a * afx.exp(-2 * k * t) + (0.5 - a) * afx.exp(-50.0 * t)

    k, t = np.float64(0.7), np.float64(1.3)
    assert float(end(k, t)) == pytest.approx(float(exact(k, t)), rel=1e-6)
    for way in (afx.grad, lambda f, argnums: afx.jacfwd(f, argnums)):
        np.testing.assert_allclose(way(end, argnums=(0, 1))(k, t), way(exact, argnums=(0, 1))(k, t), rtol=1e-5)
    second = afx.jit(afx.grad(afx.grad(end)))(k, t)
    assert float(second) == pytest.approx(float(afx.grad(afx.grad(exact))(k, t)), rel=1e-4)
    ks = np.array([0.1, 0.7, 3.0])
    np.testing.assert_allclose(
        afx.vmap(afx.grad(end), in_axes=(0, None))(ks, t),
        afx.vmap(afx.grad(exact), in_axes=(0, None))(ks, t),
        rtol=1e-5,
    )


def test_times_in_lists_keep_their_digits() -> None:
    """Python's numbers become times in the state's precision."""
    assert odeint(lambda t, y: y, np.float64(1.0), [0.0, 0.1]).ts[1] == 0.1


def oscillate(w: Any, end: float = 10.0, **options: Any) -> Any:
    """Return an oscillation whose position and velocity are watched."""
    held: Any = {"terminal": False, "rtol": 1e-9, "atol": 1e-11, "max_events": 16} | options
    return odeint(
        lambda t, y, w: afx.stack([y[1], -w * w * y[0]]),
        np.array([1.0, 0.0]),
        [0.0, end],
        w,
        event=lambda t, y, w: [y[0], y[1]],
        **held,
    )


def test_events_that_do_not_end_the_integration_are_recorded() -> None:
    """Each with its time and state, in the order of time, forwards and backwards, by every kind of interpolant."""
    for method, end in (("dopri5", 10.0), ("dop853", -10.0), ("radau", 10.0)):
        result = oscillate(np.float64(1.0), end, method=method)
        want = np.sign(end) * np.pi * np.array([[0.5, 1.5, 2.5], [1.0, 2.0, 3.0]])
        np.testing.assert_allclose(result.events.times, want, rtol=1e-6)
        np.testing.assert_allclose(result.events.ys[0, :, 1], np.sign(end) * np.array([-1.0, 1.0, -1.0]), rtol=1e-6)
        assert result.events.counts.tolist() == [3, 3]
        assert (result.reason, float(result.ts[-1])) == ("the tolerance is met", end)
        np.testing.assert_allclose(result.ys[-1, 0], np.cos(10.0), rtol=1e-5)


def test_recorded_events_up_to_the_one_that_ends_it() -> None:
    """Of several events some may end the integration; what would come after that one is none."""
    result = oscillate(np.float64(1.0), terminal=[False, True], direction=[0, -1])
    assert float(result.event_time) == pytest.approx(2 * np.pi, rel=1e-6)
    np.testing.assert_allclose(np.asarray(result.events.times)[0, :2], np.array([0.5, 1.5]) * np.pi, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(result.events.times)[1, 0], 2 * np.pi, rtol=1e-6)
    assert result.events.counts.tolist() == [2, 1]
    late = odeint(
        lambda t, y: 1.0 + 0.0 * y,
        np.float64(0.0),
        [0.0, 10.0],
        event=lambda t, y: [y - 2.0, y - 1.0],
        terminal=[False, True],
    )  # both in one step
    assert late.events is not None
    assert (late.events.counts.tolist(), float(late.event_time)) == ([0, 1], pytest.approx(1.0))


def test_recorded_events_are_differentiable() -> None:
    """Their times have derivatives in both modes, eager, compiled and in batches, where nan fills rows."""

    def third(w: Any) -> Any:
        return oscillate(w, 5.0, max_events=7).events.times[0, 2]

    for found in (afx.grad(third), afx.jit(afx.grad(third)), afx.jacfwd(third)):
        np.testing.assert_allclose(found(np.float64(2.0)), -2.5 * np.pi / 4, rtol=1e-6)
    batch = afx.jit(afx.vmap(lambda w: oscillate(w).events))(np.array([0.2, 1.0]))
    assert batch.counts.tolist() == [[1, 0], [3, 3]]
    assert np.isnan(np.asarray(batch.times)).sum() == 64 - 7


def test_wrong_events_are_named() -> None:
    """More events than there is room for, and numbers that do not fit the events."""
    for message, options in {
        "more events than are recorded: got 6 steps": {"max_events": 2},
        "max_events is a whole number": {"max_events": 0},
        "got 3 of 2 events": {"terminal": [True, False, True]},
        "direction is one of all events": {"direction": [1]},
        "is a bool": {"terminal": 1},
    }.items():
        with pytest.raises(afx.errors.ArgumentError, match=message):
            oscillate(np.float64(1.0), **options)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"event": 3}, ArgumentError, "odeint: event: needs a function"),
        ({"event": lambda t, y: None}, OperandError, "odeint: event: the function returns numbers: got NoneType None"),
        ({"event": lambda t, y: ()}, ShapeError, "odeint: event: .* got none; return what crosses 0"),
        ({"rtol": -1.0}, ArgumentError, "odeint: tolerances are numbers from 0 on: got -1.0"),
        ({"atol": float("nan")}, ArgumentError, "tolerances are numbers from 0 on: got nan"),
        ({"rtol": "tight"}, ArgumentError, "tolerances are numbers from 0 on: got 'tight'"),
    ],
)
def test_events_and_tolerances_that_say_nothing_are_refused(options: Any, error: type[Exception], message: str) -> None:
    """A forgotten return never ends an integration, and a negative tolerance is met by anything: both are told."""
    with pytest.raises(error, match=message):
        odeint(lambda t, y: -y, np.ones(2), np.array([0.0, 1.0]), **options)
