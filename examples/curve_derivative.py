"""The derivative of |sin x| exp(-x/3), kinks included, beside the formula written by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

import afx
from afx import Array
from examples.report import Claim, Curve, Panel, Series, save

RANGE = (0.0, 12.0)


def curve(x: Array) -> Array:
    """Evaluate the decaying train of arches at each x."""
    return afx.abs(afx.sin(x)) * afx.exp(-x / 3)


def slope(x: Array) -> Array:
    """Differentiate the curve at each x: values do not mix, so the gradient of their sum holds every derivative."""

    def total(x: Array) -> Array:
        return afx.sum(curve(x))

    return afx.grad(total)(x)


def slope_by_hand(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the derivative from the product rule; at a kink, where sin x = 0, the convention d|u|/du = 0 holds."""
    found: npt.NDArray[np.float64] = (np.sign(np.sin(x)) * np.cos(x) - np.abs(np.sin(x)) / 3) * np.exp(-x / 3)
    return found


def broken(y: Series) -> npt.NDArray[np.float64]:
    """Return values with nan where they jump, so that no line is drawn there."""
    values = np.array(y, np.float64)
    values[1:][np.abs(np.diff(values)) > 0.02] = np.nan
    return values


def run(output: Path) -> list[Claim]:
    """Plot value and derivative on [0, 12] and compare the derivative with the formula."""
    x = np.linspace(*RANGE, 1201)
    points = afx.asarray(x)
    derivative = slope(points)
    save(
        output / "curve_derivative.png",
        Panel("Value", "x", "y", (Curve(x, curve(points), "y = |sin x| exp(-x/3)"),)),
        Panel(
            "Derivative",
            "x",
            "dy/dx",
            (Curve(x, broken(derivative), "afx.grad", "C2-"), Curve(x, broken(slope_by_hand(x)), "by hand", "k:")),
        ),
    )
    difference = np.abs(np.asarray(derivative) - slope_by_hand(x))
    return [Claim("largest difference from the derivative by hand", float(difference.max()), 1e-12)]
