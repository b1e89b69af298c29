"""Interpolation: splines, grids and radial functions through points, SciPy's names, differentiable in points and values.

What they make are frozen trees: they go through `afx.jit` and `afx.grad`, and `afx.io` saves them.

>>> from afx.interpolate import CubicSpline
>>> x = np.linspace(0.0, 3.0, 12)
>>> bool(abs(CubicSpline(x, np.sin(x)).integrate(0.0, 3.0) - (1 - np.cos(3.0))) < 1e-3)
True
"""

from afx.errors import refuse_names
from afx.interpolate.piecewise import *
from afx.interpolate.scattered import *
from afx.interpolate.splines import *

refuse_names(__name__)
