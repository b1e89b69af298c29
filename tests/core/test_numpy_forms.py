"""NumPy's forms: calls and methods as NumPy's users write them give NumPy's values, traced and not."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx.errors import ArgumentError, ConcreteValueError, ImmutableError, OperandError, ShapeError
from tests.every import together

X = np.array([0.3, -0.5, 1.2, 2.0, -0.1, 0.7])
M = X.reshape(2, 3)

# Each takes x and a namespace: NumPy's, or afx's of the same names.
FORMS: dict[str, Callable[[Any, Any], Any]] = {
    "r_": lambda x, m: m.r_[x, x],
    "r_ of numbers and lists": lambda x, m: m.r_[x, 1.5, [2.0, 3.0]],
    "r_ of ranges": lambda x, m: m.r_[1:4, x, 0:1:5j],
    "r_ along another axis": lambda x, m: m.r_["0,2", x, x],
    "r_ of columns": lambda x, m: m.r_["0,2,0", x, x],
    "r_ of matrices": lambda x, m: m.r_["-1", x.reshape(2, 3), x.reshape(2, 3)],
    "c_": lambda x, m: m.c_[x, x**2],
    "c_ beside a list": lambda x, m: m.c_[x.reshape(2, 3), [1.0, 2.0]],
    "atleast_1d of several": lambda x, m: m.concatenate(m.atleast_1d(x, 2.0)),
    "atleast_2d of several": lambda x, m: m.concatenate(m.atleast_2d(x, x)),
    "atleast_3d of several": lambda x, m: m.concatenate(m.atleast_3d(x, x)),
    "broadcast_arrays with a list": lambda x, m: m.concatenate(m.broadcast_arrays([[1.5], [2.0]], x)),
    "meshgrid with a list": lambda x, m: m.concatenate(m.meshgrid(x, [1.5, 2.0])),
    "clip by a_min, a_max": lambda x, m: m.clip(x, a_min=0.0, a_max=1.0),
    "clip by a_max": lambda x, m: m.clip(x, None, a_max=1.0) if m is afx else m.clip(x, None, 1.0),
    "sum": lambda x, m: x.sum(0, None, None),
    "sum in a dtype": lambda x, m: x.sum(axis=None, dtype=np.float64, out=None),
    "mean": lambda x, m: x.mean(None, None, None),
    "std": lambda x, m: x.std(None, None, None, ddof=1),
    "var": lambda x, m: x.var(axis=0, dtype=None, out=None),
    "max": lambda x, m: x.max(None, None),
    "clip": lambda x, m: x.clip(0.0, 1.0, out=None),
    "dot": lambda x, m: x.dot(x, out=None),
    "round": lambda x, m: x.round(1, None) + x,
    "take": lambda x, m: x.take([0, 2], None, None, mode="wrap"),
    "trace": lambda x, m: x.reshape(2, 3).trace(0, 0, 1, None, None),
    "columns first": lambda x, m: x.reshape((2, 3), order="F").ravel("F") * x.reshape(2, 3).flatten("F"),
    "shape of columns": lambda x, m: x.reshape(3, 2, order="F"),
    "argsort": lambda x, m: x[x.argsort(kind="stable")],
}
WINDOWS: dict[str, tuple[Any, ...]] = {
    "vector": (X, 3),
    "both axes": (M, (2, 2)),
    "one axis": (M, 2, 1),
    "the first axis": (M, 2, 0),
    "an axis twice": (X, (2, 3), (0, 0)),
    "whole": (M, (2, 3)),
}


def _total(z: Any) -> Any:
    return afx.sum(z * afx.reshape(np.cos(np.arange(z.size)), z.shape))


@together("form", FORMS)
def test_forms_are_numpys(form: str) -> None:
    """A form gives NumPy's value plain, compiled and under a gradient, which is that of finite differences."""
    fn = FORMS[form]
    want = fn(X, np)
    for run in (lambda x: fn(x, afx), afx.jit(lambda x: fn(x, afx))):
        found = run(afx.asarray(X))
        assert found.dtype == want.dtype
        np.testing.assert_allclose(np.asarray(found), want, rtol=1e-15)
    afx.testing.check_grads(lambda x: _total(fn(x, afx)), (X,), order=1)


@pytest.mark.parametrize("case", WINDOWS)
def test_sliding_windows(case: str) -> None:
    """Windows are NumPy's, by NumPy's name and afx's, plain, compiled, batched and under gradients of every mode."""
    x, *args = WINDOWS[case]
    view = np.lib.stride_tricks.sliding_window_view
    want = view(x, *args)
    for run in (lambda y: view(y, *args), lambda y: afx.sliding_window_view(y, *args)):
        for call in (run, afx.jit(run)):
            assert np.array_equal(np.asarray(call(afx.asarray(x))), want)
    both = np.stack([x, 2 * x])
    assert np.array_equal(np.asarray(afx.vmap(lambda y: afx.sliding_window_view(y, *args))(both)), [want, 2 * want])
    afx.testing.check_grads(lambda y: _total(afx.sliding_window_view(y, *args) ** 2), (x,), order=2)


def test_windows_that_do_not_fit_are_refused() -> None:
    """A window that is too long, or not one for each axis, is named."""
    with pytest.raises(ShapeError, match="longer than the array"):
        afx.sliding_window_view(X, 7)
    with pytest.raises(ArgumentError, match="one length for each axis"):
        afx.sliding_window_view(M, 2)


def test_a_bound_has_one_name() -> None:
    """A bound that is given by both of its names is refused."""
    with pytest.raises(ArgumentError, match="twice"):
        afx.clip(X, 0.0, a_min=0.0)


def test_matrices_are_refused() -> None:
    """``r_`` does not make matrices."""
    with pytest.raises(ArgumentError, match="matrices"):
        _ = afx.r_["r", X, X]


METHODS = [
    name
    for name in dir(np.ndarray)
    if not name.startswith("_") and callable(inspect.getattr_static(afx.Array, name, None))
]


@pytest.mark.parametrize("method", METHODS)
def test_methods_take_the_arguments_of_numpys(method: str) -> None:
    """A method of both takes NumPy's arguments in NumPy's order; what cannot be taken is listed here."""
    left_out = {
        "astype": {"order", "casting", "subok"},
        "partition": {"kind", "order"},
        "argpartition": {"kind", "order"},
    }
    other_names = {"searchsorted": {"v": "values", "sorter": ""}}
    try:
        theirs = list(inspect.signature(getattr(np.ndarray, method)).parameters.values())
    except ValueError:  # NumPy's methods do not say before NumPy 2.4
        pytest.skip("NumPy does not tell the signature")
    ours = list(inspect.signature(getattr(afx.Array, method)).parameters)
    places = [p.name for p in theirs if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    named = [other_names.get(method, {}).get(name, name) for name in places if name not in left_out.get(method, ())]
    wanted = [name for name in named if name]
    assert [name for name in ours if name in wanted] == wanted
    keywords = {p.name for p in theirs if p.kind is p.KEYWORD_ONLY}
    assert keywords <= set(ours)


@pytest.mark.parametrize("method", ["sum", "mean", "max", "clip", "dot", "cumsum", "any", "argmax", "choose"])
def test_a_target_is_refused(method: str) -> None:
    """A method that is told where to write says that arrays are immutable."""
    x = afx.asarray([1, 0])
    args = {"dot": (x,), "choose": ([x, x],)}.get(method, ())
    with pytest.raises(ImmutableError, match=f"{method}: out= writes into an array"):
        getattr(x, method)(*args, out=np.zeros(2))


def test_bytes_strides_and_items() -> None:
    """What NumPy's users read of memory is there; of a traced array the values are not."""
    x = afx.asarray(M)
    assert (x.tobytes(), x.strides, x.item(4), x.item(1, 2)) == (M.tobytes(), M.strides, M.item(4), M.item(1, 2))
    assert x.T.tobytes() == M.T.tobytes()
    assert x.view("int64").tolist() == M.view("int64").tolist()
    assert x.view(np.uint8).shape == M.view(np.uint8).shape
    with pytest.raises(OperandError, match=r"view: .* use astype"):
        x[:, :1].view(np.complex128)
    with pytest.raises(ConcreteValueError, match="view"):
        afx.grad(lambda x: afx.sum(x.view("int64")))(x)
    with pytest.raises(ConcreteValueError, match="strides"):
        afx.jit(lambda y: y * y.strides[0])(x)
