"""Devices: there is one, the CPU."""

from __future__ import annotations

from afx.errors import ArgumentError

__all__ = ["CPU", "check_device"]

CPU = "cpu"


def check_device(device: str | None, who: str) -> None:
    """Raise `ArgumentError` where a device is neither the CPU nor left open."""
    if device is not None and device != CPU:
        raise ArgumentError(f"{who}: there is no such device: got {device!r}; arrays are on 'cpu'")
