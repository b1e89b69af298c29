"""A Gaussian process learns its own smoothness: hyperparameters by the marginal likelihood."""

from __future__ import annotations

import math
from pathlib import Path

import attrs
import numpy as np

import afx
from afx import Array
from examples.report import Band, Claim, Curve, Panel, progress, save

NOISE = 0.2
FULL = 12.0


@attrs.frozen
class Process:
    """A process with a squared exponential kernel: logarithms of its scale, its length and the noise."""

    scale: Array
    length: Array
    noise: Array

    def kernel(self, a: Array, b: Array) -> Array:
        """Return the covariance of the values at two sets of points, float[a, b]."""
        distance = (a[:, None] - b[None, :]) / afx.exp(self.length)
        return afx.exp(2 * self.scale - 0.5 * distance**2)

    def factor(self, x: Array) -> Array:
        """Return the Cholesky factor of the covariance of what is measured at these points."""
        jitter = afx.exp(2 * self.noise) + 1e-8
        return afx.linalg.cholesky(self.kernel(x, x) + jitter * afx.eye(x.size, dtype=x.dtype))

    def predict(self, x: Array, y: Array, at: Array) -> tuple[Array, Array]:
        """Return mean and standard deviation of the function at other points."""
        factor = self.factor(x)
        between = afx.linalg.solve_triangular(factor, self.kernel(x, at), lower=True)
        mean = between.T @ afx.linalg.solve_triangular(factor, y, lower=True)
        variance = afx.exp(2 * self.scale) - afx.sum(between**2, axis=0)
        return mean, afx.sqrt(afx.maximum(variance, 1e-12))


def loss(process: Process, x: Array, y: Array) -> Array:
    """Return minus the logarithm of the marginal likelihood (Rasmussen & Williams 2006, Algorithm 2.1)."""
    factor = process.factor(x)
    whitened = afx.linalg.solve_triangular(factor, y, lower=True)
    log_det = afx.sum(afx.log(afx.linalg.diagonal(factor)))
    return 0.5 * afx.sum(whitened**2) + log_det + 0.5 * x.size * math.log(2 * math.pi)


def truth(x: Array) -> Array:
    """Return the function that is to be found."""
    return afx.sin(x) + 0.5 * afx.sin(2.3 * x)


def measure(count: int) -> tuple[Array, Array]:
    """Return points and noisy values of the function."""
    random = np.random.default_rng(0)
    x = afx.asarray(np.sort(random.uniform(0, FULL, count)))
    return x, truth(x) + NOISE * afx.asarray(random.standard_normal(count))


def fit(x: Array, y: Array, steps: int) -> tuple[Process, list[float]]:
    """Minimise the loss by Newton's method, damped where the curvature is negative or a step leads uphill."""

    def value(v: Array) -> Array:
        return compiled(Process(v[0], v[1], v[2]), x, y)

    compiled = afx.jit(loss)
    slope, curvature = afx.jit(afx.grad(value)), afx.jit(afx.hessian(value))
    v, losses = afx.asarray(np.array([0.0, 0.0, -1.0])), list[float]()
    for _ in progress(range(steps), "Newton"):
        before = float(value(v))
        losses.append(before)
        size, axes = afx.linalg.eigh(curvature(v))
        step = axes @ ((axes.T @ slope(v)) / afx.maximum(afx.abs(size), 1e-3))
        shares = (0.5**k for k in range(30))
        v = next((v - share * step for share in shares if float(value(v - share * step)) <= before), v)
    return Process(v[0], v[1], v[2]), losses


def run(output: Path, steps: int = 15, count: int = 120) -> list[Claim]:
    """Fit the process, and look whether the function lies where it says."""
    x, y = measure(count)
    process, losses = fit(x, y, steps)
    grid = afx.linspace(0.0, FULL, 400, dtype=afx.float64)
    mean, deviation = afx.jit(Process.predict)(process, x, y, grid)
    slope = afx.grad(loss)(process, x, y)
    steepest = max(abs(float(leaf)) for leaf in afx.pytree.leaves(slope))
    noise = float(afx.exp(process.noise))
    outside = float(afx.mean(afx.abs(mean - truth(grid)) > 2 * deviation))
    print(
        f"  length {float(afx.exp(process.length)):.2f}, scale {float(afx.exp(process.scale)):.2f}, noise {noise:.3f}"
    )
    save(
        output / "gaussian_process.png",
        Panel(
            "Posterior",
            "x",
            "y",
            (
                Curve(x, y, "measured", "k."),
                Band(grid, mean - 2 * deviation, mean + 2 * deviation, "± 2 standard deviations"),
                Curve(grid, truth(grid), "function", "C1-"),
                Curve(grid, mean, "mean", "C0-"),
            ),
        ),
        Panel(
            "Newton's steps", "step", "−log likelihood", (Curve(np.arange(len(losses)), np.array(losses), form="C0.-"),)
        ),
    )
    return [
        Claim("largest slope of the marginal likelihood at its maximum", steepest, 1e-6),
        Claim("error of the noise that was found, relative", abs(noise / NOISE - 1), 0.2, shown="{:.3f}"),
        Claim("share of the function outside two standard deviations", outside, 0.15, shown="{:.3f}"),
    ]
