"""Gradients of trees, of chosen arguments, with values beside them, nested in any order."""

import itertools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import attrs
import numpy as np
import pytest

import afx
from afx import Array
from tests.every import together


@attrs.frozen
class Layer:
    weight: Array
    bias: Array
    name: str = "layer"


class Pair(NamedTuple):
    first: Any
    second: Any


def test_gradient_has_the_structure_of_the_parameters() -> None:
    """Frozen classes, named tuples, tuples, lists, dicts and None come back as they went in."""
    params = {"a": Layer(afx.ones(2), afx.zeros(2)), "b": [Pair(2.0, (afx.ones(()), None))]}

    def loss(p: Any) -> Array:
        return afx.sum(p["a"].weight * 3 + p["a"].bias) * p["b"][0].first * p["b"][0].second[0]

    g = afx.grad(loss)(params)
    assert afx.pytree.structure(g) == afx.pytree.structure(afx.pytree.map(afx.asarray, params))
    assert g["a"].weight.tolist() == [6.0, 6.0]
    assert g["a"].name == "layer"
    assert float(g["b"][0].first) == 6.0


def test_tied_weights_are_leaves_of_their_own() -> None:
    """One array in two places has the gradient of each place."""
    w = afx.ones(2)
    a, b = afx.grad(lambda p: afx.sum(p[0] * 2 + p[1] * 3))((w, w))
    assert (a.tolist(), b.tolist()) == ([2.0, 2.0], [3.0, 3.0])


def test_arguments_are_chosen_by_position_and_name() -> None:
    """argnums, argnames, both, keyword-only calls and has_aux give what they say."""

    def fn(x: Any, y: Any, *, z: Any = 1.0) -> Array:
        return x * y * y * afx.asarray(z)

    assert float(afx.grad(fn)(2.0, 3.0)) == 9.0
    assert float(afx.grad(fn)(x=2.0, y=3.0)) == 9.0
    assert float(afx.grad(fn, 1)(2.0, 3.0)) == 12.0
    assert float(afx.grad(fn, -1)(2.0, 3.0)) == 12.0
    assert [float(g) for g in afx.grad(fn, (0, 1))(2.0, 3.0)] == [9.0, 12.0]
    assert [float(g) for g in afx.grad(fn, (1,))(2.0, 3.0)] == [12.0]
    assert {k: float(v) for k, v in afx.grad(fn, argnames="z")(2.0, 3.0, z=1.0).items()} == {"z": 18.0}
    first, named = afx.grad(fn, 0, "z")(2.0, 3.0, z=2.0)
    assert (float(first), float(named["z"])) == (18.0, 18.0)
    (value, aux), g = afx.value_and_grad(lambda x: (x * x, {"seen": x * 2}), has_aux=True)(3.0)
    assert (float(value), float(aux["seen"]), float(g)) == (9.0, 6.0, 6.0)
    assert float(aux["seen"] + 1) == 7.0


def test_constants_and_unused_arguments_have_zero_gradients() -> None:
    """What the result does not depend on has a gradient of zeros in its own shape and dtype."""
    g = afx.grad(lambda p: afx.sum(p[0]))((np.ones(2), np.ones((2, 3), np.float32)))
    assert (g[1].shape, g[1].dtype, float(afx.sum(g[1]))) == ((2, 3), afx.float32, 0.0)
    assert float(afx.grad(lambda x: afx.asarray(3.0))(1.0)) == 0.0


def test_python_control_flow_follows_the_values() -> None:
    """Branches and loops on traced values take the way that the values say."""

    def fn(x: Array) -> Array:
        while x < 100:
            x = x * x if x > 2 else x + 1
        return x

    assert float(afx.grad(fn)(3.0)) == 8 * 3.0**7  # squared three times


def test_outside_a_transformation_nothing_is_recorded() -> None:
    """A plain call gives plain Arrays."""
    assert type(afx.sin(afx.ones(2)) * 2) is Array


def test_stop_gradient_gives_plain_values() -> None:
    """Its result is a constant, whose value can be read."""

    def fn(x: Array) -> Array:
        return x * float(afx.stop_gradient(x))

    assert float(afx.grad(fn)(3.0)) == 3.0
    assert float(afx.grad(afx.grad(lambda x: x * x * afx.stop_gradient(x)))(3.0)) == 6.0


def test_no_perturbation_confusion() -> None:
    """Inner and outer derivatives of the same variable are told apart, in every pair of modes."""

    def forward(fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda x: afx.jvp(fn, (x,), (np.float64(1.0),))[1]

    for outer, inner in itertools.product([afx.grad, forward], repeat=2):
        found = outer(lambda x, inner=inner: x * inner(lambda y: x + y)(np.float64(1.0)))(np.float64(1.0))
        assert float(found) == 1.0
        found = outer(lambda x, inner=inner: x * inner(lambda y: x * y * y)(x))(np.float64(3.0))
        assert float(found) == 3 * 2 * 9.0


def _jvp(fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: afx.jvp(fn, (x,), (afx.ones((), x.dtype),))[1]


def _vmapped(fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: afx.vmap(fn)(afx.broadcast_to(x, (2,)))[1]


ORDERS = {"grad": afx.grad, "jvp": _jvp, "linearize": lambda f: lambda x: afx.linearize(f, x)[1](afx.ones((), x.dtype))}
WRAPS = {"plain": lambda f: f, "jit": afx.jit, "vmap": _vmapped, "checkpoint": afx.checkpoint}


@together("orders", list(itertools.product(ORDERS, repeat=3)), ids="-".join)
@together("wrap", WRAPS)
def test_transformations_nest_in_any_order(orders: tuple[str, ...], wrap: str) -> None:
    """Third derivatives of sin(x)·x agree with the closed form, whatever they are made of."""
    fn: Callable[[Any], Any] = lambda x: afx.sin(x) * x
    for order in orders:
        fn = WRAPS[wrap](ORDERS[order](fn))
    x = 0.7
    assert float(fn(afx.asarray(np.float64(x)))) == pytest.approx(-x * math.cos(x) - 3 * math.sin(x), rel=1e-12)


@pytest.mark.parametrize("k", [0, 1])
def test_tangents_of_where_have_the_shape_of_its_result(k: int) -> None:
    """Forward mode by the smaller operand alone broadcasts as the result does."""
    xs = [np.float64(2.0), np.zeros((2, 3))][:: 1 if k == 0 else -1]

    def fn(x: Array) -> Array:
        ys = [*xs]
        ys[k] = x
        return afx.where(True, *ys) if k == 0 else afx.where(False, *ys)

    for run in (fn, afx.jit(fn)):
        z, t = afx.jvp(run, (np.float64(2.0),), (np.float64(3.0),))
        assert (z.shape, t.shape) == ((2, 3), (2, 3))
        assert np.asarray(t).tolist() == [[3.0] * 3] * 2
