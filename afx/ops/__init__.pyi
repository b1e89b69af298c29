# generated: run python -m tests.generate_names

# fmt: off
from afx.ops.creation.creation import (
array as array, asarray as asarray, copy as copy, empty as empty, empty_like as empty_like, from_dlpack as from_dlpack,
full as full, full_like as full_like, ones as ones, ones_like as ones_like, promote_operands as promote_operands,
stop_gradient as stop_gradient, to_device as to_device, zeros as zeros, zeros_like as zeros_like
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
iscomplexobj, isreal as isreal, isrealobj as isrealobj, join_parts as join_parts, real as real
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
from afx.ops.indexing.getitem import getitem as getitem, take as take, take_along_axis as take_along_axis
from afx.ops.indexing.scatter import (
index_add as index_add, index_divide as index_divide, index_max as index_max, index_min as index_min, index_multiply as
index_multiply, index_set as index_set, put_along_axis as put_along_axis, segment_max as segment_max, segment_mean as
segment_mean, segment_min as segment_min, segment_prod as segment_prod, segment_sum as segment_sum
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
insert, matrix_trace as matrix_trace, resize as resize, rollaxis as rollaxis, trim_zeros as trim_zeros
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
from afx.ops.special.bessel import (
exp1 as exp1, expi as expi, expn as expn, i0 as i0, i0e as i0e, i1 as i1, i1e as i1e, iv as iv, ive as ive, j0 as j0, j1
as j1, jv as jv, kv as kv, kve as kve, y0 as y0, y1 as y1, yn as yn, yv as yv, zeta as zeta
)
from afx.ops.special.distributions import stdtr as stdtr, stdtrit as stdtrit
from afx.ops.special.errors import (
dawsn as dawsn, entr as entr, erf as erf, erfc as erfc, erfcinv as erfcinv, erfcx as erfcx, erfinv as erfinv, expit as
expit, kl_div as kl_div, log_expit as log_expit, log_ndtr as log_ndtr, logit as logit, ndtr as ndtr, ndtri as ndtri,
ndtri_exp as ndtri_exp, rel_entr as rel_entr, xlog1py as xlog1py, xlogy as xlogy
)
from afx.ops.special.gamma import (
beta as beta, betaln as betaln, digamma as digamma, factorial as factorial, gamma as gamma, gammaln as gammaln, gammasgn
as gammasgn, multigammaln as multigammaln, polygamma as polygamma, psi as psi, rgamma as rgamma
)
from afx.ops.special.hypergeometric import (
boxcox as boxcox, boxcox1p as boxcox1p, exprel as exprel, inv_boxcox as inv_boxcox, inv_boxcox1p as inv_boxcox1p,
loggamma as loggamma, owens_t as owens_t, poch as poch, spence as spence, wofz as wofz
)
from afx.ops.special.incomplete import (
betainc as betainc, betaincc as betaincc, betainccinv as betainccinv, betaincinv as betaincinv, gammainc as gammainc,
gammaincc as gammaincc, gammainccinv as gammainccinv, gammaincinv as gammaincinv
)
from afx.ops.special.log_incomplete import (
log_betainc as log_betainc, log_betaincc as log_betaincc, log_gammainc as log_gammainc, log_gammaincc as log_gammaincc
)
