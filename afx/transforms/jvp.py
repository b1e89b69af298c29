"""Forward mode: `jvp`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from afx import pytree
from afx.core.array.array import wrap
from afx.core.aval import aval_of
from afx.core.tracing.jvp_trace import JVPTrace, JVPTracer
from afx.core.tracing.tracer import to_array
from afx.errors import DtypeError, OperandError, ShapeError, TreeError
from afx.ops.manipulation.shape import astype
from afx.transforms._arguments import check_callable, describe, moving_leaves, name_of, untraced, zero_like
from afx.transforms.nan_check import check_nan

__all__ = ["jvp"]

R = TypeVar("R")


def jvp(fn: Callable[..., R], primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[R, R]:
    """Return ``fn(*primals)`` and its derivative along ``tangents``, in one forward pass.

    Args:
        fn: a function of pytrees of floating or complex arrays that returns such a pytree.
        primals: the arguments.
        tangents: the direction, of the same structure, shapes and dtypes. Integers and booleans inside of a tree, and
            `non_trainable` fields, do not move: their tangents are not used.

    Returns:
        The result and its tangent, which has the result's structure.

    Raises:
        TreeError, ShapeError, DtypeError: a tangent does not match its argument; the message names its path.
        OperandError: primals or tangents are not a tuple.

    >>> import afx
    >>> jvp(afx.sin, (0.0,), (1.0,))
    (Array(0., dtype=float32), Array(1., dtype=float32))
    """
    check_callable(fn, "jvp")
    for given, what in ((primals, "primals"), (tangents, "tangents")):
        if not isinstance(given, (tuple, list)):  # pyright: ignore[reportUnnecessaryIsInstance]  # users' mistakes
            raise OperandError(
                f"jvp: {what} are a tuple with one entry for each argument: got {describe(given)}; "
                "write jvp(fn, (x,), (t,))"
            )
    leaves, treedef = pytree.flatten(tuple(primals))
    directions, direction_tree = pytree.flatten(tuple(tangents))
    if treedef != direction_tree:
        raise TreeError(f"jvp: tangents have another structure: got {direction_tree}; the primals are {treedef}")
    moving = moving_leaves(leaves, treedef, "jvp", _argument, arguments=True) or [True] * len(leaves)
    check_tangents(leaves, directions, treedef, "jvp")
    trace = JVPTrace(f"jvp of {name_of(fn)}")
    try:
        inputs = [
            trace.input(x, _typed(t, x)) if m else untraced(x)
            for x, t, m in zip(leaves, directions, moving, strict=True)
        ]
        out = fn(*pytree.unflatten(treedef, inputs))
    finally:
        trace.alive = False
    outputs, out_tree = pytree.flatten(out)
    own = [isinstance(x, JVPTracer) and x._trace is trace for x in outputs]
    values = [to_array(x._value) if o else x for x, o in zip(outputs, own, strict=True)]
    slopes = [to_array(x._tangent) if o else wrap(zero_like(x)) for x, o in zip(outputs, own, strict=True)]
    check_nan(trace.name, lambda *xs: jvp(fn, *xs), (primals, tangents), {}, (values, slopes))
    return pytree.unflatten(out_tree, values), pytree.unflatten(out_tree, slopes)


def check_tangents(leaves: list[Any], directions: list[Any], treedef: Any, who: str) -> None:
    """Raise where a tangent has another shape or dtype than the leaf it belongs to, naming the path."""
    for k, (x, t) in enumerate(zip(leaves, directions, strict=True)):
        have, want = aval_of(t, who), aval_of(x, who)
        if have.shape != want.shape:
            raise ShapeError(
                f"{who}: the tangent of {_argument(pytree.paths(treedef)[k])} has another shape: got {have} "
                f"for a primal of {want}; make them equal"
            )
        unlike = not have.weak and not want.weak and have.dtype != want.dtype
        if unlike or (have.dtype.kind == "c" and want.dtype.kind != "c"):
            raise DtypeError(
                f"{who}: the tangent of {_argument(pytree.paths(treedef)[k])} has another dtype: got {have} "
                f"for a primal of {want}; use astype"
            )


def _typed(tangent: Any, primal: Any) -> Any:
    """Return a tangent in its primal's dtype, where either is a Python number."""
    have, want = aval_of(tangent), aval_of(primal)
    if have.weak:
        return want.dtype.type(tangent)
    return astype(tangent, want.dtype) if want.weak and have.dtype != want.dtype else tangent


def _argument(path: str) -> str:
    return f"argument {path[1:].replace(']', '', 1)}"
