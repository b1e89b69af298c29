"""Arguments that no operation can take: each is named, with what it was and what to do."""

import math
from collections.abc import Callable

import numpy as np
import pytest

import afx
from afx import errors, linalg, nn, optim
from tests.ops.samples import together

V = np.array([1.0, 2.0, 3.0])
M = np.arange(9.0).reshape(3, 3)
KEY = afx.random.key(0)

INTEGERS: dict[str, Callable[[], object]] = {
    "eye: k": lambda: afx.eye(3, k=1.5),
    "tri: k": lambda: afx.tri(3, k="a"),
    "tril: k": lambda: afx.tril(M, k=0.5),
    "diag: k": lambda: afx.diag(V, k=None),
    "diagonal: offset": lambda: afx.diagonal(M, 1.5),
    "diff: n": lambda: afx.diff(V, n=1.5),
    "polyder: m": lambda: afx.polyder(V, 0.5),
    "polyint: m": lambda: afx.polyint(V, "a"),
    "vander: N": lambda: afx.vander(V, 2.5),
    "polyfit: deg": lambda: afx.polyfit(V, V, 1.5),
    "top_k: k": lambda: afx.top_k(V, 1.5),
    "tensorinv: ind": lambda: linalg.tensorinv(M, 1.5),
    "rollaxis: start": lambda: afx.rollaxis(M, 0, 1.5),
    "rot90: k": lambda: afx.rot90(M, 1.5),
    "round: decimals": lambda: afx.round(V, 1.5),
    "split: the number of parts": lambda: afx.split(V, 1.5),
    "histogram: bins": lambda: afx.histogram(V, 1.5),
    "linspace: num": lambda: afx.linspace(0, 1, (2, 3)),
    "fft: n": lambda: afx.fft.fft(V, (2, -1)),
    "fftfreq: n": lambda: afx.fft.fftfreq(1.5),
    "vecdot: axis": lambda: afx.vecdot(V, V, axis=None),
    "cross: axis": lambda: afx.cross(V, V, axis="x"),
    "tril_indices: k": lambda: afx.tril_indices(2, 0.5),
    "diag_indices: ndim": lambda: afx.diag_indices(2, 1.5),
}


@together("name", INTEGERS)
def test_integers_are_asked_for(name: str) -> None:
    """Numbers that decide a shape are integers of Python's or NumPy's, and nothing is cut off."""
    with pytest.raises(errors.ArgumentError, match=f"^{name} is an integer: got .*; convert it$"):
        INTEGERS[name]()


MISTAKES: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "nothing to choose from": (lambda: afx.choose([0], []), errors.ArgumentError, "choose: .* got none; give some"),
    "half an index": (lambda: afx.insert(V, 1.5, 2.0), errors.DtypeError, "insert, delete: indices are integers"),
    "half an index of what goes": (
        lambda: afx.delete(V, [1.5]),
        errors.DtypeError,
        "insert, delete: indices are integers",
    ),
    "no rows": (
        lambda: linalg.lu_solve((np.eye(2), np.array([0, 1])), 1.0),
        errors.ShapeError,
        "lu_solve: b has as many rows as lu",
    ),
    "shape of a word": (
        lambda: afx.zeros("a"),
        errors.ArgumentError,
        "zeros: a length of the shape is an integer: got 'a'",
    ),
    "negative length": (lambda: afx.eye(-1), errors.ShapeError, "eye: negative dimensions are not allowed"),
    "half a row": (lambda: afx.tri(2.5), errors.ArgumentError, "tri: a length of the shape is an integer"),
    "half a number": (lambda: afx.linspace(0, 1, 2.5), errors.ArgumentError, "linspace: num is an int"),
    "ends": (
        lambda: afx.linspace(np.ones(3), np.ones(4)),
        errors.ShapeError,
        "linspace: operands could not be broadcast together: got",
    ),
    "place": (lambda: afx.linspace(0, 1, 3, axis=3), errors.ShapeError, "linspace: axis 3 is out of bounds"),
    "several": (
        lambda: afx.arange(np.ones(3)),
        errors.ShapeError,
        r"arange: bounds are single numbers: got float64\[3",
    ),
    "places": (
        lambda: afx.trapezoid(V, np.ones(4)),
        errors.ShapeError,
        r"x is as long as axis 0 of y: got float64\[3\]",
    ),
    "corrections": (lambda: afx.std(V, ddof=1, correction=1), errors.ArgumentError, "std: ddof is another name"),
    "no default dtype": (lambda: afx.set_default_dtype(None), errors.DtypeError, "a real floating one: got None"),
    "a range of one": (lambda: afx.histogram(V, range=3), errors.ArgumentError, "a range is a pair of ends: got 3"),
    "a falling range": (
        lambda: afx.histogram(V, range=(2, -1)),
        errors.ArgumentError,
        "max must be larger than min in range parameter",
    ),
    "one edge": (lambda: afx.histogram(V, bins=(1.5,)), errors.ShapeError, r"two or more: got float64\[1\]"),
    "a short sorter": (lambda: afx.searchsorted(V, 1.5, sorter=[1, 2]), errors.ShapeError, "an index for each element"),
    "two vectors": (lambda: afx.vecmat(V, V), errors.ShapeError, "vecmat: takes vectors and matrices"),
    "and again": (lambda: afx.matvec(V, V), errors.ShapeError, "matvec: takes matrices and vectors"),
    "fewer than no powers": (lambda: afx.vander(V, -1), errors.ArgumentError, "the number of powers is 0 or more"),
    "no period": (lambda: afx.interp(V, V, V, period=0), errors.ArgumentError, "interp: a period is not 0"),
    "a word for a power": (
        lambda: linalg.vector_norm(V, ord="fro"),
        errors.ArgumentError,
        "ord is a number: got 'fro'",
    ),
    "no distance": (lambda: afx.fft.fftfreq(4, 0), errors.ArgumentError, "the distance of samples is real and not 0"),
    "an endless range": (lambda: afx.arange(0, math.inf), errors.ArgumentError, "arange: bounds are finite"),
    "a huge integer": (
        lambda: afx.abs(10**19),
        errors.OperandError,
        "abs: NumPy cannot compute it .Python int too large",
    ),
    "lists": (lambda: afx.select(None, [V]), errors.OperandError, "select: takes lists"),
    "functions": (lambda: afx.piecewise(V, [V > 0], None), errors.OperandError, "piecewise: takes a list of functions"),
    "a mode": (lambda: afx.choose([0], [V], mode="no"), errors.ArgumentError, "'raise', 'wrap' or 'clip': got 'no'"),
    "bits": (lambda: afx.asarray(300, dtype="uint8"), errors.OperandError, "out of bounds for uint8.*that uint8 holds"),
    "a set": (
        lambda: afx.asarray({1}),
        errors.OperandError,
        r"asarray: not an array of numbers: got set \{1\}; give a",
    ),
    "nothing to join": (lambda: afx.concat(afx.zeros(0)), errors.ArgumentError, "concat: need at least one array"),
    "features": (
        lambda: nn.LayerNorm.create(3)(afx.ones((2, 1))),
        errors.ShapeError,
        r"LayerNorm: the last axis has as many features as the scale: got float32\[2,1\]",
    ),
    "labels": (
        lambda: nn.sigmoid_binary_cross_entropy(V, np.array([-1, 1, 1])),
        errors.ArgumentError,
        "targets are probabilities, from 0 to 1: got numbers from -1 to 1",
    ),
    "shares": (lambda: nn.softmax_cross_entropy(M, -M), errors.ArgumentError, "targets are probabilities"),
    "complex shares": (lambda: nn.softmax_cross_entropy(M, 1j * M), errors.DtypeError, "targets are probabilities"),
    "a class": (
        lambda: nn.softmax_cross_entropy(M, np.array([0, 1, 5])),
        errors.IndexRangeError,
        "got 5 for 3 classes",
    ),
    "sizes": (lambda: nn.MLP.create(KEY, 3), errors.ArgumentError, "MLP: needs the sizes of inputs and outputs: got 3"),
    "an activation": (
        lambda: nn.MLP.create(KEY, [2, 3], activation="relu"),
        errors.ArgumentError,
        "MLP: needs a function",
    ),
    "frozen": (lambda: optim.freeze(optim.sgd(0.1), None), errors.ArgumentError, "freeze: needs a mask, or a function"),
    "lengths": (
        lambda: afx.vmap(lambda a, b: a)(M, V[:2]),
        errors.ShapeError,
        "got argument 0 of length 3, argument 1 of length 2",
    ),
    "an axis": (
        lambda: afx.vmap(lambda a, y: y)({"a": V}, y={"b": 1.0}),
        errors.ShapeError,
        r"vmap: argument 'y'\['b'\] has no axis",
    ),
}


@together("name", MISTAKES)
def test_mistakes_are_explained(name: str) -> None:
    """Each raises afx's own error, and nothing is computed."""
    call, kind, words = MISTAKES[name]
    with pytest.raises(kind, match=words):
        call()


@pytest.mark.parametrize("parts", [lambda q: None, lambda q: 3])
def test_freezing_nothing_is_a_mistake(parts: Callable[[object], object]) -> None:
    """A function that forgets to return the parts trains all of them."""
    frozen = optim.freeze(optim.sgd(0.1), parts)
    with pytest.raises(errors.ArgumentError, match=r"freeze: parts returns what is frozen: got .*; return leaves"):
        frozen.step(V, V, frozen.init(V))


def test_a_chain_without_an_optimizer_does_not_step() -> None:
    """Gradients that are clipped still lead uphill; a chain of such rules works inside another one."""
    clipped = optim.chain(optim.clip_by_global_norm(1.0))
    with pytest.raises(
        AttributeError, match=r"chain: there is no step, .*: got ClipByGlobalNorm; end it with scale_by_learning_rate"
    ):
        getattr(clipped, "step")  # noqa: B009 - type checkers refuse the attribute itself
    whole = optim.chain(clipped, optim.sgd(1.0))
    np.testing.assert_allclose(whole.step(V, V, whole.init(V))[0], V - V / np.sqrt(14))
    scaled = optim.chain(optim.clip_by_value(1.0), optim.scale_by_learning_rate(1.0))
    np.testing.assert_allclose(scaled.step(V, V, scaled.init(V))[0], V - 1)


def test_numbers_of_numpy_do_where_an_integer_is_asked_for() -> None:
    """Axes, counts and places."""
    np.testing.assert_array_equal(afx.average(M, axis=np.int64(0)), [3.0, 4.0, 5.0])
    assert len(afx.split(V, np.int64(3))) == 3
    np.testing.assert_array_equal(afx.histogram(V, np.int64(2))[0], [1, 2])
    assert nn.Conv.create(KEY, (np.int64(3),), np.int64(2), np.int64(4)).kernel.shape == (3, 2, 4)


def test_an_integral_along_rows_of_places() -> None:
    """One function, integrated over several sets of places, as NumPy does."""
    np.testing.assert_allclose(afx.trapezoid(V, M), [4.0, 4.0, 4.0])


def test_a_state_of_other_parameters_is_told() -> None:
    """In words of optimizers."""
    optimizer = optim.adam(0.1)
    state = optimizer.init({"w": V})
    with pytest.raises(errors.TreeError, match=r"step: the state is of other parameters .*; call init"):
        optimizer.step(V, V, state)


def test_a_shape_may_be_a_vector() -> None:
    """An array of lengths is a shape, as in NumPy."""
    assert afx.zeros(np.array([2, 3])).shape == afx.full(afx.asarray([2, 3]), 1.0).shape == (2, 3)
    assert afx.indices(np.array([2, 3])).shape == (2, 2, 3)
    with pytest.raises(errors.ArgumentError, match="zeros: a length of the shape is an integer: got"):
        afx.zeros(np.array([2.5]))
