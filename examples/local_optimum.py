"""The start decides: from one point a descent gets stuck in a local optimum, from another it finds the global one."""

from __future__ import annotations

from pathlib import Path

import attrs
import numpy as np

import afx
from afx import Array
from examples.descent import Descent, descend
from examples.report import Claim, Curve, Panel, save

TIMES = np.linspace(0.0, 5.0, 100)
TRUTH = (-0.5, 4.0, 3.0)
STUCK_START = (0.0, 0.0, 0.0)
GOOD_START = (-0.1, 1.2, 1.2)


@attrs.frozen
class Wave:
    """A damped oscillation exp(rate t) sin(frequency t + phase)."""

    rate: Array
    frequency: Array
    phase: Array

    def __call__(self, t: Array) -> Array:
        """Return the height at each time."""
        return afx.exp(self.rate * t) * afx.sin(self.frequency * t + self.phase)


def wave(parameters: Array) -> Wave:
    """Name the three numbers of a wave."""
    return Wave(parameters[0], parameters[1], parameters[2])


def wave_from(parameters: tuple[float, float, float]) -> Wave:
    """Make a wave of three Python numbers, in float64."""
    return wave(afx.asarray(np.array(parameters)))


def loss(fit: Wave) -> Array:
    """Return the root mean square distance of a wave to the true one."""
    t = afx.asarray(TIMES)
    return afx.sqrt(afx.mean((fit(t) - wave_from(TRUTH)(t)) ** 2))


def fit_from(start: tuple[float, float, float], steps: int) -> Descent[Wave]:
    """Fit a wave with the paper's optimizer."""
    return descend(loss, wave_from(start), steps=steps, initial_step=1e-4, title=f"from {start}")


def numbers(fit: Wave) -> tuple[float, float, float]:
    """Return the parameters of a wave as Python numbers."""
    return float(fit.rate), float(fit.frequency), float(fit.phase)


def curvatures(fit: Wave) -> list[float]:
    """Return the eigenvalues of the loss's Hessian, least first: all positive at a minimum."""

    def at(p: Array) -> Array:
        return loss(wave(p))

    matrix = np.asarray(afx.hessian(at)(afx.asarray(np.array(numbers(fit)))))
    return [float(value) for value in np.linalg.eigvalsh(matrix)]


def curves(stuck: Descent[Wave], free: Descent[Wave]) -> tuple[Panel, Panel, Panel]:
    """Lay out the fits, the losses and the step sizes."""
    t = afx.asarray(TIMES)
    fits = (
        Curve(t, stuck.params(t), f"from {STUCK_START}", "C1-"),
        Curve(t, free.params(t), f"from {GOOD_START}", "C0-"),
        Curve(t, wave_from(TRUTH)(t), "true", "k:"),
    )

    def histories(name: str) -> tuple[Curve, ...]:
        runs = ((stuck, STUCK_START, "C1-"), (free, GOOD_START, "C0-"))
        return tuple(
            Curve(np.arange(1, len(run.losses) + 1), getattr(run, name), f"from {start}", form)
            for run, start, form in runs
        )

    return (
        Panel("Fits", "time t", "y = exp(at) sin(bt + c)", fits),
        Panel("Loss", "step", "root mean square distance", histories("losses"), log_x=True, log_y=True),
        Panel("Step of the paper's optimizer", "step", "step size", histories("step_sizes"), log_x=True, log_y=True),
    )


def run(output: Path, stuck_steps: int = 1000, free_steps: int = 4000) -> list[Claim]:
    """Fit from both starts; show that one ends in a true minimum that is not the best, the other at the truth."""
    stuck, free = fit_from(STUCK_START, stuck_steps), fit_from(GOOD_START, free_steps)
    for start, found in ((STUCK_START, stuck), (GOOD_START, free)):
        a, b, c = numbers(found.params)
        print(f"  from {start}: a = {a:.4f}, b = {b:.4f}, c = {c:.4f}, loss {found.losses[-1]:.1e}")
    save(output / "local_optimum.png", *curves(stuck, free))
    error = max(abs(got - true) for got, true in zip(numbers(free.params), TRUTH, strict=True))
    return [
        Claim(f"loss from {STUCK_START}, stuck", float(stuck.losses[-1]), 0.2, at_least=True),
        Claim("least curvature there, so it is a minimum", curvatures(stuck.params)[0], 1e-3, at_least=True),
        Claim(f"largest error of a, b, c from {GOOD_START}", error, 1e-5),
    ]
