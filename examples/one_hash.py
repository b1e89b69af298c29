"""One hash everywhere: a network, an orbit's fit, a chain of draws and a system, whose bits are the same on every processor.

``python -m examples.one_hash`` prints a digest for each; the tests hold the same ones (the extra ``native`` is needed).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np

import afx
from afx import Array, linalg, nn, pytree, random


def train_network(key: Array) -> Any:
    """Return the weights of a small network after 300 steps, on spirals that are drawn, all in one compiled function."""
    of_data, of_first, of_last = random.split(key, 3)
    turns = random.uniform(of_data, (200,)) * 3.0
    sign = afx.where(afx.arange(200) % 2 == 0, 1.0, -1.0)
    x = (sign * turns)[:, None] * afx.stack([afx.cos(2 * turns), afx.sin(2 * turns)], axis=1)

    def loss(weights: dict[str, Array]) -> Array:
        hidden = afx.tanh(x @ weights["in"] + weights["bias"])
        return afx.mean(nn.softplus(-sign * (hidden @ weights["out"])[:, 0]))

    def step(weights: dict[str, Array], _: Any) -> tuple[dict[str, Array], Array]:
        value, slopes = afx.value_and_grad(loss)(weights)
        return pytree.map(lambda w, g: w - 0.3 * g, weights, slopes), value

    first = {
        "in": random.normal(of_first, (2, 16)),
        "bias": afx.zeros(16),
        "out": 0.1 * random.normal(of_last, (16, 1)),
    }
    return afx.scan(step, first, None, length=300)


def fit_orbit(true_rates: Array) -> Any:
    """Return the rates of predator and prey, fitted by gradient descent through 200 Runge-Kutta steps."""

    def slope(state: Array, rates: Array) -> Array:
        prey, hunters = state[0], state[1]
        return afx.stack([rates[0] * prey - prey * hunters, prey * hunters - rates[1] * hunters])

    def orbit(rates: Array) -> Array:
        def step(y: Array, _: Any) -> tuple[Array, Array]:
            a = slope(y, rates)
            b = slope(y + 0.025 * a, rates)
            c = slope(y + 0.025 * b, rates)
            d = slope(y + 0.05 * c, rates)
            y = y + 0.05 / 6 * (a + 2 * b + 2 * c + d)
            return y, y

        return afx.scan(step, afx.asarray([1.0, 0.5], dtype=afx.float64), None, length=200)[1]

    seen = orbit(true_rates)

    def loss(rates: Array) -> Array:
        return afx.mean((orbit(rates) - seen) ** 2)

    def descend(rates: Array, _: Any) -> tuple[Array, Array]:
        value, g = afx.value_and_grad(loss)(rates)
        return rates - 0.02 * g / (1.0 + afx.sqrt(afx.sum(g * g))), value

    return afx.scan(descend, afx.asarray([1.0, 1.0], dtype=afx.float64), None, length=50)


def walk_chain(key: Array) -> Any:
    """Return 1000 draws of a Metropolis chain on a curved density."""

    def density(x: Array) -> Array:
        return -0.5 * x[0] ** 2 - 2.0 * (x[1] - 0.5 * x[0] ** 2) ** 2 + afx.log(1.0 + afx.exp(x[0]))

    def step(state: tuple[Array, Array], _: Any) -> tuple[tuple[Array, Array], Array]:
        x, key = state
        key, mine, other = random.split(key, 3)
        proposed = x + 0.7 * random.normal(mine, (2,))
        accepts = afx.log(random.uniform(other)) < density(proposed) - density(x)
        x = afx.where(accepts, proposed, x)
        return (x, key), x

    return afx.scan(step, (afx.zeros(2), key), None, length=1000)[1]


def solve_systems(rows: Array) -> Any:
    """Return factors, a solution and its derivative of a system of 40 equations."""
    a = afx.exp(-((rows[:, None] - rows[None]) ** 2) / 8.0) + 0.1 * afx.eye(40, dtype=afx.float64)

    def energy(b: Array) -> Array:
        return afx.sum(b * linalg.solve(a, b))

    b = afx.cos(rows)
    return linalg.cholesky(a), afx.value_and_grad(energy)(b)


# with arguments: what is computed of constants while a function is traced is NumPy's
PROGRAMS: dict[str, tuple[Callable[[Array], Any], Array]] = {
    "a network after 300 steps": (train_network, random.key(0)),
    "an orbit's rates": (fit_orbit, afx.asarray([0.9, 1.2], dtype=afx.float64)),
    "1000 draws of a chain": (walk_chain, random.key(5)),
    "a system of 40 equations": (solve_systems, afx.arange(40, dtype=afx.float64)),
}


def digest(tree: Any) -> str:
    """Return the BLAKE2 digest of the bits of a tree's arrays.

    >>> digest([afx.zeros(2)])
    '73ebd93ad2d5ba5a'
    """
    total = hashlib.blake2b(digest_size=8)
    for leaf in pytree.leaves(tree):
        x = np.ascontiguousarray(leaf)
        total.update(f"{x.dtype.name}{list(x.shape)}".encode() + x.tobytes())
    return total.hexdigest()


def main() -> None:
    """Print each program's digest."""
    for name, (program, argument) in PROGRAMS.items():
        result = afx.jit(program, backend="portable")(argument)
        print(f"{digest(result)}  {name}")


if __name__ == "__main__":
    main()
