"""Linear layers: products with a weight, and rows of a table."""

from __future__ import annotations

import math
from typing import Literal

import attrs
from numpy.typing import DTypeLike

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import aval_of, checked_shape, integer
from afx.errors import ArgumentError, DtypeError, ShapeError
from afx.nn.initializers import Initializer, Seed, glorot_uniform, normal
from afx.nn.layer import layer
from afx.ops.creation.creation import asarray, full, zeros
from afx.ops.creation.ranges import arange
from afx.ops.elementwise.comparison import equal
from afx.ops.elementwise.where import maximum, where
from afx.ops.indexing.getitem import take
from afx.ops.linalg.products import matmul
from afx.ops.manipulation.shape import astype, expand_dims
from afx.ops.reductions.boolean import any as any_
from afx.ops.reductions.sums import max as max_
from afx.ops.reductions.sums import sum as sum_
from afx.pytree import static

__all__ = ["Embedding", "EmbeddingBag", "Linear", "one_hot"]


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
        kept = full(a.shape, True) if mask is None else asarray(mask)
        if not a.ndim or kept.shape != a.shape:
            raise ShapeError(f"EmbeddingBag: index and mask are [..., things]: got {a} and {kept.aval}; reshape them")
        seen = expand_dims(kept, -1)
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
    found = equal(expand_dims(asarray(index), -1), arange(classes))
    return astype(found, zeros(()).dtype if dtype is None else dtype)
