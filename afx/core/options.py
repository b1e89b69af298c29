"""Neutral options: arguments of NumPy and of the array API that say nothing to immutable arrays in row-major order on the CPU."""

from __future__ import annotations

from typing import Literal

from afx.errors import ArgumentError, ImmutableError

__all__ = ["CPU", "Order", "check_device", "check_memory_order", "refuse_out"]

CPU = "cpu"

Order = Literal["C", "F", "A", "K"]


def refuse_out(out: object, who: str) -> None:
    """Raise `ImmutableError` where a function is told to write its result into an array; None says nothing."""
    if out is not None:
        raise ImmutableError(
            f"{who}: out= writes into an array: got {type(out).__name__}: afx arrays are immutable; use the result"
        )


def check_memory_order(order: object, who: str, orders: str = "CFAK") -> None:
    """Raise `ArgumentError` where an order of elements in memory is none of NumPy's."""
    if not (isinstance(order, str) and len(order) == 1 and order in orders):
        raise ArgumentError(f"{who}: no such order: got order={order!r}; use one of {', '.join(map(repr, orders))}")


def check_device(device: str | None, who: str) -> None:
    """Raise `ArgumentError` where a device is neither the CPU nor left open."""
    if device is not None and device != CPU:
        raise ArgumentError(f"{who}: there is no such device: got {device!r}; arrays are on 'cpu'")
