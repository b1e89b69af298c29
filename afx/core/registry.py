"""The table through which operators, methods and NumPy's protocols find their ops by name.

`afx.ops` fills it while it is imported, so that `core` needs no import of `ops`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from afx.core.array.array import Array

__all__ = ["FUNCTIONS", "register_function"]

F = TypeVar("F", bound=Callable[..., Any])


FAMILIES: list[str] = []  # modules that load when they are first needed
LAZY: dict[str, str] = {}  # functions of families that load when one of their names is first asked for: name to module


class _Functions:
    """Attributes are afx's public functions, by name."""

    def __getattr__(self, name: str) -> Callable[..., Array]:
        if name not in LAZY:
            raise AttributeError(f"afx has no function named {name}")
        module = importlib.import_module(LAZY[name])  # enters its functions here, but for second names
        found: Callable[..., Array] = vars(self).get(name) or getattr(module, name)
        return found


FUNCTIONS = _Functions()


def register_function(fn: F) -> F:
    """Enter a public function into the table under its own name, without a trailing underscore."""
    setattr(FUNCTIONS, fn.__name__.rstrip("_"), fn)
    return fn


def is_registered(name: str) -> bool:
    """Tell whether there is a function of this name."""
    return name in vars(FUNCTIONS) or name in LAZY


def load_all() -> None:
    """Load every family that has not been asked for yet."""
    for module in FAMILIES:
        importlib.import_module(module)
