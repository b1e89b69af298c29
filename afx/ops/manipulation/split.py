"""Splitting: `split`, `unstack` and their family."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval, aval_of, integer, normalize_axis
from afx.core.primitive import Derivative, Lowering, Masking, Params, Primitive, Value, register
from afx.core.registry import register_function
from afx.core.tracing.tracer import bind, to_lower_level
from afx.errors import ArgumentError, ShapeError
from afx.ops._kinds.batching import batch_along_axes
from afx.ops.indexing.index import ints, whole
from afx.ops.indexing.slice import slice_
from afx.ops.manipulation.join import concat, stack

__all__ = ["array_split", "dsplit", "hsplit", "split", "unstack", "vsplit"]


@register_function
def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """Return the slices of x along an axis, which they no longer have.

    Raises:
        ShapeError: an axis out of range.

    >>> unstack(afx.asarray([1.0, 2.0]))
    (Array(1., dtype=float32), Array(2., dtype=float32))
    """
    aval = aval_of(x, "unstack")
    place = normalize_axis(axis, aval.ndim, "unstack")
    z: tuple[Array, ...] = bind(unstack_p, x, axis=place) if aval.shape[place] else ()
    return z


def _unstack_joint(
    ct: Value, z: Value, xs: tuple[Value, ...], params: Params, avals: tuple[Aval | None, ...]
) -> list[Value]:
    return [to_lower_level(stack(ct, axis=params["axis"]))]


def _unstack_jvp(ts: tuple[Value | None, ...], z: Value, xs: tuple[Value, ...], params: Params) -> Value:
    assert ts[0] is not None
    return tuple([to_lower_level(t) for t in unstack(ts[0], axis=params["axis"])])


def _unstack_inline(xs: tuple[Value, ...], params: Params) -> Value:
    """Return the parts as slices, which plans know as views of one value."""
    axis = params["axis"]
    shape = xs[0].shape
    return tuple([slice_(xs[0], (*map(whole, shape[:axis]), k)) for k in range(shape[axis])])


def _unstack_run(x: Any, *, axis: int) -> tuple[Any, ...]:
    return tuple(np.moveaxis(x, axis, 0))


def _unstack_abstract(x: Aval, *, axis: int) -> tuple[Aval, ...]:
    return (Aval(x.shape[:axis] + x.shape[axis + 1 :], x.dtype),) * x.shape[axis]


unstack_p: Primitive = register(
    Primitive(
        name="unstack",
        kind="custom",
        impl=_unstack_run,
        abstract_eval=_unstack_abstract,
        batch=batch_along_axes("unstack"),
        multiple_results=True,
        decompose=_unstack_inline,
        opaque=True,
        derivative=Derivative(vjp_all=_unstack_joint, reads=(0,), jvp=_unstack_jvp),
        masking=Masking(nonnegative_linear=True, selects=True),
        lowering=Lowering(may_alias=True),
    )
)


@register_function
def split(x: ArrayLike, /, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Array]:
    """Return the list of the parts of x, cut along an axis.

    Args:
        x: any shape.
        indices_or_sections: the number of equal parts, or the indices of the cuts.
        axis: the axis.

    Raises:
        ShapeError: the axis cannot be cut into equal parts, or is out of range.
        ArgumentError: a number of parts that is not positive.

    >>> [part.shape for part in split(afx.zeros(6), [1, 3])]
    [(1,), (2,), (3,)]
    """
    aval = aval_of(x, "split")
    n = aval.shape[normalize_axis(axis, aval.ndim, "split")]
    if not hasattr(indices_or_sections, "__len__"):
        indices_or_sections = integer(indices_or_sections, "split", "the number of parts")
    if isinstance(indices_or_sections, int) and indices_or_sections > 0 and n % indices_or_sections:
        raise ShapeError(
            f"split: array split does not result in an equal division: got {indices_or_sections} parts of {aval}; "
            "use array_split"
        )
    return array_split(x, indices_or_sections, axis=axis)


@register_function
def array_split(x: ArrayLike, /, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Array]:
    """Return x cut into parts along an axis, the first of them longer by one where the length asks for it.

    >>> [part.shape for part in array_split(afx.zeros(5), 3)]
    [(2,), (2,), (1,)]
    """
    aval = aval_of(x, "split")
    place = normalize_axis(axis, aval.ndim, "split")
    bounds = _bounds(aval.shape[place], indices_or_sections)
    edges = [0, *[b for _, b in bounds]]
    if [a for a, _ in bounds] == edges[:-1] and edges[-1] == aval.shape[place]:
        return list(bind(split_p, x, axis=place, sizes=tuple([b - a for a, b in bounds])))
    lead = tuple([whole(n) for n in aval.shape[:place]])  # parts that overlap or leave gaps
    return [slice_(x, (*lead, (a, b, 1) if b > a else (0, 0, 1))) for a, b in bounds]


def _bounds(n: int, cuts: Any) -> list[tuple[int, int]]:
    """Return where each part begins and ends."""
    if hasattr(cuts, "__len__"):
        places = ints(cuts, "split", "the index of a cut")
        spans = [slice(a, b).indices(n)[:2] for a, b in zip([0, *places], [*places, None], strict=True)]
        return [(a, max(a, b)) for a, b in spans]
    parts = integer(cuts, "split", "the number of parts")
    if parts <= 0:
        raise ArgumentError(f"split: the number of parts is positive: got {parts}; give at least 1")
    short, longer = divmod(n, parts)
    edges = [k * short + min(k, longer) for k in range(parts + 1)]
    return list(itertools.pairwise(edges))


def _split_run(x: Any, *, axis: int, sizes: tuple[int, ...]) -> tuple[Any, ...]:
    lead = (slice(None),) * axis
    edges = [0, *itertools.accumulate(sizes)]
    return tuple([x[(*lead, slice(a, b))] for a, b in itertools.pairwise(edges)])


def _split_abstract(x: Aval, *, axis: int, sizes: tuple[int, ...]) -> tuple[Aval, ...]:
    return tuple([Aval((*x.shape[:axis], n, *x.shape[axis + 1 :]), x.dtype) for n in sizes])


def _split_joint(
    ct: Value, z: Value, xs: tuple[Value, ...], params: Params, avals: tuple[Aval | None, ...]
) -> list[Value]:
    return [to_lower_level(concat(ct, axis=params["axis"]))]


def _split_jvp(ts: tuple[Value | None, ...], z: Value, xs: tuple[Value, ...], params: Params) -> Value:
    return tuple([to_lower_level(t) for t in bind(split_p, ts[0], **params)])


split_p: Primitive = register(
    Primitive(
        name="split",
        kind="custom",
        impl=_split_run,
        abstract_eval=_split_abstract,
        batch=batch_along_axes("split"),
        multiple_results=True,
        derivative=Derivative(vjp_all=_split_joint, reads=(0,), jvp=_split_jvp),
        masking=Masking(nonnegative_linear=True, selects=True),
        lowering=Lowering(may_alias=True),
    )
)


@register_function
def hsplit(x: ArrayLike, /, indices_or_sections: int | Sequence[int]) -> list[Array]:
    """Return x cut along its second axis, a 1-d one along its only axis; see `split`.

    >>> [part.shape for part in hsplit(afx.zeros((2, 4)), 2)]
    [(2, 2), (2, 2)]
    """
    return split(x, indices_or_sections, axis=0 if aval_of(x, "hsplit").ndim == 1 else 1)


@register_function
def vsplit(x: ArrayLike, /, indices_or_sections: int | Sequence[int]) -> list[Array]:
    """Return x, of two axes or more, cut along its first axis; see `split`.

    >>> [part.shape for part in vsplit(afx.zeros((2, 4)), 2)]
    [(1, 4), (1, 4)]
    """
    if aval_of(x, "vsplit").ndim < 2:
        raise ShapeError(f"vsplit: takes two axes or more: got {aval_of(x)}; use afx.split")
    return split(x, indices_or_sections, axis=0)


@register_function
def dsplit(x: ArrayLike, /, indices_or_sections: int | Sequence[int]) -> list[Array]:
    """Return x, of three axes or more, cut along its third axis; see `split`.

    >>> [part.shape for part in dsplit(afx.zeros((2, 1, 4)), 2)]
    [(2, 1, 2), (2, 1, 2)]
    """
    if aval_of(x, "dsplit").ndim < 3:
        raise ShapeError(f"dsplit: takes three axes or more: got {aval_of(x)}; use afx.split")
    return split(x, indices_or_sections, axis=2)
