"""Nodes: which types are nodes of trees, and the children and the rebuilding of one level."""

import importlib
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from functools import cache
from operator import attrgetter, itemgetter
from types import MemberDescriptorType, NoneType
from typing import Any, ClassVar, Final, Literal, TypeAlias, TypeVar, cast

import numpy as np

from afx.errors import TreeError
from afx.pytree.static import fields_of, is_attrs_class, is_non_trainable, is_static

# --- Nodes: the children and the rebuilding of one level of a tree
#
# A structure is written as *tokens* in preorder. A token is one of
# - a `Node`, followed by the tokens of its children;
# - a *flat* `Node`, all of whose children are leaves: these have no tokens of their own;
# - `LEAF`;
# - a static token, the tuple ``(exact type, value)``.
# Tokens hash and compare without recursion, however deep the tree.


class LeafToken:
    """The type of `LEAF`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "*"

    def __reduce__(self) -> str:
        return "LEAF"


LEAF: Final = LeafToken()
NOTHING: Final = (type(None), None)  # the token of each None
MARKING_NODES: set[object] = set()  # the nodes of classes with fields that `non_trainable` marks


Build: TypeAlias = Callable[[Sequence[object]], object]


class Node:
    """One level of a tree: how many children it has, and `build`, which makes the value from the list of them."""

    __slots__ = ("arity", "build", "flat", "is_flat")

    arity: int
    build: Build
    flat: "Node"  # of a node that is not flat: the same node when all of its children are leaves
    is_flat: bool

    @abstractmethod
    def steps(self) -> Iterable[str]:
        """Give the key path of each child."""

    @abstractmethod
    def show(self, children: Sequence[str]) -> str:
        """Write the node around its children."""

    def marks(self, marked: bool) -> Sequence[bool]:
        """Tell of each child whether a field marked with `non_trainable` holds it; `marked`, whether one holds the node."""
        return [marked] * self.arity


Token: TypeAlias = "Node | LeafToken | tuple[object, object]"


class SequenceNode(Node):
    """A tuple or a list of a certain length."""

    __slots__ = ("kind",)

    def __init__(self, kind: "type[tuple[object, ...]] | type[list[object]]", arity: int, is_flat: bool) -> None:
        self.kind: type[tuple[object, ...]] | type[list[object]] = kind
        self.arity: int = arity
        self.build: Build = kind
        self.is_flat: bool = is_flat
        if not is_flat:
            self.flat: Node = SequenceNode(kind, arity, True)

    def steps(self) -> Iterable[str]:
        """Give ``[0]``, ``[1]`` …."""
        return (f"[{index}]" for index in range(self.arity))

    def show(self, children: Sequence[str]) -> str:
        """Write a tuple or list display."""
        text = ", ".join(children)
        if self.kind is list:
            return f"[{text}]"
        return f"({text},)" if self.arity == 1 else f"({text})"

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (sequence_node, (self.kind, self.arity), self.is_flat)


class RecordNode(Node):
    """An attrs class or a named tuple."""

    __slots__ = ("kind", "names", "non_trainable")

    def __init__(
        self,
        kind: type,
        names: tuple[str, ...],
        build: Build,
        is_flat: bool = False,
        non_trainable: tuple[bool, ...] = (),
    ) -> None:
        self.kind: type = kind
        self.names: tuple[str, ...] = names
        self.arity: int = len(names)
        self.build: Build = build
        self.is_flat: bool = is_flat
        self.non_trainable: tuple[bool, ...] = non_trainable
        if any(non_trainable):
            MARKING_NODES.add(self)
        if not is_flat:
            self.flat: Node = RecordNode(kind, names, build, True, non_trainable)

    def steps(self) -> Iterable[str]:
        """Give ``.weight``, ``.bias`` …."""
        return (f".{name}" for name in self.names)

    def show(self, children: Sequence[str]) -> str:
        """Write the class as it is called."""
        pairs = zip(self.names, children, strict=True)
        return f"{self.kind.__name__}({', '.join(f'{name}={child}' for name, child in pairs)})"

    def marks(self, marked: bool) -> Sequence[bool]:
        """Tell of each field whether it, or a field around the instance, is marked."""
        return self.non_trainable if self.non_trainable and not marked else [marked] * self.arity

    def __reduce__(self) -> tuple[object, ...]:
        cls: type[object] = self.kind
        make = named_tuple_node if issubclass(cls, tuple) else class_node
        return _restored, (make, (self.kind,), self.is_flat)


class DictNode(Node):
    """A dict with certain keys; `order` is that of their insertion, `keys` the sorted one, in which children stand."""

    __slots__ = ("_exact", "_hash", "keys", "order")

    def __init__(self, order: tuple[object, ...], is_flat: bool = False) -> None:
        self.order: tuple[object, ...] = order
        self.keys: tuple[object, ...] = sorted_keys(order)
        self.arity: int = len(order)
        self.build: Build = _dict_builder(self.keys, order)
        self._exact = tuple(map(_exact, self.keys))
        self._hash = hash((self._exact, self.keys, is_flat))
        self.is_flat: bool = is_flat
        if not is_flat:
            self.flat: Node = DictNode(order, True)

    def steps(self) -> Iterable[str]:
        """Give ``['w']``, ``['b']`` …."""
        return (f"[{key!r}]" for key in self.keys)

    def show(self, children: Sequence[str]) -> str:
        """Write a dict display."""
        return f"{{{', '.join(f'{key!r}: {child}' for key, child in zip(self.keys, children, strict=True))}}}"

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DictNode):
            return NotImplemented
        return (self.is_flat, self._exact, self.keys) == (other.is_flat, other._exact, other.keys)

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (dict_node, (self.order,), self.is_flat)


class CustomNode(Node):
    """A registered container: its structure is what its own function gives beside the children."""

    __slots__ = ("_exact", "kind", "structure")
    builders: ClassVar[dict[type, Callable[[Any, list[Any]], Any]]] = {}

    def __init__(self, kind: type, structure: object, arity: int, is_flat: bool = False) -> None:
        self.kind: type = kind
        self.structure: object = structure
        self.arity: int = arity
        make = self.builders[kind]
        self.build: Build = lambda children: make(structure, list(children))
        self._exact = (kind, static_token(structure), arity)
        self.is_flat: bool = is_flat
        if not is_flat:
            self.flat: Node = CustomNode(kind, structure, arity, True)

    def steps(self) -> Iterable[str]:
        """Give the keys of a mapping, else ``[0]``, ``[1]`` …."""
        keys = cast("Sequence[object]", self.structure)
        named = isinstance(keys, tuple) and len(keys) == self.arity
        return (f"[{key!r}]" for key in (keys if named else range(self.arity)))

    def show(self, children: Sequence[str]) -> str:
        """Write the class around its children."""
        return f"{self.kind.__name__}({', '.join(children)})"

    def __hash__(self) -> int:
        return hash((self._exact, self.is_flat))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CustomNode):
            return NotImplemented
        return self.is_flat == other.is_flat and self._exact == other._exact

    def __reduce__(self) -> tuple[object, ...]:
        return CustomNode, (self.kind, self.structure, self.arity, self.is_flat)


def is_unique(token: Token) -> bool:
    """Tell whether equal tokens are, most of the time, the same object."""
    return token is LEAF or token is NOTHING or isinstance(token, SequenceNode | RecordNode | DictNode)


def _restored(make: Callable[..., Node], arguments: tuple[object, ...], is_flat: bool) -> Node:
    """Find the node again that was pickled."""
    node = make(*arguments)
    return node.flat if is_flat else node


# --- tuples and lists

_TUPLES: dict[int, SequenceNode] = {}
_LISTS: dict[int, SequenceNode] = {}


def sequence_node(kind: "type[tuple[object, ...]] | type[list[object]]", length: int) -> Node:
    """Give the one node of tuples or lists of that length."""
    known = _TUPLES if kind is tuple else _LISTS
    return known.get(length) or known.setdefault(length, SequenceNode(kind, length, is_flat=False))


# --- classes

_RECORDS: dict[type, RecordNode] = {}


def named_tuple_node(cls: type) -> RecordNode:
    """Give the one node of a named tuple's class."""
    names = cast("tuple[str, ...]", getattr(cls, "_fields"))  # noqa: B009 - the type of a class has no such attribute
    return _RECORDS.get(cls) or _RECORDS.setdefault(cls, RecordNode(cls, names, getattr(cls, "_make")))  # noqa: B009 - as above


_NO_NAMES: "tuple[frozenset[str], frozenset[str]]" = (frozenset(), frozenset())
_MARKED_NAMES: "dict[type, tuple[frozenset[str], frozenset[str]]]" = {}


def declare_record(cls: type, static: "frozenset[str]", non_trainable: "frozenset[str]") -> None:
    """Note which fields of a class are marked from outside, and forget its node."""
    _MARKED_NAMES[cls] = (static, non_trainable)
    _RECORDS.pop(cls, None)


def class_node(cls: type) -> RecordNode:
    """Give the one node of a frozen attrs class."""
    known = _RECORDS.get(cls)
    if known is None:
        fields = fields_of(cls)
        names = tuple(field.name for field in fields)
        named = _MARKED_NAMES.get(cls, _NO_NAMES)[1]
        marks = tuple(is_non_trainable(field) or field.name in named for field in fields)
        known = _RECORDS.setdefault(cls, RecordNode(cls, names, _class_builder(cls, names), non_trainable=marks))
    return known


def _class_builder(cls: type, names: tuple[str, ...]) -> Callable[[Sequence[object]], object]:
    """Make the function that builds an instance without `__init__`, converters and validators."""
    new = cast("Callable[[type], object]", object.__new__)
    put = [slot_setter(cls, name) for name in names]
    if "_attrs_cached_hash" in getattr(getattr(cls.__hash__, "__code__", None), "co_names", ()):
        forget = slot_setter(cls, "_attrs_cached_hash")
    else:
        forget = None

    def build(values: Sequence[object]) -> object:
        made = new(cls)
        for setter, value in zip(put, values):  # noqa: B905 - hot, and as long as each other
            setter(made, value)
        if forget is not None:
            forget(made, None)
        return made

    return build


def slot_setter(cls: type, name: str) -> Callable[[object, object], None]:
    """Give the quickest way past a frozen `__setattr__`: the slot's own setter, if there is a slot."""
    slot = getattr(cls, name, None)
    if isinstance(slot, MemberDescriptorType):
        return slot.__set__
    put = object.__setattr__
    return lambda instance, value: put(instance, name, value)


def class_opener(cls: type) -> Callable[[object], tuple[Node, Sequence[object]]]:
    """Make the function that takes an instance of a frozen attrs class apart."""
    node = class_node(cls)
    values = _values_getter(node.names)
    named = _MARKED_NAMES.get(cls, _NO_NAMES)[0]
    marked = [k for k, field in enumerate(fields_of(cls)) if is_static(field) or field.name in named]

    def open_plain(instance: object) -> tuple[Node, Sequence[object]]:
        return node, values(instance)

    def open_marked(instance: object) -> tuple[Node, Sequence[object]]:
        children = list(values(instance))
        for index in marked:
            children[index] = Marked(children[index])
        return node, children

    return open_marked if marked else open_plain


def _values_getter(names: tuple[str, ...]) -> Callable[[object], tuple[object, ...]]:
    """Make the function that reads all fields."""
    if len(names) > 1:
        return attrgetter(*names)
    if not names:
        return lambda _: ()
    only: attrgetter[object] = attrgetter(names[0])
    return lambda instance: (only(instance),)


class Marked:
    """The value of a field that `static` marks, on its way to becoming a static token."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value: object = value


# --- dicts

_DICTS: dict[tuple[object, ...], DictNode] = {}
_MOST_DICTS = 4096  # keys are data at times, such as step numbers: the table must not grow without end


def dict_node(order: tuple[object, ...]) -> DictNode:
    """Give the node of dicts with these keys in this order."""
    exact = (*order, *map(type, order))
    known = _DICTS.get(exact)
    if known is None:
        if len(_DICTS) >= _MOST_DICTS:
            _DICTS.clear()
        known = _DICTS.setdefault(exact, DictNode(order))
    return known


def sorted_keys(keys: tuple[object, ...]) -> tuple[object, ...]:
    """Sort keys; those that do not compare, by type and text."""
    try:
        return tuple(sorted(cast("tuple[str, ...]", keys)))
    except TypeError:
        return tuple(sorted(keys, key=lambda key: (type(key).__module__, type(key).__qualname__, repr(key))))


def _dict_builder(keys: tuple[object, ...], order: tuple[object, ...]) -> Callable[[Sequence[object]], object]:
    """Make the function that builds a dict in the order of insertion from values in the order of `keys`."""
    if keys == order:
        return lambda values: dict(zip(keys, values))  # noqa: B905 - hot, and as long as each other
    at = {key: index for index, key in enumerate(keys)}
    pick = itemgetter(*(at[key] for key in order))
    return lambda values: dict(zip(order, cast("tuple[object, ...]", pick(values))))  # noqa: B905 - hot, as above


# --- static values


def static_token(value: object) -> tuple[object, object]:
    """Give the token of a value that is part of the structure.

    Raises:
        TypeError: the value does not hash.
    """
    token = (_exact(value), value)
    hash(token)
    return token


def _exact(value: object) -> object:
    """Give what must be equal, beside the values, of two static values: the types, and the signs of zeros."""
    kind = type(value)
    if kind is float or kind is complex:
        return kind, repr(value)
    if kind is tuple:
        return kind, tuple(map(_exact, cast("tuple[object, ...]", value)))
    if kind is frozenset:
        return kind, frozenset(map(_exact, cast("frozenset[object]", value)))
    fields = getattr(kind, "__attrs_attrs__", None) or getattr(kind, "__dataclass_fields__", None)
    if fields is not None:
        names: list[str] = [field if isinstance(field, str) else field.name for field in fields]
        return kind, tuple([_exact(getattr(value, name, None)) for name in names])
    return kind


# --- Type registry: each type is a leaf, part of the structure, a node, or refused with a reason and a remedy


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


def sort_dicts(are_sorted: bool) -> None:
    """Let trees that are put together have dicts in the order of their keys, as JAX's, or in that of insertion again."""
    OUTSIDE.kinds[dict] = INSIDE.kinds[dict] = (
        (lambda value: _open_dict(dict.fromkeys(sorted_keys(tuple(value))) | value)) if are_sorted else _open_dict
    )


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
    other = f"mark its field with afx.static(), or write {cls.__name__} as an @attrs.frozen class"
    return str(getattr(cls, "__afx_remedy__", other))


OUTSIDE: Final = Mode(IS_LEAF)
INSIDE: Final = Mode(IS_STATIC)


# --- tables

TABLES: Final = ("DataFrame", "Index", "Series")  # of pandas, which is never imported
_known: dict[type, bool] = {}


def is_table(cls: type) -> bool:
    """Tell whether a class is one of pandas' tables, or derives from one."""
    is_known = _known.get(cls)
    if is_known is None:
        own = [base for base in cls.__mro__ if base.__module__.partition(".")[0] == "pandas"]
        is_known = _known[cls] = any(base.__name__ in TABLES for base in own)
    return is_known


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


# --- Registration: containers and dataclasses of one's own as trees

C = TypeVar("C")


def register(
    cls: type[C], flatten: Callable[[C], tuple[Sequence[Any], Any]], unflatten: Callable[[Any, list[Any]], C]
) -> None:
    """Make a container a tree.

    Args:
        cls: the class; subclasses are not registered with it.
        flatten: takes a container apart into its children and the rest, its structure, which must hash.
        unflatten: makes a container of a structure and children, which may be of any kind.

    Raises:
        TreeError: what is given is no class.

    >>> from afx import pytree
    >>> class Pair:
    ...     def __init__(self, x, y): self.x, self.y = x, y
    >>> pytree.register(Pair, lambda pair: ((pair.x, pair.y), None), lambda _, children: Pair(*children))
    >>> pytree.leaves({"p": Pair(1.0, [2.0])})
    [1.0, 2.0]
    """
    if not isinstance(cls, type):  # pyright: ignore[reportUnnecessaryIsInstance]  # users' mistakes
        raise TreeError(f"register: needs a class: got {cls!r}; pass the class itself")

    def open_container(value: C) -> tuple[CustomNode, Sequence[object]]:
        children, structure = flatten(value)
        return CustomNode(cls, structure, len(children)), children

    CustomNode.builders[cls] = unflatten
    for mode in (OUTSIDE, INSIDE):
        mode.kinds[cls] = open_container


def register_dataclass(cls: type[C], *, static: Iterable[str] = (), non_trainable: Iterable[str] = ()) -> type[C]:
    """Make a dataclass a tree, and return it, with some of its fields marked.

    Frozen dataclasses are trees without it; `static` and `non_trainable` mark fields as the functions of these names do
    in attrs classes. Instances are built without ``__init__``.

    Args:
        cls: a dataclass.
        static: the names of fields that are part of the structure.
        non_trainable: the names of fields that are not trained.

    Raises:
        TreeError: what is given is no dataclass, or has no such field.

    >>> import dataclasses
    >>> from afx import pytree
    >>> @dataclasses.dataclass(frozen=True)
    ... class Line:
    ...     slope: float
    ...     label: object
    >>> Line = pytree.register_dataclass(Line, static=["label"])
    >>> pytree.flatten(Line(2.0, 0.5))
    ([2.0], Line(slope=*, label=0.5))
    """
    if not (isinstance(cls, type) and hasattr(cls, "__dataclass_fields__")):  # pyright: ignore[reportUnnecessaryIsInstance]  # users' mistakes
        raise TreeError(f"register_dataclass: needs a dataclass: got {cls!r}; decorate it with @dataclass(frozen=True)")
    names = {field.name for field in fields_of(cls)}
    marked = (frozenset(static), frozenset(non_trainable))
    if missing := sorted((marked[0] | marked[1]) - names):
        raise TreeError(
            f"register_dataclass: {cls.__name__} has no such field: got {missing}; name one of {sorted(names)}"
        )
    declare_record(cls, *marked)
    OUTSIDE.kinds[cls] = IS_INSTANCE
    INSIDE.kinds[cls] = class_opener(cls)
    return cls


register(
    OrderedDict,
    lambda value: (list(value.values()), tuple(value)),
    lambda keys, children: OrderedDict(zip(keys, children, strict=True)),
)
