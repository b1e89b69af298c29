"""`minimize` finds minima, says how, and its solutions are differentiable by the parameters."""

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest
import scipy.optimize

import afx
from afx import optim

START = np.tile([-1.2, 1.0], 5)
METHODS = ["lbfgs", "bfgs", "newton_cg", "trust_region"]
EYE = np.eye(3)


def rosenbrock(x: Any) -> Any:
    """A curved valley."""
    return afx.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def quartic(x: Any, a: Any) -> Any:
    """A function with a minimum in each coordinate that depends on a."""
    return afx.sum(afx.exp(a) * (x - a) ** 2 + x**4)


def solution(a: Any, **options: Any) -> Any:
    """Return where the quartic is least."""
    return optim.minimize(quartic, np.zeros(3), a, tolerance=1e-12, **options).x


def test_lbfgs_needs_few_evaluations() -> None:
    """L-BFGS brings the Rosenbrock function of ten unknowns below 1e-20 in at most 110 evaluations."""
    result = optim.minimize(rosenbrock, START, tolerance=1e-9)
    assert result.converged
    assert float(result.value) < 1e-20
    assert int(result.evaluations) <= 110
    np.testing.assert_allclose(result.x, np.ones(10), rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("method", METHODS)
def test_methods_find_the_minimum(method: Any, dtype: Any) -> None:
    """Each method ends where the gradient is small, in the dtype of the start."""
    result = optim.minimize(rosenbrock, START[:4].astype(dtype), method=method)
    assert result.converged
    assert result.x.dtype == dtype
    assert np.abs(result.gradient).max() <= np.sqrt(np.finfo(dtype).eps)
    np.testing.assert_allclose(result.x, np.ones(4), rtol=1e-6 if dtype == np.float64 else 2e-3)


@pytest.mark.parametrize("method", METHODS)
def test_solutions_are_differentiable(method: Any) -> None:
    """Derivatives of the solution by an argument are those of finite differences, in both modes and by closures."""
    a = np.array([0.3, 1.0, 2.0])
    h = 1e-5
    want = np.stack([(np.asarray(solution(a + h * e)) - np.asarray(solution(a - h * e))) / (2 * h) for e in EYE], -1)

    def closed(b: Any) -> Any:
        return optim.minimize(lambda x: quartic(x, b), np.zeros(3), method=method, tolerance=1e-12).x

    for found in (
        afx.jacfwd(solution)(a),
        afx.jacrev(solution)(a),
        afx.jacrev(closed)(a),
        afx.jit(afx.jacrev(closed))(a),
        afx.vmap(afx.jacrev(closed))(a[None])[0],
        afx.jacrev(lambda b: afx.vmap(closed)(b[None])[0])(a),
    ):
        np.testing.assert_allclose(found, want, rtol=1e-7, atol=1e-9)


def test_second_derivatives_of_solutions() -> None:
    """The minimum of (x - a²)² is a², with derivatives of every order in every mode."""

    def square(a: Any) -> Any:
        return optim.minimize(lambda x, b: afx.exp((x - b * b) ** 2), np.float64(0.5), a, tolerance=1e-13).x

    x = np.float64(0.7)
    assert float(square(x)) == pytest.approx(0.49, rel=1e-10)
    assert float(afx.grad(square)(x)) == pytest.approx(1.4, rel=1e-8)
    for second in (afx.grad(afx.grad(square)), afx.hessian(square), afx.jacfwd(afx.jacfwd(square))):
        assert float(second(x)) == pytest.approx(2.0, rel=1e-6)
    assert float(afx.jit(afx.hessian(square))(x)) == pytest.approx(2.0, rel=1e-6)


def test_the_value_is_differentiable_too() -> None:
    """The derivative of the least value is the partial one (envelope theorem)."""
    a = np.array([0.3, 1.0, 2.0])
    found = afx.grad(lambda b: optim.minimize(quartic, np.zeros(3), b, tolerance=1e-12).value)(a)
    x = np.asarray(solution(a))
    np.testing.assert_allclose(found, np.exp(a) * ((x - a) ** 2 - 2 * (x - a)), rtol=1e-8)


@pytest.mark.parametrize("method", METHODS)
def test_bounds_are_kept(method: Any) -> None:
    """With bounds the minimum is SciPy's, every point is inside, and held unknowns do not move with parameters."""
    bounds = (np.full(6, -2.0), np.array([0.5, 2.0, 0.2, 2.0, 2.0, 2.0]))
    result = optim.minimize(rosenbrock, START[:6], bounds=bounds, method=method)
    assert result.converged
    want = scipy.optimize.minimize(
        lambda x: float(rosenbrock(x)),
        START[:6],
        jac=lambda x: np.asarray(afx.grad(rosenbrock)(x)),
        bounds=list(zip(*bounds, strict=True)),
        method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-10},
    )
    np.testing.assert_allclose(result.x, want.x, rtol=1e-5, atol=1e-7)
    assert (np.asarray(result.x) <= bounds[1]).all()

    a = np.array([0.3, 1.0, 2.0])
    free = np.diag(np.asarray(afx.jacrev(solution)(a)))
    held = afx.jacrev(lambda b: solution(b, bounds=(None, 0.6), method=method))(a)
    x = np.asarray(solution(a, bounds=(None, 0.6), method=method))
    np.testing.assert_allclose(held, np.diag(np.where(x < 0.6, free, 0.0)), rtol=1e-8, atol=1e-12)


def test_batches_stop_by_themselves() -> None:
    """Under vmap each element gives what it gives alone, with its own counts."""
    starts = np.stack([START[:4], np.ones(4), 0.3 * START[:4]])
    together = afx.vmap(lambda x: optim.minimize(rosenbrock, x))(starts)
    for k, start in enumerate(starts):
        alone = optim.minimize(rosenbrock, start)
        np.testing.assert_allclose(together.x[k], alone.x, rtol=1e-7)
        assert int(together.iterations[k]) == pytest.approx(int(alone.iterations), abs=2)
    assert int(together.iterations[1]) == 0
    assert together.reason == "3 of 3: the tolerance is met"


def test_trees_keep_their_type() -> None:
    """The start may be a frozen class with several dtypes and leaves that are not trained."""

    @attrs.frozen
    class Line:
        slope: Any
        offset: Any
        count: Any

    x = np.linspace(0.0, 1.0, 5)
    line = Line(np.float32(0.0), np.zeros(1), np.arange(2))
    result = optim.minimize(lambda p: afx.sum((p.slope * x + p.offset - (3 * x - 1)) ** 2), line)
    assert isinstance(result.x, Line)
    assert result.x.slope.dtype == np.float32
    assert float(result.x.slope) == pytest.approx(3.0, abs=1e-6)
    assert float(result.x.offset[0]) == pytest.approx(-1.0, abs=1e-6)
    np.testing.assert_array_equal(result.x.count, [0, 1])


def test_it_says_why_it_stopped() -> None:
    """Limits, rounding and values that are not finite have reasons of their own."""
    assert optim.minimize(rosenbrock, START, max_iterations=3).reason == "the limit of iterations was reached"
    assert optim.Status(int(optim.minimize(lambda x: x * np.nan, np.ones(())).status)) is optim.Status.NONFINITE
    a = np.float32([0.1, 0.2, 0.3])
    stalled = optim.minimize(quartic, np.zeros(3, np.float32), a, tolerance=1e-30)
    assert stalled.reason == "no step leads further in this precision"
    assert not stalled.converged
    np.testing.assert_allclose(stalled.x, solution(a.astype(float)), rtol=1e-3)


def test_values_beyond_all_numbers_are_avoided() -> None:
    """A step to where the function is infinite or nan is shortened."""
    result = optim.minimize(lambda x: afx.sum(x - afx.log(x)), np.full(2, 1e-3))
    np.testing.assert_allclose(result.x, np.ones(2), rtol=1e-7)
    assert result.converged


def test_wrong_use_is_named() -> None:
    """Mistakes raise where they are made."""
    with pytest.raises(afx.errors.ShapeError, match="returns a real scalar"):
        optim.minimize(lambda x: x, np.ones(2))
    with pytest.raises(afx.errors.ArgumentError, match="no such method"):
        optim.minimize(rosenbrock, START, method="simplex")  # the mistake
    with pytest.raises(afx.errors.DtypeError, match="real"):
        optim.minimize(lambda x: afx.sum(abs(x)), np.ones(2, complex))
    with pytest.raises(afx.errors.ShapeError, match="as many elements"):
        optim.minimize(rosenbrock, START, bounds=(np.zeros(3), None))


@pytest.mark.parametrize("method", ["lbfgs", "trust_region", "nelder_mead"])
def test_objectives_are_real_floating_numbers(method: Any) -> None:
    """No part of a complex one is left out, and no truth value or whole number has a slope of 0."""
    with pytest.raises(afx.errors.DtypeError, match=r"the function returns a real floating scalar: got complex128\[\]"):
        optim.minimize(lambda x: afx.sum(x**2) * 1j, np.ones(2), method=method)
    with pytest.raises(afx.errors.DtypeError, match=r"the function returns a real floating scalar: got bool\[\]"):
        optim.minimize(lambda x: afx.sum(x) > 0, np.ones(2), method=method)
    steps = lambda x: afx.sum(afx.floor(10 * x**2).astype(int))
    if method == "nelder_mead":  # by values alone
        assert optim.minimize(steps, np.ones(2), method=method).value < 2
    else:
        with pytest.raises(afx.errors.DtypeError, match=r"got int64\[\]; return what is to be least"):
            optim.minimize(steps, np.ones(2), method=method)


NOTHING: Any = lambda *_: None  # a function whose author forgot to return


@pytest.mark.parametrize(
    "solve",
    [
        lambda: optim.minimize(NOTHING, START),
        lambda: optim.scipy_minimize(NOTHING, START),
        lambda: optim.minimize(rosenbrock, START, equalities=NOTHING),
        lambda: optim.minimize(rosenbrock, START, inequalities=NOTHING),
        lambda: optim.least_squares(NOTHING, np.ones(2)),
        lambda: optim.root(NOTHING, np.ones(2)),
        lambda: optim.fixed_point(NOTHING, np.ones(2)),
        lambda: optim.scipy_least_squares(NOTHING, np.ones(2)),
        lambda: afx.integrate.quad(NOTHING, 0.0, 1.0),
    ],
)
def test_functions_that_return_nothing(solve: Callable[[], Any]) -> None:
    """They are refused: no condition would hold, and no residual would be left."""
    with pytest.raises(afx.errors.OperandError, match="the function returns numbers: got NoneType None; return them"):
        solve()
    assert optim.minimize(lambda x: afx.sum(x**2), np.ones(2), equalities=lambda _: ()).converged  # none on purpose


def test_many_unknowns_are_differentiated_without_a_matrix() -> None:
    """A thousand coupled unknowns have the derivatives that their linear system gives."""
    n = 1000
    weights = np.linspace(1.0, 3.0, n)

    def energy(x: Any, a: Any) -> Any:
        return 0.5 * afx.sum(weights * (x - a) ** 2) + 0.25 * afx.sum((x[1:] - x[:-1]) ** 2)

    a, v = np.sin(np.arange(n)), np.cos(np.arange(n))
    difference = np.diff(np.eye(n), axis=0)
    matrix = np.diag(weights) + 0.5 * difference.T @ difference
    of = lambda b: optim.minimize(energy, np.zeros(n), b).x
    want = np.linalg.solve(matrix, weights * v)
    np.testing.assert_allclose(afx.jvp(of, (a,), (v,))[1], want, rtol=1e-9, atol=1e-11)
    found = afx.grad(lambda b: afx.sum(of(b) * v))(a)
    np.testing.assert_allclose(found, weights * np.linalg.solve(matrix, v), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("method", ["bfgs", "lbfgs", "newton_cg", "trust_region"])
def test_long_runs_are_compiled_where_they_can_be(method: Any) -> None:
    """Python sees a function for some steps alone, in all of them one that branches on values; the minimum is the same."""
    calls = {"plain": 0, "branching": 0}

    def plain(x: Any) -> Any:
        calls["plain"] += 1
        return afx.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    def branching(x: Any) -> Any:
        calls["branching"] += 1
        return plain(x) if x[0] > -10 else afx.sum(x)

    start = np.zeros(6)
    first = optim.minimize(plain, start, method=method)
    compiled = calls["plain"]
    second = optim.minimize(branching, start, method=method)
    assert int(first.iterations) > 10
    assert compiled < calls["branching"]
    for found in (first, second):
        np.testing.assert_allclose(found.x, 1.0, atol=1e-6)


@pytest.mark.parametrize(
    "method", ["lbfgs", "bfgs", "newton_cg", "trust_region", "levenberg_marquardt", "gauss_newton"]
)
def test_bounds_are_differentiable(method: Any) -> None:
    """A minimum on a bound follows it, and the other unknowns follow too: in both modes and twice, eager and compiled."""

    def at(upper: Any) -> Any:
        start, bounds = np.ones(2), (None, upper)
        if method in ("levenberg_marquardt", "gauss_newton"):
            found = optim.least_squares(
                lambda x: afx.stack([x[0] - 5, x[0] * x[1] - 3]), start, bounds=bounds, method=method
            )
        else:
            found = optim.minimize(
                lambda x: (x[0] - 5) ** 2 + (x[0] * x[1] - 3) ** 2, start, bounds=bounds, method=method
            )
        return found.x

    upper = np.float64(2.0)
    for run in (afx.jacrev(at), afx.jacfwd(at), afx.jit(afx.jacrev(at)), afx.jit(afx.jacfwd(at))):
        np.testing.assert_allclose(np.asarray(run(upper)), [1.0, -3 / 4], rtol=1e-6)
    assert float(afx.grad(afx.grad(lambda b: at(b)[1]))(upper)) == pytest.approx(6 / 8, rel=1e-5)
    batch = afx.vmap(afx.grad(lambda b: at(b)[1]))(np.array([1.9, 2.0]))
    np.testing.assert_allclose(np.asarray(batch), [-3 / 1.9**2, -3 / 4], rtol=1e-6)


@pytest.mark.parametrize(
    "at",
    [
        lambda a: optim.minimize(lambda x, a: afx.sum((x - a) ** 4), np.ones(2), a, max_iterations=2).x[0],
        lambda a: optim.least_squares(lambda x, a: x**3 - a, np.ones(2), a, max_iterations=1).x[0],
        lambda a: optim.root(lambda x, a: x**3 - a, np.float64(1), a, max_iterations=1).x,
        lambda a: optim.fixed_point(lambda x, a: afx.cos(a * x), np.float64(1), a, max_iterations=1).x,
    ],
)
def test_what_has_not_converged_has_no_derivative(at: Any) -> None:
    """The derivative of what a solver did not finish is nan in both modes, eager and compiled; the value stays."""
    a = np.float64(3.0)
    assert np.isfinite(float(at(a)))
    for run in (afx.grad(at), afx.jit(afx.grad(at)), lambda a: afx.jvp(at, (a,), (np.float64(1.0),))[1]):
        assert np.isnan(float(run(a)))
