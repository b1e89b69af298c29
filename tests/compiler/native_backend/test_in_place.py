"""Carries of loops that stay in one piece of memory."""

from typing import Any

import numpy as np
import pytest

import afx

pytest.importorskip("llvmlite", reason="machine code is an extra")

from afx.compiler.native_backend.program.loops import Loop
from tests.compiler.native_backend.native_run import assert_same_bits


def carries_in_place(fn: Any, *args: Any) -> int:
    """Return how many carries stay in place, of a function that has the bits of NumPy's plan."""
    steps = list(assert_same_bits(fn, *args).program.block.all_steps())
    loops = [step for step in steps if isinstance(step, Loop)]
    return sum([a == b for loop in loops for a, b in zip(loop.carry, loop.other, strict=True)])


@pytest.mark.parametrize("length", [1, 4, 7])
def test_parts_are_written_where_they_are(length: int) -> None:
    """A table that each step writes a place of, a slice of, or nothing of, is not copied; what it held is read before."""
    x = np.arange(24.0).reshape(6, 4)

    def fn(x: Any, k: Any) -> Any:
        def step(now: Any, _: Any) -> Any:
            table, fixed, k = now
            row = table[k - 1] * 0.5 + fixed[k]
            return (table.at[k].set(row), fixed, (k + 1) % 6), row.sum()

        return afx.scan(step, (x, x + 1, k), None, length)

    assert carries_in_place(fn, x, np.int64(2)) >= 2

    def sliced(x: Any) -> Any:
        return afx.scan(lambda t, _: (t.at[1:3].add(t[0] * 2), t[2] + 1), x, None, length)

    assert carries_in_place(sliced, x) == 1


def test_what_is_read_behind_the_write_is_copied() -> None:
    """A step that still needs the old table, swaps carries, or writes all of one, moves between two pieces of memory."""
    x = np.arange(12.0).reshape(3, 4)

    def later(t: Any, k: Any) -> Any:
        new = t.at[k].set(t[k] * 2 + 1)
        return new, (new[0] - t[1], t[2, 1])

    def swapped(now: Any, k: Any) -> Any:
        a, b = now
        return (b.at[k].add(1.0), a), a[0]

    def both(now: Any, k: Any) -> Any:
        a, b = now
        return (a.at[k].set(b[0]), b.at[k].set(a[0])), (a * b).sum()

    index = np.array([0, 2, 1, 1, 0])
    for step, start in ((later, x), (swapped, (x, x + 1)), (both, (x, x - 1)), (lambda t, k: (t * 2, t[k]), x)):
        assert_same_bits(lambda k, step=step, start=start: afx.scan(step, start, k), index)


def test_while_loops_and_loops_within_loops() -> None:
    """A sieve by while_loop, and a table filled by a loop within a loop, are right in place."""

    def fn(x: Any) -> Any:
        def outer(t: Any, k: Any) -> Any:
            inner = afx.scan(lambda t, j: (t.at[k, j].set(t[k - 1, j] + t[k, j - 1]), None), t, np.arange(1, 5))[0]
            return inner, inner[k].sum()

        table, sums = afx.scan(outer, x, np.arange(1, 5))
        last = afx.while_loop(lambda s: s[1] < 4, lambda s: (s[0].at[s[1]].add(2.0), s[1] + 1), (table, 0))
        return table, sums, last

    assert_same_bits(fn, np.ones((5, 5)))

    def grad(x: Any) -> Any:
        def total(x: Any) -> Any:
            return afx.scan(lambda t, k: (t.at[k].set(t[k - 1] * t[k]), None), x, np.arange(1, 5))[0].sum()

        return afx.grad(total)(x)

    assert_same_bits(grad, np.linspace(0.5, 1.5, 6))
