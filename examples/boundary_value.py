"""A damped oscillator between two fixed values: 2y″ + y′ + 2y = 0, y(0) = 1, y(6.1) = 0.1, by least squares."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

import afx
from afx import Array
from examples.descent import Descent, descend
from examples.report import Claim, Curve, Panel, progress, save

END = 6.1
LEFT, RIGHT = 1.0, 0.1
FIRST_CENTRAL = np.array([1 / 12, -2 / 3, 0, 2 / 3, -1 / 12])
SECOND_CENTRAL = np.array([-1 / 12, 4 / 3, -5 / 2, 4 / 3, -1 / 12])
FIRST_FORWARD = np.array([-25 / 12, 4, -3, 4 / 3, -1 / 4])
SECOND_FORWARD = np.array([35 / 12, -26 / 3, 19 / 2, -14 / 3, 11 / 12])
FIRST_BACKWARD = -FIRST_FORWARD[::-1]
SECOND_BACKWARD = SECOND_FORWARD[::-1]

Samples = npt.NDArray[np.float64]


def differences(y: Array, forward: Samples, central: Samples, backward: Samples) -> Array:
    """Apply five-point formulas: central inside, one-sided at the two points at either end."""
    kinds = ((y[:6], forward), (y, central), (y[-6:], backward))
    return afx.concat([afx.correlate(part, formula.astype(y.dtype)) for part, formula in kinds])


def residual(y: Array) -> Array:
    """Return 2y″ + y′ + 2y at every point."""
    spacing = END / (len(y) - 1)
    first = differences(y, FIRST_FORWARD, FIRST_CENTRAL, FIRST_BACKWARD) / spacing
    second = differences(y, SECOND_FORWARD, SECOND_CENTRAL, SECOND_BACKWARD) / spacing**2
    return 2 * second + first + 2 * y


def with_ends(inside: Array) -> Array:
    """Put the boundary values at the ends: they are no parameters, so no step moves them."""
    left, right = (np.full(1, value, inside.dtype) for value in (LEFT, RIGHT))
    return afx.concat([left, inside, right])


def loss(inside: Array) -> Array:
    """Return the sum of the squared residuals from the values between the ends."""
    return afx.sum(residual(with_ends(inside)) ** 2)


def times(points: int) -> Samples:
    """Return the times of the points."""
    return np.linspace(0.0, END, points)


def start(points: int) -> Array:
    """Return the paper's first guess between the ends."""
    return afx.asarray(np.sin(times(points) / 1.4)[1:-1] + 1)


def paper_run(points: int = 20, steps: int = 100_000) -> Descent[Array]:
    """Descend in float32 with the paper's optimizer."""
    inside = start(points).astype(np.float32)
    return descend(loss, inside, steps=steps, initial_step=1e-4, title="paper's optimizer")


def newton(points: int, rounds: int = 2) -> Array:
    """Solve in float64 by Newton's method: the loss is quadratic, so one step arrives and one more polishes."""
    inside = start(points)
    for _ in range(rounds):
        slope, curvature = afx.grad(loss)(inside), afx.hessian(loss)(inside)
        inside = inside - np.linalg.solve(np.asarray(curvature), np.asarray(slope))
    return inside


def analytic(t: Samples) -> Samples:
    """Return the exact solution through the boundary values."""
    w = np.sqrt(15) / 4
    sine = (RIGHT * np.exp(END / 4) - LEFT * np.cos(w * END)) / np.sin(w * END)
    exact: Samples = np.exp(-t / 4) * (LEFT * np.cos(w * t) + sine * np.sin(w * t))
    return exact


def error(inside: Array) -> float:
    """Return the largest distance to the exact solution."""
    t = times(len(inside) + 2)
    return float(np.abs(np.asarray(with_ends(inside)) - analytic(t)).max())


def panels(paper: Descent[Array], found: dict[int, Array]) -> tuple[Panel, Panel, Panel]:
    """Lay out the solutions, the descent and the errors on finer and finer grids."""
    t, steps = times(200), np.arange(1, len(paper.losses) + 1)
    solutions = (
        Curve(times(20), with_ends(paper.params), "paper's optimizer, 20 points", "C1.-"),
        Curve(times(40), with_ends(found[40]), "Newton's method, 40 points", "C0.-"),
        Curve(t, analytic(t), "exact", "k:"),
    )
    losses = (
        Curve(steps, paper.losses, "paper's optimizer, 20 points, float32", "C1-"),
        Curve(steps[[0, -1]], np.full(2, float(loss(found[20]))), "least possible (Newton's method)", "C0--"),
    )
    errors = Curve(np.array(list(found)), np.array([error(y) for y in found.values()]), "Newton's method", "C0o-")
    return (
        Panel("2y″ + y′ + 2y = 0, y(0) = 1, y(6.1) = 0.1", "time t", "y", solutions),
        Panel("Loss", "step", "sum of squared residuals", losses, log_x=True, log_y=True),
        Panel("Refinement", "points", "largest error", (errors,), log_x=True, log_y=True, x_ticks=tuple(found)),
    )


def run(output: Path, steps: int = 100_000) -> list[Claim]:
    """Solve with the paper's descent and with Newton's method; compare with the exact solution."""
    paper = paper_run(steps=steps)
    found = {points: newton(points) for points in progress((10, 14, 20, 28, 40, 56, 80), "Newton's method")}
    condition = np.linalg.cond(np.asarray(afx.hessian(loss)(found[20])))
    print(f"  20 points, paper's run of {steps} steps: loss {paper.losses[-1]:.1e}, error {error(paper.params):.1e}")
    print(f"  20 points, two Newton steps: loss {float(loss(found[20])):.1e}, error {error(found[20]):.1e}")
    print(f"  the condition number of the loss, {condition:.1e}, is too much for small steps downhill")
    save(output / "boundary_value.png", *panels(paper, found))
    return [Claim(f"{n} points: largest distance to the exact solution", error(found[n]), 1e-3) for n in (40, 80)]
