"""Layers of Equinox: of one example, with its weights, keys and starting values, and the states of those that have some."""

from __future__ import annotations

import copy
import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import numpy as np

from afx import nn, pytree, random
from afx.core import Array, get_default_dtype
from afx.errors import ArgumentError, ShapeError
from afx.migrate.for_jax import draw
from afx.migrate.for_lax import conv_general_dilated, pmean, reduce_window
from afx.migrate.for_trees import put, tree_flatten
from afx.ops.creation.creation import asarray, ones, stop_gradient, zeros
from afx.ops.elementwise.arithmetic import add, sqrt
from afx.ops.elementwise.comparison import maximum, where
from afx.ops.elementwise.exponentials import sigmoid
from afx.ops.elementwise.trigonometry import tanh
from afx.ops.indexing.index import is_sequence
from afx.ops.manipulation.join import stack
from afx.pytree import static
from afx.transforms.vmap import vmap

__all__ = ["BatchNorm", "Dropout", "Linear", "State", "attend", "each"]

np_: Any = np  # NumPy's functions, of Arrays


# --- Layers: fields are Equinox's


def _set(layer: Any, /, **fields: Any) -> None:
    """Set the fields of a frozen layer."""
    for name, value in fields.items():
        object.__setattr__(layer, name, value)


def _uniform(key: Any, shape: tuple[int, ...], dtype: Any, limit: float) -> Array:
    return draw("uniform", key, shape, dtype, -limit, limit)


@attrs.frozen(init=False)
class Linear:
    """A layer ``weight @ x + bias`` of one vector; sizes may be "scalar". Weights are uniform, as Equinox draws them."""

    weight: Array  # [outputs, inputs]
    bias: Array | None
    in_features: Any = static()
    out_features: Any = static()
    use_bias: bool = static()

    def __init__(
        self, in_features: Any, out_features: Any, use_bias: bool = True, dtype: Any = None, *, key: Any
    ) -> None:
        rows, columns = [1 if n == "scalar" else n for n in (out_features, in_features)]
        bound = 1 / math.sqrt(columns) if columns else 1.0
        first, second = random.split(key)
        weight = _uniform(first, (rows, columns), dtype, bound)
        bias = _uniform(second, (rows,), dtype, bound) if use_bias else None
        _set(self, weight=weight, bias=bias, in_features=in_features, out_features=out_features, use_bias=use_bias)

    def __call__(self, x: Any, **_: Any) -> Array:
        """Return the layer's vector."""
        z: Array = self.weight @ (asarray(x).reshape(1) if self.in_features == "scalar" else asarray(x))
        z = z if self.bias is None else z + self.bias
        return z[0] if self.out_features == "scalar" else z


def _identity(x: Array) -> Array:
    return x


@attrs.frozen(init=False)
class MLP:
    """A perceptron of ``depth`` hidden layers, of one vector."""

    layers: tuple[Linear, ...]
    activation: Callable[[Array], Array] = static()
    final_activation: Callable[[Array], Array] = static()
    use_bias: bool = static()
    use_final_bias: bool = static()
    in_size: Any = static()
    out_size: Any = static()
    width_size: int = static()
    depth: int = static()

    def __init__(
        self,
        in_size: Any,
        out_size: Any,
        width_size: int,
        depth: int,
        activation: Callable[[Array], Array] = nn.relu,
        final_activation: Callable[[Array], Array] = _identity,
        use_bias: bool = True,
        use_final_bias: bool = True,
        dtype: Any = None,
        *,
        key: Any,
        **_: Any,
    ) -> None:
        sizes = [in_size, *[width_size] * depth, out_size]
        biases = [*[use_bias] * depth, use_final_bias]
        parts = zip(sizes, sizes[1:], biases, random.split(key, depth + 1), strict=False)
        layers = tuple([Linear(m, n, b, dtype, key=k) for m, n, b, k in parts])
        _set(self, layers=layers, activation=activation, final_activation=final_activation, depth=depth)
        _set(self, use_bias=use_bias, use_final_bias=use_final_bias, width_size=width_size)
        _set(self, in_size=in_size, out_size=out_size)

    def __call__(self, x: Any, **_: Any) -> Array:
        """Return the vector of the last layer."""
        for layer in self.layers[:-1]:
            x = self.activation(layer(x))
        return self.final_activation(self.layers[-1](x))


@attrs.frozen(init=False)
class _Cell:
    """A recurrent cell of so many gates."""

    weight_ih: Array
    weight_hh: Array
    bias: Array | None
    bias_n: Array | None
    input_size: int = static()
    hidden_size: int = static()
    use_bias: bool = static()

    GATES = 4

    def __init__(
        self, input_size: int, hidden_size: int, use_bias: bool = True, dtype: Any = None, *, key: Any
    ) -> None:
        rows, limit = self.GATES * hidden_size, math.sqrt(1 / hidden_size)
        keys = random.split(key, 7 - self.GATES)
        shapes = [(rows, input_size), (rows, hidden_size), *[(n,) for n in (rows, hidden_size)]]
        parts = [_uniform(k, shape, dtype, limit) for k, shape in zip(keys, shapes, strict=False)]
        first, second, *biases = parts if use_bias else parts[:2]
        _set(self, weight_ih=first, weight_hh=second, bias=None, bias_n=None)
        _set(self, **dict(zip(("bias", "bias_n"), biases, strict=False)))
        _set(self, input_size=input_size, hidden_size=hidden_size, use_bias=use_bias)


@attrs.frozen(init=False)
class GRUCell(_Cell):
    """A gated unit (Cho and others 2014)."""

    GATES = 3

    def __call__(self, input: Any, hidden: Any, **_: Any) -> Array:
        """Return the next hidden vector."""
        own, other = [0 if b is None else b for b in (self.bias, self.bias_n)]
        gates = np_.split(self.weight_ih @ asarray(input) + own, 3)
        kept = np_.split(self.weight_hh @ hidden, 3)
        new = tanh(gates[2] + sigmoid(gates[0] + kept[0]) * (kept[2] + other))
        z: Array = new + sigmoid(gates[1] + kept[1]) * (hidden - new)
        return z


@attrs.frozen(init=False)
class LSTMCell(_Cell):
    """A unit with long memory (Hochreiter & Schmidhuber 1997)."""

    def __call__(self, input: Any, hidden: Any, **_: Any) -> tuple[Array, Array]:
        """Return the next hidden vectors."""
        h, c = hidden
        sums = self.weight_ih @ asarray(input) + self.weight_hh @ h + (0 if self.bias is None else self.bias)
        i, f, g, o = np_.split(sums, 4)
        c = sigmoid(f) * c + sigmoid(i) * tanh(g)
        return sigmoid(o) * tanh(c), c


def each(n: int, value: Any) -> tuple[Any, ...]:
    """Return a value for each of n axes."""
    given: tuple[Any, ...] = tuple(value) if is_sequence(value) else (value,) * n
    return given


def _pairs(n: int, padding: Any) -> Any:
    """Return padding before and behind each axis."""
    return padding if isinstance(padding, str) else tuple([each(2, p) for p in each(n, padding)])


@attrs.frozen(init=False)
class Conv:
    """A convolution of [channels, *space]."""

    weight: Array  # [outputs, channels, *window]
    bias: Array | None
    stride: Any = static()
    padding: Any = static()
    dilation: Any = static()
    groups: int = static()
    num_spatial_dims: int = static()
    in_channels: int = static()
    out_channels: int = static()
    kernel_size: Any = static()
    use_bias: bool = static()
    padding_mode: str = static()

    def __init__(
        self,
        num_spatial_dims: int,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        use_bias: bool = True,
        padding_mode: str = "ZEROS",
        dtype: Any = None,
        *,
        key: Any,
    ) -> None:
        if padding_mode.upper() != "ZEROS":
            raise ArgumentError(f"Conv: zeros around: got padding_mode={padding_mode!r}; pad x by afx.pad")
        n = num_spatial_dims
        window = each(n, kernel_size)
        first, second = random.split(key, 2)
        limit = 1 / math.sqrt(in_channels // groups * math.prod(window))
        weight = _uniform(first, (out_channels, in_channels // groups, *window), dtype, limit)
        bias = _uniform(second, (out_channels, *[1] * n), dtype, limit) if use_bias else None
        steps = {"stride": each(n, stride), "padding": _pairs(n, padding), "dilation": each(n, dilation)}
        _set(self, weight=weight, bias=bias, groups=groups, **steps, num_spatial_dims=n, in_channels=in_channels)
        _set(self, out_channels=out_channels, kernel_size=window, use_bias=use_bias, padding_mode=padding_mode.upper())

    def __call__(self, x: Any, **_: Any) -> Array:
        """Return [outputs, *positions]."""
        options = {"rhs_dilation": self.dilation, "feature_group_count": self.groups}
        z = conv_general_dilated(asarray(x)[None], self.weight, self.stride, self.padding, **options)[0]
        return z if self.bias is None else z + self.bias


@attrs.frozen(init=False)
class ConvTranspose(Conv):  # type: ignore[override]  # what sets fields takes more of them
    """A convolution of [channels, *space] with zeros between its elements; ``output_padding`` is the seventh argument."""

    output_padding: Any = static()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        more = kwargs.pop("output_padding", [*args[6:7], 0][0])
        Conv.__init__(self, *args[:6], *args[7:], **kwargs)
        _set(self, output_padding=each(args[0], more))

    def __call__(self, x: Any, **_: Any) -> Array:
        """Return [outputs, *positions]."""
        around: Any = self.padding
        pads, sizes = (
            list[Any](),
            zip(self.weight.shape[2:], self.stride, self.dilation, self.output_padding, strict=True),
        )
        for k, (size, step, gap, more) in enumerate(sizes):
            reach = gap * (size - 1)
            low, high = (0, 0) if isinstance(around, str) else around[k]
            if around == "SAME":
                total = reach - step + more + 1
                low, more = max(total, 0) // 2, max(-total, 0)
                high = max(total, 0) - low
            pads.append((reach - low, reach - high + more))
        z = conv_general_dilated(
            asarray(x)[None], self.weight, [1] * len(pads), pads, self.stride, self.dilation, None, self.groups
        )[0]
        return z if self.bias is None else z + self.bias


@attrs.frozen
class _Pool:
    """A pool of [channels, *space]."""

    is_mean: bool = static()
    num_spatial_dims: int = static()
    kernel_size: Any = static()
    stride: Any = static()
    padding: Any = static()

    def __call__(self, x: Any, **_: Any) -> Array:
        """Return [channels, *positions]."""
        first, fn = (0.0, add) if self.is_mean else (-math.inf, maximum)
        window, steps, pads = (1, *self.kernel_size), (1, *self.stride), ((0, 0), *self.padding)
        z = reduce_window(x, first, fn, window, steps, pads)
        return z / math.prod(window) if self.is_mean else z


def _init_pool(pool: _Pool, n: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, *, is_mean: bool) -> None:
    window, steps, pads = each(n, kernel_size), each(n, stride), _pairs(n, padding)
    _set(pool, is_mean=is_mean, num_spatial_dims=n, kernel_size=window, stride=steps, padding=pads)


@attrs.frozen
class _AdaptivePool:
    """A pool of [channels, *space] to so many positions, of parts whose lengths differ by one at most."""

    operation: Any = static()
    target_shape: Any = static()

    def __call__(self, x: Any, **_: Any) -> Any:
        """Return [channels, *positions]."""
        for axis, n in enumerate(self.target_shape, 1):
            x = np_.stack([self.operation(part, axis) for part in np_.array_split(x, n, axis)], axis)
        return x


def _init_adaptive(pool: _AdaptivePool, n: int, target_shape: Any, *, operation: Any) -> None:
    _set(pool, operation=operation, target_shape=each(n, target_shape))


@functools.cache
def __getattr__(name: str) -> Any:
    """Return the class of a convolution, or a pool, of so many axes."""
    kinds: dict[str, Any] = {
        "Conv": (Conv, Conv.__init__), "ConvTranspose": (ConvTranspose, ConvTranspose.__init__),
        "AvgPool": (_Pool, functools.partial(_init_pool, is_mean=True)),
        "MaxPool": (_Pool, functools.partial(_init_pool, is_mean=False)),
        "AdaptiveAvgPool": (_AdaptivePool, functools.partial(_init_adaptive, operation=np.mean)),
        "AdaptiveMaxPool": (_AdaptivePool, functools.partial(_init_adaptive, operation=np.max)),
    }  # fmt: skip
    kind, n = kinds.get(name[:-2]), name[-2:-1]
    if kind is None or not n.isdigit() or name[-1] != "d":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        kind[1](self, int(n), *args, **kwargs)

    return type(name, (kind[0],), {"__init__": __init__, "__slots__": (), "__module__": __name__})


@attrs.frozen(init=False)
class _Norm:
    """A norm of one example, over all its elements."""

    weight: Array | None
    bias: Array | None
    shape: Any = static()
    eps: float = static()
    use_weight: bool = static()
    use_bias: bool = static()

    def __init__(
        self, shape: Any, eps: float = 1e-5, use_weight: bool = True, use_bias: bool = True, dtype: Any = None
    ) -> None:
        own, kind = each(1, shape), dtype or get_default_dtype()
        weight, bias = ones(own, kind) if use_weight else None, zeros(own, kind) if use_bias else None
        _set(self, weight=weight, bias=bias, shape=own, eps=eps, use_weight=use_weight, use_bias=use_bias)

    def _affine(self, x: Array) -> Array:
        if x.shape != self.shape:
            raise ShapeError(f"{type(self).__name__}: of {self.shape}: got {x.shape}; write afx.vmap(norm)(x)")
        z = x / sqrt((x * x).mean() + self.eps)
        z = z if self.weight is None else self.weight * z
        return z if self.bias is None else z + self.bias


class LayerNorm(_Norm):
    """A norm of mean 0 and variance 1."""

    def __call__(self, x: Any, **_: Any) -> Array:
        """Return an example of the same shape."""
        return self._affine(asarray(x) - asarray(x).mean())


class RMSNorm(_Norm):
    """A norm of mean square 1."""

    def __call__(self, x: Any, **_: Any) -> Array:
        """Return an example of the same shape."""
        return self._affine(asarray(x))


@attrs.frozen(init=False)
class GroupNorm:
    """A norm of [channels, *space], in each group of channels."""

    weight: Array | None
    bias: Array | None
    groups: int = static()
    channels: int | None = static()
    eps: float = static()
    channelwise_affine: bool = static()

    def __init__(
        self, groups: int, channels: int | None = None, eps: float = 1e-5, channelwise_affine: bool = True,
        dtype: Any = None,
    ) -> None:  # fmt: skip
        shape, kind = (channels or 0,), dtype or get_default_dtype()
        weight, bias = (ones(shape, kind), zeros(shape, kind)) if channelwise_affine else (None, None)
        _set(self, weight=weight, bias=bias, groups=groups, channels=channels, eps=eps)
        _set(self, channelwise_affine=channelwise_affine)

    def __call__(self, x: Any, **_: Any) -> Array:
        """Return an example of the same shape."""
        z: Array = asarray(x).reshape(self.groups, -1)
        z = (z - z.mean(1, keepdims=True)) / sqrt(z.var(1, keepdims=True) + self.eps)
        z = z.reshape(x.shape)
        return z if self.weight is None or self.bias is None else _by_channel(z, self.weight, self.bias)


def _by_channel(x: Array, weight: Array, bias: Array) -> Array:
    shape = (-1, *[1] * (x.ndim - 1))
    return x * weight.reshape(shape) + bias.reshape(shape)


@attrs.frozen(init=False)
class PReLU:
    """``x`` where it is positive, and its product with a slope that is learned."""

    negative_slope: Array

    def __init__(self, init_alpha: Any = 0.25) -> None:
        _set(self, negative_slope=asarray(init_alpha, getattr(init_alpha, "dtype", get_default_dtype())))

    def __call__(self, x: Any, **_: Any) -> Array:
        """Return an example of the same shape."""
        return where(asarray(x) >= 0, x, self.negative_slope * asarray(x))


@attrs.frozen(init=False)
class Embedding:
    """A row for a number."""

    weight: Array
    num_embeddings: Any = static()
    embedding_size: Any = static()

    def __init__(
        self, num_embeddings: Any = None, embedding_size: Any = None, weight: Any = None, dtype: Any = None, *,
        key: Any = None,
    ) -> None:  # fmt: skip
        shape = (num_embeddings, embedding_size) if weight is None else np.shape(weight)
        _set(self, weight=draw("normal", key, shape, dtype) if weight is None else asarray(weight))
        _set(self, num_embeddings=shape[0], embedding_size=shape[1])

    def __call__(self, x: Any, **_: Any) -> Array:
        """Return the row."""
        return self.weight[x]


@attrs.frozen
class Dropout:
    """Elements of 0 at random, others larger."""

    p: float = static(default=0.5)
    inference: bool = static(default=False)

    def __call__(self, x: Any, *, key: Any = None, inference: bool | None = None) -> Array:
        """Return x with elements dropped, or as it is.

        Raises:
            ArgumentError: there is no key.
        """
        if self.p == 0 or (self.inference if inference is None else inference):
            return asarray(x)
        if key is None:
            raise ArgumentError("Dropout: draws what it drops: got no key; give key=, or inference=True")
        keep = draw("bernoulli", key, 1 - self.p, np.shape(x))
        return where(keep, asarray(x) / (1 - self.p), 0.0)


@attrs.frozen
class Lambda:
    """A function as a layer."""

    fn: Callable[[Any], Any]

    def __call__(self, x: Any, **_: Any) -> Any:
        """Return the function of x."""
        return self.fn(x)


def Identity(*_: Any, **__: Any) -> Lambda:  # Equinox's
    """Return the layer that changes nothing."""
    return Lambda(_identity)


@attrs.frozen
class Sequential:
    """Layers one after the other."""

    layers: tuple[Any, ...] = attrs.field(converter=tuple)

    def __call__(self, x: Any, state: Any = None, *, key: Any = None) -> Any:
        """Return the last layer's result, and the states where they are given."""
        keys = [None] * len(self.layers) if key is None else random.split(key, len(self.layers))
        for layer, own in zip(self.layers, keys, strict=True):
            if self.is_stateful(layer):
                x, state = layer(x, state=state, key=own)
            else:
                x = layer(x, key=own)
        return x if state is None else (x, state)

    @staticmethod
    def is_stateful(layer: Any) -> bool:
        """Tell whether a layer has a state."""
        return any(map(_is_index, tree_flatten(layer, _is_index)[0]))

    def __getitem__(self, k: int) -> Any:
        return self.layers[k]


@attrs.frozen
class RotaryPositionalEmbedding:
    """Sequences [time, size] with pairs of elements turned by their time (Su and others 2021)."""

    embedding_size: int = static()
    theta: float = static(default=10_000.0)
    dtype: Any = static(factory=get_default_dtype)

    def __call__(self, x: Any, **_: Any) -> Array:
        """Return sequences of the same shape."""
        half = x.shape[-1] // 2
        if 2 * half != self.embedding_size:
            raise ShapeError(f"RotaryPositionalEmbedding: of size {self.embedding_size}: got {x.shape}")
        turns: Any = np_.arange(x.shape[0])[:, None] * self.theta ** -(np_.arange(half) / half)
        c, s = [asarray(np_.tile(fn(turns), 2), self.dtype) for fn in (np.cos, np.sin)]
        z: Array = x * c + np_.concatenate([-x[..., half:], x[..., :half]], -1) * s
        return z.astype(x.dtype)


def attend(q: Any, k: Any, v: Any, mask: Any, drop: Callable[[Any], Any]) -> Any:
    """Return attention of [..., time, heads, size], with weights dropped."""
    scores = np_.einsum("...qhd,...khd->...hqk", q / math.sqrt(q.shape[-1]), k)
    scores = scores if mask is None else where(mask, scores, np.finfo(scores.dtype).min)
    return np_.einsum("...hqk,...khd->...qhd", drop(nn.softmax(scores)), v)


@attrs.frozen(init=False)
class MultiheadAttention:
    """Attention of sequences [time, size] by several heads (Vaswani and others 2017)."""

    query_proj: Linear
    key_proj: Linear
    value_proj: Linear
    output_proj: Linear
    dropout: Dropout
    num_heads: int = static()
    query_size: int = static()
    key_size: int = static()
    value_size: int = static()
    output_size: int = static()
    qk_size: int = static()
    vo_size: int = static()
    use_query_bias: bool = static()
    use_key_bias: bool = static()
    use_value_bias: bool = static()
    use_output_bias: bool = static()

    def __init__(
        self,
        num_heads: int,
        query_size: int,
        key_size: int | None = None,
        value_size: int | None = None,
        output_size: int | None = None,
        qk_size: int | None = None,
        vo_size: int | None = None,
        use_query_bias: bool = False,
        use_key_bias: bool = False,
        use_value_bias: bool = False,
        use_output_bias: bool = False,
        dropout_p: float = 0.0,
        inference: bool = False,
        dtype: Any = None,
        *,
        key: Any,
    ) -> None:
        own = query_size // num_heads
        names = "query", "key", "value", "output"
        sizes = query_size, key_size or query_size, value_size or query_size, output_size or query_size
        biases = use_query_bias, use_key_bias, use_value_bias, use_output_bias
        inner, outer = num_heads * (qk_size or own), num_heads * (vo_size or own)
        ends = (sizes[0], inner), (sizes[1], inner), (sizes[2], outer), (outer, sizes[3])
        for name, size, bias, pair, k in zip(names, sizes, biases, ends, random.split(key, 4), strict=True):
            layer = Linear(*pair, bias, dtype, key=k)
            _set(self, **{f"{name}_proj": layer, f"{name}_size": size, f"use_{name}_bias": bias})
        _set(self, dropout=Dropout(dropout_p, inference), num_heads=num_heads)
        _set(self, qk_size=qk_size or own, vo_size=vo_size or own)

    def __call__(
        self, query: Any, key_: Any, value: Any, mask: Any = None, *, key: Any = None, inference: bool | None = None
    ) -> Array:
        """Return [time, output]; the mask is [time, times] or [heads, time, times]."""

        def heads(layer: Linear, x: Any) -> Array:
            return vmap(layer)(asarray(x)).reshape(len(x), self.num_heads, -1)

        q, k, v = heads(self.query_proj, query), heads(self.key_proj, key_), heads(self.value_proj, value)

        def drop(weights: Any) -> Any:
            fn = functools.partial(self.dropout, inference=inference)
            if key is None:
                return fn(weights)
            return stack([fn(w, key=k) for w, k in zip(weights, random.split(key, self.num_heads), strict=True)])

        return vmap(self.output_proj)(attend(q, k, v, mask, drop).reshape(len(q), -1))


# --- States: what a layer keeps from call to call, beside the model


_COUNT: Iterator[int] = itertools.count()


@attrs.frozen
class StateIndex:
    """Where a layer's state is found, and what it is at first."""

    init: Any
    marker: str = static(factory=lambda: f"{next(_COUNT):09}")

    def __class_getitem__(cls, _: Any) -> type:
        return cls


def _is_index(x: Any) -> bool:
    return isinstance(x, StateIndex)


def _first_states(model: Any) -> dict[str, Any]:
    """Return the states of a model at first, or those that are given by their places."""
    if model.__class__ is dict:
        return model
    found = [x for x in tree_flatten(model, _is_index)[0] if _is_index(x)]
    return {x.marker: pytree.map(asarray, x.init) for x in found}


@attrs.frozen
class State:
    """The states of a model's layers, by their places."""

    states: dict[str, Any] = attrs.field(converter=_first_states)

    def get(self, item: StateIndex) -> Any:
        """Return the state of a layer."""
        return self.states[item.marker]

    def set(self, item: StateIndex, value: Any) -> State:
        """Return states with another one for a layer."""
        new, old = pytree.map(asarray, value), self.get(item)
        kinds = [[(x.shape, x.dtype) for x in map(asarray, pytree.leaves(tree))] for tree in (new, old)]
        if kinds[0] != kinds[1]:
            raise ShapeError(f"State.set: shapes and dtypes stay: got {kinds[0]} for {kinds[1]}; convert it")
        return State({**self.states, item.marker: new})

    def substate(self, pytree: Any) -> State:
        """Return the states of a part of the model."""
        return State({x.marker: self.get(x) for x in tree_flatten(pytree, _is_index)[0] if _is_index(x)})

    def update(self, substate: State) -> State:
        """Return states with those of a part."""
        return State({**self.states, **substate.states})


def delete_init_state(model: Any) -> Any:
    """Return a model without its layers' first states."""
    leaves, treedef = tree_flatten(model, _is_index)
    return put(treedef, [StateIndex(None, x.marker) if _is_index(x) else x for x in leaves])


def make_with_state(make_model: Callable[..., Any]) -> Callable[..., tuple[Any, State]]:
    """Return a function that makes a model and its state."""

    @functools.wraps(make_model)
    def make(*args: Any, **kwargs: Any) -> tuple[Any, State]:
        leaves, treedef = tree_flatten(make_model(*args, **kwargs), _is_index)
        named = [StateIndex(x.init, f"{k:06}") if _is_index(x) else x for k, x in enumerate(leaves)]
        model = put(treedef, named)
        return delete_init_state(model), State(model)

    return make


@attrs.frozen(init=False)
class BatchNorm:
    """A norm of [channels, *space] over the named axes of a batch; its running moments are a state."""

    weight: Array | None
    bias: Array | None
    ema_first_time_index: StateIndex | None
    ema_state_index: StateIndex | None
    batch_counter: StateIndex | None
    batch_state_index: StateIndex | None
    axis_name: Any = static()
    inference: bool = static()
    input_size: int = static()
    eps: float = static()
    channelwise_affine: bool = static()
    momentum: float = static()
    mode: str = static()

    def __init__(
        self, input_size: int, axis_name: Any, eps: float = 1e-5, channelwise_affine: bool = True, momentum: float = 0.99,
        inference: bool = False, dtype: Any = None, mode: str = "ema",
    ) -> None:  # fmt: skip
        none, one = zeros(input_size, dtype or get_default_dtype()), ones(input_size, dtype or get_default_dtype())
        is_ema = mode != "batch"
        _set(self, weight=one if channelwise_affine else None, bias=none if channelwise_affine else None)
        _set(self, ema_first_time_index=StateIndex(asarray(True)) if is_ema else None)
        _set(self, ema_state_index=StateIndex((none, none)) if is_ema else None)
        _set(self, batch_counter=None if is_ema else StateIndex(asarray(0)))
        _set(self, batch_state_index=None if is_ema else StateIndex((none, one)))
        _set(self, axis_name=axis_name, inference=inference, input_size=input_size, eps=eps, momentum=momentum)
        _set(self, channelwise_affine=channelwise_affine, mode="ema" if is_ema else mode)

    def __call__(self, x: Any, state: State, *, inference: bool | None = None, **_: Any) -> tuple[Array, State]:
        """Return [channels, *space], and the states with new running moments."""
        z = asarray(x)
        find = self._ema_moments if self.mode == "ema" else self._batch_moments
        mean, var, state = find(z, state, bool(self.inference if inference is None else inference))
        shape = (-1, *[1] * (z.ndim - 1))
        z = (z - mean.reshape(shape)) / sqrt(var.reshape(shape) + self.eps)
        return z if self.weight is None or self.bias is None else _by_channel(z, self.weight, self.bias), state

    def _moments(self, z: Array) -> tuple[Array, Array]:
        rows = z.reshape(z.shape[0], -1)
        mean = pmean(rows.mean(1), self.axis_name)
        return mean, maximum(0.0, pmean(((rows - mean[:, None]) ** 2).mean(1), self.axis_name))

    def _ema_moments(self, z: Array, state: State, inference: bool) -> tuple[Array, Array, State]:
        first, index = self.ema_first_time_index, self.ema_state_index
        assert first is not None
        assert index is not None
        kept = state.get(index)
        if inference:
            return *kept, state
        new, share = self._moments(z), self.momentum
        pairs = zip(new, kept, strict=True)
        mean, var = [where(state.get(first), own, (1 - share) * own + share * old) for own, old in pairs]
        return mean, var, state.set(first, asarray(False)).set(index, (mean, var))

    def _batch_moments(self, z: Array, state: State, inference: bool) -> tuple[Array, Array, State]:
        counter, index = self.batch_counter, self.batch_state_index
        assert counter is not None
        assert index is not None
        count, kept, share = state.get(counter), state.get(index), self.momentum
        if inference:
            scale = where(count == 0, 1, 1 - share**count)
            return kept[0] / scale, kept[1] / scale, state
        mean, var = self._moments(z)
        both = [old * share + own * (1 - share) for old, own in zip(kept, (mean, var), strict=True)]
        return mean, var, state.set(counter, count + 1).set(index, (both[0], both[1]))


def _improve(weight: Array, v: Array, eps: float) -> tuple[Array, Array]:
    """Return singular vectors after a step of the power iteration."""
    u = weight @ v
    u = u / maximum(eps, sqrt((u * u).sum()))
    v = weight.T @ u
    return u, v / maximum(eps, sqrt((v * v).sum()))


@attrs.frozen(init=False)
class SpectralNorm:
    """A layer whose weights are divided by their largest singular value (Miyato and others 2018)."""

    layer: Any
    uv_index: StateIndex
    weight_name: str = static()
    num_power_iterations: int = static()
    eps: float = static()
    inference: bool = static()

    def __init__(
        self, layer: Any, weight_name: str, num_power_iterations: int = 1, eps: float = 1e-12, inference: bool = False, *,
        key: Any,
    ) -> None:  # fmt: skip
        _set(self, layer=layer, weight_name=weight_name, num_power_iterations=num_power_iterations, eps=eps)
        rows = self._rows()
        u, v = [draw("normal", k, (n,), rows.dtype) for k, n in zip(random.split(key), rows.shape, strict=True)]
        for _ in range(15):
            u, v = _improve(rows, v, eps)
        _set(self, uv_index=StateIndex((u, v)), inference=inference)

    def __class_getitem__(cls, _: Any) -> type:
        return cls

    def _rows(self) -> Array:
        weight: Array = getattr(self.layer, self.weight_name)
        return weight.reshape(weight.shape[0], -1)

    def __call__(self, x: Any, state: State, *, inference: bool | None = None, **_: Any) -> tuple[Any, State]:
        """Return the layer's result, and the states with better singular vectors."""
        (u, v), rows = state.get(self.uv_index), self._rows()
        if not (self.inference if inference is None else inference):
            for _k in range(self.num_power_iterations):
                u, v = _improve(stop_gradient(rows), v, self.eps)
            state = state.set(self.uv_index, (u, v))
        weight = rows / (u @ rows @ v)
        layer = copy.copy(self.layer)
        _set(layer, **{self.weight_name: weight.reshape(getattr(layer, self.weight_name).shape)})
        return layer(x), state
