"""Array operators: each of Python's operators finds its op by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from afx.core.registry import FUNCTIONS
from afx.errors import OperandError

if TYPE_CHECKING:
    from afx.core.array.array import Array, ArrayLike


KNOWN = (str, bytes, list, tuple, dict, set, frozenset, type(None), np.ndarray, np.generic, bool, int, float, complex)


def not_implemented(other: object, error: OperandError) -> Array:
    """Return NotImplemented for a type that afx does not know, so that Python asks it; raise the error for others."""
    if isinstance(other, (*KNOWN, Operators)):
        raise error
    return cast("Array", NotImplemented)


def answers_itself(other: object) -> bool:
    """Tell whether an operand is of a type of another library's that answers NumPy's functions."""
    return hasattr(other, "__array_ufunc__") and not isinstance(other, (*KNOWN, Operators))


class Operators:  # noqa: PLW1641  # == is elementwise, so nothing hashes
    """The operators of `Array`; in-place forms (``x += y``) rebind the name, as for every immutable value."""

    __slots__ = ()

    def __add__(self, other: ArrayLike, /) -> Array:
        try:
            return FUNCTIONS.add(self, other)
        except OperandError as error:
            return not_implemented(other, error)

    def __radd__(self, other: ArrayLike, /) -> Array:
        try:
            return FUNCTIONS.add(other, self)
        except OperandError as error:
            return not_implemented(other, error)

    def __sub__(self, other: ArrayLike, /) -> Array:
        try:
            return FUNCTIONS.subtract(self, other)
        except OperandError as error:
            return not_implemented(other, error)

    def __rsub__(self, other: ArrayLike, /) -> Array:
        try:
            return FUNCTIONS.subtract(other, self)
        except OperandError as error:
            return not_implemented(other, error)

    def __mul__(self, other: ArrayLike, /) -> Array:
        try:
            return FUNCTIONS.multiply(self, other)
        except OperandError as error:
            return not_implemented(other, error)

    def __rmul__(self, other: ArrayLike, /) -> Array:
        try:
            return FUNCTIONS.multiply(other, self)
        except OperandError as error:
            return not_implemented(other, error)

    def __truediv__(self, other: ArrayLike, /) -> Array:
        try:
            return FUNCTIONS.divide(self, other)
        except OperandError as error:
            return not_implemented(other, error)

    def __rtruediv__(self, other: ArrayLike, /) -> Array:
        try:
            return FUNCTIONS.divide(other, self)
        except OperandError as error:
            return not_implemented(other, error)

    def __floordiv__(self, other: ArrayLike, /) -> Array:
        try:
            return FUNCTIONS.floor_divide(self, other)
        except OperandError as error:
            return not_implemented(other, error)

    def __rfloordiv__(self, other: ArrayLike, /) -> Array:
        try:
            return FUNCTIONS.floor_divide(other, self)
        except OperandError as error:
            return not_implemented(other, error)

    def __mod__(self, other: ArrayLike, /) -> Array:
        try:
            return FUNCTIONS.remainder(self, other)
        except OperandError as error:
            return not_implemented(other, error)

    def __rmod__(self, other: ArrayLike, /) -> Array:
        try:
            return FUNCTIONS.remainder(other, self)
        except OperandError as error:
            return not_implemented(other, error)

    def __pow__(self, other: ArrayLike, /) -> Array:
        try:
            return FUNCTIONS.pow(self, other)
        except OperandError as error:
            return not_implemented(other, error)

    def __rpow__(self, other: ArrayLike, /) -> Array:
        try:
            return FUNCTIONS.pow(other, self)
        except OperandError as error:
            return not_implemented(other, error)

    def __matmul__(self, other: ArrayLike, /) -> Array:
        try:
            return FUNCTIONS.matmul(self, other)
        except OperandError as error:
            return not_implemented(other, error)

    def __rmatmul__(self, other: ArrayLike, /) -> Array:
        try:
            return FUNCTIONS.matmul(other, self)
        except OperandError as error:
            return not_implemented(other, error)

    def __and__(self, other: ArrayLike, /) -> Array:
        try:
            return FUNCTIONS.bitwise_and(self, other)
        except OperandError as error:
            return not_implemented(other, error)

    def __rand__(self, other: ArrayLike, /) -> Array:
        try:
            return FUNCTIONS.bitwise_and(other, self)
        except OperandError as error:
            return not_implemented(other, error)

    def __or__(self, other: ArrayLike, /) -> Array:
        try:
            return FUNCTIONS.bitwise_or(self, other)
        except OperandError as error:
            return not_implemented(other, error)

    def __ror__(self, other: ArrayLike, /) -> Array:
        try:
            return FUNCTIONS.bitwise_or(other, self)
        except OperandError as error:
            return not_implemented(other, error)

    def __xor__(self, other: ArrayLike, /) -> Array:
        try:
            return FUNCTIONS.bitwise_xor(self, other)
        except OperandError as error:
            return not_implemented(other, error)

    def __rxor__(self, other: ArrayLike, /) -> Array:
        try:
            return FUNCTIONS.bitwise_xor(other, self)
        except OperandError as error:
            return not_implemented(other, error)

    def __lshift__(self, other: ArrayLike, /) -> Array:
        try:
            return FUNCTIONS.bitwise_left_shift(self, other)
        except OperandError as error:
            return not_implemented(other, error)

    def __rlshift__(self, other: ArrayLike, /) -> Array:
        try:
            return FUNCTIONS.bitwise_left_shift(other, self)
        except OperandError as error:
            return not_implemented(other, error)

    def __rshift__(self, other: ArrayLike, /) -> Array:
        try:
            return FUNCTIONS.bitwise_right_shift(self, other)
        except OperandError as error:
            return not_implemented(other, error)

    def __rrshift__(self, other: ArrayLike, /) -> Array:
        try:
            return FUNCTIONS.bitwise_right_shift(other, self)
        except OperandError as error:
            return not_implemented(other, error)

    def __divmod__(self, other: ArrayLike, /) -> tuple[Array, Array]:
        try:
            return FUNCTIONS.floor_divide(self, other), FUNCTIONS.remainder(self, other)
        except OperandError as error:
            return cast("tuple[Array, Array]", not_implemented(other, error))

    def __rdivmod__(self, other: ArrayLike, /) -> tuple[Array, Array]:
        try:
            return FUNCTIONS.floor_divide(other, self), FUNCTIONS.remainder(other, self)
        except OperandError as error:
            return cast("tuple[Array, Array]", not_implemented(other, error))

    def __neg__(self) -> Array:
        return FUNCTIONS.negative(self)

    def __pos__(self) -> Array:
        return FUNCTIONS.positive(self)

    def __abs__(self) -> Array:
        return FUNCTIONS.abs(self)

    def __invert__(self) -> Array:
        return FUNCTIONS.bitwise_invert(self)

    def __lt__(self, other: ArrayLike, /) -> Array:
        try:
            return FUNCTIONS.less(self, other)
        except OperandError as error:
            return not_implemented(other, error)

    def __le__(self, other: ArrayLike, /) -> Array:
        try:
            return FUNCTIONS.less_equal(self, other)
        except OperandError as error:
            return not_implemented(other, error)

    def __gt__(self, other: ArrayLike, /) -> Array:
        try:
            return FUNCTIONS.greater(self, other)
        except OperandError as error:
            return not_implemented(other, error)

    def __ge__(self, other: ArrayLike, /) -> Array:
        try:
            return FUNCTIONS.greater_equal(self, other)
        except OperandError as error:
            return not_implemented(other, error)

    if TYPE_CHECKING:
        # elementwise, as NumPy's, where object's says bool
        def __eq__(self, other: object, /) -> Array: ...  # type: ignore[override]  # elementwise
        def __ne__(self, other: object, /) -> Array: ...  # type: ignore[override]  # elementwise
    else:

        def __eq__(self, other):
            try:
                return FUNCTIONS.equal(self, other)
            except OperandError as error:
                return NotImplemented if other is None or isinstance(other, str) else not_implemented(other, error)

        def __ne__(self, other):
            try:
                return FUNCTIONS.not_equal(self, other)
            except OperandError as error:
                return NotImplemented if other is None or isinstance(other, str) else not_implemented(other, error)

    def __getitem__(self, index: Any, /) -> Array:
        return FUNCTIONS.getitem(self, index)
