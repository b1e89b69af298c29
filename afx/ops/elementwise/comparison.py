"""Comparison and selection: comparisons, logic and bits, `where`, and the larger, smaller and clipped values."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, overload

import numpy as np

from afx.core import Array, ArrayLike, aval_of, bind1, bind2, bind_single, bool_, refuse_out, register_function
from afx.core.primitive import Params, Primitive, Value, Values
from afx.errors import ArgumentError
from afx.ops._basic import where_p, xp
from afx.ops._kinds.elementwise import binary, elementwise, elementwise_impl, nondifferentiable
from afx.ops.creation.creation import as_array

# --- Comparisons, logic and bits: ops without derivatives


def _ordered(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda x, y: xp.where(x[0] == y[0], compare(x[1], y[1]), compare(x[0], y[0]))


def _truth(x: Any) -> Any:
    return (x[0] != 0.0) | (x[1] != 0.0)


def _comparison(
    name: str,
    ufunc: np.ufunc,
    kinds: str = "biufc",
    *,
    of_bools: Callable[[Any, Any], Any] | None = None,
    parts: Callable[[Any, Any], Any] | None = None,
) -> Primitive:
    tags: dict[str, Any] = {"formula": of_bools, "formula_kinds": "b", "parts": parts}
    return nondifferentiable(name, ufunc, kinds=kinds, result=lambda _: bool_, **tags)


def _test(
    name: str,
    ufunc: np.ufunc,
    kinds: str = "biufc",
    *,
    formula: Callable[[Any], Any] | None = None,
    parts: Callable[[Any], Any] | None = None,
    of_kinds: str = "biuf",
) -> Primitive:
    tags: dict[str, Any] = {"formula": formula, "formula_kinds": of_kinds, "parts": parts}
    return nondifferentiable(name, ufunc, kinds=kinds, result=lambda _: bool_, **tags)


@register_function
def equal(x: ArrayLike, y: ArrayLike) -> Array:
    """Tell, elementwise, whether x equals y.

    >>> equal(2.0, 2.0)
    Array(True, dtype=bool)
    """
    return bind2(equal_p, x, y)


equal_p: Primitive = _comparison("equal", np.equal, parts=lambda x, y: (x[0] == y[0]) & (x[1] == y[1]))


@register_function
def not_equal(x: ArrayLike, y: ArrayLike) -> Array:
    """Tell, elementwise, whether x differs from y.

    >>> not_equal(2.0, 2.0)
    Array(False, dtype=bool)
    """
    return bind2(not_equal_p, x, y)


not_equal_p: Primitive = _comparison("not_equal", np.not_equal, parts=lambda x, y: (x[0] != y[0]) | (x[1] != y[1]))


@register_function
def less(x: ArrayLike, y: ArrayLike) -> Array:
    """Tell, elementwise, whether x is smaller than y.

    >>> less(1.0, 2.0)
    Array(True, dtype=bool)
    """
    return bind2(less_p, x, y)


less_p: Primitive = _comparison("less", np.less, of_bools=lambda x, y: ~x & y, parts=_ordered(operator.lt))


@register_function
def less_equal(x: ArrayLike, y: ArrayLike) -> Array:
    """Tell, elementwise, whether x is smaller than or equal to y.

    >>> less_equal(1.0, 2.0)
    Array(True, dtype=bool)
    """
    return bind2(less_equal_p, x, y)


less_equal_p: Primitive = _comparison(
    "less_equal", np.less_equal, of_bools=lambda x, y: ~x | y, parts=_ordered(operator.le)
)


@register_function
def greater(x: ArrayLike, y: ArrayLike) -> Array:
    """Tell, elementwise, whether x is larger than y.

    >>> greater(1.0, 2.0)
    Array(False, dtype=bool)
    """
    return bind2(greater_p, x, y)


greater_p: Primitive = _comparison("greater", np.greater, of_bools=lambda x, y: x & ~y, parts=_ordered(operator.gt))


@register_function
def greater_equal(x: ArrayLike, y: ArrayLike) -> Array:
    """Tell, elementwise, whether x is larger than or equal to y.

    >>> greater_equal(1.0, 2.0)
    Array(False, dtype=bool)
    """
    return bind2(greater_equal_p, x, y)


greater_equal_p: Primitive = _comparison(
    "greater_equal", np.greater_equal, of_bools=lambda x, y: x | ~y, parts=_ordered(operator.ge)
)


@register_function
def logical_and(x: ArrayLike, y: ArrayLike) -> Array:
    """Tell, elementwise, whether both are true (not zero).

    >>> logical_and(True, False)
    Array(False, dtype=bool)
    """
    return bind2(logical_and_p, x, y)


logical_and_p: Primitive = _comparison("logical_and", np.logical_and, parts=lambda x, y: _truth(x) & _truth(y))


@register_function
def logical_or(x: ArrayLike, y: ArrayLike) -> Array:
    """Tell, elementwise, whether either is true (not zero).

    >>> logical_or(True, False)
    Array(True, dtype=bool)
    """
    return bind2(logical_or_p, x, y)


logical_or_p: Primitive = _comparison("logical_or", np.logical_or, parts=lambda x, y: _truth(x) | _truth(y))


@register_function
def logical_xor(x: ArrayLike, y: ArrayLike) -> Array:
    """Tell, elementwise, whether exactly one is true (not zero).

    >>> logical_xor(True, False)
    Array(True, dtype=bool)
    """
    return bind2(logical_xor_p, x, y)


logical_xor_p: Primitive = _comparison("logical_xor", np.logical_xor, parts=lambda x, y: _truth(x) ^ _truth(y))


@register_function
def logical_not(x: ArrayLike) -> Array:
    """Tell, elementwise, whether x is false (zero).

    >>> logical_not(False)
    Array(True, dtype=bool)
    """
    return bind1(logical_not_p, x)


logical_not_p: Primitive = _test("logical_not", np.logical_not, parts=lambda x: ~_truth(x))


@register_function
def isnan(x: ArrayLike) -> Array:
    """Tell, elementwise, whether x is not a number.

    >>> isnan(float('nan'))
    Array(True, dtype=bool)
    """
    return bind1(isnan_p, x)


isnan_p: Primitive = _test(
    "isnan",
    np.isnan,
    formula=lambda x: xp.not_equal(x, x),
    of_kinds="biufc",
    parts=lambda x: xp.isnan(x[0]) | xp.isnan(x[1]),
)


@register_function
def isinf(x: ArrayLike) -> Array:
    """Tell, elementwise, whether x is infinite.

    >>> isinf(float('inf'))
    Array(True, dtype=bool)
    """
    return bind1(isinf_p, x)


isinf_p: Primitive = _test(
    "isinf",
    np.isinf,
    formula=lambda x: xp.abs(x) == math.inf if x.dtype.kind == "f" else xp.not_equal(x, x),
    parts=lambda x: xp.isinf(x[0]) | xp.isinf(x[1]),
)


@register_function
def isfinite(x: ArrayLike) -> Array:
    """Tell, elementwise, whether x is neither infinite nor nan.

    >>> isfinite(1.0)
    Array(True, dtype=bool)
    """
    return bind1(isfinite_p, x)


isfinite_p: Primitive = _test(
    "isfinite",
    np.isfinite,
    formula=lambda x: xp.abs(x) < math.inf if x.dtype.kind == "f" else xp.equal(x, x),
    parts=lambda x: xp.isfinite(x[0]) & xp.isfinite(x[1]),
)


@register_function
def signbit(x: ArrayLike) -> Array:
    """Tell, elementwise, whether the sign bit of x is set, as it is for -0.0.

    >>> signbit(-0.0)
    Array(True, dtype=bool)
    """
    return bind1(signbit_p, x)


def _signbit(x: Any) -> Any:
    if x.dtype.kind == "f":
        return (x < 0) | ((x == 0) & (1 / x < 0))
    return x < 0 if x.dtype.kind == "i" else xp.not_equal(x, x)


signbit_p: Primitive = _test("signbit", np.signbit, "biuf", formula=_signbit)


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


# --- Selection: `where`, and the larger, smaller and clipped values


def _ties(x: Array, y: Array, chosen: Array) -> Array:
    """Return 1 where this operand is chosen, one half at a tie, 0 elsewhere."""
    return where(x == y, 0.5, chosen)


@register_function
def maximum(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the larger of x and y, nan where either is; at a tie each has half of the derivative.

    >>> maximum(1.0, 2.0)
    Array(2., dtype=float32)
    """
    return bind2(maximum_p, x, y)


maximum_p: Primitive = binary(
    "maximum",
    np.maximum,
    (lambda _z, x, y: _ties(x, y, x > y), lambda _z, x, y: _ties(x, y, y > x)),
    kinds="biuf",
    masks_cotangent=True,
    exact=True,
    commutative=True,
    finite_partials=True,
    formula=lambda x, y: x | y,
    formula_kinds="b",
)


@register_function
def minimum(x: ArrayLike, y: ArrayLike) -> Array:
    """Return the smaller of x and y, nan where either is; at a tie each has half of the derivative.

    >>> minimum(1.0, 2.0)
    Array(1., dtype=float32)
    """
    return bind2(minimum_p, x, y)


minimum_p: Primitive = binary(
    "minimum",
    np.minimum,
    (lambda _z, x, y: _ties(x, y, x < y), lambda _z, x, y: _ties(x, y, y < x)),
    kinds="biuf",
    masks_cotangent=True,
    exact=True,
    commutative=True,
    finite_partials=True,
    formula=lambda x, y: x & y,
    formula_kinds="b",
)


@register_function
def clip(
    x: ArrayLike,
    min: ArrayLike | None = None,
    max: ArrayLike | None = None,
    out: None = None,
    *,
    a_min: ArrayLike | None = None,
    a_max: ArrayLike | None = None,
) -> Array:
    """Return x limited to the interval from ``min`` to ``max``, which NumPy also calls ``a_min`` and ``a_max``.

    The derivative by x is 1 inside and on the bounds, 0 outside; a bound has the derivative where it is in force.

    Raises:
        ArgumentError: a bound is given by both of its names.

    >>> clip(np.array([-1.0, 0.5, 3.0]), 0.0, 1.0)
    Array([0. , 0.5, 1. ], dtype=float64)
    """
    if out is not None:
        refuse_out(out, "clip")
    if a_min is not None or a_max is not None:
        if (a_min is not None and min is not None) or (a_max is not None and max is not None):
            raise ArgumentError(
                "clip: a bound is given twice: got min and a_min, or max and a_max; give it by one of its names"
            )
        return clip(x, a_min if min is None else min, a_max if max is None else max)
    lower = -np.inf if min is None else min
    upper = np.inf if max is None else max
    if min is None and max is None:
        return x if isinstance(x, Array) else as_array(x)
    if (min is None or max is None) and aval_of(x, "clip").dtype.kind in "biu":
        return minimum(x, upper) if min is None else maximum(x, lower)
    return bind_single(clip_p, x, lower, upper)


def _inside(_z: Array, x: Array, lower: Array, upper: Array) -> Array:
    return (x >= lower) & (x <= upper)


def _at_upper(_z: Array, x: Array, lower: Array, upper: Array) -> Array:
    return (upper < lower) | (x > upper)


def _clipped(xs: Values, params: Params) -> Value:
    x, lower, upper = xs
    return minimum(upper, maximum(x, lower))


_clip_any = elementwise_impl("clip", np.clip, floating=False, arity=3, kinds="biuf")


def _clip_run(x: Any, lower: Any, upper: Any) -> Any:
    if x.__class__ is np.ndarray and x.dtype.kind == "f" and lower.__class__ is upper.__class__ is float:
        return x.clip(lower, upper)  # the commonest case, without looking for the dtype
    return _clip_any(x, lower, upper)


def _at_lower(_z: Array, x: Array, lower: Array, upper: Array) -> Array:
    return (x < lower) & (lower <= upper)


clip_p: Primitive = elementwise(
    "clip",
    np.clip,
    (_inside, _at_lower, _at_upper),
    impl=_clip_run,
    kinds="biuf",
    masks_cotangent=True,
    exact=True,
    finite_partials=True,
    decompose=_clipped,
    opaque=True,
)


@overload
def where(condition: ArrayLike, x: ArrayLike, y: ArrayLike) -> Array: ...
@overload
def where(condition: ArrayLike) -> tuple[Array, ...]: ...
@register_function
def where(condition: ArrayLike, x: ArrayLike | None = None, y: ArrayLike | None = None) -> Array | tuple[Array, ...]:
    """Return x where the condition holds, y elsewhere; without both, where it holds: `nonzero`.

    What was not chosen has the derivative 0 even where the formula behind it is infinite or nan:
    ``where(x > 0, sqrt(x), 0)`` needs no second ``where``.

    Args:
        condition: bool, or numbers of which zero is false.
        x: chosen where it holds.
        y: chosen elsewhere.

    Raises:
        ArgumentError: one of x and y alone.

    >>> where(True, 1.0, 2.0)
    Array(1., dtype=float32)
    """
    if x is None or y is None:
        return _where_true(condition, x, y)
    if getattr(condition, "dtype", None) is not bool_ and aval_of(condition, "where").dtype != bool_:
        condition = not_equal(condition, 0)
    return bind_single(where_p, condition, x, y)


def _where_true(condition: ArrayLike, x: ArrayLike | None, y: ArrayLike | None) -> tuple[Array, ...]:
    if x is not None or y is not None:
        raise ArgumentError("where: takes both x and y, or neither: got one of them; give the other")
    return as_array(condition).nonzero()
