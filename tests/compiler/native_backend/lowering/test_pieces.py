"""Kernels between NumPy's calls give the bits of the NumPy plan."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx import nn

pytest.importorskip("llvmlite", reason="machine code is an extra")

from afx.compiler.native_backend.llvm.emit import emit_programs
from afx.compiler.native_backend.lowering.convert import UnsupportedError
from afx.compiler.native_backend.lowering.lower import lower_plan
from afx.compiler.native_backend.run.run import MixedRunner
from afx.compiler.native_backend.service.child import compile_text
from afx.compiler.native_backend.service.link import layout, link
from afx.compiler.schedule.schedule import Call, Fused, Loop
from afx.compiler.target import DEFAULT, NativeTarget, Target
from afx.runtime.buffer_cache import IdleBuffers
from tests.compiler.native_backend.native_run import by_numpy, same_bits

OPS: tuple[Callable[[Any, Any], Any], ...] = (
    lambda u, v: u + v,
    lambda u, v: u * v,
    lambda u, v: np.tanh(u) - v,
    lambda u, v: by_numpy(u, axis=1) + v,
    lambda u, v: u[::-1] - v,
    lambda u, v: u - u.sum(axis=0),
    lambda u, v: by_numpy(u, axis=0) * 0.1,
    lambda u, v: np.exp(-u * u) + v,
    lambda u, v: u.T.reshape(9, 14) * 0.3,
    lambda u, v: u.at[2:5].add(v[1:4]),
)


class Mixed:
    """A function as a plan of NumPy's calls with kernels between them, compiled in this process."""

    def __init__(
        self, fn: Callable[..., Any], *args: Any, donated: int | tuple[int, ...] = (), target: Target = DEFAULT
    ) -> None:
        self.plan = afx.jit(fn, backend="numpy", donate_argnums=donated).lower(*args).plan
        schedule, pieces = lower_plan(self.plan.schedule, target)
        where = layout()
        assert schedule is not None
        assert where is not None
        programs = [program for program, _ in pieces]
        kernels = link(programs, compile_text(emit_programs(programs, where), ""))
        self.schedule = schedule
        constants = [constants for _, constants in pieces]
        self.run = MixedRunner(schedule, Target(), kernels, constants, IdleBuffers(0, 1), self.plan.flushes)

    def __call__(self, *args: Any) -> list[Any] | None:
        return self.run(args, self.plan)


def assert_mixed_bits(fn: Callable[..., Any], *args: Any, target: Target = DEFAULT) -> Mixed:
    """Assert that the mixed plan gives the bits of the NumPy plan, twice, and leaves its arguments alone."""
    mixed = Mixed(fn, *args, target=target)
    before = [np.array(a) for a in args]
    with np.errstate(all="ignore"):
        expected = mixed.plan(*args)
        for _ in range(2):
            found = mixed(*args)
            assert found is not None
            for k, (z, want) in enumerate(zip(found, expected, strict=True)):
                assert same_bits(z, want), f"result {k}: {z} is not {want}"
    assert all(same_bits(a, b) for a, b in zip(args, before, strict=True))
    return mixed


def test_runs_of_native_calls_become_kernels() -> None:
    """Calls before, between and behind one without native form are kernels; views and results go across."""
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(32, 16)), rng.normal(size=(16, 24))

    def fn(x: Any, w: Any) -> Any:
        y = np.tanh(x @ w) * 2 + 1
        z = by_numpy(y, axis=1)
        u = z * z - y[:, ::-1]
        v = by_numpy(u, axis=0) + z
        return u.sum(), np.exp(-v * v) * u, z, y.T, (u[1:3] + 1) * 2

    mixed = assert_mixed_bits(fn, x, w)
    methods = [getattr(i, "method", "") for i in mixed.schedule]
    assert methods.count("native") == 3
    assert "native_1" in mixed.run.executable.source


def test_long_programs_are_cut_into_several_kernels() -> None:
    """No instruction of a program that is longer than a kernel may be is NumPy's; views, loops and results go across."""

    def fn(x: Any) -> Any:
        first, y = x[1:] * 2, x
        for _ in range(20):
            e = np.exp(y - y.max(axis=1, keepdims=True))
            y = e / e.sum(axis=1, keepdims=True) + x.T.T
        return first, afx.fori_loop(0, 3, lambda k, c: c * 0.5 + k, y), y[::-1], first.sum() + y.sum()

    target = Target(native=NativeTarget(kernel_max_instructions=15))
    mixed = assert_mixed_bits(fn, np.random.default_rng(0).normal(size=(6, 9)), target=target)
    calls = [i for i in mixed.schedule if isinstance(i, Call | Fused | Loop)]
    assert {getattr(i, "method", "") for i in calls} == {"native"}
    assert len(calls) >= 4


def test_bodies_of_loops_and_branches_have_kernels() -> None:
    """A loop that Python steps through calls kernels in its body; its scalars may be NumPy's."""
    rng = np.random.default_rng(1)
    x, rows = rng.normal(size=7), rng.normal(size=(5, 7))

    def fn(x: Any, rows: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            c, n = carry
            return (by_numpy(c * row) + np.tanh(c) * 0.5 - n, n * 1.5 + row.sum()), ((c + 1) * row, n)

        last, ys = afx.scan(step, (x, x[0]), rows)
        return last, ys, afx.cond(x[0] > 0, lambda x: by_numpy(x) * 2 + 1, lambda x: by_numpy(-x) * 3 - 1, x)

    assert_mixed_bits(fn, x, rows)
    assert_mixed_bits(lambda x, r: afx.grad(lambda x: fn(x, r)[0][0].sum())(x), x, rows)


def test_kernels_write_to_no_memory_that_is_still_read() -> None:
    """Results of kernels that NumPy's plan would write over a dead operand do not harm what the kernel still reads."""
    x = np.random.default_rng(2).normal(size=(40, 50))

    def fn(x: Any) -> Any:
        for _ in range(6):
            y = by_numpy(x * 0.9 + x[::-1], axis=0)
            x = (y - x) * np.cos(y) + y.sum(axis=0) * 0.01
            x = x.at[3:7].set(x[4:8] * 2) - y[:, ::-1]
        return x, by_numpy(x).sum()

    mixed = assert_mixed_bits(fn, x)
    assert mixed.schedule.arena_bytes == 3 * x.nbytes  # what one kernel reads and writes: NumPy's calls share it


def test_training_steps_have_the_plans_bits() -> None:
    """Loss and gradients of a network with convolution, pooling and a call of NumPy agree."""
    rng = np.random.default_rng(3)
    images, kernel, w = rng.normal(size=(4, 12, 12, 1)), rng.normal(size=(3, 3, 1, 3)), rng.normal(size=(75, 5))

    def loss(kernel: Any, w: Any, images: Any) -> Any:
        z = nn.max_pool(np.tanh(nn.conv(images, kernel)), 2)
        scores = nn.log_softmax(by_numpy(z.reshape(4, -1), axis=1) @ w)
        return -scores[:, 1].mean() + (w * w).sum() * 0.1

    assert_mixed_bits(lambda k, w, x: afx.value_and_grad(loss, (0, 1))(k, w, x), kernel, w, images)


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed: int) -> None:
    """Random chains of arithmetic, functions, views, sums and calls without native form agree."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(9, 14)), rng.normal(size=14)
    steps = [3, *rng.integers(0, len(OPS), 24)]
    picks = rng.integers(0, 6, (25, 2))

    def fn(x: Any, y: Any) -> Any:
        values = [x, y + x, x * 0.5, np.tanh(x), x - y, x[::-1] * y]
        for step, (a, b) in zip(steps, picks, strict=True):
            values[a] = np.tanh(OPS[step](values[a], values[b]))
        return tuple(values)

    assert_mixed_bits(fn, x, y)


def test_errors_between_calls_are_numpys() -> None:
    """A kernel that meets a floating-point error leaves the call to NumPy's plan, which warns."""
    x = np.array([3.0, 1.0, 0.0])
    mixed = Mixed(lambda x: 1 / by_numpy(x) + 1, x)
    assert mixed(x) is None
    assert mixed(x + 1) is not None
    with np.errstate(divide="ignore"):
        assert mixed(x) is not None
    fn = afx.jit(lambda x: 1 / by_numpy(x) + 1, backend="native")
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        fn(x)


def test_short_plans_stay_numpys() -> None:
    """A single call beside one without native form is not worth a kernel."""
    schedule = afx.jit(lambda x: by_numpy(x) + 1).lower(np.ones(3)).plan.schedule
    with pytest.raises(UnsupportedError, match="jv"):
        lower_plan(schedule)


def test_prints_run_once() -> None:
    """A plan that prints has no kernels, since NumPy's plan would print again where one gives up."""

    def fn(x: Any) -> Any:
        afx.debug.print("{}", x[0])
        return by_numpy(x * 2 + 1) * 3 - x

    with pytest.raises(UnsupportedError, match="may not run again"):
        lower_plan(afx.jit(fn).lower(np.ones(3)).plan.schedule)


def test_donated_arguments_stay_as_they_are() -> None:
    """A plan with kernels writes into no argument, so that NumPy's plan can start again where a kernel gives up."""
    p, g = np.linspace(-1, 1, 60).reshape(6, 10), np.random.default_rng(4).normal(size=(6, 10))

    def step(p: Any, g: Any) -> Any:
        z = by_numpy(p * g + 1, axis=0)
        return p - 0.1 * g * z, by_numpy(g) * 2 + p

    mixed, before = Mixed(step, p, g, donated=(0, 1)), (p.copy(), g.copy())
    found = mixed(p, g)
    assert found is not None
    assert [same_bits(a, b) for a, b in zip((p, g), before, strict=True)] == [True, True]
    for z, want in zip(found, afx.jit(step, backend="numpy")(p, g), strict=True):
        assert same_bits(z, want)
