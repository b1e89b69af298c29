"""Names: classes and functions as ``module:name``, found on a closed list or among what the caller allowed.

Data never names code that it may run: `find_public` is the closed list, and nothing is imported on behalf of a file.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from enum import Enum
from types import FunctionType, ModuleType
from typing import Any, Final, TypeAlias

import attrs
import numpy as np

from afx.errors import FileFormatError, TreeError

Allowed: TypeAlias = "str | ModuleType | type | FunctionType"

# Packages of the closed list. A name of theirs counts where its home is one of HOMES: not what they show of others.
FACES: Final = ("afx", "afx.nn", "afx.special", "afx.linalg", "afx.fft", "afx.random", "afx.optim", "afx.integrate")
# imported for a name of theirs alone
SELDOM_FACES: Final = ("afx.distributed", "afx.interpolate", "afx.sample", "afx.stats")
HOMES: Final = (
    "afx.nn",
    "afx.ops",
    "afx.random",
    "afx.optim",
    "afx.integrate",
    "afx.interpolate",
    "afx.sample",
    "afx.stats",
    "afx.control.linear_solvers",
    "afx.control.solving",
    "afx.distributed.parts:ShardedState",
    "afx.transforms.sparse.sparse_matrix:SparseMatrix",  # whose every use checks its indices
)
ROOMS: Final = ("afx.core", "afx.ops")  # what they show is for other parts of afx
MAKERS: Final = ("afx.nn", "afx.optim", "afx.integrate", "afx.sample", "afx.stats")  # of objects that files hold
# What changes classes, prints, or hands memory of others on is no part of a model.
LEFT_OUT: Final = frozenset({"afx:from_dlpack", "afx.nn:describe", "afx.nn:layer", "afx.nn:summary"})
PLAIN_TYPES: Final = (bool, int, float, complex, str, bytes, tuple, list, dict)

_ALLOWED: dict[str, Any] = {}  # module name to None, ``module:name`` to the object


def allow(*things: Allowed) -> None:
    """Allow `load` to use these modules, classes and functions in every file that names them.

    Files name classes as ``module:name``. Public layers, optimizers and ops of afx are always allowed.

    Args:
        things: a module or its name (with all modules inside it that the program has imported), a class, or a function.

    Raises:
        TreeError: something else, or a class or function that is local to a function.

    >>> from afx import io
    >>> io.allow("fractions")
    """
    _ALLOWED.update(_entries(things))


def is_allowed(text: str) -> bool:
    """Tell whether `allow` names this class or function, or its module."""
    return not _ALLOWED.keys().isdisjoint((text, text.partition(":")[0]))


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
        module, name = _public_place(thing, module, name)
    if thing not in (_find(module, name), _find_made(module, name)):
        raise TreeError(f"save: {module} has another object of this name, {where}; give it the name it is found by")
    return f"{module}:{name}"


def _public_place(thing: Any, module: str, name: str) -> tuple[str, str]:
    """Return the package and name by which users know a part of afx, so that files outlive moves inside of it."""
    own = ".".join(module.split(".")[:2])
    own_faces = () if own in ROOMS else (own,)
    faces = [importlib.import_module(face) for face in (*own_faces, *FACES)]
    for face in faces:
        if getattr(face, name, None) is thing:
            return face.__name__, name
    made = [face.__name__ for face in faces if is_tree_class(thing) and _find_made(face.__name__, name) is thing]
    if made:
        return made[0], name
    for face in faces:  # under another name than its own, such as linalg.trace
        for other in getattr(face, "__all__", ()):
            if vars(face).get(other) is thing:
                return face.__name__, other
    return module, name


def _find_made(face: str, name: str) -> Any:
    """Return the class of trees, in a package of the closed list, that its public functions make; None without one.

    Files name it by the package, so that they outlive moves inside of it; of two classes of one name none is found. One
    that bore an underscore in earlier versions is found by that name too.
    """
    if face not in MAKERS:
        return None
    modules = [module for path, module in sys.modules.copy().items() if path.startswith(f"{face}.")]
    made = {id(vars(m)[name]): vars(m)[name] for m in modules if vars(m).get(name) is not None}
    own = [thing for thing in made.values() if is_tree_class(thing) and thing.__module__.startswith(f"{face}.")]
    return own[0] if len(own) == 1 and own[0].__qualname__ in (name, name.removeprefix("_")) else None


def _find(module: str, name: str) -> Any:
    thing = sys.modules.get(module)
    for part in name.split("."):
        thing = getattr(thing, part, None)
    return thing


# --- the closed list


def is_tree_class(thing: object) -> bool:
    """Tell whether this is a class that may stand in a tree: an attrs class, a named tuple or an enumeration."""
    if not isinstance(thing, type):
        return False
    return attrs.has(thing) or (tuple in thing.__mro__ and hasattr(thing, "_fields")) or issubclass(thing, Enum)


def public_names() -> list[str]:
    """Return the closed list: what data may name without leave, as ``module:name``, beside NumPy's ufuncs and plain types.

    These are public classes of trees and public functions of `afx.nn`, `afx.optim`, `afx.random` and `afx.integrate`, and
    the public ops. Nothing of the compiler, of transformations, of input and output, or with an underscore is among them.

    >>> "afx.nn:Linear" in public_names(), "afx:jit" in public_names()
    (True, False)
    """
    texts = [f"{face}:{name}" for face in FACES + SELDOM_FACES for name in importlib.import_module(face).__all__]
    return [text for text in texts if find_public(text) is not None]


def find_public(text: str) -> Any:
    """Return the class or function of the closed list that has this name, None where there is none.

    NumPy's ufuncs and the plain types of ``builtins`` belong to it too. Nothing beyond afx is imported.

    >>> find_public("afx.nn:relu").__name__, find_public("os:system")
    ('relu', None)
    """
    module, _, name = text.partition(":")
    if module == "numpy":
        thing = vars(np).get(name)
        return thing if isinstance(thing, np.ufunc) else None
    if module == "builtins":
        return next((plain for plain in PLAIN_TYPES if plain.__name__ == name), None)
    if module not in FACES + SELDOM_FACES or text in LEFT_OUT:
        return None
    face = importlib.import_module(module)
    if name not in face.__all__:
        return _find_made(module, name)
    thing = getattr(face, name)
    is_own = module not in SELDOM_FACES or str(getattr(thing, "__module__", "")).startswith(f"{module}.")
    return thing if is_own and _is_public(thing) else None


def _is_public(thing: Any) -> bool:
    if not (isinstance(thing, FunctionType) or is_tree_class(thing)):
        return False
    names = (f"{thing.__module__}.", f"{thing.__module__}:{thing.__qualname__}")
    return any(names[0].startswith(f"{home}.") or names[1] == home for home in HOMES)


class RefusedNameError(FileFormatError):
    """A sound file needs a class or function that this program does not allow, does not have, or has changed since."""


class AllowedNames:
    """The classes and functions that one call of `load` may use: the closed list, and what was allowed.

    Args:
        things: what is allowed, as for `allow`.
    """

    def __init__(self, things: Iterable[Allowed]) -> None:
        self.entries: dict[str, Any] = {**_ALLOWED, **_entries(things)}

    def find(self, text: object, what: str) -> Any:
        """Return the class or function of this name.

        Raises:
            FileFormatError: no name, one that is neither on the closed list nor allowed, or no such object.
        """
        thing = find_public(_check_text(text, what))
        return self.find_allowed(text, what) if thing is None else thing

    def find_allowed(self, text: object, what: str) -> Any:
        """Return the class or function of this name, which must have been allowed; raises as `find` does."""
        module, _, name = _check_text(text, what).partition(":")
        if self.entries.get(f"{module}:{name}") is not None:
            return self.entries[f"{module}:{name}"]
        if not self._is_allowed(module):
            raise RefusedNameError(
                f"load: the file names a {what} of a module that is not allowed: got {text!r}; "
                f"if you trust it, pass allow=[{name.rpartition('.')[2]}] (the {what} itself) or allow=[{module!r}]"
            )
        return self._member(module, name, what)

    def _is_allowed(self, module: str) -> bool:
        parts = module.split(".")
        return any(".".join(parts[:k]) in self.entries for k in range(1, len(parts) + 1))

    def _member(self, module: str, name: str, what: str) -> Any:
        self._import(module, name, what)
        thing = _find(module, name)
        owner = getattr(thing, "__module__", None)
        same = owner == module or (isinstance(owner, str) and module.startswith("afx") and owner.startswith("afx"))
        if thing is None or not same or getattr(thing, "__qualname__", None) != name:
            raise RefusedNameError(
                f"load: {module} defines no {what} of this name: got {name!r}; was it renamed? pass it in allow=[...] "
                "under its old name, or load with the version that saved the file"
            )
        return thing

    def _import(self, module: str, name: str, what: str) -> None:
        """Import a module that was allowed by its full name; of others inside a package, none is imported for a file."""
        if module in sys.modules:
            return
        if module not in self.entries:
            raise RefusedNameError(
                f"load: the module of a {what} is not imported: got {module!r}; import it first, or pass "
                f"allow=[{module!r}]: no file imports the modules of a package"
            )
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise RefusedNameError(
                f"load: the module of a {what} cannot be imported: got {module!r} ({error}); install it, or pass "
                f"allow=[{name.rpartition('.')[2]}] with the {what} that takes its place"
            ) from error


class ImportedNames(AllowedNames):
    """The names that messages among processes of one program may use: the closed list, and what the program imported.

    Of imported modules these are classes of trees, and functions of modules that belong to neither afx nor NumPy nor the
    standard library. Nothing is imported.
    """

    def __init__(self) -> None:
        super().__init__(())

    def _is_allowed(self, module: str) -> bool:
        return module in sys.modules and module.partition(".")[0] not in sys.stdlib_module_names

    def _member(self, module: str, name: str, what: str) -> Any:
        thing = super()._member(module, name, what)
        is_function = isinstance(thing, FunctionType) and module.partition(".")[0] not in ("afx", "numpy")
        if not (is_function or is_tree_class(thing)):
            raise FileFormatError(f"load: {module} has no {what} that a tree can hold under this name: got {name!r}")
        return thing


def _check_text(text: object, what: str) -> str:
    if not isinstance(text, str) or text.count(":") != 1:
        raise FileFormatError(f"load: a {what} without a proper name: got {text!r}; the header was changed by hand")
    return text
