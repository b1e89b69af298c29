"""Which of NumPy's functions a plan calls for small arrays, and that they compute what the ops do."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx import Array

RNG = np.random.default_rng(0)

# A function, its operands, and a line of its plan.
CASES: dict[str, tuple[Callable[..., Array], list[Any], str]] = {
    "matrices": (lambda x, y: afx.exp(x @ y), [(3, 4), (4, 5)], "a.dot(b, c)"),
    "a matrix and a vector": (lambda x, y: x @ y, [(3, 4), (4,)], "c = a.dot(b)"),
    "a vector and a matrix": (lambda x, y: x @ y, [(3,), (3, 4)], "c = a.dot(b)"),
    "a transpose": (lambda x, y: x.T @ y, [(4, 3), (4, 5)], ".dot(b)"),
    "one column": (lambda x, y: x @ y, [(3, 4), (4, 1)], "np_matmul(a, b)"),
    "one row": (lambda x, y: x @ y, [(1, 4), (4, 3)], "np_matmul(a, b)"),
    "stacks": (lambda x, y: x @ y, [(2, 3, 4), (2, 4, 3)], "np_matmul(a, b)"),
    "no elements": (lambda x, y: x @ y, [(3, 0), (0, 2)], "np_matmul(a, b)"),
    "the sum of a vector": (lambda x: afx.sum(x) * 2, [(5,)], "a.dot(ones_5, b)"),
    "the sum of a matrix": (lambda x: afx.sum(x) * 2, [(5, 4)], "a.reshape(-1).dot(ones_20, b)"),
    "sums of rows": (lambda x: afx.sum(x, 1) * 2, [(5, 4)], "a.dot(ones_4, b)"),
    "sums of columns": (lambda x: afx.sum(x, 0) * 2, [(5, 4)], "ones_5.dot(a, b)"),
    "the sum of one": (lambda x: afx.sum(x) * 2, [(1,)], "np_add_reduce(a, 0, None, b)"),
    "the largest of short rows": (lambda x: afx.max(x, 1) * 2, [(50, 4)], "np_maximum_reduce(a.T.copy(), 0, None, b)"),
    "the least of stacked rows": (
        lambda x: afx.min(x, 2) * 2,
        [(5, 9, 4)],
        "np_minimum_reduce(a.transpose((2, 0, 1)).copy(), 0, None, b)",
    ),
    "the largest of long rows": (lambda x: afx.max(x, 1) * 2, [(50, 80)], "np_maximum_reduce(a, 1, None, b)"),
    "numbers": (lambda x: afx.exp(afx.sin(x[0]) * 2) + 1, [(3,)], "np_sin(b, c)"),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", CASES)
def test_small_arrays_take_the_fastest_call(case: str, dtype: str) -> None:
    """The plan has the line, and gives what the ops give."""
    fn, shapes, line = CASES[case]
    xs = [RNG.normal(size=s).astype(dtype) for s in shapes]
    compiled = afx.jit(fn)
    assert line in compiled.lower(*xs).plan.source
    np.testing.assert_allclose(compiled(*xs), fn(*xs), rtol=1e-5 if dtype == "float32" else 1e-13)


@pytest.mark.filterwarnings("ignore:invalid value")  # which NumPy says of 0 times infinity
@pytest.mark.parametrize("shape", [(4, 3), (3, 1), (1, 3), (2, 2)])
def test_nan_and_infinity_pass_through_products(shape: tuple[int, int]) -> None:
    """No length makes 0 times nan, or times infinity, into 0."""
    x, y = np.zeros(shape), np.full((shape[1], 2), np.nan)
    assert np.isnan(afx.jit(lambda x, y: x @ y)(x, y)).all()
    assert np.isnan(afx.jit(lambda x, y: x @ y)(x, np.full_like(y, np.inf))).all()
    assert np.isnan(afx.jit(lambda x, y: (y.T @ x.T) * 1)(x, y)).all()


def test_a_number_is_not_written_over_its_operand() -> None:
    """NumPy takes four times as long where both are one: each number of a chain has a place unlike the one before."""
    plan = afx.jit(lambda x: afx.exp(afx.sin(afx.cos(x) * 2) + 1)).lower(1.0).plan
    places = [line.rsplit(", ", 1)[1] for line in plan.source.splitlines() if "np.ndarray(()" in line]
    assert len(places) > 2
    assert all(one != other for one, other in itertools.pairwise(places))


@pytest.mark.parametrize("columns", [2, 3, 10, 64])
def test_extremes_of_short_rows_are_those_of_numpy(columns: int) -> None:
    """With nan and infinities among them, in steps of more than one element and in any order of axes."""
    x = RNG.normal(size=(80, 2 * columns)).astype(np.float32)
    x[3, 0], x[4, 1], x[5, 2] = np.nan, np.inf, -np.inf
    for y in (x[:, ::2], x[::-1, columns:], np.asfortranarray(x[:, :columns]), x.reshape(8, 10, -1)[..., :columns]):
        for ours, theirs in ((afx.max, np.max), (afx.min, np.min)):
            np.testing.assert_array_equal(ours(y, -1), theirs(y, -1))
            np.testing.assert_array_equal(afx.jit(ours, static_argnums=1)(y, -1), theirs(y, -1))
