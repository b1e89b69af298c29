"""Draws as formulas: permutations, integers, and samplers by rejection, of random words that are computed by arithmetic.

Code that calls nothing of NumPy's has a form of one word an element alone (`afx.ops.random.uniform_family`). These are
the samplers that draw again what they reject: every element has a block of words of its own in each round, so that its
number is the one that NumPy's calls give, but for the last digits of logarithms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from afx.compiler.schedule.arrays import (
    ADDED_TERMS,
    FAR_BELOW,
    PHILOX_FACTORS,
    PHILOX_ROUNDS,
    PHILOX_STEPS,
    TAIL_TERMS,
)
from afx.core.registry import FUNCTIONS
from afx.ops._basic import xp
from afx.ops.special.errors import erfc, ndtri

LOW, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
DRAW, BOOST = 0, 3  # purposes: the last word of the counter
Propose: TypeAlias = Callable[..., tuple[Any, Any]]
Params: TypeAlias = Sequence[Any]


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


def open_numbers(words: Any) -> Any:
    """Return uniform numbers between 0 and 1."""
    return (words >> np.uint64(12)).astype(np.float64) * 2.0**-52 + 2.0**-53


# names of distributions to their numbers
NUMBERS = {"exponential": _exponential, "normal": _normal, "open": open_numbers}


# -- samplers --
class TracedStream:
    """The words of all elements of a traced program: `afx.ops.random.bits.Stream` without a choice of elements."""

    def __init__(self, keys: Any, n: int) -> None:
        self._keys, self._n = keys, n

    def first(self, purpose: int = DRAW) -> tuple[Any, Any]:
        """Return two words of the first block of each element."""
        return _words(self._keys, self._n, xp.zeros((), np.int64), purpose)

    def only(self, chosen: Any, compute: Callable[..., Any], *params: Any, purpose: int) -> Any:
        """Return what is computed of a word of each element that is chosen, 0 elsewhere."""
        return xp.where(chosen, compute(self.first(purpose)[0], *params), 0.0)

    def until(self, propose: Propose, *params: Any, done: Any = False) -> Any:
        """Return for each element the first proposal that is accepted; anything where ``done`` says so."""

        def is_open(state: Any) -> Any:
            return ~xp.all(state[1])

        def step(state: Any) -> Any:
            round_, is_done, results = state
            proposals, accepted = propose(*_words(self._keys, self._n, round_), *params)
            return round_ + 1, is_done | (done | accepted), xp.where(is_done, results, proposals)

        shape = (self._keys.shape[0], self._n)
        start = xp.zeros((), np.int64), xp.zeros(shape, np.bool_), xp.zeros(shape)
        return FUNCTIONS.while_loop(is_open, step, start)[2]

    def split(
        self, few: Any, added: Callable[..., Any], propose: Propose, params: Params, none: Params, many: Params
    ) -> Any:
        """Return counts: both ways of all elements, each with parameters of its own where the other one counts."""
        rare = [xp.where(few, x, instead) for x, instead in zip(params, none, strict=True)]
        common = [xp.where(few, instead, x) for x, instead in zip(params, many, strict=True)]
        u = open_numbers(self.first()[0])
        return xp.where(few, added(self, u, *rare), self.until(propose, *common, done=few))

    def add_up(self, u: Any, p: Any, following: Callable[[Any, Any], Any]) -> Any:
        """Return the least k at which the probabilities up to k reach u; ``following(k, p)`` is that of k."""

        def is_open(state: Any) -> Any:
            return (state[0] < ADDED_TERMS) & xp.any(state[3] > 0)

        def step(state: Any) -> Any:
            k, count, p, left = state
            p = following(k, p)
            return k + 1.0, count + xp.where(left > 0, 1.0, 0.0), p, left - p

        return FUNCTIONS.while_loop(is_open, step, (xp.ones(()), xp.zeros(u.shape), p, u - p))[1]


def draw_traced(
    key: Any,
    shape: tuple[int, ...],
    params: Params,
    compute: Callable[..., Any],
    is_valid: Callable[..., Any],
    instead: Params,
    missing: float,
) -> Any:
    """Return float64[*keys, *shape] as `afx.ops.random.bits.draw_each` does; where parameters are none, ``missing``.

    Args:
        key: uint32[*keys, 2].
        shape: the shape drawn from each key.
        params: the parameters.
        compute: ``(stream, *params) -> elements``.
        is_valid: ``(*params)``: where they are parameters of the distribution.
        instead: numbers that stand for those that are none.
        missing: the number there.
    """
    keys, n, rows = _rows(key, shape, *[x.astype(np.float64) for x in params])
    valid = is_valid(*rows)
    rows = [xp.where(valid, x, other) for x, other in zip(rows, instead, strict=True)]
    z = xp.where(valid, compute(TracedStream(keys, n), *rows), missing)
    return z.reshape((*key.shape[:-1], *shape))


def draw_order(key: Any, *, shape: tuple[int, ...]) -> Any:
    """Return the numbers of elements in the order of their words."""
    keys, n, _ = _rows(key, shape)
    return xp.argsort(_bits(keys, n, 8), axis=-1).reshape((*key.shape[:-1], *shape))


def draw_integers(
    key: Any, low: Any, high: Any, reduce: Callable[[Any, Any], tuple[Any, Any]], shape: tuple[int, ...], dtype: Any
) -> Any:
    """Return integers without bias; ``reduce(words, span)`` gives numbers below it, and where they must be drawn again."""
    keys, n, (first, bound) = _rows(key, shape, low, high)
    first, bound = first.astype(np.uint64), bound.astype(np.uint64)
    span = xp.maximum(bound - first, np.uint64(1))
    size = 4 if dtype.itemsize <= 4 else 8
    drawn, wrong = reduce(_bits(keys, n, size), span)

    def is_open(state: Any) -> Any:
        return xp.any(state[1])

    def again(state: Any) -> Any:
        round_, wrong, drawn = state
        words = _words(keys, n, round_)[0]
        new, is_wrong = reduce(words & LOW if size == 4 else words, span)
        return round_ + 1, wrong & is_wrong, xp.where(wrong, new, drawn)

    drawn = FUNCTIONS.while_loop(is_open, again, (xp.ones((), np.int64), wrong, drawn))[2]
    return (drawn + first).astype(dtype).reshape((*key.shape[:-1], *shape))


# -- normal numbers between bounds, by the quantiles of their probabilities --
def draw_between(key: Any, low: Any, high: Any, *, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return normal numbers between bounds; nan where they are in the wrong order."""
    keys, n, (a, b) = _rows(key, shape, low.astype(np.float64), high.astype(np.float64))
    u = open_numbers(_bits(keys, n, 8))
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
