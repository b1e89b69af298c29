"""Results of integration: a solution, beside the report of the work it took."""

from __future__ import annotations

from typing import Generic, TypeVar

import attrs

from afx.control.solving.report import Report
from afx.core.array.array import Array
from afx.integrate.trail import OdeSolution

__all__ = ["OdeEvents", "OdeResult", "QuadResult"]

T = TypeVar("T")


@attrs.frozen
class OdeEvents(Generic[T]):
    """When the values of an event function changed their signs; under `jit` rows are as long as there can be events.

    Attributes:
        times: float[values, events], when each did, in the order of the integration; nan behind the last.
        ys: the states then, a tree as the first state with the values and events as first axes.
        counts: int[values], how often each did; more than there are times where those of a compiled run were too many.
    """

    times: Array
    ys: T
    counts: Array


@attrs.frozen
class OdeResult(Report, Generic[T]):
    """What `odeint` found; ``iterations`` counts the accepted steps.

    Attributes:
        ts: float[times], the requested times.
        ys: the states there, a tree as the first state with the times as first axis; nan at times that were not reached.
        rejected: int, the number of steps that were tried in vain.
        event_time: float, when the event happened, nan if none did.
        event_y: the state then.
        event_index: int, which of the values of ``event`` changed its sign, -1 if none did.
        solution: the solution at any time of the integration, if ``dense`` asked for it.
        events: all events, if some of them do not end the integration.
    """

    ts: Array
    ys: T
    rejected: Array
    event_time: Array
    event_y: T
    event_index: Array
    solution: OdeSolution[T] | None = None
    events: OdeEvents[T] | None = None


@attrs.frozen
class QuadResult(Report, Generic[T]):
    """What `quad` found; ``iterations`` counts the intervals that were halved.

    Attributes:
        value: the integral, a tree as the function returns.
        error: float, an estimate of the largest absolute error.
    """

    value: T
    error: Array
