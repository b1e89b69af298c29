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

from afx.ops.stopping import *
from afx.transforms.trace import eval_shape, trace
from afx.transforms.jit import JitFunction, Lowered, jit
from afx.core.graph import Equation, Graph, Literal, Var, check
from afx.core.aval import Aval
from afx.runtime.evaluate import evaluate

__version__ = "0.1.0"
