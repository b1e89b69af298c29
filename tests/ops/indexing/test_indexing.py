"""Indexing and updates do what NumPy does, with derivatives, under every transformation."""

from typing import Any

import numpy as np
import pytest

import afx
from afx import errors
from tests.ops.samples import together

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 4, 5))
MASK = X[..., 0] > 0

BASIC: list[Any] = [
    0,
    -1,
    np.int64(2),
    slice(None),
    slice(1, None),
    slice(None, None, -1),
    slice(5, 0, -2),
    slice(2, 2),
    slice(-100, 100, 2),
    (),
    ...,
    None,
    (0, 1, 2),
    (..., 0),
    (0, ..., slice(1, 3)),
    (None, 1, None, slice(None, None, 2), None),
    (slice(1, 2), slice(None), slice(4, None, -1)),
    (slice(0, 3), 1, ...),
]
ADVANCED: list[Any] = [
    [0, 2],
    [],
    [0, 0, -1],
    np.array([[0, 1], [2, -3]]),
    np.array(1),
    np.array([2, 0], np.uint8),
    [True, False, True],
    X > 0,
    MASK,
    (slice(None), [True, False, True, True]),
    ([0, 1], [1, -1]),
    ([[0], [1]], [1, 2]),
    (slice(None), [1, 3]),
    (..., [0, 0]),
    ([0, 2], slice(1, 3)),
    ([0, 2], slice(None), [1, 1]),
    (0, slice(None), [1, 2]),
    (0, [1, 2]),
    (slice(None), 0, [1, 2]),
    ([0, 1], None, [1, 2]),
    ([0, 1], ..., [1, 2]),
    (None, [0, 1], ..., 2),
    (MASK, 0),
    (slice(None), [0, 1], slice(None, None, -2)),
    (True,),
    False,
    (True, [0, 1]),
]
INDICES = BASIC + ADVANCED


def name_of(index: Any) -> str:
    """Return a test's name for an index."""
    return str(index).replace("\n", "")[:50]


# -- values -----------------------------------------------------------------------------------------------------------
@together("index", INDICES, ids=name_of)
def test_values_are_numpys(index: Any) -> None:
    """``x[index]`` has NumPy's elements, shape and dtype: plain, traced by a tape, and under jit."""
    want = X[index]
    x = afx.asarray(X)
    seen: list[Any] = []
    afx.grad(lambda x: (seen.append(x[index]), x.sum())[1])(x)
    for got in (x[index], afx.jit(lambda x: x[index])(x), afx.stop_gradient(x)[index]):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(np.asarray(got), want)
    assert seen[0].shape == want.shape


@together("index", INDICES, ids=name_of)
def test_gradient_adds_up_at_the_elements_read(index: Any) -> None:
    """The cotangent of ``x[index]`` returns to the elements it was read from, added up where they repeat."""
    weights = RNG.normal(size=X[index].shape)
    want = np.zeros_like(X)
    np.add.at(want, index, weights)
    np.testing.assert_allclose(np.asarray(afx.grad(lambda x: (x[index] * weights).sum())(X)), want)


@together("index", INDICES, ids=name_of)
def test_tangents_are_indexed(index: Any) -> None:
    """The tangent of ``x[index]`` is the tangent at that index."""
    tangent = RNG.normal(size=X.shape)
    _, found = afx.jvp(lambda x: x[index], (X,), (tangent,))
    np.testing.assert_array_equal(np.asarray(found), tangent[index])


@together("index", INDICES, ids=name_of)
def test_vmap_is_a_loop(index: Any) -> None:
    """Batched indexing and updating is what a loop over the batch gives."""
    batch = RNG.normal(size=(2, *X.shape))
    values = RNG.normal(size=(2, *X[index].shape))
    got = afx.vmap(lambda x: x[index])(batch)
    np.testing.assert_array_equal(np.asarray(got), np.stack([b[index] for b in batch]))
    updated = afx.vmap(lambda x, v: x.at[index].add(v))(batch, values)
    for b, v, z in zip(batch, values, updated, strict=True):
        np.testing.assert_allclose(np.asarray(z), np.asarray(afx.asarray(b).at[index].add(v)))


def test_basic_indexing_is_a_view() -> None:
    """A slice shares the memory of its array."""
    x = afx.asarray(X)
    assert np.shares_memory(np.asarray(x), np.asarray(x[1:, ::2]))


def test_traced_index_arrays() -> None:
    """Integer arrays and numbers may be traced: as indices of jit, of vmap, and both at once."""
    x, i = afx.asarray(X), afx.asarray([2, 0, 1])
    np.testing.assert_array_equal(np.asarray(afx.jit(lambda x, i: x[i, :, 0])(x, i)), X[[2, 0, 1], :, 0])
    np.testing.assert_array_equal(np.asarray(afx.jit(lambda x, i: x[:, i[0]])(x, i)), X[:, 2])
    np.testing.assert_array_equal(np.asarray(afx.vmap(lambda i: x[:, i])(i)), np.stack([X[:, k] for k in (2, 0, 1)]))
    got = afx.vmap(lambda x, i: x[:, [i, i]])(x, i)
    np.testing.assert_array_equal(np.asarray(got), np.stack([X[k][:, [j, j]] for k, j in enumerate((2, 0, 1))]))
    placed = afx.vmap(lambda x, i: x.at[:, i].set(0.0))(x, i)
    want = X.copy()
    for k, j in enumerate((2, 0, 1)):
        want[k, :, j] = 0
    np.testing.assert_array_equal(np.asarray(placed), want)


def test_gradient_with_traced_indices_under_jit() -> None:
    """A compiled gradient of a gather adds up at traced places."""
    i = afx.asarray([1, 1, 0])
    got = afx.jit(afx.grad(lambda x, i: (x[i] ** 2).sum()))(X, i)
    want = np.zeros_like(X)
    np.add.at(want, [1, 1, 0], 2 * X[[1, 1, 0]])
    np.testing.assert_allclose(np.asarray(got), want)


def test_second_derivative_through_an_index() -> None:
    """Indexing and its transpose differentiate again."""
    x = np.array([1.0, 2.0, 3.0])
    got = afx.hessian(lambda x: (x[[0, 0, 2]] ** 3).sum() + x[1:].prod())(x)
    np.testing.assert_allclose(np.asarray(got), [[12.0, 0, 0], [0, 0, 1.0], [0, 1.0, 18.0]])


def test_a_mask_cuts_off_what_it_does_not_select() -> None:
    """``sqrt(x)[x > 0]`` has the derivative 0 at 0, where the square root has none."""
    x = np.array([0.0, 4.0])
    np.testing.assert_array_equal(np.asarray(afx.grad(lambda x: afx.sqrt(x)[x > 0].sum())(x)), [0.0, 0.25])
    safe = afx.grad(lambda x: afx.sqrt(x).at[x <= 0].set(0.0).sum())
    np.testing.assert_array_equal(np.asarray(safe(x)), [0.0, 0.25])
    with np.errstate(divide="ignore", invalid="ignore"):  # the plan computes the branch that is cut off
        np.testing.assert_array_equal(np.asarray(afx.jit(safe)(x)), [0.0, 0.25])


def test_large_scatter_agrees_with_numpy() -> None:
    """Adding at many places, of one axis or several, gives NumPy's sums."""
    index = RNG.integers(-3, 3, size=(40, 7))
    for place in (index, (slice(None), index), (index, index), (slice(None), index, index)):
        values = RNG.normal(size=X[place].shape)
        want = X.copy()
        np.add.at(want, place, values)
        np.testing.assert_allclose(np.asarray(afx.asarray(X).at[place].add(values)), want)


def test_random_indices_agree_with_numpy() -> None:
    """Indices drawn at random select what NumPy selects and are updated as NumPy updates them."""
    for _ in range(300):
        index = tuple(i for n in X.shape[: RNG.integers(1, 4)] for i in _random_entries(n))
        want = X[index]
        np.testing.assert_array_equal(np.asarray(afx.asarray(X)[index]), want)
        values = RNG.normal(size=want.shape)
        changed = X.copy()
        changed[index] = values
        np.testing.assert_array_equal(np.asarray(afx.asarray(X).at[index].set(values)), changed)


def _random_entries(n: int) -> list[Any]:
    """Return an entry for an axis of this length, sometimes with a new axis before it."""
    bounds = [None, *range(-n - 1, n + 2)]
    kinds: list[Any] = [
        int(RNG.integers(-n, n)),
        slice(*(bounds[RNG.integers(len(bounds))] for _ in range(2)), [None, 1, 2, -1, -2][RNG.integers(5)]),
        RNG.integers(-n, n, size=2),
        RNG.integers(-n, n, size=(3, 1)),
    ]
    return [None] * (RNG.random() < 0.2) + [kinds[RNG.integers(len(kinds))]]


# -- updates ----------------------------------------------------------------------------------------------------------
UPDATES = {
    "add": np.add.at,
    "subtract": np.subtract.at,
    "multiply": np.multiply.at,
    "divide": np.divide.at,
    "min": np.minimum.at,
    "max": np.maximum.at,
}
PLACES: list[Any] = [
    1,
    slice(None, None, 2),
    (..., 0),
    [0, 0, 2],
    (slice(None), [1, 1]),
    ([0, 0], ..., [1, 1]),
    MASK,
    X > 0,
]


@together("name", UPDATES)
@together("index", PLACES, ids=name_of)
def test_updates_accumulate(name: str, index: Any) -> None:
    """Updates happen once per occurrence of a place, with values of each shape that broadcasts."""
    for values in (RNG.normal(size=X[index].shape), 1.5):
        want = X.copy()
        UPDATES[name](want, index, values)
        update = lambda x, v=values: getattr(x.at[index], name)(v)  # one line for each of its uses
        np.testing.assert_allclose(np.asarray(update(afx.asarray(X))), want)
        np.testing.assert_allclose(np.asarray(afx.jit(update)(X)), want)


@together("name", ["set", *UPDATES])
@together("index", PLACES, ids=name_of)
def test_updates_have_derivatives(name: str, index: Any) -> None:
    """Both modes agree with central differences, by x and by the values."""
    values = RNG.uniform(0.5, 2, size=X[index].shape)
    weights, dx, dv = RNG.normal(size=X.shape), RNG.normal(size=X.shape), RNG.normal(size=values.shape)

    def total(x: Any, v: Any) -> Any:
        return (getattr(x.at[index], name)(v) * weights).sum()

    step = 1e-6
    ahead, behind = (total(afx.asarray(X + s * dx), afx.asarray(values + s * dv)) for s in (step, -step))
    want = (float(ahead) - float(behind)) / (2 * step)
    gx, gv = afx.grad(total, argnums=(0, 1))(X, values)
    assert float((gx * dx).sum() + (gv * dv).sum()) == pytest.approx(want, rel=1e-6, abs=1e-6)
    _, tangent = afx.jvp(total, (X, values), (dx, dv))
    assert float(tangent) == pytest.approx(want, rel=1e-6, abs=1e-6)


def test_set_keeps_the_last_value() -> None:
    """Where places repeat the last value stays, and it alone has a derivative."""
    x, v = np.zeros(3), np.array([1.0, 2.0, 3.0])
    set_ = afx.asarray(x).at[[1, 1, 2]].set
    np.testing.assert_array_equal(np.asarray(set_(v)), [0, 2, 3])
    np.testing.assert_array_equal(np.asarray(afx.grad(lambda v: (set_(v) * np.array([5.0, 6, 7])).sum())(v)), [0, 6, 7])


def test_ties_of_min_and_max_are_split_evenly() -> None:
    """All that reach the extreme share its derivative."""
    both = afx.grad(lambda x, v: x.at[[0, 0, 1]].max(v).sum(), argnums=(0, 1))
    gx, gv = both(np.array([1.0, 0.0, 3.0]), np.array([1.0, 1.0, 0.0]))
    np.testing.assert_allclose(np.asarray(gx), [1 / 3, 0.5, 1])
    np.testing.assert_allclose(np.asarray(gv), [1 / 3, 1 / 3, 0.5])


def test_compiled_extremes_at_the_one_place_of_an_axis() -> None:
    """An index that can be 0 alone is a number when it is compiled, among the operands of the derivative."""
    x, w = RNG.normal(size=(1, 1, 3)), RNG.normal(size=(1, 1, 3))
    index = (None, 0, np.array([True]), 2)
    both = afx.grad(lambda x, v: (x.at[index].min(v) * w).sum(), argnums=(0, 1))
    gx, gv = afx.jit(both)(x, np.float64(-9.0))  # which is smaller
    np.testing.assert_allclose(np.asarray(gx), w * [1.0, 1.0, 0.0])
    np.testing.assert_allclose(np.asarray(gv), w[0, 0, 2])


def test_products_with_zeros_have_derivatives() -> None:
    """The derivative by a repeated factor is the product of the others, zeros or not, also the second time."""
    v = np.array([0.0, 2.0, 3.0, 0.0, 5.0])
    product = lambda v: (
        afx.ones(2, dtype="float64").at[[0, 0, 0, 1, 1]].multiply(v) * np.array([1.0, 10.0])
    ).sum()  # as above
    np.testing.assert_allclose(np.asarray(afx.grad(product)(v)), [6.0, 0.0, 0.0, 50.0, 0.0])
    second = np.asarray(afx.hessian(product)(v))
    want = np.zeros((5, 5))
    want[0, 1] = want[1, 0] = 3.0
    want[0, 2] = want[2, 0] = 2.0
    want[3, 4] = want[4, 3] = 10.0
    np.testing.assert_allclose(second, want)


def test_apply_and_get() -> None:
    """``apply`` changes each place once; ``get`` reads."""
    x = afx.asarray(X)
    np.testing.assert_allclose(np.asarray(x.at[[0, 0]].apply(lambda v: v * 2)[0]), 2 * X[0])
    np.testing.assert_array_equal(np.asarray(x.at[1:, 0].get()), X[1:, 0])


def test_updates_keep_the_dtype_and_the_original() -> None:
    """Values take the dtype of x, and x itself stays."""
    x = afx.zeros(3)
    assert x.at[0].set(np.float64(2)).dtype == np.float32
    assert afx.asarray([1, 2]).at[0].add(5).dtype == np.int64
    assert not np.asarray(x).any()


def test_a_traced_mask_updates_under_jit() -> None:
    """With values that do not depend on the place a mask may be traced."""
    got = afx.jit(lambda x: x.at[x < 0].multiply(2.0))(X)
    np.testing.assert_allclose(np.asarray(got), np.where(X < 0, 2 * X, X))


# -- take -------------------------------------------------------------------------------------------------------------
@together("axis", [None, 0, 1, -1])
@together("indices", [1, [0, 2], np.array([[0, -1], [1, 1]])], ids=str)
def test_take_is_numpys(axis: int | None, indices: Any) -> None:
    """`take` puts the shape of the indices in the place of the axis."""
    np.testing.assert_array_equal(np.asarray(afx.take(X, indices, axis)), np.take(X, indices, axis))


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
def test_take_along_axis_is_numpys(axis: int | None) -> None:
    """`take_along_axis` reads with one index for each place, broadcast over axes of length 1."""
    order = np.argsort(X, axis=axis)
    want = np.take_along_axis(X, order, axis)
    np.testing.assert_array_equal(np.asarray(afx.take_along_axis(X, order, axis)), want)
    got = afx.vmap(lambda x, i: afx.take_along_axis(x, i, axis=0))(X, np.argsort(X, axis=1))
    np.testing.assert_array_equal(np.asarray(got), np.sort(X, axis=1))
    one = np.ones((1, 4, 2), int)
    np.testing.assert_array_equal(np.asarray(afx.take_along_axis(X, one)), np.take_along_axis(X, one, -1))


# -- errors -----------------------------------------------------------------------------------------------------------
@together(
    ("index", "error", "message"),
    [
        (
            3,
            errors.IndexRangeError,
            r"getitem: index 3 is out of bounds for axis 0 with size 3: got float64\[3,4,5\]",
        ),
        (
            (0, -5),
            errors.IndexRangeError,
            "index -5 is out of bounds for axis 1 with size 4: got .*; use an index from -4 to 3",
        ),
        ([0, 7], errors.IndexRangeError, "index 7 is out of bounds for axis 0"),
        ((slice(None), [0, -9]), errors.IndexRangeError, "index -9 is out of bounds for axis 1"),
        ((0, 0, 0, 0), errors.IndexRangeError, "too many indices for array: got 4"),
        ((..., 0, ...), errors.IndexRangeError, "single ellipsis"),
        ([True, False], errors.IndexRangeError, "a boolean mask has the shape of the axes"),
        (1.5, errors.OperandError, "an index is an int, a slice, None, … or an array .*: got float"),
        ("a", errors.OperandError, "got str"),
        ([0.5], errors.DtypeError, r"integers or booleans: got float32\[1\]"),
        (slice(0, 1.5), errors.OperandError, "getitem"),
        (slice(0, 2, 0), errors.OperandError, "step"),
        (([0, 1], [0, 1, 2]), errors.ShapeError, "indexing arrays could not be broadcast together"),
    ],
    ids=str,
)
def test_wrong_indices_say_what_is_wrong(index: Any, error: type[Exception], message: str) -> None:
    """Wrong indices raise afx's own error with the array's shape, plain and traced."""
    with pytest.raises(error, match=message):
        afx.asarray(X)[index]
    with pytest.raises(error, match=message):
        afx.grad(lambda x: x[index].sum())(X)


def test_out_of_range_updates_raise() -> None:
    """An update outside raises IndexError, as reading there does."""
    for index in (3, [3], (slice(None), [9])):
        with pytest.raises(IndexError, match="is out of bounds"):
            afx.asarray(X).at[index].set(0.0)
    with pytest.raises(IndexError, match=r"index 12 is out of bounds"):
        afx.asarray(X).at[np.full(300, 12)].add(1.0)


def test_values_that_do_not_fit_raise() -> None:
    """Values of another shape, or of a dtype that would lose something, are refused."""
    with pytest.raises(errors.ShapeError, match=r"index_set: the values do not broadcast: got float64\[3\]"):
        afx.asarray(X).at[0].set(np.ones(3))
    with pytest.raises(errors.DtypeError, match="index_add: float32 does not fit into int64"):
        afx.asarray([1, 2]).at[0].add(1.5)
    with pytest.raises(errors.DtypeError, match="index_divide"):
        afx.asarray([1, 2]).at[0].divide(2)
    with pytest.raises(errors.ArgumentError, match=r"index_set: .*out of bounds"):
        afx.zeros(2, dtype="int8").at[0].set(300)


def test_a_traced_mask_says_what_to_use() -> None:
    """Under jit the shape of ``x[mask]`` is unknown: the error names the function and `where`."""
    with pytest.raises(errors.ConcreteValueError, match=r"getitem: .*boolean mask .* afx.where\(mask, x, 0\)"):
        afx.jit(lambda x: x[x > 0])(X)


def test_traced_bounds_say_what_to_use() -> None:
    """Under jit the bounds of a slice must be known: the error shows the window that moves."""
    with pytest.raises(errors.ConcreteValueError, match=r"bounds of a slice must be known: .* afx.arange\(n\)"):
        afx.jit(lambda x, i: x[i : i + 2])(X, 1)


def test_take_refuses_floats() -> None:
    """`take` asks for integers."""
    with pytest.raises(errors.DtypeError, match="take: indices are integers"):
        afx.take(X, [0.5])
    with pytest.raises(errors.IndexRangeError, match="out of bounds"):
        afx.take(X, 3, axis=0)
    with pytest.raises(errors.ShapeError, match="take_along_axis: the number of axes differs"):
        afx.take_along_axis(X, np.zeros(3, int))
