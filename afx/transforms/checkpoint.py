"""Checkpointing: memory for time; intermediate values are computed again in the backward pass."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from afx import pytree
from afx.core.tracing.debug_nans import OPEN_BLOCKS, debugging
from afx.transforms._arguments import check_callable, name_of
from afx.transforms.derivatives.flat_functions import Flattened
from afx.transforms.remat import rematerialize

__all__ = ["checkpoint"]

MAX_NESTED = 12  # deeper ones are plain calls: those around them compute everything again anyway

P = ParamSpec("P")
R = TypeVar("R")


class Nested(threading.local):
    """How many checkpointed functions are running inside one another in this thread."""

    depth = 0


_nested = Nested()


def checkpoint(fn: Callable[P, R]) -> Callable[P, R]:
    """Return ``fn`` so that reverse mode keeps only its arguments and computes the rest again in the backward pass.

    The function itself runs once, and what it did is recorded: Python control flow on its values works as in ``fn``.
    What it closes over may be traced and is differentiated too; it can change later without changing the gradient.

    Args:
        fn: a pure function of pytrees of arrays.

    >>> import afx
    >>> afx.grad(checkpoint(lambda x: afx.sqrt(x * x)))(3.0)
    Array(1., dtype=float32)
    """
    check_callable(fn, "checkpoint")
    name = f"checkpoint of {name_of(fn)}"

    @functools.wraps(fn)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if _nested.depth >= MAX_NESTED or (OPEN_BLOCKS and debugging()):
            return fn(*args, **kwargs)
        leaves, treedef = pytree.flatten((args, kwargs))
        plain: Any = Flattened(fn, treedef)
        _nested.depth += 1
        try:
            outs = rematerialize(name, plain, leaves)
        finally:
            _nested.depth -= 1
        result: R = pytree.unflatten(plain.out_tree, outs)
        return result

    return run
