"""Elementwise layers: nothing at all, and an activation that learns its slope."""

from __future__ import annotations

import attrs

from afx.core.array.array import Array, ArrayLike
from afx.errors import ShapeError
from afx.nn.activations import leaky_relu
from afx.nn.layer import layer
from afx.ops.creation.creation import asarray, full

__all__ = ["Identity", "PReLU"]


@layer
@attrs.frozen
class Identity:
    """What it is given, where a layer has to stand.

    >>> Identity()(afx.ones(2))
    Array([1., 1.], dtype=float32)
    """

    def __call__(self, x: ArrayLike) -> Array:
        """Return x."""
        return asarray(x)


@layer
@attrs.frozen
class PReLU:
    """`leaky_relu` with learned slopes (He et al. 2015).

    Attributes:
        slope: float[channels], or float[1] for one slope.

    >>> PReLU.create()(afx.asarray([-2.0, 2.0]))
    Array([-0.5,  2. ], dtype=float32)
    """

    slope: Array

    @classmethod
    def create(cls, channels: int = 1, *, slope: float = 0.25) -> PReLU:
        """Return a layer of one slope, or of one for each channel, the last axis."""
        return cls(full(channels, slope))

    def __call__(self, x: ArrayLike) -> Array:
        """Return float[..., channels]."""
        y = asarray(x)
        if self.slope.shape != (1,) and y.shape[-1:] != self.slope.shape:
            raise ShapeError(
                f"PReLU: a slope for each channel: got {y.aval} and {self.slope.aval}; write PReLU.create()"
            )
        return leaky_relu(y, self.slope)
