"""Draws as formulas: permutations, integers, and samplers by rejection, of random words that are computed by arithmetic.

Code that calls nothing of NumPy's has a form of one word an element alone (`afx.ops.random`). These are the samplers that
draw again what they reject: every element has a block of words of its own in each round, so that its number is the one
that NumPy's calls give, but for the last digits of logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from afx.compiler.schedule.arrays import PHILOX_FACTORS, PHILOX_ROUNDS, PHILOX_STEPS
from afx.core.registry import FUNCTIONS

F: Any = FUNCTIONS
LOW, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
DRAW, BOOST = 0, 3  # purposes: the last word of the counter
Propose = Callable[[Any, Any], tuple[Any, Any]]


# -- words --
def _words(keys: Any, n: int, round_: Any, purpose: int = DRAW) -> tuple[Any, Any]:
    """Return two arrays uint64[keys, n]: the block of each of n elements of each key, in a round."""
    numbers = F.arange(n, dtype=np.uint64)[None, :]
    k = [F.astype(keys[:, j : j + 1], np.uint64) for j in range(2)]
    x = [numbers & LOW, F.broadcast_to(F.astype(round_, np.uint64), numbers.shape)]
    q = [numbers >> HALF, F.full(numbers.shape, purpose, np.uint64)]
    for r in range(PHILOX_ROUNDS):
        p = [x[j] * np.uint64(PHILOX_FACTORS[j]) for j in range(2)]
        x = [(p[1 - j] >> HALF) ^ (q[j] & LOW) ^ ((k[j] + np.uint64(r * PHILOX_STEPS[j])) & LOW) for j in range(2)]
        q = [p[1] & LOW, p[0] & LOW]
    return (q[0] << HALF) | x[0], (q[1] << HALF) | x[1]


def _bits(keys: Any, n: int, size: int) -> Any:
    """Return uint64[keys, n]: one word of so many bytes an element, of the first blocks."""
    each = 16 // size
    first, second = _words(keys, -(-n // each), F.zeros((), np.int64))
    words = [first, second] if size == 8 else [first & LOW, first >> HALF, second & LOW, second >> HALF]
    return F.stack(words, axis=-1).reshape((keys.shape[0], -(-n // each) * each))[:, :n]


def _until(keys: Any, n: int, dtype: Any, propose: Propose) -> Any:
    """Return for each element the first proposal that is accepted: ``(first, second words) -> (proposals, accepted)``."""

    def is_open(state: Any) -> Any:
        return ~F.all(state[1])

    def step(state: Any) -> Any:
        round_, is_done, results = state
        proposals, accepted = propose(*_words(keys, n, round_))
        return round_ + 1, is_done | accepted, F.where(is_done, results, F.astype(proposals, dtype))

    shape = (keys.shape[0], n)
    start = F.zeros((), np.int64), F.zeros(shape, np.bool_), F.zeros(shape, dtype)
    return F.while_loop(is_open, step, start)[2]


def _rows(key: Any, shape: tuple[int, ...], *params: Any) -> tuple[Any, int, list[Any]]:
    """Return keys uint32[keys, 2], the number of elements of each, and parameters as arrays [keys, n]."""
    n, full = math.prod(shape), (*key.shape[:-1], *shape)
    rows = math.prod(key.shape[:-1])
    return key.reshape((rows, 2)), n, [F.broadcast_to(x, full).reshape((rows, n)) for x in params]


# -- numbers of words of 64 bits, as `afx.ops.random.uniform_family` makes them --
def _tail(words: Any) -> tuple[Any, Any]:
    """Return the probability of the tail in which each word lies, at most a half, and whether that is below 0."""
    is_below = words >= np.uint64(2**63)  # a signed number below 0
    k = F.where(is_below, words, ~words) & np.uint64(2**63 - 1)
    return (F.astype(k, np.float64) + 0.5) * 2.0**-64, is_below


def _exponential(words: Any) -> Any:
    p, is_below = _tail(words)
    return -F.where(is_below, F.log1p(-p), F.log(p))


def _normal(words: Any) -> Any:
    p, is_below = _tail(words)
    z = F.ndtri(p)
    return F.where(is_below, z, -z)


def _open(words: Any) -> Any:
    return F.astype(words >> np.uint64(12), np.float64) * 2.0**-52 + 2.0**-53


# -- samplers --
def _order(key: Any, *, shape: tuple[int, ...]) -> Any:
    keys, n, _ = _rows(key, shape)
    return F.argsort(_bits(keys, n, 8), axis=-1).reshape((*key.shape[:-1], *shape))


def _integers(key: Any, low: Any, high: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return integers without bias: by the upper half of a product (Lemire 2019), or by a remainder of 64 bits."""
    keys, n, (first, bound) = _rows(key, shape, low, high)
    first, bound = F.astype(first, np.uint64), F.astype(bound, np.uint64)
    span = F.maximum(bound - first, np.uint64(1))
    size = 4 if dtype.itemsize <= 4 else 8
    drawn, wrong = _below(_bits(keys, n, size), span, size)

    def is_open(state: Any) -> Any:
        return F.any(state[1])

    def again(state: Any) -> Any:
        round_, wrong, drawn = state
        words = _words(keys, n, round_)[0]
        new, is_wrong = _below(words & LOW if size == 4 else words, span, size)
        return round_ + 1, wrong & is_wrong, F.where(wrong, new, drawn)

    drawn = F.while_loop(is_open, again, (F.ones((), np.int64), wrong, drawn))[2]
    return F.astype(drawn + first, dtype).reshape((*key.shape[:-1], *shape))


def _below(words: Any, span: Any, size: int) -> tuple[Any, Any]:
    """Return numbers below the span, and where they must be drawn again."""
    if size == 4:
        product = words * span
        return product >> HALF, (product & LOW) < (np.uint64(2**32) - span) % span
    reduced = words % span
    return reduced, words - reduced > ~span + np.uint64(1)


def _gamma(key: Any, a: Any, *, shape: tuple[int, ...], dtype: Any, logarithm: bool) -> Any:
    """Return gamma numbers (Marsaglia and Tsang 2000); nan where a shape is none."""
    keys, n, (a,) = _rows(key, shape, F.astype(a, np.float64))
    is_shape = (a > 0) & (a < math.inf)
    a = F.where(is_shape, a, 1.0)
    d = F.where(a < 1, a + 1, a) - 1 / 3

    def propose(first: Any, second: Any) -> tuple[Any, Any]:
        x = _normal(first)
        v = 1 + x / (3 * F.sqrt(d))
        cube = F.maximum(v, 1e-100) ** 3
        return v, (v > 0) & (-_exponential(second) < x * x / 2 + d * (1 - cube + F.log(cube)))

    v = _until(keys, n, np.float64, propose)
    boost = F.where(a < 1, _exponential(_words(keys, n, F.zeros((), np.int64), BOOST)[0]) / a, 0.0)
    z = F.log(d) + 3 * F.log(v) - boost if logarithm else d * v**3 * F.exp(-boost)
    return F.astype(F.where(is_shape, z, math.nan), dtype).reshape((*key.shape[:-1], *shape))


def _wald(key: Any, mean: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    keys, n, (mean,) = _rows(key, shape, F.astype(mean, np.float64))
    first, second = _words(keys, n, F.zeros((), np.int64))
    w = mean * _normal(first) ** 2
    ratio = 1 / (1 + (w + F.sqrt(w) * F.sqrt(w + 4)) / 2)
    z = mean * F.where(_open(second) * (1 + ratio) <= 1, ratio, 1 / ratio)
    return F.astype(F.where((mean > 0) & (mean < math.inf), z, math.nan), dtype).reshape((*key.shape[:-1], *shape))


# names of draws to formulas of their operands and parameters
DRAWS: dict[str, Callable[..., Any]] = {
    "random_gamma": _gamma,
    "random_integers": _integers,
    "random_order": _order,
    "random_wald": _wald,
}
