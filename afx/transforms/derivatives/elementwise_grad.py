"""Elementwise derivatives: `elementwise_grad` of functions that work element by element."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec

from afx import pytree
from afx.core.array.array import Array
from afx.core.aval import aval_of
from afx.core.dtypes import get_default_dtype
from afx.ops.creation.creation import ones_like
from afx.ops.manipulation.shape import astype
from afx.transforms._arguments import check_callable, moving_leaves, transformed
from afx.transforms.derivatives._diff_arguments import DiffArguments, either_argnums
from afx.transforms.derivatives.jacobian import check_real
from afx.transforms.derivatives.vjp import vjp

__all__ = ["elementwise_grad"]

P = ParamSpec("P")


def elementwise_grad(
    fn: Callable[P, Array],
    argnums: int | Sequence[int] | None = None,
    argnames: str | Sequence[str] = (),
    *,
    argnum: int | Sequence[int] | None = None,
) -> Callable[P, Any]:
    """Return the derivative of a function that works element by element: each result's by its own operand.

    It is the gradient of the sum of the results, as autograd's function of this name: where a result depends on other
    elements too, their derivatives are added up. Integers are taken as floats, in the default dtype.

    Args:
        fn: returns an array.
        argnums: the positional argument to differentiate, the first by default; a tuple of them gives a tuple.
        argnames: keyword arguments to differentiate, as in `afx.grad`.
        argnum: autograd's name of ``argnums``.

    >>> import afx
    >>> elementwise_grad(afx.sin)(afx.zeros(3))
    Array([1., 1., 1.], dtype=float32)
    """
    check_callable(fn, "elementwise_grad")
    argnums = either_argnums(argnums, argnum, "elementwise_grad")
    chosen = DiffArguments(fn, argnums, argnames, "elementwise_grad")

    def run(*args: P.args, **kwargs: P.kwargs) -> Any:
        x, call = chosen.split(args, kwargs)
        x = pytree.map(_as_float, x)
        moving_leaves(*pytree.flatten(x), "elementwise_grad", chosen.label)
        out, pullback = vjp(call, x)
        for leaf in pytree.leaves(out):
            check_real([leaf], "elementwise_grad", "result", "take its parts apart")
        return chosen.arrange(pullback(pytree.map(ones_like, out))[0])

    make = functools.partial(elementwise_grad, fn, argnums, argnames)
    found: Callable[P, Any] = transformed(run, "elementwise_grad", fn, make)
    return found


def _as_float(x: Any) -> Any:
    """Return integers as floats in the default dtype, and any other leaf as it is."""
    return astype(x, get_default_dtype()) if aval_of(x, "elementwise_grad").dtype.kind in "iu" else x
