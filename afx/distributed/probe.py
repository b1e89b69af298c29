"""Probe: a loss that is a sum over its examples, where a mean is needed, is found by its values on two halves."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np

from afx.core.array.array import Array, wrap
from afx.pytree import flatten, unflatten

__all__ = ["adds_up"]

MOST_ROWS: Final = 8
TOLERANCE: Final = 1e-4  # float32 sums of few examples are as far apart


def adds_up(
    loss: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    places: Collection[int | str],
    rows: int,
    *,
    has_aux: bool,
) -> bool:
    """Tell whether a loss of some examples is the sum of its values on two parts of them, and no mean.

    Args:
        loss: the program; run as it stands, on few examples.
        args: of a slot.
        kwargs: likewise.
        places: positions and names of arguments whose rows are examples.
        rows: how many examples the slot has.
        has_aux: whether the loss returns a pair.
    """
    count = min(rows, MOST_ROWS) // 2 * 2
    if count < 2 or not any(_has_rows(args[k] if isinstance(k, int) else kwargs[k], rows) for k in places):
        return False

    def value(start: int, stop: int) -> complex:
        mine = [_cut(arg, rows, start, stop) if k in places else arg for k, arg in enumerate(args)]
        named = {name: _cut(arg, rows, start, stop) if name in places else arg for name, arg in kwargs.items()}
        found = loss(*mine, **named)
        return complex(np.asarray(found[0] if has_aux else found))

    try:
        whole = value(0, count)
        return all(_is_sum(whole, value(0, cut), value(cut, count), cut / count) for cut in {count // 2, 1})
    except Exception:  # a loss that takes no fewer examples says so itself where it is right to
        return False


def _is_sum(whole: complex, first: complex, second: complex, share: float) -> bool:
    size = abs(first) + abs(second)
    if not math.isfinite(size) or not math.isfinite(abs(whole)) or abs(whole) <= TOLERANCE * size:
        return False
    mean = share * first + (1 - share) * second
    return abs(whole - first - second) <= TOLERANCE * size and abs(whole - mean) > 0.1 * abs(whole)


def _has_rows(tree: Any, rows: int) -> bool:
    return any(np.shape(leaf)[:1] == (rows,) for leaf in flatten(tree)[0])


def _cut(tree: Any, rows: int, start: int, stop: int) -> Any:
    leaves, treedef = flatten(tree)
    found: list[Any] = []
    for leaf in leaves:
        if np.shape(leaf)[:1] == (rows,):
            part = np.asarray(leaf)[start:stop]
            found.append(wrap(part) if isinstance(leaf, Array) else part)
        else:
            found.append(leaf)
    return unflatten(treedef, found)
