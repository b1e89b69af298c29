"""Kernels write results into arguments that the caller has given away."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx import optim

pytest.importorskip("llvmlite", reason="machine code is an extra")

from afx.compiler.native_backend.llvm.emit import emit_programs
from afx.compiler.native_backend.lowering.lower import lower_schedule
from afx.compiler.native_backend.service.link import layout
from afx.compiler.target import Target, use_target
from tests.compiler.native_backend.native_run import same_bits
from tests.every import together

LARGE = 300_000  # elements of which threads share a nest


def address(x: Any) -> int:
    """Return where an array's memory begins."""
    return int(x._value.ctypes.data)


def donating(fn: Callable[..., Any], *args: Any, tier: int = 1) -> Any:
    """Return a function that takes the memory of all its arguments, compiled for these."""
    with use_target(Target(backend="native", native_tier=1 if tier == 1 else 2)):
        jitted = afx.jit(fn, donate_argnums=tuple(range(len(args))))
        assert jitted.lower(*args).plan.native.is_linked

    def call(*given: Any) -> Any:
        with use_target(Target(backend="native", native_tier=1 if tier == 1 else 2)):
            return jitted(*given)

    call.plan = jitted.lower  # for tests alone
    return call


def pairs(fn: Callable[..., Any], *args: Any) -> tuple[tuple[int, int], ...]:
    """Return which results of a program may be which arguments."""
    schedule = afx.jit(fn, donate_argnums=tuple(range(len(args))), backend="numpy").lower(*args).plan.schedule
    return lower_schedule(schedule)[0].block.donated


def fresh(*arrays: Any) -> list[Any]:
    """Return Arrays on memory of their own."""
    return [afx.asarray(x) for x in arrays]


@pytest.mark.parametrize("tier", [1, 2])
@pytest.mark.parametrize("size", [100, LARGE])
def test_optimizers_update_in_place(size: int, tier: int) -> None:
    """A step of Adam leaves parameters and moments where they were, with the bits of one that takes new memory."""
    rng = np.random.default_rng(0)
    rule = optim.adam(0.1)
    p, g = (rng.normal(size=size).astype(np.float32) for _ in range(2))
    target = Target(backend="native", native_tier=1 if tier == 1 else 2)
    with use_target(target):
        plain = afx.jit(rule.step)
        given = afx.jit(rule.step, donate_argnums=(0, 2))
        (params,), (others,) = fresh(p), fresh(p)
        state, other = rule.init(params), rule.init(others)
        places = set[int]()
        for k in range(4):
            params, state = given(params, g, state)
            others, other = plain(others, g, other)
            if k:
                places.add(address(params))
            assert same_bits(params, others)
            assert same_bits(state.mu, other.mu)
            assert same_bits(state.nu, other.nu)
    assert len(places) == 1


def test_memory_that_is_seen_elsewhere_stays() -> None:
    """An argument of which a view is held, NumPy's arrays and constants are not written."""
    mine = np.linspace(0, 1, 50)
    step = donating(lambda x: x * 2 + 1, mine)
    (x,) = fresh(mine)
    seen = np.asarray(x)
    assert same_bits(step(x), mine * 2 + 1)
    np.testing.assert_array_equal(seen, np.linspace(0, 1, 50))
    assert same_bits(step(mine), mine * 2 + 1)
    np.testing.assert_array_equal(mine, np.linspace(0, 1, 50))


def turned(x: Any) -> Any:
    """Return two results, of which one reads the argument at other places."""
    return x * 2, x[::-1] + 1


def shifted(x: Any) -> Any:
    """Return a result that reads neighbours."""
    return x[1:-1] * 0.5 + x[:-2] + x[2:]


def centered(x: Any) -> Any:
    """Return results of which one reads a sum of the argument, and one the first result."""
    y = x - x.mean()
    return y, y * y[::-1]


def swapped(x: Any, y: Any) -> Any:
    """Return each argument where the other one was."""
    return y * 1.5, x * 2.5


def twice(x: Any) -> Any:
    """Return two results that read the same element, and a copy of the argument."""
    return x * 2, x + 1, x


def by_loops_of_numpy(x: Any) -> Any:
    """Return functions that run on strips, of which one reads the argument after another one is written."""
    y = np.exp(-x)
    return y, np.arctan(y) + x


def chained(x: Any, y: Any) -> Any:
    """Return results of several loops, each of which reads what an earlier one has written."""
    a = x * y + 1
    b = a - a.max()
    return b, a + b[::-1], x.reshape(-1, 2).T.reshape(-1) * y


@together("tier", [1, 2])
@together("size", [50, LARGE])
@together("fn", [turned, shifted, centered, swapped, twice, by_loops_of_numpy, chained])
def test_no_element_is_read_after_it_was_written(fn: Callable[..., Any], size: int, tier: int) -> None:
    """Whatever else a program reads, results are those of a call that takes new memory."""
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=size) for _ in range(fn.__code__.co_argcount)]
    with use_target(Target(backend="native", native_tier=1 if tier == 1 else 2)):
        expected = afx.jit(fn)(*arrays)
        step = afx.jit(fn, donate_argnums=tuple(range(len(arrays))))
        for _ in range(3):
            found = step(*fresh(*arrays))
            wanted = expected if isinstance(expected, tuple) else (expected,)
            for z, want in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
                assert same_bits(z, want)


def test_what_may_stop_halfway_takes_new_memory() -> None:
    """Programs that check indices, or convert floats to integers, may leave the call to NumPy: they overwrite nothing."""
    x, i = np.linspace(0, 1, 40), np.arange(3)
    assert pairs(lambda x: x * 2, x) == ((1, 0),)
    assert pairs(lambda x, i: (x * 2, x[i]), x, i) == ()
    assert pairs(lambda x: (x * 2, x.astype(np.int32)), x) == ()
    assert pairs(lambda x: (x * 2, x[::-1] + 1), x) == ()
    step = donating(lambda x, i: (x * 2, x[i]), x, i)
    with pytest.raises(IndexError):
        step(*fresh(x, np.array([0, 1, 99])))


@pytest.mark.parametrize("tier", [1, 2])
def test_errors_are_told_at_the_call(tier: int) -> None:
    """A donating call warns at the user's line, raises or calls as `np.errstate` says, as it cannot run again."""
    x = np.linspace(0, 1, 30)
    step = donating(lambda x: 1 / x, x, tier=tier)
    with pytest.warns(RuntimeWarning, match="divide by zero encountered in a compiled call") as found:
        z = step(*fresh(x))
    assert found[0].filename == __file__
    with np.errstate(divide="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert same_bits(z, 1 / x)
        step(*fresh(x))
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError, match="divide by zero"):
        step(*fresh(x))
    heard: list[tuple[str, int]] = []
    with np.errstate(divide="call", call=lambda words, flag: heard.append((words, flag))):
        step(*fresh(x))
    assert heard == [("divide by zero", 1)]
    seen = np.asarray(fresh(x)[0])
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        step(seen)


def test_shared_memory_is_no_promise_to_llvm() -> None:
    """Parameters that may be the same memory are not called disjoint, in the program and in its loop."""
    x = np.linspace(0, 1, LARGE)
    schedule = afx.jit(lambda x, y: x * y, donate_argnums=0, backend="numpy").lower(x, x).plan.schedule
    program, _ = lower_schedule(schedule)
    assert program.block.donated == ((2, 0),)
    where = layout()
    assert where is not None
    heads = [line for line in emit_programs([program], where).splitlines() if line.startswith("define internal")]
    nests = [line for line in heads if "@nest" in line]
    assert len(nests) == 2
    for head in nests:
        assert head.count("ptr noalias %r") == 1
    (main,) = [line for line in heads if "@main" in line]
    assert "ptr %p0, ptr noalias %p1, ptr %p2" in main
