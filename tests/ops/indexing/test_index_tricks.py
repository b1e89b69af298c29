"""Indices of elements are NumPy's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx import errors
from tests.ops.agreement import same
from tests.ops.samples import together

M = np.arange(12.0).reshape(3, 4)
FLAT = np.array([[0, 7], [11, 3]])

CASES: dict[str, Callable[[Any], Any]] = {
    "unravel_index": lambda lib: lib.unravel_index(FLAT, (3, 2, 2)),
    "unravel_index of one": lambda lib: lib.unravel_index(np.array(3), 12),
    "ravel_multi_index": lambda lib: lib.ravel_multi_index((np.array([0, 2]), np.array([3, 1])), (3, 4)),
    "ravel_multi_index of an array": lambda lib: lib.ravel_multi_index(np.array([[0, 2], [3, 1]]), (3, 4)),
    "ravel_multi_index around": lambda lib: lib.ravel_multi_index((np.array([-1, 5]),), (3,), mode="wrap"),
    "ravel_multi_index clipped": lambda lib: lib.ravel_multi_index(
        (np.array([-1, 5]), np.array([0, 9])), (3, 4), mode=("clip", "wrap")
    ),
    "ix_": lambda lib: lib.ix_([0, 2], np.array([True, False, True, True]), []),
    "indices": lambda lib: lib.indices((2, 3)),
    "sparse indices": lambda lib: lib.indices((2, 3), sparse=True),
    "diag_indices": lambda lib: lib.diag_indices(3, 3),
    "diag_indices_from": lambda lib: lib.diag_indices_from(M[:, :3]),
    "tril_indices": lambda lib: lib.tril_indices(3, 1, 4),
    "tril_indices_from": lambda lib: lib.tril_indices_from(M, -1),
    "triu_indices": lambda lib: lib.triu_indices(3, -1),
    "triu_indices_from": lambda lib: lib.triu_indices_from(M),
}


@together("name", CASES)
def test_indices_are_numpys(name: str) -> None:
    """Indices are NumPy's, as int64."""
    want = CASES[name](np)
    same(CASES[name](afx), want)


def test_numpys_functions_take_arrays() -> None:
    """Under NumPy's names they take Arrays, traced ones too."""
    x = afx.asarray(M)
    same(np.ix_(afx.asarray([0, 2]), afx.asarray([1])), np.ix_([0, 2], [1]))
    same(np.tril_indices_from(x), np.tril_indices_from(M))
    same(np.diag_indices_from(x[:, :3]), np.diag_indices(3))
    same(np.unravel_index(afx.asarray(FLAT), (3, 4)), np.unravel_index(FLAT, (3, 4)))
    got = afx.grad(lambda x: x[np.triu_indices_from(x)].sum())(M)
    np.testing.assert_array_equal(np.asarray(got), np.triu(np.ones((3, 4))))


def test_they_compile() -> None:
    """Flat indices and indices by axis may be traced."""
    there = afx.jit(lambda i: afx.unravel_index(i, (3, 4)))(FLAT)
    same(there, np.unravel_index(FLAT, (3, 4)))
    same(afx.jit(lambda i, j: afx.ravel_multi_index((i, j), (3, 4)))(*there), FLAT)


ERRORS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "range": (
        lambda: afx.unravel_index(12, (3, 4)),
        errors.IndexRangeError,
        "unravel_index: an index is out of bounds",
    ),
    "below": (lambda: afx.ravel_multi_index(([-1],), (3,)), errors.IndexRangeError, "for a length of 3"),
    "floats": (lambda: afx.unravel_index(M, 99), errors.DtypeError, "unravel_index: indices are integers: got float64"),
    "number": (lambda: afx.ravel_multi_index(([1],), (3, 4)), errors.ArgumentError, "takes an index for each axis"),
    "vector": (lambda: afx.ix_(M), errors.ShapeError, "ix_: takes vectors: got float64"),
    "square": (lambda: afx.diag_indices_from(M), errors.ShapeError, "diag_indices_from: takes axes of one length"),
    "matrix": (lambda: afx.tril_indices_from(M[0]), errors.ShapeError, "tril_indices_from: takes a matrix"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_say_what_is_wrong(name: str) -> None:
    """Wrong arguments raise afx's error with what was given."""
    call, kind, message = ERRORS[name]
    with pytest.raises(kind, match=message):
        call()


def test_batched_reads_at_known_places_have_machine_code() -> None:
    """Several indices that a batch shares, as of `take_along_axis`, are read behind the batch axis, and none is refused."""
    pytest.importorskip("llvmlite", reason="machine code is an extra")
    x, places = np.random.default_rng(0).normal(size=(3, 5, 4)), np.array([[0], [3], [1], [-1], [2]])
    run = afx.jit(afx.vmap(lambda x: afx.take_along_axis(x, places, axis=1)))
    np.testing.assert_array_equal(run(x), np.take_along_axis(x, places[None], axis=2))
    assert [why for _, why in run.lower(x).native if why] == []
