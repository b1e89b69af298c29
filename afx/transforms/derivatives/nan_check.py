"""NaN check: raises where a result is nan though no argument is, inside of a `debug_nans` block."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from afx import pytree
from afx.core import any_traced
from afx.core.tracing.tape import OPEN_BLOCKS, at, debugging, has_nan, nan_error, seen_origin

if TYPE_CHECKING:
    from afx.core.graph import Equation

_inside: contextvars.ContextVar[bool] = contextvars.ContextVar("afx_inside_checked", default=False)


_searching: contextvars.ContextVar[bool] = contextvars.ContextVar("afx_searching_nan", default=False)


def check_inside(name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return ``fn(*args, **kwargs)``, checked; what loops in it cannot name, such as a step on NumPy's arrays, it names."""
    token = _inside.set(True)
    try:
        result = fn(*args, **kwargs)
    finally:
        _inside.reset(token)
    check_nan(name, fn, args, kwargs, result)
    return result


def check_nan(
    name: str,
    fn: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    out: Any,
    *,
    only_named: bool = False,
) -> None:
    """Inside of a `debug_nans` block, raise where a result is nan though no argument is.

    Args:
        name: of the function, for the message.
        fn: what gave the result.
        args: its arguments.
        kwargs: likewise, by name.
        out: the result.
        only_named: whether a nan whose operation is not found does not count.

    Raises:
        NanError: it names the operation, and the line in the user's file.
    """
    if not (OPEN_BLOCKS and debugging()) or _searching.get():
        return
    results, (leaves, treedef) = pytree.leaves(out), pytree.flatten((args, kwargs))
    if any_traced((*results, *leaves)) or not any(map(has_nan, results)) or any(map(has_nan, leaves)):
        return
    origin = _find_origin(name, fn, leaves, treedef)
    if origin is not None:
        place = f"{origin.primitive.name}: nan from operands without nan{at(origin.source)}"
        raise nan_error(f"{place}; guard the operand with afx.where")
    if (seen := seen_origin(results)) is not None:
        raise nan_error(str(seen))
    if not (only_named or _inside.get()):
        raise nan_error(f"{name}: the result is nan though no argument is; guard its operands with afx.where")


def _find_origin(name: str, fn: Callable[..., Any], leaves: list[Any], treedef: Any) -> Equation | None:
    """Return the first op that makes a nan, by running the function again."""
    from afx.transforms.derivatives.nan_search import origin_of_nan  # a plain import does without it

    token = _searching.set(True)
    try:
        with np.errstate(all="ignore"):
            return origin_of_nan(name, fn, leaves, treedef)
    finally:
        _searching.reset(token)
