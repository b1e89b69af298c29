"""Native forms of indexing: elements at indices, running sums and extremes, places of extremes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import attrs
import numpy as np

from afx.compiler.native_backend.lowering.convert import UnsupportedError
from afx.compiler.native_backend.lowering.memory import Location, broadcast, copy_nest, look
from afx.compiler.native_backend.lowering.ops.reduction import loop_of
from afx.compiler.native_backend.program import Inner, Ref, Routine, Step
from afx.compiler.native_backend.steps import merged
from afx.compiler.target import NativeTarget
from afx.core.aval import Shape, broadcast_shapes
from afx.core.scalar_ops import ALL, scalar_op

__all__ = ["accumulate", "find_extreme", "index"]


def index(
    kind: Literal["gather", "set", "add"], part: Location, whole: Location, indices: Sequence[Location], axis: int,
    quiet: tuple[str, ...],
) -> Routine:  # fmt: skip
    """Return the step between the elements that indices name along axes from one on, and the array that they are part of.

    Raises:
        UnsupportedError: of other indices than integers, or sums of complex numbers.
    """
    wrong = [i.dtype for i in indices if i.dtype[0] not in "iu" or i.dtype == "u8"]
    if wrong:
        raise UnsupportedError(f"indices of {wrong[0]}")
    if kind == "add" and whole.dtype not in scalar_op("add").dtypes:
        raise UnsupportedError(f"a scattered sum of {whole.dtype}")
    common = broadcast_shapes([i.shape for i in indices])
    assert common is not None
    count, behind = len(indices), axis + len(indices)
    space: Shape = (*whole.shape[:axis], *common, *whole.shape[behind:])
    if 0 in space and 0 not in common:  # indices are looked at all the same
        raise UnsupportedError("no elements at indices")
    lead, rest = (0,) * axis, (0,) * (len(whole.shape) - behind)
    strides: Shape = (*whole.strides[:axis], *(0,) * len(common), *whole.strides[behind:])
    locations = [Ref(i.owner, i.dtype, i.offset, (*lead, *broadcast(i, common), *rest)) for i in indices]
    refs = [part.over(space), Ref(whole.owner, whole.dtype, whole.offset, strides), *locations]
    space, joined = merged(space, [ref.strides for ref in refs])
    first, second, *others = [attrs.evolve(ref, strides=s) for ref, s in zip(refs, joined, strict=True)]
    ends = (second, first) if kind == "gather" else (first, second)
    sizes = (*whole.strides[axis : axis + count], *whole.shape[axis : axis + count])
    return Routine(kind, space, (*others, *ends), sizes, quiet)


def accumulate(
    ufunc: str, x: Location, out: Location, axis: int, quiet: tuple[str, ...], limits: NativeTarget
) -> list[Step]:
    """Return what calls NumPy's loop as its ``accumulate`` does: each result is an operand of the next."""
    loop, (x, out) = loop_of(ufunc, (out.dtype,) * 3), [look(p, lambda v: np.moveaxis(v, axis, -1)) for p in (x, out)]
    steps: list[Step] = [copy_nest(look(out, lambda v: v[..., 0]), look(x, lambda v: v[..., 0]))]
    if x.shape[-1] < 2:
        return steps
    space, size = (*x.shape[:-1], x.shape[-1] - 1), int(out.dtype[1:])
    # along the axis, or, where so many neighbours lie beside it, step by step over these
    has_rows = len(space) > 1 and space[-2] >= limits.cumulative_min_neighbours
    has_rows = has_rows and out.strides[-2] == size != abs(out.strides[-1])
    order = (len(space) - 1, *range(len(space) - 1)) if has_rows else range(len(space))

    def ref(p: Location, offset: int) -> Ref:
        return Ref(p.owner, p.dtype, p.offset + offset, tuple([p.strides[k] for k in order]))

    operands = (ref(out, 0), ref(x, x.strides[-1]), ref(out, out.strides[-1]))
    return [*steps, Inner(loop, tuple([space[k] for k in order]), operands, quiet)]


def find_extreme(is_max: bool, x: Location, out: Location, axis: int, limits: NativeTarget) -> Routine:
    """Return what writes the places of the first largest or smallest elements along an axis.

    Raises:
        UnsupportedError: of complex numbers, or of a large array along another axis than the last one.
    """
    if x.dtype not in ALL:
        raise UnsupportedError(f"places of extremes of {x.dtype}")
    rows = look(x, lambda v: np.moveaxis(v, axis, -1))
    if abs(rows.strides[-1]) != int(x.dtype[1:]) and math.prod(x.shape) > limits.extreme_max_elements:
        raise UnsupportedError("places of extremes of large arrays along another axis than the last one")
    refs = rows.ref, Ref(out.owner, out.dtype, out.offset, (*out.strides, 0))
    return Routine("argmax" if is_max else "argmin", rows.shape, refs)
