"""Constants: numbers and names of the array API standard, as NumPy has them."""

from __future__ import annotations

import math

from afx.core.dtypes import bool_

__all__ = ["bool", "e", "inf", "nan", "newaxis", "pi"]

bool = bool_

e = math.e
pi = math.pi
inf = math.inf
nan = math.nan
newaxis = None
