"""Eager calls beside autograd's and NumPy's: gradients, likelihoods, and single calls where only overhead counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import afx
from tests.benchmarks.growth import chain
from tests.benchmarks.harness import Row, available, interleaved, table
from tests.benchmarks.libraries import value_and_grad
from tests.benchmarks.workloads import classifier as histograms

__all__ = ["main"]

ORIGINAL = 14.5e-3  # seconds a step of the paper's own program on 100 examples, measured on a quiet machine


def classifier(rounds: int) -> list[Row]:
    """Time a value and gradient of the classifier on 100 examples, eager and compiled."""
    p, data = histograms.parameters(), histograms.examples(100)
    model, (xs, ts) = histograms.Classifier(*map(afx.asarray, p)), map(afx.asarray, data)
    eager = afx.value_and_grad(histograms.LOSSES["afx"])
    functions: dict[str, Callable[[], object]] = {
        "afx": lambda: eager(model, xs, ts),
        "afx.jit": value_and_grad("afx", histograms.LOSSES["afx"], p, data, histograms.Classifier).run,
    }
    if available("autograd"):
        functions["autograd"] = value_and_grad("autograd", histograms.LOSSES["autograd"], p, data).run
    found = interleaved(functions, rounds)
    peers = {k: v for k, v in found.items() if not k.startswith("afx")} | {"the paper's program": ORIGINAL}
    return [
        (f"classifier, 100 examples, {name}", found[key], {k: v / found[key] for k, v in peers.items()})
        for name, key in (("eager", "afx"), ("compiled", "afx.jit"))
    ]


def overhead(rounds: int, count: int = 400) -> list[Row]:
    """Time an operation on ten elements, forward and backward."""
    x = np.linspace(0.1, 1.0, 10)
    mine, point = afx.value_and_grad(chain(count, afx.sqrt, afx.sum)), afx.asarray(x)
    functions: dict[str, Callable[[], object]] = {"afx": lambda: mine(point)}
    if available("autograd"):
        import autograd
        import autograd.numpy as anp

        theirs = autograd.value_and_grad(chain(count, anp.sqrt, anp.sum))
        functions["autograd"] = lambda: theirs(x)
    found = interleaved(functions, rounds)
    peers = {k: v / found["afx"] for k, v in found.items() if k != "afx"}
    return [("one operation on ten elements", found["afx"] / count, peers)]


def _weibull(m: Any) -> Callable[..., Any]:
    def loss(p: Any, y: Any) -> Any:
        shape, scale = m.exp(p[0]), m.exp(p[1])
        return -m.sum(m.log(shape / scale) + (shape - 1) * m.log(y / scale) - (y / scale) ** shape)

    return loss


def _lognormal(m: Any) -> Callable[..., Any]:
    def loss(p: Any, y: Any) -> Any:
        z = (m.log(y) - p[0]) / m.exp(p[1])
        return m.sum(0.5 * z**2 + p[1] + m.log(y))

    return loss


def _piecewise(m: Any) -> Callable[..., Any]:
    def loss(p: Any, y: Any) -> Any:  # a constant hazard before and after a change
        early, late = m.exp(p[0]), m.exp(p[1])
        return m.sum(m.where(y < 1.0, early * y - p[0], early + late * (y - 1.0) - p[1]))

    return loss


LIKELIHOODS = {"Weibull": _weibull, "log-normal": _lognormal, "piecewise": _piecewise}


def likelihoods(rounds: int, count: int = 100) -> list[Row]:
    """Time gradients and Hessians of likelihoods of two parameters, eager and compiled."""
    p, y = np.array([0.1, 0.2]), np.random.default_rng(0).weibull(1.5, count)
    point, data = afx.asarray(p), afx.asarray(y)
    rows: list[Row] = []
    for name, loss in LIKELIHOODS.items():
        mine, second = afx.grad(loss(afx)), afx.hessian(loss(afx))
        compiled, second_compiled = afx.jit(mine), afx.jit(second)
        theirs = _from_autograd(loss)
        rows += _beside(f"{name}, gradient", lambda f=mine: f(point, data), theirs["gradient"], (p, y), rounds)
        rows += _beside(
            f"{name}, gradient, compiled", lambda f=compiled: f(point, data), theirs["gradient"], (p, y), rounds
        )
        rows += _beside(f"{name}, Hessian", lambda f=second: f(point, data), theirs["Hessian"], (p, y), rounds)
        rows += _beside(
            f"{name}, Hessian, compiled", lambda f=second_compiled: f(point, data), theirs["Hessian"], (p, y), rounds
        )
    return rows


def _from_autograd(loss: Callable[[Any], Any]) -> dict[str, Callable[..., Any] | None]:
    if not available("autograd"):
        return {"gradient": None, "Hessian": None}
    import autograd
    import autograd.numpy as anp

    return {"gradient": autograd.grad(loss(anp)), "Hessian": autograd.hessian(loss(anp))}


def _beside(
    name: str, mine: Callable[[], object], peer: Callable[..., Any] | None, args: tuple[Any, ...], rounds: int
) -> list[Row]:
    functions = {"afx": mine}
    if peer is not None:
        functions["autograd"] = lambda: peer(*args)
    found = interleaved(functions, rounds, 0.01)
    return [(name, found["afx"], {k: v / found["afx"] for k, v in found.items() if k != "afx"})]


def custom_rules(rounds: int) -> list[Row]:
    """Time a gradient through a function with a rule of the user's own."""
    x = np.linspace(0.1, 2.0, 10)
    point = afx.asarray(x)
    by_vjp = afx.custom_vjp(afx.sin, lambda x: (afx.sin(x), x), lambda x, ct: (ct * afx.cos(x),))
    by_jvp = afx.custom_jvp(afx.sin, lambda xs, ts: (afx.sin(xs[0]), ts[0] * afx.cos(xs[0])))
    peer: Callable[..., Any] | None = None
    if available("autograd"):
        import autograd
        import autograd.numpy as anp
        from autograd.extend import defvjp, primitive

        sine = primitive(lambda x: np.sin(x))
        defvjp(sine, lambda z, x: lambda ct: ct * anp.cos(x))
        peer = autograd.grad(lambda x: anp.sum(sine(x)))
    rows: list[Row] = []
    for name, f in (("custom_vjp", by_vjp), ("custom_jvp", by_jvp)):
        mine = afx.grad(lambda x, f=f: afx.sum(f(x)))
        rows += _beside(f"gradient through {name}", lambda f=mine: f(point), peer, (x,), rounds)
    return rows


def calls(rounds: int) -> list[Row]:
    """Time single calls outside of any transformation, each beside NumPy's on the same numbers."""
    x, m, y = np.linspace(0.1, 2.0, 100), np.ones((4, 4)), np.random.default_rng(0).weibull(1.5, 100)
    a, b = afx.asarray(x), afx.asarray(m)
    p = np.array([0.1, 0.2])
    both: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "clip(Array)": (lambda: afx.clip(a, 0.0, 1.0), lambda: np.clip(x, 0.0, 1.0)),
        "np.clip(Array)": (lambda: np.clip(a, 0.0, 1.0), lambda: np.clip(x, 0.0, 1.0)),
        "dot(Array, Array)": (lambda: afx.dot(a, a), lambda: np.dot(x, x)),
        "np.dot(Array, Array)": (lambda: np.dot(a, a), lambda: np.dot(x, x)),
        "diag(Array)": (lambda: afx.diag(b), lambda: np.diag(m)),
        "linalg.norm(Array)": (lambda: afx.linalg.norm(a), lambda: np.linalg.norm(x)),
        "ndarray @ Array": (lambda: m @ b, lambda: m @ m),
        "ndarray * Array": (lambda: x * a, lambda: x * x),
        "sum(Array)": (lambda: afx.sum(a), lambda: np.sum(x)),
    }
    for name, loss in LIKELIHOODS.items():
        mine, theirs = loss(afx), loss(np)
        both[f"{name}, value from ndarrays"] = (lambda f=mine: f(p, y), lambda f=theirs: f(p, y))
    return _beside_numpy(both, rounds)


def draws(rounds: int) -> list[Row]:
    """Time draws beside those of a Generator of NumPy."""
    from afx import random

    key, rng = random.key(0), np.random.default_rng(0)
    logits = afx.asarray(rng.normal(size=(100, 10)).astype(np.float32))
    shares = np.exp(np.asarray(logits))
    ends = np.cumsum(shares / shares.sum(axis=1, keepdims=True), axis=1)
    f32 = np.float32
    both: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {}
    for n in (10, 1_000, 100_000):
        both[f"random.normal of {n}"] = (lambda n=n: random.normal(key, n), lambda n=n: rng.standard_normal(n, f32))
        both[f"random.uniform of {n}"] = (lambda n=n: random.uniform(key, n), lambda n=n: rng.random(n, f32))
    both["random.categorical of 100 out of 10"] = (
        lambda: random.categorical(key, logits),
        lambda: (ends < rng.random((100, 1))).sum(axis=1),
    )
    return _beside_numpy(both, rounds)


def _beside_numpy(both: dict[str, tuple[Callable[[], object], Callable[[], object]]], rounds: int) -> list[Row]:
    rows: list[Row] = []
    for name, (mine, numpy) in both.items():
        found = interleaved({"afx": mine, "NumPy": numpy}, rounds, 0.01)
        rows.append((name, found["afx"], {"NumPy": found["NumPy"] / found["afx"]}))
    return rows


def main(quick: bool = False) -> None:
    """Print the tables."""
    rounds = 5 if quick else 40
    rows = [*classifier(rounds), *overhead(rounds), *custom_rules(rounds), *likelihoods(rounds)]
    table("Eager gradients (how many times longer the peer takes; both in one process, in turn)", rows)
    table("Calls outside of transformations (how many times longer NumPy takes)", [*calls(rounds), *draws(rounds)])
