"""What other libraries ask of arrays: Matplotlib, xarray, zarr, dask, pandas and POT."""

import sys
from typing import Any

import matplotlib as mpl
import matplotlib.figure
import numpy as np
import pandas as pd
import pytest
import scipy.signal
import scipy.stats

import afx
from afx import Array, errors
from tests.every import together

RNG = np.random.default_rng(11)
X = RNG.normal(size=(3, 3))
mpl.use("Agg")


def test_none_among_broadcast_arrays() -> None:
    """`np.broadcast_arrays` leaves None an array of None, so that ``bar(Array, Array)`` draws."""
    x, nothing = np.broadcast_arrays(afx.asarray(X), None)  # as Matplotlib calls it
    assert isinstance(x, Array)
    assert nothing.shape == X.shape
    assert nothing.flat[0] is None
    axes = matplotlib.figure.Figure().subplots()
    bars = axes.bar(afx.arange(3), afx.asarray(X[0]))
    assert [bar.get_height() for bar in bars] == X[0].tolist()


def test_splits_are_lists() -> None:
    """`split` and its kin give lists, as NumPy's do, eager, traced and compiled."""
    cube = np.zeros((2, 4, 2))
    for name in ("split", "array_split", "hsplit", "vsplit", "dsplit"):
        for module in (np, afx):
            parts: Any = getattr(module, name)(afx.asarray(cube), 2)
            assert type(parts) is list
            assert [p.shape for p in parts] == [p.shape for p in getattr(np, name)(cube, 2)]
    assert type(afx.jit(lambda x: afx.split(x, [1]))(X)) is list


def test_einsum_by_lists_with_an_ellipsis() -> None:
    """`np.einsum` takes lists of axes that hold Ellipsis, and numbers as lists."""
    a: Any = afx.asarray(X)
    calls: list[tuple[Any, ...]] = [([Ellipsis, 0],), ([Ellipsis, 0], [Ellipsis]), ([0, 1], [1, 0])]
    for rest in calls:
        np.testing.assert_allclose(np.asarray(np.einsum(a, *rest)), np.einsum(X, *rest))
    two: Any = np.einsum(a, [0, 1], a, [1, Ellipsis])
    np.testing.assert_allclose(np.asarray(two), np.einsum(X, [0, 1], X, [1, Ellipsis]))


def test_append_of_nested_lists() -> None:
    """`np.append` takes nested lists with traced values among numbers."""
    gradient = afx.grad(lambda x: np.append(x, [[x[0, 0], 1.0, 2.0]], axis=0).sum())(X)  # NumPy's stubs know no Arrays
    expected = np.ones((3, 3))
    expected[0, 0] = 2.0
    np.testing.assert_array_equal(np.asarray(gradient), expected)


@pytest.mark.parametrize("triangle", ["L", "U"])
@pytest.mark.parametrize("n", [2, 5, 8])
def test_eigenvectors_have_numpys_signs(triangle: Any, n: int) -> None:
    """`np.linalg.eigh` of an Array has the signs that NumPy's has, of both triangles, of which only one is read."""
    for _ in range(5):
        a = RNG.normal(size=(n, n))
        w, v = np.linalg.eigh(a, triangle)
        got: Any = np.linalg.eigh(afx.asarray(a), triangle)
        np.testing.assert_allclose(np.asarray(got.eigenvalues), w, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(np.asarray(got.eigenvectors), v, rtol=1e-9, atol=1e-9)
    direction = RNG.normal(size=(n, n))
    value = lambda a: (afx.linalg.eigh(a, triangle).eigenvectors * direction).sum()
    afx.testing.check_grads(value, (a,))
    np.testing.assert_allclose(np.asarray(afx.jit(value)(a)), np.asarray(value(a)))


def test_views_in_dtypes_that_no_array_has() -> None:
    """``x.view("V8")`` is NumPy's read-only view, without a copy."""
    x = afx.asarray(X)
    bits: Any = x.view("V8")
    assert isinstance(bits, np.ndarray)
    assert bits.dtype == np.dtype("V8")
    assert np.shares_memory(bits, np.asarray(x))
    assert not bits.flags.writeable
    assert x.view(np.int64).dtype == np.int64
    with pytest.raises(errors.OperandError, match="view"):
        x.view("V7")
    with pytest.raises(errors.OperandError, match="view"):
        x.view("nonsense")


class Chunks:
    """An array of another library that holds Arrays, and answers NumPy's functions itself."""

    dtype = np.dtype(float)
    shape = (3, 3)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> str:
        return f"chunks of {ufunc.__name__}"

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> str:
        return f"chunks of {func.__name__}"

    def __radd__(self, other: Any) -> str:
        return "chunks"


def test_functions_defer_to_types_that_answer_themselves() -> None:
    """Operators, ufuncs and functions of NumPy leave the answer to another library's type, and raise without one."""
    a: Any = afx.asarray(X)
    other: Any = Chunks()
    assert a + other == "chunks"
    assert np.add(a, other) == "chunks of add"
    assert np.concatenate([a, other]) == "chunks of concatenate"
    series: Any = pd.Series([1.0, 2.0, 3.0])
    total: Any = np.add(afx.asarray([1.0, 2.0, 3.0]), series)
    assert total.tolist() == [2.0, 4.0, 6.0]
    with pytest.raises(errors.OperandError):
        np.add(a, "text")


def test_laws_take_columns() -> None:
    """`afx.stats` takes a Series as data and as parameters, and keeps its dtype."""
    column: Any = pd.Series([0.5, 1.5, -0.5])
    np.testing.assert_allclose(np.asarray(afx.stats.norm.logpdf(column)), scipy.stats.norm.logpdf(column), rtol=1e-14)
    gradient = afx.grad(lambda m: afx.stats.norm.logpdf(column, m, 2.0).sum())(np.float64(0.1))
    assert float(gradient) == pytest.approx(float(((column - 0.1) / 4.0).sum()), rel=1e-13)
    assert afx.stats.norm.cdf(np.float64(0.0), column).shape == (3,)
    whole: Any = pd.Series([1, 2, 3])
    assert afx.stats.poisson.logpmf(whole, np.float64(2.0)).dtype == np.float64


@together(
    "fn", [afx.mean, afx.std, afx.var, afx.sum, afx.max, afx.prod, afx.linalg.norm, afx.logsumexp, afx.median, afx.ptp]
)
def test_reductions_take_lists_of_traced_numbers(fn: Any) -> None:
    """A list of traced scalars is reduced as the array that they make."""
    for transform in (lambda f: f, afx.jit):
        listed = transform(afx.grad(lambda x: fn([x[0], [x[1]][0], 2.0 * x[2]])))(X[0])
        stacked = transform(afx.grad(lambda x: fn(afx.stack([x[0], x[1], 2.0 * x[2]]))))(X[0])
        np.testing.assert_allclose(np.asarray(listed), np.asarray(stacked), rtol=1e-14)
    assert float(fn([1.0, 3.0])) == pytest.approx(float(fn(afx.asarray([1.0, 3.0]))))
    assert float(fn((1.0, 3.0))) == pytest.approx(float(fn(afx.asarray([1.0, 3.0]))))


def test_argnum_is_argnums() -> None:
    """The argument ``argnum=`` of autograd names positions too; both at once raise."""
    fn = lambda x, y: afx.sum(x * y**2)
    for transform in (afx.grad, afx.value_and_grad, afx.jacfwd, afx.jacrev, afx.hessian, afx.elementwise_grad):
        t: Any = transform
        for place in (1, (0, 1)):
            got, expected = t(fn, argnum=place)(X, 2 * X), t(fn, argnums=place)(X, 2 * X)
            assert afx.pytree.equal(got, expected)
        with pytest.raises(errors.ArgumentError, match="given twice"):
            t(fn, argnums=0, argnum=1)


def test_elementwise_grad_of_integers() -> None:
    """Integer arguments of `elementwise_grad` are taken as floats."""
    with afx.default_dtype("float64"):
        for x in (3, np.arange(4), [1, 2][1]):
            slope = afx.elementwise_grad(lambda x: x**3)(x)
            np.testing.assert_allclose(np.asarray(slope), 3.0 * np.square(x))
            assert slope.dtype == np.float64


@together("mode", ["full", "same", "valid"])
@together("shapes", [((5, 6), (3, 2)), ((2, 3), (4, 3)), ((3, 4, 5), (2, 2, 2)), ((4, 5), (4, 5))])
def test_convolution_of_arrays(mode: Any, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    """`convolve` of arrays is SciPy's, over all axes."""
    x, k = (RNG.normal(size=s) for s in shapes)
    got = np.asarray(afx.convolve(x, k, mode))
    np.testing.assert_allclose(got, scipy.signal.convolve(x, k, mode, method="direct"), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize(
    ("shapes", "axes", "dot_axes"),
    [
        (((2, 5, 6), (4, 3, 2)), ([1, 2], [1, 2]), ([], [])),
        (((2, 5, 6, 3), (3, 3, 2, 4)), ([1, 2], [1, 2]), ([3], [0])),
        (((7, 3), (3, 2)), ([0], [1]), ([1], [0])),
        (((2, 3, 4, 3), (5, 6, 7, 3)), ([1, 2], [1, 2]), ([3], [3])),
    ],
)
def test_convolution_along_axes(mode: Any, shapes: Any, axes: Any, dot_axes: Any) -> None:
    """`convolve` along axes is autograd's: axes apart in front, contracted ones summed over, with derivatives."""
    theirs = pytest.importorskip("autograd.scipy.signal", reason="autograd is the oracle").convolve
    x, k = (RNG.normal(size=s) for s in shapes)
    got = afx.convolve(x, k, mode, axes=axes, dot_axes=dot_axes)
    np.testing.assert_allclose(np.asarray(got), theirs(x, k, axes, dot_axes, mode), rtol=1e-12, atol=1e-12)
    afx.testing.check_grads(lambda x, k: afx.convolve(x, k, mode, axes=axes, dot_axes=dot_axes), (x, k))


def test_convolution_says_what_does_not_fit() -> None:
    """Axes that do not pair up, and operands of which neither is the longer one, raise."""
    with pytest.raises(errors.ShapeError, match="longer"):
        afx.convolve(np.ones((5, 2)), np.ones((2, 5)), "valid")
    with pytest.raises(errors.ShapeError, match="pair up"):
        afx.convolve(np.ones((5, 2)), np.ones(3))
    with pytest.raises(errors.ShapeError, match="pair up"):
        afx.convolve(X, X, axes=([0], [0]), dot_axes=([1], []))


def test_polars_and_arrow_take_arrays() -> None:
    """Series, columns of frames and arrays of Arrow have the elements, their dtype and no Python numbers on the way."""
    polars: Any = pytest.importorskip("polars", reason="polars is no dependency")
    x = afx.asarray([1.5, 2.5, 3.5])
    assert polars.Series(x).equals(polars.Series(np.asarray(x)))
    frame = polars.DataFrame({"a": x, "b": afx.asarray([True, False, True])})
    assert frame.schema == {"a": polars.Float32, "b": polars.Boolean}
    assert frame.filter(polars.Series(afx.asarray([True, False, True])))["a"].to_list() == [1.5, 3.5]


def test_pyarrow_takes_arrays() -> None:
    """`pyarrow.array`, with a type too, and tables."""
    pyarrow: Any = pytest.importorskip("pyarrow", reason="pyarrow is no dependency")
    x = afx.asarray([1, 2, 3])
    assert pyarrow.array(x).equals(pyarrow.array(np.asarray(x)))
    assert pyarrow.array(x, pyarrow.float64()).to_pylist() == [1.0, 2.0, 3.0]
    assert pyarrow.table({"a": x}).column("a").to_pylist() == [1, 2, 3]


def test_arrow_needs_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream is written by whichever library asks; without one the error says so."""
    for name in ("polars", "pyarrow"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(errors.MissingExtraError, match="polars or pyarrow"):
        afx.ones(3).__arrow_c_stream__()
    with pytest.raises(errors.ConcreteValueError):
        afx.jit(lambda x: x.__arrow_c_stream__())(afx.ones(3))
