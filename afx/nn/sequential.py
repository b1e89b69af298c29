"""Chains of layers: each gets what the one before returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import checked_shape
from afx.errors import ArgumentError
from afx.nn.activations import relu
from afx.nn.initializers import Initializer, Seed, he_normal, key_of
from afx.nn.layer import layer, path_in_training
from afx.nn.linear import Linear
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
            key: a random key, split among the layers; None where no layer draws.

        Raises:
            ArgumentError: a layer without ``train`` holds one that has it, and would leave it in evaluation.
        """
        keys = [None] * len(self.layers) if key is None else split(key, max(len(self.layers), 1))
        layers: list[Any] = []
        for item, own in zip(self.layers, keys, strict=False):
            train = getattr(item, "train", None)
            if train is None:
                _check_use(item, len(layers))
            x, new = (item(x), item) if train is None else train(x, own)
            layers.append(new)
        return asarray(x), Sequential(*layers)


def _check_use(item: Any, k: int) -> None:
    """Raise where a layer that has no ``train`` holds one that works differently in training."""
    path = path_in_training(item)
    if path is not None:
        name = item.__name__ if hasattr(item, "__name__") else type(item).__name__
        raise ArgumentError(
            f"Sequential.train: layer {k} holds a layer that works differently in training, and has no train itself: got "
            f"{name}{path}; write its method train(self, x, key), which calls self{path}.train and returns the output and "
            "the new layer"
        )


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
