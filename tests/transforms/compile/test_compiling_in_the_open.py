"""Compiling is seen: what is kept, what was traced and why, and programs that print."""

import gc
import logging
import warnings
from typing import Any

import attrs
import numpy as np
import pytest

import afx
from afx import Array
from afx.core.primitive import Primitive, register
from afx.errors import ArgumentError, ConcreteValueError, RetraceWarning
from afx.runtime import buffer_cache
from afx.transforms.compile import quick_call
from tests.compiler.native_backend.native_run import run_python


@attrs.frozen
class State:
    """A state with a count that is static by nature."""

    weight: Array
    step: int


def test_cache_info_counts_traces() -> None:
    """Each new kind of arguments is one trace and one entry; clearing forgets them."""
    double = afx.jit(lambda x: 2 * x)
    for n in (2, 3, 2):
        double(afx.ones(n))
    info = double.cache_info()
    assert (info.traces, info.entries) == (2, 2)
    double.clear_cache()
    assert double.cache_info().traces == 0


def test_retracing_for_a_static_field_warns_once_and_names_it() -> None:
    """Ten traces that differ in a field's value alone are told of, on the line of the call."""
    step = afx.jit(lambda state, x: state.weight * x)

    def train() -> None:
        for k in range(25):
            step(State(afx.ones(3), k), 2.0)

    with pytest.warns(RetraceWarning, match=r"argument 0\.step is 9, was 8") as seen:
        train()
    assert len(seen) == 1
    assert seen[0].filename == __file__


@pytest.mark.parametrize("make", [lambda k: lambda x: x + k, lambda _: float("nan")], ids=["lambda", "nan"])
def test_retracing_for_a_static_argument_warns(make: Any) -> None:
    """So are fresh functions, and nan, which never equals itself."""
    fn = afx.jit(lambda x, option: x, static_argnums=1)
    with pytest.warns(RetraceWarning, match="static argument 1"):
        [fn(1.0, make(k)) for k in range(12)]


def test_what_is_closed_over_is_no_static_value() -> None:
    """A function that closes over values of its own loops is traced for each, without a warning, and says why."""

    def scale(k: Array) -> Array:
        return inner(k * np.ones(2))

    scales: list[Any] = []
    inner = afx.jit(lambda x: x * scales[-1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(12):
            afx.vmap(lambda k: scales.append(k) or scale(k))(np.arange(3.0))


def test_new_shapes_are_no_retracing() -> None:
    """Lengths that differ are traced without a warning."""
    fn = afx.jit(lambda x: 2 * x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(1, 25):
            fn(np.ones(n))


def test_the_logger_tells_why(caplog: pytest.LogCaptureFixture) -> None:
    """The logger `afx.jit` writes what was traced, why and how long it took."""
    fn = afx.jit(lambda state, x: state.weight * x)
    with caplog.at_level(logging.INFO, logger="afx.jit"):
        fn(State(afx.ones(3), 0), 2.0)
        fn(State(afx.ones(3), 1), 2.0)
        fn(State(afx.ones(4), 1), 2.0)
    first, static, shape = [record.getMessage() for record in caplog.records]
    assert "first call" in first
    assert " ms" in first
    assert "argument 0.step is 1, was 0" in static
    assert "(float32[4], float32[]~) after (float32[3], float32[]~)" in shape


def test_disable_jit_runs_python() -> None:
    """Inside of the block branches on values work, and nothing is traced."""
    fn = afx.jit(lambda x: x if x > 0 else -x)
    with afx.disable_jit():
        assert fn(-2.0) == 2.0
        assert afx.grad(fn)(-2.0) == -1.0
    assert fn.cache_info().traces == 0
    with pytest.raises(ConcreteValueError, match=r"static_argnums=.*static_argnames="):
        fn(-2.0)


def test_idle_buffers_stay_within_the_limit() -> None:
    """Many lengths keep no more than the limit; what ran lately stays, what ran long ago goes."""
    fn = afx.jit(lambda x: afx.sum(afx.sin(x) @ afx.cos(x).T))
    before = afx.set_cache_limit(0)
    try:
        others = sum([idle.nbytes + idle.fixed_bytes for idle in buffer_cache._in_order_of_use()])  # of other tests
        afx.set_cache_limit(2_500_000 + others)
        for n in range(200, 460, 20):
            fn(np.ones((n, 300), np.float32))
            assert fn.cache_info().idle_bytes <= 2_500_000 + others
        assert fn.cache_info().entries == 13
        assert fn.cache_info().idle_bytes > 1_000_000
        afx.set_cache_limit(0)
        other = afx.jit(lambda x: afx.sum(afx.sin(x) @ x))
        other(np.ones((300, 300), np.float32))
        assert fn.cache_info().idle_bytes == 0
        assert other.cache_info().idle_bytes > 0
    finally:
        afx.set_cache_limit(before)
    assert before == 192_000_000


def test_memory_is_flat_whatever_the_number_of_shapes() -> None:
    """Beyond the limit a new shape leaves nothing behind: not its plan, and no record of its trace."""
    fn = afx.jit(lambda x: afx.sum(afx.sin(x) * x), backend="numpy")

    def count_objects(first: int) -> int:
        for n in range(first, first + 100):
            fn(np.ones(n))
        gc.collect()
        return len(gc.get_objects())

    before = afx.set_cache_limit(0)
    try:
        count_objects(10)
        objects = count_objects(110)
        assert count_objects(210) < objects + 100
    finally:
        afx.set_cache_limit(before)


def test_dropped_buffers_are_made_anew() -> None:
    """A plan without buffers computes what it computed before."""
    fn = afx.jit(lambda x: afx.sum(afx.sin(x) @ afx.cos(x).T))
    x = np.ones((50, 60))
    want = fn(x)
    before = afx.set_cache_limit(0)
    try:
        afx.jit(lambda x: x @ x)(np.ones((200, 200)))
        assert fn(x) == want
    finally:
        afx.set_cache_limit(before)


def test_machine_code_keeps_its_buffers_within_the_limit() -> None:
    """Buffers of kernels count as those of NumPy's calls do, and machine code shows in `cache_info`."""
    pytest.importorskip("llvmlite", reason="machine code is an extra")
    script = """
        import numpy as np, afx
        fn = afx.jit(lambda x: afx.sum(afx.sin(x) @ afx.cos(x).T), backend="native")
        afx.set_cache_limit(4_000_000)
        for n in range(200, 460, 40):
            fn(np.ones((n, 300), np.float32))
            assert fn.cache_info().idle_bytes <= 4_000_000
        info = fn.cache_info()
        assert info.idle_bytes > 500_000, info
        assert info.native_entries == info.entries == 7, info
        assert info.plan_bytes > 7 * 1000, info
        print("held")
    """  # in a process of its own, as the limit counts what all functions keep
    assert run_python(script).split() == ["held"]


def test_plans_are_forgotten_beyond_the_limit() -> None:
    """Where buffers are not enough, plans that were not used for longest go; a function that runs again is traced again."""
    before = afx.set_cache_limit(100_000)
    try:
        fns = [afx.jit(lambda x, k=k: afx.sin(x) * 2 + k, backend="numpy") for k in range(40)]
        found = [float(fn(1.0)) for fn in fns]
        assert fns[-1].cache_info().entries == 1
        assert fns[0].cache_info() == attrs.evolve(fns[-1].cache_info(), entries=0, plan_bytes=0, idle_bytes=0)
        assert sum(fn.cache_info().plan_bytes for fn in fns) <= 100_000
        assert [float(fn(1.0)) for fn in fns] == found
        assert fns[0].cache_info().traces == 2
    finally:
        afx.set_cache_limit(before)


def test_many_kinds_forget_what_was_not_used_for_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the number of kinds that are kept, the one goes that ran least lately, not the first one."""
    monkeypatch.setattr(quick_call, "CACHE_SIZE", 3)
    fn = afx.jit(lambda x: afx.sin(x) * 2, backend="numpy")
    for n in (1, 2, 3, 1, 4, 1, 5, 1):
        fn(np.ones(n))
    assert (fn.cache_info().traces, fn.cache_info().entries) == (5, 3)


def test_the_limit_is_a_number_of_bytes() -> None:
    """Anything else is refused."""
    for bad in (-1, 1.5, "1GB"):
        with pytest.raises(ArgumentError, match="set_cache_limit"):
            afx.set_cache_limit(bad)  # the mistake


def run(fn: Any, *args: Any) -> list[Any]:
    """Return what a function that notes values has noted."""
    seen: list[Any] = []
    fn(seen, *args)
    return [np.asarray(x).tolist() for x in seen]


X = np.array([1.0, 2.0])


def noted(seen: list[Any]) -> Any:
    """Return a function that notes its operand and its double."""

    def fn(x: Any) -> Any:
        afx.debug.callback(seen.append, x)
        y = 2 * x
        afx.debug.callback(seen.append, y)
        return afx.sum(y)

    return fn


def test_callbacks_run_in_order_wherever_the_program_does() -> None:
    """Plain, compiled, differentiated: once for each run, in the order of the lines."""
    once = [[1.0, 2.0], [2.0, 4.0]]
    assert run(lambda seen: noted(seen)(X)) == once
    assert run(lambda seen: afx.jit(noted(seen))(X)) == once
    assert run(lambda seen: afx.grad(noted(seen))(X)) == once
    assert run(lambda seen: afx.jit(afx.grad(noted(seen)))(X)) == once
    assert run(lambda seen: afx.grad(afx.jit(noted(seen)))(X)) == once
    assert run(lambda seen: afx.jvp(noted(seen), (X,), (X,))) == once


def test_callbacks_run_at_every_call() -> None:
    """A plan that is run again calls back again."""
    seen: list[Any] = []
    fn = afx.jit(noted(seen))
    fn(X)
    fn(X + 1)
    assert [x.tolist() for x in seen] == [[1.0, 2.0], [2.0, 4.0], [2.0, 3.0], [4.0, 6.0]]


def test_callbacks_under_vmap_run_for_each_element() -> None:
    """Once for each element of the batch, compiled too, nested too."""
    rows = np.array([[1.0, 2.0], [3.0, 4.0]])
    fn = lambda seen: lambda x: (afx.debug.callback(seen.append, x), x)[1]  # a function that notes
    assert run(lambda seen: afx.vmap(fn(seen))(rows)) == rows.tolist()
    assert run(lambda seen: afx.jit(afx.vmap(fn(seen)))(rows)) == rows.tolist()
    assert run(lambda seen: afx.vmap(afx.vmap(fn(seen)))(rows)) == [1.0, 2.0, 3.0, 4.0]


def test_callbacks_in_loops_and_branches() -> None:
    """At each step, though the loop's result is not used; in the branch that is taken."""

    def step(seen: list[Any]) -> Any:
        return lambda c, x: ((afx.debug.callback(seen.append, c), c + x)[1], None)

    assert run(lambda seen: afx.scan(step(seen), 0.0, X)) == [0.0, 1.0]
    assert run(lambda seen: afx.jit(lambda x: (afx.scan(step(seen), 0.0, x), 1.0)[1])(X)) == [0.0, 1.0]
    assert run(lambda seen: afx.jit(afx.grad(lambda x: afx.scan(step(seen), 0.0, x)[0]))(X)) == [0.0, 1.0]

    def branch(seen: list[Any]) -> Any:
        return lambda x: afx.cond(x > 0, lambda x: (afx.debug.callback(seen.append, x), x)[1], lambda x: -x, x)

    for x, want in ((1.0, [1.0]), (-1.0, [])):
        assert run(lambda seen, x: afx.jit(branch(seen))(x), x) == want


def test_callbacks_of_outer_values_belong_to_the_innermost_program() -> None:
    """Of values from outside, and of numbers alone: at each step of a loop, in the branch that is taken, at each call."""
    seen: list[Any] = []

    def step(x: Any) -> Any:
        return lambda _, c: (afx.debug.callback(seen.append, x), c + x)[1]

    def of_branches(x: Any) -> Any:
        return afx.cond(x > 0, lambda: (afx.debug.callback(seen.append, x), x)[1], lambda: -x)

    looped = lambda x: afx.fori_loop(0, 3, step(x), 1.0)  # a function of the value that its steps close over
    for fn in (
        afx.jit(looped),
        afx.jit(afx.grad(looped)),
        afx.grad(afx.jit(looped)),
        afx.jit(lambda x: afx.jit(looped)(x)),
    ):
        for x in (2.0, 3.0):
            seen.clear()
            fn(x)
            assert seen == [x] * 3
    for fn in (afx.jit(of_branches), afx.jit(afx.grad(of_branches)), afx.grad(afx.jit(of_branches))):
        for x, want in ((2.0, [2.0]), (-2.0, []), (3.0, [3.0])):
            seen.clear()
            fn(x)
            assert seen == want
    nested = lambda x: afx.fori_loop(0, 3, lambda _, c: afx.fori_loop(0, 2, step(x), c), 1.0)  # a step tried in vain
    for fn in (nested, afx.jit(nested), afx.jit(afx.grad(nested))):
        seen.clear()
        fn(2.0)
        assert seen == [2.0] * 6
    constant = afx.jit(lambda x: (afx.debug.callback(seen.append, 1.0), afx.fori_loop(0, 2, step(5.0), 1.0) * x)[1])
    for _ in range(2):
        seen.clear()
        constant(1.0)
        assert seen == [1.0, 5.0, 5.0]
    seen.clear()
    np.testing.assert_array_equal(afx.jit(afx.vmap(looped))(X), 1 + 3 * X)
    assert sorted(seen) == [1.0] * 3 + [2.0] * 3


def test_callbacks_after_a_trace_that_failed_are_called_at_once() -> None:
    """No trace stays the innermost one when its function raised."""
    seen: list[Any] = []

    def fails(x: Any) -> Any:
        return afx.cond(x > 0, lambda: bool(x), lambda: x)

    with pytest.raises(afx.errors.ConcreteValueError):
        afx.jit(fails)(1.0)
    afx.debug.callback(seen.append, 1.0)
    assert seen == [1.0]


def test_print_shows_values(capsys: pytest.CaptureFixture[str]) -> None:
    """Fields are filled with values, with formats and names, compiled and plain."""
    fn = afx.jit(lambda x: (afx.debug.print("x is {:.2f}, {y}", x, y=[x, 2 * x]), x)[1])
    fn(3.0)
    afx.debug.print("{}", np.arange(2))
    assert capsys.readouterr().out == "x is 3.00, [np.float32(3.0), np.float32(6.0)]\n[0 1]\n"


def test_print_checks_its_template() -> None:
    """Fields without values, and templates that are none, are refused where they are written."""
    with pytest.raises(ArgumentError, match=r"fields do not fit"):
        afx.debug.print("{} {}", 1.0)
    with pytest.raises(ArgumentError, match=r"template"):
        afx.debug.print(1.0)  # the mistake


def test_a_primitive_has_an_identifier_for_a_name() -> None:
    """Names stand in generated code: others are refused."""
    with pytest.raises(ValueError, match="identifier"):
        register(Primitive("not one", "custom", lambda x: x, lambda x: x))
