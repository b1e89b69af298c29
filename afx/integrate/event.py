"""Events: where along a step a function of the state changes its sign."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import attrs
import numpy as np

from afx.control.solving.functions import attach_implicit_derivative, parametrize
from afx.control.while_loop import fori_loop
from afx.core.array.array import Array, ArrayLike
from afx.core.aval import Aval
from afx.integrate.step import Field, interpolate
from afx.ops.creation.creation import asarray, ones_like, zeros_like
from afx.ops.creation.stop_gradient import stop_gradient
from afx.ops.elementwise.where import where
from afx.ops.sorting.sort import argmax

__all__ = ["Direction", "EventFn", "Happening", "Located", "OneStep", "crossed", "locate"]

EventFn = Callable[..., Any]
Direction = int | tuple[int, ...]  # that of the time of integration


@attrs.frozen
class Happening:
    """The values of the event function at both ends of the last step."""

    before: Array
    after: Array


class OneStep(Protocol):
    """A step with its interpolant."""

    @property
    def begin(self) -> Array:
        """When it began."""
        ...

    @property
    def start(self) -> Array:
        """The state then."""
        ...

    @property
    def length(self) -> Array:
        """Its length."""
        ...

    @property
    def dense(self) -> tuple[Array, ...]:
        """What its interpolant is made of."""
        ...

    @property
    def happening(self) -> Happening | None:
        """The values of the event function at both ends."""
        ...


@attrs.frozen
class Located:
    """When an event happened, the state then, and which value changed its sign; nan, nan and -1 if none did."""

    t: Array
    y: Array
    index: Array


def crossed(happening: Happening, direction: Direction = 0) -> Array:
    """Tell of each value whether it changed its sign or became 0; one that begins at 0 does not count.

    Args:
        happening: the values at both ends.
        direction: of each value, or of all: 1 counts rising ones alone, -1 falling ones, 0 both.
    """
    a, b, way = happening.before, happening.after, np.asarray(direction)
    rises, falls = (a < 0) & (b >= 0), (a > 0) & (b <= 0)
    return (rises & (way >= 0)) | (falls & (way <= 0)) if way.any() else rises | falls


def locate(watched: Field | None, step: OneStep, direction: Direction, counted: ArrayLike = True) -> Located:
    """Return the first event within a step, by bisection of the interpolant; differentiable by its parameters.

    Args:
        watched: the event function, if there is one.
        step: along which it may have happened.
        direction: of events.
        counted: of which values changes of sign count.
    """
    happening = step.happening
    if watched is None or happening is None or not happening.before.shape[0]:
        return Located(step.begin * np.nan, step.start * np.nan, asarray(-1))
    before = happening.before

    def at(s: Array) -> tuple[Array, Array]:
        t, y = step.begin + s * step.length, interpolate(step.start, step.dense, s)
        return t, y

    def values_at(s: Array) -> Array:
        return watched(*at(s))

    def halve(_: Array, ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = 0.5 * (low + high)
        hit = (crossed(Happening(before, values_at(middle)), direction) & counted).any()
        return where(hit, low, middle), where(hit, middle, high)

    bits = int(np.finfo(step.start.dtype).nmant) + 2
    s = stop_gradient(fori_loop(0, bits, halve, (zeros_like(step.length), ones_like(step.length)))[1])
    index = argmax(crossed(Happening(before, stop_gradient(values_at(s))), direction) & counted)
    happened = (crossed(happening, direction) & counted).any()

    def gap(at: Array) -> Array:
        return where(happened, values_at(at[0])[index], at[0])[None]

    problem = parametrize(gap, [lambda v: v], [Aval((1,), s.dtype)], (), "odeint: event")
    s = attach_implicit_derivative(problem.fn, s[None], problem.params, asarray(True))[0]
    t, y = at(s)
    return Located(where(happened, t, np.nan), where(happened, y, np.nan), where(happened, index, -1))
