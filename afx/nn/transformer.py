"""Transformer blocks: attention and a small net in turn, each beside a shortcut."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from afx.core.array.array import Array, ArrayLike
from afx.nn.activations import gelu
from afx.nn.attention import MultiHeadAttention
from afx.nn.dropout import Dropout
from afx.nn.initializers import Initializer, Seed, glorot_uniform, key_of
from afx.nn.key_value_cache import KeyValueCache
from afx.nn.layer import layer
from afx.nn.linear import Linear
from afx.nn.normalization import LayerNorm
from afx.ops.creation.creation import asarray
from afx.random import split

__all__ = ["DecoderBlock", "TransformerBlock"]


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
        return cls(
            LayerNorm.create(features),
            attention,
            LayerNorm.create(features),
            Linear.create(second, features, hidden, bias=bias, init=init),
            Linear.create(third, hidden, features, bias=bias, init=init),
            Dropout(dropout),
            activation,
        )

    def __call__(self, x: ArrayLike, *, mask: ArrayLike | None = None, key: Array | None = None) -> Array:
        """Return float[..., steps, features]; mask and key are those of `MultiHeadAttention`."""
        inside, behind, last = (None, None, None) if key is None else split(key, 3)
        return self.transform(self.attend(x, (inside, behind), mask=mask), last)

    def attend(
        self, x: ArrayLike, keys: tuple[Array | None, Array | None] = (None, None), *, mask: ArrayLike | None = None
    ) -> Array:
        """Return ``x + attention(norm(x))``, the first part of the block; keys are those of its two dropouts."""
        y, (inside, behind) = asarray(x), keys
        return y + self.dropout(self.attention(self.attention_norm(y), mask=mask, key=inside), behind)

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
        first, second, inside, behind, last = (None,) * 5 if key is None else split(key, 5)
        y = self.block.attend(x, (first, second), mask=mask)
        z = self.cross(self.cross_norm(y), context, mask=context_mask, key=inside)
        return self.block.transform(y + self.block.dropout(z, behind), last)

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
