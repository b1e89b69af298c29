"""Positions: the parameters of a function that options of `afx.jit` name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from afx import pytree
from afx.errors import ArgumentError
from afx.transforms._arguments import name_of

__all__ = ["as_positions", "check_positions", "leaves_of", "static_options"]

POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def as_positions(numbers: int | Sequence[int], name: str) -> tuple[int, ...]:
    """Return an option of `afx.jit` that is one position or several as a tuple."""
    found: tuple[Any, ...] = tuple(numbers) if isinstance(numbers, (Sequence, AbstractSet)) else (numbers,)
    if not all(isinstance(n, int) for n in found):
        raise ArgumentError(f"jit: {name} are positions: got {numbers!r}; give integers, or use static_argnames=")
    return found


def _parameters(fn: Callable[..., Any]) -> Mapping[str, inspect.Parameter] | None:
    """Return the parameters of a function, None of one that does not tell them, as some in C."""
    try:
        return inspect.signature(fn).parameters
    except (TypeError, ValueError):
        return None


def check_positions(fn: Callable[..., Any], **positions: tuple[int, ...]) -> None:
    """Refuse positions behind the last parameter, as far as a function's signature is known."""
    parameters = _parameters(fn)
    if parameters is None:
        return
    kinds = [p.kind for p in parameters.values()]
    count = sum([k in POSITIONAL for k in kinds])
    for name, numbers in positions.items():
        beyond = [n for n in numbers if not -count <= n < count]
        if beyond and inspect.Parameter.VAR_POSITIONAL not in kinds:
            raise ArgumentError(
                f"jit: {name} has a position that {name_of(fn)} does not take: got {beyond[0]} for {count} positional "
                "parameters; count from 0"
            )


def static_options(
    fn: Callable[..., Any], nums: tuple[int, ...], names: tuple[str, ...]
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return positions and names of static arguments, each parameter by both where it can be passed either way.

    Positions from the end count the function's own parameters, or where it takes any number the arguments of a call.

    Raises:
        ArgumentError: a name that is not among the parameters.
    """
    parameters = _parameters(fn)
    if parameters is None:
        return nums, names
    kinds = [p.kind for p in parameters.values()]
    missing = [n for n in names if n not in parameters]
    if missing and inspect.Parameter.VAR_KEYWORD not in kinds:
        raise ArgumentError(f"jit: static_argnames={missing[0]!r} is not an argument of {name_of(fn)}; check its name")
    places = [n for n, p in parameters.items() if p.kind in POSITIONAL]
    if inspect.Parameter.VAR_POSITIONAL not in kinds:
        nums = tuple([n % len(places) for n in nums])
    also = [places[n] for n in nums if 0 <= n < len(places) and parameters[places[n]].kind is POSITIONAL[1]]
    return (*nums, *[places.index(n) for n in names if n in places]), (*names, *also)


def leaves_of(args: tuple[Any, ...], given: tuple[int, ...]) -> list[int]:
    """Return which leaves of all arguments those of these positions hold."""
    if not given:
        return []
    ends = [0]
    for x in args:
        ends.append(ends[-1] + len(pytree.leaves(x)))
    return [k for n in given for k in range(ends[n], ends[n + 1])]
