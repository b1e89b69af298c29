"""Indices, cumulative ops and places of extremes as machine code."""

from typing import Any

import numpy as np
import pytest

import afx

pytest.importorskip("llvmlite", reason="machine code is an extra")

from tests.compiler.native_backend.native_run import Native, assert_same_bits

REFUSED = -1
INTEGERS = ["int8", "int32", "int64", "uint8", "uint32"]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_elements_at_indices(dtype: str) -> None:
    """Arrays and single numbers name elements along the first axes, or one behind them; negative ones count from the end."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(7, 5, 11)).astype(np.float32)
    i, j = rng.integers(0, 5, (4, 3)).astype(dtype), rng.integers(0, 5, 3).astype(dtype)
    if dtype[0] == "i":
        i[0, 0], j[1] = -7, -5

    def fn(x: Any, i: Any, j: Any) -> Any:
        return x[i], x[:, j], x[i, j], x[i[0], j, j], x[1:, :, 2][j], x[i[0, 1]], x.T[j], x[j] * 2 + x[j, ::-1]

    assert_same_bits(fn, x, i, j)
    flags = x > 0
    assert_same_bits(lambda x, i, j: (x[i], x[:, j]), flags, i, j)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bool"])
def test_writing_at_indices(dtype: str) -> None:
    """Sums at repeated indices add up in their order; of values for one place the last one stays."""
    rng = np.random.default_rng(1)
    x = (rng.normal(size=(6, 4, 3)) * 10).astype(dtype)
    i, j = rng.integers(-6, 6, 40), rng.integers(0, 4, 40)
    values = (rng.normal(size=(40, 4, 3)) * 1e3).astype(dtype)

    def fn(x: Any, i: Any, j: Any, values: Any) -> Any:
        return (
            x.at[i].add(values),
            x.at[i, j].add(values[:, 0]),
            x.at[:, j].add(values[:6, :1].repeat(40, 1)),
            x.at[i].set(values),
            x.at[i, j, 1].set(values[:, 1, 2]),
            x.at[i].set(x[0]),
        )

    assert_same_bits(fn, x, i, j, values)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_combining_at_indices(dtype: str) -> None:
    """Extremes and products at repeated indices: of equal ones, such as both zeros, the one that NumPy keeps, and nan."""
    rng = np.random.default_rng(3)
    x = (rng.normal(size=(6, 4, 3)) * 3).astype(dtype)
    i, j = rng.integers(-6, 6, 200), rng.integers(0, 4, 200)
    values = rng.choice(np.array([0.0, -0.0, 1.0, -2.0, 3.0]), (200, 4, 3)).astype(dtype)
    if dtype[0] == "f":
        values[7, 1, 2], x[0, 0, 0], x[1] = np.nan, np.nan, -0.0

    def fn(x: Any, i: Any, j: Any, values: Any) -> Any:
        return (
            x.at[i].max(values),
            x.at[i, j].min(values[:, 0]),
            x.at[:, j].max(values[:6, :1].repeat(200, 1)),
            x.at[i, j, 1].multiply(values[:, 1, 2]),
            afx.segment_max(values, i % 6, 6),
            afx.segment_min(values[:, 0, 0], i % 6, 6),
        )

    assert_same_bits(fn, x, i, j, values)


def test_eager_extremes_at_indices_are_those_of_elements() -> None:
    """Rows at many indices are combined as one element after the other is."""
    rng = np.random.default_rng(4)
    x, i = rng.choice(np.array([0.0, -0.0, 1.5, -2.0]), (7, 50)), rng.integers(-7, 7, 90)
    values = rng.choice(np.array([0.0, -0.0, 1.5, -2.0, np.inf]), (90, 50))
    for name, ufunc in (("max", np.maximum), ("min", np.minimum), ("multiply", np.multiply)):
        expected = x.copy()
        with np.errstate(invalid="ignore"):
            for k, row in zip(i, values, strict=True):
                expected[k] = ufunc(expected[k], row)
            found = np.asarray(getattr(afx.asarray(x).at[i], name)(values))
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found[~np.isnan(found)]), np.signbit(expected[~np.isnan(expected)]))


def test_gradients_scatter() -> None:
    """The gradient of elements at indices is their sum, of a selection by a mask too."""
    rng = np.random.default_rng(2)
    x, i = rng.normal(size=(30, 4)), rng.integers(0, 30, 200)
    assert_same_bits(lambda x, i: afx.grad(lambda x: (np.sin(x[i]) * x[i, 1:2]).sum())(x), x, i)
    j = rng.integers(0, 4, 30)
    assert_same_bits(lambda x, j: afx.grad(lambda x: (afx.take_along_axis(x, j[:, None], axis=1) ** 2).sum())(x), x, j)


@pytest.mark.parametrize("wrong", [5, -6, 1 << 40])
def test_indices_outside_of_their_axis_are_refused(wrong: int) -> None:
    """An index outside of its axis reads and writes nothing, and leaves the error to NumPy's plan."""
    x, i = np.arange(5.0), np.array([0, wrong, 2])
    assert Native(lambda x, i: x[i], x, i)(x, i)[1] == REFUSED
    assert Native(lambda x, i: x.at[i].add(1.0), x, i)(x, i)[1] == REFUSED
    with pytest.raises(IndexError, match="out of bounds for axis 0 with size 5"):
        afx.jit(lambda x, i: x[i], backend="native")(x, i)


def test_indices_in_loops() -> None:
    """A loop reads and writes at places that depend on the step; one outside ends it."""
    x = np.zeros(8)

    def fn(x: Any, first: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            x, k = carry
            return (x.at[k].add(x[k - 1] + 1.0), k + 1), x[k]

        return afx.scan(step, (x, first), None, 5)

    assert_same_bits(fn, x, np.int64(2))
    assert Native(fn, x, np.int64(2))(x, np.int64(4))[1] == REFUSED


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "bool"])
def test_running_sums_and_products(dtype: str) -> None:
    """Cumulative sums and products along any axis, both ways, add in order."""
    x = (np.random.default_rng(3).normal(size=(5, 9, 4)) * 3).astype(dtype)

    def fn(x: Any) -> Any:
        found = [f(x, axis=a) for f in (afx.cumsum, afx.cumprod) for a in (0, 1, 2)]
        extremes = afx.cummax(x, axis=1), afx.cummin(x, axis=2)
        return (*found, *extremes, afx.cumsum(x), afx.cumsum(x[:1, :, 1:], axis=0), afx.cumsum(x.T, axis=1))

    assert_same_bits(fn, x)
    if dtype[0] == "f":
        assert_same_bits(lambda x: afx.grad(lambda x: (afx.cumsum(x, axis=1) ** 2).sum())(x), x)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "bool"])
def test_places_of_extremes(dtype: str) -> None:
    """The first of equal extremes counts, the first nan before all; any and all tell what is not zero."""
    x = (np.random.default_rng(4).normal(size=(6, 30, 5)) * 2).astype(dtype)
    if dtype[0] == "f":
        x[0, 3:5, 1], x[1, 0], x[2, -1, 2], x[3, :, :] = np.nan, np.inf, -0.0, 0.0

    def fn(x: Any) -> Any:
        found = [f(x, axis=a) for f in (afx.argmax, afx.argmin) for a in (None, 0, 1, 2)]
        truths = [f(x > 0, axis=a) for f in (afx.any, afx.all) for a in (None, 0, (1, 2), (0, 2))]
        return (*found, *truths, afx.any(x), afx.all(x, axis=1), afx.argmax(x[::-1, 1], axis=0))

    assert_same_bits(fn, x)


@pytest.mark.parametrize("to", ["int8", "int32", "int64", "uint8", "uint32", "uint64"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floats_become_integers(dtype: str, to: str) -> None:
    """Floats are cut off; one that does not fit, or nan, is left to NumPy."""
    info = np.iinfo(to)
    low, high = np.nextafter(np.array([info.min - 1, info.max + 1.0], dtype), np.array([0, 0], dtype))
    x = np.concatenate([np.linspace(max(low, -99), 99.9, 77), [low, high, -0.9, -0.0, 0.99]]).astype(dtype)
    native = assert_same_bits(lambda x: (x.astype(to), x.astype(to) + 1), x)
    for wrong in (np.nan, np.inf, -np.inf, np.nextafter(high, np.array(np.inf, dtype)), -1.5 + 2.0 * info.min):
        assert native(np.concatenate([x[:-1], np.array([wrong], dtype)]))[1] == REFUSED


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_comparisons_with_nan_raise_no_flag(dtype: str) -> None:
    """Comparing and choosing with nan is no invalid operation, on whole vectors and on what is left over."""
    for count in (1, 7, 40):
        x, y = np.full(count, np.nan, dtype), np.linspace(-1, 1, count).astype(dtype)

        def fn(x: Any, y: Any) -> Any:
            extremes = np.maximum(x, y), np.minimum(y, x), np.maximum(x, y).max(), afx.argmax(x), np.clip(x, y, 2)
            tests = x < y, y <= x, x > y, y >= x, x == y, x != y, np.isfinite(x), np.isnan(x), np.isinf(x)
            return (*extremes, *tests, afx.where(x < y, x, y))

        assert assert_same_bits(fn, x, y)(x, y)[1] == 0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("length", [31, 32, 33, 64, 95, 300])
def test_the_first_of_equal_extremes_is_found(length: int, dtype: str) -> None:
    """Of ties, zeros of both signs, infinities and nans argmax and argmin give the first, wherever it stands in a row."""
    rng = np.random.default_rng(length)
    x = rng.integers(-2, 3, (24, length)).astype(dtype)
    x[1], x[2], x[3] = -np.inf, np.inf, np.copysign(0.0, rng.normal(size=length))
    for k, row in enumerate(x[4:14]):
        row[(7 * k) % length :: 17] = np.nan
    for k, row in enumerate(x[14:]):
        row[-1 - (5 * k) % length] = 9.0 * (-1.0) ** k
    assert_same_bits(
        lambda x: (afx.argmax(x, axis=1), afx.argmin(x, axis=1), afx.argmax(x), afx.argmin(x.T, axis=0)), x
    )


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
@pytest.mark.parametrize("count", [1, 15, 511, 512, 1100])
def test_long_lines_of_indices(count: int, dtype: str) -> None:
    """Indices are checked some at a time: all are found, repeated and negative ones too, and any wrong one is seen."""
    rng = np.random.default_rng(count)
    x, values = rng.normal(size=(40, 30)), rng.normal(size=count)
    low = 0 if dtype[0] == "u" else -30
    i, j = (rng.integers(low, 30, count).astype(dtype) for _ in range(2))

    def fn(x: Any, i: Any, j: Any, v: Any) -> Any:
        zeros = afx.zeros(30, dtype=x.dtype)
        return x[i, j], x[0][i], zeros.at[i].add(v), zeros.at[j].set(v), x.at[j, i].add(v), x[:3, 1:][:, i[::-1] // 2]

    native = assert_same_bits(fn, x, i, j, values)
    for place in {0, count // 2, count - 1}:
        wrong = j.copy()
        wrong[place] = 200 if dtype[0] == "u" else -31
        assert native(x, i, wrong, values)[1] == -1


def test_extremes_of_large_arrays_along_outer_axes_stay_in_the_kernel() -> None:
    """Rows that lie side by side are compared at once, however many there are."""
    lowered = afx.jit(lambda x: afx.argmax(x, axis=0)).lower(np.ones((500, 40)))
    assert not any(reason for _, reason in lowered.plan.why_not_native)


@pytest.mark.parametrize("shape", [(700, 400), (3, 500, 200), (400, 5), (2, 300_000)])
def test_cumulative_ops_of_large_arrays(shape: tuple[int, ...]) -> None:
    """Along each axis, forward and backward, beside what works on rows: steps over neighbours keep the order of each sum."""
    x = np.random.default_rng(0).normal(size=shape).astype("f4")

    def fn(x: Any) -> Any:
        found = [f(x, axis=a) for f in (afx.cumsum, afx.cummax) for a in range(x.ndim)]
        return (
            *found,
            np.cumsum(x[::-1] * 2, axis=0) + 1,
            afx.grad(lambda x: afx.sum(afx.cumsum(x, axis=0) * x))(x),
            x.sum(axis=-1),
        )

    assert_same_bits(fn, x)
