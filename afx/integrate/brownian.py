"""Brownian motion: its changes over equal steps, as a function of a key.

Steps are halved level by level: the halves of a step are drawn given the whole (its change, and the area below it),
so that twice as many steps follow the same motion. Source: Lévy 1948; with areas Foster, Lyons & Oberhauser 2020, "An
optimal polynomial approximation of Brownian motion", whose H is the area over the length less half of the change.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np

from afx.core.array.array import Array
from afx.ops.elementwise.arithmetic import sqrt
from afx.ops.manipulation.join import stack
from afx.ops.manipulation.shape import reshape
from afx.random.basic import normal
from afx.random.keys import fold_in

__all__ = ["Increment", "increments"]


@attrs.frozen
class Increment:
    """What Brownian motion does over each step.

    Attributes:
        change: float[steps, noises], by how much it changes.
        mean: float[steps, noises], the mean over the step of its change since the beginning.
    """

    change: Array
    mean: Array


def increments(key: Any, h: Array, steps: int, noises: int) -> Increment:
    """Return the increments over steps of length h.

    Args:
        key: of the motion.
        h: the length.
        steps: how many; those of an odd number times a power of two are halves of those of half the number.
        noises: how many motions there are.
    """
    levels = (steps & -steps).bit_length() - 1
    whole = steps >> levels
    length = h * 2**levels
    w, lag = sqrt(length) * _draw(key, 0, whole, noises, h), sqrt(length / 12) * _draw(key, 1, whole, noises, h)
    for level in range(levels):
        length = 0.5 * length
        n = w.shape[0]
        gap = 3 * lag + sqrt(0.5 * length) * _draw(key, 2 * level + 2, n, noises, h)
        lean = sqrt(length / 6) * _draw(key, 2 * level + 3, n, noises, h)
        both = 2 * lag - 0.5 * gap
        w = _interleave(0.5 * (w + gap), 0.5 * (w - gap))
        lag = _interleave(0.5 * (both + lean), 0.5 * (both - lean))
    return Increment(w, 0.5 * w + lag)


def _draw(key: Any, number: int, n: int, noises: int, like: Array) -> Array:
    return normal(fold_in(key, number), (n, noises), dtype=np.dtype(like.dtype))


def _interleave(left: Array, right: Array) -> Array:
    """Return the halves of steps in order of time."""
    n, noises = left.shape
    return reshape(stack([left, right], axis=1), (2 * n, noises))
