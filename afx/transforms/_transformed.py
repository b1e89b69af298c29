"""Transformed function: what a transformation returns, a function that can be pickled and stand in a class."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from afx.transforms._arguments import name_of

__all__ = ["Transformed", "own_name", "transformed"]


class Transformed(functools.partial[Any]):
    """A function that was transformed: it can be pickled if that one can, and is a method in a class."""

    def __get__(self, instance: object, owner: type | None = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]  # partial has one from 3.14 on
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        return f"<{self.__dict__['_who']} of {name_of(self.__dict__['__wrapped__'])}>"

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Return the name, as for functions, or where another function has that name what makes it anew."""
        return own_name(self, self.__dict__["__wrapped__"]) or (self.__dict__["_make"], ())


def transformed(run: Callable[..., Any], who: str, fn: Callable[..., Any], make: functools.partial[Any]) -> Any:
    """Return ``run`` with the name and docstring of ``fn``, pickled as the call that makes it anew.

    Args:
        run: what the transformed function does.
        who: the transformation, for the repr.
        fn: the user's function.
        make: the transformation with its arguments; called, it returns such a function.
    """
    made = Transformed(run)
    functools.update_wrapper(made, fn)
    made.__dict__.update(__wrapped__=fn, _who=who, _make=make)
    return made


def own_name(self: object, fn: object) -> str | None:
    """Return the qualified name by which a decorated function is found that replaced ``fn``, None where there is none."""
    path: str = getattr(fn, "__qualname__", "")
    found: Any = sys.modules.get(getattr(fn, "__module__", ""))
    for name in path.split("."):
        found = getattr(found, name, None)
    return path if found is self else None
