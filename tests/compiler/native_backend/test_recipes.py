"""Recipes: what is quick to make of one array is made again where it is read, instead of being kept."""

from typing import Any

import numpy as np
import pytest

import afx

pytest.importorskip("llvmlite", reason="machine code is an extra")

from afx.compiler.native_backend.lowering.lower import lower_schedule
from afx.compiler.native_backend.program.leaves import Nest
from tests.compiler.native_backend.native_run import FIRST_TIER, Native, assert_same_bits, schedule_of

X = np.random.default_rng(0).normal(size=3000)


def stored(native: Native) -> list[int]:
    """Return how many bytes an element takes of all that nests keep in memory."""
    nests = [step for step in native.program.block.all_steps() if isinstance(step, Nest) and step.elements == X.size]
    return sorted([ref.size for nest in nests for _, ref in nest.stores])


def test_huber_keeps_residuals_and_the_choice() -> None:
    """Sizes, signs and slopes of the loss are made of these on the way back."""

    def loss(b: Any, y: Any) -> Any:
        r = abs(y - b)
        return afx.mean(afx.where(r < 1.345, 0.5 * r**2, 1.345 * (r - 0.6725)))

    native = assert_same_bits(afx.value_and_grad(loss), np.array(0.1), X)
    assert stored(native) == [1, 8, 8, 8, 8]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_that_others_read_from_memory_stay(dtype: str) -> None:
    """Results, operands of calls, and what two loops make of one value have the plan's bits."""
    x = X.astype(dtype)

    def fn(x: Any) -> Any:
        y = -abs(x)
        total = afx.sum(y)
        z = afx.where(x > 0, 1.0, -1.0)
        return y, total, afx.exp(y) * total, afx.sort(z) * total, afx.cumsum(y)

    assert_same_bits(fn, x)


def test_long_chains_of_signs_are_not_made_again() -> None:
    """Of what is made of what could be made again, the first value is kept: loops do not grow with the chain before them."""

    def fn(x: Any) -> Any:
        for _ in range(200):
            x = afx.abs(-afx.sign(x))
        return x

    steps = lower_schedule(schedule_of(fn, X), FIRST_TIER)[0].block.steps
    assert sum([len(step.values) for step in steps if isinstance(step, Nest)]) < 700
