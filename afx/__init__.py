"""afx: NumPy with derivatives and compiled plans.

Write pure functions of arrays and frozen classes; `grad`, `jvp`, `vmap` and `jit` transform them. The families
`afx.nn`, `afx.optim` and others load when they are first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

from afx import errors, pytree
from afx.control.associative_scan import *
from afx.control.cond import *
from afx.control.scan import *
from afx.control.while_loop import *
from afx.core.array import Array, ArrayLike
from afx.core.aval import Aval
from afx.core.dtypes import *
from afx.core.graph import Equation, Graph, Literal, Var, check
from afx.core.located import debug_nans
from afx.core.primitive import Primitive, primitives
from afx.ops.arithmetic import *
from afx.ops.axes import *
from afx.ops.comparison import *
from afx.ops.complex import *
from afx.ops.convolution import convolve, correlate
from afx.ops.creation import *
from afx.ops.diagonals import *
from afx.ops.einsum import *
from afx.ops.exponential import *
from afx.ops.indexing import *
from afx.ops.joining import *
from afx.ops.matrix import *
from afx.ops.moments import *
from afx.ops.padding import *
from afx.ops.products import *
from afx.ops.reductions import *
from afx.ops.rounding import *
from afx.ops.selection import *
from afx.ops.shaping import *
from afx.ops.sorting import *
from afx.ops.splitting import *
from afx.ops.stopping import *
from afx.ops.trigonometry import *
from afx.ops.updates import *
from afx.pytree import static
from afx.runtime.evaluate import evaluate
from afx.transforms.checkpoint import *
from afx.transforms.custom import *
from afx.transforms.grad import *
from afx.transforms.jacobian import *
from afx.transforms.jit import *
from afx.transforms.jvp import *
from afx.transforms.linearize import *
from afx.transforms.trace import *
from afx.transforms.vjp import *
from afx.transforms.vmap import *

if TYPE_CHECKING:
    from afx import nn as nn
    from afx import optim as optim

__version__ = "0.1.0"

LAZY = ("nn", "optim")


def __getattr__(name: str) -> Any:
    if name in LAZY:
        return importlib.import_module(f"afx.{name}")
    raise AttributeError(f"module 'afx' has no attribute {name!r}")
