"""Which of several ways to run a plan is the fastest one at present: measured while it is used.

BLAS's own threads spin while they wait for one another: on a quiet machine that is the fastest way, beside other busy
programs one product can take a hundred times as long. The plan's threads hand the interpreter to each other at each call
of NumPy, which pays where calls are long. Nobody can know what is best without trying, and it changes. So a plan that
could use threads times its calls, and now and then one call another way, as often as costs little.
"""

from __future__ import annotations

import threading

__all__ = ["Gauge"]

WARM = 1  # calls that are not counted: new memory, threads that start
TRIES = 2  # timed calls of each way to begin with
PRICE = 30.0  # time spent on the fastest way before another one is tried again, in calls of that other one
DEAREST = 500.0  # what that grows to while nothing changes
BETTER = 0.9  # how much of the present way's time another one may take to be chosen
MEMORY = 0.8  # weight of the past in a mean
OUTLIER = 3.0  # times the mean as which a longer call counts: one alone changes nothing, two in a row do
CHANGED = 1.5  # growth of the mean since the ways were compared that has the others tried at once


class Gauge:
    """The times of some ways, 0, 1 …, of which 0 comes first.

    >>> gauge = Gauge(2)
    >>> for seconds in (5.0, 9.0, 1.0, 9.0, 1.0, 9.0, 1.0):
    ...     gauge.note(gauge.choice(), seconds)
    >>> gauge.choice()
    1
    """

    __slots__ = ("_calls", "_compared", "_lock", "_means", "_next", "_now", "_prices", "_spent", "_tries")

    def __init__(self, ways: int) -> None:
        self._calls = 0
        self._lock = threading.Lock()  # calls from several threads may end together
        self._tries: list[int] | None = [0] * ways  # of each way, until all have been tried
        self._means = [0.0] * ways
        self._prices = [PRICE] * ways
        self._now = 0
        self._next = 0  # the other way that is tried next
        self._spent = 0.0
        self._compared = 0.0

    def choice(self) -> int:
        """Return the way to run the next call."""
        if self._calls < WARM:
            return 0
        tries = self._tries
        if tries is not None:
            return tries.index(min(tries))
        other = self._next
        return other if self._spent > self._prices[other] * self._means[other] else self._now

    def note(self, way: int, seconds: float) -> None:
        """Remember how long a call took."""
        with self._lock:
            self._calls += 1
            if self._tries is not None:
                self._begin(way, seconds, self._tries)
            else:
                self._follow(way, seconds)

    def _begin(self, way: int, seconds: float, tries: list[int]) -> None:
        """Remember a call from before all ways were tried."""
        if self._calls <= WARM:
            return
        self._means[way] = min(self._means[way], seconds) if tries[way] else seconds
        tries[way] += 1
        if min(tries) >= TRIES:
            self._tries = None
            self._settle(self._means.index(min(self._means)))

    def _follow(self, way: int, seconds: float) -> None:
        means = self._means
        if way == self._now:
            means[way] = MEMORY * means[way] + (1 - MEMORY) * min(seconds, OUTLIER * means[way])
            self._spent += seconds
            if means[way] > CHANGED * self._compared:
                self._prices = [0.0] * len(means)
        else:
            self._tried(way, seconds)

    def _tried(self, way: int, seconds: float) -> None:
        """Remember how long a call took another way than the present one."""
        self._means[way] = seconds
        self._spent = 0.0
        self._prices[way] = min(max(2 * self._prices[way], PRICE), DEAREST)
        self._compared = self._means[self._now]
        if seconds < BETTER * self._compared:
            self._settle(way)
        else:
            self._next = self._after(way)

    def _settle(self, way: int) -> None:
        self._now = way
        self._next = self._after(way)
        self._compared = self._means[way]
        self._spent = 0.0
        self._prices = [PRICE] * len(self._means)

    def _after(self, way: int) -> int:
        """Return the way after this one, and not the present one."""
        way = (way + 1) % len(self._means)
        return way if way != self._now else (way + 1) % len(self._means)
