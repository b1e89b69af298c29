"""Named tuples that are made in great numbers: from a plain tuple, without the call of Python that their own way takes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

__all__ = ["maker_of"]

T = TypeVar("T")


def maker_of(kind: Callable[..., T]) -> Callable[[tuple[Any, ...]], T]:
    """Return a function that makes a named tuple of this type from a tuple of all its fields.

    >>> from afx.core.tracing.source_info import SourceLocation
    >>> maker_of(SourceLocation)(("a.py", 1, "f"))
    SourceLocation(file='a.py', line=1, function='f')
    """
    make: Any = vars(tuple)["__new__"]
    return partial(make, kind)
