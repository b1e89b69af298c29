"""Faults that trusted libraries were seen to have, and afx must not."""

import contextlib
import gc
import inspect
import os
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx import Array
from afx.compiler.native_backend.service import process
from afx.compiler.target import Target, use_target


def _cubes(x: Array) -> Array:
    return afx.sum(x * x * x)


def _failing(x: Array) -> None:
    with contextlib.suppress(ZeroDivisionError):
        afx.grad(lambda v: v / (1 // 0))(x)


def _chain(length: int) -> Callable[[Array], Array]:
    def fn(x: Array) -> Array:
        for _ in range(length):
            x = x + 1.0
        return x

    return fn


def test_a_shared_intermediate_gets_all_its_partials() -> None:
    """The gradient of ``sum(y - y)`` with y = exp(x) is 0, not what the last use alone gives."""

    def fn(x: Array) -> Array:
        y = afx.exp(x)
        return afx.sum(y - y)

    np.testing.assert_array_equal(np.asarray(afx.grad(fn)(np.array([0.5, 2.0]))), [0.0, 0.0])


def test_each_node_is_visited_once() -> None:
    """Sixty nested doublings differentiate at once: there are 2⁶⁰ paths through them."""

    def fn(x: Array) -> Array:
        for _ in range(60):
            x = x + x
        return x

    assert float(afx.grad(fn)(np.float64(1.0))) == 2.0**60
    assert float(afx.jit(afx.grad(fn))(np.float64(1.0))) == 2.0**60


def test_a_long_chain_differentiates_in_linear_memory() -> None:
    """A chain of 100 000 additions differentiates without recursion, in less than 1 KB an operation."""
    tracemalloc.start()
    try:
        assert float(afx.grad(_chain(100_000))(np.float64(1.0))) == 1.0
        assert tracemalloc.get_traced_memory()[1] < 100_000 * 1024
    finally:
        tracemalloc.stop()


def test_a_large_graph_needs_no_recursion() -> None:
    """A graph of 100 000 equations is built, hashed, compared, printed, checked and destroyed."""
    graph = afx.trace(_chain(100_000))(1.0)
    assert len(str(graph).splitlines()) == 100_003
    afx.check(graph)
    first, second = (afx.trace(_chain(20_000))(1.0) for _ in range(2))
    assert first == second
    assert hash(first) == hash(second)
    del graph, first, second


def test_a_large_graph_compiles() -> None:
    """A plan of 13 000 equations runs: none of its names is one of Python's or of the plan itself."""
    found = afx.jit(_chain(13_000))(np.float64(0.0))
    assert float(found) == 13_000.0


def test_nothing_recurses() -> None:
    """Every transformation of 5 000 operations works with a stack of a hundred frames more than there are."""
    fn, x = _chain(5_000), np.float64(1.0)
    limit, depth = sys.getrecursionlimit(), len(inspect.stack(0))
    sys.setrecursionlimit(depth + 100)
    try:
        graph = afx.trace(fn)(x)
        assert graph == afx.trace(fn)(x)
        assert (hash(graph), len(repr(graph)) > 0, len(graph.digest)) == (hash(graph), True, 64)
        assert float(afx.grad(fn)(x)) == float(afx.jit(afx.grad(fn))(x)) == float(afx.jvp(fn, (x,), (x,))[1]) == 1.0
        assert float(afx.grad(afx.grad(lambda v: fn(v) * v))(x)) == 2.0
        assert float(afx.linearize(fn, x)[1](x)) == float(afx.grad(afx.checkpoint(fn))(x)) == 1.0
        assert afx.vmap(afx.grad(fn))(np.ones(2)).tolist() == [1.0, 1.0]
        del graph
    finally:
        sys.setrecursionlimit(limit)


def _count_left(fn: Callable[[Array], Any], x: Array) -> int:
    """Return how many objects the garbage collector finds after 100 calls without it."""
    gc.collect()
    gc.disable()
    try:
        for _ in range(100):
            fn(x)
        return gc.collect()
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: afx.grad(_cubes)(x),
        lambda x: afx.vjp(_cubes, x)[1](1.0),
        lambda x: afx.jvp(_cubes, (x,), (x,)),
        lambda x: afx.hessian(_cubes)(x),
        lambda x: afx.trace(_cubes)(x),
        lambda x: afx.vmap(afx.grad(lambda y: y * y))(x),
        lambda x: afx.grad(afx.jit(_cubes))(x),
        lambda x: afx.jit(afx.grad(_cubes))(x),
        lambda x: afx.linearize(_cubes, x)[1](x),
        lambda x: afx.grad(afx.checkpoint(_cubes))(x),
        lambda x: afx.grad(lambda v: afx.scan(lambda c, a: (c * a, c), 1.0, v)[0])(x),
        lambda x: afx.grad(lambda v: afx.cond(True, _cubes, afx.sum, v))(x),
        lambda x: afx.grad(lambda p: _cubes(p["a"][1:]))({"a": x}),
        lambda x: afx.jit(_cubes).lower(x).graph,
        lambda x: _failing(x),
    ],
    ids=[
        *("grad", "vjp", "jvp", "hessian", "trace", "vmap", "grad of jit", "jit of grad", "linearize", "checkpoint"),
        *("scan", "cond", "tree", "lower", "exception"),
    ],
)
def test_no_reference_cycles(fn: Callable[[Array], Any]) -> None:
    """Without the garbage collector, 100 calls leave nothing behind; llvmlite, beside them, leaves some."""
    x = afx.ones(3)
    with use_target(Target(backend="numpy")):
        fn(x)
        end = time.monotonic() + 60
        while process.service.is_busy and time.monotonic() < end:  # with plans of tests before this one
            time.sleep(0.01)
        # another thread's, such as those of a plan of a test before, are gone in the second round
        assert _count_left(fn, x) == 0 or _count_left(fn, x) == 0


class TestMutation:
    """Writing into a NumPy array later never changes a result."""

    def test_between_forward_and_backward(self) -> None:
        """Arguments and closures are safe, also where the pullback is called later."""
        x, w = np.array([1.0, 2.0]), np.array([3.0, 4.0])
        _, pullback = afx.vjp(lambda v: v * w * v, x)
        x[:] = 0
        w[:] = 0
        np.testing.assert_array_equal(np.asarray(pullback(afx.ones(2, afx.float64))[0]), [6.0, 16.0])

    def test_inside_the_function(self) -> None:
        """A buffer that is used, overwritten and used again counts with the values it had."""
        buffer = np.array([2.0])

        def fn(x: Array) -> Array:
            y = x * buffer
            buffer[0] = 5.0
            z = y * buffer
            buffer[0] = 7.0
            return afx.sum(z)

        assert float(afx.grad(fn)(np.array([1.0]))[0]) == 10.0

    def test_of_views_and_constants_of_compiled_functions(self) -> None:
        """Reshaped, sliced and captured arrays hold their own values."""
        source = np.arange(4.0)
        views = [afx.asarray(source), afx.reshape(source, (2, 2)), afx.stop_gradient(afx.asarray(source))[1:]]
        compiled = afx.jit(lambda x: x + source)
        before = [v.tolist() for v in views] + [compiled(0.0).tolist()]
        source[:] = -1
        assert [v.tolist() for v in views] + [compiled(0.0).tolist()] == before

    def test_results_of_compiled_functions_are_their_own(self) -> None:
        """Outputs of a jitted function alias neither its inputs nor each other's next results."""
        fn = afx.jit(lambda x: (x, x * 2, x[:1]))
        source = np.arange(3.0)
        first = fn(source)
        source[:] = 9
        fn(np.zeros(3))
        assert [z.tolist() for z in first] == [[0.0, 1.0, 2.0], [0.0, 2.0, 4.0], [0.0]]


def test_nested_gradients_in_eight_threads() -> None:
    """Threads never see each other's traces."""
    wrong: list[Any] = []
    compiled = afx.jit(afx.grad(_cubes))

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(40):
            x = rng.normal(size=4)
            inner = afx.grad(_cubes)
            second = afx.grad(lambda v, inner=inner, x=x: afx.sum(inner(v) * x))(x)
            if not np.allclose(np.asarray(second), 6 * x * x) or not np.allclose(np.asarray(compiled(x)), 3 * x * x):
                wrong.append(x)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_default_dtype_is_the_threads_own() -> None:
    """The ``with`` form changes the default of the current thread only; the call changes every thread's."""
    seen: list[Any] = []
    with afx.default_dtype(afx.float64):
        thread = threading.Thread(target=lambda: seen.append(afx.zeros(1).dtype))
        thread.start()
        thread.join()
        assert afx.zeros(1).dtype == afx.float64
    assert seen == [afx.float32]
    assert afx.zeros(1).dtype == afx.float32


def test_escaped_tracers_raise() -> None:
    """A traced array that outlives its trace raises and names the function, in every transformation."""
    kept: list[Any] = []

    def leak(x: Array) -> Array:
        kept.append(x * 2)
        return afx.sum(x)

    for run in (afx.grad(leak), afx.jit(leak), lambda x: afx.jvp(leak, (x,), (x,)), afx.vmap(leak)):
        run(afx.ones((2, 2)))
        with pytest.raises(afx.errors.EscapedTracerError, match="leak"):
            kept.pop() + 1


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_exception_leaves_nothing_behind(error: type[BaseException]) -> None:
    """After an exception in a traced function everything works as before, and outside nothing is recorded."""

    def fail(x: Array) -> Array:
        afx.grad(_cubes)(x)
        raise error

    for transform in (afx.grad, afx.jit, afx.vmap):
        with pytest.raises(error):
            transform(fail)(afx.ones(3))
        assert type(afx.ones(3) * 2) is Array
        assert afx.grad(_cubes)(afx.ones(3)).tolist() == [3.0, 3.0, 3.0]


def test_gradient_has_the_parameters_dtype() -> None:
    """A float32 parameter times float64 data has a float32 gradient, compiled or not."""
    data = np.array([1.0, 2.0])

    def fn(w: Array) -> Array:
        return afx.sum(w * data)

    w = afx.ones(2)
    assert afx.grad(fn)(w).dtype == afx.float32
    assert afx.jit(afx.grad(fn))(w).dtype == afx.float32
    assert afx.grad(afx.jit(fn))(w).dtype == afx.float32


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Python's own word on forking with threads
def test_fork_after_use() -> None:
    """A forked process goes on with compiled functions and gradients."""
    compiled = afx.jit(afx.grad(_cubes))
    compiled(afx.ones(3))
    child = os.fork()
    if child == 0:
        right = compiled(afx.ones(3)).tolist() == [3.0] * 3 and afx.grad(_cubes)(afx.ones(3)).tolist() == [3.0] * 3
        os._exit(0 if right else 1)
    deadline = time.monotonic() + 20
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done or time.monotonic() > deadline:
            break
        time.sleep(0.01)
    assert done == child
    assert os.waitstatus_to_exitcode(status) == 0


def test_errstate_is_honoured() -> None:
    """NumPy's ``errstate`` decides what a division by zero does, forward, backward and compiled."""
    zero = afx.zeros(1)
    for run in (afx.reciprocal, afx.jit(afx.reciprocal), afx.grad(lambda x: afx.sum(afx.sqrt(x)))):
        with np.errstate(divide="ignore"):
            assert np.isinf(np.asarray(run(zero))).all()
        with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
            run(zero)


class TestMasks:
    """A branch that is not taken has the derivative 0, whatever its formula gives."""

    @staticmethod
    def safe_root(x: Array) -> Array:
        return afx.sum(afx.where(x > 0, afx.sqrt(x), 0.0))

    def test_first_and_second_order(self) -> None:
        """The square root masked at 0 has finite derivatives there, in reverse and forward mode."""
        x = np.array([0.0, 4.0])
        with np.errstate(divide="ignore", invalid="ignore"):
            np.testing.assert_array_equal(np.asarray(afx.grad(self.safe_root)(x)), [0.0, 0.25])
            np.testing.assert_array_equal(np.asarray(afx.jvp(self.safe_root, (x,), (np.ones(2),))[1]), 0.25)
            np.testing.assert_array_equal(np.asarray(afx.hessian(self.safe_root)(x)), [[0.0, 0.0], [0.0, -0.03125]])

    def test_compiled(self) -> None:
        """Compiled, mapped and checkpointed derivatives mask too, to second order."""
        x = np.array([0.0, 4.0])
        with np.errstate(divide="ignore", invalid="ignore"):
            for run in (afx.jit(self.safe_root), afx.checkpoint(self.safe_root)):
                np.testing.assert_array_equal(np.asarray(afx.grad(run)(x)), [0.0, 0.25])
            np.testing.assert_array_equal(np.asarray(afx.jit(afx.grad(self.safe_root))(x)), [0.0, 0.25])
            np.testing.assert_array_equal(np.asarray(afx.vmap(afx.grad(self.safe_root))(x)), [0.0, 0.25])
            for second in (afx.jit(afx.hessian(self.safe_root)), afx.jacrev(afx.grad(self.safe_root))):
                np.testing.assert_array_equal(np.asarray(second(x)), [[0.0, 0.0], [0.0, -0.03125]])

    def test_a_condition_may_be_a_plain_truth_value(self) -> None:
        """A Python condition chooses a branch, and cuts the other off."""
        x = np.array([0.0, 4.0])
        assert afx.grad(lambda v: afx.sum(afx.where(True, v * v, afx.sqrt(v))))(x).tolist() == [0.0, 8.0]
        assert afx.grad(lambda v: afx.sum(afx.where(0, afx.sqrt(v), v)))(x).tolist() == [1.0, 1.0]

    def test_reverse_mode_warns_of_nothing(self) -> None:
        """The backward pass of a masked branch is silent."""
        afx.grad(self.safe_root)(np.array([0.0, 4.0]))

    @pytest.mark.parametrize(
        "fn",
        [
            lambda x: afx.maximum(afx.sqrt(x), 1.0),
            lambda x: afx.clip(afx.sqrt(x), 1.0, 5.0),
            lambda x: afx.sqrt(x)[x > 0],
            lambda x: afx.where(x > 0, afx.reshape(2 * afx.sqrt(x), (2,)), 0.0),
            lambda x: afx.where(x[:, None] > 0, afx.broadcast_to(afx.sqrt(x)[:, None], (2, 3)), 0.0),
        ],
        ids=["maximum", "clip", "boolean index", "through a product", "through a broadcast"],
    )
    def test_every_choice_masks(self, fn: Callable[[Array], Array]) -> None:
        """Whatever chooses cuts off what it does not choose, and what leads there."""
        found = np.asarray(afx.grad(lambda x: afx.sum(fn(x)))(np.array([0.0, 4.0])))
        assert found[0] == 0
        assert np.isfinite(found).all()
