"""Comparisons, logic and bits: ops without derivatives."""

from __future__ import annotations

import numpy as np

from afx.core.array.array import Array, ArrayLike
from afx.core.dtypes import bool_
from afx.core.primitive import Primitive
from afx.core.registry import register_function
from afx.core.tracing.tracer import bind1, bind2
from afx.ops._kinds.elementwise import nondifferentiable

__all__ = [
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "equal",
    "greater",
    "greater_equal",
    "invert",
    "isfinite",
    "isinf",
    "isnan",
    "left_shift",
    "less",
    "less_equal",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "not_equal",
    "right_shift",
    "signbit",
]


def _comparison(name: str, ufunc: np.ufunc, kinds: str = "biufc") -> Primitive:
    return nondifferentiable(name, ufunc, kinds=kinds, result=lambda _: bool_)


@register_function
def equal(x: ArrayLike, y: ArrayLike) -> Array:
    """Tell, elementwise, whether x equals y.

    >>> equal(2.0, 2.0)
    Array(True, dtype=bool)
    """
    return bind2(equal_p, x, y)


equal_p: Primitive = _comparison("equal", np.equal)


@register_function
def not_equal(x: ArrayLike, y: ArrayLike) -> Array:
    """Tell, elementwise, whether x differs from y.

    >>> not_equal(2.0, 2.0)
    Array(False, dtype=bool)
    """
    return bind2(not_equal_p, x, y)


not_equal_p: Primitive = _comparison("not_equal", np.not_equal)


@register_function
def less(x: ArrayLike, y: ArrayLike) -> Array:
    """Tell, elementwise, whether x is smaller than y.

    >>> less(1.0, 2.0)
    Array(True, dtype=bool)
    """
    return bind2(less_p, x, y)


less_p: Primitive = _comparison("less", np.less)


@register_function
def less_equal(x: ArrayLike, y: ArrayLike) -> Array:
    """Tell, elementwise, whether x is smaller than or equal to y.

    >>> less_equal(1.0, 2.0)
    Array(True, dtype=bool)
    """
    return bind2(less_equal_p, x, y)


less_equal_p: Primitive = _comparison("less_equal", np.less_equal)


@register_function
def greater(x: ArrayLike, y: ArrayLike) -> Array:
    """Tell, elementwise, whether x is larger than y.

    >>> greater(1.0, 2.0)
    Array(False, dtype=bool)
    """
    return bind2(greater_p, x, y)


greater_p: Primitive = _comparison("greater", np.greater)


@register_function
def greater_equal(x: ArrayLike, y: ArrayLike) -> Array:
    """Tell, elementwise, whether x is larger than or equal to y.

    >>> greater_equal(1.0, 2.0)
    Array(False, dtype=bool)
    """
    return bind2(greater_equal_p, x, y)


greater_equal_p: Primitive = _comparison("greater_equal", np.greater_equal)


@register_function
def logical_and(x: ArrayLike, y: ArrayLike) -> Array:
    """Tell, elementwise, whether both are true (not zero).

    >>> logical_and(True, False)
    Array(False, dtype=bool)
    """
    return bind2(logical_and_p, x, y)


logical_and_p: Primitive = _comparison("logical_and", np.logical_and)


@register_function
def logical_or(x: ArrayLike, y: ArrayLike) -> Array:
    """Tell, elementwise, whether either is true (not zero).

    >>> logical_or(True, False)
    Array(True, dtype=bool)
    """
    return bind2(logical_or_p, x, y)


logical_or_p: Primitive = _comparison("logical_or", np.logical_or)


@register_function
def logical_xor(x: ArrayLike, y: ArrayLike) -> Array:
    """Tell, elementwise, whether exactly one is true (not zero).

    >>> logical_xor(True, False)
    Array(True, dtype=bool)
    """
    return bind2(logical_xor_p, x, y)


logical_xor_p: Primitive = _comparison("logical_xor", np.logical_xor)


@register_function
def logical_not(x: ArrayLike) -> Array:
    """Tell, elementwise, whether x is false (zero).

    >>> logical_not(False)
    Array(True, dtype=bool)
    """
    return bind1(logical_not_p, x)


logical_not_p: Primitive = _comparison("logical_not", np.logical_not)


@register_function
def isnan(x: ArrayLike) -> Array:
    """Tell, elementwise, whether x is not a number.

    >>> isnan(float('nan'))
    Array(True, dtype=bool)
    """
    return bind1(isnan_p, x)


isnan_p: Primitive = _comparison("isnan", np.isnan)


@register_function
def isinf(x: ArrayLike) -> Array:
    """Tell, elementwise, whether x is infinite.

    >>> isinf(float('inf'))
    Array(True, dtype=bool)
    """
    return bind1(isinf_p, x)


isinf_p: Primitive = _comparison("isinf", np.isinf)


@register_function
def isfinite(x: ArrayLike) -> Array:
    """Tell, elementwise, whether x is neither infinite nor nan.

    >>> isfinite(1.0)
    Array(True, dtype=bool)
    """
    return bind1(isfinite_p, x)


isfinite_p: Primitive = _comparison("isfinite", np.isfinite)


@register_function
def signbit(x: ArrayLike) -> Array:
    """Tell, elementwise, whether the sign bit of x is set, as it is for -0.0.

    >>> signbit(-0.0)
    Array(True, dtype=bool)
    """
    return bind1(signbit_p, x)


signbit_p: Primitive = _comparison("signbit", np.signbit, "biuf")


@register_function
def bitwise_and(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the bitwise and of integers or booleans.

    >>> bitwise_and(6, 3)
    Array(2, dtype=int64)
    """
    return bind2(bitwise_and_p, x, y)


bitwise_and_p: Primitive = nondifferentiable("bitwise_and", np.bitwise_and, kinds="biu")


@register_function
def bitwise_or(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the bitwise or of integers or booleans.

    >>> bitwise_or(6, 3)
    Array(7, dtype=int64)
    """
    return bind2(bitwise_or_p, x, y)


bitwise_or_p: Primitive = nondifferentiable("bitwise_or", np.bitwise_or, kinds="biu")


@register_function
def bitwise_xor(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the bitwise exclusive or of integers or booleans.

    >>> bitwise_xor(6, 3)
    Array(5, dtype=int64)
    """
    return bind2(bitwise_xor_p, x, y)


bitwise_xor_p: Primitive = nondifferentiable("bitwise_xor", np.bitwise_xor, kinds="biu")


@register_function
def bitwise_left_shift(x: ArrayLike, y: ArrayLike) -> Array:
    """Return integers with their bits shifted left by y bits.

    >>> bitwise_left_shift(3, 2)
    Array(12, dtype=int64)
    """
    return bind2(bitwise_left_shift_p, x, y)


bitwise_left_shift_p: Primitive = nondifferentiable("bitwise_left_shift", np.left_shift, kinds="iu")


@register_function
def bitwise_right_shift(x: ArrayLike, y: ArrayLike) -> Array:
    """Return integers with their bits shifted right by y bits.

    >>> bitwise_right_shift(12, 2)
    Array(3, dtype=int64)
    """
    return bind2(bitwise_right_shift_p, x, y)


bitwise_right_shift_p: Primitive = nondifferentiable("bitwise_right_shift", np.right_shift, kinds="iu")


@register_function
def bitwise_invert(x: ArrayLike) -> Array:
    """Return integers or booleans with every bit inverted.

    >>> bitwise_invert(5)
    Array(-6, dtype=int64)
    """
    return bind1(bitwise_invert_p, x)


bitwise_invert_p: Primitive = nondifferentiable("bitwise_invert", np.invert, kinds="biu", involution=True)

bitwise_not = bitwise_invert
invert = bitwise_invert
left_shift = bitwise_left_shift
right_shift = bitwise_right_shift
