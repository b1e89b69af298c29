"""Trees as values: mapped, compared, laid over by prefixes, edited, and ravelled to one vector."""

from __future__ import annotations

import builtins
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar, cast, overload

import numpy as np

from afx.errors import DtypeError, ShapeError, TreeError
from afx.pytree.nodes import (
    INSIDE,
    IS_INSTANCE,
    IS_LEAF,
    IS_MARKED,
    IS_STATIC,
    IS_TABLE,
    OUTSIDE,
    DictNode,
    Marked,
    Mode,
    Node,
    learn,
    register,
)
from afx.pytree.treedef import (
    Leaf,
    Tree,
    TreeDef,
    difference,
    flatten,
    flatten_until,
    is_leaf,
    leaves,
    marked_leaves,
    paths,
    structure,
    unflatten,
)

# --- Tree maps: `map` and `map_with_path` over whole trees

T = TypeVar("T")
IsLeaf: TypeAlias = "Callable[[Leaf], bool] | None"


@overload
def map(fn: Callable[[Leaf], object], tree: T, /, *, is_leaf: IsLeaf = None) -> T: ...
@overload
def map(fn: Callable[[Leaf, Leaf], object], tree: T, other: object, /, *, is_leaf: IsLeaf = None) -> T: ...
@overload
def map(
    fn: Callable[[Leaf, Leaf, Leaf], object], tree: T, other: object, third: object, /, *, is_leaf: IsLeaf = None
) -> T: ...
@overload
def map(
    fn: Callable[[Leaf, Leaf, Leaf, Leaf], object],
    tree: T,
    other: object,
    third: object,
    fourth: object,
    /,
    *,
    is_leaf: IsLeaf = None,
) -> T: ...
@overload
def map(fn: Callable[..., object], tree: T, /, *rest: object, is_leaf: IsLeaf = None) -> T: ...
def map(fn: Callable[..., object], tree: T, /, *rest: object, is_leaf: IsLeaf = None) -> T:
    """Apply a function to every leaf, or to the matching leaves of several trees.

    Args:
        fn: takes one leaf of each tree and gives the new leaf.
        tree: the tree whose structure the result has.
        rest: trees of the same structure.
        is_leaf: tells which parts of the trees are leaves, beside those that are by nature; None is taken for one by
            ``lambda x: x is None``.

    Returns:
        A tree of the structure of `tree`; it is typed as `tree` is, for leaves mostly become leaves of the same kind.

    Raises:
        TreeError: the structures differ; the message names the first key path where they do.

    >>> from afx import pytree
    >>> pytree.map(lambda p, g: p - 0.5 * g, {"w": [1.0, 2.0]}, {"w": [2.0, 2.0]})
    {'w': [0.0, 1.0]}
    """
    leaves, treedef = flatten(tree) if is_leaf is None else flatten_until(tree, is_leaf)
    columns = [leaves]
    for number, other in enumerate(rest, 2):
        other_leaves, structure = flatten(other) if is_leaf is None else flatten_until(other, is_leaf)
        if structure != treedef:
            path, first_part, other_part = difference(treedef, structure)
            raise TreeError(
                f"map: tree {number} has another structure than the first, at {path or 'the top'}: "
                f"got {first_part} in the first and {other_part} in tree {number}; give trees of one structure"
            )
        columns.append(other_leaves)
    return unflatten(treedef, builtins.map(fn, *columns))


def map_with_path(fn: Callable[[str, Leaf], object], tree: T) -> T:
    """Apply a function to the key path and the value of every leaf.

    >>> from afx import pytree
    >>> pytree.map_with_path(lambda path, p: 0.0 if path.endswith("['b']") else p, {"w": 3.0, "b": 2.0})
    {'w': 3.0, 'b': 0.0}
    """
    leaves, treedef = flatten(tree)
    return unflatten(treedef, builtins.map(fn, paths(treedef), leaves))


# --- Tree comparison: `equal` for values, and checks that name the path at which a tree does not fit

Structure: TypeAlias = "TreeDef[object]"


class Described(Protocol):
    """The abstract value of a leaf."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""
        ...

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The NumPy dtype."""
        ...

    @property
    def weak(self) -> bool:
        """Whether it stands for a Python scalar."""
        ...


def equal(left: object, right: object) -> bool:
    """Tell whether two trees have the same structure and the same leaves.

    Arrays, of afx or NumPy, are the same if their dtypes, shapes and values are; nan equals nan at the same index, and
    -0.0 equals 0.0. Python numbers, which have no dtype, are the same only as numbers of the same type.

    >>> import numpy as np
    >>> from afx import pytree
    >>> pytree.equal({"w": np.float32([1, np.nan])}, {"w": np.float32([1, np.nan])})
    True
    >>> pytree.equal({"w": np.float32([1, 2])}, {"w": np.float64([1, 2])})
    False
    """
    left_leaves, treedef = flatten(left)
    right_leaves, structure = flatten(right)
    return treedef == structure and all(builtins.map(_same, left_leaves, right_leaves))


def _same(x: Leaf, y: Leaf) -> bool:
    """Compare two leaves."""
    if type(x) in _PYTHON_NUMBERS or type(y) in _PYTHON_NUMBERS:
        return type(x) is type(y) and bool(x == y or (x != x and y != y))  # noqa: PLR0124 - true of nan alone
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    return bool(((x == y) | ((x != x) & (y != y))).all())  # noqa: PLR0124 - true of nan alone


_PYTHON_NUMBERS = frozenset((bool, int, float, complex))


def check_structure(given: Structure, wanted: Structure, who: str, what: str, advice: str) -> None:
    """Raise `TreeError` where a tree has another structure than it should, naming the first path.

    Args:
        given: the structure of the tree that is checked.
        wanted: the structure that it should have.
        who: the function, for messages.
        what: the name of the tree, which paths follow: ``grads``, ``the carry``.
        advice: what to do.
    """
    if given != wanted:
        path, expected, given_part = difference(wanted, given)
        place = f"{what}{path}" if path else what
        raise TreeError(f"{who}: the structure of {place} differs: got {given_part} for {expected}; {advice}")


def check_matching(
    given: Sequence[Described],
    wanted: Sequence[Described],
    treedef: Structure,
    who: str,
    what: str,
    advice: str,
    *,
    dtypes: Literal["same", "weak", "any"] = "same",
) -> None:
    """Raise where a leaf has another shape or dtype than it should, naming its path.

    Args:
        given: the abstract values of the leaves that are checked.
        wanted: those that they should have.
        treedef: the structure of both.
        who: the function, for messages.
        what: the name of the tree, which paths follow.
        advice: what to do.
        dtypes: ``same`` compares them all, ``weak`` those of leaves that are not weak, ``any`` none.

    Raises:
        ShapeError, DtypeError: a leaf differs.
    """
    for k, (a, b) in enumerate(zip(given, wanted, strict=True)):
        if a.shape != b.shape:
            raise ShapeError(f"{who}: the shape of {what}{paths(treedef)[k]} differs: got {a} for {b}; {advice}")
        if a.dtype != b.dtype and (dtypes == "same" or (dtypes == "weak" and not a.weak and not b.weak)):
            raise DtypeError(f"{who}: the dtype of {what}{paths(treedef)[k]} differs: got {a} for {b}; {advice}")


# --- Prefix trees: a value may stand for a whole subtree of the tree that it is laid over


def broadcast_prefix(
    prefix: object, tree: object, *, is_leaf: Callable[[Any], bool] = is_leaf, who: str = "broadcast_prefix"
) -> list[Any]:
    """Return what a prefix tree says of each leaf of a tree: a value stands for all leaves below it.

    Args:
        prefix: of the tree's structure from the top, down to its values.
        tree: the tree whose leaves are described.
        is_leaf: tells which parts of the prefix are values; arrays and numbers by default.
        who: the name for messages.

    Returns:
        One value for each leaf of the tree, in their order.

    Raises:
        TreeError: the prefix has other classes, lengths or keys than the tree; the message names the path.

    >>> from afx import pytree
    >>> pytree.broadcast_prefix({"a": 1, "b": 2}, {"a": [0.0, 0.0], "b": 0.0})
    [1, 1, 2]
    """
    return list(_laid(prefix, tree, OUTSIDE, "", is_leaf, who))


def _laid(prefix: Any, tree: Any, mode: Mode, path: str, is_value: Callable[[Any], bool], who: str) -> Iterator[Any]:
    """Yield the values for the leaves below one node."""
    cls: type = tree.__class__
    kind = mode.kinds.get(cls) or learn(cls, mode)
    if kind is IS_STATIC or kind is IS_MARKED:
        return
    if is_value(prefix):
        yield from [prefix] * _count(tree, mode)
    elif kind is IS_LEAF or kind is IS_TABLE or type(prefix) is not type(tree):
        if _count(tree, mode):
            raise _unfit(prefix, tree, path, who)
    elif kind is IS_INSTANCE:
        yield from _laid(prefix, tree, INSIDE, path, is_value, who)
    else:
        opener = kind
        (prefix_node, parts), (node, children) = opener(prefix), opener(tree)
        _check_node(prefix_node, node, path, who)
        for part, child, step in zip(parts, children, node.steps(), strict=True):
            yield from _laid(part, child, mode, path + step, is_value, who)


def _count(tree: Any, mode: Mode) -> int:
    """Return the number of leaves of a part of a tree."""
    if mode is INSIDE and type(tree) in (int, bool):
        return 0
    return 0 if type(tree) is Marked else len(leaves(tree))


def _check_node(prefix_node: Node, node: Node, path: str, who: str) -> None:
    """Raise where a container of the prefix has other keys or another length than the tree's."""
    if prefix_node == node:
        return
    if isinstance(prefix_node, DictNode) and isinstance(node, DictNode):
        if more := [key for key in prefix_node.keys if key not in node.keys]:
            raise TreeError(
                f"{who}: the prefix has more than the tree, at {path or 'the top'}: got {more}; leave it out"
            )
        missing = next(key for key in node.keys if key not in prefix_node.keys)
        raise TreeError(f"{who}: the prefix does not fit: got nothing for {path}[{missing!r}]; give it the structure")
    raise TreeError(
        f"{who}: the prefix does not fit, at {path or 'the top'}: got {prefix_node.arity} parts for {node.arity}; "
        "give it the structure"
    )


def _unfit(prefix: Any, tree: Any, path: str, who: str) -> TreeError:
    first = path + paths(structure(tree))[0]
    return TreeError(
        f"{who}: the prefix does not fit: got nothing for {first or 'the top'}, where it has a "
        f"{type(prefix).__name__}; give it the tree's structure"
    )


# --- Tree edits: trees split in two, combined, and changed at one leaf

R = TypeVar("R")


def reduce(fn: Callable[[R, Leaf], R], tree: object, initial: R) -> R:
    """Combine all leaves of a tree by a function, one after the other.

    Args:
        fn: takes what was found so far and a leaf, and gives what is found with it.
        tree: the tree.
        initial: what is found without any leaf.

    >>> from afx import pytree
    >>> pytree.reduce(lambda total, x: total + x, {"a": 1.0, "b": [2.0, 3.0]}, 0.0)
    6.0
    """
    return functools.reduce(fn, leaves(tree), initial)


def partition(tree: T, predicate: Tree | Callable[[str, Leaf], bool]) -> tuple[T, T]:
    """Split a tree in two of its structure: what a predicate holds for, and the rest, with None instead of the others.

    `combine` puts them together again. `afx.optim.partition` trains groups of parameters.

    Args:
        tree: the tree.
        predicate: a function ``(path, leaf) -> bool``, or a prefix tree of bools.

    Raises:
        TreeError: a prefix tree does not fit.

    >>> from afx import pytree
    >>> chosen, rest = pytree.partition({"w": 1.0, "n": 3}, lambda path, leaf: isinstance(leaf, float))
    >>> chosen, rest, pytree.combine(chosen, rest)
    ({'w': 1.0, 'n': None}, {'w': None, 'n': 3}, {'w': 1.0, 'n': 3})
    """
    leaves, treedef = flatten(tree)
    if callable(predicate):
        holds = [bool(predicate(path, leaf)) for path, leaf in zip(paths(treedef), leaves, strict=True)]
    else:
        holds = broadcast_prefix(predicate, tree, is_leaf=lambda x: isinstance(x, bool), who="partition")
    chosen = [leaf if h else None for leaf, h in zip(leaves, holds, strict=True)]
    rest = [None if h else leaf for leaf, h in zip(leaves, holds, strict=True)]
    return unflatten(treedef, chosen), unflatten(treedef, rest)


def _is_none(x: object) -> bool:
    return x is None


def combine(tree: T, *others: T) -> T:
    """Combine trees that have None for missing leaves: each leaf comes from the tree that has it.

    Raises:
        TreeError: the structures differ, or two trees have a leaf at one key path.

    >>> from afx import pytree
    >>> pytree.combine({"w": 1.0, "n": None}, {"w": None, "n": 3})
    {'w': 1.0, 'n': 3}
    """
    first, treedef = flatten_until(tree, _is_none)
    columns = [first]
    for other in others:
        leaves, structure = flatten_until(other, _is_none)
        check_structure(structure, treedef, "combine", "a tree", "pass what pytree.partition returns")
        columns.append(leaves)
    chosen = [[x for x in column if x is not None] for column in zip(*columns, strict=True)]
    for k, several in enumerate(chosen):
        if len(several) > 1:
            raise TreeError(
                f"combine: {len(several)} trees have a leaf at {paths(treedef)[k] or 'the top'}: got "
                f"{type(several[0]).__name__} and {type(several[1]).__name__}; leave None in one"
            )
    return unflatten(treedef, [several[0] if several else None for several in chosen])


class _Mark:
    """Stands for a leaf while a selector runs."""

    __slots__ = ("index",)
    __afx_leaf__ = True

    def __init__(self, index: int) -> None:
        self.index = index


def update_at(tree: T, where: str | Callable[[T], object], new: Tree | Callable[[Leaf], object]) -> T:
    """Return a tree with one leaf, or all leaves of one part, changed; the given tree stays as it is.

    Args:
        tree: the tree, mostly of frozen classes.
        where: the key path of a leaf or a part, such as ``".layers[0].weight"``, or a function of the tree that returns
            leaves or parts of it.
        new: the new leaf, a tree of new leaves of the part's structure, or a function of each leaf.

    Raises:
        TreeError: there is no such key path, or the new leaves do not fit it.

    >>> from afx import pytree
    >>> pytree.update_at({"w": [1.0, 2.0], "b": 0.0}, "['w'][1]", 5.0)
    {'w': [1.0, 5.0], 'b': 0.0}
    >>> pytree.update_at({"w": [1.0, 2.0], "b": 0.0}, lambda tree: tree["w"], lambda leaf: 10 * leaf)
    {'w': [10.0, 20.0], 'b': 0.0}
    """
    leaves, treedef = flatten(tree)
    if isinstance(where, str):
        chosen = [k for k, path in enumerate(paths(treedef)) if _starts_with(path, where)]
        shape = None
    else:
        marks, shape = flatten(where(unflatten(treedef, [_Mark(k) for k in range(len(leaves))])))
        if not all(isinstance(mark, _Mark) for mark in marks):
            raise TreeError("update_at: the function returns parts of the tree it is given: got something else; select")
        chosen = [cast("_Mark", mark).index for mark in marks]
    if not chosen:
        raise TreeError(f"update_at: there are no leaves at {where!r}: got {treedef}; see pytree.paths")
    after = list(leaves)
    if callable(new):
        values = [new(leaves[k]) for k in chosen]
    else:
        values, structure = flatten(new)
        if len(values) != len(chosen) or (shape is not None and structure != shape):
            raise TreeError(
                f"update_at: the new part has another structure: got {structure} for {len(chosen)} leaves; "
                "give its structure, or a function of each leaf"
            )
    for k, value in zip(chosen, values, strict=True):
        after[k] = value
    return unflatten(treedef, after)


def _starts_with(path: str, prefix: str) -> bool:
    return path.startswith(prefix) and path[len(prefix) : len(prefix) + 1] in ("", ".", "[")


# --- Ravelling: the trained leaves of a tree as one vector, and back

Layout: TypeAlias = tuple[TreeDef[T], tuple[tuple[int, ...] | None, ...], tuple[Any, ...]]


class Unravel(Generic[T]):
    """The way back from a vector to a tree; made by `ravel`.

    Attributes:
        layout: the structure of the tree, and the shapes and dtypes of its leaves, None of those that are not trained.
        untrained: the leaves that are not trained, None for the others.
    """

    __slots__ = ("layout", "untrained")  # by hand: a plain import does without attrs

    def __init__(self, layout: Layout[T], untrained: tuple[Any, ...]) -> None:
        self.layout: Layout[T] = layout
        self.untrained: tuple[Any, ...] = untrained

    def __reduce__(self) -> tuple[type[Unravel[T]], tuple[Layout[T], tuple[Any, ...]]]:
        return (Unravel, (self.layout, self.untrained))

    def __call__(self, vector: Any) -> T:
        """Return the tree of a vector's elements; what is not trained is as it was.

        Raises:
            ShapeError: the vector has another length.
        """
        treedef, shapes, dtypes = self.layout
        sizes = [0 if shape is None else math.prod(shape) for shape in shapes]
        vector = _as_array(vector)
        if vector.shape != (sum(sizes),):
            raise ShapeError(
                f"unravel: the vector has {sum(sizes)} elements: got shape {vector.shape}; keep its length"
            )
        parts: list[Any] = []
        start = 0
        for shape, dtype, other, size in zip(shapes, dtypes, self.untrained, sizes, strict=True):
            if shape is None:
                parts.append(other)
                continue
            part = vector[start : start + size].reshape(shape)
            part = part.real if part.dtype.kind == "c" and dtype.kind != "c" else part
            parts.append(part.astype(dtype))
            start += size
        return unflatten(treedef, parts)


register(
    Unravel, lambda back: (back.untrained, back.layout), lambda layout, untrained: Unravel(layout, tuple(untrained))
)


def ravel(tree: T) -> tuple[Any, Unravel[T]]:
    """Return the trained leaves of a tree as one vector, and the function that makes a tree of such a vector.

    Leaves that are not trained (integers, booleans, keys, fields marked with `non_trainable`) are not in the vector, and
    come back as they are. The vector has the common dtype of the leaves; each comes back in its own.

    Args:
        tree: the tree.

    Returns:
        ``(vector, unravel)``: an array float[n], and a function that pickles.

    >>> import afx
    >>> vector, unravel = afx.pytree.ravel({"w": afx.ones((2, 2)), "b": afx.zeros(1), "n": afx.asarray(3)})
    >>> vector
    Array([0., 1., 1., 1., 1.], dtype=float32)
    >>> unravel(2 * vector)["w"]
    Array([[2., 2.],
           [2., 2.]], dtype=float32)
    """
    leaves, treedef = flatten(tree)
    marked = marked_leaves(treedef) or [False] * len(leaves)
    arrays = [_as_array(x) if isinstance(x, (float, complex)) or _is_inexact(x) else x for x in leaves]
    trained = [_is_inexact(x) and not m for x, m in zip(arrays, marked, strict=True)]
    parts = [x.reshape(-1) for x, t in zip(arrays, trained, strict=True) if t]
    vector = _as_array(np.concatenate(parts) if parts else np.zeros(0))
    shapes = tuple([tuple(x.shape) if t else None for x, t in zip(arrays, trained, strict=True)])
    dtypes = tuple([x.dtype if t else None for x, t in zip(arrays, trained, strict=True)])
    untrained = tuple([None if t else x for x, t in zip(leaves, trained, strict=True)])
    return vector, Unravel((treedef, shapes, dtypes), untrained)


def _is_inexact(x: Any) -> bool:
    return getattr(getattr(x, "dtype", None), "kind", "") in ("f", "c")


_CONVERTERS: list[Callable[[Any], Any]] = []


def use_converter(asarray: Callable[[Any], Any]) -> None:
    """Set the function that makes arrays, which stands in a layer above this one."""
    _CONVERTERS[:] = [asarray]


def _as_array(x: Any) -> Any:
    return _CONVERTERS[0](x) if _CONVERTERS else np.asarray(x)
