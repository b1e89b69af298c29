"""NumPy's positional forms: what NumPy takes by position, afx takes by position, and means the same."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx import errors
from tests.ops.samples import together

X = np.array([[3.0, 1.0, 2.0], [6.0, 5.0, 4.0]])
V = np.array([1.0, 2.0, 4.0])
N = np.array([[np.nan, 1.0], [2.0, 3.0]])
I = np.array([1, 0])  # noqa: E741  # indices
Z = X + 1j

# Each calls a namespace with all of NumPy's positions filled.
FORMS: dict[str, Callable[[Any], Any]] = {
    "all": lambda m: m.all(X > 1, 0, None, True),
    "any": lambda m: m.any(X > 5, 1, None, True),
    "argmax": lambda m: m.argmax(X, 1, None),
    "argmin": lambda m: m.argmin(X, 0, None),
    "argsort": lambda m: m.argsort(X, 0, "stable", None),
    "around": lambda m: m.around(X / 3, 2, None),
    "broadcast_to": lambda m: m.broadcast_to(V, (2, 3), False),
    "choose": lambda m: m.choose(I, [V[:2], V[1:]], None, "clip"),
    "clip": lambda m: m.clip(X, 2, 5, None),
    "compress": lambda m: m.compress([True, False], X, 0, None),
    "concatenate": lambda m: m.concatenate([X, X], 1, None),
    "concat": lambda m: m.concat([X, X], 1),
    "copy": lambda m: m.copy(X, "C", False),
    "cov": lambda m: m.cov(X, None, True, True, 0, [1, 2, 1], [1.0, 2.0, 1.0]),
    "cross": lambda m: m.cross(np.stack([V, V[::-1]], 1), np.stack([V, V * V], 1), 0, 0, 1),
    "cumprod": lambda m: m.cumprod(X, 1, np.float64, None),
    "cumsum": lambda m: m.cumsum(X, 0, np.float64, None),
    "dot": lambda m: m.dot(X, V, None),
    "empty_like": lambda m: m.empty_like(X, np.int64, "C", True, (0, 2)),
    "eye": lambda m: m.eye(2, 3, 1, np.float64, "C"),
    "full": lambda m: m.full((2, 1), 7.0, np.float64, "C"),
    "full_like": lambda m: m.full_like(X, 7.0, np.int64, "K", True, (3,)),
    "geomspace": lambda m: m.geomspace(1.0, 8.0, 3, False, np.float64, 0),
    "isneginf": lambda m: m.isneginf(X, None),
    "isposinf": lambda m: m.isposinf(X, None),
    "linspace": lambda m: m.linspace(0.0, 1.0, 4, False, True, np.float64, 0),
    "logspace": lambda m: m.logspace(0.0, 2.0, 3, True, 2.0, np.float64, 0),
    "max": lambda m: m.max(X, 0, None, True, 5.0, X > 2),
    "mean": lambda m: m.mean(X, 1, np.float64, None, True),
    "median": lambda m: m.median(X, 1, None, False, True),
    "min": lambda m: m.min(X, 0, None, True, 5.0, X > 2),
    "nan_to_num": lambda m: m.nan_to_num(N / 0, False, 1.0, 2.0, 3.0),
    "nanargmax": lambda m: m.nanargmax(N, 1, None),
    "nanargmin": lambda m: m.nanargmin(N, 0, None),
    "nancumprod": lambda m: m.nancumprod(N, 0, np.float64, None),
    "nancumsum": lambda m: m.nancumsum(N, 1, np.float64, None),
    "nanmax": lambda m: m.nanmax(N, 0, None, True, 5.0, N > 2),
    "nanmean": lambda m: m.nanmean(N, 0, np.float64, None, True),
    "nanmedian": lambda m: m.nanmedian(N, 0, None, False, True),
    "nanmin": lambda m: m.nanmin(N, 0, None, True, 5.0, N > 2),
    "nanpercentile": lambda m: m.nanpercentile(N, 30.0, 0, None, False, "lower", True),
    "nanprod": lambda m: m.nanprod(N, 0, np.float64, None, True, 2.0, N > 1),
    "nanquantile": lambda m: m.nanquantile(N, 0.3, 0, None, False, "lower", True),
    "nanstd": lambda m: m.nanstd(N, 0, np.float64, None, 0, True),
    "nansum": lambda m: m.nansum(N, 0, np.float64, None, True, 2.0, N > 1),
    "nanvar": lambda m: m.nanvar(N, 1, np.float64, None, 0, True),
    "ones": lambda m: m.ones((2,), np.int64, "F"),
    "ones_like": lambda m: m.ones_like(X, np.int64, "C", True, (2, 2)),
    "outer": lambda m: m.outer(V, V, None),
    "partition": lambda m: m.sort(m.partition(V, 1, 0, "introselect", None)),
    "percentile": lambda m: m.percentile(X, 30.0, 1, None, False, "higher", True),
    "prod": lambda m: m.prod(X, 0, np.float64, None, True, 2.0, X > 2),
    "ptp": lambda m: m.ptp(X, 0, None, True),
    "quantile": lambda m: m.quantile(X, 0.3, 1, None, False, "higher", True),
    "ravel": lambda m: m.ravel(X, "F"),
    "ravel of C": lambda m: m.ravel(X, "K"),
    "ravel_multi_index": lambda m: m.ravel_multi_index((I, I), (2, 3), "raise", "F"),
    "reshape": lambda m: m.reshape(X, (3, -1), "F"),
    "round": lambda m: m.round(X / 3, 1, None),
    "searchsorted": lambda m: m.searchsorted(V[::-1], X, "right", [2, 1, 0]),
    "sort": lambda m: m.sort(X, 0, "stable", None),
    "stack": lambda m: m.stack([V, V], 1, None),
    "std": lambda m: m.std(X, 0, np.float64, None, 1, True),
    "sum": lambda m: m.sum(X, 0, np.float64, None, True, 2.0, X > 2),
    "take": lambda m: m.take(X, [1, 5], 1, None, "wrap"),
    "trace": lambda m: m.trace(np.stack([X, X, X]), 1, 0, 2, np.float64, None),
    "trace of lists": lambda m: m.trace([[1, 2], [3, 4]]),
    "tri": lambda m: m.tri(2, 3, 1, np.float64),
    "unravel_index": lambda m: m.unravel_index(I, (2, 3), "F"),
    "vander": lambda m: m.vander(V, 2, True),
    "var": lambda m: m.var(X, 0, np.float64, None, 1, True),
    "where": lambda m: m.where(X > 2),
    "zeros": lambda m: m.zeros((2, 1), np.float64, "C"),
    "zeros_like": lambda m: m.zeros_like(X, np.int64, "C", True, 3),
    "array": lambda m: m.array(V, np.float64, copy=True, order="C", subok=False, ndmin=3),
    "asarray": lambda m: m.asarray(X, np.float64, "C"),
    **{
        f"fft.{name}": functools.partial(lambda name, m: getattr(m.fft, name)(X, None, -1, None), name)
        for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
    },
    **{
        f"fft.{name}": functools.partial(lambda name, m: getattr(m.fft, name)(Z, None, (0, 1), None), name)
        for name in ("fftn", "ifftn", "irfftn", "fft2", "ifft2", "irfft2")
    },
    "fft.rfftn": lambda m: m.fft.rfftn(X, None, (0, 1), "ortho"),
    "fft.rfft2": lambda m: m.fft.rfft2(X, None, (0, 1), None),
    "fft.fftfreq": lambda m: m.fft.fftfreq(4, 0.5, "cpu") * 1.0,
    "fft.rfftfreq": lambda m: m.fft.rfftfreq(4, 0.5, "cpu") * 1.0,
}


def leaves(value: Any) -> list[Any]:
    """Return the arrays of a result."""
    return list(value) if isinstance(value, (tuple, list)) else [value]


@together("name", FORMS)
def test_positional_forms_mean_what_they_mean_in_numpy(name: str) -> None:
    """A call with NumPy's positional arguments gives NumPy's values, shapes and dtypes."""
    with np.errstate(all="ignore"), afx.default_dtype("float64"):
        got, expected = leaves(FORMS[name](afx)), leaves(FORMS[name](np))
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        assert isinstance(a, afx.Array)
        assert (a.shape, a.dtype) == (np.shape(b), np.asarray(b).dtype)
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-14, atol=1e-15)


SAME = {"a_min": "min", "a_max": "max"}
BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
OTHERWISE = {"fix": "elementwise: these take operands alone", "trace": "takes functions too"}


def positions(fn: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the arguments that a function takes by position."""
    return [p for p in inspect.signature(fn).parameters.values() if p.kind in BY_PLACE]


def functions(theirs: Any, ours: Any) -> list[tuple[str, Any, Any]]:
    """Return the functions of a namespace of NumPy that afx has too, but for ufuncs."""
    found = [(name, getattr(theirs, name), getattr(ours, name, None)) for name in sorted(dir(theirs))]
    return [
        (name, a, b)
        for name, a, b in found
        if not name.startswith("_") and callable(a) and not isinstance(a, (type, np.ufunc)) and callable(b)
    ]


def test_no_position_of_numpy_is_missing() -> None:
    """Every optional argument that a NumPy function takes by position stands at that place in afx's."""
    wrong: list[str] = []
    for theirs, ours in ((np, afx), (np.linalg, afx.linalg), (np.fft, afx.fft)):
        for name, a, b in functions(theirs, ours):
            try:
                expected = positions(a)
            except ValueError:  # functions in C say nothing before NumPy 2.4
                continue
            mine = positions(b)
            for place, parameter in enumerate(expected):
                if name in OTHERWISE or parameter.default is inspect.Parameter.empty:
                    continue
                if place >= len(mine) or mine[place].name != SAME.get(parameter.name, parameter.name):
                    wrong.append(f"{theirs.__name__}.{name}: {parameter.name} at {place}")
    assert not wrong


OUT: dict[str, Callable[[Any], Any]] = {
    "any": lambda out: afx.any(X, out=out),
    "concat": lambda out: afx.concat([X], 0, out),
    "fft": lambda out: afx.fft.fft(X, out=out),
    "sum": lambda out: afx.sum(X, 0, None, out),
    "take": lambda out: afx.take(X, [0], 0, out),
    "trace": lambda out: afx.trace(X, out=out),
}


@pytest.mark.parametrize("name", OUT)
def test_nothing_is_written(name: str) -> None:
    """``out=None`` says nothing; an array to write into is refused."""
    OUT[name](None)
    with pytest.raises(errors.ImmutableError, match="writes into an array"):
        OUT[name](np.zeros(3))


def untyped(value: Any) -> Any:
    """Return a value that type checkers would refuse."""
    return value


WRONG: dict[str, Callable[[], Any]] = {
    "order of zeros": lambda: afx.zeros(2, order=untyped("X")),
    "order of reshape": lambda: afx.reshape(X, (3, 2), order=untyped("K")),
    "order of sort": lambda: afx.sort(X, order=untyped("field")),
    "kind of sort": lambda: afx.sort(X, kind=untyped("bubble")),
    "kind of partition": lambda: afx.partition(X, 0, kind=untyped("quicksort")),
    "ties": lambda: afx.sort(X, ties=untyped("none")),
    "half of where": lambda: afx.where(X > 0, untyped(X)),
    "trace of a number": lambda: afx.trace(untyped(3.0)),
    "trace of a vector": lambda: afx.trace(untyped(V)),
}


@pytest.mark.parametrize("name", WRONG)
def test_nonsense_is_refused(name: str) -> None:
    """Neutral options take NumPy's words alone."""
    with pytest.raises(errors.ArgumentError):
        WRONG[name]()


def test_trace_tells_functions_from_arrays() -> None:
    """`afx.trace` of a function makes its graph, of a matrix it is the trace, which differentiates."""
    assert afx.trace(lambda x: x + 1.0)(V).outputs
    np.testing.assert_array_equal(np.asarray(afx.grad(afx.trace)(X)), [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])


def test_ties_in_one_order() -> None:
    """``sort(x, ties="order")`` gives tied elements the derivative of their own place, where the default shares it."""
    x, w = np.array([2.0, 1.0, 2.0, 1.0]), np.array([1.0, 2.0, 3.0, 4.0])
    shared = afx.grad(lambda x: afx.sum(afx.sort(x) * w))(x)
    ordered = afx.grad(lambda x: afx.sum(afx.sort(x, ties="order") * w))(x)
    falling = afx.grad(lambda x: afx.sum(afx.sort(x, descending=True, ties="order") * w))(x)
    assert shared.tolist() == [3.5, 1.5, 3.5, 1.5]
    assert ordered.tolist() == [3.0, 1.0, 4.0, 2.0]
    assert falling.tolist() == [1.0, 3.0, 2.0, 4.0]
    _, tangent = afx.jvp(lambda x: afx.sort(x, ties="order"), (x,), (w,))
    assert tangent.tolist() == [2.0, 4.0, 1.0, 3.0]
