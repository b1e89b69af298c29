"""The coefficients of a polynomial from its values: hard for a descent in powers of t, easy in the right basis."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

import afx
from afx import Array, optim
from examples.descent import Descent, descend
from examples.report import Claim, Curve, Panel, progress, save

TRUTH = np.array([0.5, 1.8, 2.3, -0.6])
TIMES = np.linspace(0.0, 5.0, 20)
POWERS = np.stack([TIMES**n for n in range(4)], axis=1)  # float[times, coefficients]
VALUES = POWERS @ TRUTH

Matrix = npt.NDArray[np.float64]


def paper_fit(steps: int = 5000) -> Descent[Array]:
    """Fit the coefficients from zero as the paper does: float32, root mean square error, its optimizer."""
    powers, values = POWERS.astype(np.float32), VALUES.astype(np.float32)

    def loss(coefficients: Array) -> Array:
        return afx.sqrt(afx.mean((afx.matmul(powers, coefficients) - values) ** 2))

    return descend(loss, afx.zeros(4), steps=steps, initial_step=1e-5, title="paper's optimizer")


def orthonormal_basis() -> tuple[Matrix, Matrix]:
    """Return Q and R with powers = Q R, where the columns of Q are orthogonal with mean square 1."""
    q, r = np.linalg.qr(POWERS)
    scale = np.sqrt(len(TIMES))
    return q * scale, r / scale


def fit(steps: int = 60) -> tuple[Array, list[float]]:
    """Fit by plain gradient descent on z = R w: the loss is the same, but its Hessian is twice the identity."""
    q, r = orthonormal_basis()
    optimizer = optim.sgd(0.2)

    def loss(z: Array) -> Array:
        return afx.mean((afx.matmul(q, z) - VALUES) ** 2)

    z = afx.asarray(np.zeros(4))
    state, losses = optimizer.init(z), list[float]()
    for _ in progress(range(steps), "orthonormal basis"):
        value, grads = afx.value_and_grad(loss)(z)
        z, state = optimizer.step(z, grads, state)
        losses.append(float(value) ** 0.5)
    return afx.asarray(np.linalg.solve(r, np.asarray(z))), losses


def error(coefficients: Array) -> float:
    """Return the largest error of the coefficients."""
    return float(np.abs(np.asarray(coefficients) - TRUTH).max())


def panels(paper: Descent[Array], coefficients: Array, losses: list[float]) -> tuple[Panel, Panel, Panel]:
    """Lay out the fits, the losses and the paper's step size."""
    t, steps = np.linspace(0.0, 5.0, 200), np.arange(1, len(paper.losses) + 1)
    dense = np.stack([t**n for n in range(4)], axis=1)
    fits = (
        Curve(TIMES, VALUES, "values to fit", "ko"),
        Curve(t, dense @ np.asarray(paper.params), f"paper's optimizer, {len(steps)} steps", "C1-"),
        Curve(t, dense @ np.asarray(coefficients), f"orthonormal basis, {len(losses)} steps", "C0--"),
    )
    histories = (
        Curve(steps, paper.losses, "powers of t", "C1-"),
        Curve(np.arange(1, len(losses) + 1), np.array(losses), "orthonormal basis", "C0-"),
    )
    return (
        Panel("Fits", "t", "y", fits),
        Panel("Loss", "step", "root mean square error", histories, log_x=True, log_y=True),
        Panel("Paper's optimizer", "step", "step size", (Curve(steps, paper.step_sizes, "", "C1-"),), log_y=True),
    )


def run(output: Path) -> list[Claim]:
    """Fit both ways from zero; the conditioning of the powers is what makes the paper's way slow."""
    paper, (coefficients, losses) = paper_fit(), fit()
    steps, shown = len(paper.losses), np.round(np.asarray(coefficients), 6).tolist()
    print(f"  paper's run of {steps} steps: loss {paper.losses[-1]:.1e}, error {error(paper.params):.1e}")
    print(f"  {len(losses)} steps in an orthonormal basis: loss {losses[-1]:.1e}, coefficients {shown}")
    print(f"  condition number of the loss: {np.linalg.cond(POWERS) ** 2:.1e} in powers of t, 1 in that basis")
    save(output / "polynomial.png", *panels(paper, coefficients, losses))
    return [Claim("largest error of the coefficients", error(coefficients), 1e-3)]
