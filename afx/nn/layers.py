"""Layers: frozen classes of parameters that are called, made by ``create``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import attrs

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import checked_shape
from afx.errors import ArgumentError, ShapeError
from afx.nn.activations import relu
from afx.nn.initializers import Initializer, Seed, glorot_uniform, he_normal, key_of, normal
from afx.ops.creation.creation import asarray, ones, zeros
from afx.ops.indexing.getitem import take
from afx.ops.linalg.products import matmul
from afx.ops.nn.convolution import conv
from afx.ops.nn.normalization import standardize
from afx.pytree import static
from afx.random import split
from afx.transforms._arguments import check_callable

__all__ = ["MLP", "Conv", "Embedding", "LayerNorm", "Linear"]


@attrs.frozen
class Linear:
    """``x @ weight + bias``.

    Attributes:
        weight: float[inputs, outputs].
        bias: float[outputs].

    >>> Linear.create(0, 3, 2)(ones((5, 3))).shape
    (5, 2)
    """

    weight: Array
    bias: Array

    @classmethod
    def create(cls, seed: Seed, inputs: int, outputs: int, *, init: Initializer = glorot_uniform) -> Linear:
        """Return a layer with drawn weights and a bias of zeros."""
        return cls(init(seed, (inputs, outputs)), zeros(outputs))

    def __call__(self, x: ArrayLike) -> Array:
        """Return float[..., outputs] for float[..., inputs]."""
        return matmul(x, self.weight) + self.bias


@attrs.frozen
class Conv:
    """A convolution (cross-correlation) with a bias.

    Attributes:
        kernel: float[*window, channels/groups, out].
        bias: float[out].
        stride: from one position to the next.
        padding: ``"valid"`` or ``"same"``.
        groups: how many groups of channels do not mix.

    >>> Conv.create(0, (3,), 1, 4)(ones((2, 8, 1))).shape
    (2, 6, 4)
    """

    kernel: Array
    bias: Array
    stride: int = static(default=1)
    padding: Literal["valid", "same"] = static(default="valid")
    groups: int = static(default=1)

    @classmethod
    def create(
        cls,
        seed: Seed,
        window: Sequence[int],
        channels: int,
        out: int,
        *,
        stride: int = 1,
        padding: Literal["valid", "same"] = "valid",
        groups: int = 1,
        init: Initializer = he_normal,
    ) -> Conv:
        """Return a layer with drawn kernels and a bias of zeros."""
        if groups < 1 or channels % groups or out % groups:
            raise ArgumentError(
                f"Conv: groups divide channels and outputs: got {channels}, {out} and groups={groups}; take a common divisor"
            )
        kernel = init(seed, (*checked_shape(window, "Conv"), channels // groups, out))
        return cls(kernel, zeros(out), stride, padding, groups)

    def __call__(self, x: ArrayLike) -> Array:
        """Return float[batch, *positions, out] for float[batch, *spatial, channels]."""
        return conv(x, self.kernel, stride=self.stride, padding=self.padding, groups=self.groups) + self.bias


@attrs.frozen
class LayerNorm:
    """Normalisation over the last axis, with a learned scale and shift (Ba et al. 2016).

    Attributes:
        scale: float[features].
        shift: float[features].
        eps: added to the variance.

    >>> LayerNorm.create(3)(ones((2, 3))).shape
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
        y = asarray(x)
        if y.shape[-1:] != self.scale.shape:
            raise ShapeError(
                f"LayerNorm: the last axis has as many features as the scale: got {y.aval} and {self.scale.aval}; "
                "make the layer for that number"
            )
        return standardize(y, eps=self.eps) * self.scale + self.shift


@attrs.frozen
class Embedding:
    """A row of numbers for each of a number of things.

    Attributes:
        table: float[things, features].

    >>> Embedding.create(0, 10, 4)(asarray([1, 2])).shape
    (2, 4)
    """

    table: Array

    @classmethod
    def create(cls, seed: Seed, things: int, features: int, *, init: Initializer = normal) -> Embedding:
        """Return a layer with drawn rows."""
        return cls(init(seed, (things, features)))

    def __call__(self, index: ArrayLike) -> Array:
        """Return float[..., features] for int[...]."""
        return take(self.table, index, axis=0)


@attrs.frozen
class MLP:
    """Linear layers with an activation between them.

    Attributes:
        layers: the layers.
        activation: applied behind each but the last.

    >>> MLP.create(0, [3, 8, 2])(ones((5, 3))).shape
    (5, 2)
    """

    layers: tuple[Linear, ...]
    activation: Callable[[Array], Array] = relu

    @classmethod
    def create(
        cls,
        seed: Seed,
        sizes: Sequence[int],
        *,
        activation: Callable[[Array], Array] = relu,
        init: Initializer = he_normal,
    ) -> MLP:
        """Return layers between these sizes, inputs first, with drawn weights."""
        if len(checked_shape(sizes, "MLP")) < 2:
            raise ArgumentError(f"MLP: needs the sizes of inputs and outputs: got {sizes}; give two sizes or more")
        check_callable(activation, "MLP")
        keys = split(key_of(seed), len(sizes) - 1)
        pairs = zip(keys, sizes, sizes[1:], strict=False)
        return cls(tuple([Linear.create(key, a, b, init=init) for key, a, b in pairs]), activation)

    def __call__(self, x: ArrayLike) -> Array:
        """Return float[..., outputs] for float[..., inputs]."""
        y = asarray(x)
        for layer in self.layers[:-1]:
            y = self.activation(layer(y))
        return self.layers[-1](y)
