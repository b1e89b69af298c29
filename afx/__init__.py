"""afx: NumPy with derivatives and compiled plans.

Write pure functions of arrays and frozen classes; `grad`, `jvp`, `vmap` and `jit` transform them. The families
`afx.nn`, `afx.optim` and others load when they are first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

from afx import errors, pytree
from afx.core.array import Array, ArrayLike
from afx.core.aval import Aval
from afx.core.constants import *
from afx.core.dtypes import *
from afx.core.functions import FAMILIES, LAZY
from afx.core.located import debug_nans
from afx.core.primitive import Primitive, primitives
from afx.ops.arithmetic import *
from afx.ops.comparison import *
from afx.ops.creation import *
from afx.ops.exponential import *
from afx.ops.reductions import *
from afx.ops.selection import *
from afx.ops.shaping import *
from afx.ops.stopping import *
from afx.ops.trigonometry import *
from afx.pytree import static
from afx.transforms.grad import *
from afx.transforms.vjp import *

if TYPE_CHECKING:
    from afx import fft, linalg, nn, optim, random, special, testing
    from afx.control.associative_scan import *
    from afx.control.cond import *
    from afx.control.scan import *
    from afx.control.while_loop import *
    from afx.core.graph import Equation, Graph, Literal, Var, check
    from afx.core.inspection import __array_namespace_info__, can_cast, finfo, iinfo, isdtype, result_type
    from afx.ops.axes import *
    from afx.ops.complex import *
    from afx.ops.convolution import convolve, correlate
    from afx.ops.cumulative import *
    from afx.ops.diagonals import *
    from afx.ops.einsum import *
    from afx.ops.indexing import *
    from afx.ops.interpolation import *
    from afx.ops.joining import *
    from afx.ops.matrix import *
    from afx.ops.moments import *
    from afx.ops.nans import *
    from afx.ops.padding import *
    from afx.ops.quantiles import *
    from afx.ops.ranges import *
    from afx.ops.rounding import *
    from afx.ops.sets import *
    from afx.ops.sorting import *
    from afx.ops.splitting import *
    from afx.ops.statistics import *
    from afx.runtime.evaluate import evaluate
    from afx.runtime.threads import get_threads, set_threads
    from afx.transforms.checkpoint import *
    from afx.transforms.custom import *
    from afx.transforms.jacobian import *
    from afx.transforms.jit import *
    from afx.transforms.jvp import *
    from afx.transforms.linearize import *
    from afx.transforms.trace import *
    from afx.transforms.vmap import *

__all__ = [
    "Array",
    "ArrayLike",
    "Aval",
    "DType",
    "Equation",
    "Graph",
    "JitFunction",
    "Literal",
    "Lowered",
    "Primitive",
    "Var",
    "__array_namespace_info__",
    "abs",
    "acos",
    "acosh",
    "add",
    "all",
    "amax",
    "amin",
    "angle",
    "any",
    "arange",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "argmax",
    "argmin",
    "argsort",
    "argwhere",
    "array",
    "array_split",
    "asarray",
    "asin",
    "asinh",
    "associative_scan",
    "astype",
    "atan",
    "atan2",
    "atanh",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "average",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "bool",
    "bool_",
    "broadcast_arrays",
    "broadcast_to",
    "can_cast",
    "cbrt",
    "ceil",
    "check",
    "checkpoint",
    "clip",
    "column_stack",
    "complex64",
    "complex128",
    "concat",
    "concatenate",
    "cond",
    "conj",
    "conjugate",
    "convolve",
    "copy",
    "copysign",
    "corrcoef",
    "correlate",
    "cos",
    "cosh",
    "count_nonzero",
    "cov",
    "cross",
    "cumlogsumexp",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "custom_jvp",
    "custom_vjp",
    "debug_nans",
    "default_dtype",
    "deg2rad",
    "degrees",
    "diag",
    "diagonal",
    "diff",
    "divide",
    "dot",
    "dsplit",
    "dstack",
    "e",
    "ediff1d",
    "einsum",
    "empty",
    "empty_like",
    "equal",
    "errors",
    "eval_shape",
    "evaluate",
    "exp",
    "exp2",
    "expand_dims",
    "expm1",
    "eye",
    "fft",
    "finfo",
    "fix",
    "flatnonzero",
    "flip",
    "fliplr",
    "flipud",
    "float16",
    "float32",
    "float64",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "fori_loop",
    "from_dlpack",
    "full",
    "full_like",
    "get_default_dtype",
    "get_threads",
    "grad",
    "gradient",
    "greater",
    "greater_equal",
    "hessian",
    "hsplit",
    "hstack",
    "hvp",
    "hypot",
    "identity",
    "iinfo",
    "imag",
    "inf",
    "inner",
    "int8",
    "int16",
    "int32",
    "int64",
    "interp",
    "iscomplex",
    "iscomplexobj",
    "isdtype",
    "isfinite",
    "isinf",
    "isnan",
    "isreal",
    "isrealobj",
    "jacfwd",
    "jacrev",
    "jit",
    "jvp",
    "kron",
    "less",
    "less_equal",
    "linalg",
    "linearize",
    "linspace",
    "log",
    "log1p",
    "log2",
    "log10",
    "log_sigmoid",
    "logaddexp",
    "logaddexp2",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logspace",
    "logsumexp",
    "matmul",
    "matrix_transpose",
    "max",
    "maximum",
    "mean",
    "median",
    "meshgrid",
    "min",
    "minimum",
    "moveaxis",
    "multiply",
    "nan",
    "nan_to_num",
    "nanargmax",
    "nanargmin",
    "nancumprod",
    "nancumsum",
    "nanmax",
    "nanmean",
    "nanmedian",
    "nanmin",
    "nanpercentile",
    "nanprod",
    "nanquantile",
    "nanstd",
    "nansum",
    "nanvar",
    "negative",
    "newaxis",
    "nextafter",
    "nn",
    "nonzero",
    "not_equal",
    "ones",
    "ones_like",
    "optim",
    "outer",
    "pad",
    "percentile",
    "permute_dims",
    "pi",
    "positive",
    "pow",
    "primitives",
    "prod",
    "ptp",
    "pytree",
    "quantile",
    "rad2deg",
    "radians",
    "random",
    "ravel",
    "real",
    "reciprocal",
    "remainder",
    "repeat",
    "reshape",
    "result_type",
    "rint",
    "roll",
    "rot90",
    "round",
    "scan",
    "searchsorted",
    "set_default_dtype",
    "set_threads",
    "sigmoid",
    "sign",
    "signbit",
    "sin",
    "sinc",
    "sinh",
    "softplus",
    "sort",
    "special",
    "split",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "static",
    "std",
    "stop_gradient",
    "subtract",
    "sum",
    "swapaxes",
    "switch",
    "take",
    "take_along_axis",
    "tan",
    "tanh",
    "tensordot",
    "testing",
    "tile",
    "to_device",
    "trace",
    "transpose",
    "trapezoid",
    "tri",
    "tril",
    "triu",
    "trunc",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "unstack",
    "unwrap",
    "value_and_grad",
    "var",
    "vdot",
    "vecdot",
    "vector_norm",
    "vjp",
    "vmap",
    "vsplit",
    "vstack",
    "where",
    "while_loop",
    "zeros",
    "zeros_like",
]

__version__ = "0.1.0"
__array_api_version__ = "2024.12"

# What a plain import does not need loads when one of its names is first asked for: module to names. Names that are not
# in `__all__` are methods' and NumPy's.
_LAZY = {
    "afx.control.associative_scan": "associative_scan",
    "afx.control.cond": "cond switch",
    "afx.control.scan": "scan",
    "afx.control.while_loop": "fori_loop while_loop",
    "afx.core.graph": "Equation Graph Literal Var check",
    "afx.core.inspection": "__array_namespace_info__ can_cast finfo iinfo isdtype result_type",
    "afx.ops.bits": "",
    "afx.ops.integer_draws": "",
    "afx.ops.laws": "",
    "afx.ops.axes": "atleast_1d atleast_2d atleast_3d matrix_transpose moveaxis swapaxes",
    "afx.ops.complex": "angle conj conjugate imag iscomplex iscomplexobj isreal isrealobj real",
    "afx.ops.convolution": "convolve correlate",
    "afx.ops.cumulative": "cumlogsumexp cummax cummin cumprod cumsum cumulative_prod cumulative_sum diff",
    "afx.ops.determinants": "",
    "afx.ops.diagonals": "diag diagonal matrix_trace",
    "afx.ops.einsum": "einsum",
    "afx.ops.eigen": "",
    "afx.ops.factorization": "",
    "afx.ops.gates": "",
    "afx.ops.indexing": "take take_along_axis getitem",
    "afx.ops.interpolation": "ediff1d gradient interp trapezoid unwrap",
    "afx.ops.joining": "column_stack concat concatenate dstack hstack repeat stack tile vstack",
    "afx.ops.leastsquares": "",
    "afx.ops.linalg": "",
    "afx.ops.lu": "",
    "afx.ops.matrix": "cross dot inner kron matmul outer tensordot vdot vecdot",
    "afx.ops.matrixfunctions": "",
    "afx.ops.moments": "average logsumexp std var vector_norm",
    "afx.ops.nans": (
        "fmax fmin nan_to_num nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmin nanprod nanstd nansum "
        "nanvar"
    ),
    "afx.ops.padding": "flip fliplr flipud pad roll rot90",
    "afx.ops.pooling": "",
    "afx.ops.products": "index_divide index_multiply",
    "afx.ops.qr": "",
    "afx.ops.quantiles": "median nanmedian nanpercentile nanquantile percentile quantile",
    "afx.ops.ranges": "arange linspace logspace meshgrid",
    "afx.ops.rounding": "ceil copysign fix floor fmod nextafter rint round trunc",
    "afx.ops.sets": "unique_all unique_counts unique_inverse unique_values",
    "afx.ops.sorting": "argmax argmin argsort argwhere flatnonzero nonzero searchsorted sort",
    "afx.ops.special_errors": "erf erfc erfcinv erfcx erfinv log_ndtr ndtr ndtri",
    "afx.ops.special_gamma": ("beta betaln digamma factorial gamma gammaln gammasgn multigammaln polygamma psi"),
    "afx.ops.special_logarithms": "entr kl_div logit rel_entr xlog1py xlogy",
    "afx.ops.splitting": "array_split dsplit hsplit split unstack vsplit",
    "afx.ops.statistics": "corrcoef cov",
    "afx.ops.svd": "",
    "afx.ops.triangular": "",
    "afx.ops.updates": "index_add index_max index_min index_set",
    "afx.runtime.evaluate": "evaluate",
    "afx.runtime.threads": "get_threads set_threads",
    "afx.transforms.checkpoint": "checkpoint",
    "afx.transforms.custom": "custom_jvp custom_vjp",
    "afx.transforms.jacobian": "hessian hvp jacfwd jacrev",
    "afx.transforms.jit": "JitFunction Lowered jit",
    "afx.transforms.jvp": "jvp",
    "afx.transforms.linearize": "linearize",
    "afx.transforms.trace": "eval_shape trace",
    "afx.transforms.vmap": "vmap",
}
FAMILIES.extend(_LAZY)
LAZY.update({name: module for module, names in _LAZY.items() for name in names.split()})


def __getattr__(name: str) -> Any:
    if name in ("fft", "linalg", "nn", "optim", "random", "special", "testing"):
        found: Any = importlib.import_module(f"afx.{name}")
    elif name in LAZY and name in __all__:
        found = getattr(importlib.import_module(LAZY[name]), name)
    else:
        raise AttributeError(f"module 'afx' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
