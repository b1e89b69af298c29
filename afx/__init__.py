"""afx: NumPy with derivatives and compiled plans."""

from afx.core.primitive import primitives
from afx.core.array import Array, ArrayLike
from afx.core.dtypes import *
from afx.ops.arithmetic import *
from afx.ops.comparison import *
from afx.ops.selection import *
from afx.ops.shaping import *
from afx.ops.reductions import *
from afx.ops.creation import *
from afx.transforms.vjp import vjp
from afx.transforms.jvp import jvp
from afx.transforms.grad import grad, value_and_grad

__version__ = "0.1.0"
