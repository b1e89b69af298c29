"""NumPy's whole public interface on afx arrays: every function is listed here, called, and differentiated.

Functions of real or complex numbers are in `DIFFERENTIABLE` or, where the derivative is 0 wherever it exists, in
`CONSTANT`; what works of both, of all there are, is the figure that `test_the_figure` states. What has no operand with
a derivative, or no business with arrays of numbers, is in `OTHER`, group by group.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx import errors
from tests.every import together
from tests.ops.agreement import compiled_agrees, derivatives_agree, flat, floats

RNG = np.random.default_rng(29)
X = RNG.permutation(np.linspace(0.15, 0.85, 12)).reshape(3, 4)
Y = RNG.uniform(0.2, 0.9, size=(3, 4))
KNOTS = np.array([0.0, 0.31, 0.52, 1.0])
HOLES = np.where(np.arange(12).reshape(3, 4) % 5 == 1, np.nan, 1.0)
MASK = np.array([True, False, True])
EYE = np.eye(3)
STEP = 1e-6

Call = Callable[[Any], Any]


def _square(x: Any) -> Any:
    """Return a square matrix with eigenvalues apart."""
    return x[:, :3] + np.diag([1.0, 2.0, 4.0])


def _symmetric(x: Any) -> Any:
    """Return a positive definite matrix with eigenvalues apart."""
    return _square(x) + np.swapaxes(_square(x), 0, 1)


def _complex(x: Any) -> Any:
    return x[:, :2] + 1j * x[:, 2:]


def _unary(*names: str) -> dict[str, Call]:
    return {name: getattr(np, name) for name in names}


DIFFERENTIABLE: dict[str, Call] = {
    # elementwise, of one operand
    **_unary("abs", "acos", "arcsin", "arcsinh", "arctan", "arctanh", "cbrt", "cos", "cosh", "deg2rad", "degrees"),
    **_unary("exp", "exp2", "expm1", "fabs", "i0", "log", "log10", "log1p", "log2", "negative", "positive"),
    **_unary("rad2deg", "radians", "reciprocal", "sin", "sinc", "sinh", "sqrt", "square", "tan", "tanh"),
    "acosh": lambda x: np.acosh(x + 1),
    "angle": lambda x: np.angle(_complex(x)),
    "conj": lambda x: np.conj(_complex(x)),
    "frexp": lambda x: np.frexp(x)[0],
    "imag": lambda x: np.imag(_complex(x)),
    "modf": lambda x: np.modf(3 * x),
    "nan_to_num": lambda x: np.nan_to_num(x * HOLES),
    "real": lambda x: np.real(_complex(x)),
    "real_if_close": lambda x: np.real_if_close(x + 0j),
    # elementwise, of several
    "add": lambda x: np.add(x, x[0]),
    "arctan2": lambda x: np.arctan2(x, Y),
    "clip": lambda x: np.clip(x, 0.3, 0.6),
    "copysign": lambda x: np.copysign(x, Y - 0.5),
    "divide": lambda x: np.divide(x, x[0] + 1),
    "divmod": lambda x: np.divmod(7 * x, Y),
    "float_power": lambda x: np.float_power(x, Y),
    "fmax": lambda x: np.fmax(x, Y),
    "fmin": lambda x: np.fmin(x, Y),
    "fmod": lambda x: np.fmod(7 * x, Y),
    "heaviside": lambda x: np.heaviside(Y - Y[0], x),
    "hypot": lambda x: np.hypot(x, Y),
    "ldexp": lambda x: np.ldexp(x, 3),
    "logaddexp": lambda x: np.logaddexp(x, Y),
    "logaddexp2": lambda x: np.logaddexp2(x, Y),
    "maximum": lambda x: np.maximum(x, Y),
    "minimum": lambda x: np.minimum(x, Y),
    "mod": lambda x: np.mod(7 * x, Y),
    "multiply": lambda x: np.multiply(x, x[0]),
    "nextafter": lambda x: np.nextafter(x, Y),
    "pow": lambda x: np.pow(x, Y),
    "subtract": lambda x: np.subtract(1.0, x),
    "where": lambda x: np.where(Y > 0.5, x, 0.0),
    # reductions
    "amax": lambda x: np.amax(x, axis=1),
    "amin": lambda x: np.amin(x, axis=(0, 1)),
    "average": lambda x: np.average(x, axis=0, weights=[1.0, 2.0, 3.0]),
    "max": lambda x: np.max(x, axis=0, keepdims=True),
    "mean": lambda x: np.mean(x, axis=1),
    "median": lambda x: np.median(x, axis=1),
    "min": lambda x: np.min(x),
    "nanmax": lambda x: np.nanmax(x * HOLES, axis=0),
    "nanmean": lambda x: np.nanmean(x * HOLES, axis=1),
    "nanmedian": lambda x: np.nanmedian(x * HOLES, axis=1),
    "nanmin": lambda x: np.nanmin(x * HOLES, axis=1),
    "nanpercentile": lambda x: np.nanpercentile(x * HOLES, 40),
    "nanprod": lambda x: np.nanprod(x * HOLES, axis=1),
    "nanquantile": lambda x: np.nanquantile(x * HOLES, [0.2, 0.4], axis=1),
    "nanstd": lambda x: np.nanstd(x * HOLES, ddof=1),
    "nansum": lambda x: np.nansum(x * HOLES, axis=1),
    "nanvar": lambda x: np.nanvar(x * HOLES, axis=1),
    "percentile": lambda x: np.percentile(x, 35, axis=0, method="hazen"),
    "prod": lambda x: np.prod(x, axis=0),
    "ptp": lambda x: np.ptp(x, axis=1),
    "quantile": lambda x: np.quantile(x, [0.1, 0.6], axis=0),
    "std": lambda x: np.std(x, axis=0, ddof=1),
    "sum": lambda x: np.sum(x, axis=0),
    "trace": lambda x: np.trace(x, 1),
    "trapezoid": lambda x: np.trapezoid(x, dx=0.5),
    "var": lambda x: np.var(x, axis=0, correction=1),
    # running, differences, samples
    "convolve": lambda x: np.convolve(x[0], x[1]),
    "corrcoef": np.corrcoef,
    "correlate": lambda x: np.correlate(x[0], x[1, :2], "same"),
    "cov": lambda x: np.cov(x, ddof=0),
    "cumprod": lambda x: np.cumprod(x, axis=1),
    "cumsum": np.cumsum,
    "cumulative_prod": lambda x: np.cumulative_prod(x, axis=0, include_initial=True),
    "cumulative_sum": lambda x: np.cumulative_sum(x, axis=1),
    "diff": lambda x: np.diff(x, 2, axis=1),
    "ediff1d": lambda x: np.ediff1d(x, to_begin=0.0),
    "gradient": lambda x: np.gradient(x, axis=1),
    "histogram": lambda x: np.histogram(Y, bins=3, weights=x),
    "histogram2d": lambda x: np.histogram2d(Y[0], Y[1], bins=2, weights=x[0]),
    "histogramdd": lambda x: np.histogramdd(Y, bins=(2, 1, 2, 2), weights=x[:, 0]),
    "histogram_bin_edges": lambda x: np.histogram_bin_edges(x, bins=3),
    "bincount": lambda x: np.bincount([0, 2, 2], weights=x[:, 0]),
    "interp": lambda x: np.interp(x, KNOTS, x[0]),
    "nancumprod": lambda x: np.nancumprod(x * HOLES, axis=1),
    "nancumsum": lambda x: np.nancumsum(x * HOLES),
    "unwrap": lambda x: np.unwrap(9 * x),
    # shape
    "append": lambda x: np.append(x, x[:1], axis=0),
    "array_split": lambda x: np.array_split(x, 3, axis=1),
    "astype": lambda x: np.astype(x, np.float64),
    "atleast_1d": lambda x: np.atleast_1d(x[0, 0]),
    "atleast_2d": lambda x: np.atleast_2d(x[0]),
    "atleast_3d": np.atleast_3d,
    "block": lambda x: np.block([[x, x[:, :1]], [x[:1], np.ones((1, 1))]]),
    "broadcast_arrays": lambda x: np.broadcast_arrays(x, x[0], Y[:1]),
    "broadcast_to": lambda x: np.broadcast_to(x, (2, 3, 4)),
    "column_stack": lambda x: np.column_stack([x, x[:, 0]]),
    "concat": lambda x: np.concat([x, x[:1]]),
    "copy": np.copy,
    "delete": lambda x: np.delete(x, 1, axis=1),
    "diag": lambda x: np.diag(x, -1),
    "diagflat": lambda x: np.diagflat(x[:2], 1),
    "diagonal": lambda x: np.diagonal(x, 1),
    "dsplit": lambda x: np.dsplit(x.reshape(1, 3, 4), 2),
    "dstack": lambda x: np.dstack([x, x]),
    "expand_dims": lambda x: np.expand_dims(x, (0, 2)),
    "flip": np.flip,
    "fliplr": np.fliplr,
    "flipud": np.flipud,
    "full_like": lambda x: np.full_like(x, x[0, 0]),
    "hsplit": lambda x: np.hsplit(x, 2),
    "hstack": lambda x: np.hstack([x, x]),
    "insert": lambda x: np.insert(x, [1, 3], x[:, :1], axis=1),
    "matrix_transpose": np.matrix_transpose,
    "meshgrid": lambda x: np.meshgrid(x[0], x[1, :2]),
    "moveaxis": lambda x: np.moveaxis(x, 0, 1),
    "pad": lambda x: np.pad(x, 2, mode="reflect"),
    "permute_dims": np.permute_dims,
    "ravel": np.ravel,
    "repeat": lambda x: np.repeat(x, [1, 0, 2], axis=0),
    "reshape": lambda x: np.reshape(x, (2, 6)),
    "resize": lambda x: np.resize(x, (2, 9)),
    "roll": lambda x: np.roll(x, (1, 2), axis=(0, 1)),
    "rollaxis": lambda x: np.rollaxis(x, 1),
    "rot90": np.rot90,
    "split": lambda x: np.split(x, [1, 3], axis=1),
    "squeeze": lambda x: np.squeeze(x[:1]),
    "stack": lambda x: np.stack([x, x], axis=1),
    "swapaxes": lambda x: np.swapaxes(x, 0, 1),
    "tile": lambda x: np.tile(x, (2, 1)),
    "tril": lambda x: np.tril(x, -1),
    "trim_zeros": lambda x: np.trim_zeros(np.concatenate([np.zeros(2), x[0]])),
    "triu": np.triu,
    "unstack": lambda x: np.unstack(x),
    "vsplit": lambda x: np.vsplit(x, 3),
    "vstack": lambda x: np.vstack([x, x[0]]),
    # choice and order
    "apply_along_axis": lambda x: np.apply_along_axis(lambda v: v[:2] * v.sum(), 1, x),
    "apply_over_axes": lambda x: np.apply_over_axes(np.sum, x, (0, 1)),
    "choose": lambda x: np.choose([0, 1, 0, 1], x[:2]),
    "compress": lambda x: np.compress([True, False, True], x, axis=0),
    "extract": lambda x: np.extract(Y > 0.5, x),
    "intersect1d": lambda x: np.intersect1d(x[0], np.concatenate([x[0, :2], x[1]])),
    "partition": lambda x: np.sort(np.partition(x, 1, axis=1)[:, :2], axis=1),
    "piecewise": lambda x: np.piecewise(x, [X < 0.4, X > 0.6], [lambda v: v**2, 3.0, np.sin]),
    "select": lambda x: np.select([X < 0.4, X < 0.6], [x, x**2], 1.0),
    "setdiff1d": lambda x: np.setdiff1d(x[0], x[0, :1]),
    "setxor1d": lambda x: np.setxor1d(x[0], x[:2, :2]),
    "sort": lambda x: np.sort(x, axis=0),
    "sort_complex": lambda x: np.sort_complex(x[0]),
    "take": lambda x: np.take(x, [[2, 0]], axis=1),
    "take_along_axis": lambda x: np.take_along_axis(x, np.argsort(Y, axis=1), axis=1),
    "union1d": lambda x: np.union1d(x[0], x[1]),
    "unique": lambda x: np.unique(np.concatenate([x[0], x[0]])),
    "unique_all": lambda x: np.unique_all(x)[0],
    "unique_counts": lambda x: np.unique_counts(x)[0],
    "unique_inverse": lambda x: np.unique_inverse(x)[0],
    "unique_values": lambda x: np.sort(np.unique_values(x)),
    # products
    "cross": lambda x: np.cross(x[:, :3], x[:, 1:]),
    "dot": lambda x: np.dot(x, x[0]),
    "einsum": lambda x: np.einsum("ij,kj->ik", x, x),
    "inner": lambda x: np.inner(x, x[:2]),
    "kron": lambda x: np.kron(x[:, 0], x),
    "matmul": lambda x: np.matmul(x, Y.T),
    "matvec": lambda x: np.matvec(x, x[0]),
    "outer": lambda x: np.outer(x, x[0]),
    "tensordot": lambda x: np.tensordot(x, x, axes=([0], [0])),
    "vdot": lambda x: np.vdot(x, Y),
    "vecdot": lambda x: np.vecdot(x, x[0]),
    "vecmat": lambda x: np.vecmat(x[:, 0], x),
    # ranges and polynomials
    "geomspace": lambda x: np.geomspace(x[0], x[1], 4),
    "linspace": lambda x: np.linspace(x[0], 1.0, 3),
    "logspace": lambda x: np.logspace(x[0, 0], x[0, 1], 3),
    "poly": lambda x: np.poly(x[0]),
    "polyadd": lambda x: np.polyadd(x[0], x[1, :2]),
    "polyder": lambda x: np.polyder(x[0]),
    "polydiv": lambda x: np.polydiv(x[0], x[1, :2]),
    "polyfit": lambda x: np.polyfit(KNOTS, x[0], 2),
    "polyint": lambda x: np.polyint(x[0]),
    "polymul": lambda x: np.polymul(x[0], x[1, :2]),
    "polysub": lambda x: np.polysub(x[0], x[1, :2]),
    "polyval": lambda x: np.polyval(x[0], x),
    "roots": lambda x: np.roots(x[0]) + 0j,
    "vander": lambda x: np.vander(x[0], 3),
    # linear algebra
    "linalg.cholesky": lambda x: np.linalg.cholesky(_symmetric(x)),
    "linalg.cond": lambda x: np.linalg.cond(_square(x)),
    "linalg.cross": lambda x: np.linalg.cross(x[:, :3], x[:, 1:]),
    "linalg.det": lambda x: np.linalg.det(_square(x)),
    "linalg.diagonal": lambda x: np.linalg.diagonal(x, offset=1),
    "linalg.eig": lambda x: np.linalg.eig(_square(x))[0] + 0j,
    "linalg.eigh": lambda x: np.linalg.eigh(_symmetric(x)),
    "linalg.eigvals": lambda x: np.linalg.eigvals(_square(x)) + 0j,
    "linalg.eigvalsh": lambda x: np.linalg.eigvalsh(_symmetric(x)),
    "linalg.inv": lambda x: np.linalg.inv(_square(x)),
    "linalg.lstsq": lambda x: np.linalg.lstsq(x[:, :2], x[:, 3])[0],
    "linalg.matmul": lambda x: np.linalg.matmul(x, Y.T),
    "linalg.matrix_norm": lambda x: np.linalg.matrix_norm(x, ord=1),
    "linalg.matrix_power": lambda x: np.linalg.matrix_power(_square(x), -3),
    "linalg.matrix_transpose": np.linalg.matrix_transpose,
    "linalg.multi_dot": lambda x: np.linalg.multi_dot([x, Y.T, x]),
    "linalg.norm": lambda x: np.linalg.norm(x, axis=1),
    "linalg.outer": lambda x: np.linalg.outer(x[0], x[1]),
    "linalg.pinv": lambda x: np.linalg.pinv(x),
    "linalg.qr": lambda x: np.linalg.qr(_square(x)),
    "linalg.slogdet": lambda x: np.linalg.slogdet(_square(x)),
    "linalg.solve": lambda x: np.linalg.solve(_square(x), x),
    "linalg.svd": lambda x: np.linalg.svd(x, full_matrices=False),
    "linalg.svdvals": np.linalg.svdvals,
    "linalg.tensordot": lambda x: np.linalg.tensordot(x, x, axes=([1], [1])),
    "linalg.tensorinv": lambda x: np.linalg.tensorinv((_square(x)).reshape(3, 3, 1), ind=1),
    "linalg.tensorsolve": lambda x: np.linalg.tensorsolve(_square(x), x[:, 0]),
    "linalg.trace": lambda x: np.linalg.trace(x, offset=1),
    "linalg.vecdot": lambda x: np.linalg.vecdot(x, x[0]),
    "linalg.vector_norm": lambda x: np.linalg.vector_norm(x, axis=0, ord=3),
    # Fourier transforms
    "fft.fft": np.fft.fft,
    "fft.fft2": np.fft.fft2,
    "fft.fftn": np.fft.fftn,
    "fft.fftshift": np.fft.fftshift,
    "fft.hfft": lambda x: np.fft.hfft(_complex(x)),
    "fft.ifft": np.fft.ifft,
    "fft.ifft2": np.fft.ifft2,
    "fft.ifftn": np.fft.ifftn,
    "fft.ifftshift": np.fft.ifftshift,
    "fft.ihfft": np.fft.ihfft,
    "fft.irfft": lambda x: np.fft.irfft(_complex(x), 3),
    "fft.irfft2": lambda x: np.fft.irfft2(_complex(x)),
    "fft.irfftn": lambda x: np.fft.irfftn(_complex(x)),
    "fft.rfft": lambda x: np.fft.rfft(x, 5),
    "fft.rfft2": np.fft.rfft2,
    "fft.rfftn": np.fft.rfftn,
}

# Functions of real numbers whose derivative is 0 wherever it exists.
CONSTANT: dict[str, Call] = {
    **_unary("all", "any", "argmax", "argmin", "argsort", "argwhere", "ceil", "around", "count_nonzero", "fix"),
    **_unary("flatnonzero", "floor", "iscomplex", "isfinite", "isinf", "isnan", "isneginf", "isposinf", "isreal"),
    **_unary(
        "logical_not", "nonzero", "ones_like", "rint", "round", "sign", "signbit", "spacing", "trunc", "zeros_like"
    ),
    "allclose": lambda x: np.allclose(x, x + 1e-12),
    "argpartition": lambda x: np.argpartition(x, 1, axis=1)[:, 1],
    "array_equal": lambda x: np.array_equal(x, X),
    "array_equiv": lambda x: np.array_equiv(x, x[0]),
    "digitize": lambda x: np.digitize(x, KNOTS),
    "equal": lambda x: np.equal(x, Y),
    "floor_divide": lambda x: np.floor_divide(7 * x, Y),
    "greater": lambda x: np.greater(x, Y),
    "greater_equal": lambda x: np.greater_equal(x, Y),
    "isclose": lambda x: np.isclose(x, X + 1e-12),
    "isin": lambda x: np.isin(x, X[0]),
    "less": lambda x: np.less(x, Y),
    "less_equal": lambda x: np.less_equal(x, Y),
    "lexsort": lambda x: np.lexsort((x[0], x[1])),
    "logical_and": lambda x: np.logical_and(x, Y),
    "logical_or": lambda x: np.logical_or(x, Y),
    "logical_xor": lambda x: np.logical_xor(x, Y),
    "nanargmax": lambda x: np.nanargmax(x * HOLES, axis=1),
    "nanargmin": lambda x: np.nanargmin(x * HOLES, axis=1),
    "not_equal": lambda x: np.not_equal(x, Y),
    "searchsorted": lambda x: np.searchsorted(KNOTS, x),
    "linalg.matrix_rank": np.linalg.matrix_rank,
}

# The values of these decide the shape of what they give.
OF_VALUES = [
    "intersect1d",
    "real_if_close",
    "setdiff1d",
    "setxor1d",
    "trim_zeros",
    "union1d",
    "unique",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]

# What has no operand with a derivative, by reason.
OTHER: dict[str, str] = {
    "of integers": """bitwise_and bitwise_count bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift
        bitwise_xor gcd lcm packbits ravel_multi_index unpackbits unravel_index""",
    "of shapes and numbers known beforehand": """arange bartlett blackman broadcast_shapes diag_indices empty eye full
        fromfunction hamming hanning identity indices kaiser mask_indices ones tri tril_indices triu_indices zeros
        fft.fftfreq fft.rfftfreq""",
    "the shape of an array": """diag_indices_from empty_like iscomplexobj isrealobj ix_ ndim shape size tril_indices_from
        triu_indices_from""",
    "conversions to NumPy's own arrays": """array asanyarray asarray asarray_chkfinite ascontiguousarray asfortranarray
        asmatrix bmat from_dlpack frombuffer fromiter frompyfunc require""",
    "writing into an array": "copyto fill_diagonal place put put_along_axis putmask",
    "memory, dtypes and settings": """can_cast common_type datetime_data einsum_path get_include get_printoptions getbufsize
        geterr geterrcall info isdtype isfortran isscalar issubdtype iterable may_share_memory min_scalar_type mintypecode
        nested_iters printoptions promote_types result_type set_printoptions setbufsize seterr seterrcall shares_memory
        show_config show_runtime test typename fft.test linalg.test""",
    "text, files and dates": """array2string array_repr array_str base_repr binary_repr busday_count busday_offset
        datetime_as_string format_float_positional format_float_scientific fromfile fromregex fromstring genfromtxt
        is_busday isnat load loadtxt save savetxt savez savez_compressed""",
    "deprecated names": "row_stack",
}


def public() -> dict[int, set[str]]:
    """Return the names of NumPy's public functions, one set for each function."""
    found: dict[int, set[str]] = {}
    for prefix, module in (("", np), ("linalg.", np.linalg), ("fft.", np.fft)):
        for name in dir(module):
            fn = getattr(module, name)
            if not name.startswith("_") and callable(fn) and not isinstance(fn, type):
                found.setdefault(id(fn), set()).add(prefix + name)
    return found


def exists(name: str) -> bool:
    """Tell whether this NumPy has a function of that name."""
    place, _, last = name.rpartition(".")
    return hasattr(getattr(np, place) if place else np, last)


WORKING = [name for name in DIFFERENTIABLE if exists(name)]
STEADY = [name for name in CONSTANT if exists(name)]


def test_every_function_of_numpy_is_listed() -> None:
    """Each public function of numpy, numpy.linalg and numpy.fft stands in one of the tables under one of its names."""
    listed = [*DIFFERENTIABLE, *CONSTANT, *[name for group in OTHER.values() for name in group.split()]]
    assert sorted(set(listed)) == sorted(listed)
    missing = [sorted(names) for names in public().values() if len(names & set(listed)) != 1]
    assert not missing


def lacking(call: Call) -> bool:
    """Tell whether afx says that it has no such function."""
    try:
        call(afx.asarray(X))
    except errors.OperandError as error:
        return "afx has no such function" in str(error)
    return False


def figure() -> tuple[int, int, int, int]:
    """Return how many functions with a derivative work, of how many; then how many without one work, of how many."""
    working = sum(not lacking(DIFFERENTIABLE[name]) for name in WORKING)
    steady = sum(not lacking(CONSTANT[name]) for name in STEADY)
    return working, len(WORKING), steady, len(STEADY)


def test_the_figure() -> None:
    """Every function of NumPy that has a derivative works on Arrays, more than 240 of them, and so do all others of numbers."""
    working, listed, steady, others = figure()
    assert working == listed > 240
    assert steady == others > 45


@together("name", WORKING)
def test_values_and_derivatives(name: str) -> None:
    """The function gives Arrays with NumPy's values, and the derivative that differences of NumPy's values show."""
    call = DIFFERENTIABLE[name]
    _same(call(afx.asarray(X)), call(X))
    t = RNG.normal(size=X.shape)
    _, slopes = afx.jvp(lambda x: floats(call(x)), (X,), (t,))
    ahead, behind = _parts(call(X + STEP * t)), _parts(call(X - STEP * t))
    assert len(slopes) == len(ahead) > 0
    for got, up, down in zip(slopes, ahead, behind, strict=True):
        difference = (np.asarray(up) - np.asarray(down)) / (2 * STEP)
        np.testing.assert_allclose(np.asarray(got), difference, rtol=1e-5, atol=1e-6)


@together("name", WORKING)
def test_both_modes_and_second_order(name: str) -> None:
    """Reverse mode is the adjoint of forward mode, and the second derivative that of the first."""
    derivatives_agree(DIFFERENTIABLE[name], X)


@together("name", WORKING)
def test_compiled_and_mapped(name: str) -> None:
    """Under `jit` and `vmap` function and gradient are the same; where values decide a shape, it says so."""
    if name in OF_VALUES:
        with pytest.raises(errors.ConcreteValueError, match="is unknown while tracing"):
            afx.jit(DIFFERENTIABLE[name])(X)
    else:
        compiled_agrees(DIFFERENTIABLE[name], X)


def _parts(z: Any) -> list[Any]:
    """Return the inexact arrays of NumPy's result."""
    return [leaf for leaf in flat(z) if np.asarray(leaf).dtype.kind in "fc"]


def _same(got: Any, want: Any) -> None:
    """Compare an afx result with NumPy's."""
    assert len(flat(got)) == len(flat(want))
    for z, w in zip(flat(got), flat(want), strict=True):
        assert isinstance(z, (afx.Array, np.ndarray))  # conversions of what is not traced give NumPy's
        assert (z.shape, z.dtype) == (np.shape(w), np.asarray(w).dtype)
        np.testing.assert_allclose(np.asarray(z), w, rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("ignore:numpy.fix is deprecated:DeprecationWarning")
@together("name", STEADY)
def test_functions_without_a_derivative(name: str) -> None:
    """The function gives Arrays with NumPy's values, also under `grad`, which it adds nothing to."""
    call = CONSTANT[name]
    _same(call(afx.asarray(X)), call(X))

    def loss(x: Any) -> Any:
        return x.sum() + sum([afx.sum(z.astype(np.float64)) for z in flat(call(x))], 0.0)

    np.testing.assert_array_equal(np.asarray(afx.grad(loss)(X)), np.ones(X.shape))


@pytest.mark.parametrize("name", ["copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"])
def test_functions_that_write_name_the_way_out(name: str) -> None:
    """What would write into an Array raises and names `Array.at`."""
    arguments: dict[str, tuple[Any, ...]] = {
        "copyto": (X,),
        "fill_diagonal": (1.0,),
        "place": (X > 0.5, [1.0]),
        "put": ([0], [1.0]),
        "put_along_axis": (np.zeros((3, 1), int), 1.0, 1),
        "putmask": (X > 0.5, 1.0),
    }

    def loss(x: afx.Array) -> Any:
        getattr(np, name)(x, *arguments[name])
        return x.sum()

    with pytest.raises(errors.ImmutableError, match=rf"np.{name}: writes into an array: .* use x.at\[index\].set"):
        afx.grad(loss)(X)
