"""Carries of a scan that become others exchange their memory with them."""

from typing import Any

import numpy as np
import pytest

import afx

pytest.importorskip("llvmlite", reason="machine code is an extra")

from afx.compiler.native_backend.program.loops import Loop
from tests.compiler.native_backend.native_run import Native, assert_same_bits

LENGTHS = [0, 1, 2, 7, 10]
DTYPES = ["float32", "float64"]


def loop_of(native: Native) -> Loop:
    """Return the only loop of a program."""
    (loop,) = [step for step in native.program.block.steps if isinstance(step, Loop)]
    return loop


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_steps_of_second_order_copy_no_state(length: int, dtype: str) -> None:
    """The state before is overwritten by the next one; results are those of an even and an odd number of steps."""
    rng = np.random.default_rng(length)
    u, before, k = (rng.normal(size=40).astype(dtype) for _ in range(3))

    def run(u: Any, before: Any, k: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            u, before = state
            new = 2 * u - before + k * (np.roll(u, 1) - u)
            return (new, u), new[3]

        return afx.scan(step, (u, before), None, length=length)

    native = assert_same_bits(run, u, before, k)
    if length > 2:
        assert {*loop_of(native).carry} == {*loop_of(native).other}


@pytest.mark.parametrize("length", [3, 4])
def test_what_is_read_otherwise_keeps_its_own_memory(length: int) -> None:
    """A state before whose neighbours are read, that is stacked, or that two carries become, is copied."""
    u, before = np.arange(20.0), np.arange(20.0) ** 2

    def neighbours(state: Any, _: Any) -> Any:
        u, before = state
        return (u + np.roll(before, 1), u), None

    def stacked(state: Any, _: Any) -> Any:
        u, before = state
        return (u * 0.5 - before, u), before

    def read_twice(state: Any, _: Any) -> Any:
        u, before = state
        return (u - before, u), np.sum(before)

    for step in (neighbours, stacked, read_twice):

        def run(u: Any, before: Any, step: Any = step) -> Any:
            return afx.scan(step, (u, before), None, length=length)

        loop = loop_of(assert_same_bits(run, u, before))
        assert not {*loop.carry} & {*loop.other}, step.__name__


@pytest.mark.parametrize("size", [1, 3, 8, 12])  # up to eight numbers are on the stack
@pytest.mark.parametrize("length", [5, 6])
def test_several_lags_and_other_carries_are_right(length: int, size: int) -> None:
    """A third lag, carries that stay where they are, and swapped ones keep their values."""
    a, c = np.arange(1.0 * size), np.linspace(0.0, 1.0, size)

    def run(a: Any, c: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            x, y, z, fixed, s, t = state
            return (x * 0.5 + y - z * fixed, x, y, fixed, t, s), (y[0], s[-1])

        return afx.scan(step, (a, c, a - c, c, a, c), None, length=length)

    assert_same_bits(run, a, c)


@pytest.mark.parametrize("length", [4, 5])
def test_small_states_are_right_on_the_way_back_and_in_loops_that_a_condition_ends(length: int) -> None:
    """Three numbers of the stack, in a scan and its gradient, and exchanged in a loop of unknown length."""
    start = np.array([1.0, -0.5, 2.0])

    def flow(s: Any) -> Any:
        x, y, z = s[0], s[1], s[2]
        return afx.stack([10.0 * (y - x), x * (28.0 - z) - y, x * y - z])

    def loss(s: Any) -> Any:
        last, path = afx.scan(lambda s, _: ((s + 0.01 * flow(s)), s), s, None, length=length)
        return np.sum(last**2) + np.sum(path[:, 0])

    def turned(s: Any) -> Any:
        return afx.while_loop(lambda c: c[2] < length, lambda c: (c[1] + 0.1 * flow(c[0]), c[0], c[2] + 1), (s, -s, 0))[
            :2
        ]

    for fn in (loss, afx.grad(loss), turned):
        assert_same_bits(fn, start)
