"""Flax's linen: modules with `compact`, or `setup`, whose parameters are dicts by Flax's names, layers and train states."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
import operator
import types
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import attrs
import numpy as np

from afx import nn, pytree, random
from afx.control.scan import scan as scan_parts
from afx.core.array.array import Array
from afx.errors import ArgumentError
from afx.migrate import for_jax, for_stax
from afx.migrate.equinox_layers import attend, each
from afx.migrate.for_lax import conv_general_dilated, conv_transpose, reduce_window
from afx.migrate.for_trees import dataclass
from afx.ops.creation.creation import asarray, ones as make_ones, zeros as make_zeros
from afx.ops.elementwise.arithmetic import add, multiply, sqrt
from afx.ops.elementwise.comparison import maximum, where
from afx.ops.elementwise.exponentials import sigmoid
from afx.ops.elementwise.trigonometry import tanh
from afx.ops.reductions.cumulative import logsumexp

__all__ = ["Conv", "Dense", "Module", "TrainState", "avg_pool", "dataclass", "max_pool"]

np_: Any = np  # NumPy's functions, of Arrays
initializers: Any = for_stax
FUNCTIONS = (
    "celu elu gelu glu hard_sigmoid hard_silu hard_tanh leaky_relu log_sigmoid log_softmax logsumexp one_hot relu "
    "relu6 selu sigmoid silu soft_sign softmax softplus standardize tanh"
)


def __getattr__(name: str) -> Any:
    """Return an initializer, or a function of `jax.nn` that Flax has too."""
    if name in ("ones", "ones_init", "zeros", "zeros_init"):
        return getattr(for_stax, name)
    if name in ("checkpoint", "compact", "jit", "nowrap", "remat"):
        return _same
    if name in FUNCTIONS.split():
        others = {"tanh": tanh, "logsumexp": logsumexp}
        return others.get(name) or getattr(for_jax, name, getattr(nn, name, None))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; afx.nn has layers, made by create(key, …)")


class _Scope:
    """Where the variables of the module that runs are found, or made from keys."""

    def __init__(self, variables: Any, keys: Any, draws: Any, kinds: Any, captures: Any = None) -> None:
        self.variables, self.keys, self.draws, self.kinds, self.captures = variables, keys, draws, kinds, captures
        self.module: Any = None
        self.path: tuple[str, ...] = ()
        self.in_setup, self.counts = False, dict[str, int]()

    def within(self, module: Any) -> _Scope:
        """Return the scope of another module of the same variables."""
        scope = _Scope(self.variables, self.keys, self.draws, self.kinds, self.captures).root(module)
        scope.path = module._place or ()
        return scope

    def root(self, module: Any) -> _Scope:
        """Return the scope of the module that all others are below."""
        self.module = module
        return self

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


def _same(fn: Any = None, **_: Any) -> Any:
    """Return a method, or a class, as it is: any method may make modules, and what is kept is afx's own choice."""
    return _same if fn is None else fn


def _within(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that runs where the variables of its module are."""

    @functools.wraps(fn)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        if SCOPES and SCOPES[-1].module is self:
            return fn(self, *args, **kwargs)
        above: Any = SCOPES[-1] if SCOPES else self._bound
        if above is None:
            text = "called outside of init and apply: call model.apply(variables, x)"
            raise ArgumentError(f"{type(self).__name__}: {text}")
        return self._run(above.within(self), fn, *args, **kwargs)

    return run


def _adopt(value: Any, name: str, scope: _Scope) -> None:
    """Give modules without a place one below the module that holds them, by its field's name."""
    parts: Any = value
    if isinstance(value, Module) and (value._place is None or value._is_free):
        object.__setattr__(value, "_place", (*scope.path, value.name or name))
        object.__setattr__(value, "_bound", scope if scope.kinds is None else value._bound)
    elif isinstance(value, (list, tuple, dict)):
        for k, x in parts.items() if isinstance(value, dict) else enumerate(parts):
            _adopt(x, f"{name}_{k}", scope)


@dataclasses.dataclass(eq=False)
class Module:
    """A module of linen: fields are those of a dataclass, parameters a dict."""

    name: str | None = dataclasses.field(default=None, kw_only=True)
    _place: ClassVar[Any] = None
    _is_free: ClassVar[bool] = True  # made outside of modules
    _bound: ClassVar[Any] = None

    def __init_subclass__(cls, **_: Any) -> None:
        dataclasses.dataclass(eq=False)(cls)
        for name, fn in list(vars(cls).items()):
            if (
                inspect.isfunction(fn)
                and (name == "__call__" or name[0] != "_")
                and name not in ("setup", "initialize_carry")
            ):
                setattr(cls, name, _within(fn))

    def __post_init__(self) -> None:
        object.__setattr__(self, "_is_free", not SCOPES)
        if SCOPES and not SCOPES[-1].in_setup:
            counts, kind = SCOPES[-1].counts, type(self).__name__
            if self.name is None:
                counts[kind] = counts.get(kind, -1) + 1
            _adopt(self, f"{kind}_{counts.get(kind)}", SCOPES[-1])

    def __setattr__(self, name: str, value: Any) -> None:
        if SCOPES and SCOPES[-1].module is self and SCOPES[-1].in_setup:
            _adopt(value, name, SCOPES[-1])
        object.__setattr__(self, name, value)

    def setup(self) -> None:
        """Make modules: none."""

    def init_with_output(self, rngs: Any, *args: Any, method: Any = None, **kwargs: Any) -> Any:
        """Return what a call gives, and its variables."""
        known: Any = rngs
        scope = _Scope({}, dict(known) if isinstance(rngs, dict) else {"params": rngs}, {}, ())
        z = self._run(scope.root(self), method, *args, **kwargs)
        return z, _plain(scope.variables)

    def init(self, rngs: Any, *args: Any, **kwargs: Any) -> Any:
        """Return ``{"params": …}``, and other variables, of a call."""
        return self.init_with_output(rngs, *args, **kwargs)[1]

    def apply(
        self, variables: Any, *args: Any, rngs: Any = None, method: Any = None, mutable: Any = False, **kwargs: Any
    ) -> Any:
        """Return what a call, or a method, with these variables does, and those that may change."""
        known = _plain(variables)
        kinds = [mutable] if isinstance(mutable, str) else mutable or ()
        scope = _Scope(known, None, dict(rngs or {}), kinds, kwargs.pop("capture_intermediates", None))
        z = self._run(scope.root(self), method, *args, **kwargs)
        changed = {k: _plain(v) for k, v in known.items() if mutable is True or k in kinds} if mutable else {}
        return (z, changed) if mutable is not False else z

    def bind(self, variables: Any, rngs: Any = None) -> Any:
        """Return the module with its variables, to be called."""
        bound = self.clone()
        scope = _Scope(_plain(variables), None, dict(rngs or {}), None).root(bound)
        object.__setattr__(bound, "_bound", scope)
        bound._begin(scope)
        return bound

    def clone(self, **changes: Any) -> Any:
        """Return another module, with other fields."""
        return dataclasses.replace(self, **changes)

    def _begin(self, scope: _Scope) -> None:
        """Give modules in fields their places, and make those of `setup`."""
        SCOPES.append(scope)
        scope.in_setup = True
        try:
            for field in dataclasses.fields(self):
                _adopt(getattr(self, field.name), field.name, scope)
            self.setup()
        finally:
            scope.in_setup = False
            SCOPES.pop()

    def _run(self, scope: _Scope, method: Any, *args: Any, **kwargs: Any) -> Any:
        fn = getattr(type(self), method or "__call__") if method is None or isinstance(method, str) else method
        self._begin(scope)
        SCOPES.append(scope)
        try:
            z = getattr(fn, "__func__", fn)(self, *args, **kwargs)
            asks, name = scope.captures, getattr(fn, "__name__", "")
            if asks and (asks(self, name) if callable(asks) else name == "__call__"):
                self.sow("intermediates", name, z)
            return z
        finally:
            SCOPES.pop()

    def sow(self, col: str, name: str, value: Any, reduce_fn: Any = None, init_fn: Any = tuple) -> bool:
        """Keep a value behind those before, where that kind of variables may change."""
        kinds = SCOPES[-1].kinds
        if kinds is not True and col not in (kinds or ()):
            return False
        own = SCOPES[-1].level(col)
        before = own.get(name, init_fn())
        own[name] = (*before, value) if reduce_fn is None else reduce_fn(before, value)
        return True

    def has_variable(self, col: str, name: str) -> bool:
        """Tell whether there is such a variable."""
        return name in SCOPES[-1].level(col)

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


class MultiHeadAttention(MultiHeadDotProductAttention):
    """The same by another name."""


def make_attention_mask(
    query_input: Any, key_input: Any, pairwise_fn: Any = np.multiply, extra_batch_dims: int = 0, dtype: Any = np.float32
) -> Array:
    """Return [batch, 1, queries, keys], a function of each pair, with more axes of length 1 in front."""
    z = asarray(pairwise_fn(asarray(query_input)[..., None], asarray(key_input)[..., None, :]))
    return z[(None,) * extra_batch_dims + (..., None, *[slice(None)] * 2)].astype(dtype)


def make_causal_mask(x: Any, extra_batch_dims: int = 0, dtype: Any = np.float32) -> Array:
    """Return [batch, 1, time, time], 1 where the second time is not later."""
    times = np_.broadcast_to(np_.arange(x.shape[-1]), x.shape)
    return make_attention_mask(times, times, np.greater_equal, extra_batch_dims, dtype)


def combine_masks(*masks: Any, dtype: Any = np.float32) -> Any:
    """Return where all masks hold that are not None, if there are any."""
    given = [mask for mask in masks if mask is not None]
    return functools.reduce(np_.logical_and, given).astype(dtype) if given else None


class ConvTranspose(_Layer):
    """A convolution of [batch, *space, channels] with zeros between its elements."""

    features: int
    kernel_size: Any
    strides: Any = None
    padding: Any = "SAME"

    def __call__(self, x: Any) -> Any:
        """Return [batch, *positions, features]."""
        n = len(window := each(1, self.kernel_size))
        kernel = self.param("kernel", self.kernel_init, (*window, x.shape[-1], self.features), self.param_dtype)
        return self._with_bias(conv_transpose(asarray(x), kernel, each(n, self.strides or 1), self.padding))


class GroupNorm(_Layer):
    """A norm of groups of channels, the last axis."""

    num_groups: int | None = 32
    group_size: int | None = None
    epsilon: float = 1e-6
    _: dataclasses.KW_ONLY
    use_scale: bool = True

    def __call__(self, x: Any) -> Any:
        """Return an array of the same shape."""
        size = x.shape[-1]
        groups = self.num_groups or size // (self.group_size or size)
        cells = asarray(x).reshape(len(x), -1, groups, size // groups)
        z = nn.standardize(cells, (1, 3), eps=self.epsilon).reshape(x.shape)
        z = z * self.param("scale", self.scale_init, (size,), self.param_dtype) if self.use_scale else z
        return self._with_bias(z)


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


class _Cell(_Layer):
    """A recurrent cell: of what is carried and an input."""

    features: int
    _: dataclasses.KW_ONLY
    gate_fn: Any = sigmoid
    activation_fn: Any = tanh
    recurrent_kernel_init: Any = for_stax.orthogonal()
    carry_init: Any = for_stax.zeros

    def initialize_carry(self, rng: Any, input_shape: Any) -> Any:
        """Return what is carried at first."""
        return self.carry_init(rng, (*input_shape[:-1], self.features), self.param_dtype)

    def _sums(self, h: Any, x: Any, names: Any, own: Any, kept: Any) -> list[Any]:
        """Return products of the carried vector and of the input by names of gates, which have biases where they are named."""

        def dense(name: str, kernel: Any, has_bias: bool) -> Any:
            options = {"use_bias": has_bias, "param_dtype": self.param_dtype, "bias_init": self.bias_init}
            layer: Any = Dense  # as a dataclass, which it becomes
            return layer(self.features, kernel_init=kernel, name=name, **options)

        pairs = [(f"h{n}", h, self.recurrent_kernel_init, n in kept) for n in names]
        pairs += [(f"i{n}", x, self.kernel_init, n in own) for n in names]
        return [dense(name, kernel, has_bias)(v) for name, v, kernel, has_bias in pairs]


class GRUCell(_Cell):
    """A gated unit (Cho and others 2014)."""

    def __call__(self, carry: Any, inputs: Any) -> Any:
        """Return the next vector, twice."""
        hr, hz, hn, r, z, n = self._sums(carry, inputs, "rzn", "rzn", "n")
        r, z = self.gate_fn(r + hr), self.gate_fn(z + hz)
        return ((1.0 - z) * self.activation_fn(n + r * hn) + z * carry,) * 2


class SimpleCell(_Cell):
    """A plain recurrent cell."""

    def __call__(self, carry: Any, inputs: Any) -> Any:
        """Return the next vector, twice."""
        h, x = self._sums(carry, inputs, ("",), ("",), ())
        return (self.activation_fn(x + h),) * 2


class LSTMCell(_Cell):
    """A unit with long memory (Hochreiter & Schmidhuber 1997)."""

    def initialize_carry(self, rng: Any, input_shape: Any) -> Any:
        """Return memory and vector at first."""
        first, second = random.split(rng)
        return super().initialize_carry(first, input_shape), super().initialize_carry(second, input_shape)

    def __call__(self, carry: Any, inputs: Any) -> Any:
        """Return the next memory and vector, and the vector."""
        c, h = carry
        parts = self._sums(h, inputs, "ifgo", "", "ifgo")
        i, f, g, o = map(add, parts[:4], parts[4:])
        c = self.gate_fn(f) * c + self.gate_fn(i) * self.activation_fn(g)
        h = self.gate_fn(o) * self.activation_fn(c)
        return (c, h), h


class OptimizedLSTMCell(LSTMCell):
    """The same unit."""


class RNN(Module):
    """A cell along [batch, time, size]."""

    cell: Any
    _: dataclasses.KW_ONLY
    time_major: bool = False
    return_carry: bool = False
    reverse: bool = False
    keep_order: bool = False

    def __call__(self, inputs: Any, *, initial_carry: Any = None, **options: Any) -> Any:
        """Return what the cell gives at each time, and what is carried at the end."""
        chosen = {n: options.pop(n, getattr(self, n)) for n in ("time_major", "return_carry", "reverse", "keep_order")}
        if options:
            raise ArgumentError(
                f"RNN: sequences of one length, from one start: got {', '.join(options)}; give initial_carry="
            )
        x: Any = asarray(inputs) if chosen["time_major"] else np_.moveaxis(asarray(inputs), -2, 0)
        carry = self.cell.initialize_carry(random.key(0), x.shape[1:]) if initial_carry is None else initial_carry
        carry, z = _run_along(self.cell, carry, x, chosen["reverse"])
        z = z[::-1] if chosen["reverse"] and chosen["keep_order"] else z
        z = z if chosen["time_major"] else np_.moveaxis(z, 0, -2)
        return (carry, z) if chosen["return_carry"] else z


def _run_along(step: Any, carry: Any, xs: Any, reverse: bool) -> Any:
    """Return what is carried along the first axis, and the results there; the first step makes parameters."""
    xs = pytree.map(lambda x: x[::-1], xs) if reverse else xs
    carry, first = step(carry, pytree.map(lambda x: x[0], xs))
    carry, rest = scan_parts(step, carry, pytree.map(lambda x: x[1:], xs))
    return carry, pytree.map(lambda z, others: np_.concatenate([z[None], others]), first, rest)


def scan(
    target: Any,
    variable_axes: Any = None,
    variable_broadcast: Any = False,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    reverse: bool = False,
    length: int | None = None,
    **_: Any,
) -> Any:  # Flax's
    """Return a class of modules ``(carry, *xs)`` that run a module along axes, with one set of parameters or each with its own.

    Raises:
        ArgumentError: places have other variables of their own.
    """
    has_own = variable_axes == {"params": 0}
    if not has_own and (variable_axes or variable_broadcast != "params"):
        text = "variables are parameters: give variable_broadcast='params', or variable_axes={'params': 0}"
        raise ArgumentError(f"scan: {text}; or write a loop")

    def move(tree: Any, ends: Any) -> Any:
        return pytree.map(lambda x: np_.moveaxis(asarray(x), *ends), tree)

    class Scanned(target):  # type: ignore[misc]  # any module
        def __call__(self, carry: Any, *xs: Any) -> Any:
            scope, axes = SCOPES[-1], each(len(xs), in_axes)
            columns = [None if k is broadcast else move(x, (k, 0)) for x, k in zip(xs, axes, strict=True)]
            own: Any = scope.level("params") if has_own else None

            def step(carry: Any, place: Any) -> Any:
                parameters, row = place
                inner = scope.within(self)
                if has_own:
                    below = functools.reduce(lambda tree, name: {name: tree}, reversed(scope.path), parameters)
                    inner.variables = {**scope.variables, "params": below}
                own_args = [x if k is broadcast else part for x, k, part in zip(xs, axes, row, strict=True)]
                return self._run(inner, target.__call__, carry, *own_args)

            if has_own and not own:  # each place makes its own
                count = length or len(pytree.leaves(columns)[0])
                made: list[Any] = [{} for _ in range(count)]
                after = carry
                for k, parameters in enumerate(made):
                    after, _ = step(after, (parameters, pytree.map(operator.itemgetter(k), columns)))
                own.update(pytree.map(lambda *parts: np_.stack(parts), *made))
            carry, z = _run_along(step, carry, (own, columns), reverse)
            return carry, move(pytree.map(lambda z: z[::-1], z) if reverse else z, (0, out_axes))

    Scanned.__name__ = f"Scan{target.__name__}"
    return Scanned


broadcast: None = None  # in place of an axis, of what all places have


class Bidirectional(Module):
    """Two RNNs, one of which begins at the end, side by side."""

    forward_rnn: Any
    backward_rnn: Any
    _: dataclasses.KW_ONLY
    merge_fn: Any = None

    def __call__(self, inputs: Any) -> Any:
        """Return the results of both, joined."""
        parts = self.forward_rnn(inputs), self.backward_rnn(inputs, reverse=True, keep_order=True)
        return self.merge_fn(*parts) if self.merge_fn else np_.concatenate(parts, axis=-1)


class Embed(Module):
    """A row for a number."""

    num_embeddings: int
    features: int
    dtype: Any = None
    param_dtype: Any = np.float32
    embedding_init: Any = None

    def _table(self) -> Any:
        draw = self.embedding_init or for_stax.normal(self.features**-0.5)
        return self.param("embedding", draw, (self.num_embeddings, self.features), self.param_dtype)

    def __call__(self, inputs: Any) -> Any:
        """Return [..., features]."""
        return self._table()[inputs]

    def attend(self, query: Any) -> Any:
        """Return products with all rows."""
        return query @ self._table().mT


class Dropout(Module):
    """Elements of 0 at random, others larger."""

    rate: float
    broadcast_dims: Any = ()
    deterministic: Any = None
    rng_collection: str = "dropout"

    def __call__(self, inputs: Any, deterministic: Any = None, rng: Any = None) -> Array:
        """Return elements dropped by a key of ``rngs={"dropout": key}``, or the inputs as they are."""
        if (self.deterministic if deterministic is None else deterministic) or not self.rate:
            return asarray(inputs)
        shape = [1 if k in self.broadcast_dims else n for k, n in enumerate(inputs.shape)]
        keep = random.bernoulli(self.make_rng(self.rng_collection) if rng is None else rng, 1.0 - self.rate, shape)
        return where(keep, asarray(inputs) / (1.0 - self.rate), 0.0)


class Sequential(Module):
    """Layers one after the other."""

    layers: Sequence[Any]

    def __call__(self, *args: Any) -> Any:
        """Return the last layer's result, of several values where the one before gives a tuple."""
        z: Any = args
        for layer in self.layers:
            z = layer(*z) if isinstance(z, tuple) else layer(z)
        return z


def _pool(first: float, fn: Any, inputs: Any, window_shape: Any, strides: Any, padding: Any) -> Array:
    n = len(window_shape)
    pads = padding if isinstance(padding, str) else [(0, 0), *padding, (0, 0)]
    return reduce_window(inputs, first, fn, (1, *window_shape, 1), (1, *each(n, strides or 1), 1), pads)


def max_pool(inputs: Any, window_shape: Any, strides: Any = None, padding: Any = "VALID") -> Array:
    """Return the largest element of windows of [batch, *space, channels]."""
    return _pool(-math.inf, maximum, inputs, window_shape, strides, padding)


def avg_pool(inputs: Any, window_shape: Any, strides: Any = None, padding: Any = "VALID") -> Array:
    """Return the mean of windows of [batch, *space, channels]; padding counts."""
    return multiply(_pool(0.0, add, inputs, window_shape, strides, padding), 1 / math.prod(window_shape))


# --- Dataclasses and train states


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


# --- Dicts, and labels


unfreeze: Callable[[Any], Any] = _plain  # none is frozen here
freeze: Callable[[Any], Any] = _plain
FrozenDict: type = dict


def onehot(labels: Any, num_classes: int, on_value: float = 1.0, off_value: float = 0.0) -> Array:
    """Return rows of one number and another one at the place of a label, in float32."""
    return where(asarray(labels)[..., None] == np.arange(num_classes), on_value, off_value).astype(np.float32)
