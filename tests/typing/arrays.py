"""What type checkers know of arrays and operations."""

from typing import Any, assert_type

import numpy as np

import afx
from afx import Array


def operators(x: Array, y: Array) -> None:
    assert_type(x + y, Array)
    assert_type(2.0 * x, Array)
    assert_type(x - np.ones(3), Array)
    assert_type(x / 2, Array)
    assert_type(x**2, Array)
    assert_type(x @ y, Array)
    assert_type(-x, Array)
    assert_type(abs(x), Array)
    assert_type(x < y, Array)
    assert_type(x == y, Array)
    assert_type(x[0], Array)
    assert_type(x[1:, None, ...], Array)
    assert_type(x[x > 0], Array)


def numpys_functions(x: Array) -> None:
    assert_type(x * np.ones(3), Array)
    assert_type(np.asarray(x), np.ndarray[tuple[Any, ...], np.dtype[Any]])
    assert_type(np.sin(x), np.ndarray[tuple[Any, ...], np.dtype[Any]])  # by NumPy's stubs; it is an Array


def updates(x: Array) -> None:
    assert_type(x.at[0].set(1.0), Array)
    assert_type(x.at[1:].add(x), Array)


def properties(x: Array) -> None:
    assert_type(x.shape, tuple[int, ...])
    assert_type(x.ndim, int)
    assert_type(x.T, Array)
    assert_type(x.sum(axis=0), Array)
    assert_type(x.reshape(2, 3), Array)
    assert_type(bool(x), bool)
    assert_type(float(x), float)
    assert_type(len(x), int)
    for row in x:
        assert_type(row, Array)


def operations(x: Array) -> None:
    assert_type(afx.sin(x), Array)
    assert_type(afx.sin(1.0), Array)
    assert_type(afx.sin(np.ones(3)), Array)
    assert_type(afx.sum(x, axis=(0, 1), keepdims=True), Array)
    assert_type(afx.where(x > 0, x, 0.0), Array)
    assert_type(afx.concat([x, x], axis=0), Array)
    assert_type(afx.zeros((2, 3)), Array)
    assert_type(afx.asarray([[1.0, 2.0], [3.0, 4.0]]), Array)
    assert_type(afx.max(x, axis=-1), Array)
