"""Weak types end where tracing ends: Python's numbers cost what typed ones do, and no back end knows them."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import afx
from afx.compiler.graph.rewrite_rules import simplify
from afx.compiler.graph.strengthen import strengthen
from afx.core.dtypes import float32, float64
from tests.every import together

ONE, ZERO = 1.0, 0.0
COMPILER = Path(afx.__file__).parent / "compiler"
PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "indicator": lambda x, n: x * afx.where(x > 0, n(1.0), n(0.0)),
    "dropout by hand": lambda x, n: x * afx.where(x > n(0.1), n(1 / 0.9), n(0.0)),
    "hinge": lambda x, n: afx.sum(afx.where(x < 1, n(1.0), n(0.0)) * (1 - x)),
    "one-hot by hand": lambda x, n: afx.where((x > 0)[:, None] == (x < 1)[None, :], n(1.0), n(0.0)) @ x,
    "softmax guard": lambda x, n: afx.nn.softmax(x + afx.where(x > 0, n(0.0), n(-1e9))),
    "infinite guard": lambda x, n: afx.max(x + afx.where(x > 0, n(0.0), n(-np.inf))),
    "choice of a choice": lambda x, n: x * afx.where(x > 0, afx.where(x > 1, n(1.0), n(0.5)), n(0.0)),
    "mask turned and shaped": lambda x, n: x * afx.where(x.reshape(10, 10) > 0, n(1.0), n(0.5)).T.reshape(100),
    "rows of masks": lambda x, n: (
        x * afx.concat([afx.where(x[:50] > 0, n(1.0), n(0.5)), afx.where(x[50:] > 0, n(0.1), n(0.2))])
    ),
    "stack of masks": lambda x, n: x * afx.stack([afx.where(x > 0, n(1.0), n(0.5)), afx.where(x > 1, n(0.1), n(0.2))]),
    "slope": lambda x, n: afx.grad(lambda x: afx.sum(x * x * afx.where(x > 0, n(1.0), n(0.0))))(x),
    "loop": lambda x, n: afx.scan(lambda c, x: (c * afx.where(c > x, n(1.0), n(0.5)) + x, c), x[0], x),
}


def numbers(text: str) -> str:
    """Return the text of a plan without the names of its numbers."""
    return re.sub(r"n_\w+", "n", text)


@together("dtype", [float32, float64])
@together("name", PROGRAMS)
def test_python_numbers_cost_what_typed_ones_do(name: str, dtype: Any) -> None:
    """A program with Python's numbers becomes the graph, and the plan, that it becomes with numbers of the data's dtype."""
    fn, x = PROGRAMS[name], np.linspace(-1, 2, 100).astype(dtype)
    weak = afx.jit(lambda x: fn(x, lambda v: v)).lower(x).plan
    typed = afx.jit(lambda x: fn(x, dtype.type)).lower(x).plan
    assert len(weak.graph) == len(typed.graph)
    assert weak.graph.counts() == typed.graph.counts()
    assert numbers(weak.source) == numbers(typed.source)
    assert [reason for _, reason in weak.why_not_native] == [reason for _, reason in typed.why_not_native]


def test_masks_are_made_in_the_dtype_that_reads_them() -> None:
    """Rounding and moving commute: no value of the other dtype is made."""
    graph = afx.trace(lambda x: x * afx.where(x > 0, 1 / 0.9, 0.0).reshape(2, 1))(np.ones((2, 1), np.float32))
    assert any(v.aval.weak for eq in graph for v in eq.outputs)
    assert {v.aval.dtype for eq in strengthen(graph) for v in eq.outputs} == {np.dtype(bool), float32}


def test_arithmetic_of_masks_has_the_precision_of_python() -> None:
    """It is computed in float64 and rounded once, where it meets data."""
    x = np.ones(3, np.float32)
    found = afx.jit(lambda x: x * afx.exp(afx.where(x > 0, 0.1, 0.2)))(x)
    assert np.asarray(found).tolist() == [float(np.float32(np.exp(0.1)))] * 3


def test_a_mask_with_two_readers_is_exact_for_both() -> None:
    """One that meets float32 and float64 is kept in float64."""
    x, y = np.ones(3, np.float32), np.ones(3)

    def both(x: Any, y: Any) -> Any:
        mask = afx.where(x > 0, 0.1, 0.2)
        return x * mask, y * mask

    a, b = afx.jit(both)(x, y)
    assert np.asarray(a).tolist() == [float(np.float32(0.1))] * 3
    assert np.asarray(b).tolist() == [0.1] * 3


def test_strong_graphs_are_left_alone() -> None:
    """A graph without weak values is the same object."""
    graph = afx.trace(lambda x: afx.sin(x) * 2.0)(np.ones(3))
    assert strengthen(graph) is graph


def test_functions_with_rules_of_their_own_take_numbers() -> None:
    """What a custom rule computes with a number beside float32 stays float32."""
    fn = afx.custom_jvp(lambda x, y: x * y + y, lambda x, t: (x[0] * x[1] + x[1], t[0] * x[1]))
    x = np.ones(3, np.float32)
    for run in (afx.jit(lambda x, y: fn(x, y)), afx.jit(lambda x, y: fn(x, afx.where(x > 0, y, 0.2)))):
        assert run(x, 0.1).dtype == np.float32
        graph = run.lower(x, 0.1).graph
        assert all(v.aval.dtype != float64 or not v.aval.shape for eq in graph for v in eq.outputs)


def test_simplified_graphs_have_no_weak_values() -> None:
    """Whatever comes behind works on dtypes alone."""
    graph = simplify(afx.trace(lambda x, n: (x * n, afx.where(x > 0, n, 0.5)))(np.ones(3, np.float32), 0.3))
    atoms = [a for eq in graph for a in (*eq.inputs, *eq.outputs)]
    assert not any(a.aval.weak for a in (*graph.inputs, *atoms, *graph.outputs))


def test_no_other_file_of_the_compiler_asks_for_weakness() -> None:
    """`strengthen` alone knows weak types."""
    asking = [p.name for p in sorted(COMPILER.rglob("*.py")) if re.search(r"\.weak\b|is_weak", p.read_text())]
    assert asking == ["strengthen.py"]
