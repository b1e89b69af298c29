"""Flax's linen: modules with `compact`, or `setup`, whose parameters are dicts by Flax's names, layers and train states."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import attrs
import numpy as np

from afx import nn, pytree, random
from afx.core.array.array import Array
from afx.errors import ArgumentError
from afx.migrate import for_stax
from afx.migrate.for_equinox import Dropout as Drop
from afx.migrate.for_jax import register_dataclass
from afx.migrate.for_lax import conv_general_dilated, reduce_window
from afx.ops.creation.creation import asarray
from afx.ops.elementwise.arithmetic import add, multiply, sqrt
from afx.ops.elementwise.comparison import maximum
from afx.ops.indexing.index import is_sequence

__all__ = ["Conv", "Dense", "Module", "TrainState", "avg_pool", "compact", "dataclass", "max_pool"]

np_: Any = np  # NumPy's functions, of Arrays


def __getattr__(name: str) -> Any:
    """Return an activation of `afx.nn`."""
    known = {"initializers": for_stax, "swish": nn.silu, "tanh": np.tanh, "logsumexp": None}
    found = known.get(name) or (getattr(nn, name) if name.islower() and hasattr(nn, name) else None)
    if found is None:
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}; afx.nn has layers, made by create(key, …)"
        )
    return found


class _Scope:
    """Where the parameters of the module that runs are found, or made from keys."""

    def __init__(self, params: dict[str, Any], keys: dict[str, Any] | None, draws: dict[str, Any]) -> None:
        self.params, self.keys, self.draws = params, keys, draws
        self.counts: dict[str, int] = {}

    def draw(self, kind: str) -> Any:
        """Return the next key of a kind."""
        own = self.draws if self.keys is None else self.keys
        if kind not in own:
            raise ArgumentError(f"make_rng: needs a key: got none for {kind!r}; give rngs={{{kind!r}: key}}")
        own[kind], key = random.split(own[kind])
        return key


SCOPES: list[_Scope] = []


def compact(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method itself: every ``__call__`` may make modules."""
    return fn


@dataclasses.dataclass
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

    def init(self, rngs: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return ``{"params": …}`` of a call."""
        known: Any = rngs
        scope = _Scope({}, dict(known) if isinstance(rngs, dict) else {"params": rngs}, {})
        self._run(scope, *args, **kwargs)
        return {"params": scope.params}

    def apply(self, variables: Any, *args: Any, rngs: Any = None, method: Any = None, **kwargs: Any) -> Any:
        """Return what a call with these parameters does."""
        if set(variables) - {"params"}:
            raise ArgumentError(f"apply: parameters alone: got {sorted(variables)}; keep other state outside")
        return self._run(_Scope(variables.get("params", {}), None, dict(rngs or {})), *args, method=method, **kwargs)

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
        if scope.keys is not None and name not in scope.params:
            scope.params[name] = init_fn(scope.draw("params"), *args)
        return scope.params[name]

    def make_rng(self, name: str = "params") -> Any:
        """Return a key."""
        return SCOPES[-1].draw(name)


def _called(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Run a module within another one."""
    if not SCOPES:
        raise ArgumentError(f"{type(self).__name__}: called outside of init and apply: call model.apply(variables, x)")
    above = SCOPES[-1]
    name = self.name or self._auto
    params = above.params.setdefault(name, {}) if above.keys is not None else above.params.get(name, {})
    result = self._run(_Scope(params, above.keys, above.draws), *args, **kwargs)
    if not params and above.keys is not None:
        del above.params[name]
    return result


# --- Layers


class Dense(Module):
    """A layer ``x @ kernel + bias``."""

    features: int
    use_bias: bool = True
    dtype: Any = None
    param_dtype: Any = np.float32
    kernel_init: Any = for_stax.lecun_normal()
    bias_init: Any = for_stax.zeros

    def __call__(self, x: Any) -> Array:
        """Return [..., features]."""
        z: Array = asarray(x) @ self.param("kernel", self.kernel_init, (x.shape[-1], self.features), self.param_dtype)
        return z + self.param("bias", self.bias_init, (self.features,), self.param_dtype) if self.use_bias else z


class Conv(Module):
    """A convolution of [batch, *space, channels]."""

    features: int
    kernel_size: Any
    strides: Any = 1
    padding: Any = "SAME"
    kernel_dilation: Any = 1
    feature_group_count: int = 1
    use_bias: bool = True
    dtype: Any = None
    param_dtype: Any = np.float32
    kernel_init: Any = for_stax.lecun_normal()
    bias_init: Any = for_stax.zeros

    def __call__(self, x: Any) -> Array:
        """Return [batch, *positions, features]."""
        window = _each(1, self.kernel_size)
        n = len(window)
        shape = (*window, x.shape[-1] // self.feature_group_count, self.features)
        letters = "XYZ"[:n]
        axes = (f"N{letters}C", f"{letters}IO", f"N{letters}C")
        pads = self.padding if isinstance(self.padding, str) else [_each(2, p) for p in _each(n, self.padding)]
        kernel, steps = self.param("kernel", self.kernel_init, shape, self.param_dtype), _each(n, self.strides)
        around = _each(n, self.kernel_dilation)
        z = conv_general_dilated(x, kernel, steps, pads, None, around, axes, self.feature_group_count)
        return z + self.param("bias", self.bias_init, (self.features,), self.param_dtype) if self.use_bias else z


def _each(n: int, value: Any) -> tuple[Any, ...]:
    given: tuple[Any, ...] = tuple(value) if is_sequence(value) else (value,) * n
    return given


class LayerNorm(Module):
    """A norm of the last axis."""

    epsilon: float = 1e-6
    use_bias: bool = True
    use_scale: bool = True
    dtype: Any = None
    param_dtype: Any = np.float32

    def __call__(self, x: Any) -> Array:
        """Return an array of the same shape."""
        return self._scaled(asarray(x) - asarray(x).mean(axis=-1, keepdims=True))

    def _scaled(self, x: Array) -> Array:
        z: Array = x / sqrt((x * x).mean(axis=-1, keepdims=True) + self.epsilon)
        z = z * self.param("scale", for_stax.ones, (x.shape[-1],), self.param_dtype) if self.use_scale else z
        return z + self.param("bias", for_stax.zeros, (x.shape[-1],), self.param_dtype) if self.use_bias else z


class RMSNorm(LayerNorm):
    """A norm of the last axis, without its mean."""

    use_bias: bool = False

    def __call__(self, x: Any) -> Array:
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
    return reduce_window(inputs, first, fn, (1, *window_shape, 1), (1, *_each(n, strides or 1), 1), pads)


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
