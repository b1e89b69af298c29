"""Profiles and reports: the time, work and memory of each line."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import afx
from afx import Array, plot
from afx.compiler.native_backend.run.swap import is_installed
from afx.errors import ArgumentError


def loss(w: Array, x: Array) -> Array:
    """Return a number by a product, a loop and a sum."""
    hidden = afx.tanh(x @ w)
    last = afx.scan(lambda c, row: (c * 0.9 + afx.sum(row**3), None), 0.0, hidden)[0]
    return afx.sum(hidden**2) + last


def here(offset: int) -> str:
    """Return the place of a line of the function above, as profiles name it."""
    return f"{__file__}:{loss.__code__.co_firstlineno + offset}"


@pytest.mark.parametrize("fn", [loss, afx.jit(loss), afx.grad(loss)])
def test_the_whole_is_the_sum_of_the_users_lines(fn: Callable[..., Any]) -> None:
    """Every part of the time stands at a line; those of the function are there, with what they call."""
    found = afx.debug.profile(fn, np.ones((8, 4)), np.ones((500, 8)), seconds=0.0)
    assert math.isclose(sum(line.seconds for line in found.lines), found.seconds)
    by_place = {line.place: line for line in found.lines}
    assert {here(2), here(3)} <= set(by_place)
    assert {"matmul", "tanh"} <= set(by_place[here(2)].names)
    assert by_place[here(2)].text == "hidden = afx.tanh(x @ w)"
    assert found.lines[0].place == here(3)  # 500 steps in Python take longer than all else
    assert max(line.seconds for line in found.lines) == found.lines[0].seconds
    if is_installed():
        assert found.reason == ""
        assert math.isclose(sum(line.native_seconds for line in found.lines), found.native_seconds)


def test_loops_count_every_step() -> None:
    """The operations of a scan's step are those of all its steps."""
    found = afx.debug.profile(loss, np.ones((8, 4)), np.ones((50, 8)), seconds=0.0)
    assert {line.place: line.flops for line in found.lines}[here(3)] == 50 * (1 + 4 + 4 + 1)


def test_what_has_no_machine_code_says_why() -> None:
    """The reason is that of the plan's status."""
    found = afx.debug.profile(afx.special.exprel, np.ones(8), seconds=0.0)
    assert math.isnan(found.native_seconds)
    assert found.reason
    assert found.reason in str(found)


def test_nothing_to_do_is_no_error() -> None:
    """A function that returns its argument has no lines."""

    def same(x: Array) -> Array:
        return x

    found = afx.debug.profile(same, np.ones(3), seconds=0.0)
    assert (found.lines, found.seconds) == ((), 0.0)
    assert plot.profile(found).axes


def test_static_arguments_are_bound(tmp_path: pathlib.Path) -> None:
    """By `partial`; the figure is written."""
    found = afx.debug.profile(partial(afx.sum, axis=0), np.ones((3, 2)), seconds=0.0)
    plot.profile(found, save=tmp_path / "lines.svg")
    assert (tmp_path / "lines.svg").stat().st_size > 1000


def test_mistakes_are_named() -> None:
    """What is no function, and what is no time."""
    with pytest.raises(ArgumentError, match=r"profile: the first argument is a function: got 3"):
        afx.debug.profile(3)  # the mistake that is tested
    with pytest.raises(ArgumentError, match=r"seconds is a time: got -1"):
        afx.debug.profile(afx.sin, 1.0, seconds=-1)


def test_reports_add_up() -> None:
    """The rows of a report are the work of the graph, in one line each."""
    lowered = afx.jit(afx.value_and_grad(loss)).lower(afx.ones((8, 4)), afx.ones((500, 8)))
    rows = lowered.report.rows
    assert sorted(row.number for row in rows) == list(range(len(lowered.graph)))
    assert sum(row.flops for row in rows) == lowered.flops
    assert len(str(lowered.report).splitlines()) == 1 + len(rows)
    assert len(repr(lowered)) < 200


def test_memory_counts_what_is_needed_once() -> None:
    """An argument until its last use, and what is computed in place with that in whose memory it lies."""

    def fn(x: Array) -> Array:
        return afx.sum(afx.sin(x @ x))

    rows = afx.jit(fn).lower(afx.ones((64, 64))).report.rows
    assert [row.live_bytes for row in rows] == [2 * 64 * 64 * 4, 64 * 64 * 4, 64 * 64 * 4 + 4]
