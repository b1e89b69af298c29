# generated: run python -m tests.generate_names

# fmt: off
from afx import (
cluster as cluster, data as data, debug as debug, distributed as distributed, errors as errors, export as export, fft as
fft, integrate as integrate, interop as interop, interpolate as interpolate, io as io, linalg as linalg, ndimage as
ndimage, nn as nn, numpy as numpy, optim as optim, plot as plot, pytree as pytree, random as random, sample as sample,
signal as signal, sparse as sparse, special as special, stats as stats, testing as testing, train as train
)
from afx.compiler.report import PlanStatus as PlanStatus
from afx.compiler.threads import set_threads as set_threads
from afx.control.cond import cond as cond, switch as switch
from afx.control.map import map as map
from afx.control.scan import associative_scan as associative_scan, scan as scan
from afx.control.while_loop import fori_loop as fori_loop, while_loop as while_loop
from afx.core.array.array import Array as Array, ArrayLike as ArrayLike
from afx.core.array_api import (
__array_namespace_info__ as __array_namespace_info__, broadcast_shapes as broadcast_shapes, can_cast as can_cast, finfo
as finfo, iinfo as iinfo, isdtype as isdtype, isscalar as isscalar, issubdtype as issubdtype, ndim as ndim,
promote_types as promote_types, result_type as result_type, shape as shape, size as size
)
from afx.core.aval import Aval as Aval
from afx.core.constants import bool as bool, e as e, inf as inf, nan as nan, newaxis as newaxis, pi as pi
from afx.core.dtypes import (
DType as DType, bool_ as bool_, complex128 as complex128, complex64 as complex64, default_dtype as default_dtype,
float16 as float16, float32 as float32, float64 as float64, get_default_dtype as get_default_dtype, int16 as int16,
int32 as int32, int64 as int64, int8 as int8, set_default_dtype as set_default_dtype, uint16 as uint16, uint32 as
uint32, uint64 as uint64, uint8 as uint8
)
from afx.core.graph import Equation as Equation, Graph as Graph, Literal as Literal, Var as Var, check as check
from afx.core.primitive import Primitive as Primitive, primitives as primitives
from afx.core.tracing.tape import debug_nans as debug_nans
from afx.core.tracing.tracer import is_traced as is_traced
from afx.core.tracing.traces import evaluate as evaluate
from afx.ops.creation.creation import (
array as array, asarray as asarray, copy as copy, empty as empty, empty_like as empty_like, from_dlpack as from_dlpack,
full as full, full_like as full_like, ones as ones, ones_like as ones_like, stop_gradient as stop_gradient, to_device as
to_device, zeros as zeros, zeros_like as zeros_like
)
from afx.ops.creation.matrices import eye as eye, identity as identity, tri as tri, tril as tril, triu as triu
from afx.ops.creation.ranges import (
arange as arange, geomspace as geomspace, linspace as linspace, logspace as logspace, meshgrid as meshgrid
)
from afx.ops.creation.windows import (
bartlett as bartlett, blackman as blackman, hamming as hamming, hanning as hanning, kaiser as kaiser
)
from afx.ops.elementwise.arithmetic import (
abs as abs, absolute as absolute, add as add, cbrt as cbrt, divide as divide, divmod as divmod, floor_divide as
floor_divide, hypot as hypot, mod as mod, multiply as multiply, negative as negative, positive as positive, pow as pow,
power as power, reciprocal as reciprocal, remainder as remainder, sign as sign, sqrt as sqrt, square as square, subtract
as subtract, true_divide as true_divide
)
from afx.ops.elementwise.comparison import (
bitwise_and as bitwise_and, bitwise_invert as bitwise_invert, bitwise_left_shift as bitwise_left_shift, bitwise_not as
bitwise_not, bitwise_or as bitwise_or, bitwise_right_shift as bitwise_right_shift, bitwise_xor as bitwise_xor, clip as
clip, equal as equal, greater as greater, greater_equal as greater_equal, invert as invert, isfinite as isfinite, isinf
as isinf, isnan as isnan, left_shift as left_shift, less as less, less_equal as less_equal, logical_and as logical_and,
logical_not as logical_not, logical_or as logical_or, logical_xor as logical_xor, maximum as maximum, minimum as
minimum, not_equal as not_equal, right_shift as right_shift, signbit as signbit, where as where
)
from afx.ops.elementwise.complex import (
angle as angle, conj as conj, conjugate as conjugate, imag as imag, iscomplex as iscomplex, iscomplexobj as
iscomplexobj, isreal as isreal, isrealobj as isrealobj, real as real
)
from afx.ops.elementwise.exponentials import (
exp as exp, exp2 as exp2, expm1 as expm1, log as log, log10 as log10, log1p as log1p, log2 as log2, log_sigmoid as
log_sigmoid, logaddexp as logaddexp, logaddexp2 as logaddexp2, sigmoid as sigmoid, softplus as softplus
)
from afx.ops.elementwise.floating_point import (
allclose as allclose, around as around, array_equal as array_equal, array_equiv as array_equiv, bitwise_count as
bitwise_count, ceil as ceil, copysign as copysign, fabs as fabs, fix as fix, float_power as float_power, floor as floor,
fmod as fmod, frexp as frexp, gcd as gcd, heaviside as heaviside, isclose as isclose, isneginf as isneginf, isposinf as
isposinf, lcm as lcm, ldexp as ldexp, modf as modf, nextafter as nextafter, real_if_close as real_if_close, rint as
rint, round as round, spacing as spacing, trunc as trunc
)
from afx.ops.elementwise.trigonometry import (
acos as acos, acosh as acosh, arccos as arccos, arccosh as arccosh, arcsin as arcsin, arcsinh as arcsinh, arctan as
arctan, arctan2 as arctan2, arctanh as arctanh, asin as asin, asinh as asinh, atan as atan, atan2 as atan2, atanh as
atanh, cos as cos, cosh as cosh, deg2rad as deg2rad, degrees as degrees, rad2deg as rad2deg, radians as radians, sin as
sin, sinc as sinc, sinh as sinh, tan as tan, tanh as tanh
)
from afx.ops.indexing.getitem import take as take, take_along_axis as take_along_axis
from afx.ops.indexing.scatter import (
put_along_axis as put_along_axis, segment_max as segment_max, segment_mean as segment_mean, segment_min as segment_min,
segment_prod as segment_prod, segment_sum as segment_sum
)
from afx.ops.indexing.select import (
c_ as c_, choose as choose, compress as compress, diag_indices as diag_indices, diag_indices_from as diag_indices_from,
extract as extract, fromfunction as fromfunction, indices as indices, ix_ as ix_, piecewise as piecewise, r_ as r_,
ravel_multi_index as ravel_multi_index, select as select, tril_indices as tril_indices, tril_indices_from as
tril_indices_from, triu_indices as triu_indices, triu_indices_from as triu_indices_from, unravel_index as unravel_index
)
from afx.ops.linalg.products import (
cross as cross, dot as dot, einsum as einsum, einsum_path as einsum_path, inner as inner, kron as kron, matmul as
matmul, matvec as matvec, outer as outer, tensordot as tensordot, vdot as vdot, vecdot as vecdot, vecmat as vecmat
)
from afx.ops.manipulation.edit import (
append as append, block as block, delete as delete, diag as diag, diagflat as diagflat, diagonal as diagonal, insert as
insert, resize as resize, rollaxis as rollaxis, trim_zeros as trim_zeros
)
from afx.ops.manipulation.join import (
array_split as array_split, atleast_1d as atleast_1d, atleast_2d as atleast_2d, atleast_3d as atleast_3d,
broadcast_arrays as broadcast_arrays, column_stack as column_stack, concat as concat, concatenate as concatenate, dsplit
as dsplit, dstack as dstack, hsplit as hsplit, hstack as hstack, matrix_transpose as matrix_transpose, moveaxis as
moveaxis, repeat as repeat, split as split, stack as stack, swapaxes as swapaxes, tile as tile, unstack as unstack,
vsplit as vsplit, vstack as vstack
)
from afx.ops.manipulation.packing import packbits as packbits, unpackbits as unpackbits
from afx.ops.manipulation.pad import (
flip as flip, fliplr as fliplr, flipud as flipud, pad as pad, roll as roll, rot90 as rot90
)
from afx.ops.manipulation.shape import (
astype as astype, broadcast_to as broadcast_to, expand_dims as expand_dims, permute_dims as permute_dims, ravel as
ravel, reshape as reshape, squeeze as squeeze, transpose as transpose
)
from afx.ops.nn.convolution import convolve as convolve, correlate as correlate
from afx.ops.nn.windows import sliding_window_view as sliding_window_view
from afx.ops.numerics.histograms import (
bincount as bincount, corrcoef as corrcoef, cov as cov, digitize as digitize, histogram as histogram, histogram2d as
histogram2d, histogram_bin_edges as histogram_bin_edges, histogramdd as histogramdd
)
from afx.ops.numerics.interpolation import (
apply_along_axis as apply_along_axis, apply_over_axes as apply_over_axes, ediff1d as ediff1d, gradient as gradient,
interp as interp, trapezoid as trapezoid, unwrap as unwrap
)
from afx.ops.numerics.polynomials import (
poly as poly, polyadd as polyadd, polyder as polyder, polydiv as polydiv, polyfit as polyfit, polyint as polyint,
polymul as polymul, polysub as polysub, polyval as polyval, roots as roots, vander as vander
)
from afx.ops.reductions.cumulative import (
cumlogsumexp as cumlogsumexp, cummax as cummax, cummin as cummin, cumprod as cumprod, cumsum as cumsum, cumulative_prod
as cumulative_prod, cumulative_sum as cumulative_sum, diff as diff, logsumexp as logsumexp
)
from afx.ops.reductions.moments import average as average, std as std, var as var, vector_norm as vector_norm
from afx.ops.reductions.nan import (
fmax as fmax, fmin as fmin, nan_to_num as nan_to_num, nanargmax as nanargmax, nanargmin as nanargmin, nancumprod as
nancumprod, nancumsum as nancumsum, nanmax as nanmax, nanmean as nanmean, nanmin as nanmin, nanprod as nanprod, nanstd
as nanstd, nansum as nansum, nanvar as nanvar
)
from afx.ops.reductions.quantiles import (
median as median, nanmedian as nanmedian, nanpercentile as nanpercentile, nanquantile as nanquantile, percentile as
percentile, quantile as quantile
)
from afx.ops.reductions.sums import (
all as all, amax as amax, amin as amin, any as any, count_nonzero as count_nonzero, max as max, mean as mean, min as
min, prod as prod, ptp as ptp, sum as sum
)
from afx.ops.sorting.partition import (
TopK as TopK, argpartition as argpartition, lexsort as lexsort, partition as partition, sort_complex as sort_complex,
top_k as top_k
)
from afx.ops.sorting.sets import (
intersect1d as intersect1d, isin as isin, setdiff1d as setdiff1d, setxor1d as setxor1d, union1d as union1d, unique as
unique, unique_all as unique_all, unique_counts as unique_counts, unique_inverse as unique_inverse, unique_values as
unique_values
)
from afx.ops.sorting.sort import (
argmax as argmax, argmin as argmin, argsort as argsort, argwhere as argwhere, flatnonzero as flatnonzero, nonzero as
nonzero, searchsorted as searchsorted, sort as sort
)
from afx.pytree import non_trainable as non_trainable, static as static
from afx.runtime.buffer_cache import set_cache_limit as set_cache_limit
from afx.runtime.thread_pool import get_threads as get_threads
from afx.transforms.checkpoint import checkpoint as checkpoint
from afx.transforms.compile.compiled_call import (
get_backend as get_backend, set_backend as set_backend, set_code_cache as set_code_cache, set_denormals as set_denormals
)
from afx.transforms.compile.jit import JitFunction as JitFunction, Lowered as Lowered, jit as jit
from afx.transforms.compile.make_graph import disable_jit as disable_jit, eval_shape as eval_shape, trace as trace
from afx.transforms.compile.quick_call import CacheInfo as CacheInfo
from afx.transforms.custom_derivatives import custom_jvp as custom_jvp, custom_vjp as custom_vjp
from afx.transforms.derivatives.grad import grad as grad, value_and_grad as value_and_grad, vjp as vjp
from afx.transforms.derivatives.jacobian import (
elementwise_grad as elementwise_grad, hessian as hessian, hvp as hvp, jacfwd as jacfwd, jacrev as jacrev
)
from afx.transforms.derivatives.jvp import jvp as jvp, linearize as linearize
from afx.transforms.sparse.sparse_derivatives import (
sparse_hessian as sparse_hessian, sparse_jacobian as sparse_jacobian
)
from afx.transforms.sparse.sparse_matrix import SparseMatrix as SparseMatrix
from afx.transforms.vmap import vectorize as vectorize, vmap as vmap

__version__: str
__array_api_version__: str
