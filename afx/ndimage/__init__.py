"""Image filters: SciPy's `ndimage` functions of arrays of any number of axes, with derivatives by elements and parameters.

Filters continue an array by ``mode``: ``reflect`` mirrors with the edge's element, ``mirror`` without it, ``nearest``
repeats it, ``wrap`` begins again at the other end, ``constant`` takes ``cval``. Results have the dtype of the input, as
SciPy's, or that of ``output``; integers are cut off or, between elements, rounded.

>>> gaussian_filter(np.array([0.0, 0.0, 1.0, 0.0, 0.0]), 0.5).round(3)
Array([0.   , 0.106, 0.787, 0.106, 0.   ], dtype=float64)
"""

from afx.errors import refuse_names
from afx.ndimage.correlation import *
from afx.ndimage.filters import *
from afx.ndimage.interpolation import *

refuse_names(__name__)
