"""Signals: SciPy's names for convolutions, recursive filters, spectra and resampling, with derivatives.

Filters are scans that compile; coefficients come from anywhere, such as SciPy's ``butter``, or are trained.

>>> lfilter([0.5], [1.0, -0.5], np.ones(4)).round(4)
Array([0.5   , 0.75  , 0.875 , 0.9375], dtype=float64)
"""

from afx.errors import refuse_names
from afx.signal import windows
from afx.signal.convolution import (
    convolve,
    convolve2d,
    correlate,
    correlate2d,
    fftconvolve,
    medfilt,
    resample,
    resample_poly,
    upfirdn,
)
from afx.signal.filters import (
    detrend,
    filtfilt,
    freqz,
    hilbert,
    lfilter,
    lfilter_zi,
    savgol_coeffs,
    savgol_filter,
    sosfilt,
    sosfilt_zi,
    sosfiltfilt,
)
from afx.signal.spectral import csd, istft, spectrogram, stft, welch
from afx.signal.windows import get_window

__all__ = [
    "convolve",
    "convolve2d",
    "correlate",
    "correlate2d",
    "csd",
    "detrend",
    "fftconvolve",
    "filtfilt",
    "freqz",
    "get_window",
    "hilbert",
    "istft",
    "lfilter",
    "lfilter_zi",
    "medfilt",
    "resample",
    "resample_poly",
    "savgol_coeffs",
    "savgol_filter",
    "sosfilt",
    "sosfilt_zi",
    "sosfiltfilt",
    "spectrogram",
    "stft",
    "upfirdn",
    "welch",
    "windows",
]

refuse_names(__name__)
