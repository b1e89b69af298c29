"""Groups of short rows as LLVM IR: as many rows at once as fill whole vectors, where a row alone fills none.

What is stored, and most of what is read, lies row behind row. Of an operand that is the same in every row, or in every
column, vectors take each element as often as they need it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from afx.compiler.native_backend.functions.table import emit_fast
from afx.compiler.native_backend.llvm.looks import Leave
from afx.compiler.native_backend.llvm.nested import move
from afx.compiler.native_backend.llvm.op import (
    element_type,
    emit,
    number,
    read,
    read_apart,
    read_one,
    shuffled,
    written,
)
from afx.compiler.native_backend.llvm.strip import SINGLE_LANES
from afx.compiler.native_backend.llvm.writer import Writer
from afx.compiler.native_backend.program import Fast, Load, Nest, Number, Op, Ref, UfuncLoop
from afx.compiler.target import NativeTarget

__all__ = ["RowGroups", "apply_op", "emit_groups", "group_rows", "is_near"]

APART_BYTES = (4, 8)  # of elements that are taken out of vectors: LLVM moves others one by one
REPEATED_BYTES = (1, 4, 8)  # of elements that vectors repeat


class RowGroups(NamedTuple):
    """How neighbouring rows are grouped.

    Attributes:
        lanes: elements of a vector.
        rows: of a group.
        vectors: of a group.
    """

    lanes: int
    rows: int
    vectors: int


def apply_op(w: Writer, op: Op, args: list[str], dtypes: list[str]) -> str:
    """Emit an operation that is no call of NumPy."""
    assert not isinstance(op.name, UfuncLoop)
    return (
        emit_fast(w, op.name, args, op.dtype) if isinstance(op.name, Fast) else emit(w, op.name, args, dtypes, op.dtype)
    )


def is_near(stride: int, ref: Ref, limits: NativeTarget) -> bool:
    """Tell whether elements are one, neighbours, or close enough to be taken out of vectors."""
    most = limits.apart_max_distance * ref.size if ref.size in APART_BYTES else 0
    return stride in (0, ref.size) or (stride % ref.size == 0 and abs(stride) <= most)


def group_rows(nest: Nest, limits: NativeTarget) -> list[RowGroups]:
    """Return groups of the rows of a nest, larger ones first; none where rows are better taken one by one."""
    if len(nest.space) < 2 or nest.folds or (nest.is_cut and len(nest.space) == 2) or not nest.operations:
        return []
    if any(isinstance(op.name, UfuncLoop) for op in nest.operations) or not _are_in_groups(nest, limits):
        return []
    sizes = [int(value.dtype[1:]) for value in nest.values]
    (count, length), lanes, found = nest.space[-2:], limits.vector_bytes // max(sizes), list[RowGroups]()
    least = max(SINGLE_LANES if 4 in sizes else 2, limits.vector_min_bytes // max(sizes))
    if length % lanes == 0 or length > 2 * lanes:
        return []
    while lanes >= least:
        common = math.gcd(lanes, length)
        groups = RowGroups(lanes, lanes // common, length // common)
        if 1 < groups.rows <= count and groups.vectors * len(nest.values) <= limits.group_max_values:
            found.append(groups)
            count %= groups.rows
        lanes //= 2
    return found


def _are_in_groups(nest: Nest, limits: NativeTarget) -> bool:
    """Tell whether results lie row behind row, and operands too, or are the same in every row or column."""
    stored = {ref.root for _, ref in nest.stores}
    repeated = [v.ref for v in nest.values if isinstance(v, Load) and not _is_dense(v.ref, nest)]
    return all(_is_dense(ref, nest) for _, ref in nest.stores) and all(
        ref.root not in stored
        and ref.size in REPEATED_BYTES
        and 0 in ref.strides[-2:]
        and all(is_near(stride, ref, limits) for stride in ref.strides[-2:])
        for ref in repeated
    )


def _is_dense(ref: Ref, nest: Nest) -> bool:
    return ref.strides[-2:] == (nest.space[-1] * ref.size, ref.size)


def emit_groups(
    w: Writer, nest: Nest, groups: RowGroups, turns: int, pointers: Sequence[str], leave: Leave | None
) -> None:
    """Add a loop over so many groups of rows; pointers are those of the operands' first elements."""
    loads = [k for k, v in enumerate(nest.values) if isinstance(v, Load)]
    refs = dict(zip(loads, nest.refs, strict=False))
    w.lanes = groups.lanes
    columns = range(groups.vectors)
    repeated = {
        k: [_vector(w, nest, groups, ref, pointer, c) for c in columns]
        for (k, ref), pointer in zip(refs.items(), pointers, strict=False)
        if not ref.strides[-2]
    }

    def group(i: str) -> None:
        at = move(w, pointers, nest.refs, -2, i, groups.rows)
        for c in columns:
            given = {k: vectors[c] for k, vectors in repeated.items()}
            given |= {
                k: _vector(w, nest, groups, ref, at[n], c)
                for n, (k, ref) in enumerate(refs.items())
                if k not in repeated
            }
            values = _values(w, nest, given)
            for (k, ref), pointer in zip(nest.stores, at[len(loads) :], strict=True):
                written(w, ref.dtype, values[k], w.shifted(pointer, c * groups.lanes * ref.size))

    w.loop("0", str(turns), 1, group, leave)
    w.lanes = 1


def _values(w: Writer, nest: Nest, given: dict[int, str]) -> list[str]:
    """Return what a nest computes of a vector of each operand."""
    found = list[str]()
    for k, value in enumerate(nest.values):
        if isinstance(value, Op):
            dtypes = [nest.values[j].dtype for j in value.args]
            found.append(apply_op(w, value, [found[j] for j in value.args], dtypes))
        else:
            found.append(number(w, value) if isinstance(value, Number) else given[k])
    return found


def _vector(w: Writer, nest: Nest, groups: RowGroups, ref: Ref, pointer: str, column: int) -> str:
    """Return the elements of one vector of a group."""
    length, first = nest.space[-1], column * groups.lanes
    outer, inner = ref.strides[-2:]
    if outer == inner == 0:
        return read_one(w, ref.dtype, pointer)
    if outer and inner:
        return read(w, ref.dtype, w.shifted(pointer, first * ref.size))
    w.lanes = groups.rows if outer else length
    distance = (outer or inner) // ref.size
    x = read(w, ref.dtype, pointer) if distance == 1 else read_apart(w, ref.dtype, pointer, distance)
    order = [(first + k) // length if outer else (first + k) % length for k in range(groups.lanes)]
    x = shuffled(w, element_type(ref.dtype), x, w.lanes, order)
    w.lanes = groups.lanes
    return x
