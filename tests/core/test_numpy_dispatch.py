"""NumPy's functions on Arrays are afx's: with NumPy's arguments, derivatives, and no silent detour."""

import contextlib
import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx import Array, errors
from afx.core.numpy_dispatch import _written
from afx.core.numpy_names import SIGNATURES
from tests.every import together

RNG = np.random.default_rng(2)
X = RNG.uniform(0.2, 0.9, size=(3, 4))

CALLS: dict[str, Callable[[Any], Any]] = {
    "sin": np.sin,
    "arctan2": lambda x: np.arctan2(x, 2.0),
    "true_divide": lambda x: np.true_divide(1.0, x),
    "power": lambda x: np.power(x, 3),
    "maximum": lambda x: np.maximum(x, 0.5),
    "of an array and a list": lambda x: np.add([1.0, 2.0, 3.0, 4.0], x),
    "add with dtype": lambda x: np.add(x, 1, dtype=np.float64),
    "array on the left": lambda x: np.ones((3, 4)) * x,
    "scalar on the left": lambda x: np.float64(2.0) - x,
    "matrix on the left": lambda x: np.ones((2, 3)) @ x,
    "comparison": lambda x: np.full((3, 4), 0.5) < x,
    "add.reduce": np.add.reduce,
    "add.reduce over all": lambda x: np.add.reduce(x, axis=None),
    "add.reduce where": lambda x: np.add.reduce(x, where=X > 0.5, initial=2.0),
    "add.accumulate": lambda x: np.add.accumulate(x, axis=1, dtype=np.float64),
    "sum where": lambda x: np.sum(x, axis=0, where=X > 0.5),
    "cov": lambda x: np.cov(x, X, ddof=0),
    "meshgrid": lambda x: np.meshgrid(x[0], x[1], sparse=True)[1],
    "take around": lambda x: np.take(x, [-1, 5], axis=1, mode="wrap"),
    "concatenate a list of numbers": lambda x: np.concatenate([x[0], [0.1, 0.7]]),
    "concatenate with dtype": lambda x: np.concatenate([x, X], dtype=np.float64),
    "stack a list of numbers": lambda x: np.stack([x[0], [0.1, 0.7, 0.2, 0.3]], dtype=np.float64),
    "hstack a number": lambda x: np.hstack([x[0], 0.1]),
    "kind of sort": lambda x: np.sort(x, kind="stable"),
    "overwriting": lambda x: np.median(x * 1.0, axis=0, overwrite_input=True),
    "order": lambda x: np.ravel(x, order="K"),
    "list of a ufunc": lambda x: np.add(x, [0.1, 0.2, 0.3, 0.4]),
    "list of a function": lambda x: np.convolve(x[0], [0.1, 0.7]),
    "list in front": lambda x: np.dot([0.1, 0.7, 0.3], x),
    "list by name": lambda x: np.average(x, axis=1, weights=[0.1, 0.7, 0.3, 0.2]),
    "lists of lists": lambda x: np.kron([[0.1, 0.7], [0.3, 0.2]], x),
    "maximum.reduce": lambda x: np.maximum.reduce(x, axis=1, keepdims=True),
    "multiply.outer": lambda x: np.multiply.outer(x[0], x[:, 0]),
    "sum": np.sum,
    "sum of an axis": lambda x: np.sum(x, 1, keepdims=True),
    "sum with defaults": lambda x: np.sum(x, axis=0, out=None, keepdims=False),
    "mean": lambda x: np.mean(x, 0),
    "var": lambda x: np.var(x, axis=1, ddof=1),
    "std": lambda x: np.std(x, axis=0),
    "prod": lambda x: np.prod(x, axis=-1),
    "amax": lambda x: np.max(x, axis=0),
    "clip": lambda x: np.clip(x, 0.3, 0.6),
    "clip by name": lambda x: np.clip(x, a_min=0.3, a_max=None),
    "where": lambda x: np.where(np.asarray([[True], [False], [True]]), x, 0.0),
    "concatenate": lambda x: np.concatenate([x, np.ones((3, 1))], axis=1),
    "concatenate a tuple": lambda x: np.concatenate((x, x), 0),
    "stack": lambda x: np.stack([x, x], 1),
    "vstack": lambda x: np.vstack([x[0], x]),
    "transpose": np.transpose,
    "transpose axes": lambda x: np.transpose(x, (1, 0)),
    "reshape": lambda x: np.reshape(x, (2, 6)),
    "ravel": np.ravel,
    "squeeze": lambda x: np.squeeze(x[:1]),
    "expand_dims": lambda x: np.expand_dims(x, 1),
    "swapaxes": lambda x: np.swapaxes(x, 0, 1),
    "moveaxis": lambda x: np.moveaxis(x, 0, -1),
    "broadcast_to": lambda x: np.broadcast_to(x, (2, 3, 4)),
    "tile": lambda x: np.tile(x, (1, 2)),
    "repeat": lambda x: np.repeat(x, 2, axis=0),
    "roll": lambda x: np.roll(x, 1, axis=1),
    "flip": lambda x: np.flip(x, 0),
    "rot90": np.rot90,
    "pad": lambda x: np.pad(x, ((1, 0), (0, 2)), mode="edge"),
    "pad with a constant": lambda x: np.pad(x, 1, constant_values=2.0),
    "diag": lambda x: np.diag(x[0], 1),
    "diagonal": lambda x: np.diagonal(x, 1),
    "diagonal of the first axes": lambda x: np.diagonal(np.stack([x, x], 2)),
    "trace": lambda x: np.trace(np.stack([x, x], -1), offset=-1),
    "take": lambda x: np.take(x, [0, 2], axis=1),
    "take_along_axis": lambda x: np.take_along_axis(x, np.zeros((3, 1), int), axis=1),
    "split": lambda x: np.split(x, 2, axis=1)[1],
}


@together("name", CALLS)
def test_numpys_functions_are_afxs(name: str) -> None:
    """NumPy's function gives an Array with NumPy's elements."""
    want = CALLS[name](X)
    got = CALLS[name](afx.asarray(X))
    assert isinstance(got, Array)
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-12)


@together("name", CALLS)
def test_numpys_functions_are_differentiated(name: str) -> None:
    """On traced arrays NumPy's functions have the derivative that differences show, and compile."""
    call = CALLS[name]
    if call(X).dtype == bool:
        assert not np.asarray(afx.grad(lambda x: call(x).sum() + x.sum() * 0.0)(X)).any()
        return
    direction = RNG.normal(size=X.shape)
    step = 1e-6
    want = (call(X + step * direction) - call(X - step * direction)).sum() / (2 * step)
    gradient = afx.grad(lambda x: call(x).sum())(X)
    assert float((gradient * direction).sum()) == pytest.approx(want, rel=1e-6, abs=1e-7)
    np.testing.assert_allclose(np.asarray(afx.jit(call)(X)), call(X), rtol=1e-12)


DETOURS: dict[str, Callable[[Any], Any]] = {
    "np.array of a list": lambda x: np.array([x[0, 0], x[0, 1]]),
    "np.asarray": np.asarray,
    "np.sum of a list": lambda x: np.sum([x, x]),
    "np.full": lambda x: np.full(3, x[0, 0]),
    "np.max of a list": lambda x: np.max([x[0, 0], x[0, 1]]),
    "np.r_": lambda x: np.r_[x[0], x[1]],
    "np.broadcast": lambda x: np.broadcast(x, X),
    "np.vectorize": lambda x: np.vectorize(math.sin)(x),
    "np.require": np.require,
    "np.random": lambda x: np.random.default_rng(0).normal(x),
    "np.polynomial": lambda x: np.polynomial.Polynomial(x[0]),
    "result of a function for each row": lambda x: np.apply_along_axis(lambda v: v * x[0, 0], 0, X),
    "masked where": lambda x: np.ma.masked_where(X > 0.5, x),
    "argument of a method": lambda x: X[0].searchsorted(x[0]),
    "float": lambda x: float(x[0, 0]),
    "np.float64": lambda x: np.float64(x[0, 0]),
    "item": lambda x: x[0, 0].item(),
    "tolist": lambda x: x.tolist(),
    "np.array_repr": np.array_repr,
    "assignment": lambda x: np.zeros((3, 4)).__setitem__(..., x),
    "dlpack": np.from_dlpack,
    "masked array": np.ma.array,
    "object array": lambda x: np.asarray(x, dtype=object),
    "method of an array": lambda x: np.ones(4).dot(x[0]),
}


@together("name", DETOURS)
def test_nothing_detaches_silently(name: str) -> None:
    """Reading the numbers of a traced array raises and names `stop_gradient`; of its plain value it works."""

    def loss(x: Array) -> Array:
        DETOURS[name](x)
        return x.sum()

    with pytest.raises(
        errors.ConcreteValueError, match=r"would not be differentiated: got a traced float64.*stop_gradient"
    ):
        afx.grad(loss)(X)
    afx.grad(lambda x: loss(afx.stop_gradient(x)) + x.sum())(X)


WRITES: dict[str, Callable[[Any], Any]] = {
    "out of a ufunc": lambda x: np.add(np.zeros((3, 4)), 1, out=x),
    "out of a function": lambda x: np.sum(np.zeros((3, 4)), axis=0, out=x[0]),
    "where of a ufunc": lambda x: np.add(x, 1, where=np.ones((3, 4), bool)),
    "copyto": lambda x: np.copyto(x, np.zeros((3, 4))),
    "at": lambda x: np.add.at(x, 0, 1.0),
    "put": lambda x: np.put(x, [0], [1.0]),
}


@pytest.mark.parametrize("name", WRITES)
def test_writing_says_what_to_do_instead(name: str) -> None:
    """Whatever would write into an array raises and says that arrays are immutable."""
    with pytest.raises(errors.ImmutableError, match=r"writes? into an array: afx arrays are immutable; use"):
        WRITES[name](afx.asarray(X))


MISSING: dict[str, tuple[Callable[[Any], Any], str]] = {
    "function": (
        lambda x: np.busday_count(x, x),
        r"np.busday_count: afx has no such function: .*np.asarray\(x\), which has no derivative",
    ),
    "ufunc": (np.isnat, "np.isnat: afx has no such function"),
    "of another module": (np.emath.sqrt, "np.lib.(?:scimath|_scimath_impl).sqrt: afx has no such function"),
    "method of a ufunc": (lambda x: np.add.reduceat(x, [0, 1]), "np.add.reduceat: afx has no such function"),
    "argument": (
        lambda x: np.concatenate([x], casting="no"),
        "np.concatenate: afx's function has no argument casting=",
    ),
    "argument of reduce": (lambda x: np.logical_or.reduce(x, initial=True), "no argument initial="),
    "argument of accumulate": (lambda x: np.maximum.accumulate(x, dtype=float), "no argument dtype="),
    "casting": (lambda x: np.add(x, 1, casting="unsafe"), "np.add: afx's function has no argument casting="),
}


@pytest.mark.parametrize("name", MISSING)
def test_what_is_missing_raises(name: str) -> None:
    """What afx lacks raises with the function's name and the way out."""
    call, message = MISSING[name]
    with pytest.raises(errors.OperandError, match=message):
        call(afx.asarray(X))


def test_questions_of_shape_need_no_values() -> None:
    """`np.shape`, `np.ndim`, `np.size`, `np.result_type` work on traced arrays."""
    seen: list[Any] = []
    ask = lambda x: (seen.append((np.shape(x), np.ndim(x), np.size(x), np.size(x, 1), np.result_type(x, 1.0))), x)[
        1
    ]  # a line of its own
    afx.jit(ask)(X)
    ask(afx.asarray(X))
    assert seen == [((3, 4), 2, 12, 4, np.float64)] * 2
    assert np.isrealobj(afx.asarray(X))


def test_comparisons_of_values_work_on_plain_arrays() -> None:
    """`np.allclose` and `np.array_equal` read plain arrays, also in sequences; testing tools work."""
    x = afx.asarray(X)
    assert np.allclose(x, X)
    assert np.array_equal([x, x], np.stack([X, X]))
    np.testing.assert_allclose(x, X)  # what NumPy's stubs leave out


def test_divmod_gives_both() -> None:
    """`np.divmod` and Python's give quotient and remainder."""
    for got in (np.divmod(afx.asarray([7, -7]), 3), divmod(afx.asarray([7, -7]), 3)):
        np.testing.assert_array_equal(np.asarray(afx.stack(got)), [[2, -3], [1, 2]])


def test_dispatch_under_vmap() -> None:
    """NumPy's functions batch."""
    got = afx.vmap(lambda x: np.concatenate([x, np.flip(x)]))(X)
    np.testing.assert_array_equal(np.asarray(got), np.concatenate([X, X[:, ::-1]], axis=1))


@together("name", SIGNATURES)
def test_written_signatures_are_numpys(name: str) -> None:
    """What older NumPy does not tell of its functions in C is what newer NumPy tells."""
    written = _written(name)
    assert written is not None
    with contextlib.suppress(ValueError):  # older NumPy
        told = inspect.signature(getattr(np, name))
        assert [(p.name, p.kind) for p in told.parameters.values()] == [
            (p.name, p.kind) for p in written.parameters.values()
        ]


def test_a_dtype_of_truth_values_converts_no_operand() -> None:
    """``dtype=bool`` of a test is that of its result: nan is not made True first."""
    x = np.array([1.0, np.nan, -np.inf, 2.0])
    for ufunc in (np.isnan, np.isfinite, np.isinf, np.signbit, np.logical_not):
        np.testing.assert_array_equal(ufunc(afx.asarray(x), dtype=bool), ufunc(x, dtype=bool))
    for binary in (np.equal, np.not_equal, np.less, np.greater_equal, np.logical_and):
        np.testing.assert_array_equal(binary(afx.asarray(x), 2.0, dtype=bool), binary(x, 2.0, dtype=bool))
    assert np.bitwise_and(afx.asarray([2]), 3, dtype=np.int64).tolist() == [2]
