"""afx is a namespace of the Python array API standard 2025.12: names, signatures, promotion, operators."""

import inspect
import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import afx
from afx import Array
from tests.every import together

RNG = np.random.default_rng(11)

# Each function of the standard: `_` is an argument by position, a name goes by position and by keyword, and after `*` by
# keyword only.
ONE = """abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 finfo floor iinfo imag isfinite
isinf isnan log log10 log1p log2 logical_not matrix_transpose negative nonzero positive real reciprocal round sign signbit
sin sinh sqrt square tan tanh trunc unique_all unique_counts unique_inverse unique_values"""
TWO = """add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor can_cast copysign divide equal
floor_divide greater greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor matmul maximum minimum
multiply nextafter not_equal pow remainder subtract tile"""
MORE = """
__array_namespace_info__(); all(_, *, axis, keepdims); any(_, *, axis, keepdims); arange(_, stop, step, *, dtype, device);
argmax(_, *, axis, keepdims); argmin(_, *, axis, keepdims); argsort(_, *, axis, descending, stable);
asarray(_, *, dtype, device, copy); astype(_, _, *, copy, device); broadcast_arrays(_, _, _); broadcast_shapes(_, _, _);
broadcast_to(_, shape);
clip(_, min, max); concat(_, *, axis); count_nonzero(_, *, axis, keepdims);
cumulative_prod(_, *, axis, dtype, include_initial); cumulative_sum(_, *, axis, dtype, include_initial);
diff(_, *, axis, n, prepend, append); empty(shape, *, dtype, device); empty_like(_, *, dtype, device);
expand_dims(_, axis); eye(_, _, *, k, dtype, device); flip(_, *, axis); from_dlpack(_, *, device, copy);
full(shape, fill_value, *, dtype, device); full_like(_, fill_value, *, dtype, device); isdtype(dtype, kind);
isin(_, _, *, invert); linspace(_, _, num, *, dtype, device, endpoint); max(_, *, axis, keepdims); mean(_, *, axis, keepdims);
meshgrid(_, _, _, *, indexing); min(_, *, axis, keepdims); moveaxis(_, _, _); ones(shape, *, dtype, device);
ones_like(_, *, dtype, device); permute_dims(_, axes); prod(_, *, axis, dtype, keepdims); repeat(_, _, *, axis);
reshape(_, shape, *, copy); result_type(_, _, _); roll(_, shift, *, axis); searchsorted(_, _, *, side, sorter);
sort(_, *, axis, descending, stable); squeeze(_, axis); stack(_, *, axis); std(_, *, axis, correction, keepdims);
sum(_, *, axis, dtype, keepdims); take(_, _, *, axis); take_along_axis(_, _, *, axis); tensordot(_, _, *, axes);
tril(_, *, k); triu(_, *, k); unstack(_, *, axis); var(_, *, axis, correction, keepdims); vecdot(_, _, *, axis);
where(_, _, _); zeros(shape, *, dtype, device); zeros_like(_, *, dtype, device)
"""
CALLS = [f"{name}(_)" for name in ONE.split()] + [f"{name}(_, _)" for name in TWO.split()]
CALLS += [call.strip() for call in MORE.split(";")]
LINALG = """
cholesky(_, *, upper); cross(_, _, *, axis); det(_); diagonal(_, *, offset); eig(_);
eigh(_); eigvals(_); eigvalsh(_); inv(_); matmul(_, _);
matrix_norm(_, *, keepdims, ord); matrix_power(_, _); matrix_rank(_, *, rtol); matrix_transpose(_); outer(_, _);
pinv(_, *, rtol); qr(_, *, mode); slogdet(_); solve(_, _); svd(_, *, full_matrices); svdvals(_); tensordot(_, _, *, axes);
trace(_, *, offset, dtype); vecdot(_, _, *, axis); vector_norm(_, *, axis, keepdims, ord)
"""
CALLS += [f"linalg.{call.strip()}" for call in LINALG.split(";")]
ONE_AXIS = "fft ifft rfft irfft hfft ihfft"
MORE_AXES = "fftn ifftn rfftn irfftn"
CALLS += [f"fft.{name}(_, *, n, axis, norm)" for name in ONE_AXIS.split()]
CALLS += [f"fft.{name}(_, *, s, axes, norm)" for name in MORE_AXES.split()]
CALLS += [f"fft.{name}(_, *, d, dtype, device)" for name in ("fftfreq", "rfftfreq")]
CALLS += [f"fft.{name}(_, *, axes)" for name in ("fftshift", "ifftshift")]


@together("call", CALLS)
def test_signatures(call: str) -> None:
    """Each function of the standard takes its arguments as the standard names and places them."""
    name, _, rest = call.rstrip(")").partition("(")
    by_place, _, by_name = rest.partition("*")
    first = [word.strip() for word in by_place.split(",") if word.strip()]
    keywords = dict.fromkeys([word.strip() for word in by_name.split(",") if word.strip()])
    signature = inspect.signature(operator.attrgetter(name)(afx))
    signature.bind(*first, **keywords)
    placed = [word for word in first if word == "_"]
    signature.bind(*placed, **dict.fromkeys(first[len(placed) :]), **keywords)


def test_constants_and_dtypes_are_there() -> None:
    """The namespace has the standard's constants and dtypes, and its extensions."""
    names = "e inf nan newaxis pi bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64"
    assert not [n for n in [*names.split(), "complex64", "complex128", "linalg", "fft"] if n not in afx.__all__]


# -- promotion --------------------------------------------------------------------------------------------------------
ARITHMETIC: list[Callable[..., Any]] = [operator.add, operator.sub, operator.mul, operator.pow]
ROUNDED: list[Callable[..., Any]] = [operator.floordiv, operator.mod]
BITS: list[Callable[..., Any]] = [operator.and_, operator.or_, operator.xor]
SHIFTS: list[Callable[..., Any]] = [operator.lshift, operator.rshift]
ORDER: list[Callable[..., Any]] = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]
SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
REAL = ["float32", "float64"]
COMPLEX = ["complex64", "complex128"]
MIXES = [(a, b) for kinds in (SIGNED, UNSIGNED, SIGNED + UNSIGNED[:3], REAL + COMPLEX) for a in kinds for b in kinds]
ON_PYTHON: dict[Callable[..., Any], str] = {
    **dict.fromkeys(ARITHMETIC, "iufc"),
    operator.truediv: "fc",
    **dict.fromkeys(ROUNDED, "iuf"),
    **dict.fromkeys(BITS, "iub"),
    **dict.fromkeys(SHIFTS, "iu"),
}


@together(("a", "b"), sorted(set(MIXES)))
def test_operators_promote_as_the_standard_says(a: str, b: str) -> None:
    """Operators on arrays of two dtypes of a kind give the dtype of the standard's table, whatever the order."""
    x, y = afx.ones((2, 1), a), afx.ones(3, b)
    want = np.result_type(np.dtype(a), np.dtype(b))
    for fn, kinds in ON_PYTHON.items():
        if want.kind in kinds:
            z = fn(x, y)
            assert (z.dtype, z.shape) == (want, (2, 3))
            assert fn(y, x).dtype == want
    for fn in ORDER if want.kind != "c" else ORDER[4:]:
        assert fn(x, y).dtype == afx.bool


@pytest.mark.parametrize("dtype", ["bool", *SIGNED, *UNSIGNED, *REAL, *COMPLEX])
def test_python_numbers_leave_dtypes_alone(dtype: str) -> None:
    """A Python number on either side keeps the array's dtype, in place too, where the name is bound anew."""
    x = afx.ones(2, dtype)
    number = {"b": True, "i": 2, "u": 2, "f": 2.0, "c": 2j}[x.dtype.kind]
    for fn, kinds in ON_PYTHON.items():
        if x.dtype.kind in kinds:
            plain = np.ones(2, dtype)
            for z, want in ((fn(x, number), fn(plain, number)), (fn(number, x), fn(number, plain))):
                assert z.dtype == dtype
                np.testing.assert_array_equal(np.asarray(z), want)
            in_place = getattr(operator, f"i{fn.__name__.strip('_')}")
            z = in_place(x, number)
            assert z is not x
            np.testing.assert_array_equal(np.asarray(z), fn(plain, number))


def test_several_arrays_are_a_tuple() -> None:
    """Results of several arrays, and the devices, are tuples, as NumPy's are."""
    x = afx.ones(3)
    several = [fn(x, x) for fn in (afx.meshgrid, partial(afx.meshgrid, sparse=True), afx.broadcast_arrays)]
    assert {type(z) for z in several} == {tuple}
    assert afx.__array_namespace_info__().devices() == ("cpu",)


def test_python_numbers_out_of_range_raise() -> None:
    """A Python integer that the array's dtype cannot hold is refused, not wrapped."""
    with pytest.raises(afx.errors.AfxError, match="add: NumPy cannot compute it"):
        afx.ones(2, "uint8") + 300


# -- keywords ---------------------------------------------------------------------------------------------------------
X = RNG.integers(0, 4, (3, 4)).astype(float)
COLUMN = np.array([[1.0], [2.0], [3.0]])
UNSORTED = np.array([3.0, 1.0, 2.0])

KEYWORDS: dict[str, tuple[Callable[[], Any], Any]] = {
    "argsort descending": (lambda: afx.argsort(np.array([1, 2, 2, 0]), descending=True), [1, 2, 0, 3]),
    "count_nonzero": (lambda: afx.count_nonzero(X, axis=1, keepdims=True), np.count_nonzero(X, axis=1, keepdims=True)),
    "astype bool": (lambda: afx.astype(np.array([0j, 1j, 1.0]), bool), [False, True, True]),
    "count_nonzero of complex": (lambda: afx.jit(afx.count_nonzero)(np.array([0j, 1j, 1.0])), 2),
    "cumulative_sum dtype": (
        lambda: afx.cumulative_sum(np.array([200, 100], np.uint8), dtype=afx.uint8),
        np.array([200, 44], np.uint8),
    ),
    "diff": (
        lambda: afx.diff(X, axis=1, n=2, prepend=COLUMN, append=COLUMN),
        np.diff(X, axis=1, n=2, prepend=COLUMN, append=COLUMN),
    ),
    "linspace": (lambda: afx.linspace(0, 1, num=4, endpoint=False), np.array([0, 0.25, 0.5, 0.75], np.float32)),
    "meshgrid": (lambda: afx.meshgrid(UNSORTED, UNSORTED[:2], indexing="ij")[1], np.tile(UNSORTED[:2], (3, 1))),
    "prod dtype": (lambda: afx.prod(np.array([100, 3], np.int8), dtype=afx.int8), np.array(44, np.int8)),
    "repeat": (lambda: afx.repeat(X, np.array([1, 0, 2]), axis=0), np.repeat(X, [1, 0, 2], axis=0)),
    "roll": (lambda: afx.roll(X, shift=(1, -1), axis=(0, 1)), np.roll(X, (1, -1), (0, 1))),
    "searchsorted": (lambda: afx.searchsorted(UNSORTED, 2.0, side="right", sorter=np.array([1, 2, 0])), 2),
    "sort descending": (lambda: afx.sort(X, axis=0, descending=True), -np.sort(-X, axis=0)),
    "std": (lambda: afx.std(X, axis=(0, 1), correction=1.0, keepdims=True), np.std(X, ddof=1, keepdims=True)),
    "sum dtype": (lambda: afx.sum(np.array([200, 100], np.uint8), dtype=afx.uint8), np.array(44, np.uint8)),
    "take": (lambda: afx.take(X, np.array([-1, 0]), axis=1), X[:, [-1, 0]]),
    "take_along_axis": (
        lambda: afx.take_along_axis(X, np.array([[0], [-1], [1]]), axis=-1),
        np.take_along_axis(X, np.array([[0], [-1], [1]]), axis=-1),
    ),
    "tensordot": (lambda: afx.tensordot(X, X, axes=((0, 1), (0, 1))), np.tensordot(X, X)),
    "tile": (lambda: afx.tile(UNSORTED, (2, 1, 2)), np.tile(UNSORTED, (2, 1, 2))),
    "unstack": (lambda: afx.unstack(X, axis=1)[2], X[:, 2]),
    "var": (lambda: afx.var(X, axis=0, correction=1.5), np.var(X, axis=0, ddof=1.5)),
    "vecdot": (
        lambda: afx.vecdot(np.array([[1j, 2.0], [3.0, 1j]]), np.array([1j, 1.0]), axis=-1),
        np.array([3.0 + 0j, 0.0 + 2j]),
    ),
    "vecdot of integers": (lambda: afx.vecdot(np.array([20, 9], np.uint8), 10 * np.ones(2, np.uint8)), np.uint8(34)),
}


@pytest.mark.parametrize("name", KEYWORDS)
def test_keywords_mean_what_the_standard_says(name: str) -> None:
    """Values and dtypes with the standard's keywords."""
    call, want = KEYWORDS[name]
    have = call()
    np.testing.assert_allclose(np.asarray(have), want)
    assert have.dtype == np.asarray(want).dtype


@pytest.mark.parametrize("axis", [-3, 2])
def test_axes_out_of_range_raise_both_errors(axis: int) -> None:
    """An axis that is not there raises what the standard asks for, an `IndexError`, and a `ValueError` as NumPy's."""
    calls: list[Callable[[], object]] = [
        lambda: afx.sum(X, axis=axis),
        lambda: afx.sort(X, axis=axis),
        lambda: afx.expand_dims(np.ones(()), axis),
        lambda: afx.flip(X, axis=axis),
    ]
    for call in calls:
        for error in (IndexError, ValueError, afx.errors.AxisError, afx.errors.ShapeError):
            with pytest.raises(error, match=f"axis {axis} is out of bounds"):
                call()


def test_numbers_in_python() -> None:
    """One element is a Python number where it can be: a truth value, an index, and complex too."""
    one = afx.asarray(3)
    assert ["a", "b", "c", "d"][one] == "d"
    assert operator.index(one) == int(one) == 3
    assert (float(one), complex(one), bool(one)) == (3.0, 3 + 0j, True)
    assert complex(afx.asarray(1 + 2j)) == 1 + 2j
    refused: list[Array] = [afx.asarray(1.0), afx.ones(2, "int64")]
    for x in refused:
        with pytest.raises(TypeError):
            operator.index(x)


# -- linear algebra ---------------------------------------------------------------------------------------------------
def test_pinv_takes_a_tolerance_for_each_matrix() -> None:
    """Tolerances broadcast against the batch; each matrix is inverted with its own, and differentiated so."""
    x = RNG.normal(size=(2, 3, 4, 2)) @ np.diag([1.0, 0.1])
    rtol = np.array([1e-3, 0.5, 1e-3])
    want = np.linalg.pinv(x, rtol=rtol)
    np.testing.assert_allclose(np.asarray(afx.linalg.pinv(x, rtol=rtol)), want, atol=1e-12)
    np.testing.assert_allclose(np.asarray(afx.jit(lambda v: afx.linalg.pinv(v, rtol=rtol))(x)), want, atol=1e-12)
    for k, t in enumerate(rtol):
        ours = afx.grad(lambda v: (afx.linalg.pinv(v, rtol=rtol)[:, k] ** 2).sum())(x)[:, k]  # noqa: B023  # called at once
        alone = afx.grad(lambda v: (afx.linalg.pinv(v, rtol=t) ** 2).sum())(x[:, k])  # noqa: B023  # the same
        np.testing.assert_allclose(np.asarray(ours), np.asarray(alone), atol=1e-9)
    assert afx.linalg.pinv(np.zeros((0, 2, 3)), rtol=np.zeros(0)).shape == (0, 3, 2)
    with pytest.raises(afx.errors.ShapeError, match="pinv: takes one tolerance, or one for each matrix"):
        afx.linalg.pinv(x, rtol=np.ones(2))


def test_trace_takes_a_dtype() -> None:
    """The diagonal is summed in the dtype that is asked for; small integers grow otherwise."""
    x = afx.asarray(np.full((2, 2), 100, np.int8))
    for z, dtype in ((afx.linalg.trace(x, dtype=afx.int8), "int8"), (np.trace(x, dtype=np.int8), "int8")):
        assert (z.dtype, int(z)) == (dtype, -56)
    assert (afx.linalg.trace(x).dtype, int(afx.linalg.trace(x))) == (afx.int64, 200)
