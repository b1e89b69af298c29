"""Flax's linen: modules with `compact`, or `setup`, whose parameters are dicts by Flax's names, layers and train states."""

from __future__ import annotations

import dataclasses
import functools
import math
import types
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import attrs
import numpy as np

from afx import nn, pytree, random
from afx.core.array.array import Array
from afx.errors import ArgumentError
from afx.migrate import for_jax, for_stax
from afx.migrate.for_equinox import Dropout as Drop, attend, each
from afx.migrate.for_jax import register_dataclass
from afx.migrate.for_lax import conv_general_dilated, reduce_window
from afx.ops.creation.creation import asarray, ones as make_ones, zeros as make_zeros
from afx.ops.elementwise.arithmetic import add, multiply, sqrt
from afx.ops.elementwise.comparison import maximum, where
from afx.ops.elementwise.trigonometry import tanh
from afx.ops.reductions.cumulative import logsumexp

__all__ = ["Conv", "Dense", "Module", "TrainState", "avg_pool", "compact", "dataclass", "max_pool"]

np_: Any = np  # NumPy's functions, of Arrays
initializers: Any = for_stax
INITIALIZERS = ("ones", "ones_init", "zeros", "zeros_init")
FUNCTIONS = (
    "celu elu gelu glu hard_sigmoid hard_silu hard_swish hard_tanh leaky_relu log_sigmoid log_softmax logsumexp one_hot relu "
    "relu6 selu sigmoid silu soft_sign softmax softplus standardize swish tanh"
)


def __getattr__(name: str) -> Any:
    """Return an initializer, or a function of `jax.nn` that Flax has too."""
    if name in INITIALIZERS:
        return getattr(for_stax, name)
    if name in FUNCTIONS.split():
        return {"swish": nn.silu, "tanh": tanh, "logsumexp": logsumexp}.get(name) or getattr(
            for_jax, name, getattr(nn, name, None)
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; afx.nn has layers, made by create(key, …)")


class _Scope:
    """Where the variables of the module that runs are found, or made from keys."""

    def __init__(self, variables: Any, keys: Any, draws: Any, path: tuple[str, ...] = ()) -> None:
        self.variables, self.keys, self.draws, self.path = variables, keys, draws, path
        self.counts: dict[str, int] = {}

    def level(self, kind: str) -> Any:
        """Return the module's own variables of a kind."""
        found = self.variables.setdefault(kind, {})
        for name in self.path:
            found = found.setdefault(name, {})
        return found

    def draw(self, kind: str) -> Any:
        """Return the next key of a kind."""
        own = self.draws if self.keys is None else self.keys
        if kind not in own:
            raise ArgumentError(f"make_rng: needs a key: got none for {kind!r}; give rngs={{{kind!r}: key}}")
        own[kind], key = random.split(own[kind])
        return key


class Variable(types.SimpleNamespace):
    """What a module may set, as ``value``."""


def _plain(tree: Any) -> Any:
    """Return dicts of their own, and values."""
    known: Any = tree
    if isinstance(tree, dict):
        return {name: _plain(known[name]) for name in known}
    return known.value if isinstance(tree, Variable) else tree


SCOPES: list[_Scope] = []


def compact(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method itself: every ``__call__`` may make modules."""
    return fn


@dataclasses.dataclass(eq=False)
class Module:
    """A module of linen: fields are those of a dataclass, parameters a dict."""

    name: str | None = dataclasses.field(default=None, kw_only=True)
    _body: ClassVar[Callable[..., Any]]

    def __init_subclass__(cls, **_: Any) -> None:
        body = cls.__dict__.get("__call__")
        if body is not None:
            cls._body = body
            setattr(cls, "__call__", _called)  # noqa: B010  # a method of the class that is made
        dataclasses.dataclass(eq=False)(cls)

    def __post_init__(self) -> None:
        if self.name is None and SCOPES:
            counts, kind = SCOPES[-1].counts, type(self).__name__
            counts[kind] = counts.get(kind, -1) + 1
            self._auto: str | None = f"{kind}_{counts[kind]}"

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Module) and value.name is None:
            value.name = name
        object.__setattr__(self, name, value)

    def setup(self) -> None:
        """Make modules: none."""

    def init(self, rngs: Any, *args: Any, **kwargs: Any) -> Any:
        """Return ``{"params": …}``, and other variables, of a call."""
        known: Any = rngs
        scope = _Scope({}, dict(known) if isinstance(rngs, dict) else {"params": rngs}, {})
        self._run(scope, *args, **kwargs)
        return _plain(scope.variables)

    def apply(
        self, variables: Any, *args: Any, rngs: Any = None, method: Any = None, mutable: Any = False, **kwargs: Any
    ) -> Any:
        """Return what a call with these variables does, and those that may change."""
        scope = _Scope(_plain(variables), None, dict(rngs or {}))
        z = self._run(scope, *args, method=method, **kwargs)
        kinds = scope.variables if mutable is True else [mutable] if isinstance(mutable, str) else mutable
        return (z, {k: _plain(v) for k, v in scope.variables.items() if k in kinds}) if kinds is not False else z

    def _run(self, scope: _Scope, *args: Any, method: Any = None, **kwargs: Any) -> Any:
        SCOPES.append(scope)
        try:
            self.setup()
            return (method or type(self)._body)(self, *args, **kwargs)
        finally:
            SCOPES.pop()

    def param(self, name: str, init_fn: Callable[..., Any], *args: Any) -> Any:
        """Return a parameter, made by a function of a key and what else is given."""
        scope = SCOPES[-1]
        own = scope.level("params")
        if scope.keys is not None and name not in own:
            own[name] = init_fn(scope.draw("params"), *args)
        return own[name]

    def variable(self, col: str, name: str, init_fn: Any = None, *args: Any) -> Any:
        """Return a variable of another kind, which may be set."""
        own = SCOPES[-1].level(col)
        kept = own[name] if name in own else init_fn(*args)
        own[name] = kept if isinstance(kept, Variable) else Variable(value=kept)
        return own[name]

    def is_initializing(self) -> bool:
        """Tell whether `init` runs."""
        return SCOPES[-1].keys is not None

    def make_rng(self, name: str = "params") -> Any:
        """Return a key."""
        return SCOPES[-1].draw(name)


def _called(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Run a module within another one."""
    if not SCOPES:
        raise ArgumentError(f"{type(self).__name__}: called outside of init and apply: call model.apply(variables, x)")
    above = SCOPES[-1]
    path = (*above.path, self.name or self._auto)
    return self._run(_Scope(above.variables, above.keys, above.draws, path), *args, **kwargs)


# --- Layers


class _Layer(Module):
    """A layer that makes arrays of keys."""

    _: dataclasses.KW_ONLY
    use_bias: bool = True
    dtype: Any = None
    param_dtype: Any = np.float32
    kernel_init: Any = for_stax.lecun_normal()
    bias_init: Any = for_stax.zeros
    scale_init: Any = for_stax.ones

    def _with_bias(self, z: Any, axes: int = 1) -> Any:
        """Return z and a bias of the last axes."""
        shape: Any = z.shape[-axes:]
        return z + self.param("bias", self.bias_init, shape, self.param_dtype) if self.use_bias else z


class DenseGeneral(_Layer):
    """A linear layer of several axes to several axes."""

    features: Any
    axis: Any = -1

    def __call__(self, inputs: Any) -> Any:
        """Return [..., *features]."""
        outs, axes = each(1, self.features), each(1, self.axis)
        x: Any = asarray(inputs)
        shape: list[int] = [x.shape[k] for k in axes]

        def draw(key: Any, *kind: Any) -> Any:
            return self.kernel_init(key, (math.prod(shape), math.prod(outs)), *kind).reshape(*shape, *outs)

        x = np_.moveaxis(x, axes, range(-len(axes), 0))
        return self._with_bias(np_.tensordot(x, self.param("kernel", draw, self.param_dtype), len(axes)), len(outs))


class Dense(DenseGeneral):
    """A layer ``x @ kernel + bias``."""


class MultiHeadDotProductAttention(_Layer):
    """Attention of [..., time, size] by several heads (Vaswani and others 2017)."""

    num_heads: int
    _: dataclasses.KW_ONLY
    qkv_features: int | None = None
    out_features: int | None = None
    broadcast_dropout: bool = True
    dropout_rate: float = 0.0
    deterministic: Any = None

    def __call__(
        self, inputs_q: Any, inputs_k: Any = None, inputs_v: Any = None, *, mask: Any = None, deterministic: Any = None
    ) -> Any:
        """Return [..., time, outputs]."""
        size, keys = inputs_q.shape[-1], inputs_q if inputs_k is None else inputs_k
        given = {"query": inputs_q, "key": keys, "value": keys if inputs_v is None else inputs_v}
        own = {n: getattr(self, n) for n in ("use_bias", "param_dtype", "kernel_init", "bias_init")}
        heads = self.num_heads, (self.qkv_features or size) // self.num_heads
        layer: Any = DenseGeneral  # as a dataclass, which it becomes
        q, k, v = [layer(heads, name=name, **own)(x) for name, x in given.items()]

        def drop(weights: Any) -> Any:
            if not self.dropout_rate or (self.deterministic if deterministic is None else deterministic):
                return weights
            share, shape = 1.0 - self.dropout_rate, weights.shape[-2:] if self.broadcast_dropout else weights.shape
            return where(random.bernoulli(self.make_rng("dropout"), share, shape), weights / share, 0.0)

        return layer(self.out_features or size, axis=(-2, -1), name="out", **own)(attend(q, k, v, mask, drop))


class SelfAttention(MultiHeadDotProductAttention):
    """Attention of a sequence to itself."""


def make_causal_mask(x: Any) -> Array:
    """Return [batch, 1, time, time], 1 where the second time is not later."""
    n = x.shape[-1]
    return asarray(np.tile(np.tri(n, dtype=np.float32), (*x.shape[:-1], 1, 1, 1)))


class BatchNorm(_Layer):
    """A norm of the batch at hand, or by running means; channels are last."""

    use_running_average: Any = None
    _: dataclasses.KW_ONLY
    momentum: float = 0.99
    epsilon: float = 1e-5
    use_scale: bool = True

    def __call__(self, x: Any, use_running_average: Any = None) -> Any:
        """Return an array of the same shape."""
        shape, axes = x.shape[-1:], tuple(range(x.ndim - 1))
        kept = [
            self.variable("batch_stats", n, fn, shape, np.float32)
            for n, fn in (("mean", make_zeros), ("var", make_ones))
        ]
        mean, var = [v.value for v in kept]
        if not (self.use_running_average if use_running_average is None else use_running_average):
            mean, var = x.mean(axes), x.var(axes)
            for v, new in zip(kept, (mean, var), strict=True):
                v.value = v.value if self.is_initializing() else self.momentum * v.value + (1 - self.momentum) * new
        scale = self.param("scale", self.scale_init, shape, self.param_dtype) if self.use_scale else 1.0
        return self._with_bias((x - mean) * (scale / sqrt(var + self.epsilon)))


class Conv(_Layer):
    """A convolution of [batch, *space, channels]."""

    features: int
    kernel_size: Any
    strides: Any = 1
    padding: Any = "SAME"
    _: dataclasses.KW_ONLY
    kernel_dilation: Any = 1
    feature_group_count: int = 1

    def __call__(self, x: Any) -> Any:
        """Return [batch, *positions, features]."""
        window = each(1, self.kernel_size)
        n = len(window)
        shape = (*window, x.shape[-1] // self.feature_group_count, self.features)
        letters = "XYZ"[:n]
        axes = (f"N{letters}C", f"{letters}IO", f"N{letters}C")
        pads = self.padding if isinstance(self.padding, str) else [each(2, p) for p in each(n, self.padding)]
        kernel, steps = self.param("kernel", self.kernel_init, shape, self.param_dtype), each(n, self.strides)
        around = each(n, self.kernel_dilation)
        return self._with_bias(
            conv_general_dilated(x, kernel, steps, pads, None, around, axes, self.feature_group_count)
        )


class LayerNorm(_Layer):
    """A norm of the last axis."""

    epsilon: float = 1e-6
    _: dataclasses.KW_ONLY
    use_scale: bool = True

    def __call__(self, x: Any) -> Any:
        """Return an array of the same shape."""
        return self._scaled(asarray(x) - asarray(x).mean(axis=-1, keepdims=True))

    def _scaled(self, x: Array) -> Any:
        z: Array = x / sqrt((x * x).mean(axis=-1, keepdims=True) + self.epsilon)
        z = z * self.param("scale", self.scale_init, (x.shape[-1],), self.param_dtype) if self.use_scale else z
        return self._with_bias(z)


class RMSNorm(LayerNorm):
    """A norm of the last axis, without its mean."""

    use_bias: bool = False

    def __call__(self, x: Any) -> Any:
        """Return an array of the same shape."""
        return self._scaled(asarray(x))


class Embed(Module):
    """A row for a number."""

    num_embeddings: int
    features: int
    dtype: Any = None
    param_dtype: Any = np.float32
    embedding_init: Any = None

    def __call__(self, inputs: Any) -> Array:
        """Return [..., features]."""
        draw = self.embedding_init or for_stax.normal(self.features**-0.5)
        table: Array = self.param("embedding", draw, (self.num_embeddings, self.features), self.param_dtype)
        return table[inputs]


class Dropout(Module):
    """Elements of 0 at random, others larger."""

    rate: float
    deterministic: Any = None

    def __call__(self, inputs: Any, deterministic: Any = None) -> Array:
        """Return elements dropped by a key of ``rngs={"dropout": key}``, or the inputs as they are."""
        still = self.deterministic if deterministic is None else deterministic
        key = None if still or not self.rate else self.make_rng("dropout")
        return Drop(self.rate)(inputs, key=key, inference=key is None)


class Sequential(Module):
    """Layers one after the other."""

    layers: Sequence[Any]

    def __call__(self, x: Any) -> Any:
        """Return the last layer's result."""
        return functools.reduce(lambda z, layer: layer(z), self.layers, x)


def _pool(first: float, fn: Any, inputs: Any, window_shape: Any, strides: Any, padding: Any) -> Array:
    n = len(window_shape)
    pads = padding if isinstance(padding, str) else [(0, 0), *padding, (0, 0)]
    return reduce_window(inputs, first, fn, (1, *window_shape, 1), (1, *each(n, strides or 1), 1), pads)


def max_pool(inputs: Any, window_shape: Any, strides: Any = None, padding: Any = "VALID") -> Array:
    """Return the largest element of windows of [batch, *space, channels]."""
    return _pool(-math.inf, maximum, inputs, window_shape, strides, padding)


def avg_pool(inputs: Any, window_shape: Any, strides: Any = None, padding: Any = "VALID") -> Array:
    """Return the mean of windows of [batch, *space, channels]; padding counts."""
    total = _pool(0.0, add, inputs, window_shape, strides, padding)
    return multiply(total, 1 / math.prod(window_shape))


# --- Dataclasses and train states


def dataclass(cls: Any = None, **options: Any) -> Any:
    """Return a frozen dataclass that is a tree, with a method ``replace``."""
    if cls is None:
        return functools.partial(dataclass, **options)
    made: Any = dataclasses.dataclass(frozen=True, **options)(cls)
    made.replace = dataclasses.replace
    return register_dataclass(made)


def field(pytree_node: bool = True, **options: Any) -> Any:
    """Return a field, of the structure where it is no node."""
    return dataclasses.field(metadata={"static": not pytree_node}, **options)


@attrs.frozen
class TrainState:
    """Parameters, and the state of an optimizer of `afx.migrate.for_optax`."""

    step: Any
    params: Any
    opt_state: Any
    apply_fn: Any = pytree.static(default=None)
    tx: Any = pytree.static(default=None)

    def __init_subclass__(cls, **_: Any) -> None:
        attrs.frozen(cls, slots=False, kw_only=True)

    @classmethod
    def create(cls, *, apply_fn: Any, params: Any, tx: Any, **others: Any) -> Any:
        """Return the state before the first step."""
        return cls(asarray(0), params, tx.init(params), apply_fn, tx, **others)

    def apply_gradients(self, *, grads: Any, **others: Any) -> Any:
        """Return the state after a step."""
        moves, opt_state = self.tx.update(grads, self.opt_state, self.params)
        params = pytree.map(lambda p, u: p + u, self.params, moves)
        return self.replace(step=self.step + 1, params=params, opt_state=opt_state, **others)

    def replace(self, **others: Any) -> Any:
        """Return a state with other parts."""
        return attrs.evolve(self, **others)
