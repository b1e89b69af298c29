"""Chains of layers: each gets what the one before returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import methodcaller
from typing import Any

import attrs

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import checked_shape
from afx.errors import ArgumentError
from afx.nn.activations import relu
from afx.nn.initializers import Initializer, Seed, he_normal, key_of
from afx.nn.layer import layer
from afx.nn.linear import Linear
from afx.nn.training import train
from afx.ops.creation.creation import asarray
from afx.random import split
from afx.transforms._arguments import check_callable

__all__ = ["MLP", "Sequential"]


@layer
@attrs.frozen(init=False)
class Sequential:
    """Layers and functions, called one after the other.

    Layers that work differently in training (`Dropout`, `BatchNorm`, one's own) have a method
    ``train(x, key) -> (output, new layer)``; `train` of the chain calls it.

    Attributes:
        layers: callables of one array.

    >>> model = Sequential(afx.nn.Linear.create(0, 3, 8), afx.nn.relu, afx.nn.Dropout(0.1), afx.nn.Linear.create(1, 8, 2))
    >>> model(afx.ones((5, 3))).shape
    (5, 2)
    >>> y, model = model.train(afx.ones((5, 3)), afx.random.key(0))
    """

    layers: tuple[Callable[..., Any], ...]

    def __init__(self, *layers: Callable[..., Any]) -> None:
        """Chain layers, first to last."""
        for k, item in enumerate(layers):
            if isinstance(item, list | tuple):
                raise ArgumentError("Sequential: takes layers, not a list of them; write nn.Sequential(*layers)")
            if isinstance(item, type):
                name = item.__name__
                raise ArgumentError(f"Sequential: layer {k} is a class: got {name}; write nn.{name}.create(key, …)")
            check_callable(item, f"Sequential: layer {k}")
        self.__attrs_init__(layers)  # pyright: ignore[reportAttributeAccessIssue,reportUnknownMemberType]  # attrs writes it

    def __call__(self, x: ArrayLike) -> Array:
        """Return the output in evaluation: nothing is dropped, running statistics are used."""
        for item in self.layers:
            x = item(x)
        return asarray(x)

    def train(self, x: ArrayLike, key: Array | None = None) -> tuple[Array, Sequential]:
        """Return the output in training and the chain of new layers.

        Args:
            x: what the first layer takes.
            key: a random key, split among the layers; None where no layer draws. Layers inside of classes without
                ``train`` get theirs as `afx.nn.train` gives them.
        """
        keys = [None] * len(self.layers) if key is None else split(key, max(len(self.layers), 1))
        layers: list[Any] = []
        for item, own in zip(self.layers, keys, strict=False):
            step = getattr(item, "train", None)
            x, new = train(methodcaller("__call__", x), item, own) if step is None else step(x, own)
            layers.append(new)
        return asarray(x), Sequential(*layers)


@layer
@attrs.frozen
class MLP:
    """Linear layers with an activation between them.

    Attributes:
        layers: the layers.
        activation: applied behind each but the last.

    >>> MLP.create(0, [3, 8, 2])(afx.ones((5, 3))).shape
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
        bias: bool = True,
        init: Initializer = he_normal,
    ) -> MLP:
        """Return layers between these sizes, inputs first, with drawn weights."""
        if len(checked_shape(sizes, "MLP")) < 2:
            raise ArgumentError(f"MLP: needs the sizes of inputs and outputs: got {sizes}; give two sizes or more")
        check_callable(activation, "MLP")
        keys = split(key_of(seed), len(sizes) - 1)
        pairs = zip(keys, sizes, sizes[1:], strict=False)
        return cls(tuple([Linear.create(key, a, b, bias=bias, init=init) for key, a, b in pairs]), activation)

    def __call__(self, x: ArrayLike) -> Array:
        """Return float[..., outputs] for float[..., inputs]."""
        y = asarray(x)
        for linear in self.layers[:-1]:
            y = self.activation(linear(y))
        return self.layers[-1](y)
