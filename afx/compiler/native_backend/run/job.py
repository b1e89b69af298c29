"""Jobs: what a plan hands over to have machine code made of it, and to have calls answered meanwhile."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, TypeAlias

import attrs

from afx.compiler.schedule.schedule import Loop, Schedule
from afx.compiler.target import Target
from afx.core.cached import Cached
from afx.runtime.buffer_cache import IdleBuffers

Run: TypeAlias = "Callable[[Sequence[Any], NumpyPlan], list[Any] | None]"
"""``run(values, plan)`` gives results, or None where NumPy's plan shall run."""


class Kernels(NamedTuple):
    """Linked kernels of a plan.

    Attributes:
        run: what calls them.
        idle: the buffers that they keep between calls.
        is_whole: whether one of them is the whole plan.
    """

    run: Run
    idle: IdleBuffers
    is_whole: bool


class NumpyPlan(Protocol):
    """What a plan offers to its machine code; it is handed over at each call, so that neither keeps the other alive."""

    @property
    def flushes(self) -> bool:
        """Whether it computes without denormals."""
        ...

    def run_numpy(self, *inputs: Any) -> list[Any]:
        """Run NumPy's calls."""
        ...

    def drop_buffers(self) -> None:
        """Free the buffers of NumPy's calls."""
        ...


@attrs.define(eq=False, slots=False)
class CodeJob:
    """A plan of which machine code shall be made.

    Attributes:
        schedule: of the plan.
        target: what it is compiled for.
        policy: what holds BLAS to one thread, as in NumPy's plan.
        idle: the buffers of the plan, whose size counts machine code too.
        key: under which kernels are kept, an empty text where it is not known, or none are.
        flushes: whether the plan computes without denormals.
        last_seconds: how long the last call of NumPy's plan took.
        least_seconds: the least that one took, as far as that says what it takes alone.
        begun_seconds: how long the call that a kernel takes over has run.
    """

    schedule: Schedule
    target: Target
    policy: Sequence[AbstractContextManager[None]]
    idle: IdleBuffers
    key: str = ""
    flushes: bool = False
    last_seconds: float = 0.0
    least_seconds: float = math.inf
    begun_seconds: float = 0.0

    @property
    def is_awaited(self) -> bool:
        """Whether the first call waits for it."""
        return self.target.backend == "native"

    @Cached
    def numpy_seconds(self) -> float:
        """How long NumPy's plan takes at least."""
        return count_calls(self.schedule) * self.target.native.numpy_call_seconds

    @Cached
    def hands_over(self) -> bool:
        """Whether a call that has begun may be run once more: it has loops, and no argument's memory is written into."""
        if not [i for i in self.schedule if i.schedules]:  # around which there are no loops
            return False
        return not self.schedule.donated and any(isinstance(i, Loop) for i in self.schedule.at_any_depth())

    @property
    def is_long(self) -> bool:
        """Whether NumPy's plan is so slow that its first call waits, for as long as that would take at most."""
        return self.numpy_seconds >= self.target.native.wait_min_seconds

    @property
    def is_slow(self) -> bool:
        """Whether a call of NumPy's plan takes, as predicted or as the last one did, so long that lowering pays beside it."""
        return max(self.numpy_seconds, self.last_seconds) >= self.target.native.slow_min_seconds


def count_calls(schedule: Schedule) -> int:
    """Return how many calls of NumPy a plan makes, where a condition ends a loop those of one step."""
    loops = [i for i in schedule.instructions if isinstance(i, Loop)]
    return len(schedule) + sum([(i.length or 1) * sum([1 + count_calls(body) for body in i.bodies]) for i in loops])
