"""Linear layers: products with a weight, rows of a table, dropout, elementwise layers and chains of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import methodcaller
from typing import Any, Final, Literal

import attrs
from numpy.typing import DTypeLike

from afx.core import Array, ArrayLike, aval_of, checked_shape, integer
from afx.errors import ArgumentError, DtypeError, ShapeError
from afx.nn.activations import leaky_relu
from afx.nn.initializers import Initializer, Seed, glorot_uniform, he_normal, key_of, normal
from afx.nn.layers import layer, train
from afx.ops import arange, asarray, astype, equal, expand_dims, full, less, matmul, maximum, take, where, zeros
from afx.ops.nn.activations import relu, scale_kept
from afx.ops.reductions.sums import any as any_, max as max_, sum as sum_
from afx.pytree import static
from afx.random import bits, split
from afx.transforms._arguments import check_callable

__all__ = ["MLP", "Dropout", "Embedding", "EmbeddingBag", "Identity", "Linear", "PReLU", "Sequential", "one_hot"]

# --- Dropout: noise that multiplies by 0 or more

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
        keep_mask = less(bits(key, shape), min(round((1 - self.rate) * WORDS), WORDS - 1))
        return scale_kept(y, keep_mask.astype(y.dtype) / (1 - self.rate))

    def train(self, x: ArrayLike, key: Array | None) -> tuple[Array, Dropout]:
        """Return x with elements dropped, and the layer, as every layer's ``train`` does.

        Raises:
            ArgumentError: there is no key to draw from.
        """
        if key is None and self.rate:
            raise ArgumentError("Dropout: training draws numbers: got no key; give one, as in model.train(x, key)")
        return self(x, key), self


# --- Linear layers


def _sizes(who: str, **sizes: int) -> tuple[int, ...]:
    """Return sizes that are integers of 1 or more."""
    for name, size in sizes.items():
        if integer(size, who, name) < 1:
            raise ArgumentError(f"{who}: {name} is 1 or more: got {size}; give the length of an axis")
    return checked_shape(tuple(sizes.values()), who)


@layer
@attrs.frozen
class Linear:
    """``x @ weight + bias``.

    Attributes:
        weight: float[inputs, outputs].
        bias: float[outputs], or None.

    >>> Linear.create(0, 3, 2)(afx.ones((5, 3))).shape
    (5, 2)
    """

    weight: Array
    bias: Array | None

    @classmethod
    def create(
        cls, seed: Seed, inputs: int, outputs: int, *, bias: bool = True, init: Initializer = glorot_uniform
    ) -> Linear:
        """Return a layer with drawn weights and a bias of zeros, or without one."""
        shape = _sizes("Linear", inputs=inputs, outputs=outputs)
        return cls(init(seed, shape), zeros(outputs) if bias else None)

    def __call__(self, x: ArrayLike) -> Array:
        """Return float[..., outputs] for float[..., inputs].

        Raises:
            ShapeError: x has other than ``inputs`` features.
        """
        try:
            z = matmul(x, self.weight)
        except ShapeError:
            raise self._misfit(x) from None
        return z if self.bias is None else z + self.bias

    def _misfit(self, x: ArrayLike) -> ShapeError:
        """Return the error about an operand of another number of features, which names this layer."""
        a, w = aval_of(x, "Linear"), aval_of(self.weight, "Linear")
        inputs, outputs = w.shape[-2:]
        has = a.shape[-1] if a.shape else "no"
        return ShapeError(
            f"Linear({inputs}, {outputs}): takes float[..., {inputs}]: got {a}, which has {has} features; "
            f"reshape it, or create the layer with {has if a.shape else 1} inputs"
        )


@layer
@attrs.frozen
class Embedding:
    """A row of numbers for each of a number of things.

    The same table reads out scores by `attend`: weights are tied by one layer called twice, whose gradient is
    the sum of both. (The same array in two fields would be two parameters, which part at the first step.)

    Attributes:
        table: float[things, features].

    >>> Embedding.create(0, 10, 4)(afx.asarray([1, 2])).shape
    (2, 4)
    """

    table: Array

    @classmethod
    def create(cls, seed: Seed, things: int, features: int, *, init: Initializer = normal) -> Embedding:
        """Return a layer with drawn rows."""
        return cls(init(seed, _sizes("Embedding", things=things, features=features)))

    def __call__(self, index: ArrayLike) -> Array:
        """Return float[..., features] for int[...]."""
        a = aval_of(index, "Embedding")
        if a.dtype.kind not in "iu":
            raise DtypeError(f"Embedding: looks up integers: got {a}; use astype(int)")
        return take(self.table, index, axis=0)

    def attend(self, x: ArrayLike) -> Array:
        """Return the product with each row: float[..., things] for float[..., features] (Press & Wolf 2017).

        >>> Embedding.create(0, 10, 4).attend(afx.ones((5, 4))).shape
        (5, 10)
        """
        return matmul(x, self.table.T)


@layer
@attrs.frozen
class EmbeddingBag:
    """A row of numbers for each set of things: the mean, sum or maximum of their rows.

    For bags of all sizes in one vector, `afx.segment_sum` adds the rows of an `Embedding`.

    Attributes:
        table: float[things, features].
        mode: how rows come together.

    >>> EmbeddingBag.create(0, 10, 4)(afx.asarray([[1, 2, 5], [3, 0, 0]]), mask=np.array([[1, 1, 1], [1, 0, 0]]) > 0).shape
    (2, 4)
    """

    table: Array
    mode: Literal["mean", "sum", "max"] = static(default="mean")

    @classmethod
    def create(
        cls,
        seed: Seed,
        things: int,
        features: int,
        *,
        mode: Literal["mean", "sum", "max"] = "mean",
        init: Initializer = normal,
    ) -> EmbeddingBag:
        """Return a layer with drawn rows.

        Raises:
            ArgumentError: another mode.
        """
        if mode not in ("mean", "sum", "max"):
            raise ArgumentError(f"EmbeddingBag: mode is 'mean', 'sum' or 'max': got {mode!r}; choose one")
        return cls(init(seed, _sizes("EmbeddingBag", things=things, features=features)), mode)

    def __call__(self, index: ArrayLike, *, mask: ArrayLike | None = None) -> Array:
        """Return float[..., features] for int[..., things in a bag].

        Args:
            index: the things.
            mask: bool[..., things in a bag], False where a bag is padded; one without any thing gives zeros.

        Raises:
            DtypeError: index holds no integers.
            ShapeError: it has no axis, or the mask another shape.
        """
        rows = Embedding(self.table)(index)
        a = aval_of(index)
        is_used = full(a.shape, True) if mask is None else asarray(mask)
        if not a.ndim or is_used.shape != a.shape:
            raise ShapeError(
                f"EmbeddingBag: index and mask are [..., things]: got {a} and {is_used.aval}; reshape them"
            )
        seen = expand_dims(is_used, -1)
        if self.mode == "max":
            largest = max_(where(seen, rows, -math.inf), axis=-2)
            return where(any_(seen, axis=-2), largest, 0.0)
        total = sum_(where(seen, rows, 0.0), axis=-2)
        return total if self.mode == "sum" else total / maximum(sum_(seen, axis=-2), 1)


def one_hot(index: ArrayLike, classes: int, *, dtype: DTypeLike | None = None) -> Array:
    """Return 1 at each index and 0 elsewhere along a new last axis; an index that is no class gives zeros alone.

    Args:
        index: int[...].
        classes: the length of the new axis.
        dtype: the default dtype, where none is given.

    Raises:
        DtypeError: index holds no integers.
        ShapeError: classes is negative.

    >>> one_hot(afx.asarray([1, 0]), 3)
    Array([[0., 1., 0.],
           [1., 0., 0.]], dtype=float32)
    """
    a = aval_of(index, "one_hot")
    if a.dtype.kind not in "iu":
        raise DtypeError(f"one_hot: needs integers: got {a}; use astype(int)")
    if integer(classes, "one_hot", "classes") < 0:
        raise ShapeError(f"one_hot: classes is a number of 0 or more: got {classes}; give the length of the new axis")
    is_class = equal(expand_dims(asarray(index), -1), arange(classes))
    return astype(is_class, zeros(()).dtype if dtype is None else dtype)


# --- Elementwise layers: nothing at all, and an activation that learns its slope


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


# --- Chains of layers: each gets what the one before returns


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
        pairs = zip(split(key_of(seed), len(sizes) - 1), sizes, sizes[1:], strict=False)
        return cls(tuple([Linear.create(key, a, b, bias=bias, init=init) for key, a, b in pairs]), activation)

    def __call__(self, x: ArrayLike) -> Array:
        """Return float[..., outputs] for float[..., inputs]."""
        y = asarray(x)
        for linear in self.layers[:-1]:
            y = self.activation(linear(y))
        return self.layers[-1](y)
