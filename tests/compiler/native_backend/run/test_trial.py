"""Trials: who runs a function, NumPy's calls or the kernel."""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from afx.compiler.native_backend.run import swap, trial
from afx.compiler.native_backend.run.job import CodeJob, Kernels
from afx.compiler.native_backend.run.swap import Doubted, Linked, NativeCode, OnTrial, Resting, Trusted, Waiting
from afx.compiler.schedule.schedule import Schedule
from afx.compiler.target import DEFAULT, Target, current, use_target
from afx.runtime.buffer_cache import IdleBuffers

TRIAL_CALLS, TRIAL_MAX_CALLS = DEFAULT.native.trial_min_calls, DEFAULT.native.trial_max_calls


class Clocks:
    """Clocks that go on by what calls take, and how often each ran."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now: tuple[float, ...] = (0.0, 0.0, 0.0)
        self.counts = [0, 0]
        self.drops = 0
        monkeypatch.setattr(trial, "read_clocks", lambda: self.now)
        for module in (trial, swap):
            monkeypatch.setattr(module, "read_time", lambda: self.now[0])

    def take(self, wall: float, own: float, everyone: float) -> None:
        """Let milliseconds pass."""
        times = zip(self.now, (wall, own, everyone), strict=True)
        self.now = tuple([now + 1e-3 * milliseconds for now, milliseconds in times])


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


def tried(clocks: Clocks, numpy_times: Taken, kernel_times: Taken, *, refuses: bool = False, earlier: int = 0) -> str:
    """Return what a trial comes to, of calls that take so many milliseconds, after some earlier calls of NumPy's plan."""

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
    for _ in range(earlier):
        trial.run_timed(code.job, [], plan, is_disturbed=False)
    clocks.counts = [0, 0]
    code.become(OnTrial(code.job, kernels))
    while code.is_linked and code.state.run is not kernel:
        if code.state.run([], plan) is None:
            code.note_refusal()
    assert type(code.state) is (Linked if code.is_linked else Resting if refuses else Doubted)
    return "linked" if code.is_linked else code.status.reason


def always(wall: float, own: float | None = None, everyone: float | None = None, count: int | None = None) -> Taken:
    """Return calls, so many of them or any number, that all take so many milliseconds."""
    own = wall if own is None else own
    for _ in itertools.count() if count is None else range(count):
        yield wall, own, own if everyone is None else everyone


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    """Clocks that stand still."""
    return Clocks(monkeypatch)


SLOWER = "NumPy's calls were faster"


def test_the_faster_one_stays(clocks: Clocks) -> None:
    """Where one is faster by far, a few calls of each decide."""
    assert tried(clocks, always(2.0), always(1.0)) == "linked"
    assert clocks.counts == [TRIAL_CALLS - 1, TRIAL_CALLS]
    assert clocks.drops == 1  # NumPy's calls need no buffers any longer
    assert tried(clocks, always(1.0), always(2.0)) == SLOWER
    assert clocks.counts == [TRIAL_CALLS - 1, TRIAL_CALLS]
    assert clocks.drops == 1


def test_other_programs_do_not_decide(clocks: Clocks) -> None:
    """A kernel on one thread that had to wait for its processor in every call is still the faster one."""
    for earlier in (0, 1):
        assert tried(clocks, always(2.0), always(9.0, 1.0), earlier=earlier) == "linked"
        assert tried(clocks, always(9.0, 1.0), always(2.0), earlier=earlier) == SLOWER


def test_threads_that_wait_do_not_decide(clocks: Clocks) -> None:
    """A kernel whose threads had to wait for their processors is still the faster one, where they worked less in all."""
    for earlier in (0, 1):
        assert tried(clocks, always(300.0, 70.0), always(360.0, 30.0, 55.0), earlier=earlier) == "linked"
        assert tried(clocks, always(300.0, 30.0), always(360.0, 30.0, 55.0), earlier=earlier) == SLOWER


@pytest.mark.parametrize(("wall", "kept"), [(2.5, [False]), (9.0, [])])
def test_what_a_busy_machine_decides_is_not_kept(
    clocks: Clocks, monkeypatch: pytest.MonkeyPatch, wall: float, kept: list[bool]
) -> None:
    """Later processes hear of no verdict against machine code whose calls had to wait for their processors."""
    verdicts: list[bool] = []

    class Start:
        @staticmethod
        def keep_verdict(_job: CodeJob, is_faster: bool) -> None:
            verdicts.append(is_faster)

    monkeypatch.setattr(swap, "_load_start", Start)
    assert tried(clocks, always(1.0), always(wall, 2.0)) == SLOWER
    assert verdicts == kept


def test_calls_on_several_threads_count_by_the_clock(clocks: Clocks) -> None:
    """What threads share out takes as long as the clock says, not as long as the calling thread has worked."""
    for earlier in (0, 1):
        assert tried(clocks, always(1.5), always(2.0, 0.5, 3.0), earlier=earlier) == SLOWER
        assert tried(clocks, always(2.0, 0.5, 3.0), always(1.5), earlier=earlier) == "linked"


def test_close_ones_are_tried_again(clocks: Clocks) -> None:
    """Where both take about as long, more calls are timed, and the least time decides."""
    late = iter([(1.1, 1.1, 1.1)] * (TRIAL_MAX_CALLS - 1) + [(0.9, 0.9, 0.9)])
    assert tried(clocks, always(1.0), late) == "linked"
    assert clocks.counts == [TRIAL_MAX_CALLS, TRIAL_MAX_CALLS]
    assert tried(clocks, always(1.0), always(1.1)) == SLOWER
    assert clocks.counts == [TRIAL_MAX_CALLS, TRIAL_MAX_CALLS]


def test_a_kernel_that_refuses_does_not_stay(clocks: Clocks) -> None:
    """Calls that the kernel leaves to NumPy cost both."""
    assert tried(clocks, always(1.0), always(0.1), refuses=True).startswith("machine code left 3 calls in a row")
    assert clocks.counts == [0, Target().native.refused_max_calls]


def test_one_call_decides_for_a_kernel_that_is_much_faster(clocks: Clocks) -> None:
    """Where NumPy's plan takes several times as long, it runs once; a slow first call of a kernel decides nothing."""
    assert tried(clocks, always(5.0), always(1.0)) == "linked"
    assert clocks.counts == [1, 1]
    short = 1e3 * DEFAULT.native.trial_single_min_seconds / 2
    assert tried(clocks, always(short), always(short / 9)) == "linked"
    assert clocks.counts == [TRIAL_CALLS - 1, TRIAL_CALLS]
    first_is_slow = iter([(9.0, 9.0, 9.0)] + [(0.1, 0.1, 0.1)] * TRIAL_CALLS)
    assert tried(clocks, always(1.0), first_is_slow) == "linked"


def test_what_earlier_calls_took_is_known(clocks: Clocks) -> None:
    """NumPy's plan, which ran before the kernel came, is not run again where it was the slower one by half or more."""
    assert tried(clocks, always(5.0), always(1.0), earlier=1) == "linked"
    assert clocks.counts == [0, 1]
    assert tried(clocks, always(2.0), always(1.0), earlier=1) == "linked"
    assert clocks.counts == [0, TRIAL_CALLS]
    assert tried(clocks, always(0.02), always(0.01), earlier=9) == "linked"
    assert clocks.counts == [0, TRIAL_CALLS]
    assert tried(clocks, always(2.0), always(4.0), earlier=1) == SLOWER
    assert clocks.counts == [0, TRIAL_CALLS]
    assert tried(clocks, always(2.0), always(2.2), earlier=1) == SLOWER
    assert clocks.counts == [TRIAL_MAX_CALLS, TRIAL_MAX_CALLS + TRIAL_CALLS - 1]


def test_a_kernel_that_is_known_to_be_slow_gets_two_calls(clocks: Clocks) -> None:
    """Three times as slow in both, it is not called again; a long first call says so alone where it is nine times as slow."""
    assert tried(clocks, always(2.0), always(8.0), earlier=1) == SLOWER
    assert clocks.counts == [0, 2]
    first_is_slow = iter([(8.0, 8.0, 8.0)] + [(1.0, 1.0, 1.0)] * TRIAL_CALLS)
    assert tried(clocks, always(2.0), first_is_slow, earlier=1) == "linked"
    assert tried(clocks, always(20.0), always(80.0), earlier=1) == SLOWER
    assert clocks.counts == [0, 2]
    assert tried(clocks, always(20.0), always(200.0), earlier=1) == SLOWER
    assert clocks.counts == [0, 1]


def test_the_least_of_many_short_calls_is_no_measure(clocks: Clocks) -> None:
    """Short calls run by turns before NumPy's are called the faster ones: the least of a thousand is less than that of a few."""
    many = iter([(0.01, 0.01, 0.01)] * 50 + [(0.03, 0.03, 0.03)] * TRIAL_MAX_CALLS)
    assert tried(clocks, many, always(0.02), earlier=50) == "linked"
    assert clocks.counts == [TRIAL_CALLS, 2 * TRIAL_CALLS - 1]


def test_one_pair_of_long_calls_decides(clocks: Clocks) -> None:
    """Where calls take a twentieth of a second, no more than one of each is compared, none where NumPy's is known."""
    assert tried(clocks, always(600.0), always(4.0), earlier=2) == "linked"
    assert clocks.counts == [0, 1]
    assert tried(clocks, always(90.0), always(60.0), earlier=1) == "linked"
    assert clocks.counts == [0, 1]
    assert tried(clocks, always(62.0), always(60.0), earlier=1) == "linked"
    assert clocks.counts == [1, 1]
    assert tried(clocks, always(60.0), always(550.0), earlier=1) == SLOWER
    assert clocks.counts == [0, 1]


def test_the_first_call_of_a_kernel_is_not_held_against_it(clocks: Clocks) -> None:
    """It is the first that writes to the kernel's memory: a second one decides where it is not slower by far."""
    assert tried(clocks, always(40.0), itertools.chain(always(150.0, count=1), always(15.0)), earlier=1) == "linked"
    assert tried(clocks, always(60.0), itertools.chain(always(64.0, count=1), always(32.0)), earlier=1) == "linked"
    assert clocks.counts == [1, 2]
    assert tried(clocks, always(60.0), itertools.chain(always(90.0, count=1), always(50.0)), earlier=1) == "linked"
    assert clocks.counts == [1, 2]
    assert tried(clocks, always(60.0), always(62.0), earlier=1) == SLOWER
    assert clocks.counts == [1, 2]


def test_calls_on_threads_beside_the_compiler_are_not_known(clocks: Clocks) -> None:
    """It takes a processor from them; what a call on one thread takes is known all the same."""
    for own, known in ((1.0, math.inf), (2.0, 2e-3)):

        class Timed(Plan):
            def run_numpy(self, *_: Any, own: float = own) -> list[Any]:
                clocks.take(2.0, own, 2.0)
                return [0]

        plan = Timed()
        trial.run_timed(plan.code.job, [], plan, is_disturbed=True)
        assert plan.code.job.last_seconds == pytest.approx(2e-3)
        assert plan.code.job.least_seconds == pytest.approx(known)


def test_who_was_faster_is_asked_again() -> None:
    """Minutes after NumPy's calls were faster, which a busy machine may have said, the kernel is tried once more."""
    plan = Plan()
    code = plan.code
    doubted = Doubted(code.job, Kernels(lambda *_: [1], IdleBuffers(0, 1), is_whole=True), 0.0)
    code.become(doubted)
    assert doubted.run([], plan) == [0]
    assert code.state is doubted
    doubted.end = 0.0
    assert doubted.run([], plan) == [1]
    assert isinstance(code.state, OnTrial)


def test_a_call_that_takes_long_is_a_reason_to_ask_again(clocks: Clocks) -> None:
    """Where NumPy's plan won with calls of little work, a call of much more hands the next one to the kernel, which stays."""
    times = iter([1.0, 4.0, 50.0])

    class Timed(Plan):
        def run_numpy(self, *_: Any) -> list[Any]:
            clocks.take(*[next(times)] * 3)
            return [0]

    def kernel(*_: Any) -> list[Any]:
        clocks.take(5.0, 5.0, 5.0)
        return [1]

    plan = Timed()
    plan.code.become(Doubted(plan.code.job, Kernels(kernel, IdleBuffers(0, 1), is_whole=True), 0.5e-3))
    assert [plan.code.state.run([], plan) for _ in range(4)] == [[0], [0], [0], [1]]
    assert isinstance(plan.code.state, Linked)


def test_a_kept_verdict_is_no_reason_for_a_long_call() -> None:
    """What an earlier process found is trusted for short calls: after a longer one, machine code is looked for."""
    for seconds, state in ((60.0, Trusted), (0.0, Waiting)):
        plan = Plan()
        plan.code.become(Trusted())
        service = attrs.evolve(current.target.service, trusted_max_seconds=seconds)
        with use_target(attrs.evolve(current.target, service=service)):
            assert plan.code.state.run([], plan) == [0]
        assert type(plan.code.state) is state
