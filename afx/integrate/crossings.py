"""Crossings: the steps of an integration along which events happened that did not end it, and when they happened."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import attrs
import numpy as np

from afx.core.array.array import Array
from afx.core.tracing.tracer import is_traced
from afx.errors import ArgumentError
from afx.integrate.event import Direction, Happening, Located, OneStep, locate
from afx.integrate.results import OdeEvents
from afx.integrate.step import Field
from afx.integrate.trail import Trail
from afx.ops.creation.creation import asarray, zeros
from afx.ops.creation.ranges import arange
from afx.ops.creation.stop_gradient import stop_gradient
from afx.ops.elementwise.comparison import isnan
from afx.ops.elementwise.where import minimum, where
from afx.ops.indexing.getitem import take_along_axis
from afx.ops.reductions.boolean import any as any_
from afx.ops.reductions.sums import sum as sum_
from afx.ops.sorting.sort import argsort
from afx.transforms.vmap import vmap

__all__ = ["Crossings", "events_of"]

T = TypeVar("T")


@attrs.frozen
class Crossings:
    """The steps with events so far, in buffers; the last row is written over, and belongs to none.

    Attributes:
        trail: these steps.
        happening: float[steps, values], the values of the event function at both ends of each.
        steps: int, how many there were.
        counts: int[values], how often each value changed its sign.
    """

    trail: Trail
    happening: Happening
    steps: Array
    counts: Array

    @classmethod
    def create(cls, most: int, t: Array, y: Array, values: Array, coefficients: int) -> Crossings:
        """Return buffers for so many steps."""
        rows = zeros((most + 1, *values.shape), values.dtype)
        trail = Trail.create(most + 1, t, y, coefficients)
        return cls(trail, Happening(rows, rows), asarray(0), zeros(values.shape, np.dtype(np.int64)))

    def put(self, hit: Array, step: OneStep, dense: tuple[Array, ...]) -> Crossings:
        """Return the crossings with a step, which counts where a value changed its sign."""
        k = minimum(self.steps, self.trail.begins.shape[0] - 1)
        before, after = self.happening.before, self.happening.after
        assert step.happening is not None, "events are watched"
        return Crossings(
            self.trail.put(k, step.begin, step.start, step.length, dense),
            Happening(before.at[k].set(step.happening.before), after.at[k].set(step.happening.after)),
            self.steps + any_(hit),
            self.counts + hit,
        )


@attrs.frozen
class _Step:
    """One step with its interpolant."""

    begin: Array
    start: Array
    length: Array
    dense: tuple[Array, ...]
    happening: Happening


def events_of(
    found: Crossings, watched: Field, direction: Direction, end: Array, sign: Array, unravel: Callable[[Array], T]
) -> OdeEvents[T]:
    """Return when each event happened, up to the end of the integration, and the states then.

    Args:
        found: the steps.
        watched: the event function.
        direction: of events.
        end: when an event ended the integration, infinite if none did.
        sign: of the direction of time.
        unravel: a vector to the user's tree.

    Raises:
        ArgumentError: there were more steps with events than are kept.
    """
    most = found.trail.begins.shape[0] - 1
    if not is_traced(found.steps):
        if int(found.steps) > most:
            raise ArgumentError(
                f"odeint: more events than are recorded: got {int(found.steps)} steps with events and max_events={most}; "
                "raise max_events"
            )
        most = int(found.steps)
    trail = found.trail.cut(most)
    happening = Happening(found.happening.before[:most], found.happening.after[:most])
    steps = _Step(trail.begins, trail.starts, trail.lengths, trail.dense, happening)
    values = found.counts.shape[0]
    used = arange(most) < found.steps

    def place(step: _Step, is_used: Array, k: Array) -> Located:
        return locate(watched, step, direction, (arange(values) == k) & is_used)

    by_value = vmap(vmap(place, in_axes=(0, 0, None)), in_axes=(None, None, 0))(steps, used, arange(values))
    t = by_value.t
    late = ~isnan(t) & ~(t <= end)
    t = where(late, np.nan, t)
    order = argsort(stop_gradient(t), axis=1)  # what did not happen, nan, comes last
    times = take_along_axis(t, order, axis=1)
    states = take_along_axis(where(late[..., None], np.nan, by_value.y), order[..., None], axis=1)
    counts = found.counts - sum_(late, axis=1)
    if not is_traced(counts):
        largest = int(np.max(np.asarray(counts), initial=0))
        times, states = times[:, :largest], states[:, :largest]
    return OdeEvents(sign * times, vmap(vmap(unravel))(states), counts)
