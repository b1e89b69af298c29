"""Robust losses: residuals whose squares add up to less than squares, so that outliers count for less.

Source: Triggs, McLauchlan, Hartley & Fitzgibbon 2000, section 3; the losses and their scale are SciPy's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from afx.core.array.array import Array
from afx.errors import ArgumentError
from afx.ops.elementwise.arithmetic import sqrt
from afx.ops.elementwise.exponential import log1p
from afx.ops.elementwise.trigonometry import arctan
from afx.ops.elementwise.where import where

__all__ = ["Loss", "robust_residuals"]

Loss = Literal["linear", "huber", "soft_l1", "cauchy", "arctan"]

SMALL = 1e-8  # below, a share is its series up to rounding


def _huber(z: Array) -> Array:
    far = where(z > 1, z, 1.0)
    return where(z > 1, (2 * sqrt(far) - 1) / far, 1.0)


def _over(fn: Callable[[Array], Array], slope: float, z: Array) -> Array:
    """Return ``fn(z) / z``, near 0 the beginning of its series."""
    far = where(z > SMALL, z, 1.0)
    return where(z > SMALL, fn(far) / far, 1 + slope * z)


# the loss of a squared residual, over that
SHARES: dict[str, Callable[[Array], Array]] = {
    "huber": _huber,
    "soft_l1": lambda z: 2 / (sqrt(1 + z) + 1),
    "cauchy": lambda z: _over(log1p, -0.5, z),
    "arctan": lambda z: _over(arctan, 0.0, z),
}


def robust_residuals(residuals: Array, loss: Loss, scale: float) -> Array:
    """Return residuals whose squares are the losses of the given ones.

    Args:
        residuals: float[residuals].
        loss: its name.
        scale: the size from which on a residual counts for less.
    """
    if loss == "linear":
        return residuals
    if loss not in SHARES:
        names = ", ".join(map(repr, SHARES))
        raise ArgumentError(f"least_squares: no such loss: got {loss!r}; use 'linear', {names}")
    if not scale > 0:
        raise ArgumentError(
            f"least_squares: the scale of the loss is above 0: got {scale}; give a usual residual's size"
        )
    small = residuals / scale
    return residuals * sqrt(SHARES[loss](small * small))
