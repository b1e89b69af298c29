"""Events: where along a step a function of the state changes its sign."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import attrs
import numpy as np

from afx.control.while_loop import fori_loop
from afx.core.array.array import Array
from afx.integrate.step import Field, interpolate
from afx.ops.creation.creation import asarray, ones_like, zeros_like
from afx.ops.creation.ranges import arange
from afx.ops.creation.stop_gradient import stop_gradient
from afx.ops.elementwise.where import where
from afx.ops.linalg.products import vecdot
from afx.ops.sorting.sort import argmax
from afx.transforms.jvp import jvp

__all__ = ["EventFn", "Happening", "Located", "crossed", "locate"]

EventFn = Callable[..., Any]


@attrs.frozen
class Happening:
    """The values of the event function at both ends of the last step."""

    before: Array
    after: Array


class LastStep(Protocol):
    """The last step of an integration."""

    @property
    def begin(self) -> Array: ...
    @property
    def start(self) -> Array: ...
    @property
    def length(self) -> Array: ...
    @property
    def dense(self) -> tuple[Array, ...]: ...
    @property
    def happening(self) -> Happening | None: ...


@attrs.frozen
class Located:
    """When an event happened, the state then, and which value changed its sign; nan, nan and -1 if none did."""

    t: Array
    y: Array
    index: Array


def crossed(happening: Happening) -> Array:
    """Tell of each value whether it changed its sign or became 0; one that begins at 0 does not count."""
    a, b = happening.before, happening.after
    return ((a < 0) & (b >= 0)) | ((a > 0) & (b <= 0))


def locate(watched: Field | None, step: LastStep) -> Located:
    """Return the first event within a step, by bisection of the interpolant; differentiable by its parameters."""
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
        hit = crossed(Happening(before, values_at(middle))).any()
        return where(hit, low, middle), where(hit, middle, high)

    bits = int(np.finfo(step.start.dtype).nmant) + 2
    s = stop_gradient(fori_loop(0, bits, halve, (zeros_like(step.length), ones_like(step.length)))[1])
    values, slopes = jvp(values_at, (s,), (ones_like(s),))
    hits = crossed(Happening(before, stop_gradient(values)))
    index = argmax(hits)
    # a Newton step whose value is 0 gives the derivative by the implicit function theorem
    chosen = where(arange(before.shape[0]) == index, ones_like(slopes), 0.0)
    rate = stop_gradient(vecdot(chosen, slopes))
    gap = vecdot(chosen, where(chosen > 0, values, 0.0))
    s = s - (gap - stop_gradient(gap)) / where(rate == 0, 1.0, rate)
    t, y = at(s)
    happened = crossed(happening).any()
    return Located(where(happened, t, np.nan), where(happened, y, np.nan), where(happened, index, -1))
