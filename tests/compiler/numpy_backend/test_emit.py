"""Code generation: schedules written by hand become Python, and what is shown is what runs."""

from typing import Any

import numpy as np
import pytest

import afx
from afx import Array
from afx.compiler.numpy_backend.emit import emit
from afx.compiler.numpy_backend.exec import NumpyBackend
from afx.compiler.schedule.schedule import Alloc, Buffer, Call, Number, Result, Schedule
from afx.compiler.target import Target
from afx.core.aval import Aval
from afx.core.graph import Literal
from tests.export.numpy_cases import FUNCTIONS

F64 = np.dtype("float64")
A = Buffer(0, (3,), F64, "input", 0)
B = Buffer(1, (3,), F64, "arena", 64, (8,))
C = Buffer(2, (3,), F64, "fresh")
TWO = Number(Literal(2.0, Aval((), F64)))


def call(op: str, xs: tuple[Any, ...], out: Buffer, **options: Any) -> Call:
    """Return a call of a ufunc."""
    return Call(op, "ufunc", xs, ("disjoint",) * len(xs), (out,), op, **options)


def schedule(*instructions: Any) -> Schedule:
    """Return a schedule of a vector that gives a vector."""
    return Schedule((A,), (), instructions, (Result(C),), 128, 128)


CASES: dict[str, tuple[Schedule, list[str]]] = {
    "a buffer": (
        schedule(call("sin", (A,), B), call("multiply", (B, TWO), C, allocates=True)),
        ["np_sin(a, b)", "c = np_multiply(b, n_2_0)"],
    ),
    "memory of its own": (
        schedule(Alloc(C), call("add", (A, TWO), C)),
        ["c = np_empty((3,), float64_)", "np_add(a, n_2_0, c)"],
    ),
    "an error state": (
        schedule(
            call("log", (A,), B, error_state=("divide",)),
            call("sin", (B,), B, error_state=("divide",)),
            call("exp", (B,), C, allocates=True),
        ),
        ["with np_errstate(divide='ignore'):", "    np_log(a, b)", "    np_sin(b, b)", "c = np_exp(b)"],
    ),
    "an operand behind two": (
        schedule(Alloc(C), call("maximum", (A, TWO), C)),
        ["c = np_empty((3,), float64_)", "np_maximum(a, n_2_0, out=c)"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_lines(case: str) -> None:
    """A schedule has these lines, and its results are those of NumPy's functions."""
    given, lines = CASES[case]
    (part,) = emit(given, Target()).parts
    assert [line.text for line in part.lines] == lines


def test_a_program_runs_on_buffers_of_its_own() -> None:
    """Two bindings of one schedule share nothing that they write."""
    found = NumpyBackend.compile(CASES["a buffer"][0], Target())
    one, two = found.bind(), found.bind()
    first = one(np.ones(3))
    two(np.zeros(3))
    np.testing.assert_array_equal(first, [np.sin(np.ones(3)) * 2.0])


@pytest.mark.parametrize("lines", [1, 2, 3, 1000])
def test_programs_of_several_functions_hand_values_on(lines: int) -> None:
    """Wherever they are cut."""

    def fn(x: Array, y: Array) -> tuple[Array, ...]:
        z = afx.concat([x, y])
        v = z[::2] * 2.0
        w = afx.flip(v) + x
        return w, v @ z[1::2], afx.sort(w) + v

    xs = afx.arange(5.0), afx.ones(5)
    given = afx.jit(fn).lower(*xs).schedule
    run = NumpyBackend.compile(given, Target(function_max_lines=lines)).bind()
    for found, want in zip(run(*[x.numpy() for x in xs]), fn(*xs), strict=True):
        np.testing.assert_allclose(found, np.asarray(want), rtol=1e-6)


def test_what_is_shown_is_what_runs() -> None:
    """The text of a plan computes its results where it is pasted."""
    fn = afx.jit(lambda x: afx.exp(afx.sin(x) * 2.0) + afx.sum(x))
    x = np.linspace(0.0, 1.0, 5)
    space: dict[str, Any] = {}
    exec(fn.lower(x).plan.source, space)
    np.testing.assert_array_equal(space["run"](x)[0], np.asarray(fn(x)))


@pytest.mark.parametrize("name", ["kalman", "lenet", "newton", "regression", "chosen_in_loop", "dropout", "mixed"])
def test_sources_run_where_they_are_pasted(name: str) -> None:
    """The text names what it imports, also where an operation is a function of afx, so that it gives the plan's numbers."""
    fn, args = FUNCTIONS[name]
    space: dict[str, Any] = {}
    compiled = afx.jit(fn, backend="numpy")
    exec(compiled.lower(*args).plan.source, space)
    found = space["run"](*map(np.asarray, afx.pytree.leaves(args)))
    for x, want in zip(found, afx.pytree.leaves(compiled(*args)), strict=True):
        np.testing.assert_allclose(x, np.asarray(want), rtol=1e-13, atol=1e-15)


def test_a_source_says_what_is_left_out() -> None:
    """A captured array of many elements is not shown; the first line names it, and the way to a file that runs."""
    weights = np.arange(50.0)
    first, *rest = afx.jit(lambda x: x * weights, backend="numpy").lower(np.ones(50)).plan.source.splitlines()
    assert first == "# A listing, without b: afx.export.to_numpy(fn, *args) writes a file that runs."
    assert "b = ...  # a captured array, float64[50]" in rest


def test_repeated_numbers_outlive_the_calls_that_read_them() -> None:
    """They are made once, so that no run deletes them, nor a view of them."""
    fn = afx.jit(lambda x: afx.sort(x) + afx.sort(afx.ones(40_000).reshape(200, 200) * 3.0) @ afx.sort(x))
    x = np.ones((200, 200), np.float32)
    for _ in range(2):
        np.testing.assert_array_equal(fn(x), np.full((200, 200), 601.0))


def test_operands_of_loops_are_copied_once() -> None:
    """A loop's steps copy none of its operands whole, such as the one cotangent of all steps that a sum gives."""

    def total(x: Any) -> Any:
        return afx.sum(afx.scan(lambda y, k: (np.tanh(y) * 0.9 + k, np.exp(y)), x, np.linspace(0, 1, 50))[1])

    x = np.linspace(-1, 1, 3)
    fn = afx.jit(afx.grad(total), backend="numpy")
    source = fn.lower(x).plan.source
    assert "asarray" in source
    assert not [line for line in source.splitlines() if "asarray" in line and "t_" in line]
    np.testing.assert_array_equal(fn(x), afx.grad(total)(x))
