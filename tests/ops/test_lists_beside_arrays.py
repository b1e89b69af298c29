"""Numbers and lists beside float64 data keep their digits: composites give what the same values in float64 give."""

import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.signal
import scipy.special

import afx
from afx.core.registry import FUNCTIONS, load_all
from tests.ops.samples import together

VECTOR = np.array([0.1, 0.3, 0.7])
MATRIX = np.array([[0.9, 0.1, 0.2], [0.1, 0.8, 0.3], [0.2, 0.3, 0.7]])
NUMBER = np.float64(0.7)
OPERANDS = list(itertools.product([VECTOR, MATRIX, NUMBER], repeat=2))
DATA = ("ArrayLike", "Nested", "Numbers")
PARAMETERS = {"full_like", "extract", "nan_to_num"}  # of which one operand is data and the other is not
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the public functions of two operands or more, and NumPy's, which take lists beside an Array."""
    load_all()
    for name, fn in sorted(vars(FUNCTIONS).items()):
        first = list(inspect.signature(fn).parameters.values())[:2]
        data = [p.default is p.empty and any(kind in str(p.annotation) for kind in DATA) for p in first]
        if name not in PARAMETERS and (data == [True, True] or "operands" in str(first)):
            yield name, fn
    for name in ("solve", "lstsq", "solve_triangular", "tensorsolve"):
        yield f"linalg.{name}", getattr(afx.linalg, name)


def agree(got: Any, want: Any) -> bool:
    """Tell whether two results are the same to float64's digits."""
    pairs = zip(afx.pytree.leaves(got), afx.pytree.leaves(want), strict=True)
    arrays = [(np.asarray(g), np.asarray(w)) for g, w in pairs if hasattr(w, "dtype")]
    return all(
        g.dtype == w.dtype and g.shape == w.shape and np.allclose(g, w, rtol=1e-13, atol=1e-15, equal_nan=True)
        for g, w in arrays
    )


def test_numbers_and_lists_keep_their_digits() -> None:
    """Whichever operand is a number or a list, the other one's float64 decides."""
    tried = 0
    for name, fn in functions():
        for x, y in OPERANDS:
            try:
                want = fn(x, y)
            except (TypeError, ValueError, IndexError, AttributeError, np.linalg.LinAlgError):  # not its operands
                continue
            for xs in ((x.tolist(), y), (x, y.tolist())):
                try:
                    got = fn(*xs)
                except (TypeError, ValueError):  # a list, where afx's own function takes arrays
                    continue
                tried += 1
                assert agree(got, want), (name, xs)
    assert tried > 400


@together(
    "fn",
    [
        lambda x: np.outer(x, 0.7),
        lambda x: np.kron([0.1, 0.2], x),
        lambda x: np.tensordot(x, [0.1, 0.2, 0.7], 1),
        lambda x: np.einsum("i,->i", x, 0.7),
        lambda x: np.diff(x, prepend=0.7, append=[0.1]),
        lambda x: np.heaviside(x - x, 0.7),
        lambda x: np.heaviside(0.1, x),
        lambda x: np.linalg.solve(MATRIX.tolist(), x),
        lambda x: np.vdot(x[0], 0.7),
        lambda x: np.setdiff1d([0.1, 0.5], x),
        lambda x: np.searchsorted(x, [0.1, 0.3, 0.7]),
        lambda x: np.heaviside(x - 0.3, [0.1, 0.2, 0.7]),
        lambda x: np.inner(x, [0.1, 0.2, 0.7]),
        lambda x: np.trapezoid([0.1, 0.2, 0.7], dx=x[0]),
    ],
)
def test_numpy_functions_keep_digits_eager_and_compiled(fn: Callable[[Any], Any]) -> None:
    """Through NumPy's names and under jit, the values are NumPy's own for float64."""
    want = fn(VECTOR)
    run = afx.jit(fn) if "setdiff1d" not in fn.__code__.co_names else fn
    for found in (fn(afx.asarray(VECTOR)), run(VECTOR)):
        np.testing.assert_allclose(np.asarray(found), want, rtol=1e-14)


def test_numbers_as_traced_arguments_keep_their_digits() -> None:
    """A number that is an argument of a jitted function counts as the same number inside."""
    for fn in (afx.outer, afx.kron, afx.heaviside, lambda x, y: afx.einsum("i,->i", x, y)):
        np.testing.assert_array_equal(afx.jit(fn)(VECTOR, 0.7), fn(VECTOR, np.float64(0.7)))


def test_a_number_that_is_reduced_takes_the_dtype_of_its_first_value() -> None:
    """A reduction of one number from a float64 value on keeps the number's digits."""
    for fn, want in (
        (afx.sum, 0.8),
        (afx.prod, 0.07),
        (afx.max, 0.7),
        (afx.min, 0.1),
        (afx.nansum, 0.8),
        (afx.nanmax, 0.7),
    ):
        assert float(fn(0.1, initial=NUMBER)) == pytest.approx(want, rel=1e-15)


class Table:
    """Holds an array as a data frame does: it has no dtype."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return MATRIX


def test_what_gives_an_array_keeps_its_dtype() -> None:
    """A table that tells no dtype, by itself or in a list, is taken with that of the array it gives."""
    assert afx.asarray(Table()).dtype == afx.asarray([Table()]).dtype == np.float64
    np.testing.assert_array_equal(afx.asarray(Table()), MATRIX)
    pandas = pytest.importorskip("pandas", reason="the neighbour is tested where it is installed")
    frame = pandas.DataFrame({"a": [0.1, 0.2], "b": [1, 2]})
    np.testing.assert_array_equal(afx.asarray(frame), frame.to_numpy(), strict=True)


@together("name", ["xlogy", "xlog1py", "rel_entr", "kl_div", "beta", "betaln"])
@together("small", [np.uint8(200), np.int8(7), np.float16(0.3), np.float32(0.3), True, 3])
def test_functions_of_two_operands_compute_in_one_dtype(name: str, small: Any) -> None:
    """A small dtype, an integer or a bool beside float64 is taken in float64, eager and compiled."""
    fn, oracle = getattr(afx.special, name), getattr(scipy.special, name)
    for xs in ((NUMBER, small), (small, NUMBER)):
        want = oracle(*[np.float64(x) for x in xs])
        assert float(fn(*xs)) == pytest.approx(want, rel=1e-13)
        assert float(afx.jit(fn)(*xs)) == pytest.approx(want, rel=1e-13)


def test_sums_of_float16_do_not_overflow() -> None:
    """Weights and observations of float16 are summed in float32."""
    assert float(afx.average(np.ones(3000), weights=np.full(3000, 100, np.float16))) == 1
    x = np.random.default_rng(0).normal(100, 1, (2, 3000)).astype(np.float16)
    assert afx.cov(x).dtype == afx.corrcoef(x).dtype == np.float16
    np.testing.assert_allclose(np.asarray(afx.cov(x), float), np.cov(x.astype(float)), rtol=2e-3, atol=1e-4)
    np.testing.assert_allclose(np.asarray(afx.corrcoef(x), float), np.corrcoef(x.astype(float)), rtol=2e-3, atol=1e-4)


def test_cross_takes_axis_as_numpy() -> None:
    """An axis overrides those of operands and result; without one these count."""
    a = np.arange(6.0).reshape(2, 3) + 0.1
    b, x = a[::-1] ** 2, afx.asarray(a)
    for options in ({"axisa": 0, "axisb": -1, "axisc": 0}, {"axisa": 0, "axis": 1}, {"axis": -1}, {}):
        p, q = (a.T, x.T) if options.get("axisa") == 0 and "axis" not in options else (a, x)
        np.testing.assert_allclose(np.cross(q, b, **options), np.cross(p, b, **options), rtol=1e-15)


X, IMAGE = np.random.default_rng(3).normal(size=12), np.random.default_rng(4).normal(size=(6, 5))
STEPS, ROOTS, KERNEL = (
    [0.1 * k for k in range(12)],
    [1.0, -0.4, 0.17],
    [[0.1, 0.2, 0.3], [0.3, 0.1, 0.4], [0.7, 0.9, 0.2]],
)
SECTION, TAPS = [[0.1, 0.2, 0.3, *ROOTS]], [0.1, 0.3, 0.7]
IN_SCIPY: list[Callable[[Any], Any]] = [  # calls of a namespace, `scipy` or `afx`
    lambda m: m.signal.lfilter(TAPS, ROOTS, X),
    lambda m: m.signal.lfilter(TAPS, ROOTS, X, zi=[0.1, 0.3])[0],
    lambda m: m.signal.sosfilt(SECTION, X, zi=[[0.1, 0.3]])[0],
    lambda m: m.signal.filtfilt(TAPS, ROOTS, X, padlen=4),
    lambda m: m.signal.sosfiltfilt(SECTION, X, padlen=4),
    lambda m: m.signal.fftconvolve(X, TAPS),
    lambda m: m.signal.convolve2d(IMAGE, KERNEL),
    lambda m: m.signal.upfirdn(TAPS, X, 2),
    lambda m: m.signal.resample_poly(X, 3, 2, window=TAPS),
    lambda m: m.signal.resample(X, 8, t=STEPS)[1],
    lambda m: m.signal.csd(STEPS, X, nperseg=4)[1],
    lambda m: m.signal.stft(X, window=[0.1, 0.2, 0.3, 0.4], nperseg=4)[2],
    lambda m: m.signal.freqz(VECTOR, ROOTS, worN=[0.1, 0.7])[1],
    lambda m: m.ndimage.map_coordinates(X, [STEPS]),
    lambda m: m.ndimage.affine_transform(IMAGE, [[0.9, 0.1], [0.2, 0.7]], [0.1, 0.3]),
    lambda m: m.ndimage.shift(IMAGE, [0.1, 0.3], cval=0.1),
    lambda m: m.ndimage.convolve(IMAGE, KERNEL),
    lambda m: m.ndimage.correlate1d(IMAGE, TAPS),
    lambda m: m.ndimage.gaussian_filter(IMAGE, [0.3, 0.7]),
    lambda m: m.interpolate.CubicSpline(STEPS, X)([0.15, 0.33]),
    lambda m: m.interpolate.BSpline([0.1 * k for k in range(10)], X[:6], 3)([0.35]),
    lambda m: m.interpolate.RegularGridInterpolator((STEPS[:6], STEPS[:5]), IMAGE)([[0.15, 0.23]]),
    lambda m: m.linalg.toeplitz(VECTOR, ROOTS),
    lambda m: m.linalg.hankel(VECTOR, ROOTS),
    lambda m: m.linalg.leslie(VECTOR, [0.1, 0.3]),
    lambda m: m.linalg.eigh_tridiagonal(VECTOR, [0.1, 0.3], eigvals_only=True),
    lambda m: m.signal.fftconvolve(X, np.arange(3)),
    lambda m: m.signal.csd(np.arange(12) + 2**40, X, nperseg=4)[1],
]


@together("number", range(len(IN_SCIPY)))
def test_scipys_functions_keep_their_digits(number: int) -> None:
    """Filters, coordinates, knots and windows in lists, or whole numbers, beside float64 data give SciPy's results."""
    want = np.asarray(IN_SCIPY[number](scipy))
    got = IN_SCIPY[number](afx)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-11, atol=1e-12)
