"""Eager gradients beside autograd's: the paper's classifier, and tiny arrays where only overhead counts."""

from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

import afx
from afx import Array, nn
from tests.benchmarks.harness import Row, available, interleaved, table

ORIGINAL = 14.5e-3  # seconds a step of the paper's own program on 100 examples, measured on a quiet machine


@attrs.frozen
class Classifier:
    """The paper's histogram classifier: three kernels of 5, pooled by 2, then 7 × 18 weights."""

    kernels: Array
    weight: Array
    bias: Array
    output: Array


def _parameters(rng: np.random.Generator) -> list[np.ndarray]:
    return [rng.normal(size=s).astype(np.float32) for s in ((5, 1, 3), (18, 7), (7,), (7,))]


def _examples(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    x = rng.random((count, 16), dtype=np.float32)
    return x / x.sum(axis=1, keepdims=True), (rng.random(count) < 0.5).astype(np.float32)


def loss(model: Classifier, x: Array, targets: Array) -> Array:
    """Return the mean of log(1 + e^y) - t·y."""
    cells = nn.max_pool(nn.conv(x[:, :, None], model.kernels), 2)
    y = (cells.reshape(x.shape[0], 18) @ model.weight + model.bias) @ model.output
    return afx.mean(nn.softplus(y) - targets * y)


def _with_autograd(parameters: list[np.ndarray], x: np.ndarray, targets: np.ndarray) -> Callable[[], object]:
    import autograd
    import autograd.numpy as anp

    windows = np.lib.stride_tricks.sliding_window_view(x, 5, axis=1)

    def total(p: list[Any]) -> Any:
        rows = anp.dot(windows, anp.reshape(p[0], (5, 3)))
        cells = anp.max(anp.reshape(rows, (x.shape[0], 6, 2, 3)), axis=2)
        y = anp.dot(anp.dot(anp.reshape(cells, (x.shape[0], 18)), p[1]) + p[2], p[3])
        return anp.mean(anp.logaddexp(y, 0) - targets * y)

    run = autograd.value_and_grad(total)
    return lambda: run(parameters)


def classifier() -> list[Row]:
    """Time a value and gradient of the classifier on 100 examples, eager and compiled."""
    rng = np.random.default_rng(0)
    parameters = _parameters(rng)
    x, targets = _examples(rng, 100)
    model = Classifier(*map(afx.asarray, parameters))
    xs, ts = afx.asarray(x), afx.asarray(targets)
    eager, compiled = afx.value_and_grad(loss), afx.jit(afx.value_and_grad(loss))
    functions: dict[str, Callable[[], object]] = {
        "afx": lambda: eager(model, xs, ts),
        "afx.jit": lambda: compiled(model, xs, ts),
    }
    if available("autograd"):
        functions["autograd"] = _with_autograd(parameters, x, targets)
    found = interleaved(functions)
    peers = {k: v for k, v in found.items() if not k.startswith("afx")} | {"the paper's program": ORIGINAL}
    return [
        (f"classifier, 100 examples, {name}", found[key], {k: v / found[key] for k, v in peers.items()})
        for name, key in (("eager", "afx"), ("compiled", "afx.jit"))
    ]


def _operations(sqrt: Callable[[Any], Any], total: Callable[[Any], Any], count: int) -> Callable[[Any], Any]:
    def fn(x: Any) -> Any:
        for _ in range(count // 4):
            x = x * 0.9
            x = x + 0.1
            x = x * x
            x = sqrt(x)
        return total(x)

    return fn


def overhead(count: int = 400) -> list[Row]:
    """Time an operation on ten elements, forward and backward."""
    x = np.linspace(0.1, 1.0, 10)
    mine, point = afx.value_and_grad(_operations(afx.sqrt, afx.sum, count)), afx.asarray(x)
    functions: dict[str, Callable[[], object]] = {"afx": lambda: mine(point)}
    if available("autograd"):
        import autograd
        import autograd.numpy as anp

        theirs = autograd.value_and_grad(_operations(anp.sqrt, anp.sum, count))
        functions["autograd"] = lambda: theirs(x)
    found = interleaved(functions)
    peers = {k: v / found["afx"] for k, v in found.items() if k != "afx"}
    return [("one operation on ten elements", found["afx"] / count, peers)]


def growth() -> list[Row]:
    """Time an operation in chains of growing length: trace, and value and gradient."""
    rows: list[Row] = []
    for count in (100, 1_000, 10_000, 100_000):

        def chain(x: Array, count: int = count) -> Array:
            for _ in range(count):
                x = x + 1.0
            return x

        tape, graph = afx.grad(chain), afx.trace(chain)
        point = afx.asarray(1.0)
        rounds = 1 if count > 10_000 else 5
        found = interleaved({"grad": lambda t=tape, x=point: t(x), "trace": lambda g=graph, x=point: g(x)}, rounds, 0.0)
        rows += [(f"{kind} of {count} operations, each", seconds / count, {}) for kind, seconds in found.items()]
    return rows


def main() -> None:
    """Print the table."""
    table("Eager gradients (how many times longer the peer takes)", [*classifier(), *overhead()])
    table("How cost grows", growth())
