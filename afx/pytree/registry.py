"""Type registry: each type is a leaf, part of the structure, a node, or refused with a reason and a remedy."""

import importlib
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from functools import cache
from types import NoneType
from typing import Any, Final, Literal, TypeAlias, cast

import numpy as np

from afx.errors import TreeError
from afx.pytree.nodes import Marked, Node, class_opener, dict_node, named_tuple_node, sequence_node
from afx.pytree.static import is_attrs_class

__all__ = [
    "INSIDE",
    "IS_INSTANCE",
    "IS_LEAF",
    "IS_MARKED",
    "IS_STATIC",
    "IS_TABLE",
    "OUTSIDE",
    "Mode",
    "Opener",
    "RefusedError",
    "is_table",
    "learn",
    "table_values",
]


class Role(Enum):
    """What a value is that does not open into children at once."""

    LEAF = "a leaf"
    STATIC = "part of the structure by nature"
    MARKED = "part of the structure by a mark on its field"
    INSTANCE = "an instance of an attrs class, met outside of one"
    TABLE = "a leaf that counts as its values"


IS_LEAF: Final = Role.LEAF
IS_STATIC: Final = Role.STATIC
IS_MARKED: Final = Role.MARKED
IS_INSTANCE: Final = Role.INSTANCE
IS_TABLE: Final = Role.TABLE

Opener: TypeAlias = Callable[[Any], tuple[Node, Sequence[object]]]
Kind: TypeAlias = "Literal[Role.LEAF, Role.STATIC, Role.MARKED, Role.INSTANCE, Role.TABLE] | Opener"


class RefusedError(Exception):
    """A type that cannot stand in a tree: what is wrong with it, and the remedy."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason, remedy)
        self.reason = reason
        self.remedy = remedy


class Mode:
    """What each type met so far is, outside or inside of attrs classes; the two differ in ints and bools."""

    __slots__ = ("all_leaves", "kinds", "leaf_types", "number")

    def __init__(self, number: "Literal[Role.LEAF, Role.STATIC]") -> None:
        self.number = number
        self.kinds: dict[type, Kind] = {
            tuple: lambda value: (sequence_node(tuple, len(value)), value),
            list: lambda value: (sequence_node(list, len(value)), value),
            dict: _open_dict,
            NoneType: IS_STATIC,
            Marked: IS_MARKED,
        }
        self.leaf_types: set[type] = set()
        self.all_leaves: Callable[[Iterable[object]], bool] = self.leaf_types.issuperset
        for cls in (float, complex, int, bool, np.ndarray):
            learn(cls, self)


def learn(cls: type, mode: Mode) -> Kind:
    """Find out what a type is and note it.

    Raises:
        RefusedError: the type cannot stand in a tree.
    """
    kind = mode.kinds[cls] = _kind(cls, mode)
    if kind is IS_LEAF:
        mode.leaf_types.add(cls)
    return kind


def _kind(cls: type, mode: Mode) -> Kind:
    """Say what a type is."""
    if getattr(cls, "__afx_leaf__", False) is True:
        return IS_LEAF
    if _is_a(cls, Enum, str, bytes, type, np.dtype):
        return IS_STATIC
    if _is_a(cls, float, complex, np.ndarray, np.generic):
        return IS_LEAF
    if _is_a(cls, int):
        return mode.number
    if is_attrs_class(cls):
        _refuse_unfit(cls)
        return IS_INSTANCE if mode is OUTSIDE else class_opener(cls)
    if getattr(getattr(cls, "__dataclass_params__", None), "frozen", False):
        return IS_INSTANCE if mode is OUTSIDE else class_opener(cls)
    if _is_a(cls, tuple) and hasattr(cls, "_fields"):
        return _named_tuple_opener(cls)
    if is_table(cls):
        return IS_TABLE
    _refuse_container(cls)
    if _is_a(cls, Callable):
        return IS_STATIC
    raise RefusedError("a value that is neither a tree nor a leaf", _remedy(cls))


def _is_a(cls: type, *bases: object) -> bool:
    """Tell whether a class derives from one of the bases, which may be abstract."""
    return issubclass(cls, cast("tuple[type, ...]", bases))


# --- openers


def _open_dict(value: dict[object, object]) -> tuple[Node, Sequence[object]]:
    node = dict_node(tuple(value))
    return node, [value[key] for key in node.keys]


def _named_tuple_opener(cls: type) -> Opener:
    node = named_tuple_node(cls)
    return lambda value: (node, value)


# --- refusals


@cache
def _frozen_setattr() -> object:
    """Give the `__setattr__` that attrs puts on every frozen class, its own sign of one."""
    frozen: type = importlib.import_module("attrs").make_class("Frozen", (), frozen=True)
    return frozen.__setattr__


def _refuse_unfit(cls: type) -> None:
    """Refuse attrs classes that can change, and those with state beside their fields."""
    if cls.__setattr__ is not _frozen_setattr():
        raise RefusedError(
            "an attrs class that is not frozen, which would be shared and changed behind a transformation's back",
            f"decorate {cls.__name__} with @attrs.frozen",
        )
    try:
        object.__new__(cls)
    except TypeError:
        raise RefusedError(
            "an attrs class built on a built-in type, whose contents are no fields",
            f"derive {cls.__name__} from attrs classes only",
        ) from None


def _refuse_container(cls: type) -> None:
    """Refuse subclasses of containers, which a plain container cannot replace."""
    for plain in (tuple, list, dict):
        if _is_a(cls, plain):
            raise RefusedError(
                f"a subclass of {plain.__name__}, which may hold more than its items",
                f"pass a plain {plain.__name__}, register the class with afx.pytree.register, or write it with @attrs.frozen",
            )
    if hasattr(cls, "__dataclass_fields__"):
        raise RefusedError(
            "a dataclass that is not frozen, which would be shared and changed behind a transformation's back",
            f"decorate {cls.__name__} with @dataclass(frozen=True)",
        )


def _remedy(cls: type) -> str:
    """Say what to do about a type that is not known."""
    if hasattr(cls, "__array__") or hasattr(cls, "__dlpack__"):
        return "convert it with afx.asarray"
    if _is_a(cls, set, frozenset):
        return "use a tuple or a dict, whose items have an order, or mark its field with afx.static()"
    return f"mark its field with afx.static(), or write {cls.__name__} as an @attrs.frozen class"


OUTSIDE: Final = Mode(IS_LEAF)
INSIDE: Final = Mode(IS_STATIC)


# --- tables

TABLES: Final = ("DataFrame", "Index", "Series")  # of pandas, which is never imported
_known: dict[type, bool] = {}


def is_table(cls: type) -> bool:
    """Tell whether a class is one of pandas' tables, or derives from one."""
    found = _known.get(cls)
    if found is None:
        own = [base for base in cls.__mro__ if base.__module__.partition(".")[0] == "pandas"]
        found = _known[cls] = any(base.__name__ in TABLES for base in own)
    return found


def table_values(table: Any) -> "np.ndarray[Any, Any]":
    """Return a table's numbers, missing ones as nan; columns of several dtypes in the one that holds them all.

    Raises:
        TreeError: it holds what is no number, such as text or dates.
    """
    values = table.to_numpy()
    if values.dtype.kind == "O":  # nullable dtypes, or text
        try:
            values = table.to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError):
            raise _no_numbers(table) from None
    if values.dtype.kind not in "biufc":
        raise _no_numbers(table)
    return np.asarray(values)


def _no_numbers(table: Any) -> TreeError:
    kind = type(table).__name__
    dtypes = getattr(table, "dtypes", None)
    if kind == "DataFrame" and dtypes is not None:
        other = [str(name) for name, dtype in dtypes.items() if getattr(dtype, "kind", "O") not in "biufc"]
        return TreeError(
            f"{kind}: columns of other things than numbers: got {', '.join(other)}; leave them out, or code them"
        )
    return TreeError(
        f"{kind}: holds other things than numbers: got {table.dtype}; code them as numbers, such as .cat.codes"
    )
