"""Eager gradients beside autograd's: the paper's classifier, and tiny arrays where only overhead counts."""

from __future__ import annotations

from collections.abc import Callable

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


def main(quick: bool = False) -> None:
    """Print the table."""
    rounds = 5 if quick else 40
    rows = [*classifier(rounds), *overhead(rounds)]
    table("Eager gradients (how many times longer the peer takes; both in one process, in turn)", rows)
