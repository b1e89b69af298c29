"""Collectives: sums, gatherings and shifts over slots as ops with derivatives, inside of `Machines.spmd`."""

from __future__ import annotations

import contextvars
from typing import Any, Final, Protocol

import attrs
import numpy as np

from afx.core import Array, ArrayLike, Aval, Bools, Params, Primitive, Value, Values, bind as bind_any
from afx.errors import ArgumentError, ShapeError
from afx.ops._basic import sum_dtype
from afx.ops._kinds.linear import linear
from afx.ops.manipulation.join import moveaxis


@attrs.frozen
class Collective:
    """What slots do together.

    Attributes:
        name: ``psum``, ``all_gather``, ``psum_scatter`` or ``shift``.
        offset: of a shift, in slots.
        wrap: whether the last slot's neighbour is the first.
    """

    name: str
    offset: int = 0
    wrap: bool = False


class Place(Protocol):
    """Where slots meet."""

    @property
    def slots(self) -> int:
        """The number of slots."""
        ...

    def exchange(self, slot: int, what: Collective, value: Any) -> Any:
        """Return what a collective gives to a slot, once all slots have come to it."""
        ...


# Of the thread that computes a slot: where it meets the others, and its number.
current: Final[contextvars.ContextVar[tuple[Place, int] | None]] = contextvars.ContextVar("afx slot", default=None)


def _find_exchange(who: str) -> tuple[Place, int]:
    place = current.get()
    if place is None:
        raise ArgumentError(f"{who}: outside of an SPMD program: got no slot; call it inside of machines.spmd(fn)")
    return place


def _bind(p: Primitive, x: Any, **params: Any) -> Array:
    z: Array = bind_any(p, x, **params)
    return z


def _exchange(x: Any, what: Collective) -> Any:
    meeting, slot = _find_exchange(what.name)
    return meeting.exchange(slot, what, np.asarray(x))


def psum(x: ArrayLike) -> Array:
    """Return the sum of the values of all slots, on every slot, added in the order of the slots' tree.

    Its derivative is itself: `afx.grad` inside of an SPMD program differentiates the *sum of what all slots return*. So let
    each slot return its own share of the loss, or divide a loss that all slots hold by their number.

    Args:
        x: of one shape and dtype on every slot; booleans and small integers add up to the dtypes of `afx.sum`.

    Raises:
        ArgumentError: outside of `Machines.spmd`.

    >>> from afx import distributed
    >>> machines = distributed.local(3)
    >>> machines.spmd(lambda x: distributed.psum(x))(distributed.by_slot(lambda slot: float(slot))).gather()
    [Array(3., dtype=float32), Array(3., dtype=float32), Array(3., dtype=float32)]
    """
    return _bind(psum_p, x)


def _add_up(x: Aval) -> Aval:
    return Aval(x.shape, sum_dtype(x.dtype))


def _psum_run(x: Any) -> Any:
    return _exchange(x, Collective("psum"))


def _psum_batch(size: int, xs: Values, batched: Bools, params: Params) -> Value:
    return bind_any(psum_p, *xs)


def _psum_back(ct: Array, aval: Aval) -> Array:
    return psum(ct)


psum_p: Primitive = linear("psum", _psum_run, _add_up, _psum_back, batch=_psum_batch, has_effects=True)


def all_gather(x: ArrayLike) -> Array:
    """Return the values of all slots along a new first axis, on every slot; its derivative is `psum_scatter`.

    Args:
        x: of one shape on every slot.

    Raises:
        ArgumentError: outside of `Machines.spmd`.

    >>> from afx import distributed
    >>> machines = distributed.local(2)
    >>> machines.spmd(lambda x: distributed.all_gather(x))(distributed.by_slot(lambda slot: float(slot))).first
    Array([0., 1.], dtype=float32)
    """
    return _bind(slot_gather_p, x, slots=_find_exchange("all_gather")[0].slots)


def _gathered(x: Aval, slots: int) -> Aval:
    return Aval((slots, *x.shape), x.dtype)


def _gather_run(x: Any, slots: int) -> Any:
    return _exchange(x, Collective("all_gather"))


def _gather_back(ct: Array, aval: Aval, slots: int) -> Array:
    return psum_scatter(ct)


def _gather_batch(size: int, xs: Values, batched: Bools, params: Params) -> Value:
    return moveaxis(_bind(slot_gather_p, xs[0], **params), 0, 1)


slot_gather_p: Primitive = linear(
    "slot_gather", _gather_run, _gathered, _gather_back, batch=_gather_batch, has_effects=True
)


def psum_scatter(x: ArrayLike) -> Array:
    """Return on each slot the sum of all slots' parts for it: of ``x[slot]``; its derivative is `all_gather`.

    Args:
        x: one part for each slot along the first axis; dtypes are those of `psum`.

    Raises:
        ArgumentError: outside of `Machines.spmd`.
        ShapeError: a first axis that is not as long as there are slots.

    >>> import afx
    >>> from afx import distributed
    >>> machines = distributed.local(2)
    >>> machines.spmd(lambda x: distributed.psum_scatter(x))(afx.asarray([1.0, 10.0])).gather()
    [Array(2., dtype=float32), Array(20., dtype=float32)]
    """
    return _bind(psum_scatter_p, x, slots=_find_exchange("psum_scatter")[0].slots)


def _drop_slots(x: Aval, slots: int) -> Aval:
    if x.shape[:1] != (slots,):
        raise ShapeError(f"psum_scatter: one part for each of {slots} slots: got {x}; give a first axis of that length")
    return Aval(x.shape[1:], sum_dtype(x.dtype))


def _scatter_run(x: Any, slots: int) -> Any:
    return _exchange(x, Collective("psum_scatter"))


def _scatter_back(ct: Array, aval: Aval, slots: int) -> Array:
    return all_gather(ct)


def _scatter_batch(size: int, xs: Values, batched: Bools, params: Params) -> Value:
    return bind_any(psum_scatter_p, moveaxis(xs[0], 0, 1), **params)


psum_scatter_p: Primitive = linear(
    "psum_scatter", _scatter_run, _drop_slots, _scatter_back, batch=_scatter_batch, has_effects=True
)


def shift(x: ArrayLike, offset: int = 1, *, wrap: bool = False) -> Array:
    """Return the value of the slot that stands ``offset`` before this one: the halo of a neighbour.

    Its derivative is the shift back.

    Args:
        x: of one shape on every slot.
        offset: how many slots on; negative ones shift towards slot 0.
        wrap: whether slots stand in a ring. Otherwise slots without such a neighbour get zeros.

    Raises:
        ArgumentError: outside of `Machines.spmd`.

    >>> from afx import distributed
    >>> machines = distributed.local(3)
    >>> fn = machines.spmd(lambda x: distributed.shift(x))
    >>> [float(x) for x in fn(distributed.by_slot(lambda slot: 1.0 + slot)).gather()]
    [0.0, 1.0, 2.0]
    """
    return _bind(slot_shift_p, x, offset=offset, wrap=wrap)


def _keep_shape(x: Aval, offset: int, wrap: bool) -> Aval:
    return Aval(x.shape, x.dtype)


def _shift_run(x: Any, offset: int, wrap: bool) -> Any:
    return _exchange(x, Collective("shift", offset, wrap))


def _shift_back(ct: Array, aval: Aval, offset: int, wrap: bool) -> Array:
    return shift(ct, -offset, wrap=wrap)


def _shift_batch(size: int, xs: Values, batched: Bools, params: Params) -> Value:
    return bind_any(slot_shift_p, *xs, **params)


slot_shift_p: Primitive = linear(
    "slot_shift", _shift_run, _keep_shape, _shift_back, batch=_shift_batch, has_effects=True
)
