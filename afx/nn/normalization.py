"""Normalisation layers: by statistics of features, channels or a batch, and reparameterised weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import attrs

from afx.core import Array, ArrayLike, Aval, float16, float32
from afx.errors import ArgumentError, DtypeError, ShapeError
from afx.nn.initializers import Seed, key_of
from afx.nn.layers import layer
from afx.ops import astype, matmul, maximum, mean, reshape, sqrt, vecdot, vector_norm
from afx.ops.creation.creation import asarray, ones, stop_gradient, zeros
from afx.ops.nn.activations import standardize
from afx.pytree import non_trainable, static
from afx.random import normal

__all__ = ["BatchNorm", "GroupNorm", "InstanceNorm", "LayerNorm", "RMSNorm", "SpectralNorm", "WeightNorm"]

# --- Normalisation layers: by the statistics of features, of groups of channels, or of a batch


def _check_features(who: str, x: ArrayLike, scale: Array, rank: int = 1) -> Array:
    """Return x as an array, whose last axis has as many elements as the scale."""
    y = asarray(x)
    if y.ndim < rank or y.shape[-1:] != scale.shape:
        raise ShapeError(
            f"{who}: the last axis has as many features as the scale: got {y.aval} and {scale.aval}; "
            "make the layer for that number"
        )
    if y.dtype.kind == "c":
        raise DtypeError(f"{who}: needs real numbers: got {y.aval}; take the abs or a part")
    return y


@layer
@attrs.frozen
class LayerNorm:
    """Normalisation over the last axis, with a learned scale and shift (Ba et al. 2016).

    Attributes:
        scale: float[features].
        shift: float[features].
        eps: added to the variance.

    >>> LayerNorm.create(3)(afx.ones((2, 3))).shape
    (2, 3)
    """

    scale: Array
    shift: Array
    eps: float = static(default=1e-5)

    @classmethod
    def create(cls, features: int, *, eps: float = 1e-5) -> LayerNorm:
        """Return a layer that scales by 1 and shifts by 0."""
        return cls(ones(features), zeros(features), eps)

    def __call__(self, x: ArrayLike) -> Array:
        """Return float[..., features], normalised."""
        return standardize(_check_features("LayerNorm", x, self.scale), eps=self.eps) * self.scale + self.shift


@layer
@attrs.frozen
class RMSNorm:
    """Division by the root of the mean square over the last axis, with a learned scale (Zhang & Sennrich 2019).

    Attributes:
        scale: float[features].
        eps: added to the mean square.

    >>> RMSNorm.create(3)(afx.ones((2, 3))).shape
    (2, 3)
    """

    scale: Array
    eps: float = static(default=1e-6)

    @classmethod
    def create(cls, features: int, *, eps: float = 1e-6) -> RMSNorm:
        """Return a layer that scales by 1."""
        return cls(ones(features), eps)

    def __call__(self, x: ArrayLike) -> Array:
        """Return float[..., features], normalised."""
        y = _check_features("RMSNorm", x, self.scale)
        wide = _wide(y)
        z = wide / sqrt(mean(wide * wide, axis=-1, keepdims=True) + self.eps)
        return astype(z, y.dtype) * self.scale if y.dtype == float16 else z * self.scale


def _wide(x: Array) -> Array:
    """Return float16 as float32, in which squares do not overflow, and integers in the default dtype."""
    return astype(x, float32) if x.dtype == float16 else x if x.dtype.kind == "f" else x * 1.0


@layer
@attrs.frozen
class GroupNorm:
    """Normalisation of each example's groups of channels over all positions (Wu & He 2018).

    One group normalises over everything, as many groups as channels over positions alone, as `InstanceNorm` does.

    Attributes:
        scale: float[channels].
        shift: float[channels].
        groups: into how many the channels are split.
        eps: added to the variance.

    >>> GroupNorm.create(4, 2)(afx.ones((2, 8, 8, 4))).shape
    (2, 8, 8, 4)
    """

    scale: Array
    shift: Array
    groups: int
    eps: float = static(default=1e-5)

    @classmethod
    def create(cls, channels: int, groups: int, *, eps: float = 1e-5) -> GroupNorm:
        """Return a layer that scales by 1 and shifts by 0."""
        if groups < 1 or channels % groups:
            raise ArgumentError(f"GroupNorm: groups divide channels: got {channels} and {groups=}; take a divisor")
        return cls(ones(channels), zeros(channels), groups, eps)

    def __call__(self, x: ArrayLike) -> Array:
        """Return float[batch, *spatial, channels], normalised."""
        y = _check_features("GroupNorm", x, self.scale, rank=2)
        batch, *spatial, channels = y.shape
        parts = reshape(y, (batch, math.prod(spatial), self.groups, channels // self.groups))
        return reshape(standardize(parts, (1, 3), eps=self.eps), y.shape) * self.scale + self.shift


@layer
@attrs.frozen
class InstanceNorm:
    """Normalisation of each channel of each example over its positions (Ulyanov et al. 2016).

    Attributes:
        scale: float[channels].
        shift: float[channels].
        eps: added to the variance.

    >>> InstanceNorm.create(4)(afx.ones((2, 8, 8, 4))).shape
    (2, 8, 8, 4)
    """

    scale: Array
    shift: Array
    eps: float = static(default=1e-5)

    @classmethod
    def create(cls, channels: int, *, eps: float = 1e-5) -> InstanceNorm:
        """Return a layer that scales by 1 and shifts by 0."""
        return cls(ones(channels), zeros(channels), eps)

    def __call__(self, x: ArrayLike) -> Array:
        """Return float[batch, *spatial, channels], normalised."""
        y = _check_features("InstanceNorm", x, self.scale, rank=3)
        return standardize(y, tuple(range(1, y.ndim - 1)), eps=self.eps) * self.scale + self.shift


@layer
@attrs.frozen
class BatchNorm:
    """Normalisation of each channel over a batch, with running statistics for evaluation (Ioffe & Szegedy 2015).

    A layer never changes: in training `train` returns the output and the layer with new statistics, which takes the
    place of the old one in the model.

    >>> norm = BatchNorm.create(3)
    >>> y, norm = norm.train(afx.ones((8, 3)))
    >>> norm.mean
    Array([0.1, 0.1, 0.1], dtype=float32)
    >>> norm(afx.ones((8, 3))).shape
    (8, 3)

    Attributes:
        scale: float[channels].
        shift: float[channels].
        mean: float[channels], the running mean; not trained.
        variance: float[channels], the running variance (of samples: with n - 1, as torch keeps it); not trained.
        decay: the share of the old statistics that a call in training keeps (torch's momentum is 1 - decay).
        eps: added to the variance.
    """

    scale: Array
    shift: Array
    mean: Array = non_trainable()
    variance: Array = non_trainable()
    decay: float = static(default=0.9)
    eps: float = static(default=1e-5)

    @classmethod
    def create(cls, channels: int, *, decay: float = 0.9, eps: float = 1e-5) -> BatchNorm:
        """Return a layer that scales by 1 and shifts by 0, with the statistics mean 0 and variance 1."""
        if not 0 <= decay <= 1:
            raise ArgumentError(f"BatchNorm: decay is between 0 and 1: got {decay}; torch's momentum m is decay=1 - m")
        return cls(ones(channels), zeros(channels), zeros(channels), ones(channels), decay, eps)

    def __call__(self, x: ArrayLike) -> Array:
        """Return float[batch, *spatial, channels], normalised by the running statistics."""
        y = _check_features("BatchNorm", x, self.scale)
        factor = self.scale / sqrt(self.variance + self.eps)
        return (y - self.mean) * factor + self.shift

    def train(self, x: ArrayLike, key: object = None) -> tuple[Array, BatchNorm]:
        """Return x normalised by its own statistics, and the layer with these mixed into the running ones.

        Args:
            x: float[batch, *spatial, channels].
            key: not used; every layer's ``train`` takes one.

        Raises:
            ShapeError: a channel has fewer than two elements, which have no variance.
        """
        y = _check_features("BatchNorm", x, self.scale, rank=2)
        axes = tuple(range(y.ndim - 1))
        z = standardize(y, axes, eps=self.eps) * self.scale + self.shift
        mean, variance = _statistics(stop_gradient(_wide(y)), axes, y.aval)
        return z, attrs.evolve(self, mean=self._mixed(self.mean, mean), variance=self._mixed(self.variance, variance))

    def _mixed(self, old: Array, new: Array) -> Array:
        return astype(self.decay * old + (1 - self.decay) * new, old.dtype)


def _statistics(x: Array, axes: tuple[int, ...], given: Aval) -> tuple[Array, Array]:
    """Return the mean and the variance of samples of each channel."""
    count = math.prod(x.shape[:-1])
    if count < 2:
        raise ShapeError(
            f"BatchNorm: a channel needs two elements or more to train: got {given}; use larger batches, or GroupNorm"
        )
    center = mean(x, axis=axes)
    return center, mean((x - center) ** 2, axis=axes) * (count / (count - 1))


# --- Reparameterised layers: a weight by its direction and length, or over its largest singular value

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
        size = vecdot(_unit(matmul(stop_gradient(w), left)), matmul(w, left))
        weight: Array = getattr(self.inner, self.field)
        return _replace_weight(self.inner, self.field, weight / size)(*args, **kwargs)

    def train(self, x: ArrayLike, key: object = None) -> tuple[Array, SpectralNorm[L]]:
        """Return the output and the layer after one more step of the power method, as every layer's ``train`` does."""
        new = self.refine()
        return new(x), new


def _unit(x: Array) -> Array:
    return x / maximum(vector_norm(x), LEAST)
