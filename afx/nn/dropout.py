"""Dropout: noise that multiplies by 0 or more."""

from __future__ import annotations

from typing import Final

import attrs

from afx.core.array.array import Array, ArrayLike
from afx.errors import ArgumentError
from afx.nn.layer import layer
from afx.ops.creation.creation import asarray
from afx.ops.elementwise.comparison import less
from afx.ops.nn.activations import scale_kept
from afx.pytree import static
from afx.random import bits

__all__ = ["Dropout"]

WORDS: Final = 2**32  # of random bits


@layer
@attrs.frozen
class Dropout:
    """Zero each element with a probability, and scale the others so that means stay (Srivastava et al. 2014).

    Attributes:
        rate: the probability of zero, from 0 to below 1 (at 1 nothing would be left to scale).
        axes: along which elements are dropped together, such as the spatial axes (1, 2) of images.

    >>> drop = Dropout(0.5)
    >>> drop(afx.ones(4))
    Array([1., 1., 1., 1.], dtype=float32)
    >>> sorted(set(drop(afx.ones(100), afx.random.key(0)).tolist()))
    [0.0, 2.0]
    """

    rate: float = static()
    axes: tuple[int, ...] = static(default=())

    def __attrs_post_init__(self) -> None:
        """Check the rate where the layer is made."""
        if isinstance(self.rate, bool) or not 0 <= self.rate < 1:
            raise ArgumentError(f"Dropout: the rate is from 0 to below 1: got {self.rate}; write nn.Dropout(0.5)")

    def __call__(self, x: ArrayLike, key: Array | None = None) -> Array:
        """Return x with elements dropped; without a key, in evaluation, x itself.

        Args:
            x: float[...].
            key: a random key, a new one at each call in training; None in evaluation.
        """
        if key is None or self.rate == 0:
            return asarray(x)
        y = asarray(x)
        together = {a % max(y.ndim, 1) for a in self.axes}
        shape = tuple([1 if a in together else n for a, n in enumerate(y.shape)])
        kept = less(bits(key, shape), min(round((1 - self.rate) * WORDS), WORDS - 1))
        return scale_kept(y, kept.astype(y.dtype) / (1 - self.rate))

    def train(self, x: ArrayLike, key: Array | None) -> tuple[Array, Dropout]:
        """Return x with elements dropped, and the layer, as every layer's ``train`` does.

        Raises:
            ArgumentError: there is no key to draw from.
        """
        if key is None and self.rate:
            raise ArgumentError("Dropout: training draws numbers: got no key; give one, as in model.train(x, key)")
        return self(x, key), self
