"""JAX's example libraries and initializers: stax's layers as pairs of functions, optimizers as triples, and draws of weights."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from afx import nn, pytree, random
from afx.core import Array, get_default_dtype
from afx.errors import ArgumentError
from afx.migrate.equinox_layers import Dropout as Drop, each
from afx.migrate.for_jax import by_name, leaky_relu, same
from afx.migrate.for_lax import conv_general_dilated, reduce_window
from afx.migrate.optax_trees import norm
from afx.nn import initializers
from afx.ops.creation.creation import asarray, ones_like, zeros as make_zeros, zeros_like
from afx.ops.elementwise.arithmetic import abs as abs_, add, sqrt
from afx.ops.elementwise.comparison import maximum, minimum, where
from afx.ops.elementwise.exponentials import exp, sigmoid, softplus
from afx.ops.elementwise.trigonometry import tanh
from afx.ops.linalg.products import matmul
from afx.ops.manipulation.join import concat, moveaxis
from afx.ops.manipulation.shape import expand_dims
from afx.ops.reductions.sums import sum as sum_

Init: TypeAlias = Callable[..., Array]
Inits: TypeAlias = Callable[..., Init]
Layer: TypeAlias = tuple[Callable[..., Any], Callable[..., Any]]
Optimizer: TypeAlias = tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]


# --- Initializers: functions of a key and a shape


def variance_scaling(
    scale: float,
    mode: Any,
    distribution: Any,
    in_axis: Any = -2,
    out_axis: Any = -1,
    batch_axis: Any = (),
    dtype: Any = None,
) -> Init:
    """Return draws whose variance is ``scale`` over the number of inputs, outputs, or their mean: `afx.nn.variance_scaling`.

    Raises:
        ArgumentError: inputs, or outputs, are several axes, or some axes are batches.
    """
    if not isinstance(in_axis, int) or not isinstance(out_axis, int) or batch_axis != ():
        raise ArgumentError("variance_scaling: inputs and outputs are an axis each: got several; reshape the draws")

    def draw(key: Any, shape: tuple[int, ...]) -> Array:
        ends = in_axis % len(shape), out_axis % len(shape)
        moved = *[n for k, n in enumerate(shape) if k not in ends], shape[in_axis], shape[out_axis]
        return moveaxis(initializers.variance_scaling(key, moved, scale, mode, distribution), (-2, -1), ends)

    return _cast(draw, dtype)


def _cast(draw: Callable[[Any, tuple[int, ...]], Array], default: Any = None) -> Init:
    """Return an initializer that takes a dtype."""

    def init(key: Any, shape: Sequence[int], dtype: Any = default) -> Array:
        drawn = draw(key, tuple(shape))
        return drawn if dtype is None else drawn.astype(dtype)

    return init


def orthogonal(scale: float = 1.0, column_axis: int = -1, dtype: Any = None) -> Init:
    """Return orthonormal columns or rows, times a factor."""
    if column_axis != -1:
        raise ArgumentError(f"orthogonal: columns are the last axis: got {column_axis}; move the axes of the draws")
    return _cast(lambda key, shape: initializers.orthogonal(key, shape, scale), dtype)


# initializers by their scale, mode and distribution
_SCALED = """glorot glorot_normal xavier_normal: 1.0 fan_avg truncated_normal
glorot_uniform xavier_uniform: 1.0 fan_avg uniform
lecun_normal: 1.0 fan_in truncated_normal
lecun_uniform: 1.0 fan_in uniform
he_normal kaiming_normal: 2.0 fan_in truncated_normal
he_uniform kaiming_uniform: 2.0 fan_in uniform"""
SCALED: dict[str, str] = by_name(_SCALED)


def __getattr__(name: str) -> Inits:
    """Return an initializer of this name."""
    if name not in SCALED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _scaled(name)


def _scaled(name: str) -> Inits:
    scale, mode, distribution = SCALED[name].split()
    return functools.partial(variance_scaling, float(scale), mode, distribution)


def normal(stddev: float = 1e-2, dtype: Any = None) -> Init:
    """Return normal numbers of a standard deviation."""
    return _cast(lambda key, shape: initializers.normal(key, shape, stddev), dtype)


def truncated_normal(stddev: float = 1e-2, dtype: Any = None, lower: float = -2.0, upper: float = 2.0) -> Init:
    """Return normal numbers between bounds, times a factor."""
    return _cast(lambda key, shape: random.truncated_normal(key, lower, upper, shape) * stddev, dtype)


def uniform(scale: float = 1e-2, dtype: Any = None) -> Init:
    """Return uniform numbers from 0 to ``scale``."""
    return _cast(lambda key, shape: random.uniform(key, shape) * scale, dtype)


def constant(value: float, dtype: Any = None) -> Init:
    """Return equal numbers."""
    return _cast(lambda key, shape: initializers.constant(key, shape, value), dtype)


def zeros(key: Any, shape: Sequence[int], dtype: Any = None) -> Array:
    """Return zeros, whatever the key is."""
    return constant(0.0)(key, shape, dtype)


def ones(key: Any, shape: Sequence[int], dtype: Any = None) -> Array:
    """Return ones, whatever the key is."""
    return constant(1.0)(key, shape, dtype)


def zeros_init() -> Init:
    """Return `zeros`, as Flax does."""
    return zeros


def ones_init() -> Init:
    """Return `ones`, as Flax does."""
    return ones


# --- stax: pairs of ``init(key, input_shape) -> (output_shape, params)`` and ``apply(params, inputs)``


def Dense(out_dim: int, W_init: Init | None = None, b_init: Init | None = None) -> Layer:  # stax's
    """Return ``x @ w + b``."""

    def init(rng: Any, input_shape: Sequence[int]) -> Any:
        first, second = random.split(rng)
        w = (W_init or _scaled("glorot")())(first, (input_shape[-1], out_dim))
        return (*input_shape[:-1], out_dim), (w, (b_init or normal())(second, (out_dim,)))

    def apply(params: Any, inputs: Any, **_: Any) -> Array:
        w, b = params
        z: Array = matmul(inputs, w) + b
        return z

    return init, apply


def elementwise(fn: Callable[..., Any], **options: Any) -> Layer:
    """Return a layer without parameters."""

    def init(_rng: Any, input_shape: Any) -> Any:
        return input_shape, ()

    def apply(_params: Any, inputs: Any, **_: Any) -> Any:
        return fn(inputs, **options)

    return init, apply


Relu: Layer = elementwise(nn.relu)
Elu: Layer = elementwise(nn.elu)
Gelu: Layer = elementwise(nn.gelu)
Selu: Layer = elementwise(nn.selu)
LeakyRelu: Layer = elementwise(leaky_relu)
Identity: Layer = elementwise(same)
Tanh: Layer = elementwise(tanh)
Sigmoid: Layer = elementwise(sigmoid)
Softplus: Layer = elementwise(softplus)
Exp: Layer = elementwise(exp)
Softmax: Layer = elementwise(nn.softmax)
LogSoftmax: Layer = elementwise(nn.log_softmax)


def _make(out_shape: Callable[[Any], Any], fn: Callable[[Any], Any]) -> Layer:
    """Return a layer without parameters that changes shapes."""

    def init(_rng: Any, input_shape: Any) -> Any:
        return out_shape(input_shape), ()

    return init, elementwise(fn)[1]


def _flatten(inputs: Any) -> Any:
    return inputs.reshape((inputs.shape[0], -1))


def _shape_after(fn: Any, shape: Any) -> Any:
    """Return the shape that a function gives, of any batch."""
    return shape[0], *fn(make_zeros((1, *shape[1:]))).shape[1:]


Flatten: Layer = _make(functools.partial(_shape_after, _flatten), _flatten)
FanInSum: Layer = _make(operator.itemgetter(0), lambda inputs: functools.reduce(operator.add, inputs))


def FanOut(num: int) -> Layer:  # stax's
    """Return the input several times."""

    def several(x: Any) -> Any:
        return [x] * num

    return _make(several, several)


def FanInConcat(axis: int = -1) -> Layer:  # stax's
    """Return inputs joined along an axis."""

    def out_shape(shapes: Any) -> Any:
        joined = list(shapes[0])
        joined[axis] = sum(shape[axis] for shape in shapes)
        return tuple(joined)

    def join(inputs: Any) -> Any:
        return concat(inputs, axis)

    return _make(out_shape, join)


def _each(layers: Sequence[Layer], rng: Any, shapes: Callable[[int, Any], Any]) -> tuple[list[Any], list[Any]]:
    """Return shapes and parameters of layers, each drawn from a key of its own; ``shapes(k, last)`` goes in."""
    outs, params, last = list[Any](), list[Any](), None
    for k, (init, _) in enumerate(layers):
        rng, own = random.split(rng)
        last, param = init(own, shapes(k, last))
        outs.append(last)
        params.append(param)
    return outs, params


def serial(*layers: Layer) -> Layer:
    """Return layers one after the other."""

    def init(rng: Any, input_shape: Any) -> Any:
        outs, params = _each(layers, rng, lambda k, last: last if k else input_shape)
        return outs[-1] if outs else input_shape, params

    def apply(params: Any, inputs: Any, rng: Any = None, **options: Any) -> Any:
        keys = [None] * len(layers) if rng is None else random.split(rng, len(layers))
        for (_, layer), param, key in zip(layers, params, keys, strict=True):
            inputs = layer(param, inputs, rng=key, **options)
        return inputs

    return init, apply


def parallel(*layers: Layer) -> Layer:
    """Return layers side by side, each of an input of its own."""

    def init(rng: Any, input_shape: Any) -> Any:
        keys = random.split(rng, len(layers))
        pairs = [make(key, shape) for (make, _), key, shape in zip(layers, keys, input_shape, strict=True)]
        return tuple([out for out, _ in pairs]), tuple([params for _, params in pairs])

    def apply(params: Any, inputs: Any, rng: Any = None, **options: Any) -> Any:
        keys = [None] * len(layers) if rng is None else random.split(rng, len(layers))
        parts = zip(layers, params, inputs, keys, strict=True)
        return [layer(param, x, rng=key, **options) for (_, layer), param, x, key in parts]

    return init, apply


def GeneralConv(
    dimension_numbers: Any,
    out_chan: int,
    filter_shape: Any,
    strides: Any = None,
    padding: Any = "VALID",
    W_init: Init | None = None,
    b_init: Init | None = None,
) -> Layer:  # stax's
    """Return a convolution of axes by letters, the batch first."""
    left, right, out = dimension_numbers
    steps = strides or (1,) * len(filter_shape)

    def init(rng: Any, input_shape: Any) -> Any:
        first, second = random.split(rng)
        window, own = iter(filter_shape), {"O": out_chan, "I": input_shape[left.index("C")]}
        w = (W_init or _scaled("glorot")())(first, [own.get(c) or next(window) for c in right])
        params = w, (b_init or normal(1e-6))(second, [out_chan if c == "C" else 1 for c in out])
        return _shape_after(functools.partial(apply, params), input_shape), params

    def apply(params: Any, inputs: Any, **_: Any) -> Array:
        w, b = params
        z: Array = conv_general_dilated(inputs, w, steps, padding, None, None, dimension_numbers) + b
        return z

    return init, apply


Conv: Callable[..., Layer] = functools.partial(GeneralConv, ("NHWC", "HWIO", "NHWC"))


def _pool(
    first: float, fn: Any, is_mean: bool, window_shape: Any, strides: Any = None, padding: Any = "VALID"
) -> Layer:
    window, steps = (1, *window_shape, 1), (1, *(strides or (1,) * len(window_shape)), 1)

    def pooled(x: Any) -> Any:
        z, count = [reduce_window(y, first, fn, window, steps, padding) for y in (x, ones_like(x))]
        return z / count if is_mean else z

    def out_shape(shape: Any) -> Any:  # of which JAX counts the batch too: -1 is none
        return max(shape[0], 0), *_shape_after(pooled, shape)[1:]

    return _make(out_shape, pooled)


MaxPool: Callable[..., Layer] = functools.partial(_pool, -math.inf, maximum, False)
AvgPool: Callable[..., Layer] = functools.partial(_pool, 0.0, add, True)
SumPool: Callable[..., Layer] = functools.partial(_pool, 0.0, add, False)


def Dropout(rate: float, mode: str = "train") -> Layer:  # stax's
    """Return a layer that keeps a share of the elements, which grow."""

    def apply(_params: Any, inputs: Any, *, rng: Any = None, **_: Any) -> Any:
        return Drop(1 - rate)(inputs, key=rng, inference=mode != "train")

    return Identity[0], apply


def BatchNorm(
    axis: Any = (0, 1, 2),
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    beta_init: Init = zeros,
    gamma_init: Init = ones,
) -> Layer:  # stax's
    """Return a norm of mean 0 and variance 1 over axes."""
    away = each(1, axis)

    def init(rng: Any, input_shape: Any) -> Any:
        shape = [n for k, n in enumerate(input_shape) if k not in away]
        first, second = random.split(rng)
        return input_shape, (beta_init(first, shape) if center else (), gamma_init(second, shape) if scale else ())

    def apply(params: Any, inputs: Any, **_: Any) -> Any:
        beta, gamma = params
        z: Any = nn.standardize(inputs, away, eps=epsilon)
        z = z * expand_dims(gamma, away) if scale else z
        return z + expand_dims(beta, away) if center else z

    return init, apply


# --- optimizers: ``init(params)``, ``update(step, grads, state)``, ``get_params(state)``


def make_schedule(value: Any) -> Callable[[Any], Any]:
    """Return a schedule: a number is a constant one."""
    return value if callable(value) else lambda _: value


def _optimizer(count: int) -> Callable[[Callable[..., Any]], Callable[..., Optimizer]]:
    """Return a decorator that makes optimizers of ``change(t, g, *kept, *options)``: a way, and so many kept trees."""

    def decorate(change: Callable[..., Any]) -> Callable[..., Optimizer]:
        def make(step_size: Any, *options: Any, **named: Any) -> Optimizer:
            rate = make_schedule(step_size)

            def init(params: Any) -> Any:
                return (params, *[pytree.map(zeros_like, params) for _ in range(count)])

            def update(step: Any, grads: Any, state: Any) -> Any:
                leaves, treedef = pytree.flatten(grads)
                columns, t = [pytree.leaves(tree) for tree in state], asarray(step, get_default_dtype()) + 1
                rows = [
                    (x, *change(t, g, *kept, *options, **named)) for g, x, *kept in zip(leaves, *columns, strict=True)
                ]
                rows = [(x - rate(step) * way, *kept) for x, way, *kept in rows]
                return tuple([treedef.unflatten(column) for column in zip(*rows, strict=True)])

            return init, update, operator.itemgetter(0)

        make.__doc__ = change.__doc__
        return make

    return decorate


@_optimizer(0)
def sgd(_: Any, g: Any) -> Any:
    """Return gradient descent."""
    return (g,)


@_optimizer(1)
def momentum(_: Any, g: Any, v: Any, mass: float) -> Any:
    """Return gradient descent with momentum."""
    return (mass * v + g,) * 2


@_optimizer(1)
def nesterov(_: Any, g: Any, v: Any, mass: float) -> Any:
    """Return descent with Nesterov's momentum."""
    v = mass * v + g
    return mass * v + g, v


@_optimizer(1)
def rmsprop(_: Any, g: Any, v: Any, gamma: float = 0.9, eps: float = 1e-8) -> Any:
    """Return RMSProp, eps inside of the root."""
    v = v * gamma + g * g * (1.0 - gamma)
    return g / sqrt(v + eps), v


@_optimizer(2)
def adam(t: Any, g: Any, m: Any, v: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    """Return Adam (Kingma & Ba 2015)."""
    m, v = (1 - b1) * g + b1 * m, (1 - b2) * g * g + b2 * v
    return m / (1 - b1**t) / (sqrt(v / (1 - b2**t)) + eps), m, v


@_optimizer(2)
def adagrad(_: Any, g: Any, total: Any, m: Any, momentum: float = 0.9) -> Any:
    """Return AdaGrad with momentum (Duchi, Hazan & Singer 2011)."""
    total = total + g * g
    m = (1.0 - momentum) * where(total > 0, g / sqrt(where(total > 0, total, 1.0)), 0.0) + momentum * m
    return m, total, m


@_optimizer(2)
def adamax(t: Any, g: Any, m: Any, u: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    """Return AdaMax (Kingma & Ba 2015)."""
    m, u = (1 - b1) * g + b1 * m, maximum(b2 * u, abs_(g))
    return m / (1 - b1**t) / (u + eps), m, u


def exponential_decay(step_size: float, decay_steps: float, decay_rate: float) -> Callable[[Any], Any]:
    """Return a rate that falls by ``decay_rate`` every ``decay_steps``."""
    return lambda i: step_size * decay_rate ** (i / decay_steps)


def inverse_time_decay(
    step_size: float, decay_steps: float, decay_rate: float, staircase: bool = False
) -> Callable[[Any], Any]:
    """Return a rate that falls as 1 over the time."""

    def schedule(i: Any) -> Any:
        turns = i / decay_steps
        return step_size / (1 + decay_rate * (asarray(turns) // 1 if staircase else turns))

    return schedule


def polynomial_decay(
    step_size: float, decay_steps: float, final_step_size: float, power: float = 1.0
) -> Callable[[Any], Any]:
    """Return a rate that falls to another one by a power."""

    def schedule(i: Any) -> Any:
        return (1 - np.minimum(asarray(i), decay_steps) / decay_steps) ** power * (
            step_size - final_step_size
        ) + final_step_size

    return schedule


def piecewise_constant(boundaries: Any, values: Any) -> Callable[[Any], Any]:
    """Return one of several values: the next one behind each boundary."""
    return lambda i: asarray(values)[sum_(asarray(i) > asarray(boundaries))]


def clip_grads(grad_tree: Any, max_norm: float) -> Any:
    """Return gradients whose norm is at most ``max_norm``."""
    factor = minimum(max_norm / (norm(grad_tree) + 1e-12), 1.0)
    return pytree.map(lambda g: g * factor, grad_tree)
