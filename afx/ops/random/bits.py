"""Random bits: a function of a key and a counter; every sampler draws from them.

A draw takes the words of its key's blocks in their order, 64-bit words as pairs of them, the lower half first. Draws by
rejection give each element a block of its own in each round instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval, Shape, aval_of
from afx.core.dtypes import DType, uint32, uint64
from afx.core.primitive import Params, Primitive, Value, lookup
from afx.core.tracing.tracer import bind, bind_single, to_lower_level
from afx.errors import ArgumentError, DtypeError
from afx.ops._basic import broadcast
from afx.ops._kinds.elementwise import nondifferentiable
from afx.ops.random.philox import BLOCKS, DRAW, FEW, FOLD, as_words, block_words, philox, philox_few, philox_first
from afx.runtime.thread_pool import get_threads, run_blocks

if TYPE_CHECKING:
    from afx.compiler.native_backend.lowering.recorder import Recorder

__all__: list[str] = []

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
    """Return what draws words as machine code, and makes numbers of them as `generate` does; None has no such form."""

    def native(xp: Recorder, out: Any, key: Any) -> None:
        if finish is None:
            xp.refuse("this distribution")
            return
        words = xp.words(key, 2 * out.size // key.size, word, purpose)
        found, rows = xp.new(words.shape, out.dtype), out.reshape(words.shape)
        finish(words, found)
        rows[...] = found

    return native


def _bits_native(xp: Recorder, out: Any, key: Any, *, shape: Shape, dtype: DType, purpose: int) -> None:
    record_draw(copied, uint64 if dtype.itemsize == 8 else uint32, purpose)(xp, out, key)


def copied(words: Any, out: Any) -> None:
    """Make integers of words by taking the lower bits."""
    np.copyto(out, words, casting="unsafe")


def _bits_abstract(key: Aval, *, shape: Shape, dtype: DType, purpose: int) -> Aval:
    check_key(key)
    return Aval(key.shape[:-1] + shape, dtype)


def batch_draw(name: str) -> Any:
    """Return the batching rule of a draw: keys come with axes of their own in front, and parameters broadcast to them."""

    def batch(size: int, xs: tuple[Value, ...], batched: tuple[bool, ...], params: Params) -> Value:
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


def _fold_batch(size: int, xs: tuple[Value, ...], batched: tuple[bool, ...], params: Params) -> Value:
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


def draw_each(key: Any, shape: Shape, params: tuple[Any, ...], compute: Callable[..., Any]) -> Any:
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
            found, accepted = propose(*self.pairs(places, round_), *[x[places] for x in params])
            out[places[accepted]] = found[accepted]
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
