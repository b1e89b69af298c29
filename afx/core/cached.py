"""Cached attributes and named tuples: small classes whose making and reading take next to no time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar, overload

# --- Cached attributes: computed when first read, then kept with the object, without a lock
#
# `functools.cached_property` of Python 3.11 holds one lock for all objects of a class while it computes: threads wait
# for each other's, and a process that is forked off meanwhile waits for ever.

O = TypeVar("O")  # noqa: E741  # the object's type
T = TypeVar("T")


class Cached(Generic[O, T]):
    """An attribute that a method computes once; two threads that read it first may both compute it.

    >>> class Circle:
    ...     @Cached
    ...     def area(self) -> float:
    ...         return 3.14
    >>> Circle().area
    3.14
    """

    def __init__(self, make: Callable[[O], T]) -> None:
        self._make = make
        self._name = make.__name__
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, owner: None, kind: type[O]) -> Cached[O, T]: ...
    @overload
    def __get__(self, owner: O, kind: type[O] | None = None) -> T: ...
    def __get__(self, owner: Any, kind: type[O] | None = None) -> Any:
        """Return the value, computed where the object has none yet."""
        if owner is None:
            return self
        made = self._make(owner)
        owner.__dict__[self._name] = made
        return made


# --- Named tuples that are made in great numbers: from a plain tuple, without the call of Python that their own way
# takes


def maker_of(kind: Callable[..., T]) -> Callable[[tuple[Any, ...]], T]:
    """Return a function that makes a named tuple of this type from a tuple of all its fields.

    >>> from afx.core.tracing.tracer import SourceLocation
    >>> maker_of(SourceLocation)(("a.py", 1, "f"))
    SourceLocation(file='a.py', line=1, function='f')
    """
    return partial(vars(tuple)["__new__"], kind)
