"""Series: likelihoods of hidden states, volatility and epidemics by scan, and recurrent cells written by hand."""

from __future__ import annotations

from typing import Any

import numpy

from tests.benchmarks.everyday.program import Kit, Made, Program

__all__ = ["PROGRAMS"]

STEPS, STATES, UNITS, BATCH = 500, 8, 32, 16


def hidden_markov(k: Kit) -> Made:
    """Return the likelihood of a hidden Markov model with normal emissions, by the forward algorithm in logarithms."""
    np = k.np

    def logsumexp(z: Any, axis: int) -> Any:
        top = np.max(z, axis=axis)
        return top + np.log(np.sum(np.exp(z - np.expand_dims(top, axis)), axis=axis))

    def loss(p: Any, y: Any) -> Any:
        moves, means = p
        moves = moves - logsumexp(moves, 1)[:, None]

        def step(alpha: Any, y: Any) -> Any:
            return logsumexp(alpha[:, None] + moves, 0) - 0.5 * (y - means) ** 2, None

        alpha = k.scan(step, -0.5 * (y[0] - means) ** 2, y[1:])[0]
        return -logsumexp(alpha, 0)

    return loss, [k.rng.normal(size=(STATES, STATES)), numpy.linspace(-2, 2, STATES)], [k.rng.normal(size=STEPS)]


def kalman(k: Kit) -> Made:
    """Return the likelihood of a local linear trend, by the Kalman filter."""
    np = k.np

    def loss(p: Any, y: Any) -> Any:
        log_q, log_r = p
        f = np.asarray([[1.0, 1.0], [0.0, 1.0]])
        h = np.asarray([1.0, 0.0])
        q, r = np.diag(np.exp(log_q)), np.exp(log_r)

        def step(carry: Any, y: Any) -> Any:
            m, c = carry
            m, c = f @ m, f @ c @ f.T + q
            s = h @ c @ h + r
            gain = c @ h / s
            e = y - h @ m
            return (m + gain * e, c - np.outer(gain, h @ c)), np.log(s) + e * e / s

        return 0.5 * np.sum(k.scan(step, (np.zeros(2), np.eye(2)), y)[1])

    return loss, [numpy.array([-2.0, -4.0]), numpy.array(-1.0)], [numpy.cumsum(k.rng.normal(size=STEPS)) * 0.1]


def garch(k: Kit) -> Made:
    """Return the likelihood of GARCH(1, 1) with leverage, whose sign is an indicator."""
    np = k.np

    def loss(p: Any, r: Any) -> Any:
        omega, alpha, gamma, beta = (np.exp(v) for v in p)

        def step(h: Any, r: Any) -> Any:
            new = omega + (alpha + gamma * np.where(r < 0, 1.0, 0.0)) * r * r + beta * h
            return new, np.log(h) + r * r / h

        return 0.5 * np.mean(k.scan(step, np.var(r), r)[1])

    return loss, [*numpy.log([0.05, 0.05, 0.05, 0.8])], [k.rng.standard_t(5, 1000)]


def epidemic(k: Kit) -> Made:
    """Return the Poisson likelihood of cases in an SIR model whose contacts fall at a lockdown."""
    np = k.np

    def loss(p: Any, cases: Any) -> Any:
        beta, gamma, drop = (np.exp(v) for v in p)

        def step(carry: Any, row: Any) -> Any:
            s, i = carry
            t, y = row
            new = beta * np.where(t > 60, drop, 1.0) * s * i
            rate = 1e4 * new + 1e-3
            return (s - new, i + new - gamma * i), rate - y * np.log(rate)

        return np.mean(k.scan(step, (0.999, 0.001), (np.arange(200), cases))[1])

    return loss, [*numpy.log([0.4, 0.1, 0.5])], [k.rng.poisson(100, 200).astype(float)]


def leaky_cell(k: Kit) -> Made:
    """Return the last state of units that leak slower where they are active, chosen by where."""
    np = k.np

    def loss(p: Any, x: Any) -> Any:
        w, u = p

        def step(h: Any, x: Any) -> Any:
            a = np.tanh(h @ w + x @ u)
            return np.where(a > 0, 1.0, 0.5) * a + 0.1 * h, None

        return np.mean(k.scan(step, np.zeros((BATCH, UNITS)), x)[0] ** 2)

    scale = 1 / numpy.sqrt(UNITS)
    return loss, [scale * k.rng.normal(size=(UNITS, UNITS)) for _ in range(2)], [k.rng.normal(size=(100, BATCH, UNITS))]


def gated_cell(k: Kit) -> Made:
    """Return the loss of a gated recurrent unit written by hand, over sequences of several lengths."""
    np, sigmoid = k.np, k.nn.sigmoid

    def loss(p: Any, x: Any, lengths: Any) -> Any:
        wz, wr, wh = p

        def step(h: Any, row: Any) -> Any:
            t, x = row
            xh = np.concatenate([x, h], axis=1)
            z, r = sigmoid(xh @ wz), sigmoid(xh @ wr)
            new = (1 - z) * h + z * np.tanh(np.concatenate([x, r * h], axis=1) @ wh)
            return np.where((t < lengths)[:, None], new, h), None

        return np.mean(k.scan(step, np.zeros((BATCH, UNITS)), (np.arange(50), x))[0] ** 2)

    scale = 1 / numpy.sqrt(UNITS)
    weights = [scale * k.rng.normal(size=(2 * UNITS, UNITS)) for _ in range(3)]
    return loss, weights, [k.rng.normal(size=(50, BATCH, UNITS)), k.rng.integers(10, 50, BATCH)]


PROGRAMS = [
    Program("hidden Markov model by scan", hidden_markov),
    Program("Kalman filter by scan", kalman),
    Program("GARCH with leverage by scan", garch),
    Program("SIR epidemic by scan", epidemic),
    Program("leaky cell with where by scan", leaky_cell),
    Program("gated cell with lengths by scan", gated_cell),
]
