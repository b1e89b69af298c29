"""Loops that are no plain arithmetic, beside jax.jit and NumPy: `python -m tests.benchmarks loops`.

Each has three sizes, in float64. A row's ratios say how many times longer a peer takes than afx by default.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import geometric_mean
from types import SimpleNamespace as Kit
from typing import Any

import numpy as np

import afx
from tests.benchmarks.child import leaves, wait_for_machine_code
from tests.benchmarks.harness import Row, available, interleaved, table

__all__ = ["LOOPS", "main"]


def _scan_each(fn: Callable[..., Any], carry: Any, xs: Any, *, reverse: bool = False) -> Any:
    ys: list[Any] = [None] * len(xs)
    for k in range(len(xs))[:: -1 if reverse else 1]:
        carry, ys[k] = fn(carry, xs[k])
    return carry, np.stack(ys)


def kit(name: str) -> Any:
    """Return a library's functions, under one set of names."""
    if name == "numpy":
        k = Kit(m=np, scan=_scan_each, running_max=np.maximum.accumulate, one_hot=lambda x, n: np.eye(n)[x])
        k.solve = importlib.import_module("scipy.linalg").solve_triangular
        k.top = lambda x, n: (-np.sort(-x)[..., :n], np.argsort(-x)[..., :n])
    elif name == "jax":
        jax, m = importlib.import_module("jax"), importlib.import_module("jax.numpy")
        jax.config.update("jax_enable_x64", True)
        k = Kit(m=m, scan=jax.lax.scan, top=jax.lax.top_k, running_max=jax.lax.cummax, gradient=jax.value_and_grad)
        k.solve, k.one_hot = importlib.import_module("jax.scipy.linalg").solve_triangular, jax.nn.one_hot
    else:
        k = Kit(m=afx, scan=afx.scan, top=afx.top_k, running_max=afx.cummax, gradient=afx.value_and_grad)
        k.solve, k.one_hot = afx.linalg.solve_triangular, lambda x, n: afx.nn.one_hot(x, n, dtype=np.float64)
    k.bincount = lambda x, n: k.m.bincount(x, **{"minlength" if name == "numpy" else "length": n})
    return k


def _viterbi(k: Any, start: Any, moves: Any, seen: Any) -> Any:
    """Return the likeliest path through hidden states (Viterbi 1967)."""

    def forward(score: Any, row: Any) -> Any:
        return (each := score[:, None] + moves).max(axis=0) + row, each.argmax(axis=0)

    score, before = k.scan(forward, start, seen)
    return k.scan(lambda state, row: (row[state], state), score.argmax(), before, reverse=True)[1], score.max()


def _particles(k: Any, x: Any, noise: Any, starts: Any, seen: Any) -> Any:
    """Return means of a filter whose particles are drawn anew by systematic resampling (Kitagawa 1996)."""

    def step(x: Any, turn: Any) -> Any:
        x = 0.5 * x + 25 * x / (1 + x * x) + noise[turn]
        total = k.m.cumsum(weights := k.m.exp(-0.5 * (x * x / 20 - seen[turn]) ** 2))
        places = (starts[turn] + k.m.arange(len(x))) / len(x) * total[-1]
        return x[k.m.minimum(k.m.searchsorted(total, places), len(x) - 1)], (weights * x).sum() / total[-1]

    return k.scan(step, x, k.m.arange(len(noise)))[1]


def _process(k: Any, x: Any, inducing: Any, y: Any) -> Any:
    """Return the bound of a sparse Gaussian process (Titsias 2009), of 0.1 noise and length 1."""
    own = k.m.exp(-0.5 * (inducing[:, None] - inducing) ** 2) + 1e-4 * (eye := k.m.eye(len(inducing)))
    a = k.solve(k.m.linalg.cholesky(own), k.m.exp(-0.5 * (inducing[:, None] - x) ** 2), lower=True) / 0.1
    factor = k.m.linalg.cholesky(eye + a @ a.T)
    c = k.solve(factor, a @ y / 0.1, lower=True)
    return 0.5 * (c @ c - (a * a).sum()) - k.m.log(k.m.diagonal(factor)).sum()


def _normal(r: np.random.Generator, *size: int) -> tuple[Any, ...]:
    return (r.normal(size=size),)


EAGER, LONG = "unique counts", (100, 10**4, 10**6)
GROUPS: tuple[tuple[Sequence[Any], Callable[..., Sequence[Any]], dict[str, Callable[..., Any]]], ...] = (
    (((20, 20), (64, 300), (1000, 500)), _normal, {
        "argmax, first axis": lambda k, x: x.argmax(axis=0),
        "max and argmax, first axis": lambda k, x: (x.max(axis=0), x.argmax(axis=0))}),
    (((8, 20, 20), (8, 64, 300), (4, 300, 300)), _normal, {"argmin, middle axis": lambda k, x: x.argmin(axis=1)}),
    (((1000, 1000), (10**4, 10**4), (10**6, 10**4)), lambda r, n, m: (np.sort(r.normal(size=n)), r.normal(size=m)), {
        "searchsorted": lambda k, a, v: k.m.searchsorted(a, v),
        "searchsorted, sorted": lambda k, a, v: k.m.searchsorted(a, a[:: len(a) // len(v)] + 1e-9)}),
    (LONG, lambda r, n: (1 + 1e-3 * r.normal(size=n),), {
        "cumsum": lambda k, x: k.m.cumsum(x), "cumprod": lambda k, x: k.m.cumprod(x), "cummax": lambda k, x: k.running_max(x),
        "histogram": lambda k, x: k.m.histogram(x, bins=20, range=(0.997, 1.003))[0]}),
    (((1000, 8), (1000, 32), (300, 200)), _normal, {
        "sort": lambda k, x: k.m.sort(x), "argsort": lambda k, x: k.m.argsort(x), "top_k": lambda k, x: k.top(x, 5)}),
    (LONG, lambda r, n: (r.integers(0, 50, n),), {
        "bincount": lambda k, x: k.bincount(x, 50), "one_hot": lambda k, x: k.one_hot(x[:50_000], 50),
        EAGER: lambda k, x: k.m.unique_counts(x)}),
    ((30, 100, 300), lambda r, n: (np.tril(r.normal(size=(n, n))) + n * np.eye(n), *_normal(r, n, 2000)), {
        "triangular solve, 2000 sides": lambda k, a, b: k.solve(a, b, lower=True)}),
    ((30, 150, 500), lambda r, n: [np.cov(*_normal(r, n, 2 * n)) + np.eye(n)], {"cholesky": lambda k, a: k.m.linalg.cholesky(a)}),
    (((64, 64), (128, 128), (512, 512)), _normal, {"rfft2": lambda k, x: k.m.fft.rfft2(x)}),
    ((2, 6, 8), lambda r, n: (*_normal(r, 60, n), *_normal(r, 60), r.integers(0, 60, (500, 40))), {
        "solves from gathered rows": lambda k, x, y, rows: k.m.linalg.solve(
            k.m.swapaxes(x[rows], 1, 2) @ x[rows], k.m.swapaxes(x[rows], 1, 2) @ y[rows][..., None])}),
    (((5, 300), (20, 300), (64, 300)), lambda r, n, m: [r.normal(size=s) for s in (n, (n, n), (m, n))], {"Viterbi": _viterbi}),
    (((100, 100), (1000, 100), (5000, 100)), lambda r, n, m: (
        r.normal(size=n), 3 * r.normal(size=(m, n)), r.random(m), 5 * r.random(m)), {"particle filter": _particles}),
    (((500, 20), (2000, 50), (2000, 100)), lambda r, n, m: (r.uniform(0, 10, n), np.linspace(0, 10, m), r.normal(size=n)), {
        "sparse GP": _process, "sparse GP, gradient": lambda k, x, z, y: k.gradient(lambda z: _process(k, x, z, y))(z)}),
)  # fmt: skip
LOOPS = {title: (fn, sizes, make) for sizes, make, loops in GROUPS for title, fn in loops.items()}


def _runs(name: str, title: str, args: Sequence[Any]) -> Callable[[], Any]:
    """Return what calls a program of one library on arrays of its own."""
    k, jax = kit(name), importlib.import_module("jax") if name == "jax" else None
    own, fn = [k.m.asarray(x) for x in args], partial(LOOPS[title][0], k)
    if name == "numpy" or title == EAGER:
        return lambda: fn(*own)
    jitted: Any = jax.jit(fn) if jax else afx.jit(fn, backend="native" if name == "afx native" else None)
    return lambda: jax.block_until_ready(jitted(*own)) if jax else jitted(*own)


def _rows(quick: bool, only: Sequence[str]) -> Iterator[Row]:
    peers = ("afx", *(["afx native"] if available("llvmlite") else []), *(["jax"] if available("jax") else []), "numpy")
    for title, (_, sizes, make) in LOOPS.items():
        for size in sizes if any(part.lower() in title.lower() for part in only or ("",)) else ():
            args = make(np.random.default_rng(0), *np.ravel(size))
            runs = {p: _runs(p, title, args) for p in peers if p != "numpy" or not title.endswith("gradient")}
            for name, run in runs.items():
                if not quick and name.startswith("afx"):
                    wait_for_machine_code(run)
                for x, y in zip(leaves(runs["afx"]()), leaves(run()), strict=False):
                    np.testing.assert_allclose(x, y, 1e-6, 1e-6, err_msg=f"{title} {size}: afx and {name}")
            times = interleaved(runs, *((2, 0.001) if quick else (15, 0.01)))
            beside = {p: t / times["afx"] for p, t in times.items() if p != "afx"}
            yield f"{title}, {'x'.join(map(str, np.ravel(size)))}", times["afx"], beside


def main(quick: bool = False, only: Sequence[str] = ()) -> bool:
    """Print each program's time and the peers' ratios, and the means of these; return whether none is below 1."""
    table("Loops: afx by default, and how many times longer others take", rows := list(_rows(quick, only)))
    ratios = {p: [beside[p] for *_, beside in rows if p in beside] for p in ("jax", "numpy")}
    for peer, found in ratios.items():
        print(f"  {peer}: {geometric_mean(found or [1]):.2f} in the mean, {min(found, default=1):.2f} at least")
    return quick or min([1, *ratios["jax"], *ratios["numpy"]]) >= 1
