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

from afx.compiler.schedule.arrays import (
    ADDED_BELOW,
    ADDED_TERMS,
    COUNTS_END,
    FAR_BELOW,
    PHILOX_FACTORS,
    PHILOX_ROUNDS,
    PHILOX_STEPS,
    TAIL_TERMS,
)
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


# -- counts: by adding up probabilities where few are likely, by transformed rejection elsewhere (Hörmann 1993) --
def _log_factorial(k: Any) -> Any:
    return F.gammaln(k + 1.0)


def _near(first: Any, a: Any, b: Any, center: Any) -> tuple[Any, Any, Any]:
    """Return a proposal of a count, the room that its uniform number leaves to the ends, and the ratio's divisor."""
    u = _open(first) - 0.5
    near = 0.5 - F.abs(u)
    return F.floor((2 * a / near + b) * u + center), near, a / (near * near) + b


def _counted(keys: Any, n: int, few: Any, none: Any, following: Propose, propose: Propose) -> Any:
    """Return counts: where few are likely, the least whose probabilities, from that of none on, reach a uniform number."""
    u = _open(_words(keys, n, F.zeros((), np.int64))[0])
    left = F.where(few, u - none, 0.0)

    def is_open(state: Any) -> Any:
        return (state[0] < ADDED_TERMS) & F.any(state[3] > 0)

    def step(state: Any) -> Any:
        k, count, p, left = state
        p = following(k, p)
        return k + 1.0, count + F.where(left > 0, 1.0, 0.0), p, left - p

    added = F.while_loop(is_open, step, (F.ones((), np.float64), F.zeros(left.shape, np.float64), none, left))[1]

    def tried(first: Any, second: Any) -> tuple[Any, Any]:
        count, accepted = propose(first, second)
        return count, few | accepted

    return F.where(few, added, _until(keys, n, np.float64, tried))


def _poisson(key: Any, rate: Any, *, shape: tuple[int, ...]) -> Any:
    """Return Poisson numbers (PTRS); -1 where a rate is none."""
    keys, n, (rate,) = _rows(key, shape, F.astype(rate, np.float64))
    is_rate = (rate >= 0) & (rate < COUNTS_END)
    few = ~(is_rate & (rate >= ADDED_BELOW))
    low, high = F.where(few & is_rate, rate, 0.0), F.where(few, ADDED_BELOW, rate)
    b = 0.931 + 2.53 * F.sqrt(high)
    a = -0.059 + 0.02483 * b

    def propose(first: Any, second: Any) -> tuple[Any, Any]:
        k, near, divisor = _near(first, a, b, high + 0.43)
        v, some = _open(second), F.maximum(k, 0.0)
        sure = (near >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2))
        bound = some * F.log(high) - high - _log_factorial(some)
        fits = F.log(v * (1.1239 + 1.1328 / (b - 3.4)) / divisor) <= bound
        return k, (k >= 0) & (sure | (fits & ~((near < 0.013) & (v > near))))

    counts = _counted(keys, n, few, F.exp(-low), lambda k, p: p * low / k, propose)
    return F.astype(F.where(is_rate, counts, -1.0), np.int64).reshape((*key.shape[:-1], *shape))


def _binomial(key: Any, tries: Any, chance: Any, *, shape: tuple[int, ...]) -> Any:
    """Return binomial numbers (BTRS); -1 where a number of tries or a probability is none."""
    keys, n, (m, p) = _rows(key, shape, F.astype(tries, np.float64), F.astype(chance, np.float64))
    is_some = (m >= 0) & (m < COUNTS_END) & (m == F.floor(m)) & (p >= 0) & (p <= 1)
    less = F.minimum(p, 1.0 - p)
    few = ~(is_some & (m * less >= ADDED_BELOW))
    rare, most = F.where(few & is_some, less, 0.0), F.where(few & is_some, m, 0.0)
    m_, p_ = F.where(few, 40.0, m), F.where(few, 0.5, less)
    deviation = F.sqrt(m_ * p_ * (1 - p_))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p_
    middle = F.floor((m_ + 1) * p_)

    def propose(first: Any, second: Any) -> tuple[Any, Any]:
        k, near, divisor = _near(first, a, b, m_ * p_ + 0.5)
        v, j = _open(second), F.clip(k, 0.0, m_)
        sure = (near >= 0.07) & (v <= 0.92 - 4.2 / b)
        bound = _log_factorial(middle) + _log_factorial(m_ - middle) - _log_factorial(j) - _log_factorial(m_ - j)
        bound = bound + (j - middle) * (F.log(p_) - F.log1p(-p_))
        fits = F.log(v * (2.83 + 5.1 / b) * deviation / divisor) <= bound
        return k, (k >= 0) & (k <= m_) & (sure | fits)

    odds = rare / (1 - rare)
    none = F.exp(most * F.log1p(-rare))
    counts = _counted(keys, n, few, none, lambda k, q: q * F.maximum(most - k + 1.0, 0.0) / k * odds, propose)
    counts = F.where(is_some, F.where(p <= 0.5, counts, m - counts), -1.0)
    return F.astype(counts, np.int64).reshape((*key.shape[:-1], *shape))


# -- normal numbers between bounds, by the quantiles of their probabilities --
def _between(key: Any, low: Any, high: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return normal numbers between bounds; nan where they are in the wrong order."""
    keys, n, (a, b) = _rows(key, shape, F.astype(low, np.float64), F.astype(high, np.float64))
    u = _open(_bits(keys, n, 8))
    flip = a > -b  # most of the interval lies above 0: mirrored, its probabilities are small numbers
    first, last, v = F.where(flip, -b, a), F.where(flip, -a, b), F.where(flip, 1 - u, u)
    p = _probability(first)
    far = last < FAR_BELOW
    z = F.where(
        far,
        -_far_quantile(-F.where(far, last, FAR_BELOW), -F.where(far, first, FAR_BELOW), v),
        F.ndtri(p + v * (_probability(last) - p)),
    )
    z = F.astype(F.where(flip, -z, z), dtype)
    z = F.minimum(F.maximum(z, F.astype(a, dtype)), F.astype(b, dtype))  # rounding may step over a bound
    return F.where(a <= b, z, F.full((), math.nan, dtype)).reshape((*key.shape[:-1], *shape))


def _probability(x: Any) -> Any:
    return 0.5 * F.erfc(-x / math.sqrt(2))


def _far_quantile(a: Any, b: Any, u: Any) -> Any:
    """Return what a normal number between a and b, both far above 0, exceeds with probability u, by Newton's method."""
    start, is_finite = _log_mills(a), b < math.inf
    other = F.where(is_finite, b, a)
    end = F.where(is_finite, F.exp(_log_mills(other) - start - (other - a) * (other / 2 + a / 2)), 0.0)
    goal = F.log1p((u - 1) * (1 - end))
    x = F.sqrt(a * a - 2 * goal)
    for _ in range(4):
        m = _log_mills(x)
        x = x + (m - start - (x - a) * (x / 2 + a / 2) - goal) * F.exp(m)
    return x


def _log_mills(x: Any) -> Any:
    """Return the logarithm of a tail's probability over its density, far out, by a continued fraction."""
    y = x
    for k in range(TAIL_TERMS, 0, -1):
        y = x + k / y
    return -F.log(y)


# names of draws to formulas of their operands and parameters
DRAWS: dict[str, Callable[..., Any]] = {
    "random_between": _between,
    "random_binomial": _binomial,
    "random_gamma": _gamma,
    "random_integers": _integers,
    "random_order": _order,
    "random_poisson": _poisson,
    "random_wald": _wald,
}
