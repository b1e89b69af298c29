"""Function registry: operators, methods and NumPy's protocols find their ops in it by name.

`afx.ops` fills it while it is imported, so that `core` needs no import of `ops`.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from afx.core.name_table import INTERNAL, MEMBERS, PUBLIC

if TYPE_CHECKING:
    from afx.core.array.array import Array


Function: TypeAlias = Callable[..., Any]
# the same; the first kinds tell type checkers what lambdas take
Form: TypeAlias = Callable[[Any, Any], Any] | Callable[[Any, Any, Any], Any] | Callable[..., Any]
F = TypeVar("F", bound=Function)


LAZY = {name: module for table in (PUBLIC, INTERNAL) for module, names in table.items() for name in names.split()}
PACKAGES = ("afx.ops", "afx.transforms", "afx.control")  # the folders whose modules make primitives


def find_homes(family: str) -> dict[str, str]:
    """Return the modules of a family's public names, each of which loads when the name is first asked for."""
    return {name: module for module, names in MEMBERS[family].items() for name in names.split()}


class _Functions:
    """Attributes are afx's public functions, by name."""

    def __getattr__(self, name: str) -> Callable[..., Array]:
        if name not in LAZY:
            raise AttributeError(f"afx has no function named {name}")
        module = importlib.import_module(LAZY[name])  # enters its functions here, but for second names
        function: Callable[..., Array] = vars(self).get(name) or getattr(module, name)
        return function


FUNCTIONS = _Functions()


def register_function(fn: F) -> F:
    """Enter a public function into the table under its own name, without a trailing underscore."""
    setattr(FUNCTIONS, fn.__name__.rstrip("_"), fn)
    return fn


def is_registered(name: str) -> bool:
    """Tell whether there is a function of this name."""
    return name in vars(FUNCTIONS) or name in LAZY


@functools.cache
def load_all() -> None:
    """Load every module that makes primitives, however deep its folder."""
    pkgutil = importlib.import_module("pkgutil")  # a plain import does without it
    for package in PACKAGES:
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            importlib.import_module(module.name)


def loaded_modules() -> tuple[str, ...]:
    """Return the modules loaded so far that may make primitives, those that others import first.

    A process that loads them knows every primitive of this one, in less time than it takes to load all there are.
    """
    return tuple([name for name in list(sys.modules) if name.startswith(PACKAGES)])
