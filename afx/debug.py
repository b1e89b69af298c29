"""Debugging: prints and callbacks inside of compiled, mapped and differentiated programs, profiles, whole tracebacks."""

from __future__ import annotations

import builtins
from typing import Any

from afx.errors import ArgumentError
from afx.ops.callback import callback
from afx.tracebacks import show_whole_tracebacks
from afx.transforms.compile.profile import LineTime, Profile, profile

__all__ = ["LineTime", "Profile", "callback", "print", "profile", "show_whole_tracebacks"]


def print(template: str, *args: Any, **kwargs: Any) -> None:
    """Print values each time the program comes by, traced or not; see `callback`.

    Args:
        template: text with fields, as of `str.format`.
        *args: arrays, numbers, or trees of them, for the fields.
        **kwargs: likewise, for fields with names.

    Raises:
        ArgumentError: the template's fields do not fit the values.

    >>> import afx
    >>> @afx.jit
    ... def half(x):
    ...     afx.debug.print("x is {:.2f}, its square {y}", x, y=x * x)
    ...     return x / 2
    >>> half(3.0)
    x is 3.00, its square 9.0
    Array(1.5, dtype=float32)
    """
    if not isinstance(template, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # users' mistakes
        raise ArgumentError(f"debug.print: the first argument is a template: got {template!r}; write '{{}}'")

    def show(*values: Any, **named: Any) -> None:
        builtins.print(template.format(*values, **named), flush=True)  # noqa: T201  # what it is for

    try:
        template.format(*[_Any()] * len(args), **dict.fromkeys(kwargs, _Any()))
    except (IndexError, KeyError, ValueError) as error:
        raise ArgumentError(
            f"debug.print: the template's fields do not fit the values: got {template!r} for {len(args)} values and "
            f"{sorted(kwargs)} ({error}); give one value for each field"
        ) from None
    callback(show, *args, **kwargs)


class _Any:
    """What stands for any value while a template is tried."""

    def __format__(self, spec: str) -> str:
        return ""

    def __getattr__(self, name: str) -> _Any:
        return self

    def __getitem__(self, key: object) -> _Any:
        return self
