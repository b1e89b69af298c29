"""Traced values: machines exchange numbers, so that what a transformation watches is refused, by name."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any

from afx.core.tracing.tracer import Tracer
from afx.errors import TracerError, TreeError
from afx.pytree import leaves

__all__ = ["name_traced", "refuse_traced"]


@contextmanager
def refuse_traced(who: str, trees: Iterable[Any]) -> Generator[None]:
    """Name machines in errors of what is computed from trees with traced leaves.

    Raises:
        TracerError: a tree has such a leaf, and its value was asked for.
    """
    try:
        yield
    except TracerError as error:
        raise name_traced(who, trees, error) from None


def name_traced(who: str, trees: Iterable[Any], error: TracerError) -> TracerError:
    """Return the error that names machines and the first traced leaf; where there is none, the error itself."""
    for tree in trees:
        try:
            found = next((leaf for leaf in leaves(tree) if isinstance(leaf, Tracer)), None)
        except TreeError:  # no tree, such as what each slot reads for itself
            continue
        if found is not None:
            return TracerError(
                f"{who}: machines exchange numbers, not traced values: got {found.aval} in {found._trace.name}; call it outside "
                "of afx.jit, grad and vmap: each slot's part is compiled, and differentiated by value_and_grad"
            )
    return error
