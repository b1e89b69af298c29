"""Autotuner: picks the fastest thread policy of a plan from timed calls.

The plan's threads hand the interpreter to each other at each call of NumPy. That pays where calls are long, and not
where other programs are busy; the best policy changes with time. So a plan that could use threads times its calls, and
now and then one call under another policy. Policies differ in the threads that compute, never in the result's bits.
"""

from __future__ import annotations

import threading

from afx.compiler.target import DEFAULT, Target
from afx.runtime.forks import renew_after_fork

__all__ = ["Autotuner"]


class Autotuner:
    """The times of some ways, 0, 1 …, of which 0 comes first.

    >>> tuner = Autotuner(2)
    >>> for seconds in (5.0, 9.0, 1.0, 9.0, 1.0, 9.0, 1.0):
    ...     tuner.observe(tuner.pick(), seconds)
    >>> tuner.pick()
    1
    """

    __slots__ = (
        "__weakref__",
        "_calls",
        "_compared",
        "_lock",
        "_means",
        "_next",
        "_now",
        "_prices",
        "_spent",
        "_target",
        "_tries",
    )

    def __init__(self, ways: int, target: Target = DEFAULT) -> None:
        self._target = target
        self._calls = 0
        self._lock = threading.Lock()  # calls from several threads may end together
        self._tries: list[int] | None = [0] * ways  # of each way, until all have been tried
        self._means = [0.0] * ways
        self._prices = [self._target.tune_min_price_calls] * ways
        self._now = 0
        self._next = 0  # the other way that is tried next
        self._spent = 0.0
        self._compared = 0.0
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
            return tries.index(min(tries))
        other = self._next
        return other if self._spent > self._prices[other] * self._means[other] else self._now

    def observe(self, way: int, seconds: float) -> None:
        """Remember how long a call took."""
        with self._lock:
            self._calls += 1
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
        means = self._means
        if way == self._now:
            means[way] = self._target.tune_memory_ratio * means[way] + (1 - self._target.tune_memory_ratio) * min(
                seconds, self._target.tune_outlier_ratio * means[way]
            )
            self._spent += seconds
            if means[way] > self._target.tune_changed_ratio * self._compared:
                self._prices = [0.0] * len(means)
        else:
            self._tried(way, seconds)

    def _tried(self, way: int, seconds: float) -> None:
        """Remember how long a call took another way than the present one."""
        self._means[way] = seconds
        self._spent = 0.0
        self._prices[way] = min(
            max(2 * self._prices[way], self._target.tune_min_price_calls), self._target.tune_max_price_calls
        )
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
        self._prices = [self._target.tune_min_price_calls] * len(self._means)

    def _after(self, way: int) -> int:
        """Return the way after this one, and not the present one."""
        way = (way + 1) % len(self._means)
        return way if way != self._now else (way + 1) % len(self._means)
