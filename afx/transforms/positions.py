"""Which parameters of a function the options of `afx.jit` mean."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from afx.errors import ArgumentError
from afx.transforms.leaves import name_of

__all__ = ["as_positions", "check_positions", "positions_of"]


def as_positions(numbers: int | Sequence[int], name: str) -> tuple[int, ...]:
    """Return an option of `afx.jit` that is one position or several as a tuple."""
    found = (numbers,) if isinstance(numbers, int) else tuple(numbers)
    if not all(isinstance(n, int) for n in found):  # pyright: ignore[reportUnnecessaryIsInstance]  # users' mistakes
        raise ArgumentError(f"jit: {name} are positions: got {numbers!r}; give integers, or use static_argnames=")
    return found


def check_positions(fn: Callable[..., Any], **positions: tuple[int, ...]) -> None:
    """Refuse positions behind the last parameter, as far as a function tells its parameters."""
    try:
        kinds = [p.kind for p in inspect.signature(fn).parameters.values()]
    except (TypeError, ValueError):
        return
    count = sum([k in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD) for k in kinds])
    for name, numbers in positions.items():
        beyond = [n for n in numbers if not -count <= n < count]
        if beyond and inspect.Parameter.VAR_POSITIONAL not in kinds:
            raise ArgumentError(
                f"jit: {name} has a position that {name_of(fn)} does not take: got {beyond[0]} for {count} positional "
                "parameters; count from 0"
            )


def positions_of(fn: Callable[..., Any], names: Sequence[str]) -> tuple[int, ...]:
    """Return the positions at which arguments of these names can also be passed."""
    if not names:
        return ()
    parameters = list(inspect.signature(fn).parameters)
    missing = [n for n in names if n not in parameters]
    if missing:
        raise ArgumentError(f"jit: static_argnames={missing[0]!r} is not an argument of {name_of(fn)}; check its name")
    return tuple([parameters.index(n) for n in names])
