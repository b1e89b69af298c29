"""Trials: who runs a function, NumPy's calls or the kernel."""

from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from afx.compiler.native_backend.run import trial
from afx.compiler.native_backend.run.job import CodeJob, Kernels
from afx.compiler.native_backend.run.swap import Doubted, Linked, NativeCode, OnTrial, Resting, Trusted, Waiting
from afx.compiler.schedule.schedule import Schedule
from afx.compiler.target import DEFAULT, Target, current, use_target
from afx.runtime.buffer_cache import IdleBuffers

TRIAL_CALLS, TRIAL_MAX_CALLS = DEFAULT.native.trial_min_calls, DEFAULT.native.trial_max_calls


class Clocks:
    """Clocks that go on by what calls take, and how often each ran."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = (0.0, 0.0, 0.0)
        self.counts = [0, 0]
        self.drops = 0
        monkeypatch.setattr(trial, "read_clocks", lambda: self.now)

    def take(self, wall: float, own: float, everyone: float) -> None:
        """Let time pass."""
        self.now = (self.now[0] + wall, self.now[1] + own, self.now[2] + everyone)


class Plan:
    """A plan of no instructions, whose machine code is still to come."""

    flushes = False

    def __init__(self) -> None:
        self.code = NativeCode(CodeJob(Schedule((), (), (), ()), Target(), (), IdleBuffers(0, 1)))

    def run_numpy(self, *_: Any) -> list[Any]:
        """Return what tells that it ran."""
        return [0]

    def drop_buffers(self) -> None:
        """Keep none."""


Taken = Iterator[tuple[float, float, float]]


def tried(clocks: Clocks, numpy_times: Taken, kernel_times: Taken, refuses: bool = False) -> str:
    """Return what a trial comes to, of calls that take this long."""

    class Timed(Plan):
        def run_numpy(self, *_: Any) -> list[Any]:
            clocks.counts[0] += 1
            clocks.take(*next(numpy_times))
            return [0]

        def drop_buffers(self) -> None:
            clocks.drops += 1

    def kernel(_values: Any, _plan: Any) -> list[Any] | None:
        clocks.counts[1] += 1
        clocks.take(*next(kernel_times))
        return None if refuses else [0]

    plan = Timed()
    code, kernels = plan.code, Kernels(kernel, IdleBuffers(0, 1), is_whole=True)
    code.become(OnTrial(code.job, kernels))
    while code.is_linked and code.state.run is not kernel:
        if code.state.run([], plan) is None:
            code.note_refusal()
    assert type(code.state) is (Linked if code.is_linked else Resting if refuses else Doubted)
    return "linked" if code.is_linked else code.status.reason


def always(wall: float, own: float, everyone: float) -> Taken:
    """Return calls that all take this long."""
    while True:
        yield wall, own, everyone


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    """Clocks that stand still."""
    return Clocks(monkeypatch)


def test_the_faster_one_stays(clocks: Clocks) -> None:
    """Where one is faster by far, a few calls of each decide."""
    assert tried(clocks, always(2.0, 2.0, 2.0), always(1.0, 1.0, 1.0)) == "linked"
    assert clocks.counts == [TRIAL_CALLS, TRIAL_CALLS]
    assert clocks.drops == 1  # NumPy's calls need no buffers any longer
    assert tried(clocks, always(1.0, 1.0, 1.0), always(2.0, 2.0, 2.0)) == "NumPy's calls were faster"
    assert clocks.drops == 1


def test_other_programs_do_not_decide(clocks: Clocks) -> None:
    """A kernel on one thread that had to wait for its processor in every call is still the faster one."""
    assert tried(clocks, always(2.0, 2.0, 2.0), always(9.0, 1.0, 1.0)) == "linked"
    assert tried(clocks, always(9.0, 1.0, 1.0), always(2.0, 2.0, 2.0)) == "NumPy's calls were faster"


def test_calls_on_several_threads_count_by_the_clock(clocks: Clocks) -> None:
    """What threads share out takes as long as the clock says, not as long as the calling thread has worked."""
    assert tried(clocks, always(1.5, 1.5, 1.5), always(2.0, 0.5, 3.0)) == "NumPy's calls were faster"
    assert tried(clocks, always(2.0, 0.5, 3.0), always(1.5, 1.5, 1.5)) == "linked"


def test_close_ones_are_tried_again(clocks: Clocks) -> None:
    """Where both take about as long, more calls are timed, and the least time decides."""
    late = iter([(1.1, 1.1, 1.1)] * (TRIAL_MAX_CALLS - 1) + [(0.9, 0.9, 0.9)])
    assert tried(clocks, always(1.0, 1.0, 1.0), late) == "linked"
    assert clocks.counts == [TRIAL_MAX_CALLS, TRIAL_MAX_CALLS]
    assert tried(clocks, always(1.0, 1.0, 1.0), always(1.1, 1.1, 1.1)) == "NumPy's calls were faster"
    assert clocks.counts == [2 * TRIAL_MAX_CALLS, 2 * TRIAL_MAX_CALLS]


def test_a_kernel_that_refuses_does_not_stay(clocks: Clocks) -> None:
    """Calls that the kernel leaves to NumPy cost both."""
    kernel = always(0.1, 0.1, 0.1)
    assert tried(clocks, always(1.0, 1.0, 1.0), kernel, refuses=True).startswith("machine code left 3 calls in a row")
    assert clocks.counts == [0, Target().native.refused_max_calls]


def test_one_long_call_decides_for_a_kernel(clocks: Clocks) -> None:
    """Where NumPy's plan takes several times as long, it runs once; a slow first call of a kernel decides nothing."""
    assert tried(clocks, always(5.0, 5.0, 5.0), always(1.0, 1.0, 1.0)) == "linked"
    assert clocks.counts == [1, 1]
    short = DEFAULT.native.trial_single_min_seconds / 2
    assert tried(clocks, always(short, short, short), always(short / 9, short / 9, short / 9)) == "linked"
    assert clocks.counts == [1 + TRIAL_CALLS, 1 + TRIAL_CALLS]
    first_is_slow = iter([(9.0, 9.0, 9.0)] + [(0.1, 0.1, 0.1)] * TRIAL_CALLS)
    assert tried(clocks, always(1.0, 1.0, 1.0), first_is_slow) == "linked"


def test_who_was_faster_is_asked_again() -> None:
    """Minutes after NumPy's calls were faster, which a busy machine may have said, the kernel is tried once more."""
    plan = Plan()
    code = plan.code
    doubted = Doubted(code.job, Kernels(lambda *_: [1], IdleBuffers(0, 1), is_whole=True))
    code.become(doubted)
    assert doubted.run([], plan) == [0]
    assert code.state is doubted
    doubted.end = 0.0
    assert doubted.run([], plan) == [1]
    assert isinstance(code.state, OnTrial)


def test_a_kept_verdict_is_no_reason_for_a_long_call() -> None:
    """What an earlier process found is trusted for short calls: after a longer one, machine code is looked for."""
    for seconds, state in ((60.0, Trusted), (0.0, Waiting)):
        plan = Plan()
        plan.code.become(Trusted())
        service = attrs.evolve(current.target.service, trusted_max_seconds=seconds)
        with use_target(attrs.evolve(current.target, service=service)):
            assert plan.code.state.run([], plan) == [0]
        assert type(plan.code.state) is state
