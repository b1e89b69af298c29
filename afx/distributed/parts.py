"""Parts: what each slot sees of an argument: its rows of a whole array, or what a function of the slot reads."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, cast

import numpy as np

from afx.core.array.array import Array, wrap
from afx.distributed.split import Split
from afx.distributed.traced import refuse_traced
from afx.errors import ArgumentError, ShapeError
from afx.pytree import flatten_with_path, unflatten

__all__ = ["Parts", "by_slot", "cut", "part_of", "whole_places"]

T = TypeVar("T")


class Parts(Generic[T]):
    """An argument that differs from slot to slot; each part is made when its slot computes, on its rank alone."""

    __slots__ = ("_read",)

    def __init__(self, read: Callable[[int], T]) -> None:
        self._read = read

    def part(self, slot: int) -> T:
        """Return the part of a slot."""
        return self._read(slot)


def by_slot(read: Callable[[int], T]) -> T:
    """Return an argument that each slot makes for itself: a file of its own, a key of its own.

    To the type checker it is what the function returns; it may only be passed to functions of `Machines`.

    Args:
        read: the slot's number to its part; called on the rank that computes the slot, and again if that rank is lost.

    >>> from afx import distributed
    >>> machines = distributed.local(2)
    >>> key = afx.random.key(0)
    >>> value_and_grad = machines.value_and_grad(
    ...     lambda w, key: w * afx.random.uniform(key), split=distributed.Split((1, 1))
    ... )
    >>> value, grad = value_and_grad(1.0, distributed.by_slot(lambda slot: afx.random.fold_in(key, slot)))
    >>> bool(value == grad)
    True
    """
    return cast("T", Parts(read))


def part_of(value: Any, slot: int) -> Any:
    """Return what a slot sees of an argument: its part, or the whole of what all slots share."""
    if not isinstance(value, Parts):
        return value
    parts: Parts[Any] = value  # pyright: ignore[reportUnknownVariableType]  # of anything
    return parts.part(slot)


def cut(tree: Any, split: Split, who: str) -> Parts[Any]:
    """Return the rows of each slot of the whole arrays of a tree.

    Raises:
        ShapeError: an array whose first axis is not as long as the batch.
    """
    leaves, treedef = flatten_with_path(tree)
    for path, leaf in leaves:
        shape = np.shape(leaf)
        if not shape or shape[0] != split.total:
            raise ShapeError(
                f"{who}: an array that the Split cannot cut, at {path or 'the top'}: got {list(shape)} for "
                f"{split.total} examples; pass an argument that all slots share by shared=..."
            )
    with refuse_traced(who, [tree]):
        arrays = [(np.asarray(leaf), isinstance(leaf, Array)) for _, leaf in leaves]

    def read(slot: int) -> Any:
        start, stop = split.bounds[slot]
        rows = [(array[start:stop], is_array) for array, is_array in arrays]
        return unflatten(treedef, [wrap(part) if is_array else part for part, is_array in rows])

    return Parts(read)


def whole_places(
    loss: Callable[..., Any],
    argnums: int | Sequence[int] | None,
    argnames: str | Sequence[str],
    shared: Sequence[int | str],
    who: str,
) -> set[int | str]:
    """Return the arguments that every slot sees whole, as positions and names, each under both where it has both.

    Raises:
        ArgumentError: ``shared`` names none of the loss's.
    """
    names = [argnames] if isinstance(argnames, str) else list(argnames)
    nums = [0] if argnums is None and not names else [argnums] if isinstance(argnums, int) else list(argnums or ())
    places: set[int | str] = {*nums, *names, *shared}
    try:
        signature = inspect.signature(loss).parameters
    except (TypeError, ValueError):  # a builtin
        return places
    known, kinds = list(signature), {parameter.kind for parameter in signature.values()}
    for place in shared:
        is_named = place in known or inspect.Parameter.VAR_KEYWORD in kinds
        is_placed = isinstance(place, int) and (0 <= place < len(known) or inspect.Parameter.VAR_POSITIONAL in kinds)
        if not (is_placed if isinstance(place, int) else is_named):
            raise ArgumentError(
                f"{who}: shared names no argument of the loss: got {place!r} for {known}; name one of them"
            )
    places.update([known.index(place) for place in list(places) if isinstance(place, str) and place in known])
    places.update([known[place] for place in list(places) if isinstance(place, int) and place < len(known)])
    return places
