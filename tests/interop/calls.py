"""Calls of SciPy, scikit-learn and array-api-extra on Arrays as they are, beside NumPy's, with gradients beside differences.

Run as a program with ``SCIPY_ARRAY_API=1`` it prints a line of JSON: for each call what became of it.
"""

from __future__ import annotations

import functools
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

Call = Callable[..., Any]
Row = tuple[str, Call, tuple[Any, ...]]
RNG = np.random.default_rng(7)
V = RNG.uniform(0.15, 0.85, 12)
W = RNG.uniform(0.15, 0.85, 12)
M = RNG.uniform(0.15, 0.85, (6, 4))
N = RNG.uniform(0.15, 0.85, (5, 4))
L = np.array([0, 1, 1, 0, 1, 0, 1, 1, 0, 0, 1, 0])
K = np.array([0, 1, 2] * 6)


def words(text: str) -> list[str]:
    """Return names that stand in a text."""
    return text.split()


B, A, AT = (0.2, 0.3), (1.0, -0.4), np.linspace(0.5, 10.5, 7)  # a filter, and places between those of V
# Calls of a namespace, `scipy` or `afx`: what converts to ndarrays there has a function of its name here.
IN_PLACE: list[Row] = [
    ("signal.lfilter", lambda m, x: m.signal.lfilter(B, A, x), (V,)),
    ("signal.lfilter, coefficients", lambda m, b: m.signal.lfilter(b, A, W), (V[:3],)),
    ("signal.lfilter_zi", lambda m, b: m.signal.lfilter_zi(b, (1.0, 0.5, 0.2)), (V[:3],)),
    ("signal.filtfilt", lambda m, x: m.signal.filtfilt(B, A, x), (V,)),
    ("signal.sosfilt", lambda m, x: m.signal.sosfilt([[*B, 0.1, *A, 0.1]], x), (V,)),
    ("signal.sosfiltfilt", lambda m, x: m.signal.sosfiltfilt([[*B, 0.1, *A, 0.1]], x), (V,)),
    ("signal.freqz", lambda m, b: m.signal.freqz(b, A, 8)[1], (V[:3],)),
    ("signal.hilbert", lambda m, x: m.signal.hilbert(x), (V,)),
    ("signal.detrend", lambda m, x: m.signal.detrend(x), (V,)),
    ("signal.convolve", lambda m, x, y: m.signal.convolve(x, y), (V, W)),
    ("signal.correlate", lambda m, x, y: m.signal.correlate(x, y), (V, W)),
    ("signal.convolve2d", lambda m, x, y: m.signal.convolve2d(x, y, "same", "wrap"), (M, N[:3, :2])),
    ("signal.savgol_filter", lambda m, x: m.signal.savgol_filter(x, 5, 2), (V,)),
    ("signal.resample", lambda m, x: m.signal.resample(x, 8), (V,)),
    ("signal.resample_poly", lambda m, x: m.signal.resample_poly(x, 3, 2), (V,)),
    ("signal.upfirdn", lambda m, x, h: m.signal.upfirdn(h, x, 3, 2), (V, W[:4])),
    ("signal.medfilt", lambda m, x: m.signal.medfilt(x, 3), (V,)),
    ("signal.stft", lambda m, x: m.signal.stft(x, nperseg=4)[2], (V,)),
    ("signal.istft", lambda m, x: m.signal.istft(x, nperseg=6)[1], (M[:4],)),
    ("signal.welch", lambda m, x: m.signal.welch(x, nperseg=4)[1], (V,)),
    ("signal.csd", lambda m, x, y: m.signal.csd(x, y, nperseg=4)[1], (V, W)),
    ("signal.spectrogram", lambda m, x: m.signal.spectrogram(x, nperseg=4)[2], (V,)),
    *[(f"fft.{name}", lambda m, x, name=name: getattr(m.fft, name)(x), (M,)) for name in words("dct idct dst dctn")],
    ("ndimage.gaussian_filter", lambda m, x: m.ndimage.gaussian_filter(x, 1.0), (M,)),
    ("ndimage.uniform_filter", lambda m, x: m.ndimage.uniform_filter(x, 3), (M,)),
    ("ndimage.convolve", lambda m, x, k: m.ndimage.convolve(x, k), (M, N[:3, :3])),
    ("ndimage.correlate", lambda m, x, k: m.ndimage.correlate(x, k, mode="wrap"), (M, N[:3, :3])),
    *[(f"ndimage.{n}", lambda m, x, n=n: getattr(m.ndimage, n)(x), (M,)) for n in words("sobel prewitt laplace")],
    ("ndimage.map_coordinates", lambda m, x: m.ndimage.map_coordinates(x, [V * 4, W * 3], order=3), (M,)),
    ("ndimage.zoom", lambda m, x: m.ndimage.zoom(x, 1.5), (M,)),
    ("ndimage.shift", lambda m, x: m.ndimage.shift(x, 0.4), (M,)),
    ("ndimage.rotate", lambda m, x: m.ndimage.rotate(x, 20.0, reshape=False, mode="nearest"), (M,)),
    ("ndimage.affine_transform", lambda m, x: m.ndimage.affine_transform(x, [[0.9, 0.1], [0.2, 0.8]]), (M,)),
    ("interpolate.CubicSpline", lambda m, y: m.interpolate.CubicSpline(np.arange(12.0), y)(AT), (V,)),
    ("interpolate.PchipInterpolator", lambda m, y: m.interpolate.PchipInterpolator(np.arange(12.0), y)(AT), (V,)),
    ("interpolate.Akima1DInterpolator", lambda m, y: m.interpolate.Akima1DInterpolator(np.arange(12.0), y)(AT), (V,)),
    ("interpolate.make_interp_spline", lambda m, y: m.interpolate.make_interp_spline(np.arange(12.0), y)(AT), (V,)),
    ("interpolate.interp1d", lambda m, y: m.interpolate.interp1d(np.arange(12.0), y)(AT), (V,)),
    (
        "interpolate.RegularGridInterpolator",
        lambda m, y: m.interpolate.RegularGridInterpolator((np.arange(6.0), np.arange(4.0)), y)(N[:, :2] * 3),
        (M,),
    ),
    ("interpolate.RBFInterpolator", lambda m, y: m.interpolate.RBFInterpolator(M, y)(N), (V[:6],)),
    ("linalg.toeplitz", lambda m, c, r: m.linalg.toeplitz(c, r), (V[:4], W[:3])),
    *[
        (f"linalg.{n}", lambda m, x, n=n: getattr(m.linalg, n)(x), (V[:4],))
        for n in words("circulant companion fiedler")
    ],
    ("linalg.block_diag", lambda m, x, y: m.linalg.block_diag(x, y), (M, N)),
    ("linalg.expm_frechet", lambda m, x, y: m.linalg.expm_frechet(x, y)[1], (M[:4], N[:4])),
    ("linalg.qr_multiply", lambda m, x, y: m.linalg.qr_multiply(x, y)[0], (M, V[:6])),
    ("linalg.solve_triangular", lambda m, x, y: m.linalg.solve_triangular(x, y), (M[:4] + 2 * np.eye(4), V[:4])),
    ("integrate.trapezoid", lambda m, x: (m if m.__name__ == "afx" else m.integrate).trapezoid(x), (V,)),
]


SPECIAL = words(
    "digamma entr erf erfc expit gammaln i0 i0e i1 i1e log_ndtr logit ndtr ndtri sinc exp1 psi log_expit "
    "j0 j1 y0 y1 exp2 exp10 expm1 log1p cbrt cosm1 gamma loggamma rgamma erfinv erfcx dawsn spence k0 k0e "
    "k1 k1e"
)
SPECIAL_2 = words("betaln gammainc gammaincc kl_div rel_entr xlogy xlog1py zeta beta boxcox poch chdtr chdtrc binom")
S = M[:4] @ M[:4].T + np.eye(4)
MATRICES = words("det inv pinv eigvalsh eigvals expm logm sqrtm cosm sinm tanhm sinhm coshm cholesky norm svdvals lu")
STATS = words(
    "circmean circstd circvar describe differential_entropy entropy gmean gstd gzscore hmean iqr "
    "jarque_bera kstat kstatvar kurtosis kurtosistest lmoment moment mode normaltest sem skew skewtest "
    "tmax tmean tmin tsem tstd tvar variation zscore combine_pvalues median_abs_deviation rankdata "
    "power_divergence chisquare"
)
STATS_2 = words(
    "ttest_ind ttest_rel pearsonr spearmanr f_oneway bartlett levene fligner mannwhitneyu alexandergovern "
    "wilcoxon ks_2samp"
)
STATS_2 += words(
    "energy_distance wasserstein_distance brunnermunzel ansari linregress siegelslopes theilslopes kendalltau zmap"
)
SIGNAL = words("detrend hilbert envelope")
SIGNAL_2 = words("convolve correlate fftconvolve oaconvolve")
FFT = words("fft ifft rfft irfft hfft ihfft fftshift ifftshift")
FFT_2D = words("fft2 ifft2 fftn ifftn rfft2 irfft2 rfftn irfftn")
ROTATIONS = words("as_matrix as_quat as_rotvec as_mrp inv magnitude mean as_euler as_davenport")
METRICS = words(
    "d2_tweedie_score explained_variance_score max_error mean_absolute_error "
    "mean_absolute_percentage_error mean_gamma_deviance mean_pinball_loss mean_poisson_deviance "
    "mean_squared_error mean_squared_log_error mean_tweedie_deviance median_absolute_error r2_score "
    "root_mean_squared_error root_mean_squared_log_error d2_absolute_error_score d2_pinball_score"
)
CLASSES = words(
    "accuracy_score f1_score hamming_loss jaccard_score precision_score recall_score zero_one_loss "
    "confusion_matrix balanced_accuracy_score precision_recall_fscore_support fbeta_score roc_auc_score "
    "roc_curve average_precision_score brier_score_loss log_loss"
)
PAIRWISE = words(
    "euclidean_distances cosine_similarity cosine_distances rbf_kernel linear_kernel polynomial_kernel "
    "sigmoid_kernel chi2_kernel additive_chi2_kernel laplacian_kernel manhattan_distances "
    "paired_euclidean_distances paired_cosine_distances"
)


def rows() -> Iterator[Row]:
    """Yield the calls: a name, a function and operands."""
    yield from _scipy()
    yield from _signals()
    yield from _matrices()
    yield from _rotations()
    yield from _learning()
    yield from _extra()
    for name, call, operands in IN_PLACE:
        yield f"{name}, afx's", functools.partial(_where_scipy_converts, call), operands


def _where_scipy_converts(call: Call, *operands: Any) -> Any:
    """Return what afx gives of Arrays, and SciPy's function of that name of ndarrays."""
    import scipy

    import afx

    return call(afx if any(isinstance(x, afx.Array) for x in operands) else scipy, *operands)


def _scipy() -> Iterator[Row]:
    from scipy import special, stats

    for name in SPECIAL:
        yield f"special.{name}", getattr(special, name), (V,)
    for name in SPECIAL_2:
        yield f"special.{name}", getattr(special, name), (V + 1.0, W + 1.0)
    for kind in (special.logsumexp, special.softmax, special.log_softmax):
        yield f"special.{kind.__name__}", kind, (V,)
    for name in [n for n in STATS if hasattr(stats, n)]:
        yield f"stats.{name}", getattr(stats, name), (V * 10.0 if name == "chisquare" else V,)
        if name not in ("lmoment", "combine_pvalues"):
            yield (
                f"stats.{name}, axis",
                functools.partial(getattr(stats, name), axis=0),
                (np.vstack([M, M * M, M**0.5]),),
            )
    for name in STATS_2:
        yield f"stats.{name}", getattr(stats, name), (V, W)
    yield "stats.pmean", lambda x: stats.pmean(x, 2), (V,)
    yield "stats.ttest_1samp", lambda x: stats.ttest_1samp(x, 0.5), (V,)
    yield "stats.quantile", lambda x: stats.quantile(x, 0.3), (V,)
    yield "stats.boxcox_llf", lambda x: stats.boxcox_llf(0.5, x), (V,)
    yield "stats.yeojohnson_llf", lambda x: stats.yeojohnson_llf(0.5, x), (V,)
    yield "stats.directional_stats", lambda x: stats.directional_stats(x), (M,)
    yield "stats.covariance", lambda x: stats.Covariance.from_diagonal(x).whiten(W), (V,)


def _signals() -> Iterator[Row]:
    from scipy import differentiate, fft, integrate, optimize, signal
    from scipy.cluster import vq
    from scipy.optimize import elementwise

    for name in SIGNAL:
        yield f"signal.{name}", getattr(signal, name), (V,)
    for name in SIGNAL_2:
        yield f"signal.{name}", getattr(signal, name), (V, W)
    yield "signal.convolve2d", lambda x, y: signal.fftconvolve(x, y, axes=0), (M, N)
    yield "signal.freqz", lambda x: signal.freqz(x, worN=8)[1], (V,)
    yield "signal.zpk2tf", lambda x: signal.zpk2tf(x, x * 0.5, 1.0), (V[:3],)
    yield "signal.tf2zpk", lambda x, y: signal.tf2zpk(x, y)[2], (V[:4], W[:4])
    yield "signal.lfilter_zi", lambda x, y: signal.lfilter_zi(x, y), (V[:3], W[:3])
    yield "signal.lp2lp", lambda x, y: signal.lp2lp(x, y), (V[:3], W[:3])
    yield "signal.bilinear", lambda x, y: signal.bilinear(x, y), (V[:3], W[:3])
    yield "signal.savgol_filter", lambda x: signal.savgol_filter(x, 5, 2), (V,)
    yield "signal.resample", lambda x: signal.resample(x, 8), (V,)
    yield "signal.medfilt", lambda x: signal.medfilt(x, 3), (V,)
    for name in FFT:
        yield f"fft.{name}", getattr(fft, name), (V,)
    for name in FFT_2D:
        yield f"fft.{name}", getattr(fft, name), (M,)
    yield "integrate.trapezoid", integrate.trapezoid, (V,)
    yield "integrate.trapezoid, x", lambda x, y: integrate.trapezoid(x, np_cumsum(y)), (V, W)
    yield "integrate.cumulative_trapezoid", integrate.cumulative_trapezoid, (V,)
    yield "integrate.simpson", integrate.simpson, (V,)
    yield "integrate.simpson, odd", lambda x: integrate.simpson(x[:11]), (V,)
    yield "integrate.cumulative_simpson", lambda x: integrate.cumulative_simpson(x, dx=0.1), (V,)
    yield "integrate.tanhsinh", lambda a, b: integrate.tanhsinh(lambda t: t * t, a, b + 1.0).integral, (V, W)
    yield "integrate.nsum", lambda a: integrate.nsum(lambda k: 1 / k**2, a + 1.0, np.inf).sum, (V[:2],)
    for name in ("rosen", "rosen_der", "rosen_hess"):
        yield f"optimize.{name}", getattr(optimize, name), (V,)
    yield "optimize.rosen_hess_prod", optimize.rosen_hess_prod, (V, W)
    yield (
        "optimize.elementwise.find_root",
        lambda a: elementwise.find_root(lambda x: x * x * x - 0.5, (a * 0.0, a * 0.0 + 2.0)).x,
        (V,),
    )
    yield "differentiate.derivative", lambda x: differentiate.derivative(lambda t: t**3, x).df, (V,)
    yield "differentiate.jacobian", lambda x: differentiate.jacobian(lambda t: t**2, x).df, (V[:3],)
    yield "vq.whiten", vq.whiten, (M,)
    yield "vq.vq", lambda x, y: vq.vq(x, y)[1], (M, N)


def _matrices() -> Iterator[Row]:
    from scipy import interpolate, linalg, ndimage

    for name in MATRICES:
        yield f"linalg.{name}", getattr(linalg, name), (S,)
    for name in words("lstsq qr svd"):
        yield f"linalg.{name}", lambda x, y, n=name: getattr(linalg, n)(x, *[y][: n == "lstsq"])[-1], (M, V[:6])
    yield "linalg.cho_factor", lambda a: np.triu(linalg.cho_factor(a)[0]), (S,)
    for name in words("solve lu_factor solve_sylvester solve_continuous_lyapunov"):
        call = getattr(linalg, name)
        matrices = (S, S + np.eye(4), S)[
            : {"solve": 2, "solve_continuous_lyapunov": 2, "solve_sylvester": 3}.get(name, 1)
        ]
        yield f"linalg.{name}", lambda *xs, call=call: call(*xs), matrices
    for name in words("toeplitz circulant companion hankel leslie"):
        operands = (V[:4], V[1:4])[: 1 + (name == "leslie")]
        yield f"linalg.{name}", getattr(linalg, name), operands
    for name in words("CubicSpline PchipInterpolator Akima1DInterpolator make_interp_spline interp1d"):
        yield (
            f"interpolate.{name}",
            lambda y, x, at, n=name: getattr(interpolate, n)(x, y)(at),
            (V, np.arange(12.0), AT),
        )
    for name in words("sobel prewitt laplace gaussian_filter uniform_filter median_filter maximum_filter"):
        options = {"gaussian_filter": (1.0,), "uniform_filter": (3,), "median_filter": (3,), "maximum_filter": (3,)}
        yield f"ndimage.{name}", lambda x, n=name, o=options: getattr(ndimage, n)(x, *o.get(n, ())), (M,)


def np_cumsum(y: Any) -> Any:
    """Return increasing places, in the namespace of the increments."""
    return y.__array_namespace__().cumulative_sum(y)


def _rotations() -> Iterator[Row]:
    from scipy.spatial.transform import RigidTransform, Rotation, Slerp

    arguments: dict[str, tuple[Any, ...]] = {"as_euler": ("xyz",), "as_davenport": (np.eye(3), "extrinsic")}
    for name in ROTATIONS:

        def convert(x: Any, name: str = name) -> Any:
            result = getattr(Rotation.from_quat(x), name)(*arguments.get(name, ()))
            return result.as_quat() if isinstance(result, Rotation) else result

        yield f"Rotation.{name}", convert, (M,)
    for kind in ("rotvec", "mrp"):
        yield f"Rotation.from_{kind}", lambda x, kind=kind: getattr(Rotation, f"from_{kind}")(x).as_quat(), (M[:, :3],)
    yield "Rotation.from_matrix", lambda x: Rotation.from_matrix(Rotation.from_quat(x).as_matrix()).as_quat(), (M,)
    yield "Rotation.from_euler", lambda x: Rotation.from_euler("xyz", x).as_matrix(), (M[:, :3],)
    yield "Rotation.apply", lambda q, x: Rotation.from_quat(q).apply(x), (M, M[:, :3])
    yield "Rotation.mul", lambda q, r: (Rotation.from_quat(q) * Rotation.from_quat(r)).as_quat(), (M, M[::-1])
    yield "Rotation.pow", lambda q: (Rotation.from_quat(q) ** 0.5).as_quat(), (M,)
    yield "Rotation.reduce", lambda q: Rotation.from_quat(q).reduce().as_quat(), (M,)
    yield "Rotation.approx_equal", lambda q: Rotation.from_quat(q).approx_equal(Rotation.from_quat(M)), (M,)
    yield "Rotation.align_vectors", lambda x: Rotation.align_vectors(x, M[:, 1:])[0].as_matrix(), (M[:, :3],)
    yield "Slerp", lambda t: Slerp([0.0, 1.0], Rotation.from_quat(M[:2]))(t).as_quat(), (V,)
    yield "RigidTransform.apply", lambda t, x: RigidTransform.from_translation(t).apply(x), (V[:3], M[:, :3])
    yield "RigidTransform.from_exp_coords", lambda x: RigidTransform.from_exp_coords(x).as_matrix(), (V[:6],)


def _learning() -> Iterator[Row]:
    import sklearn
    from sklearn import decomposition, discriminant_analysis, linear_model, metrics, preprocessing
    from sklearn.metrics import pairwise

    sklearn.set_config(array_api_dispatch=True)
    for name in METRICS:
        yield f"metrics.{name}", getattr(metrics, name), (V, W)
    for name in CLASSES:
        options = {"beta": 0.5} if name == "fbeta_score" else {}
        scores = (W > 0.5).astype(int) if name not in ("roc_auc_score", "roc_curve", "average_precision_score") else W
        if name in ("brier_score_loss", "log_loss"):
            scores = W
        yield f"metrics.{name}", functools.partial(getattr(metrics, name), **options), (L, scores)
    for name in PAIRWISE:
        yield f"pairwise.{name}", getattr(pairwise, name), (M, M[::-1] if name.startswith("paired") else N)
    for kind in words(
        "StandardScaler MinMaxScaler MaxAbsScaler Normalizer Binarizer KernelCenterer PolynomialFeatures"
    ):
        x = M if kind != "KernelCenterer" else M[:4] @ M[:4].T
        yield f"preprocessing.{kind}", lambda x, k=kind: getattr(preprocessing, k)().fit_transform(x), (x,)
    yield "preprocessing.normalize", preprocessing.normalize, (M,)
    yield "preprocessing.scale", preprocessing.scale, (M,)
    yield "preprocessing.LabelEncoder", lambda y: preprocessing.LabelEncoder().fit_transform(y), (L,)
    yield "PCA", lambda x: decomposition.PCA(2, svd_solver="full").fit(x).explained_variance_, (M,)
    yield "PCA.transform", lambda x: abs(decomposition.PCA(2, svd_solver="full").fit_transform(x)), (M,)
    yield "Ridge", lambda x, y: linear_model.Ridge(solver="svd").fit(x, y[:6]).coef_, (M, V)
    for name, method in (
        ("StandardScaler", "transform"),
        ("StandardScaler", "inverse_transform"),
        ("MinMaxScaler", "transform"),
    ):
        yield (
            f"preprocessing.{name}.{method}",
            lambda x, n=name, m=method: getattr(getattr(preprocessing, n)().fit(x), m)(x * x),
            (M,),
        )
    yield "Ridge.predict", lambda x, y: linear_model.Ridge(solver="svd").fit(x, y[:6]).predict(x * x), (M, V)
    yield (
        "RidgeClassifier",
        lambda x: (
            linear_model.RidgeClassifier(solver="svd").fit(x, x.__array_namespace__().asarray(K)).decision_function(x)
        ),
        (np.vstack([M, M**2, M**0.5]),),
    )
    for method in ("predict_proba", "decision_function", "transform"):
        yield (
            f"LinearDiscriminantAnalysis.{method}",
            lambda x, m=method: abs(
                getattr(
                    discriminant_analysis.LinearDiscriminantAnalysis().fit(x, x.__array_namespace__().asarray(K)), m
                )(x * 0.9)
            ),
            (np.vstack([M, M**2, M**0.5]),),
        )
    yield (
        "LinearDiscriminantAnalysis",
        lambda x: (
            discriminant_analysis.LinearDiscriminantAnalysis().fit(x, x.__array_namespace__().asarray(L[:6])).means_
        ),
        (M,),
    )


def _extra() -> Iterator[Row]:
    from sklearn.externals import array_api_extra as xpx

    for method in ("set", "add", "subtract", "multiply", "divide", "power", "min", "max"):
        yield f"xpx.at.{method}", lambda x, y, f=method: getattr(xpx.at(x)[2:5], f)(y[2:5]), (V, W)
        yield f"xpx.at.{method}, mask", lambda x, f=method: getattr(xpx.at(x)[x > 0.5], f)(0.3), (V,)
    for name in ("sinc", "create_diagonal", "nunique", "argpartition", "partition"):
        places = (3,) if "partition" in name else ()
        yield f"xpx.{name}", lambda x, name=name, places=places: getattr(xpx, name)(x, *places), (V,)
    for name in ("kron", "setdiff1d", "isclose", "union1d", "isin"):
        if hasattr(xpx, name):
            yield f"xpx.{name}", getattr(xpx, name), (V, W)
    yield "xpx.cov", xpx.cov, (M,)
    yield "xpx.atleast_nd", lambda x: xpx.atleast_nd(x, ndim=3), (V,)
    yield "xpx.expand_dims", lambda x: xpx.expand_dims(x, axis=(0, 2)), (V,)
    yield "xpx.pad", lambda x: xpx.pad(x, (1, 2), constant_values=0.5), (V,)
    yield "xpx.one_hot", lambda y: xpx.one_hot(y, 2), (L,)
    yield "xpx.apply_where", lambda x: xpx.apply_where(x > 0.5, x, lambda x: x * x, lambda x: -x), (V,)
    yield "xpx.broadcast_shapes", lambda x: x * xpx.broadcast_shapes(x.shape, (1, 12))[0], (V,)


def leaves(result: Any) -> list[np.ndarray]:
    """Return the numbers of a result, as plain arrays."""
    return [np.asarray(x) for x in _parts(result)]


def _parts(result: Any) -> list[Any]:
    if isinstance(result, (tuple, list)):
        return [x for v in result for x in _parts(v)]
    if hasattr(result, "statistic"):
        return [result.statistic, result.pvalue] if hasattr(result, "pvalue") else [result.statistic]
    if hasattr(result, "mean_direction"):
        return [result.mean_direction, result.mean_resultant_length]
    return [result]


def judge(call: Call, operands: tuple[Any, ...]) -> dict[str, Any]:
    """Return whether a call runs, its value is NumPy's, and its gradient that of differences (None where there is none)."""
    import afx

    try:
        expected = leaves(call(*map(np.copy, operands)))
    except Exception as error:
        return {"runs": False, "error": f"NumPy: {error!r}"[:200]}
    try:
        results = call(*[afx.asarray(x) for x in operands])
        values = leaves(results)
    except Exception as error:
        return {"runs": False, "error": repr(error)[:300]}
    right = len(values) == len(expected) and all(
        np.allclose(a, b, rtol=1e-9, atol=1e-11, equal_nan=True) for a, b in zip(values, expected, strict=True)
    )
    if operands[0].dtype.kind != "f" or not expected or expected[0].dtype.kind not in "fc":
        return {"runs": True, "right": right, "gradient": None}

    def total(x: Any) -> Any:
        y = _parts(call(x, *map(afx.asarray, operands[1:])))[0]
        return afx.sum(_weights(y) * (afx.real(y) + (afx.imag(y) if afx.iscomplexobj(y) else 0.0)))

    def plain(x: Any) -> float:
        y = leaves(call(*map(np.copy, (x, *operands[1:]))))[0]
        return float(np.sum(_weights(y) * (y.real + y.imag)))

    try:
        with np.errstate(all="ignore"):
            value, slopes = afx.value_and_grad(total)(afx.asarray(operands[0]))
            gradient = np.asarray(slopes)
    except Exception as error:
        return {"runs": True, "right": right, "gradient": "refused", "error": repr(error)[:300]}
    direction = np.random.default_rng(1).standard_normal(operands[0].shape)
    x, h = operands[0], 1e-5
    slope = (plain(x + h * direction) - plain(x - h * direction)) / (2 * h)
    good = bool(abs(np.sum(gradient * direction) - slope) <= 2e-5 * max(1.0, abs(slope)))
    good = good and bool(np.isclose(float(value), plain(x), rtol=1e-9, atol=1e-11))
    return {"runs": True, "right": right, "gradient": "right" if good else "wrong"}


def _weights(y: Any) -> np.ndarray:
    """Return other factors for each number of a result."""
    return np.cos(np.arange(y.size)).reshape(y.shape)


def main() -> None:
    """Print what becomes of every call, with and without `afx.interop.array_api`."""
    import afx
    from afx import interop

    warnings.simplefilter("ignore")
    afx.set_default_dtype(afx.float64)  # that of NumPy, for the numbers that libraries make arrays of
    with interop.array_api():
        sys.stdout.write(json.dumps({name: judge(call, operands) for name, call, operands in rows()}))


if __name__ == "__main__":
    main()
