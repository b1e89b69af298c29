"""Trees split, combined, changed in one place, ravelled, and made of containers of one's own."""

import copy
import dataclasses
import pickle
from collections import OrderedDict
from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx import Array, errors, pytree


@attrs.frozen
class Layer:
    weight: Any
    bias: Any
    size: int = 3
    note: Any = None


@attrs.frozen
class Net:
    layers: tuple[Layer, ...]
    mean: Any = afx.non_trainable()


def net() -> Net:
    """Make a model with a counter and running statistics."""
    layer = Layer(afx.ones((2, 2)), np.arange(3.0))
    return Net((layer, Layer(afx.zeros(2), afx.asarray(4))), afx.asarray([7.0]))


def test_partition_and_combine_are_inverse() -> None:
    """What is split by a function or a prefix tree is put together again, None in fields included."""
    model = net()
    for predicate in (lambda path, leaf: path.endswith("weight"), Net((True, False), True), True, False):
        chosen, rest = pytree.partition(model, predicate)
        assert isinstance(chosen, Net)
        assert len(pytree.leaves(chosen)) + len(pytree.leaves(rest)) == len(pytree.leaves(model))
        for again in (pytree.combine(chosen, rest), pytree.combine(rest, chosen)):
            assert pytree.equal(again, model)
    chosen, rest = pytree.partition(model, lambda path, leaf: leaf.dtype.kind == "f")
    assert rest.layers[1].bias.dtype == np.int64
    slopes = afx.grad(lambda part: afx.sum(pytree.combine(part, rest).layers[0].weight))(chosen)
    np.testing.assert_array_equal(slopes.layers[0].weight, np.ones((2, 2)))


def test_combine_refuses_what_does_not_belong_together() -> None:
    """Two leaves in one place, and other structures, are refused by path."""
    with pytest.raises(errors.TreeError, match=r"2 trees have a leaf at \['a'\]"):
        pytree.combine({"a": 1.0}, {"a": 2.0})
    with pytest.raises(errors.TreeError, match="combine: the structure of a tree differs"):
        pytree.combine({"a": 1.0}, {"b": None})
    assert pytree.combine({"a": None}, {"a": None}) == {"a": None}


def test_one_place_of_a_frozen_tree_is_changed() -> None:
    """By path or selector, a leaf or a part, to a value or by a function; the given tree stays."""
    model = net()
    changed = pytree.update_at(model, ".layers[1].weight", afx.ones(5))
    assert (changed.layers[1].weight.shape, model.layers[1].weight.shape) == ((5,), (2,))
    changed = pytree.update_at(model, lambda m: m.layers[0].bias, lambda x: x + 1)
    np.testing.assert_array_equal(changed.layers[0].bias, [1.0, 2.0, 3.0])
    assert changed.layers[1] is not None
    halved = pytree.update_at(model, ".layers[0]", lambda x: x / 2)
    np.testing.assert_array_equal(halved.layers[0].weight, np.full((2, 2), 0.5))
    np.testing.assert_array_equal(halved.mean, [7.0])
    both = pytree.update_at(model, lambda m: (m.mean, m.layers[1].bias), (1.0, 2.0))
    assert (both.mean, both.layers[1].bias) == (1.0, 2.0)
    moved = pytree.update_at({"a": 1.0, "ab": 2.0}, "['a']", 5.0)
    assert moved == {"a": 5.0, "ab": 2.0}


def test_places_that_are_not_there_are_refused() -> None:
    """An unknown path, another structure and a selector that returns something else are refused."""
    with pytest.raises(errors.TreeError, match=r"no leaves at '.layer'"):
        pytree.update_at(net(), ".layer", 1.0)
    with pytest.raises(errors.TreeError, match="for 2 leaves"):
        pytree.update_at({"a": [1.0, 2.0]}, "['a']", 1.0)
    with pytest.raises(errors.TreeError, match="another structure"):
        pytree.update_at({"a": [1.0, 2.0]}, lambda t: t["a"], (1.0, 2.0))
    with pytest.raises(errors.TreeError, match="returns parts of the tree"):
        pytree.update_at({"a": 1.0}, lambda t: 3.0, 1.0)


def test_map_stops_at_leaves_of_ones_own() -> None:
    """`is_leaf` names parts that are taken whole, None among them; the structure is that of plain leaves."""
    tree = {"a": (1.0, 2.0), "b": [(3.0, 4.0)], "n": None}
    found = pytree.map(lambda pair: sum(pair), tree, is_leaf=lambda x: isinstance(x, tuple))
    assert found == {"a": 3.0, "b": [7.0], "n": None}
    filled = pytree.map(lambda x: 0.0 if x is None else x, tree, is_leaf=lambda x: x is None)
    assert filled == {"a": (1.0, 2.0), "b": [(3.0, 4.0)], "n": 0.0}
    joined = pytree.map(lambda x, y: (x, y), {"a": (1, 2)}, {"a": (3, 4)}, is_leaf=lambda x: isinstance(x, tuple))
    assert joined == {"a": ((1, 2), (3, 4))}
    layers = pytree.map(lambda layer: layer.size, net().layers, is_leaf=lambda x: isinstance(x, Layer))
    assert layers == (3, 3)
    with pytest.raises(errors.TreeError, match="another structure"):
        pytree.map(lambda x, y: x, (1.0, None), (1.0, 2.0))


def test_reduce_goes_through_all_leaves() -> None:
    """All leaves, in their order, from the initial value on."""
    assert pytree.reduce(lambda found, x: [*found, x], {"b": 2.0, "a": (1.0, None)}, list[float]()) == [1.0, 2.0]
    assert pytree.reduce(lambda total, x: total + x, (), 5.0) == 5.0


# -- ravelling -------------------------------------------------------------------------------------------------------
def test_ravel_and_back() -> None:
    """Trained leaves of mixed dtypes go into one vector and come back in their own; the others stay."""
    model = net()
    vector, unravel = pytree.ravel(model)
    assert isinstance(vector, Array)
    assert (vector.shape, vector.dtype) == ((4 + 3 + 2,), np.float64)
    again = unravel(vector)
    assert pytree.equal(again, model)
    assert [x.dtype for x in pytree.leaves(again)] == [x.dtype for x in pytree.leaves(model)]
    assert isinstance(unravel(np.zeros(9)), Net)
    assert pytree.equal(pickle.loads(pickle.dumps(unravel))(vector), model)
    with pytest.raises(errors.ShapeError, match="has 9 elements: got shape"):
        unravel(np.zeros(8))


def test_ravel_is_differentiated_and_compiled() -> None:
    """Gradients go through both ways, eagerly and under jit; complex parts come back real where they were."""
    model = {"w": afx.asarray([1.0, 2.0]), "b": 3.0, "z": np.array([1j])}
    vector, unravel = pytree.ravel(model)
    assert vector.dtype == np.complex128

    def loss(p: Any) -> Array:
        return afx.sum(pytree.ravel(p)[0] ** 2)

    plain = {"w": afx.asarray([1.0, 2.0]), "b": 3.0}
    for run in (afx.grad(loss), afx.jit(afx.grad(loss))):
        slopes = run(plain)
        np.testing.assert_allclose(slopes["w"], [2.0, 4.0])
        np.testing.assert_allclose(slopes["b"], 6.0)
    found = unravel(vector + 1)
    assert (found["w"].dtype, found["b"].dtype, found["z"].dtype) == (np.float32, np.float32, np.complex128)
    flat, back = pytree.ravel(plain)
    np.testing.assert_allclose(afx.grad(lambda v: afx.sum(back(v)["w"] ** 2))(flat), [0.0, 2.0, 4.0])
    assert pytree.ravel({"n": 3})[0].shape == (0,)


# -- containers of one's own -----------------------------------------------------------------------------------------
class Pair:
    """A container with a name beside its parts."""

    def __init__(self, x: Any, y: Any, name: str) -> None:
        self.x, self.y, self.name = x, y, name


pytree.register(Pair, lambda pair: ((pair.x, pair.y), pair.name), lambda name, parts: Pair(*parts, name))


def test_registered_containers_are_trees() -> None:
    """They are taken apart, built, compared, compiled, differentiated and optimised."""
    pair = Pair(afx.ones(2), {"k": 3.0}, "p")
    assert pytree.paths(pytree.structure([pair])) == ["[0][0]", "[0][1]['k']"]
    assert pytree.structure(pair) == pytree.structure(Pair(1.0, {"k": 2.0}, "p"))
    assert pytree.structure(pair) != pytree.structure(Pair(1.0, {"k": 2.0}, "q"))
    assert hash(pytree.structure(pair)) == hash(pytree.structure(Pair(1.0, {"k": 2.0}, "p")))
    treedef = pytree.structure(pair)
    assert pickle.loads(pickle.dumps(treedef)) == treedef
    assert copy.deepcopy(treedef) == treedef
    slopes = afx.jit(afx.grad(lambda p: afx.sum(p.x**2) + p.y["k"]))(pair)
    assert (slopes.name, isinstance(slopes, Pair)) == ("p", True)
    np.testing.assert_array_equal(slopes.x, [2.0, 2.0])
    optimizer = afx.optim.sgd(0.5)
    after, _ = optimizer.step(pair, slopes, optimizer.init(pair))
    np.testing.assert_array_equal(after.x, [0.0, 0.0])


def test_ordered_dicts_keep_their_order() -> None:
    """An OrderedDict is a tree; another order is another structure."""
    tree = OrderedDict([("b", 1.0), ("a", 2.0)])
    assert pytree.paths(pytree.structure(tree)) == ["['b']", "['a']"]
    doubled = pytree.map(lambda x: 2 * x, tree)
    assert (type(doubled), list(doubled.items())) == (OrderedDict, [("b", 2.0), ("a", 4.0)])
    assert pytree.structure(tree) != pytree.structure(OrderedDict([("a", 2.0), ("b", 1.0)]))


@dataclasses.dataclass(frozen=True)
class Line:
    slope: Any
    intercept: Any
    degree: int = 1


@dataclasses.dataclass(frozen=True)
class Marked:
    weight: Any
    mean: Any
    label: float


pytree.register_dataclass(Marked, static=["label"], non_trainable=["mean"])


def test_frozen_dataclasses_are_trees() -> None:
    """They need no registration; ints are part of their structure, as in attrs classes."""
    line = Line(afx.ones(2), afx.zeros(()))
    assert pytree.paths(pytree.structure(line)) == [".slope", ".intercept"]
    slopes = afx.jit(afx.grad(lambda p: afx.sum(p.slope * 3.0) + p.intercept))(line)
    assert isinstance(slopes, Line)
    np.testing.assert_array_equal(slopes.slope, [3.0, 3.0])
    assert slopes.degree == 1
    assert pickle.loads(pickle.dumps(pytree.structure(line))) == pytree.structure(line)
    marked = Marked(afx.ones(1), afx.ones(1), 0.5)
    assert pytree.paths(pytree.structure(marked)) == [".weight", ".mean"]
    assert list(pytree.marked_leaves(pytree.structure(marked))) == [False, True]
    assert float(afx.grad(lambda m: afx.sum(m.weight * m.mean))(marked).mean[0]) == 0.0


def test_mistakes_of_registration_are_refused() -> None:
    """What is no class, no dataclass, or no field raises."""
    with pytest.raises(errors.TreeError, match="needs a class"):
        pytree.register(3, lambda x: ((), None), lambda s, c: 3)  # a mistake
    with pytest.raises(errors.TreeError, match="needs a dataclass"):
        pytree.register_dataclass(Pair)
    with pytest.raises(errors.TreeError, match=r"no such field: got \['nme'\]"):
        pytree.register_dataclass(Line, static=["nme"])
