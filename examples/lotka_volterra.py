"""Predators and prey (Lotka-Volterra): rates from noisy counts, with error bars from the Hessian."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

import afx
from afx import Array
from examples.report import Bars, Claim, Curve, Panel, progress, save

RATES = np.array([1.0, 0.4, 0.3, 1.1])  # growth, predation, conversion, death
START = np.array([4.0, 2.0])
NOISE, POINTS, STEPS, TIME = 0.1, 40, 5, 0.1
LABELS = ("growth", "predation", "conversion", "death")


def change(state: Array, log_rates: Array) -> Array:
    """Return the derivative of both populations with respect to time."""
    growth, predation, conversion, death = afx.exp(log_rates)
    prey, hunters = state
    return afx.stack([prey * (growth - predation * hunters), hunters * (conversion * prey - death)])


def solve(log_rates: Array, finer: int = 1) -> Array:
    """Return the populations at (finer) times of measurement, float[points, 2], by Runge and Kutta's fourth order."""

    def step(state: Array, _: None) -> tuple[Array, None]:
        a = change(state, log_rates)
        b = change(state + TIME / 2 * a, log_rates)
        c = change(state + TIME / 2 * b, log_rates)
        d = change(state + TIME * c, log_rates)
        return state + TIME / 6 * (a + 2 * b + 2 * c + d), None

    def between(state: Array, _: None) -> tuple[Array, Array]:
        state, _ = afx.scan(step, state, None, STEPS // finer)
        return state, state

    _, states = afx.scan(between, afx.asarray(START), None, POINTS * finer)
    found: Array = states
    return found


def residual(log_rates: Array, log_counts: Array) -> Array:
    """Return the deviations of the logarithms of counts from the model's, in units of the noise."""
    return ((afx.log(solve(log_rates)) - log_counts) / NOISE).ravel()


def loss(log_rates: Array, log_counts: Array) -> Array:
    """Return minus the logarithm of the likelihood, but for a constant."""
    return 0.5 * afx.sum(residual(log_rates, log_counts) ** 2)


def improve(log_rates: Array, log_counts: Array) -> Array:
    """Return the logarithms of the rates after a step of Gauss and Newton's method."""
    jacobian, value = afx.jacfwd(residual)(log_rates, log_counts), residual(log_rates, log_counts)
    return log_rates - afx.linalg.solve(jacobian.T @ jacobian, jacobian.T @ value)


def run(output: Path, repetitions: int = 200, steps: int = 12) -> list[Claim]:
    """Fit many series of counts; compare the first one's error bars with the spread over all."""
    random = np.random.default_rng(0)
    exact = afx.jit(solve)(afx.log(afx.asarray(RATES)))
    noise = afx.asarray(random.standard_normal((repetitions, *exact.shape)))
    series = afx.log(exact) + NOISE * noise
    fits = afx.log(afx.asarray(RATES * np.array([1.1, 0.9, 1.1, 0.9]))) + afx.zeros((repetitions, 1), afx.float64)
    improve_all = afx.jit(afx.vmap(improve))
    for _ in progress(range(steps), f"{repetitions} fits"):
        fits = improve_all(fits, series)
    first = fits[0]
    bars = np.sqrt(np.diag(np.linalg.inv(np.asarray(afx.jit(afx.hessian(loss))(first, series[0])))))
    off = np.abs(np.asarray(first) - np.log(RATES)) / bars
    spread = np.std(np.asarray(fits), axis=0, ddof=1)
    for name, log_rate, bar, truth in zip(LABELS, first.tolist(), bars, RATES, strict=True):
        print(f"  {name:<11} {np.exp(log_rate):.3f} ± {np.exp(log_rate) * bar:.3f} (truth {truth})")
    slope = float(afx.max(afx.abs(afx.grad(loss)(first, series[0]))))
    time = np.arange(1, POINTS + 1) * STEPS * TIME
    fine = np.arange(1, POINTS * STEPS + 1) * TIME
    found = afx.jit(partial(solve, finer=STEPS))(first)
    counts = np.exp(np.asarray(series[0]))
    save(
        output / "lotka_volterra.png",
        Panel(
            "Counts and fit",
            "time",
            "animals",
            (
                Curve(time, counts[:, 0], "prey", "C0o"),
                Curve(time, counts[:, 1], "predators", "C1s"),
                Curve(fine, found[:, 0], "", "C0-"),
                Curve(fine, found[:, 1], "", "C1-"),
            ),
        ),
        Panel(
            "Error bars / spread over all series",
            "",
            "ratio",
            (Bars(bars / spread, names=LABELS), Curve(np.array([0.5, 4.5]), np.ones(2), form="k--")),
        ),
    )
    return [
        Claim("slope of the loss where the fit ends", slope, 1e-4),
        Claim("largest error, in standard errors", float(off.max()), 3.0, shown="{:.2f}"),
        Claim("error bars against the spread, largest |ln ratio|", float(np.abs(np.log(bars / spread)).max()), 0.4),
    ]
