"""`minimize` under equalities, inequalities and bounds finds SciPy's minima, with derivatives and multipliers."""

from typing import Any

import numpy as np
import pytest
import scipy.optimize

import afx
from afx import optim
from tests.optim.solvers.hock_schittkowski import PROBLEMS, condition

HS71 = np.array([1.0, 5.0, 5.0, 1.0])


def volume(x: Any) -> Any:
    """Return the objective of problem 71 of Hock & Schittkowski."""
    return x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2]


def bounded(limits: Any) -> Any:
    """Return the minimum of problem 71 for a squared length and a product."""
    return optim.minimize(
        volume,
        HS71,
        bounds=(1.0, 5.0),
        equalities=lambda x: afx.sum(x * x) - limits[0],
        inequalities=lambda x: afx.prod(x) - limits[1],
    )


def test_problem_71() -> None:
    """Hock & Schittkowski's problem 71 has its published minimum, eager, compiled and in single precision."""
    result = bounded(np.array([40.0, 25.0]))
    assert result.reason == "the tolerance is met"
    np.testing.assert_allclose(result.x, [1.0, 4.74299963, 3.82114998, 1.37940829], rtol=1e-8)
    assert float(result.value) == pytest.approx(17.0140173, rel=1e-8)
    np.testing.assert_allclose(result.inequality_multipliers, [0.55229366], rtol=1e-6)
    assert isinstance(result, optim.ConstrainedResult)
    np.testing.assert_allclose(afx.jit(lambda b: bounded(b).x)(np.array([40.0, 25.0])), result.x, rtol=1e-8)


def test_derivatives_of_constrained_minima() -> None:
    """Derivatives of the value by what conditions are set to are the multipliers; those of the point are differences."""
    limits = np.array([40.0, 25.0])
    result = bounded(limits)
    slope = np.asarray(afx.grad(lambda b: bounded(b).value)(limits))
    want = [float(result.equality_multipliers[0]), float(result.inequality_multipliers[0])]
    np.testing.assert_allclose(slope, want, rtol=1e-6)
    step = 1e-4 * np.eye(2)
    differences = [(np.asarray(bounded(limits + h).x) - np.asarray(bounded(limits - h).x)) / 2e-4 for h in step]
    for run in (afx.jacfwd, afx.jacrev):
        np.testing.assert_allclose(run(lambda b: bounded(b).x)(limits), np.stack(differences, 1), atol=1e-6)


@pytest.mark.parametrize("radius", [1.5, 9.0])
def test_conditions_that_hold_or_do_not_matter(radius: float) -> None:
    """Rosenbrock's function in a disk has SciPy's minimum, on its edge or inside, where the multiplier is 0."""

    def valley(x: Any) -> Any:
        return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2

    result = optim.minimize(valley, np.array([-1.2, 1.0]), inequalities=lambda x: [radius - afx.sum(x * x)])
    disk = {"type": "ineq", "fun": lambda x: radius - x @ x}
    want = scipy.optimize.minimize(lambda x: float(valley(x)), [-1.2, 1.0], constraints=[disk], tol=1e-12)
    np.testing.assert_allclose(result.x, want.x, rtol=1e-5)
    assert (float(result.inequality_multipliers[0]) > 1e-3) == (radius < 2)
    assert result.converged


def test_trees_and_batches_under_conditions() -> None:
    """Trees keep their type, every element of a batch stops by itself, and conditions may be in single precision."""
    means, spread = np.array([0.1, 0.2, 0.15]), np.diag([0.1, 0.3, 0.2])

    def risk(p: Any) -> Any:
        return 0.5 * p["w"] @ spread @ p["w"] - p["w"] @ means

    found = optim.minimize(risk, {"w": np.ones(3) / 3}, bounds=(0.0, None), equalities=lambda p: afx.sum(p["w"]) - 1)
    assert float(afx.sum(found.x["w"])) == pytest.approx(1.0, rel=1e-10)
    np.testing.assert_allclose(found.x["w"], np.array([5, 9, 8]) / 22, rtol=1e-7)

    def nearest(b: Any) -> Any:
        return optim.minimize(lambda x: afx.sum(x * x), afx.ones(2), equalities=lambda x: afx.sum(x) - b).x

    np.testing.assert_allclose(afx.vmap(nearest)(afx.asarray([1.0, 2.0])), [[0.5, 0.5], [1.0, 1.0]], rtol=1e-4)


def test_conditions_that_cannot_hold() -> None:
    """Conditions that contradict each other end without convergence, and with derivatives of nan."""

    def at(b: Any) -> Any:
        return optim.minimize(lambda x: afx.sum(x * x), np.ones(1), equalities=lambda x: x * x + b)

    assert not at(np.float64(1.0)).converged
    assert np.isnan(float(afx.grad(lambda b: at(b).x[0])(np.float64(1.0))))


@pytest.mark.parametrize("start", [[-1.2, 1.0], [1.3, 0.7, 0.8, 1.9, 1.2]])
def test_nelder_mead(start: list[float]) -> None:
    """The simplex finds Rosenbrock's minimum in about SciPy's evaluations, without a derivative."""

    def valley(x: Any) -> Any:
        return afx.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    result = optim.minimize(valley, np.array(start), method="nelder_mead")
    np.testing.assert_allclose(result.x, np.ones(len(start)), atol=1e-7)
    assert result.converged
    options = {"xatol": 1e-8, "fatol": 1e-8, "maxfev": 4000, "maxiter": 4000}
    want = scipy.optimize.minimize(lambda x: float(valley(x)), start, method="Nelder-Mead", options=options)
    assert int(result.evaluations) <= 2 * want.nfev


def test_nelder_mead_at_kinks_and_bounds() -> None:
    """The simplex ends at kinks and on bounds; its minimum is differentiable where the function is."""
    kinks = optim.minimize(lambda x: abs(x[0] - 1) + abs(x[1] + 2), np.full(2, 3.0), method="nelder_mead")
    np.testing.assert_allclose(kinks.x, [1.0, -2.0], atol=1e-7)
    edge = optim.minimize(
        lambda x: (x[0] - 1) ** 2 + (x[1] + 2) ** 2, np.full(2, 3.0), method="nelder_mead", bounds=(0.0, None)
    )
    np.testing.assert_allclose(edge.x, [1.0, 0.0], atol=1e-6)
    assert edge.converged

    def at(a: Any) -> Any:
        return optim.minimize(lambda x, a: afx.sum((x - a) ** 2), np.ones(2), a, method="nelder_mead").x[0]

    assert float(afx.jit(afx.grad(at))(np.float64(2.0))) == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("number", [6, 10, 12, 14, 29, 34, 40, 71, 76])
def test_hock_and_schittkowski(number: int) -> None:
    """Published problems end at their published values, in about SLSQP's evaluations."""
    p = PROBLEMS[number]
    start, (lower, upper) = np.array(p.start, float), p.bounds()
    bounds = None if p.lower is None and p.upper is None else (lower, upper)

    def values(of: Any) -> Any:
        return (lambda x: [*of(afx, x)]) if len(of(np, start)) else None

    result = optim.minimize(
        lambda x: p.value(afx, x), start, bounds=bounds, equalities=values(p.equal), inequalities=values(p.above)
    )
    assert result.converged
    assert float(result.value) == pytest.approx(p.least, rel=1e-7, abs=1e-8)
    x = np.asarray(result.x)
    assert all(abs(c) < 1e-7 for c in p.equal(np, x))
    assert all(g > -1e-7 for g in p.above(np, x))
    assert (x >= lower).all()
    assert (x <= upper).all()
    kinds = [("eq", p.equal), ("ineq", p.above)]
    conditions = [condition(kind, of) for kind, of in kinds if len(of(np, start))]
    want = scipy.optimize.minimize(
        lambda x: float(p.value(np, x)),
        start,
        jac=lambda x: np.asarray(afx.grad(lambda x: p.value(afx, x))(x)),
        method="SLSQP",
        constraints=conditions,
        bounds=scipy.optimize.Bounds(lower, upper),
        options={"ftol": 1e-12},
    )
    assert int(result.evaluations) <= 2 * want.nfev
