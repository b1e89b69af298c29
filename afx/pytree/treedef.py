"""Tree structure: `TreeDef`, a tree without its leaves, and the key paths in it."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, NoReturn, TypeAlias, TypeVar, cast

from afx.errors import ImmutableError
from afx.pytree.nodes import LEAF, MARKING_NODES, DictNode, Node, RecordNode, SequenceNode, Token, slot_setter
from afx.pytree.static import fields_of, is_non_trainable, is_static

__all__ = [
    "Leaf",
    "Tree",
    "TreeDef",
    "depth_of_next",
    "difference",
    "marked_leaves",
    "orders",
    "path_of_next",
    "paths",
    "static_values",
    "trails",
]

# Leaves are arrays and numbers. The type of arrays is defined in a layer above this one, and a tree's leaves may stand
# for something else for a while (an axis, a dtype), so that no narrower type would be true.
Tree: TypeAlias = Any  # a tree of arrays, of whatever structure: Python's types cannot say it
Leaf: TypeAlias = Any

T_co = TypeVar("T_co", covariant=True)


class TreeDef(Generic[T_co]):
    """The structure of a tree: immutable, hashable, compared by content.

    `TreeDef[T]` unflattens to a `T`. Made by `flatten` and `structure`; printed as the tree with ``*`` for its leaves.

    >>> from afx import pytree
    >>> pytree.structure({"w": 1.0, "b": (2.0, None)})
    {'b': (*, None), 'w': *}
    """

    __slots__ = ("_hash", "_orders", "num_leaves", "tokens")

    _hash: int
    _orders: tuple[tuple[int, tuple[object, ...]], ...]
    num_leaves: int
    tokens: tuple[Token, ...]

    def __init__(self, tokens: tuple[Token, ...], num_leaves: int) -> None:
        _set_tokens(self, tokens)
        _set_num_leaves(self, num_leaves)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise ImmutableError(f"TreeDef: a structure cannot be changed: got {name} = {value!r}; flatten another tree")

    def __delattr__(self, name: str) -> NoReturn:
        raise ImmutableError(f"TreeDef: a structure cannot be changed: got del {name}; flatten another tree")

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            _set_hash(self, hash(self.tokens))
            return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not TreeDef:
            return NotImplemented
        return self.tokens == other.tokens

    def __reduce__(self) -> tuple[object, ...]:
        return TreeDef, (self.tokens, self.num_leaves)

    def __repr__(self) -> str:
        written: list[str] = []
        for token in reversed(self.tokens):
            if token is LEAF:
                written.append("*")
            elif isinstance(token, tuple):
                written.append(repr(token[1]))
            elif isinstance(token, Node):
                written.append(token.show(_pop_texts(written, token)))
        return written[0]


_set_tokens, _set_num_leaves, _set_hash, _set_orders = (
    slot_setter(TreeDef, name) for name in ("tokens", "num_leaves", "_hash", "_orders")
)


def _pop_texts(written: list[str], node: Node) -> Sequence[str]:
    """Take the texts of a node's children off the stack."""
    if node.is_flat:
        return ["*"] * node.arity
    children = written[: -node.arity - 1 : -1]
    del written[-node.arity :]
    return children


# --- key paths


def paths(treedef: TreeDef[object]) -> list[str]:
    """List the key path of every leaf, in the order of the leaves.

    >>> from afx import pytree
    >>> pytree.paths(pytree.structure({"w": [1.0, 2.0], "b": 0.0}))
    ["['b']", "['w'][0]", "['w'][1]"]
    """
    return ["".join(trail) for token, trail in trails(treedef.tokens) if token is LEAF]


def static_values(treedef: TreeDef[object]) -> list[tuple[str, tuple[object, object]]]:
    """List the key paths and the tokens of all static values."""
    return [("".join(trail), token) for token, trail in trails(treedef.tokens) if isinstance(token, tuple)]


def orders(treedef: TreeDef[object]) -> tuple[tuple[int, tuple[object, ...]], ...]:
    """List the orders of keys of those dicts whose keys do not stand in sorted order, each beside its token's index."""
    try:
        return treedef._orders
    except AttributeError:
        found = [(k, t.order) for k, t in enumerate(treedef.tokens) if isinstance(t, DictNode) and t.order != t.keys]
        _set_orders(treedef, tuple(found))
        return treedef._orders


def marked_leaves(treedef: TreeDef[object]) -> Sequence[bool]:
    """Tell of each leaf whether it stands in a field marked with `non_trainable`; () where none is."""
    if not MARKING_NODES or MARKING_NODES.isdisjoint(treedef.tokens):
        return ()
    found: list[bool] = []
    waiting: list[Iterator[bool]] = [iter((False,))]
    for token in treedef.tokens:
        while (marked := next(waiting[-1], None)) is None:
            waiting.pop()
        if token is LEAF:
            found.append(marked)
        elif isinstance(token, Node):
            marks = token.marks(marked)
            if token.is_flat:
                found.extend(marks)
            else:
                waiting.append(iter(marks))
    return found


NUMBER_FIELDS = frozenset(
    ("float", "Array", "afx.Array", "ArrayLike", float)
)  # how fields of trained numbers are annotated


def integers_in_number_fields(treedef: TreeDef[object]) -> list[str]:
    """List the key paths of Python integers in unmarked fields that are annotated as a float or an array."""
    if not any(type(token) is tuple and token[0] is int for token in treedef.tokens):
        return []
    found: list[bool] = []
    waiting: list[Iterator[bool]] = [iter((False,))]
    for token in treedef.tokens:
        while (is_number := next(waiting[-1], None)) is None:
            waiting.pop()
        if isinstance(token, Node):
            if not token.is_flat:
                waiting.append(iter(_number_fields(token)))
        elif token is not LEAF:
            found.append(is_number and type(token) is tuple and token[0] is int)
    return [path for (path, _), is_one in zip(static_values(treedef), found, strict=True) if is_one]


def _number_fields(node: Node) -> Sequence[bool]:
    """Tell of each child whether it stands in an unmarked field of a class that is annotated as a float or an array."""
    if not isinstance(node, RecordNode) or issubclass(node.kind, tuple):
        return [False] * node.arity
    record: Any = cast("Any", node).kind
    fields = {field.name: field for field in fields_of(record)}
    unmarked = [not (is_static(fields[name]) or is_non_trainable(fields[name])) for name in node.names]
    kinds: list[Any] = [fields[name].type for name in node.names]
    names = [str(getattr(kind, "__name__", kind)) for kind in kinds]
    return [u and name.rpartition(".")[2] in NUMBER_FIELDS for u, name in zip(unmarked, names, strict=True)]


def path_of_next(tokens: Sequence[Token]) -> str:
    """Give the key path at which the token after these would stand."""
    trail: list[str] = []
    for _, trail in trails((*tokens, LEAF)):  # noqa: B007 - the last one is wanted
        pass
    return "".join(trail)


def depth_of_next(tokens: Sequence[Token]) -> int:
    """Give the number of nodes around the token after these."""
    awaited: list[int] = []  # for each node around, the number of children still to come
    for token in tokens:
        while awaited and not awaited[-1]:
            awaited.pop()
        if awaited:
            awaited[-1] -= 1
        if isinstance(token, Node) and not token.is_flat:
            awaited.append(token.arity)
    return len(awaited)


def trails(tokens: Iterable[Token]) -> Iterator[tuple[Token, list[str]]]:
    """Go through all nodes and leaves with the steps from the root to each; the list of steps is reused."""
    trail: list[str] = []
    waiting: list[Iterator[str]] = [iter(("",))]
    for token in tokens:
        _advance(trail, waiting)
        yield token, trail
        if isinstance(token, Node):
            if token.is_flat:
                for step in token.steps():
                    yield LEAF, [*trail, step]
            else:
                waiting.append(iter(token.steps()))


def _advance(trail: list[str], waiting: list[Iterator[str]]) -> None:
    """Move to the next child, leaving the nodes that have no more."""
    del trail[len(waiting) - 1 :]
    while (step := next(waiting[-1], None)) is None:
        waiting.pop()
        del trail[len(waiting) - 1 :]
    trail.append(step)


def difference(left: TreeDef[object], right: TreeDef[object]) -> tuple[str, str, str]:
    """Say where two structures first differ: the key path, and what each of them has there."""
    for (mine, trail), (theirs, _) in zip(trails(left.tokens), trails(right.tokens), strict=True):
        if _head(mine) != _head(theirs):
            return "".join(trail), _describe_token(mine), _describe_token(theirs)
    raise AssertionError("the structures are equal")


def _head(token: Token) -> Token:
    """Give the node that a node would be if its children were leaves."""
    return token.flat if isinstance(token, Node) and not token.is_flat else token


def _describe_token(token: Token) -> str:
    """Name a node, a leaf or a static value."""
    if isinstance(token, SequenceNode) and token.arity > 10:
        return f"a {token.kind.__name__} of {token.arity}"
    if isinstance(token, Node):
        return token.show(["…"] * token.arity)
    return repr(token[1]) if isinstance(token, tuple) else "a leaf"
