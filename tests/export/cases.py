"""Functions that leave Python, each with example arguments: what the tests of `afx.export` run outside of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import attrs
import numpy as np
from scipy import special

import afx
from afx import Array, integrate, nn, optim, random


class Case(NamedTuple):
    """A function and the arguments that it is exported for.

    Attributes:
        fn: the function.
        args: its arguments.
        tolerance: the largest difference from NumPy's plan that rounding explains, of a result's largest element.
        has_own_bits: whether all of it is code of the second tier, so that its bits are those of that back end.
    """

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    tolerance: float = 1e-12
    has_own_bits: bool = True


def draw(*shape: int, seed: int = 0, dtype: str = "float64") -> Any:
    """Return normal numbers."""
    return np.random.default_rng(seed + sum(shape)).normal(size=shape).astype(dtype)


def positive_definite(n: int) -> Any:
    """Return a well-conditioned positive definite matrix."""
    x = draw(n, n, seed=n)
    return x @ x.T + n * np.eye(n)


@attrs.frozen
class Net:
    """A small network of a user's own."""

    inner: nn.Linear
    outer: nn.Linear

    def __call__(self, x: Array) -> Array:
        return self.outer(nn.relu(self.inner(x)))


def _net() -> Net:
    with afx.default_dtype("float64"):
        first, second = random.split(random.key(0))
        return Net(nn.Linear.create(first, 4, 16), nn.Linear.create(second, 16, 3))


def _net_loss(net: Net, x: Any, labels: Any) -> Array:
    return afx.mean(nn.softmax_cross_entropy(net(x), labels))


def _rosenbrock(x: Any) -> Array:
    return afx.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def _logistic(w: Any, x: Any, y: Any) -> Array:
    return afx.mean(nn.softplus(-y * (x @ w))) + 0.01 * afx.sum(w * w)


def _catenary(y: Any) -> Array:
    def step(y: Array, _: None) -> tuple[Array, None]:
        force = y[:-2] - 2.0 * y[1:-1] + y[2:] - 0.001
        return y.at[1:-1].add(0.2 * force), None

    return afx.sum(afx.scan(step, afx.asarray(y), None, length=50)[0])


def _lotka_volterra(p: Any) -> Array:
    def rate(y: Array) -> Array:
        prey, hunters = y[0], y[1]
        return afx.stack([p[0] * prey - p[1] * prey * hunters, p[2] * prey * hunters - p[3] * hunters])

    def step(y: Array, _: None) -> tuple[Array, Array]:
        h = 0.05
        k1 = rate(y)
        k2 = rate(y + 0.5 * h * k1)
        k3 = rate(y + 0.5 * h * k2)
        k4 = rate(y + h * k3)
        after = y + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
        return after, after[0]

    start = afx.asarray(np.array([1.0, 0.5]))
    return afx.mean(afx.scan(step, start, None, length=40)[1])


def _newton(a: Any) -> Array:
    def go_on(state: tuple[Array, Array]) -> Array:
        x, n = state
        return (afx.abs(x * x - a) > 1e-12 * a) & (n < 50)

    def step(state: tuple[Array, Array]) -> tuple[Array, Array]:
        x, n = state
        return 0.5 * (x + a / x), n + 1

    return afx.while_loop(go_on, step, (afx.asarray(a), afx.asarray(0)))[0]


def _kalman(p: Any, ys: Any) -> Array:
    """Return the likelihood of a local level with noise, up to a constant."""

    def step(state: tuple[Array, Array], y: Array) -> tuple[tuple[Array, Array], Array]:
        mean, variance = state
        variance = variance + afx.exp(p[0])
        total = variance + afx.exp(p[1])
        gap = y - mean
        gain = variance / total
        return (mean + gain * gap, (1.0 - gain) * variance), afx.log(total) + gap * gap / total

    start = (afx.asarray(np.float64(0.0)), afx.asarray(np.float64(10.0)))
    return 0.5 * afx.sum(afx.scan(step, start, afx.asarray(ys))[1])


def _matrix_kalman(q: Any, ys: Any) -> Array:
    """Return the same of a state of position and speed, by products and solutions of small matrices."""
    move, look = np.array([[1.0, 0.1], [0.0, 1.0]]), np.array([[1.0, 0.0]])

    def step(state: tuple[Array, Array], y: Array) -> tuple[tuple[Array, Array], Array]:
        mean, cov = state
        mean, cov = move @ mean, move @ cov @ move.T + afx.exp(q) * np.eye(2)
        total = look @ cov @ look.T + 0.5 * np.eye(1)
        gap = y[None] - look @ mean
        gain = afx.linalg.solve(total, look @ cov).T
        more = afx.log(total[0, 0]) + gap @ afx.linalg.solve(total, gap)
        return (mean + gain @ gap, cov - gain @ total @ gain.T), more

    start = (afx.asarray(np.zeros(2)), afx.asarray(np.eye(2)))
    return afx.sum(afx.scan(step, start, afx.asarray(ys))[1])


def _gaussian_process(p: Any, x: Any, y: Any) -> Array:
    gaps = x[:, None] - x[None, :]
    cov = afx.exp(p[0] - 0.5 * gaps**2 * afx.exp(-2.0 * p[1])) + afx.exp(p[2]) * np.eye(len(x))
    factor = afx.linalg.cholesky(cov)
    white = afx.linalg.solve_triangular(factor, y, lower=True)
    return 0.5 * white @ white + afx.sum(afx.log(afx.diagonal(factor)))


def _pendulum(length: Any) -> Array:
    def rate(_t: Array, y: Array, length: Array) -> Array:
        return afx.stack([y[1], -9.81 / length * afx.sin(y[0])])

    times = np.linspace(0.0, 1.0, 5)
    return integrate.odeint(rate, afx.asarray(np.array([0.5, 0.0])), times, length, gradient="steps").ys[-1, 0]


def _fitted(target: Any) -> Array:
    found = optim.minimize(
        lambda x: afx.sum((x - target) ** 2) + afx.sum(x**4), afx.zeros(2, dtype="float64"), method="newton_cg"
    )
    return found.x


def _lenet_loss(kernel: Any, weight: Any, x: Any, labels: Any) -> Array:
    hidden = nn.max_pool(nn.relu(nn.conv(x, kernel)), 2)
    return afx.mean(nn.softmax_cross_entropy(hidden.reshape((len(x), -1)) @ weight, labels))


def _simulated(key: Any, volatility: Any) -> Array:
    steps = random.normal(key, (64, 8), dtype="float64")
    paths = afx.exp(afx.cumsum(volatility * 0.1 * steps - 0.005 * volatility**2, axis=1))
    return afx.mean(afx.maximum(paths[:, -1] - 1.0, 0.0))


def _branches(x: Any, which: Any) -> Array:
    return afx.switch(which, [afx.sin, lambda x: x * x, lambda x: 1.0 / x], x)


def _scipy_names(x: Any) -> tuple[Array, ...]:
    return special.erf(x), special.erfc(x), special.gammaln(x), special.ndtr(x), special.digamma(x)


def _poisson(w: Any, x: Any, counts: Any) -> Array:
    """Return the likelihood of counts whose spread is wider than Poisson's, by gamma functions."""
    mean, size = afx.exp(x @ w[:-1]), afx.exp(w[-1])
    choices = special.gammaln(counts + size) - special.gammaln(size) - special.gammaln(counts + 1.0)
    return -afx.sum(choices + size * afx.log(size / (size + mean)) + counts * afx.log(mean / (size + mean)))


LABELS = np.array([0, 2, 1, 1, 0, 2, 2, 1], np.int64)
IMAGES, KERNEL, WEIGHT = draw(4, 8, 8, 1), draw(3, 3, 1, 4) * 0.3, draw(36, 3) * 0.3

CASES: dict[str, Case] = {
    "polynomial": Case(lambda x: 3.0 * x**3 - x + 1.0, (draw(7),)),
    "sines": Case(lambda x: afx.sin(x) * afx.cos(2.0 * x), (draw(33),)),
    "float32": Case(lambda x: afx.tanh(x) * afx.exp(-x * x), (draw(20, dtype="float32"),), 1e-5),
    "inverse_functions": Case(lambda x: afx.atan(x) + afx.asinh(x) + afx.log2(x * x + 1.0), (draw(9),), 1e-12, False),
    "powers": Case(lambda x, p: afx.abs(x) ** p, (draw(9), np.float64(1.7)), 1e-12, False),
    "logaddexp": Case(afx.logaddexp, (draw(9) * 50, draw(9, seed=1) * 50), 1e-12, False),
    "integers": Case(lambda n, m: (n // m, n % m, n & m), (np.arange(-6, 6), np.array([3, -2, 5] * 4)), 0.0, False),
    "selection": Case(lambda x: afx.where(x > 0, afx.sqrt(afx.abs(x)), -1.0), (draw(12),)),
    "moments": Case(lambda x: (afx.mean(x, axis=0), afx.var(x, axis=1), afx.max(x)), (draw(6, 5),)),
    "indices": Case(lambda x, i: x[i] * 2.0, (draw(9), np.array([3, 0, 8]))),
    "scattered": Case(lambda x, i: afx.zeros(5, dtype="float64").at[i].add(x), (draw(4), np.array([1, 1, 4, 0]))),
    "products": Case(lambda a, b: a @ b.T + afx.sum(a * a), (draw(7, 5), draw(9, 5)), 1e-12, False),
    "solution": Case(afx.linalg.solve, (positive_definite(6), draw(6, 2)), 1e-12, False),
    "determinant": Case(lambda a: (afx.linalg.det(a), afx.linalg.inv(a)), (positive_definite(4),), 1e-12, False),
    "rosenbrock": Case(afx.value_and_grad(_rosenbrock), (draw(10),)),
    "rosenbrock_hessian": Case(afx.hessian(_rosenbrock), (draw(5),)),
    "logistic": Case(afx.value_and_grad(_logistic), (draw(3), draw(40, 3), np.sign(draw(40))), 1e-12, False),
    "network": Case(afx.value_and_grad(_net_loss), (_net(), draw(8, 4), LABELS), 1e-12, False),
    "network_jacobian": Case(afx.jacrev(lambda x: _net()(x)), (draw(4),)),
    "per_example": Case(
        afx.vmap(afx.grad(_logistic), in_axes=(None, 0, 0)), (draw(3), draw(5, 6, 3), np.sign(draw(5, 6))), 1e-12, False
    ),
    "lenet": Case(afx.value_and_grad(_lenet_loss, argnums=(0, 1)), (KERNEL, WEIGHT, IMAGES, LABELS[:4]), 1e-12, False),
    "catenary": Case(afx.value_and_grad(_catenary), (draw(20),)),
    "lotka_volterra": Case(afx.value_and_grad(_lotka_volterra), (np.array([1.5, 1.0, 1.0, 3.0]),)),
    "newton": Case(afx.value_and_grad(_newton), (np.float64(2.0),)),
    "kalman": Case(afx.value_and_grad(_kalman), (np.array([-1.0, 0.2]), draw(30))),
    "matrix_kalman": Case(afx.value_and_grad(_matrix_kalman), (np.float64(-1.0), draw(12)), 1e-12, False),
    "gaussian_process": Case(
        afx.value_and_grad(_gaussian_process),
        (np.array([0.1, -0.5, -2.0]), np.linspace(0.0, 1.0, 12), draw(12)),
        1e-10,
        False,
    ),
    "pendulum": Case(afx.value_and_grad(_pendulum), (np.float64(1.0),), 1e-11, False),
    "minimum": Case(_fitted, (np.array([0.3, -1.0]),), 1e-10, False),
    "simulated": Case(afx.value_and_grad(_simulated, argnums=1), (random.key(3), np.float64(0.2)), 1e-12, False),
    "scipy_names": Case(_scipy_names, (draw(15) * 3.0,), 1e-12, False),
    "scipy_names_of_floats": Case(_scipy_names, (draw(15, dtype="float32"),), 1e-5, False),
    "negative_binomial": Case(afx.value_and_grad(_poisson), (draw(4), draw(20, 3), np.arange(20.0) % 7), 1e-11, False),
    "branches": Case(_branches, (draw(3) + 3.0, np.int64(1))),
}
