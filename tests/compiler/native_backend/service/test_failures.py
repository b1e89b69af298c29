"""Whatever goes wrong in making machine code: calls are answered by NumPy's plan, and no plan waits for ever."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import afx

pytest.importorskip("llvmlite", reason="machine code is an extra")

from afx.compiler.native_backend.run import start, swap
from afx.compiler.native_backend.service import build, helper
from afx.compiler.native_backend.service.process import CompileService
from afx.core.registry import loaded_modules
from tests.compiler.native_backend.native_run import ask, run_python, schedule_of, use_limits, wait_for

ROOT = Path(afx.__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="machine code needs POSIX")


@pytest.fixture(autouse=True)
def _nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin each test as a process that has warned of nothing."""
    monkeypatch.setattr(helper, "_WARNED", [])


def raises(error: BaseException) -> Callable[..., Any]:
    """Return a function that raises."""

    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


def test_modules_may_be_imported_while_they_are_listed() -> None:
    """A thread that imports modules changes `sys.modules` at any time: listing those of afx goes on."""
    ended = threading.Event()

    def change() -> None:
        k = 0
        while not ended.is_set():
            k += 1
            sys.modules[f"none_{k}"] = sys
            del sys.modules[f"none_{k}"]

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(3000):
            assert "afx.ops._basic" in loaded_modules()
    finally:
        ended.set()
        thread.join()


@use_limits(compile_min_seconds=0.0)
@pytest.mark.parametrize("backend", ["auto", "native"])
@pytest.mark.parametrize("error", [RuntimeError("changed"), OSError("no memory"), MemoryError()])
def test_no_error_of_the_compiler_leaves_a_call(
    backend: Any, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What goes wrong in handing a plan over is said once; the call has NumPy's answer, and the plan stays with it."""
    monkeypatch.setattr(start, "start", raises(error))
    fn = afx.jit(lambda x: np.exp(x) * 3, backend=backend)
    x = np.linspace(0, 1, 11)
    native = fn.lower(x).plan._native
    assert native is not None

    def call_and_wait() -> None:
        fn(x)
        wait_for(lambda: native.is_settled)

    with pytest.warns(RuntimeWarning, match="could not be given"):
        call_and_wait()
    np.testing.assert_array_equal(fn(x), np.exp(x) * 3)
    assert "could not be given" in native.status.reason


@pytest.mark.parametrize("name", ["remember_code", "put_code", "keep_kernels"])
@pytest.mark.parametrize("error", [MemoryError(), RecursionError(), ValueError("a null byte")])
def test_what_cannot_be_kept_runs_all_the_same(name: str, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that waits for machine code has it, whatever goes wrong in keeping it for later ones."""
    monkeypatch.setattr(build, name, raises(error))
    factor, x, found = float(np.random.default_rng().random()), np.ones(3), list[Any]()  # of which nothing is kept
    fn = afx.jit(lambda x: np.exp(x) * factor, backend="native")
    thread = threading.Thread(target=lambda: found.append(fn(x)), daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    np.testing.assert_allclose(found, [np.exp(x) * factor], rtol=1e-12)
    assert fn.lower(x).status.backend == "native"


@use_limits(compile_min_seconds=0.0)
@pytest.mark.parametrize("backend", ["auto", "native"])
def test_an_interrupt_while_a_compilation_starts_leaves_it_to_the_next_call(
    backend: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C ends the call; the next one asks for machine code again."""
    fn = afx.jit(lambda x: np.exp(x) * 4, backend=backend)
    x = np.linspace(0, 1, 11)
    with monkeypatch.context() as patch:
        patch.setattr(swap, "start", raises(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            fn(x)
    fn(x)
    native = fn.lower(x).plan.native
    assert native is not None
    wait_for(lambda: native.is_settled)


def test_a_plan_waits_for_its_own_machine_code_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a thread waits for `backend="native"`, other plans run, and print their groups."""
    started = threading.Event()
    waiting: list[swap.NativeCode] = []

    def begin(code: swap.NativeCode) -> None:
        waiting.append(code)
        started.set()

    x = np.ones(3)
    slow = afx.jit(lambda x: x * 7 + 1, backend="native")
    with monkeypatch.context() as patch:
        patch.setattr(swap, "start", begin)
        thread = threading.Thread(target=lambda: slow(x), daemon=True)
        thread.start()
        assert started.wait(10)
        fn = afx.jit(lambda x: x * 8 + 1)
        np.testing.assert_array_equal(fn(x), x * 9)
        assert fn.lower(x).groups is not None
        assert thread.is_alive()
        waiting[0].become(swap.Refused("the test is over"))
        thread.join(10)
    assert not thread.is_alive()


def test_a_forked_process_begins_a_compilation_of_its_own() -> None:
    """A fork while plans compile, and while a thread waits for one, leaves the child's plans free to begin again."""
    script = """
        import os, sys, threading, time, warnings
        import numpy as np, afx
        from afx.compiler.native_backend.run import swap
        from afx.compiler.target import NativeTarget, Target, current
        warnings.simplefilter("ignore")
        current.set(Target(native=NativeTarget(compile_min_seconds=0.0)))
        start, swap.start = swap.start, lambda code: None  # under way for ever
        x = np.ones(5)
        fns = [afx.jit(lambda x: np.sin(x) * 2), afx.jit(lambda x: np.cos(x) * 2, backend="native")]
        fns[0](x)
        threading.Thread(target=lambda: fns[1](x), daemon=True).start()
        plans = [fns[0].lower(x).plan._native]
        time.sleep(0.5)
        assert plans[0].status.reason == "it is being compiled"
        child = os.fork()
        if child == 0:
            swap.start = start
            end = time.monotonic() + 30
            while not plans[0].is_settled and time.monotonic() < end:
                fns[0](x)
            ok = plans[0].is_settled and np.allclose(fns[1](x), np.cos(x) * 2)
            os._exit(0 if ok and fns[1].lower(x).plan.native.is_linked else 1)
        print(os.waitpid(child, 0)[1])
        sys.stdout.flush()
        os._exit(0)
    """
    assert run_python(script).split() == ["0"]


def test_forks_within_a_first_call() -> None:
    """Processes that another thread forks off while a first call loads modules, starts the compiler and links end in time."""
    script = """
        import os, threading, time, warnings
        import numpy as np, afx
        from afx.compiler.target import NativeTarget, Target, current
        warnings.simplefilter("ignore")
        current.set(Target(native=NativeTarget(compile_min_seconds=0.0)))
        x, pids = np.linspace(0, 1, 50), []
        fn = afx.jit(lambda x: np.sin(x) * 2 + x)

        def fork() -> None:
            for _ in range(5):
                pid = os.fork()
                if pid == 0:
                    threading.Timer(60, os._exit, [1]).start()
                    os._exit(0 if np.array_equal(fn(x), np.sin(x) * 2 + x) else 1)
                pids.append(pid)
                time.sleep(0.02)

        thread = threading.Thread(target=fork)
        thread.start()
        while thread.is_alive():
            fn(x)
        print(*[os.waitpid(pid, 0)[1] for pid in pids])
    """
    assert run_python(script).split() == ["0"] * 5


def run_apart(script: str, folder: Path, **environment: str) -> str:
    """Return what a script prints in a process of its own in a folder."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


COMPILES = """
    import time
    import numpy as np, afx
    from afx.compiler.native_backend.run import swap
    from afx.compiler.target import NativeTarget, Target, current
    current.set(Target(native=NativeTarget(compile_min_seconds=0.0)))
    {before}
    fn = afx.jit(lambda x: np.sin(x) * 2 + x)
    x = np.linspace(0, 1, 50)
    native, end = fn.lower(x).plan.native, time.monotonic() + 60
    while not native.is_settled and time.monotonic() < end:
        assert np.array_equal(fn(x), np.sin(x) * 2 + x)
        time.sleep(0.001)
    print("compiled" if native.is_linked or "faster" in native.status.reason else native.status.reason)
"""


def test_a_working_directory_that_is_gone(tmp_path: Path) -> None:
    """A program whose folder was deleted gets machine code."""
    before = "import os; os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')"
    assert run_apart(COMPILES.format(before=before), tmp_path) == "compiled\n"


def test_an_llvmlite_that_cannot_be_loaded(tmp_path: Path) -> None:
    """A broken llvmlite leaves every plan to NumPy, and says so."""
    (tmp_path / "llvmlite").mkdir()
    (tmp_path / "llvmlite" / "__init__.py").write_text("__version__ = '0'")
    (tmp_path / "llvmlite" / "binding.py").write_text("raise OSError('libllvmlite.so: no such file')")
    found = run_apart(COMPILES.format(before=""), tmp_path, PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    assert "no such file" in found


def test_afx_in_an_archive(tmp_path: Path) -> None:
    """Imported from a zip archive, afx compiles as from a folder."""
    with zipfile.ZipFile(tmp_path / "afx.zip", "w") as archive:
        for path in (ROOT / "afx").rglob("*.py"):
            archive.write(path, path.relative_to(ROOT))
    found = run_apart(COMPILES.format(before="print(afx.__file__)"), tmp_path, PYTHONPATH=str(tmp_path / "afx.zip"))
    assert found.splitlines()[0].endswith("afx.zip/afx/__init__.py")
    assert found.splitlines()[1:] == ["compiled"]


@pytest.mark.skipif(sys.platform != "linux", reason="reads what the process takes from /proc")
def test_a_limit_of_memory_leaves_numpys_plan(tmp_path: Path) -> None:
    """Where no more memory is to be had for LLVM, calls have NumPy's answers, and plans do not wait for ever."""
    before = """
    import resource
    pages = int(open("/proc/self/statm").read().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (40 << 20),) * 2)
    """
    found = run_apart(COMPILES.format(before=textwrap.dedent(before).replace("\n", "\n    ")), tmp_path)
    assert found not in ("waiting\n", "compiling\n")


SLEEPS = """
import pathlib, sys, time
for _ in range(2):  # where modules are, and a job
    sys.stdin.buffer.read(int.from_bytes(sys.stdin.buffer.read(8), "little"))
pathlib.Path(sys.argv[1]).touch()
time.sleep(60)
"""


def test_a_killed_compiler_is_replaced_once(tmp_path: Path) -> None:
    """The plan that a killed child worked on stays NumPy's, the next one has a new child; behind a second end there is none."""
    mark = tmp_path / "mark"
    service = CompileService([sys.executable, "-c", SLEEPS, str(mark)])
    schedule = schedule_of(lambda x: x + 1, np.ones(3))
    for turn in range(2):
        done, found = ask(service, schedule)
        wait_for(mark.exists)
        mark.unlink()
        assert service.pid is not None
        os.kill(service.pid, signal.SIGKILL)
        assert done.wait(20)
        assert found == [None]
        assert bool(service.broken) == bool(turn)
    assert "ended" in service.broken
    again, found = ask(service, schedule)
    assert again.wait(1)
    assert found == [None]
    assert helper._WARNED == ["plan", "compiler"]
    service.close()


def test_an_end_costs_the_plan_that_was_worked_on_alone(tmp_path: Path) -> None:
    """Jobs that wait behind one whose child is killed are compiled by the next one; an answer makes good for the end."""
    ends_once = tmp_path / "sleeps.py"
    ends_once.write_text(
        "import pathlib, runpy, sys\n"
        f"if not pathlib.Path(sys.argv[1]).exists():\n    exec({SLEEPS!r})\n"
        "runpy.run_path(sys.argv[2])['main']()\n"
    )
    child = str(Path(helper.__file__).with_name("child.py"))
    service = CompileService([sys.executable, str(ends_once), str(tmp_path / "mark"), child])
    asked = [ask(service, schedule_of(lambda x, k=k: x * 3 + k, np.ones(3))) for k in range(3)]
    wait_for((tmp_path / "mark").exists)
    assert service.pid is not None
    os.kill(service.pid, signal.SIGKILL)
    assert all(done.wait(60) for done, _ in asked)
    assert [found == [None] for _, found in asked] == [True, False, False]
    assert not service.broken
    assert service._ends == 0
    service.close()


def test_a_stopped_compiler_is_given_up() -> None:
    """A child that is stopped, over its work or before it has read a large job, is replaced after a bounded time."""
    service = CompileService(patience=0.7)
    x = np.ones(3)
    done, found = ask(service, schedule_of(lambda x: x + 4, x))
    assert done.wait(60)
    assert found[0]
    assert service.pid is not None
    os.kill(service.pid, signal.SIGSTOP)
    begun = time.monotonic()
    done, found = ask(service, schedule_of(lambda x: x + 5, x))
    assert done.wait(30)
    assert found == [None]
    assert time.monotonic() - begun < 15
    done, found = ask(service, schedule_of(lambda x: x + 6, x))
    assert done.wait(60)
    assert found[0]
    os.kill(service.pid, signal.SIGSTOP)
    large = np.ones(100_000)  # more than a pipe holds
    done, found = ask(service, schedule_of(lambda x: x * large + np.arange(100_000.0), large))
    assert done.wait(60)
    service.close()
    assert helper._WARNED in ([], ["plan"])


def test_a_compiler_at_work_is_waited_for(tmp_path: Path) -> None:
    """A child says that it is at work: patience is for those that say nothing."""
    slow = tmp_path / "slow.py"
    slow.write_text(
        "import runpy, sys, time\n"
        "names = runpy.run_path(sys.argv[1])\n"
        "main, answer = names['main'], names['_answer']\n"
        "main.__globals__['_answer'] = lambda data: time.sleep(4) or answer(data)\n"
        "main()\n"
    )
    child = str(Path(helper.__file__).with_name("child.py"))
    service = CompileService([sys.executable, str(slow), child], patience=1.5)
    done, found = ask(service, schedule_of(lambda x: x - 4, np.ones(3)))
    assert done.wait(60)
    assert found[0]
    assert not helper._WARNED
    service.close()
