"""afx.pytree: what a tree is, how it is taken apart and put together, and what its errors say."""

import collections
import copy
import doctest
import enum
import functools
import gc
import importlib
import pickle
import threading
from typing import Generic, NamedTuple, TypeVar

import attrs
import numpy as np
import pytest
from hypothesis import given, strategies as st

from afx import pytree
from afx.errors import ImmutableError, TreeError
from tests.every import together

T = TypeVar("T")


@attrs.frozen
class Line:
    """Two leaves."""

    slope: object
    intercept: object


@attrs.frozen
class Layer:
    """Leaves beside every sort of static field."""

    weight: object
    bias: object = None
    activation: object = np.tanh
    size: int = 3
    shape: tuple[int, ...] = (2, 3)
    use_bias: bool = True
    name: str = "layer"
    rate: float = pytree.static(default=0.5)


@attrs.frozen
class Model:
    """A tree below a field."""

    layers: object
    head: object = None


@attrs.frozen(slots=False)
class Loose:
    """Has a dict instead of slots."""

    weight: object
    _hidden: object


@attrs.frozen(cache_hash=True)
class Hashed:
    """Remembers its hash."""

    weight: object


@attrs.frozen(cache_hash=True, slots=False)
class LooseHashed:
    """Remembers its hash in its dict."""

    weight: object


def _refuse(_instance: object, _attribute: object, value: object) -> None:
    if not isinstance(value, float):
        raise ValueError("not a float")


@attrs.frozen
class Strict(Generic[T]):
    """Converts, validates and computes when it is made by hand."""

    weight: T = attrs.field(converter=float, validator=_refuse)
    double: object = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Fill the field that `__init__` does not take."""
        object.__setattr__(self, "double", 2 * self.weight)


@attrs.frozen
class Empty:
    """No fields."""


@attrs.define
class Mutable:
    """Not frozen."""

    weight: object


class Point(NamedTuple):
    """A named tuple."""

    x: object
    y: object


class Colour(enum.Enum):
    """Static."""

    RED = 1


class Level(enum.IntEnum):
    """Static though an int."""

    LOW = 1


class Duck:
    """Declares itself a leaf."""

    __afx_leaf__ = True


class LateDuck:
    """Declares itself a leaf; met inside of classes first."""

    __afx_leaf__ = True


leaf_values = st.floats(allow_nan=False) | st.integers() | st.booleans() | st.complex_numbers(allow_nan=False)
leaf_arrays = st.integers(0, 3).map(lambda n: np.arange(n, dtype=np.float32))
keys = st.text(max_size=2) | st.integers(0, 3)
trees = st.recursive(
    leaf_values | leaf_arrays | st.none() | st.sampled_from(["relu", np.tanh, Colour.RED, np.dtype("f4"), Empty()]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(keys, inner, max_size=3)
        | st.builds(Line, inner, inner)
        | st.builds(Loose, inner, inner)
        | st.builds(Point, inner, inner)
        | st.builds(Layer, inner, rate=st.floats(0, 1))
    ),
    max_leaves=12,
)


def identical(left: object, right: object) -> bool:
    """Compare two trees node by node, without the library."""
    if type(left) is not type(right):
        return False
    if attrs.has(type(left)):
        names = [field.name for field in attrs.fields(type(left))]
        return all(identical(getattr(left, name), getattr(right, name)) for name in names)
    if isinstance(left, dict):
        return list(left) == list(right) and all(identical(left[key], right[key]) for key in left)
    if isinstance(left, tuple | list):
        return len(left) == len(right) and all(map(identical, left, right))
    return left is right or bool(np.array_equal(left, right))


# ------------------------------------------------------------------------------------------------------ round trips


@given(trees)
def test_unflatten_inverts_flatten(tree: object) -> None:
    """Any tree comes back with its classes, its keys in their order, and the very same leaves."""
    leaves, treedef = pytree.flatten(tree)
    assert identical(pytree.unflatten(treedef, leaves), tree)
    assert treedef.num_leaves == len(leaves) == len(pytree.paths(treedef))


@given(trees)
def test_structures_are_values(tree: object) -> None:
    """Structures of a tree and of its copies are equal, hash alike and survive pickling."""
    treedef = pytree.structure(tree)
    again = pytree.structure(pytree.unflatten(treedef, pytree.leaves(tree)))
    for other in (again, pickle.loads(pickle.dumps(treedef)), copy.deepcopy(treedef)):
        assert other == treedef
        assert hash(other) == hash(treedef)
        assert repr(other) == repr(treedef)
        assert other.num_leaves == treedef.num_leaves


@given(trees, trees)
def test_structures_differ_where_trees_print_differently(left: object, right: object) -> None:
    """Two structures are equal exactly when they print alike."""
    one, two = pytree.structure(left), pytree.structure(right)
    assert (one == two) == (repr(one) == repr(two))


@given(trees)
def test_paths_lead_to_the_leaves(tree: object) -> None:
    """Each key path, evaluated as Python, finds its leaf."""
    for path, leaf in pytree.flatten_with_path(tree)[0]:
        assert eval(f"tree{path}", {"tree": tree}) is leaf or leaf == eval(f"tree{path}", {"tree": tree})


@given(trees)
def test_map_of_the_identity_is_the_tree(tree: object) -> None:
    """Mapping leaves to themselves gives the same tree."""
    assert identical(pytree.map(lambda leaf: leaf, tree), tree)
    assert identical(pytree.map_with_path(lambda _, leaf: leaf, tree), tree)
    assert pytree.equal(tree, pytree.map(lambda leaf: leaf, tree))


# --------------------------------------------------------------------------------------------- leaves and structure


@together("leaf", [1.0, 1j, 1, True, np.zeros(3), np.float32(1), np.bool_(True), np.int8(1), Duck(), np.array("x")])
def test_arrays_and_numbers_are_leaves(leaf: object) -> None:
    """Arrays, numbers and types that declare themselves are leaves, alone and in containers."""
    assert pytree.is_leaf(leaf)
    assert pytree.leaves(leaf) == [leaf]
    assert [found is leaf for found in pytree.leaves([(leaf,), {"k": leaf}])] == [True, True]


@pytest.mark.parametrize("value", ["relu", b"x", Colour.RED, Level.LOW, np.dtype("f4"), float, np.tanh, len, None])
def test_what_is_no_data_is_structure(value: object) -> None:
    """Strings, enums, dtypes, types, callables and None have no leaves and come back as they are."""
    leaves, treedef = pytree.flatten([value])
    assert leaves == []
    assert pytree.unflatten(treedef, []) == [value]
    assert not pytree.is_leaf(value)
    assert hash(treedef) == hash(pytree.structure([value]))


def test_ints_are_leaves_as_arguments_and_static_inside_classes() -> None:
    """Ints and bools are leaves in containers; below a field of an attrs class, at any depth, they are structure."""
    assert pytree.leaves((1, [True], {"k": 2})) == [1, True, 2]
    assert pytree.leaves(Model((1, [True], {"k": 2}))) == []
    assert pytree.leaves((1, Model([2, 3.0]), 4)) == [1, 3.0, 4]


def test_fields_are_leaves_or_structure_by_their_values() -> None:
    """A layer's arrays are its leaves; everything else prints in its structure."""
    leaves, treedef = pytree.flatten(Layer(1.0))
    assert leaves == [1.0]
    assert repr(treedef) == (
        "Layer(weight=*, bias=None, activation=<ufunc 'tanh'>, size=3, shape=(2, 3), use_bias=True, name='layer', "
        "rate=0.5)"
    )


@together(
    "change",
    [
        {"size": 4},
        {"size": True},
        {"use_bias": 1},
        {"shape": (2, 3, 4)},
        {"name": "x"},
        {"rate": 1.0},
        {"activation": np.sin},
        {"bias": 1.0},
        {"rate": 1},
        {"rate": (1, 2)},
    ],
)
def test_static_values_belong_to_the_structure(change: dict[str, object]) -> None:
    """Structures with different static values, or values of different types, are different."""
    assert pytree.structure(attrs.evolve(Layer(1.0), **change)) != pytree.structure(Layer(1.0))


def test_static_values_are_compared_with_their_types() -> None:
    """1, 1.0 and True are three structures, also within tuples; so are 0.0 and -0.0."""
    values: list[object] = [1, 1.0, True, (1,), (1.0,), (True,), 0.0, -0.0, 1j]
    assert len({pytree.structure(Layer(1.0, rate=value)) for value in values}) == len(values)


def test_static_marks_anything_that_hashes() -> None:
    """A marked field holds a float, a tuple or a frozen instance without giving it up as leaves."""
    for value in (0.25, (1.0, 2.0), Line(1.0, 2.0), frozenset((1,)), range(3)):
        assert pytree.leaves(Layer(1.0, rate=value)) == [1.0]


def test_static_keeps_the_options_of_a_field() -> None:
    """Static passes metadata, defaults, factories and keyword-only on to attrs."""

    @attrs.frozen
    class Options:
        a: int = pytree.static(metadata={"unit": "s"}, kw_only=True)
        b: tuple[int, ...] = pytree.static(factory=tuple)

    assert attrs.fields(Options).a.metadata["unit"] == "s"
    assert Options(a=1) == Options((), a=1)


def test_an_array_in_two_places_is_two_leaves() -> None:
    """Weight tying gives one leaf per place."""
    weight = np.zeros(2)
    assert [leaf is weight for leaf in pytree.leaves(Model(Line(weight, weight), weight))] == [True] * 3


def test_leaf_types_met_late_change_nothing() -> None:
    """A leaf type met for the first time inside of a class gives the structure it gives later."""
    first = pytree.structure((Line(LateDuck(), LateDuck()), [LateDuck()]))
    assert (
        first
        == pytree.structure((Line(LateDuck(), LateDuck()), [LateDuck()]))
        == pytree.structure((Line(1.0, 1.0), [1.0]))
    )


# ------------------------------------------------------------------------------------------------------------ dicts


def test_dicts_compare_by_keys_in_any_order() -> None:
    """Insertion order is kept in the result and ignored in comparing; leaves align by key."""
    one, two = {"b": 1.0, "a": 2.0}, {"a": 20.0, "b": 10.0}
    assert pytree.structure(one) == pytree.structure(two)
    assert hash(pytree.structure(one)) == hash(pytree.structure(two))
    total = pytree.map(lambda x, y: x + y, one, two)
    assert list(total.items()) == [("b", 11.0), ("a", 22.0)]


def test_keys_that_do_not_compare_are_ordered_all_the_same() -> None:
    """Keys of mixed types align whatever the order of their insertion."""
    items: list[tuple[object, float]] = [("x", 1.0), (1, 2.0), (None, 3.0), ((1, "x"), 4.0), (Colour.RED, 5.0)]
    forth, back = dict(items), dict(reversed(items))
    assert pytree.structure(forth) == pytree.structure(back)
    assert pytree.leaves(forth) == pytree.leaves(back)
    assert pytree.map(lambda x: x, back) == back


def test_keys_are_compared_with_their_types() -> None:
    """{1: …}, {True: …} and {1.0: …} are different structures and come back as they were."""
    for key in (1, True, 1.0):
        (back,) = pytree.map(lambda x: x, {key: 0.5})
        assert type(back) is type(key)
    assert len({pytree.structure({key: 0.5}) for key in (1, True, 1.0)}) == 3


def test_many_different_dicts_stay_equal_to_themselves() -> None:
    """Structures remain equal when more kinds of dict were seen than are remembered."""
    before = pytree.structure({"kept": 1.0})
    for number in range(5000):
        pytree.structure({number: 1.0})
    assert before == pytree.structure({"kept": 1.0})


# ---------------------------------------------------------------------------------------------------------- classes


def test_unflatten_bypasses_init_converters_and_validators() -> None:
    """A leaf may be replaced by anything; fields that `__init__` computes are leaves as well."""
    leaves, treedef = pytree.flatten(Strict[float](1.0))
    assert leaves == [1.0, 2.0]
    made = pytree.unflatten(treedef, ["not a float", None])
    assert type(made) is Strict
    assert (made.weight, made.double) == ("not a float", None)


@pytest.mark.parametrize("cls", [Hashed, LooseHashed])
def test_cached_hashes_are_forgotten(cls: type[Hashed]) -> None:
    """An instance built with other leaves hashes as if it were made by hand."""
    one = cls(1.0)
    hash(one)
    two = pytree.map(lambda _: 2.0, one)
    assert hash(two) == hash(cls(2.0))


def test_subclasses_keep_their_class() -> None:
    """Fields inherited through slots and dicts are set, and the class is the leaf class."""

    @attrs.frozen
    class Child(Loose):
        extra: object = 1.0

    @attrs.frozen
    class Grandchild(Line):
        extra: object = 1.0

    class Plain(Line):
        """Not decorated itself."""

    for tree in (Child(1.0, 2.0), Grandchild(1.0, 2.0), Plain(1.0, 2.0)):
        made = pytree.map(lambda x: x + 1, tree)
        assert type(made) is type(tree)
        assert attrs.astuple(made) == tuple(x + 1 for x in attrs.astuple(tree))


def test_older_spellings_of_frozen_are_accepted() -> None:
    """`define(frozen=True)` and `attr.s(frozen=True)` are frozen; so is what inherits it."""

    @attrs.define(frozen=True)
    class Defined:
        x: object

    @attrs.define
    class Heir(Defined):
        y: object

    made = attrs.make_class("Made", ["x"], frozen=True)
    assert pytree.leaves([Defined(1.0), Heir(2.0, 3.0), made(4.0)]) == [1.0, 2.0, 3.0, 4.0]


def test_named_tuples_keep_their_class() -> None:
    """Named tuples come back as themselves, with paths by name."""
    made = pytree.map(lambda x: 2 * x, Point(1.0, [2.0]))
    assert made == Point(2.0, [4.0])
    assert type(made) is Point
    assert pytree.paths(pytree.structure(made)) == [".x", ".y[0]"]


def test_private_fields_have_their_own_names() -> None:
    """Paths show the attribute, not the argument of `__init__`."""
    assert pytree.paths(pytree.structure(Loose(1.0, 2.0))) == [".weight", "._hidden"]


# ------------------------------------------------------------------------------------------------------- structures


def test_structures_print_as_the_tree() -> None:
    """The repr of a structure is the tree with * for its leaves."""
    tree = {"model": Model([Line(1.0, None), (2.0,)], ()), 1: Point(np.zeros(2), "x")}
    assert repr(pytree.structure(tree)) == (
        "{1: Point(x=*, y='x'), 'model': Model(layers=[Line(slope=*, intercept=None), (*,)], head=())}"
    )


def test_structures_are_immutable() -> None:
    """Nothing of a structure can be set or deleted."""
    treedef = pytree.structure([1.0])
    with pytest.raises(ImmutableError, match="flatten another tree"):
        treedef.num_leaves = 3
    with pytest.raises(ImmutableError):
        del treedef.num_leaves
    assert treedef != "[*]"


def test_depth_is_not_limited_by_recursion() -> None:
    """A tree 10 000 levels deep is flattened, hashed, compared, printed, pickled, mapped and located."""
    tree: object = 1.0
    for _ in range(10_000):
        tree = (tree,)
    leaves, treedef = pytree.flatten(tree)
    assert leaves == [1.0]
    assert hash(treedef) == hash(pytree.structure(tree))
    assert treedef == pickle.loads(pickle.dumps(treedef))
    assert pytree.paths(treedef) == ["[0]" * 10_000]
    assert repr(treedef).count("(") == 10_000
    assert pytree.leaves(pytree.map(lambda x: x + 1, tree)) == [2.0]


def test_nothing_is_left_in_cycles() -> None:
    """Flattening, mapping and failing leave nothing to the garbage collector."""
    tree = Model([Layer(np.zeros(2)), {"b": 1.0, "a": (2.0,)}], Point(1.0, None))
    pytree.map(lambda x: x, tree)
    gc.collect()
    gc.disable()
    try:
        for _ in range(10):
            hash(pytree.structure(pytree.map(lambda x: x, tree)))
            repr(pytree.flatten_with_path(tree))
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_threads_agree_on_classes_met_for_the_first_time() -> None:
    """Threads that meet a class at once get equal structures."""
    for number in range(20):
        cls = attrs.make_class(f"Met{number}", ["x", "y"], frozen=True)
        found: list[object] = []
        barrier = threading.Barrier(4)

        def work(cls: type = cls, found: list[object] = found, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            found.append(pytree.structure([cls(1.0, None)]))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(found)) == 1
        assert len(found) == 4


# ---------------------------------------------------------------------------------------------------------- equality


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (np.float32([1, np.nan]), np.float32([1, np.nan])),
        (np.array([complex(np.nan, 1)]), np.array([complex(np.nan, 1)])),
        (np.zeros((0, 2)), np.zeros((0, 2))),
        (np.float32(2), np.array(2, np.float32)),
        (float("nan"), float("nan")),
        (np.array(["a"]), np.array(["a"])),
        ({"a": 1.0, "b": Line(1, 2.0)}, {"b": Line(1, 2.0), "a": 1.0}),
        (None, None),
    ],
)
def test_equal_trees(left: object, right: object) -> None:
    """Trees of the same structure, dtypes, shapes, values and nans are equal."""
    assert pytree.equal(left, right)


@together(
    ("left", "right"),
    [
        (np.float32([1, np.nan]), np.float32([np.nan, 1])),
        (np.float32([1, 2]), np.float64([1, 2])),
        (np.zeros((1, 2)), np.zeros(2)),
        (np.zeros((0, 2)), np.zeros((2, 0))),
        (1.0, 1),
        (1.0, np.float64(1)),
        (True, 1),
        ([1.0], (1.0,)),
        (Line(1.0, None), Line(1.0, 2.0)),
        (Layer(1.0, size=2), Layer(1.0, size=3)),
    ],
)
def test_unequal_trees(left: object, right: object) -> None:
    """A difference in structure, type, dtype, shape, value or the place of a nan shows."""
    assert not pytree.equal(left, right)
    assert not pytree.equal(right, left)


# ----------------------------------------------------------------------------------------------------------- errors


class Unhashable:
    """A callable without a hash."""

    __hash__ = None

    def __call__(self) -> None:
        """Do nothing."""


class Special(dict):
    """A dict with behaviour of its own."""


class Foreign:
    """Another library's array."""

    def __array__(self) -> np.ndarray:
        """Convert."""
        return np.zeros(2)


def _unset() -> Line:
    return Line.__new__(Line)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (
            Model([1.0, Mutable(1.0)]),
            (
                "pytree: an attrs class that is not frozen, which would be shared and changed behind a transformation"
                "'s back, at .layers[1]: got Mutable; decorate Mutable with @attrs.frozen"
            ),
        ),
        (
            {"w": [1.0, {1.0}]},
            (
                "pytree: a value that is neither a tree nor a leaf, at ['w'][1]: got set; use a tuple or a dict, whose "
                "items have an order, or mark its field with afx.static()"
            ),
        ),
        (
            object(),
            (
                "pytree: a value that is neither a tree nor a leaf, at the top: got object; mark its field with "
                "afx.static(), or write object as an @attrs.frozen class"
            ),
        ),
        (
            (1.0, Layer(1.0, rate=[1])),
            "pytree: a part of the structure that does not hash, at [1].rate: got list; use a tuple",
        ),
        (
            Layer(1.0, rate=np.zeros(2)),
            (
                "pytree: a part of the structure that does not hash, at .rate: got ndarray; take the mark afx.static() "
                "off the field"
            ),
        ),
        (
            Point(1.0, Unhashable()),
            (
                "pytree: a part of the structure that does not hash, at .y: got Unhashable; use a value that hashes, "
                "such as a tuple or a frozen class of such values"
            ),
        ),
        (
            [Special()],
            (
                "pytree: a subclass of dict, which may hold more than its items, at [0]: got Special; pass a plain "
                "dict, register the class with afx.pytree.register, or write it with @attrs.frozen"
            ),
        ),
        (
            [Foreign()],
            "pytree: a value that is neither a tree nor a leaf, at [0]: got Foreign; convert it with afx.asarray",
        ),
        (
            [1.0, _unset()],
            (
                "pytree: a field is not set ('Line' object has no attribute 'slope'), at [1]: got Line; give every "
                "field a value"
            ),
        ),
    ],
)
def test_what_cannot_stand_in_a_tree_is_named(tree: object, message: str) -> None:
    """The error names the reason, the key path, the type and the way out, the second time as the first."""
    for _ in range(2):
        with pytest.raises(TreeError) as caught:
            pytree.flatten(tree)
        assert (
            str(caught.value).replace("'tests.pytree.test_pytree.Line'", "'Line'") == message
        )  # as newer Pythons name it
        assert caught.value.__cause__ is None


def test_mutable_dataclasses_are_refused_with_the_remedy() -> None:
    """A dataclass that is not frozen is told apart from an unknown value."""
    import dataclasses

    cls = dataclasses.make_dataclass("Data", ["x"])
    with pytest.raises(
        TreeError, match=r"a dataclass that is not frozen.*, at \[0\]: got Data; decorate Data with @dat"
    ):
        pytree.flatten([cls(1.0)])


def test_classes_on_built_in_types_are_refused() -> None:
    """An attrs class whose contents are not its fields is refused when met, not when it is built again."""
    cls = attrs.make_class("Odd", ["x"], bases=(Exception,), frozen=True, auto_exc=True)
    with pytest.raises(TreeError, match="built on a built-in type"):
        pytree.flatten(cls(1.0))
    assert not pytree.is_leaf(cls(1.0))


def test_a_list_that_contains_itself_is_refused() -> None:
    """A cycle ends in an error, not in a full memory."""
    line: list[object] = []
    line.append(line)
    tree: dict[str, object] = {"x": 1.0, "y": None}
    tree["self"] = [tree]
    for cycle in (line, tree, (line,), Model(tree)):
        with pytest.raises(TreeError, match="more than 50000 levels: got a list or dict that contains itself"):
            pytree.flatten(cycle)


def test_an_error_in_mid_tree_leaves_later_calls_right() -> None:
    """A refused tree has no effect on the next."""
    with pytest.raises(TreeError):
        pytree.flatten([1.0, {"k": {1.0}}])
    assert pytree.leaves([1.0, {"k": 2.0}]) == [1.0, 2.0]


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ([1.0, {"w": 1.0}], [1.0, {"v": 1.0}], "at [1]: got {'w': …} in the first and {'v': …} in tree 2"),
        (Line(1.0, None), Line(1.0, 2.0), "at .intercept: got None in the first and a leaf in tree 2"),
        ((1.0, 2.0), (1.0,), "at the top: got (…, …) in the first and (…,) in tree 2"),
        ((1.0, (2.0, 3.0)), (1.0, 2.0), "at [1]: got (…, …) in the first and a leaf in tree 2"),
        (Layer(1.0), Layer(1.0, size=4), "at .size: got 3 in the first and 4 in tree 2"),
        ([0.0] * 30, [0.0] * 31, "at the top: got a list of 30 in the first and a list of 31 in tree 2"),
        ([1.0, 1.0], [None, 1.0], "at [0]: got a leaf in the first and None in tree 2"),
    ],
)
def test_map_names_where_structures_differ(first: object, second: object, message: str) -> None:
    """The error of map gives the key path of the first difference and what stands there in each tree."""
    with pytest.raises(TreeError) as caught:
        pytree.map(lambda *_: 0.0, first, second)
    assert str(caught.value) == (
        f"map: tree 2 has another structure than the first, {message}; give trees of one structure"
    )


def test_map_over_three_trees() -> None:
    """Map takes any number of trees and names the one that does not fit."""
    assert pytree.map(lambda x, y, z: x + y * z, [1.0], [2.0], [3.0]) == [7.0]
    with pytest.raises(TreeError, match="map: tree 3 has another structure"):
        pytree.map(lambda *_: 0.0, [1.0], [2.0], (3.0,))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_unflatten_counts_leaves(count: int) -> None:
    """Too few or too many leaves are refused with the structure."""
    treedef = pytree.structure(Line(1.0, 2.0))
    with pytest.raises(TreeError) as caught:
        pytree.unflatten(treedef, (0.0,) * count)
    assert str(caught.value) == (
        f"unflatten: the number of leaves differs: got {count} for the 2 of Line(slope=*, intercept=*); "
        "give one for each leaf"
    )


def test_unflatten_keeps_its_own_list() -> None:
    """The list of leaves given is neither changed nor shared with the tree."""
    given_leaves = [1.0, 2.0]
    made = pytree.unflatten(pytree.structure([0.0, 0.0]), given_leaves)
    made.append(3.0)
    assert given_leaves == [1.0, 2.0]


def test_callables_that_wrap_are_compared_by_identity() -> None:
    """A partial is static and equal to itself only."""
    scale, other = functools.partial(max, 1), functools.partial(max, 1)
    assert pytree.structure(Layer(1.0, activation=scale)) == pytree.structure(Layer(2.0, activation=scale))
    assert pytree.structure(Layer(1.0, activation=scale)) != pytree.structure(Layer(1.0, activation=other))


def test_other_dicts_are_refused() -> None:
    """A defaultdict, which has a function beside its items, asks to be made plain or to be registered."""
    with pytest.raises(TreeError, match=r"pass a plain dict, register the class with afx\.pytree\.register"):
        pytree.flatten(collections.defaultdict(float, a=1.0))


@pytest.mark.parametrize("module", ["", ".static", ".nodes", ".treedef", ".trees"])
def test_examples_in_docstrings_are_right(module: str) -> None:
    """Every doctest prints what it shows."""
    assert doctest.testmod(importlib.import_module("afx.pytree" + module)).failed == 0


def test_structures_of_equal_nodes_are_one_object() -> None:
    """Flattening finds a structure again that it made before; the order of keys and static values stay their tree's."""
    first, again = (pytree.structure({"w": [1.0, k], "b": (2.0, None)}) for k in (3.0, 4.0))
    assert first is again
    other = {"b": (2.0, None), "w": [1.0, 3.0]}
    assert pytree.structure(other) == first
    assert list(pytree.map(lambda x: x, other)) == ["b", "w"]
    assert list(pytree.map(lambda x: x, {"w": [1.0, 3.0], "b": (2.0, None)})) == ["w", "b"]
    for value in ("relu", "tanh", "relu"):
        assert pytree.map(lambda x: x, (1.0, value))[1] == value
    wide = [[float(k)] * (k % 3) for k in range(100)]
    assert pytree.unflatten(pytree.structure(wide), pytree.leaves(wide)) == wide


def test_a_structure_makes_trees() -> None:
    """By its method as by the function, errors included."""
    treedef = pytree.structure({"w": [1.0, 2.0], "b": None})
    assert treedef.unflatten(iter("xy")) == {"w": ["x", "y"], "b": None}
    with pytest.raises(TreeError, match="number of leaves"):
        treedef.unflatten([1.0])
