"""Integer samplers: uniform integers below a bound, and permutations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval, Shape
from afx.core.dtypes import DType, int64, uint32, uint64
from afx.core.primitive import Primitive
from afx.core.tracing.tracer import bind_single
from afx.errors import ArgumentError
from afx.ops._kinds.elementwise import nondifferentiable
from afx.ops.random.bits import batch_draw, check_key, copied, generate, words_of
from afx.ops.random.philox import LOW

__all__: list[str] = []


def random_integers(key: ArrayLike, low: ArrayLike, high: ArrayLike, shape: Shape, dtype: DType) -> Array:
    """Return integers from low up to, not including, high, without bias: int[*keys, *shape].

    Words that would favour some integers are rejected (Lemire 2019 for words of 32 bits), and the element's next block
    is taken.

    Raises:
        ArgumentError: there is no integer between the bounds, or the dtype does not hold them.
    """
    return bind_single(random_integers_p, key, low, high, shape=shape, dtype=dtype)


def _integers_run(key: Any, low: Any, high: Any, *, shape: Shape, dtype: DType) -> Any:
    check_key(key, "randint")
    first, bound = np.asarray(low), np.asarray(high)
    _check_bounds(first, bound, dtype)
    full = key.shape[:-1] + shape
    span = bound.astype(uint64) - first.astype(uint64)
    narrow = dtype.itemsize <= 4
    if span.size > 1:
        span = np.broadcast_to(span, full).reshape(-1)
    found = _below(key, span.reshape(-1), shape, uint32 if narrow else uint64).reshape(full)
    if not first.any():
        return found.astype(dtype)
    with np.errstate(over="ignore"):  # bounds of both signs meet modulo 2⁶⁴
        return (found + first.astype(uint64)).astype(dtype)


def _check_bounds(low: Any, high: Any, dtype: DType) -> None:
    if np.any(low >= high):
        raise ArgumentError(f"randint: low lies below high: got {_least(low)} and {_least(high)}; exchange them")
    limits = np.iinfo(dtype)
    if np.any(low < limits.min) or np.any(high - 1 > limits.max):
        raise ArgumentError(f"randint: {dtype} does not hold these bounds: got {_least(low)}, {_least(high)}; widen it")


def _least(x: Any) -> Any:
    return x.item() if x.size == 1 else f"an array from {x.min()} to {x.max()}"


def _below(key: Any, span: Any, shape: Shape, word: DType) -> Any:
    """Return uint64 numbers below the spans, flat; one span for all is met while the words are in the cache."""
    rejections: list[bool] = []

    def reduce(words: Any, out: Any) -> None:
        found, wrong = _reduce(words.astype(uint64), span, word)
        np.copyto(out, found)
        if wrong.any():
            rejections.append(True)

    if span.size == 1:
        reduced = generate(key, shape, uint64, word, reduce).reshape(-1)
        if not rejections:
            return reduced
    return _below_each(key, span, shape, word)


def _below_each(key: Any, span: Any, shape: Shape, word: DType) -> Any:
    n, keys = math.prod(shape), key.reshape(-1, 2)
    words = generate(key, shape, uint64, word, copied).reshape(-1)
    found, wrong = _reduce(words, span, word)
    rejected = np.flatnonzero(wrong)
    round_ = 1
    while rejected.size:
        block = words_of(keys, n, rejected, round_)
        words = block[:, 0].astype(uint64) if word == uint32 else block.view("<u8")[:, 0]
        found[rejected], wrong = _reduce(words, span if span.size == 1 else span[rejected], word)
        rejected, round_ = rejected[wrong], round_ + 1
    return found


def _reduce(words: Any, span: Any, word: DType) -> tuple[Any, Any]:
    """Return numbers below the span, and where they must be drawn again."""
    if word == uint32:
        product = words * span
        return product >> np.uint64(32), (product & LOW) < (np.uint64(2**32) - span) % span
    found = words - words // span * span
    return found, words - found > ~span + np.uint64(1)


def _integers_abstract(key: Aval, low: Aval, high: Aval, *, shape: Shape, dtype: DType) -> Aval:
    check_key(key, "randint")
    return Aval(key.shape[:-1] + shape, dtype)


random_integers_p: Primitive = nondifferentiable(
    "random_integers", _integers_run, _integers_abstract, batch=batch_draw("random_integers")
)


def random_order(key: ArrayLike, n: int) -> Array:
    """Return the integers below n in an order, each order as likely as the others: int64[*keys, n]."""
    return bind_single(random_order_p, key, shape=(n,))


def _order_run(key: Any, *, shape: Shape) -> Any:
    check_key(key, "permutation")
    words = generate(key, shape, uint64, uint64, copied)
    order = np.argsort(words, axis=-1)  # the quickest way, which treats equal words as the machine likes
    placed = np.take_along_axis(words, order, axis=-1)
    return np.argsort(words, axis=-1, kind="stable") if np.any(placed[..., 1:] == placed[..., :-1]) else order


def _order_abstract(key: Aval, *, shape: Shape) -> Aval:
    check_key(key, "permutation")
    return Aval(key.shape[:-1] + shape, int64)


random_order_p: Primitive = nondifferentiable(
    "random_order", _order_run, _order_abstract, batch=batch_draw("random_order")
)
