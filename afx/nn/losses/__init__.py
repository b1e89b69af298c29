"""Losses: one number per example (or element), to be reduced with `afx.mean` or `afx.sum`.

Predictions come first, targets second. Shapes must agree: a silent broadcast would compare every pair.
"""

from afx.errors import refuse_names
from afx.nn.losses.classification import *
from afx.nn.losses.ctc import *
from afx.nn.losses.regression import *

refuse_names(__name__)
