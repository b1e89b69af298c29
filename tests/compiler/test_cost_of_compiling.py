"""What compiling costs: the number of Python calls, which is the same on every machine, stays within bounds."""

import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import afx
from afx import Array, stats
from afx.compiler.native_backend.llvm.emit import emit_programs
from afx.compiler.native_backend.lowering.lower import lower_schedule
from afx.compiler.native_backend.service.link import layout
from afx.compiler.target import current, use_target
from afx.control._subgraphs import body_of, consts_first
from afx.core import graph as graphs
from tests.compiler.native_backend.native_run import FIRST_TIER, schedule_of, use_limits

ROOT = Path(__file__).parents[2]

COUNT = """
import sys
import numpy as np
import afx
from afx import stats

def count(fn, x):
    calls = 0
    def look(frame, event, argument):
        nonlocal calls
        calls += event == "call"
    sys.setprofile(look)
    try:
        fn(x)
    finally:
        sys.setprofile(None)
    return calls

x = afx.asarray(np.linspace(0.1, 1, 4, dtype="float32"))
data = afx.asarray(np.linspace(-2, 2, 50))

def likelihood(w):
    p = 1 / (1 + afx.exp(-w[4]))
    first = afx.log(p) + stats.norm.logpdf(data, w[0], afx.exp(w[1]))
    second = afx.log(1 - p) + stats.norm.logpdf(data, w[2], afx.exp(w[3]))
    return -afx.mean(afx.logaddexp(first, second))

fit = afx.value_and_grad(likelihood)
w = afx.asarray([0.0, 0.1, 1.0, 0.2, 0.3])
small = lambda x: afx.sum(afx.sin(x) * x)
for fn, at in (small, x), (fit, w):
    afx.jit(fn)(at)  # loads modules, and fills what is kept of dtypes
print(count(afx.jit(small), x), count(afx.jit(fit), w), len(afx.trace(fit)(w)))

square = afx.grad(lambda x: afx.sum(x * x))
for fn, at in (square, x), (stats.norm.logpdf, 1.0):
    fn(at)
print(count(square, x), count(stats.norm.logpdf, 1.0))
"""


def test_calls_stay_cheap() -> None:
    """A first call of three equations takes at most 520 Python calls, the gradient of a likelihood 120 an equation.

    An eager gradient takes at most 80, the density at a number 100.
    """
    command = [sys.executable, "-W", "error", "-c", COUNT]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    small, fit, equations, gradient, density = map(int, found.split())
    assert small <= 520
    assert fit <= 120 * equations
    assert gradient <= 80
    assert density <= 100


def test_loops_trace_their_step_once() -> None:
    """What a step closes over comes first in its program: its graph is numbered anew, not traced again."""
    outer = afx.asarray(np.ones(3))
    found: list[graphs.Graph] = []

    def loss(a: Array) -> Array:
        def step(x: Array) -> tuple[Array]:
            return (x * a + outer,)

        body = body_of(step, afx.pytree.structure((outer,)), [outer.aval], "step")
        found.extend([body.program.graph, consts_first(body, 1).graph])
        return a

    afx.trace(loss)(outer)
    traced, program = found
    graphs.check(program)
    assert [eq.source for eq in program] == [eq.source for eq in traced]
    assert [v.index for v in program.inputs] == [0, 1]
    assert program.equations[0].inputs == program.inputs[::-1]


@pytest.mark.parametrize("number", [0, 1, -2, 0.5, 1e300])
def test_numbers_take_the_dtype_beside_them(number: float) -> None:
    """Python's numbers beside a traced array are literals of its dtype, rounded as NumPy rounds them."""
    with np.errstate(over="ignore"):
        for dtype in ("float32", "float64", "complex64"):

            def scale(x: Array) -> Array:
                return x * number

            graph = afx.trace(scale)(afx.ones(2, dtype=dtype))
            literal = graph.equations[0].inputs[1]
            assert isinstance(literal, graphs.Literal)
            assert literal.aval.dtype == dtype
            assert literal.value == np.dtype(dtype).type(number).item()


def test_truth_of_small_numbers_is_kept() -> None:
    """A number that float32 would round to zero is true beside a float32 array."""

    def is_true(x: Array) -> Array:
        return afx.logical_and(x, 1e-60)

    x = afx.ones(2)
    assert afx.jit(is_true)(x).tolist() == is_true(x).tolist() == [True, True]


def test_tails_of_the_normal_distribution_take_few_equations() -> None:
    """A plan of `logsf` computes no more than the argument, its function and where the scale is allowed."""

    def tail(x: Array, mean: Array, scale: Array) -> Array:
        return stats.norm.logsf(x, mean, scale)

    low = afx.jit(tail).lower(afx.ones(5), afx.zeros(()), afx.ones(()))
    assert [eq.primitive.name for eq in low.graph] == ["subtract", "divide", "greater", "log_ndtr", "where"]
    for fn, other in ((stats.norm.logsf, stats.norm.logcdf), (stats.norm.sf, stats.norm.cdf)):
        x = np.array([-np.inf, -40.0, -1.0, 0.0, 0.3, 40.0, np.inf, np.nan])
        np.testing.assert_array_equal(fn(x, 0.3, 2.0), other(0.3 - x, 0.0, 2.0))
        slopes = np.asarray(afx.vmap(afx.grad(fn), in_axes=(0, None, None))(x, 0.3, 2.0))
        assert not slopes[[0, 6]].any()


def test_plans_do_without_stopped_gradients() -> None:
    """What stops gradients is no equation of a plan, and still stops them in graphs."""

    def half(x: Array) -> Array:
        return x * afx.stop_gradient(afx.sin(x))

    x = afx.asarray([0.5, 1.5])
    assert [eq.primitive.name for eq in afx.jit(half).lower(x).graph] == ["sin", "multiply"]
    assert afx.trace(half)(x).counts()["stop_gradient"] == 1

    def total(x: Array) -> Array:
        return afx.sum(half(x))

    np.testing.assert_allclose(afx.grad(afx.jit(total))(x), np.sin(np.asarray(x)), rtol=1e-6)
    kept = afx.jit(afx.stop_gradient)(x)
    np.testing.assert_array_equal(kept, x)
    assert not np.shares_memory(np.asarray(kept), np.asarray(x))


@pytest.mark.parametrize(("name", "number"), [("softmax", 15), ("sums", 120)])
def test_machine_code_of_many_large_arrays_costs_as_many_times(name: str, number: int) -> None:
    """Of twice as many arrays that threads share, lowering and code take about twice as many calls, not four times."""
    where = layout()
    assert where is not None

    def fn(*xs: Array) -> list[Array]:
        return [afx.nn.softmax(x) if name == "softmax" else afx.sum(x * 2, axis=0) for x in xs]

    def count_calls(n: int) -> int:
        schedule, calls = schedule_of(fn, *[np.zeros((40, 30))] * n), 0

        def look(_frame: object, event: str, _argument: object) -> None:
            nonlocal calls
            calls += event == "call"

        sys.setprofile(look)
        try:
            program = lower_schedule(schedule, current.target)[0]
            emit_programs([program], where, current.target.native)
        finally:
            sys.setprofile(None)
        return calls

    with use_target(FIRST_TIER), use_limits(share_min_elements=1000, share_min_rows=2):
        count_calls(2)  # fills what is kept of dtypes
        assert count_calls(2 * number) < 2.3 * count_calls(number)


@pytest.mark.parametrize("backend", ["native", "numpy"])
def test_a_second_call_takes_few_python_calls(backend: Any) -> None:
    """The second call of a small compiled function is 8 Python calls by machine code, 11 by NumPy's plan."""
    if backend == "native":
        pytest.importorskip("llvmlite", reason="machine code is an extra")
    fn, x, calls = afx.jit(lambda x: afx.sin(x) * 2 + 1, backend=backend), afx.ones(100), list[str]()
    fn(x)

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            calls.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        fn(x)
    finally:
        sys.setprofile(None)
    assert len(calls) <= {"native": 8, "numpy": 11}[backend], calls
