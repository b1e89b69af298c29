"""Which of two ways to run a plan is the faster one at present: measured while it is used.

BLAS's own threads spin while they wait for one another: on a quiet machine that is the fastest way, beside other busy
programs one product can take a hundred times as long. Nobody can know which it is without trying, and it changes. So a
plan with large products times its calls, and now and then one call the other way, as often as costs little.
"""

from __future__ import annotations

__all__ = ["Gauge"]

WARM = 1  # calls that are not counted: new memory, threads that start
TRIES = 2  # timed calls of each way to begin with
PRICE = 30.0  # time spent on the faster way before the other one is tried again, in calls of the slower one
DEAREST = 500.0  # what that grows to while nothing changes
BETTER = 0.9  # how much of the one way's time the other may take to be chosen
MEMORY = 0.8  # weight of the past in a mean
OUTLIER = 3.0  # times the mean as which a longer call counts: one alone changes nothing, two in a row do
CHANGED = 1.5  # growth of the mean since the ways were compared that has the other one tried at once


class Gauge:
    """The times of two ways, 0 and 1, of which 0 comes first.

    >>> gauge = Gauge()
    >>> for seconds in (5.0, 9.0, 1.0, 9.0, 1.0, 9.0, 1.0):
    ...     gauge.note(gauge.choice(), seconds)
    >>> gauge.choice()
    1
    """

    __slots__ = ("_calls", "_compared", "_means", "_now", "_price", "_spent")

    def __init__(self) -> None:
        self._calls = 0
        self._means = [0.0, 0.0]
        self._now = 0
        self._spent = 0.0
        self._price = PRICE
        self._compared = 0.0

    def choice(self) -> int:
        """Return the way to run the next call."""
        if self._calls < WARM + 2 * TRIES:
            return 0 if self._calls < WARM else (self._calls - WARM) % 2
        if self._spent > self._price * max(self._means):
            return 1 - self._now
        return self._now

    def note(self, way: int, seconds: float) -> None:
        """Remember how long a call took."""
        calls = self._calls
        self._calls = calls + 1
        if calls < WARM:
            return
        means = self._means
        if calls < WARM + 2 * TRIES:
            means[way] = min(means[way], seconds) if means[way] else seconds
            self._now = int(means[1] < means[0])
            self._compared = means[self._now]
        elif way == self._now:
            means[way] = MEMORY * means[way] + (1 - MEMORY) * min(seconds, OUTLIER * means[way])
            self._spent += seconds
            if means[way] > CHANGED * self._compared:
                self._price = 0.0
        else:
            means[way] = seconds
            self._spent = 0.0
            self._price = min(max(2 * self._price, PRICE), DEAREST)
            self._compared = means[self._now]
        if calls >= WARM + 2 * TRIES and means[1 - self._now] < BETTER * means[self._now]:
            self._now = 1 - self._now
            self._compared = means[self._now]
            self._spent = 0.0
            self._price = PRICE
