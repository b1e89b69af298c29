"""gradbench's evals by hand in C, on one processor: what a library is measured against where there is no tape at all."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special

from tests.benchmarks.c_library import c_function, pointer
from tests.benchmarks.libraries import Job

__all__ = ["EVALS", "make_job"]

Call = tuple[
    list[Any], list[np.ndarray]
]  # the arguments without results, and the arrays of results that a function has


def _long(*numbers: int) -> list[Any]:
    return [ctypes.c_long(n) for n in numbers]


def _hello(x: Any) -> Call:
    return [x], [np.empty(()), np.empty(())]


def _lse(x: Any) -> Call:
    return [*_long(x.size), x], [np.empty(()), np.empty_like(x)]


def _llsq(x: Any, n: int) -> Call:
    return [*_long(n, x.size), x], [np.empty(()), np.empty_like(x)]


def _det(a: Any, n: int) -> Call:
    return [*_long(n), a], [np.empty(()), np.empty_like(a)]


def _ode(x: Any, steps: int) -> Call:
    return [*_long(x.size, steps), x, np.empty((steps + 9, x.size))], [np.empty_like(x), np.empty_like(x)]


def _kmeans(points: Any, centroids: Any) -> Call:
    (n, d), k = points.shape, len(centroids)
    return [*_long(n, k, d), points, centroids, np.empty((k, d + 1))], [np.empty(()), np.empty_like(centroids)]


def _gmm(alpha: Any, mu: Any, q: Any, low: Any, x: Any, m: int, gamma: float) -> Call:
    (n, d), k = x.shape, alpha.size
    freedom = d + m + 1
    norm = freedom * d * math.log(gamma / math.sqrt(2)) - scipy.special.multigammaln(0.5 * freedom, d)
    constant = k * norm - n * d * 0.5 * math.log(2 * math.pi)
    numbers = [ctypes.c_double(number) for number in (m, gamma, constant)]
    given = [*_long(n, k, d), *numbers, alpha, mu, q, low, x, np.empty(k * (3 * d + 1))]
    return given, [np.empty(()), *map(np.empty_like, (alpha, mu, q, low))]


def _ba(cameras: Any, points: Any, weights: Any, features: Any) -> Call:
    p = weights.size
    sizes = _long(len(cameras), len(points), p)
    return [*sizes, cameras, points, weights, features], [np.empty(2 * p), np.empty((p, 2, 15)), np.empty(p)]


def _lstm(main: Any, extra: Any, state: Any, sequence: Any) -> Call:
    (rows, width), layers = sequence.shape, len(main) // 2
    memory = np.empty((rows - 1) * (8 * layers + 2) * width + (2 * layers + 2) * width)
    given = [*_long(rows - 1, layers, width), main, extra, state, sequence, memory]
    return given, [np.empty(()), np.empty(main.size + extra.size)]


EVALS: dict[str, Callable[..., Call]] = {
    "hello": _hello, "lse": _lse, "llsq": _llsq, "det": _det, "ode": _ode, "kmeans": _kmeans, "gmm": _gmm, "ba": _ba,
    "lstm": _lstm,
}  # fmt: skip


def make_job(name: str, is_derivative: bool, operands: tuple[Any, ...], fixed: dict[str, Any]) -> Job:
    """Return a function of an eval, or its derivative, on an input."""
    arrays = [np.ascontiguousarray(x, np.float64) for x in operands]
    given, results = EVALS[name](*arrays, **fixed)
    always = results[2:] if name == "ba" else []
    asked = results[1 : len(results) - len(always)] if is_derivative else results[:1]
    places = [pointer(x) if any(x is y for y in (*asked, *always)) else None for x in results]
    run = c_function("gradbench", symbol=name)
    args = [pointer(x) if isinstance(x, np.ndarray) else x for x in given] + places
    wanted = (*asked, *always)

    def call() -> Any:
        run(*args)
        return wanted if len(wanted) > 1 else wanted[0]

    return Job(call, lambda result: (arrays, given, result)[2])
