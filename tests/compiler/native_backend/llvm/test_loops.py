"""Loops as machine code."""

import re
from typing import Any

import numpy as np
import pytest

import afx

pytest.importorskip("llvmlite", reason="machine code is an extra")

from tests.benchmarks.workloads import catenary
from tests.compiler.native_backend.native_run import Native, assert_same_bits


@pytest.mark.parametrize("length", [1, 2, 7])
@pytest.mark.parametrize("reverse", [False, True])
def test_scan_carries_and_stacks(length: int, reverse: bool) -> None:
    """A scan with constants, elements and stacked results agrees, whether its length is odd or even."""
    rng = np.random.default_rng(1)
    x, w, xs = rng.normal(size=5), rng.normal(size=(5, 5)), rng.normal(size=(length, 5))

    def fn(x: Any, w: Any, xs: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            h, n = carry
            return (np.tanh(w @ h + row), n + 1), (h.sum(), h[::-1] * 2)

        return afx.scan(step, (x, np.int32(0)), xs, reverse=reverse)

    assert_same_bits(fn, x, w, xs)
    assert_same_bits(lambda x, w, xs: afx.grad(lambda w: fn(x, w, xs)[0][0].sum())(w), x, w, xs)


@pytest.mark.parametrize("length", [0, 1, 2, 7])
@pytest.mark.parametrize("dtypes", ["ddd", "fff", "??h", "FFi", "hhd"])
def test_numbers_are_carried_on_the_stack(length: int, dtypes: str) -> None:
    """Numbers of all sizes, two that exchange theirs, one that stays, beside a vector; no turn asks which memory is next."""
    a, b, c = (np.asarray(k + 1).astype(dtype) for k, dtype in enumerate(dtypes))
    v = np.arange(3.0)

    def fn(a: Any, b: Any, c: Any, v: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            (a, b), (c, d), v = carry
            new = (a & b) if a.dtype == bool else (a + a).astype(a.dtype)
            return ((b.astype(a.dtype), new.astype(b.dtype)), (d, c), v * x), (a, c)

        return afx.scan(step, ((a, b), (c, c + c), v), np.arange(float(length)))

    assert_same_bits(fn, a, b, c, v)
    alone = assert_same_bits(lambda v, x: afx.scan(lambda s, x: (s * x + v, s), v, x), v[1], np.arange(length + 2.0))
    assert not re.search(r"trunc i64 \S+ to i1\b", alone.text)  # which tells odd turns from even ones


def test_the_catenary_descends_as_in_numpy() -> None:
    """Hundreds of steps of gradient descent end in the same bits."""
    step = catenary.step_of("afx")
    y, free = catenary._start()
    assert_same_bits(lambda y, free: afx.scan(lambda y, _: (step(y, free), None), y, None, 301)[0], y, free)


def test_nested_loops() -> None:
    """A scan within a scan keeps its own carry and arena."""
    x = np.linspace(0, 1, 9)

    def fn(x: Any) -> Any:
        def outer(y: Any, _: Any) -> Any:
            inner = afx.scan(lambda z, _: (np.sin(z) + y[::-1], z[0]), y, None, 3)
            return inner[0] * 0.5, inner[1]

        return afx.scan(outer, x, None, 5)

    assert_same_bits(fn, x)


def test_loops_until_a_condition() -> None:
    """A while loop stops at the same step."""

    def fn(x: Any) -> Any:
        return afx.while_loop(lambda s: s[0] < 100.0, lambda s: (s[0] * 1.5 + s[1][0], s[1] * 0.9), (x[0], x))

    for first in (1.0, 90.0, 300.0):
        assert_same_bits(fn, np.array([first, 2.0, 3.0]))


def test_branches() -> None:
    """One of several bodies runs, within loops too; each has its own constants and temporary values."""
    x, table = np.linspace(-1, 1, 6), np.arange(6.0)

    def fn(x: Any) -> Any:
        def step(y: Any, k: Any) -> Any:
            turns = [lambda y: np.sin(y) + table, lambda y: y[::-1] * 2 - y.sum(), lambda y: y]
            y = afx.switch(k, turns, y)
            return afx.cond(y[0] > 0, lambda y: -np.tanh(y) * 3, lambda y: y + 1, y), y[0]

        return afx.scan(step, x, np.array([0, 1, 2, 1, 0, 2, 2, 1], np.int32))

    assert_same_bits(fn, x)
    assert_same_bits(lambda x: afx.grad(lambda x: (fn(x)[0] ** 2).sum())(x), x)
    for k in range(3):
        assert_same_bits(lambda x, k: afx.switch(k, [np.sin, lambda x: x * 2, lambda x: x], x), x, np.int64(k))


def test_loops_and_branches_that_ignore_errors() -> None:
    """What runs under `np.errstate` as a whole reports none of the errors that it ignores."""
    x = np.array([0.0, 1.0])

    def fn(x: Any) -> Any:
        with np.errstate(divide="ignore"):
            y = afx.scan(lambda y, _: (1 / (y - y[::-1] * x), None), x, None, 3)[0]
            return afx.cond(x[1] > 0, lambda y: 1 / (y * 0 + 0.0), lambda y: y, x) + np.sign(y)

    native = assert_same_bits(fn, x)
    assert native(x)[1] & 1 == 0
    assert assert_same_bits(lambda x: afx.scan(lambda y, _: (1 / y, None), x, None, 3)[0], x)(x)[1] & 1 == 1


def test_threads_that_help_ignore_what_a_loop_ignores() -> None:
    """Errors that are ignored around a loop are not those of the threads that share its nests either."""
    x = np.zeros(1 << 18)

    def fn(x: Any) -> Any:
        with np.errstate(divide="ignore"):
            return afx.scan(lambda y, _: (np.minimum(1 / (x * y), 3.0), None), x + 1, None, 50)[0]

    native = Native(fn, x)
    assert native.program.block.is_shared
    for _ in range(4):
        assert native(x)[1] == 0


def test_stacked_results_need_not_be_in_row_major_order() -> None:
    """A step may give transposes and other views: NumPy's plan copies what it stacks, so that their order tells nothing."""

    def fn(h: Any) -> Any:
        def step(h: Any, _: Any) -> Any:
            h = afx.tanh(h @ h.T + 0.1)
            return h, (afx.permute_dims(afx.exp(h), (1, 0)), h[::-1, 1:].T, (h * 2).T.sum(axis=0))

        return afx.scan(step, h, None, 5)

    native = assert_same_bits(fn, np.random.default_rng(0).normal(size=(6, 6)))
    assert not any(why for _, why in native.plan.why_not_native)
