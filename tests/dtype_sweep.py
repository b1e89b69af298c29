"""Sweep: public functions with operands of every pair of dtypes, beside NumPy and SciPy in wide dtypes.

``python -m tests.dtype_sweep --rounds N`` draws other operands N times, and names each difference once.

A row of the tables calls a namespace `m` with operands of the two dtypes: vectors `x` and `y` of 6 elements, square
matrices `s` and `r`, or a mask `b`. The reference is the namespace's peer with these operands in int64, float64 or
complex128; where there is none, it is the row itself with them.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.interpolate
import scipy.ndimage
import scipy.signal
import scipy.special

import afx
import afx.numpy
from afx import cluster, errors, linalg, nn, special, stats
from tests.stats.laws import PLAIN

CHARS = "?bhiqBHIQefdFD"
PAIRS = tuple(itertools.product(CHARS, repeat=2))
RTOL = {"e": 2e-2, "f": 1e-4, "F": 1e-4, "d": 1e-9, "D": 1e-9}
LAYOUTS = ("plain", "strided", "reversed", "read-only", "0-d", "empty", "same")
ROADS = ("eager", "jit", "vmap", "native")

ELEMENTWISE = sorted(
    name for name in afx.__all__ if isinstance(getattr(np, name, None), np.ufunc) and not getattr(np, name).signature
)
PRODUCTS = """
m.convolve(x, y)
m.correlate(x, y)
m.cross(x[:3], y[:3])
m.dot(x, y)
m.einsum("i,j->j", x, y)
m.einsum("i,i,j->j", x, x, y)
m.inner(x, y)
m.kron(x, y)
m.matmul(x.reshape(2, 3), y.reshape(3, 2))
m.matvec(x.reshape(2, 3), y[:3])
m.outer(x, y)
m.tensordot(x, y, 1)
m.vdot(x, y)
m.vecdot(x, y)
m.vecmat(x[:2], y.reshape(2, 3))
"""
SUMS = """
m.cumprod(x[:3])
m.cumsum(x)
m.cumulative_prod(x[:3])
m.cumulative_sum(x)
m.nancumprod(x[:3])
m.nancumsum(x)
m.nanprod(x[:3])
m.nansum(x)
m.prod(x[:3])
m.prod(x[:3], dtype=np.int16)
m.prod(x[:3], where=y[:3] != 0)
m.sum(x)
m.sum(x, dtype=np.int16)
m.sum(x, where=y != 0)
m.trace(s)
"""
SHAPING = """
m.angle(x)
m.array_split(x, 2)[1]
m.asarray(x)
m.astype(x, np.float32)
m.full(3, x[0])
m.hsplit(x, 2)[0]
m.linspace(x, y, 3)
m.meshgrid(x, y)[0]
m.real_if_close(x)
m.rollaxis(s, 1)
m.sort_complex(x)
m.split(x, 2)[0]
m.unstack(s)[0]
m.vsplit(s, 2)[0]
m.append(x, y)
m.argmax(x)
m.argmin(x)
m.argsort(x, kind="stable")
m.argwhere(x)
m.array_equal(x, y)
m.array_equiv(x, y)
m.atleast_1d(x)
m.atleast_2d(x)
m.atleast_3d(x)
m.allclose(x, y)
m.all(x)
m.amax(x)
m.amin(x)
m.any(x)
m.around(x)
m.broadcast_to(x, (2, 6))
m.block([x, y])
m.choose(np.array([0, 1, 1]), [x[:3], y[:3]])
m.clip(x, 1, y)
m.column_stack((x, y))
m.compress(y != 0, x)
m.concat((x, y))
m.concatenate((x, y))
m.copy(x)
m.count_nonzero(x)
m.delete(x, 1)
m.diag(x)
m.diagflat(x)
m.diagonal(s)
m.dstack((x, y))
m.ediff1d(x)
m.empty_like(x[:0])
m.expand_dims(x, 0)
m.extract(y != 0, x)
m.fix(x)
m.flatnonzero(x)
m.flip(x)
m.fliplr(s)
m.flipud(s)
m.full_like(x, 3)
m.hstack((x, y))
m.imag(x)
m.insert(x, 1, y[0])
m.intersect1d(x, y)
m.isclose(x, y)
m.iscomplex(x)
m.isin(x, y)
m.isneginf(x)
m.isposinf(x)
m.isreal(x)
m.lexsort((x, y))
m.matrix_transpose(s)
m.max(x)
m.min(x)
m.moveaxis(s, 0, 1)
m.nan_to_num(x)
m.nanargmax(x)
m.nanargmin(x)
m.nanmax(x)
m.nanmin(x)
m.nonzero(x)[0]
m.ones_like(x)
m.pad(x, 2)
m.pad(x, 2, mode="edge")
m.pad(x, 2, mode="maximum")
m.partition(x, 2)[2]
m.permute_dims(s)
m.polyadd(x, y)
m.polyder(x)
m.polysub(x, y)
m.polyval(x[:3], y)
m.ptp(x)
m.ravel(s)
m.real(x)
m.repeat(x, 2)
m.reshape(x, (2, 3))
m.resize(x, (3, 3))
m.roll(x, 2)
m.rot90(s)
m.round(x)
m.searchsorted(np.sort(x), y)
m.select([x != 0, y != 0], [x, y])
m.setdiff1d(x, y)
m.setxor1d(x, y)
m.sort(x)
m.squeeze(x[None])
m.stack((x, y))
m.swapaxes(s, 0, 1)
m.take(x, np.array([1, 2]))
m.take_along_axis(x, np.array([1, 2]), 0)
m.tile(x, 2)
m.transpose(s)
m.tril(s)
m.trim_zeros(x)
m.triu(s)
m.union1d(x, y)
m.unique(x)
m.vander(x, 3)
m.vstack((x, y))
m.where(b, x, y)
m.zeros_like(x)
"""
STATISTICS = """
m.average(x)
m.average(x, weights=y)
m.bincount(np.array([0, 2, 2, 1, 0, 1]), y)
m.corrcoef(x, y)
m.cov(x, y)
m.cov(x, aweights=abs(y.real) + 1)
m.diff(x)
m.diff(x, prepend=y[0])
m.digitize(x, np.sort(y))
m.gradient(x)
m.histogram(x.real, 3, weights=y)
m.histogram_bin_edges(x.real, 3)
m.histogram2d(x.real, y.real, 2)[0]
m.interp(x.real, np.array([0, 50, 130]), y[:3])
m.mean(x)
m.median(x)
m.nanmean(x)
m.nanmedian(x)
m.nanpercentile(x, 30)
m.nanquantile(x, 0.3)
m.nanstd(x)
m.nanvar(x)
m.percentile(x, 30)
m.polydiv(x, y + (y[:1] == 0))[0]
m.polyint(x)
m.quantile(x, 0.3)
m.sinc(x)
m.std(x)
m.trapezoid(x, y)
m.unwrap(x)
m.var(x)
"""
LINALG = """
m.linalg.cond(s)
m.linalg.det(s)
m.linalg.eigvals(s).sum()
m.linalg.eigvalsh(s)
m.linalg.inv(s)
m.linalg.lstsq(s, r, rcond=None)[0]
m.linalg.matrix_norm(s)
m.linalg.matrix_power(s, 3)
m.linalg.matrix_rank(s)
m.linalg.matrix_transpose(s)
m.linalg.multi_dot([s, r, s])
m.linalg.norm(x)
m.linalg.outer(x, y)
m.linalg.pinv(s)
m.linalg.slogdet(s)[1]
m.linalg.solve(s, r)
m.linalg.svdvals(s)
m.linalg.tensorinv(s, ind=1)
m.linalg.tensorsolve(s, x[:2])
m.linalg.vector_norm(x)
m.fft.fft(x)
m.fft.fft2(s)
m.fft.fftn(s)
m.fft.fftshift(x)
m.fft.hfft(x)
m.fft.ifft(x)
m.fft.ifft2(s)
m.fft.ifftn(s)
m.fft.ifftshift(x)
m.fft.ihfft(x)
m.fft.irfft(x)
m.fft.irfft2(s)
m.fft.irfftn(s)
m.fft.rfft(x)
m.fft.rfft2(s)
m.fft.rfftn(s)
"""
OF_ITSELF = """
afx.fft.dct(x)
afx.fft.dctn(s)
afx.fft.dst(x)
afx.fft.dstn(s)
afx.fft.idct(x)
afx.fft.idctn(s)
afx.fft.idst(x)
afx.fft.idstn(s)
afx.cumlogsumexp(x)
afx.cummax(x)
afx.cummin(x)
afx.logsumexp(x)
afx.log_sigmoid(x)
afx.segment_max(x, np.array([0, 2, 2, 1, 0, 1]))
afx.segment_mean(x, np.array([0, 2, 2, 1, 0, 1]))
afx.segment_min(x, np.array([0, 2, 2, 1, 0, 1]))
afx.segment_prod(x, np.array([0, 2, 2, 1, 0, 1]))
afx.segment_sum(x, np.array([0, 2, 2, 1, 0, 1]))
afx.sigmoid(x)
afx.sliding_window_view(x, 2)
afx.softplus(x)
afx.stop_gradient(x)
afx.top_k(x, 2)[0]
afx.polymul(x, y)
afx.unique_values(x)
afx.vector_norm(x)
linalg.cho_solve(linalg.cho_factor(s @ s.T), r)
linalg.cholesky(s)
linalg.eigh(s)[0]
linalg.eig(s)[0].sum()
linalg.expm(s)
linalg.lu(s)[2]
linalg.qr(s)[1]
linalg.svd(s)[1]
linalg.fractional_matrix_power(s, 0.5)
linalg.logm(s)
linalg.lu_solve(linalg.lu_factor(s), r)
linalg.polar(s)[0]
linalg.solve_sylvester(s, r, s)
linalg.solve_triangular(s, r)
linalg.sqrtm(s)
nn.accuracy(x.reshape(2, 3), np.array([0, 1]))
nn.avg_pool(x.reshape(1, 6, 1), 2)
nn.celu(x)
nn.conv(x.reshape(1, 6, 1), y[:2].reshape(2, 1, 1))
nn.conv_transpose(x.reshape(1, 6, 1), y[:2].reshape(2, 1, 1))
nn.cosine_distance(x, y)
nn.cosine_similarity(x, y)
nn.dot_product_attention(x.reshape(1, 3, 1, 2), y.reshape(1, 3, 1, 2), y.reshape(1, 3, 1, 2))
nn.elu(x)
nn.gaussian_nll(x, y, y + 1)
nn.gelu(x)
nn.margin_ranking(x, y, 1)
nn.glu(x)
nn.hard_sigmoid(x)
nn.hard_silu(x)
nn.hard_swish(x)
nn.log1mexp(x + 1)
nn.logmeanexp(x)
nn.hard_tanh(x)
nn.hinge(x, y)
nn.huber(x, y)
nn.leaky_relu(x)
nn.log_cosh(x, y)
nn.log_softmax(x)
nn.mae(x, y)
nn.max_pool(x.reshape(1, 6, 1), 2)
nn.mish(x)
nn.mse(x, y)
nn.poisson_nll(x, y)
nn.r2_score(x, y)
nn.relu(x)
nn.relu6(x)
nn.selu(x)
nn.sigmoid_binary_cross_entropy(x, y)
nn.silu(x)
nn.soft_sign(x)
nn.sparse_plus(x)
nn.sparse_sigmoid(x)
nn.squareplus(x)
nn.softmax(x)
nn.softmax_cross_entropy(x.reshape(2, 3), y.reshape(2, 3))
nn.standardize(x)
nn.upsample(x.reshape(1, 6, 1), 2)
special.betainccinv(x + 1, y + 1, 0.25)
special.betaincinv(x + 1, y + 1, 0.25)
cluster.vq(x, y)
stats.mode(x)[0]
stats.rankdata(x)
stats.sem(x)
special.bessel_jn(x, v=2)
special.comb(x + 2, y)
special.expn(2, x)
special.hyp1f1(0.5, 1.5, x)
special.hyp2f1(0.5, 1.0, 1.5, x * 0.25)
special.sph_harm_y(2, 1, x, y)
special.factorial(x)
special.fresnel(x)[0]
special.sici(x + 1)[1]
special.iv(2, x)
special.ive(2, x)
special.jv(2, x)
special.kv(2, x)
special.kve(2, x)
special.multigammaln(x + 2, 2)
special.polygamma(1, x)
special.yn(2, x)
special.yv(2, x)
special.zeta(x + 2, 1)
special.betainc(x + 1, y + 1, 0.25)
special.betaincc(x + 1, y + 1, 0.25)
special.log_betainc(x + 1, y + 1, 0.25)
special.log_betaincc(x + 1, y + 1, 0.25)
special.log_gammainc(x + 1, y + 1)
special.log_gammaincc(x + 1, y + 1)
"""
SPECIAL_OF_ONE = """
dawsn digamma entr erf erfc erfcinv erfcx erfinv exp1 expi expit exprel gamma gammaln gammasgn i0 i0e i1 i1e j0 j1
log_expit log_ndtr loggamma logit ndtr ndtri ndtri_exp psi rgamma spence wofz y0 y1
"""
SPECIAL_OF_TWO = """
beta betaln boxcox boxcox1p gammainc gammaincc gammainccinv gammaincinv inv_boxcox inv_boxcox1p kl_div owens_t poch rel_entr
stdtr stdtrit xlog1py xlogy
"""
LAWS = {  # each with numbers that its parameters may be
    **dict.fromkeys(PLAIN, ()),
    **dict.fromkeys(["chi2", "gamma", "gennorm", "invgamma", "lognorm", "pareto", "skewnorm", "t", "vonmises"], (2,)),
    "beta": (2, 3),
    "f": (2, 3),
    "poisson": (2,),
    "truncnorm": (1, 3),
    "weibull_min": (2,),
    "wrapcauchy": (0.5,),
}


VALUES_BY_DTYPE = (
    "reciprocal",
    "spacing",
)  # not those of wide numbers: whole numbers in NumPy, distances of neighbours
STATED = {  # dtypes that are not NumPy's, and why
    **dict.fromkeys(["m.conj(x)", "m.conjugate(x)"], "booleans stay booleans"),
    **dict.fromkeys(["m.rint(x)", "m.around(x)", "m.round(x)", "m.fix(x)"], "whole numbers stay what they are"),
    **dict.fromkeys(["m.corrcoef(x, y)", "m.cov(x, y)", "m.cov(x, aweights=abs(y.real) + 1)"], "the data's dtype"),
    **dict.fromkeys(["m.float_power(x, y)", "m.average(x, weights=y)"], "the data's dtype"),
    **dict.fromkeys(["m.polyint(x)", "m.polydiv(x, y + (y[:1] == 0))[0]"], "the data's dtype"),
    "m.bincount(np.array([0, 2, 2, 1, 0, 1]), y)": "the weights' dtype",
    "m.interp(x.real, np.array([0, 50, 130]), y[:3])": "the values' dtype",
    "m.histogram(x.real, 3, weights=y)": "counts hold the sums of small weights",
    "m.linalg.eigvals(s).sum()": "complex whatever the values are",
    **dict.fromkeys(["m.sort_complex(x)", "m.polyder(x)", "m.vander(x, 3)"], "the data's precision"),
    **dict.fromkeys(["m.fft.hfft(x)", "m.fft.irfft(x)"], "float16 in float32"),
}


SCIPYS = """
m.signal.convolve(x, y)
m.signal.convolve2d(s, r)
m.signal.correlate(x, y)
m.signal.correlate2d(s, r)
m.signal.csd(x, y, nperseg=4)[1]
m.signal.detrend(x)
m.signal.fftconvolve(x, y)
m.signal.filtfilt([0.5, 0.25], [1.0, -0.5], x, padlen=2)
m.signal.freqz(x, worN=4)[1]
m.signal.hilbert(x.real)
m.signal.istft(s, nperseg=2, noverlap=1)[1]
m.signal.lfilter([0.5, 0.25], [1.0, -0.5], x)
m.signal.lfilter(x[:2], [1.0, -0.5], y)
m.signal.lfilter_zi(x[:3], [1.0, -0.5, 0.25])
m.signal.medfilt(x.real, 3)
m.signal.resample(x, 4)
m.signal.resample_poly(x, 3, 2)
m.signal.savgol_filter(x.real, 3, 1)
m.signal.sosfilt([[0.5, 0.0, 0.0, 1.0, -0.5, 0.0]], x)
m.signal.sosfiltfilt([[0.5, 0.0, 0.0, 1.0, -0.5, 0.0]], x, padlen=2)
m.signal.spectrogram(x, nperseg=4)[2]
m.signal.stft(x, nperseg=4)[2]
m.signal.upfirdn(x[:2], y, 2)
m.signal.welch(x, nperseg=4)[1]
m.ndimage.affine_transform(s, [[0.75, 0.0], [0.25, 0.4]])
m.ndimage.convolve(s, r)
m.ndimage.convolve1d(x, y[:3])
m.ndimage.correlate(s, r)
m.ndimage.correlate1d(x, y[:3])
m.ndimage.gaussian_filter(x, 1.0)
m.ndimage.gaussian_filter1d(x, 1.0)
m.ndimage.gaussian_gradient_magnitude(x, 1.0)
m.ndimage.gaussian_laplace(x, 1.0)
m.ndimage.laplace(x, output=float)
m.ndimage.map_coordinates(x, [[0.5, 1.25]])
m.ndimage.prewitt(s, output=float)
m.ndimage.rotate(s, 30.0)
m.ndimage.shift(x, 0.5)
m.ndimage.sobel(s, output=float)
m.ndimage.uniform_filter(x, 3)
m.ndimage.uniform_filter1d(x, 3)
m.ndimage.zoom(x, 1.5, order=1)
m.interpolate.make_interp_spline([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], x)([0.5, 2.25])
m.interpolate.interp1d([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], x)([0.5, 2.25])
"""


LEFT_OUT = {  # what no row calls, by the reason
    "takes functions, or makes one": (
        "apply_along_axis apply_over_axes associative_scan check checkpoint custom_jvp custom_vjp elementwise_grad "
        "eval_shape evaluate fori_loop fromfunction grad hessian hvp jacfwd jacrev jit jvp linearize map piecewise "
        "scan sparse_hessian sparse_jacobian switch value_and_grad vectorize vjp vmap while_loop bicgstab cg funm "
        "gmres lsmr layer train"
    ),
    "asks, or sets an option": (
        "__array_namespace_info__ broadcast_shapes can_cast debug_nans default_dtype disable_jit finfo get_backend "
        "get_default_dtype get_threads iinfo is_traced iscomplexobj isdtype isrealobj isscalar issubdtype ndim "
        "primitives promote_types result_type set_backend set_cache_limit set_code_cache set_default_dtype "
        "set_denormals set_threads shape size count_parameters describe summary"
    ),
    "makes numbers of shapes, lengths or keys": (
        "arange bartlett bernoulli blackman diag_indices diag_indices_from empty eye geomspace hamming hanning identity "
        "indices kaiser logspace ones tri tril_indices tril_indices_from triu_indices triu_indices_from zeros "
        "fftfreq rfftfreq delta_orthogonal glorot_normal glorot_uniform he_normal he_uniform kaiming_normal "
        "kaiming_uniform lecun_normal lecun_uniform normal orthogonal truncated_normal variance_scaling get_window "
        "savgol_coeffs sosfilt_zi"
    ),
    "takes places, labels or trees": (
        "einsum_path from_dlpack ix_ packbits put_along_axis unpackbits non_trainable ravel_multi_index static "
        "to_device unravel_index calibration calibration_error confusion_matrix contrastive ctc f1_score focal "
        "info_nce log_loss one_hot precision recall roc_auc top_k_accuracy triplet dice kl_divergence rotary"
    ),
    "is another row in another order, or one of several results of one": (
        "argpartition broadcast_arrays dsplit histogramdd poly polyfit roots unique_all unique_counts "
        "unique_inverse solve_banded adaptive_avg_pool adaptive_max_pool pixel_shuffle"
    ),
    "has values of its dtype: whole quotients, distances of neighbours": "reciprocal spacing",
    "is compared with SciPy in tests/stats": "gaussian_kde",
    "is a law of counts, vectors, matrices or laws, in tests/stats": (
        "betabinom binom censored dirichlet gaussian_random_walk geom hurdle lkj lkj_cholesky mixture multinomial "
        "multivariate_normal multivariate_normal_cholesky multivariate_normal_precision nbinom ordered ordered_logistic "
        "truncated wishart zero_inflated"
    ),
    "is compared with SciPy in tests/ops/linalg": (
        "block_diag cholesky_update circulant companion convolution_matrix dft eigh_tridiagonal expm_frechet fiedler "
        "fiedler_companion hadamard hankel helmert hessenberg hilbert householder_product invhilbert invpascal leslie "
        "pascal qr_multiply qdwh rsf2csf schur symmetric_product toeplitz tridiagonal_solve"
    ),
}


class Row(NamedTuple):
    """A call, and the function that gives its reference."""

    name: str
    call: Callable[..., Any]
    peer: Callable[..., Any] | None
    whole: bool  # whether dtypes are NumPy's
    kept: bool = False  # whether results have the dtype of the data, in which the peer computes, too


def compiled(text: str) -> Callable[..., Any]:
    """Return a row's function of a namespace and the operands."""
    space = {"np": np, "afx": afx, "cluster": cluster, "linalg": linalg, "nn": nn, "special": special, "stats": stats}
    found: Callable[..., Any] = eval(f"lambda m, x, y, s, r, b: {text}", space)
    return found


def _of(text: str, peer: bool) -> Row:
    call = compiled(text)

    def ours(*operands: Any) -> Any:
        return call(afx, *operands)

    return Row(text, ours, (lambda *operands: call(np, *operands)) if peer else None, peer)


def _of_scipy(text: str) -> Row:
    call, kept = compiled(text), "ndimage" in text
    return Row(text, lambda *v: call(afx, *v), lambda *v: call(scipy, *v), kept, kept)


def _special(name: str, count: int) -> Row:
    ours, theirs = getattr(special, name), getattr(scipy.special, name)
    return Row(f"special.{name}", lambda *v: ours(*v[:count]), lambda *v: theirs(*v[:count]), False)


def _law(name: str, numbers: tuple[int, ...], function: str) -> Row:
    law = getattr(stats, name)

    def call(*v: Any) -> Any:
        return getattr(law, function)(v[0], *[n + 0 * v[1].real for n in numbers])

    return Row(f"stats.{name}.{function}", call, None, False)


def rows() -> list[Row]:
    """Return all calls, in an order that is always the same."""
    unary = [f"m.{n}(x)" for n in ELEMENTWISE if getattr(np, n).nin == 1 and n not in VALUES_BY_DTYPE]
    binary = [f"m.{n}(x, y)" for n in ELEMENTWISE if getattr(np, n).nin == 2]
    texts = [*unary, *binary, *(PRODUCTS + SUMS + SHAPING + STATISTICS + LINALG).split("\n")]
    found = [_of(text, True) for text in texts if text]
    found += [_of(text, False) for text in OF_ITSELF.split("\n") if text]
    found += [_of_scipy(text) for text in SCIPYS.split("\n") if text]
    found += [_special(name, 1) for name in SPECIAL_OF_ONE.split()] + [
        _special(name, 2) for name in SPECIAL_OF_TWO.split()
    ]
    for name, numbers in LAWS.items():
        density = "logpmf" if name == "poisson" else "logpdf"
        found += [_law(name, numbers, function) for function in (density, "cdf", "logcdf", "logsf", "sf")]
    return found


# -- operands --
def draw(char: str, rng: np.random.Generator, large: bool) -> Any:
    """Return 6 numbers of a dtype; large ones are near its end, or to 2**40."""
    if char == "?":
        return rng.integers(0, 2, 6).astype(bool)
    dtype = np.dtype(char)
    if dtype.kind in "iu":
        top = min(np.iinfo(dtype).max, 2**40) if large else 12
        return rng.integers(top // 2 if large else 0, top, 6, endpoint=True).astype(dtype)
    numbers = rng.integers(0, 48, 6) / 8
    numbers = numbers * (8000 if large else 1)
    return (numbers - (1j * rng.integers(0, 24, 6) / 8 if dtype.kind == "c" else 0)).astype(dtype)


SQUARES = (np.array([[5, 2], [2, 4]]), np.array([[3, 1], [1, 2]]))


def operands(pair: tuple[str, str], layout: str, rng: np.random.Generator, large: bool) -> list[Any]:
    """Return ``x, y, s, r, b`` of two dtypes, laid out as asked for."""
    vectors = [draw(char, rng, large) for char in pair]
    if layout == "same":
        vectors[1] = vectors[0]
    if layout == "strided":
        vectors = [np.repeat(v, 2)[::2] for v in vectors]
    if layout == "reversed":
        vectors = [v[::-1].copy()[::-1] for v in vectors]
    if layout == "0-d":
        vectors = [np.asarray(v[0]) for v in vectors]
    if layout == "empty":
        vectors = [v[:0] for v in vectors]
    squares = [np.eye(2, dtype=bool) if char == "?" else q.astype(char) for char, q in zip(pair, SQUARES, strict=True)]
    found = [*vectors, *squares, np.resize([True, False, True], np.shape(vectors[0]))]
    for v in found:
        v.setflags(write=layout != "read-only")
    return found


def widen(values: list[Any], mixed: bool) -> list[Any]:
    """Return operands in int64, float64 or complex128; integers beside others in float64, too."""

    def wide(v: Any) -> Any:
        kind = v.dtype.kind
        return v.astype({"b": "?", "i": "q", "u": "q", "f": "d", "c": "D"}[kind if not mixed or kind == "b" else "f"])

    return [
        v if v.dtype.kind == "b" and not mixed else wide(v) if v.dtype.kind != "c" else v.astype("D") for v in values
    ]


# -- comparison --
@contextlib.contextmanager
def _silence() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def _leaves(z: Any) -> list[Any]:
    return [np.asarray(v) for v in (z if isinstance(z, (tuple, list)) else [z])]


def differ(got: Any, want: Any, dtype: Any, rtol: float) -> str:
    """Return what differs between two results, where rounding does not explain it; the empty string of none."""
    if got.shape != want.shape:
        return f"shape {got.shape}, not {want.shape}"
    if dtype is not None and got.dtype != dtype:
        return f"dtype {got.dtype}, not {dtype}"
    if got.dtype.kind not in "fc":
        cast = want.astype(got.dtype) if want.dtype.kind != "c" else want.real.astype(got.dtype)
        return "" if np.array_equal(got, cast) else f"{got.tolist()}, not {want.tolist()}"
    wide, top = want.astype("D"), float(np.finfo(got.dtype).max)
    ours = got.astype("D")
    finite = np.isfinite(wide)
    scale = np.abs(wide[finite]).max(initial=0.0)
    held = finite & (np.abs(wide) < top / 4) if got.dtype.itemsize < 8 else finite
    near = np.abs(ours - wide) <= rtol * np.minimum(scale, 4 * np.abs(wide) + 1) + 8 * np.finfo(got.dtype).tiny
    beyond = ~finite & (np.isnan(wide) == np.isnan(ours)) & ~np.isfinite(ours)
    same = np.where(held, near, beyond | (finite & ~held))
    return "" if same.all() else f"{got.tolist()}, not {want.tolist()}"


def expect(row: Row, given: list[Any]) -> tuple[list[Any], list[Any]] | None:
    """Return the reference of a call and its dtypes (None where nothing is said), or None where the peer refuses it."""
    mixed = np.result_type(*given[:2]).kind in "fc"
    call = row.peer or row.call
    try:
        with afx.default_dtype(np.float64):
            want = _leaves(call(*(given if row.kept else widen(given, mixed))))
            if not row.kept and any(v.dtype == bool for v in given[:2]) and any(w.dtype.kind in "fc" for w in want):
                want = _leaves(
                    call(*[v.astype(float) if v.dtype == bool else v for v in widen(given, mixed)[:-1]], given[-1])
                )
            theirs = _leaves(row.peer(*given)) if row.peer is not None and row.whole else [None] * len(want)
    except Exception:  # the peer's own error, of whatever class
        return None
    return want, [None if t is None else t.dtype for t in theirs]


def run(row: Row, given: list[Any], road: str) -> Any:
    """Return the result of a call on one road."""
    if road == "vmap":
        return _batched(row, given)
    if road in ("jit", "native"):
        return afx.jit(lambda v: row.call(*v), **({"backend": "native"} if road == "native" else {}))(given)
    return row.call(*given)


def _batched(row: Row, given: list[Any]) -> Any:
    z = afx.vmap(lambda v: row.call(*v))([np.stack([v, v]) for v in given])
    return [v[1] for v in z] if isinstance(z, (tuple, list)) else z[1]


def check(row: Row, pair: tuple[str, str], layout: str, road: str, seed: int) -> str:
    """Return what differs in one call, or the empty string."""
    rng = np.random.default_rng([seed, *map(ord, row.name), *map(ord, "".join(pair))])
    large = any(row.name in group for group in (PRODUCTS, SUMS)) and "prod" not in row.name and bool(seed % 2)
    with _silence():
        given = operands(pair, layout, rng, large)
        if row.name.startswith(("special", "stats")):  # many are of shares, or grow fast
            given = [0.125 * v if v.dtype.kind in "fc" else v for v in given]
        expected = expect(row, given)
        if expected is None:
            return ""
        try:
            with afx.default_dtype(np.float64):
                got = _leaves(run(row, given, road))
        except (errors.DtypeError, errors.ConcreteValueError, errors.ArgumentError, errors.ShapeError) as error:
            return (
                ""
                if _states(error) or (layout in ("0-d", "empty") and isinstance(error, errors.ShapeError))
                else f"raises {error}"
            )
        except Exception as error:
            return f"raises {type(error).__name__}: {error}"
        precision = max([RTOL.get(v.dtype.char, 0) for v in (*got, *given)])
        dtypes = [None if row.name in STATED else d for d in expected[1]]
        found = [
            differ(g, w, _dtype(d, g.dtype, given), precision) for g, w, d in zip(got, expected[0], dtypes, strict=True)
        ]
    return next(filter(None, found), "")


def _states(error: Exception) -> bool:
    """Tell whether an error says that dtypes are not taken, or values not known."""
    return isinstance(error, (errors.DtypeError, errors.ConcreteValueError))


def _dtype(theirs: Any, ours: Any, given: list[Any]) -> Any:
    """Return afx's dtype for NumPy's: of integers it is the default one, where NumPy gives float16 or float32."""
    narrow = theirs is not None and theirs.kind == "f" and theirs.itemsize < 8
    return ours if narrow and ours == np.float64 and any(v.dtype.kind in "biu" for v in given[:2]) else theirs


def main() -> None:
    """Run all rows with all pairs and layouts, eagerly and compiled, some rounds long."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--roads", nargs="*", default=["eager", "jit"], choices=ROADS)
    parser.add_argument("--layouts", nargs="*", default=["plain"], choices=LAYOUTS)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    show = sys.stdout.write
    seen: set[str] = set()
    count = 0
    for seed in range(given.first, given.first + given.rounds):
        for row, road, layout in itertools.product(rows(), given.roads, given.layouts):
            for pair in PAIRS:
                count += 1
                found = check(row, pair, layout, road, seed)
                if found and row.name + road not in seen:
                    seen.add(row.name + road)
                    show(f"{row.name} of {''.join(pair)}, {layout}, {road}, seed {seed}: {found[:220]}\n")
    show(f"{count} calls, {len(seen)} rows differ\n")


if __name__ == "__main__":
    main()
