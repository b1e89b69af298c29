"""The table through which operators, methods and NumPy's protocols find their ops by name.

`afx.ops` fills it while it is imported, so that `core` needs no import of `ops`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from afx.core.array import Array

__all__ = ["FUNCTIONS", "public"]

F = TypeVar("F", bound=Callable[..., Any])


class _Functions:
    """Attributes are afx's public functions, by name."""

    def __getattr__(self, name: str) -> Callable[..., Array]:
        raise AttributeError(f"afx has no function named {name}")


FUNCTIONS = _Functions()


def public(fn: F) -> F:
    """Enter a public function into the table under its own name, without a trailing underscore."""
    setattr(FUNCTIONS, fn.__name__.rstrip("_"), fn)
    return fn


def known(name: str) -> bool:
    """Tell whether a function of this name has been entered."""
    return name in vars(FUNCTIONS)
