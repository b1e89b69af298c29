"""Weak arrays: what operations on Python's numbers alone give."""

from __future__ import annotations

from typing import Any

import numpy as np

from afx.core.array.array import Array, wrap
from afx.core.aval import Aval, Shape, aval_of
from afx.core.dtypes import DType, default_complex, get_default_dtype
from afx.errors import OperandError

__all__ = ["WeakArray", "is_weak", "to_argument", "weak_or_strong"]

_new = object.__new__


class WeakArray(Array):
    """An Array that keeps Python's precision until it meets a dtype; by itself it has the default one.

    Attributes:
        exact: its elements in float64 or complex128.
    """

    __slots__ = ("_dtype", "_rounded", "exact")
    exact: Any
    _dtype: DType
    _rounded: Any

    @property
    def _value(self) -> Any:  # what is stored is `exact`
        if self._rounded is None:
            exact = self.exact
            with np.errstate(over="ignore"):
                self._rounded = exact if exact.dtype == self._dtype else exact.astype(self._dtype)
        return self._rounded

    @property
    def shape(self) -> Shape:
        """The lengths of the axes."""
        shape: Shape = self.exact.shape
        return shape

    @property
    def dtype(self) -> DType:
        """The dtype that it has by itself: the default one."""
        return self._dtype

    @property
    def aval(self) -> Aval:
        """The shape and dtype as one value."""
        return Aval(self.exact.shape, self._dtype, True)

    def in_dtype(self, dtype: DType) -> Any:
        """Return the bare elements in the dtype that they meet, rounded once."""
        if dtype == self._dtype:
            return self._value
        with np.errstate(over="ignore"):
            return self.exact.astype(dtype)


def is_weak(x: Any) -> bool:
    """Tell whether an operand is made of Python's floating or complex numbers alone, traced or not."""
    kind = x.__class__
    if kind is Array or kind is np.ndarray:
        return False
    aval = aval_of(x)
    return aval.weak and aval.dtype.kind in "fc"


def weak_or_strong(value: Any) -> Array:
    """Return the result of an op on weak operands: a weak array where it has Python's precision."""
    kind = value.dtype.char
    if kind not in "dD":
        return wrap(value)
    x = _new(WeakArray)
    x.exact = value
    x._dtype = get_default_dtype() if kind == "d" else default_complex()
    x._rounded = None
    return x


NUMPY_OF: dict[type, Any] = {bool: np.bool_, int: np.int64, float: np.float64, complex: np.complex128}


def to_argument(x: Any) -> Any:
    """Return a bare value, Python number or weak array as a plan takes it: what is weak with all of its digits."""
    kind = x.__class__
    if kind not in NUMPY_OF:
        return x.exact if kind is WeakArray else x
    try:
        return NUMPY_OF[kind](x)
    except OverflowError as error:
        raise OperandError(
            f"{x} is too large for an argument: got a Python integer beyond int64; pass a float"
        ) from error
