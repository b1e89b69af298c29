"""Quantiles, functions that pass over nan, covariances and sampled functions give NumPy's values and differentiate."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import afx
from afx import errors
from afx.ops.reductions.quantiles import METHODS
from tests.ops.agreement import compiled_agrees, derivatives_agree, flat, same, values_agree
from tests.ops.samples import together

RNG = np.random.default_rng(11)
X = RNG.normal(size=(2, 3, 5))
HOLES = np.where(X > 0.9, np.nan, X)
M = RNG.normal(size=(3, 7))
V = RNG.normal(size=6)
T = np.linspace(0.0, 3.0, 6)
KNOTS = np.array([0.1, 0.4, 1.0, 1.7, 2.5])

# The same call on both libraries, of one array.
CASES: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "median": (lambda lib, x: lib.median(x), X),
    "median of an even number": (lambda lib, x: lib.median(x), V),
    "median of an axis": (lambda lib, x: lib.median(x, axis=1, keepdims=True), X),
    "median of axes": (lambda lib, x: lib.median(x, axis=(0, -1)), X),
    "quantile": (lambda lib, x: lib.quantile(x, 0.3), X),
    "quantiles of an axis": (lambda lib, x: lib.quantile(x, np.array([0.1, 0.5, 1.0]), axis=1), X),
    "quantiles kept": (lambda lib, x: lib.quantile(x, np.array([0.1, 0.5]), axis=(0, 2), keepdims=True), X),
    "percentile": (lambda lib, x: lib.percentile(x, 30, axis=-1), X),
    "percentiles": (lambda lib, x: lib.percentile(x, np.array([30, 70]), axis=0), X),
    "nanmedian": (lambda lib, x: lib.nanmedian(x, axis=1), HOLES),
    "nanquantile": (lambda lib, x: lib.nanquantile(x, np.array([0.2, 0.7]), axis=2), HOLES),
    "nanpercentile": (lambda lib, x: lib.nanpercentile(x, 40, axis=(0, 2), keepdims=True), HOLES),
    "nansum": (lambda lib, x: lib.nansum(x, axis=1), HOLES),
    "nanprod": (lambda lib, x: lib.nanprod(x, axis=1, keepdims=True), HOLES),
    "nanmean": (lambda lib, x: lib.nanmean(x, axis=(0, 2)), HOLES),
    "nanvar": (lambda lib, x: lib.nanvar(x, axis=2), HOLES),
    "nanvar with ddof": (lambda lib, x: lib.nanvar(x, axis=2, ddof=1, keepdims=True), HOLES),
    "nanstd": (lambda lib, x: lib.nanstd(x), HOLES),
    "nanstd of an axis": (lambda lib, x: lib.nanstd(x, axis=2, correction=1), HOLES),
    "nanmax": (lambda lib, x: lib.nanmax(x, axis=1), HOLES),
    "nanmin": (lambda lib, x: lib.nanmin(x), HOLES),
    "nancumsum": (lambda lib, x: lib.nancumsum(x, axis=1), HOLES),
    "nancumprod": (lambda lib, x: lib.nancumprod(x), HOLES),
    "nan_to_num": (lambda lib, x: lib.nan_to_num(x), HOLES),
    "nan_to_num with numbers": (lambda lib, x: lib.nan_to_num(x, nan=2.0, posinf=3.0, neginf=4.0), HOLES),
    "nan_to_num of nan": (lambda lib, x: lib.nan_to_num(HOLES, nan=x), np.array(0.3)),
    "fmax": (lambda lib, x: lib.fmax(x, 0.1), HOLES),
    "fmin": (lambda lib, x: lib.fmin(0.1, x), HOLES),
    "cov": (lambda lib, x: lib.cov(x), M),
    "cov of columns": (lambda lib, x: lib.cov(x, rowvar=False), M),
    "cov of one": (lambda lib, x: lib.cov(x), V),
    "cov of two": (lambda lib, x: lib.cov(x[0], x[1:], bias=True), M),
    "cov of two by columns": (lambda lib, x: lib.cov(x, 2 * x[:1] ** 2, rowvar=False), M[:, :3]),
    "cov with fweights": (lambda lib, x: lib.cov(x, fweights=np.arange(7) + 1, ddof=0), M),
    "cov with aweights": (lambda lib, x: lib.cov(M, aweights=x), np.abs(RNG.normal(size=7))),
    "cov with both": (lambda lib, x: lib.cov(x, fweights=np.arange(7), aweights=np.arange(7) / 10), M),
    "corrcoef": (lambda lib, x: lib.corrcoef(x), M),
    "corrcoef of two": (lambda lib, x: lib.corrcoef(x[0], x[1]), M),
    "interp by the points": (lambda lib, x: lib.interp(x, KNOTS, np.sin(KNOTS)), np.array([-1.0, 0.2, 0.5, 2.0, 7.0])),
    "interp by the knots": (lambda lib, x: lib.interp(T, x, np.sin(KNOTS)), KNOTS),
    "interp by the values": (lambda lib, x: lib.interp(T, KNOTS, x), np.sin(KNOTS)),
    "interp with ends": (lambda lib, x: lib.interp(T, KNOTS, np.sin(KNOTS), left=-3.0, right=x), np.array(9.0)),
    "interp of a matrix": (lambda lib, x: lib.interp(x, KNOTS, np.sin(KNOTS)), M),
    "interp with a period": (lambda lib, x: lib.interp(4.9 * T, x, np.cos(KNOTS), period=1.17), KNOTS[::-1]),
    "gradient beside complex coordinates": (lambda lib, x: lib.gradient(x + 0j, np.exp(1j * KNOTS)), KNOTS**2),
    "interp of complex values": (lambda lib, x: lib.interp(x, KNOTS, np.exp(1j * KNOTS)), M),
    "interp through one point": (lambda lib, x: lib.interp(T, np.ones(1), x), np.ones(1)),
    "trapezoid": (lambda lib, x: lib.trapezoid(x), X),
    "trapezoid with dx": (lambda lib, x: lib.trapezoid(x, dx=0.3, axis=0), X),
    "trapezoid by places": (lambda lib, x: lib.trapezoid(X, x, axis=1), np.array([0.1, 0.5, 0.7])),
    "trapezoid by places of each": (lambda lib, x: lib.trapezoid(X, x), X + 1),
    "gradient": (lambda lib, x: lib.gradient(x), V),
    "gradient of axes": (lambda lib, x: lib.gradient(x, 2.0, 3.0, axis=(2, 0)), X),
    "gradient of all axes": (lambda lib, x: lib.gradient(x), X),
    "gradient by places": (lambda lib, x: lib.gradient(V, x), T**2 + T),
    "gradient with better ends": (lambda lib, x: lib.gradient(x, edge_order=2), V),
    "gradient with better ends by places": (lambda lib, x: lib.gradient(x, T**2 + T, edge_order=2), V),
    "gradient of two": (lambda lib, x: lib.gradient(x, axis=0), X),
    "ediff1d": (lambda lib, x: lib.ediff1d(x), X),
    "ediff1d with ends": (lambda lib, x: lib.ediff1d(x, to_begin=[1.0, 2.0], to_end=x[:2]), V),
    "unwrap": (lambda lib, x: lib.unwrap(x), 5 * V),
    "nansum where": (lambda lib, x: lib.nansum(x, axis=1, where=X > 0, initial=2.0), HOLES),
    "nanprod where": (lambda lib, x: lib.nanprod(x, where=X > 0.2, initial=0.5), HOLES),
    "nanmean where": (lambda lib, x: lib.nanmean(x, axis=2, where=X > -0.7), HOLES),
    "nanvar where": (lambda lib, x: lib.nanvar(x, where=X > -0.7, ddof=1), HOLES),
    "nanvar about a mean": (lambda lib, x: lib.nanvar(HOLES, axis=0, mean=x), X[:1]),
    "nanstd where": (lambda lib, x: lib.nanstd(x, axis=(0, 2), where=X > -0.7), HOLES),
    "nanmax where": (lambda lib, x: lib.nanmax(x, axis=1, where=X < 0.3, initial=-0.2), HOLES),
    "nanmin from an initial": (lambda lib, x: lib.nanmin(x, initial=-0.2), HOLES),
    "sum where": (lambda lib, x: lib.sum(x, axis=1, where=X > 0, initial=2.0), X),
    "sum where rows": (lambda lib, x: lib.sum(x, where=np.array([[True], [False], [True]])), X),
    "sum from an initial": (lambda lib, x: lib.sum(X, axis=0, initial=x), np.array(0.5)),
    "prod where": (lambda lib, x: lib.prod(x, axis=1, where=X > 0, initial=2.0, keepdims=True), X),
    "mean where": (lambda lib, x: lib.mean(x, axis=2, where=X > -0.5), X),
    "max where": (lambda lib, x: lib.max(x, axis=1, where=X < 1, initial=-0.3), X),
    "min from an initial": (lambda lib, x: lib.min(x, axis=(0, 2), initial=0.1, keepdims=True), X),
    "max of nothing": (lambda lib, x: lib.max(x[:0], axis=0, initial=0.1), X),
    "var where": (lambda lib, x: lib.var(x, axis=2, where=X > -1.6, ddof=1), X),
    "var where, kept": (lambda lib, x: lib.var(x, axis=2, where=X > -1.6, keepdims=True), X),
    "std where": (lambda lib, x: lib.std(x, where=X > -0.5), X),
    "std about a mean": (lambda lib, x: lib.std(X, axis=0, mean=x), X[:1]),
    "take around": (lambda lib, x: lib.take(x, np.array([[-1, 7], [2, 0]]), axis=1, mode="wrap"), X),
    "take the nearest": (lambda lib, x: lib.take(x, np.array([-4, 7]), mode="clip"), X),
    "unwrap along an axis": (lambda lib, x: lib.unwrap(x, axis=0, period=1.5, discont=1.0), 3 * X),
}


@together("name", CASES)
def test_values_are_numpys(name: str) -> None:
    """The value is NumPy's."""
    values_agree(*CASES[name])


@together("name", CASES)
def test_derivatives_are_right(name: str) -> None:
    """Derivatives of first and second order agree with differences, in both modes."""
    call, x = CASES[name]
    derivatives_agree(lambda v: call(afx, v), x)


@together("name", CASES)
def test_compiled_and_mapped(name: str) -> None:
    """Jitted and mapped functions and gradients agree with plain ones."""
    call, x = CASES[name]
    compiled_agrees(lambda v: call(afx, v), x)


SINGLE = {
    **{
        name: getattr(afx, name)
        for name in ("median", "nanmedian", "nanmean", "nanvar", "nanstd", "nanmax", "nancumprod")
    },
    **{name: getattr(afx, name) for name in ("nan_to_num", "trapezoid", "gradient", "unwrap", "ediff1d")},
    "quantile": lambda x: afx.quantile(x, [0.1, 0.5]),
    "percentile": lambda x: afx.percentile(x, 20),
    "cov": lambda x: afx.cov(x[0], aweights=afx.abs(x[0, 0])),
    "corrcoef": lambda x: afx.corrcoef(x[0]),
    "interp": lambda x: afx.interp(x[0], [0.0, 1.0], [0.0, 1.0]),
    "interp by values": lambda x: afx.interp(0.5, x[0, 0], x[0, 1]),
}


@together("name", SINGLE)
def test_float32_stays(name: str) -> None:
    """Of float32 all results are float32, and integers give the default dtype."""
    call = SINGLE[name]
    assert all(z.dtype == np.float32 for z in flat(call(afx.asarray(X.astype(np.float32)))))
    if name not in ("nan_to_num", "unwrap", "ediff1d", "nanmax", "nancumprod", "interp"):
        assert all(z.dtype == np.float32 for z in flat(call(afx.asarray((9 * X).astype(np.int64)))))


@together("method", METHODS)
@together("axis", [None, 1, (0, 2)])
def test_every_method_of_quantiles(method: str, axis: Any) -> None:
    """Each method gives NumPy's quantiles, with and without nan, of integers too."""
    q = np.array([0.0, 0.25, 0.4, 0.5, 0.93, 1.0])
    same(afx.quantile(X, q, axis, method=method), np.quantile(X, q, axis, method=method))
    same(afx.nanquantile(HOLES, q, axis, method=method), np.nanquantile(HOLES, q, axis, method=method))
    whole = np.array([3, 1, 4, 1, 5, 9, 2])
    want = np.quantile(whole, q, method=method)
    got = afx.quantile(whole, q, method=method)
    assert got.dtype.kind == want.dtype.kind
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-6)
    derivatives_agree(lambda x: afx.quantile(x, 0.37, axis, method=method), X, second=False)


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
def test_weighted_quantiles(axis: Any) -> None:
    """Weights pick NumPy's elements, compiled too, also where some are 0; ties and nan among them."""
    w = RNG.random(HOLES.shape)
    w[0, 0, :2] = 0.0
    ties = np.round(X * 2)
    one, place = (X.reshape(6, 5).shape, 0) if axis == (0, 1) else (X.shape, axis)  # older NumPy fails at several axes
    for q in (0.01, 0.3, [0.1, 0.5, 1.0]):
        wanted = np.quantile(ties.reshape(one), q, place, method="inverted_cdf", weights=w.reshape(one))
        of_weights = partial(afx.quantile, q=q, axis=axis, method="inverted_cdf")
        for run in (of_weights, afx.jit(of_weights)):
            same(run(ties, weights=w), wanted)
        with np.errstate(invalid="ignore"):
            wanted = np.nanquantile(HOLES.reshape(one), q, place, method="inverted_cdf", weights=w.reshape(one))
        same(afx.nanquantile(HOLES, q, axis, method="inverted_cdf", weights=w), wanted)
    row, given = np.array([3, 1, 2]), {"method": "inverted_cdf", "weights": [0.0, 0.0, 0.7]}
    assert int(afx.quantile(row, 0.0, **given)) == 2  # of no weight is no quantile: older NumPy takes the least
    row, given = np.array([3, 1, 2]), {"method": "inverted_cdf", "weights": [0.1, 0.2, 0.7]}
    same(afx.percentile(row, [30, 31, 90, 91], **given), np.percentile(row, [30, 31, 90, 91], **given))
    assert afx.percentile(row, 30, **given).dtype.kind == "i"


def test_quantiles_differentiate_by_the_fraction() -> None:
    """The slope by the fraction is the number of steps times the step that the fraction lies in."""
    x = np.array([1.0, 2.0, 4.0, 7.0])
    assert float(afx.grad(lambda q: afx.quantile(x, q))(0.5)) == 6.0
    assert float(afx.grad(lambda q: afx.percentile(x, q))(50.0)) == pytest.approx(0.06)
    derivatives_agree(lambda q: afx.quantile(x, q), np.array([0.2, 0.5, 0.9]) + 0.01)


def test_truth_among_some() -> None:
    """`all` and `any` look where ``where`` holds."""
    positive = X > 0
    for name in ("all", "any"):
        same(getattr(afx, name)(positive, axis=1, where=X > 0.3), getattr(np, name)(positive, axis=1, where=X > 0.3))
        same(getattr(np, name)(afx.asarray(positive), where=X < 0), getattr(np, name)(positive, where=X < 0))


def test_dtypes_of_moments() -> None:
    """`mean`, `var` and `std` compute in the dtype that is asked for; what is left out has no derivative."""
    for name in ("mean", "var", "std"):
        got = getattr(afx, name)(X.astype(np.float32), dtype=np.float64)
        assert got.dtype == np.float64
        np.testing.assert_allclose(float(got), getattr(np, name)(X.astype(np.float32), dtype=np.float64), rtol=1e-12)
    g = afx.grad(lambda x: afx.sum(afx.sqrt(x), where=np.array([False, True])))(np.array([0.0, 4.0]))
    np.testing.assert_array_equal(np.asarray(g), [0.0, 0.25])


def test_ties_share_the_derivative() -> None:
    """Elements that tie with the median, a quantile or an extreme share the derivative evenly."""
    x = np.array([1.0, 2.0, 2.0, 5.0, 2.0])
    np.testing.assert_allclose(np.asarray(afx.grad(afx.median)(x)), [0, 1 / 3, 1 / 3, 0, 1 / 3])
    np.testing.assert_allclose(np.asarray(afx.jit(afx.grad(afx.median))(x)), [0, 1 / 3, 1 / 3, 0, 1 / 3])
    np.testing.assert_allclose(np.asarray(afx.jvp(afx.median, (x,), (np.arange(5.0),))[1]), 7 / 3)
    np.testing.assert_allclose(np.asarray(afx.grad(lambda x: afx.nanmin(x))(x[1:])), [1 / 3, 1 / 3, 0, 1 / 3])
    np.testing.assert_allclose(np.asarray(afx.grad(afx.fmax, (0, 1))(2.0, 2.0)), [0.5, 0.5])


def test_infinities_in_quantiles() -> None:
    """Infinite elements give infinite quantiles, not nan, and nan gives nan."""
    inf = np.inf
    assert float(afx.median(np.array([inf, inf, 1.0, 2.0]))) == inf
    assert float(afx.median(np.array([-inf, 3.0]))) == -inf
    assert float(afx.quantile(np.array([1.0, inf]), 0.0)) == 1.0
    assert np.isnan(float(afx.median(np.array([1.0, np.nan]))))
    np.testing.assert_array_equal(np.asarray(afx.grad(afx.median)(np.array([1.0, np.nan]))), [0.0, 0.0])


def test_empty_and_all_nan() -> None:
    """Of nothing, or of nan alone, medians and means are nan, sums 0 and products 1."""
    assert np.isnan(float(afx.median(np.zeros(0))))
    assert afx.median(np.zeros((0, 3)), axis=0).shape == (3,)
    nothing = np.full((2, 2), np.nan)
    for fn in (afx.nanmedian, afx.nanmean, afx.nanvar, afx.nanstd, afx.nanmax, afx.nanmin):
        assert np.isnan(np.asarray(fn(nothing, axis=0))).all()
    assert float(afx.nansum(nothing)) == 0.0
    assert float(afx.nanprod(nothing)) == 1.0
    assert np.isnan(float(afx.nanvar(np.array([1.0, np.nan]), ddof=1)))


def test_means_of_chosen_elements_keep_the_dtype() -> None:
    """The mean of chosen float32 elements is float32, and nan without a warning where none is chosen."""
    found = afx.mean(afx.asarray([[1.0, 3.0], [5.0, 7.0]]), axis=1, where=np.array([[True, True], [False, False]]))
    assert found.dtype == np.float32
    np.testing.assert_array_equal(np.asarray(found), [2.0, np.nan])
    truths = afx.mean(np.array([[True, False], [True, True]]), axis=1, where=np.array([[True, True], [False, False]]))
    np.testing.assert_array_equal(np.asarray(truths), [0.5, np.nan])


def test_nan_has_no_derivative() -> None:
    """What a function passes over has derivative 0."""
    x = np.array([1.0, np.nan, 3.0])
    for fn in (afx.nansum, afx.nanmean, afx.nanprod, afx.nanstd, afx.nanvar, afx.nanmedian, afx.nanmax):
        g = np.asarray(afx.grad(fn)(x))
        assert np.isfinite(g).all()
        assert g[1] == 0
    np.testing.assert_array_equal(np.asarray(afx.grad(lambda x: afx.nancumsum(x).sum())(x)), [3, 0, 1])
    np.testing.assert_array_equal(np.asarray(afx.grad(afx.nanstd)(np.array([2.0, np.nan, 2.0]))), [0, 0, 0])
    infinite = np.array([1.0, np.nan, np.inf, -np.inf])
    same(afx.nan_to_num(infinite), np.nan_to_num(infinite))
    same(afx.nan_to_num(infinite * (1 + 2j)), np.nan_to_num(infinite * (1 + 2j)))
    np.testing.assert_array_equal(np.asarray(afx.grad(lambda x: afx.nan_to_num(x).sum())(infinite)), [1, 0, 0, 0])


def test_places_pass_over_nan() -> None:
    """`nanargmax` and `nanargmin` find NumPy's places, and raise where all are nan."""
    for name in ("nanargmax", "nanargmin"):
        for axis in (None, 0, 1, -1):
            same(getattr(afx, name)(HOLES, axis), getattr(np, name)(HOLES, axis))
            same(
                afx.jit(lambda x, name=name, axis=axis: getattr(afx, name)(x, axis))(HOLES),
                getattr(np, name)(HOLES, axis),
            )
        with pytest.raises(errors.ArgumentError, match=rf"{name}: All-NaN slice encountered: got float64\[2\]"):
            getattr(afx, name)(np.full(2, np.nan))


def test_correlations_stay_within_bounds() -> None:
    """Rounding never takes a coefficient beyond 1, and the derivative there is that of the formula."""
    x = RNG.normal(size=(1, 50)) * np.array([[1.0], [0.1], [-3.0]])
    assert np.abs(np.asarray(afx.corrcoef(x))).max() <= 1.0
    np.testing.assert_allclose(np.asarray(afx.grad(lambda x: afx.corrcoef(x).sum())(x)), 0, atol=1e-12)


def test_python_numbers_keep_their_digits() -> None:
    """Beside float64 arrays Python's numbers are float64, in lists too; beside float32 they are float32."""
    same(afx.interp(T, [0.1, 0.7], [0.3, 0.9]), np.interp(T, [0.1, 0.7], [0.3, 0.9]), rtol=1e-15)
    same(afx.trapezoid([0.1, 0.7], T[:2]), np.trapezoid([0.1, 0.7], T[:2]), rtol=1e-15)
    same(afx.polyval([0.1, 0.7], T), np.polyval([0.1, 0.7], T), rtol=1e-15)
    same(afx.polyval(T, [0.1, 0.7]), np.polyval(T, [0.1, 0.7]), rtol=1e-15)
    same(afx.append(T, [0.1]), np.append(T, [0.1]), rtol=1e-15)
    assert bool(afx.array_equal(np.array([0.1, 0.7]), [0.1, 0.7]))
    assert bool(afx.isin(0.1, np.array([0.1])))
    assert afx.interp(T.astype(np.float32), [0.1, 0.7], [0.3, 0.9]).dtype == afx.float32


def test_what_is_not_enough() -> None:
    """Covariances of too few observations are nan; a nan beside a slope does not count."""
    for x in (np.zeros((2, 0)), np.ones((2, 1))):
        with np.errstate(invalid="ignore"):  # NumPy warns, too
            assert np.isnan(np.asarray(afx.cov(x))).all()
            assert np.isnan(np.asarray(afx.corrcoef(x))).all()
    holes = np.array([1.0, np.nan, 0.0, -2.0])
    same(afx.gradient(holes), np.gradient(holes))
    assert np.isnan(float(afx.nanquantile(np.zeros(0), 0.5)))
    same(afx.geomspace(np.array([1.0, 2.0]), np.array([8.0, np.inf]), 3)[-1], np.array([8.0, np.inf]))


def test_steps_of_half_a_period() -> None:
    """`unwrap` leaves steps of just half a period, up and down, as NumPy does, of integers too."""
    for phases in (np.array([0.0, 2.0, 0.0, -2.0, 5.0]), np.array([0, 2, 0, -2, 5, 8, 3])):
        same(afx.unwrap(phases, period=4), np.unwrap(phases, period=4))
    same(afx.unwrap(np.array([0, 2, 4, 1, 3]), period=5), np.unwrap(np.array([0, 2, 4, 1, 3]), period=5))


def test_interpolation_at_its_points() -> None:
    """At a point the slope is that of the piece to its right, at the last one that of the last piece; repeated points jump."""
    xp, fp = np.array([0.0, 1.0, 3.0]), np.array([0.0, 2.0, 3.0])
    slope = afx.vmap(afx.grad(lambda x: afx.interp(x, xp, fp)))(np.array([-1.0, 0.0, 1.0, 3.0, 4.0]))
    np.testing.assert_array_equal(np.asarray(slope), [0.0, 2.0, 0.5, 0.5, 0.0])
    jump = (np.array([0.0, 1.0, 1.0, 2.0]), np.array([0.0, 1.0, 5.0, 6.0]))
    at = np.array([0.5, 1.0, 1.5, 2.0, np.nan])
    same(afx.interp(at, *jump), np.interp(at, *jump))


@pytest.mark.parametrize("run", [afx.interp, afx.jit(afx.interp)], ids=["eager", "compiled"])
@pytest.mark.parametrize("values", [[1.0, 1.0, 1.0], [1.0, 2.0, 3.0]], ids=["level", "rising"])
def test_interpolation_at_nan_is_nan(run: Callable[..., Any], values: list[float]) -> None:
    """Between equal values too, and where the last point is there twice."""
    at, fp = np.array([np.nan, 0.5, np.inf, -np.inf, 2.0]), np.array(values)
    for points in ([0.0, 1.0, 2.0], [0.0, 2.0, 2.0], [-np.inf, 0.0, np.inf]):
        same(run(at, np.array(points), fp), np.interp(at, points, fp))


ERRORS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "zero": (lambda: afx.geomspace(0.0, 2.0), errors.ArgumentError, "geomspace: no multiple of 0 is another number"),
    "range": (
        lambda: afx.histogram(np.array([np.nan])),
        errors.ArgumentError,
        "histogram: the ends of the range are not",
    ),
    "where without initial": (
        lambda: afx.max(X, where=X > 0),
        errors.ArgumentError,
        "max: reduction has no identity",
    ),
    "take mode": (
        lambda: afx.take(X, [0], mode="near"),
        errors.ArgumentError,
        "take: mode is 'raise', 'wrap' or 'clip'",
    ),
    "method": (
        lambda: afx.quantile(X, 0.5, method="mean"),
        errors.ArgumentError,
        "quantile: no such method: got 'mean'; use one",
    ),
    "weights of a method": (
        lambda: afx.quantile(X, 0.5, weights=X),
        errors.ArgumentError,
        "quantile: weights belong to one method: got 'linear'",
    ),
    "weights below 0": (
        lambda: afx.quantile(X, 0.5, method="inverted_cdf", weights=X),
        errors.ArgumentError,
        "quantile: weights are finite, not negative, and not all 0",
    ),
    "weights of another shape": (
        lambda: afx.nanquantile(X, 0.5, method="inverted_cdf", weights=X[0]),
        errors.ShapeError,
        "nanquantile: weights have the shape of x",
    ),
    "times": (lambda: afx.cov(X[0], fweights=[0.5] * 5), errors.DtypeError, "cov: fweights are numbers of times"),
    "times below 0": (
        lambda: afx.cov(X[0], fweights=[-1] * 5),
        errors.ArgumentError,
        "cov: fweights must not be negative",
    ),
    "fraction": (lambda: afx.quantile(X, 1.5), errors.ArgumentError, "quantile: fractions lie from 0 to 1: got 1.5"),
    "percentage": (lambda: afx.percentile(X, [-5]), errors.ArgumentError, "percentile: percentages lie from 0 to 100"),
    "complex": (lambda: afx.median(X * 1j), errors.DtypeError, "median: complex numbers have no order: got complex128"),
    "nothing": (
        lambda: afx.quantile(np.zeros(0), 0.5),
        errors.ShapeError,
        "quantile: reduction over an empty axis has no identity",
    ),
    "axis": (lambda: afx.nanmedian(X, axis=5), errors.ShapeError, "nanmedian: axis 5 is out of bounds"),
    "no extreme": (
        lambda: afx.nanmax(np.zeros((0, 2)), axis=0),
        errors.ShapeError,
        "nanmax: reduction over an empty axis has no identity",
    ),
    "axes of cov": (lambda: afx.cov(X), errors.ShapeError, "cov: takes vectors and matrices"),
    "weights of cov": (
        lambda: afx.cov(M, fweights=[1, 2]),
        errors.ShapeError,
        "cov: fweights hold one number an observation",
    ),
    "points": (
        lambda: afx.interp(0.5, V, V[:2]),
        errors.ShapeError,
        "interp: points and values are vectors of one length",
    ),
    "samples": (lambda: afx.gradient(V[:1]), errors.ShapeError, "gradient: takes 2 samples or more: got float64"),
    "spacings": (
        lambda: afx.gradient(X, 1.0, 2.0),
        errors.ArgumentError,
        "gradient: spacings are one number, or one for each axis",
    ),
    "places": (
        lambda: afx.gradient(V, T[1:]),
        errors.ShapeError,
        "gradient: coordinates are a vector of 6: got float64",
    ),
    "order": (
        lambda: afx.gradient(V, edge_order=3),
        errors.ArgumentError,
        "gradient: the order at the edges is 1 or 2",
    ),
}


@together("name", ERRORS)
def test_errors_say_what_is_wrong(name: str) -> None:
    """Wrong arguments raise afx's error with what was given."""
    call, kind, message = ERRORS[name]
    with pytest.raises(kind, match=message):
        call()


def test_the_mean_of_float16_does_not_overflow() -> None:
    """As in NumPy, sums behind a mean hold more than float16 does; plain, compiled, and in gradients."""
    x = np.linspace(100, 300, 2000).astype(np.float16)
    for way in (afx.mean, afx.jit(afx.mean)):
        assert way(x).dtype == np.float16
        assert float(way(x)) == float(np.mean(x))
    assert afx.mean(x, where=x > 200.0).dtype == np.float16
    assert np.asarray(afx.grad(lambda x: afx.mean(x) * 2.0)(x))[0] == np.float16(1e-3)
    assert np.isfinite(np.asarray(afx.nn.standardize(x))).all()


@together("name", ["nansum", "nanprod", "nancumsum", "nancumprod"])
def test_nan_is_left_out_before_a_whole_dtype_is_made(name: str) -> None:
    """No whole number stands for nan: what is converted has none left."""
    x = np.array([[3.0, np.nan, 2.0], [np.nan, 4.0, 5.0]])
    for axis in (None, 0, 1):
        wanted = getattr(np, name)(x, axis=axis, dtype=np.int64)
        for run in (getattr(afx, name), afx.jit(getattr(afx, name), static_argnames=("axis", "dtype"))):
            np.testing.assert_array_equal(run(x, axis=axis, dtype=np.int64), wanted, strict=True)
