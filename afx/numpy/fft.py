"""Fourier transforms: `numpy.fft`, function by function as `afx.numpy` has it."""

from typing import Any

import numpy

from afx.numpy._namespace import lookup, names

__all__: list[str]


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return names(numpy.fft)
    value = globals()[name] = lookup(numpy.fft, name, __name__)
    return value


def __dir__() -> list[str]:
    return names(numpy.fft)
