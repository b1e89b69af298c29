"""Python's operators on Arrays: each finds its op by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from afx.core.registry import FUNCTIONS

if TYPE_CHECKING:
    from afx.core.array.array import Array, ArrayLike

__all__ = ["Operators"]


class Operators:  # noqa: PLW1641  # == is elementwise, so nothing hashes
    """The operators of `Array`; in-place forms (``x += y``) rebind the name, as for every immutable value."""

    __slots__ = ()

    def __add__(self, other: ArrayLike, /) -> Array:
        return FUNCTIONS.add(self, other)

    def __radd__(self, other: ArrayLike, /) -> Array:
        return FUNCTIONS.add(other, self)

    def __sub__(self, other: ArrayLike, /) -> Array:
        return FUNCTIONS.subtract(self, other)

    def __rsub__(self, other: ArrayLike, /) -> Array:
        return FUNCTIONS.subtract(other, self)

    def __mul__(self, other: ArrayLike, /) -> Array:
        return FUNCTIONS.multiply(self, other)

    def __rmul__(self, other: ArrayLike, /) -> Array:
        return FUNCTIONS.multiply(other, self)

    def __truediv__(self, other: ArrayLike, /) -> Array:
        return FUNCTIONS.divide(self, other)

    def __rtruediv__(self, other: ArrayLike, /) -> Array:
        return FUNCTIONS.divide(other, self)

    def __floordiv__(self, other: ArrayLike, /) -> Array:
        return FUNCTIONS.floor_divide(self, other)

    def __rfloordiv__(self, other: ArrayLike, /) -> Array:
        return FUNCTIONS.floor_divide(other, self)

    def __mod__(self, other: ArrayLike, /) -> Array:
        return FUNCTIONS.remainder(self, other)

    def __rmod__(self, other: ArrayLike, /) -> Array:
        return FUNCTIONS.remainder(other, self)

    def __pow__(self, other: ArrayLike, /) -> Array:
        return FUNCTIONS.pow(self, other)

    def __rpow__(self, other: ArrayLike, /) -> Array:
        return FUNCTIONS.pow(other, self)

    def __matmul__(self, other: ArrayLike, /) -> Array:
        return FUNCTIONS.matmul(self, other)

    def __rmatmul__(self, other: ArrayLike, /) -> Array:
        return FUNCTIONS.matmul(other, self)

    def __and__(self, other: ArrayLike, /) -> Array:
        return FUNCTIONS.bitwise_and(self, other)

    def __rand__(self, other: ArrayLike, /) -> Array:
        return FUNCTIONS.bitwise_and(other, self)

    def __or__(self, other: ArrayLike, /) -> Array:
        return FUNCTIONS.bitwise_or(self, other)

    def __ror__(self, other: ArrayLike, /) -> Array:
        return FUNCTIONS.bitwise_or(other, self)

    def __xor__(self, other: ArrayLike, /) -> Array:
        return FUNCTIONS.bitwise_xor(self, other)

    def __rxor__(self, other: ArrayLike, /) -> Array:
        return FUNCTIONS.bitwise_xor(other, self)

    def __lshift__(self, other: ArrayLike, /) -> Array:
        return FUNCTIONS.bitwise_left_shift(self, other)

    def __rlshift__(self, other: ArrayLike, /) -> Array:
        return FUNCTIONS.bitwise_left_shift(other, self)

    def __rshift__(self, other: ArrayLike, /) -> Array:
        return FUNCTIONS.bitwise_right_shift(self, other)

    def __rrshift__(self, other: ArrayLike, /) -> Array:
        return FUNCTIONS.bitwise_right_shift(other, self)

    def __divmod__(self, other: ArrayLike, /) -> tuple[Array, Array]:
        return FUNCTIONS.floor_divide(self, other), FUNCTIONS.remainder(self, other)

    def __rdivmod__(self, other: ArrayLike, /) -> tuple[Array, Array]:
        return FUNCTIONS.floor_divide(other, self), FUNCTIONS.remainder(other, self)

    def __neg__(self) -> Array:
        return FUNCTIONS.negative(self)

    def __pos__(self) -> Array:
        return FUNCTIONS.positive(self)

    def __abs__(self) -> Array:
        return FUNCTIONS.abs(self)

    def __invert__(self) -> Array:
        return FUNCTIONS.bitwise_invert(self)

    def __lt__(self, other: ArrayLike, /) -> Array:
        return FUNCTIONS.less(self, other)

    def __le__(self, other: ArrayLike, /) -> Array:
        return FUNCTIONS.less_equal(self, other)

    def __gt__(self, other: ArrayLike, /) -> Array:
        return FUNCTIONS.greater(self, other)

    def __ge__(self, other: ArrayLike, /) -> Array:
        return FUNCTIONS.greater_equal(self, other)

    if TYPE_CHECKING:
        # elementwise, as NumPy's, where object's says bool
        def __eq__(self, other: object, /) -> Array: ...  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # elementwise
        def __ne__(self, other: object, /) -> Array: ...  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]  # elementwise
    else:

        def __eq__(self, other):
            return FUNCTIONS.equal(self, other)

        def __ne__(self, other):
            return FUNCTIONS.not_equal(self, other)

    def __getitem__(self, index: Any, /) -> Array:
        return FUNCTIONS.getitem(self, index)
