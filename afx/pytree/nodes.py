"""Nodes: the children and the rebuilding of one level of a tree.

A structure is written as *tokens* in preorder. A token is one of
- a `Node`, followed by the tokens of its children;
- a *flat* `Node`, all of whose children are leaves: these have no tokens of their own;
- `LEAF`;
- a static token, the tuple ``(exact type, value)``.
Tokens hash and compare without recursion, however deep the tree.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter, itemgetter
from types import MemberDescriptorType
from typing import Any, ClassVar, Final, TypeAlias, cast

from afx.pytree.static import fields_of, is_non_trainable, is_static

__all__ = [
    "LEAF",
    "MARKING_NODES",
    "NOTHING",
    "CustomNode",
    "DictNode",
    "Marked",
    "Node",
    "RecordNode",
    "SequenceNode",
    "Token",
    "class_node",
    "class_opener",
    "declare_record",
    "dict_node",
    "is_unique",
    "named_tuple_node",
    "sequence_node",
    "slot_setter",
    "static_token",
]


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
        inside = ", ".join(children)
        if self.kind is list:
            return f"[{inside}]"
        return f"({inside},)" if self.arity == 1 else f"({inside})"

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
        self._exact = tuple(_exact(key) for key in self.keys)
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
    put: list[Callable[[object, object], None]] = [slot_setter(cls, name) for name in names]
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
    pick: itemgetter[object] = itemgetter(*(at[key] for key in order))
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
