"""Functions that become files of NumPy, beside those of `tests.export.cases`: trees, loops, vmap, rare operations."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import afx
from afx import Array, fft, nn, random
from tests.export.cases import CASES, draw

__all__ = ["FUNCTIONS", "NumpyCase"]


class NumpyCase(NamedTuple):
    """A function and the arguments that it is exported for."""

    fn: Any
    args: tuple[Any, ...]


class Pair(NamedTuple):
    """A tree of a user's own."""

    low: Any
    high: Any


def _regression(params: dict[str, Any], data: Pair) -> Array:
    hidden = afx.tanh(data.low @ params["inner"]["w"] + params["inner"]["b"])
    return afx.mean((hidden @ params["outer"][0] - data.high) ** 2)


def _power_iteration(a: Any) -> Array:
    def step(v: Array, _: None) -> tuple[Array, None]:
        v = a @ v
        return v / afx.sqrt(afx.sum(v * v)), None

    v, _ = afx.scan(step, afx.ones(4, dtype="float64"), None, length=6)
    return v @ a @ v


def _halved(x: Any) -> Array:
    return afx.while_loop(lambda s: afx.sum(s) > 1.0, lambda s: s * afx.cos(s) * 0.5, afx.asarray(x))


def _choice(x: Any) -> Array:
    return afx.cond(afx.sum(x) > 0, lambda x: x * x, lambda x: afx.exp(x), x)


def _chosen_in_loop(x: Any) -> Array:
    def step(total: Array, row: Array) -> tuple[Array, Array]:
        total = total + afx.sum(_choice(row))
        return total, total * row[0]

    total, ys = afx.scan(step, afx.asarray(np.float64(0.0)), afx.asarray(x), reverse=True)
    return total + afx.max(ys)


def _spectrum(x: Any) -> Array:
    return afx.sum(afx.abs(fft.rfft(x)) ** 2 * np.arange(5))


def _dropout(key: Any, x: Any) -> Array:
    first, second = random.split(key)
    kept = random.bernoulli(first, 0.7, x.shape)
    return afx.where(kept, x / 0.7, 0.0) + 0.1 * random.normal(second, x.shape, dtype="float64")


def _mixed(x: Any, n: Any) -> tuple[Array, ...]:
    half = afx.astype(x, "float32")
    return half * n, afx.astype(half > 0, "int32") + n, afx.sort(x), afx.argsort(-x), afx.cumsum(x), *afx.top_k(x, 2)


def _clipped(x: Any) -> Array:
    return afx.checkpoint(lambda x: afx.sum(afx.clip(x, -0.5, 0.5) ** 2))(x)


def _masked_sums(x: Any) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = 1.0 / x
    return afx.sum(afx.where(x > 0, afx.log(afx.abs(ratio)), 0.0))


W, B, OUT = draw(3, 5), draw(5), draw(5, 2)
PARAMS = {"outer": [OUT], "inner": {"w": W, "b": B}}

FUNCTIONS: dict[str, NumpyCase] = {
    **{name: NumpyCase(case.fn, case.args) for name, case in CASES.items()},
    "regression": NumpyCase(afx.value_and_grad(_regression), (PARAMS, Pair(draw(9, 3), draw(9, 2)))),
    "power_iteration": NumpyCase(afx.value_and_grad(_power_iteration), (draw(4, 4),)),
    "mapped_loop": NumpyCase(afx.vmap(_power_iteration), (draw(3, 4, 4),)),
    "halved": NumpyCase(afx.jacrev(_halved), (np.array([3.0, 2.0]),)),
    "mapped_while": NumpyCase(afx.vmap(_halved), (np.array([[3.0, 2.0], [0.1, 0.1]]),)),
    "choice": NumpyCase(afx.jacrev(_choice), (draw(3),)),
    "chosen_in_loop": NumpyCase(afx.value_and_grad(_chosen_in_loop), (draw(5, 3),)),
    "spectrum": NumpyCase(afx.value_and_grad(_spectrum), (draw(8),)),
    "dropout": NumpyCase(afx.jit(_dropout), (random.key(1), draw(4, 3))),
    "mixed": NumpyCase(_mixed, (draw(6), np.int32(3))),
    "clipped": NumpyCase(afx.grad(_clipped), (draw(6),)),
    "masked_sums": NumpyCase(afx.grad(_masked_sums), (np.array([1.0, 0.0, -2.0, 4.0]),)),
    "hessian_product": NumpyCase(
        lambda x, v: afx.jvp(afx.grad(_power_iteration), (x,), (v,)), (draw(4, 4), draw(4, 4, seed=1))
    ),
    "attention": NumpyCase(lambda q, k, v: nn.softmax(q @ k.T / 2.0) @ v, (draw(5, 4), draw(6, 4), draw(6, 3))),
    "special": NumpyCase(
        afx.grad(lambda x: afx.sum(afx.special.erf(x) + afx.special.gammaln(x * x + 1.0))), (draw(5),)
    ),
}
