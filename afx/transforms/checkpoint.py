"""`checkpoint`: memory for time; intermediate values are computed again in the backward pass."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from afx import pytree
from afx.transforms.held import Flattened, Rules, hold, pull_through, push_through
from afx.transforms.leaves import name_of

__all__ = ["checkpoint"]

P = ParamSpec("P")
R = TypeVar("R")


def checkpoint(fn: Callable[P, R]) -> Callable[P, R]:
    """Return ``fn`` so that reverse mode keeps only its arguments and runs it again in the backward pass.

    Python control flow on its values works as in ``fn`` itself. Values that ``fn`` closes over are constants to it:
    pass what is differentiated as an argument.

    Args:
        fn: a pure function of pytrees of arrays.

    >>> import afx
    >>> afx.grad(checkpoint(lambda x: afx.sqrt(x * x)))(3.0)
    Array(1., dtype=float32)
    """
    name = f"checkpoint of {name_of(fn)}"

    @functools.wraps(fn)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        leaves, treedef = pytree.flatten((args, kwargs))
        plain = Flattened(fn, treedef)

        def forward(xs: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
            return plain(*xs), xs

        def backward(xs: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
            return pull_through(plain, xs, cts)

        def push(xs: Sequence[Any], ts: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
            return push_through(plain, xs, ts)

        outs = hold(Rules(name, plain, forward, backward, push), leaves)
        result: R = pytree.unflatten(plain.out_tree, outs)
        return result

    return run
