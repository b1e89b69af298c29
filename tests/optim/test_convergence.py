"""One table of optimizers runs on every problem."""

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

import afx
from afx import Array, optim
from tests.every import together
from tests.optim.cases import OPTIMIZERS


@attrs.frozen(eq=False)
class Problem:
    """A loss, a start, its least value, and how near to that every optimizer comes in how many steps."""

    loss: Callable[[Any], Array]
    start: Any
    least: float
    near: float
    steps: int


def quadratic(x: Array) -> Array:
    """A round bowl with its least value 0 at 1, 2, 3."""
    return afx.sum((x - np.array([1.0, 2.0, 3.0])) ** 2)


def tilted(p: dict[str, Array]) -> Array:
    """A convex function of two parameters that depend on each other; least at a = 0, b = 1: -0.5."""
    a, b = p["a"], p["b"]
    return 0.5 * b**2 - b + afx.sum(a**2) * (1.0 + 0.25 * (b - 1.0) ** 2)


def rosenbrock(x: Array) -> Array:
    """Rosenbrock's banana valley, ten times flatter; least at (1, 1): 0."""
    return 0.05 * (1 - x[0]) ** 2 + 0.5 * (x[1] - x[0] ** 2) ** 2


RNG = np.random.default_rng(3)
X = RNG.normal(size=(40, 2))
LABELS = (X @ np.array([1.0, -1.0]) + 0.3 * RNG.normal(size=40) > 0).astype(float)


def beale(x: Array) -> Array:
    """Beale's function, a hundred times flatter; least at (3, 0.5): 0."""
    powers = [x[1], x[1] ** 2, x[1] ** 3]
    return 0.01 * sum([(a - x[0] + x[0] * p) ** 2 for a, p in zip([1.5, 2.25, 2.625], powers, strict=True)], 0.0 * x[0])


def ill_conditioned(x: Array) -> Array:
    """A bowl a hundred times steeper in one direction than in another; least at 0."""
    return 0.5 * afx.sum(x**2 * np.array([0.05, 0.5, 5.0]))


def logistic(w: Array) -> Array:
    """Logistic regression with a little weight decay; its least value by Newton's method."""
    z = X @ w
    return afx.mean(afx.softplus(z) - LABELS * z) + 0.05 * afx.sum(w**2)


def by_newton() -> float:
    """Return the least value of the logistic regression."""
    w = np.zeros(2)
    for _ in range(30):
        p = 1 / (1 + np.exp(-X @ w))
        slope = X.T @ (p - LABELS) / len(X) + 0.1 * w
        curvature = (X.T * (p * (1 - p))) @ X / len(X) + 0.1 * np.eye(2)
        w = w - np.linalg.solve(curvature, slope)
    z = X @ w
    return float(np.mean(np.logaddexp(0, z) - LABELS * z) + 0.05 * np.sum(w**2))


PROBLEMS = {
    "quadratic": Problem(quadratic, afx.zeros(3, np.float64), 0.0, 1e-3, 400),
    "tree": Problem(tilted, {"a": afx.ones((2, 2), np.float64), "b": afx.zeros((), np.float64)}, -0.5, 1e-3, 400),
    "rosenbrock": Problem(rosenbrock, afx.asarray(np.array([-0.5, 0.5])), 0.0, 2e-2, 1000),
    "beale": Problem(beale, afx.asarray(np.array([2.5, 0.2])), 0.0, 1e-3, 1000),
    "ill-conditioned": Problem(ill_conditioned, afx.asarray(np.array([1.0, -1.0, 1.0])), 0.0, 2e-2, 600),
    "logistic": Problem(logistic, afx.zeros(2, np.float64), by_newton(), 1e-3, 400),
}


def descended(optimizer: Any, loss: Callable[[Any], Array], start: Any, steps: int) -> Any:
    """Return the parameters after a number of steps, in one compiled loop."""

    def step(_: Any, carry: Any) -> Any:
        params, state = carry
        value, grads = afx.value_and_grad(loss)(params)
        return optimizer.step(params, grads, state, value=value)

    run = afx.jit(lambda carry: afx.fori_loop(0, steps, step, carry)[0], backend="numpy")  # sooner done than compiled
    return run((start, optimizer.init(start)))


@together("problem", PROBLEMS)
@together("name", OPTIMIZERS)
def test_converges(name: str, problem: str) -> None:
    """Every optimizer comes near to the least value of every problem, compiled."""
    optimizer, task = OPTIMIZERS[name](), PROBLEMS[problem]

    params = descended(optimizer, task.loss, task.start, task.steps)
    excess = float(task.loss(params)) - task.least
    assert -1e-9 < excess < task.near


@together("name", [name for name in OPTIMIZERS if name != "clipped adam"])  # it cannot clip complex
def test_goes_downhill_for_complex_parameters(name: str) -> None:
    """The loss of a complex parameter falls, though its gradient is by convention the conjugate of uphill."""
    optimizer = OPTIMIZERS[name]()

    def loss(z: Array) -> Array:
        return afx.sum(afx.abs(z - (1.0 - 2.0j)) ** 2)

    z = descended(optimizer, loss, afx.asarray(np.array([0.5 + 0.5j, -1.0 + 0.0j])), 300)
    np.testing.assert_allclose(np.asarray(z), 1.0 - 2.0j, atol=0.1)
    assert z.dtype == np.complex128


def test_complex_steps_are_those_of_real_and_imaginary_part() -> None:
    """Descent in a complex number is descent in its two parts."""
    target = 1.0 - 2.0j
    optimizer = optim.sgd(0.1, momentum=0.9)
    z = afx.asarray(np.array([0.5 + 0.25j]))
    xy = (afx.real(z), afx.imag(z))
    zs, xys = optimizer.init(z), optimizer.init(xy)
    for _ in range(20):
        z, zs = optimizer.step(z, afx.grad(lambda z: afx.sum(afx.abs(z - target) ** 3))(z), zs)

        def parts(xy: Any) -> Array:
            return afx.sum(((xy[0] - target.real) ** 2 + (xy[1] - target.imag) ** 2) ** 1.5)

        xy, xys = optimizer.step(xy, afx.grad(parts)(xy), xys)
    np.testing.assert_allclose(np.asarray(z), np.asarray(xy[0]) + 1j * np.asarray(xy[1]), rtol=1e-12)
