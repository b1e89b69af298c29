"""Array API inspection: limits of dtypes, their promotion, and the library's capabilities."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Literal

import attrs
import numpy as np
from numpy.typing import DTypeLike

from afx.core.array.array import ArrayLike
from afx.core.aval import NUMPY, SCALARS, aval_of, broadcast_shapes as common_shape, checked_shape, normalize_axes
from afx.core.dtypes import DType, check_dtype, default_complex, get_default_dtype, int64, promote
from afx.core.numpy_names import CPU, check_device
from afx.core.registry import FUNCTIONS, register_function
from afx.errors import ArgumentError, DtypeError, ShapeError

# The standard's kinds of dtype, each by NumPy's letters.
_KINDS = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "c",
    "numeric": "iufc",
}
_STANDARD = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128"  # float16 is afx's own


# -- limits --
@attrs.frozen
class FloatLimits:
    """The limits of a floating dtype, those of the parts for a complex one.

    Attributes:
        dtype: the real dtype they belong to.
        bits: how many bits a number takes.
        eps: the distance from 1 to the next larger number.
        max: the largest number.
        min: the smallest number, ``-max``.
        smallest_normal: the smallest positive number with full precision.
    """

    dtype: DType
    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float

    @property
    def tiny(self) -> float:
        """The smallest positive number with full precision: NumPy's name for ``smallest_normal``."""
        return self.smallest_normal


@attrs.frozen
class IntegerLimits:
    """The limits of an integer dtype.

    Attributes:
        dtype: the dtype.
        bits: how many bits a number takes.
        max: the largest number.
        min: the smallest number.
    """

    dtype: DType
    bits: int
    max: int
    min: int


def _dtype_of(x: Any, who: str) -> DType:
    """Return the dtype of an array, or the dtype that is meant."""
    if isinstance(x, NUMPY) or hasattr(x, "aval"):
        return aval_of(x, who).dtype
    return check_dtype(x, who)


def finfo(type: DTypeLike | ArrayLike, /) -> FloatLimits:
    """Return the limits of a floating or complex dtype, or of an array's.

    Raises:
        DtypeError: no floating dtype.

    >>> finfo("float32").eps
    1.1920928955078125e-07
    """
    return _floats(_dtype_of(type, "finfo"))


@functools.cache
def _floats(dtype: DType) -> FloatLimits:
    if dtype.kind not in "fc":
        raise DtypeError(f"finfo: not a floating dtype: got {dtype}; iinfo knows the limits of integers")
    info = np.finfo(dtype)
    numbers = [float(v) for v in (info.eps, info.max, info.min, info.smallest_normal)]
    return FloatLimits(np.dtype(info.dtype), int(info.bits), *numbers)


def iinfo(type: DTypeLike | ArrayLike, /) -> IntegerLimits:
    """Return the limits of an integer dtype, or of an array's.

    Raises:
        DtypeError: no integer dtype.

    >>> iinfo("int8").max
    127
    """
    return _integers(_dtype_of(type, "iinfo"))


@functools.cache
def _integers(dtype: DType) -> IntegerLimits:
    if dtype.kind not in "iu":
        raise DtypeError(f"iinfo: not an integer dtype: got {dtype}; finfo knows the limits of floats")
    info = np.iinfo(dtype)
    return IntegerLimits(dtype, int(info.bits), int(info.max), int(info.min))


# -- how dtypes combine --
def isdtype(dtype: DTypeLike, kind: DTypeLike | tuple[DTypeLike, ...]) -> bool:
    """Tell whether a dtype is another one, or of a kind.

    Args:
        dtype: the dtype in question.
        kind: a dtype, or ``"bool"``, ``"signed integer"``, ``"unsigned integer"``, ``"integral"``,
            ``"real floating"``, ``"complex floating"`` or ``"numeric"``, or a tuple of which any will do.

    Raises:
        ArgumentError: no such kind.

    >>> isdtype(np.dtype("int8"), ("bool", "integral"))
    True
    """
    own = check_dtype(dtype, "isdtype")
    kinds = kind if isinstance(kind, tuple) else (kind,)
    return any([_is_kind(own, k) for k in kinds])


def _is_kind(dtype: DType, kind: Any) -> bool:
    if not isinstance(kind, str):
        return dtype == check_dtype(kind, "isdtype")
    if kind not in _KINDS:
        raise ArgumentError(
            f"isdtype: no such kind: got {kind!r}; use a dtype or one of {', '.join(map(repr, _KINDS))}"
        )
    return dtype.kind in _KINDS[kind]


@register_function
def can_cast(
    from_: DTypeLike | ArrayLike,
    to: DTypeLike,
    /,
    casting: Literal["no", "equiv", "safe", "same_kind", "unsafe"] = "safe",
) -> bool:
    """Tell whether a dtype can become another without loss, as in promotion.

    Args:
        from_: a dtype, or an array whose dtype is meant.
        to: the other dtype.
        casting: how strictly, in NumPy's words.

    >>> can_cast("int32", "float64"), can_cast("float64", "float32")
    (True, False)
    """
    return bool(np.can_cast(_dtype_of(from_, "can_cast"), check_dtype(to, "can_cast"), casting))


@register_function
def result_type(*arrays_and_dtypes: ArrayLike | DTypeLike) -> DType:
    """Return the dtype in which an operation on these arrays, numbers and dtypes computes.

    Python numbers take the dtype of what they meet; a Python float that meets only integers takes the default dtype
    (NumPy: float64).

    Raises:
        ArgumentError: nothing is given.

    >>> result_type("float32", "float64"), result_type("float32", 1.0)
    (dtype('float64'), dtype('float32'))
    """
    if not arrays_and_dtypes:
        raise ArgumentError(
            "result_type: there is nothing to combine: got no arguments; give arrays, numbers or dtypes"
        )
    given: tuple[Any, ...] = arrays_and_dtypes
    weak = tuple([x.__class__ in SCALARS for x in given])
    dtypes = [aval_of(x).dtype if w else _dtype_of(x, "result_type") for x, w in zip(given, weak, strict=True)]
    return promote(tuple(dtypes), weak)


@register_function
def promote_types(type1: DTypeLike, type2: DTypeLike) -> DType:
    """Return the dtype in which an operation on arrays of two dtypes computes.

    >>> promote_types("float32", "int64")
    dtype('float64')
    """
    return result_type(check_dtype(type1, "promote_types"), check_dtype(type2, "promote_types"))


@register_function
def issubdtype(arg1: DTypeLike, arg2: DTypeLike) -> bool:
    """Tell whether a dtype is another one, or of an abstract type of NumPy's.

    >>> issubdtype("float32", np.floating), issubdtype("float32", "float64")
    (True, False)
    """
    return np.issubdtype(arg1, arg2)


# -- shapes and values --
@register_function
def isscalar(element: object) -> bool:
    """Tell whether a value is a number or text, as NumPy does: no array is one, 0-d or not.

    >>> isscalar(3.1), isscalar(np.ones(()))
    (True, False)
    """
    return np.isscalar(element)


@register_function
def shape(x: ArrayLike | Sequence[Any]) -> tuple[int, ...]:
    """Return the lengths of the axes of an array, a number or nested sequences.

    >>> shape([[1.0, 2.0]])
    (1, 2)
    """
    return aval_of(FUNCTIONS.asarray(x) if isinstance(x, (list, tuple)) else x, "shape").shape


@register_function
def ndim(x: ArrayLike | Sequence[Any]) -> int:
    """Return the number of axes of an array, a number or nested sequences.

    >>> ndim([[1.0, 2.0]])
    2
    """
    return len(shape(x))


@register_function
def size(x: ArrayLike | Sequence[Any], axis: int | Sequence[int] | None = None) -> int:
    """Return the number of elements, or the length of an axis, or of several the product.

    >>> size(np.ones((2, 3))), size(np.ones((2, 3)), 1)
    (6, 3)
    """
    lengths = shape(x)
    return math.prod([lengths[k] for k in normalize_axes(axis, len(lengths), "size")])


@register_function
def broadcast_shapes(*shapes: int | Sequence[int]) -> tuple[int, ...]:
    """Return the shape to which arrays of these shapes broadcast.

    Raises:
        ShapeError: they do not.

    >>> broadcast_shapes((3, 1), 4)
    (3, 4)
    """
    lengths = [checked_shape(s, "broadcast_shapes") for s in shapes]
    common = common_shape([(), *lengths])
    if common is None:
        raise ShapeError(f"broadcast_shapes: the shapes do not fit: got {', '.join(map(str, lengths))}; reshape one")
    return common


# -- afx itself --
class NamespaceInfo:
    """What `__array_namespace_info__` returns: devices, dtypes and capabilities, as the array API standard asks."""

    def capabilities(self) -> dict[str, Any]:
        """Return what afx can do: boolean indices, shapes that depend on data, and how many axes."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """Return the device of new arrays, ``"cpu"``."""
        return CPU

    def devices(self) -> tuple[str, ...]:
        """Return all devices: ``("cpu",)``."""
        return (CPU,)

    def default_dtypes(self, *, device: str | None = None) -> dict[str, DType]:
        """Return the dtypes of numbers that afx makes itself; see `afx.set_default_dtype`.

        Raises:
            ArgumentError: another device than the CPU.

        >>> NamespaceInfo().default_dtypes()["real floating"]
        dtype('float32')
        """
        check_device(device, "default_dtypes")
        return {
            "real floating": get_default_dtype(),
            "complex floating": default_complex(),
            "integral": int64,
            "indexing": int64,
        }

    def dtypes(self, *, device: str | None = None, kind: str | tuple[str, ...] | None = None) -> dict[str, DType]:
        """Return the dtypes of the standard that afx holds, by name; those of one kind, or of several, if asked.

        Raises:
            ArgumentError: another device than the CPU, or no such kind; see `isdtype`.

        >>> list(NamespaceInfo().dtypes(kind="real floating"))
        ['float32', 'float64']
        """
        check_device(device, "dtypes")
        every = {name: np.dtype(name) for name in _STANDARD.split()}
        return every if kind is None else {name: dtype for name, dtype in every.items() if isdtype(dtype, kind)}


def __array_namespace_info__() -> NamespaceInfo:
    """Return what the array API standard asks a namespace to tell of itself.

    >>> __array_namespace_info__().default_device()
    'cpu'
    """
    return NamespaceInfo()
