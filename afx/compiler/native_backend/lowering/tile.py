"""Tiled products: small matrices in the second tier, operands copied where their columns do not lie next to each other."""

from __future__ import annotations

import attrs

from afx.compiler.native_backend.lowering.convert import BlockBuilder
from afx.compiler.native_backend.lowering.memory import Location, copy_nest
from afx.compiler.native_backend.program import Load, Nest, Op, Product, Ref

__all__ = ["TILED_MAX_PRODUCTS", "lower_tiled"]

TILED_MAX_PRODUCTS = 1 << 26  # multiplications: beyond, two threads of BLAS are faster: measured
COPY_MIN_PRODUCTS = 24  # multiplications an element that is copied first: below, BLAS reads it as fast


def lower_tiled(b: BlockBuilder, product: Product, x: Location, y: Location, out: Location) -> bool:
    """Add a product of floats as tiles, or as sums of rows; tell whether that suits it.

    Args:
        b: the block.
        product: the same as a call of NumPy's loop, on memory of owners.
        x: where the left operand lies.
        y: where the right operand lies.
        out: where the result lies.
    """
    size = int(out.dtype[1:])
    if out.dtype not in ("f4", "f8") or not x.dtype == y.dtype == out.dtype:
        return False
    batch, m, k, n = product.sizes
    if batch * m * k * n > TILED_MAX_PRODUCTS:
        return False
    a_row, a_k, b_k, b_column, c_row, c_column = product.core_strides
    if n == 1 and m > 1 and (a_k == size or k == 1):
        _sum_rows(b, product, [x, y], out)
    elif n == 1 and m > 1 and a_row == size and c_row == size:
        _add(b, _turned(product), [x, y], out)
    elif (b_column == size or n == 1) and (c_column == size or n == 1):
        _add(b, product, [x, y], out)
    elif batch == 1 and c_column == size and m * k * n >= COPY_MIN_PRODUCTS * min(k * n, m * k + m * n):
        if a_row != size and k * n <= m * k + m * n:
            copy = _copied(b, y, product.operands[1], (k, n), (b_k, b_column))
            operands = (product.operands[0], _ref(copy), product.operands[2])
            _add(
                b,
                attrs.evolve(product, operands=operands, core_strides=(a_row, a_k, n * size, size, c_row, size)),
                [x, copy],
                out,
            )
        else:
            _add_turned(b, product, x, y, out)
    else:
        return False
    return True


def _add(b: BlockBuilder, product: Product, reads: list[Location], out: Location) -> None:
    b.fixed([attrs.evolve(product, loop=None)], reads, [out])


def _turned(product: Product) -> Product:
    """Return the transpose of a product: that of the transposes in the other order."""
    batch, m, k, n = product.sizes
    a_row, a_k, b_k, b_column, c_row, c_column = product.core_strides
    x, y, out = product.operands
    return attrs.evolve(
        product, sizes=(batch, n, k, m), operands=(y, x, out), core_strides=(b_column, b_k, a_k, a_row, c_column, c_row)
    )


def _add_turned(b: BlockBuilder, product: Product, x: Location, y: Location, out: Location) -> None:
    """Add the transpose of a product, which reads rows of the left operand next to each other, and copy it back."""
    _, m, k, n = product.sizes
    a_row, a_k, b_k, b_column, *_ = product.core_strides
    left, size = product.operands[0], int(out.dtype[1:])
    if a_row != size:
        x = _copied(b, x, left, (k, m), (a_k, a_row))
        left, a_k = _ref(x), m * size
    result = b.temporary((n, m), out.dtype)
    operands = (product.operands[1], left, _ref(result))
    strides = (b_column, b_k, a_k, size, m * size, size)
    turned = attrs.evolve(product, sizes=(1, n, k, m), operands=operands, core_strides=strides)
    _add(b, turned, [y, x], result)
    back = attrs.evolve(result, shape=(m, n), strides=(size, m * size))
    b.fixed([copy_nest(attrs.evolve(out, shape=(m, n), strides=(n * size, size)), back)], [result], [out])


def _copied(b: BlockBuilder, x: Location, ref: Ref, shape: tuple[int, int], strides: tuple[int, int]) -> Location:
    """Return a dense copy of a matrix."""
    copy = b.temporary(shape, x.dtype)
    b.fixed([copy_nest(copy, Location(x.owner, ref.offset, strides, shape, x.dtype))], [x], [copy])
    return copy


def _ref(x: Location) -> Ref:
    return Ref(x.owner, x.dtype, x.offset, ())


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
