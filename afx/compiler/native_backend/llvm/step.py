"""Steps as LLVM IR: a function for each, whose parameters are the memory that it reads and writes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection
from functools import partial

from afx.compiler.native_backend.llvm.extreme import emit_extreme, emit_ordered_extreme
from afx.compiler.native_backend.llvm.flags import Flags
from afx.compiler.native_backend.llvm.index import emit_indexed
from afx.compiler.native_backend.llvm.nest import NestEmitter
from afx.compiler.native_backend.llvm.nested import call_loop, element_at, over, start_of
from afx.compiler.native_backend.llvm.op import emit, read, written
from afx.compiler.native_backend.llvm.pairwise import PAIRWISE_MIN_ELEMENTS, emit_sum
from afx.compiler.native_backend.llvm.row_reduction import combine_rows, is_row_reduction
from afx.compiler.native_backend.llvm.search import emit_search
from afx.compiler.native_backend.llvm.small_product import emit_small_product
from afx.compiler.native_backend.llvm.tile import emit_tiles
from afx.compiler.native_backend.llvm.words import emit_words
from afx.compiler.native_backend.llvm.writer import Writer
from afx.compiler.native_backend.program import (
    Inner,
    Leaf,
    Nest,
    Product,
    Routine,
    UfuncLoop,
)

__all__ = ["emit_step"]

ROUTINES: dict[str, Callable[[Writer, Routine], None]] = {
    "gather": emit_indexed,
    "set": emit_indexed,
    "add": emit_indexed,
    "argmax": emit_extreme,
    "argmin": emit_extreme,
    "maximum": emit_ordered_extreme,
    "minimum": emit_ordered_extreme,
    "philox": emit_words,
    "search.left": emit_search,
    "search.right": emit_search,
}


def emit_step(w: Writer, step: Leaf, flags: Flags, attributes: str = "", shared: Collection[int] = frozenset()) -> str:
    """Add the function of a step, whose parameters are its roots, of which some may be shared; return its name."""
    name = f"@{type(step).__name__.lower()}{w.fresh()}"
    roots = ", ".join([f"ptr {'' if k in shared else 'noalias '}%r{k}" for k in step.touched])

    def body() -> None:
        if isinstance(step, Nest):
            NestEmitter(w, step, flags).emit()
        elif isinstance(step, Inner):
            if is_row_reduction(step):
                combine_rows(w, step)
            else:
                flags.keep(step.loop, partial(_inner, w, step))
        elif isinstance(step, Routine):
            ROUTINES[step.name](w, step)
        elif isinstance(step, Product):
            _product(w, step, flags)
        w.hand_over_faults()
        w.line("ret void")

    bounds = ", i64 %low, i64 %high" if step.is_cut else ""
    w.function(f"internal void {name}({roots}, ptr noalias %fault{bounds}) {attributes}", body)
    return name


def _product(w: Writer, step: Product, flags: Flags) -> None:
    if step.orders is not None:
        emit_small_product(w, step)
    elif step.loop is None:
        emit_tiles(w, step)
    elif step.is_sort:
        _sort(w, step, step.loop, flags)
    else:
        _call_pieces(w, step, step.loop)


def _sort(w: Writer, step: Product, loop: UfuncLoop, flags: Flags) -> None:
    """Add a loop over rows, each sorted by NumPy's function; flags of comparisons are dropped, short memory is a fault."""
    symbol, (rows, length) = f'@"{loop.symbol}"', step.sizes
    w.declare(symbol, f"declare i32 {symbol}({', '.join(['ptr'] * len(step.operands))}, i64, ptr)")

    def row(number: str) -> None:
        pointers = [element_at(w, start_of(w, ref), number, length * ref.size) for ref in step.operands]
        for out in pointers[1:]:
            w.loop("0", str(length), 1, partial(_store_index, w, out))
        call = f"call i32 {symbol}({', '.join([f'ptr {p}' for p in pointers])}, i64 {length}, ptr null)"
        w.fault(w.let(f"icmp ne i32 {flags.keep_around(lambda: w.let(call))}, 0"))

    w.loop("0", str(rows), 1, row)


def _store_index(w: Writer, out: str, i: str) -> None:
    w.line(f"store i64 {i}, ptr {w.element('i64', out, i)}")


def _call_pieces(w: Writer, step: Product, loop: UfuncLoop) -> None:
    """Call a generalized ufunc's loop, or its pieces from one to another."""
    steps = [ref.strides[-1] if ref.strides else 0 for ref in step.operands] + [*step.core_strides]
    if not step.is_cut:
        call = partial(call_loop, w, loop, sizes=list(map(str, step.sizes)), steps=steps)
        over(w, step.outer, step.operands, call, nanoseconds=step.nanoseconds / math.prod(step.outer))
        return
    pointers = [start_of(w, ref) for ref in step.operands]
    by = steps[: len(pointers)]  # bytes, of each operand
    if step.axis:
        by = [steps[3], 0, steps[7]] if step.axis == 1 else [0, steps[6], steps[8]]
    for number, (start, stop) in enumerate(itertools.pairwise((0, *step.stops))):
        sizes = [str(stop - start if k == step.axis else n) for k, n in enumerate(step.sizes)]
        at = [w.shifted(p, start * stride) for p, stride in zip(pointers, by, strict=True)]
        is_asked = w.let(f"and i1 {w.let(f'icmp sle i64 %low, {number}')}, {w.let(f'icmp sgt i64 %high, {number}')}")
        w.when(is_asked, partial(call_loop, w, loop, at, sizes, steps))


def _inner(w: Writer, step: Inner) -> None:
    if _is_sum(step):
        over(w, step.space[:-1], step.operands, lambda pointers: _sum(w, step, pointers))
        return
    length = str(step.space[-1]) if step.space else "1"
    strides = [ref.strides[-1] if ref.strides else 0 for ref in step.operands]
    over(w, step.space[:-1], step.operands, lambda pointers: call_loop(w, step.loop, pointers, [length], strides))


def _is_sum(step: Inner) -> bool:
    """Tell whether a loop adds up neighbouring floats."""
    (out, x, into), n = step.operands, step.space[-1] if step.space else 1
    is_dense = n >= PAIRWISE_MIN_ELEMENTS and x.strides[-1] == int(x.dtype[1:]) and out.strides[-1] == 0
    return is_dense and step.loop.ufunc == "add" and x.dtype in ("f4", "f8") and out == into


def _sum(w: Writer, step: Inner, pointers: list[str]) -> None:
    """Add the sum of a row to what its result holds."""
    out, x, _ = pointers
    dtype = step.operands[0].dtype
    before = read(w, dtype, out)
    total = emit_sum(w, dtype, x, step.space[-1])
    written(w, dtype, emit(w, "add", [before, total], [dtype, dtype], dtype), out)
