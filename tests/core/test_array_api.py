"""What dtypes hold, how they combine, and what the namespace tells of itself."""

from typing import Any

import numpy as np
import pytest

import afx
from afx import errors
from afx.core.dtypes import check_dtype
from tests.every import together

FLOATS = ["float16", "float32", "float64", "complex64", "complex128"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
KINDS = {
    "bool": ["bool"],
    "signed integer": INTEGERS[:4],
    "unsigned integer": INTEGERS[4:],
    "integral": INTEGERS,
    "real floating": ["float32", "float64"],
    "complex floating": ["complex64", "complex128"],
    "numeric": [*INTEGERS, "float32", "float64", "complex64", "complex128"],
}


@pytest.mark.parametrize("name", FLOATS)
def test_float_limits_are_numpys_as_python_floats(name: str) -> None:
    """`finfo` gives NumPy's limits as Python numbers, of a dtype, its name, or an array; complex ones have parts."""
    want = np.finfo(name)
    for given in (name, np.dtype(name), afx.ones(2, name), np.ones(2, name)):
        found = afx.finfo(given)
        assert (found.bits, found.dtype) == (want.bits, want.dtype)
        for attribute in ("eps", "max", "min", "smallest_normal", "tiny"):
            value = getattr(found, attribute)
            assert type(value) is float
            assert value == float(getattr(want, attribute))


@pytest.mark.parametrize("name", INTEGERS)
def test_integer_limits_are_numpys_as_python_integers(name: str) -> None:
    """`iinfo` gives NumPy's limits of a dtype or an array."""
    want = np.iinfo(name)
    for given in (name, np.dtype(name), afx.ones(2, name)):
        found = afx.iinfo(given)
        assert (found.bits, found.max, found.min, found.dtype) == (want.bits, want.max, want.min, want.dtype)
        assert type(found.max) is int


def test_limits_of_the_other_kind_raise() -> None:
    """`finfo` of integers and `iinfo` of floats name the other function."""
    with pytest.raises(errors.DtypeError, match="finfo: not a floating dtype: got int8; iinfo"):
        afx.finfo("int8")
    with pytest.raises(errors.DtypeError, match="iinfo: not an integer dtype: got bool; finfo"):
        afx.iinfo(bool)


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_hold_their_dtypes(kind: str) -> None:
    """A dtype is of a kind if it is listed there, and is itself."""
    info = afx.__array_namespace_info__()
    assert list(info.dtypes(kind=kind)) == KINDS[kind]
    for name, dtype in info.dtypes().items():
        assert afx.isdtype(dtype, kind) is (name in KINDS[kind])
        assert afx.isdtype(dtype, (dtype, "bool")) is True
    assert afx.isdtype(afx.float16, kind) is (kind in ("real floating", "numeric"))


def test_an_unknown_kind_raises() -> None:
    """No kind is guessed: dtypes are not named by strings here, as they are not in NumPy."""
    with pytest.raises(errors.ArgumentError, match="isdtype: no such kind: got 'float32'"):
        afx.isdtype(afx.float32, "float32")
    with pytest.raises(errors.ArgumentError, match="no such kind"):
        afx.isdtype(afx.float32, ("real floating", "floats"))


@together("a", [*INTEGERS, "bool", *FLOATS])
@together("b", [*INTEGERS, "bool", *FLOATS])
def test_dtypes_combine_as_numpys(a: str, b: str) -> None:
    """`result_type` and `can_cast` are NumPy's for dtypes and arrays, which is what an operation computes in."""
    want = np.result_type(np.dtype(a), np.dtype(b))
    x, y = afx.ones(1, a), afx.ones(1, b)
    assert afx.result_type(a, np.dtype(b)) == afx.result_type(x, y) == np.result_type(x, y) == (x * y).dtype == want
    assert afx.can_cast(a, b) is afx.can_cast(x, b) is np.can_cast(x, b) is np.can_cast(np.dtype(a), b)
    assert afx.can_cast(a, b) == (want == b)


@pytest.mark.parametrize(
    ("operands", "want"),
    [
        (("int8", 1), "int8"),
        (("uint8", True), "uint8"),
        (("float64", 1.0), "float64"),
        (("float32", 1j), "complex64"),
        (("int64", 1.0), "float32"),
        (("bool", 1), "int64"),
        ((1.0,), "float32"),
        ((True, 2), "int64"),
    ],
)
def test_python_numbers_are_weak(operands: tuple[Any, ...], want: str) -> None:
    """A Python number takes the dtype of what it meets; with integers a float has the default dtype."""
    assert afx.result_type(*operands) == want


def test_the_type_of_nothing_raises() -> None:
    """`result_type` needs an operand."""
    with pytest.raises(errors.ArgumentError, match="result_type: there is nothing to combine"):
        afx.result_type()


def test_traced_arrays_have_limits_and_types() -> None:
    """What depends on dtypes alone works on traced arrays, in compiled functions too."""

    def fn(x: afx.Array) -> afx.Array:
        assert afx.result_type(x, 1.0) == x.dtype
        assert np.can_cast(x, "complex128")
        return x * afx.finfo(x).eps

    x = np.ones(2)
    np.testing.assert_allclose(np.asarray(afx.jit(fn)(afx.asarray(x))), x * np.finfo(float).eps)
    np.testing.assert_allclose(np.asarray(afx.grad(lambda v: fn(v).sum())(x)), x * np.finfo(float).eps)


def test_the_namespace_tells_of_itself() -> None:
    """Devices, defaults and capabilities are what afx has, and follow the default dtype."""
    info = afx.__array_namespace_info__()
    assert info.devices() == (info.default_device(),) == ("cpu",)
    assert info.capabilities() == {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}
    assert afx.ones((1,) * 64).ndim == 64
    assert info.default_dtypes() == {
        "real floating": afx.zeros(1).dtype,
        "complex floating": afx.asarray(1j).dtype,
        "integral": afx.asarray(1).dtype,
        "indexing": afx.argsort(afx.zeros(1)).dtype,
    }
    with afx.default_dtype("float64"):
        assert info.default_dtypes(device="cpu")["complex floating"] == afx.complex128
    with pytest.raises(errors.ArgumentError, match="no such device: got 'gpu'"):
        info.dtypes(device="gpu")


def test_the_namespace_has_a_version() -> None:
    """An array gives its namespace for versions up to afx's own, and refuses others."""
    x = afx.ones(1)
    assert x.__array_namespace__(api_version=afx.__array_api_version__) is afx
    assert all(x.__array_namespace__(api_version=f"{year}.12") is afx for year in range(2021, 2026))
    with pytest.raises(errors.ArgumentError, match=r"does not speak this version of the array API: got '2099\.12'"):
        x.__array_namespace__(api_version="2099.12")


def test_constants_are_python_numbers() -> None:
    """The constants are NumPy's, and weak; an index takes `newaxis`."""
    assert (afx.pi, afx.e, afx.inf) == (np.pi, np.e, np.inf)
    assert afx.nan != afx.nan
    assert (afx.ones(2, "float16") * afx.pi).dtype == afx.float16
    assert afx.ones(2)[:, afx.newaxis].shape == (2, 1)
    assert afx.ones(2, afx.bool).dtype == afx.bool_


@together("char", "?bhilBHILefdFD")
def test_dtypes_are_the_ones_that_numpy_knows(char: str) -> None:
    """A native dtype stays the same object, by which NumPy finds the fast paths of ``ufunc.at``; others turn native."""
    assert check_dtype(np.dtype(char), "test") is np.dtype(char)
    assert check_dtype(np.dtype(char).newbyteorder(">"), "test") == np.dtype(char)
    assert check_dtype(np.dtype(char).newbyteorder(">"), "test").isnative
