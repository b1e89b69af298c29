"""A hanging rope takes the shape of least potential energy among the curves of its length: the catenary."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

import afx
from afx import Array, optim
from examples.report import Claim, Curve, Panel, progress, save

POINTS = 50
SPACING = 1 / (POINTS - 1)
DIFFERENCE = np.array([1.0, -1.0])
MIDDLE = np.array([0.5, 0.5])
ENDS = np.array([0, POINTS - 1])
PAPER_LENGTH = 1.1
FIGURE_LENGTH = 1.4958  # of the catenary through (0, 0), (1/2, -1/2) and (1, 0)
ROUNDS, STEPS_A_ROUND, WEIGHT = 10, 600, 10.0

Heights = npt.NDArray[np.float64]


def segments(y: Array) -> Array:
    """Return the lengths of the rope's straight segments from the heights of its points."""
    return afx.sqrt(SPACING**2 + afx.correlate(y, DIFFERENCE) ** 2)


def length(y: Array) -> Array:
    """Return the length of the rope."""
    return afx.sum(segments(y))


def energy(y: Array) -> Array:
    """Return the potential energy: the height of each segment's middle times its mass."""
    return afx.sum(segments(y) * afx.correlate(y, MIDDLE))


def random_rope(seed: int = 1) -> Array:
    """Draw heights in [-0.1, 0] with both ends at 0."""
    y = np.random.default_rng(seed).uniform(-0.1, 0.0, POINTS)
    y[ENDS] = 0.0
    return afx.asarray(y)


def hold_ends(gradient: Array) -> Array:
    """Set the gradient of the two ends to zero, so that no step moves them."""
    return gradient.at[ENDS].set(0.0)


def soft_rope(wanted: float, steps: int = 10_001) -> Array:
    """Run the paper's descent: the squared error of the length is weighed against the energy, so the rope stretches."""
    optimizer = optim.sgd(0.005)

    def loss(y: Array) -> Array:
        return (length(y) - wanted) ** 2 + energy(y)

    @afx.jit
    def step(y: Array, state: optim.SgdState[Array]) -> tuple[Array, optim.SgdState[Array]]:
        return optimizer.step(y, hold_ends(afx.grad(loss)(y)), state)

    y = random_rope()
    state = optimizer.init(y)
    for _ in progress(range(steps), f"paper's run, length {wanted}"):
        y, state = step(y, state)
    return y


def hang(wanted: float, rounds: int = ROUNDS) -> Array:
    """Minimise the energy with the length met: an augmented Lagrangian, whose multiplier is the rope's tension."""
    optimizer = optim.adam(optim.cosine_decay(0.02, rounds * STEPS_A_ROUND))

    def lagrangian(y: Array, tension: Array) -> Array:
        excess = length(y) - wanted
        return energy(y) + tension * excess + WEIGHT / 2 * excess**2

    @afx.jit
    def step(y: Array, state: optim.AdamState[Array], tension: Array) -> tuple[Array, optim.AdamState[Array]]:
        return optimizer.step(y, hold_ends(afx.grad(lagrangian)(y, tension)), state)

    y = random_rope()
    state, tension = optimizer.init(y), afx.asarray(np.float64(0.0))
    for _ in progress(range(rounds), f"length {wanted} met"):
        for _ in range(STEPS_A_ROUND):
            y, state = step(y, state, tension)
        tension = tension + WEIGHT * (length(y) - wanted)
    return y


def catenary(wanted: float) -> Heights:
    """Return the analytic catenary of a length: a cosh((x - 1/2)/a) + c, where 2 a sinh(1/(2a)) is the length."""

    def excess(u: Array) -> Array:
        return afx.sinh(u) / u - wanted

    u = afx.asarray(np.float64(10.0))  # u = 1/(2a); the function is convex, so Newton's steps from the right converge
    for _ in range(40):
        value, slope = afx.value_and_grad(excess)(u)
        u = u - value / slope
    a = 0.5 / float(u)
    curve: Heights = a * np.cosh((grid() - 0.5) / a) - a * np.cosh(0.5 / a)
    return curve


def grid() -> Heights:
    """Return the horizontal positions of the points."""
    return np.linspace(0.0, 1.0, POINTS)


def distance(y: Array) -> float:
    """Return the largest vertical distance of a rope to the analytic catenary of its own length."""
    return float(np.abs(np.asarray(y) - catenary(float(length(y)))).max())


def panels(soft: Array, short: Array, figure: Array) -> tuple[Panel, Panel]:
    """Lay out the ropes of the paper's two lengths beside the analytic curves."""
    x, fine, stretched = grid(), np.linspace(0.0, 1.0, 500), float(length(soft))
    hanging = (
        Curve(x, soft, f"paper's loss: length {stretched:.3f}", "C1-"),
        Curve(x, catenary(stretched), f"catenary of length {stretched:.3f}", "k:"),
        Curve(x, short, f"length {PAPER_LENGTH} met", "C0-"),
        Curve(x, catenary(PAPER_LENGTH), f"catenary of length {PAPER_LENGTH}", "k--"),
    )
    through = (
        Curve(fine, -np.sqrt(0.25 - (fine - 0.5) ** 2), "circle", "C3--"),
        Curve(fine, 2 * fine * (fine - 1), "parabola", "C2--"),
        Curve(x, figure, f"rope, length {FIGURE_LENGTH} met", "C0-"),
        Curve(fine, 0.3094 * np.cosh((fine - 0.5) / 0.3094) - 0.8094, "catenary", "k:"),
    )
    return (
        Panel(f"Wanted length {PAPER_LENGTH}", "x / distance of the ends", "height / distance of the ends", hanging),
        Panel("Through (0, 0), (½, −½), (1, 0)", "x / distance of the ends", "height / distance of the ends", through),
    )


def run(output: Path) -> list[Claim]:
    """Hang ropes of the paper's two lengths, by its loss and with the length met, and compare with the catenary."""
    soft, short, figure = soft_rope(PAPER_LENGTH), hang(PAPER_LENGTH), hang(FIGURE_LENGTH)
    print(f"  the paper's loss lets the rope stretch: wanted length {PAPER_LENGTH}, found {float(length(soft)):.4f},")
    print(f"  {distance(soft):.1e} away from the catenary of that length")
    save(output / "catenary.png", *panels(soft, short, figure))
    ropes = ((PAPER_LENGTH, short), (FIGURE_LENGTH, figure))
    what = "largest distance to the analytic curve"
    error = max(abs(float(length(y)) - wanted) for wanted, y in ropes)
    claims = [Claim(f"length {wanted}: {what}", distance(y), 1e-3) for wanted, y in ropes]
    return [*claims, Claim("largest error of the length", error, 1e-4)]
