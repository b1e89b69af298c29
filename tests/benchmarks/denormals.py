"""Denormal numbers: programs with and without them in one run, beside JAX and PyTorch.

The ratio of both times is at most 1.3 on every processor where denormals are flushed. On processors without a penalty it
is 1 either way: there the tests look at the processor's flag of denormal operands.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import afx
from afx.compiler.native_backend.run.swap import is_installed
from tests.benchmarks.harness import available, interleaved

__all__ = ["BAR", "PROGRAMS", "main"]

BAR = 1.3
Arrays = tuple[Any, ...]


class Program(NamedTuple):
    """A program of arrays and a library's functions, its arguments with denormals on the way, and without them."""

    fn: Callable[..., Any]
    denormal: Callable[[], Arrays]
    plain: Callable[[], Arrays]


def _normal(*shape: int, scale: float = 1.0) -> Any:
    return (np.random.default_rng(0).normal(size=shape) * scale).astype(np.float32)


def _full(value: float, *shape: int) -> Any:
    return np.full(shape, value, np.float32)


def _attention(xp: Any, q: Any, k: Any, v: Any) -> Any:
    scores = q @ k.T
    weights = xp.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True) @ v


def _softmax(xp: Any, x: Any) -> Any:
    e = xp.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _pull(xp: Any, x: Any, w: Any, v: Any, ct: Any) -> Any:
    """Return the gradient of a perceptron by its weights, by hand, so that all libraries do the same."""
    h = xp.tanh(x @ w)
    back = (ct @ v.T) * (1 - h * h)
    return x.T @ back, h.T @ ct


def _adam(xp: Any, p: Any, m: Any, v: Any, g: Any) -> Any:
    m, v = m * 0.9 + g * 0.1, v * 0.999 + g * g * 0.001
    return p - 1e-3 * m / (xp.sqrt(v) + 1e-8), m, v


def _peaked(gap: float) -> Arrays:
    q = _full(1.0, 512, 64)
    k = _full(0.0, 512, 64)
    k[1:] = -gap / 64
    return q, k, _normal(512, 64)


def _rows(least: float) -> Arrays:
    x = _full(least, 512, 1024)
    x[:, 0] = 0
    return (x,)


def _embedding(step: int) -> Arrays:
    """Return the state of an embedding of which half the rows have had no gradient for so many steps."""
    p, g = _normal(5000, 64), _normal(5000, 64, scale=1e-2)
    first = [max(0.9**step, 5.6e-45), max(0.999**step, 3e-43)]
    m, v = g * 1.0, g * g
    m[::2], v[::2], g[::2] = 1e-2 * first[0], 1e-4 * first[1], 0
    return p, m.astype(np.float32), v.astype(np.float32), g


def _mlp(scale: float) -> Arrays:
    return _normal(128, 784), _normal(784, 512, scale=0.03), _normal(512, 10, scale=0.05), _normal(128, 10, scale=scale)


PROGRAMS: dict[str, Program] = {
    "attention with peaked keys": Program(_attention, lambda: _peaked(95), lambda: _peaked(5)),
    "Gaussian kernel times a vector": Program(
        lambda xp, d, x: xp.exp(-d) @ x, lambda: (_full(95, 1000, 1000), _normal(1000)),
        lambda: (_full(5, 1000, 1000), _normal(1000)),
    ),
    "tails of a Gaussian": Program(
        lambda xp, x: xp.exp(-x * x / 2) * 0.3989, lambda: (_full(13.6, 200_000),), lambda: (_full(2, 200_000),)
    ),
    "softmax, most at -92": Program(_softmax, lambda: _rows(-92), lambda: _rows(-5)),
    "MLP gradient, cotangents of 1e-38": Program(_pull, lambda: _mlp(1e-38), lambda: _mlp(1.0)),
    "x @ w, x = 1e-40": Program(
        lambda xp, x, w: x @ w, lambda: (_full(1e-40, 256, 512), _normal(512, 512)),
        lambda: (_full(1.0, 256, 512), _normal(512, 512)),
    ),
    "exp(-t), t from 88 to 103": Program(
        lambda xp, t: xp.exp(-t), lambda: (np.linspace(88, 103, 100_000, dtype=np.float32),),
        lambda: (np.linspace(0, 15, 100_000, dtype=np.float32),),
    ),
    "embedding, step 2000": Program(_adam, lambda: _embedding(2000), lambda: _embedding(100)),
    "embedding, step 100 000": Program(_adam, lambda: _embedding(100_000), lambda: _embedding(100)),
}  # fmt: skip


def _runs(name: str, program: Program, args: Arrays) -> Callable[[], object]:
    """Return what calls a program of one library on arrays of its own."""
    if name.startswith("afx"):
        words: Any = {"backend": "native"} if name == "afx native" else {}
        fn = afx.jit(lambda *xs: program.fn(afx, *xs), **words)
        return lambda: fn(*args)
    if name == "jax":
        jax, jnp = importlib.import_module("jax"), importlib.import_module("jax.numpy")
        jitted, own = jax.jit(lambda *xs: program.fn(jnp, *xs)), [jnp.asarray(x) for x in args]
        return lambda: jax.block_until_ready(jitted(*own))
    return lambda: program.fn(np, *args)


def _torch_runs(program: Program, args: Arrays, *, flush: bool) -> Callable[[], object]:
    torch: Any = importlib.import_module("torch")
    own = [torch.from_numpy(x) for x in args]

    class Functions:
        exp, tanh, sqrt = torch.exp, torch.tanh, torch.sqrt

    def run() -> object:
        torch.set_flush_denormal(flush)
        try:
            return program.fn(Functions, *own)
        finally:
            torch.set_flush_denormal(False)

    return run


def _ratio(make: Callable[[Arrays], Callable[[], object]], program: Program, quick: bool) -> tuple[float, float]:
    """Return the seconds of a call with denormals, and of one without."""
    pair = {"with": make(program.denormal()), "without": make(program.plain())}
    for fn in pair.values():  # until machine code has come, where it comes
        for _ in range(3 if quick else 60):
            fn()
    found = interleaved(pair, *((2, 0.001) if quick else (10, 0.01)))
    return found["with"], found["without"]


def main(quick: bool = False) -> bool:
    """Print both times of every program and library, and their ratio; return whether afx's are all within the bar."""
    peers = ["afx", *(["afx native"] if is_installed() else []), *(["jax"] if available("jax") else []), "numpy"]
    peers += ["torch", "torch, flushing"] if available("torch") else []
    print(f"\nDenormal numbers: µs with | without them, ratio (afx: at most {BAR}); {os.cpu_count()} processors")
    good = True
    for title, program in PROGRAMS.items():
        print(f"  {title}")
        for name in peers:
            if name.startswith("torch"):
                if title.startswith(("attention", "softmax")):  # whose maxima are called otherwise
                    continue
                slow, fast = _ratio(
                    lambda xs, p=program, f=name != "torch": _torch_runs(p, xs, flush=f), program, quick
                )  # a lambda with defaults has no type
            else:
                slow, fast = _ratio(
                    lambda xs, p=program, n=name: _runs(n, p, xs), program, quick
                )  # a lambda with defaults has no type
            good = good and (slow <= BAR * fast or quick or not name.startswith("afx"))
            print(f"    {name:18s} {slow * 1e6:10.1f} | {fast * 1e6:10.1f}   {slow / fast:6.2f}")
    return good
