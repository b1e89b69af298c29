"""Names: classes and functions as ``module:name``, looked up among the modules that are allowed."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from types import FunctionType, ModuleType
from typing import Any, Final, TypeAlias

import numpy as np

from afx.errors import FileFormatError, TreeError

__all__ = ["Allowed", "Names", "allow", "name_of"]

Allowed: TypeAlias = "str | ModuleType | type | FunctionType"

FACES: Final = ("afx", "afx.nn", "afx.special", "afx.linalg", "afx.fft", "afx.random", "afx.optim")
PLAIN_TYPES: Final = (bool, int, float, complex, str, bytes, tuple, list, dict)

_ALLOWED: dict[str, Any] = {}  # module name to None, ``module:name`` to the object


def allow(*things: Allowed) -> None:
    """Allow `load` to use these modules, classes and functions in every file that names them.

    Files name classes as ``module:name``. Those of afx and of the running script (``__main__``) are always allowed.

    Args:
        things: a module or its name (with all modules inside it), a class, or a function.

    Raises:
        TreeError: something else, or a class or function that is local to a function.

    >>> from afx import io
    >>> io.allow("fractions")
    """
    _ALLOWED.update(_entries(things))


def _entries(things: Iterable[Allowed]) -> dict[str, Any]:
    entries: dict[str, Any] = {}
    for thing in things:
        if isinstance(thing, str):
            entries[thing] = None
        elif isinstance(thing, ModuleType):
            entries[thing.__name__] = None
        elif callable(thing):
            entries[f"{thing.__module__}:{thing.__qualname__}"] = thing
        else:
            raise TreeError(f"allow: takes modules, classes and functions: got {thing!r}; give the class itself")
    return entries


def name_of(thing: Any, path: str) -> str:
    """Return the name by which a class or function is found again.

    Raises:
        TreeError: it is local to a function, a lambda, or not found under its name.
    """
    where = f"at {path or 'the top'}: got {getattr(thing, '__qualname__', thing)!r}"
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    if isinstance(thing, np.ufunc):
        module, name = "numpy", str(getattr(thing, "__name__", ""))
    if not isinstance(module, str) or not isinstance(name, str):
        raise TreeError(f"save: a value without a name, {where}; use a named function or class of a module")
    if "<" in name:
        raise TreeError(
            f"save: a lambda, or a function or class that is local to a function, {where}; "
            "define it at the top level of a module"
        )
    if module.partition(".")[0] == "afx":
        module = _public_module(thing, module, name)
    if _find(module, name) is not thing:
        raise TreeError(f"save: {module} has another object of this name, {where}; give it the name it is found by")
    return f"{module}:{name}"


def _public_module(thing: Any, module: str, name: str) -> str:
    """Return the package under whose name users know a part of afx, so that files outlive moves inside of it."""
    for face in (".".join(module.split(".")[:2]), *FACES):
        if getattr(importlib.import_module(face), name, None) is thing:
            return face
    return module


def _find(module: str, name: str) -> Any:
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


class Names:
    """The classes and functions that one call of `load` may use."""

    def __init__(self, things: Iterable[Allowed]) -> None:
        self._entries = {**_ALLOWED, **_entries(things)}

    def find(self, text: object, what: str) -> Any:
        """Return the class or function of this name.

        Raises:
            FileFormatError: no name, a module that is not allowed, or no such object there.
        """
        if not isinstance(text, str) or text.count(":") != 1:
            raise FileFormatError(f"load: a {what} without a proper name: got {text!r}; the header was changed by hand")
        if self._entries.get(text) is not None:
            return self._entries[text]
        module, _, name = text.partition(":")
        if module == "numpy" and isinstance(found := getattr(np, name, None), np.ufunc):
            return found
        if module == "builtins":
            return self._plain_type(name)
        if not self._is_allowed(module):
            raise FileFormatError(
                f"load: the file names a {what} of a module that is not allowed: got {text!r}; "
                f"if you trust it, pass allow=[{name.rpartition('.')[2]}] (the {what} itself) or allow=[{module!r}]"
            )
        return self._member(module, name, what)

    def _is_allowed(self, module: str) -> bool:
        parts = module.split(".")
        return parts[0] in ("afx", "__main__") or any(
            ".".join(parts[:k]) in self._entries for k in range(1, len(parts) + 1)
        )

    def _plain_type(self, name: str) -> type:
        for plain in PLAIN_TYPES:
            if plain.__name__ == name:
                return plain
        raise FileFormatError(f"load: builtins:{name} is not allowed: got a name outside of the plain types; {_FORGED}")

    def _member(self, module: str, name: str, what: str) -> Any:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise FileFormatError(
                f"load: the module of a {what} cannot be imported: got {module!r} ({error}); install it, or pass "
                f"allow=[{name.rpartition('.')[2]}] with the {what} that takes its place"
            ) from error
        found = _find(module, name)
        owner = getattr(found, "__module__", None)
        same = owner == module or (isinstance(owner, str) and module.startswith("afx") and owner.startswith("afx"))
        if found is None or not same or getattr(found, "__qualname__", None) != name:
            raise FileFormatError(
                f"load: {module} defines no {what} of this name: got {name!r}; was it renamed? pass it in allow=[...] "
                "under its old name, or load with the version that saved the file"
            )
        return found


_FORGED = "the header was changed by hand"
