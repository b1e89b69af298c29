"""Forward mode: `jvp`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from afx import pytree
from afx.core.array.array import wrap
from afx.core.aval import aval_of
from afx.core.tracing.jvp_trace import JVPTrace, JVPTracer
from afx.core.tracing.tracer import to_array
from afx.errors import DtypeError, OperandError
from afx.ops.manipulation.shape import astype
from afx.pytree.compare import check_matching, check_structure
from afx.transforms._arguments import (
    check_callable,
    describe,
    direction_aval,
    moving_leaves,
    name_of,
    untraced,
    zero_like,
)
from afx.transforms.derivatives.nan_check import check_nan

__all__ = ["jvp"]

R = TypeVar("R")


def jvp(fn: Callable[..., R], primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[R, R]:
    """Return ``fn(*primals)`` and its derivative along ``tangents``, in one forward pass.

    Args:
        fn: a function of pytrees of floating or complex arrays that returns such a pytree.
        primals: the arguments.
        tangents: the direction, of the same structure, shapes and dtypes, or integers for floats. Integers and booleans
            inside of a tree, and `non_trainable` fields, do not move: their tangents are not used.

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
    check_structure(direction_tree, treedef, "jvp", "tangents", "give them the structure of the primals")
    moving = moving_leaves(leaves, treedef, "jvp", _argument, arguments=True) or [True] * len(leaves)
    check_tangents(leaves, directions, treedef, "jvp")
    trace = JVPTrace(f"jvp of {name_of(fn)}")
    try:
        inputs = [
            trace.input(x, _convert_tangent(t, x)) if m else untraced(x)
            for x, t, m in zip(leaves, directions, moving, strict=True)
        ]
        out = fn(*pytree.unflatten(treedef, inputs))
    finally:
        trace.finish()
    outputs, out_tree = pytree.flatten(out)
    own = [isinstance(x, JVPTracer) and x._trace is trace for x in outputs]
    values = [to_array(x._value) if o else x for x, o in zip(outputs, own, strict=True)]
    slopes = [to_array(x._tangent) if o else wrap(zero_like(x)) for x, o in zip(outputs, own, strict=True)]
    check_nan(trace.name, lambda *xs: jvp(fn, *xs), (primals, tangents), {}, (values, slopes))
    return pytree.unflatten(out_tree, values), pytree.unflatten(out_tree, slopes)


def check_tangents(leaves: list[Any], directions: list[Any], treedef: Any, who: str) -> None:
    """Raise where a tangent has another shape or dtype than the leaf it belongs to, naming the path."""
    have, want = [direction_aval(t, who) for t in directions], [aval_of(x, who) for x in leaves]
    check_matching(have, want, treedef, who, "tangents", "give those of the primal", dtypes="weak")
    for k, (t, x) in enumerate(zip(have, want, strict=True)):
        if t.dtype.kind == "c" and x.dtype.kind != "c":
            path = pytree.paths(treedef)[k]
            raise DtypeError(f"{who}: the dtype of tangents{path} differs: got {t} for {x}; give a real number")


def _convert_tangent(tangent: Any, primal: Any) -> Any:
    """Return a tangent in its primal's dtype, where either is a Python number, or the tangent has integers."""
    have, want = aval_of(tangent), aval_of(primal)
    if have.weak:
        return want.dtype.type(tangent)
    is_cast = have.dtype != want.dtype and (want.weak or have.dtype.kind in "biu")
    return astype(tangent, want.dtype) if is_cast else tangent


def _argument(path: str) -> str:
    return f"argument {path[1:].replace(']', '', 1)}"
