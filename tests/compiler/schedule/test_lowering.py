"""Lowering: which of NumPy's functions a schedule calls on which buffers, and that they compute what the ops do."""

import itertools
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx import Array
from afx.compiler.schedule.lowering import cut
from afx.compiler.schedule.schedule import Branch, Call, Fused, Loop, Schedule
from afx.compiler.target import Target, use_target
from afx.core.aval import Aval
from tests.compiler.programs import inputs, program
from tests.every import together

RNG = np.random.default_rng(0)

# A function, its operands, and a line of its plan.
CASES: dict[str, tuple[Callable[..., Array], list[Any], str]] = {
    "matrices": (lambda x, y: afx.exp(x @ y), [(3, 4), (4, 5)], "a.dot(b, c)"),
    "a matrix and a vector": (lambda x, y: x @ y, [(3, 4), (4,)], "c = a.dot(b)"),
    "a vector and a matrix": (lambda x, y: x @ y, [(3,), (3, 4)], "c = a.dot(b)"),
    "a transpose": (lambda x, y: x.T @ y, [(4, 3), (4, 5)], ".dot(b)"),
    "one column": (lambda x, y: x @ y, [(3, 4), (4, 1)], "np_matmul(a, b)"),
    "one row": (lambda x, y: x @ y, [(1, 4), (4, 3)], "np_matmul(a, b)"),
    "stacks": (lambda x, y: x @ y, [(2, 3, 4), (2, 4, 3)], "np_matmul(a, b)"),
    "no elements": (lambda x, y: x @ y, [(3, 0), (0, 2)], "np_matmul(a, b)"),
    "the sum of a vector": (lambda x: afx.sum(x) * 2, [(5,)], "a.dot(ones_5, b)"),
    "the sum of a matrix": (lambda x: afx.sum(x) * 2, [(5, 4)], "a.reshape(-1).dot(ones_20, b)"),
    "sums of rows": (lambda x: afx.sum(x, 1) * 2, [(5, 4)], "a.dot(ones_4, b)"),
    "sums of columns": (lambda x: afx.sum(x, 0) * 2, [(5, 4)], "ones_5.dot(a, b)"),
    "the sum of one": (lambda x: afx.sum(x) * 2, [(1,)], "np_add_reduce(a, 0, None, b)"),
    "the largest of short rows": (lambda x: afx.max(x, 1) * 2, [(50, 4)], "np_maximum_reduce(a.T.copy(), 0, None, b)"),
    "the least of stacked rows": (
        lambda x: afx.min(x, 2) * 2,
        [(5, 9, 4)],
        "np_minimum_reduce(a.transpose((2, 0, 1)).copy(), 0, None, b)",
    ),
    "the largest of long rows": (lambda x: afx.max(x, 1) * 2, [(50, 80)], "np_maximum_reduce(a, 1, None, b)"),
    "numbers": (lambda x: afx.exp(afx.sin(x[0]) * 2) + 1, [(3,)], "np_sin(b, c)"),
}


@together("dtype", ["float32", "float64"])
@together("case", CASES)
def test_small_arrays_take_the_fastest_call(case: str, dtype: str) -> None:
    """The plan has the line, and gives what the ops give."""
    fn, shapes, line = CASES[case]
    xs = [RNG.normal(size=s).astype(dtype) for s in shapes]
    compiled = afx.jit(fn)
    assert line in compiled.lower(*xs).plan.source
    np.testing.assert_allclose(compiled(*xs), fn(*xs), rtol=1e-5 if dtype == "float32" else 1e-13)


@pytest.mark.filterwarnings("ignore:invalid value")  # which NumPy says of 0 times infinity
@pytest.mark.parametrize("shape", [(4, 3), (3, 1), (1, 3), (2, 2)])
def test_nan_and_infinity_pass_through_products(shape: tuple[int, int]) -> None:
    """No length makes 0 times nan, or times infinity, into 0."""
    x, y = np.zeros(shape), np.full((shape[1], 2), np.nan)
    assert np.isnan(afx.jit(lambda x, y: x @ y)(x, y)).all()
    assert np.isnan(afx.jit(lambda x, y: x @ y)(x, np.full_like(y, np.inf))).all()
    assert np.isnan(afx.jit(lambda x, y: (y.T @ x.T) * 1)(x, y)).all()


def test_a_number_is_not_written_over_its_operand() -> None:
    """NumPy takes four times as long where both are one: each number of a chain has a place unlike the one before."""
    plan = afx.jit(lambda x: afx.exp(afx.sin(afx.cos(x) * 2) + 1)).lower(1.0).plan
    locations = [line.rsplit(", ", 1)[1] for line in plan.source.splitlines() if "np.ndarray(()" in line]
    assert len(locations) > 2
    assert all(one != other for one, other in itertools.pairwise(locations))


@pytest.mark.parametrize("columns", [2, 3, 10, 64])
def test_extremes_of_short_rows_are_those_of_numpy(columns: int) -> None:
    """With nan and infinities among them, in steps of more than one element and in any order of axes."""
    x = RNG.normal(size=(80, 2 * columns)).astype(np.float32)
    x[3, 0], x[4, 1], x[5, 2] = np.nan, np.inf, -np.inf
    for y in (x[:, ::2], x[::-1, columns:], np.asfortranarray(x[:, :columns]), x.reshape(8, 10, -1)[..., :columns]):
        for ours, theirs in ((afx.max, np.max), (afx.min, np.min)):
            np.testing.assert_array_equal(ours(y, -1), theirs(y, -1))
            np.testing.assert_array_equal(afx.jit(ours, static_argnums=1)(y, -1), theirs(y, -1))


def schedule_of(fn: Callable[..., Any], *xs: Any) -> Schedule:
    """Return the schedule of a function."""
    return afx.jit(fn).lower(*xs).schedule


def test_a_schedule_is_data() -> None:
    """It compares, hashes no array, prints, and comes back from a pickle as it was."""
    fn = program(3)
    one, two = schedule_of(fn, *inputs(3)), schedule_of(program(3), *inputs(3))
    assert one == two
    assert str(one) == str(two)
    assert pickle.loads(pickle.dumps(one)) == one
    assert one != schedule_of(program(4), *inputs(4))


SCRIPT = """
import hashlib, pickle, sys
import afx
from afx import nn
from tests.compiler.programs import inputs, program

def loss(w, x):
    h, _ = afx.scan(lambda c, u: (afx.tanh(c @ w + u), None), x[0], x)
    return afx.sum(nn.softmax(h) * h) + afx.cond(x[0, 0] > 0, afx.sin, afx.cos, x[0, 0])

h = hashlib.sha256()
for seed in range(12):
    for shape in ((3, 5), (300, 400)):
        h.update(str(afx.jit(program(seed)).lower(*inputs(seed, shape)).schedule).encode())
schedule = afx.jit(afx.grad(loss)).lower(afx.ones((6, 6)), afx.ones((5, 6))).schedule
h.update(str(schedule).encode())
h.update(pickle.dumps(schedule))
print(h.hexdigest())
"""


def test_two_processes_make_the_same_schedules() -> None:
    """Byte for byte, whatever the seed of Python's hashes: every rank of a distributed program derives the same one."""
    found = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in (0, 1, 2)
    }
    assert len(found) == 1


def test_loops_and_branches_show_their_bodies() -> None:
    """`scan`, `while_loop` and `cond` are instructions that hold schedules."""

    def fn(x: Array) -> Array:
        last, _ = afx.scan(lambda c, u: (afx.sin(c) + u, None), x[0], x, reverse=True)
        last = afx.while_loop(lambda c: afx.sum(c) < 9.0, lambda c: c + 1.0, last)
        return afx.cond(last[0] > 0, lambda v: v * 2.0, lambda v: -v, last)

    x = np.arange(12.0).reshape(4, 3)
    schedule = schedule_of(fn, x)
    scan, loop, branch = [i for i in schedule if isinstance(i, (Loop, Branch))]
    assert isinstance(scan, Loop)
    assert isinstance(loop, Loop)
    assert isinstance(branch, Branch)
    assert (scan.length, scan.reverse, len(scan.carry), len(scan.xs)) == (4, True, 1, 1)
    assert [str(i) for i in scan.body] == ["c:float64[3]@0 = sin(a)", "d:float64[3] := add(c, b)"]
    assert loop.length is None
    assert loop.condition is not None
    assert [i.op for i in loop.body if isinstance(i, Call)] == ["add"]
    assert [len(body) for body in branch.bodies] == [1, 1]
    np.testing.assert_allclose(afx.jit(fn)(x), fn(afx.asarray(x)), rtol=1e-14)


ALIASES: dict[str, tuple[Callable[[Array], Array], str, str]] = {
    "in place": (lambda x: afx.sin(afx.cos(x)) @ x, "sin", "same"),
    "from an argument": (lambda x: afx.sin(x) @ x, "sin", "disjoint"),
    "its own transpose": (lambda x: (afx.cos(x).T + afx.cos(x)) @ x, "add", "unknown"),
}


@pytest.mark.parametrize("case", ALIASES)
def test_operands_say_how_they_lie_to_the_result(case: str) -> None:
    """The same memory element for element, none of it, or some of it in another order."""
    fn, op, wanted = ALIASES[case]
    (call,) = [i for i in schedule_of(fn, np.ones((4, 4))) if isinstance(i, Call) and i.op == op]
    assert call.aliases[0] == wanted


def test_fused_loops_carry_an_error_state_for_each_call() -> None:
    """And the parts of their reductions, and what a block reads of its own."""

    def fn(x: Array) -> Array:
        with np.errstate(divide="ignore"):
            y = 1.0 / x
        return afx.sum(afx.exp(y) * x)

    schedule = schedule_of(fn, np.ones(70_000))
    (fused,) = [i for i in schedule if isinstance(i, Fused)]
    states = {call.op: call.error_state for call in fused.body if isinstance(call, Call)}
    assert states["divide"] == ("divide",)
    assert states["exp"] == ()
    assert [(part.ufunc, part.out.shape) for part in fused.partials] == [("add", ())]
    assert fused.space.kind == "elements"
    assert fused.space.blocks == -(-70_000 // fused.space.block)


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [
        ((100, 100, 100), None),
        ((300, 300, 300), (0, (160, 300))),
        ((32, 784, 512), (1, (256, 512))),
        ((999, 9, 999), (0, (512, 999))),
    ],
)
def test_products_are_cut_by_shape_and_dtype_alone(shape: tuple[int, int, int], wanted: Any) -> None:
    """The longer side of the result in two, at a multiple of 16; small ones and other dtypes are not cut."""
    m, k, n = shape
    for dtype in ("float32", "float64"):
        x, y, z = (Aval(s, np.dtype(dtype)) for s in ((m, k), (k, n), (m, n)))
        assert cut(x, y, z, Target(pins_blas=True)) == wanted
        assert cut(x, y, z, Target(pins_blas=False)) is None
        v, w = Aval((k,), x.dtype), Aval((60_000, k), x.dtype)
        assert cut(w, v, Aval((60_000,), x.dtype), Target(pins_blas=True)) == (
            None if k < 70 else (0, (30_000, 60_000))
        )
        assert cut(v, y, Aval((n,), x.dtype), Target(pins_blas=True)) is None
    whole = Aval((300, 300), np.dtype("int64"))
    assert cut(whole, whole, whole, Target(pins_blas=True)) is None


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("shape", [(5000, 2), (40, 50, 3), (9, 100, 7)])
def test_sums_of_few_elements_are_unrolled_in_numpys_order(shape: tuple[int, ...], dtype: str) -> None:
    """Slices are added one after the other, alone or in a fused loop, and give the bits of NumPy's reduction."""
    x = (RNG.normal(size=shape) * 100).astype(dtype)
    for target in (Target(), Target(fuse_min_elements=64)):
        with use_target(target):
            fn = afx.jit(lambda x: afx.sum(x * x, axis=-1))
            assert "unrolled" in str(fn.lower(x).schedule)
            np.testing.assert_array_equal(fn(x), np.add.reduce(x * x, -1))


def test_booleans_are_counted() -> None:
    """The sum of all is their count, as int64."""
    x = RNG.normal(size=(30, 40)) > 0
    for found in (afx.sum(x), afx.jit(afx.sum)(x)):
        assert found.dtype == np.int64
        assert int(found) == np.count_nonzero(x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_choices_under_irregular_conditions_keep_every_bit(share: float, dtype: str) -> None:
    """Nan, infinities and signed zeros of both operands, arrays and numbers."""
    mask = RNG.random(5000) < share
    x, y = (RNG.normal(size=5000).astype(dtype) for _ in range(2))
    for values in (x, y):
        values[:5] = [np.nan, -0.0, np.inf, -np.inf, 0.0]
    two = np.dtype(dtype).type(2.5)
    for fn, want in (
        (lambda m, x, y: afx.where(m, x, y), np.where(mask, x, y)),
        (lambda m, x, y: afx.where(m, x, 2.5), np.where(mask, x, two)),
        (lambda m, x, y: afx.where(m, 2.5, y), np.where(mask, two, y)),
    ):
        assert np.asarray(afx.jit(fn)(mask, x, y)).tobytes() == want.tobytes()


def test_the_way_back_over_a_loop_keeps_what_its_steps_change() -> None:
    """Residuals are what differs from step to step and the way back reads; constants are operands of both ways."""

    def fn(x: Any, w: Any) -> Any:
        return afx.sum(afx.while_loop(lambda s: s.sum() < 9.0, lambda s: s + afx.sin(w @ s), x))

    schedule = afx.jit(afx.grad(fn)).lower(np.ones(3), np.ones((3, 3))).plan.schedule
    (loop,) = [i for i in schedule if isinstance(i, Loop)]
    assert loop.back is not None
    residuals = loop.back.inputs[len(loop.consts) : len(loop.back.inputs) - len(loop.carry_back)]
    assert [b.shape for b in residuals] == [(3,)]
    assert pickle.loads(pickle.dumps(schedule)) == schedule
    assert "back schedule" in str(loop)


def test_errors_that_are_ignored_around_a_loop_are_none_of_its_steps() -> None:
    """Each step would look at them again."""

    def fn(x: Any) -> Any:
        with np.errstate(divide="ignore"):
            return afx.scan(lambda y, _: (1 / afx.log(y), None), x, None, 3)[0]

    (loop,) = [i for i in afx.jit(fn).lower(np.ones(3)).plan.schedule if isinstance(i, Loop)]
    assert loop.error_state == ("divide",)
    assert [i.error_state for i in loop.body if isinstance(i, Call)] == [(), ()]
