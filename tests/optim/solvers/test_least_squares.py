"""`least_squares` fits, says how, and its solutions are differentiable by the data."""

from typing import Any

import numpy as np
import pytest
import scipy.optimize

import afx
from afx import optim

METHODS: list[Any] = ["levenberg_marquardt", "gauss_newton"]
TIMES = np.linspace(0.0, 4.0, 12)
NOISE = 0.1 * np.random.default_rng(0).normal(size=12)
COUNTS = 3 * np.exp(-0.5 * TIMES) + NOISE
ONES = np.ones(2)


def decay(p: Any, counts: Any) -> Any:
    """Return the residuals of an exponential decay."""
    return p[0] * afx.exp(-p[1] * TIMES) - counts


def valley(x: Any) -> Any:
    """Return the residuals of Rosenbrock's function."""
    return afx.concat([10.0 * (x[1:] - x[:-1] ** 2), 1.0 - x[:-1]])


@pytest.mark.parametrize("method", METHODS)
def test_fits_are_those_of_scipy(method: Any) -> None:
    """Parameters and cost are SciPy's, in both precisions."""
    want = scipy.optimize.least_squares(lambda p: np.asarray(decay(p, COUNTS)), ONES, xtol=1e-14, gtol=1e-14)
    result = optim.least_squares(decay, ONES, COUNTS, method=method)
    np.testing.assert_allclose(result.x, want.x, rtol=1e-8)
    assert float(result.cost) == pytest.approx(want.cost, rel=1e-12)
    assert result.converged
    single = optim.least_squares(decay, ONES.astype(np.float32), COUNTS.astype(np.float32), method=method)
    np.testing.assert_allclose(single.x, want.x, rtol=1e-4)


def test_fits_are_differentiable_by_the_data() -> None:
    """Derivatives, with the curvature of residuals that stay, are those of finite differences."""

    def fit(counts: Any) -> Any:
        return optim.least_squares(decay, ONES, counts).x

    h = 1e-4
    want = np.stack(
        [(np.asarray(fit(COUNTS + h * e)) - np.asarray(fit(COUNTS - h * e))) / (2 * h) for e in np.eye(12)], 1
    )
    for jacobian in (afx.jacrev(fit), afx.jacfwd(fit), afx.jit(afx.jacrev(fit))):
        np.testing.assert_allclose(jacobian(COUNTS), want, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("sparse", [False, True])
def test_residuals_that_vanish(sparse: bool) -> None:
    """Rosenbrock's function ends at exactly 0, with dense and sparse Jacobians, plain and compiled."""
    start = np.tile([-1.2, 1.0], 4)
    for run in (lambda x: optim.least_squares(valley, x, sparse=sparse),):
        for result in (run(start), afx.jit(run)(start)):
            assert result.converged
            assert float(result.cost) < 1e-28
            np.testing.assert_allclose(result.x, np.ones(8), rtol=1e-13)


def test_batches_and_trees() -> None:
    """Batches stop by themselves, and unknowns and residuals are trees."""
    together = afx.vmap(lambda c: optim.least_squares(decay, ONES, c).x)(np.stack([COUNTS, 2 * COUNTS]))
    np.testing.assert_allclose(together[1], together[0] * np.array([2.0, 1.0]), rtol=1e-7)
    start = {"x": np.float64(0.5), "y": np.zeros(2)}
    result = optim.least_squares(lambda v: [v["x"] - 2.0, (v["y"] - 1.0, v["x"] * v["y"] - 2.0)], start)
    assert float(result.x["x"]) == pytest.approx(2.0, rel=1e-10)
    assert result.residuals.shape == (5,)


@pytest.mark.parametrize("method", METHODS)
def test_fewer_residuals_than_unknowns(method: Any) -> None:
    """Of many solutions one near the start is found."""
    result = optim.least_squares(lambda x: x[:1] + x[1:] - 1.0, np.zeros(2), method=method)
    np.testing.assert_allclose(result.x, [0.5, 0.5], rtol=1e-12)


def linear(seed: int) -> tuple[Any, np.ndarray, tuple[Any, Any]]:
    """Return a random linear problem in a box, of more or fewer residuals than unknowns."""
    rng = np.random.default_rng(seed)
    m, n = rng.integers(6, 20), rng.integers(2, 6)
    a, b = rng.normal(size=(m, n)), 2 * rng.normal(size=m)
    return (lambda x: a @ x - b), np.zeros(n), (-0.5 * rng.random(n), 0.5 * rng.random(n))


def bent(seed: int) -> tuple[Any, np.ndarray, tuple[Any, Any]]:
    """Return a random problem that is not linear, in a box."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(12, 4)), rng.normal(size=12)
    return (lambda x: 2 * afx.tanh(a @ x) + 0.2 * (a @ x) ** 2 - b), 0.1 * rng.random(4), (-0.3, np.full(4, 0.3))


BOUNDED: dict[str, tuple[Any, np.ndarray, tuple[Any, Any]]] = {
    "valley from below": (valley, np.array([-2.0, 1.0]), (np.array([-np.inf, 1.5]), None)),
    "valley in a corner": (valley, np.array([0.2, 0.3]), (None, np.array([0.5, 2.0]))),
    "long valley": (valley, np.full(8, 0.5), (np.linspace(-1.0, 0.9, 8), np.linspace(0.6, 2.0, 8))),
    "decay, none active": (lambda p: decay(p, COUNTS), ONES, (0.0, 10.0)),
    "decay, one active": (lambda p: decay(p, COUNTS), ONES, (0.0, np.array([2.5, np.inf]))),
    "decay, both active": (lambda p: decay(p, COUNTS), ONES, (None, np.array([1.0, 0.1]))),
    "decay from outside": (lambda p: decay(p, COUNTS), ONES, (np.array([3.2, 0.0]), np.array([10.0, 0.4]))),
    **{f"linear {k}": linear(k) for k in range(6)},
    **{f"bent {k}": bent(k) for k in range(4)},
}


@pytest.mark.parametrize("problem", BOUNDED)
def test_bounded_fits_are_those_of_scipy(problem: str) -> None:
    """Parameters between bounds, and which of them are active, are those of SciPy's trust region reflective method."""
    fn, start, (low, high) = BOUNDED[problem]
    lower = np.broadcast_to(-np.inf if low is None else low, start.shape)
    upper = np.broadcast_to(np.inf if high is None else high, start.shape)
    want = scipy.optimize.least_squares(
        lambda x: np.asarray(fn(afx.asarray(x))),
        np.clip(start, lower, upper),
        jac=lambda x: np.asarray(afx.jacfwd(fn)(afx.asarray(x))),
        bounds=(lower, upper),
        **dict.fromkeys(("xtol", "gtol", "ftol"), 1e-15),
    )
    for method in METHODS:
        result = optim.least_squares(fn, start, bounds=(low, high), method=method)
        assert result.converged
        np.testing.assert_allclose(result.x, want.x, rtol=1e-8, atol=1e-8)
        assert float(result.cost) <= want.cost * (1 + 1e-12)
        assert np.all((np.asarray(result.x) >= lower) & (np.asarray(result.x) <= upper))


def test_bounds_hold_for_sparse_compiled_and_batched_fits() -> None:
    """Sparse Jacobians, plans and batches give the same bounded parameters, trees too."""
    fn, start, bounds = BOUNDED["long valley"]
    want = optim.least_squares(fn, start, bounds=bounds).x
    runs = (
        lambda x: optim.least_squares(fn, x, bounds=bounds, sparse=True).x,
        afx.jit(lambda x: optim.least_squares(fn, x, bounds=bounds).x),
        lambda x: afx.vmap(lambda y: optim.least_squares(fn, y, bounds=bounds).x)(np.stack([x, x + 0.1]))[0],
        lambda x: optim.least_squares(lambda v: fn(v["x"]), {"x": x}, bounds=({"x": bounds[0]}, {"x": bounds[1]})).x[
            "x"
        ],
    )
    for run in runs:
        np.testing.assert_allclose(run(start), want, rtol=1e-8)


def test_bounded_fits_are_differentiable_by_the_data() -> None:
    """An unknown at its bound does not move with the data, the others do as finite differences say."""

    def fit(counts: Any) -> Any:
        return optim.least_squares(decay, ONES, counts, bounds=(0.0, np.array([2.5, np.inf]))).x

    h = 1e-4
    want = [(np.asarray(fit(COUNTS + h * e)) - np.asarray(fit(COUNTS - h * e))) / (2 * h) for e in np.eye(12)]
    found = np.asarray(afx.jacrev(fit)(COUNTS))
    assert np.all(found[0] == 0.0)
    np.testing.assert_allclose(found, np.stack(want, 1), rtol=1e-5, atol=1e-7)


def test_wrong_use_is_named() -> None:
    """Mistakes raise where they are made."""
    with pytest.raises(afx.errors.ArgumentError, match="no such method"):
        optim.least_squares(valley, ONES, method="dogleg")  # the mistake
    with pytest.raises(afx.errors.ArgumentError, match="sparse"):
        optim.least_squares(valley, ONES, method="gauss_newton", sparse=True)
    for solve in (optim.least_squares, optim.minimize):
        with pytest.raises(afx.errors.ArgumentError, match="a lower bound lies above the upper one"):
            solve(lambda x: afx.sum(x**2), ONES, bounds=(1.0, np.array([2.0, 0.5])))
    pairs: Any = [(0.0, 1.0), (0.0, 2.0)]  # which would be read as lower bounds 0 and 1, and upper ones 0 and 2
    for solve in (optim.least_squares, optim.minimize, optim.scipy_minimize, optim.scipy_least_squares):
        with pytest.raises(afx.errors.ArgumentError, match=r"bounds are a tuple \(lower, upper\)"):
            solve(lambda x: afx.sum(x**2), ONES, bounds=pairs)
    assert optim.least_squares(lambda x: x * np.nan, ONES).reason == "the function is not finite"
