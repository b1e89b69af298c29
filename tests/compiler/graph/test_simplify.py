"""Simplification: fewer equations, the same values."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx import Array, nn
from afx.compiler.graph.rewrite_rules import simplify
from afx.compiler.target import Target, use_target
from afx.core.graph import check
from afx.core.tracing.traces import evaluate
from tests.compiler.programs import inputs, program
from tests.every import together

RNG = np.random.default_rng(4)


def _same(found: Array, wanted: Array) -> None:
    a, b = np.asarray(found), np.asarray(wanted)
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)
    zeros = (a == 0) & (b == 0)
    np.testing.assert_array_equal(np.signbit(a[zeros]), np.signbit(b[zeros]))


@together("seed", range(150))
def test_a_simplified_graph_has_the_same_values(seed: int) -> None:
    """Values, dtypes, infinities, nan and the signs of zeros stay."""
    fn = program(seed)
    xs = inputs(seed, special=seed % 2 == 0)
    graph = afx.trace(fn)(*xs)
    simple = simplify(graph, expanding=True)
    check(simple)
    assert len(simple) <= 4 * len(graph)
    with np.errstate(all="ignore"):
        for found, wanted in zip(evaluate(simple, *xs), evaluate(graph, *xs), strict=True):
            _same(found, wanted)


@together(
    ("fn", "left"),
    [
        (lambda x: x * 1.0, 0),
        (lambda x: afx.negative(-x), 0),
        (lambda x: x - 0.0, 0),
        (lambda x: x + 0.0, 1),
        (lambda x: x + -0.0, 0),
        (lambda x: x / 1.0, 0),
        (lambda x: afx.sin(x) * 0 + afx.sin(x), 3),
        (lambda x: x.reshape(6).reshape(2, 3), 0),
        (lambda x: afx.permute_dims(afx.permute_dims(x, (1, 0)), (1, 0)), 0),
        (lambda x: afx.where(True, x, afx.exp(x)), 0),
        (lambda x: afx.where(x > 0, afx.where(x > 0, x, 1.0), 0.0), 2),
        (lambda x: (x > 0).astype("float32") != 0, 1),
        (lambda x: afx.broadcast_to(x, (4, 2, 3)).sum(axis=0), 2),
        (lambda x: afx.ones((2, 3)) * x, 0),
        (lambda x: x + afx.exp(afx.asarray(0.0)), 1),
        (lambda x: x.astype("float64").astype("float32"), 0),
        (lambda x: afx.pow(x, 2.0), 1),
        (lambda x: x + -afx.sin(x), 2),
        (lambda x: x * afx.sin(x) - afx.sin(x) * x, 3),
        (lambda x: (afx.exp(x), x)[1], 0),
        (lambda x: afx.negative(-x * afx.sin(x)), 2),
        (lambda x: (x == 0.5) & afx.isinf(x), 1),
        (lambda x: 0.5 * x + 0.5 * x, 0),
        (lambda x: 0.3 * x + 0.3 * x, 1),
        (lambda x: x * x + x * x, 2),
        (lambda x: afx.sum(-x), 2),
        (lambda x: afx.stack([x, -x])[0], 0),
        (lambda x: afx.stack([x, -x])[1, 0], 2),
        (lambda x: afx.concat([x, -x])[:2], 0),
        (lambda x: afx.concat([x, -x])[3], 2),
        (lambda x: afx.concat([x, -x])[1:3], 3),
        (lambda x: afx.broadcast_to(2.0, (4, 3))[1:, 0] * x[:, :1], 3),
    ],
)
def test_a_rule_applies(fn: object, left: int) -> None:
    """Each of these programs has so many equations left."""
    assert callable(fn)
    assert len(simplify(afx.trace(fn)(afx.ones((2, 3))))) == left


def test_masks_of_a_backward_pass_are_made_once() -> None:
    """The mask of a relu, which its rule makes and applies several times, is one comparison and one choice."""
    graph = simplify(afx.trace(afx.grad(lambda x: afx.sum(nn.relu(x) * x)))(afx.ones((2, 3))))
    assert graph.counts().get("greater") == 1
    assert graph.counts().get("where") == 1
    assert "not_equal" not in graph.counts()


@use_target(Target(collapse_min_elements=1))
@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x + RNG.normal(size=3),
        lambda x: RNG.normal(size=3) - x,
        lambda x: x * RNG.normal(size=(1, 3)),
        lambda x: x.sum(axis=(0, 1)),
        lambda x: x.reshape(10, 6).sum() * x,
        lambda x: afx.tile(x.reshape(20, 3), (1, 3)).sum(),
        lambda x: x.reshape(2, 2, 5, 3).sum(axis=(0, 1, 2)),
        lambda x: x @ RNG.normal(size=(3, 2)),
        lambda x: x.swapaxes(0, 1) @ RNG.normal(size=(3, 4)),
        lambda x: afx.permute_dims(x, (1, 0, 2)).reshape(4, 15).reshape(20, 3),
    ],
)
def test_short_last_axes_and_many_matrices_compute_the_same(fn: Any) -> None:
    """What joins axes for the sake of long loops changes neither values nor shapes, plain, in gradients and under vmap."""
    x = afx.asarray(RNG.normal(size=(4, 5, 3)))
    state = RNG.bit_generator.state
    for way in (fn, afx.grad(lambda x: afx.sum(afx.sin(fn(x)))), afx.vmap(lambda row: fn(x * row[0, 0]))):
        RNG.bit_generator.state = state
        wanted = way(x)
        RNG.bit_generator.state = state
        found = afx.jit(way)(x)
        np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-12, atol=1e-13)


def test_axes_are_joined_where_loops_would_be_short() -> None:
    """A bias of three channels is added to whole rows, and its gradient sums whole rows first."""
    x, b = afx.ones((16, 32, 32, 3)), afx.ones(3)
    source = afx.jit(afx.value_and_grad(lambda b, x: afx.sum(afx.sin(x + b)))).lower(b, x).plan.source
    assert "reshape(-1, 32, 96)" in source
    assert "np_add_reduce(v" in source


def test_the_cost_is_linear() -> None:
    """A chain of ten thousand equations simplifies without recursion, and to one where they are equal."""

    def fn(x: Array) -> Array:
        y = x
        for _ in range(5000):
            y = y + afx.sin(x) * 2.0
        return y

    assert len(simplify(afx.trace(fn)(afx.ones(2)))) == 5002


def test_complex_constants_keep_the_signs_of_zeros() -> None:
    """Which choose the branch of a logarithm."""
    c = afx.asarray(np.array([complex(-1, 0.0), complex(-1, -0.0)]))
    x = afx.ones(2)

    def fn(x: Array) -> Array:
        return afx.log(afx.where(x > 0, c, c))

    np.testing.assert_array_equal(afx.jit(fn)(x), fn(x))


NUMBERS: dict[str, Callable[..., Any]] = {
    "a negated integer": lambda n: afx.multiply(n, -1.0),
    "a power": lambda n: afx.pow(n, 2.0),
    "a truth value": lambda n: afx.multiply(afx.greater(n, 1), -1.0),
    "a negative zero": lambda n: afx.multiply(afx.negative(afx.multiply(n, 1.0)), 0),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_rules_leave_numbers_that_are_converted(name: str) -> None:
    """Python numbers of two kinds meet in the dtype of the result."""
    fn = NUMBERS[name]
    found, want = afx.jit(fn)(3), fn(3)
    assert found.dtype == want.dtype
    np.testing.assert_array_equal(found, want)
    assert np.signbit(np.asarray(found)) == np.signbit(np.asarray(want))


def test_a_choice_decided_twice_keeps_its_shape() -> None:
    """The graph that remains is well formed."""
    c, b = np.array([True, False, True]), np.ones((5, 3), np.float32)
    fn = afx.jit(lambda c, b: afx.where(c, afx.where(c, np.float32(2.0), b), np.float32(3.0)))
    graph = fn.lower(c, b).graph
    afx.check(graph)
    assert afx.evaluate(graph, c, b)[0].shape == fn(c, b).shape == (5, 3)


@pytest.mark.parametrize("divisor", [1e-45, 3.0, 2.0**-140, 1e30])
def test_dividing_by_a_number_warns_of_nothing_new(divisor: float) -> None:
    """Rules compute nothing that the function does not."""
    x = np.zeros(3, np.float32)
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(afx.jit(lambda x: x / divisor)(x), x / divisor)


def test_casts_that_lose_digits_stay() -> None:
    """An integer beyond 2⁵³ does not come back from float64."""
    x = np.array([2**53 + 1])
    np.testing.assert_array_equal(afx.jit(lambda x: x.astype("float64").astype("int64"))(x), [2**53])


@pytest.mark.parametrize("factors", [(4096.0, 4096.0), (2.0**-13, 0.00015), (-4000.0, 128.0)])
def test_half_precision_is_scaled_step_by_step(factors: tuple[float, float]) -> None:
    """The product of two factors may be none of its numbers."""
    x = np.array([1e-4, 0.01, 6e4], np.float16)[: 2 if factors[0] > 1 else 3]
    with np.errstate(all="ignore"):
        want = (x * factors[0]) * factors[1]
        np.testing.assert_array_equal(afx.jit(lambda x: (x * factors[0]) * factors[1])(x), want)


def test_repeated_numbers_are_counted_in_dtypes_that_hold_the_count() -> None:
    """Half precision ends at 65504, and complex infinities times a number are nan."""
    half = afx.jit(lambda x: afx.sum(afx.broadcast_to(x, (100_000,))))(np.float16(1e-3))
    assert 99 < float(half) < 101
    infinite = afx.jit(lambda x: afx.sum(afx.broadcast_to(x, (3,))))(np.complex64(complex(np.inf, 0)))
    assert complex(infinite) == complex(np.inf, 0)


JOINED: dict[str, Callable[..., Any]] = {
    "backwards": lambda x, y: afx.concat([x, y])[3:1:-1],
    "to the front": lambda x, y: afx.concat([x, y])[1::-1],
    "by steps": lambda x, y: afx.concat([x, y], axis=1)[:, 3::2],
    "nothing": lambda x, y: afx.concat([x, y])[2:2],
    "across": lambda x, y: afx.concat([x, y])[1:3],
    "of other dtypes": lambda x, y: afx.concat([x, y.astype("float32")])[2:],
    "one of a stack": lambda x, y: afx.stack([x, y], axis=1)[:, 1:2, :2],
    "one of a stack, backwards": lambda x, y: afx.stack([x, y], axis=2)[..., ::-1][..., 0],
    "with a new axis": lambda x, y: afx.stack([x, y])[None, 1],
}


@pytest.mark.parametrize("name", JOINED)
def test_slices_of_joined_arrays(name: str) -> None:
    """Are slices of the array that holds them, where one does."""
    x, y = RNG.normal(size=(2, 2, 3))
    found, want = afx.jit(JOINED[name])(x, y), JOINED[name](afx.asarray(x), afx.asarray(y))
    assert found.dtype == want.dtype
    np.testing.assert_array_equal(found, want)


def test_products_are_doubled_by_their_smaller_factor() -> None:
    """The gradient of a weighted sum of squares is one product of the large array, of the same bits."""

    def fn(x: Array, w: Array) -> Array:
        return afx.grad(lambda x: afx.sum(afx.sum(x * x, axis=2) * (0.7 * w)))(x)

    x, w = RNG.normal(size=(6, 5, 4)), RNG.normal(size=(6, 5))
    graph = simplify(afx.trace(fn)(x, w), expanding=True)
    assert sum(eq.outputs[0].aval.size == 120 for eq in graph) == 1
    np.testing.assert_array_equal(afx.jit(fn)(x, w), fn(afx.asarray(x), afx.asarray(w)))
