"""Fusion: which equations of small graphs run together, over which space."""

from collections.abc import Callable
from typing import Any

import pytest

import afx
from afx import Array, nn
from afx.compiler.schedule.fusion import Groups, fuse
from afx.compiler.target import Target

TARGET = Target(fuse_min_elements=64)
SQUARE, LONG = afx.ones((16, 16)), afx.ones(100)


def groups_of(fn: Callable[..., Any], *xs: Array) -> Groups:
    """Return the groups of a function, for which 64 elements are many."""
    return fuse(afx.trace(fn)(*xs), TARGET)


def ops(groups: Groups) -> list[list[str]]:
    """Return the ops of each group."""
    return [[eq.primitive.name for eq in group.equations] for group in groups]


CASES: dict[str, tuple[Callable[..., Any], list[Array], list[list[str]], list[Any]]] = {
    "a chain over elements": (lambda x: afx.sin(x) * 2.0, [LONG], [["sin", "multiply"]], [("elements", (100,))]),
    "a chain over rows": (lambda x: afx.sin(x) * 2.0, [SQUARE], [["sin", "multiply"]], [("rows", (16,))]),
    "few elements": (lambda x: afx.sin(x) * 2.0, [afx.ones(10)], [["sin"], ["multiply"]], [None, None]),
    "sums of rows": (
        lambda x: x - afx.sum(x, 1, keepdims=True),
        [SQUARE],
        [["sum", "reshape", "subtract"]],
        [("rows", (16,))],
    ),
    "a sum over the space": (lambda x: afx.sum(x * x), [LONG], [["multiply", "sum"]], [("elements", (100,))]),
    "what waits for a sum": (
        lambda x: x * 2.0 / afx.sum(x * 2.0),
        [LONG],
        [["multiply", "sum"], ["divide"]],
        [("elements", (100,)), None],
    ),
    "a product between": (
        lambda x: afx.cos(afx.sin(x) @ x),
        [SQUARE],
        [["sin"], ["matmul"], ["cos"]],
        [None, None, None],
    ),
    "nothing shared": (
        lambda x, y: (afx.sin(x) * 2.0, afx.cos(y) * 3.0),
        [LONG, LONG],
        [["sin", "multiply"], ["cos", "multiply"]],
        [("elements", (100,))] * 2,
    ),
    "softmax": (lambda x: nn.softmax(x * 2.0), [SQUARE], [["multiply", "softmax"]], [("rows", (16,))]),
}


@pytest.mark.parametrize("case", CASES)
def test_groups(case: str) -> None:
    """A graph's equations are grouped so, in an order in which the groups can run."""
    fn, xs, wanted, keys = CASES[case]
    groups = fuse(_simple(fn, *xs), TARGET)
    assert ops(groups) == wanted
    assert [group.key for group in groups] == keys


def _simple(fn: Callable[..., Any], *xs: Array) -> Any:
    return afx.jit(fn).lower(*xs).graph


def test_a_group_knows_what_it_reads() -> None:
    """Of some operands a block reads its own part, of others all."""
    (group,) = groups_of(lambda x, b: afx.sin(x + b), SQUARE, afx.ones(16))
    assert [v.name for v in group.sliced] == ["a"]
    assert [v.name for v in group.whole] == ["b"]
    assert [v.name for v in group.outputs] == ["d"]


def test_no_process_decides() -> None:
    """Groups are a function of graph and target: with another target convolutions do not share blocks."""
    graph = _simple(lambda x, k: afx.sin(nn.conv(x, k)), afx.ones((16, 8, 8, 1)), afx.ones((3, 3, 1, 2)))
    pinned, free = (fuse(graph, Target(fuse_min_elements=64, pins_blas=b)) for b in (True, False))
    assert max(len(g.equations) for g in pinned) > max(len(g.equations) for g in free)


def test_groups_print() -> None:
    """One line for each equation; those of a group stand under its space."""
    assert "fused over (100,) elements -> c:float32[100]:" in str(groups_of(lambda x: afx.sin(x) * 2.0, LONG))
