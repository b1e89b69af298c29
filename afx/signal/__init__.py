"""Signals: SciPy's names for convolutions, recursive filters, spectra and resampling, with derivatives.

Filters are scans that compile; coefficients come from anywhere, such as SciPy's ``butter``, or are trained.

>>> lfilter([0.5], [1.0, -0.5], np.ones(4)).round(4)
Array([0.5   , 0.75  , 0.875 , 0.9375], dtype=float64)
"""

from afx.errors import refuse_names
from afx.signal import windows as windows
from afx.signal.convolution import *
from afx.signal.filters import *
from afx.signal.spectral import *
from afx.signal.windows import *

refuse_names(__name__, "windows")
