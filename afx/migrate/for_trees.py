"""Trees of JAX, in which numbers in fields are leaves: for programs that `python -m afx.migrate jax` rewrote.

Programs written for afx call `afx.pytree`, whose trees are the same classes.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import attrs
import numpy as np

from afx import pytree
from afx.core import Array
from afx.errors import TreeError
from afx.migrate.for_jax import same
from afx.ops.creation.creation import asarray, zeros
from afx.ops.indexing.index import is_sequence
from afx.ops.manipulation.join import concat
from afx.pytree import nodes, treedef as treedefs
from afx.transforms.derivatives import grad as derivatives

__all__ = ["KEYED", "Partial", "put", "tree_flatten", "tree_map"]

# --- Leaves and structures

_NOTHING = object()  # no first value, which None may be


def put(treedef: Any, leaves: Iterable[Any]) -> Any:
    """Return a tree of leaves; whole numbers and truth values in fields are NumPy's, which stay leaves."""
    given = list(leaves)
    tree = pytree.unflatten(treedef, given)
    return tree if len(tree_leaves(tree)) >= len(given) else pytree.unflatten(treedef, list(map(_lasting, given)))


def _lasting(x: Any) -> Any:
    return np.asarray(x)[()] if isinstance(x, (bool, int)) else x


def _stops(tree: Any, is_leaf: Any = None) -> Callable[[Any], bool]:
    """Return a function that tells leaves: texts and objects too, functions but in models, and what a function says."""
    classes = list[Any]()

    def note(x: Any) -> bool:
        classes.extend([x] if attrs.has(x.__class__) else [])
        return _is_other(x, True) or attrs.has(x.__class__)

    treedefs.flatten_until(tree, note)

    def stops(x: Any) -> bool:
        return _is_other(x, not classes) or (is_leaf is not None and is_leaf(x))

    return stops


def _is_other(x: Any, functions: bool) -> bool:
    """Tell what is no tree and no leaf of afx's; functions are part of a model."""
    cls: Any = x.__class__
    try:
        kind = nodes.OUTSIDE.kinds.get(cls) or nodes.learn(cls, nodes.OUTSIDE)
    except nodes.RefusedError:
        return True
    return kind is nodes.IS_STATIC and x is not None and (functions or not callable(x))


def tree_map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: Any = None) -> Any:
    """Return a tree of a function of leaves, and of what other trees have in their places."""
    leaves, treedef = tree_flatten(tree, is_leaf)
    columns = [leaves, *[_parts_at(tree, treedef, other, is_leaf) for other in rest]]
    return put(treedef, [f(*parts) for parts in zip(*columns, strict=True)])


def _parts_at(tree: Any, treedef: Any, other: Any, is_leaf: Any) -> list[Any]:
    """Return what stands in another tree, which may be deeper, at the leaves of a tree."""
    leaves, structure = tree_flatten(other, is_leaf)
    if structure == treedef:
        return leaves
    try:
        pytree.broadcast_prefix(put(treedef, [0.0] * treedef.num_leaves), other, who="tree_map")
    except TreeError as error:
        raise ValueError(str(error)) from None  # as JAX's
    return [functools.reduce(_step, path, other) for path, _ in _paths(tree, _stops(tree, is_leaf))]


def _step(tree: Any, key: Any) -> Any:
    """Return the part of a tree that a step of a path leads to."""
    if isinstance(key, GetAttrKey):
        return getattr(tree, key.name)
    return tree[key.idx if isinstance(key, SequenceKey) else key.key]


class PyTreeDef(treedefs.TreeDef[Any]):
    """A structure, which prints as JAX's."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"PyTreeDef({super().__repr__()})"

    @property
    def num_nodes(self) -> int:
        """The number of containers and leaves."""
        return sum(1 for _ in treedefs.trails(self.tokens))

    def children(self) -> list[PyTreeDef]:
        """Return the structures of the parts."""
        first, *rest = self.tokens
        parts, part, missing = list[PyTreeDef](), list[Any](), 1
        for token in [nodes.LEAF] * first.arity if isinstance(first, nodes.Node) and first.is_flat else rest:
            part.append(token)
            missing += (0 if token.is_flat else token.arity) - 1 if isinstance(token, nodes.Node) else -1
            if not missing:
                count = sum(t is nodes.LEAF for t, _ in treedefs.trails(part))
                parts.append(PyTreeDef(tuple(part), count))
                part, missing = [], 1
        return parts


def tree_flatten(tree: Any, is_leaf: Any = None) -> tuple[list[Any], Any]:
    """Return leaves and the structure."""
    leaves, treedef = treedefs.flatten_until(tree, _stops(tree, is_leaf))
    return leaves, PyTreeDef(treedef.tokens, treedef.num_leaves)


def tree_leaves(tree: Any, is_leaf: Any = None) -> list[Any]:
    """Return leaves."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: Any = None) -> Any:
    """Return the structure above leaves."""
    return tree_flatten(tree, is_leaf)[1]


class PyTree:
    """A tree, in annotations."""

    def __class_getitem__(cls, _: Any) -> Any:
        return Any


def tree_reduce(fn: Any, tree: Any, initializer: Any = _NOTHING, is_leaf: Any = None) -> Any:
    """Return leaves put together, with a first value or without."""
    start = () if initializer is _NOTHING else (initializer,)
    return functools.reduce(fn, tree_leaves(tree, is_leaf), *start)


def ravel_pytree(tree: Any) -> tuple[Array, Callable[[Any], Any]]:
    """Return the elements of all leaves, whole numbers too, as a vector, and the function back."""
    leaves, treedef = tree_flatten(tree)
    arrays = list(map(asarray, leaves))
    kinds = [(x.size, x.shape, x.dtype) for x in arrays]
    return concat([x.reshape(-1) for x in arrays] or [zeros(0)]), functools.partial(_unravel, treedef, kinds)


def _unravel(treedef: Any, kinds: list[tuple[int, Any, Any]], vector: Any) -> Any:
    ends = np.cumsum([size for size, _, _ in kinds])
    parts = [vector[end - size : end].reshape(shape) for end, (size, shape, _) in zip(ends, kinds, strict=True)]
    return put(treedef, [part.astype(dtype) for part, (_, _, dtype) in zip(parts, kinds, strict=True)])


def tree_all(tree: Any, *, is_leaf: Any = None) -> bool:
    """Tell whether all leaves are true."""
    return all(tree_leaves(tree, is_leaf))


def tree_broadcast(prefix_tree: Any, full_tree: Any, is_leaf: Any = None) -> Any:
    """Return a tree with each leaf of a prefix in all places below it."""
    treedef = tree_structure(full_tree, is_leaf)
    return put(treedef, pytree.broadcast_prefix(prefix_tree, full_tree, who="tree_broadcast"))


def tree_transpose(outer_treedef: Any, inner_treedef: Any, pytree_to_transpose: Any) -> Any:
    """Return a tree of trees the other way round; None stands for the structure that all inner ones have."""
    if inner_treedef is None:
        outer = put(outer_treedef, [0.0] * outer_treedef.num_leaves)
        inner_treedef = tree_structure(_parts_at(outer, outer_treedef, pytree_to_transpose, None)[0])
    leaves, count = pytree.leaves(pytree_to_transpose), inner_treedef.num_leaves
    return put(inner_treedef, [put(outer_treedef, leaves[k::count]) for k in range(count)])


def all_leaves(iterable: Any, is_leaf: Any = None) -> bool:
    """Tell whether all are leaves."""
    return all(tree_structure(x, is_leaf).tokens == (nodes.LEAF,) for x in iterable)


def treedef_children(treedef: Any) -> list[PyTreeDef]:
    """Return the structures of the parts."""
    return PyTreeDef.children(treedef)


def treedef_is_leaf(treedef: Any) -> bool:
    """Tell whether a structure has no parts: a leaf, or None."""
    return sum(1 for _ in treedefs.trails(treedef.tokens)) == 1


# --- Paths


@attrs.frozen
class DictKey:
    """A step of a path: a key."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"


@attrs.frozen
class SequenceKey:
    """A step of a path: a place."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx}]"


@attrs.frozen
class FlattenedIndexKey:
    """A step of a path: a place among children that have no keys."""

    key: int

    def __str__(self) -> str:
        return f"[<flat index {self.key}>]"


@attrs.frozen
class GetAttrKey:
    """A step of a path: a field."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"


KEYED = dict[type, Any]()  # what gives pairs of keys and children, by registered class


def _paths(tree: Any, stops: Callable[[Any], bool], path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, Any]]:
    """Yield paths and leaves."""
    cls: Any = tree.__class__
    in_class = attrs.has(cls)

    def is_child(x: Any) -> bool:
        return x is not tree and x is not None and not (in_class and isinstance(x, (bool, int)))

    children, treedef = ([], None) if tree is None or stops(tree) else treedefs.flatten_until(tree, is_child)
    texts = pytree.paths(treedef) if treedef else []
    if tree is not None and (not treedef or texts == [""]):
        yield path, tree
        return
    keyed = KEYED.get(cls)
    for text, child in zip(texts, children, strict=True):
        key = ast.literal_eval(text[1:-1]) if text[0] == "[" else text[1:]
        step: Any = SequenceKey(key) if isinstance(key, int) else GetAttrKey(key)
        step = DictKey(key) if isinstance(tree, dict) else keyed(tree)[0][key][0] if keyed else step
        yield from _paths(child, stops, (*path, step))


def tree_flatten_with_path(tree: Any, is_leaf: Any = None) -> tuple[list[tuple[Any, Any]], Any]:
    """Return pairs of paths and leaves, and the structure."""
    return list(_paths(tree, _stops(tree, is_leaf))), tree_structure(tree, is_leaf)


def tree_leaves_with_path(tree: Any, is_leaf: Any = None) -> list[tuple[Any, Any]]:
    """Return pairs of paths and leaves."""
    return tree_flatten_with_path(tree, is_leaf)[0]


def tree_map_with_path(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: Any = None) -> Any:
    """Return a tree of the function of paths and leaves."""
    pairs, treedef = tree_flatten_with_path(tree, is_leaf)
    others = [_parts_at(tree, treedef, other, is_leaf) for other in rest]
    return put(treedef, [f(*pair, *more) for pair, *more in zip(pairs, *others, strict=True)])


def keystr(keys: Any, *, simple: bool = False, separator: str = "") -> str:
    """Return a path as text."""
    return separator.join([str(next(iter(attrs.asdict(k).values()))) if simple else str(k) for k in keys])


# --- Classes of one's own


def register_pytree_node(
    nodetype: Any, flatten_func: Any, unflatten_func: Any, flatten_with_keys_func: Any = None
) -> None:
    """Register a class by functions to and from children, and what is no child: a dict, too."""

    def flatten(x: Any) -> Any:
        children, rest = flatten_func(x)
        return children, _Rest((rest,))

    def number(x: Any) -> Any:
        return [(FlattenedIndexKey(n), child) for n, child in enumerate(flatten_func(x)[0])], None

    pytree.register(nodetype, flatten, lambda rest, children: unflatten_func(rest[0], tuple(children)))
    KEYED[nodetype] = flatten_with_keys_func or number


class _Rest(tuple[Any]):
    """What JAX compares of a structure: it need not hash."""

    def __hash__(self) -> int:
        try:
            return hash(self[0])
        except TypeError:  # of a dict
            return hash(repr(self[0]))


def register_pytree_node_class(cls: Any) -> Any:
    """Register a class that has ``tree_flatten`` and ``tree_unflatten``."""
    register_pytree_node(cls, cls.tree_flatten, cls.tree_unflatten)
    return cls


def register_dataclass(nodetype: Any, data_fields: Any = None, meta_fields: Any = None, **_: Any) -> Any:
    """Register a dataclass; fields of the structure are named, or have ``metadata={"static": True}``."""
    if data_fields is None:
        fields = {f.name: f.metadata.get("static", False) for f in dataclasses.fields(nodetype) if f.init}
        data_fields, meta_fields = [[n for n, is_meta in fields.items() if is_meta == m] for m in (False, True)]

    def flatten(x: Any) -> Any:
        data, meta = [tuple([getattr(x, n) for n in names]) for names in (data_fields, meta_fields)]
        return data, meta

    def keys(_: Any) -> Any:
        return [(GetAttrKey(name), None) for name in data_fields], None

    def unflatten(meta: Any, data: Any) -> Any:
        return nodetype(**dict(zip([*data_fields, *meta_fields], [*data, *meta], strict=True)))

    register_pytree_node(nodetype, flatten, unflatten, keys)
    return nodetype


def dataclass(cls: Any = None, **options: Any) -> Any:
    """Return a frozen dataclass that is a tree, with a method ``replace``, as Flax and Chex have them."""
    if cls is None:
        return functools.partial(dataclass, **options)
    options.pop("mappable_dataclass", None)
    made: Any = dataclasses.dataclass(**{**options, "frozen": True})(cls)
    made.replace = dataclasses.replace
    return register_dataclass(made)


def register_pytree_with_keys(nodetype: Any, flatten_with_keys: Any, unflatten_func: Any, *_: Any) -> None:
    """Register a class by functions to pairs of keys and children, and from children."""

    def flatten(x: Any) -> Any:
        pairs, rest = flatten_with_keys(x)
        return [child for _, child in pairs], rest

    register_pytree_node(nodetype, flatten, unflatten_func, flatten_with_keys)


def register_pytree_with_keys_class(cls: Any) -> Any:
    """Register a class that has ``tree_flatten_with_keys`` and ``tree_unflatten``."""
    register_pytree_with_keys(cls, cls.tree_flatten_with_keys, cls.tree_unflatten)
    return cls


def register_static(cls: Any) -> Any:
    """Register a class whose instances have no leaves."""
    register_pytree_node(cls, _no_children, same)
    return cls


def _no_children(x: Any) -> Any:
    return (), x


class Partial(functools.partial[Any]):  # of JAX
    """A function with arguments that are leaves."""


def _parts_of(partial: Any) -> Any:
    return (partial.args, partial.keywords), partial.func


def _partial_of(fn: Any, parts: Any) -> Any:
    return Partial(fn, *parts[0], **parts[1])


register_pytree_node(Partial, _parts_of, _partial_of)


# --- Dicts by paths, as Flax has them


def flatten_dict(
    xs: Any, keep_empty_nodes: bool = False, is_leaf: Any = None, sep: str | None = None
) -> dict[Any, Any]:
    """Return values by tuples of keys, or by keys joined by a text."""
    found = dict[Any, Any]()

    def visit(path: tuple[Any, ...], value: Any) -> None:
        known: Any = value
        is_empty = keep_empty_nodes and path and not value
        if not isinstance(value, dict) or is_empty or (path and is_leaf is not None and is_leaf(path, known)):
            found[sep.join(path) if sep else path] = known
            return
        for name in known:
            visit((*path, name), known[name])

    visit((), xs)
    return found


def unflatten_dict(xs: Any, sep: str | None = None) -> dict[Any, Any]:
    """Return dicts of dicts again."""
    found = dict[Any, Any]()
    for path, value in xs.items():
        *above, last = path.split(sep) if sep else path
        functools.reduce(lambda at, key: at.setdefault(key, {}), above, found)[last] = value
    return found


def path_aware_map(f: Callable[..., Any], nested_dict: Any) -> Any:
    """Return dicts of a function of paths and values."""
    return unflatten_dict({path: f(path, value) for path, value in flatten_dict(nested_dict).items()})


# --- Chex's assertions


def _for_each(inputs: Any, wanted: Any, is_one: bool) -> Iterator[tuple[Any, Any]]:
    """Yield arrays, each with what is wanted of it."""
    arrays = [asarray(x) for x in (inputs if is_sequence(inputs) else [inputs])]
    yield from zip(arrays, [wanted] * len(arrays) if is_one else wanted, strict=True)


def _ensure(holds: Any, name: str, found: Any, wanted: Any) -> None:
    if not holds:
        raise AssertionError(f"{name}: got {found}; wanted {wanted}")


def assert_shape(inputs: Any, expected_shapes: Any) -> None:
    """Check the shapes of arrays: None stands for any length, ``...`` for any axes."""
    for x, shape in _for_each(inputs, expected_shapes, not any(map(is_sequence, expected_shapes))):
        before, dots, after = list(shape), 0, []
        if ... in shape:
            place = before.index(...)
            before, after = before[:place], before[place + 1 :]
            dots = max(x.ndim - len(before) - len(after), 0)
        lengths = [*before, *[None] * dots, *after]
        fits = len(lengths) == x.ndim and all(n is None or n == m for n, m in zip(lengths, x.shape, strict=True))
        _ensure(fits, "assert_shape", x.shape, shape)


def assert_rank(inputs: Any, expected_ranks: Any) -> None:
    """Check the numbers of axes of arrays; a set has several that are right."""
    for x, rank in _for_each(inputs, expected_ranks, isinstance(expected_ranks, (int, set))):
        _ensure(x.ndim in rank if isinstance(rank, set) else x.ndim == rank, "assert_rank", x.ndim, rank)


def assert_type(inputs: Any, expected_types: Any) -> None:
    """Check the dtypes of arrays, of which Python's float, int and bool are kinds."""
    kinds: dict[Any, str] = {float: "f", int: "iu", bool: "b"}
    for x, kind in _for_each(inputs, expected_types, not is_sequence(expected_types)):
        fits = x.dtype.kind in kinds[kind] if kind in kinds else x.dtype == np.dtype(kind)
        _ensure(fits, "assert_type", x.dtype, kind)


def assert_scalar(x: Any) -> None:
    """Check that a value is one number."""
    assert_rank(x, 0)


def assert_equal_shape(inputs: Any) -> None:
    """Check that arrays have one shape."""
    assert_shape(inputs, asarray(inputs[0]).shape)


def assert_axis_dimension(tensor: Any, axis: int, expected: int) -> None:
    """Check the length of an axis."""
    _ensure(tensor.shape[axis] == expected, "assert_axis_dimension", tensor.shape, expected)


def assert_equal(first: Any, second: Any) -> None:
    """Check that two values are equal."""
    _ensure(first == second, "assert_equal", first, second)


def assert_tree_all_finite(tree_like: Any) -> None:
    """Check that all numbers of a tree are finite."""
    _ensure(all(np.isfinite(x).all() for x in tree_leaves(tree_like)), "assert_tree_all_finite", tree_like, "numbers")


def assert_trees_all_equal_structs(*trees: Any) -> None:
    """Check that trees have one structure."""
    for tree in trees[1:]:
        first, other = map(tree_structure, (trees[0], tree))
        _ensure(first == other, "assert_trees_all_equal_structs", other, first)


def assert_trees_all_equal_shapes(*trees: Any) -> None:
    """Check that trees have one structure, and leaves of the same shapes."""
    assert_trees_all_equal_structs(*trees)
    for leaves in zip(*map(tree_leaves, trees), strict=True):
        assert_equal_shape(leaves)


def assert_trees_all_close(*trees: Any, rtol: float = 1e-6, atol: float = 0.0) -> None:
    """Check that trees have one structure, and the same numbers within a tolerance."""
    assert_trees_all_equal_structs(*trees)
    for first, *others in zip(*map(tree_leaves, trees), strict=True):
        for x in others:
            np.testing.assert_allclose(x, first, rtol=rtol, atol=atol)


def assert_trees_all_equal(*trees: Any) -> None:
    """Check that trees have one structure, and the same numbers."""
    assert_trees_all_close(*trees, rtol=0.0)


# --- Derivatives by trees that hold whole numbers and truth values

float0: Any = np.dtype(np.bool_)  # of derivatives by these: one that `jit` returns, and that no other derivative has


def value_and_grad(fun: Any, *args: Any, allow_int: bool = True, **options: Any) -> Any:
    """Return a function to values and derivatives, those by whole numbers of `float0`.

    >>> value_and_grad(lambda tree: 2.0 * tree[0], allow_int=True)((3.0, np.arange(2)))[1][1].shape
    (2,)
    """
    del allow_int
    slopes: Any = derivatives.value_and_grad  # of any function
    found = slopes(fun, *args, **options)

    def run(*xs: Any, **kwargs: Any) -> Any:
        value, grads = found(*xs, **kwargs)
        return value, pytree.map(lambda g: g if g.dtype.kind in "fc" else zeros(g.shape, float0), grads)

    return run


def grad(fun: Any, *args: Any, has_aux: bool = False, **options: Any) -> Any:
    """Return a function to these derivatives, and what else the function returns."""
    both = value_and_grad(fun, *args, has_aux=has_aux, **options)

    def run(*xs: Any, **kwargs: Any) -> Any:
        value, grads = both(*xs, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return run
