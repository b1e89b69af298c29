"""Initialisers: how weights start. Each draws numbers of the default dtype from a key.

The same key gives the same weights. An int stands for ``afx.random.key(int)``; a `numpy.random.Generator` gives another
key at each call.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from afx import random
from afx.core.array.array import Array
from afx.core.aval import Shape, checked_shape
from afx.errors import ShapeError

__all__ = ["Initializer", "Seed", "glorot_uniform", "he_normal", "lecun_normal", "normal", "uniform"]

Seed = int | Array | np.random.Generator
Initializer = Callable[[Seed, Shape], Array]


def key_of(seed: Seed) -> Array:
    """Return the key that a seed stands for, and keys as they are."""
    if isinstance(seed, np.random.Generator):
        return random.key(int(seed.integers(1 << 63)))
    return seed if isinstance(seed, Array) else random.key(seed)


def _fans(shape: Shape, who: str) -> tuple[int, int]:
    """Return how many inputs an output has and how many outputs an input, for weights [*window, inputs, outputs]."""
    shape = checked_shape(shape, who)
    if len(shape) < 2:
        raise ShapeError(f"{who}: weights have inputs and outputs: got shape {shape}; use normal or uniform")
    span = math.prod(shape[:-2])
    return max(span * shape[-2], 1), max(span * shape[-1], 1)


def normal(seed: Seed, shape: Shape, scale: float = 1.0) -> Array:
    """Return normal numbers of mean 0 and standard deviation ``scale``.

    >>> normal(afx.random.key(0), (2,)).shape
    (2,)
    """
    return random.normal(key_of(seed), shape, 0.0, scale)


def uniform(seed: Seed, shape: Shape, scale: float = 1.0) -> Array:
    """Return numbers that are uniform between ``-scale`` and ``scale``.

    >>> uniform(0, (2,)).shape
    (2,)
    """
    return random.uniform(key_of(seed), shape, -scale, scale)


def glorot_uniform(seed: Seed, shape: Shape) -> Array:
    """Return uniform weights of variance 2 / (inputs + outputs) (Glorot & Bengio 2010, equation 16).

    >>> glorot_uniform(0, (2, 3)).shape
    (2, 3)
    """
    fan_in, fan_out = _fans(shape, "glorot_uniform")
    return uniform(seed, shape, math.sqrt(6 / (fan_in + fan_out)))


def he_normal(seed: Seed, shape: Shape) -> Array:
    """Return normal weights of variance 2 / inputs, for relu (He et al. 2015, equation 10).

    >>> he_normal(0, (2, 3)).shape
    (2, 3)
    """
    return normal(seed, shape, math.sqrt(2 / _fans(shape, "he_normal")[0]))


def lecun_normal(seed: Seed, shape: Shape) -> Array:
    """Return normal weights of variance 1 / inputs (LeCun et al. 1998, equation 16).

    >>> lecun_normal(0, (2, 3)).shape
    (2, 3)
    """
    return normal(seed, shape, math.sqrt(1 / _fans(shape, "lecun_normal")[0]))
