"""Random bits: Philox4x32-10 (Salmon et al. 2011), a function of key and counter; integers and permutations."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from afx.compiler.schedule.arrays import PHILOX_FACTORS, PHILOX_ROUNDS, PHILOX_STEPS
from afx.core import Array, ArrayLike, Aval, DType, Function, Shape, aval_of, int64, uint32, uint64
from afx.core.primitive import Bools, Params, Primitive, Value, Values, lookup
from afx.core.tracing.tracer import bind, bind_single, to_lower_level
from afx.errors import ArgumentError, DtypeError
from afx.ops._basic import broadcast
from afx.ops._kinds.elementwise import nondifferentiable
from afx.ops.random import traced_draws
from afx.runtime.thread_pool import get_threads, run_blocks

if TYPE_CHECKING:
    from afx.compiler.native_backend.lowering.recorder import Recorder


# --- Philox: the counter-based generator Philox4x32-10 (Salmon et al. 2011)
#
# A key is two 32-bit words. Under one key the generator is a table of blocks of four 32-bit words, and any block can
# be computed by itself, from its counter: block ``i`` of a draw has the counter ``(i mod 2³², i / 2³², round,
# purpose)``. All is integer arithmetic: the same on every machine.

MASK = 0xFFFFFFFF
LOW, HALF = np.uint64(MASK), np.uint64(32)
FACTORS = np.array(PHILOX_FACTORS, np.uint64)[:, None]
SCHEDULE = np.arange(PHILOX_ROUNDS, dtype=np.uint64)[:, None, None] * np.array(PHILOX_STEPS, np.uint64)[:, None]
DRAW, SPLIT, FOLD, BOOST = 0, 1, 2, 3  # purposes: the last word of the counter

FEW = 80  # blocks that Python's integers compute sooner than NumPy's arrays
BLOCKS = 16384  # computed at a time: they stay in the cache


def philox(blocks: Any, keys: Any, round_: Any, purpose: int, scratch: Any) -> Any:
    """Return uint64[2, n], the words of n blocks: words 0 and 1 in the first row, 2 and 3 in the second.

    Args:
        blocks: uint64[n], their numbers.
        keys: uint64[2, 1], or [2, n] with a key for each block.
        round_: the third word of the counter.
        purpose: the fourth.
        scratch: uint64[3, 2, n or more], overwritten; the result is a part of it.
    """
    x, q, p = scratch[:, :, : len(blocks)]
    np.bitwise_and(blocks, LOW, out=x[0])
    x[1] = round_
    np.right_shift(blocks, HALF, out=q[0])
    q[1] = purpose
    for k in (keys + SCHEDULE) & LOW if keys.shape[1] == 1 else _schedule(keys):
        np.multiply(x, FACTORS, out=p)
        swapped = p[::-1]
        np.right_shift(swapped, HALF, out=x)
        np.bitwise_xor(x, q, out=x)  # the upper halves of q are what is left of a product, and are cut off below
        np.bitwise_xor(x, k, out=x)
        np.bitwise_and(x, LOW, out=x)
        p, q = q, swapped
    np.left_shift(q, HALF, out=q)
    return np.bitwise_or(q, x, out=q)


def _schedule(keys: Any) -> Iterator[Any]:
    """Yield the keys of the rounds; one array serves them all."""
    k = keys.copy()
    for _ in range(PHILOX_ROUNDS):
        yield k
        np.add(k, SCHEDULE[1], out=k)
        np.bitwise_and(k, LOW, out=k)


def philox_few(blocks: Any, keys: Any, round_: int, purpose: int) -> Any:
    """Return uint32[n, 4], the words of n blocks, by one of Python's integers for each word of all blocks.

    A block has 128 bits of it. A product of two words takes 64, so that no block runs into the next.

    Args:
        blocks: uint64[n], their numbers.
        keys: uint32[1, 2], or [n, 2] with a key for each block.
        round_: the third word of the counter.
        purpose: the fourth.
    """
    n = len(blocks)
    lanes = _lanes(n)
    counters = np.empty((n, 2), "<u8")
    counters[:, 0], counters[:, 1] = blocks, round_ | purpose << 32
    x, mask = int.from_bytes(counters.tobytes(), "little"), lanes.mask
    if len(keys) == 1:
        k0, k1 = [int(k) * lanes.ones for k in keys[0]]
    else:
        wide = np.zeros((n, 4), "<u4")
        wide[:, :2] = keys
        both = int.from_bytes(wide.tobytes(), "little")
        k0, k1 = both & mask, both >> 32 & mask
    return _rounds((x & mask, x >> 32 & mask, x >> 64 & mask, x >> 96 & mask), k0, k1, PHILOX_ROUNDS, lanes).reshape(
        n, 4
    )


def philox_first(n: int, key: Any, purpose: int) -> Any:
    """Return uint32[4 n], the words of the first n blocks of a key in round 0, as `philox_few` computes them.

    Args:
        n: how many, 2³² at most.
        key: uint32[2].
        purpose: the fourth word of the counter.
    """
    lanes = _lanes(n)
    first, second = key.tolist()
    k0, k1 = first * lanes.ones, second * lanes.ones
    # of the first round, all but the key and the purpose is the same in every draw
    state = (k0, 0, lanes.upper ^ k1 ^ purpose * lanes.ones, lanes.lower)
    return _rounds(state, k0 + lanes.steps[0], k1 + lanes.steps[1], PHILOX_ROUNDS - 1, lanes)


def _rounds(state: Shape, k0: int, k1: int, count: int, lanes: WordLanes) -> Any:
    """Return uint32[4 n], the words after so many rounds from integers that hold one word of every block each.

    Words of the key grow into the space above them, which is cut off with that of the products.
    """
    (x0, x1, x2, x3), mask, (step0, step1), (factor0, factor1) = state, lanes.mask, lanes.steps, PHILOX_FACTORS
    for _ in range(count):
        p0, p1 = x0 * factor0, x2 * factor1
        x0, x1, x2, x3 = (p1 >> 32 ^ x1 ^ k0) & mask, p1 & mask, (p0 >> 32 ^ x3 ^ k1) & mask, p0 & mask
        k0, k1 = k0 + step0, k1 + step1
    words = (x0 | x1 << 32 | x2 << 64 | x3 << 96).to_bytes(16 * lanes.n, "little")
    return np.frombuffer(bytearray(words), "<u4")


class WordLanes(NamedTuple):
    """What integers that hold one word of each of n blocks are made with.

    Attributes:
        n: the number of blocks.
        ones: 1 in each block.
        mask: the bits of a word in each block.
        steps: what each round adds to the words of the key.
        upper: the upper halves of the products of the first round of blocks 0, 1, 2 ….
        lower: their lower halves.
    """

    n: int
    ones: int
    mask: int
    steps: tuple[int, int]
    upper: int
    lower: int


@functools.lru_cache(maxsize=FEW)
def _lanes(n: int) -> WordLanes:
    ones = sum([1 << 128 * i for i in range(n)])
    mask, products = MASK * ones, sum([i * PHILOX_FACTORS[0] << 128 * i for i in range(n)])
    return WordLanes(
        n, ones, mask, (PHILOX_STEPS[0] * ones, PHILOX_STEPS[1] * ones), products >> 32 & mask, products & mask
    )


def block_words(keys: Any, blocks: Any, round_: Any, purpose: int) -> Any:
    """Return uint32[n, 4]: the words of one block each for keys uint32[n, 2], or [1, 2] for one key for all.

    Args:
        keys: the keys.
        blocks: uint64[n], the blocks' numbers.
        round_: the third word of the counter, one number or uint64[n].
        purpose: the fourth.
    """
    n = len(blocks)
    if 0 < n <= FEW and not np.ndim(round_):
        return philox_few(blocks, keys, int(round_), purpose)
    out = np.empty((n, 2), np.uint64)
    scratch = np.empty((3, 2, min(n, BLOCKS)), np.uint64)
    wide = np.ascontiguousarray(keys.T, np.uint64)
    for start in range(0, n, BLOCKS):
        part = slice(start, start + BLOCKS)
        k = wide if wide.shape[1] == 1 else wide[:, part]
        r = round_[part] if np.ndim(round_) else round_
        out[part] = philox(blocks[part], k, r, purpose, scratch).T
    return as_words(out, uint32).reshape(n, 4)


def as_words(pairs: Any, word: DType) -> Any:
    """Return uint64 words as they are, or as pairs of uint32 words, the lower first."""
    return pairs if word == uint64 else pairs.astype("<u8", copy=False).view("<u4")


# --- Random bits: a function of a key and a counter; every sampler draws from them
#
# A draw takes the words of its key's blocks in their order, 64-bit words as pairs of them, the lower half first.
# Draws by rejection give each element a block of its own in each round instead.

SHARED = 8 * BLOCKS  # blocks that are worth the wait for other threads
Finish: TypeAlias = Callable[[Any, Any], None]


def random_bits(key: ArrayLike, shape: Shape, dtype: DType, purpose: int = DRAW) -> Array:
    """Return random bits in an unsigned integer dtype: uint[*keys, *shape] for a key uint32[*keys, 2].

    Integers of less than 32 bits are the lower bits of one word each.
    """
    return bind_single(random_bits_p, key, shape=shape, dtype=dtype, purpose=purpose)


def _bits_run(key: Any, *, shape: Shape, dtype: DType, purpose: int) -> Any:
    check_key(key)
    return generate(key, shape, dtype, uint64 if dtype.itemsize == 8 else uint32, copied, purpose)


def record_draw(finish: Finish | None, word: DType, purpose: int = DRAW) -> Callable[..., None]:
    """Return a function that draws words as machine code, and makes numbers of them as `generate` does; None has no such form."""

    def native(xp: Recorder, out: Any, key: Any) -> None:
        if finish is None:
            xp.refuse("this distribution")
            return
        words = xp.words(key, 2 * out.size // key.size, word, purpose)
        drawn, rows = xp.new(words.shape, out.dtype), out.reshape(words.shape)
        finish(words, drawn)
        rows[...] = drawn

    return native


def _bits_native(xp: Recorder, out: Any, key: Any, *, shape: Shape, dtype: DType, purpose: int) -> None:
    record_draw(copied, uint64 if dtype.itemsize == 8 else uint32, purpose)(xp, out, key)


def copied(words: Any, out: Any) -> None:
    """Make integers of words by taking the lower bits."""
    np.copyto(out, words, casting="unsafe")


def _bits_abstract(key: Aval, *, shape: Shape, dtype: DType, purpose: int) -> Aval:
    check_key(key)
    return Aval(key.shape[:-1] + shape, dtype)


def draw_aval(who: str) -> Callable[..., Aval]:
    """Return the shape rule of draws: after a key, parameters are real numbers; without a dtype, draws are counts."""

    def abstract(key: Aval, *laws: Aval, shape: Shape, dtype: DType = int64, **_: Any) -> Aval:
        check_key(key, who)
        check_real(who, *laws)
        return Aval(key.shape[:-1] + shape, dtype)

    return abstract


def batch_draw(name: str) -> Any:
    """Return the batching rule of a draw: keys come with axes of their own in front, and parameters broadcast to them."""

    def batch(size: int, xs: Values, batched: Bools, params: Params) -> Value:
        key = xs[0] if batched[0] else to_lower_level(broadcast(xs[0], (size, *xs[0].shape)))
        rank = key.ndim - 1 + len(params["shape"])
        rest = [
            x.reshape((size,) + (1,) * (rank - x.ndim) + x.shape[1:]) if b else x
            for x, b in zip(xs[1:], batched[1:], strict=True)
        ]
        return bind(lookup(name), key, *rest, **params)

    return batch


random_bits_p: Primitive = nondifferentiable(
    "random_bits", _bits_run, _bits_abstract, batch=batch_draw("random_bits"), native=_bits_native
)


def check_key(key: Any, who: str = "random_bits") -> None:
    """Raise `ArgumentError` unless a value, or an Aval, is a key or an array of keys."""
    if getattr(key, "shape", ())[-1:] != (2,) or (key.dtype is not uint32 and key.dtype != uint32):
        got = key if isinstance(key, Aval) else Aval(key.shape, key.dtype) if hasattr(key, "dtype") else repr(key)
        raise ArgumentError(f"{who}: a key is uint32[2]: got {got}; make one with afx.random.key(seed)")


def check_real(who: str, *xs: Any) -> None:
    """Raise `DtypeError` unless parameters, or their Avals, are real floating numbers."""
    for x in xs:
        aval = aval_of(x, who)
        if aval.dtype.kind != "f":
            raise DtypeError(f"{who}: parameters are real floating numbers: got {aval}; convert with astype")


def random_fold(key: ArrayLike, data: ArrayLike) -> Array:
    """Return uint32[*shape, 2], the keys that uint32[*keys, 2] and integers make; leading axes broadcast."""
    return bind_single(random_fold_p, key, data)


def _fold_run(key: Any, data: Any) -> Any:
    check_key(key, "fold_in")
    number = np.asarray(data).astype(uint64)
    if key.ndim == 1 and not number.ndim:
        return philox_few(number[None], key[None], 0, FOLD)[0, :2].copy()
    shape = np.broadcast_shapes(key.shape[:-1], number.shape)
    keys = np.broadcast_to(key, (*shape, 2)).reshape(-1, 2)
    words = block_words(keys, np.broadcast_to(number, shape).reshape(-1), 0, FOLD)
    return np.ascontiguousarray(words[:, :2]).reshape(*shape, 2)


def _fold_native(xp: Recorder, out: Any, key: Any, data: Any) -> None:
    keys, numbers = xp.new(out.shape, uint32), xp.new(out.shape[:-1], uint64)
    xp.copy(keys, key)
    xp.copy(numbers, data)
    words = xp.words(keys, 2, uint32, FOLD, numbers)
    xp.copy(out.reshape(words.shape), words)


def _fold_abstract(key: Aval, data: Aval) -> Aval:
    check_key(key, "fold_in")
    if data.dtype.kind not in "iu":
        raise ArgumentError(f"fold_in: folds integers into keys: got {data}; convert with astype")
    return Aval((*np.broadcast_shapes(key.shape[:-1], data.shape), 2), uint32)


def _fold_batch(size: int, xs: Values, batched: Bools, params: Params) -> Value:
    key, data = xs
    lead = max(key.ndim - 1 - batched[0], np.ndim(data) - batched[1])
    if batched[0]:
        key = key.reshape((size,) + (1,) * (lead - key.ndim + 2) + key.shape[1:])
    if batched[1]:
        data = data.reshape((size,) + (1,) * (lead - data.ndim + 1) + data.shape[1:])
    return bind(random_fold_p, key, data)


random_fold_p: Primitive = nondifferentiable(
    "random_fold", _fold_run, _fold_abstract, batch=_fold_batch, native=_fold_native
)


# -- draws --
def words_of(keys: Any, n: int, index: Any, round_: Any, purpose: int = DRAW) -> Any:
    """Return uint32[m, 4]: a block for each of m elements, which are numbered through all the draws of n from each key."""
    chosen = keys if len(keys) == 1 else keys[index // n]
    return block_words(chosen, (index % n if len(keys) > 1 else index).astype(np.uint64), round_, purpose)


def draw_each(key: Any, shape: Shape, params: tuple[Any, ...], compute: Function) -> Any:
    """Return float64[*keys, *shape], computed with parameters that are float64 numbers or arrays of the result's shape.

    Args:
        key: uint32[*keys, 2].
        shape: the shape drawn from each key.
        params: the parameters.
        compute: ``(stream, *params) -> elements``: flat parameters of some elements, and their `Stream`.
    """
    full = key.shape[:-1] + shape
    keys, n, count = key.reshape(-1, 2), math.prod(shape), math.prod(full)
    flat = [np.broadcast_to(np.asarray(x, np.float64), full).reshape(-1) for x in params]
    out: Any = np.empty(count)
    for start in range(0, count, BLOCKS):
        index = np.arange(start, min(start + BLOCKS, count))
        out[index] = compute(Stream(keys, n, index), *[x[index] for x in flat])
    return out.reshape(full)


class Stream:
    """The words of some elements: each element has a block of its own in each round, whatever the others need."""

    def __init__(self, keys: Any, n: int, index: Any) -> None:
        self._keys, self._n, self._index = keys, n, index

    def at(self, part: Any) -> Stream:
        """Return the stream of the elements at some indices."""
        return Stream(self._keys, self._n, self._index[part])

    def pairs(self, part: Any, round_: int, purpose: int = DRAW) -> tuple[Any, Any]:
        """Return two vectors of uint64 words for the elements at some places."""
        block = words_of(self._keys, self._n, self._index[part], round_, purpose).view("<u8")
        return np.ascontiguousarray(block[:, 0]), np.ascontiguousarray(block[:, 1])

    def until(self, propose: Callable[..., tuple[Any, Any]], *params: Any) -> Any:
        """Return for each element the first proposal that is accepted.

        Args:
            propose: ``(first words, second words, *params) -> (proposals, whether each is accepted)``.
            params: vectors with a number for each element.
        """
        out = np.empty(len(self._index))
        places, round_ = np.arange(len(self._index)), 0
        while places.size:
            proposals, accepted = propose(*self.pairs(places, round_), *[x[places] for x in params])
            out[places[accepted]] = proposals[accepted]
            places, round_ = places[~accepted], round_ + 1
        return out


def generate(key: Any, shape: Shape, dtype: DType, word: DType, finish: Finish, purpose: int = DRAW) -> Any:
    """Return dtype[*keys, *shape], made of one random word an element.

    Args:
        key: uint32[*keys, 2].
        shape: the shape drawn from each key.
        dtype: of the result.
        word: uint32 or uint64.
        finish: ``(words, out)``: makes elements of words, which it may overwrite; both contiguous.
        purpose: the last word of the counter.
    """
    keys, n = key.reshape(-1, 2), math.prod(shape)
    out: Any = np.empty((len(keys), n), dtype)
    each = 4 if word == uint32 else 2
    blocks = -(-n // each)
    if 0 < len(keys) * blocks <= FEW:
        _generate_few(keys, blocks, out, word, finish, purpose)
    elif blocks > BLOCKS // 2:
        for k, row in zip(keys, out, strict=True):
            _generate_row(k, blocks, row, word, finish, purpose)
    elif blocks:
        step = BLOCKS // blocks
        for start in range(0, len(keys), step):
            _generate_rows(keys[start : start + step], blocks, out[start : start + step], word, finish, purpose)
    return out.reshape(key.shape[:-1] + shape)


def _generate_few(keys: Any, blocks: int, out: Any, word: DType, finish: Finish, purpose: int) -> None:
    for k, row in zip(keys, out, strict=True):
        words = philox_first(blocks, k, purpose)
        finish((words if word == uint32 else words.view("<u8"))[: len(row)], row)


def _generate_row(key: Any, blocks: int, out: Any, word: DType, finish: Finish, purpose: int) -> None:
    """Draw many elements from one key, on all threads."""
    wide = key.astype(np.uint64)[:, None]
    first = np.arange(BLOCKS, dtype=np.uint64)
    each = 4 if word == uint32 else 2

    def work(_k: int, start: int, stop: int, scratch: tuple[Any, ...]) -> None:
        pairs = scratch[1][: stop - start]
        numbers = np.add(first[: stop - start], np.uint64(start), out=scratch[2][: stop - start])
        pairs[:] = philox(numbers, wide, 0, purpose, scratch[0]).T
        part = out[start * each : stop * each]
        finish(as_words(pairs.reshape(-1), word)[: len(part)], part)

    scratch = [_borrow() for _ in range(get_threads() if blocks >= SHARED else 1)]
    run_blocks(work, blocks, BLOCKS, scratch, ())
    _IDLE.extend(scratch[: max(0, KEPT - len(_IDLE))])


KEPT = 2  # sets of scratch arrays that are kept for the next draw: fresh memory costs as much as a draw
_IDLE: list[tuple[Any, ...]] = []


def _borrow() -> tuple[Any, ...]:
    try:
        return _IDLE.pop()
    except IndexError:
        return np.empty((3, 2, BLOCKS), np.uint64), np.empty((BLOCKS, 2), np.uint64), np.empty(BLOCKS, np.uint64)


def _generate_rows(keys: Any, blocks: int, out: Any, word: DType, finish: Finish, purpose: int) -> None:
    """Draw some elements from each of several keys."""
    one = len(keys) == 1
    numbers = np.tile(np.arange(blocks, dtype=np.uint64), len(keys))
    wide = np.ascontiguousarray((keys if one else np.repeat(keys, blocks, axis=0)).T, np.uint64)
    pairs = np.ascontiguousarray(philox(numbers, wide, 0, purpose, np.empty((3, 2, len(numbers)), np.uint64)).T)
    words = as_words(pairs.reshape(-1), word).reshape(len(keys), -1)[:, : out.shape[1]]
    finish(np.ascontiguousarray(words), out)


# --- Integer samplers: uniform integers below a bound, and permutations


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
    drawn = _below(key, span.reshape(-1), shape, uint32 if narrow else uint64).reshape(full)
    if not first.any():
        return drawn.astype(dtype)
    with np.errstate(over="ignore"):  # bounds of both signs meet modulo 2⁶⁴
        return (drawn + first.astype(uint64)).astype(dtype)


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
        reduced, wrong = _reduce(words.astype(uint64), span, word)
        np.copyto(out, reduced)
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
    reduced, wrong = _reduce(words, span, word)
    rejected = np.flatnonzero(wrong)
    round_ = 1
    while rejected.size:
        block = words_of(keys, n, rejected, round_)
        words = block[:, 0].astype(uint64) if word == uint32 else block.view("<u8")[:, 0]
        reduced[rejected], wrong = _reduce(words, span if span.size == 1 else span[rejected], word)
        rejected, round_ = rejected[wrong], round_ + 1
    return reduced


def _reduce(words: Any, span: Any, word: DType) -> tuple[Any, Any]:
    """Return numbers below the span, and where they must be drawn again."""
    if word == uint32:
        product = words * span
        return product >> np.uint64(32), (product & LOW) < (np.uint64(2**32) - span) % span
    reduced = words - words // span * span
    return reduced, words - reduced > ~span + np.uint64(1)


def _integers_abstract(key: Aval, low: Aval, high: Aval, *, shape: Shape, dtype: DType) -> Aval:
    check_key(key, "randint")
    return Aval(key.shape[:-1] + shape, dtype)


random_integers_p: Primitive = nondifferentiable(
    "random_integers",
    _integers_run,
    _integers_abstract,
    batch=batch_draw("random_integers"),
    formula=traced_draws.draw_integers,
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


random_order_p: Primitive = nondifferentiable(
    "random_order",
    _order_run,
    draw_aval("permutation"),
    batch=batch_draw("random_order"),
    formula=traced_draws.draw_order,
)
