"""Initialisers: starting values of weights, drawn in the default dtype from a key.

The same key gives the same weights. An int stands for ``afx.random.key(int)``; a `numpy.random.Generator` gives another
key at each call. Weights are [*window, inputs, outputs]: the *fans* are how many inputs an output has, and how many
outputs an input. `functools.partial` sets an initialiser's options: ``partial(nn.orthogonal, gain=2.0)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np

from afx import random
from afx.core import Array, Shape, checked_shape
from afx.errors import ArgumentError, ShapeError
from afx.ops import argsort, astype, diagonal, eye, full, ones as ones_, reshape, where, zeros as zeros_
from afx.ops.linalg.factorizations import qr

__all__ = [
    "delta_orthogonal",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "he_uniform",
    "kaiming_normal",
    "kaiming_uniform",
    "lecun_normal",
    "lecun_uniform",
    "normal",
    "orthogonal",
    "truncated_normal",
    "uniform",
    "variance_scaling",
]

Seed = int | Array | np.random.Generator
Initializer = Callable[[Seed, Shape], Array]
Fan: TypeAlias = Literal["fan_in", "fan_out", "fan_avg"]
Distribution: TypeAlias = Literal["normal", "truncated_normal", "uniform"]

TRUNCATED_STD = 0.87962566103423978  # of the standard normal distribution cut off at -2 and 2


def key_of(seed: Seed) -> Array:
    """Return the key that a seed stands for, and keys as they are."""
    if isinstance(seed, np.random.Generator):
        return random.key(int(seed.integers(1 << 63)))
    return seed if isinstance(seed, Array) else random.key(seed)


def _fans(shape: Shape, who: str) -> tuple[int, int]:
    """Return how many inputs an output has and how many outputs an input, for weights [*window, inputs, outputs]."""
    shape = checked_shape(shape, who)
    if len(shape) < 2:
        raise ShapeError(f"{who}: weights have inputs and outputs: got shape {shape}; use normal or uniform")
    span = math.prod(shape[:-2])
    return max(span * shape[-2], 1), max(span * shape[-1], 1)


def _matrix(shape: Shape, who: str) -> Shape:
    shape = checked_shape(shape, who)
    if len(shape) != 2:
        raise ShapeError(f"{who}: weights are a matrix [inputs, outputs]: got shape {shape}; use another initialiser")
    return shape


# -- without fans --
def constant(_seed: Seed, shape: Shape, value: float = 0.0) -> Array:
    """Return one number everywhere.

    >>> constant(0, (2,), 0.5)
    Array([0.5, 0.5], dtype=float32)
    """
    return full(shape, float(value))


def zeros(_seed: Seed, shape: Shape) -> Array:
    """Return zeros.

    >>> zeros(0, (2,))
    Array([0., 0.], dtype=float32)
    """
    return zeros_(shape)


def ones(_seed: Seed, shape: Shape) -> Array:
    """Return ones.

    >>> ones(0, (2,))
    Array([1., 1.], dtype=float32)
    """
    return ones_(shape)


def identity(_seed: Seed, shape: Shape, gain: float = 1.0) -> Array:
    """Return ``gain`` on the diagonal of a matrix [inputs, outputs], 0 elsewhere (Le et al. 2015, for recurrent nets).

    >>> identity(0, (2, 3))
    Array([[1., 0., 0.],
           [0., 1., 0.]], dtype=float32)
    """
    rows, columns = _matrix(shape, "identity")
    return gain * eye(rows, columns)


def normal(seed: Seed, shape: Shape, scale: float = 1.0) -> Array:
    """Return normal numbers of mean 0 and standard deviation ``scale``.

    >>> normal(afx.random.key(0), (2,)).shape
    (2,)
    """
    return random.normal(key_of(seed), shape, 0.0, scale)


def truncated_normal(seed: Seed, shape: Shape, scale: float = 1.0, bound: float = 2.0) -> Array:
    """Return normal numbers of mean 0 that are redrawn beyond ``bound`` times ``scale``; needs the extra ``scipy``.

    ``scale`` is the standard deviation before the tails are cut; at the bound 2 it falls to 0.8796 of it.

    >>> bool((abs(truncated_normal(0, (100,))) <= 2).all())
    True
    """
    return scale * random.truncated_normal(key_of(seed), -bound, bound, shape)


def uniform(seed: Seed, shape: Shape, scale: float = 1.0) -> Array:
    """Return numbers that are uniform between ``-scale`` and ``scale``.

    >>> uniform(0, (2,)).shape
    (2,)
    """
    return random.uniform(key_of(seed), shape, -scale, scale)


# -- by fans --
def variance_scaling(
    seed: Seed, shape: Shape, scale: float = 1.0, mode: Fan = "fan_in", distribution: Distribution = "normal"
) -> Array:
    """Return weights of variance ``scale / fan``, of which the other initialisers with fans are cases.

    Args:
        seed: a key, or what stands for one.
        shape: [*window, inputs, outputs].
        scale: positive.
        mode: the fan: inputs of an output, outputs of an input, or the mean of both.
        distribution: ``"truncated_normal"`` is cut off at two standard deviations, then widened to the variance.

    Raises:
        ArgumentError: another mode or distribution, or a scale that is not positive.
        ShapeError: the weights have no inputs and outputs.

    >>> variance_scaling(0, (3, 2), 2.0, "fan_avg", "uniform").shape
    (3, 2)
    """
    return _draw_scaled("variance_scaling", seed, shape, scale, mode, distribution)


def _draw_scaled(who: str, seed: Seed, shape: Shape, scale: float, mode: Fan, distribution: Distribution) -> Array:
    fan_in, fan_out = _fans(shape, who)
    fans = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}
    if mode not in fans or not scale > 0:
        raise ArgumentError(
            f"{who}: mode is one of {', '.join(fans)} and scale positive: got {mode!r} and {scale}; choose such"
        )
    std = math.sqrt(scale / fans[mode])
    if distribution == "normal":
        return normal(seed, shape, std)
    if distribution == "uniform":
        return uniform(seed, shape, math.sqrt(3) * std)
    if distribution == "truncated_normal":
        return truncated_normal(seed, shape, std / TRUNCATED_STD)
    raise ArgumentError(
        f"{who}: distribution is 'normal', 'truncated_normal' or 'uniform': got {distribution!r}; choose one"
    )


def glorot_uniform(seed: Seed, shape: Shape) -> Array:
    """Return uniform weights of variance 2 / (inputs + outputs) (Glorot & Bengio 2010, equation 16; "Xavier").

    >>> glorot_uniform(0, (2, 3)).shape
    (2, 3)
    """
    return _draw_scaled("glorot_uniform", seed, shape, 1.0, "fan_avg", "uniform")


def glorot_normal(seed: Seed, shape: Shape) -> Array:
    """Return normal weights of variance 2 / (inputs + outputs) (Glorot & Bengio 2010, equation 12; "Xavier").

    >>> glorot_normal(0, (2, 3)).shape
    (2, 3)
    """
    return _draw_scaled("glorot_normal", seed, shape, 1.0, "fan_avg", "normal")


def he_uniform(seed: Seed, shape: Shape) -> Array:
    """Return uniform weights of variance 2 / inputs, for relu (He et al. 2015, equation 10).

    >>> he_uniform(0, (2, 3)).shape
    (2, 3)
    """
    return _draw_scaled("he_uniform", seed, shape, 2.0, "fan_in", "uniform")


def he_normal(seed: Seed, shape: Shape) -> Array:
    """Return normal weights of variance 2 / inputs, for relu (He et al. 2015, equation 10).

    >>> he_normal(0, (2, 3)).shape
    (2, 3)
    """
    return _draw_scaled("he_normal", seed, shape, 2.0, "fan_in", "normal")


def kaiming_uniform(seed: Seed, shape: Shape, slope: float = 0.0, mode: Fan = "fan_in") -> Array:
    """Return uniform weights of variance 2 / ((1 + slope²)·fan), for leaky relu (He et al. 2015, equation 15).

    With slope 0 this is `he_uniform`; ``slope=math.sqrt(5)`` is how torch starts its linear and convolutional layers.

    >>> kaiming_uniform(0, (2, 3), slope=0.1).shape
    (2, 3)
    """
    return _draw_scaled("kaiming_uniform", seed, shape, 2 / (1 + slope * slope), mode, "uniform")


def kaiming_normal(seed: Seed, shape: Shape, slope: float = 0.0, mode: Fan = "fan_in") -> Array:
    """Return normal weights of variance 2 / ((1 + slope²)·fan), for leaky relu (He et al. 2015, equation 15).

    >>> kaiming_normal(0, (2, 3), slope=0.1).shape
    (2, 3)
    """
    return _draw_scaled("kaiming_normal", seed, shape, 2 / (1 + slope * slope), mode, "normal")


def lecun_uniform(seed: Seed, shape: Shape) -> Array:
    """Return uniform weights of variance 1 / inputs (LeCun et al. 1998, equation 16).

    >>> lecun_uniform(0, (2, 3)).shape
    (2, 3)
    """
    return _draw_scaled("lecun_uniform", seed, shape, 1.0, "fan_in", "uniform")


def lecun_normal(seed: Seed, shape: Shape) -> Array:
    """Return normal weights of variance 1 / inputs (LeCun et al. 1998, equation 16).

    >>> lecun_normal(0, (2, 3)).shape
    (2, 3)
    """
    return _draw_scaled("lecun_normal", seed, shape, 1.0, "fan_in", "normal")


# -- of a structure --
def orthogonal(seed: Seed, shape: Shape, gain: float = 1.0) -> Array:
    """Return weights whose rows or columns, whichever are fewer, are orthonormal times ``gain`` (Saxe et al. 2014).

    The matrix [everything else, outputs] is uniform among all such (Mezzadri 2007: signs from the diagonal of R).

    Raises:
        ShapeError: the weights have no inputs and outputs.

    >>> w = orthogonal(0, (4, 2))
    >>> bool(afx.allclose(w.T @ w, afx.eye(2), atol=1e-6))
    True
    """
    _fans(shape, "orthogonal")
    rows, columns = math.prod(shape[:-1]), shape[-1]
    q, r = qr(normal(seed, (max(rows, columns), min(rows, columns))))
    q = q * where(diagonal(r) < 0, -gain, gain)
    return reshape(astype(q if rows >= columns else q.T, r.dtype), shape)


def delta_orthogonal(seed: Seed, shape: Shape, gain: float = 1.0) -> Array:
    """Return kernels that are 0 but for an `orthogonal` matrix in the middle of the window (Xiao et al. 2018).

    Raises:
        ShapeError: there is no window, or more inputs than outputs.

    >>> kernel = delta_orthogonal(0, (3, 2, 2))
    >>> bool(afx.allclose(kernel.sum(axis=0).T @ kernel[1], afx.eye(2), atol=1e-6))
    True
    """
    shape = checked_shape(shape, "delta_orthogonal")
    if len(shape) < 3 or shape[-2] > shape[-1] or not all(shape):
        raise ShapeError(
            f"delta_orthogonal: kernels are [*window, inputs, outputs] with no more inputs than outputs: got {shape}; "
            "use orthogonal"
        )
    middle = tuple([(n - 1) // 2 for n in shape[:-2]])
    return zeros_(shape).at[middle].set(orthogonal(seed, shape[-2:], gain))


def sparse(seed: Seed, shape: Shape, sparsity: float = 0.9, scale: float = 0.01) -> Array:
    """Return normal weights of which each output has this share of zeros among its inputs (Martens 2010, section 5).

    Args:
        seed: a key, or what stands for one.
        shape: [inputs, outputs].
        sparsity: the share of zeros, rounded up to a whole number of inputs.
        scale: the standard deviation of the others.

    Raises:
        ShapeError: the weights are no matrix.
        ArgumentError: the share is not between 0 and 1.

    >>> (sparse(0, (10, 3), 0.7) != 0).sum(axis=0).tolist()
    [3, 3, 3]
    """
    inputs, outputs = _matrix(shape, "sparse")
    if not 0 <= sparsity <= 1:
        raise ArgumentError(f"sparse: sparsity is a share from 0 to 1: got {sparsity}; give such")
    order, values = random.split(key_of(seed))
    ranks = argsort(argsort(random.uniform(order, (inputs, outputs)), axis=0), axis=0)
    return where(ranks < math.ceil(sparsity * inputs), 0, normal(values, (inputs, outputs), scale))
