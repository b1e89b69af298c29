"""Trail: the accepted steps of an integration, and the solution between them as a function of time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import attrs
import numpy as np

from afx import pytree
from afx.core.array.array import Array, ArrayLike
from afx.core.tracing.tracer import is_traced
from afx.integrate.step import interpolate
from afx.ops.creation.creation import asarray, zeros
from afx.ops.creation.ranges import arange
from afx.ops.creation.stop_gradient import stop_gradient
from afx.ops.elementwise.where import clip, where
from afx.ops.manipulation.join import concat
from afx.ops.sorting.sort import searchsorted
from afx.transforms.vmap import vmap

__all__ = ["OdeSolution", "Trail", "solution_of"]

T = TypeVar("T")


@attrs.frozen
class Trail:
    """The steps so far, in buffers for as many as there can be.

    Attributes:
        begins: float[steps], when each began.
        starts: float[steps, n], the state there.
        lengths: float[steps], their lengths.
        dense: float[steps, kept, n], their interpolants.
    """

    begins: Array
    starts: Array
    lengths: Array
    dense: tuple[Array, ...]

    @classmethod
    def create(cls, steps: int, t: Array, y: Array, kept: int) -> Trail:
        """Return a trail without steps, that stands at its beginning."""
        times, states = zeros(steps, y.dtype), zeros((steps, *y.shape), y.dtype)
        return cls(times.at[0].set(t), states.at[0].set(y), times, (states,) * kept)

    def put(self, k: Array, begin: Array, start: Array, length: Array, dense: tuple[Array, ...]) -> Trail:
        """Return the trail with a step at k."""
        return Trail(
            self.begins.at[k].set(begin),
            self.starts.at[k].set(start),
            self.lengths.at[k].set(length),
            tuple([rows.at[k].set(row) for rows, row in zip(self.dense, dense, strict=True)]),
        )

    def cut(self, count: int) -> Trail:
        """Return the first steps alone."""
        found: Trail = pytree.map(lambda rows: rows[:count], self)
        return found


@attrs.frozen
class OdeSolution(Generic[T]):
    """A solution as a function of time, differentiable by it and by what the integration depends on.

    Attributes:
        ts: float[steps + 1], when each step began, and when the integration ended; nan where no step was taken.
        ys: the states then, a tree as the first state with the times as first axis.
    """

    ts: Array
    ys: T
    _trail: Trail
    _sign: Array
    _count: Array
    _unravel: Callable[[Array], T] = pytree.static()  # noqa: RUF009  # a field specifier

    def __call__(self, t: ArrayLike) -> T:
        """Return the states at times, a tree as the first state with the axes of the times in front.

        Times outside of the integration, or after the event that ended it, give nan.
        """
        times = asarray(t)
        flat = times.astype(self.ts.dtype).reshape((-1,)) * self._sign
        trail, count = self._trail, self._count
        steps = arange(trail.begins.shape[0])
        begins = where(steps < count, stop_gradient(trail.begins), np.inf)
        end = stop_gradient(self.ts[count]) * self._sign
        index = clip(searchsorted(begins, stop_gradient(flat), side="right") - 1, 0, None)

        def state(k: Array, time: Array) -> T:
            since, margin = time - trail.begins[k], 1e-9 * trail.lengths[k]
            outside = (since < -margin) | (time - end > margin)
            s = since / where(count > 0, trail.lengths[k], 1.0)
            y = interpolate(trail.starts[k], tuple([rows[k] for rows in trail.dense]), s)
            return self._unravel(where(outside, np.nan, y))

        found = vmap(state)(index, flat)
        return pytree.map(lambda rows: rows.reshape((*times.shape, *rows.shape[1:])), found)


def solution_of(
    trail: Trail, count: Array, sign: Array, end: tuple[Array, Array], unravel: Callable[[Array], T]
) -> OdeSolution[T]:
    """Return the solution of a trail of so many steps, whose buffers are cut where that number is known.

    Args:
        trail: the steps, in the direction of growing time.
        count: how many there are.
        sign: of the direction of time.
        end: when the integration ended, and the state then.
        unravel: a vector to the user's tree.
    """
    if not is_traced(count):
        trail = trail.cut(max(int(count), 1))
    rows = trail.begins.shape[0]
    known = arange(rows + 1) < count
    last = arange(rows + 1) == count
    times, states = _append_row(trail.begins), _append_row(trail.starts)
    ts = where(known, times, where(last, end[0], np.nan))
    ys = where(known[:, None], states, where(last[:, None], end[1], np.nan))
    return OdeSolution(sign * ts, vmap(unravel)(ys), trail, sign, count, unravel)


def _append_row(rows: Array) -> Array:
    """Return rows with one more behind."""
    return concat([rows, zeros((1, *rows.shape[1:]), rows.dtype)])
