"""Reparameterised layers: a weight by its direction and length, or over its largest singular value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import attrs

from afx.core.array.array import Array, ArrayLike
from afx.errors import ArgumentError
from afx.nn.initializers import Seed, key_of
from afx.nn.layer import layer
from afx.ops.creation.stop_gradient import stop_gradient
from afx.ops.elementwise.where import maximum
from afx.ops.linalg.products import matmul, vecdot
from afx.ops.manipulation.shape import astype, reshape
from afx.ops.reductions.moments import vector_norm
from afx.pytree import non_trainable, static
from afx.random import normal

__all__ = ["SpectralNorm", "WeightNorm"]

L = TypeVar("L")
LEAST = 1e-12  # by which a vector of zeros is divided


def _weight_of(who: str, inner: Any) -> str:
    """Return the field that holds the weight of a layer."""
    for name in ("weight", "kernel"):
        if isinstance(getattr(inner, name, None), Array):
            return name
    raise ArgumentError(
        f"{who}: takes a layer with a field weight or kernel: got {type(inner).__name__}; give Linear or Conv"
    )


@layer
@attrs.frozen
class WeightNorm(Generic[L]):
    """A layer whose weight has a direction and a length for each output (Salimans & Kingma 2016, equation 2).

    Attributes:
        inner: a layer such as `Linear` or `Conv`, whose weight is the direction.
        scale: float[outputs], the lengths.
        field: the name of the weight.

    >>> WeightNorm.create(afx.nn.Linear.create(0, 3, 2))(afx.ones((5, 3))).shape
    (5, 2)
    """

    inner: L
    scale: Array
    field: str = static(default="weight")

    @classmethod
    def create(cls, inner: L) -> WeightNorm[L]:
        """Return a layer that gives what ``inner`` gives.

        Raises:
            ArgumentError: the layer has neither a weight nor a kernel.
        """
        field = _weight_of("WeightNorm", inner)
        return cls(inner, _lengths(getattr(inner, field)), field)

    def __call__(self, *args: Any, **kwargs: Any) -> Array:
        """Return what the inner layer gives with the weight ``scale · direction / |direction|``."""
        v: Array = getattr(self.inner, self.field)
        return _replace_weight(self.inner, self.field, v * (self.scale / _lengths(v)))(*args, **kwargs)


def _lengths(weight: Array) -> Array:
    """Return the length of the weight of each output, its last axis."""
    return vector_norm(reshape(weight, (-1, weight.shape[-1])), axis=0)


def _replace_weight(inner: Any, field: str, weight: Array) -> Callable[..., Array]:
    """Return the layer with another weight."""
    changed: Callable[..., Array] = attrs.evolve(inner, **{field: weight})
    return changed


@layer
@attrs.frozen
class SpectralNorm(Generic[L]):
    """A layer whose weight is divided by its largest singular value (Miyato et al. 2018, Algorithm 1).

    Attributes:
        inner: a layer such as `Linear` or `Conv`.
        left: float[outputs], the singular vector as far as it was found; not trained. `train` comes closer by one step.
        field: the name of the weight.

    >>> layer = SpectralNorm.create(0, afx.nn.Linear.create(0, 3, 2))
    >>> y, layer = layer.train(afx.ones((5, 3)))
    """

    inner: L
    left: Array = non_trainable()
    field: str = static(default="weight")

    @classmethod
    def create(cls, seed: Seed, inner: L, *, steps: int = 15) -> SpectralNorm[L]:
        """Return a layer with a drawn vector that took so many steps of the power method.

        Raises:
            ArgumentError: the layer has neither a weight nor a kernel.
        """
        field = _weight_of("SpectralNorm", inner)
        weight: Array = getattr(inner, field)
        made = cls(inner, _unit(astype(normal(key_of(seed), weight.shape[-1:]), weight.dtype)), field)
        for _ in range(steps):
            made = made.refine()
        return made

    def _matrix(self) -> Array:
        weight: Array = getattr(self.inner, self.field)
        return reshape(weight, (-1, weight.shape[-1]))

    def refine(self) -> SpectralNorm[L]:
        """Return the layer after one step of the power method."""
        w = stop_gradient(self._matrix())
        return attrs.evolve(self, left=_unit(matmul(_unit(matmul(w, self.left)), w)))

    def __call__(self, *args: Any, **kwargs: Any) -> Array:
        """Return what the inner layer gives with the weight over its largest singular value."""
        w = self._matrix()
        left = stop_gradient(self.left)
        right = _unit(matmul(stop_gradient(w), left))
        size = vecdot(right, matmul(w, left))
        weight: Array = getattr(self.inner, self.field)
        return _replace_weight(self.inner, self.field, weight / size)(*args, **kwargs)

    def train(self, x: ArrayLike, key: object = None) -> tuple[Array, SpectralNorm[L]]:
        """Return the output and the layer after one more step of the power method, as every layer's ``train`` does."""
        new = self.refine()
        return new(x), new


def _unit(x: Array) -> Array:
    return x / maximum(vector_norm(x), LEAST)
