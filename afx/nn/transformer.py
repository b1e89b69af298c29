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

__all__ = ["TransformerBlock"]


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
        y = asarray(x)
        inside, behind, last = (None, None, None) if key is None else split(key, 3)
        y = y + self.dropout(self.attention(self.attention_norm(y), mask=mask, key=inside), behind)
        return y + self.dropout(self._net(y), last)

    def _net(self, y: Array) -> Array:
        return self.contract(self.activation(self.expand(self.net_norm(y))))

    def decode(self, x: ArrayLike, cache: KeyValueCache) -> tuple[Array, KeyValueCache]:
        """Return the outputs of the next steps, and the cache with them, as `MultiHeadAttention.decode` does.

        Args:
            x: float[..., steps, features], one step or several; those before are in the cache.
            cache: from ``attention.make_cache``, or of the call before.
        """
        y = asarray(x)
        z, cache = self.attention.decode(self.attention_norm(y), cache)
        y = y + z
        return y + self._net(y), cache

    def train(self, x: ArrayLike, key: Array | None = None) -> tuple[Array, TransformerBlock]:
        """Return the output in training, and the block, as every layer's ``train`` does."""
        return self(x, key=key), self
