"""Linearization: a function's derivative at a point, as a function that is cheap to call again."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from afx import pytree
from afx.core.array.array import wrap
from afx.core.aval import aval_of
from afx.core.dtypes import is_inexact
from afx.core.tracing.tracer import to_array
from afx.pytree import Tree
from afx.pytree.compare import check_structure
from afx.transforms._arguments import check_callable, zero_like
from afx.transforms.derivatives.jvp import check_tangents
from afx.transforms.derivatives.vjp import vjp

__all__ = ["linearize"]

R = TypeVar("R")


def linearize(fn: Callable[..., R], *primals: Tree) -> tuple[R, Callable[..., R]]:
    """Return ``fn(*primals)`` and its derivative there, a linear function of tangents.

    The function runs once, on a tape. Its derivative is the transpose of its pullback, which is linear itself, so that
    each further call walks a tape and runs ``fn`` no more.

    Args:
        fn: a function of pytrees of floating arrays; integers and booleans in its result have tangents of 0.
        *primals: the point.

    Returns:
        The result, and ``push(*tangents)``: one tangent tree per argument to the tangent of the result.

    >>> import afx
    >>> y, push = linearize(afx.square, afx.asarray([1.0, 2.0]))
    >>> push(afx.ones(2))
    Array([2., 4.], dtype=float32)
    """
    check_callable(fn, "linearize")
    inputs, in_tree = pytree.flatten(primals)
    all_outputs: list[Any] = []

    @functools.wraps(fn, assigned=("__name__", "__qualname__"), updated=())
    def floating(*args: Any) -> list[Any]:
        leaves, treedef = pytree.flatten(fn(*args))
        all_outputs[:] = [treedef, leaves]
        return [x for x in leaves if is_inexact(aval_of(x).dtype)]

    values, pullback = vjp(floating, *primals)
    out_tree, outputs = all_outputs
    smooth = [is_inexact(aval_of(x).dtype) for x in outputs]
    transpose = vjp(pullback, [wrap(zero_like(x)) for x in values])[1] if values else None

    def push(*tangents: Any) -> R:
        directions, tree = pytree.flatten(tangents)
        check_structure(tree, in_tree, "linearize", "tangents", "give them the structure of the primals")
        check_tangents(inputs, directions, in_tree, "linearize")
        slopes: Any = iter(transpose(tangents)[0] if transpose else ())
        found = [to_array(next(slopes)) if s else wrap(zero_like(x)) for s, x in zip(smooth, outputs, strict=True)]
        result: R = pytree.unflatten(out_tree, found)
        return result

    rest = iter(values)
    return pytree.unflatten(out_tree, [next(rest) if s else x for s, x in zip(smooth, outputs, strict=True)]), push
