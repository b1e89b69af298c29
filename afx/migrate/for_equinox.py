"""Equinox's names: modules, filters, and layers of one example with Equinox's weights, keys and starting values."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from afx import nn, pytree, random
from afx.core import Array, get_default_dtype
from afx.errors import ArgumentError, ShapeError
from afx.migrate.for_jax import draw, put, tree_flatten
from afx.migrate.for_lax import conv_general_dilated, reduce_window
from afx.ops.callback import callback
from afx.ops.creation.creation import asarray, ones, zeros
from afx.ops.elementwise.arithmetic import add, sqrt
from afx.ops.elementwise.comparison import maximum, where
from afx.ops.elementwise.exponentials import sigmoid
from afx.ops.elementwise.trigonometry import tanh
from afx.ops.indexing.index import is_sequence
from afx.ops.manipulation.join import stack
from afx.pytree import static
from afx.transforms.compile.jit import jit
from afx.transforms.derivatives.grad import value_and_grad
from afx.transforms.vmap import vmap

__all__ = ["Linear", "field", "filter_tree", "is_array"]

np_: Any = np  # NumPy's functions, of Arrays
Module: type = object  # where it is no base class


# --- Trees


def tree_at(where: Callable[[Any], Any], pytree_: Any, replace: Any = None, replace_fn: Any = None) -> Any:
    """Return a tree with what a function points to replaced."""
    leaves, treedef = pytree.flatten(pytree_)
    pointed = pytree.leaves(where(pytree.unflatten(treedef, list(range(len(leaves))))))
    new = [replace_fn(leaves[k]) for k in pointed] if replace_fn is not None else pytree.leaves(replace)
    changed = dict(zip(pointed, new, strict=True))
    return put(treedef, [changed.get(k, leaf) for k, leaf in enumerate(leaves)])


def partition(pytree_: Any, filter_spec: Any, replace: Any = None, is_leaf: Any = None) -> tuple[Any, Any]:
    """Return two trees: of the leaves that a function, or a tree of truth values, chooses, and of the others."""
    if replace is not None or is_leaf is not None:
        raise ArgumentError("partition: leaves are arrays, others None: got replace= or is_leaf=; write afx.pytree.map")
    (leaves, treedef), (marks, _) = tree_flatten(pytree_), tree_flatten(filter_spec)
    is_marked = len(marks) == len(leaves) and marks[0] is not filter_spec  # models can be called, too
    if not is_marked and not callable(filter_spec):
        parts: tuple[Any, Any] = pytree.partition(pytree_, filter_spec)  # of marks of whole branches
        return parts
    chosen = [bool(mark) for mark in (marks if is_marked else map(filter_spec, leaves))]
    pairs = list(zip(leaves, chosen, strict=True))
    first, second = ([leaf if mark is keep else None for leaf, mark in pairs] for keep in (True, False))
    return put(treedef, first), put(treedef, second)


def combine(*trees: Any, is_leaf: Any = None) -> Any:
    """Return a tree of the first leaf at each place that is not None."""

    def stops(x: Any) -> bool:
        return x is None or (is_leaf is not None and is_leaf(x))

    flat = [tree_flatten(tree, stops) for tree in trees]
    if len({len(leaves) for leaves, _ in flat}) > 1:
        raise ArgumentError("combine: the trees differ: give parts of one tree")
    places = zip(*[leaves for leaves, _ in flat], strict=True)
    return put(flat[0][1], [next((leaf for leaf in place if leaf is not None), None) for place in places])


def filter_tree(pytree_: Any, filter_spec: Any, inverse: bool = False, replace: Any = None, is_leaf: Any = None) -> Any:
    """Return a tree with None for leaves that are not chosen, or are; integers in fields are no leaves."""
    return partition(pytree_, filter_spec, replace, is_leaf)[inverse]


def apply_updates(model: Any, updates: Any) -> Any:
    """Return a model with updates added where there are some."""
    known, (pairs, treedef) = dict(pytree.flatten_with_path(updates)[0]), pytree.flatten_with_path(model)
    return pytree.unflatten(treedef, [leaf + known[path] if path in known else leaf for path, leaf in pairs])


def tree_equal(*trees: Any) -> bool:
    """Tell whether trees have the same structure and the same elements."""
    return all(pytree.equal(trees[0], tree) for tree in trees[1:])


def is_array(x: Any) -> bool:
    """Tell whether a value is an array."""
    return isinstance(x, (Array, np.ndarray, np.generic))


def is_array_like(x: Any) -> bool:
    """Tell whether a value is an array, or a number."""
    return is_array(x) or isinstance(x, (bool, int, float, complex))


def is_inexact_array_like(x: Any) -> bool:
    """Tell whether a value is an array of floats, or such a number."""
    return is_inexact_array(x) or isinstance(x, (float, complex))


def is_inexact_array(x: Any) -> bool:
    """Tell whether a value is an array of floats."""
    return is_array(x) and x.dtype.kind in "fc"


def field(*, static: bool = False, **kwargs: Any) -> Any:
    """Return a field, of the structure where it is static."""
    return pytree.static(**kwargs) if static else attrs.field(**kwargs)


static_field: Callable[..., Any] = functools.partial(field, static=True)


def tree_check(tree: Any) -> None:
    """Do nothing: trees here are checked as they are made."""


def error_if(x: Any, pred: Any, msg: str) -> Any:
    """Return x, or raise where a condition holds; under `afx.jit` when the values are there."""
    callback(_refuse, pred, msg)
    return x


def _refuse(pred: Any, msg: str) -> None:
    if np.any(pred):
        raise ArgumentError(f"error_if: {msg}")


def tree_serialise_leaves(path_or_file: Any, pytree_: Any, *_: Any, **__: Any) -> None:
    """Write the leaves of a tree to a file of NumPy's."""
    arrays = pytree.leaves(pytree_)
    if hasattr(path_or_file, "write"):
        np.savez(path_or_file, *arrays)
    else:
        with Path(path_or_file).open("wb") as file:  # under this name, to which NumPy would add an ending
            np.savez(file, *arrays)


def tree_deserialise_leaves(path_or_file: Any, like: Any, *_: Any, **__: Any) -> Any:
    """Return a tree like another one of the leaves in a file."""
    with np.load(path_or_file) as kept:
        return put(pytree.structure(like), [asarray(kept[name]) for name in kept.files])


def filter_value_and_grad(fun: Any = None, *, has_aux: bool = False) -> Any:
    """Return `afx.value_and_grad` by the first argument, whose leaves that are no arrays of floats have None."""
    if fun is None:
        return functools.partial(filter_value_and_grad, has_aux=has_aux)
    call: Any = value_and_grad  # of any function
    slopes = call(fun, has_aux=has_aux)

    @functools.wraps(fun)
    def run(*args: Any, **kwargs: Any) -> Any:
        value, grads = slopes(*args, **kwargs)
        return value, filter_tree(grads, is_inexact_array)

    return run


def filter_grad(fun: Any = None, *, has_aux: bool = False) -> Any:
    """Return `afx.grad` by the first argument, whose leaves that are no arrays of floats have None."""
    if fun is None:
        return functools.partial(filter_grad, has_aux=has_aux)
    slopes = filter_value_and_grad(fun, has_aux=has_aux)

    @functools.wraps(fun)
    def run(*args: Any, **kwargs: Any) -> Any:
        value, grads = slopes(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return run


def filter_jit(fun: Any = None, **_: Any) -> Any:
    """Return `afx.jit` of a function, whose arguments that hold no array are static."""
    if fun is None:
        return filter_jit
    compiled = dict[Any, Any]()

    @functools.wraps(fun)
    def run(*args: Any, **kwargs: Any) -> Any:
        given: dict[Any, Any] = {**dict[Any, Any](enumerate(args)), **kwargs}
        still = tuple([name for name, x in given.items() if _is_static(x)])
        if still not in compiled:
            places: Any = [n for n in still if isinstance(n, int)]
            names: Any = [n for n in still if isinstance(n, str)]
            compiled[still] = jit(fun, static_argnums=places, static_argnames=names)
        return compiled[still](*args, **kwargs)

    return run


def _is_static(x: Any) -> bool:
    return isinstance(x, Hashable) and not any(map(is_array, pytree.leaves(x)))


def if_array(axis: Any) -> Any:
    """Return the axis itself: what is no array has none."""
    return axis


def filter_vmap(fn: Any = None, *, in_axes: Any = 0, out_axes: Any = 0) -> Any:
    """Return a function of batches; without axes every argument is one, by keyword too."""
    if fn is None:
        return functools.partial(filter_vmap, in_axes=in_axes, out_axes=out_axes)
    return vmap(fn, in_axes=in_axes, out_axes=out_axes)


def inference_mode(tree: Any, value: bool = True) -> Any:
    """Return a model whose dropouts let everything through, or not."""
    kind: Any = tree.__class__
    if is_sequence(tree):
        parts = [inference_mode(x, value) for x in tree]
        return kind(*parts) if hasattr(tree, "_fields") else kind(parts)
    if kind is dict:
        return {key: inference_mode(x, value) for key, x in tree.items()}
    if not attrs.has(kind):
        return tree
    new: Any = object.__new__(kind)
    for name in [f.name for f in attrs.fields(kind) if hasattr(tree, f.name)]:
        object.__setattr__(new, name, value if name == "inference" else inference_mode(getattr(tree, name), value))
    return new


# --- Layers: fields are Equinox's


def _set(layer: Any, **fields: Any) -> None:
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
        _set(
            self,
            layers=layers,
            activation=activation,
            final_activation=final_activation,
            use_bias=use_bias,
            depth=depth,
        )
        _set(self, use_final_bias=use_final_bias, in_size=in_size, out_size=out_size, width_size=width_size)

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


def _pool(is_mean: bool, n: int, kernel_size: Any, stride: Any = 1, padding: Any = 0) -> _Pool:
    return _Pool(is_mean, n, each(n, kernel_size), each(n, stride), _pairs(n, padding))


def __getattr__(name: str) -> Any:
    """Return a convolution, or a pool, of so many axes."""
    kinds: dict[str, Any] = {
        "Conv": Conv, "ConvTranspose": ConvTranspose, "AvgPool": functools.partial(_pool, True),
        "MaxPool": functools.partial(_pool, False),
    }  # fmt: skip
    kind, n = kinds.get(name[:-2]), name[-2:-1]
    if kind is None or not n.isdigit() or name[-1] != "d":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return functools.partial(kind, int(n))


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
class Embedding:
    """A row for a number."""

    weight: Array
    num_embeddings: Any = static()
    embedding_size: Any = static()

    def __init__(
        self,
        num_embeddings: Any = None,
        embedding_size: Any = None,
        weight: Any = None,
        dtype: Any = None,
        *,
        key: Any = None,
    ) -> None:
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

    def __call__(self, x: Any, *, key: Any = None) -> Any:
        """Return the last layer's result."""
        keys = [None] * len(self.layers) if key is None else random.split(key, len(self.layers))
        for layer, own in zip(self.layers, keys, strict=True):
            x = layer(x, key=own)
        return x

    def __getitem__(self, k: int) -> Any:
        return self.layers[k]


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
        _set(
            self,
            dropout=Dropout(dropout_p, inference),
            num_heads=num_heads,
            qk_size=qk_size or own,
            vo_size=vo_size or own,
        )

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
