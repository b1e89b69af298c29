"""Choosing, editing, ranking, sets, histograms, polynomials and representations give NumPy's values and differentiate."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx import errors
from afx.compiler.native_backend.run.swap import is_installed
from afx.ops.sorting.sort import argsort_p, sort_p
from tests.ops.agreement import compiled_agrees, derivatives_agree, flat, same, values_agree
from tests.ops.samples import together

RNG = np.random.default_rng(31)
X = RNG.normal(size=(2, 3, 4))
M = RNG.normal(size=(3, 4))
V = RNG.normal(size=6)
P = np.array([0.1, 0.35, 0.62, 0.8])
REPEATED = np.array([3.0, 1.0, 3.0, 2.0, 1.0])
GROUPS = np.array([0, 2, 2, 5, 0, 1])
CLOSE = np.array([1.0, np.inf, np.nan, 1e10])
EDGES = np.array([-1.0, -0.2, 0.3, 2.0])

# The same call on both libraries, of one array; those of values decide a shape by them, and so are not compiled.
CASES: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "select": (lambda lib, x: lib.select([M > 0.5, M > 0], [x, x**2], 3.0), M),
    "select broadcasts": (lambda lib, x: lib.select([M > 0], [x[0]], x[:, :1]), M),
    "choose": (lambda lib, x: lib.choose(np.array([[0], [1], [0]]), [x[0], x[1]]), M),
    "choose from one array": (lambda lib, x: lib.choose(np.array([2, 0, 1, 1]), x), M),
    "choose around": (lambda lib, x: lib.choose(np.array([-1, 4, 1, 0]), x, mode="wrap"), M),
    "choose the nearest": (lambda lib, x: lib.choose(np.array([-1, 4, 1, 0]), x, mode="clip"), M),
    "piecewise": (lambda lib, x: lib.piecewise(x, [M < 0, M > 0.5], [lambda v: v**2, 3.0]), M),
    "piecewise with the rest": (
        lambda lib, x: lib.piecewise(x, [V < 0], [lambda v, a: a * v, lambda v, a: v**a], 3),
        V,
    ),
    "piecewise of one condition": (lambda lib, x: lib.piecewise(x, V < 0, [-1.0, lambda v: v]), V),
    "compress": (lambda lib, x: lib.compress([True, False, True], x, axis=1), X),
    "compress flat": (lambda lib, x: lib.compress([True, False, True], x), X),
    "extract": (lambda lib, x: lib.extract(M > 0, x), M),
    "append": (lambda lib, x: lib.append(x, [[1.0, 2.0]]), M),
    "append along an axis": (lambda lib, x: lib.append(x, x[:1], axis=0), M),
    "insert": (lambda lib, x: lib.insert(x, 1, 7.0, axis=1), M),
    "insert several": (lambda lib, x: lib.insert(x, [1, 3, 1], x[:, :3], axis=1), M),
    "insert one vector": (lambda lib, x: lib.insert(x, 1, x[:, 0], axis=1), M),
    "insert at one place of a list": (lambda lib, x: lib.insert(x, [1], x[:, :2], axis=1), M),
    "insert flat": (lambda lib, x: lib.insert(x, [0, -1], [5.0, 6.0]), M),
    "insert at a slice": (lambda lib, x: lib.insert(x, slice(0, 4, 2), 9.0, axis=1), M),
    "insert at a mask": (lambda lib, x: lib.insert(x, np.array([True, False, True]), x[:2], axis=0), M),
    "delete": (lambda lib, x: lib.delete(x, 1, axis=1), M),
    "delete several": (lambda lib, x: lib.delete(x, [0, -1, 0]), V),
    "delete a slice": (lambda lib, x: lib.delete(x, slice(None, None, 2), axis=1), M),
    "delete a mask": (lambda lib, x: lib.delete(x, np.array([True, False, True]), axis=0), M),
    "resize": (lambda lib, x: lib.resize(x, (5, 3)), M),
    "resize to fewer": (lambda lib, x: lib.resize(x, 5), M),
    "resize nothing": (lambda lib, x: lib.resize(x[:0], (2, 2)), M),
    "block": (lambda lib, x: lib.block([[x, x[:, :1]], [np.ones((1, 5))]]), M),
    "block of numbers": (lambda lib, x: lib.block([x, 1.0, x[0]]), V),
    "block of three levels": (lambda lib, x: lib.block([[[x], [x]]]), X),
    "block alone": (lambda lib, x: lib.block(x), M),
    "diagflat": (lambda lib, x: lib.diagflat(x, -1), M[:2, :2]),
    "rollaxis": (lambda lib, x: lib.rollaxis(x, 2, 1), X),
    "rollaxis to the end": (lambda lib, x: lib.rollaxis(x, 0, 3), X),
    "rollaxis from behind": (lambda lib, x: lib.rollaxis(x, -1, -2), X),
    "apply_along_axis": (lambda lib, x: lib.apply_along_axis(lambda v: v[:2] * v.sum(), 1, x), X),
    "apply_along_axis to numbers": (lambda lib, x: lib.apply_along_axis(lambda v: v.sum(), 0, x), X),
    "apply_along_axis to matrices": (lambda lib, x: lib.apply_along_axis(lambda v: v[:2, None] * v, 0, x), M),
    "apply_over_axes": (lambda lib, x: lib.apply_over_axes(lib.sum, x, (0, -1)), X),
    "partition": (lambda lib, x: lib.partition(x, (1, 3), axis=0)[1], M.T),
    "sort_complex": (lambda lib, x: lib.sort_complex(x), M),
    "bincount": (lambda lib, x: lib.bincount(GROUPS, weights=x), V),
    "bincount with more bins": (lambda lib, x: lib.bincount(GROUPS, x, 9), V),
    "histogram": (lambda lib, x: lib.histogram(V, 3, weights=x), V**2),
    "histogram density": (lambda lib, x: lib.histogram(V, EDGES, density=True, weights=x), V**2),
    "histogram in a range": (lambda lib, x: lib.histogram(M, 4, (-0.5, 0.5), weights=x), M),
    "edges": (lambda lib, x: lib.histogram_bin_edges(x, 5), V),
    "histogram2d": (lambda lib, x: lib.histogram2d(V, V[::-1], [2, EDGES], weights=x), V**2),
    "histogramdd": (lambda lib, x: lib.histogramdd(M, 2, density=True, weights=x), np.abs(M[:, 0])),
    "poly": (lambda lib, x: lib.poly(x), P),
    "polyval": (lambda lib, x: lib.polyval(x, M), P),
    "polyval by the place": (lambda lib, x: lib.polyval(P, x), M),
    "polyval of a constant": (lambda lib, x: lib.polyval(x[:1], M), P),
    "polyadd": (lambda lib, x: lib.polyadd(x, [1.0, 2.0]), P),
    "polysub": (lambda lib, x: lib.polysub([1.0, 2.0], x), P),
    "polymul": (lambda lib, x: lib.polymul(x, x[:2]), P),
    "polydiv": (lambda lib, x: lib.polydiv(x, x[1:3]), P),
    "polydiv by more": (lambda lib, x: lib.polydiv(x[:2], x), P),
    "polydiv by a number": (lambda lib, x: lib.polydiv(x, x[:1]), P),
    "polyder": (lambda lib, x: lib.polyder(x, 2), P),
    "polyint": (lambda lib, x: lib.polyint(x), P),
    "polyint with constants": (lambda lib, x: lib.polyint(P, 2, k=x), P[:2]),
    "vander": (lambda lib, x: lib.vander(x), P),
    "vander increasing": (lambda lib, x: lib.vander(x, 3, increasing=True), P),
    "vander of no powers": (lambda lib, x: lib.vander(x, 0), P),
    "frexp": (lambda lib, x: lib.frexp(x), 100 * M),
    "ldexp": (lambda lib, x: lib.ldexp(x, np.array([1, -3, 0, 60])), M),
    "modf": (lambda lib, x: lib.modf(x), 5 * M),
    "heaviside": (lambda lib, x: lib.heaviside(np.array([-1.0, 0.0, 2.0]), x), np.array([0.5, 0.3, 1.0])),
    "float_power": (lambda lib, x: lib.float_power(x, 2), M),
    "fabs": (lambda lib, x: lib.fabs(x), M),
    "matvec": (lambda lib, x: lib.matvec(x, x[0, 0]), X),
    "vecmat": (lambda lib, x: lib.vecmat(x[:, 0, :3], x), X),
    "geomspace": (lambda lib, x: lib.geomspace(x[:2], x[2:], 5), P),
    "linspace along an axis": (lambda lib, x: lib.linspace(x, 2.0, 4, axis=1), M),
    "logspace along an axis": (lambda lib, x: lib.logspace(x[0], x[1], 4, axis=-1), M),
    "geomspace along an axis": (lambda lib, x: lib.geomspace(x[:2], x[2:], 5, axis=1), P),
    "cross along axes": (lambda lib, x: lib.cross(x, x[::-1, :, :3], axisa=1, axisb=2, axisc=0), X[:, :, :3]),
    "average": (lambda lib, x: lib.average(X, axis=(2, 0), weights=x), np.abs(X[:, 0].T)),
    "average and weights": (lambda lib, x: lib.average(x, axis=1, weights=[1.0, 2.0, 3.0], returned=True), X),
    "average of all": (lambda lib, x: lib.average(x, weights=np.abs(x)), X),
    "var about a mean": (lambda lib, x: lib.var(x, axis=0, mean=M[:1]), M),
}
OF_VALUES: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "unique": (lambda lib, x: lib.unique(lib.append(x, x[:2])), M),
    "unique and more": (lambda lib, x: lib.unique(x, True, True, True), M),
    "unique rows": (lambda lib, x: lib.unique(x, axis=0), M),
    "unique columns and more": (
        lambda lib, x: lib.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=-1),
        M,
    ),
    "intersect1d": (lambda lib, x: lib.intersect1d(lib.append(x[1:], 9.0), x[:-1]), V),
    "intersect1d and places": (lambda lib, x: lib.intersect1d(x[1:], x[:-1], return_indices=True), V),
    "union1d": (lambda lib, x: lib.union1d(x[1:], x[:-1]), V),
    "setdiff1d": (lambda lib, x: lib.setdiff1d(x, x[1:3]), V),
    "setdiff1d in order": (lambda lib, x: lib.setdiff1d(x, x[1:3], assume_unique=True), V),
    "setxor1d": (lambda lib, x: lib.setxor1d(x[2:], x[:-1]), V),
    "trim_zeros": (lambda lib, x: lib.trim_zeros(x * np.array([0, 1, 0, 1, 0, 0])), V),
    "trim_zeros in front": (lambda lib, x: lib.trim_zeros(x * np.array([0, 1, 0, 1, 0, 0]), "f"), V),
    "trim_zeros of a matrix": (lambda lib, x: lib.trim_zeros(x * np.array([0, 1, 0, 0])), M),
    "real_if_close": (lambda lib, x: lib.real_if_close(x + 1e-17j), V),
    "real_if_close stays": (lambda lib, x: lib.real_if_close(x + 1j), V),
    "histogram by a rule": (lambda lib, x: lib.histogram(x, "sturges"), V),
}
if not hasattr(np, "matvec"):  # before NumPy 2.2
    for _name in ("insert at a mask", "matvec", "trim_zeros of a matrix", "vecmat"):
        (CASES if _name in CASES else OF_VALUES).pop(_name)
ALL = CASES | OF_VALUES


@together("name", ALL)
def test_values_are_numpys(name: str) -> None:
    """The value is NumPy's."""
    values_agree(*ALL[name])


@together("name", ALL)
def test_derivatives_are_right(name: str) -> None:
    """Derivatives of first and second order agree with differences, in both modes."""
    call, x = ALL[name]
    derivatives_agree(lambda v: call(afx, v), x)


@together("name", CASES)
def test_compiled_and_mapped(name: str) -> None:
    """Jitted and mapped functions and gradients agree with plain ones."""
    call, x = CASES[name]
    compiled_agrees(lambda v: call(afx, v), x)


@together("name", OF_VALUES)
def test_what_depends_on_values_does_not_compile(name: str) -> None:
    """Functions whose shape depends on values say so under `jit`."""
    call, x = OF_VALUES[name]
    with pytest.raises(errors.ConcreteValueError, match=name.split(maxsplit=1)[0].split("_", maxsplit=1)[0]):
        afx.jit(lambda v: call(afx, v))(x)


WHOLE: dict[str, Callable[[Any], Any]] = {
    "digitize": lambda lib: lib.digitize(M, EDGES),
    "digitize to the right": lambda lib: lib.digitize(EDGES, EDGES, right=True),
    "digitize by falling edges": lambda lib: lib.digitize(np.array([-1.0, -0.5, 2.0, 5.0, -9.0]), EDGES[::-1]),
    "digitize falling to the right": lambda lib: lib.digitize(np.array([-1.0, -0.5, 2.0]), EDGES[::-1], right=True),
    "digitize by one edge": lambda lib: lib.digitize(V, EDGES[:1]),
    "histogram": lambda lib: lib.histogram(M, EDGES),
    "histogram of integers": lambda lib: lib.histogram(GROUPS, 5)[0],
    "histogram of equal values": lambda lib: lib.histogram(np.ones(3), 2),
    "histogram of nothing": lambda lib: lib.histogram(np.zeros(0), 2),
    "histogram2d": lambda lib: lib.histogram2d(V, V, 2),
    "histogramdd, bins in an array": lambda lib: lib.histogramdd(M, np.array(3)),
    "histogramdd of columns": lambda lib: lib.histogramdd([V, V**2], (2, 3), range=[(-1.0, 1.0), None]),
    "bincount": lambda lib: lib.bincount(GROUPS),
    "bincount of nothing": lambda lib: lib.bincount(np.zeros(0, int), minlength=2),
    "isclose": lambda lib: lib.isclose(CLOSE, CLOSE + np.array([1e-9, 0.0, 0.0, 1e5])),
    "isclose with nan": lambda lib: lib.isclose([1.0, -np.inf, np.nan], [1.1, np.inf, np.nan], equal_nan=True),
    "isclose in part": lambda lib: lib.isclose(np.array([1.0, 2.0]), 1.5, rtol=0.0, atol=0.5),
    "isclose of unsigned": lambda lib: lib.isclose(np.array([1], np.uint8), np.array([2], np.uint8)),
    "allclose": lambda lib: lib.allclose(M, M + 1e-9),
    "not allclose": lambda lib: lib.allclose(M, 1.1 * M),
    "array_equal": lambda lib: lib.array_equal(M, M),
    "array_equal of shapes": lambda lib: lib.array_equal(M, M[:1]),
    "array_equal with nan": lambda lib: lib.array_equal([np.nan, 1.0], [np.nan, 1.0], equal_nan=True),
    "array_equiv": lambda lib: lib.array_equiv(np.ones((2, 3)), [1.0, 1.0, 1.0]),
    "array_equiv of shapes": lambda lib: lib.array_equiv(np.ones(2), np.ones(3)),
    "isposinf": lambda lib: lib.isposinf(np.array([np.inf, -np.inf, 0.0, np.nan])),
    "isneginf": lambda lib: lib.isneginf(np.array([np.inf, -np.inf, 0.0, np.nan])),
    "isin": lambda lib: lib.isin(REPEATED, [1.0, 3.5, 2.0]),
    "isin inverted": lambda lib: lib.isin(np.array([[1, 2], [3, 4]]), np.array([[2, 9]]), invert=True),
    "isin of booleans": lambda lib: lib.isin(np.array([True, False]), [True]),
    "isin nothing": lambda lib: lib.isin(REPEATED, np.zeros(0)),
    "isin with nan": lambda lib: lib.isin(np.array([np.nan, 1.0]), [np.nan, 1.0]),
    "unique": lambda lib: lib.unique(REPEATED, True, True, True),
    "unique with nan": lambda lib: lib.unique(np.array([np.nan, 1.0, np.nan]), return_counts=True),
    "unique with each nan": lambda lib: lib.unique(np.array([np.nan, 1.0, np.nan]), equal_nan=False),
    "unique rows": lambda lib: lib.unique(np.array([[1, 2], [0, 1], [1, 2]]), axis=0),
    "setxor1d of nothing": lambda lib: lib.setxor1d(np.zeros(0), np.zeros(0)),
    "argpartition": lambda lib: lib.argpartition(V, 2)[2],
    "lexsort": lambda lib: lib.lexsort((V, REPEATED[GROUPS % 5], GROUPS)),
    "lexsort of one array": lambda lib: lib.lexsort(np.stack([GROUPS, GROUPS % 2]), axis=0),
    "lexsort of matrices": lambda lib: lib.lexsort((M, np.round(M))),
    "frexp of edges": lambda lib: lib.frexp(np.array([0.0, -0.0, np.inf, np.nan, 5e-324, -3.0])),
    "ldexp of edges": lambda lib: lib.ldexp(np.array([1.0, 5e-324, 2.0**-1000]), np.array([1023, 1074, 2000])),
    "ldexp to nothing": lambda lib: lib.ldexp(np.array([1.0]), -1074),
    "modf of edges": lambda lib: lib.modf(np.array([np.inf, -np.inf, np.nan, 2.0, -2.5])),
    "heaviside of nan": lambda lib: lib.heaviside(np.array([np.nan, -0.0]), 0.5),
    "float_power of integers": lambda lib: lib.float_power(np.array([2.0, 3.0]), np.array([-1, 2])),
    "gcd": lambda lib: lib.gcd(np.array([12, -8, 0]), 18),
    "lcm": lambda lib: lib.lcm(np.array([12, -8, 0]), 18),
    "bitwise_count": lambda lib: lib.bitwise_count(np.array([255, -1, 0], np.int16)),
    "spacing": lambda lib: lib.spacing(np.array([1.0, -1.0, 1e300])),
    "polyder to nothing": lambda lib: lib.polyder(P, 6),
    "vander of integers": lambda lib: lib.vander(np.array([1, 2, 3])),
    "block of nothing": lambda lib: lib.block([np.zeros((2, 0)), np.ones((2, 1))]),
    "delete nothing": lambda lib: lib.delete(V, []),
    "insert nothing": lambda lib: lib.insert(V, [], []),
}


@together("name", WHOLE)
def test_values_at_edges(name: str) -> None:
    """Results without a derivative, and those of special values, are NumPy's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        same(WHOLE[name](afx), WHOLE[name](np), rtol=1e-13)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_top_k(largest: bool, axis: int) -> None:
    """`top_k` gives the first elements of the sorted order and where they stand, with the derivative of these."""
    values, indices = afx.top_k(M, 2, axis=axis, largest=largest)
    order = np.argsort(-M if largest else M, axis=axis)
    first = np.take(order, [0, 1], axis=axis)
    np.testing.assert_array_equal(np.asarray(indices), first)
    np.testing.assert_array_equal(np.asarray(values), np.take_along_axis(M, first, axis=axis))
    derivatives_agree(lambda x: afx.top_k(x, 2, axis=axis, largest=largest).values, M)
    compiled_agrees(lambda x: afx.top_k(x, 2, axis=axis, largest=largest), M)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "uint64", "bool"])
@pytest.mark.parametrize(
    ("shape", "k", "axis"), [((2, 9000), 5, 1), ((300, 2), 64, 0), ((2, 90), 65, 1), ((2, 9), 0, 1)]
)
def test_first_elements_are_those_of_a_stable_order(dtype: str, shape: tuple[int, ...], k: int, axis: int) -> None:
    """Of long rows, few and many elements, with ties, nan, infinities and zeros of both signs, by every back end."""
    x = (np.random.default_rng(0).normal(size=shape) * 20).clip(0 if dtype[0] == "u" else -np.inf).astype(dtype)
    if dtype[0] == "f":
        x.reshape(-1)[::7], x.reshape(-1)[1::9], x.reshape(-1)[2::9], x.reshape(-1)[3::11] = np.nan, 0, -0.0, np.inf
    for largest in (True, False):

        def fn(x: Any, largest: bool = largest) -> Any:
            return tuple(afx.top_k(x, k, axis=axis, largest=largest))

        key = x if not largest else -x if dtype[0] == "f" else ~x
        order = np.argsort(key, axis, kind="stable").take(range(k), axis)
        names = ("numpy", "native", "portable") if is_installed() else ("numpy",)
        for run in (fn, *[afx.jit(fn, backend=name) for name in names]):
            values, indices = run(x)
            np.testing.assert_array_equal(np.asarray(indices), order)
            np.testing.assert_array_equal(np.asarray(values), np.take_along_axis(x, order, axis))


@pytest.mark.parametrize("count", [-1, 11, 65, 2.5, True])
def test_no_more_first_elements_than_a_row_has(count: Any) -> None:
    """Machine code would read and write beyond a row that a forged graph says to be longer."""
    for p in (sort_p, argsort_p):
        with pytest.raises(errors.ShapeError, match="first elements of a row"):
            p.abstract_eval(afx.Aval((2, 10 if count != 65 else 100), np.dtype(float)), axis=1, count=count)


@pytest.mark.parametrize("k", range(1, 7))
def test_first_elements_have_the_derivative_of_sorted_ones(k: int) -> None:
    """Also where those that are left out tie with the last one, forwards and backwards."""
    x, weights = np.array([3.0, 1.0, 3.0, 2.0, 3.0, 1.0]), np.arange(1.0, k + 1)
    expected = afx.grad(lambda x: afx.sort(x, descending=True)[:k] @ weights)(x)
    for derivative in (afx.grad, afx.jacfwd, lambda fn: afx.jit(afx.grad(fn))):
        found = derivative(lambda x: afx.top_k(x, k).values @ weights)(x)
        np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-15)


def test_ties_share_the_derivative() -> None:
    """Elements that tie share the derivative evenly, where one of them just misses a place too."""
    third = [1 / 3, 0, 1 / 3, 0, 1 / 3]
    x = np.array([3.0, 1.0, 3.0, 2.0, 3.0])
    np.testing.assert_allclose(np.asarray(afx.grad(lambda x: afx.top_k(x, 1).values.sum())(x)), third)
    np.testing.assert_allclose(np.asarray(afx.jit(afx.grad(lambda x: afx.top_k(x, 1).values.sum()))(x)), third)
    np.testing.assert_allclose(np.asarray(afx.jacrev(afx.unique)(x))[2], third)
    rows = afx.jacfwd(lambda x: afx.unique(afx.stack([x, x + 0.0]), axis=0))(x)
    np.testing.assert_allclose(np.asarray(rows)[0], np.eye(5))


def test_ties_cost_linear_memory() -> None:
    """The derivative of a sort of many ties makes no square of pairs."""
    x = np.repeat(np.arange(5.0), 20_000)
    g = afx.grad(lambda x: (afx.sort(x) * np.arange(100_000.0)).sum())(x)
    np.testing.assert_allclose(np.asarray(g)[::20_000], 9_999.5 + 20_000 * np.arange(5))


def test_masked_pieces_have_no_derivative() -> None:
    """A piece, choice or condition that is not taken has derivative 0, even where its formula is infinite."""
    x = np.array([0.0, 4.0])
    for call in (
        lambda x: afx.piecewise(x, [x > 0], [afx.sqrt, 0.0]),
        lambda x: afx.select([x > 0], [afx.sqrt(x)]),
        lambda x: afx.choose(np.array([0, 1]), [0.0, afx.sqrt(x)]),
        lambda x: afx.fmax(afx.sqrt(x), 1.0),
        lambda x: afx.maximum(afx.sqrt(x), 1.0),
    ):
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(np.asarray(afx.grad(lambda x, call=call: call(x).sum())(x)), [0, 0.25])


def test_masked_tangents_are_no_nan() -> None:
    """In forward mode, too, what `maximum`, `fmax` and `clip` do not take adds nothing."""
    for call in (lambda x: afx.maximum(x, 1.0), lambda x: afx.fmax(1.0, x), lambda x: afx.clip(x, 1.0, 9.0)):
        _, slope = afx.jvp(call, (np.array([0.0, 2.0]),), (np.array([np.inf, 3.0]),))
        np.testing.assert_array_equal(np.asarray(slope), [0.0, 3.0])


def test_histograms_differentiate_their_edges() -> None:
    """Counts have derivative 0 by the elements; edges move with the extremes."""
    edges = afx.jacrev(lambda x: afx.histogram(x, 2)[1])(np.array([0.0, 3.0, 1.0]))
    np.testing.assert_array_equal(np.asarray(edges), [[1, 0, 0], [0.5, 0.5, 0], [0, 1, 0]])
    g = afx.grad(lambda x: afx.histogram(x, 2, density=False)[0].sum() * 1.0 + x.sum())(V)
    np.testing.assert_array_equal(np.asarray(g), np.ones(6))


def test_bincount_compiles_with_a_length() -> None:
    """`bincount` compiles where the number of bins is given."""
    got = afx.jit(lambda g, w: afx.bincount(g, w, length=7))(GROUPS, V)
    np.testing.assert_allclose(np.asarray(got), np.bincount(GROUPS, V, 7), rtol=1e-14)
    with pytest.raises(errors.ConcreteValueError):
        afx.jit(afx.bincount)(GROUPS)


def test_float32_stays() -> None:
    """Of float32 results are float32."""
    x, p = M.astype(np.float32), P.astype(np.float32)
    results = [
        afx.polyval(p, 2.0),
        afx.polyint(p),
        afx.vander(p),
        afx.poly(p),
        afx.heaviside(x, 0.5),
        afx.ldexp(x, np.array(3)),
        afx.frexp(x)[0],
        afx.modf(x),
        afx.select([x > 0], [x], 0.5),
        afx.piecewise(x, [x > 0], [1.0]),
        afx.insert(x, 0, 1.0, axis=0),
        afx.histogram(x, 3, density=True),
        afx.geomspace(p[0], p[1], 3),
        afx.average(x, weights=np.abs(x)),
        afx.unique(x),
        afx.float_power(x, 2),
    ]
    assert {z.dtype for z in flat(results)} == {afx.float32}


ERRORS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "select": (
        lambda: afx.select([M > 0], []),
        errors.ArgumentError,
        "select: takes one choice for each condition: got 1",
    ),
    "conditions": (lambda: afx.select([M], [M]), errors.DtypeError, "select: conditions are booleans: got float64"),
    "choose": (lambda: afx.choose([0, 2], [V[:2], V[:2]]), errors.IndexRangeError, "choose: an index is out of bounds"),
    "choose of floats": (lambda: afx.choose(V, [V, V]), errors.DtypeError, "choose: indices are integers: got float64"),
    "choose compiled": (lambda: afx.jit(lambda i: afx.choose(i, [V, V]))(GROUPS), errors.IndexRangeError, "index 2"),
    "piecewise": (lambda: afx.piecewise(V, [V > 0], []), errors.ArgumentError, "piecewise: takes a function for each"),
    "compress": (
        lambda: afx.compress([True] * 9, V),
        errors.ShapeError,
        "compress: a condition is a vector along the axis",
    ),
    "insert": (lambda: afx.insert(V, 9, 1.0), errors.IndexRangeError, "insert: an index is out of bounds: got 9"),
    "insert complex": (
        lambda: afx.insert(V, 0, 1j),
        errors.DtypeError,
        "insert: complex values do not fit into float64",
    ),
    "delete": (lambda: afx.delete(V, [9]), errors.IndexRangeError, r"delete: an index is out of bounds: got \[9\]"),
    "resize": (lambda: afx.resize(V, -1), errors.ArgumentError, "resize: negative dimensions are not allowed"),
    "block": (lambda: afx.block([[V], V]), errors.ShapeError, "block: lists are nested equally deep"),
    "block of none": (lambda: afx.block([]), errors.ArgumentError, "block: a list of blocks is not empty"),
    "trim_zeros": (lambda: afx.trim_zeros(V, "x"), errors.ArgumentError, "trim_zeros: trim is"),
    "rollaxis": (lambda: afx.rollaxis(X, 0, 5), errors.ShapeError, "rollaxis: start is out of range"),
    "top_k": (lambda: afx.top_k(V, 7), errors.ArgumentError, "top_k: there are 6 elements: got k=7"),
    "partition": (lambda: afx.partition(V, 6), errors.ArgumentError, "partition: kth is out of bounds: got kth=6"),
    "lexsort": (lambda: afx.lexsort([V, M]), errors.ShapeError, "lexsort: keys differ in shape"),
    "no keys": (lambda: afx.lexsort([]), errors.ArgumentError, "lexsort: takes at least one key"),
    "bincount": (lambda: afx.bincount([-1]), errors.ArgumentError, "bincount: numbers must not be negative: got -1"),
    "fewer bins than none": (
        lambda: afx.bincount([1], minlength=-1),
        errors.ArgumentError,
        "bincount: there are 0 bins or more: got minlength=-1",
    ),
    "unsigned edges": (
        lambda: afx.histogram(V, np.array([1, 3, 1], np.uint64)),
        errors.ArgumentError,
        "histogram: bins must increase",
    ),
    "rule with weights": (
        lambda: afx.histogram(V, "fd", weights=V),
        errors.ArgumentError,
        "histogram: no rule counts weights",
    ),
    "statistic": (
        lambda: afx.pad(V, 2, "mean", stat_length=-2),
        errors.ArgumentError,
        "pad: a statistic is of 0 elements or more",
    ),
    "bincount of floats": (lambda: afx.bincount(V), errors.DtypeError, "bincount: counts integers: got float64"),
    "digitize": (lambda: afx.digitize(V, V), errors.ArgumentError, "digitize: bins must be monotonically"),
    "edges": (
        lambda: afx.histogram(V, EDGES[::-1]),
        errors.ArgumentError,
        "histogram: bins must increase monotonically",
    ),
    "bins": (lambda: afx.histogram(V, 0), errors.ArgumentError, "histogram: there is 1 bin or more: got bins=0"),
    "rule": (lambda: afx.histogram(V, "mine"), errors.ArgumentError, "histogram: NumPy has no such rule"),
    "weights": (lambda: afx.histogram(V, 2, weights=M), errors.ShapeError, "histogram: weights have the shape of x"),
    "axes": (
        lambda: afx.histogramdd(M, [1, 2]),
        errors.ArgumentError,
        "histogramdd: bins and ranges belong to each axis",
    ),
    "coordinates": (lambda: afx.histogram2d(V, V[1:]), errors.ShapeError, "histogram2d: points have two coordinates"),
    "polynomial": (lambda: afx.polyadd(M, P), errors.ShapeError, "polyadd: a polynomial is a vector of coefficients"),
    "polyder": (lambda: afx.polyder(P, -1), errors.ArgumentError, "polyder: derivatives are of order 0 or more"),
    "polyint": (lambda: afx.polyint(P, 3, k=[1.0, 2.0]), errors.ArgumentError, "polyint: takes a constant for each"),
    "vander": (lambda: afx.vander(M), errors.ShapeError, "vander: takes a vector: got float64"),
    "ldexp": (lambda: afx.ldexp(V, 1.5), errors.DtypeError, "ldexp: powers are integers: got float32"),
    "modf": (lambda: afx.modf(V * 1j), errors.DtypeError, "modf: not defined for complex numbers: got complex128"),
    "matvec": (lambda: afx.matvec(M, np.array(1.0)), errors.ShapeError, "matvec: takes matrices and vectors"),
    "average": (lambda: afx.average(M, axis=0, weights=V), errors.ShapeError, "average: weights have the shape of x"),
    "apply": (lambda: afx.apply_along_axis(afx.sum, 0, M[:, :0]), errors.ShapeError, "apply_along_axis: no vector"),
    "apply over": (lambda: afx.apply_over_axes(lambda x, _: x[None], M, 0), errors.ShapeError, "apply_over_axes: the"),
    "isposinf": (lambda: afx.isposinf(V * 1j), errors.DtypeError, "isposinf: complex numbers have no sign"),
}


@together("name", ERRORS)
def test_errors_say_what_is_wrong(name: str) -> None:
    """Wrong arguments raise afx's error with what was given."""
    call, kind, message = ERRORS[name]
    with pytest.raises(kind, match=message):
        call()
