"""Splines, grids and radial functions beside SciPy: values, derivatives by all operands, trees, files, refusals."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.interpolate

import afx
from afx import errors, interpolate, io
from tests.every import together

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0, 5, 9))
Y = RNG.normal(size=(9, 2))
AT = np.linspace(X[0] - 0.4, X[-1] + 0.4, 23)
KNOTS, C = np.array([0, 0, 0, 1, 2, 2, 3, 4, 4, 4.0]), RNG.normal(size=7)
GRID = (np.linspace(0, 3, 7), np.array([0.0, 1, 3, 4, 5, 6.5]))
TABLE, INSIDE = RNG.normal(size=(7, 6, 2)), RNG.uniform([0, 0], [3, 6.5], size=(8, 2))
P, D, Q = RNG.normal(size=(12, 2)), RNG.normal(size=(12, 3)), RNG.normal(size=(5, 2))
PERIODIC = np.concatenate([Y[:-1], Y[:1]])
LEVEL = np.array([0.3, -0.2])

CALLS: dict[str, Callable[[Any], Any]] = {
    **{
        f"CubicSpline, {bc}, {n} points": lambda m, bc=bc, n=n: m.CubicSpline(X[:n], Y[:n], bc_type=bc)(AT)
        for bc in ("not-a-knot", "natural", "clamped", ((2, LEVEL), "not-a-knot"), ((1, LEVEL), (2, LEVEL)))
        for n in (2, 3, 4, 9)
    },
    "CubicSpline, periodic": lambda m: m.CubicSpline(X, PERIODIC, bc_type="periodic")(AT * 3),
    "CubicSpline, periodic, 3 points": lambda m: m.CubicSpline(X[[0, 1, 8]], PERIODIC[[0, 1, 8]], bc_type="periodic")(
        AT
    ),
    "CubicSpline, periodic integral": lambda m: m.CubicSpline(X, PERIODIC, bc_type="periodic").integrate(-3.0, 17.0),
    "CubicSpline, an axis": lambda m: m.CubicSpline(X, Y.T, axis=1)(AT[:20].reshape(5, 4)),
    **{
        f"{name}, {n} points": lambda m, name=name, n=n: getattr(m, name)(X[:n], Y[:n])(AT)
        for name in ("PchipInterpolator", "Akima1DInterpolator")
        for n in (2, 3, 4, 9)
    },
    "makima": lambda m: m.Akima1DInterpolator(X, Y, method="makima")(AT),
    "pchip, turns": lambda m: m.PchipInterpolator(np.arange(6.0), [0.0, 1, 1, 0, 3, 3.1])(np.linspace(0, 5, 31)),
    **{
        f"{name}, {what}": lambda m, name=name, fn=fn: fn(getattr(m, name)(X, Y))
        for name in ("CubicSpline", "PchipInterpolator", "Akima1DInterpolator", "make_interp_spline")
        for what, fn in {
            "derivative": lambda f: f(AT, 2),
            "third derivative": lambda f: f.derivative(3)(AT[4:-4]),
            "antiderivative": lambda f: f.antiderivative(2)(AT[4:-4]),
            "integral": lambda f: f.integrate(X[1], X[-2] + 0.01),
            "turned integral": lambda f: f.integrate(X[-2], X[1]),
        }.items()
    },
    **{f"degree {k}": lambda m, k=k: m.make_interp_spline(X, Y, k)(AT) for k in range(6)},
    **{
        f"make_interp_spline, {bc}": lambda m, bc=bc: m.make_interp_spline(X, Y, bc_type=bc)(AT)
        for bc in ("natural", "clamped", ("natural", "clamped"), ([(1, LEVEL)], [(2, LEVEL)]))
    },
    "make_interp_spline, an axis": lambda m: m.make_interp_spline(X, Y.T, axis=1)(AT),
    "make_interp_spline, knots": lambda m: m.make_interp_spline(X, Y, t=[X[0]] * 4 + [*X[2:-2]] + [X[-1]] * 4)(AT),
    **{f"BSpline, {e}": lambda m, e=e: m.BSpline(KNOTS, C, 2, extrapolate=e)(AT) for e in (True, False, "periodic")},
    **{
        f"BSpline slope, {e}": lambda m, e=e: m.BSpline(KNOTS, C, 2, extrapolate=e)(AT, 1)
        for e in (True, False, "periodic")
    },
    "BSpline integral": lambda m: m.BSpline(KNOTS, C, 2).integrate(0.3, 3.7),
    **{
        f"interp1d, {kind}": lambda m, kind=kind: m.interp1d(
            X, Y, kind=kind, axis=0, bounds_error=False, fill_value=(-1.0, 2.0)
        )(np.concatenate([AT, X, (X[1:] + X[:-1]) / 2]))
        for kind in ("linear", "nearest", "nearest-up", "previous", "next", "zero", "slinear", "quadratic", "cubic")
    },
    **{
        f"interp1d, {kind}, going on": lambda m, kind=kind: m.interp1d(X, Y.T, kind, fill_value="extrapolate")(
            np.concatenate([AT, [X[0] - 1, X[-1] + 1]])
        )
        for kind in ("linear", "nearest", "nearest-up", "previous", "next", "cubic")
    },
    **{
        f"grid, {method}": lambda m, method=method: m.RegularGridInterpolator(
            GRID, TABLE, method + ("_legacy" if m is not interpolate and method in ("cubic", "quintic") else "")
        )(INSIDE)
        for method in ("linear", "nearest", "slinear", "cubic", "quintic")
    },
    "grid, outside": lambda m: m.RegularGridInterpolator(GRID, TABLE, bounds_error=False)(INSIDE * 2 - 1),
    "grid, going on": lambda m: m.RegularGridInterpolator(GRID, TABLE, bounds_error=False, fill_value=None)(
        INSIDE * 2 - 1
    ),
    "grid, a tuple": lambda m: m.RegularGridInterpolator(GRID, TABLE[..., 0])((0.5, np.array([1.0, 2.0]))),
    **{
        f"RBF, {kernel}": lambda m, kernel=kernel: m.RBFInterpolator(P, D, kernel=kernel, epsilon=1.3)(Q)
        for kernel in interpolate.scattered.KERNELS
    },
    "RBF, no polynomial": lambda m: m.RBFInterpolator(P, D[:, 0], kernel="gaussian", epsilon=2.0, degree=-1)(Q),
    "RBF, smooth": lambda m: m.RBFInterpolator(P, D, smoothing=0.1, degree=2)(Q),
}


@together("name", CALLS)
def test_values_are_scipys(name: str) -> None:
    """Values and shapes are SciPy's, nan where its are."""
    want = CALLS[name](scipy.interpolate)
    got = np.asarray(CALLS[name](interpolate))
    assert got.shape == np.shape(want)
    np.testing.assert_allclose(got, want, rtol=1e-10 if "RBF" in name else 1e-12, atol=2e-12)


U = np.sort(RNG.uniform(0, 1, 6)) + np.arange(6)
V, W = RNG.normal(size=6), U[0] + np.array([0.3, 1.7, 2.2, 4.1])
OBJECTS: dict[
    str, tuple[Callable[..., Any], tuple[Any, ...], Any]
] = {  # how it is made, of what, and where it is evaluated
    **{
        f"CubicSpline, {bc}": (lambda x, y, bc=bc: interpolate.CubicSpline(x, y, bc_type=bc), (U, V), W)
        for bc in ("not-a-knot", "natural", "clamped")
    },
    "CubicSpline, periodic": (
        lambda x, y: interpolate.CubicSpline(x, afx.concat([y[:-1], y[:1]]), bc_type="periodic"),
        (U, V),
        W,
    ),
    "PchipInterpolator": (interpolate.PchipInterpolator, (U, np.cumsum(np.abs(V))), W),
    "Akima1DInterpolator": (interpolate.Akima1DInterpolator, (U, V), W),
    "make_interp_spline": (interpolate.make_interp_spline, (U, V), W),
    "BSpline": (
        lambda t, c: interpolate.BSpline(t, c, 2),
        (np.concatenate([U, U[-1] + np.arange(1.0, 4.0)]), V),
        W + 2,
    ),
    "interp1d": (interpolate.interp1d, (U, V), W),
    "RegularGridInterpolator": (
        lambda x, y, table: interpolate.RegularGridInterpolator((x, y), table),
        (U, U[:3] * 2, RNG.normal(size=(6, 3))),
        np.stack([W, W * 0.9 + 0.5], axis=-1)[:2],
    ),
    "RegularGridInterpolator, cubic": (
        lambda x, table: interpolate.RegularGridInterpolator((x, x), table, "cubic"),
        (U, RNG.normal(size=(6, 6))),
        np.stack([W, W[::-1]], axis=-1),
    ),
    **{
        f"RBFInterpolator, {kernel}": (
            lambda y, d, kernel=kernel: interpolate.RBFInterpolator(y, d, kernel=kernel, epsilon=0.8),
            (P[:8], D[:8, 0]),
            Q,
        )
        for kernel in ("linear", "thin_plate_spline", "gaussian")
    },
}


@together("name", OBJECTS)
def test_derivatives_by_points_values_and_place(name: str) -> None:
    """Derivatives by what it is made of and by where it is evaluated are those of differences, the same compiled."""
    make, operands, at = OBJECTS[name]
    fn = lambda *xs: make(*xs[:-1])(xs[-1])
    afx.testing.check_grads(fn, (*operands, at), order=1)
    np.testing.assert_allclose(np.asarray(afx.jit(fn)(*operands, at)), np.asarray(fn(*operands, at)), rtol=1e-12)
    mapped = afx.vmap(lambda x: fn(*operands, x))(np.stack([at, at]))
    np.testing.assert_allclose(np.asarray(mapped)[1], np.asarray(fn(*operands, at)), rtol=1e-12)
    single = fn(*[x.astype(np.float32) for x in (*operands, at)])
    assert single.dtype == np.float32
    np.testing.assert_allclose(np.asarray(single), np.asarray(fn(*operands, at)), rtol=2e-3, atol=2e-4)


@pytest.mark.parametrize("name", [name for name in OBJECTS if "clamped" not in name and "linear" not in name])
def test_they_are_trees_that_files_hold(name: str, tmp_path: Path) -> None:
    """They go through `jit` as arguments, and loaded from a file they are what they were."""
    make, operands, at = OBJECTS[name]
    made = make(*operands)
    want = np.asarray(made(at))
    np.testing.assert_allclose(np.asarray(afx.jit(lambda f, x: f(x))(made, at)), want, rtol=1e-12)
    io.save(tmp_path / "made.afx", made)
    loaded = io.load(tmp_path / "made.afx")
    assert type(loaded) is type(made)
    np.testing.assert_array_equal(np.asarray(loaded(at)), want)


def test_complex_values() -> None:
    """Values may be complex: both parts are interpolated."""
    z = V + 1j * V[::-1]
    for name in ("CubicSpline", "make_interp_spline"):
        got, want = getattr(interpolate, name)(U, z)(W), getattr(scipy.interpolate, name)(U, z)(W)
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-12)
    for call in (
        lambda m: m.PPoly(np.stack([z[:-1], z[1:]]), U, extrapolate="periodic")(W + 9),
        lambda m: m.BSpline(U, z[:4], 1, extrapolate=False)(W + 1),
        lambda m: m.RBFInterpolator(P, D * (1 + 2j), kernel="cubic")(Q),
    ):
        np.testing.assert_allclose(np.asarray(call(interpolate)), call(scipy.interpolate), rtol=1e-10)
    for call in (
        lambda: interpolate.PPoly(np.ones((2, 5)), U + 0j),
        lambda: interpolate.RBFInterpolator(P + 0j, D),
    ):
        with pytest.raises(errors.DtypeError, match="points are real"):
            call()


@pytest.mark.parametrize("fill", [1.5, None])
def test_grids_have_nan_where_points_have(fill: float | None) -> None:
    """A point that is nan has no value, neither that of the outside nor that of a neighbour; one row is a grid too."""
    at = np.array([[np.nan, 0.5], [0.5, np.nan], [0.5, 0.5], [9.0, 9.0]])
    for method in ("linear", "nearest", "slinear"):
        args: Any = ((np.arange(3.0), np.arange(2.0)), np.arange(6.0).reshape(3, 2), method, False, fill)
        want = scipy.interpolate.RegularGridInterpolator(*args)(at)
        np.testing.assert_allclose(np.asarray(interpolate.RegularGridInterpolator(*args)(at)), want)
    one: Any = (([2.0],), np.array([3.0]), "nearest", False, None)
    assert interpolate.RegularGridInterpolator(*one)([[1.0], [7.0]]).tolist() == [3.0, 3.0]


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "unsorted": (lambda: interpolate.CubicSpline(U[::-1], V), errors.ArgumentError, "points ascend"),
    "repeated": (
        lambda: interpolate.PchipInterpolator([0.0, 0.0, 1.0], [1.0, 2.0, 3.0]),
        errors.ArgumentError,
        "ascend",
    ),
    "one point": (lambda: interpolate.Akima1DInterpolator([0.0], [1.0]), errors.ShapeError, "2 points or more"),
    "lengths": (lambda: interpolate.CubicSpline(U, V[:-1]), errors.ShapeError, "CubicSpline"),
    "condition": (lambda: interpolate.CubicSpline(U, V, bc_type="free"), errors.ArgumentError, "'natural'"),
    "not periodic": (lambda: interpolate.CubicSpline(U, V, bc_type="periodic"), errors.ArgumentError, "ends where"),
    "extrapolate": (
        lambda: interpolate.CubicSpline(U, V)(W, extrapolate="no"),
        errors.ArgumentError,
        "extrapolate",
    ),  # refused
    "periodic spline": (
        lambda: interpolate.make_interp_spline(U, V, bc_type="periodic"),
        errors.ArgumentError,
        "CubicSpline",
    ),
    "few points": (lambda: interpolate.make_interp_spline(U[:3], V[:3]), errors.ShapeError, "coefficients"),
    "few knots": (lambda: interpolate.BSpline(KNOTS[:5], C, 2), errors.ShapeError, "knots"),
    "kind": (lambda: interpolate.interp1d(U, V, "kubic"), errors.ArgumentError, "kind"),  # refused
    "fill_value": (lambda: interpolate.interp1d(U, V, fill_value="go"), errors.ArgumentError, "extrapolate"),
    "PPoly": (lambda: interpolate.PPoly(np.ones((2, 3)), np.arange(3.0)), errors.ShapeError, "PPoly"),
    "grid": (lambda: interpolate.RegularGridInterpolator(GRID, TABLE[:3]), errors.ShapeError, "an axis for each"),
    "one vector of points": (
        lambda: interpolate.RegularGridInterpolator(3.0, TABLE),  # a wrong argument on purpose
        errors.ArgumentError,
        "points are a tuple",
    ),
    "short grid": (
        lambda: interpolate.RegularGridInterpolator((U[:3],), V[:3], "cubic"),
        errors.ShapeError,
        "more points",
    ),
    "both": (
        lambda: interpolate.interp1d(U, V, bounds_error=True, fill_value="extrapolate"),
        errors.ArgumentError,
        "got both",
    ),
    "beyond": (
        lambda: interpolate.interp1d(U, V, bounds_error=True)(U + 9),
        errors.ArgumentError,
        r"interp1d: a point lies outside of the grid: got \d+ of \d+",
    ),
    "outside": (lambda: interpolate.RegularGridInterpolator(GRID, TABLE)(INSIDE + 9), errors.ArgumentError, "outside"),
    "places": (
        lambda: interpolate.RegularGridInterpolator(GRID, TABLE)(INSIDE[:, :1]),
        errors.ShapeError,
        "points are",
    ),
    "epsilon": (lambda: interpolate.RBFInterpolator(P, D, kernel="gaussian"), errors.ArgumentError, "epsilon"),
    "kernel": (lambda: interpolate.RBFInterpolator(P, D, kernel="cone"), errors.ArgumentError, "kernel"),
    "neighbors": (lambda: interpolate.RBFInterpolator(P, D, neighbors=3), errors.ArgumentError, "neighbors"),  # refused
    "polynomial": (lambda: interpolate.RBFInterpolator(P[:4], D[:4], degree=2), errors.ShapeError, "degree 2"),
}


@together("name", REFUSED)
def test_bad_input_is_refused_by_name(name: str) -> None:
    """The error says what is wrong and what to do."""
    call, kind, match = REFUSED[name]
    with pytest.raises(kind, match=match):
        call()


def test_methods_that_a_file_made_up_are_named() -> None:
    """A kind or a kernel that is none is an error of its own, at the call."""
    points = np.arange(4.0)
    line, radial = interpolate.interp1d(points, points, "nearest"), interpolate.RBFInterpolator(points[:, None], points)
    object.__setattr__(line, "kind", "other")
    object.__setattr__(radial, "kernel", "other")
    with pytest.raises(errors.ArgumentError, match=r"interp1d: kind is one of .* got 'other'"):
        line(0.5)
    with pytest.raises(errors.ArgumentError, match=r"RBFInterpolator: kernel is one of .* got 'other'"):
        radial([[0.5]])


@together("ends", [2.0, np.array(2.0), [[(0.5, 0.0)], [(2, 0.0)]], [[()], [()]], "periodic"])
def test_ends_of_splines_are_named_or_pairs(ends: Any) -> None:
    """Orders of derivatives are whole numbers beside their values."""
    x = np.arange(8.0)
    with pytest.raises(
        errors.ArgumentError, match=r"make_interp_spline: an end is None, .* or a list of \(order, value\)"
    ):
        interpolate.make_interp_spline(x, x, bc_type=ends)


@together("kind", ["linear", "nearest", "previous", "cubic", 0, 1, 2, 3])
def test_points_in_any_order_are_sorted(kind: Any) -> None:
    """As SciPy's, which `assume_sorted` spares; a kind may be a spline's degree."""
    x, y = np.array([3.0, 0.0, 2.0, 1.0, 4.5]), np.random.default_rng(0).normal(size=(2, 5))
    at = np.linspace(0.0, 4.5, 7)
    wanted = scipy.interpolate.interp1d(x, y, kind)(at)
    for run in (lambda f: f, afx.jit):
        got = run(lambda x, y: interpolate.interp1d(x, y, kind)(at))(x, y)
        np.testing.assert_allclose(np.asarray(got), wanted, rtol=1e-12)
    with pytest.raises(errors.ArgumentError, match="interp1d: points ascend"):
        interpolate.interp1d(x, y, kind, assume_sorted=True)
    slopes = afx.grad(lambda y: afx.sum(interpolate.interp1d(x, y, "linear")(np.array([0.5]))))(y)
    np.testing.assert_array_equal(np.asarray(slopes), np.array([[0, 0.5, 0, 0.5, 0]] * 2))
