"""One hash everywhere: a network, an orbit's fit, draws of a posterior and factors, whose bits are the same on every processor.

``python -m examples.one_hash`` prints a digest for each; the tests hold the same ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

import afx
from afx import Array, fft, integrate, linalg, nn, pytree, random, sample, stats
from examples.digits import images

Program: TypeAlias = "tuple[Callable[..., Any], tuple[Array, ...]]"

BATCH, HIDDEN, DIGITS = 50, 32, 10


def train_network(x: Array, y: Array, key: Array) -> Any:
    """Return the weights and losses of a network for digits, of 300 steps through batches [count, batch, ...]."""
    of_first, of_last = random.split(key)

    def loss(weights: dict[str, Array], x: Array, y: Array) -> Array:
        hidden = nn.relu(x @ weights["in"] + weights["bias"])
        return afx.mean(nn.softmax_cross_entropy(hidden @ weights["out"], y))

    def step(weights: dict[str, Array], i: Array) -> tuple[dict[str, Array], Array]:
        value, slopes = afx.value_and_grad(loss)(weights, x[i], y[i])
        return pytree.map(lambda w, g: w - 0.3 * g, weights, slopes), value

    first = {
        "in": 0.2 * random.normal(of_first, (x.shape[-1], HIDDEN)),
        "bias": afx.zeros(HIDDEN),
        "out": 0.2 * random.normal(of_last, (HIDDEN, DIGITS)),
    }
    return afx.scan(step, first, afx.arange(300) % x.shape[0])


def fit_orbit(first: Array, times: Array, true_rates: Array) -> Any:
    """Return the rates of predator and prey, fitted by gradient descent through an adaptive integrator."""

    def slope(_: Array, state: Array, rates: Array) -> Array:
        prey, hunters = state[0], state[1]
        return afx.stack([rates[0] * prey - prey * hunters, prey * hunters - rates[1] * hunters])

    def orbit(rates: Array) -> Array:
        return integrate.odeint(slope, first, times, rates, max_steps=100).ys

    seen = orbit(true_rates)

    def loss(rates: Array) -> Array:
        return afx.mean((orbit(rates) - seen) ** 2)

    def descend(rates: Array, _: Any) -> tuple[Array, Array]:
        value, g = afx.value_and_grad(loss)(rates)
        return rates - 0.02 * g / (1.0 + afx.sqrt(afx.sum(g * g))), value

    return afx.scan(descend, afx.ones_like(true_rates), None, length=200)


def draw_posterior(key: Array, heights: Array) -> Any:
    """Return 1000 draws of a mean and a deviation, and how many leaps each took, by the No-U-Turn Sampler."""

    def density(p: dict[str, Array]) -> Array:
        return afx.sum(stats.norm.logpdf(heights, p["mean"], p["sd"])) + stats.norm.logpdf(p["sd"], 0.0, 1.0)

    sampler = sample.nuts(density, {"sd": sample.Positive()})

    def step(state: Any, key: Array) -> tuple[Any, Any]:
        state, info = sampler.step(state, key)
        return state, (sampler.params(state.position), info.leaps)

    start = sampler.init({"mean": afx.mean(heights), "sd": afx.std(heights)}, step_size=0.1)
    return afx.scan(step, start, random.split(key, 1000))[1]


def factorize(rows: Array) -> Any:
    """Return factors of a matrix, a solution with its derivative, and Fourier coefficients."""
    a = afx.exp(-((rows[:, None] - rows[None]) ** 2) / 8.0)

    def energy(b: Array) -> Array:
        return afx.sum(b * linalg.solve(a + 0.1 * afx.eye(len(rows)), b))

    factors = linalg.qr(a), linalg.svd(a), linalg.eigh(a)
    return factors, afx.value_and_grad(energy)(afx.cos(rows)), fft.fft(afx.sin(rows))


def programs() -> dict[str, Program]:
    """Return each program with its arguments: what is computed of constants while a function is traced is NumPy's."""
    x, y = images()
    count = len(y) // BATCH
    x, y = x[: count * BATCH].reshape(count, BATCH, -1), y[: count * BATCH].reshape(count, BATCH)
    first, rates = afx.asarray([1.0, 0.5], dtype=afx.float64), afx.asarray([0.9, 1.2], dtype=afx.float64)
    heights = afx.asarray([1.68, 1.75, 1.81, 1.66, 1.72], dtype=afx.float64)
    return {
        "a network after 300 steps": (train_network, (x, y, random.key(0))),
        "an orbit's rates": (fit_orbit, (first, afx.arange(21, dtype=afx.float64) / 4, rates)),
        "1000 draws by NUTS": (draw_posterior, (random.key(5), heights)),
        "factors of 16 rows": (factorize, (afx.arange(16, dtype=afx.float64),)),
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
    for name, (program, arguments) in programs().items():
        result = afx.jit(program, backend="portable")(*arguments)
        print(f"{digest(result)}  {name}")


if __name__ == "__main__":
    main()
