"""Attention: averages of values by the likeness of queries and keys, its cache for decoding, transformer blocks."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial

import attrs

from afx.control.scan import scan
from afx.core import Array, ArrayLike, Aval, DType, Shown, aval_of, broadcast_shapes, float16, float32, int64, integer
from afx.errors import ArgumentError, DtypeError, ShapeError
from afx.nn.activations import gelu
from afx.nn.initializers import Initializer, Seed, glorot_uniform, key_of
from afx.nn.layers import layer
from afx.nn.linear import Dropout, Linear
from afx.nn.normalization import LayerNorm
from afx.ops import arange, asarray, concat, cos, matmul, moveaxis, pad, sin, stack, where, zeros
from afx.ops.manipulation.shape import astype, broadcast_to, expand_dims, reshape
from afx.ops.nn.activations import softmax
from afx.pytree import static
from afx.random import fold_in, split
from afx.transforms.checkpoint import checkpoint
from afx.transforms.compile.jit import jit

__all__ = ["DecoderBlock", "KeyValueCache", "MultiHeadAttention", "TransformerBlock", "dot_product_attention", "rotary"]

# --- Key-value cache: keys and values of the steps so far, so that decoding computes each of them once


@layer
@attrs.frozen
class KeyValueCache(Shown):
    """Keys and values of an attention layer, with room for steps to come; made by `MultiHeadAttention.make_cache`.

    A value like any other: decoding returns a new one, and the old one still holds the steps before.

    Attributes:
        keys: float[..., groups, 1, capacity, features].
        values: likewise.
        length: int64[], how many steps are taken.
    """

    keys: Array
    values: Array
    length: Array

    @classmethod
    def create(cls, shape: tuple[int, ...], capacity: int, features: int, dtype: DType) -> KeyValueCache:
        """Return an empty cache for keys and values float[*shape, steps, features]."""
        if integer(capacity, "KeyValueCache", "capacity") < 1:
            raise ArgumentError(f"KeyValueCache: room for at least one step: got {capacity}; give the longest sequence")
        empty = zeros((*shape, capacity, features), dtype)
        return cls(empty, empty, asarray(0, int64))

    def positions(self, steps: int) -> Array:
        """Return the positions of the next steps."""
        return self.length + arange(steps, dtype=int64)

    def extend(self, keys: Array, values: Array) -> KeyValueCache:
        """Return the cache with some more steps.

        Raises:
            IndexRangeError: it is full.
        """
        where = self.positions(keys.shape[-2])
        return KeyValueCache(
            self.keys.at[..., where, :].set(keys),
            self.values.at[..., where, :].set(values),
            self.length + keys.shape[-2],
        )

    def visible(self, steps: int) -> Array:
        """Return bool[steps, capacity]: what each of the next steps may see, itself among it."""
        return arange(self.keys.shape[-2], dtype=int64) <= expand_dims(self.positions(steps), -1)


# --- Attention: averages of values by the likeness of queries and keys, rotary positions, many heads

BLOCK_SCORES = 1 << 20  # scores of one example and head, beyond which queries are taken in blocks: 4 MB of float32


def dot_product_attention(
    query: ArrayLike,
    key: ArrayLike,
    value: ArrayLike,
    *,
    mask: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    causal: bool = False,
    scale: float | None = None,
    dropout: float = 0.0,
    dropout_key: Array | None = None,
    block: int | None = None,
) -> Array:
    """Return ``softmax(scale · query @ keyᵀ + bias) @ value`` (Vaswani et al. 2017, equation 1).

    Long sequences are computed in blocks of queries, and once more in the backward pass, so that neither ever holds
    the whole matrix of scores. A query that may see no key at all gets zeros.

    Args:
        query: float[..., queries, features].
        key: float[..., keys, features].
        value: float[..., keys, outputs].
        mask: bool[..., queries, keys], True where a query may see a key; it broadcasts.
        bias: float[..., queries, keys], added to the scores.
        causal: lets query i see the keys 0 to i alone.
        scale: of the scores; 1/√features without one.
        dropout: the probability with which a weight is dropped.
        dropout_key: the random key to drop by; None in evaluation, which drops nothing.
        block: the number of queries computed together; without one all up to 2²⁰ scores, and blocks of so many beyond.

    Returns:
        float[..., queries, outputs].

    Raises:
        ShapeError: the axes do not fit.
        DtypeError: the mask is not boolean (numbers that are added are a bias).
        ArgumentError: dropout or block out of its range.

    >>> x = afx.ones((2, 5, 4))
    >>> dot_product_attention(x, x, x, causal=True).shape
    (2, 5, 4)
    """
    q, k, v = _operands(query, key, value)
    allowed, added = (None if m is None else asarray(m) for m in (mask, bias))
    _check_masks(allowed, added, q.aval, k.aval)
    factor = 1 / math.sqrt(max(q.shape[-1], 1)) if scale is None else scale
    size = _block_size(block, q.shape[-2], k.shape[-2])
    rate = Dropout(dropout)
    if size >= q.shape[-2]:
        z = _attend(q * factor, k, v, allowed, added, dropout_key, 0, causal=causal, rate=rate)
    else:
        z = _make_attention(causal, rate, size)(q * factor, k, v, allowed, added, dropout_key)
    return astype(z, float16) if aval_of(query).dtype == float16 else z


def _attend(
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None,
    bias: Array | None,
    key: Array | None,
    start: ArrayLike,
    *,
    causal: bool,
    rate: Dropout,
) -> Array:
    """Return the outputs of some queries, of which the first is query ``start``."""
    scores = matmul(q, k.mT)
    if bias is not None:
        scores = scores + bias
    if causal:
        seen = arange(k.shape[-2]) <= expand_dims(arange(q.shape[-2]) + start, -1)
        mask = seen if mask is None else seen & mask
    if mask is not None:
        scores = where(mask, scores, -math.inf)
    return matmul(rate(softmax(scores), key), v)


def _operands(query: ArrayLike, key: ArrayLike, value: ArrayLike) -> list[Array]:
    """Return arrays whose axes fit, float16 as float32: sums of products would lose digits."""
    q, k, v = avals = [aval_of(x, "dot_product_attention") for x in (query, key, value)]
    if min(a.ndim for a in avals) < 2 or q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ShapeError(
            "dot_product_attention: axes do not fit [..., queries, features], [..., keys, features] and "
            f"[..., keys, outputs]: got {q}, {k} and {v}; move the axes"
        )
    if broadcast_shapes([a.shape[:-2] for a in avals]) is None:
        raise ShapeError(f"dot_product_attention: leading axes do not broadcast: got {q}, {k} and {v}; insert axes")
    return [
        astype(x, float32) if a.dtype == float16 else asarray(x)
        for x, a in zip((query, key, value), avals, strict=True)
    ]


def _check_masks(mask: Array | None, bias: Array | None, q: Aval, k: Aval) -> None:
    if mask is not None and mask.dtype.kind != "b":
        raise DtypeError(
            f"dot_product_attention: a mask is True where a query may see a key: got {mask.aval}; use astype(bool), or "
            "bias= for numbers to add"
        )
    scores = (q.shape[-2], k.shape[-2])
    for name, given in (("mask", mask), ("bias", bias)):
        if given is not None and broadcast_shapes([given.shape[-2:], scores]) != scores:
            raise ShapeError(
                f"dot_product_attention: {name} is [..., queries, keys]: got {given.aval} for {scores[0]} queries and "
                f"{scores[1]} keys; insert axes of length 1 to broadcast"
            )


def _block_size(block: int | None, queries: int, keys: int) -> int:
    if block is None:
        return queries if queries * keys <= BLOCK_SCORES else max(BLOCK_SCORES // keys, 16)
    if integer(block, "dot_product_attention", "block") < 1:
        raise ArgumentError(f"dot_product_attention: block is a number of queries: got {block}; give 1 or more")
    return block


@lru_cache(maxsize=64)
def _make_attention(causal: bool, rate: Dropout, size: int) -> Callable[..., Array]:
    """Return the function that attends with some queries at a time; reverse mode computes each block again.

    It is compiled: a tape would keep every block's mask.
    """
    return jit(partial(_attend_in_blocks, partial(_attend, causal=causal, rate=rate), size))


def _attend_in_blocks(
    attend: Callable[..., Array],
    size: int,
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None,
    bias: Array | None,
    key: Array | None,
) -> Array:
    """Attend with ``size`` queries at a time, so that the scores of all never stand in memory together."""
    length = q.shape[-2]
    count = -(-length // size)

    def blocks(x: Array | None) -> Array | None:
        """Return [blocks, ..., size, last axis]; what has one row for all queries broadcasts."""
        if x is None:
            return None
        if x.ndim < 2 or x.shape[-2] == 1:
            return broadcast_to(expand_dims(x, 0), (count, *x.shape))
        padded = pad(x, [*([(0, 0)] * (x.ndim - 2)), (0, count * size - length), (0, 0)])
        return moveaxis(reshape(padded, (*x.shape[:-2], count, size, x.shape[-1])), -3, 0)

    @checkpoint
    def block(rows: Array, allowed: Array | None, added: Array | None, number: Array) -> Array:
        return attend(rows, k, v, allowed, added, None if key is None else fold_in(key, number), number * size)

    _, z = scan(lambda carry, xs: (carry, block(*xs)), None, (blocks(q), blocks(mask), blocks(bias), arange(count)))
    return reshape(moveaxis(z, 0, -3), (*z.shape[1:-2], count * size, z.shape[-1]))[..., :length, :]


def rotary(
    x: ArrayLike, positions: ArrayLike | None = None, *, base: float = 10_000.0, interleaved: bool = False
) -> Array:
    """Return pairs of features turned by angles that grow with the position (Su et al. 2021, equation 34).

    Products of turned queries and keys depend on the distance of their positions alone.

    Args:
        x: float[..., length, features], an even number of features.
        positions: float[length]; 0, 1, … without them.
        base: pair j of p turns by ``position · base^(-j/p)``.
        interleaved: pairs neighbours, as the paper does; otherwise feature j and feature j + p, as most models do.

    Raises:
        ShapeError: the features are no pairs, or positions do not fit.

    >>> rotary(afx.ones((3, 2)))[0]
    Array([1., 1.], dtype=float32)
    """
    a = aval_of(x, "rotary")
    if a.ndim < 2 or a.shape[-1] % 2:
        raise ShapeError(f"rotary: x is [..., length, features] with an even number of features: got {a}; pad it")
    y, pairs = asarray(x), a.shape[-1] // 2
    places = arange(a.shape[-2]) if positions is None else asarray(positions)
    if places.shape[-1:] != a.shape[-2:-1]:
        raise ShapeError(f"rotary: a position for each step: got {places.aval} for {a}; give float[length]")
    speed = base ** (arange(pairs, dtype=y.dtype) / -max(pairs, 1))
    angle = expand_dims(astype(places, y.dtype), -1) * speed
    c, s = cos(angle), sin(angle)
    first, second = (y[..., 0::2], y[..., 1::2]) if interleaved else (y[..., :pairs], y[..., pairs:])
    parts = (first * c - second * s, first * s + second * c)
    return reshape(stack(parts, axis=-1), a.shape) if interleaved else concat(parts, axis=-1)


@layer
@attrs.frozen
class MultiHeadAttention:
    """Attention of several heads side by side (Vaswani et al. 2017, section 3.2.2).

    Attributes:
        query: float[features] to the heads' queries.
        key: to their keys.
        value: to their values.
        out: from all heads' outputs back to the features.
        heads: how many heads the queries have.
        shared: how many of these share keys and values (grouped queries, Ainslie et al. 2023); 1 for none.
        causal: a step sees itself and those before it alone.
        rotary: turns queries and keys by their positions.
        dropout: the probability with which a weight is dropped in training.

    >>> MultiHeadAttention.create(0, 8, 2)(afx.ones((3, 5, 8))).shape
    (3, 5, 8)
    """

    query: Linear
    key: Linear
    value: Linear
    out: Linear
    heads: int
    shared: int = 1
    causal: bool = False
    rotary: bool = False
    dropout: float = static(default=0.0)

    @classmethod
    def create(
        cls,
        seed: Seed,
        features: int,
        heads: int,
        *,
        context: int | None = None,
        shared: int = 1,
        causal: bool = False,
        rotary: bool = False,
        dropout: float = 0.0,
        bias: bool = True,
        init: Initializer = glorot_uniform,
    ) -> MultiHeadAttention:
        """Return a layer with drawn weights; ``context`` is the number of features of another sequence to look at.

        Raises:
            ArgumentError: heads do not divide the features, or ``shared`` the heads.
        """
        if heads < 1 or features % heads or shared < 1 or heads % shared:
            raise ArgumentError(
                f"MultiHeadAttention: heads divide features, and shared divides heads: got {features=}, {heads=} and "
                f"{shared=}; write nn.MultiHeadAttention.create(key, features, heads)"
            )
        if rotary and features // heads % 2:
            raise ArgumentError(
                f"MultiHeadAttention: rotary turns pairs: got {features // heads} features a head; pad them"
            )
        keys = split(key_of(seed), 4)
        inputs = features if context is None else context
        sizes = ((features, features), (inputs, features // shared), (inputs, features // shared), (features, features))
        q, k, v, out = [Linear.create(key, *size, bias=bias, init=init) for key, size in zip(keys, sizes, strict=True)]
        return cls(q, k, v, out, heads, shared, causal, rotary, Dropout(dropout).rate)

    def __call__(
        self, x: ArrayLike, context: ArrayLike | None = None, *, mask: ArrayLike | None = None, key: Array | None = None
    ) -> Array:
        """Return float[..., steps, features] for float[..., steps, features].

        Args:
            x: the sequence that asks.
            context: float[..., keys, features], the sequence that answers; x without one.
            mask: bool[steps, keys] or bool[..., steps, keys], True where a step may see a key.
            key: a random key for dropout; None in evaluation.
        """
        y = self._checked(x)
        q, k, v = self._project(y, y if context is None else asarray(context))
        if self.rotary:
            q, k = rotary(q), rotary(k)
        allowed = None if mask is None else asarray(mask)
        if allowed is not None and allowed.ndim > 2:
            allowed = expand_dims(expand_dims(allowed, -3), -3)
        return self._merge(
            dot_product_attention(q, k, v, mask=allowed, causal=self.causal, dropout=self.dropout, dropout_key=key)
        )

    def make_cache(self, capacity: int, batch: tuple[int, ...] = ()) -> KeyValueCache:
        """Return an empty cache for `decode`.

        Args:
            capacity: the longest sequence.
            batch: the leading axes of what is decoded.
        """
        features = self.key.weight.shape[-1] * self.shared // self.heads
        return KeyValueCache.create((*batch, self.heads // self.shared, 1), capacity, features, self.key.weight.dtype)

    def decode(self, x: ArrayLike, cache: KeyValueCache) -> tuple[Array, KeyValueCache]:
        """Return the outputs of the next steps, and the cache with them: what a call on the whole sequence would give.

        Args:
            x: float[..., steps, features], one step or several; those before are in the cache.
            cache: from `make_cache`, or of the call before.

        Raises:
            ArgumentError: the layer is not causal.
            IndexRangeError: the cache is full.

        >>> attention = MultiHeadAttention.create(0, 8, 2, causal=True)
        >>> y, cache = attention.decode(afx.ones((3, 1, 8)), attention.make_cache(10, (3,)))
        >>> y.shape, int(cache.length)
        ((3, 1, 8), 1)
        """
        if not self.causal:
            raise ArgumentError(
                "MultiHeadAttention: decoding sees no later steps: got causal=False; make the layer with causal=True"
            )
        y = self._checked(x)
        q, k, v = self._project(y, y)
        steps = y.shape[-2]
        if self.rotary:
            q, k = rotary(q, cache.positions(steps)), rotary(k, cache.positions(steps))
        seen, cache = cache.visible(steps), cache.extend(k, v)
        return self._merge(dot_product_attention(q, cache.keys, cache.values, mask=seen)), cache

    def _checked(self, x: ArrayLike) -> Array:
        y = asarray(x)
        if y.ndim < 2:
            raise ShapeError(f"MultiHeadAttention: x is [..., steps, features]: got {y.aval}; insert an axis")
        return y

    def _project(self, x: Array, source: Array) -> tuple[Array, Array, Array]:
        """Return the queries of x, and keys and values of the source, by heads."""
        groups = self.heads // self.shared
        q = self._split(self.query(x), (groups, self.shared))
        return q, self._split(self.key(source), (groups, 1)), self._split(self.value(source), (groups, 1))

    def _merge(self, z: Array) -> Array:
        """Return the output for float[..., groups, shared, steps, outputs] of all heads."""
        merged = moveaxis(z, -2, -4)
        return self.out(reshape(merged, (*merged.shape[:-3], self.out.weight.shape[0])))

    def _split(self, x: Array, heads: tuple[int, int]) -> Array:
        """Return float[..., groups, shared, steps, features a head] from the features of all heads side by side."""
        parts = reshape(x, (*x.shape[:-1], *heads, x.shape[-1] // math.prod(heads)))
        return moveaxis(parts, -4, -2)

    def train(
        self, x: ArrayLike, key: Array | None = None, context: ArrayLike | None = None, *, mask: ArrayLike | None = None
    ) -> tuple[Array, MultiHeadAttention]:
        """Return the output in training, and the layer, as every layer's ``train`` does."""
        return self(x, context, mask=mask, key=key), self


# --- Transformer blocks: attention and a small net in turn, each beside a shortcut


@layer
@attrs.frozen
class TransformerBlock:
    """``x + attention(norm(x))``, then ``x + contract(activation(expand(norm(x))))``.

    Norms stand in front of each part (Xiong et al. 2020): such stacks train without a warm-up. Behind the last block
    comes a `LayerNorm`.

    Attributes:
        attention_norm: in front of the attention.
        attention: of the steps among each other.
        net_norm: in front of the net.
        expand: from features to hidden features.
        contract: back.
        dropout: behind both parts, in training.
        activation: between expand and contract.

    >>> TransformerBlock.create(0, 8, 2, causal=True)(afx.ones((3, 5, 8))).shape
    (3, 5, 8)
    """

    attention_norm: LayerNorm
    attention: MultiHeadAttention
    net_norm: LayerNorm
    expand: Linear
    contract: Linear
    dropout: Dropout
    activation: Callable[[Array], Array] = gelu

    @classmethod
    def create(
        cls,
        seed: Seed,
        features: int,
        heads: int,
        *,
        hidden: int | None = None,
        causal: bool = False,
        rotary: bool = False,
        dropout: float = 0.0,
        bias: bool = True,
        activation: Callable[[Array], Array] = gelu,
        init: Initializer = glorot_uniform,
    ) -> TransformerBlock:
        """Return a block with drawn weights; four times as many hidden features as features by default."""
        first, second, third = split(key_of(seed), 3)
        hidden = 4 * features if hidden is None else hidden
        attention = MultiHeadAttention.create(
            first, features, heads, causal=causal, rotary=rotary, dropout=dropout, bias=bias, init=init
        )
        up = Linear.create(second, features, hidden, bias=bias, init=init)
        down = Linear.create(third, hidden, features, bias=bias, init=init)
        return cls(
            LayerNorm.create(features), attention, LayerNorm.create(features), up, down, Dropout(dropout), activation
        )

    def __call__(self, x: ArrayLike, *, mask: ArrayLike | None = None, key: Array | None = None) -> Array:
        """Return float[..., steps, features]; mask and key are those of `MultiHeadAttention`."""
        attention_key, dropout_key, last = (None, None, None) if key is None else split(key, 3)
        return self.transform(self.attend(x, (attention_key, dropout_key), mask=mask), last)

    def attend(
        self, x: ArrayLike, keys: tuple[Array | None, Array | None] = (None, None), *, mask: ArrayLike | None = None
    ) -> Array:
        """Return ``x + attention(norm(x))``, the first part of the block; keys are those of its two dropouts."""
        y, (attention_key, dropout_key) = asarray(x), keys
        return y + self.dropout(self.attention(self.attention_norm(y), mask=mask, key=attention_key), dropout_key)

    def transform(self, x: Array, key: Array | None = None) -> Array:
        """Return ``x + contract(activation(expand(norm(x))))``, the second part."""
        return x + self.dropout(self.contract(self.activation(self.expand(self.net_norm(x)))), key)

    def decode(self, x: ArrayLike, cache: KeyValueCache) -> tuple[Array, KeyValueCache]:
        """Return the outputs of the next steps, and the cache with them, as `MultiHeadAttention.decode` does.

        Args:
            x: float[..., steps, features], one step or several; those before are in the cache.
            cache: from ``attention.make_cache``, or of the call before.
        """
        y = asarray(x)
        z, cache = self.attention.decode(self.attention_norm(y), cache)
        return self.transform(y + z), cache

    def train(
        self, x: ArrayLike, key: Array | None = None, *, mask: ArrayLike | None = None
    ) -> tuple[Array, TransformerBlock]:
        """Return the output in training, and the block, as every layer's ``train`` does."""
        return self(x, mask=mask, key=key), self


@layer
@attrs.frozen
class DecoderBlock:
    """A `TransformerBlock` that also looks at another sequence, between its attention and its net.

    ``x + attention(norm(x))``, then ``x + cross(norm(x), context)``, then the net, as in Vaswani et al. 2017, section 3.1,
    with the norms in front.

    Attributes:
        block: the attention of the steps among each other, and the net.
        cross_norm: in front of the attention to the context.
        cross: the attention to the context.

    >>> DecoderBlock.create(0, 8, 2)(afx.ones((3, 5, 8)), afx.ones((3, 7, 8))).shape
    (3, 5, 8)
    """

    block: TransformerBlock
    cross_norm: LayerNorm
    cross: MultiHeadAttention

    @classmethod
    def create(
        cls,
        seed: Seed,
        features: int,
        heads: int,
        *,
        context: int | None = None,
        hidden: int | None = None,
        causal: bool = True,
        rotary: bool = False,
        dropout: float = 0.0,
        bias: bool = True,
        activation: Callable[[Array], Array] = gelu,
        init: Initializer = glorot_uniform,
    ) -> DecoderBlock:
        """Return a block with drawn weights; ``context`` is the number of features of the other sequence, where it differs."""
        first, second = split(key_of(seed), 2)
        block = TransformerBlock.create(
            first,
            features,
            heads,
            hidden=hidden,
            causal=causal,
            rotary=rotary,
            dropout=dropout,
            bias=bias,
            activation=activation,
            init=init,
        )
        cross = MultiHeadAttention.create(
            second, features, heads, context=context, dropout=dropout, bias=bias, init=init
        )
        return cls(block, LayerNorm.create(features), cross)

    def __call__(
        self,
        x: ArrayLike,
        context: ArrayLike,
        *,
        mask: ArrayLike | None = None,
        context_mask: ArrayLike | None = None,
        key: Array | None = None,
    ) -> Array:
        """Return float[..., steps, features].

        Args:
            x: float[..., steps, features].
            context: float[..., keys, features], the other sequence.
            mask: which steps a step may see, as in `MultiHeadAttention`.
            context_mask: which keys it may see.
            key: a random key for dropout; None in evaluation.
        """
        first, second, attention_key, dropout_key, last = (None,) * 5 if key is None else split(key, 5)
        y = self.block.attend(x, (first, second), mask=mask)
        z = self.cross(self.cross_norm(y), context, mask=context_mask, key=attention_key)
        return self.block.transform(y + self.block.dropout(z, dropout_key), last)

    def decode(self, x: ArrayLike, context: ArrayLike, cache: KeyValueCache) -> tuple[Array, KeyValueCache]:
        """Return the outputs of the next steps and the cache with them, as `TransformerBlock.decode` does."""
        y = asarray(x)
        z, cache = self.block.attention.decode(self.block.attention_norm(y), cache)
        y = y + z
        return self.block.transform(y + self.cross(self.cross_norm(y), context)), cache

    def train(
        self,
        x: ArrayLike,
        key: Array | None,
        context: ArrayLike,
        *,
        mask: ArrayLike | None = None,
        context_mask: ArrayLike | None = None,
    ) -> tuple[Array, DecoderBlock]:
        """Return the output in training, and the block, as every layer's ``train`` does."""
        return self(x, context, mask=mask, context_mask=context_mask, key=key), self
