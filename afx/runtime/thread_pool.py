"""Thread pool: blocks shared out among workers, after forks too, as many as processors allow and timed calls favour."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import gc
import itertools
import math
import os
import queue
import sys
import threading
import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import attrs

from afx.core.primitive import Printable
from afx.runtime.control_register import is_flushing, run_in_mode

# --- Thresholds of the runtime: memory of results that is used again, and the autotuner; `Target` holds them


@attrs.frozen(eq=False, repr=False)
class Thresholds(Printable):
    """Bounds of what runs plans: ``<decision>_<bound>_<quantity>``, inclusive bounds.

    >>> Thresholds().tune_tries
    2
    """

    # -- memory --
    pool_min_bytes: int = 1 << 16  # result whose memory is used again: new pages cost more than the arithmetic
    pool_max_arrays: int = 2  # arrays remembered for each result: the last one is often an argument of the next call

    # -- forks --
    fork_max_seconds: float = 5.0  # that a fork waits for what another thread does, such as loading modules

    # -- autotuning: who computes, never what --
    tune_warm_calls: int = 1  # calls that are not timed: new memory, threads that start
    tune_tries: int = 2  # timed calls of each policy to begin with
    tune_wake_max_seconds: float = 5e-3  # of a call that waking threads delay: the first of another policy is not timed
    tune_first_price_calls: float = 4.0  # time on another policy before the first one is tried again, in its calls
    tune_min_price_calls: float = 30.0  # the same of others than the first one, which may well be slower
    tune_max_price_calls: float = 200.0  # what that grows to while nothing changes: a trial takes one call or two
    tune_better_ratio: float = 0.9  # time of another policy, of the present one's, at which it is chosen
    tune_memory_ratio: float = 0.8  # weight of the past in a mean
    tune_outlier_ratio: float = 3.0  # times the mean as which a longer call counts: two in a row change something
    tune_changed_ratio: float = 1.5  # growth of the mean at which the others are tried at once


# --- Forks: what holds locks, or waits for threads, begins anew in a forked process, which has one thread alone
#
# The locks of modules that another thread imports would stay taken there for ever: a fork waits until they are
# loaded.


class Renewable(Protocol):
    """What has a state that a fork may leave behind half changed."""

    def renew(self) -> None:
        """Take new locks, and forget what other threads were about to do."""
        ...


_loading = [threading.RLock()]
_held_by_fork: list[bool] = []


@contextlib.contextmanager
def between_forks() -> Generator[None]:
    """Let no process be forked off inside of the ``with`` block, which loads modules."""
    with _loading[0]:
        yield


def _before_fork() -> None:
    _held_by_fork[:] = [_loading[0].acquire(timeout=Thresholds().fork_max_seconds)]


def _after_fork() -> None:
    if _held_by_fork.pop():
        _loading[0].release()


# by identity; a WeakSet could not be read while another thread adds to it
_known: weakref.WeakValueDictionary[int, Renewable] = weakref.WeakValueDictionary()


def renew_after_fork(thing: Renewable) -> None:
    """Have ``thing.renew()`` called in each process that is forked off while it exists."""
    _known[id(thing)] = thing


def _renew_all() -> None:
    _loading[0] = threading.RLock()
    for ref in _known.valuerefs():
        if (thing := ref()) is not None:
            thing.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_renew_all)


# --- Settings of the interpreter while a thread traces, compiles or links
#
# Each file that is looked for, each call of the system, gives Python's lock away. Beside busy threads it comes back once
# each of them has had its turn, of 5 ms by default: a first call with some hundred such calls would take seconds.
# A graph is some sixty objects an equation, none of which is garbage: the collector would look at all of them again and
# again, for half of the time of tracing and compiling.

TURN_SECONDS: Final = 1e-4  # some ten times what handing over costs
YOUNG_OBJECTS: Final = 500_000  # that may be garbage: tens of megabytes


class Undisturbed:
    """Inside a ``with`` block threads hand Python's lock over sooner, and garbage is looked for less often.

    ``sys.setswitchinterval`` and ``gc.set_threshold`` are set back behind the last block, unless the program has set
    other values meanwhile.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._before = self._own = sys.getswitchinterval()
        self._young = self._own_young = gc.get_threshold()
        renew_after_fork(self)

    def __enter__(self) -> None:
        with self._lock:
            if not self._depth:
                self._before = sys.getswitchinterval()
                sys.setswitchinterval(min(self._before, TURN_SECONDS))
                self._own = sys.getswitchinterval()  # in whole microseconds
                first, *rest = self._young = gc.get_threshold()
                gc.set_threshold(first and max(first, YOUNG_OBJECTS), *rest)  # 0: it is off
                self._own_young = gc.get_threshold()
            self._depth += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._depth -= 1
            if not self._depth:
                self._set_back()

    def _set_back(self) -> None:
        if sys.getswitchinterval() == self._own:
            sys.setswitchinterval(self._before)
        if gc.get_threshold() == self._own_young:
            gc.set_threshold(*self._young)

    def renew(self) -> None:
        """Set it back in a forked process, whose other threads are gone; a block that it is within ends as it would."""
        self._lock = threading.Lock()
        if self._depth:
            self._set_back()


undisturbed: Final = Undisturbed()


# --- Processors: how many this process may use, by its affinity and by the quota of its control group

GROUPS: Final = Path("/proc/self/cgroup")
ROOT: Final = Path("/sys/fs/cgroup")


def allowed_processors() -> list[int]:
    """Return the numbers of the processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def machine_processors() -> int:
    """Return how many processors the machine has."""
    return os.cpu_count() or 1


def count_processors(groups: Path = GROUPS, root: Path = ROOT) -> int:
    """Return how many threads can run at a time: a container's quota counts as well as the affinity.

    Args:
        groups: the file that names this process's control groups.
        root: where control groups are mounted.
    """
    quota = quota_of(groups, root)
    allowed = len(allowed_processors())
    return max(1, min(allowed, math.ceil(quota) if math.isfinite(quota) else allowed))


def quota_of(groups: Path, root: Path) -> float:
    """Return the processors that the control groups around this process allow; infinity without a quota.

    Version 2 writes ``cpu.max`` ("200000 100000": two), version 1 ``cpu.cfs_quota_us`` and ``cpu.cfs_period_us``; a quota
    of any group above holds as well (Linux, Documentation/admin-guide/cgroup-v2.rst).
    """
    try:
        lines = groups.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return math.inf
    quota = math.inf
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        base = root / "cpu" if controllers else root
        here = base / path.lstrip("/")
        for folder in [here, *here.parents]:
            quota = min(quota, _read_quota(folder))
            if folder == base:
                break
    return quota


def _read_quota(folder: Path) -> float:
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text(encoding="ascii").split()
        else:
            quota = (folder / "cpu.cfs_quota_us").read_text(encoding="ascii").strip()
            period = (folder / "cpu.cfs_period_us").read_text(encoding="ascii").strip()
        return int(quota) / int(period) if quota not in ("max", "-1") else math.inf
    except (OSError, ValueError):
        return math.inf


# --- Thread pool: blocks of a fused loop are shared out among workers and the caller
#
# NumPy releases the interpreter's lock inside its loops, so that threads on large blocks run side by side. Which
# thread computes a block changes nothing in the result. A caller that finds the workers busy computes all its blocks
# itself.

Block = Callable[..., None]


class Worker:
    """A thread that waits for work.

    Attributes:
        inbox: what it does next.
        leave: while it watches for more work of one kind, what ends that.
    """

    def __init__(self) -> None:
        self.leave: Callable[[], None] | None = None
        self.inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        threading.Thread(target=self._serve, name="afx worker", daemon=True).start()

    def _serve(self) -> None:
        run_in_mode(False, self._work)  # whatever the mode of the thread that started this one

    def _work(self) -> None:
        while True:
            self.inbox.get()()

    def ask(self, task: Callable[[], None]) -> None:
        """Have a task done, by a thread that does not watch for other work first."""
        if self.leave is not None:
            self.leave()
        self.inbox.put(task)


class _Pool:
    """The threads of this process, made when they are first needed."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.workers: list[Worker] = []
        self.threads = count_processors()

    def helpers(self, count: int) -> list[Worker]:
        """Return workers, fewer where no more threads can be started; the caller has the lock."""
        while len(self.workers) < min(count, self.threads - 1):
            try:
                self.workers.append(Worker())
            except RuntimeError:  # a system without threads, such as WebAssembly, or without one more
                self.threads = len(self.workers) + 1
        return self.workers[:count]


_pool = [_Pool()]


def _forget() -> None:
    """A forked child has none of its parent's threads."""
    threads = _pool[0].threads
    _pool[0] = _Pool()
    _pool[0].threads = threads


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


class _Alone(threading.local):
    """Inside of ``with single_threaded:`` a thread shares out nothing: it computes its blocks itself."""

    depth: int = 0

    def __enter__(self) -> None:
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1


single_threaded: _Alone = _Alone()


def get_threads() -> int:
    """Return how many threads a plan may use, the caller's own among them."""
    return _pool[0].threads


def set_threads(count: int) -> None:
    """Set how many threads a plan may use; 1 is the caller's own alone."""
    _pool[0].threads = max(1, int(count))


def find_workers(count: int) -> Sequence[Worker]:
    """Return so many threads that help, all there are for 0; fewer where none can be started, or one is about to be."""
    pool = _pool[0]
    if len(pool.workers) < count and pool.lock.acquire(blocking=False):
        try:
            pool.helpers(count)
        finally:
            pool.lock.release()
    return pool.workers[: count or None]


class _Share:
    """One helper's part of a call, and what became of it."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.context = contextvars.copy_context()
        self.is_flushing = is_flushing()
        self.work: Callable[[], None] | None = work  # None as soon as it is done: it holds what callers may give away
        self.error: BaseException | None = None
        self.begun = threading.Lock()  # taken by the helper, or by the caller, who then needs no helper any more
        self.done = threading.Lock()
        self.done.acquire()

    def __call__(self) -> None:
        try:
            if self.begun.acquire(blocking=False) and self.work is not None:
                run_in_mode(self.is_flushing, self.context.run, self.work)
        except BaseException as error:  # handed to the caller
            self.error = error
        finally:
            self.work = None
            self.done.release()

    def join(self) -> None:
        """Wait for the helper if it has begun, else see to it that it never does; may be called again."""
        if self.begun.acquire(blocking=False):
            self.work = None
            return
        with self.done:
            pass


def run_blocks(fn: Block, size: int, block: int, scratch: Sequence[tuple[Any, ...]], args: tuple[Any, ...]) -> None:
    """Call ``fn(k, start, stop, *scratch, *args)`` for each block k of ``size`` elements."""
    count = -(-size // block)
    numbers = iter(range(count))

    def work(own: tuple[Any, ...]) -> None:
        for k in numbers:
            fn(k, k * block, min(size, (k + 1) * block), own, *args)

    pool = _pool[0]
    extra = min(pool.threads, len(scratch), count) - 1
    if extra < 1 or single_threaded.depth or not pool.lock.acquire(blocking=False):
        work(scratch[0])
        return
    try:
        _shared(work, numbers, scratch, pool.helpers(extra))
    finally:
        pool.lock.release()


def _shared(
    work: Callable[[tuple[Any, ...]], None],
    numbers: Iterator[int],
    scratch: Sequence[tuple[Any, ...]],
    helpers: Sequence[Worker],
) -> None:
    shares = [_Share(functools.partial(work, own)) for own in scratch[1 : 1 + len(helpers)]]
    try:
        for helper, share in zip(helpers, shares, strict=True):
            helper.ask(share)
        work(scratch[0])
    finally:
        _end(numbers, shares)
    for share in shares:
        if share.error is not None:
            raise share.error


def _end(numbers: Iterator[int], shares: Sequence[_Share]) -> None:
    """Let nobody start another block and wait for all; interrupts are raised then, since helpers write into our memory."""
    interrupt = None
    while True:
        try:
            for _ in itertools.islice(numbers, 1 << 60):
                pass
            for share in shares:
                share.join()
            break
        except BaseException as error:  # what a signal's handler raises, Ctrl-C's or the user's own
            interrupt = error
    if interrupt is not None:
        raise interrupt


# --- Autotuner: picks the fastest thread policy of a plan from timed calls
#
# The plan's threads hand the interpreter to each other at each call of NumPy. That pays where calls are long, and not
# where other programs are busy; the best policy changes with time. So a plan that could use threads times its calls,
# and now and then one call under another policy. Policies differ in the threads that compute, never in the result's
# bits.


class Autotuner:
    """The times of some ways, 0, 1 …, of which 0 comes first.

    >>> tuner = Autotuner(2)
    >>> for seconds in (5.0, 9.0, 9.0, 1.0, 1.0, 1.0):
    ...     tuner.observe(tuner.pick(), seconds)
    >>> tuner.pick()
    1
    """

    __slots__ = (
        "__weakref__",
        "_calls",
        "_compared",
        "_last",
        "_lock",
        "_means",
        "_next",
        "_now",
        "_prices",
        "_spent",
        "_target",
        "_tries",
    )

    def __init__(self, ways: int, target: Thresholds | None = None) -> None:
        self._target = target or Thresholds()
        self._calls = 0
        self._last = 0  # the way of the last call
        self._lock = threading.Lock()  # calls from several threads may end together
        self._tries: list[int] | None = [0] * ways  # of each way, until all have been tried
        self._means = [0.0] * ways
        self._prices = self._least_prices(ways)  # of a trial: calls of the present way between two
        self._now = 0
        self._next = 0  # the other way that is tried next
        self._spent = 0.0  # seconds of the present way since the last trial
        self._compared = 0.0  # its mean then
        renew_after_fork(self)

    def renew(self) -> None:
        """Take a new lock, in a forked process."""
        self._lock = threading.Lock()

    def pick(self) -> int:
        """Return the way to run the next call."""
        if self._calls < self._target.tune_warm_calls:
            return 0
        tries = self._tries
        if tries is not None:
            return next((way for way, count in enumerate(tries) if count < self._target.tune_tries), 0)
        other = self._next
        return other if self._spent > self._prices[other] * self._means[other] else self._now

    def observe(self, way: int, seconds: float) -> None:
        """Remember how long a call took.

        A short one counts only behind one of the same way: threads that help have slept during another way's calls.
        """
        with self._lock:
            self._calls += 1
            is_waking = way != self._last and seconds <= self._target.tune_wake_max_seconds
            self._last = way
            if is_waking:
                return
            if self._tries is not None:
                self._begin(way, seconds, self._tries)
            else:
                self._follow(way, seconds)

    def _begin(self, way: int, seconds: float, tries: list[int]) -> None:
        """Remember a call from before all ways were tried."""
        if self._calls <= self._target.tune_warm_calls:
            return
        self._means[way] = min(self._means[way], seconds) if tries[way] else seconds
        tries[way] += 1
        if min(tries) >= self._target.tune_tries:
            self._tries = None
            self._settle(self._means.index(min(self._means)))

    def _follow(self, way: int, seconds: float) -> None:
        """Remember a call of the present way, in a mean that forgets and cuts off outliers, or of another one."""
        if way != self._now:
            self._tried(way, seconds)
            return
        target, mean = self._target, self._means[way]
        cut = min(seconds, target.tune_outlier_ratio * mean)
        mean = self._means[way] = target.tune_memory_ratio * mean + (1 - target.tune_memory_ratio) * cut
        self._spent += seconds
        if mean > target.tune_changed_ratio * self._compared:  # the next trials are free
            self._prices = [0.0] * len(self._means)

    def _tried(self, way: int, seconds: float) -> None:
        """Remember how long a call took another way than the present one."""
        self._means[way] = seconds
        self._spent = 0.0
        least = self._least_prices(len(self._means))[way]
        self._prices[way] = min(max(2 * self._prices[way], least), self._target.tune_max_price_calls)
        self._compared = self._means[self._now]
        if seconds < self._target.tune_better_ratio * self._compared:
            self._settle(way)
        else:
            self._next = self._after(way)

    def _settle(self, way: int) -> None:
        self._now = way
        self._next = self._after(way)
        self._compared = self._means[way]
        self._spent = 0.0
        self._prices = self._least_prices(len(self._means))

    def _least_prices(self, ways: int) -> list[float]:
        """Return the first prices: the first way loses a trial, more often than not, because something disturbed it."""
        return [self._target.tune_first_price_calls, *[self._target.tune_min_price_calls] * (ways - 1)]

    def _after(self, way: int) -> int:
        """Return the way after this one, and not the present one."""
        way = (way + 1) % len(self._means)
        return way if way != self._now else (way + 1) % len(self._means)
