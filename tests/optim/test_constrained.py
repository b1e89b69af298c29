"""Constrained steps: what is masked or frozen stays, and projections hold."""

from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx import Array, errors, optim, pytree
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
    "a function": lambda p: pytree.map_with_path(lambda path, _: path.startswith(".first"), p),
}
FREE: dict[str, list[list[bool]]] = {  # first[0], first[1]["b"], first[1]["w"], second
    "bools in fields": [[True] * 2, [True], [False] * 4, [False]],
    "a bool for a subtree": [[True] * 2, [False], [False] * 4, [True]],
    "a bool for all": [[False] * 2, [False], [False] * 4, [False]],
    "arrays": [[True, False], [True], [True, True, False, False], [False]],
    "a function": [[True] * 2, [True], [True] * 4, [False]],
}


@pytest.mark.parametrize("kind", MASKS)
def test_only_what_the_mask_frees_moves(kind: str) -> None:
    """Masks are trees of bools or arrays, may cover subtrees, and may be functions of the parameters."""
    assert moved(optim.masked(optim.adam(0.1), MASKS[kind]), net()) == FREE[kind]


@pytest.mark.parametrize("name", [name for name in OPTIMIZERS if name not in {"masked", "projected"}])
def test_masked_elements_keep_their_bits(name: str) -> None:
    """Over many steps, eager and compiled, masked elements stay exactly as they are: denormals and -0.0 too."""
    optimizer = optim.masked(OPTIMIZERS[name](), np.array([False, True, False, False]))
    start = afx.asarray(np.array([-0.0, 1.0, 1e300, 5e-324]))
    g = afx.asarray(np.array([1.0, 1.0, -1.0, 3.0]))
    for step in (optimizer.step, afx.jit(lambda x, g, s, value: optimizer.step(x, g, s, value=value))):
        x, state = start, optimizer.init(start)
        for _ in range(5):
            x, state = step(x, g, state, value=afx.asarray(1.0))
        bits, first = (np.asarray(v).view(np.int64) for v in (x, start))
        np.testing.assert_array_equal(bits == first, [True, False, True, True])


def test_masked_gradients_are_not_seen() -> None:
    """A gradient that is nan or huge where it is masked changes nothing: not the others' clipping, not the state."""
    optimizer = optim.masked(optim.chain(optim.clip_by_global_norm(1.0), optim.adam(0.1)), np.array([True, False]))
    x = afx.ones(2)
    wanted = optimizer.step(x, afx.asarray([0.5, 0.0]), optimizer.init(x))
    for bad in (np.nan, np.inf, 1e30):
        assert pytree.equal(optimizer.step(x, afx.asarray([0.5, bad]), optimizer.init(x)), wanted)


def test_masked_weight_decay_does_not_move() -> None:
    """Momentum and weight decay do not reach what is masked."""
    assert moved(optim.masked(optim.adamw(0.1, weight_decay=0.5), np.array([False, True])), afx.ones(2)) == [
        [False, True]
    ]


def test_masks_that_do_not_fit_are_refused() -> None:
    """A mask of another structure, shape or dtype is refused, and the message names the path."""
    params = net()

    def step(mask: Any) -> None:
        optimizer = optim.masked(optim.sgd(1.0), mask)
        optimizer.step(params, params, optimizer.init(params))

    with pytest.raises(errors.TreeError, match=r"got nothing for params.first\[1\]\['b'\]"):
        step(Net((True, {"w": True}), True))
    with pytest.raises(errors.TreeError, match=r"more than the parameters: got \['c'\]"):
        step(Net((True, {"w": True, "b": True, "c": True}), True))
    with pytest.raises(errors.TreeError, match=r"got nothing for params.first\[0\]"):
        step([True, False])
    with pytest.raises(errors.ShapeError, match=r"mask.first\[0\] = bool\[3\] for float32\[2\]"):
        step(Net((np.ones(3, bool), True), True))
    with pytest.raises(errors.ShapeError, match=r"mask.second = bool\[1\] for float32\[\]"):
        step(Net((True, True), np.ones(1, bool)))
    with pytest.raises(errors.DtypeError, match=r"mask.second = float32\[\]"):
        step(Net((True, True), afx.ones(())))


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

    with pytest.raises(errors.TreeError, match="changed the structure"):
        step(lambda p: p.scale)
    with pytest.raises(errors.ShapeError, match=r"params.layers\[0\].weight: got float32\[3,2\]"):
        step(lambda p: pytree.map(lambda x: x.astype(np.float32), p))
