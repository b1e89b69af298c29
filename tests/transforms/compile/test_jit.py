"""A jitted function: traced once per kind of arguments, then run as a plan."""

import sys
import threading
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx import Array, pytree
from afx.errors import ConcreteValueError, TreeError


@attrs.frozen
class Line:
    """A line, with an exponent that belongs to its structure."""

    slope: Array
    power: int = 1


def _cubes(x: Array) -> Array:
    return afx.sum(x**3)


def test_a_function_is_traced_once_for_each_kind_of_arguments() -> None:
    """Structure, shapes, dtypes, static values and the default dtype make the kind; values do not."""
    traces: list[Any] = []

    @afx.jit
    def fn(line: Line, x: Any) -> Any:
        traces.append(line)
        return line.slope * x**line.power

    a = afx.ones(3)
    for x in (a, a * 2, np.ones(3, np.float32)):
        fn(Line(a), x)
    assert len(traces) == 1
    fn(Line(a, 2), a)
    fn(Line(a), afx.ones((2, 3)))
    fn(Line(a), np.ones(3))
    fn(Line(a), 2.0)
    fn(Line(a), 3.0)
    assert len(traces) == 5
    with afx.default_dtype(np.float64):
        fn(Line(a), 2.0)
    assert len(traces) == 6
    fn.clear_cache()
    fn(Line(a), a)
    assert len(traces) == 7


def test_python_numbers_stay_weak() -> None:
    """A number beside float64 does not round, beside float16 does not widen."""
    fn = afx.jit(lambda x, y: x * y)
    assert fn(np.float16(2), 0.1).dtype == np.float16
    assert float(fn(np.float64(2), 0.1)) == 0.2


def test_trees_go_in_and_come_out() -> None:
    """Classes, dicts, None and numbers keep their places; a thousand leaves are no matter."""
    tree = {"a": [Line(afx.ones(2), k) for k in range(1000)], "b": (None, 2.0)}
    found = afx.jit(lambda t: pytree.map(lambda x: x * 2, t))(tree)
    assert found["a"][7].power == 7
    assert found["b"][0] is None
    np.testing.assert_array_equal(np.asarray(found["a"][999].slope), [2.0, 2.0])


def test_static_arguments_are_part_of_the_kind() -> None:
    """They keep their values while tracing, by position or by name; one that does not hash is refused."""
    fn = afx.jit(lambda x, n=2, *, up=True: x**n if up else x, static_argnums=1, static_argnames="up")
    assert float(fn(3.0)) == 9.0
    assert float(fn(3.0, 3)) == 27.0
    assert float(fn(3.0, 3, up=False)) == 3.0
    with pytest.raises(TreeError, match="not hashable"):
        fn(3.0, [3])  # the mistake


def test_a_branch_on_a_traced_value_names_the_line_and_the_way_out() -> None:
    """The message has the user's line and `where`, `cond` and static arguments."""
    with pytest.raises(ConcreteValueError, match=r"test_jit\.py:\d+; choose with afx\.where \(or afx\.cond\)"):
        afx.jit(lambda x: x if x > 0 else -x)(1.0)


def test_gradients_go_through_compiled_functions() -> None:
    """Compiled gradients, gradients of compiled functions, jit in jit, hessian and vmap of jit agree with the plain run."""
    x = afx.asarray(np.array([1.0, -2.0, 3.0]))
    wanted = 3 * np.asarray(x) ** 2
    for fn in (
        afx.jit(afx.grad(_cubes)),
        afx.grad(afx.jit(_cubes)),
        afx.jit(afx.grad(afx.jit(_cubes))),
        lambda x: afx.vmap(afx.jit(afx.grad(_cubes)))(x[:, None])[:, 0],
        lambda x: afx.jvp(afx.jit(afx.grad(_cubes)), (x,), (x,))[0],
    ):
        np.testing.assert_allclose(np.asarray(fn(x)), wanted)
    np.testing.assert_allclose(np.asarray(afx.hessian(afx.jit(_cubes))(x)), np.diag(6 * np.asarray(x)))


def test_arguments_may_be_any_arrays() -> None:
    """Views in any order, read-only and byte-swapped arrays, 0-d values and numbers."""
    fn = afx.jit(lambda x: afx.sin(x).reshape(-1) + x.reshape(-1)[::-1])
    a = np.arange(12.0).reshape(3, 4)
    for x in (a.T, a[::2, ::-1], np.asfortranarray(a), a.astype(">f8"), np.broadcast_to(1.5, (2, 2))):
        np.testing.assert_allclose(np.asarray(fn(x)), np.sin(x).reshape(-1) + x.reshape(-1)[::-1])
    scalar = afx.jit(lambda x: x * 2 + 1)
    for y in (np.float32(2), np.array(2, np.float32), 2.0, 2, True):
        assert float(scalar(y)) == 2 * y + 1


def test_closed_over_tracers_are_differentiated() -> None:
    """A compiled function that closes over a traced value is not cut off from it."""

    def outer(y: Array) -> Array:
        return afx.jit(lambda x: x * y)(afx.asarray(3.0))

    assert float(afx.grad(outer)(2.0)) == 3.0


def test_the_lowered_form_tells_what_was_built() -> None:
    """Graph, source, memory, operations and bytes of one call."""
    lowered = afx.jit(lambda x: afx.sum(x @ x)).lower(np.ones((4, 4)))
    assert lowered.graph.counts() == {"matmul": 1, "sum": 1}
    assert lowered.flops == 2 * 4**3 + 16
    assert lowered.bytes_moved == 4 * 128 + 8
    assert lowered.plan.memory == 128
    assert "a.dot(a, b)" in lowered.plan.source


def test_the_cache_is_bounded() -> None:
    """The oldest kinds go."""
    fn = afx.jit(lambda x: x + 1)
    for n in range(300):
        fn(np.ones(n))
    assert len(fn._entries) == 256  # its size has no public name


def test_numpys_error_state_holds_in_plans() -> None:
    """What NumPy is told to raise, it raises."""
    fn = afx.jit(lambda x: afx.log(x) * 2)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        fn(np.zeros(3))
    with np.errstate(divide="ignore"):
        assert np.isneginf(np.asarray(fn(np.zeros(3)))).all()


def test_numbers_can_be_results_and_go_anywhere() -> None:
    """A Python number that is returned, repeated, chosen or multiplied by another has the default dtype."""

    @afx.jit
    def fn(x: Any, y: Any) -> tuple[Any, ...]:
        return x, x * y, afx.where(x > y, x, y), afx.broadcast_to(x, (2,)), afx.sum(x), afx.reshape(x, (1,))

    for found, wanted in zip(fn(0.5, 0.25), (0.5, 0.125, 0.5, [0.5, 0.5], 0.5, [0.5]), strict=True):
        assert found.dtype == np.float32
        np.testing.assert_array_equal(np.asarray(found), wanted)


@pytest.mark.parametrize("options", [{"donate_argnums": 3}, {"static_argnums": (0, 2)}, {"static_argnums": -3}])
def test_positions_behind_the_last_parameter_are_refused(options: dict[str, Any]) -> None:
    """A position that no argument can take is a mistake, told where the function is made; ``*args`` take any."""
    with pytest.raises(
        afx.errors.ArgumentError, match=r"position that .*<lambda> does not take: got .* for 2 positional"
    ):
        afx.jit(lambda x, y: x * y, **options)
    assert afx.jit(lambda *xs: xs[0] * 2.0, donate_argnums=3)(afx.ones(2)).tolist() == [2.0, 2.0]


def test_threads_may_fill_one_cache() -> None:
    """Traces that threads add and drop at once never make a call fail."""
    f = afx.jit(lambda x: x + 1.0)
    failures = list[BaseException]()

    def fill(first: int) -> None:
        try:
            for n in range(first, first + 60):
                f(np.zeros(n, np.float32))
                f.cache_info()
        except BaseException as error:
            failures.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=fill, args=(1 + 60 * k,)) for k in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert failures == []


def test_one_trace_serves_all_calls_of_a_kind() -> None:
    """Arrays, NumPy's arrays, traced ones and `lower` find the same trace, where shapes and dtypes are the same."""
    fn = afx.jit(lambda x, y: afx.sum(x * y))
    x = np.arange(3, dtype=np.float32)
    for a in (afx.asarray(x), x):
        for b in (afx.asarray(x), x):
            assert fn(a, b) == 5.0
    fn.lower(x, afx.asarray(x))
    afx.grad(fn)(afx.asarray(x), x)
    assert fn.cache_info().traces == 1
    assert fn(x, 2.0) == 6.0
    assert fn.cache_info().traces == 2


@pytest.mark.parametrize(
    "loss",
    [
        lambda a, x: afx.sum((a @ x) ** 2),
        lambda a, x: afx.sum(afx.tanh(a * x)),
        lambda a, x: afx.scan(lambda c, row: (c + afx.sum(row * x) ** 2, None), 0.0, a)[0],
    ],
    ids=["product", "elementwise", "scan"],
)
def test_gradients_capture_an_array_as_it_is(loss: Callable[[Any, Any], Any]) -> None:
    """Memory of an Array that a differentiated function captures is that of its compiled form: no copy, and no second one."""
    a = afx.asarray(np.random.default_rng(3).normal(size=(40, 3)))
    compiled, x = afx.jit(afx.grad(lambda x: loss(a, x))), afx.ones(3, a.dtype)
    np.testing.assert_allclose(compiled(x), afx.grad(lambda x: loss(a, x))(x), rtol=1e-12)
    constants = [c.value for _, c in compiled.lower(x).plan.graph.constants if np.array_equal(c.value, a)]
    assert len(constants) == 1
    assert np.shares_memory(constants[0], np.asarray(a))
