"""An Array is immutable, reads as NumPy's, and takes part in Python as numbers do."""

import copy
import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import afx
from afx import Array, errors
from tests.every import together

X = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


# -- immutability -----------------------------------------------------------------------------------------------------
def test_assignment_shows_the_functional_way() -> None:
    """Item assignment and deletion raise; the error shows the update to write."""
    x: Any = afx.asarray(X)
    with pytest.raises(errors.ImmutableError, match=r"x = x.at\[0, 1:\].set\(…\)"):
        x[0, 1:] = 5.0
    with pytest.raises(errors.ImmutableError, match="cannot be deleted"):
        del x[0]
    np.testing.assert_array_equal(np.asarray(x), X)


def test_attributes_cannot_be_set() -> None:
    """Shape and dtype cannot be assigned, and no attribute can be added."""
    x: Any = afx.asarray(X)
    for name in ("shape", "dtype", "T", "colour"):
        with pytest.raises(AttributeError):
            setattr(x, name, 1)


def test_in_place_operators_rebind() -> None:
    """``x += 1`` gives the name a new array; other names keep the old one."""
    x = y = afx.asarray(X)
    x += 1
    np.testing.assert_array_equal(np.asarray(y), X)
    np.testing.assert_array_equal(np.asarray(x), X + 1)


def test_sources_are_copied() -> None:
    """Writing into the source afterwards changes nothing, nor does writing into a view of it."""
    source = X.copy()
    x = afx.asarray(source[:, 1:])
    source[:] = 0
    np.testing.assert_array_equal(np.asarray(x), X[:, 1:])


def test_views_are_read_only_and_uncopied() -> None:
    """`np.asarray` shares memory and cannot be written, nor made writable; taken back it is not copied."""
    x = afx.asarray(X)
    view = np.asarray(x)
    assert np.shares_memory(view, np.asarray(x))
    assert np.shares_memory(view, np.asarray(afx.asarray(view)))
    with pytest.raises(ValueError, match="read-only"):
        view[0, 0] = 9
    with pytest.raises(ValueError, match="WRITEABLE"):
        view.flags.writeable = True
    for part in (x[0], x.T, x.reshape(-1), afx.asarray(1.0) + 1):
        assert not np.asarray(part).flags.writeable
    copied = np.array(x)
    copied[0, 0] = 9
    assert float(x[0, 0]) == 1


def test_conversion_by_numpy() -> None:
    """`np.asarray` converts dtypes by copying, and says so where copying is forbidden."""
    x = afx.asarray(X)
    assert np.asarray(x, np.float32).dtype == np.float32
    with pytest.raises(errors.OperandError, match="drop copy=False"):
        np.asarray(x, np.float32, copy=False)
    np.testing.assert_array_equal(np.from_dlpack(x), X)


def test_arrays_are_not_constructed() -> None:
    """``Array(…)`` raises and names `asarray`."""
    with pytest.raises(TypeError):
        Array([1.0])  # the mistake is the subject
    with pytest.raises(errors.OperandError, match=r"call afx.asarray"):
        Array()


# -- what it is -------------------------------------------------------------------------------------------------------
def test_attributes() -> None:
    """Shape, dtype and sizes are NumPy's."""
    x = afx.asarray(X)
    assert (x.shape, x.dtype, x.ndim, x.size, x.nbytes, x.itemsize) == (X.shape, X.dtype, 2, 6, 48, 8)
    assert (len(x), x.device, str(x.aval)) == (2, "cpu", "float64[2,3]")
    assert x.__array_namespace__() is afx
    np.testing.assert_array_equal(np.asarray(x.T), X.T)
    np.testing.assert_array_equal(np.asarray(x.mT), X.T)


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint64", "float16", "float32", "float64", "complex64", "complex128"]
)
def test_dtypes_are_kept(dtype: str) -> None:
    """Data keep their dtype through conversion, arithmetic with themselves, pickling and back."""
    x = afx.asarray(np.ones(2, dtype))
    assert x.dtype == dtype
    assert (x[:1].reshape(1, 1)).dtype == dtype
    assert pickle.loads(pickle.dumps(x)).dtype == dtype
    assert np.asarray(x).dtype == dtype


def test_representations() -> None:
    """The repr shows values and dtype, and the shape of what is empty; notebooks get the same, escaped."""
    assert repr(afx.asarray([1.0, 2.5])) == "Array([1. , 2.5], dtype=float32)"
    assert repr(afx.asarray(X)).splitlines()[1] == "       [4., 5., 6.]], dtype=float64)"
    assert repr(afx.zeros((0, 3))) == "Array([], shape=(0, 3), dtype=float32)"
    assert str(afx.asarray([1.0, 2.5])) == "[1.  2.5]"
    assert f"{afx.asarray(2.5):.3f} {afx.asarray(2)}" == "2.500 2"
    assert "float64[2,3]" in afx.asarray(X)._repr_html_()


def test_copies_and_pickles() -> None:
    """Copies are the array itself; a pickle restores an equal one."""
    x = afx.asarray(X)
    assert copy.copy(x) is x
    assert copy.deepcopy(x) is x
    assert x.copy() is x
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(x, protocol))
        assert type(again) is Array
        np.testing.assert_array_equal(np.asarray(again), X)


@together("shape", [(), (3,), (2, 3)])
def test_a_number_is_in_an_array_where_an_element_equals_it(shape: tuple[int, ...]) -> None:
    """Of any shape, as in NumPy."""
    x = np.full(shape, 2.0)
    for number in (2, 2.0, np.float32(2.0), 3.0, np.nan):
        assert (number in afx.asarray(x)) is (number in x)
    assert afx.asarray(2.0) in afx.asarray(x)
    assert "a" not in afx.asarray(x)
    with pytest.raises(errors.ConcreteValueError, match="in jit"):
        afx.jit(lambda x: 2.0 in x)(x)


def test_iteration_and_length() -> None:
    """Arrays iterate over their first axis; 0-d arrays refuse and say what to use."""
    rows = list(afx.asarray(X))
    assert [type(row) for row in rows] == [Array, Array]
    np.testing.assert_array_equal(np.asarray(rows[1]), X[1])
    (a, b, c) = afx.asarray(X[0])
    assert (float(a), float(b), float(c)) == (1, 2, 3)
    assert list(afx.zeros((0, 2))) == []
    with pytest.raises(TypeError, match=r"len: an unsized object .* x.item\(\)"):
        len(afx.asarray(1.0))
    with pytest.raises(TypeError, match="iter: iteration over a 0-d array"):
        iter(afx.asarray(1.0))


def test_numbers() -> None:
    """One element converts to Python's numbers; several refuse with what to do."""
    one = afx.asarray(np.array([[2.75]]))
    assert (float(one), int(one), complex(one), bool(one), one.item()) == (2.75, 2, 2.75 + 0j, True, 2.75)
    assert round(one, 1) == 2.8
    assert afx.asarray(X).tolist() == X.tolist()
    assert [10, 20, 30][afx.asarray(1)] == 20
    many = afx.asarray(X)
    for convert in (float, int, complex, bool, Array.item):
        with pytest.raises(TypeError, match=r"got float64\[2,3\]; "):
            convert(many)
    with pytest.raises(TypeError):
        operator.index(afx.asarray(1.5))


def test_equality_is_elementwise_and_nothing_hashes() -> None:
    """``==`` compares elements, so that arrays have no hash."""
    x = afx.asarray(X)
    np.testing.assert_array_equal(np.asarray(x == 2), X == 2)
    np.testing.assert_array_equal(np.asarray(x != X + 0), np.zeros((2, 3), bool))
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)


# -- operators --------------------------------------------------------------------------------------------------------
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    name: getattr(operator, name)
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "le", "gt", "ge", "eq", "ne")
}
OTHERS: dict[str, Any] = {
    "array": X[::-1] + 0.5,
    "row": X[0],
    "0-d": np.array(2.0),
    "scalar": np.float64(3.0),
    "int": 3,
    "float": 1.5,
    "integers": np.arange(1, 4),
}


@together("name", BINARY)
@together("other", OTHERS)
def test_operators_on_both_sides(name: str, other: str) -> None:
    """Each operator takes Arrays, NumPy's arrays and numbers on either side, and gives an Array of NumPy's elements."""
    fn, y = BINARY[name], OTHERS[other]
    x = afx.asarray(X)
    for got, want in ((fn(x, y), fn(X, y)), (fn(y, x), fn(y, X)), (fn(x, afx.asarray(y)), fn(X, np.asarray(y)))):
        assert type(got) is Array
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-12)


def test_integer_and_boolean_operators() -> None:
    """Bitwise operators and shifts work on integers and masks, on both sides."""
    i, n = afx.asarray([1, 2, 3]), np.array([1, 2, 3])
    for fn in (operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift):
        np.testing.assert_array_equal(np.asarray(fn(i, 2)), fn(n, 2))
        np.testing.assert_array_equal(np.asarray(fn(n, i)), fn(n, n))
    np.testing.assert_array_equal(np.asarray(~(i > 1) | (i == 3)), [True, False, True])


def test_unary_operators() -> None:
    """Minus, plus and abs are elementwise."""
    x = afx.asarray(-X)
    for fn in (operator.neg, operator.pos, abs):
        np.testing.assert_array_equal(np.asarray(fn(x)), fn(-X))


def test_matrix_products_on_both_sides() -> None:
    """``@`` takes NumPy's arrays left and right."""
    x = afx.asarray(X)
    for got, want in ((x @ X.T, X @ X.T), (X.T @ x, X.T @ X), (x @ X[0], X @ X[0])):
        assert type(got) is Array
        np.testing.assert_allclose(np.asarray(got), want)


def test_strange_operands_are_refused() -> None:
    """Operands that are no arrays or numbers raise and name `asarray`."""
    for other in ("a", None, {"a": 1}):
        with pytest.raises(TypeError, match=r"convert it with afx.asarray"):
            afx.asarray(X) + other  # the mistake is the subject


METHODS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum(axis=0, keepdims=True),
    "mean": lambda x: x.mean(1),
    "var": lambda x: x.var(axis=1, ddof=1),
    "std": lambda x: x.std(0),
    "sum where": lambda x: x.sum(axis=1, where=X > 2, initial=3.0),
    "mean where": lambda x: x.mean(where=X > 2, dtype=np.float64),
    "var where": lambda x: x.var(0, where=X > 0),
    "max where": lambda x: x.max(axis=0, where=X < 3, initial=-1.0),
    "all where": lambda x: (x > 2).all(where=X > 2),
    "cumsum": lambda x: x.cumsum(1, dtype=np.float64),
    "compress": lambda x: x.compress([True, False, True], axis=1),
    "choose": lambda x: (x > 2).astype(np.int64).choose([x, 9.0]),
    "nonzero": lambda x: (x - 1).nonzero()[1],
    "searchsorted": lambda x: x[0].searchsorted(1.5, side="right"),
    "argpartition": lambda x: x.argpartition(1, axis=1)[:, 1],
    "conjugate": lambda x: x.conjugate(),
    "divmod": lambda x: divmod(7.0, x)[1],
    "prod": lambda x: x.prod(),
    "max": lambda x: x.max(axis=0),
    "min": lambda x: x.min(),
    "all": lambda x: (x > 2).all(axis=0),
    "any": lambda x: (x > 2).any(1),
    "clip": lambda x: x.clip(2, 4),
    "reshape": lambda x: x.reshape(3, 2),
    "reshape by a tuple": lambda x: x.reshape((3, -1)),
    "transpose": lambda x: x.transpose(1, 0),
    "transpose all": lambda x: x.transpose(),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "flatten": lambda x: x.flatten(),
    "ravel": lambda x: x.ravel(),
    "squeeze": lambda x: x[:1].squeeze(0),
    "astype": lambda x: x.astype(np.int32),
    "take": lambda x: x.take([0, 2], axis=1),
    "repeat": lambda x: x.repeat(2, axis=0),
    "round": lambda x: (x / 7).round(2),
}


@together("name", METHODS)
def test_methods_are_numpys(name: str) -> None:
    """Methods take NumPy's arguments and give NumPy's elements and dtypes."""
    got, want = METHODS[name](afx.asarray(X)), METHODS[name](X)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-12)
