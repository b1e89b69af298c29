"""Dtypes: their names, the default for numbers that afx makes itself, and promotion (NEP 50).

Promotion is NumPy's, with one stated difference: where NumPy turns integers into float64, afx takes the default dtype:
beside a Python float, and in operations without an integer result, such as ``sin`` or ``/``.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Generator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from afx.errors import DtypeError

DType: TypeAlias = "np.dtype[Any]"

bool_: DType = np.dtype(np.bool_)
int8: DType = np.dtype("int8")
int16: DType = np.dtype("int16")
int32: DType = np.dtype("int32")
int64: DType = np.dtype("int64")
uint8: DType = np.dtype("uint8")
uint16: DType = np.dtype("uint16")
uint32: DType = np.dtype("uint32")
uint64: DType = np.dtype("uint64")
float16: DType = np.dtype("float16")
float32: DType = np.dtype("float32")
float64: DType = np.dtype("float64")
complex64: DType = np.dtype("complex64")
complex128: DType = np.dtype("complex128")

SUPPORTED = "?bhilqBHILQefdFD"  # NumPy's type characters: no object, string, time or long double
_CATEGORY = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
_WEAK: dict[type, DType] = {bool: bool_, int: int64, float: float64, complex: complex128}

_module_default: list[DType] = [float32]
narrow_default: list[DType] = []  # of one dtype or none: set by `set_narrow_default`
KEPT: set[str] = {*SUPPORTED}  # type characters of NumPy's data that stay as they are
NUMBERS: set[type] = {*_WEAK, *[np.dtype(c).type for c in SUPPORTED]}  # Python's and NumPy's, taken as they are
_HALVES: dict[str, DType] = {"d": float32, "D": complex64}
_local_default: contextvars.ContextVar[DType | None] = contextvars.ContextVar("afx_default_dtype", default=None)


def get_default_dtype() -> DType:
    """Return the floating dtype of numbers that afx makes itself.

    >>> get_default_dtype()
    dtype('float32')
    """
    return _local_default.get() or _module_default[0]


def set_default_dtype(dtype: DTypeLike) -> None:
    """Set the floating dtype of numbers that afx makes itself, for every thread.

    Args:
        dtype: a real floating dtype, ``afx.float32`` or ``afx.float64`` as a rule.

    Raises:
        DtypeError: the dtype is not a real floating one.

    >>> set_default_dtype(np.float32)
    """
    _module_default[0] = _floating(dtype, "set_default_dtype")
    set_narrow_default(None)


def set_narrow_default(dtype: DTypeLike | None) -> None:
    """Set the dtype of what is computed from truth values and integers below 64 bits alone, until the default dtype is set.

    JAX takes float32 for these even under ``jax_enable_x64``: for programs that `afx.migrate` rewrote. None is the default
    dtype. Where the default dtype is float32, too, NumPy's data of float64 become it, as in JAX without ``jax_enable_x64``.
    """
    narrow_default[:] = [] if dtype is None else [_floating(dtype, "set_narrow_default")]
    halves = dtype is not None and get_default_dtype() == float32
    tables: list[tuple[set[Any], set[Any]]] = [(KEPT, {*_HALVES}), (NUMBERS, {np.float64, np.complex128})]
    for kept, wide in tables:
        kept.difference_update(wide) if halves else kept.update(wide)


@contextlib.contextmanager
def default_dtype(dtype: DTypeLike) -> Generator[None]:
    """Change the default dtype inside a ``with`` block, for the current thread or task only.

    Raises:
        DtypeError: the dtype is not a real floating one.

    >>> with default_dtype(np.float64):
    ...     get_default_dtype()
    dtype('float64')
    """
    token = _local_default.set(_floating(dtype, "default_dtype"))
    try:
        yield
    finally:
        _local_default.reset(token)


def _floating(dtype: DTypeLike | None, who: str) -> DType:
    own = None if dtype is None else check_dtype(dtype, who)
    if own is None or own.kind != "f":
        raise DtypeError(f"{who}: the default dtype is a real floating one: got {own}; use afx.float32 or afx.float64")
    return own


def check_dtype(dtype: DTypeLike, who: str) -> DType:
    """Return ``dtype`` as a NumPy dtype in native byte order, or raise `DtypeError` where afx does not hold it."""
    if narrow_default and (dtype is float or dtype is complex):
        dtype = get_default_dtype() if dtype is float else default_complex()
    try:
        own = np.dtype(dtype)
    except TypeError as error:
        raise DtypeError(f"{who}: not a dtype: got {dtype!r}; use afx.float32, afx.int64, bool …") from error
    if own.char not in SUPPORTED:
        raise DtypeError(f"{who}: afx holds booleans, integers, floats and complex numbers: got {own}; convert first")
    return own if own.isnative else own.newbyteorder("=")  # the dtype itself: NumPy's fast paths compare by identity


def data_dtype(dtype: DType, who: str) -> DType:
    """Return the dtype that NumPy's data of a dtype have here: their own, but for `set_narrow_default`."""
    own = check_dtype(dtype, who)
    return own if own.char in KEPT else _HALVES[own.char]


@functools.lru_cache(maxsize=64)
def dtype_name(dtype: DType) -> str:
    """Return the name of a dtype, which NumPy puts together at each asking.

    >>> dtype_name(float32)
    'float32'
    """
    return dtype.name


def is_inexact(dtype: DType) -> bool:
    """Tell whether a dtype has derivatives: floating or complex."""
    return dtype.kind in "fc"


def weak_dtype(kind: type) -> DType:
    """Return the dtype that a lone Python scalar of this type takes: int64, the default float, its complex."""
    if kind is float:
        return get_default_dtype()
    return default_complex() if kind is complex else _WEAK[kind]


def default_complex() -> DType:
    """Return the complex dtype whose parts have the default dtype."""
    return np.result_type(get_default_dtype(), np.complex64)


def real_dtype(dtype: DType) -> DType:
    """Return the dtype of a complex number's parts; any other dtype as it is."""
    return {"F": float32, "D": float64}.get(dtype.char, dtype)


def epsilon(dtype: DType) -> float:
    """Return the distance from 1 to the next number of a floating dtype."""
    return float(np.finfo(dtype).eps)


def strengthen(number: Any, dtype: DType) -> Any:
    """Return a Python number in an inexact dtype, a real one beside complex numbers in the dtype of their parts.

    >>> strengthen(0.1, float64)
    np.float64(0.1)
    """
    return (dtype if number.__class__ is complex else real_dtype(dtype)).type(number)


def promote(dtypes: tuple[DType, ...], weak: tuple[bool, ...], floating: bool = False) -> DType:
    """Return the dtype in which an operation on these operands computes.

    Args:
        dtypes: one per operand.
        weak: whether each stands for a Python scalar.
        floating: whether the operation has no integer result (``sin``, ``/``).
    """
    return _promote(dtypes, weak, floating, get_default_dtype(), narrow_default[0] if narrow_default else None)


def floating_dtype(*dtypes: DType) -> DType:
    """Return the dtype in which an operation without an integer result computes on arrays of these."""
    return promote(dtypes, (False,) * len(dtypes), True)


@functools.lru_cache(maxsize=4096)
def _promote(
    dtypes: tuple[DType, ...], weak: tuple[bool, ...], floating: bool, default: DType, narrow: DType | None
) -> DType:
    """Return the common dtype; weak ones, of Python's numbers, count by their kind alone."""
    strong = [d for d, w in zip(dtypes, weak, strict=True) if not w]
    if narrow is not None:  # integers leave JAX's floats their dtype
        strong = [d for d in strong if d.kind in "fc"] or strong
    result = np.result_type(*strong) if strong else bool_
    category = max((_CATEGORY[d.kind] for d, w in zip(dtypes, weak, strict=True) if w), default=-1)
    if floating:
        is_narrow = strong and result.kind in "biu" and result.itemsize < 8 and category <= _CATEGORY[result.kind]
        default = narrow or default if is_narrow else default
        category = max(category, 2)
    if category <= _CATEGORY[result.kind]:
        return result
    if category == 1:
        return int64
    if category == 3:
        return np.result_type(result if result.kind == "f" else default, np.complex64)
    return default
