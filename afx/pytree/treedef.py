"""Tree structure: `TreeDef`, key paths, and `flatten` and `unflatten`, one loop each, so that depth is not limited."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, NoReturn, TypeAlias, TypeVar, cast

from afx.errors import ImmutableError, TreeError
from afx.pytree.nodes import (
    INSIDE,
    IS_INSTANCE,
    IS_LEAF,
    IS_MARKED,
    IS_STATIC,
    IS_TABLE,
    LEAF,
    MARKING_NODES,
    NOTHING,
    OUTSIDE,
    DictNode,
    Kind,
    Marked,
    Mode,
    Node,
    RecordNode,
    RefusedError,
    SequenceNode,
    Token,
    is_unique,
    learn,
    slot_setter,
    static_token,
    table_values,
)
from afx.pytree.static import fields_of, is_non_trainable, is_static

# --- Tree structure: `TreeDef`, a tree without its leaves, and the key paths in it

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
        if not isinstance(other, TreeDef):
            return NotImplemented
        return self.tokens == other.tokens

    def unflatten(self, leaves: Iterable[Leaf]) -> T_co:
        """Return the tree of these leaves, as `pytree.unflatten` does."""
        return unflatten(self, leaves)

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
        by_token = [(k, t.order) for k, t in enumerate(treedef.tokens) if isinstance(t, DictNode) and t.order != t.keys]
        _set_orders(treedef, tuple(by_token))
        return treedef._orders


def marked_leaves(treedef: TreeDef[object]) -> Sequence[bool]:
    """Tell of each leaf whether it stands in a field marked with `non_trainable`; () where none is."""
    if not MARKING_NODES or MARKING_NODES.isdisjoint(treedef.tokens):
        return ()
    marked_ones: list[bool] = []
    waiting: list[Iterator[bool]] = [iter((False,))]
    for token in treedef.tokens:
        while (marked := next(waiting[-1], None)) is None:
            waiting.pop()
        if token is LEAF:
            marked_ones.append(marked)
        elif isinstance(token, Node):
            marks = token.marks(marked)
            if token.is_flat:
                marked_ones.extend(marks)
            else:
                waiting.append(iter(marks))
    return marked_ones


# how fields of trained numbers are annotated
NUMBER_FIELDS = frozenset(("float", "Array", "afx.Array", "ArrayLike", float))


def integers_in_number_fields(treedef: TreeDef[object]) -> list[str]:
    """List the key paths of Python integers in unmarked fields that are annotated as a float or an array."""
    if not any(type(token) is tuple and token[0] is int for token in treedef.tokens):
        return []
    are_numbers: list[bool] = []
    waiting: list[Iterator[bool]] = [iter((False,))]
    for token in treedef.tokens:
        while (is_number := next(waiting[-1], None)) is None:
            waiting.pop()
        if isinstance(token, Node):
            if not token.is_flat:
                waiting.append(iter(_number_fields(token)))
        elif token is not LEAF:
            are_numbers.append(is_number and type(token) is tuple and token[0] is int)
    return [path for (path, _), is_one in zip(static_values(treedef), are_numbers, strict=True) if is_one]


def _number_fields(node: Node) -> Sequence[bool]:
    """Tell of each child whether it stands in an unmarked field of a class that is annotated as a float or an array."""
    if not isinstance(node, RecordNode) or issubclass(node.kind, tuple):
        return [False] * node.arity
    record = cast("Any", node).kind
    fields = {field.name: field for field in fields_of(record)}
    unmarked = [not (is_static(fields[name]) or is_non_trainable(fields[name])) for name in node.names]
    kinds = [fields[name].type for name in node.names]
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
    for (left_token, trail), (right_token, _) in zip(trails(left.tokens), trails(right.tokens), strict=True):
        if _head(left_token) != _head(right_token):
            return "".join(trail), _describe_token(left_token), _describe_token(right_token)
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


# --- Flattening: `flatten` and `unflatten`, one loop each, so that neither depth nor length is limited

T = TypeVar("T")

_LEAF_TYPES, _LEAF_TYPES_INSIDE = OUTSIDE.leaf_types, INSIDE.leaf_types
_kind_outside = OUTSIDE.kinds.get
_ONE_LEAF: TreeDef[Any] = TreeDef((LEAF,), 1)

_CHECK_AFTER = 100_000  # tokens after which the depth is looked at, and again at each doubling
_DEEPEST = 50_000  # levels: what is deeper is a list or a dict that contains itself


def flatten(tree: T) -> tuple[list[Leaf], TreeDef[T]]:
    """Take a tree apart into its leaves and its structure.

    Args:
        tree: frozen attrs classes, tuples, named tuples, lists, dicts and None, in any depth, of leaves.

    Returns:
        The leaves, in the order of fields, items and sorted keys, and the structure, from which `unflatten` builds
        the tree again.

    Raises:
        TreeError: a part of the tree is mutable, unknown, unhashable though static, or contains itself.

    >>> from afx import pytree
    >>> pytree.flatten({"w": [1.0, 2.0], "b": None})
    ([1.0, 2.0], {'b': None, 'w': [*, *]})
    """
    if type(tree) in _LEAF_TYPES:
        return [tree], _ONE_LEAF
    mode = INSIDE if _kind_outside(type(tree)) is IS_INSTANCE else OUTSIDE
    while True:
        known = len(_LEAF_TYPES) + len(_LEAF_TYPES_INSIDE)
        leaves: list[Leaf] = []
        tokens: list[Token] = []
        _walk([tree], mode, leaves, tokens)
        if known == len(_LEAF_TYPES) + len(_LEAF_TYPES_INSIDE):  # else nodes were met before their leaves were known
            return leaves, _SEEN.get(tuple(map(id, tokens))) or _new_treedef(tokens, len(leaves))


_SEEN: dict[tuple[int, ...], TreeDef[Any]] = {}  # by the identities of their tokens, which live as long
_SEEN_MAX, _SEEN_MAX_TOKENS = 1024, 64


def _new_treedef(tokens: list[Token], count: int) -> TreeDef[Any]:
    """Make a structure, and remember it where all of its tokens are the only ones of their kind: it need not hash again."""
    made: TreeDef[Any] = TreeDef(tuple(tokens), count)
    if len(tokens) <= _SEEN_MAX_TOKENS and all(map(is_unique, tokens)):
        if len(_SEEN) >= _SEEN_MAX:
            _SEEN.clear()
        _SEEN[tuple(map(id, tokens))] = made
    return made


def _walk(waiting: list[object], mode: Mode, leaves: list[Leaf], tokens: list[Token]) -> None:
    """Append the leaves and tokens of the values that wait, the last of them first."""
    kind_of, all_leaves = mode.kinds.get, mode.all_leaves
    check = len(tokens) + _CHECK_AFTER
    while waiting:
        value = waiting.pop()
        kind = kind_of(type(value)) or _learn_value(value, mode, tokens)
        if kind is IS_LEAF:
            leaves.append(value)
            tokens.append(LEAF)
        elif value is None:
            tokens.append(NOTHING)
        elif kind is IS_STATIC:
            tokens.append(_static(value, tokens))
        elif kind is IS_MARKED:
            tokens.append(_marked(value, tokens))
        elif kind is IS_INSTANCE:
            _walk([value], INSIDE, leaves, tokens)
        elif kind is IS_TABLE:
            leaves.append(table_values(value))
            tokens.append(LEAF)
        else:
            try:
                node, children = kind(value)
            except AttributeError as error:
                raise _error(f"a field is not set ({error})", tokens, value, "give every field a value") from None
            if all_leaves(map(type, children)):
                leaves.extend(children)
                tokens.append(node.flat)
            else:
                tokens.append(node)
                waiting.extend(reversed(children))
                if len(tokens) > check:
                    check = _checked_depth(tokens)


def flatten_until(tree: T, is_leaf: Callable[[Any], bool]) -> tuple[list[Leaf], TreeDef[T]]:
    """Take a tree apart as `flatten` does, but not below what a function calls a leaf."""
    leaves: list[Leaf] = []
    tokens: list[Token] = []
    waiting = [(tree, OUTSIDE)]
    while waiting:
        value, mode = waiting.pop()
        cls = value.__class__
        marked = mode.kinds.get(cls) is IS_MARKED
        kind = IS_LEAF if not marked and is_leaf(value) else mode.kinds.get(cls) or _learn_value(value, mode, tokens)
        if kind is IS_LEAF or kind is IS_TABLE:
            leaves.append(value if kind is IS_LEAF else table_values(value))
            tokens.append(LEAF)
        elif kind is IS_INSTANCE:
            waiting.append((value, INSIDE))
        elif kind is IS_MARKED:
            tokens.append(_marked(value, tokens))
        elif kind is IS_STATIC:
            tokens.append((cls, value))
        else:
            node, children = cast("Any", kind)(value)
            tokens.append(node)
            waiting.extend([(child, mode) for child in reversed(children)])
    return leaves, TreeDef(_flatten_nodes(tokens), len(leaves))


def _flatten_nodes(tokens: list[Token]) -> tuple[Token, ...]:
    """Write nodes all of whose children are leaves as flat ones."""
    short: list[Token] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        at += 1
        if isinstance(token, Node) and all(child is LEAF for child in tokens[at : at + token.arity]):
            at += token.arity
            token = token.flat
        short.append(token)
    return tuple(short)


def _learn_value(value: object, mode: Mode, tokens: list[Token]) -> Kind:
    """Find out what a value of a type never met before is."""
    try:
        return learn(type(value), mode)
    except RefusedError as refused:
        raise _error(refused.reason, tokens, value, refused.remedy) from None


def _static(value: object, tokens: list[Token]) -> Token:
    """Give the token of a value that is part of the structure by nature."""
    token = (type(value), value)
    try:
        hash(token)
    except TypeError:
        raise _unhashable(value, tokens) from None
    return token


def _marked(mark: object, tokens: list[Token]) -> Token:
    """Give the token of a field marked with `static`."""
    value = cast("Marked", mark).value
    try:
        return static_token(value)
    except TypeError:
        raise _unhashable(value, tokens) from None


def _unhashable(value: object, tokens: list[Token]) -> TreeError:
    """Make the error about a part of the structure that does not hash."""
    if is_leaf(value):
        remedy = "take the mark afx.static() off the field"
    elif issubclass(type(value), list):
        remedy = "use a tuple"
    else:
        remedy = "use a value that hashes, such as a tuple or a frozen class of such values"
    return _error("a part of the structure that does not hash", tokens, value, remedy)


def _checked_depth(tokens: list[Token]) -> int:
    """Refuse a tree without end; give the number of tokens at which to look again."""
    if depth_of_next(tokens) > _DEEPEST:
        raise TreeError(
            f"pytree: more than {_DEEPEST} levels: got a list or dict that contains itself, or a chain of nodes; "
            "hold the items in one flat list"
        )
    return 2 * len(tokens)


def _error(reason: str, tokens: list[Token], value: object, remedy: str) -> TreeError:
    """Make the error about the value that would come after these tokens."""
    path = path_of_next(tokens)
    return TreeError(f"pytree: {reason}, at {path or 'the top'}: got {type(value).__qualname__}; {remedy}")


def unflatten(treedef: TreeDef[T], leaves: Iterable[Leaf]) -> T:
    """Build a tree from its structure and new leaves, which may be of any kind.

    Classes are built without their `__init__`, converters and validators: a leaf may stand for something else.

    Raises:
        TreeError: the number of leaves is not that of the structure.

    >>> from afx import pytree
    >>> pytree.unflatten(pytree.structure({"w": [1.0, 2.0], "b": None}), ["x", "y"])
    {'w': ['x', 'y'], 'b': None}
    """
    rest: list[Leaf] = leaves if isinstance(leaves, list) else list(leaves)
    if treedef is _ONE_LEAF and len(rest) == 1:
        only: T = rest[0]
        return only
    if len(rest) != treedef.num_leaves:
        raise TreeError(
            f"unflatten: the number of leaves differs: got {len(rest)} for the {treedef.num_leaves} of {treedef!r}; "
            "give one for each leaf"
        )
    built: list[object] = []  # what is built, the last in front
    at = len(rest)
    for token in reversed(treedef.tokens):
        if token is LEAF:
            at -= 1
            built.append(rest[at])
        elif type(token) is tuple:
            built.append(token[1])
        else:
            node: Node = token  # type: ignore[assignment]  # what is neither a leaf nor a static value is a node
            arity = node.arity
            if node.is_flat:
                at -= arity
                built.append(node.build(rest[at : at + arity]))
            else:
                children = built[: -arity - 1 : -1]
                del built[-arity:]
                built.append(node.build(children))
    return cast("T", built[0])


def leaves(tree: object) -> list[Leaf]:
    """List the leaves of a tree.

    >>> from afx import pytree
    >>> pytree.leaves([1.0, (2.0, None)])
    [1.0, 2.0]
    """
    return flatten(tree)[0]


def structure(tree: T) -> TreeDef[T]:
    """Give the structure of a tree.

    >>> from afx import pytree
    >>> pytree.structure([1.0, (2.0, None)])
    [*, (*, None)]
    """
    return flatten(tree)[1]


def flatten_with_path(tree: T) -> tuple[list[tuple[str, Leaf]], TreeDef[T]]:
    """Take a tree apart into pairs of key path and leaf, and its structure.

    >>> from afx import pytree
    >>> pytree.flatten_with_path({"w": [1.0, 2.0]})[0]
    [("['w'][0]", 1.0), ("['w'][1]", 2.0)]
    """
    leaves, treedef = flatten(tree)
    return list(zip(paths(treedef), leaves, strict=True)), treedef


def is_leaf(value: object) -> bool:
    """Tell whether a value by itself is a leaf: an array, a float, a complex number, an int or a bool.

    >>> from afx import pytree
    >>> pytree.is_leaf(1.0), pytree.is_leaf((1.0,)), pytree.is_leaf(None), pytree.is_leaf("relu")
    (True, False, False, False)
    """
    try:
        return (OUTSIDE.kinds.get(type(value)) or learn(type(value), OUTSIDE)) is IS_LEAF
    except RefusedError:
        return False
