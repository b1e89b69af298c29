"""Masks, frozen parts, groups and projections: what is frozen stays, and each group has its own optimizer."""

from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx import Array, errors, optim, pytree
from tests.every import together
from tests.optim.cases import OPTIMIZERS, Model, model


@attrs.frozen
class Net:
    first: Any
    second: Any
    use_bias: bool = True
    width: int = 3
    note: Any = afx.static(default=("a", "b"))


def net() -> Net:
    """Make parameters of a nested class."""
    return Net((afx.ones(2), {"w": afx.ones((2, 2)), "b": afx.ones(1)}), afx.ones(()))


def moved(optimizer: optim.Optimizer[Any], params: Any) -> list[list[bool]]:
    """Tell which elements a step moves."""
    after, _ = optimizer.step(params, params, optimizer.init(params))
    pairs = zip(pytree.leaves(params), pytree.leaves(after), strict=True)
    return [np.ravel(np.asarray(x) != np.asarray(y)).tolist() for x, y in pairs]


# -- masks -----------------------------------------------------------------------------------------------------------
MASKS: dict[str, Any] = {
    "bools in fields": Net((True, {"w": False, "b": True}), False),
    "a bool for a subtree": Net((True, False), True),
    "a bool for all": False,
    "arrays": Net(
        (np.array([True, False]), {"w": afx.asarray([[True], [False]]), "b": np.bool_(True)}), np.array(False)
    ),
    "a function of path and leaf": lambda path, leaf: path.startswith(".first") and leaf.ndim > 0,
    "a function of the parameters": lambda p: pytree.map_with_path(lambda path, _: path.startswith(".first"), p),
}
CHOSEN: dict[str, list[list[bool]]] = {  # first[0], first[1]["b"], first[1]["w"], second
    "bools in fields": [[True] * 2, [True], [False] * 4, [False]],
    "a bool for a subtree": [[True] * 2, [False], [False] * 4, [True]],
    "a bool for all": [[False] * 2, [False], [False] * 4, [False]],
    "arrays": [[True, False], [True], [True, True, False, False], [False]],
    "a function of path and leaf": [[True] * 2, [True], [True] * 4, [False]],
    "a function of the parameters": [[True] * 2, [True], [True] * 4, [False]],
}


@pytest.mark.parametrize("kind", MASKS)
def test_masked_changes_what_is_chosen_and_passes_the_rest_on(kind: str) -> None:
    """Masks are trees of bools or arrays, may cover subtrees, and may be functions; other gradients stay."""
    rule, params = optim.masked(optim.scale(3.0), MASKS[kind]), net()
    found, _ = rule.update(params, rule.init(params), params, None)
    tripled = [np.ravel(np.asarray(x) == 3.0).tolist() for x in pytree.leaves(found)]
    assert tripled == CHOSEN[kind]
    assert all(bool(((x == 1.0) | (x == 3.0)).all()) for x in pytree.leaves(found))


@pytest.mark.parametrize("kind", MASKS)
def test_freeze_keeps_what_the_mask_names(kind: str) -> None:
    """True means frozen: everything else moves."""
    free = [[not m for m in leaf] for leaf in CHOSEN[kind]]
    if kind != "a function of the parameters":  # with `freeze` such a function selects parts
        assert moved(optim.freeze(optim.adam(0.1), MASKS[kind]), net()) == free


def test_masked_decay_trains_the_others_too() -> None:
    """Optax's recipe: decay of the matrices alone, and Adam for all."""
    params = {"w": afx.ones((2, 2)), "b": afx.ones(2)}
    zero = pytree.map(afx.zeros_like, params)
    optimizer = optim.chain(optim.masked(optim.add_decayed_weights(0.5), {"w": True, "b": False}), optim.adam(0.1))
    after, _ = optimizer.step(params, params, optimizer.init(params))
    assert all(bool((x < 1.0).all()) for x in pytree.leaves(after))
    after, _ = optimizer.step(params, zero, optimizer.init(params))
    assert (float(after["w"][0, 0]) < 1.0, float(after["b"][0])) == (True, 1.0)


def test_masked_norms_are_of_the_chosen_gradients() -> None:
    """A clip of some gradients does not count the others, and its state holds nothing for them."""
    rule = optim.masked(optim.clip_by_global_norm(1.0), {"a": True, "b": False})
    grads = {"a": afx.asarray([3.0, 4.0]), "b": afx.asarray([np.nan, 100.0])}
    found, _ = rule.update(grads, rule.init(grads), grads, None)
    np.testing.assert_allclose(np.asarray(found["a"]), [0.6, 0.8], rtol=1e-6)
    np.testing.assert_array_equal(np.asarray(found["b"]), [np.nan, 100.0])
    state = optim.masked(optim.scale_by_adam(), {"a": True, "b": False}).init(grads)
    assert (state.mu["a"].size, state.mu["b"].size) == (2, 0)


@together("name", [name for name in OPTIMIZERS if name not in {"projected", "lars", "lamb"}])
def test_frozen_elements_keep_their_bits(name: str) -> None:
    """Over many steps, eager and compiled, frozen elements stay exactly as they are: denormals and -0.0 too."""
    optimizer = optim.freeze(OPTIMIZERS[name](), np.array([True, False, True, True]))
    start = afx.asarray(np.array([-0.0, 1.0, 1e300, 5e-324]))
    g = afx.asarray(np.array([1.0, 1.0, -1.0, 3.0]))
    for step in (optimizer.step, afx.jit(lambda x, g, s, value: optimizer.step(x, g, s, value=value))):
        x, state = start, optimizer.init(start)
        for _ in range(5):
            x, state = step(x, g, state, value=afx.asarray(1.0))
        bits, first = (np.asarray(v).view(np.int64) for v in (x, start))
        np.testing.assert_array_equal(bits == first, [True, False, True, True])


def test_frozen_gradients_are_not_seen() -> None:
    """A gradient that is nan or huge where it is frozen changes nothing: not the others' clipping, not the state."""
    optimizer = optim.freeze(optim.chain(optim.clip_by_global_norm(1.0), optim.adam(0.1)), np.array([False, True]))
    x = afx.ones(2)
    wanted = optimizer.step(x, afx.asarray([0.5, 0.0]), optimizer.init(x))
    for bad in (np.nan, np.inf, 1e30):
        assert pytree.equal(optimizer.step(x, afx.asarray([0.5, bad]), optimizer.init(x)), wanted)


def test_frozen_parameters_do_not_decay_and_take_no_state() -> None:
    """Momentum and weight decay do not reach what is frozen, and no state is kept for it."""
    assert moved(optim.freeze(optim.adamw(0.1, weight_decay=0.5), np.array([True, False])), afx.ones(2)) == [
        [False, True]
    ]
    optimizer = optim.freeze(optim.adam(0.1), lambda p: p["a"])
    state = optimizer.init({"a": afx.ones(1000), "b": afx.ones(3)})
    assert (state.mu["a"].size, state.mu["b"].size) == (0, 3)


def test_masks_that_do_not_fit_are_refused() -> None:
    """A mask of another structure, shape or dtype is refused, and the message names the path."""
    params = net()

    def step(mask: Any) -> None:
        optim.freeze(optim.sgd(1.0), mask).init(params)

    with pytest.raises(errors.TreeError, match=r"freeze: .* got nothing for \.first\[1\]\['b'\]"):
        step(Net((True, {"w": True}), True))
    with pytest.raises(errors.TreeError, match=r"more than the tree, at \.first\[1\]: got \['c'\]"):
        step(Net((True, {"w": True, "b": True, "c": True}), True))
    with pytest.raises(errors.TreeError, match=r"got nothing for \.first\[0\], where it has a list"):
        step([True, False])
    with pytest.raises(errors.TreeError, match=r"at \.first: got 1 parts for 2"):
        step(Net((True,), True))
    with pytest.raises(errors.ShapeError, match=r"mask.first\[0\] = bool\[3\] for float32\[2\]"):
        step(Net((np.ones(3, bool), True), True))
    with pytest.raises(errors.ShapeError, match=r"mask.second = bool\[1\] for float32\[\]"):
        step(Net((True, True), np.ones(1, bool)))
    with pytest.raises(errors.DtypeError, match=r"mask.second = float32\[\]"):
        step(Net((True, True), afx.ones(())))


# -- groups of parameters --------------------------------------------------------------------------------------------
GROUPS = {"fast": optim.sgd(1.0), "slow": optim.adam(0.5), "still": optim.set_to_zero()}
LABELS: dict[str, Any] = {
    "a prefix tree": Net(("fast", "slow"), "still"),
    "a function": lambda path, leaf: "still" if leaf.ndim == 0 else "slow" if path.startswith(".first[1]") else "fast",
}


@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("compiled", [False, True])
def test_groups_are_trained_by_their_own_optimizers(kind: str, compiled: bool, rng: np.random.Generator) -> None:
    """Each group takes the steps that its optimizer would take for it alone, eager and compiled."""
    optimizer, params = optim.partition(GROUPS, LABELS[kind]), net()
    grads = pytree.map(lambda p: afx.asarray(rng.normal(size=p.shape).astype(np.float32)), params)
    step = afx.jit(optimizer.step) if compiled else optimizer.step
    found, state = params, optimizer.init(params)
    alone = {name: GROUPS[name] for name in ("fast", "slow")}
    parts = {"fast": params.first[0], "slow": params.first[1]}
    slopes = {"fast": grads.first[0], "slow": grads.first[1]}
    states: dict[str, Any] = {name: rule.init(parts[name]) for name, rule in alone.items()}
    for _ in range(3):
        found, state = step(found, grads, state)
        for name, rule in alone.items():
            parts[name], states[name] = rule.step(parts[name], slopes[name], states[name])
    for x, y in zip(pytree.leaves(found), pytree.leaves((parts["fast"], parts["slow"], params.second)), strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-6)
    assert state.states["slow"].mu.first[0].size == 0


def test_norms_are_those_of_a_group() -> None:
    """A clip in a group's optimizer counts the group's gradients alone."""
    clipped = optim.chain(optim.clip_by_global_norm(1.0), optim.sgd(1.0))
    optimizer = optim.partition({"a": clipped, "b": clipped}, {"x": "a", "y": "b"})
    params = {"x": afx.zeros(2), "y": afx.zeros(1)}
    after, _ = optimizer.step(params, {"x": afx.asarray([3.0, 4.0]), "y": afx.asarray([0.5])}, optimizer.init(params))
    np.testing.assert_allclose(np.asarray(after["x"]), [-0.6, -0.8], rtol=1e-6)
    np.testing.assert_allclose(np.asarray(after["y"]), [-0.5])


def test_labels_that_do_not_fit_are_refused() -> None:
    """A label without an optimizer, a label that is no string, and labels of another structure are refused by path."""
    params = net()
    with pytest.raises(
        errors.TreeError, match=r"'slwo' for params\.second, and optimizers for \['fast', 'slow', 'still'\]"
    ):
        optim.partition(GROUPS, Net("fast", "slwo")).init(params)
    with pytest.raises(errors.ArgumentError, match=r"a label is a string: got True for params\.first\[0\]"):
        optim.partition(GROUPS, lambda path, leaf: True).init(params)
    with pytest.raises(errors.TreeError, match=r"got nothing for \.first\[0\]"):
        optim.partition(GROUPS, Net(None, "fast")).init(params)
    with pytest.raises(errors.ArgumentError, match="got no optimizers"):
        optim.partition({}, "all")


# -- frozen parts ----------------------------------------------------------------------------------------------------
PARTS: dict[str, tuple[Any, list[list[bool]]]] = {
    "a leaf": (lambda p: p.second, [[True] * 2, [True], [True] * 4, [False]]),
    "a subtree": (lambda p: p.first[1], [[True] * 2, [False], [False] * 4, [True]]),
    "elements": (lambda p: p.first[1]["w"][:, 0], [[True] * 2, [True], [False, True, False, True], [True]]),
    "several": (lambda p: (p.second, [p.first[0][-1]]), [[True, False], [True], [True] * 4, [False]]),
    "all": (lambda p: p, [[False] * 2, [False], [False] * 4, [False]]),
    "nothing": (lambda p: (), [[True] * 2, [True], [True] * 4, [True]]),
}


@pytest.mark.parametrize("kind", PARTS)
def test_frozen_parts_stay(kind: str) -> None:
    """`freeze` names leaves, subtrees and elements by a function of the parameters; the others move."""
    parts, free = PARTS[kind]
    assert moved(optim.freeze(optim.sgd(0.1), parts), net()) == free


@together("name", OPTIMIZERS)
def test_every_optimizer_freezes_a_layer(name: str, rng: np.random.Generator) -> None:
    """The frozen layer keeps its bits in every optimizer, while the other moves."""
    optimizer = optim.freeze(OPTIMIZERS[name](), lambda p: p.layers[0])
    params = model(rng)
    state = optimizer.init(params)
    after, state = optimizer.step(params, params, state, value=1.0)  # a warm-up's first step is 0
    after, _ = optimizer.step(after, params, state, value=1.0)
    assert pytree.equal(after.layers[0], params.layers[0])
    assert not pytree.equal(after.layers[1], params.layers[1])


def test_frozen_parts_cost_nothing_when_compiled() -> None:
    """Frozen leaves are handed through a compiled step: their mask is known while it is traced."""
    optimizer = optim.freeze(optim.sgd(0.1), lambda p: p["a"])
    params = {"a": afx.ones(3), "b": afx.ones(3)}
    graph = str(afx.jit(optimizer.step).lower(params, params, optimizer.init(params)).graph)
    assert "gather" not in graph
    assert "scatter" not in graph


def test_ends_of_a_rope_stay(rng: np.random.Generator) -> None:
    """The catenary's constraint: two ends stay where they are while the points between descend."""
    optimizer = optim.freeze(optim.sgd(0.2), lambda y: y[[0, -1]])
    start = afx.asarray(rng.normal(size=20))

    @afx.jit
    def step(y: Array, state: Any) -> Any:
        return optimizer.step(y, afx.grad(lambda y: afx.sum((y[1:] - y[:-1]) ** 2))(y), state)

    y, state = start, optimizer.init(start)
    for _ in range(2000):
        y, state = step(y, state)
    found, ends = np.asarray(y), np.asarray(start)[[0, -1]]
    np.testing.assert_array_equal(found[[0, -1]], ends)
    np.testing.assert_allclose(found, np.linspace(ends[0], ends[1], 20), atol=1e-3)


# -- projections -----------------------------------------------------------------------------------------------------
def simplex_like(p: Array) -> Array:
    """Project onto the non-negative numbers."""
    return afx.maximum(p, 0.0)


def test_projected_descent_finds_the_constrained_optimum() -> None:
    """The nearest non-negative point to (1, -1) is (1, 0), and no step leaves the set."""
    optimizer = optim.projected(optim.adam(0.05), simplex_like)
    x = afx.asarray(np.array([0.5, 0.5]))
    state = optimizer.init(x)
    for _ in range(500):
        x, state = optimizer.step(x, 2 * (x - np.array([1.0, -1.0])), state)
        assert float(x.min()) >= 0.0
    np.testing.assert_allclose(np.asarray(x), [1.0, 0.0], atol=1e-3)


def test_projection_in_a_chain_leads_to_the_same_place() -> None:
    """As a rule in a chain, a projected optimizer gives updates that lead to the projection."""
    inner = optim.projected(optim.sgd(1.0), simplex_like)
    outer = optim.chain(inner)
    x, g = afx.asarray([1.0, 2.0]), afx.asarray([3.0, 0.5])
    np.testing.assert_allclose(
        np.asarray(outer.step(x, g, outer.init(x))[0]), np.asarray(inner.step(x, g, inner.init(x))[0])
    )


def test_projections_keep_structure_shape_and_dtype(rng: np.random.Generator) -> None:
    """A projection that returns something else is refused by path."""
    params: Model = model(rng)

    def step(projection: Any) -> None:
        optimizer = optim.projected(optim.sgd(0.1), projection)
        optimizer.step(params, params, optimizer.init(params))

    with pytest.raises(errors.TreeError, match="projected: the structure of the projection of params differs"):
        step(lambda p: p.scale)
    with pytest.raises(errors.DtypeError, match=r"params.layers\[0\].weight differs: got float32\[3,2\]"):
        step(lambda p: pytree.map(lambda x: x.astype(np.float32), p))
