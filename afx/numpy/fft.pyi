# generated: run python -m tests.generate_names, with NumPy 2.4
# Typed as for Arrays: without one among the operands, functions give NumPy's ndarrays, which are taken as Arrays are.

from afx.fft import fft as fft
from afx.fft import fft2 as fft2
from afx.fft import fftfreq as fftfreq
from afx.fft import fftn as fftn
from afx.fft import fftshift as fftshift
from afx.fft import hfft as hfft
from afx.fft import ifft as ifft
from afx.fft import ifft2 as ifft2
from afx.fft import ifftn as ifftn
from afx.fft import ifftshift as ifftshift
from afx.fft import ihfft as ihfft
from afx.fft import irfft as irfft
from afx.fft import irfft2 as irfft2
from afx.fft import irfftn as irfftn
from afx.fft import rfft as rfft
from afx.fft import rfft2 as rfft2
from afx.fft import rfftfreq as rfftfreq
from afx.fft import rfftn as rfftn
