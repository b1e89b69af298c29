"""Machine code takes over from NumPy's plan."""

import gc
import os
import pickle
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import afx

pytest.importorskip("llvmlite", reason="machine code is an extra")

from afx.compiler.native_backend.service import build, child, helper, process
from afx.compiler.native_backend.service.link import layout
from afx.compiler.native_backend.service.process import CompileService, make_kernels
from afx.compiler.target import NativeTarget, Target, use_target
from tests.compiler.native_backend.native_run import (
    FIRST_TIER,
    Native,
    ask,
    by_numpy,
    run_python,
    same_bits,
    schedule_of,
    use_limits,
    wait_for,
)


def native_of(fn: Any, *args: Any) -> Any:
    """Return the plan of a function compiled before its first call."""
    plan = afx.jit(fn, backend="native").lower(*args).plan
    assert plan.native is not None
    return plan


def test_native_functions_are_compiled_before_their_first_call() -> None:
    """With `backend="native"` the first call runs machine code; in the first tier it gives the plan's bits as an Array."""
    x = np.linspace(-1, 1, 1000)
    with use_target(FIRST_TIER):
        fn = afx.jit(lambda x: {"a": np.tanh(x) * x, "b": x.sum()})
        assert fn.lower(x).plan.native.is_linked
        found = fn(x)
    expected = afx.jit(lambda x: {"a": np.tanh(x) * x, "b": x.sum()}, backend="numpy")(x)
    assert same_bits(found["a"], expected["a"])
    assert same_bits(found["b"], expected["b"])


@use_limits(compile_min_seconds=0.0)
def test_kernels_swap_in_without_a_wait() -> None:
    """By default calls run NumPy's plan until the kernel is there; no call's bits tell which one ran."""
    fn = afx.jit(lambda x: np.exp(-x * x) * x + np.sqrt(abs(x)))
    x = afx.asarray(np.linspace(-1, 1, 50))
    plan = fn.lower(x).plan
    assert plan.status.reason.startswith("its calls have not taken")
    first = np.asarray(fn(x))
    for _ in range(2000):
        assert same_bits(np.asarray(fn(x)), first)
        if plan.native.is_settled:
            break
        time.sleep(0.01)
    wait_for(lambda: plan.native.is_settled)
    for _ in range(20):
        assert same_bits(np.asarray(fn(x)), first)
    assert plan.native.is_linked or plan.status.reason == "NumPy's calls were faster"


def test_numpy_alone_makes_no_machine_code() -> None:
    """With `backend="numpy"` there is none; the global setting says what None stands for."""
    assert afx.jit(lambda x: x + 1, backend="numpy").lower(1.5).plan.native is None
    before = afx.get_backend()
    afx.set_backend("numpy")
    try:
        assert afx.jit(lambda x: x + 1).lower(np.ones(3)).plan.native is None
    finally:
        afx.set_backend(before)
    for call in (lambda: afx.set_backend("llvm"), lambda: afx.jit(abs, backend="gpu")):  # wrong on purpose
        with pytest.raises(afx.errors.ArgumentError, match="a back end is"):
            call()


def test_jitted_functions_keep_their_back_end_when_pickled() -> None:
    """Pickling a jitted function keeps the back end."""
    fn = pickle.loads(pickle.dumps(afx.jit(np.tanh, backend="numpy")))
    assert fn.lower(np.ones(2)).plan.native is None


def test_errors_warn_as_in_numpys_plan() -> None:
    """A call that divides by zero warns or raises as NumPy's plan does, and not where the caller ignores it."""
    fn = afx.jit(lambda x: 1 / x, backend="native")
    x = np.array([1.0, 0.0])
    assert fn.lower(x).plan.native.is_linked
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        fn(x)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        fn(x)
    with np.errstate(divide="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isinf(np.asarray(fn(x))[1])


def test_what_has_no_native_form_runs_numpy_and_says_why() -> None:
    """`lower(...).native` names the instruction that machine code does not know; results are NumPy's."""
    fn = afx.jit(lambda x: by_numpy(x) + 1, backend="native")
    x = np.array([3.0, 1.0, 2.0])
    assert np.array_equal(np.asarray(fn(x)), np.asarray(by_numpy(x)) + 1)
    reasons = dict(fn.lower(x).native)
    assert [bool(r) for r in reasons.values()] == [True, False]
    assert "jv" in next(iter(reasons.values()))


def test_llvm_and_assembly_can_be_read() -> None:
    """`plan.llvm` and `plan.assembly` show what runs."""
    plan = afx.jit(lambda x: x * x + 1).lower(np.ones(64)).plan
    assert re.search(r"fmul.* <\d+ x double>", plan.llvm)
    assert "PyLong_FromLong" in plan.assembly


def test_loops_stop_for_signals() -> None:
    """Ctrl-C ends a long loop within a fraction of a second, and the function can be called again."""
    script = """
        import os, signal, threading, time
        import numpy as np, afx
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
        fn = afx.jit(lambda x: afx.scan(lambda y, _: (np.sin(y) + y[::-1], None), x, None, 100_000_000)[0], backend="native")
        x = np.linspace(0, 1, 8)
        assert fn.lower(x).plan.native.is_linked
        threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        start = time.monotonic()
        try:
            fn(x)
        except KeyboardInterrupt:
            print("stopped", time.monotonic() - start < 30)  # all steps take minutes
    """
    assert run_python(script).split() == ["stopped", "True"]


def test_a_busy_thread_leaves_room_to_compile() -> None:
    """A plan whose calls give Python's lock away for moments only gets its machine code, in whatever loop it runs."""
    script = """
        import time
        import numpy as np, afx
        def step(now, _):
            x, v = now
            between = x[None] - x[:, None]
            force = afx.sum(between / (afx.sum(between * between, axis=-1) + 0.01)[..., None], axis=1)
            return (x + 0.001 * v, v + 0.001 * force), None
        fn = afx.jit(lambda x: afx.scan(step, (x, x * 0), None, 100)[0])
        x = np.random.default_rng(0).normal(size=(8, 3))
        native, end = fn.lower(x).plan.native, time.monotonic() + 25
        while not native.is_linked and time.monotonic() < end:
            fn(x)
        print(native.status.backend)
    """
    assert run_python(script).split() == ["native"]


def test_calls_from_several_threads() -> None:
    """Threads call one kernel at once, each with memory of its own."""
    fn = afx.jit(lambda x: np.tanh(x * x + x).sum() + np.exp(-x), backend="native")
    xs = [np.random.default_rng(k).normal(size=20_000) for k in range(4)]
    expected = [np.asarray(fn(x)) for x in xs]
    wrong: list[int] = []

    def work(k: int) -> None:
        results = [np.asarray(fn(xs[k])) for _ in range(30)]
        wrong.extend([k for z in results if not same_bits(z, expected[k])])

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_many_large_jobs_neither_wait_nor_block() -> None:
    """Jobs and answers larger than a pipe holds go both ways at once, and who submits does not wait for them."""
    service = CompileService()
    large = np.ones(100_000)
    schedules = [schedule_of(lambda x, k=k: x * large + k, np.ones(100_000)) for k in range(6)]
    asked = [ask(service, schedule) for schedule in schedules]
    assert all(done.wait(60) for done, _ in asked)
    assert all(found[0] for _, found in asked)
    service.close()


def test_what_no_other_process_can_have_is_one_plan_s_fault() -> None:
    """A plan that holds a function of the user's stays NumPy's, without a warning; the next ones are compiled."""
    seen: list[float] = []

    def fn(x: Any) -> Any:
        afx.debug.callback(lambda y: seen.append(float(y.sum())), x)
        return np.sin(x) * 2

    x = np.ones(5)
    plan = afx.jit(fn, backend="native").lower(x).plan
    assert "does more than compute" in plan.native.status.reason
    np.testing.assert_array_equal(afx.jit(fn, backend="native")(x), np.sin(x) * 2)
    assert seen == [5.0]
    reasons: list[str] = []
    service = CompileService()
    service.submit((make_kernels, (), plan.schedule, Target(), layout()), lambda _, reason: reasons.append(reason))
    wait_for(lambda: reasons)
    assert "another process cannot have" in reasons[0]
    assert not service.broken
    assert ask(service, schedule_of(lambda x: np.cos(x) * 3, x))[0].wait(60)
    service.close()


def test_a_job_that_the_compiler_cannot_read_is_one_plan_s_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be found by its name in the compiler's process fails alone: the child stays, and compiles the next plan."""
    monkeypatch.setattr(helper, "_WARNED", [])
    monkeypatch.setattr(sys.modules["__main__"], "of_the_script", by_numpy, raising=False)
    monkeypatch.setattr(by_numpy, "__module__", "__main__")
    monkeypatch.setattr(by_numpy, "__qualname__", "of_the_script")
    reasons: list[str] = []
    service = CompileService()
    service.submit((by_numpy, 1.0), lambda _, reason: reasons.append(reason))
    wait_for(lambda: reasons)
    assert "of_the_script" in reasons[0]
    assert helper._WARNED == ["plan"]
    first = service.pid
    done, found = ask(service, schedule_of(lambda x: np.cos(x) * 5, np.ones(3)))
    assert done.wait(60)
    assert found[0]
    assert service.pid == first
    service.close()


def test_closing_while_a_job_is_sent_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that ends while a large job is on its way to the child ends without a warning."""
    monkeypatch.setattr(helper, "_WARNED", [])
    service = CompileService([sys.executable, "-c", "import time; time.sleep(60)"])  # it never reads
    large = np.ones(100_000)
    done, found = ask(service, schedule_of(lambda x: x * np.arange(100_000.0) + large, np.ones(100_000)))
    wait_for(lambda: service.pid is not None)
    time.sleep(0.2)  # the pipe is full by now
    service.close()
    assert done.wait(5)
    assert found == [None]
    assert not helper._WARNED


def test_a_compiler_that_cannot_start_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no child can be started, jobs fail at once."""
    monkeypatch.setattr(helper, "_WARNED", [])
    service = CompileService(["/nonexistent/python"])
    done, found = ask(service, schedule_of(lambda x: x + 2, np.ones(3)))
    assert done.wait(1)
    assert found == [None]
    service.close()


def test_an_idle_compiler_starts_again() -> None:
    """A child that has ended between jobs is replaced."""
    service = CompileService()
    schedule = schedule_of(lambda x: x * 3, np.ones(3))
    done, found = ask(service, schedule)
    assert done.wait(60)
    first = service.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: service.pid is None)
    done, again = ask(service, schedule)
    assert done.wait(60)
    assert found[0] == again[0]
    assert not service.broken
    service.close()


def test_a_compiler_that_has_ended_leaves_no_socket() -> None:
    """The socket of a child that ended is closed where the next one is started before there is a job."""
    service = CompileService()
    service.start()
    first, child = service.pid, service._child
    assert first is not None
    assert child is not None
    wait_for(lambda: not service.is_busy)  # else its thread might replace the child at once
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: service.pid is None)
    service.start()
    assert service.pid not in (None, first)
    assert child._socket.fileno() == -1
    service.close()


ENDS_ONCE = """
import pathlib, runpy, sys
mark = pathlib.Path(sys.argv[1])
if mark.read_text() == "ends always" or not mark.read_text():
    mark.write_text(mark.read_text() or "has ended")
    for _ in range(2):
        sys.stdin.buffer.read(int.from_bytes(sys.stdin.buffer.read(8), "little"))
    sys.exit()
runpy.run_path(sys.argv[2])["main"]()
"""


@pytest.mark.parametrize("mark", ["", "ends always"])
def test_a_compiler_that_ends_as_a_job_arrives_is_replaced(
    mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child whose idle time is over when a job is on its way leaves it to the next one; the second one's end gives it up."""
    monkeypatch.setattr(helper, "_WARNED", [])
    (tmp_path / "mark").write_text(mark)
    child = str(Path(process.__file__).with_name("child.py"))
    service = CompileService([sys.executable, "-c", ENDS_ONCE, str(tmp_path / "mark"), child])
    done, found = ask(service, schedule_of(lambda x: x * 5, np.ones(3)))
    assert done.wait(60)
    assert (found == [None]) == bool(mark)
    assert bool(helper._WARNED) == bool(mark)
    service.close()


def test_a_foreseen_compiler_is_there_before_its_first_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asking for the back end starts the compiler, once, without a wait; one that cannot start says so with the first job."""
    monkeypatch.setattr(helper, "_WARNED", [])
    service = CompileService()
    service.start()
    wait_for(lambda: service.pid is not None)
    first = service.pid
    service.start()
    done, found = ask(service, schedule_of(lambda x: x * 4, np.ones(3)))
    assert done.wait(60)
    assert found[0]
    assert service.pid == first
    service.close()
    assert service.pid is None
    missing = CompileService(["/nonexistent/python"])
    missing.start()
    time.sleep(0.05)
    assert not helper._WARNED
    done, found = ask(missing, schedule_of(lambda x: x * 4, np.ones(3)))
    assert done.wait(5)
    assert found == [None]
    assert len(helper._WARNED) == 1
    missing.close()


def test_where_no_thread_can_be_started_numpy_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without threads jobs fail at once, foreseen ones too, and one warning says why."""
    monkeypatch.setattr(helper, "_WARNED", [])

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    for is_foreseen in (False, True):
        service = CompileService()
        schedule = schedule_of(lambda x: x * 6, np.ones(3))
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            if is_foreseen:
                service.start()
            done, found = ask(service, schedule)
        assert done.wait(1)
        assert found == [None]
        assert "thread" in service.broken
        service.close()
    assert len(helper._WARNED) == 1


def test_a_foreseen_compiler_that_was_killed_is_replaced() -> None:
    """The end of a compiler that has no job is no failure."""
    service = CompileService()
    service.start()
    wait_for(lambda: service.pid is not None and not service.is_busy)  # the thread that is busy yet would start another
    assert service.pid is not None
    os.kill(service.pid, signal.SIGKILL)
    wait_for(lambda: service.pid is None)
    done, found = ask(service, schedule_of(lambda x: x * 5, np.ones(3)))
    assert done.wait(60)
    assert found[0]
    assert not service.broken
    service.close()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_foreseen_compiler_ends_with_its_parent() -> None:
    """`backend="native"` starts the compiler where it is asked for; it ends with a program that calls nothing, or is killed."""
    for end in ("", "os.kill(os.getpid(), signal.SIGKILL)"):
        script = f"""
            import os, signal, sys, time
            import afx
            fn = afx.jit(lambda x: x + 1, backend="native")
            from afx.compiler.native_backend.service.process import service
            while service.pid is None:
                time.sleep(0.01)
            print(service.pid, flush=True)
            {end}
        """
        command = [sys.executable, "-W", "error", "-c", textwrap.dedent(script)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=60, check=False)
        assert done.returncode == (-signal.SIGKILL if end else 0)
        wait_for(lambda pid=int(done.stdout): not alive(pid))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_program_ends_while_its_compiler_works() -> None:
    """A program that ends neither waits for a plan that is being compiled, nor says a word, nor leaves the compiler behind."""
    script = """
        import time
        from afx.compiler.native_backend.service.process import service
        said = []
        service.submit((time.sleep, 600.0), lambda made, reason: said.append(reason))
        service.submit((time.sleep, 600.0), lambda made, reason: said.append(reason))
        while service.pid is None:
            time.sleep(0.01)
        pid = service.pid
        time.sleep(0.3)  # it is at work
        service.close()
        print(pid, *set(said), len(said), service.is_busy)
        service.submit((time.sleep, 600.0), lambda made, reason: None)
    """
    pid, rest = run_python(script).strip().split(" ", 1)
    assert rest == "the compiling process was closed 2 False"
    wait_for(lambda: not alive(int(pid)))


def test_compiling_a_module_needs_llvm_alone() -> None:
    """The compiler of the back end "native" imports neither NumPy nor afx, as the caller waits for it."""
    script = f"""
        import pickle, runpy, sys
        child = runpy.run_path({child.__file__!r})
        code, error = child["_answer"](pickle.dumps(("define void @f() {{ ret void }}", "")))
        print(len(code) > 0, error[0] == "", "numpy" in sys.modules, "afx" in sys.modules)
    """
    assert run_python(script).split() == ["True", "True", "False", "False"]


def test_nothing_is_loaded_beside_a_module_that_is_compiled() -> None:
    """What the compiler imports for schedules to come waits for a job that a caller waits for."""
    done = threading.Event()
    child.llvm_is_idle.clear()
    try:
        process.load_compiler(("afx",))
        threading.Thread(target=lambda: (process._load(()), done.set())).start()
        assert not done.wait(0.05)
    finally:
        child.llvm_is_idle.set()
    assert done.wait(60)
    child._answer(pickle.dumps(("no module", "")))
    assert child.llvm_is_idle.is_set()


@pytest.mark.parametrize(("slow", "is_warm", "is_here"), [(0.0, False, True), (0.0, True, False), (60.0, False, False)])
def test_slow_calls_do_not_wait_for_imports(
    monkeypatch: pytest.MonkeyPatch, slow: float, is_warm: bool, is_here: bool
) -> None:
    """A plan whose calls take long is lowered by its caller until the compiler has imported what it needs for that."""
    places: list[bool] = []
    monkeypatch.setattr(CompileService, "is_warm", is_warm)
    monkeypatch.setattr(process.service, "submit", lambda *_: places.append(False))
    monkeypatch.setattr(build, "compile_here", lambda *_: places.append(True))
    with use_limits(compile_min_seconds=0.0, slow_min_seconds=slow):
        afx.jit(lambda x: np.exp(x) * 31 + x)(np.ones(9))
    assert places == [is_here]


@use_limits(early_min_seconds=0.0, slow_min_seconds=0.0)
def test_a_plan_that_is_predicted_to_be_slow_is_compiled_beside_its_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Machine code is asked for before NumPy's calls begin, and answers as soon as it is there."""
    monkeypatch.setattr(helper, "_chosen", [""])
    fn = afx.jit(lambda x: afx.scan(lambda c, _: (afx.sin(c) * 1.7, None), x, None, 100)[0])
    x = np.linspace(0, 1, 5)
    plan = fn.lower(x).plan
    begun: list[bool] = []
    run = plan.run_numpy
    monkeypatch.setattr(type(plan), "run_numpy", lambda _, *xs: (begun.append(plan.code.state.reason), run(*xs))[1])
    first = np.asarray(fn(x))
    assert begun == ["it is being compiled"]
    wait_for(lambda: plan.native.is_settled)
    assert same_bits(np.asarray(fn(x)), first)


def test_compiling_a_schedule_loads_the_primitives_that_its_maker_has_loaded(tmp_path: Path) -> None:
    """The compiler imports those of afx's modules that the schedule's process has, and no more."""
    path = tmp_path / "job"
    make = f"""
        import pathlib, pickle
        import numpy as np, afx
        from afx.compiler.native_backend.service.process import make_kernels
        from afx.compiler.native_backend.service.link import layout
        from afx.compiler.target import Target
        from afx.core.registry import loaded_modules
        plan = afx.jit(lambda x: np.sin(x[1:]) * x[:-1] + afx.nn.relu(x[1:])).lower(np.ones(9)).plan
        job = (make_kernels, loaded_modules(), plan.schedule, Target(), layout())
        pathlib.Path({str(path)!r}).write_bytes(pickle.dumps(job))
    """
    run_python(make)
    answer = f"""
        import pathlib, sys
        from afx.compiler.native_backend.service.child import _answer
        made, (error, reason) = _answer(pathlib.Path({str(path)!r}).read_bytes())
        print(error or "made", "afx.ops.nn.activations" in sys.modules, "afx.ops.special.bessel" in sys.modules)
    """
    assert run_python(answer).split() == ["made", "True", "False"]


def test_a_module_that_was_compiled_before_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that gives the module of an earlier one needs no compiler."""
    x = np.linspace(0, 1, 77)
    first = native_of(lambda x: np.exp(x) * 7, x)
    with monkeypatch.context() as patch:
        patch.setattr(CompileService, "submit", lambda *_: pytest.fail("it is compiled again"))
        again = native_of(lambda x: np.exp(x) * 7, x)
    np.testing.assert_array_equal(first(x)[0], again(x)[0])


def test_a_module_that_llvm_refuses_leaves_numpys_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where compiling, or lowering, goes wrong while the caller waits, the plan stays NumPy's and one warning says why."""
    x = np.linspace(0, 1, 13)
    for wrong in (lambda *_: (None, (), "define nonsense"), lambda *_: 1 / 0):
        monkeypatch.setattr(helper, "_WARNED", [])
        monkeypatch.setattr(build, "make_unit", wrong)
        fn = afx.jit(lambda x: np.exp(x) * 9, backend="native")
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            np.testing.assert_array_equal(fn(x), np.exp(x) * 9)
        assert not fn.lower(x).plan.native.is_linked
        wait_for(lambda: helper._WARNED)
        assert not process.service.broken


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_compiles_by_a_child_of_its_own() -> None:
    """After a fork the child process compiles and runs kernels; the compiler ends with the process."""
    script = """
        import os, time
        import numpy as np, afx
        from afx.compiler.native_backend.service.process import service
        x = np.ones(5)
        assert afx.jit(lambda x: x + 1, backend="native").lower(x).plan.native.is_linked
        parent = service.pid
        child = os.fork()
        if child == 0:
            assert service.pid is None
            is_linked = afx.jit(lambda x: x * 2, backend="native").lower(x).plan.native.is_linked
            os._exit(0 if is_linked and service.pid != parent else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert service.pid == parent
        print(parent)
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pid = int(
            run_python(script.replace("import os, time", 'import os, time, warnings; warnings.simplefilter("ignore")'))
        )
    wait_for(lambda: not alive(pid))


def alive(pid: int) -> bool:
    """Tell whether a process runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_dropped_functions_give_their_code_back() -> None:
    """Kernels of dropped functions are freed while others still run."""
    kept = native_of(lambda x: x * 2, np.ones(4))
    for k in range(5):
        assert native_of(lambda x, k=k: x + k, np.ones(4))(np.ones(4))[0].tolist() == [1.0 + k] * 4
    assert kept(np.ones(4))[0].tolist() == [2.0] * 4


def test_builtins_outlive_what_else_knows_their_code() -> None:
    """A kernel's builtin holds its code and its definition, which Python reads when it frees the builtin."""
    call = Native(lambda x: x * 2, np.ones(4)).kernel.call
    gc.collect()
    x, out = np.arange(4.0), np.empty(4)
    assert call(x, out, np.empty(64, np.uint8)) == 0
    assert out.tolist() == [0.0, 2.0, 4.0, 6.0]


def test_donated_arguments_and_python_numbers() -> None:
    """Functions that take their arguments' memory, or Python numbers, run as machine code with the plan's bits."""
    x = np.linspace(-1, 1, 50)

    def step(p: Any, g: Any) -> Any:
        return p - 0.1 * g, np.tanh(g) * 2

    expected = afx.jit(step, backend="numpy")(x, x)
    with use_target(FIRST_TIER):
        donating = afx.jit(step, donate_argnums=0)
        assert donating.lower(afx.asarray(x), x).plan.native.is_linked
        for z, want in zip(donating(afx.asarray(x), x), expected, strict=True):
            assert same_bits(z, want)
        scaled = afx.jit(lambda x, rate: np.tanh(x) * rate + x * (rate * 2))
        y = x.astype(np.float32)
        assert scaled.lower(y, 0.1).plan.native.is_linked
        for rate in (0.1, 0.3, 1e-3):
            assert same_bits(scaled(y, rate), np.tanh(y) * np.float32(rate) + y * np.float32(rate * 2))


def test_long_plans_are_compiled_unless_all_their_steps_differ() -> None:
    """Thousands of steps that repeat are one kernel, as equal ones share a function; too many different ones stay NumPy's."""

    def unrolled(x: Any) -> Any:
        for _ in range(400):
            x = np.tanh(x[::-1] * 0.5) + x.max()
        return x

    x = np.linspace(-1, 1, 9)
    native = Native(unrolled, x)
    schedule = native.plan.schedule
    assert 1500 < len(schedule) < native.plan.target.native.lower_max_instructions
    assert same_bits(native(x)[0][0], np.asarray(native.plan.run_numpy(x)[0]))
    target = Target(native=NativeTarget(module_max_functions=3))
    made, (kind, reason) = child._answer(pickle.dumps((make_kernels, (), schedule, target, layout())))
    assert (made, kind) == (None, "UnsupportedError")
    assert "different loops" in reason


@use_limits(compile_min_seconds=0.0)
def test_a_dropped_plan_frees_machine_code_that_nobody_called() -> None:
    """Code that arrived after the last call of a function goes with it, without the garbage collector."""
    fn = afx.jit(lambda x: np.sin(x) * np.exp(x) - 1)
    x = np.linspace(0, 1, 1000)
    fn(x)
    code = fn.lower(x).plan._native
    wait_for(lambda code=code: code.state.reason != "it is being compiled" or code.state._arrived)
    gc.collect()
    gc.disable()
    try:
        gone = weakref.ref(code)
        del fn, code
        assert gone() is None
    finally:
        gc.enable()
