"""Orders of elements as machine code: sorted rows, places in sorted vectors, interpolation between them."""

from typing import Any

import numpy as np
import pytest

import afx

pytest.importorskip("llvmlite", reason="machine code is an extra")

from tests.compiler.native_backend.native_run import Native, assert_same_bits


def assert_is_native(fn: Any, *args: Any) -> Native:
    """Assert that a function has NumPy's bits, no warning, and no call of NumPy left."""
    native = assert_same_bits(fn, *args)
    assert not any(why for _, why in native.plan.why_not_native)
    assert native(*args)[1] == 0
    return native


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint64", "bool"])
def test_places_are_numpys(dtype: str) -> None:
    """Values find their places among sorted elements of every number, with ties, infinities, nan and zeros of both signs."""
    values = np.array([0, 1, 1, 3, 5, 0, 120, 100], dtype)
    if dtype[0] == "f":
        values = np.concatenate([values, np.array([-0.0, np.inf, np.nan, -np.inf, np.nan, 0.5], dtype)])
    for n in (1, 2, 3, 5, 8, len(values)):
        vector = np.sort(values[:n] if n < 8 else values)

        def fn(vector: Any, values: Any) -> Any:
            places = [afx.searchsorted(vector, values, side) for side in ("left", "right")]
            return (
                *places,
                afx.searchsorted(vector, values[3]),
                afx.searchsorted(vector[::-1][::-1], values.reshape(2, -1).T),
            )

        native = assert_is_native(fn, vector, values)
        for found, side in zip(native(vector, values)[0], ("left", "right"), strict=False):
            assert np.array_equal(found, np.searchsorted(vector, values, side))


def test_places_with_mixed_dtypes_sorters_and_batches() -> None:
    """Operands of two dtypes are compared in the one that holds both; sorters, batches of values and no elements work."""
    x, k = np.linspace(0, 1, 7), np.arange(5)
    order = np.random.default_rng(0).permutation(7)
    assert_is_native(
        lambda x, k: (afx.searchsorted(x, k), afx.searchsorted(k, x), afx.searchsorted(k, x.astype("f4"))), x, k
    )
    assert_is_native(lambda x, k: afx.searchsorted(x[order], x * 0.9, sorter=np.argsort(order)), x, k)
    assert_is_native(lambda x, k: afx.vmap(lambda v: afx.searchsorted(x, v))(x.reshape(7, 1) * k), x, k)
    assert_same_bits(lambda x: (afx.searchsorted(x[:0], x), afx.searchsorted(x, x[:0])), x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_interpolation_is_one_kernel(dtype: str) -> None:
    """Steps that interpolate in a table, and their gradient, have NumPy's bits and no call of NumPy left."""
    xp, fp = np.array([0.0, 1, 1, 2, 4, 7], dtype), np.array([1.0, 3, 0, 2, 5, 5], dtype)

    def fn(x: Any, fp: Any) -> Any:
        return afx.scan(lambda x, _: (afx.interp(x + 0.3, xp, fp), x), x, None, length=4)

    x = np.array([-1, 0, 0.5, 1, 3, 7, 9, np.nan, np.inf], dtype)
    assert_is_native(fn, x, fp)
    assert_is_native(afx.grad(lambda x, fp: fn(x, fp)[0].sum(), argnums=(0, 1)), x[:5], fp)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "uint64", "bool"])
def test_sorted_rows_are_numpys(dtype: str) -> None:
    """Elements and indices sorted along each axis are NumPy's, with ties, nan and zeros of both signs, also without stability."""
    x = (np.random.default_rng(0).normal(size=(4, 3, 19)) * 3).astype(dtype)
    if dtype[0] == "f":
        x.reshape(-1)[::5], x.reshape(-1)[1::7], x.reshape(-1)[2::11], x.reshape(-1)[3::13] = 0, -0.0, np.nan, np.inf
    for axis in range(3):

        def fn(x: Any, axis: int = axis) -> Any:
            orders = afx.argsort(x, axis), afx.argsort(x, axis, stable=False)
            return afx.sort(x, axis), *orders, afx.sort(x[::-1], axis), afx.sort(x, axis, descending=True)

        native = assert_is_native(fn, x)
        assert native(x)[0][0].tobytes() == np.sort(x, axis).tobytes()
    assert_is_native(lambda x: (*afx.top_k(x[0, 0], 5), afx.sort(x[0, 0, :1]), afx.sort(x, axis=None)), x)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint64", "int16"])
def test_stable_orders_keep_equal_elements_in_their_order(dtype: str) -> None:
    """Rows of distinct elements, with two equal ones, many, zeros of both signs and nan: eager and compiled, large and small."""
    rng = np.random.default_rng(0)
    for shape in ((7, 5), (6, 300)):
        x = rng.permuted(np.arange(np.prod(shape)).reshape(shape), axis=1).astype(dtype)
        x[1, -1], x[2] = x[1, 0], x[2] % 3
        if dtype[0] == "f":
            x[3, :2], x[4, -1], x[5, ::3] = [0.0, -0.0], np.nan, np.nan
        for axis in (0, 1):
            expected = np.argsort(x, axis, kind="stable")
            assert_is_native(lambda x, axis=axis: afx.argsort(x, axis), x)
            for found in (afx.argsort(x, axis), afx.jit(afx.argsort, static_argnums=1, backend="native")(x, axis)):
                np.testing.assert_array_equal(found, expected)


def test_steps_that_sort_are_one_kernel() -> None:
    """Steps that sort, their gradient and a batch of them run without a call of NumPy."""

    def fn(x: Any) -> Any:
        return afx.scan(lambda x, _: (afx.sort(x * x[::-1]) - x[afx.argsort(-x)], x[0]), x, None, length=4)[0].sum()

    x = np.random.default_rng(0).normal(size=(3, 8))
    assert_is_native(fn, x[0])
    assert_is_native(afx.grad(fn), x[0])
    assert_is_native(afx.vmap(fn), x)
