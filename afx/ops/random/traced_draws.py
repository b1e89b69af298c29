"""Draws as formulas: permutations, integers, and samplers by rejection, of random words that are computed by arithmetic.

Code that calls nothing of NumPy's has a form of one word an element alone (`afx.ops.random.uniform_family`). These are
the samplers that draw again what they reject: every element has a block of words of its own in each round, so that its
number is the one that NumPy's calls give, but for the last digits of logarithms.
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
from afx.ops._basic import xp
from afx.ops.special.errors import erfc, ndtri
from afx.ops.special.gamma import gammaln

LOW, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
DRAW, BOOST = 0, 3  # purposes: the last word of the counter
Propose = Callable[[Any, Any], tuple[Any, Any]]


# -- words --
def _words(keys: Any, n: int, round_: Any, purpose: int = DRAW) -> tuple[Any, Any]:
    """Return two arrays uint64[keys, n]: the block of each of n elements of each key, in a round."""
    numbers = xp.arange(n, dtype=np.uint64)[None, :]
    k = [keys[:, j : j + 1].astype(np.uint64) for j in range(2)]
    x = [numbers & LOW, xp.broadcast_to(round_.astype(np.uint64), numbers.shape)]
    q = [numbers >> HALF, xp.full(numbers.shape, purpose, np.uint64)]
    for r in range(PHILOX_ROUNDS):
        p = [x[j] * np.uint64(PHILOX_FACTORS[j]) for j in range(2)]
        x = [(p[1 - j] >> HALF) ^ (q[j] & LOW) ^ ((k[j] + np.uint64(r * PHILOX_STEPS[j])) & LOW) for j in range(2)]
        q = [p[1] & LOW, p[0] & LOW]
    return (q[0] << HALF) | x[0], (q[1] << HALF) | x[1]


def _bits(keys: Any, n: int, size: int) -> Any:
    """Return uint64[keys, n]: one word of so many bytes an element, of the first blocks."""
    each = 16 // size
    first, second = _words(keys, -(-n // each), xp.zeros((), np.int64))
    words = [first, second] if size == 8 else [first & LOW, first >> HALF, second & LOW, second >> HALF]
    return xp.stack(words, axis=-1).reshape((keys.shape[0], -(-n // each) * each))[:, :n]


def _until(keys: Any, n: int, dtype: Any, propose: Propose) -> Any:
    """Return for each element the first proposal that is accepted: ``(first, second words) -> (proposals, accepted)``."""

    def is_open(state: Any) -> Any:
        return ~xp.all(state[1])

    def step(state: Any) -> Any:
        round_, is_done, results = state
        proposals, accepted = propose(*_words(keys, n, round_))
        return round_ + 1, is_done | accepted, xp.where(is_done, results, proposals.astype(dtype))

    shape = (keys.shape[0], n)
    start = xp.zeros((), np.int64), xp.zeros(shape, np.bool_), xp.zeros(shape, dtype)
    return FUNCTIONS.while_loop(is_open, step, start)[2]


def _rows(key: Any, shape: tuple[int, ...], *params: Any) -> tuple[Any, int, list[Any]]:
    """Return keys uint32[keys, 2], the number of elements of each, and parameters as arrays [keys, n]."""
    n, full = math.prod(shape), (*key.shape[:-1], *shape)
    rows = math.prod(key.shape[:-1])
    return key.reshape((rows, 2)), n, [xp.broadcast_to(x, full).reshape((rows, n)) for x in params]


# -- numbers of words of 64 bits, as `afx.ops.random.uniform_family` makes them --
def _tail(words: Any) -> tuple[Any, Any]:
    """Return the probability of the tail in which each word lies, at most a half, and whether that is below 0."""
    is_below = words >> np.uint64(63) != 0  # a signed number below 0
    k = xp.where(is_below, words, ~words) & np.uint64(2**63 - 1)
    return (k.astype(np.float64) + 0.5) * 2.0**-64, is_below


def _exponential(words: Any) -> Any:
    p, is_below = _tail(words)
    return -xp.where(is_below, xp.log1p(-p), xp.log(p))


def _normal(words: Any) -> Any:
    p, is_below = _tail(words)
    z = ndtri(p)
    return xp.where(is_below, z, -z)


def _open(words: Any) -> Any:
    return (words >> np.uint64(12)).astype(np.float64) * 2.0**-52 + 2.0**-53


# -- samplers --
def draw_order(key: Any, *, shape: tuple[int, ...]) -> Any:
    """Return the numbers of elements in the order of their words."""
    keys, n, _ = _rows(key, shape)
    return xp.argsort(_bits(keys, n, 8), axis=-1).reshape((*key.shape[:-1], *shape))


def draw_integers(key: Any, low: Any, high: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return integers without bias: by the upper half of a product (Lemire 2019), or by a remainder of 64 bits."""
    keys, n, (first, bound) = _rows(key, shape, low, high)
    first, bound = first.astype(np.uint64), bound.astype(np.uint64)
    span = xp.maximum(bound - first, np.uint64(1))
    size = 4 if dtype.itemsize <= 4 else 8
    drawn, wrong = _below(_bits(keys, n, size), span, size)

    def is_open(state: Any) -> Any:
        return xp.any(state[1])

    def again(state: Any) -> Any:
        round_, wrong, drawn = state
        words = _words(keys, n, round_)[0]
        new, is_wrong = _below(words & LOW if size == 4 else words, span, size)
        return round_ + 1, wrong & is_wrong, xp.where(wrong, new, drawn)

    drawn = FUNCTIONS.while_loop(is_open, again, (xp.ones((), np.int64), wrong, drawn))[2]
    return (drawn + first).astype(dtype).reshape((*key.shape[:-1], *shape))


def _below(words: Any, span: Any, size: int) -> tuple[Any, Any]:
    """Return numbers below the span, and where they must be drawn again."""
    if size == 4:
        product = words * span
        return product >> HALF, (product & LOW) < (np.uint64(2**32) - span) % span
    reduced = words % span
    return reduced, words - reduced > ~span + np.uint64(1)


def draw_gamma(key: Any, a: Any, *, shape: tuple[int, ...], dtype: Any, logarithm: bool) -> Any:
    """Return gamma numbers (Marsaglia and Tsang 2000); nan where a shape is none."""
    keys, n, (a,) = _rows(key, shape, a.astype(np.float64))
    is_shape = (a > 0) & (a < math.inf)
    a = xp.where(is_shape, a, 1.0)
    d = xp.where(a < 1, a + 1, a) - 1 / 3

    def propose(first: Any, second: Any) -> tuple[Any, Any]:
        x = _normal(first)
        v = 1 + x / (3 * xp.sqrt(d))
        cube = xp.maximum(v, 1e-100) ** 3
        return v, (v > 0) & (-_exponential(second) < x * x / 2 + d * (1 - cube + xp.log(cube)))

    v = _until(keys, n, np.float64, propose)
    boost = xp.where(a < 1, _exponential(_words(keys, n, xp.zeros((), np.int64), BOOST)[0]) / a, 0.0)
    z = xp.log(d) + 3 * xp.log(v) - boost if logarithm else d * v**3 * xp.exp(-boost)
    return xp.where(is_shape, z, math.nan).astype(dtype).reshape((*key.shape[:-1], *shape))


def draw_wald(key: Any, mean: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return Wald numbers (Michael, Schucany & Haas 1976); nan where a mean is none."""
    keys, n, (mean,) = _rows(key, shape, mean.astype(np.float64))
    first, second = _words(keys, n, xp.zeros((), np.int64))
    w = mean * _normal(first) ** 2
    ratio = 1 / (1 + (w + xp.sqrt(w) * xp.sqrt(w + 4)) / 2)
    z = mean * xp.where(_open(second) * (1 + ratio) <= 1, ratio, 1 / ratio)
    return xp.where((mean > 0) & (mean < math.inf), z, math.nan).astype(dtype).reshape((*key.shape[:-1], *shape))


# -- counts: by adding up probabilities where few are likely, by transformed rejection elsewhere (Hörmann 1993) --
def _log_factorial(k: Any) -> Any:
    return gammaln(k + 1.0)


def _near(first: Any, a: Any, b: Any, center: Any) -> tuple[Any, Any, Any]:
    """Return a proposal of a count, the room that its uniform number leaves to the ends, and the ratio's divisor."""
    u = _open(first) - 0.5
    near = 0.5 - xp.abs(u)
    return xp.floor((2 * a / near + b) * u + center), near, a / (near * near) + b


def _counted(keys: Any, n: int, few: Any, none: Any, following: Propose, propose: Propose) -> Any:
    """Return counts: where few are likely, the least whose probabilities, from that of none on, reach a uniform number."""
    left = xp.where(few, _open(_words(keys, n, xp.zeros((), np.int64))[0]) - none, 0.0)

    def is_open(state: Any) -> Any:
        return (state[0] < ADDED_TERMS) & xp.any(state[3] > 0)

    def step(state: Any) -> Any:
        k, count, p, left = state
        p = following(k, p)
        return k + 1.0, count + xp.where(left > 0, 1.0, 0.0), p, left - p

    added = FUNCTIONS.while_loop(
        is_open, step, (xp.ones((), np.float64), xp.zeros(left.shape, np.float64), none, left)
    )[1]

    def tried(first: Any, second: Any) -> tuple[Any, Any]:
        count, accepted = propose(first, second)
        return count, few | accepted

    return xp.where(few, added, _until(keys, n, np.float64, tried))


def draw_poisson(key: Any, rate: Any, *, shape: tuple[int, ...]) -> Any:
    """Return Poisson numbers (PTRS); -1 where a rate is none."""
    keys, n, (rate,) = _rows(key, shape, rate.astype(np.float64))
    is_rate = (rate >= 0) & (rate < COUNTS_END)
    few = ~(is_rate & (rate >= ADDED_BELOW))
    low, high = xp.where(few & is_rate, rate, 0.0), xp.where(few, ADDED_BELOW, rate)
    b = 0.931 + 2.53 * xp.sqrt(high)
    a = -0.059 + 0.02483 * b

    def propose(first: Any, second: Any) -> tuple[Any, Any]:
        k, near, divisor = _near(first, a, b, high + 0.43)
        v, some = _open(second), xp.maximum(k, 0.0)
        sure = (near >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2))
        bound = some * xp.log(high) - high - _log_factorial(some)
        fits = xp.log(v * (1.1239 + 1.1328 / (b - 3.4)) / divisor) <= bound
        return k, (k >= 0) & (sure | (fits & ~((near < 0.013) & (v > near))))

    counts = _counted(keys, n, few, xp.exp(-low), lambda k, p: p * low / k, propose)
    return xp.where(is_rate, counts, -1.0).astype(np.int64).reshape((*key.shape[:-1], *shape))


def draw_binomial(key: Any, tries: Any, chance: Any, *, shape: tuple[int, ...]) -> Any:
    """Return binomial numbers (BTRS); -1 where a number of tries or a probability is none."""
    keys, n, (m, p) = _rows(key, shape, tries.astype(np.float64), chance.astype(np.float64))
    is_some = (m >= 0) & (m < COUNTS_END) & (m == xp.floor(m)) & (p >= 0) & (p <= 1)
    less = xp.minimum(p, 1.0 - p)
    few = ~(is_some & (m * less >= ADDED_BELOW))
    rare, most = xp.where(few & is_some, less, 0.0), xp.where(few & is_some, m, 0.0)
    m_, p_ = xp.where(few, 40.0, m), xp.where(few, 0.5, less)
    deviation = xp.sqrt(m_ * p_ * (1 - p_))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p_
    middle = xp.floor((m_ + 1) * p_)

    def propose(first: Any, second: Any) -> tuple[Any, Any]:
        k, near, divisor = _near(first, a, b, m_ * p_ + 0.5)
        v, j = _open(second), xp.minimum(xp.maximum(k, 0.0), m_)
        sure = (near >= 0.07) & (v <= 0.92 - 4.2 / b)
        bound = _log_factorial(middle) + _log_factorial(m_ - middle) - _log_factorial(j) - _log_factorial(m_ - j)
        bound = bound + (j - middle) * (xp.log(p_) - xp.log1p(-p_))
        fits = xp.log(v * (2.83 + 5.1 / b) * deviation / divisor) <= bound
        return k, (k >= 0) & (k <= m_) & (sure | fits)

    odds = rare / (1 - rare)
    none = xp.exp(most * xp.log1p(-rare))
    counts = _counted(keys, n, few, none, lambda k, q: q * xp.maximum(most - k + 1.0, 0.0) / k * odds, propose)
    counts = xp.where(is_some, xp.where(p <= 0.5, counts, m - counts), -1.0)
    return counts.astype(np.int64).reshape((*key.shape[:-1], *shape))


# -- normal numbers between bounds, by the quantiles of their probabilities --
def draw_between(key: Any, low: Any, high: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return normal numbers between bounds; nan where they are in the wrong order."""
    keys, n, (a, b) = _rows(key, shape, low.astype(np.float64), high.astype(np.float64))
    u = _open(_bits(keys, n, 8))
    flip = a > -b  # most of the interval lies above 0: mirrored, its probabilities are small numbers
    first, last, v = xp.where(flip, -b, a), xp.where(flip, -a, b), xp.where(flip, 1 - u, u)
    p = _probability(first)
    far = last < FAR_BELOW
    z = xp.where(
        far,
        -_far_quantile(-xp.where(far, last, FAR_BELOW), -xp.where(far, first, FAR_BELOW), v),
        ndtri(p + v * (_probability(last) - p)),
    )
    z = xp.where(flip, -z, z).astype(dtype)
    z = xp.minimum(xp.maximum(z, a.astype(dtype)), b.astype(dtype))  # rounding may step over a bound
    return xp.where(a <= b, z, xp.full((), math.nan, dtype)).reshape((*key.shape[:-1], *shape))


def _probability(x: Any) -> Any:
    return 0.5 * erfc(-x / math.sqrt(2))


def _far_quantile(a: Any, b: Any, u: Any) -> Any:
    """Return what a normal number between a and b, both far above 0, exceeds with probability u, by Newton's method."""
    start, is_finite = _log_mills(a), b < math.inf
    other = xp.where(is_finite, b, a)
    end = xp.where(is_finite, xp.exp(_log_mills(other) - start - (other - a) * (other / 2 + a / 2)), 0.0)
    goal = xp.log1p((u - 1) * (1 - end))
    x = xp.sqrt(a * a - 2 * goal)
    for _ in range(4):
        m = _log_mills(x)
        x = x + (m - start - (x - a) * (x / 2 + a / 2) - goal) * xp.exp(m)
    return x


def _log_mills(x: Any) -> Any:
    """Return the logarithm of a tail's probability over its density, far out, by a continued fraction."""
    y = x
    for k in range(TAIL_TERMS, 0, -1):
        y = x + k / y
    return -xp.log(y)
