"""Constants: the version of afx, and numbers and names of the array API standard, as NumPy has them."""

from __future__ import annotations

import math

from afx.core.dtypes import DType, bool_

__all__ = ["bool", "e", "inf", "nan", "newaxis", "pi"]

__version__ = "0.1.0"

bool: DType = bool_

e: float = math.e
pi: float = math.pi
inf: float = math.inf
nan: float = math.nan
newaxis = None
