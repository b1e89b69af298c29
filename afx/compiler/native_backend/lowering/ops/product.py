"""Products: calls of NumPy's loops, in the plan's pieces where it has some, or tiles in the second tier."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np

from afx.compiler.native_backend.llvm.tile import cut_tiles
from afx.compiler.native_backend.lowering.convert import BlockBuilder, UnsupportedError
from afx.compiler.native_backend.lowering.memory import Location, broadcast, copy_nest, dense, look
from afx.compiler.native_backend.lowering.ops.reduction import loop_of, quiet_of
from afx.compiler.native_backend.lowering.product_order import find_orders
from afx.compiler.native_backend.program import PARTS, Arg, Block, BlockLoop, Body, Load, Nest, Op, Product, Ref, Root
from afx.compiler.native_backend.steps import merged
from afx.compiler.native_backend.sums import Orders, chain
from afx.compiler.schedule import Call
from afx.compiler.target import NativeTarget
from afx.core.aval import Shape

__all__ = ["PRODUCTS", "generalized_call", "lower_matmul", "multiply_into"]

SINGLE_BYTES = 4  # of a float32, of which thresholds are
MATRICES = ("mk", "kn", "mn")  # core axes of products
LENGTHS_OF_STRIDES = (0, 1, 1, 2, 0, 2)  # of rows, terms and columns, which ones the core strides walk along


def _dot(b: BlockBuilder, call: Call) -> None:
    x, y = [b.location(v) for v in call.operands]
    if call.method == "flat_dot":
        b.ordered(call.operands[0])
        if x.strides != dense(x.shape, int(x.dtype[1:])):
            raise UnsupportedError("a sum of an array that is not dense")
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
    out = b.own(call.outputs[0].index, call.outputs[0].shape, b.dtype(call.outputs[0]))
    product = generalized_call("vecdot", ("k", "k", ""), (x, y, out), quiet_of(call))
    if product.outer:
        raise UnsupportedError("sums of rows that do not follow each other evenly")
    b.fixed([_with_orders(b, product)], [x, y], [out])


def generalized_call(
    name: str, cores: Sequence[Sequence[str]], operands: Sequence[Location], quiet: tuple[str, ...], **options: Any
) -> Product:
    """Return the call of a generalized ufunc's loop on each set of core arrays of a batch.

    Args:
        name: of the ufunc.
        cores: the last axes of each operand, by names: those of one length have one.
        operands: what it reads, broadcast to the batch, and what it writes; the last one has the whole batch.
        quiet: floating-point warnings that it ignores.
        **options: other fields of `Product`.
    """
    batch = operands[-1].shape[: len(operands[-1].shape) - len(cores[-1])]
    lead, inner, sizes = list[Location](), list[int](), dict[str, int]()
    for x, core in zip(operands, cores, strict=True):
        rank = len(x.shape) - len(core)
        lead.append(attrs.evolve(x, shape=x.shape[:rank], strides=x.strides[:rank]))
        inner += [0 if n == 1 else s for n, s in zip(x.shape[rank:], x.strides[rank:], strict=True)]  # as NumPy does
        sizes |= dict(zip(core, x.shape[rank:], strict=True))
    space, strides = merged(batch, [broadcast(x, batch) for x in lead])
    refs = tuple([Ref(x.owner, x.dtype, x.offset, s) for x, s in zip(operands, strides, strict=True)])
    lengths = (space[-1] if space else 1, *sizes.values())
    loop = loop_of(name, tuple([x.dtype for x in operands]))
    return Product(loop, lengths, refs, tuple(inner), quiet, outer=space[:-1], **options)


def lower_matmul(b: BlockBuilder, call: Call) -> None:
    """Add a call of ``np.matmul``.

    Raises:
        UnsupportedError: another generalized ufunc.
    """
    if call.ufunc != "matmul":
        raise UnsupportedError(call.ufunc)
    _product(b, call, *[b.location(x) for x in call.operands])


def _product(
    b: BlockBuilder, call: Call, x: Location, y: Location, *, axis: int = 0, stops: tuple[int, ...] = ()
) -> None:
    out = b.own(call.outputs[0].index, call.outputs[0].shape, b.dtype(call.outputs[0]))
    core = math.prod((*x.shape[-2:], y.shape[-1]))
    is_large = len(x.shape) > 1 < len(y.shape) and core > b.limits.product_max_products
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
    missing = [axis for axis, v in ((-2, x), (-1, y)) if len(v.shape) == 1]
    matrices = (
        look(x, lambda v: v if v.ndim > 1 else v[None]),
        look(y, lambda v: v if v.ndim > 1 else v[:, None]),
        look(out, lambda v: np.expand_dims(v, missing)),
    )
    product = generalized_call("matmul", MATRICES, matrices, quiet)
    if len(product.outer) > 1:
        raise UnsupportedError("products whose batch axes do not follow each other evenly")
    b.multiplications += math.prod((*product.outer, *product.sizes))
    if b.multiplications > b.limits.product_block_max_products:
        raise UnsupportedError("a large product, in which no signal is seen")
    if product.outer:
        inside = [attrs.evolve(ref, strides=ref.strides[1:]) for ref in product.operands]
        one = _with_orders(b, attrs.evolve(product, operands=tuple(inside), outer=()))
        on_params = tuple([attrs.evolve(ref, root=k) for k, ref in enumerate(inside)])
        body = Block(3, (Root(0), Root(1), Root(2)), (attrs.evolve(one, operands=on_params),), 0)
        args = [Arg((ref.root,), ref.strides[0]) for ref in product.operands]
        b.fixed([BlockLoop((Body(body, tuple(args)),), product.outer[0], math.prod(out.shape))], [x, y], [out])
        return
    ends = stops or _cut(product.sizes, int(out.dtype[1:]), b.limits)
    product = _with_orders(b, attrs.evolve(product, axis=axis, stops=ends, is_cut=bool(ends)))
    if b.tier == 1 or product.orders is not None or not _lower_tiled(b, product, *matrices):
        b.fixed([product], [x, y], [out])


def _with_orders(b: BlockBuilder, product: Product) -> Product:
    """Return a small product with the orders in which its elements are added up, without a call where they are known.

    Two operands of one array are left to NumPy, which multiplies a matrix by its own transpose in another way.
    """
    core = product.sizes[1:]
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
def _lower_tiled(b: BlockBuilder, product: Product, x: Location, y: Location, out: Location) -> bool:
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
    if not is_float or math.prod(product.sizes) > b.limits.product_tile_max_products:
        return False
    a_row, a_k, _, b_column, c_row, c_column = product.core_strides
    if n == 1 and m > 1 and (a_k == size or k == 1):
        _sum_rows(b, product, [x, y], out)
    elif n == 1 and m > 1 and a_row == c_row == size:
        _add_tiles(b, _turned(y), _turned(x), _turned(out), quiet)
    elif n == 1 or b_column == c_column == size:
        _add_tiles(b, x, y, out, quiet)
    elif batch > 1 or c_column != size or not _pays_to_copy(m, k, n, b.limits):
        return False
    elif a_row != size and k * n <= m * k + m * n:
        _add_tiles(b, x, b.copied(y), out, quiet)
    else:  # the transpose, which reads rows of the left operand next to each other, copied back
        left = _turned(x) if a_row == size else b.copied(_turned(x))
        result = b.temporary(_turned(out).shape, out.dtype)
        _add_tiles(b, _turned(y), left, result, quiet)
        b.fixed([copy_nest(out, _turned(result))], [result], [out])
    return True


def _pays_to_copy(m: int, k: int, n: int, limits: NativeTarget) -> bool:
    """Tell whether a product has enough multiplications for each element of the operand that is copied."""
    return m * k * n >= limits.product_copy_min_products * min(k * n, m * k + m * n)


def _turned(x: Location) -> Location:
    return look(x, lambda v: v.swapaxes(-1, -2))


def _add_tiles(b: BlockBuilder, x: Location, y: Location, out: Location, quiet: tuple[str, ...]) -> None:
    tiled = attrs.evolve(generalized_call("matmul", MATRICES, (x, y, out), quiet), loop=None)
    is_large = tiled.sizes[0] == 1 and math.prod(tiled.sizes) >= b.limits.product_tile_share_min_products
    b.fixed([cut_tiles(tiled, b.target.native) if is_large else tiled], [x, y], [out])


def _sum_rows(b: BlockBuilder, product: Product, reads: list[Location], out: Location) -> None:
    """Add the product of a matrix and a vector: a sum of each row's products."""
    batch, m, k, _ = product.sizes
    a_row, a_k, b_k, _, c_row, _ = product.core_strides
    outer = [ref.strides[0] if ref.strides else 0 for ref in product.operands]
    x, y, z = [
        attrs.evolve(ref, strides=(first, *inner))
        for ref, first, inner in zip(product.operands, outer, ((a_row, a_k), (0, b_k), (c_row, 0)), strict=True)
    ]
    values = (Load(x), Load(y), Op("multiply", out.dtype, (0, 1)))
    b.fixed([Nest((batch, m, k), values, (), product.quiet, ((2, "add", z),))], reads, [out])


PRODUCTS: dict[str, Callable[[BlockBuilder, Call], None]] = {
    "dot": _dot,
    "flat_dot": _dot,
    "pieces": _pieces,
    "vecdot": _vecdot,
}
