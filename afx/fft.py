"""Fourier transforms: the functions of the array API standard and NumPy, under their names."""

from typing import TYPE_CHECKING, NoReturn

from afx.ops.fft import (
    fft,
    fft2,
    fftfreq,
    fftn,
    fftshift,
    hfft,
    ifft,
    ifft2,
    ifftn,
    ifftshift,
    ihfft,
    irfft,
    irfft2,
    irfftn,
    rfft,
    rfft2,
    rfftfreq,
    rfftn,
)
from afx.other_names import missing_name

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:  # type checkers shall go on to refuse names that are not there

    def __getattr__(name: str) -> NoReturn:
        raise missing_name(__name__, name)
