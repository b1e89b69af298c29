"""Operands for Fourier transforms: even and odd lengths, a single point, and axes that are not the last."""

import numpy as np

from tests.ops.samples import Sample

RNG = np.random.default_rng(9)
REAL = RNG.normal(size=(2, 5, 4))
COMPLEX = REAL + 1j * RNG.normal(size=REAL.shape)
ONE = np.array([0.7])

SAMPLES: dict[str, list[Sample]] = {
    "fft": [
        Sample((COMPLEX,), {"axis": -2, "norm": "backward"}),
        Sample((REAL,), {"axis": -1, "norm": "ortho"}),
        Sample((ONE,), {"axis": -1, "norm": "forward"}),
        Sample((np.zeros((0, 3)),), {"axis": -1, "norm": "backward"}),
    ],
    "ifft": [
        Sample((COMPLEX,), {"axis": -2, "norm": "backward"}),
        Sample((REAL,), {"axis": -3, "norm": "ortho"}),
        Sample((ONE,), {"axis": -1, "norm": "forward"}),
    ],
    "rfft": [
        Sample((REAL,), {"axis": -1, "norm": "backward"}),
        Sample((REAL,), {"axis": -2, "norm": "forward"}),
        Sample((REAL,), {"axis": -3, "norm": "ortho"}),
        Sample((ONE,), {"axis": -1, "norm": "backward"}),
    ],
    "irfft": [
        Sample((COMPLEX,), {"axis": -1, "norm": "backward", "n": 6}),
        Sample((COMPLEX,), {"axis": -1, "norm": "forward", "n": 7}),
        Sample((COMPLEX,), {"axis": -3, "norm": "ortho", "n": 2}),
        Sample((REAL,), {"axis": -2, "norm": "ortho", "n": 9}),
        Sample((ONE,), {"axis": -1, "norm": "backward", "n": 1}),
    ],
}
