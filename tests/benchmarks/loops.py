"""Loops that are no plain arithmetic, beside jax.jit and NumPy: `python -m tests.benchmarks loops`.

Extremes with their places, searches, running sums, sorts, counts, factorizations, transforms, small systems, and three whole
programs of them, float64, each in three sizes. A row's ratios say how many times longer a peer takes than afx by default.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
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
    if name == "jax":
        jax, m = importlib.import_module("jax"), importlib.import_module("jax.numpy")
        jax.config.update("jax_enable_x64", True)
        k = Kit(m=m, scan=jax.lax.scan, top=jax.lax.top_k, running_max=jax.lax.cummax, gradient=jax.value_and_grad)
        k.solve = importlib.import_module("jax.scipy.linalg").solve_triangular
        k.one_hot, k.bincount = jax.nn.one_hot, lambda x, n: m.bincount(x, length=n)
    elif name == "numpy":
        k = Kit(m=np, scan=_scan_each, running_max=np.maximum.accumulate)
        k.top = lambda x, n: (-np.sort(-x)[..., :n], np.argsort(-x)[..., :n])
        k.solve = importlib.import_module("scipy.linalg").solve_triangular
        k.one_hot, k.bincount = lambda x, n: np.eye(n)[x], lambda x, n: np.bincount(x, minlength=n)
    else:
        k = Kit(m=afx, scan=afx.scan, top=afx.top_k, running_max=afx.cummax, gradient=afx.value_and_grad)
        k.solve, k.bincount = afx.linalg.solve_triangular, lambda x, n: afx.bincount(x, length=n)
        k.one_hot = lambda x, n: afx.nn.one_hot(x, n, dtype=np.float64)
    return k


def _viterbi(k: Any, start: Any, moves: Any, seen: Any) -> Any:
    """Return the likeliest path through hidden states (Viterbi 1967)."""

    def forward(score: Any, row: Any) -> Any:
        each = score[:, None] + moves
        return each.max(axis=0) + row, each.argmax(axis=0)

    score, before = k.scan(forward, start, seen)
    return k.scan(lambda state, row: (row[state], state), score.argmax(), before, reverse=True)[1], score.max()


def _particles(k: Any, x: Any, noise: Any, starts: Any, seen: Any) -> Any:
    """Return means of a filter whose particles are drawn anew by systematic resampling (Kitagawa 1996)."""

    def step(x: Any, turn: Any) -> Any:
        x = 0.5 * x + 25 * x / (1 + x * x) + noise[turn]
        weights = k.m.exp(-0.5 * (x * x / 20 - seen[turn]) ** 2)
        total = k.m.cumsum(weights)
        places = (starts[turn] + k.m.arange(len(x))) / len(x) * total[-1]
        return x[k.m.minimum(k.m.searchsorted(total, places), len(x) - 1)], (weights * x).sum() / total[-1]

    return k.scan(step, x, k.m.arange(len(noise)))[1]


def _process(k: Any, x: Any, inducing: Any, y: Any) -> Any:
    """Return the bound of a sparse Gaussian process (Titsias 2009), of 0.1 noise and length 1."""
    eye = k.m.eye(len(inducing))
    own = k.m.exp(-0.5 * (inducing[:, None] - inducing) ** 2) + 1e-4 * eye
    a = k.solve(k.m.linalg.cholesky(own), k.m.exp(-0.5 * (inducing[:, None] - x) ** 2), lower=True) / 0.1
    factor = k.m.linalg.cholesky(eye + a @ a.T)
    c = k.solve(factor, a @ y / 0.1, lower=True)
    return 0.5 * (c @ c - (a * a).sum()) - k.m.log(k.m.diagonal(factor)).sum()


def _solve_gathered(k: Any, x: Any, y: Any, rows: Any) -> Any:
    parts, turned = x[rows], k.m.swapaxes(x[rows], 1, 2)
    return k.m.linalg.solve(turned @ parts, turned @ y[rows][..., None])


def _normal(r: np.random.Generator, *size: int) -> tuple[Any, ...]:
    return (r.normal(size=size),)


def _queries(r: np.random.Generator, n: int, count: int) -> tuple[Any, ...]:
    return np.sort(r.normal(size=n)), r.normal(size=count)


def _integers(r: np.random.Generator, n: int) -> tuple[Any, ...]:
    return (r.integers(0, 50, n),)


def _definite(r: np.random.Generator, n: int) -> tuple[Any, ...]:
    return (np.cov(r.normal(size=(n, 2 * n))) + np.eye(n),)


def _points(r: np.random.Generator, n: int, count: int) -> tuple[Any, ...]:
    return np.sort(r.uniform(0, 10, n)), np.linspace(0, 10, count), r.normal(size=n)


ROWS, BOXES, LONG = ((20, 20), (64, 300), (1000, 500)), ((8, 20, 20), (8, 64, 300), (4, 300, 300)), (100, 10**4, 10**6)
SEARCHES, SHORT = ((1000, 1000), (10**4, 10**4), (10**6, 10**4)), ((1000, 8), (1000, 32), (300, 200))
SPARSE, EAGER = ((500, 20), (2000, 50), (2000, 100)), "unique counts"
LOOPS: dict[str, tuple[Callable[..., Any], Sequence[Any], Callable[..., tuple[Any, ...]]]] = {
    "argmax, first axis": (lambda k, x: x.argmax(axis=0), ROWS, _normal),
    "argmin, middle axis": (lambda k, x: x.argmin(axis=1), BOXES, _normal),
    "max and argmax, first axis": (lambda k, x: (x.max(axis=0), x.argmax(axis=0)), ROWS, _normal),
    "searchsorted": (lambda k, a, v: k.m.searchsorted(a, v), SEARCHES, _queries),
    "searchsorted, sorted": (
        lambda k, a, v: k.m.searchsorted(a, v), SEARCHES, lambda *given: tuple(map(np.sort, _queries(*given))),
    ),
    "cumsum": (lambda k, x: k.m.cumsum(x), LONG, _normal),
    "cumprod": (lambda k, x: k.m.cumprod(x), LONG, lambda r, n: (1 + 1e-3 * r.normal(size=n),)),
    "cummax": (lambda k, x: k.running_max(x), LONG, _normal),
    "sort": (lambda k, x: k.m.sort(x), SHORT, _normal),
    "argsort": (lambda k, x: k.m.argsort(x), SHORT, _normal),
    "top_k": (lambda k, x: k.top(x, 5), SHORT, _normal),
    "bincount": (lambda k, x: k.bincount(x, 50), LONG, _integers),
    "histogram": (lambda k, x: k.m.histogram(x, bins=20, range=(-3, 3))[0], LONG, _normal),
    "one_hot": (lambda k, x: k.one_hot(x, 50), (100, 10_000, 50_000), _integers),
    EAGER: (lambda k, x: k.m.unique_counts(x), LONG, _integers),
    "triangular solve, 2000 sides": (
        lambda k, a, b: k.solve(a, b, lower=True), (30, 100, 300),
        lambda r, n: (np.tril(*_definite(r, n)), *_normal(r, n, 2000)),
    ),
    "cholesky": (lambda k, a: k.m.linalg.cholesky(a), (30, 150, 500), _definite),
    "rfft2": (lambda k, x: k.m.fft.rfft2(x), ((64, 64), (128, 128), (512, 512)), _normal),
    "solves from gathered rows": (
        _solve_gathered, (2, 6, 8), lambda r, n: (*_normal(r, 60, n), *_normal(r, 60), r.integers(0, 60, (500, 40))),
    ),
    "Viterbi": (
        _viterbi, ((5, 300), (20, 300), (64, 300)), lambda r, n, m: (*_normal(r, n), *_normal(r, n, n), *_normal(r, m, n)),
    ),
    "particle filter": (
        _particles, ((100, 100), (1000, 100), (5000, 100)),
        lambda r, n, m: (r.normal(size=n), 3 * r.normal(size=(m, n)), r.random(m), 5 * r.random(m)),
    ),
    "sparse GP": (_process, SPARSE, _points),
    "sparse GP, gradient": (lambda k, *xs: k.gradient(lambda z: _process(k, xs[0], z, xs[2]))(xs[1]), SPARSE, _points),
}  # fmt: skip


def _runs(name: str, title: str, args: Sequence[Any]) -> Callable[[], Any]:
    """Return what calls a program of one library on arrays of its own."""
    k, fn = kit(name), LOOPS[title][0]
    own: list[Any] = [k.m.asarray(x) for x in args]
    if name == "numpy" or title == EAGER:
        return lambda: fn(k, *own)
    if name == "jax":
        jax = importlib.import_module("jax")
        jitted: Any = jax.jit(lambda *xs: fn(k, *xs))
        return lambda: jax.block_until_ready(jitted(*own))
    jitted = afx.jit(lambda *xs: fn(k, *xs), backend="native" if name == "afx native" else None)
    return lambda: jitted(*own)


def _rows(quick: bool, only: Sequence[str]) -> Iterator[Row]:
    peers = ("afx", *(["afx native"] if available("llvmlite") else []), *(["jax"] if available("jax") else []), "numpy")
    for title, (_, sizes, make) in LOOPS.items():
        for size in sizes if not only or any(part.lower() in title.lower() for part in only) else ():
            args = make(np.random.default_rng(0), *np.ravel(size))
            runs = {p: _runs(p, title, args) for p in peers if p != "numpy" or not title.endswith("gradient")}
            results = {name: [np.asarray(x) for x in leaves(run())] for name, run in runs.items()}
            for name in runs:
                for x, y in zip(results["afx"], results[name], strict=False):
                    if not np.allclose(x, y, 1e-6, 1e-6 * np.max(np.abs(x), initial=1)):
                        raise ArithmeticError(f"{title} {size}: afx and {name} differ")
            for name in peers[: 0 if quick else 2]:
                wait_for_machine_code(runs[name])
            times = interleaved(runs, *((2, 0.001) if quick else (15, 0.01)))
            own = times.pop("afx")
            yield f"{title}, {'x'.join(map(str, np.ravel(size)))}", own, {p: t / own for p, t in times.items()}


def main(quick: bool = False, only: Sequence[str] = ()) -> bool:
    """Print each program's time and the peers' ratios, and the means of these; return whether none is below 1."""
    rows = list(_rows(quick, only))
    table("Loops: afx by default, and how many times longer others take", rows)
    found = {p: [beside[p] for *_, beside in rows if p in beside] for p in ("jax", "numpy")}
    for peer, ratios in found.items():
        if ratios:
            print(f"  {peer}: {geometric_mean(ratios):.2f} in the mean, {min(ratios):.2f} at least")
    return quick or min(map(min, filter(None, found.values())), default=1.0) >= 1
