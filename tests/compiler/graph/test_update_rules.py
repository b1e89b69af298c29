"""Sums of parts among zeros: updates of those parts, bit for bit the sums."""

import itertools
from typing import Any

import numpy as np
import pytest

import afx
from afx import Array
from afx.ops.indexing.gather import embed

PARTS = [((0, 5, 1),), ((1, 6, 1),), ((2, 4, 1),), ((0, 2, 1),), ((2, 6, 1),), ((0, 6, 1),), ((0, 6, 2),)]
VALUES = np.array([-0.0, 0.0, -0.0, 1.5, -1.5, np.nan, np.inf, -np.inf, 1e-40])


def part_of(index: Any, rng: np.random.Generator, dtype: str, tail: tuple[int, ...] = ()) -> np.ndarray:
    """Return values of the shape that an index takes, with zeros of both signs."""
    (start, stop, step), *_ = index
    return rng.choice(VALUES, size=(len(range(start, stop, step)), *tail)).astype(dtype)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("terms", [2, 3, 4])
def test_updates_keep_every_bit_of_the_sum(terms: int, dtype: str) -> None:
    """Also the sign of each zero, for parts that overlap, touch or leave gaps."""
    rng = np.random.default_rng(terms)
    picks = list(itertools.product(PARTS, repeat=terms))
    for k in rng.permutation(len(picks))[:60]:
        xs = [part_of(index, rng, dtype) for index in picks[k]]

        def total(*xs: Array, indices: Any = picks[k]) -> Array:
            z = embed(xs[0], (6,), indices[0])
            for x, index in zip(xs[1:], indices[1:], strict=True):
                z = z + embed(x, (6,), index)
            return z

        found, wanted = np.asarray(afx.jit(total)(*xs)), np.asarray(total(*map(afx.asarray, xs)))
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(found[found == 0]), np.signbit(wanted[wanted == 0]), str(picks[k]))


def test_gradients_of_slices_are_updates() -> None:
    """The gradient of differences of neighbours adds two parts, and columns are parts as rows are."""

    def loss(x: Array) -> Array:
        return afx.sum((x[:, 1:] - x[:, :-1]) ** 2 * x[:, 1:])

    lowered = afx.jit(afx.grad(loss)).lower(np.ones((3, 5)))
    assert "slice_add" in str(lowered.schedule)
    x = np.random.default_rng(0).normal(size=(3, 5))
    np.testing.assert_array_equal(afx.jit(afx.grad(loss))(x), afx.grad(loss)(x))


def test_views_of_parts_are_made_once() -> None:
    """A call writes into a view that is there already, and repeated numbers are no call."""
    source = (
        afx.jit(lambda x: afx.sin(embed(x, (6,), PARTS[0]) + embed(x, (6,), PARTS[1]))).lower(np.ones(5)).plan.source
    )
    run = source[source.index("def run(") :]
    assert "embed" not in run
    assert "broadcast_to" not in run
    assert run.count("[") == 2  # an assignment, and the list of results


def test_a_value_that_is_read_again_is_not_changed() -> None:
    """Neither a sum that another one continues, nor an argument."""

    def fn(x: Array, y: Array) -> tuple[Array, Array, Array]:
        a = embed(x, (6,), PARTS[0]) + embed(x, (6,), PARTS[1])
        b = a + embed(y, (6,), PARTS[2])
        return a * 2.0, b, y + 1.0

    x, y = np.arange(5.0), np.arange(2.0)
    for found, wanted in zip(afx.jit(fn)(x, y), fn(afx.asarray(x), afx.asarray(y)), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_parts_that_leave_nothing_out_are_joined() -> None:
    """In order, whatever the order of the terms, with the signs of zeros."""
    at = [((0, 2, 1),), ((4, 6, 1),), ((2, 4, 1),)]

    def fn(x: Array, y: Array) -> Array:
        return embed(x, (6,), at[0]) + embed(x * 2.0, (6,), at[1]) + embed(y, (6,), at[2])

    x, y = np.array([-0.0, 1.0]), np.array([np.nan, -0.0])
    found = np.asarray(afx.jit(fn)(x, y))
    np.testing.assert_array_equal(found, fn(afx.asarray(x), afx.asarray(y)))
    assert not np.signbit(found[found == 0]).any()
    assert "slice_add" not in str(afx.jit(fn).lower(x, y).schedule)
    assert "concat" in str(afx.jit(fn).lower(x, y).schedule)
