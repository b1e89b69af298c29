"""Products: calls of NumPy's loops, tiles of the second tier, and small ones in the order in which BLAS adds."""

from __future__ import annotations

import functools
import hashlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

import attrs
import numpy as np
from numpy.lib.stride_tricks import as_strided

from afx.compiler.native_backend.llvm.products import cut_tiles, find_tile
from afx.compiler.native_backend.lowering.convert import BlockBuilder, UnsupportedError
from afx.compiler.native_backend.lowering.forms import loop_of, quiet_of
from afx.compiler.native_backend.lowering.memory import Location, broadcast, copy_nest, dense, look
from afx.compiler.native_backend.program.elements import (
    Arithmetic,
    Load,
    Op,
    Orders,
    Ref,
    Root,
    Sum,
    SumTree,
    Wide,
    chain,
)
from afx.compiler.native_backend.program.interface import PARTS
from afx.compiler.native_backend.program.leaves import Nest, UfuncCall
from afx.compiler.native_backend.program.loops import Arg, BlockLoop, Body
from afx.compiler.native_backend.program.steps import Block, merged
from afx.compiler.schedule.schedule import Call
from afx.compiler.target import NativeTarget
from afx.core.aval import Shape
from afx.core.primitive import Printable
from afx.core.scalar_ops import ADD, MATMUL, MULTIPLY
from afx.runtime.blas import blas

# --- Orders of small products: which additions BLAS rounds, in which order, found out from its results
#
# Terms M and -M cancel where they meet: how many of the other terms, all 1, survive tells how many are added later,
# which shows the tree of sums (Xie & al. 2025, FPRev: numerically revealing the order of floating-point
# accumulation). Random numbers show which additions are fused with a multiplication, and whether all elements of a
# product agree.

Batch: TypeAlias = Any  # matrices behind each other
Counts: TypeAlias = "dict[tuple[int, int], Any]"

SAMPLES = 24
ZEROS: tuple[Literal["", "end", "start"], ...] = ("", "end", "start")
KINDS: tuple[Literal["plain", "left", "right"], ...] = ("plain", "right", "left")
WIDE: tuple[Wide, ...] = ("", "products", "terms")
LARGE = {"f4": 2.0**60, "f8": 2.0**100}  # beyond what float64 holds beside a few ones
SPLITTER = 134217729.0  # 2²⁷ + 1


@attrs.frozen(eq=False, repr=False)
class _Case(Printable):
    """A product whose order is looked for, as NumPy's loops get it: core sizes and strides."""

    dtype: str
    sizes: Shape
    strides: Shape

    @property
    def lengths(self) -> tuple[int, int, int]:
        """Rows, terms, columns."""
        return (1, self.sizes[0], 1) if len(self.sizes) == 1 else (self.sizes[0], self.sizes[1], self.sizes[2])

    def multiply(self, x: Batch, y: Batch) -> Batch:
        """Return the products of a batch as NumPy computes them."""
        m, k, n = self.lengths
        if len(self.sizes) == 1:
            xs, ys = [_laid_out(z.reshape(len(z), k), (k,), (s,)) for z, s in zip((x, y), self.strides, strict=True)]
            return np.vecdot(xs, ys)[:, None, None]
        x, y = _laid_out(x, (m, k), self.strides[:2]), _laid_out(y, (k, n), self.strides[2:4])
        out = _laid_out(np.zeros((len(x), m, n), self.dtype), (m, n), self.strides[4:])
        np.matmul(x, y, out=out)
        return out


def _laid_out(x: Batch, shape: Shape, strides: Shape) -> Batch:
    """Return a copy of a batch with these strides of its last axes, aligned in every way: on that no order may depend."""
    size = x.dtype.itemsize
    span = sum([(n - 1) * s for n, s in zip(shape, strides, strict=True)]) // size + 1
    span = (span | 1) * size
    memory = np.zeros(len(x) * span // size, x.dtype)
    copied = as_strided(memory, (len(x), *shape), (span, *strides))
    copied[...] = x
    return copied


@functools.lru_cache(maxsize=512)
def find_orders(dtype: str, sizes: Shape, strides: Shape) -> Orders | None:
    """Return how NumPy adds up each element of a product, None where that is not found.

    Args:
        dtype: of operands and result, ``f4`` or ``f8``.
        sizes: core sizes as a loop of ``np.matmul`` gets them, or of ``np.vecdot``.
        strides: the same of the core dimensions, of vecdot for its operands alone; positive where a length is not 1.
    """
    case = _Case(dtype, sizes, strides)
    m, _, n = case.lengths
    kinds, numbers = list[Sum](), np.full((m, n), -1)
    with np.errstate(all="ignore"):
        counts = _counts(case)
        while (numbers < 0).any():
            at = tuple(np.argwhere(numbers < 0)[0])
            order = next((s for s in _candidates(case, counts, at) if _agrees(case, s)[at]), None)
            if order is None:
                return None
            numbers[(numbers < 0) & _agrees(case, order)] = len(kinds)
            kinds.append(order)
    return Orders(tuple(kinds), tuple(numbers.ravel().tolist()))


def _candidates(case: _Case, counts: Counts, at: Any) -> Iterator[Sum]:
    """Yield orders of an element."""
    shape = _grown(list(range(case.lengths[1])), {pair: int(c[at]) for pair, c in counts.items()})
    if shape is None:
        return
    for wide in WIDE if case.dtype == "f4" else WIDE[:1]:
        tree = _with_fusions(case, shape, wide, at)
        if tree is not None:
            yield from [Sum(tree, zero, wide) for zero in ZEROS if not (wide and zero == "start")]


def _numbers(case: _Case, count: int) -> tuple[Batch, Batch]:
    m, k, n = case.lengths
    return _irrational((count, m, k), case.dtype, 1.7), _irrational((count, k, n), case.dtype, 2.3)


def _irrational(shape: Shape, dtype: str, step: float) -> Any:
    """Return numbers of both signs with many digits."""
    return np.sin(step * np.arange(1.0, math.prod(shape) + 1.0)).reshape(shape).astype(dtype)


def _agrees(case: _Case, order: Sum) -> Any:
    """Tell of each element whether an order gives NumPy's bits, also of zeros of both signs and of what underflows."""
    x, y = _numbers(case, 2 * SAMPLES)
    x[-4], x[-3, :, 1:], x[-2, :, ::2] = -0.0, -0.0, 0.0
    y[-4:-2] = abs(y[-4:-2])
    x[-3, :, 0], y[-3, 0, :] = -np.finfo(case.dtype).tiny, np.finfo(case.dtype).tiny
    results, made = _evaluate(order, x, y), case.multiply(x, y)
    return ((results == made) & (np.signbit(results) == np.signbit(made))).all(0)


# -- the tree --
def _counts(case: _Case) -> Counts:
    """Return of each pair of terms, for each element, how many terms are added up where the two meet; -1 where none is told."""
    m, k, n = case.lengths
    pairs = [(i, j) for i in range(k) for j in range(i + 1, k)]
    x, y = np.ones((len(pairs), m, k), case.dtype), np.ones((len(pairs), k, n), case.dtype)
    for row, (i, j) in enumerate(pairs):
        x[row, :, i], x[row, :, j] = LARGE[case.dtype], -LARGE[case.dtype]
    left = case.multiply(x, y) if pairs else x
    return dict(zip(pairs, np.where(left == np.rint(left), k - left, -1), strict=True))


def _grown(terms: Sequence[int], counts: dict[tuple[int, int], int]) -> SumTree | None:
    """Return the tree over terms, whose additions are not fused yet; each pair has the number of terms where the two meet."""
    first, *rest = terms
    tree: SumTree = first
    size = 1
    for count in sorted({counts[first, j] for j in rest}):
        group = [j for j in rest if counts[first, j] == count]
        size += len(group)
        other = _grown(group, counts)
        if size != count or other is None:
            return None
        tree = ("plain", tree, other)
    return tree


# -- fused additions --
def _with_fusions(case: _Case, tree: SumTree, wide: Wide, at: Any) -> SumTree | None:
    """Return a tree with the fusions of each node, found from the leaves up: all other terms are 0."""
    if isinstance(tree, int):
        return tree
    _, first, second = tree
    left, right = [_with_fusions(case, part, wide, at) for part in (first, second)]
    if left is None or right is None:
        return None
    x, y = _numbers(case, SAMPLES)
    absent = [k for k in range(case.lengths[1]) if k not in {*_leaves(tree)}]
    y[:, absent] = 0
    made = case.multiply(x, y)[:, *at] + 0.0
    for kind in KINDS:
        if isinstance({"plain": 0, "left": left, "right": right}[kind], tuple):
            continue  # only products of terms are fused
        if np.array_equal(_evaluate(Sum((kind, left, right), "end", wide), x, y)[:, *at], made):
            return kind, left, right
    return None


def _leaves(tree: SumTree) -> Iterator[int]:
    if isinstance(tree, int):
        yield tree
    else:
        yield from _leaves(tree[1])
        yield from _leaves(tree[2])


# -- arithmetic --
def _evaluate(order: Sum, x: Batch, y: Batch) -> Batch:
    shape = (*x.shape[:2], y.shape[2])

    def term(k: int) -> tuple[Batch, Batch]:
        return np.broadcast_to(x[:, :, k, None], shape), np.broadcast_to(y[:, k, None, :], shape)

    ops = Arithmetic(term, np.multiply, np.add, fused, _as("f8"), _as("f4"), np.zeros_like)
    return order.evaluate(ops)


def _as(dtype: str) -> Callable[[Batch], Batch]:
    return lambda x: x.astype(dtype)


def fused(x: Batch, y: Batch, z: Batch) -> Batch:
    """Return x y + z, rounded once but for ties that no random number makes."""
    if x.dtype == np.float32:
        return (x.astype("f8") * y.astype("f8") + z).astype("f4")
    product = x * y
    (x_high, x_low), (y_high, y_low) = _halves(x), _halves(y)
    rest = ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low
    total = product + z
    there = total - product
    exact = total + (((product - (total - there)) + (z - there)) + rest)
    alone = z == 0
    exact[alone] = product[alone]
    none = alone & ((x == 0) | (y == 0))
    exact[none] = total[none]
    return exact


def _halves(x: Batch) -> tuple[Batch, Batch]:
    shifted = x * SPLITTER
    high = shifted - (shifted - x)
    return high, x - high


CHAIN_ELEMENTS = 500  # at least, of one matrix or several, that are compared
CHAIN_BLOCKS = (192, 240, 256, 320, 352, 384, 448, 512, 640, 768, 1024)  # terms that OpenBLAS takes at once
CHAIN_UNROLLED = 16  # of which it takes a multiple
CHAIN_WHOLE = 1 << 20  # products up to which it may take all at once
CHAIN_EDGE = 8  # rows and columns at both ends and in the middle of a matrix, whose elements are looked at


@functools.lru_cache(maxsize=512)
def find_chains(dtype: str, m: int, k: int, n: int, turned: str = "") -> Shape:
    """Return where chains of fused multiplications and additions end as which ``np.matmul`` adds up elements of a product.

    One chain after the other is added up. Elements at the ends of rows and columns, and in their middle, are compared,
    with random numbers; no ends where they are others.

    Args:
        dtype: of operands and result.
        m: rows.
        k: terms.
        n: columns.
        turned: which operand, "left" or "right", lies column by column.
    """
    rows = _edges(m, CHAIN_EDGE)
    columns = _edges(n, CHAIN_EDGE)
    count = -(-CHAIN_ELEMENTS // (len(rows) * len(columns)))  # of few elements alone many orders give the same bits
    xs, ys = _irrational((count, m, k), dtype, 1.7), _irrational((count, k, n), dtype, 2.3)
    with blas:
        made = [
            np.matmul(np.asfortranarray(x) if turned == "left" else x, np.asfortranarray(y) if turned == "right" else y)
            for x, y in zip(xs, ys, strict=True)
        ]
    found = np.stack(made)[:, rows[:, None], columns]
    orders = [(k,)] if k < min(CHAIN_BLOCKS) else [(k,), _block_ends(k, _chain_block(dtype))]
    for ends in orders if m * k * n <= CHAIN_WHOLE else orders[::-1]:
        if (_add_chains(xs[:, rows], ys[:, :, columns], ends) == found).all():
            return ends
    return ()


@functools.cache
def _chain_block(dtype: str) -> int:
    """Return how many terms of a large product OpenBLAS adds up at once; 0 where that is not found."""
    xs, ys = _irrational((1, 256, 2501), dtype, 1.7), _irrational((1, 2501, 64), dtype, 2.3)
    with blas:
        found = np.matmul(xs[0], ys[0])[:16, :16]
    fits = [q for q in CHAIN_BLOCKS if (_add_chains(xs[:, :16], ys[:, :, :16], _block_ends(2501, q))[0] == found).all()]
    return fits[0] if fits else 0


def _block_ends(k: int, block: int) -> Shape:
    """Return where OpenBLAS cuts so many terms: two blocks at the end are of similar length."""
    ends = [0]
    while block and (left := k - ends[-1]):
        half = -(-(left // 2) // CHAIN_UNROLLED) * CHAIN_UNROLLED
        ends.append(ends[-1] + (block if left >= 2 * block else half if left > block else left))
    return tuple(ends[1:]) or (k,)


def _add_chains(x: Batch, y: Batch, ends: Shape) -> Batch:
    """Return products of matrices, added up chain by chain: all chains at once, zeros behind the shorter ones."""
    pairs = list(itertools.pairwise((0, *ends)))
    longest = max(end - start for start, end in pairs)
    xs = np.zeros((len(pairs), *x.shape[:2], longest), x.dtype)
    ys = np.zeros((len(pairs), len(y), longest, y.shape[2]), y.dtype)
    for k, (start, end) in enumerate(pairs):
        xs[k, ..., : end - start], ys[k, :, : end - start] = x[..., start:end], y[:, start:end]
    chains = np.zeros((len(pairs), len(x), x.shape[1], y.shape[2]), x.dtype)
    with np.errstate(all="ignore"):
        for i in range(longest):
            chains = fused(xs[..., i, None], ys[:, :, None, i], chains)
        return functools.reduce(np.add, chains)


def _edges(length: int, count: int) -> Any:
    """Return the first and last places of a length, and those in its middle, where threads may meet."""
    starts = (0, max(0, length // 2 - count // 2), max(0, length - count))
    return np.unique([k for start in starts for k in range(start, min(start + count, length))])


@functools.cache
def products_digest() -> str:
    """Return a text that tells apart processes whose BLAS adds up products in different orders."""
    digest = hashlib.sha256()
    for dtype in ("f4", "f8"):
        for k in (2, 3, 4, 5, 7, 8, 13, 16):
            x, y = _irrational((2, k, k), dtype, 1.3)
            for z in (x @ y, x.T @ y, x @ y.T, x @ y[0], x[0] @ y, x[:2] @ y, x[0] @ y[0], x[:, 0] @ y[:, 0]):
                digest.update(z.tobytes())
        numbers = _irrational((997,), dtype, 1.7)
        for m, k in ((512, 144), (200, 2501)):  # beyond what OpenBLAS takes for small, and its blocks of terms
            digest.update((np.resize(numbers, (m, k)) @ np.resize(numbers, (k, 16))).tobytes())
    return digest.hexdigest()


# --- Products: calls of NumPy's loops, in the plan's pieces where it has some, or tiles in the second tier

SINGLE_BYTES = 4  # of a float32, of which thresholds are
MATRICES = ("mk", "kn", "mn")  # core axes of products
LENGTHS_OF_STRIDES = (0, 1, 1, 2, 0, 2)  # of rows, terms and columns, which ones the core strides walk along


def _dot(b: BlockBuilder, call: Call) -> None:
    x, y = [b.location(v) for v in call.operands]
    if call.method == "flat_dot":
        x = x if len(merged(x.shape, [x.strides])[0]) < 2 else b.copied(x)  # as NumPy copies what no look makes flat
        x = look(x, lambda v: v.reshape(-1))
    x, y = [p if _fits_blas(p) else b.copied(p) for p in (x, y)]
    if len(x.shape) == len(y.shape) == 1:
        _vecdot_of(b, call, x, y)
    else:
        _product(b, call, x, y)


def _fits_blas(x: Location) -> bool:
    """Tell whether ``ndarray.dot`` reads an array as it lies: rows of neighbours, or a dense transpose; it copies others."""
    size = int(x.dtype[1:])
    is_turned = x.strides == dense(x.shape[::-1], size)[::-1]
    return min(x.strides) > 0 and (len(x.shape) == 1 or x.strides[-1] == size or is_turned)


def _vecdot(b: BlockBuilder, call: Call) -> None:
    _vecdot_of(b, call, *[b.location(v) for v in call.operands])


def _vecdot_of(b: BlockBuilder, call: Call, x: Location, y: Location) -> None:
    out = b.own_buffer(call.outputs[0])
    product = generalized_call("vecdot", ("k", "k", ""), (x, y, out), quiet_of(call))
    if product.outer:
        raise UnsupportedError("sums of rows that do not follow each other evenly")
    b.fixed([_with_orders(b, product)], [x, y], [out])


LARGEST_RADIX = 61  # of the steps of a standalone Fourier transform: lengths with larger prime factors are folded


def _transform_numbers(n: int, m: int) -> int:
    """Return how many float64 a standalone Fourier transform works with: points twice and roots, or those of a convolution."""
    points, left = max(n, m), max(n, m)
    for factor in range(2, LARGEST_RADIX + 1):
        while left % factor == 0:
            left //= factor
    return 6 * points if left == 1 else 6 * points + 8 * 2 ** (2 * points - 2).bit_length()


def _square_numbers(n: int, *_: int) -> int:
    return n * n


def _two_square_numbers(n: int, *_: int) -> int:
    return 2 * n * n


def _row_numbers(m: int, *_: int) -> int:
    return m


def _column_numbers(_: int, n: int, *__: int) -> int:
    return n


def _sides_numbers(m: int, n: int, _: int) -> int:
    """Return how many float64 singular values are computed with: sums, the matrix, rotations and factors of reflections."""
    long, short = max(m, n), min(m, n)
    return long + long * short + short * short + short


WORK_NUMBERS: dict[str, Callable[..., int]] = {  # that standalone loops work with, of the lengths of core axes
    "linalg.det": _square_numbers,
    "linalg.eigh_lo": _two_square_numbers,
    "linalg.eigh_up": _two_square_numbers,
    "linalg.eigvalsh_lo": _two_square_numbers,
    "fft.fft": _transform_numbers,
    "fft.ifft": _transform_numbers,
    "linalg.inv": _square_numbers,
    "fft.irfft": _transform_numbers,
    "linalg.qr_complete": _row_numbers,
    "linalg.qr_r_raw": _column_numbers,
    "linalg.qr_reduced": _column_numbers,
    "fft.rfft_n_even": _transform_numbers,
    "fft.rfft_n_odd": _transform_numbers,
    "linalg.slogdet": _square_numbers,
    "linalg.solve": _square_numbers,
    "linalg.svd": _sides_numbers,
    "linalg.svd_f": _sides_numbers,
    "linalg.svd_s": _sides_numbers,
}


def work_numbers(name: str, sizes: Sequence[int]) -> int:
    """Return how many float64 a standalone loop works with, whose memory stands behind its operands."""
    count = WORK_NUMBERS.get(name)
    return 0 if count is None else count(*sizes)


def generalized_call(
    name: str, cores: Sequence[Sequence[str]], operands: Sequence[Location], quiet: tuple[str, ...],
    give_work: Callable[[int], Location] | None = None, **options: Any,
) -> UfuncCall:  # fmt: skip
    """Return the call of a generalized ufunc's loop on each set of core arrays of a batch.

    Args:
        name: of the ufunc.
        cores: the last axes of each operand, by names: those of one length have one.
        operands: what it reads, broadcast to the batch, and what it writes; the last one has the whole batch.
        quiet: floating-point warnings that it ignores.
        give_work: gives memory of so many float64 for a standalone loop to work in.
        **options: other fields of `UfuncCall`.
    """
    batch = operands[-1].shape[: len(operands[-1].shape) - len(cores[-1])]
    lead, inner, sizes = list[Location](), list[int](), dict[str, int]()
    for x, core in zip(operands, cores, strict=True):
        rank = len(x.shape) - len(core)
        lead.append(attrs.evolve(x, shape=x.shape[:rank], strides=x.strides[:rank]))
        inner += [0 if n == 1 else s for n, s in zip(x.shape[rank:], x.strides[rank:], strict=True)]  # as NumPy does
        sizes |= dict(zip(core, x.shape[rank:], strict=True))
    space, strides = merged(batch, [broadcast(x, batch) for x in lead])
    if not space:
        space, strides = (1,), [(0,) for _ in operands]
    places = {axis: k for k, axis in enumerate(sizes)}
    refs = tuple([Ref(x.owner, x.dtype, x.offset, s) for x, s in zip(operands, strides, strict=True)])
    axes = tuple([tuple([places[axis] for axis in core]) for core in cores])
    loop = loop_of(name, tuple([x.dtype for x in operands]))
    numbers = work_numbers(name, [*sizes.values()]) if give_work else 0
    if give_work and numbers:
        work = give_work(numbers)
        refs = (*refs, Ref(work.owner, work.dtype, work.offset, (0,) * len(space)))
        options |= {"outputs": options.get("outputs", 1) + 1, "has_work": True}
    return UfuncCall(loop, space, refs, quiet, axes, tuple(sizes.values()), tuple(inner), **options)


def lower_matmul(b: BlockBuilder, call: Call) -> None:
    """Add a call of ``np.matmul``.

    Raises:
        UnsupportedError: another generalized ufunc.
    """
    if call.ufunc != MATMUL:
        raise UnsupportedError(f"{call.ufunc} has no native form")
    _product(b, call, *[b.location(x) for x in call.operands])


def _product(
    b: BlockBuilder, call: Call, x: Location, y: Location, *, axis: int = 0, stops: tuple[int, ...] = ()
) -> None:
    """Add a product of locations; the first tier refuses a large one in one piece, which NumPy then hands to BLAS."""
    out = b.own_buffer(call.outputs[0])
    multiplications = math.prod((*x.shape[-2:], y.shape[-1]))  # of one pair of matrices
    is_large = len(x.shape) > 1 < len(y.shape) and multiplications > b.limits.product_max_products
    if is_large and not stops and b.tier == 1:
        raise UnsupportedError("a large product, which BLAS's threads compute")
    multiply_into(b, x, y, out, quiet_of(call), axis=axis, stops=stops)


def multiply_into(
    b: BlockBuilder,
    x: Location,
    y: Location,
    out: Location,
    quiet: tuple[str, ...],
    *,
    axis: int = 0,
    stops: tuple[int, ...] = (),
) -> None:
    """Call the loop of ``np.matmul``, for each piece if there are some; a vector is a matrix of one row or column.

    Raises:
        UnsupportedError: it takes too long, or the loop cannot walk through the batch axes.
    """
    matrices = _as_matrices(x, y, out)
    product = generalized_call(MATMUL, MATRICES, matrices, quiet)
    if len(product.outer) > 1:
        raise UnsupportedError("products whose batch axes do not follow each other evenly")
    _count_products(b, math.prod((*product.space, *product.lengths)))
    if product.outer:
        _multiply_batch(b, product, x, y, out)
        return
    ends = stops or _cut(product.sizes, int(out.dtype[1:]), b.limits)
    product = _with_orders(b, attrs.evolve(product, axis=axis, stops=ends, is_cut=bool(ends)))
    if b.tier == 1 or product.orders is not None or not _lower_tiled(b, product, *matrices):
        b.fixed([product], [x, y], [out])


def _as_matrices(x: Location, y: Location, out: Location) -> tuple[Location, Location, Location]:
    """Return operands and result of a product as matrices: a vector on the left is a row, one on the right a column."""
    missing = tuple([axis for axis, v in ((-2, x), (-1, y)) if len(v.shape) == 1])
    return (
        look(x, lambda v: v if v.ndim > 1 else v[None]),
        look(y, lambda v: v if v.ndim > 1 else v[:, None]),
        look(out, lambda v: np.expand_dims(v, missing)),
    )


def _multiply_batch(b: BlockBuilder, product: UfuncCall, x: Location, y: Location, out: Location) -> None:
    """Add a loop over the outer batch axis, or tiles."""
    of_one = [attrs.evolve(ref, strides=ref.strides[1:]) for ref in product.operands]
    one = _with_orders(b, attrs.evolve(product, space=product.space[1:], operands=tuple(of_one)))
    if one.orders is None and b.limits.is_standalone and _lower_tiled(b, product, *_as_matrices(x, y, out)):
        return
    on_params = tuple([attrs.evolve(ref, root=k) for k, ref in enumerate(of_one)])
    body = Block(3, (Root(0), Root(1), Root(2)), (attrs.evolve(one, operands=on_params),), 0)
    args = [Arg((ref.root,), ref.strides[0]) for ref in product.operands]
    b.fixed([BlockLoop((Body(body, tuple(args)),), product.outer[0], math.prod(out.shape))], [x, y], [out])


def _count_products(b: BlockBuilder, count: int) -> None:
    b.multiplications += count
    if b.multiplications > b.limits.product_block_max_products:
        raise UnsupportedError("a large product, in which no signal is seen")


def _with_orders(b: BlockBuilder, product: UfuncCall) -> UfuncCall:
    """Return a small product with the orders in which its elements are added up, without a call where they are known.

    Two operands of one array are left to NumPy, which multiplies a matrix by its own transpose in another way.
    """
    core = product.lengths
    dtypes, dims = {ref.dtype for ref in product.operands}, (core if len(core) == 3 else (1, core[0], 1))
    is_small = math.prod(dims) <= b.limits.product_inline_max_products and dims[1] <= b.limits.product_inline_max_terms
    if product.is_cut or product.stops or not is_small or dtypes not in ({"f4"}, {"f8"}):
        return product
    orders: Orders | None
    if b.tier > 1:
        orders = Orders((chain(dims[1]),), (0,) * (dims[0] * dims[2]))
        return attrs.evolve(product, loop=None, orders=orders)
    x, y, _ = product.operands
    lengths = LENGTHS_OF_STRIDES if len(core) == 3 else (1, 1)
    is_walked = all(s > 0 or dims[k] == 1 for s, k in zip(product.core_strides, lengths, strict=True))
    if b.target.cpu or not is_walked or (x.root == y.root and len(core) == 3):
        return product
    orders = find_orders(x.dtype, core, product.core_strides)
    return attrs.evolve(product, orders=orders)


def _cut(sizes: Shape, size: int, limits: NativeTarget) -> tuple[int, ...]:
    """Return where many small products of elements of so many bytes are cut for threads."""
    many, m, k, n = sizes
    is_large = m * k * n > limits.product_many_max_products
    if is_large or math.prod(sizes) * size < limits.product_share_min_products * SINGLE_BYTES or many == 1:
        return ()
    return tuple(sorted({-(-many * part // PARTS) for part in range(1, PARTS + 1)}))


def _pieces(b: BlockBuilder, call: Call) -> None:
    """Add a product that NumPy's plan cuts into pieces."""
    params = dict(call.params)
    axis = 1 if params["axis"] == 0 else 3
    _product(b, call, *[b.location(x) for x in call.operands], axis=axis, stops=params["stops"])


# -- tiles --
def _lower_tiled(b: BlockBuilder, product: UfuncCall, x: Location, y: Location, out: Location) -> bool:
    """Add a product of floats as tiles, or as sums of rows; tell whether that suits it.

    Args:
        b: the block.
        product: the same as a call of NumPy's loop.
        x: where the left matrices lie.
        y: where the right ones lie.
        out: where the results lie.
    """
    size, quiet, (batch, m, k, n) = int(out.dtype[1:]), product.quiet, product.sizes
    is_float = out.dtype in ("f4", "f8") and x.dtype == y.dtype == out.dtype
    is_large, stands_alone = math.prod(product.sizes) > b.limits.product_tile_max_products, b.limits.is_standalone
    if not is_float or (is_large and not stands_alone):
        return False
    if batch == 1:  # which copies and panels do without
        x, y, out = [look(v, lambda v: v.reshape(v.shape[-2:])) for v in (x, y, out)]
    a_row, a_k, _, b_column, c_row, c_column = product.core_strides
    are_sums = (a_k == size or k == 1) if m > 1 else not stands_alone  # a tile of one number would be one long chain
    if n == 1 and are_sums and not (is_large or product.outer):
        _sum_rows(b, product, [x, y], out)
    elif n == 1 and m > 1 and a_row == c_row == size:
        _add_tiles(b, _turned(y), _turned(x), _turned(out), quiet)
    elif n == 1 or b_column == c_column == size:
        _add_tiles(b, x, y, out, quiet)
    elif product.outer or batch > 1 or c_column != size or not _pays_to_copy(m, k, n, b.limits):
        if not stands_alone:
            return False
        _add_dense_tiles(b, x, y if b_column == size else b.copied(y), out, c_column == size, quiet)
    elif a_row != size and k * n <= m * k + m * n:
        _add_tiles(b, x, y, out, quiet)
    else:  # the transpose, which reads rows of the left operand next to each other
        left = _turned(x) if a_row == size else b.copied(_turned(x))
        _add_dense_tiles(b, _turned(y), left, _turned(out), False, quiet)
    return True


def _add_dense_tiles(
    b: BlockBuilder, x: Location, y: Location, out: Location, is_dense: bool, quiet: tuple[str, ...]
) -> None:
    """Add a product as tiles whose columns lie next to each other, copied to where they do not."""
    result = out if is_dense else b.temporary(out.shape, out.dtype)
    _add_tiles(b, x, y, result, quiet)
    if result is not out:
        b.fixed([copy_nest(out, result)], [result], [out])


def _pays_to_copy(m: int, k: int, n: int, limits: NativeTarget) -> bool:
    """Tell whether a product has enough multiplications for each element of the operand that is copied."""
    return m * k * n >= limits.product_copy_min_products * min(k * n, m * k + m * n)


def sum_products(
    b: BlockBuilder, x: Location, y: Location, out: Location, quiet: tuple[str, ...], added: int, ends: Shape
) -> None:
    """Add sums of products of floats over several axes, as tiles.

    Args:
        b: the block.
        x: [batch, *rows, *terms].
        y: [*terms, columns], or [batch, *terms, columns] with columns next to each other.
        out: [batch, *rows, columns], with columns next to each other.
        quiet: floating-point warnings that it ignores.
        added: along how many axes of terms, from the first one on, sums of the others are added up.
        ends: where chains of these others end that are added up.

    Raises:
        UnsupportedError: columns lie apart, or it takes too long.
    """
    size = int(out.dtype[1:])
    products = math.prod(x.shape) * out.shape[-1]
    vectors = -(-out.shape[-1] * size // b.limits.vector_bytes)
    if out.strides[-1] != size:
        raise UnsupportedError("sums of products whose columns lie apart")
    _count_products(b, products)
    ranks, panel, y_batch = (len(out.shape) - 2, len(x.shape) - len(out.shape) + 1), Shape(), 0
    own = x.strides[1 : 1 + ranks[0]], x.strides[1 + ranks[0] :]
    rows, (x_rows, z_rows) = _fewest(out.shape[1:-1], own[0], out.strides[1:-1])
    if len(y.shape) - 1 == ranks[1]:
        y, panel = _in_panels(b, y, math.prod(out.shape[:-1]), rows[-1])
    else:
        y_batch, y = y.strides[0], attrs.evolve(y, shape=y.shape[1:], strides=y.strides[1:])
    first, *starts = _fewest(y.shape[:added], own[1][:added], y.strides[:added]) if added else ((), [(), ()])
    rest, others = _fewest(y.shape[added:-1], own[1][added:], y.strides[added:-1])
    (x_first, y_first), (x_rest, y_rest) = starts[0], others
    r, t = len(rows), len(first) + len(rest)
    cores = tuple(range(r + t)), tuple(range(r, r + t + 1)), (*range(r), r + t)
    strides = (*x_rows, *x_first, *x_rest, *y_first, *y_rest, size, *z_rows, size)
    refs = tuple(
        [Ref(v.owner, v.dtype, v.offset, (by,)) for v, by in ((x, x.strides[0]), (y, y_batch), (out, out.strides[0]))]
    )
    lengths = (*rows, *first, *rest, out.shape[-1])
    step = UfuncCall(
        None, out.shape[:1], refs, quiet, cores, lengths, strides, added=len(first), ends=ends, panel=panel
    )
    multiplied = math.prod(x.shape) * vectors * (b.limits.vector_bytes // size)
    is_large = multiplied >= b.limits.product_tile_share_min_products
    b.fixed([cut_tiles(step, b.limits) if is_large else step], [x, y], [out])


def _in_panels(b: BlockBuilder, y: Location, rows: int, m: int) -> tuple[Location, Shape]:
    """Return an operand whose columns are neighbours, those of a tile in a panel where that is copied, and `UfuncCall.panel`.

    Args:
        b: the block.
        y: [*terms, columns].
        rows: how many of the other operand read it.
        m: how many of these follow each other.
    """
    size, n = int(y.dtype[1:]), y.shape[-1]
    width = find_tile(m, n, size, b.limits)[1] * (b.limits.vector_bytes // size)
    are_neighbours = y.strides[-1] == size or n == 1
    is_far = not are_neighbours or y.strides[-2] >= b.limits.product_panel_min_stride
    if n % width or n == width or not is_far or rows < b.limits.product_panel_min_rows:
        return (y if are_neighbours else b.copied(y)), ()
    panels = b.temporary((n // width, *y.shape[:-1], width), y.dtype)
    source = look(y, lambda v: np.moveaxis(v.reshape(*v.shape[:-1], n // width, width), -2, 0))
    b.fixed([copy_nest(panels, source)], [y], [panels])
    return attrs.evolve(panels, shape=panels.shape[1:], strides=panels.strides[1:]), (width, panels.strides[0])


def _fewest(space: Shape, x: Shape, y: Shape) -> tuple[Shape, list[Shape]]:
    """Return a space and two strides over it with as few axes as they allow, one or more."""
    space, strides = merged(space, [x, y])
    return (space, strides) if space else ((1,), [(0,), (0,)])


def _turned(x: Location) -> Location:
    return look(x, lambda v: v.swapaxes(-1, -2))


def _add_tiles(b: BlockBuilder, x: Location, y: Location, out: Location, quiet: tuple[str, ...]) -> None:
    panel: Shape = ()
    if len(out.shape) == 2:
        y, panel = _in_panels(b, y, out.shape[0], out.shape[0])
    tiled = attrs.evolve(generalized_call(MATMUL, MATRICES, (x, y, out), quiet), loop=None, panel=panel)
    is_large = math.prod((*tiled.space, *tiled.lengths)) >= b.limits.product_tile_share_min_products
    b.fixed([cut_tiles(tiled, b.limits) if is_large else tiled], [x, y], [out])


def _sum_rows(b: BlockBuilder, product: UfuncCall, reads: list[Location], out: Location) -> None:
    """Add the product of a matrix and a vector: a sum of each row's products."""
    batch, m, k, _ = product.sizes
    a_row, a_k, b_k, _, c_row, _ = product.core_strides
    x, y, z = [
        attrs.evolve(ref, strides=(*ref.strides, *inner))
        for ref, inner in zip(product.operands, ((a_row, a_k), (0, b_k), (c_row, 0)), strict=True)
    ]
    values = (Load(x), Load(y), Op(MULTIPLY, out.dtype, (0, 1)))
    b.fixed([Nest((batch, m, k), values, (), product.quiet, ((2, ADD, z),))], reads, [out])


PRODUCTS: dict[str, Callable[[BlockBuilder, Call], None]] = {
    "dot": _dot,
    "flat_dot": _dot,
    "pieces": _pieces,
    "vecdot": _vecdot,
}
