"""Random programs: a few operations on a few arrays, the same for the same seed."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np

import afx
from afx import Array, nn

__all__ = ["inputs", "program"]

UNARY: tuple[Callable[[Array], Array], ...] = (
    afx.negative,
    afx.abs,
    afx.sin,
    afx.tanh,
    nn.relu,
    nn.sigmoid,
    nn.softplus,
    lambda x: afx.negative(-x),
    lambda x: x * 1.0,
    lambda x: x * -1.0,
    lambda x: x - 0.0,
    lambda x: x + 0.0,
    lambda x: x / 4.0,
    lambda x: x * 0.3 * -2.0,
    lambda x: (4.0 * x) * 0.7,
    lambda x: x / 1.0,
    lambda x: x**2,
    lambda x: afx.pow(x, 3.0),
    lambda x: afx.pow(afx.abs(x) + 0.5, -1.0),
    lambda x: x.astype("float64").astype(x.dtype),
    lambda x: afx.where(x > 0, x * (x > 0).astype(x.dtype), 0.0),
    lambda x: afx.where(x > 0, afx.where(x > 0, x, 1.0), afx.where(x > 0, 3.0, -x)),
    lambda x: ((x > 0).astype(x.dtype) != 0).astype(x.dtype),
    lambda x: x.reshape(-1).reshape(x.shape),
    lambda x: afx.permute_dims(afx.permute_dims(x, (1, 0)), (1, 0)),
    lambda x: afx.permute_dims(x * 2, (1, 0)).reshape(x.shape),
    lambda x: x[::-1] * 0.5,
    lambda x: afx.pad(x[1:], ((1, 0), (0, 0))) + x * 0.5,
    lambda x: (x * 2.0).at[:, 1:].add(x[:, :-1]),
    lambda x: (x * 2.0).at[0].set(x[-1]) * 0.5,
    lambda x: x - afx.sum(x, axis=1, keepdims=True),
    lambda x: x - afx.max(x, axis=0),
    lambda x: nn.softmax(x, axis=-1),
    lambda x: nn.log_softmax(x, axis=0),
    lambda x: x / (1.0 + afx.mean(x * x, axis=-1, keepdims=True)),
    lambda x: x * afx.sum(x, axis=0),
    lambda x: x + afx.max(x, axis=1)[:, None] * afx.min(x, axis=1).reshape(-1, 1),
    lambda x: x + afx.max(afx.stack([x, x * 2, -x], axis=1), axis=1),
    lambda x: afx.broadcast_to(afx.sum(x), x.shape) * 0.01,
    lambda x: afx.sum(afx.broadcast_to(afx.mean(x), (3, *x.shape)), axis=0) + x,
    lambda x: afx.ones(x.shape) * x + afx.zeros(x.shape),
)
BINARY: tuple[Callable[[Array, Array], Array], ...] = (
    afx.add,
    afx.subtract,
    afx.multiply,
    afx.maximum,
    afx.minimum,
    lambda x, y: x + -y,
    lambda x, y: -x + y,
    lambda x, y: x - -y,
    lambda x, y: afx.where(x < y, x, y),
    lambda x, y: (x @ y.reshape(y.shape[::-1])) @ y * 0.1,
    lambda x, y: x + y[0],
    lambda x, y: x * afx.full(x.shape, 1.0) + y,
)


def program(seed: int, length: int = 12) -> Callable[..., Any]:
    """Return a function of two matrices with several results."""
    draw = random.Random(seed)
    steps = [(draw.random() < 0.5, draw.randrange(1 << 20), draw.random(), draw.random()) for _ in range(length)]

    def fn(x: Array, y: Array) -> tuple[Array, ...]:
        found = [x, y]
        for unary, which, a, b in steps:
            left, right = found[int(a * len(found))], found[int(b * len(found))]
            found.append(UNARY[which % len(UNARY)](left) if unary else BINARY[which % len(BINARY)](left, right))
        return tuple(found[-4:])

    return fn


def inputs(
    seed: int, shape: tuple[int, int] = (3, 5), special: bool = False, dtype: str = "float32"
) -> tuple[Array, Array]:
    """Return two matrices; with special values among them where that is asked for."""
    rng = np.random.default_rng(seed)
    values = [rng.normal(size=shape).astype(dtype) for _ in range(2)]
    if special:
        for v in values:
            v.flat[:5] = [0.0, -0.0, np.inf, -np.inf, np.nan]
            rng.shuffle(v.reshape(-1))
    return afx.asarray(values[0]), afx.asarray(values[1])
