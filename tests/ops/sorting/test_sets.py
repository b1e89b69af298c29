"""Elements that differ."""

import numpy as np
import pytest

import afx
from afx import errors

RNG = np.random.default_rng(8)
CASES = {
    "integers": RNG.integers(0, 5, (3, 4)),
    "floats": RNG.integers(0, 4, 9) / 4.0,
    "zeros": np.array([0.0, -0.0, 1.0, -0.0]),
    "booleans": np.array([True, False, True]),
    "complex": np.array([1j, 1.0, 1j, 0.5 + 1j]),
    "one": np.array(3.0),
    "none": np.zeros((0, 2)),
    "small": np.array([2, 1, 2], np.uint8),
    "nans": np.array([np.nan, 1.0, np.nan, np.inf, 1.0, -np.inf]),
}


@pytest.mark.parametrize("name", CASES)
def test_values_are_numpys(name: str) -> None:
    """Values, first places, inverses and counts are NumPy's, in the shapes and dtypes of the array API standard."""
    x = CASES[name]
    want = np.unique(x, return_index=True, return_inverse=True, return_counts=True, equal_nan=False)
    found = afx.unique_all(x)
    assert found._fields == ("values", "indices", "inverse_indices", "counts")
    for have, expected in zip(found, want, strict=True):
        np.testing.assert_array_equal(np.asarray(have), expected)
    assert found.values.dtype == x.dtype
    assert {part.dtype for part in found[1:]} == {afx.int64}
    assert found.inverse_indices.shape == x.shape


@pytest.mark.parametrize("name", CASES)
def test_the_four_functions_agree(name: str) -> None:
    """`unique_values`, `unique_counts` and `unique_inverse` are parts of `unique_all`, also under NumPy's names."""
    x = afx.asarray(CASES[name])
    values, _, inverse, counts = afx.unique_all(x)
    by_counts, by_inverse = afx.unique_counts(x), np.unique_inverse(x)
    np.testing.assert_array_equal(np.asarray(afx.unique_values(x)), np.asarray(values))
    np.testing.assert_array_equal(np.asarray(by_counts.values), np.asarray(values))
    np.testing.assert_array_equal(np.asarray(by_counts.counts), np.asarray(counts))
    np.testing.assert_array_equal(np.asarray(by_inverse.values), np.asarray(values))
    np.testing.assert_array_equal(np.asarray(by_inverse.inverse_indices), np.asarray(inverse))


def test_the_values_put_x_together_again() -> None:
    """Values at the inverse indices are x."""
    x = CASES["integers"]
    values, inverse = afx.unique_inverse(x)
    np.testing.assert_array_equal(np.asarray(values[inverse]), x)


def test_equal_elements_share_the_derivative() -> None:
    """The derivative of a value is spread evenly over the elements that have it, forward and backward."""
    x = np.array([3.0, 1.0, 3.0])
    np.testing.assert_allclose(np.asarray(afx.jacrev(afx.unique_values)(x)), [[0, 1, 0], [0.5, 0, 0.5]])
    np.testing.assert_allclose(np.asarray(afx.jacrev(lambda v: afx.unique_all(v).values ** 2)(x))[1], [3.0, 0, 3.0])
    _, tangent = afx.jvp(afx.unique_values, (x,), (np.array([1.0, 2.0, 4.0]),))
    np.testing.assert_allclose(np.asarray(tangent), [2.0, 2.5])


def test_how_many_there_are_must_be_known() -> None:
    """Under `jit`, where the length of the result would depend on unknown values, they raise with their name."""
    with pytest.raises(errors.ConcreteValueError, match="unique_values"):
        afx.jit(afx.unique_values)(np.ones(3))
    with pytest.raises(errors.ConcreteValueError, match="unique_counts"):
        afx.jit(lambda x: afx.unique_counts(x).counts)(np.ones(3))
