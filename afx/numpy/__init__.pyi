# generated: run python -m tests.generate_names, with NumPy 2.4
# Typed as for Arrays: without one among the operands, functions give NumPy's ndarrays, which are taken as Arrays are.

# fmt: off
from afx.core.array.array import Array as _Array
from afx.core.array_api import (
can_cast as can_cast, isdtype as isdtype, ndim as ndim, result_type as result_type, shape as shape, size as size
)
from afx.numpy import fft as fft, linalg as linalg, random as random
from afx.numpy._namespace import vectorize as vectorize
from afx.ops.creation.creation import (
array as array, asarray as _asarray, asarray as asarray, copy as copy, empty_like as empty_like, from_dlpack as
from_dlpack, full as full, full_like as full_like, ones_like as ones_like, zeros_like as zeros_like
)
from afx.ops.creation.matrices import tril as tril, triu as triu
from afx.ops.creation.ranges import (
arange as arange, geomspace as geomspace, linspace as linspace, logspace as logspace, meshgrid as meshgrid
)
from afx.ops.elementwise.arithmetic import (
abs as _abs, abs as abs, add as add, cbrt as cbrt, divide as _divide, divide as divide, divmod as divmod, floor_divide
as floor_divide, hypot as hypot, multiply as multiply, negative as negative, positive as positive, pow as _pow, pow as
pow, reciprocal as reciprocal, remainder as _remainder, remainder as remainder, sign as sign, sqrt as sqrt, square as
square, subtract as subtract
)
from afx.ops.elementwise.comparison import (
bitwise_and as bitwise_and, bitwise_invert as _bitwise_invert, bitwise_invert as bitwise_invert, bitwise_left_shift as
_bitwise_left_shift, bitwise_left_shift as bitwise_left_shift, bitwise_or as bitwise_or, bitwise_right_shift as
_bitwise_right_shift, bitwise_right_shift as bitwise_right_shift, bitwise_xor as bitwise_xor, clip as clip, equal as
equal, greater as greater, greater_equal as greater_equal, isfinite as isfinite, isinf as isinf, isnan as isnan, less as
less, less_equal as less_equal, logical_and as logical_and, logical_not as logical_not, logical_or as logical_or,
logical_xor as logical_xor, maximum as maximum, minimum as minimum, not_equal as not_equal, signbit as signbit, where as
where
)
from afx.ops.elementwise.complex import (
angle as angle, conj as _conj, conj as conj, imag as imag, iscomplex as iscomplex, iscomplexobj as iscomplexobj, isreal
as isreal, isrealobj as isrealobj, real as real
)
from afx.ops.elementwise.exponentials import (
exp as exp, exp2 as exp2, expm1 as expm1, log as log, log10 as log10, log1p as log1p, log2 as log2, logaddexp as
logaddexp, logaddexp2 as logaddexp2
)
from afx.ops.elementwise.floating_point import (
allclose as allclose, array_equal as array_equal, array_equiv as array_equiv, bitwise_count as bitwise_count, ceil as
ceil, copysign as copysign, fabs as fabs, fix as fix, float_power as float_power, floor as floor, fmod as fmod, frexp as
frexp, gcd as gcd, heaviside as heaviside, isclose as isclose, isneginf as isneginf, isposinf as isposinf, lcm as lcm,
ldexp as ldexp, modf as modf, nextafter as nextafter, real_if_close as real_if_close, rint as rint, round as _round,
round as round, spacing as spacing, trunc as trunc
)
from afx.ops.elementwise.trigonometry import (
acos as _acos, acos as acos, acosh as _acosh, acosh as acosh, asin as _asin, asin as asin, asinh as _asinh, asinh as
asinh, atan as _atan, atan as atan, atan2 as _atan2, atan2 as atan2, atanh as _atanh, atanh as atanh, cos as cos, cosh
as cosh, deg2rad as deg2rad, degrees as degrees, rad2deg as rad2deg, radians as radians, sin as sin, sinc as sinc, sinh
as sinh, tan as tan, tanh as tanh
)
from afx.ops.indexing.getitem import take as take, take_along_axis as take_along_axis
from afx.ops.indexing.select import (
c_ as c_, choose as choose, compress as compress, diag_indices as diag_indices, diag_indices_from as diag_indices_from,
extract as extract, ix_ as ix_, piecewise as piecewise, r_ as r_, ravel_multi_index as ravel_multi_index, select as
select, tril_indices as tril_indices, tril_indices_from as tril_indices_from, triu_indices as triu_indices,
triu_indices_from as triu_indices_from, unravel_index as unravel_index
)
from afx.ops.linalg.products import (
cross as cross, dot as dot, einsum as einsum, einsum_path as einsum_path, inner as inner, kron as kron, matmul as
matmul, matvec as matvec, outer as outer, tensordot as tensordot, vdot as vdot, vecdot as vecdot, vecmat as vecmat
)
from afx.ops.manipulation.edit import (
append as append, block as block, delete as delete, diag as diag, diagflat as diagflat, diagonal as diagonal, insert as
insert, matrix_trace as _matrix_trace, resize as resize, rollaxis as rollaxis, trim_zeros as trim_zeros
)
from afx.ops.manipulation.join import (
array_split as array_split, atleast_1d as atleast_1d, atleast_2d as atleast_2d, atleast_3d as atleast_3d,
broadcast_arrays as broadcast_arrays, column_stack as column_stack, concat as _concat, concat as concat, dsplit as
dsplit, dstack as dstack, hsplit as hsplit, hstack as hstack, matrix_transpose as matrix_transpose, moveaxis as
moveaxis, repeat as repeat, split as split, stack as stack, swapaxes as swapaxes, tile as tile, unstack as unstack,
vsplit as vsplit, vstack as _vstack, vstack as vstack
)
from afx.ops.manipulation.packing import packbits as packbits, unpackbits as unpackbits
from afx.ops.manipulation.pad import (
flip as flip, fliplr as fliplr, flipud as flipud, pad as pad, roll as roll, rot90 as rot90
)
from afx.ops.manipulation.shape import (
astype as astype, broadcast_to as broadcast_to, expand_dims as expand_dims, permute_dims as _permute_dims, permute_dims
as permute_dims, ravel as ravel, reshape as reshape, squeeze as squeeze
)
from afx.ops.nn.convolution import convolve as convolve, correlate as correlate
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
cumprod as cumprod, cumsum as cumsum, cumulative_prod as cumulative_prod, cumulative_sum as cumulative_sum, diff as diff
)
from afx.ops.reductions.moments import average as average, std as std, var as var
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
all as all, any as any, count_nonzero as count_nonzero, max as _max, max as max, mean as mean, min as _min, min as min,
prod as prod, ptp as ptp, sum as sum
)
from afx.ops.sorting.partition import (
argpartition as argpartition, lexsort as lexsort, partition as partition, sort_complex as sort_complex
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
from afx.ops.special.bessel import i0 as i0
from numpy import (
False_ as False_, ScalarType as ScalarType, True_ as True_, array2string as array2string, array_repr as array_repr,
array_str as array_str, asarray_chkfinite as asarray_chkfinite, asmatrix as asmatrix, bartlett as bartlett, base_repr as
base_repr, binary_repr as binary_repr, blackman as blackman, bmat as bmat, bool as bool, bool_ as bool_, broadcast as
broadcast, broadcast_shapes as broadcast_shapes, busday_count as busday_count, busday_offset as busday_offset,
busdaycalendar as busdaycalendar, byte as byte, bytes_ as bytes_, cdouble as cdouble, char as char, character as
character, clongdouble as clongdouble, common_type as common_type, complex128 as complex128, complex256 as complex256,
complex64 as complex64, complexfloating as complexfloating, copyto as copyto, core as core, csingle as csingle,
ctypeslib as ctypeslib, datetime64 as datetime64, datetime_as_string as datetime_as_string, datetime_data as
datetime_data, double as double, dtype as dtype, dtypes as dtypes, e as e, emath as emath, empty as empty, errstate as
errstate, euler_gamma as euler_gamma, exceptions as exceptions, eye as eye, f2py as f2py, fill_diagonal as
fill_diagonal, finfo as finfo, flatiter as flatiter, flexible as flexible, float128 as float128, float16 as float16,
float32 as float32, float64 as float64, floating as floating, format_float_positional as format_float_positional,
format_float_scientific as format_float_scientific, frombuffer as frombuffer, fromfile as fromfile, fromfunction as
fromfunction, fromiter as fromiter, frompyfunc as frompyfunc, fromregex as fromregex, fromstring as fromstring, generic
as generic, genfromtxt as genfromtxt, get_include as get_include, get_printoptions as get_printoptions, getbufsize as
getbufsize, geterr as geterr, geterrcall as geterrcall, half as half, hamming as hamming, hanning as hanning, identity
as identity, iinfo as iinfo, index_exp as index_exp, indices as indices, inexact as inexact, inf as inf, info as info,
int16 as int16, int32 as int32, int64 as int64, int8 as int8, int_ as int_, intc as intc, integer as integer, intp as
intp, is_busday as is_busday, isfortran as isfortran, isnat as isnat, isscalar as isscalar, issubdtype as issubdtype,
iterable as iterable, kaiser as kaiser, lib as lib, little_endian as little_endian, load as load, loadtxt as loadtxt,
long as long, longdouble as longdouble, longlong as longlong, ma as ma, mask_indices as mask_indices, matrix as matrix,
may_share_memory as may_share_memory, memmap as memmap, mgrid as mgrid, min_scalar_type as min_scalar_type, mintypecode
as mintypecode, nan as nan, ndenumerate as ndenumerate, ndindex as ndindex, nditer as nditer, nested_iters as
nested_iters, newaxis as newaxis, number as number, object_ as object_, ogrid as ogrid, ones as ones, pi as pi, place as
place, poly1d as poly1d, polynomial as polynomial, printoptions as printoptions, promote_types as promote_types, put as
put, put_along_axis as put_along_axis, putmask as putmask, rec as rec, recarray as recarray, record as record, require
as require, s_ as s_, save as save, savetxt as savetxt, savez as savez, savez_compressed as savez_compressed, sctypeDict
as sctypeDict, set_printoptions as set_printoptions, setbufsize as setbufsize, seterr as seterr, seterrcall as
seterrcall, shares_memory as shares_memory, short as short, show_config as show_config, show_runtime as show_runtime,
signedinteger as signedinteger, single as single, str_ as str_, strings as strings, test as test, testing as testing,
timedelta64 as timedelta64, tri as tri, typecodes as typecodes, typename as typename, typing as typing, ubyte as ubyte,
ufunc as ufunc, uint as uint, uint16 as uint16, uint32 as uint32, uint64 as uint64, uint8 as uint8, uintc as uintc,
uintp as uintp, ulong as ulong, ulonglong as ulonglong, unsignedinteger as unsignedinteger, ushort as ushort, void as
void, zeros as zeros
)

absolute = _abs
amax = _max
amin = _min
arccos = _acos
arccosh = _acosh
arcsin = _asin
arcsinh = _asinh
arctan = _atan
arctan2 = _atan2
arctanh = _atanh
around = _round
asanyarray = _asarray
ascontiguousarray = _asarray
asfortranarray = _asarray
bitwise_not = _bitwise_invert
concatenate = _concat
conjugate = _conj
invert = _bitwise_invert
left_shift = _bitwise_left_shift
mod = _remainder
ndarray = _Array
power = _pow
right_shift = _bitwise_right_shift
row_stack = _vstack
trace = _matrix_trace
transpose = _permute_dims
true_divide = _divide
