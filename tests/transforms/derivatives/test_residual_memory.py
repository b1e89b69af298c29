"""What derivatives keep: the values of the moment, copied where others could write into them, and no more than that."""

import gc
import tempfile
import tracemalloc
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx import Array
from tests.every import together

HALVES = np.full(3, 0.5)


@attrs.frozen
class Scaled:
    slope: Any
    shift: Any
    power: int


def squared(x: Array) -> Array:
    """Multiply in turn by an array that is written into."""
    buffer = np.zeros(3)
    for k in (1, 2, 3):
        buffer[:] = k
        x = x**2 * buffer
    return afx.sum(x)


def stretched(x: Array) -> Array:
    """Do so inside of vmap."""
    buffer = np.zeros(3)
    for k in (1, 2, 3):
        buffer[:] = k
        x = afx.vmap(lambda e: e * buffer)(x)
    return afx.sum(x)


def test_arrays_of_inner_transformations_are_copied() -> None:
    """Outer tapes and graphs keep what inner transformations took from the caller."""
    np.testing.assert_allclose(afx.grad(stretched)(np.ones((1, 3))), np.full((1, 3), 6.0))
    want = np.diag(np.full(3, 10.5))
    for second in (afx.jacrev(afx.grad(squared)), afx.jacfwd(afx.grad(squared)), afx.hessian(squared)):
        np.testing.assert_allclose(second(HALVES), want)
    a = np.ones(3)
    graph = afx.trace(lambda x: afx.vmap(lambda e: e * a)(x))(np.ones((2, 3)))
    a[:] = 7
    np.testing.assert_array_equal(afx.evaluate(graph, np.ones((2, 3)))[0], np.ones((2, 3)))


TAKING: dict[str, Callable[[Array, Any], Array]] = {
    "plain": lambda x, a: x * a,
    "vmap": lambda x, a: afx.vmap(lambda e: e * a)(x[None])[0],
    "jit": lambda x, a: afx.jit(lambda x, a: x * a)(x, a),
    "checkpoint": lambda x, a: afx.checkpoint(lambda x, a: x * a)(x, a),
    "jvp": lambda x, a: afx.jvp(lambda y: y * a * y, (x,), (x,))[1] / 2 / x,
}


@together("name", TAKING)
@together("mapped", [False, True])
def test_pullbacks_know_nothing_of_later_writes(name: str, mapped: bool) -> None:
    """Not even where the memory belongs to a file."""
    with tempfile.NamedTemporaryFile() as file:
        a = np.memmap(file, dtype="float64", mode="w+", shape=(3,)) if mapped else np.zeros(3)
        a[:] = [1, 2, 3]
        _, pull = afx.vjp(lambda x: TAKING[name](x, a), np.ones(3))
        a[:] = 9
        np.testing.assert_allclose(pull(np.ones(3))[0], [1, 2, 3])


def test_rules_of_ones_own_leave_no_cycles() -> None:
    """The arrays of a step are gone when it ends, without the collector."""
    big = np.ones(100_000)
    f = afx.custom_vjp(lambda x: x * x, lambda x: (x * x, x), lambda r, c: (c * r,))

    def step() -> None:
        afx.grad(lambda x: afx.sum(f(x)))(big)

    gc.disable()
    tracemalloc.start()
    try:
        step()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(3):
            step()
        assert tracemalloc.get_traced_memory()[0] - before < big.nbytes / 2
    finally:
        tracemalloc.stop()
        gc.enable()


ROWS = np.array([False, True, True])
CHOSEN: dict[str, Callable[[Array], Array]] = {
    "sum": lambda x: afx.sum(afx.sqrt(x), axis=2),
    "max": lambda x: afx.max(afx.sqrt(x), axis=2),
    "swapaxes": lambda x: afx.swapaxes(afx.sqrt(x), 1, 2),
    "flip": lambda x: afx.flip(afx.sqrt(x), axis=0).sum(2),
    "roll": lambda x: afx.roll(afx.sqrt(x), 1, axis=0).sum(2),
    "take": lambda x: afx.sqrt(x)[np.array([1, 0])].sum(2),
}


@pytest.mark.parametrize("name", CHOSEN)
def test_a_condition_of_fewer_axes_masks_what_made_the_value(name: str) -> None:
    """In every mode the derivative is 0 where nothing is chosen, and the values' own elsewhere."""
    x = np.arange(1.0, 13.0).reshape(2, 3, 2)
    x[:, 0] = 0

    def f(x: Array) -> Array:
        return afx.sum(afx.where(ROWS, CHOSEN[name](x), 0.0))

    want = np.where(ROWS[:, None], 1 / (2 * np.sqrt(np.where(x > 0, x, 1))), 0)
    if name == "max":
        want[..., 0] = 0
    for slope in (afx.grad(f), afx.jit(afx.grad(f)), lambda x: afx.vmap(afx.grad(f))(x[None])[0]):
        np.testing.assert_allclose(slope(x), want)
    assert np.isfinite(np.asarray(afx.hessian(f)(x + 1))).all()


PRODUCT = afx.custom_vjp(lambda x, k: x * k, lambda x, k: (x * k, (x, k)), lambda r, c: (c * r[1], c * r[0]))


def test_cotangents_of_named_arguments_are_those_of_their_places() -> None:
    """A rule gives them by position; who calls by name gets them too."""
    assert float(afx.grad(lambda k: PRODUCT(5.0, k=k))(2.0)) == 5.0
    assert float(afx.grad(PRODUCT, argnames="k")(5.0, k=2.0)["k"]) == 5.0


def test_rules_may_return_numbers() -> None:
    """As cotangents, and as tangents."""
    f = afx.custom_vjp(lambda x, y: x * y, lambda x, y: (x * y, y), lambda y, c: (c * y, 0.0))
    for slope in (afx.grad(f, argnums=(0, 1)), afx.jit(afx.grad(f, argnums=(0, 1)))):
        assert [float(v) for v in slope(1.0, 2.0)] == [2.0, 0.0]
    rounded = afx.custom_jvp(afx.round, lambda p, _: (afx.round(p[0]), 0.0))
    assert [float(v) for v in afx.jvp(rounded, (1.25,), (1.0,))] == [1.0, 0.0]


@pytest.mark.parametrize("args", [(np.float32(3), 2), (np.float16(3), 2.0), (3.0, np.float64(2))])
def test_rules_in_forward_mode_serve_reverse_mode_for_numbers_too(args: tuple[Any, Any]) -> None:
    """Whatever dtype the tangent has that the rule returns."""
    f = afx.custom_jvp(lambda x, n: x * n, lambda p, t: (p[0] * p[1], t[0] * p[1] + p[0] * t[1]))
    slope = afx.grad(f)(*args)
    assert slope.dtype == afx.asarray(args[0]).dtype
    assert float(slope) == 2.0


def test_loops_of_no_steps_have_sparse_derivatives() -> None:
    """Nothing depends on what they do not do."""
    jacobian = afx.sparse_jacobian(lambda x: afx.scan(lambda c, e: (c, e), x[0], x[:0])[1])(np.ones(3))
    assert jacobian.shape == (0, 3)
    hessian = afx.sparse_hessian(lambda x: afx.sum(afx.fori_loop(0, 0, lambda _, c: c * x, x) ** 3))(np.ones(3))
    np.testing.assert_array_equal(hessian.todense(), 6 * np.eye(3))


def test_outputs_of_steps_keep_their_structure() -> None:
    """A loop in Python says so as a compiled one does."""
    with pytest.raises(afx.errors.TreeError, match="scan: the outputs change their structure"):
        afx.scan(lambda c, x: (c + 1, {"a": x} if c > 0 else {"b": x}), np.float64(0.0), np.arange(2.0))


def test_tangents_of_numbers_take_their_dtype() -> None:
    """And complex ones are refused."""
    value, slope = afx.jvp(lambda x: x, (1.0,), (np.float64(1.0),))
    assert value.dtype == slope.dtype == np.float32
    for tangent in (1j, np.ones((), complex)):
        with pytest.raises(afx.errors.DtypeError, match=r"the dtype of tangents\[0\] differs: got complex"):
            afx.jvp(lambda x: x, (1.0,), (tangent,))


def test_trees_of_axes_have_the_keys_of_what_they_are_for() -> None:
    """A misspelt key is told, and keys need not compare."""
    tree = {"a": np.ones((2, 3)), "b": np.ones(3)}
    for axes in ({"a": 0, "zzz": None}, [0, None]):
        with pytest.raises(afx.errors.TreeError, match=r"vmap with in_axes: the prefix .*\[0\]"):
            afx.vmap(lambda d: d["a"] + d["b"], (axes,))(tree)
    axes = {"a": 0, "b": None}
    assert afx.vmap(lambda d: d["a"] + d["b"], (axes,))(tree).shape == (2, 3)
    mixed = afx.vmap(lambda p: p["x"] * p[10], ({10: 0, "x": None},))
    np.testing.assert_array_equal(mixed({10: np.ones(3), "x": 3.0}), [3.0, 3.0, 3.0])


def test_a_model_of_axes_says_which_parts_are_mapped() -> None:
    """A frozen class with axes in place of its arrays fits the class with arrays; static parts are left out."""
    model = Scaled(np.arange(6.0).reshape(2, 3), np.ones(3), 2)
    found = afx.vmap(lambda m: m.slope * m.power + m.shift, (Scaled(0, None, 2),))(model)
    np.testing.assert_array_equal(found, 2 * model.slope + 1)


def test_positions_and_lengths_may_be_numpys_integers() -> None:
    """Wherever a transformation counts; a second derivative may be called by name alone."""
    assert float(afx.grad(lambda a, b: a * b, np.int64(1))(2.0, 3.0)) == 2.0
    assert afx.vmap(lambda x: x, np.int64(1))(np.ones((2, 3))).shape == (3, 2)
    assert float(afx.scan(lambda c, _: (c + 1, None), 0.0, None, length=np.int64(3))[0]) == 3.0
    assert float(afx.jacfwd(lambda x: x * 2, np.int64(0))(1.0)) == 2.0
    second = afx.hessian(lambda x, y: afx.sum(x * y * x))(x=np.ones(2), y=np.ones(2))
    np.testing.assert_array_equal(second, 2 * np.eye(2))


def test_linear_functions_of_mixed_results() -> None:
    """Integers in a result have tangents of 0, as in forward mode; a result may be empty but for them."""
    x = np.array([1.0, 3.0, 2.0])

    def fn(x: Array) -> tuple[Any, ...]:
        return x * x, afx.argmax(x), None

    (square, place, nothing), push = afx.linearize(fn, x)
    np.testing.assert_array_equal(square, x * x)
    assert (int(place), nothing) == (1, None)
    slope, zero, _ = push(np.ones(3))
    np.testing.assert_array_equal(slope, 2 * x)
    assert int(zero) == 0
    assert int(afx.linearize(afx.argmax, x)[1](np.ones(3))) == 0
