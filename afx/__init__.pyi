# generated: run python -m tests.generate_names

from afx import data as data
from afx import debug as debug
from afx import distributed as distributed
from afx import errors as errors
from afx import export as export
from afx import fft as fft
from afx import integrate as integrate
from afx import io as io
from afx import linalg as linalg
from afx import nn as nn
from afx import numpy as numpy
from afx import optim as optim
from afx import plot as plot
from afx import pytree as pytree
from afx import random as random
from afx import sample as sample
from afx import sparse as sparse
from afx import special as special
from afx import stats as stats
from afx import testing as testing
from afx import train as train
from afx.control.associative_scan import *
from afx.control.cond import *
from afx.control.map import *
from afx.control.scan import *
from afx.control.while_loop import *
from afx.core.array.array import *
from afx.core.array_api import __array_namespace_info__ as __array_namespace_info__
from afx.core.array_api import can_cast as can_cast
from afx.core.array_api import finfo as finfo
from afx.core.array_api import iinfo as iinfo
from afx.core.array_api import isdtype as isdtype
from afx.core.array_api import result_type as result_type
from afx.core.aval import Aval as Aval
from afx.core.constants import *
from afx.core.dtypes import *
from afx.core.equation import Equation as Equation
from afx.core.equation import Literal as Literal
from afx.core.equation import Var as Var
from afx.core.graph import Graph as Graph
from afx.core.graph import check as check
from afx.core.interpreter import evaluate as evaluate
from afx.core.primitive import *
from afx.core.tracing.debug_nans import debug_nans as debug_nans
from afx.core.tracing.tracer import is_traced as is_traced
from afx.ops.creation.creation import *
from afx.ops.creation.matrices import *
from afx.ops.creation.ranges import *
from afx.ops.creation.stop_gradient import *
from afx.ops.elementwise.arithmetic import *
from afx.ops.elementwise.closeness import *
from afx.ops.elementwise.comparison import *
from afx.ops.elementwise.complex import *
from afx.ops.elementwise.exponential import *
from afx.ops.elementwise.floating_point import *
from afx.ops.elementwise.rounding import *
from afx.ops.elementwise.trigonometry import *
from afx.ops.elementwise.where import *
from afx.ops.indexing.getitem import *
from afx.ops.indexing.index_tricks import *
from afx.ops.indexing.segments import *
from afx.ops.indexing.select import *
from afx.ops.linalg.einsum import *
from afx.ops.linalg.products import *
from afx.ops.manipulation.axes import *
from afx.ops.manipulation.diagonals import *
from afx.ops.manipulation.edit import *
from afx.ops.manipulation.join import *
from afx.ops.manipulation.pad import *
from afx.ops.manipulation.shape import *
from afx.ops.manipulation.split import *
from afx.ops.nn.convolution import correlate as correlate
from afx.ops.nn.convolve import *
from afx.ops.nn.windows import *
from afx.ops.numerics.apply import *
from afx.ops.numerics.histograms import *
from afx.ops.numerics.interpolation import *
from afx.ops.numerics.polyfit import *
from afx.ops.numerics.polynomials import *
from afx.ops.numerics.statistics import *
from afx.ops.reductions.boolean import *
from afx.ops.reductions.cumulative import *
from afx.ops.reductions.logsumexp import *
from afx.ops.reductions.moments import *
from afx.ops.reductions.nan import *
from afx.ops.reductions.nan_extremes import *
from afx.ops.reductions.quantiles import *
from afx.ops.reductions.sums import *
from afx.ops.sorting.partition import *
from afx.ops.sorting.sets import *
from afx.ops.sorting.sort import *
from afx.ops.sorting.unique import *
from afx.pytree import non_trainable as non_trainable
from afx.pytree import static as static
from afx.runtime.buffer_cache import set_cache_limit as set_cache_limit
from afx.runtime.thread_pool import get_threads as get_threads
from afx.runtime.threads import set_threads as set_threads
from afx.transforms.checkpoint import *
from afx.transforms.compile.backend import get_backend as get_backend
from afx.transforms.compile.backend import set_backend as set_backend
from afx.transforms.compile.backend import set_code_cache as set_code_cache
from afx.transforms.compile.backend import set_denormals as set_denormals
from afx.transforms.compile.jit import *
from afx.transforms.compile.jit_cache import CacheInfo as CacheInfo
from afx.transforms.compile.lowered import PlanStatus as PlanStatus
from afx.transforms.compile.make_graph import *
from afx.transforms.compile.retracing import disable_jit as disable_jit
from afx.transforms.custom.custom_derivatives import *
from afx.transforms.derivatives.elementwise_grad import *
from afx.transforms.derivatives.grad import *
from afx.transforms.derivatives.hessian import *
from afx.transforms.derivatives.jacobian import jacfwd as jacfwd
from afx.transforms.derivatives.jacobian import jacrev as jacrev
from afx.transforms.derivatives.jvp import *
from afx.transforms.derivatives.linearize import *
from afx.transforms.derivatives.vjp import *
from afx.transforms.sparse.sparse_derivatives import *
from afx.transforms.sparse.sparse_matrix import *
from afx.transforms.vmap import *

__version__: str
__array_api_version__: str
