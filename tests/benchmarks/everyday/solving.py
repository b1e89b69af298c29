"""Solving: options and risk, curves, small systems, fits and descents of many at once, roots, samplers."""

from __future__ import annotations

from typing import Any

import numpy

from tests.benchmarks.everyday.program import Kit, Made, Program

__all__ = ["PROGRAMS"]


def options(k: Kit) -> Made:
    """Return prices by Black and Scholes and their deltas, against those of the market."""
    np, erf = k.np, k.special.erf

    def price(s: Any, strike: Any, t: Any, sigma: Any) -> Any:
        d1 = (np.log(s / strike) + 0.5 * sigma**2 * t) / (sigma * np.sqrt(t))
        d2 = d1 - sigma * np.sqrt(t)
        return 0.5 * (s * (1 + erf(d1 / np.sqrt(2.0))) - strike * (1 + erf(d2 / np.sqrt(2.0))))

    def loss(p: Any, s: Any, strike: Any, t: Any, market: Any) -> Any:
        sigma = np.exp(p[0])
        delta = k.vmap(k.grad(price))(s, strike, t, sigma)
        return np.mean((price(s, strike, t, sigma) - market) ** 2) + np.mean(delta * delta)

    n = 2000
    data = [k.rng.uniform(80, 120, n), k.rng.uniform(80, 120, n), k.rng.uniform(0.1, 2, n), k.rng.uniform(0, 20, n)]
    return loss, [numpy.full(n, -1.5)], data


def asian_option(k: Kit) -> Made:
    """Return the price of an average-rate option over simulated paths, with a barrier."""
    np = k.np

    def loss(p: Any, noise: Any) -> Any:
        s0, sigma = p
        paths = s0 * np.exp(np.cumsum((0.02 - 0.5 * sigma**2) / 50 + sigma * np.sqrt(1 / 50) * noise, axis=1))
        alive = np.where(np.max(paths, axis=1) < 150.0, 1.0, 0.0)
        return np.mean(alive * np.maximum(np.mean(paths, axis=1) - 100.0, 0.0))

    return loss, [numpy.array(100.0), numpy.array(0.2)], [k.rng.normal(size=(5000, 50))]


def tail_risk(k: Kit) -> Made:
    """Return the mean of a portfolio's worst twentieth, by sorting."""
    np = k.np

    def loss(p: Any, returns: Any) -> Any:
        e = np.exp(p[0] - np.max(p[0]))
        result = returns @ (e / np.sum(e))
        return -np.mean(np.sort(result)[:250])

    return loss, [k.rng.normal(size=30)], [0.01 * k.rng.standard_t(4, (5000, 30))]


def curve(k: Kit) -> Made:
    """Return the misfit of bonds priced on a curve that is linear between its knots."""
    np = k.np

    def loss(p: Any, knots: Any, times: Any, flows: Any, prices: Any) -> Any:
        rates = np.interp(times, knots, p[0])
        return np.mean((np.sum(flows * np.exp(-rates * times), axis=1) - prices) ** 2)

    times = numpy.sort(k.rng.uniform(0.1, 29.9, (200, 40)), axis=1)
    flows = numpy.full((200, 40), 2.0)
    flows[:, -1] = 102.0
    return (
        loss,
        [numpy.linspace(0.01, 0.04, 12)],
        [numpy.linspace(0, 30, 12), times, flows, k.rng.uniform(80, 120, 200)],
    )


def small_systems(k: Kit) -> Made:
    """Return the compliance of a thousand frames of three unknowns."""
    np = k.np

    def loss(p: Any, a: Any, b: Any) -> Any:
        stiff = a @ np.swapaxes(a, 1, 2) + np.exp(p[0])[:, None, None] * np.eye(3)
        return np.sum(b * np.linalg.solve(stiff, b[:, :, None])[:, :, 0])

    return loss, [numpy.zeros(1000)], [k.rng.normal(size=(1000, 3, 3)), k.rng.normal(size=(1000, 3))]


def many_fits(k: Kit) -> Made:
    """Return the residuals of a thousand decays after damped Gauss-Newton steps."""
    np = k.np

    def loss(p: Any, t: Any, y: Any) -> Any:
        def fit(start: Any, y: Any) -> Any:
            def step(q: Any, _: Any) -> Any:
                e = np.exp(-q[1] * t)
                r = q[0] * e - y
                j = np.stack([e, -q[0] * t * e], axis=1)
                return q - np.linalg.solve(j.T @ j + 0.1 * np.eye(2), j.T @ r), None

            q = k.scan(step, start, None, length=10)[0]
            return np.sum((q[0] * np.exp(-q[1] * t) - y) ** 2)

        return np.mean(k.vmap(fit)(p[0], y))

    t = numpy.linspace(0, 3, 30)
    y = k.rng.uniform(0.5, 2, (1000, 1)) * numpy.exp(-k.rng.uniform(0.5, 2, (1000, 1)) * t)
    return loss, [numpy.ones((1000, 2))], [t, y + 0.01 * k.rng.normal(size=y.shape)]


def many_descents(k: Kit) -> Made:
    """Return the loss of fifty logistic regressions after steps of gradient descent."""
    np = k.np

    def loss(p: Any, x: Any, y: Any) -> Any:
        def energy(w: Any, y: Any) -> Any:
            z = x @ w
            return np.mean(np.logaddexp(0.0, z) - y * z)

        def train(w: Any, y: Any) -> Any:
            def step(w: Any, _: Any) -> Any:
                return w - 0.5 * k.grad(energy)(w, y), None

            return energy(k.scan(step, w, None, length=20)[0], y)

        return np.mean(k.vmap(train)(p[0], y))

    return loss, [numpy.zeros((50, 5))], [k.rng.normal(size=(100, 5)), (k.rng.random((50, 100)) < 0.5).astype(float)]


def kepler(k: Kit) -> Made:
    """Return the misfit of orbits, by Newton's steps on Kepler's equation."""
    np = k.np

    def loss(p: Any, mean: Any, seen: Any) -> Any:
        ecc = 0.9 / (1 + np.exp(-p[0]))

        def step(e: Any, _: Any) -> Any:
            return e - (e - ecc * np.sin(e) - mean) / (1 - ecc * np.cos(e)), None

        e = k.scan(step, mean, None, length=8)[0]
        return np.mean((np.cos(e) - ecc - seen) ** 2)

    return loss, [k.rng.normal(size=1000)], [k.rng.uniform(0, 6, 1000), k.rng.normal(size=1000)]


def sampler(k: Kit) -> Made:
    """Return the mean of a chain of Hamiltonian Monte Carlo, whose proposals are taken or refused in one scan."""
    np = k.np

    def loss(p: Any, x: Any, y: Any, momenta: Any, chances: Any) -> Any:
        def energy(w: Any) -> Any:
            z = x @ w
            return np.sum(np.logaddexp(0.0, z) - y * z) + 0.5 * np.sum(w * w)

        def leap(now: Any, _: Any) -> Any:
            w, m = now
            m = m - 0.005 * k.grad(energy)(w)
            w = w + 0.01 * m
            return (w, m - 0.005 * k.grad(energy)(w)), None

        def step(w: Any, row: Any) -> Any:
            m, chance = row
            new, moved = k.scan(leap, (w, m), None, length=5)[0]
            gain = energy(w) + 0.5 * np.sum(m * m) - energy(new) - 0.5 * np.sum(moved * moved)
            w = np.where(np.log(chance) < gain, new, w)
            return w, w

        return np.mean(k.scan(step, p[0], (momenta, chances))[1] ** 2)

    data = [k.rng.normal(size=(100, 5)), (k.rng.random(100) < 0.5).astype(float)]
    return loss, [numpy.zeros(5)], [*data, k.rng.normal(size=(100, 5)), k.rng.random(100)]


PROGRAMS = [
    Program("options and their deltas", options),
    Program("Asian option by simulation", asian_option),
    Program("tail risk by sorting", tail_risk),
    Program("bonds on a curve", curve),
    Program("batched 3 × 3 systems", small_systems),
    Program("a thousand Gauss-Newton fits", many_fits),
    Program("fifty vmapped descents", many_descents),
    Program("Kepler's equation", kepler),
    Program("Hamiltonian Monte Carlo in one scan", sampler),
]
