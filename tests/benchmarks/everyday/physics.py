"""Physics: bodies, springs, stencils, spectral steps, a network that solves an equation, rotations."""

from __future__ import annotations

from typing import Any

import numpy

from tests.benchmarks.everyday.program import Kit, Made, Program

__all__ = ["PROGRAMS"]


def bodies(k: Kit) -> Made:
    """Return the energy of 20 bodies after leapfrog steps with softened gravity."""
    np = k.np

    def loss(p: Any, mass: Any) -> Any:
        x, v = p

        def force(x: Any) -> Any:
            d = x[None, :, :] - x[:, None, :]
            r2 = np.sum(d * d, axis=-1) + 0.01
            return np.sum(mass[None, :, None] * d * (r2**-1.5)[:, :, None], axis=1)

        def step(now: Any, _: Any) -> Any:
            x, v = now
            v = v + 0.005 * force(x)
            x = x + 0.01 * v
            return (x, v + 0.005 * force(x)), None

        x, v = k.scan(step, (x, v), None, length=50)[0]
        return 0.5 * np.sum(mass[:, None] * v * v)

    return loss, [k.rng.normal(size=(20, 3)), 0.1 * k.rng.normal(size=(20, 3))], [k.rng.uniform(0.5, 1.5, 20)]


def springs(k: Kit) -> Made:
    """Return how far a hanging chain is from its target after it has bounced off the floor."""
    np = k.np

    def loss(p: Any, x0: Any, target: Any) -> Any:
        stiffness, drag = np.exp(p[0]), np.exp(p[1])

        def step(now: Any, _: Any) -> Any:
            x, v = now
            d = x[1:] - x[:-1]
            length = np.sqrt(np.sum(d * d, axis=1, keepdims=True))
            pull = stiffness * (length - 0.1) * d / length
            f = np.concatenate([pull, np.zeros((1, 2))]) - np.concatenate([np.zeros((1, 2)), pull])
            f = f - drag * v - np.asarray([0.0, 9.81])
            v = v + 0.002 * f
            below = (x[:, 1:] < -1.0) & (v[:, 1:] < 0)
            v = np.where(below, -0.5, 1.0) * v
            return (x + 0.002 * v, v), None

        x, _ = k.scan(step, (x0, np.zeros_like(x0)), None, length=300)[0]
        return np.mean((x - target) ** 2)

    x0 = numpy.stack([numpy.linspace(0, 3, 31), numpy.zeros(31)], axis=1)
    return loss, [numpy.array(5.0), numpy.array(-1.0)], [x0, x0 - [0.0, 0.5]]


def heat(k: Kit) -> Made:
    """Return the misfit of a plate's temperature after explicit steps, with fixed edges."""
    np = k.np

    def loss(p: Any, seen: Any) -> Any:
        u, log_d = p
        d = np.exp(log_d)

        def step(u: Any, _: Any) -> Any:
            inner = u[1:-1, 1:-1]
            lap = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * inner
            return u.at[1:-1, 1:-1].add(d * lap), None

        return np.mean((k.scan(step, u, None, length=50)[0] - seen) ** 2)

    return loss, [k.rng.normal(size=(128, 128)), numpy.array(-2.0)], [k.rng.normal(size=(128, 128))]


def wave(k: Kit) -> Made:
    """Return the misfit of a wave on a ring, whose neighbours come by roll."""
    np = k.np

    def loss(p: Any, seen: Any) -> Any:
        speed = p[0]

        def step(now: Any, _: Any) -> Any:
            u, before = now
            lap = np.roll(u, 1) - 2 * u + np.roll(u, -1)
            return (2 * u - before + (0.5 * speed) ** 2 * lap, u), None

        u, _ = k.scan(step, (seen, seen), None, length=200)[0]
        return np.mean((u - np.roll(seen, 50)) ** 2)

    x = numpy.linspace(0, 1, 1000, endpoint=False)
    return loss, [numpy.full(1000, 0.9)], [numpy.exp(-200 * (x - 0.5) ** 2)]


def spectral(k: Kit) -> Made:
    """Return the energy of Burgers' equation after spectral steps."""
    np = k.np

    def loss(p: Any, waves: Any) -> Any:
        u = p[0]
        decay = np.exp(-1e-3 * waves**2)

        def step(u: Any, _: Any) -> Any:
            slope = np.fft.irfft(1j * waves * np.fft.rfft(u), 256)
            return np.fft.irfft(decay * np.fft.rfft(u - 0.002 * u * slope), 256), None

        return np.sum(k.scan(step, u, None, length=50)[0] ** 2)

    x = numpy.linspace(0, 2 * numpy.pi, 256, endpoint=False)
    return loss, [numpy.sin(x) + 0.1 * k.rng.normal(size=256)], [numpy.arange(129.0)]


def physics_informed(k: Kit) -> Made:
    """Return the residual of Poisson's equation for a network, with its second derivatives."""
    np = k.np

    def loss(p: Any, x: Any) -> Any:
        w1, b1, w2, b2, w3 = p

        def u(x: Any) -> Any:
            h = np.tanh(x * w1 + b1)
            return x * (1 - x) * (np.tanh(h @ w2 + b2) @ w3)

        residual = k.vmap(k.grad(k.grad(u)))(x) + np.pi**2 * np.sin(np.pi * x)
        return np.mean(residual**2)

    n = 20
    shapes = ((n,), (n,), (n, n), (n,), (n,))
    return loss, [0.4 * k.rng.normal(size=s) for s in shapes], [k.rng.uniform(size=200)]


def pose(k: Kit) -> Made:
    """Return how far turned and moved points are from those seen, with a quaternion and robust weights."""
    np = k.np

    def loss(p: Any, x: Any, seen: Any) -> Any:
        q, t = p
        q = q / np.sqrt(np.sum(q * q))
        w, a, b, c = q[0], q[1], q[2], q[3]
        r = np.stack(
            [
                np.stack([1 - 2 * (b * b + c * c), 2 * (a * b - c * w), 2 * (a * c + b * w)]),
                np.stack([2 * (a * b + c * w), 1 - 2 * (a * a + c * c), 2 * (b * c - a * w)]),
                np.stack([2 * (a * c - b * w), 2 * (b * c + a * w), 1 - 2 * (a * a + b * b)]),
            ]
        )
        e2 = np.sum((x @ r.T + t - seen) ** 2, axis=1)
        return np.mean(e2 / (1 + e2))

    x = k.rng.normal(size=(1000, 3))
    return loss, [numpy.array([1.0, 0.1, -0.2, 0.3]), numpy.zeros(3)], [x, x[:, ::-1] + 0.1]


PROGRAMS = [
    Program("N-body by leapfrog", bodies),
    Program("springs with a floor", springs),
    Program("heat on a plate", heat),
    Program("wave on a ring by roll", wave),
    Program("spectral Burgers", spectral),
    Program("physics-informed network", physics_informed),
    Program("pose of points", pose),
]
