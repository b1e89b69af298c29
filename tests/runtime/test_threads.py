"""Threads: whoever calls, BLAS and the user's memory are as they were, and nothing is written afterwards."""

import ctypes
import gc
import importlib
import importlib.util
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import afx
from afx.runtime import thread_pool as workers
from afx.runtime.blas import Blas, blas
from afx.runtime.buffer_cache import without_debugger_refs
from afx.runtime.thread_pool import TURN_SECONDS, YOUNG_OBJECTS, get_threads, run_blocks, set_threads, undisturbed


def count_of_blas() -> list[int]:
    """Return the numbers of threads that BLAS libraries use now; scikit-learn brings OpenMP, which is not afx's to limit."""
    pools = importlib.import_module("threadpoolctl").threadpool_info()
    return [pool["num_threads"] for pool in pools if pool["user_api"] == "blas"]


@pytest.fixture
def two_threads() -> Iterator[None]:
    """BLAS with two threads, where there are such."""
    control = importlib.import_module("threadpoolctl").ThreadpoolController()
    with control.limit(limits=2):
        yield


@pytest.mark.usefixtures("two_threads")
def test_blas_is_set_back_whichever_thread_leaves_last() -> None:
    """A thread that goes on living does not keep the others from holding BLAS, or from setting it back."""
    before = count_of_blas()
    inside, go, done = threading.Event(), threading.Event(), threading.Event()

    def first() -> None:
        with blas:
            inside.set()
            go.wait()
        done.wait()

    thread = threading.Thread(target=first, daemon=True)
    thread.start()
    inside.wait()
    with blas:
        go.set()
        while blas._depth > 1:
            time.sleep(0.001)
        assert set(count_of_blas()) <= {1}
    assert count_of_blas() == before
    with blas:
        assert set(count_of_blas()) <= {1}
    assert count_of_blas() == before
    done.set()
    thread.join()


class Broken:
    """A library whose number of threads cannot be made 1."""

    count = 4

    def get_num_threads(self) -> int:
        """Return the number."""
        return self.count

    def set_num_threads(self, count: int) -> None:
        """Set it, but to 1."""
        if count == 1:
            raise OSError("no")
        self.count = count


def test_an_error_while_blas_is_held_leaves_it_free() -> None:
    """The next call starts from the beginning."""
    held, library = Blas(), Broken()
    held._libraries = [library]
    for _ in range(2):
        with pytest.raises(OSError, match="no"), held:
            pass
    assert held._depth == 0
    assert library.count == 4


def test_an_interrupt_waits_for_every_helper() -> None:
    """When it is raised nobody writes any more, and the helpers are free."""
    before = get_threads()
    set_threads(3)
    out = np.zeros(3)
    began = threading.Barrier(3)

    def block(k: int, *_: Any) -> None:
        began.wait(10)
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        time.sleep(0.05 * (1 + k))
        out[k] = 1.0

    try:
        with pytest.raises(KeyboardInterrupt):
            run_blocks(block, 3, 1, [()] * 3, ())
        assert out.sum() == 2.0
        assert not workers._pool[0].lock.locked()
    finally:
        set_threads(before)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no such timer")
def test_what_a_signal_handler_raises_waits_for_every_helper() -> None:
    """A timeout of the user's own, raised while the caller waits, comes when nobody writes any more."""
    before, handler = get_threads(), signal.getsignal(signal.SIGALRM)
    set_threads(2)
    out = np.zeros(2)
    began = threading.Barrier(2)

    def block(k: int, *_: Any) -> None:
        began.wait(10)
        if threading.current_thread() is threading.main_thread():
            signal.setitimer(signal.ITIMER_REAL, 0.02)
        else:
            time.sleep(0.3)
        out[k] = 1.0

    def stop(*_: Any) -> None:
        raise TimeoutError("too late")

    signal.signal(signal.SIGALRM, stop)
    try:
        with pytest.raises(TimeoutError, match="too late"):
            run_blocks(block, 2, 1, [()] * 2, ())
        assert out.sum() == 2.0
        assert not workers._pool[0].lock.locked()
    finally:
        signal.signal(signal.SIGALRM, handler)
        set_threads(before)


def test_a_late_helper_does_nothing() -> None:
    """A caller that has computed all blocks does not wait for helpers that are still busy elsewhere."""
    before = get_threads()
    set_threads(2)
    go = threading.Event()
    pool = workers._pool[0]
    try:
        with pool.lock:
            (helper,) = pool.helpers(1)
        helper.inbox.put(lambda: go.wait(10) and None)
        done: list[int] = []
        run_blocks(lambda k, *_: done.append(k), 4, 1, [(), ()], ())
        assert sorted(done) == [0, 1, 2, 3]
        go.set()
        run_blocks(lambda k, *_: done.append(k), 4, 1, [(), ()], ())
        time.sleep(0.01)
        assert sorted(done) == sorted([0, 1, 2, 3] * 2)
    finally:
        go.set()
        set_threads(before)


def test_references_are_counted_without_those_of_a_debugger() -> None:
    """A trace function that looks at local names holds on to them."""

    def trace(frame: Any, *_: Any) -> Any:
        frame.f_locals  # noqa: B018 - looking makes the references
        return trace

    def count() -> int:
        for array in [np.empty(1)]:
            return sys.getrefcount(array)
        raise AssertionError

    plain = without_debugger_refs(count)
    old = sys.gettrace()
    sys.settrace(trace)
    try:
        watched = without_debugger_refs(count)
    finally:
        sys.settrace(old)
    assert watched == plain


def test_plans_keep_few_sets_of_buffers() -> None:
    """However many calls ran at once."""
    gate = threading.Barrier(20)
    fn = afx.jit(lambda x: afx.sin(x) * 2)
    x = np.ones(10)
    plan = fn.lower(x).plan
    fn(x)

    def work() -> None:
        gate.wait(10)
        for _ in itertools.repeat(None, 50):
            fn(x)

    threads = [threading.Thread(target=work) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 1 <= len(plan.idle.recent) <= 8


@pytest.mark.parametrize(
    ("shape", "dtype"), [((300, 300), "float64"), ((1000, 200), "float32"), ((200, 300), "float64")]
)
def test_the_bits_of_products_do_not_depend_on_threads(shape: tuple[int, int], dtype: str) -> None:
    """Sixty calls for several numbers of threads, beside another busy one, give one result."""
    x = np.random.default_rng(0).normal(size=shape).astype(dtype)
    fn = afx.jit(lambda x: x @ x.T @ x)
    found, before, stop = set[bytes](), get_threads(), threading.Event()

    def load() -> None:
        y = np.ones((200, 200))
        while not stop.is_set():
            y @ y

    busy = threading.Thread(target=load)
    busy.start()
    try:
        for k in range(60):
            afx.set_threads(1 + k % 3)
            found.add(np.asarray(fn(x)).tobytes())
    finally:
        afx.set_threads(before)
        stop.set()
        busy.join()
    if importlib.util.find_spec("threadpoolctl") is not None:
        assert len(found) == 1


@pytest.mark.parametrize(("arguments", "words"), [({"count": 0}, "1 or more"), ({"count": 1.5}, "1 or more")])
def test_threads_are_checked(arguments: dict[str, Any], words: str) -> None:
    """A number of threads is a whole one above 0, and products have one of three words."""
    with pytest.raises(afx.errors.ArgumentError, match=words):
        afx.set_threads(**arguments)
    with pytest.raises(afx.errors.ArgumentError, match="'auto', 'blas' or 'plan'"):
        afx.set_threads(products="both")  # what is tested


def test_a_helper_that_came_too_late_holds_nothing() -> None:
    """What a call was given can be given away behind it, though a busy helper has not yet seen that it is done."""

    class Thing:
        pass

    thing, gate = Thing(), threading.Event()
    known = weakref.ref(thing)

    def wait() -> None:
        gate.wait(10)

    before = get_threads()
    set_threads(2)
    try:
        run_blocks(lambda *_: None, 2, 1, [(), ()], ())  # which makes the helper
        workers._pool[0].workers[0].inbox.put(wait)
        run_blocks(lambda *_: None, 4, 1, [(), ()], (thing,))
        del thing
        assert known() is None
    finally:
        gate.set()
        set_threads(before)


def test_a_library_that_comes_later_is_held_too() -> None:
    """SciPy's own BLAS, loaded behind the first plan, is limited as NumPy's is."""
    code = (
        "import numpy as np, threadpoolctl\n"
        "from afx.runtime.blas import blas\n"
        "with blas: pass\n"
        "import scipy.linalg, scipy.special\n"
        "with threadpoolctl.ThreadpoolController().limit(limits=2), blas:\n"
        "    print({pool['num_threads'] for pool in threadpoolctl.threadpool_info()})\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "{1}"


def test_turns_are_short_inside_of_blocks_alone() -> None:
    """The interpreter's interval is set back behind the last block, errors included, unless the program set another one."""
    before = sys.getswitchinterval()
    try:
        with undisturbed:
            with pytest.raises(ValueError, match="invalid"), undisturbed:
                int("no")
            assert sys.getswitchinterval() == pytest.approx(min(before, TURN_SECONDS))
        assert sys.getswitchinterval() == before
        with undisturbed:
            sys.setswitchinterval(0.02)
        assert sys.getswitchinterval() == pytest.approx(0.02)
        sys.setswitchinterval(1e-5)
        with undisturbed:
            assert sys.getswitchinterval() == pytest.approx(1e-5)
    finally:
        sys.setswitchinterval(before)


def test_turns_are_short_until_all_threads_have_left() -> None:
    """A block that ends in one thread changes nothing for another one, and a trace that fails leaves nothing behind."""
    before = sys.getswitchinterval()
    inside, go = threading.Event(), threading.Event()

    def stay() -> None:
        with undisturbed:
            inside.set()
            go.wait(60)

    thread = threading.Thread(target=stay)
    thread.start()
    inside.wait(60)
    with undisturbed:
        pass
    assert sys.getswitchinterval() < before
    go.set()
    thread.join()
    assert sys.getswitchinterval() == before
    with pytest.raises(afx.errors.AfxError):
        afx.jit(lambda x: 1 if x > 0 else 2)(afx.ones(()))
    assert sys.getswitchinterval() == before


def test_garbage_is_looked_for_less_often_inside_of_blocks_alone() -> None:
    """The collector's thresholds are set back, errors included, unless the program set others; who turned it off, keeps it so."""
    before = gc.get_threshold()
    try:
        with undisturbed:
            with pytest.raises(ValueError, match="invalid"), undisturbed:
                int("no")
            assert gc.get_threshold() == (max(before[0], YOUNG_OBJECTS), *before[1:])
        assert gc.get_threshold() == before
        for own in ((0, 5, 5), (300, 5, 5)):
            with undisturbed:
                gc.set_threshold(*own)
            assert gc.get_threshold() == own
            with undisturbed:
                assert (gc.get_threshold()[0] == 0) == (own[0] == 0)
            assert gc.get_threshold() == own
    finally:
        gc.set_threshold(*before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no forks")
def test_forks_do_not_inherit_short_turns() -> None:
    """A process forked off within a block, whose other threads are gone, has the interval of before; the parent's stays short."""
    before = sys.getswitchinterval()
    with undisturbed:
        if (pid := os.fork()) == 0:
            os._exit(sys.getswitchinterval() != before)
        assert os.waitpid(pid, 0)[1] == 0
        assert sys.getswitchinterval() < before
    assert sys.getswitchinterval() == before


def test_holding_blas_keeps_the_lock_of_the_interpreter() -> None:
    """OpenBLAS's own functions, which set a number, are called without giving the lock to other threads."""
    pytest.importorskip("threadpoolctl", reason="it finds BLAS")
    with blas:
        own = [library for library in blas._libraries or () if type(library).__name__ == "_Direct"]
        for library in own:
            assert type(library.set_num_threads)._flags_ & ctypes.PyDLL._func_flags_
            assert library.get_num_threads() == 1
